//! `cargo xtask examples`: builds every example and runs each to its end.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::failure::{Failure, Outcome};
use crate::options::Options;
use crate::process::{self, Verdict};
use crate::workspace;

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
    let mut names = Vec::new();
    for manifest in MANIFESTS {
        let text = fs::read_to_string(workspace::root().join(manifest))
            .map_err(|error| Failure::new(format!("cannot read {manifest}: {error}")))?;
        names.extend(declared(&text));
    }
    let status = process::cargo(["build", "--workspace", "--examples"]).status();
    if !status.is_ok_and(|status| status.success()) {
        return Err(Failure::new("the examples do not build"));
    }
    for name in &names {
        run_one(name, &workspace::target_dir("debug"))?;
    }
    println!("{} examples ran", names.len());
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

/// The names of the `[[example]]` tables.
fn declared(manifest: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut in_example = false;
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            in_example = line == "[[example]]";
        } else if in_example
            && let Some((key, value)) = line.split_once('=')
            && key.trim() == "name"
        {
            names.push(value.trim().trim_matches('"').to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_declared_examples_only() {
        let manifest = "[package]\nname = \"x\"\n\n[[example]]\nname = \"hello\"\npath = \"hello.rs\"\n[[example]]\n\
                        path = \"b.rs\"\nname=\"b\"\n[lib]\nname = \"c\"\n";
        assert_eq!(declared(manifest), ["hello", "b"]);
    }

    #[test]
    fn this_workspace_declares_some() {
        for manifest in MANIFESTS {
            let text = fs::read_to_string(workspace::root().join(manifest)).expect("there is one");
            assert!(!declared(&text).is_empty(), "{manifest}");
        }
    }
}
