//! A lock for sections of some tens of nanoseconds: one read-modify-write to enter, one store to leave.
//!
//! `std::sync::Mutex` pays a second read-modify-write to leave, because it must learn whether somebody sleeps on it. Here
//! nobody sleeps *on* the lock: who finds it taken pauses 127 times in all, then yields its time slice, then naps for a
//! bounded time (see [`relax`]). A nap ends by itself, so leaving needs to know nothing, and a holder that was preempted
//! costs a waiter neither a time slice of spinning nor a priority inversion.
//!
//! What it does not do: it is not fair, and a section may neither call user code nor block. A value that a section
//! panics out of is unlocked, not poisoned.

use crate::primitives::{AtomicBool, Ordering, UnsafeCell, relax};

/// A value that is reached only inside [`Lock::with`].
#[derive(Debug)]
#[repr(C)]
pub(super) struct Lock<S> {
    /// True while a thread is inside `with`. Label L: the swap that enters pairs with the store that left before.
    held: AtomicBool,
    state: UnsafeCell<S>,
}

// SAFETY: `Lock` hands out `&mut S` to one thread at a time (L), which is a move of the access between threads: `Send`.
unsafe impl<S: Send> Send for Lock<S> {}
// SAFETY: as above; no `&S` is ever shared, so `S: Sync` isn't asked for.
unsafe impl<S: Send> Sync for Lock<S> {}

/// Leaves the lock, also when the section unwinds.
struct Leave<'a>(&'a AtomicBool);

impl Drop for Leave<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // Ordering: Release (L); the next section's swap sees everything that this one wrote.
        self.0.store(false, Ordering::Release);
    }
}

impl<S> Lock<S> {
    pub(super) fn new(state: S) -> Self {
        Self {
            held: AtomicBool::new(false),
            state: UnsafeCell::new(state),
        }
    }

    /// Runs `section` alone. It must not call user code (wakers, `T`'s methods, destructors) nor enter the lock again.
    #[inline(always)]
    pub(super) fn with<R>(&self, section: impl FnOnce(&mut S) -> R) -> R {
        // Ordering: Acquire (L); pairs with the store in `Leave`.
        if self.held.swap(true, Ordering::Acquire) {
            self.enter_contended();
        }
        let _leave = Leave(&self.held);
        self.state.with_mut(|state| {
            // SAFETY: exclusive, because the swap from false to true happens once until `Leave` stores false (L), and
            // `section` ends before `_leave` is dropped; valid, because it points into `self`.
            let state = unsafe { &mut *state };
            section(state)
        })
    }

    #[cold]
    fn enter_contended(&self) {
        let mut step = 0;
        loop {
            relax(step);
            // Ordering: Relaxed; a look that saves a pointless swap and decides nothing.
            // Ordering: Acquire (L); as in `with`.
            if !self.held.load(Ordering::Relaxed) && !self.held.swap(true, Ordering::Acquire) {
                return;
            }
            step = u32::saturating_add(step, 1);
        }
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn sections_of_many_threads_do_not_overlap() {
        let lock = Lock::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| lock.with(|n| *n += 1)));
            }
        });
        assert_eq!(lock.with(|n| *n), 40_000);
    }

    #[test]
    fn a_holder_that_stays_long_is_waited_for() {
        let lock = Lock::new(false);
        let inside = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                lock.with(|done| {
                    inside.wait();
                    // Long enough for the other thread to go through every step of `relax`.
                    let start = std::time::Instant::now();
                    while start.elapsed() < std::time::Duration::from_millis(20) {
                        std::hint::spin_loop();
                    }
                    *done = true;
                });
            });
            inside.wait();
            assert!(lock.with(|done| *done));
        });
    }

    #[test]
    fn a_section_that_panics_leaves_the_lock_free() {
        let lock = Lock::new(1);
        let section = AssertUnwindSafe(|| lock.with(|_| panic!("in the section")));
        assert!(catch_unwind(section).is_err());
        assert_eq!(lock.with(|n| *n), 1);
    }
}
