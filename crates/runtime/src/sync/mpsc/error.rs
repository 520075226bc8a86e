//! What sending and receiving can fail with, by tokio's names. The types are this module's own: an error of `mpmc` is
//! another one, so that a program's may come from either by `From`.

use std::error::Error;
use std::fmt;

use super::super::error::send_error;
use super::mpmc;

send_error! {
    /// The channel is closed; the message comes back.
    "sending into a closed channel"
}

impl<T> SendError<T> {
    #[inline]
    pub(super) fn of(error: mpmc::SendError<T>) -> Self {
        Self(error.0)
    }
}

/// The message could not be sent at once; it comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// As many messages wait as the channel holds, those of permits among them.
    Full(T),
    /// The channel is closed.
    Closed(T),
}

impl<T> TrySendError<T> {
    /// The same of what is made of the message, or of the handle.
    #[inline]
    pub(super) fn of<U>(error: mpmc::TrySendError<U>, map: impl FnOnce(U) -> T) -> Self {
        match error {
            mpmc::TrySendError::Full(unsent) => Self::Full(map(unsent)),
            mpmc::TrySendError::Closed(unsent) => Self::Closed(map(unsent)),
        }
    }

    /// The message that was not sent.
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(message) | Self::Closed(message) => message,
        }
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Closed(_) => "Closed(..)",
        })
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "sending into a full channel",
            Self::Closed(_) => "sending into a closed channel",
        })
    }
}

impl<T> Error for TrySendError<T> {}

impl<T> From<SendError<T>> for TrySendError<T> {
    fn from(error: SendError<T>) -> Self {
        Self::Closed(error.0)
    }
}

/// The message was not sent in time; it comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// The time has passed while the channel was full.
    Timeout(T),
    /// The channel is closed.
    Closed(T),
}

impl<T> SendTimeoutError<T> {
    #[inline]
    pub(super) fn of(error: mpmc::SendTimeoutError<T>) -> Self {
        match error {
            mpmc::SendTimeoutError::Timeout(message) => Self::Timeout(message),
            mpmc::SendTimeoutError::Closed(message) => Self::Closed(message),
        }
    }

    /// The message that was not sent.
    pub fn into_inner(self) -> T {
        match self {
            Self::Timeout(message) | Self::Closed(message) => message,
        }
    }
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timeout(_) => "Timeout(..)",
            Self::Closed(_) => "Closed(..)",
        })
    }
}

impl<T> fmt::Display for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timeout(_) => "sending into a channel that stayed full until the deadline",
            Self::Closed(_) => "sending into a closed channel",
        })
    }
}

impl<T> Error for SendTimeoutError<T> {}

/// No message could be received at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// No message is there yet.
    Empty,
    /// The channel is closed and every message was taken, those of permits among them.
    Disconnected,
}

impl TryRecvError {
    #[inline]
    pub(super) fn of(error: mpmc::TryRecvError) -> Self {
        match error {
            mpmc::TryRecvError::Empty => Self::Empty,
            mpmc::TryRecvError::Closed => Self::Disconnected,
        }
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "receiving from an empty channel",
            Self::Disconnected => "receiving from an empty and closed channel",
        })
    }
}

impl Error for TryRecvError {}
