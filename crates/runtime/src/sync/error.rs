//! What locking can fail with, and what the errors of the channels have in common.

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

/// A channel's own `SendError`, which says `$text`. Each channel has another type, so that a program's error may come
/// from several of them by `From`.
macro_rules! send_error {
    ($(#[$doc:meta])* $text:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub struct SendError<T>(pub T);

        impl<T> SendError<T> {
            /// What was not sent.
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
                f.write_str($text)
            }
        }

        impl<T> Error for SendError<T> {}
    };
}

pub(super) use send_error;
