//! What sending and receiving can fail with, where tokio has it.

use std::error::Error;
use std::fmt;

use super::super::error::send_error;

send_error! {
    /// The receiver was closed or dropped; the message comes back.
    "sending into a closed oneshot channel"
}

/// No message will come: the sender was dropped unused, the receiver was closed before, or has had the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvError;

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("receiving from a closed oneshot channel without a message")
    }
}

impl Error for RecvError {}

/// The message could not be received at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// It is not there yet.
    Empty,
    /// No message will come, as for [`RecvError`].
    Closed,
}

impl TryRecvError {
    /// Whether waiting could help.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    /// Whether no message will come any more.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("receiving from an empty oneshot channel"),
            Self::Closed => RecvError.fmt(f),
        }
    }
}

impl Error for TryRecvError {}
