//! The commands of `quadrille`.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::child::WITH_MIMALLOC;
use crate::cli::{Cli, Command, SimCommand};
use crate::stamp;

pub mod calibrate;
pub mod compare;
mod contenders;
pub mod fault_load;
pub mod faults;
pub mod generate;
pub mod hackbench;
mod order;
mod out_file;
mod progress_bar;
pub mod run_one;
pub mod sim;
pub mod sim_report;
pub mod topology;
#[cfg(test)]
mod unread;

/// What a program allocates from. It can have but one, so its `main` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocator {
    /// The C library's: `quadrille`.
    System,
    /// mimalloc: `quadrille-mimalloc`.
    Mimalloc,
}

/// Why a command did not succeed.
#[derive(Debug)]
pub enum Error {
    /// What was asked for is impossible: one line for stderr, exit status 2.
    Usage(String),
    /// Runs failed; the report has said which. Exit status 1.
    Failed,
    /// The output cannot be written: one line for stderr, exit status 1.
    Output(io::Error),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// The whole program, from the command line to the exit status.
#[must_use]
pub fn main(allocator: Allocator) -> ExitCode {
    let cli = Cli::parse();
    match run(&cli.command, allocator, &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::Failed) => ExitCode::FAILURE,
        Err(Error::Usage(message)) => {
            complain(&message);
            ExitCode::from(2)
        }
        // Whoever read the output has seen enough.
        Err(Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Err(Error::Output(error)) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command, allocator: Allocator, out: &mut dyn Write) -> Result<(), Error> {
    if allocator == Allocator::Mimalloc && matches!(command, Command::Hackbench(_) | Command::Compare(_)) {
        // Every runtime would have that allocator, whatever its name says.
        let message = format!("`{WITH_MIMALLOC}` makes single runs of others' comparisons, expected `quadrille`");
        return Err(Error::Usage(message));
    }
    match command {
        Command::Hackbench(args) => hackbench::run(args, out),
        Command::Compare(args) => compare::run(args, out),
        Command::Topology(args) => topology::run(args, out),
        Command::Sim(args) => match &args.command {
            Some(SimCommand::Report(args)) => sim_report::run(args, out),
            None => sim::run(args, out),
        },
        Command::Calibrate(args) => calibrate::run(args, out),
        Command::Faults(args) => faults::run(args, out),
        Command::FaultLoad { order } => fault_load::run(order, out),
        Command::Generate { order } => generate::run(order, out),
        Command::BuildStamp => Ok(writeln!(out, "{}", stamp::BUILD)?),
        Command::RunOne { spec } => run_one::run(spec, allocator, out),
    }
}

#[expect(clippy::print_stderr, reason = "errors of a command go to stderr")]
fn complain(message: &str) {
    eprintln!("error: {message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of its runs would have that allocator, whatever its runtime's name says.
    #[test]
    fn a_program_with_another_allocator_compares_nothing() {
        for command in ["compare", "hackbench"] {
            let cli = Cli::try_parse_from(["quadrille-mimalloc", command]).unwrap();
            let mut out = Vec::new();
            let refused = run(&cli.command, Allocator::Mimalloc, &mut out);
            assert!(
                matches!(&refused, Err(Error::Usage(message)) if message.contains("expected `quadrille`")),
                "{command}: {refused:?}"
            );
            assert!(out.is_empty());
        }
    }
}
