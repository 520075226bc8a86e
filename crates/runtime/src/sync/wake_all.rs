//! Waking many, in batches that are taken under a lock and called outside of it.

use std::task::Waker;

use arrayvec::ArrayVec;

use crate::panics::FirstPanic;

/// Wakers that are taken out of a list at a time.
pub(super) const BATCH_MAX: usize = if cfg!(quadrille_loom) { 2 } else { 32 };

/// Wakers that were taken, to be called outside of the lock.
#[derive(Debug, Default)]
pub(crate) struct Batch(ArrayVec<Waker, BATCH_MAX>);

impl Batch {
    /// Takes wakers until there is none or the batch is full. Allocates nothing.
    pub(crate) fn fill_from(&mut self, mut take: impl FnMut() -> Option<Waker>) {
        while !self.0.is_full() {
            let Some(waker) = take() else { return };
            self.0.push(waker);
        }
    }

    /// Wakes these, and as long as they fill a batch calls `refill` for the next ones, outside of the wakers: all are
    /// woken, whatever a waker of the user's does; the first panic goes on then.
    pub(crate) fn wake_all(&mut self, mut refill: impl FnMut(&mut Self)) {
        let mut panic = FirstPanic::default();
        loop {
            let may_be_more = self.0.is_full();
            for waker in self.0.drain(..) {
                panic.catch(|| waker.wake());
            }
            if !may_be_more {
                return panic.go_on();
            }
            refill(self);
        }
    }
}

/// Calls `fill` for one batch after the other, until it leaves one that is not full, and wakes them all, as
/// [`Batch::wake_all`].
pub(crate) fn wake_all(mut fill: impl FnMut(&mut Batch)) {
    let mut batch = Batch::default();
    fill(&mut batch);
    batch.wake_all(fill);
}

#[cfg(all(test, not(quadrille_loom)))]
pub(crate) mod tests {
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
