//! The `quadrille` command: benchmarks of quadrille beside tokio, smol, Go and threads.

use std::io;
use std::process::ExitCode;

use clap::Parser;
use quadrille_bench::cli::{Cli, Command};
use quadrille_bench::commands::{Error, compare, hackbench, run_one, topology};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = io::stdout().lock();
    let result = match &cli.command {
        Command::Hackbench(args) => hackbench::run(args, &mut out),
        Command::Compare(args) => compare::run(args, &mut out),
        Command::Topology(args) => topology::run(args, &mut out),
        Command::RunOne { spec } => run_one::run(spec, &mut out),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::Failed) => ExitCode::FAILURE,
        Err(Error::Usage(message)) => {
            complain(&message);
            ExitCode::from(2)
        }
        Err(Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Err(Error::Output(error)) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "errors of a command go to stderr")]
fn complain(message: &str) {
    eprintln!("error: {message}");
}
