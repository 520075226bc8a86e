//! `cargo xtask tidy`: what reviewers rely on and the compiler does not check.
//!
//! Each check is a pure function over a path and a text, in a module of its own with an example that fails; this module
//! reads the files and asks. The check also runs as a test of this package, so `cargo test` covers it.
//!
//! Findings fail, notes do not.

mod finding;
mod labels;
mod links;
mod manifest;
mod models;
mod orderings;
mod places;
mod size;
mod source;
mod theorems;
mod width;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use crate::failure::{Failure, Outcome};
use crate::mutate::{self, Mutation};
use crate::options::Options;
use crate::workspace::{self, TextFile};
use finding::Finding;
use source::Source;

const RUNTIME_SOURCE: &str = "crates/runtime/src/";
/// Tests that mutations may name beside the models.
const SOAK: &str = "crates/runtime/tests/stress.rs";

/// Prints notes and findings; fails if there is a finding.
pub(crate) fn run(options: &Options) -> Outcome {
    options.finish()?;
    let report = Report::of(&workspace::text_files(&workspace::root())?);
    for note in &report.notes {
        println!("note: {note}");
    }
    for (module, count) in &report.unsafe_counts {
        println!("note: {module}: {count} unsafe");
    }
    for finding in &report.findings {
        println!("{finding}");
    }
    match report.findings.len() {
        0 => {
            println!("tidy: nothing to complain about in {} files", report.files);
            Ok(())
        }
        count => Err(Failure::new(format!("tidy: {count} findings"))),
    }
}

/// Everything the checks have to say about a set of files.
#[derive(Debug, Default)]
struct Report {
    findings: Vec<Finding>,
    notes: Vec<Finding>,
    unsafe_counts: BTreeMap<String, usize>,
    files: usize,
}

impl Report {
    fn of(files: &[TextFile]) -> Self {
        let mut report = Self {
            files: files.len(),
            ..Self::default()
        };
        let rust = scan_all(files);
        let declared = declared_labels(files, &rust);
        for (file, source) in &rust {
            report.check_rust(file, source, &declared);
        }
        for file in files {
            report.check_text(file, files);
        }
        report.findings.extend(labels::check_owners(owned_labels(files, &rust)));
        report.check_mutations(files, &rust);
        report.findings.sort();
        report
    }

    fn check_rust(&mut self, file: &TextFile, source: &Source, declared: &BTreeSet<labels::Label>) {
        let path = file.path.as_str();
        self.findings.extend(places::check(path, source));
        self.findings.extend(words::check_rust(path, &file.text, source));
        self.findings.extend(width::check(path, &file.text));
        if path.starts_with(RUNTIME_SOURCE) {
            self.findings.extend(orderings::check(path, source));
            self.findings.extend(labels::check(path, source, declared));
        }
        self.notes.extend(size::notes(path, source));
        size::count_unsafe(path, source, &mut self.unsafe_counts);
    }

    fn check_text(&mut self, file: &TextFile, files: &[TextFile]) {
        let path = file.path.as_str();
        if !path.ends_with(".rs") {
            self.findings.extend(words::check_text(path, &file.text));
        }
        if path.ends_with("Cargo.toml") {
            self.findings.extend(manifest::check(path, &file.text));
        }
        if path.ends_with(".md") {
            let exists = |target: &str| {
                let is_file = files.iter().any(|file| file.path == target);
                is_file || workspace::root().join(target).exists()
            };
            self.findings.extend(links::check(path, &file.text, exists));
        }
    }

    fn check_mutations(&mut self, files: &[TextFile], rust: &[(&TextFile, Source)]) {
        let mut mutations = Vec::new();
        for file in files
            .iter()
            .filter(|file| file.path.starts_with(mutate::FOLDER) && file.path.ends_with(".mut"))
        {
            match Mutation::parse(mutate::name_of(&file.path), &file.text) {
                Ok(mutation) => mutations.push(mutation),
                Err(message) => self.findings.push(Finding::new(&file.path, 0, message)),
            }
        }
        for mutation in &mutations {
            let read = |path: &str| {
                files
                    .iter()
                    .find(|file| file.path == path)
                    .map(|file| file.text.clone())
            };
            if let Err(message) = mutation.apply(read) {
                self.findings.push(Finding::new(&mutation.path(), 0, message));
            }
        }
        let models: Vec<models::Model> = rust
            .iter()
            .filter(|(file, _)| file.path.starts_with(RUNTIME_SOURCE))
            .flat_map(|(file, source)| models::of(&file.path, source))
            .collect();
        self.findings.extend(models::check(&models, &mutations));
        let has_scheduler = files
            .iter()
            .any(|file| file.path.starts_with("crates/runtime/src/sched/"));
        match files.iter().find(|file| file.path == theorems::README) {
            Some(readme) => self
                .findings
                .extend(theorems::check(&readme.text, &test_functions(rust), &mutations)),
            None if has_scheduler => {
                self.findings
                    .push(Finding::new(theorems::README, 0, "the scheduler has no README"))
            }
            None => {}
        }
    }
}

