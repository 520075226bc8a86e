//! What sending and receiving can fail with, where tokio has it.

use std::error::Error;
use std::fmt;

/// The receiver was closed or dropped; the message comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

impl<T> SendError<T> {
    /// The message that was not sent.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendError(..)")
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sending into a closed oneshot channel")
    }
}

impl<T> Error for SendError<T> {}

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
