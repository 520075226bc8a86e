//! Words that do not belong into a file: reminders without an issue, paths of one machine.

use super::finding::Finding;
use super::source::Source;

/// Split so that this file passes its own check.
const REMINDERS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];
const MACHINE_PATHS: [&str; 3] = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/Use", "rs/")];

/// Checks a file that is not Rust: all of its text.
pub(super) fn check_text(path: &str, text: &str) -> Vec<Finding> {
    let lines = text.lines().enumerate();
    lines
        .flat_map(|(index, line)| check_line(path, index + 1, line, line))
        .collect()
}

/// Checks a Rust file: reminders in its comments, paths everywhere.
pub(super) fn check_rust(path: &str, text: &str, source: &Source) -> Vec<Finding> {
    let lines = text.lines().zip(&source.lines).enumerate();
    lines
        .flat_map(|(index, (line, scanned))| check_line(path, index + 1, &scanned.comment, line))
        .collect()
}

fn check_line(path: &str, number: usize, prose: &str, whole: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let prose = without_code_spans(prose);
    for word in REMINDERS {
        for (start, _) in prose.match_indices(word) {
            if !has_issue(&prose[start + word.len()..]) {
                found.push(Finding::new(
                    path,
                    number,
                    format!("{word} without an issue: write `{word}(#12)`"),
                ));
            }
        }
    }
    for word in MACHINE_PATHS {
        let starts_path = |start: usize| !whole[..start].ends_with(|c: char| c.is_alphanumeric() || "-_.".contains(c));
        if whole.match_indices(word).any(|(start, _)| starts_path(start)) {
            found.push(Finding::new(
                path,
                number,
                format!("`{word}` exists on one machine only"),
            ));
        }
    }
    found
}

fn has_issue(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix("(#") else {
        return false;
    };
    rest.split_once(')')
        .is_some_and(|(number, _)| number.parse::<u32>().is_ok())
}

/// Text in backticks speaks about a word instead of using it.
fn without_code_spans(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::super::finding::check_findings;
    use super::*;

    fn check_comment(word: &str, rest: &str, expected: &[(usize, &str)]) {
        let text = format!("fn f() {{}}\n// {word}{rest}\n");
        check_findings(&check_rust("a.rs", &text, &Source::scan(&text)), expected);
    }

    #[test]
    fn a_reminder_needs_an_issue() {
        for word in REMINDERS {
            check_comment(word, ": later", &[(2, "without an issue")]);
            check_comment(word, "(soon): later", &[(2, "without an issue")]);
            check_comment(word, "(#12): later", &[]);
            check_comment("", &format!("about `{word}`"), &[]);
        }
    }

    #[test]
    fn machine_paths_are_refused_in_text_and_code() {
        for word in MACHINE_PATHS {
            let code = format!("let a = \"{word}x\";\n");
            check_findings(&check_rust("a.rs", &code, &Source::scan(&code)), &[(1, "one machine")]);
            check_findings(&check_text("a.md", &format!("see {word}x\n")), &[(1, "one machine")]);
            check_findings(&check_text("a.md", &format!("https://example.org{word}x\n")), &[]);
        }
    }
}
