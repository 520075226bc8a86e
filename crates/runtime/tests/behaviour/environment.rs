//! What the environment says where the program says nothing.

use std::error::Error as _;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Output;

use quadrille::policy::Config;
use quadrille::{Pinning, Runtime};

use crate::child::{assert_passed, child, is_child};

/// Runs the test `name` again in a child with these policies.
fn run_with(name: &str, policies: &str) -> Output {
    let mut child = child(module_path!(), name, "1");
    child.env("QUADRILLE_POLICY", policies).output().unwrap()
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
