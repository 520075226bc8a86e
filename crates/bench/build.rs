//! Stamps the programs with what they are built from, so that a report names the commit and the compiler of the program
//! that ran and not those that are there when it runs, and so that a program knows one of the same build.
//!
//! - `QUADRILLE_COMMIT`: the commit, and whether what is built differs from it;
//! - `QUADRILLE_RUSTC`: the version of the compiler;
//! - `QUADRILLE_BUILD`: a hash of all sources, the compiler, the profile and the features, but for `mimalloc`. A commit
//!   would not do, because two builds of changed trees can have the same, nor would the time of a file, because cargo
//!   puts a program that it has kept in place again.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the programs are built from, in the tree and in each crate. The lock file stands for all that is not ours.
const IN_TREE: [&str; 3] = ["Cargo.lock", "Cargo.toml", ".cargo"];
const IN_CRATE: [&str; 4] = ["Cargo.toml", "build.rs", "go", "src"];

fn main() -> io::Result<()> {
    let tree = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../..");
    let rustc = first_line(Command::new(variable("RUSTC")).arg("--version"));
    let rustc = rustc.unwrap_or_else(|| "rustc unknown".to_owned());
    let mut hasher = DefaultHasher::new();
    for path in sources(&tree)? {
        println!("cargo::rerun-if-changed={}", path.display());
        hash(&tree, &path, &mut hasher)?;
    }
    (&rustc, settings()).hash(&mut hasher);
    // Figures of debug builds mean nothing, so there a commit alone is no reason to compile every workload again.
    if variable("PROFILE") != "debug" {
        for path in moves_with_commits(&tree) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    println!("cargo::rustc-env=QUADRILLE_COMMIT={}", commit(&tree));
    let version = rustc.split_whitespace().nth(1).unwrap_or(&rustc);
    println!("cargo::rustc-env=QUADRILLE_RUSTC={version}");
    println!("cargo::rustc-env=QUADRILLE_BUILD={:016x}", hasher.finish());
    Ok(())
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// Files and directories that there are, in an order that does not depend on the file system.
fn sources(tree: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = IN_TREE.iter().map(|name| tree.join(name)).collect();
    for directory in children(&tree.join("crates"))? {
        found.extend(IN_CRATE.iter().map(|name| directory.join(name)));
    }
    found.retain(|path| path.exists());
    Ok(found)
}

fn children(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Names and contents of a file, or of all files in a directory.
fn hash(tree: &Path, path: &Path, hasher: &mut DefaultHasher) -> io::Result<()> {
    if path.is_dir() {
        return children(path)?.iter().try_for_each(|child| hash(tree, child, hasher));
    }
    (path.strip_prefix(tree).unwrap_or(path), fs::read(path)?).hash(hasher);
    Ok(())
}

/// What else decides what comes out.
fn settings() -> Vec<(String, String)> {
    let names = ["CARGO_ENCODED_RUSTFLAGS", "DEBUG", "OPT_LEVEL", "PROFILE", "TARGET"];
    let mut found: Vec<_> = env::vars()
        .filter(|(name, _)| names.contains(&name.as_str()) || name.starts_with("CARGO_FEATURE_"))
        .filter(|(name, _)| name != "CARGO_FEATURE_MIMALLOC")
        .collect();
    found.sort();
    found
}

/// The commit, for people.
fn commit(tree: &Path) -> String {
    let Some(hash) = git(tree, &["rev-parse", "--short", "HEAD"]) else {
        return "unknown: built without git, or not from a checkout".to_owned();
    };
    let of_sources = [
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        "crates",
        "Cargo.toml",
        "Cargo.lock",
    ];
    match git(tree, &of_sources) {
        Some(_) => format!("{hash} (with changes)"),
        None => hash,
    }
}

/// What changes with every commit and every checkout: the log of HEAD, or where none is kept HEAD and the branches.
/// None without git.
fn moves_with_commits(tree: &Path) -> Vec<PathBuf> {
    let path = |name: &str| git(tree, &["rev-parse", "--git-path", name]).map(|path| tree.join(path));
    let existing = |names: &[&str]| -> Vec<PathBuf> {
        let paths = names.iter().filter_map(|&name| path(name));
        paths.filter(|path| path.exists()).collect()
    };
    let log = existing(&["logs/HEAD"]);
    if log.is_empty() {
        existing(&["HEAD", "refs/heads", "packed-refs"])
    } else {
        log
    }
}

/// The first line that git prints; it takes no lock, so that it disturbs nobody who commits.
fn git(tree: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    first_line(
        command
            .arg("-C")
            .arg(tree)
            .args(arguments)
            .env("GIT_OPTIONAL_LOCKS", "0"),
    )
}

/// The first line that a program prints, if it succeeds and prints one.
fn first_line(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().map(str::to_owned)
}
