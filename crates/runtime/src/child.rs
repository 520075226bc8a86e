//! Tests that run themselves again in a child: the test harness of this binary with the test's name and [`CHILD`] in
//! the environment. For those that die, or that measure the whole process.

use std::process::{Command, Output};

/// Set in children.
const CHILD: &str = "QUADRILLE_TEST_CHILD";

/// Its value in a child that is to do without our handler of faults.
pub(crate) const BARE: &str = "bare";

pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Whether this is a child that is to do without our handler of faults.
pub(crate) fn is_bare() -> bool {
    kind().is_some_and(|kind| kind == BARE)
}

/// Runs the test `name` of `module`, a `module_path!()`, again, in a child.
pub(crate) fn run_child(module: &str, name: &str) -> Output {
    run_child_as(module, name, "1")
}

pub(crate) fn run_child_as(module: &str, name: &str, kind: &str) -> Output {
    child(module, name, kind).output().unwrap()
}

/// The child as a command, for those that need more in its environment.
pub(crate) fn child(module: &str, name: &str, kind: &str) -> Command {
    let path = module.split_once("::").unwrap().1;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([&format!("{path}::{name}"), "--exact", "--nocapture"])
        .env(CHILD, kind);
    command
}

/// What the child was told to be.
pub(crate) fn kind() -> Option<String> {
    std::env::var(CHILD).ok()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Asserts that the child's test ran and passed.
pub(crate) fn assert_passed(output: &Output) {
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}\n{}", stderr(output));
    assert!(stdout.contains("1 passed"), "{stdout}");
}
