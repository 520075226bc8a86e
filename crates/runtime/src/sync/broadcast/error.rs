//! What sending and receiving can fail with, where tokio has it.

use std::error::Error;
use std::fmt;

use super::super::error::send_error;

send_error! {
    /// There is no receiver; the message comes back.
    "sending into a broadcast channel without a receiver"
}

/// Why no message was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// So many messages were lost: more were sent than the channel keeps. The receiver goes on behind them.
    Lagged(u64),
    /// All messages were received, and no sender is left.
    Closed,
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lagged(missed) => write!(f, "the receiver was too slow for {missed} messages"),
            Self::Closed => f.write_str("receiving from an empty and closed broadcast channel"),
        }
    }
}

impl Error for RecvError {}

/// Why no message could be received at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// No message is there yet.
    Empty,
    /// So many messages were lost.
    Lagged(u64),
    /// All messages were received, and no sender is left.
    Closed,
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("receiving from an empty broadcast channel"),
            Self::Lagged(missed) => RecvError::Lagged(*missed).fmt(f),
            Self::Closed => RecvError::Closed.fmt(f),
        }
    }
}

impl Error for TryRecvError {}