/// Scans every Rust file and marks as test code what a test-only `mod name;` or a folder of tests brings in.
fn scan_all(files: &[TextFile]) -> Vec<(&TextFile, Source)> {
    let rust = files.iter().filter(|file| file.path.ends_with(".rs"));
    let mut sources: Vec<(&TextFile, Source)> = rust.map(|file| (file, Source::scan(&file.text))).collect();
    let mut test_places = Vec::new();
    for (file, source) in &sources {
        test_places.extend(
            source
                .test_modules
                .iter()
                .map(|module| module_place(&file.path, module)),
        );
    }
    for (file, source) in &mut sources {
        let in_tests = file.path.split('/').any(|part| part == "tests" || part == "benches");
        let declared = test_places.iter().any(|place| {
            let rest = file.path.strip_prefix(place.as_str());
            rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        });
        if in_tests || declared {
            source.mark_all_as_test();
        }
    }
    sources
}

/// Where the file of `mod module;` in `path` is, without `.rs` or `/mod.rs`.
fn module_place(path: &str, module: &str) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.trim_end_matches(".rs");
    let parent = if ["lib", "main", "mod"].contains(&stem) {
        folder.to_owned()
    } else {
        format!("{folder}/{stem}")
    };
    format!("{parent}/{module}")
}

fn declared_labels(files: &[TextFile], rust: &[(&TextFile, Source)]) -> BTreeSet<labels::Label> {
    let mut declared = BTreeSet::new();
    for file in runtime_readmes(files) {
        labels::declared_by_readme(&file.text, &mut declared);
    }
    for (_, source) in rust.iter().filter(|(file, _)| file.path.starts_with(RUNTIME_SOURCE)) {
        labels::declared_by_docs(source, &mut declared);
    }
    declared
}

/// Path, line and name of whatever the runtime's READMEs and comments declare as their own.
fn owned_labels<'a>(files: &'a [TextFile], rust: &'a [(&TextFile, Source)]) -> Vec<(&'a str, usize, String)> {
    let readmes = runtime_readmes(files).map(|file| (&file.path, labels::owned_by_readme(&file.text)));
    let sources = rust.iter().filter(|(file, _)| file.path.starts_with(RUNTIME_SOURCE));
    let comments = sources.map(|(file, source)| (&file.path, labels::owned_by_comments(source)));
    let names = |(path, names): (&'a String, Vec<(usize, String)>)| {
        names.into_iter().map(move |(line, name)| (path.as_str(), line, name))
    };
    readmes.chain(comments).flat_map(names).collect()
}

fn runtime_readmes(files: &[TextFile]) -> impl Iterator<Item = &TextFile> {
    files
        .iter()
        .filter(|file| file.path.ends_with("README.md") && file.path.starts_with(RUNTIME_SOURCE))
}

/// The names of the functions in test code of the runtime, and of the soak.
fn test_functions(rust: &[(&TextFile, Source)]) -> Vec<String> {
    let sources = rust
        .iter()
        .filter(|(file, _)| file.path.starts_with(RUNTIME_SOURCE) || file.path == SOAK);
    let lines = sources
        .flat_map(|(_, source)| &source.lines)
        .filter(|line| line.is_test);
    let names = lines.filter_map(|line| line.code.trim().strip_prefix("fn ")?.split(['(', '<']).next());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        let files = workspace::text_files(&workspace::root()).expect("the workspace is readable");
        let report = Report::of(&files);
        let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }

    fn report(files: &[(&str, &str)]) -> Vec<String> {
        let to_file = |(path, text): &(&str, &str)| TextFile {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        let files: Vec<TextFile> = files.iter().map(to_file).collect();
        Report::of(&files).findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn files_of_test_only_modules_are_test_code() {
        let atomic = "use std::sync::atomic::fence;\n";
        let parent = "#[cfg(all(test, quadrille_loom))]\nmod loom;\n";
        let toy = [
            ("crates/runtime/src/a/mod.rs", parent),
            ("crates/runtime/src/a/loom.rs", atomic),
        ];
        assert_eq!(report(&toy), [""; 0]);
        let toy = [
            ("crates/runtime/src/a.rs", parent),
            ("crates/runtime/src/a/loom/b.rs", atomic),
        ];
        assert_eq!(report(&toy), [""; 0]);
        let toy = [
            ("crates/runtime/src/a.rs", "mod loom;\n"),
            ("crates/runtime/src/a/loom.rs", atomic),
        ];
        assert_eq!(report(&toy).len(), 1);
    }

    #[test]
    fn a_mutation_that_no_longer_applies_is_found() {
        let readme = "| theorem | loom test |\n|---|---|\n| W1 | `w1` |\n";
        let code = "fn f() {\n    fence();\n}\n#[cfg(test)]\nmod loom {\n    #[test]\n    fn w1() {}\n}\n";
        let text = |find: &str| {
            let path = "crates/runtime/src/sched/a.rs";
            format!("theorem: W1\ntest: w1\nwhy: x\n--- find {path}\n{find}\n--- replace\n--- end\n")
        };
        let toy = |mutation: &str| {
            report(&[
                (theorems::README, readme),
                ("crates/runtime/src/sched/a.rs", code),
                ("mutations/m.mut", mutation),
            ])
        };
        assert_eq!(toy(&text("    fence();")), [""; 0]);
        let found = toy(&text("    gone();"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("mutations/m.mut: ") && found[0].contains("not found"),
            "{found:?}"
        );
        let found = toy("theorem: W1\n");
        assert!(
            found.iter().any(|line| line.starts_with("mutations/m.mut: ")),
            "{found:?}"
        );
    }

    #[test]
    fn a_scheduler_without_its_readme_is_found() {
        assert_eq!(report(&[("crates/runtime/src/sched/mod.rs", "")]).len(), 1);
        assert_eq!(report(&[("crates/runtime/src/lib.rs", "")]).len(), 0);
    }
}
