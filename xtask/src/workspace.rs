//! The files of the workspace.
//!
//! The tree is walked, not asked of git: the checks must also see what is not committed yet, and work in an unpacked
//! archive. Build output (`target`) and version control are skipped, nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};

/// A text file and its path relative to the root, with `/` between the parts.
#[derive(Debug, Clone)]
pub(crate) struct TextFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The directory that holds the workspace manifest.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Where cargo puts what it builds for `kind` (`loom`, `stress`, ...): a folder of its own each, because different
/// flags would otherwise rebuild everything at each change of command.
pub(crate) fn target_dir(kind: &str) -> PathBuf {
    let base = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    base.join(kind)
}

/// Every file below `root`, as paths relative to it, in order.
pub(crate) fn paths(root: &Path) -> Outcome<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(root.join(&folder)).map_err(|error| unreadable(&folder, &error))?;
        for entry in entries {
            let entry = entry.map_err(|error| unreadable(&folder, &error))?;
            let kind = entry.file_type().map_err(|error| unreadable(&folder, &error))?;
            let name = entry.file_name();
            let path = folder.join(&name);
            if kind.is_dir() {
                if name != "target" && name != ".git" {
                    folders.push(path);
                }
            } else if kind.is_file() && name != ".git" {
                found.push(path.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Every text file that the checks look at.
pub(crate) fn text_files(root: &Path) -> Outcome<Vec<TextFile>> {
    let mut files = Vec::new();
    for path in paths(root)? {
        if is_text(&path) {
            let text = fs::read_to_string(root.join(&path)).map_err(|error| unreadable(Path::new(&path), &error))?;
            files.push(TextFile { path, text });
        }
    }
    Ok(files)
}

fn is_text(path: &str) -> bool {
    let extension = Path::new(path).extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("rs" | "md" | "toml" | "mut" | "go" | "sh" | "supp")) || path.starts_with(".ci/")
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_this_file_and_no_build_output() {
        let files = text_files(&root()).expect("the workspace is readable");
        assert!(files.iter().any(|file| file.path == "xtask/src/workspace.rs"));
        assert!(files.iter().all(|file| !file.path.starts_with("target/")));
    }
}
