//! Clients that others have written. Where one isn't installed a test asks by itself, and says so.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::skipped::skipped;

/// Those that have been said to be missing.
static MISSING: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Says once that this program isn't installed.
fn say_missing(program: &str) {
    let mut said = MISSING.lock().unwrap_or_else(PoisonError::into_inner);
    if said.insert(program.to_owned()) {
        // `.ci/run` refuses these words of a program that it has installed.
        skipped(&format!(
            "{program} is not installed, its servers are asked by other means"
        ));
    }
}

/// What the program says with these arguments; it must succeed. `None`, and said, where it isn't installed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let output = match Command::new(program).args(arguments).output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            say_missing(program);
            return None;
        }
        Err(error) => panic!("{program}: {error}"),
    };
    let (said, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}\n{said}{errors}",
        output.status
    );
    Some(said.into_owned())
}

/// The same of curl, which says nothing but what it is answered, and gives up after 5 minutes.
pub(crate) fn curl(arguments: &[&str]) -> Option<String> {
    let all = [&["--silent", "--show-error", "--max-time", "300"], arguments].concat();
    run("curl", &all)
}
