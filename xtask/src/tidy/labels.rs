//! Labels pair the two sides of a protocol: a comment cites `W1 (B)`, and a README or a type declares it.
//!
//! A *theorem* is a capital letter or two and a number, perhaps with a small letter (`W1`, `W1s`, `Q2`); a *step* is a
//! theorem and one letter in parentheses, written `W1 (B)` or `(W1 b)`.
//!
//! Declared is a theorem that a heading, a table row or a list item begins with, that bold text in a README has in it,
//! or that documentation (`///`, `//!`) mentions; and a step that a README or documentation writes out. In a README a
//! step may also stand alone: `(B)` in a theorem's section is that theorem's, elsewhere every theorem's of the page.
//! Cited is what other comments mention. Of the bare names only `W` and `Q` count, because `L1` and `x86` are not
//! theorems.
//!
//! A file *owns* a name by a heading of its README, `## W1: no lost wake-up`, or by a comment, `# Theorem C` or
//! `Label Woken: ...`. A name has one owner: of two, who reads a citation could not tell which one is meant.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use super::source::Source;

/// A theorem, or one step of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Label {
    theorem: String,
    step: Option<char>,
}

impl Label {
    fn step(theorem: &str, step: char) -> Self {
        Self {
            theorem: theorem.to_owned(),
            step: Some(step),
        }
    }
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.step {
            Some(step) => write!(f, "{} ({step})", self.theorem),
            None => f.write_str(&self.theorem),
        }
    }
}

/// Adds what a README declares.
pub(super) fn declared_by_readme(text: &str, declared: &mut BTreeSet<Label>) {
    let mut theorems = BTreeSet::new();
    let mut shared_steps = BTreeSet::new();
    let mut current: Option<String> = None;
    for line in text.lines() {
        declared.extend(find(line).into_iter().filter(|label| label.step.is_some()));
        theorems.extend(bold_texts(line).flat_map(find).map(|label| label.theorem));
        let begun = begun_theorem(line);
        if begun.is_some() || line.starts_with('#') {
            current = begun;
        }
        theorems.extend(current.clone());
        match &current {
            Some(theorem) => declared.extend(lone_steps(line).map(|step| Label::step(theorem, step))),
            None => shared_steps.extend(lone_steps(line)),
        }
    }
    for theorem in theorems {
        declared.extend(shared_steps.iter().map(|step| Label::step(&theorem, *step)));
        declared.insert(Label { theorem, step: None });
    }
}

/// Adds what the documentation in a Rust file declares.
pub(super) fn declared_by_docs(source: &Source, declared: &mut BTreeSet<Label>) {
    for line in &source.lines {
        for label in line.doc().into_iter().flat_map(find) {
            declared.insert(Label {
                theorem: label.theorem.clone(),
                step: None,
            });
            declared.insert(label);
        }
    }
}

/// The names that a README owns, and their lines.
pub(super) fn owned_by_readme(text: &str) -> Vec<(usize, String)> {
    let name = |line: &str| {
        let (name, rest) = name_at(line.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' ')?)?;
        rest.starts_with(':').then(|| name.to_owned())
    };
    numbered(text.lines(), name)
}

/// The names that the comments of a Rust file own, and their lines.
pub(super) fn owned_by_comments(source: &Source) -> Vec<(usize, String)> {
    numbered(source.lines.iter(), |line| {
        let text = line.doc().or_else(|| line.remark())?;
        let begun = match text.strip_prefix("# Theorem ") {
            Some(rest) => rest,
            None => text.split_once("Label ")?.1,
        };
        name_at(begun).map(|(name, _)| name.to_owned())
    })
}

/// Checks that no name is owned by two files: `owned` has path, line and name of each declaration.
pub(super) fn check_owners<'a>(owned: impl IntoIterator<Item = (&'a str, usize, String)>) -> Vec<Finding> {
    let mut owners = BTreeMap::new();
    let mut found = Vec::new();
    for (path, line, name) in owned {
        match owners.get(&name) {
            Some(owner) if *owner == path => {}
            Some(owner) => found.push(Finding::new(
                path,
                line,
                format!("`{name}` is declared by {owner} as well"),
            )),
            None => _ = owners.insert(name, path),
        }
    }
    found
}

