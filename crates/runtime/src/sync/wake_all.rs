//! Waking many, in batches that are taken under a lock and called outside of it.

use std::task::Waker;

use crate::panics::FirstPanic;

/// Wakers that are taken out of a list at a time.
const BATCH_MAX: usize = 32;

/// Wakers that were taken, to be called outside of the lock.
#[derive(Debug)]
pub(crate) struct Batch(Vec<Waker>);

impl Batch {
    /// Takes wakers until there is none or the batch is full. Allocates nothing.
    pub(crate) fn fill_from(&mut self, mut take: impl FnMut() -> Option<Waker>) {
        while self.0.len() < BATCH_MAX {
            let Some(waker) = take() else { return };
            self.0.push(waker);
        }
    }
}

/// Calls `fill` for one batch after the other, each time outside of the wakers, until it leaves one empty, and wakes them all,
/// whatever a waker of the user's does: the first panic goes on when all are woken.
pub(crate) fn wake_all(mut fill: impl FnMut(&mut Batch)) {
    let mut panic = FirstPanic::default();
    loop {
        let mut batch = Batch(Vec::with_capacity(BATCH_MAX));
        fill(&mut batch);
        if batch.0.is_empty() {
            break;
        }
        for waker in batch.0 {
            panic.catch(|| waker.wake());
        }
    }
    panic.go_on();
}

#[cfg(all(test, not(quadrille_loom)))]
pub(super) mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use crate::primitives::{AtomicUsize, Ordering};

    /// A waker that counts its calls, of one thread.
    #[derive(Default)]
    pub(crate) struct Wakes(AtomicUsize);

    impl Wakes {
        pub(crate) fn count(&self) -> usize {
            // Ordering: Relaxed; one thread.
            self.0.load(Ordering::Relaxed)
        }
    }

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            // Ordering: Relaxed; one thread.
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}
