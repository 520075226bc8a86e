//! Which workers have gone: for whoever waits for them, but not for ever.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::primitives::{Condvar, MutexGuard};
use crate::stress::Mutex;
use crate::sys::clock;

/// How many workers have not gone.
#[derive(Debug)]
pub(crate) struct Departures {
    left: Mutex<usize>,
    changed: Condvar,
}

impl Departures {
    pub(super) fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self {
            left: Mutex::new(workers),
            changed: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        // No foreign code runs under the lock, so nothing is half done in a poisoned one.
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many have gone, or never came.
    pub(super) fn gone(&self, workers: usize) {
        *self.lock() -= workers;
        self.changed.notify_all();
    }

    /// How many are left.
    pub(super) fn left(&self) -> usize {
        *self.lock()
    }

    /// Waits until all have gone, at most `limit`. How many are left.
    pub(super) fn wait(&self, limit: Duration) -> usize {
        let until = clock::after(limit);
        let mut left = self.lock();
        while *left > 0 {
            let rest = until.saturating_duration_since(clock::now());
            if rest.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(left, rest);
            left = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *left
    }
}

/// While it lives, a worker has not gone; also if a panic of ours ends it.
#[derive(Debug)]
pub(crate) struct Departs(pub(crate) Arc<Departures>);

impl Drop for Departs {
    fn drop(&mut self) {
        self.0.gone(1);
    }
}
