//! `cargo xtask tsan` and `cargo xtask asan`: the stress tests under a sanitizer.
//!
//! Both need a nightly toolchain. With its component `rust-src` the standard library is built with the sanitizer too
//! and every report counts. Without it std is not instrumented, and ThreadSanitizer misses what the out-of-line parts
//! of std order: a contended `Mutex`, `Condvar`, `Once`, `thread::park`, and the end of a `thread::scope`. The test
//! harness and std's own handles of threads are then suppressed by name (`xtask/tsan.supp`); a report about other
//! memory may still be false if nothing but one of those orders it. Atomics, `Arc` and uncontended locks are compiled
//! into our code and seen in any case.
//!
//! ThreadSanitizer does not see fences. The protocol never publishes data through one (they only order a store before a
//! load), so nothing is lost by that. Nor does it see that stacks are switched: the soak of user-level threads is left
//! out.

use std::path::PathBuf;
use std::process::Command;

use crate::failure::{Failure, Outcome};
use crate::options::Options;
use crate::process;
use crate::stress;
use crate::workspace;

/// The only target whose sanitizers are used here; naming it keeps build scripts and macros uninstrumented.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Which sanitizer to build with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sanitizer {
    /// Data races.
    Thread,
    /// Use after free, overflow, and leaks.
    Address,
}

impl Sanitizer {
    fn name(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::Address => "address",
        }
    }
}

/// Runs `crates/runtime/tests/stress.rs` under `sanitizer`.
pub(crate) fn run(sanitizer: Sanitizer, options: &Options) -> Outcome {
    let seconds = options.value("--seconds")?.unwrap_or(stress::SECONDS_DEFAULT);
    options.finish()?;
    let with_std = has_std_source()?;
    if !with_std {
        println!(
            "note: component rust-src is missing from the nightly toolchain, so std is not instrumented; \
             `rustup component add rust-src --toolchain nightly` makes the run exact"
        );
    }
    let counts = process::run_tests(tests(sanitizer, with_std, seconds))?;
    println!("{} sanitizer: {} tests passed", sanitizer.name(), counts.passed);
    Ok(())
}

fn tests(sanitizer: Sanitizer, with_std: bool, seconds: u64) -> Command {
    let name = sanitizer.name();
    let mut command = process::cargo(["test", "--package", "quadrille", "--release", "--target", TARGET]);
    if with_std {
        command.arg("-Zbuild-std");
    }
    command.args(["--test", "stress"]);
    if sanitizer == Sanitizer::Address {
        // It must be told of every switch between stacks.
        command.args(["--features", "sanitizer"]);
    }
    // The precompiled std lacks the sanitizer, which the compiler would refuse to link with.
    let flags = format!("-Zsanitizer={name} -Cunsafe-allow-abi-mismatch=sanitizer --cfg quadrille_stress");
    process::add_rustflags(&mut command, &flags);
    process::use_checking_profile(&mut command);
    command
        .env("RUSTUP_TOOLCHAIN", "nightly")
        .env("CARGO_TARGET_DIR", workspace::target_dir(name))
        .env(stress::SECONDS_VARIABLE, seconds.to_string())
        .env(stress::BUILD_VARIABLE, "1");
    if sanitizer == Sanitizer::Thread && !with_std {
        let suppressions = workspace::root().join("xtask/tsan.supp");
        command.env("TSAN_OPTIONS", format!("suppressions={}", suppressions.display()));
    }
    command.args(["--", "--nocapture"]);
    if sanitizer == Sanitizer::Thread {
        // It takes a switch of stacks for a return that never comes.
        command.args(["--skip", "bound_threads"]);
    }
    command
}

/// Whether the nightly toolchain can build std from source.
fn has_std_source() -> Outcome<bool> {
    let output = Command::new("rustc")
        .env("RUSTUP_TOOLCHAIN", "nightly")
        .args(["--print", "sysroot"])
        .output()
        .map_err(|error| Failure::new(format!("cannot run rustc: {error}")))?;
    if !output.status.success() {
        return Err(Failure::new("no nightly toolchain: `rustup toolchain install nightly`"));
    }
    let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    Ok(sysroot.join("lib/rustlib/src/rust/library/Cargo.lock").is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instrumented_std_needs_no_suppressions() {
        let with_std = process::describe(&tests(Sanitizer::Thread, true, 1));
        assert!(
            with_std.contains("-Zbuild-std") && !with_std.contains("TSAN_OPTIONS"),
            "{with_std}"
        );
        let without = process::describe(&tests(Sanitizer::Thread, false, 1));
        assert!(
            !without.contains("-Zbuild-std") && without.contains("tsan.supp"),
            "{without}"
        );
    }

    #[test]
    fn each_sanitizer_has_its_own_target_directory() {
        let thread = process::describe(&tests(Sanitizer::Thread, true, 1));
        let address = process::describe(&tests(Sanitizer::Address, true, 1));
        assert!(
            thread.contains("-Zsanitizer=thread") && thread.contains("target/thread"),
            "{thread}"
        );
        assert!(
            address.contains("-Zsanitizer=address") && address.contains("target/address"),
            "{address}"
        );
    }
}
