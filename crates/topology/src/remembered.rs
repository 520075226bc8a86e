//! What a process remembers of its machine from one look to the next.

use std::sync::{Mutex, MutexGuard, TryLockError};

/// What is remembered, if nobody else is at it: whoever looks meanwhile, in a process that was forked in that moment
/// perhaps, is not waited for. For what is replaced as a whole, so that a panic leaves nothing half done.
pub(crate) fn at_once<T>(remembered: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match remembered.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
