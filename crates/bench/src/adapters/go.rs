//! Go: a program with the same workloads, built when it is first asked for.
//!
//! Its source is part of this binary, so the command works from wherever it is installed. It is built into a directory
//! beside the executable (in a checkout: the target directory), named after the source and the version of Go, and
//! reused as long as both stay the same. Nothing is downloaded: the program has no dependencies, and Go is told to stay
//! with the toolchain that is installed.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::outcome::Stop;

/// The Go 1 that go.mod asks for.
const MINOR_MIN: u32 = 23;

/// The files of the Go program.
const SOURCE: [(&str, &str); 13] = [
    ("go.mod", include_str!("../../go/go.mod")),
    ("main.go", include_str!("../../go/main.go")),
    ("hackbench.go", include_str!("../../go/hackbench.go")),
    ("tasks.go", include_str!("../../go/tasks.go")),
    ("threads.go", include_str!("../../go/threads.go")),
    ("fairness.go", include_str!("../../go/fairness.go")),
    ("latency.go", include_str!("../../go/latency.go")),
    ("memory.go", include_str!("../../go/memory.go")),
    ("parent_death.go", include_str!("../../go/parent_death.go")),
    ("process.go", include_str!("../../go/process.go")),
    ("requests.go", include_str!("../../go/requests.go")),
    ("serve.go", include_str!("../../go/serve.go")),
    ("waits.go", include_str!("../../go/waits.go")),
];

/// Returns the path of the Go program, built below `directory` if it is not there.
///
/// # Errors
/// The reason, in one line, why there is no such program: [`Stop::Unsupported`] if Go is not installed, or too old;
/// [`Stop::Failed`] if it is and the program can't be written or built, which is a fault of the program or of the
/// machine.
pub fn program(directory: &Path) -> Result<PathBuf, Stop> {
    let version = version()?;
    let mut hasher = DefaultHasher::new();
    (SOURCE, &version).hash(&mut hasher);
    let home = directory.join(format!("quadrille-go-{:016x}", hasher.finish()));
    let program = home.join("quadrille-bench-go");
    if program.is_file() {
        return Ok(program);
    }
    write_source(&home)
        .map_err(|error| Stop::failed(format!("cannot write the Go program to {}: {error}", home.display())))?;
    build(&home, &program)?;
    Ok(program)
}

fn version() -> Result<String, Stop> {
    let output = go()
        .args(["env", "GOVERSION"])
        .output()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Stop::unsupported("go is not installed: there is no `go` in PATH"),
            _ => Stop::failed(format!("go cannot be started: {error}")),
        })?;
    if !output.status.success() {
        return Err(Stop::failed(format!(
            "`go env GOVERSION` failed: {}",
            first_line(&output)
        )));
    }
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match minor(&version) {
        Some(minor) if minor < MINOR_MIN => Err(Stop::unsupported(format!(
            "{version} is too old, expected go1.{MINOR_MIN} or newer"
        ))),
        _ => Ok(version),
    }
}

/// The 22 of `go1.22.2`; nothing of a version that is spelt otherwise, which is to try.
fn minor(version: &str) -> Option<u32> {
    let minor = version.strip_prefix("go1.")?;
    let end = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
    minor[..end].parse().ok()
}

/// The `go` of this machine, whatever its user has set.
pub(crate) fn go() -> Command {
    let mut command = Command::new("go");
    command
        .env("GOTOOLCHAIN", "local")
        .env("GOFLAGS", "")
        .env("GOWORK", "off")
        .env("GO111MODULE", "on");
    command
}

fn write_source(home: &Path) -> io::Result<()> {
    fs::create_dir_all(home)?;
    for (name, text) in SOURCE {
        fs::write(home.join(name), text)?;
    }
    Ok(())
}

/// Builds beside the final name and renames, so that two commands at once never run half a program.
fn build(home: &Path, program: &Path) -> Result<(), Stop> {
    let unfinished = home.join(format!("build-{}", std::process::id()));
    let output = go()
        .current_dir(home)
        .args(["build", "-o"])
        .arg(&unfinished)
        .arg(".")
        .output()
        .map_err(|error| Stop::failed(format!("go cannot be started: {error}")))?;
    if !output.status.success() {
        return Err(Stop::failed(format!(
            "`go build` in {} failed: {}",
            home.display(),
            first_line(&output)
        )));
    }
    fs::rename(&unfinished, program).map_err(|error| Stop::failed(format!("cannot rename the Go program: {error}")))
}

fn first_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines()
        .find(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .unwrap_or("no message")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        for (version, expected) in [
            ("go1.22.2", Some(22)),
            ("go1.9", Some(9)),
            ("go1.26rc1", Some(26)),
            ("go1.23", Some(23)),
            ("devel go1.27-abc", None),
        ] {
            assert_eq!(minor(version), expected, "{version}");
        }
    }

    #[test]
    fn the_least_version_is_that_of_the_module() {
        assert!(SOURCE[0].1.lines().any(|line| line == format!("go 1.{MINOR_MIN}")));
    }
}
