//! Things that are counted: calls, drops, wakes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

/// A counter that all its clones share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Count(Arc<AtomicUsize>);

impl Count {
    /// Adds one; returns the value before.
    pub(crate) fn add(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst)
    }

    /// The value.
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// A value whose drop is counted.
    pub(crate) fn token(&self) -> Token {
        Token(self.clone())
    }

    /// Whether nobody else has it: no clone, no token, no waker.
    pub(crate) fn is_alone(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// A waker whose wakes are counted.
    pub(crate) fn waker(&self) -> Waker {
        Waker::from(Arc::new(CountingWaker(self.clone())))
    }
}

/// Counts its drop.
#[derive(Debug)]
pub(crate) struct Token(Count);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.add();
    }
}

struct CountingWaker(Count);

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.add();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.add();
    }
}

/// Calls a closure when dropped.
pub(crate) struct OnDrop<F: FnOnce()>(pub(crate) Option<F>);

impl<F: FnOnce()> OnDrop<F> {
    /// Calls `f` when dropped.
    pub(crate) fn new(f: F) -> Self {
        Self(Some(f))
    }
}

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(f) = self.0.take() {
            f();
        }
    }
}