/// What `name` finds in each of `lines`, with its number.
fn numbered<T>(lines: impl Iterator<Item = T>, name: impl Fn(T) -> Option<String>) -> Vec<(usize, String)> {
    lines
        .enumerate()
        .filter_map(|(index, line)| Some((index + 1, name(line)?)))
        .collect()
}

/// Splits a name, which begins with a capital letter, off the start of `text`.
fn name_at(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
    text.starts_with(|c: char| c.is_ascii_uppercase())
        .then(|| text.split_at(end))
}

/// Checks the labels that the comments of one file cite.
pub(super) fn check(path: &str, source: &Source, declared: &BTreeSet<Label>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, line) in source.lines.iter().enumerate() {
        for label in line.remark().into_iter().flat_map(find) {
            if !declared.contains(&label) {
                found.push(Finding::new(
                    path,
                    index + 1,
                    format!("label `{label}` is declared by no README or type"),
                ));
            }
        }
    }
    found
}

/// The theorem that a heading, a list item, a table row or a bold text at the start of `line` is about.
fn begun_theorem(line: &str) -> Option<String> {
    let line = line.trim_start();
    if !line.starts_with(['#', '|']) && !line.trim_start_matches(['-', ' ']).starts_with("**") {
        return None;
    }
    theorem_at(line.trim_start_matches(['#', '|', '-', '*', ' ', '`'])).map(|(theorem, _)| theorem.to_owned())
}

/// What stands between pairs of `**`.
fn bold_texts(line: &str) -> impl Iterator<Item = &str> {
    line.split("**").skip(1).step_by(2)
}

/// Every label in `text`, in order.
fn find(text: &str) -> Vec<Label> {
    let mut labels = Vec::new();
    let mut previous = None;
    for (start, c) in text.char_indices() {
        let begins_word = !previous.is_some_and(|p: char| p.is_alphanumeric() || p == '_');
        previous = Some(c);
        if !begins_word {
            continue;
        }
        let Some((theorem, rest)) = theorem_at(&text[start..]) else {
            continue;
        };
        let opened = text[..start].ends_with('(');
        let step = step_after(rest).or_else(|| if opened { step_inside(rest) } else { None });
        if step.is_some() || theorem.starts_with(['W', 'Q']) {
            labels.push(Label {
                theorem: theorem.to_owned(),
                step,
            });
        }
    }
    labels
}

