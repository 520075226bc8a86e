//! A word to sleep on.
//!
//! Linux: the futex system call, private to the process. Elsewhere, and under the model checker: a mutex and a
//! condition variable beside the word. In a model, which has no clock, a wait of zero length may end at once, and any
//! other only when woken.

use crate::primitives::AtomicU32;

#[cfg(all(target_os = "linux", not(quadrille_loom)))]
mod imp {
    use std::time::Duration;

    use rustix::thread::futex::{Flags, Timespec, wait, wake};

    use super::AtomicU32;

    #[derive(Debug)]
    pub(super) struct Bed;

    impl Bed {
        pub(super) fn new() -> Self {
            Self
        }

        pub(super) fn sleep(&self, word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
            let timeout = timeout.map(|t| Timespec {
                tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: t.subsec_nanos().into(),
            });
            // EAGAIN (word changed), EINTR and ETIMEDOUT all mean: look again.
            let _ = wait(word, Flags::PRIVATE, expected, timeout.as_ref());
        }

        pub(super) fn rouse(&self, word: &AtomicU32) {
            let _ = wake(word, Flags::PRIVATE, 1);
        }
    }
}

#[cfg(not(all(target_os = "linux", not(quadrille_loom))))]
mod imp {
    use std::time::Duration;

    use super::AtomicU32;
    use crate::primitives::{Condvar, Mutex, Ordering, wait_on};

    #[derive(Debug)]
    pub(super) struct Bed {
        lock: Mutex<()>,
        changed: Condvar,
    }

    impl Bed {
        pub(super) fn new() -> Self {
            Self {
                lock: Mutex::new(()),
                changed: Condvar::new(),
            }
        }

        pub(super) fn sleep(&self, word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
            let guard = self.lock.lock().unwrap();
            // Ordering: Relaxed; the lock orders this load against the waker's store, which precedes `rouse`.
            if word.load(Ordering::Relaxed) != expected {
                return;
            }
            drop(wait_on(&self.changed, guard, timeout));
        }

        pub(super) fn rouse(&self, _word: &AtomicU32) {
            drop(self.lock.lock().unwrap());
            self.changed.notify_one();
        }
    }
}

/// A 32-bit word that one thread sleeps on until its value changes.
#[derive(Debug)]
pub(crate) struct Futex {
    /// The word itself; its protocol is its owner's.
    pub(crate) word: AtomicU32,
    bed: imp::Bed,
}

impl Futex {
    /// A futex whose word is `value`.
    pub(crate) fn new(value: u32) -> Self {
        Self {
            word: AtomicU32::new(value),
            bed: imp::Bed::new(),
        }
    }

    /// Sleeps while the word is `expected`, at most `timeout`. May return early for no reason.
    pub(crate) fn wait(&self, expected: u32, timeout: Option<std::time::Duration>) {
        self.bed.sleep(&self.word, expected, timeout);
    }

    /// Wakes the sleeper, if there is one. The word must have been changed before.
    pub(crate) fn wake(&self) {
        self.bed.rouse(&self.word);
    }
}
