//! A lock for sections of some tens of nanoseconds: one read-modify-write to enter, one store to leave.
//!
//! `std::sync::Mutex` pays a second read-modify-write to leave, because it must learn whether somebody sleeps on it.
//! Here nobody sleeps *on* the lock: who finds it taken pauses 127 times in all, then yields its time slice, then naps
//! for a bounded time (see [`relax`]). A nap ends by itself, so leaving needs to know nothing, and a holder that was
//! preempted costs a waiter neither a time slice of spinning nor a priority inversion.
//!
//! A worker's timers lie under it, too: nearly nobody but that worker wants them, and now and then it is inside for
//! longer.
//!
//! What it does not do: it is not fair, and a section may neither call user code nor block (it may enter another lock
//! whose sections enter none: `sync/broadcast`), nor suspend a user-level thread (which builds with debug assertions
//! refuse: `thread/suspend`). A value that a section panics out of is unlocked, not poisoned.
//!
//! Under loom [`Word`] has a model of its own, and everything else uses loom's mutex in its place: of the endless ways
//! in which two threads can wait for a third, loom would try each.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::primitives::{AtomicBool, Ordering, UnsafeCell, const_fn, relax, seems_set};

#[cfg(quadrille_loom)]
use crate::primitives::Modelled as Exclusion;
#[cfg(not(quadrille_loom))]
use Word as Exclusion;

/// Lets one thread at a time through.
#[derive(Debug)]
pub(crate) struct Word {
    /// True while a thread is inside `run`. Label Lock: the exchange that enters pairs with the store that left before.
    held: AtomicBool,
}

/// Leaves the word, also when the section unwinds.
struct Leave<'a>(&'a AtomicBool);

impl Drop for Leave<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        depth::leave();
        // Ordering: Release (Lock); the next section's exchange sees everything that this one wrote.
        self.0.store(false, Ordering::Release);
    }
}

impl Word {
    const_fn! {
        pub(crate) fn new() -> Self {
            Self {
                held: AtomicBool::new(false),
            }
        }
    }

    /// Runs `section` while no other thread is in one.
    #[inline(always)]
    pub(crate) fn run<R>(&self, section: impl FnOnce() -> R) -> R {
        if !self.try_enter() {
            self.enter_contended();
        }
        depth::enter();
        let _leave = Leave(&self.held);
        section()
    }

    /// A compare-exchange rather than a swap: a failed one leaves the word alone, and `true` is only written by a
    /// holder.
    #[inline(always)]
    fn try_enter(&self) -> bool {
        // Ordering: Acquire (Lock); pairs with the store in `Leave`. Relaxed on failure, which reads nothing else.
        self.held
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    #[cold]
    fn enter_contended(&self) {
        let mut step = 0;
        loop {
            relax(step);
            if !seems_set(&self.held) && self.try_enter() {
                return;
            }
            step = u32::saturating_add(step, 1);
        }
    }
}

/// A value that is reached only inside [`Lock::with`].
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Lock<S> {
    exclusion: Exclusion,
    state: UnsafeCell<S>,
}

// SAFETY: `Lock` hands out `&mut S` to one thread at a time (Lock), which is a move of the access between threads:
// `Send`.
unsafe impl<S: Send> Send for Lock<S> {}
// SAFETY: as above; no `&S` is ever shared, so `S: Sync` isn't asked for.
unsafe impl<S: Send> Sync for Lock<S> {}

// No section runs the user's code, so no panic of his leaves a value half changed; what is moved in and out was whole
// before.
impl<S> UnwindSafe for Lock<S> {}
impl<S> RefUnwindSafe for Lock<S> {}

impl<S> Lock<S> {
    const_fn! {
        pub(crate) fn new(state: S) -> Self {
            Self {
                exclusion: Exclusion::new(),
                state: UnsafeCell::new(state),
            }
        }
    }

    /// Runs `section` alone. It must not call user code (wakers, `T`'s methods, destructors) nor enter the lock again.
    /// It may clone wakers of our own tasks (`task::is_own_waker`).
    #[inline(always)]
    pub(crate) fn with<R>(&self, section: impl FnOnce(&mut S) -> R) -> R {
        self.exclusion.run(|| {
            self.state.with_mut(|state| {
                // SAFETY: exclusive, because sections of one `exclusion` don't overlap (Lock) and `section` isn't given
                // the lock; valid, because it points into `self`.
                let state = unsafe { &mut *state };
                section(state)
            })
        })
    }
}

pub(crate) use depth::is_in_section;

/// How many sections an OS thread is in.
#[cfg(debug_assertions)]
mod depth {
    use std::cell::Cell;

    thread_local! {
        static DEPTH: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn enter() {
        DEPTH.set(DEPTH.get() + 1);
    }

    pub(super) fn leave() {
        DEPTH.set(DEPTH.get() - 1);
    }

    /// Whether the calling OS thread is in a section, where nothing may be suspended.
    pub(crate) fn is_in_section() -> bool {
        DEPTH.get() > 0
    }
}

/// Nobody counts: sections call no user code, so that to be in one where something is suspended is a mistake of ours.
#[cfg(not(debug_assertions))]
mod depth {
    #[inline(always)]
    pub(super) fn enter() {}

    #[inline(always)]
    pub(super) fn leave() {}

    #[inline(always)]
    pub(crate) fn is_in_section() -> bool {
        false
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