/// Splits a theorem's name off the start of `text`.
fn theorem_at(text: &str) -> Option<(&str, &str)> {
    let letters = text.chars().take_while(char::is_ascii_uppercase).count();
    let digits = text.chars().skip(letters).take_while(char::is_ascii_digit).count();
    if !(1..=2).contains(&letters) || !(1..=2).contains(&digits) {
        return None;
    }
    let name_end = letters + digits;
    let has_variant = text[name_end..].starts_with(|c: char| c.is_ascii_lowercase());
    let (name, rest) = text.split_at(name_end + usize::from(has_variant));
    (!rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')).then_some((name, rest))
}

/// The letter in ` (B)`.
fn step_after(rest: &str) -> Option<char> {
    let mut chars = rest.trim_start().strip_prefix('(')?.chars();
    let step = chars.next().filter(char::is_ascii_alphabetic)?;
    (chars.next() == Some(')')).then_some(step)
}

/// The letter in ` b)`, or in ` b;` and the like, after `(W1`.
fn step_inside(rest: &str) -> Option<char> {
    let mut chars = rest.strip_prefix(' ')?.chars();
    let step = chars.next().filter(char::is_ascii_alphabetic)?;
    matches!(chars.next(), Some(')' | ',' | ';')).then_some(step)
}

/// The letters that stand alone in parentheses.
fn lone_steps(line: &str) -> impl Iterator<Item = char> {
    line.match_indices('(')
        .filter_map(|(start, _)| step_after(&line[start..]))
}

#[cfg(test)]
mod tests {
    use super::super::finding::check_findings;
    use super::*;

    const README: &str = "# Protocol\nSee Q1 below; publish is (p).\n## W1: no lost wake-up\n1. fence **(A)**\n2. fence (B)\n\
                          - **W1s, shared**: step (b)\n| Q1 | `q1` |\n## Rest\n**Skipping (W4s).** Step (r).\n";

    fn check_labels(text: &str, expected: &[(usize, &str)]) {
        let source = Source::scan(text);
        let mut declared = BTreeSet::new();
        declared_by_readme(README, &mut declared);
        declared_by_docs(&source, &mut declared);
        check_findings(&check("a.rs", &source, &declared), expected);
    }

    #[test]
    fn declared_labels_pass_in_both_forms() {
        check_labels(
            "// Ordering: SeqCst, W1 (A); pairs with (W1 B).\n// SAFETY: Q1 and W1s (b).\n",
            &[],
        );
        check_labels(
            "/// The word; see (V2 a).\nstruct A;\n// Ordering: Release (V2 a).\n",
            &[],
        );
    }

    #[test]
    fn undeclared_labels_fail() {
        check_labels("// Ordering: W1 (C).\n", &[(1, "`W1 (C)`")]);
        check_labels("\n// Q2: only push links.\n", &[(2, "`Q2`")]);
        check_labels("f(); // Ordering: (W3 a)\n", &[(1, "`W3 (a)`")]);
    }

    #[test]
    fn a_step_belongs_to_the_theorem_above_it() {
        check_labels("// Ordering: W1s (A).\n", &[(1, "`W1s (A)`")]);
        check_labels("// Ordering: W1 (b).\n", &[(1, "`W1 (b)`")]);
    }

    #[test]
    fn a_step_outside_of_all_theorems_is_everyones() {
        check_labels("// Ordering: W1 (p), (W1s r), W4s (p).\n", &[]);
        check_labels("// Ordering: W5 (p).\n", &[(1, "`W5 (p)`")]);
    }

    fn check_owned(files: &[(&str, &str)], expected: &[(usize, &str)]) {
        let owned = files.iter().flat_map(|&(path, text)| {
            let names = if path.ends_with(".md") {
                owned_by_readme(text)
            } else {
                owned_by_comments(&Source::scan(text))
            };
            names.into_iter().map(move |(line, name)| (path, line, name))
        });
        check_findings(&check_owners(owned), expected);
    }

    #[test]
    fn a_name_that_two_files_declare_fails() {
        let readme = ("README.md", "## Tests\n## C: the cell\n");
        check_owned(
            &[readme, ("a.rs", "\n//! # Theorem C\n")],
            &[(2, "`C` is declared by README.md")],
        );
        check_owned(&[readme, ("a.rs", "// # Theorem C: why\n")], &[(1, "`C`")]);
        let other = ("b.rs", "    /// Label Woken: a pair.\n");
        check_owned(&[("a.rs", "/// That is it. Label Woken.\n"), other], &[(1, "by a.rs")]);
        check_owned(
            &[("a.rs", "/// # Theorem N1\n"), ("b.rs", "/// Label N: not that.\n")],
            &[],
        );
    }

    #[test]
    fn a_file_may_declare_and_cite_its_own_name() {
        let text = "//! # Theorem Lock: one\n/// Label Lock: the word.\n// The Label of a cell.\n";
        check_owned(&[("a.rs", text)], &[]);
        check_owned(
            &[
                ("a.rs", text),
                ("b.rs", "/// See Theorem Lock (theorem C); Labels M a.\n"),
            ],
            &[],
        );
    }

    #[test]
    fn other_words_are_no_labels() {
        check_labels(
            "// Shares the L2 (if any), as the L1 does; x86 and W1ndow; Q (a).\n",
            &[],
        );
        check_labels("let a = \"W9\"; /// W9 in documentation declares.\n", &[]);
    }
}
