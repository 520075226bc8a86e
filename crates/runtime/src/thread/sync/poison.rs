//! Whether a holder of a lock has panicked.
//!
//! Exact for user-level threads although `panicking` counts for their OS thread: a thread can't be suspended while it
//! panics, so between the start of a panic and the end of the unwinding no other thread or task runs there.

use std::sync::{LockResult, PoisonError};
use std::thread::panicking;

use crate::primitives::{AtomicBool, Ordering, const_fn};

#[derive(Debug)]
pub(super) struct Poison {
    /// Written by holders, who are ordered by the lock.
    failed: AtomicBool,
}

/// What a guard notes when it is made: whether its thread panicked already, as in a destructor. Such a guard does not
/// poison.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    was_panicking: bool,
}

impl Poison {
    const_fn! {
        pub(super) fn new() -> Self {
            Self {
                failed: AtomicBool::new(false),
            }
        }
    }

    /// For a guard that is made.
    #[inline]
    pub(super) fn before(&self) -> Before {
        Before {
            was_panicking: panicking(),
        }
    }

    /// For a guard that is dropped.
    #[inline]
    pub(super) fn after(&self, before: Before) {
        if !before.was_panicking && panicking() {
            // Ordering: Relaxed; the lock orders it for those who take it, others only look.
            self.failed.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn is_set(&self) -> bool {
        // Ordering: Relaxed; see `after`.
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn clear(&self) {
        // Ordering: Relaxed; see `after`.
        self.failed.store(false, Ordering::Relaxed);
    }

    /// `value` in the form that says whether a holder has panicked.
    pub(super) fn wrap<G>(&self, value: G) -> LockResult<G> {
        if self.is_set() {
            Err(PoisonError::new(value))
        } else {
            Ok(value)
        }
    }
}
