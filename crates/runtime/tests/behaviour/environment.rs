//! What the environment says where the program says nothing.

use std::error::Error as _;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Output, Stdio};

use quadrille::policy::Config;
use quadrille::{Builder, Pinning, Runtime, thread};

use crate::child::{assert_passed, child, is_child};

/// Runs the test `name` again in a child with these policies.
fn run_with(name: &str, policies: &str) -> Output {
    run_with_variable(name, "QUADRILLE_POLICY", policies)
}

/// Runs the test `name` again in a child with this variable, and no other of ours.
fn run_with_variable(name: &str, variable: &str, value: &str) -> Output {
    let mut child = child(module_path!(), name, "1");
    for other in ["QUADRILLE_WORKERS", "QUADRILLE_POLICY", "QUADRILLE_PIN"] {
        child.env_remove(other);
    }
    child.env(variable, value).output().unwrap()
}

#[test]
fn the_number_of_workers_is_set_from_outside_unless_the_program_sets_it() {
    if is_child() {
        let of = |builder: Builder| builder.build().unwrap().handle().worker_count();
        assert_eq!(of(Runtime::builder()), 3);
        assert_eq!(of(Runtime::builder().worker_threads(2)), 2);
        return;
    }
    let name = "the_number_of_workers_is_set_from_outside_unless_the_program_sets_it";
    assert_passed(&run_with_variable(name, "QUADRILLE_WORKERS", "3"));
}

#[test]
fn a_bad_number_of_workers_from_outside_is_one_clear_error() {
    if is_child() {
        let value = std::env::var("QUADRILLE_WORKERS").unwrap();
        let error = Runtime::new().map(drop).unwrap_err().to_string();
        let expected = format!("QUADRILLE_WORKERS is {value:?}, expected auto or 1 to ");
        assert!(error.contains(&expected), "{error}");
        return;
    }
    for value in ["many", "0", "-1", "1000000", "2.5"] {
        let name = "a_bad_number_of_workers_from_outside_is_one_clear_error";
        assert_passed(&run_with_variable(name, "QUADRILLE_WORKERS", value));
    }
}

#[test]
fn pinning_is_set_from_outside_unless_the_program_sets_it() {
    if is_child() {
        // No more than there are hardware threads, which strict pinning wants.
        let of = |builder: Builder| builder.worker_threads(1).build().unwrap().handle().report().to_owned();
        let asked = std::env::var("QUADRILLE_PIN").unwrap();
        let report = of(Runtime::builder());
        assert!(report.contains(&format!("{asked} was asked for")), "{report}");
        let own = of(Runtime::builder().pinning(Pinning::Auto));
        assert!(!own.contains("was asked for"), "{own}");
        return;
    }
    for value in ["strict", "llc", "none"] {
        let name = "pinning_is_set_from_outside_unless_the_program_sets_it";
        assert_passed(&run_with_variable(name, "QUADRILLE_PIN", value));
    }
}

#[test]
fn bad_pinning_from_outside_is_one_clear_error() {
    if is_child() {
        let error = Runtime::new().map(drop).unwrap_err();
        assert!(error.to_string().contains("QUADRILLE_PIN"), "{error}");
        let reason = error.source().expect("what is wrong with it").to_string();
        assert!(reason.contains("\"tight\"") && reason.contains("expected"), "{reason}");
        return;
    }
    let name = "bad_pinning_from_outside_is_one_clear_error";
    assert_passed(&run_with_variable(name, "QUADRILLE_PIN", "tight"));
}

#[test]
fn policies_are_set_from_outside_unless_the_program_sets_them() {
    if is_child() {
        let of = |runtime: &Runtime| runtime.handle().config().to_string();
        let from_outside = Runtime::new().unwrap();
        assert_eq!(
            of(&from_outside),
            "group=2,wake-cost=off".parse::<Config>().unwrap().to_string()
        );
        let own = Runtime::builder().config(Config::default()).build().unwrap();
        assert_eq!(of(&own), Config::default().to_string());
        return;
    }
    let name = "policies_are_set_from_outside_unless_the_program_sets_them";
    let output = run_with(name, "group=2,wake-cost=off");
    assert_passed(&output);
}

#[test]
fn a_bad_policy_from_outside_is_one_clear_error() {
    if is_child() {
        let error = Runtime::new().map(drop).unwrap_err();
        assert!(error.to_string().contains("QUADRILLE_POLICY"), "{error}");
        let reason = error.source().expect("what is wrong with it").to_string();
        assert!(reason.contains("`sping`") && reason.contains("expected"), "{reason}");
        return;
    }
    let name = "a_bad_policy_from_outside_is_one_clear_error";
    assert_passed(&run_with(name, "sping=1us"));
}

#[test]
fn a_variable_that_is_not_utf_8_is_one_clear_error() {
    const NAMES: [&str; 3] = ["QUADRILLE_WORKERS", "QUADRILLE_POLICY", "QUADRILLE_PIN"];
    if is_child() {
        let name = NAMES.into_iter().find(|name| std::env::var_os(name).is_some()).unwrap();
        let error = Runtime::new().map(drop).unwrap_err().to_string();
        assert!(
            error.contains(&format!("{name} is \"2\\xFF\", expected UTF-8")),
            "{error}"
        );
        let own = Runtime::builder().worker_threads(1).config(Config::default());
        drop(own.pinning(Pinning::None).build().unwrap());
        return;
    }
    for name in NAMES {
        let mut child = child(module_path!(), "a_variable_that_is_not_utf_8_is_one_clear_error", "1");
        for other in NAMES {
            child.env_remove(other);
        }
        let output = child.env(name, OsStr::from_bytes(b"2\xFF")).output().unwrap();
        assert_passed(&output);
    }
}

/// As one that locks a mutex of std which a suspended thread has.
#[test]
fn the_trace_names_a_worker_that_a_thread_holds_up() {
    if is_child() {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        let builder = thread::Builder::new().name("reader".to_owned());
        let holds = || std::io::stdin().read_line(&mut String::new()).unwrap();
        let read = builder.spawn_on(holds, runtime.handle()).unwrap().join().unwrap();
        assert_eq!(read, "go on\n".len());
        return;
    }
    let mut child = child(module_path!(), "the_trace_names_a_worker_that_a_thread_holds_up", "1");
    child.env("QUADRILLE_TRACE", "10ms");
    child
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    // A worker that has no CPU for so long is told of, too: in lines that name no thread.
    let is_told = |line: String| line.contains(" stuck=0(ThreadId(") && line.contains(") \"reader\")");
    assert!(lines.by_ref().take(1000).any(is_told), "nobody is stuck");
    child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    // To the end, so that the child can go on to print.
    lines.for_each(drop);
    assert_passed(&child.wait_with_output().unwrap());
}
