//! Why a command did not succeed.

use std::fmt;

/// What every command returns.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// A message for one line of standard error, and the exit status that goes with it.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    exit_status: u8,
}

impl Failure {
    /// The check ran and found something, or could not run.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            exit_status: 1,
        }
    }

    /// The command line was wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            exit_status: 2,
        }
    }

    /// The same failure with an exit status of its own, which a command that runs another one passes on.
    pub(crate) fn with_exit_status(self, exit_status: u8) -> Self {
        Self { exit_status, ..self }
    }

    /// 2 for a wrong command line, that of [`Failure::with_exit_status`], 1 for everything else.
    pub(crate) fn exit_status(&self) -> u8 {
        self.exit_status
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
