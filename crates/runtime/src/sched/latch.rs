//! A count-down latch: who is counted says once that it is done, and anyone may wait until all have.

use crate::primitives::{AtomicU32, Condvar, Mutex, Ordering};

/// Counts down to zero, once.
#[derive(Debug)]
pub(crate) struct Latch {
    left: AtomicU32,
    /// For sleeping only: what is handed over goes by `left`.
    lock: Mutex<()>,
    open: Condvar,
}

impl Latch {
    /// One for so many.
    pub(crate) fn new(count: u32) -> Self {
        Self {
            left: AtomicU32::new(count),
            lock: Mutex::new(()),
            open: Condvar::new(),
        }
    }

    /// One more is counted. Only while somebody who is counted is not done, and stays so until this has returned.
    pub(crate) fn count_up(&self) {
        // Ordering: Relaxed; whoever reads what follows reads of the same release sequence (B d), and nothing is handed
        // over yet.
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    /// So many are done. What they did happens before `wait` returns.
    pub(crate) fn count_down(&self, count: u32) {
        // Ordering: Release; (B d) pairs with the Acquire in `wait`, whichever decrement that reads: they are one
        // release sequence.
        if self.left.fetch_sub(count, Ordering::Release) == count {
            // Not between the look and the sleep of who waits.
            drop(self.lock.lock().unwrap());
            self.open.notify_all();
        }
    }

    /// Waits, by blocking the thread, until all are done.
    pub(crate) fn wait(&self) {
        // Ordering: Acquire; pairs with `count_down` (B d).
        if self.left.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut guard = self.lock.lock().unwrap();
        // Ordering: Acquire; as above.
        while self.left.load(Ordering::Acquire) > 0 {
            guard = self.open.wait(guard).unwrap();
        }
    }
}
