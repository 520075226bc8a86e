//! Tests that need a process of their own: what they do ends it, or is settled before it begins.

use std::process::{Command, Output};

/// Set in children.
const CHILD: &str = "QUADRILLE_TEST_CHILD";

/// Whether this process runs one test alone.
pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs the test `name` of `module`, a `module_path!()`, again: alone, in a child, with these variables.
pub(crate) fn run_child(module: &str, name: &str, variables: &[(&str, &str)]) -> Output {
    let (_, path) = module.split_once("::").expect("a module of this program");
    Command::new(std::env::current_exe().unwrap())
        .args([&format!("{path}::{name}"), "--exact", "--nocapture"])
        .envs(variables.iter().copied())
        .env(CHILD, "1")
        .output()
        .unwrap()
}

/// What a child has said on its standard error.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Asserts that the child's test ran and passed.
pub(crate) fn assert_passed(output: &Output) {
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}\n{}", stderr(output));
    assert!(stdout.contains("1 passed"), "{stdout}");
}
