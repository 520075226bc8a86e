//! What sending and receiving can fail with, where tokio has it.

use std::error::Error;
use std::fmt;

use super::super::error::send_error;

send_error! {
    /// There is no receiver; the value comes back.
    "sending into a watch channel without a receiver"
}

/// There is no sender any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvError;

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("receiving from a watch channel without a sender")
    }
}

impl Error for RecvError {}
