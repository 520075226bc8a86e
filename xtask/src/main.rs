//! Developer commands: `cargo xtask <command>`. What CI calls is what a developer types.
//!
//! Each command is one module. A command returns [`Outcome`]: `Ok` when everything it looked at is well, a [`Failure`]
//! otherwise; a wrong command line exits with status 2, any other failure with status 1.
//!
//! Invariant: nothing here is needed to build, test or use the product, and nothing here depends on it.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program reports by printing"
)]

mod counts;
mod emulate;
mod examples;
mod failure;
mod loom;
mod mutate;
mod options;
mod process;
mod sanitize;
mod stress;
mod tidy;
mod workspace;

use std::process::ExitCode;

use failure::{Failure, Outcome};
use options::Options;

const HELP: &str = "\
Developer commands of quadrille

usage: cargo xtask <command> [options]

  tidy                      check what the compiler does not: crate directions, places of atomics and system calls,
                            ordering comments, labels, theorems, mutations, links
  loom [FILTER]             model-check the tests of crates/runtime that are built with --cfg quadrille_loom
      --preemptions N       bound on preemptions per execution (default 2, LOOM_MAX_PREEMPTIONS overrides)
  mutate [--only NAME]... [--list] [--seconds N]
                            apply each file of mutations/ to a copy; the test it names must fail
  stress [--seconds N]      soak test with shrunk queues, random delays and timed parks (default 10 seconds)
  tsan [--seconds N]        the stress tests under ThreadSanitizer (nightly toolchain)
  asan [--seconds N]        the stress tests under AddressSanitizer (nightly toolchain)
  counts [--renew] [--only ROW] [--program FILE] [--runtime NAME]
                            instructions an operation, by callgrind (valgrind); fails if one is 3 % above
                            crates/bench/counts.txt, which --renew writes; --runtime only counts another one of FILE
  examples                  build and run every program of examples/
  emulate --machine NAME [--seconds N] [--release] [--add FILE]... -- COMMAND [ARGUMENT]...
                            run a command on an emulated machine (qemu): `quadrille`, `lstopo-no-graphics`, a command of
                            busybox, or a program of this host by path; its output and exit status are passed on
      --list                name the machines
      --check [--quick] [--machine NAME]...
                            check topology, pinning, hackbench and moves there; quick: topology and hackbench
  help                      print this
";

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::from(failure.exit_status())
        }
    }
}

fn run(mut args: impl Iterator<Item = String>) -> Outcome {
    let command = args.next().unwrap_or_else(|| "help".to_owned());
    let options = Options::parse(args)?;
    match command.as_str() {
        "tidy" => tidy::run(&options),
        "loom" => loom::run(&options),
        "mutate" => mutate::run(&options),
        "stress" => stress::run(&options),
        "tsan" => sanitize::run(sanitize::Sanitizer::Thread, &options),
        "asan" => sanitize::run(sanitize::Sanitizer::Address, &options),
        "counts" => counts::run(&options),
        "emulate" => emulate::run(&options),
        "examples" => examples::run(&options),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(Failure::usage(format!(
            "unknown command `{other}`; `cargo xtask` lists them"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(args: &[&str]) -> u8 {
        match run(args.iter().map(|&arg| arg.to_owned())) {
            Ok(()) => 0,
            Err(failure) => failure.exit_status(),
        }
    }

    #[test]
    fn help_succeeds_and_a_wrong_command_line_is_status_2() {
        assert_eq!(status(&[]), 0);
        assert_eq!(status(&["help"]), 0);
        assert_eq!(status(&["tydi"]), 2);
        assert_eq!(status(&["tidy", "--no-such-option"]), 2);
        assert_eq!(status(&["stress", "--seconds", "soon"]), 2);
        assert_eq!(status(&["emulate", "--machine", "none", "--", "true"]), 2);
        assert_eq!(status(&["emulate", "--machine", "up"]), 2);
        assert_eq!(status(&["emulate", "--list"]), 0);
        assert_eq!(status(&["counts", "--only", "nothing"]), 2);
        assert_eq!(status(&["mutate", "--only", "nothing"]), 2);
    }

    #[test]
    fn help_names_every_command() {
        for command in [
            "tidy", "loom", "mutate", "stress", "tsan", "asan", "emulate", "examples", "counts",
        ] {
            assert!(
                HELP.lines().any(|line| line.trim_start().starts_with(command)),
                "{command} is missing"
            );
        }
    }
}
