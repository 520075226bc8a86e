//! `cargo xtask stress`: the soak test on a build that makes rare interleavings common.
//!
//! `--cfg quadrille_stress` shrinks queues, delays at random around every publication, and parks with a time-out that
//! counts how often it was what ended the sleep. A wake-up that only a time-out delivers was lost: the count must be 0,
//! and the test program checks that.

use std::process::Command;

use crate::failure::Outcome;
use crate::options::Options;
use crate::process;
use crate::workspace;

/// Length of a soak unless `--seconds` says otherwise.
pub(crate) const SECONDS_DEFAULT: u64 = 10;
/// Tells the test program how long to soak.
pub(crate) const SECONDS_VARIABLE: &str = "QUADRILLE_STRESS_SECONDS";
/// Tells the test program that it was to be built for stress: it fails if it was not, which no test would notice.
pub(crate) const BUILD_VARIABLE: &str = "QUADRILLE_STRESS_BUILD";

/// Runs `crates/runtime/tests/stress.rs`.
pub(crate) fn run(options: &Options) -> Outcome {
    let seconds = options.value("--seconds")?.unwrap_or(SECONDS_DEFAULT);
    options.finish()?;
    let mut command = tests();
    command
        .env(SECONDS_VARIABLE, seconds.to_string())
        .args(["--", "--nocapture"]);
    let counts = process::run_tests(command)?;
    println!("stress: {} tests passed, {seconds} s of soak", counts.passed);
    Ok(())
}

/// `cargo test` for the soak, in its own target directory.
pub(crate) fn tests() -> Command {
    let mut command = process::cargo(["test", "--package", "quadrille", "--release", "--test", "stress"]);
    process::add_rustflags(&mut command, "--cfg quadrille_stress");
    process::use_checking_profile(&mut command);
    command
        .env("CARGO_TARGET_DIR", workspace::target_dir("stress"))
        .env(BUILD_VARIABLE, "1");
    command
}
