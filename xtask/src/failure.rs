//! Why a command did not succeed.

use std::fmt;

/// What every command returns.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// A message for one line of standard error, and the exit status that goes with it.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    is_usage: bool,
}

impl Failure {
    /// The check ran and found something, or could not run.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            is_usage: false,
        }
    }

    /// The command line was wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            is_usage: true,
        }
    }

    /// 2 for a wrong command line, 1 for everything else.
    pub(crate) fn exit_status(&self) -> u8 {
        if self.is_usage { 2 } else { 1 }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
