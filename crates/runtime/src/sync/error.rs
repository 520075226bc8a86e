//! What locking can fail with.

use std::error::Error;
use std::fmt;

/// A [`Mutex`](super::Mutex) or [`RwLock`](super::RwLock) could not be taken at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TryLockError;

impl fmt::Display for TryLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the lock is held, or others wait for it")
    }
}

impl Error for TryLockError {}
