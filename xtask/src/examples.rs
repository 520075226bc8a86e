//! `cargo xtask examples`: builds every example and runs each to its end.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::failure::{Failure, Outcome};
use crate::options::Options;
use crate::process::{self, Verdict};
use crate::workspace::{self, TextFile};

/// An example that runs longer than this in a debug build is no example.
const LIMIT: Duration = Duration::from_secs(60);

/// What declares examples.
const MANIFESTS: [&str; 2] = ["examples/Cargo.toml", "examples/beside_tokio/Cargo.toml"];

/// Runs the programs that the manifests declare, in the order in which they do.
///
/// The whole workspace's examples are built, with the flags of `cargo test --workspace`, so that the two share what
/// they compile.
pub(crate) fn run(options: &Options) -> Outcome {
    options.finish()?;
    let examples = all_declared()?;
    let files = workspace::text_files(&workspace::root())?;
    if let Some(path) = never_built(&files, &examples) {
        return Err(Failure::new(format!(
            "{path} is declared in none of {MANIFESTS:?}, and so never built"
        )));
    }
    let status = process::cargo(["build", "--workspace", "--examples"]).status();
    if !status.is_ok_and(|status| status.success()) {
        return Err(Failure::new("the examples do not build"));
    }
    for example in &examples {
        run_one(&example.name, &workspace::target_dir("debug"))?;
    }
    println!("{} examples ran", examples.len());
    Ok(())
}

fn run_one(name: &str, build: &Path) -> Outcome {
    let log = build.join(format!("{name}.log"));
    let start = Instant::now();
    let mut command = Command::new(build.join("examples").join(name));
    let verdict = process::run_limited(command.current_dir(workspace::root()), &log, LIMIT)?;
    let seconds = start.elapsed().as_secs_f64();
    if verdict == Verdict::Passed {
        println!("example {name}: ok ({seconds:.1} s)");
        return Ok(());
    }
    let output = fs::read(&log).unwrap_or_default();
    Err(Failure::new(format!(
        "example {name}: {verdict:?} after {seconds:.1} s\n{}",
        String::from_utf8_lossy(&output)
    )))
}

/// An `[[example]]` table.
#[derive(Debug, Default, PartialEq, Eq)]
struct Example {
    name: String,
    /// Relative to the folder of its manifest.
    path: String,
}

/// What all manifests declare, with paths relative to the root.
fn all_declared() -> Outcome<Vec<Example>> {
    let mut examples = Vec::new();
    for manifest in MANIFESTS {
        let text = fs::read_to_string(workspace::root().join(manifest))
            .map_err(|error| Failure::new(format!("cannot read {manifest}: {error}")))?;
        let folder = manifest.trim_end_matches("Cargo.toml");
        examples.extend(declared(&text).into_iter().map(|example| Example {
            path: format!("{folder}{}", example.path),
            ..example
        }));
    }
    Ok(examples)
}

/// The `[[example]]` tables.
fn declared(manifest: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut in_example = false;
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            in_example = line == "[[example]]";
            if in_example {
                examples.push(Example::default());
            }
        } else if in_example
            && let Some((key, value)) = line.split_once('=')
            && let Some(example) = examples.last_mut()
        {
            let value = value.trim().trim_matches('"').to_owned();
            match key.trim() {
                "name" => example.name = value,
                "path" => example.path = value,
                _ => {}
            }
        }
    }
    examples
}

/// The first program among the examples that is none of these: cargo looks for none where these are.
fn never_built<'a>(files: &'a [TextFile], examples: &[Example]) -> Option<&'a str> {
    let is_program = |file: &&TextFile| {
        let mut lines = file.text.lines();
        lines.any(|line| line.starts_with("fn main(") || line.starts_with("async fn main("))
    };
    files
        .iter()
        .filter(|file| file.path.starts_with("examples/") && file.path.ends_with(".rs"))
        .filter(is_program)
        .map(|file| file.path.as_str())
        .find(|path| examples.iter().all(|example| example.path != *path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_declared_examples_only() {
        let manifest = "[package]\nname = \"x\"\n\n[[example]]\nname = \"hello\"\npath = \"hello.rs\"\n[[example]]\n\
                        path = \"b.rs\"\nname=\"b\"\n[lib]\nname = \"c\"\n";
        let example = |name: &str, path: &str| Example {
            name: name.to_owned(),
            path: path.to_owned(),
        };
        assert_eq!(declared(manifest), [example("hello", "hello.rs"), example("b", "b.rs")]);
    }

    #[test]
    fn a_program_that_nobody_declares_is_never_built() {
        let of_main = |path: &str, main: &str| TextFile {
            path: path.to_owned(),
            text: format!("//! One.\n\n{main}() {{}}\n"),
        };
        let declared = Example {
            name: "a".to_owned(),
            path: "examples/a.rs".to_owned(),
        };
        let check = |path: &str, main: &str, expected: Option<&str>| {
            let files = [of_main("examples/a.rs", "fn main"), of_main(path, main)];
            assert_eq!(never_built(&files, std::slice::from_ref(&declared)), expected);
        };
        check("examples/b.rs", "fn main", Some("examples/b.rs"));
        check("examples/c/b.rs", "async fn main", Some("examples/c/b.rs"));
        check("examples/b.rs", "fn mainly", None);
        check("xtask/src/main.rs", "fn main", None);
    }

    #[test]
    fn this_workspace_builds_all_of_its_examples() {
        let files = workspace::text_files(&workspace::root()).expect("the workspace is readable");
        assert_eq!(never_built(&files, &all_declared().expect("readable")), None);
    }

    #[test]
    fn this_workspace_declares_some() {
        for manifest in MANIFESTS {
            let text = fs::read_to_string(workspace::root().join(manifest)).expect("there is one");
            assert!(!declared(&text).is_empty(), "{manifest}");
        }
    }
}
