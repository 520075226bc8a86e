//! What taking a permit can fail with.

use std::error::Error;
use std::fmt;

/// The semaphore is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AcquireError;

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("acquiring a permit of a closed semaphore")
    }
}

impl Error for AcquireError {}

/// The permits could not be taken at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TryAcquireError {
    /// The semaphore is closed.
    Closed,
    /// Fewer are free, or others wait for them.
    NoPermits,
}

impl fmt::Display for TryAcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "acquiring a permit of a closed semaphore",
            Self::NoPermits => "fewer permits are free than were asked for, or others wait for them",
        })
    }
}

impl Error for TryAcquireError {}
