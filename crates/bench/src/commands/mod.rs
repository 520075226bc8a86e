//! The commands of `quadrille`.

use std::io;

pub mod compare;
pub mod hackbench;
pub mod run_one;
pub mod topology;

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
