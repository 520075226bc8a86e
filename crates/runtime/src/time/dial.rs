//! What a clock shows: the system's time, moved by something, or the time at which it was stopped.
//!
//! *Who reads the time twice does not find it earlier, whatever happens to the clock in between.* Two words tell it:
//! where it stands, and how far ahead it is while it goes. So a reader may have read the system's clock for the one and
//! be late for the other:
//!
//! ```text
//!   reader                                  another thread
//!   the system's clock: 10; it goes
//!                                           stops it at 11
//!                                           lets it go at 41: 30 behind
//!   30 behind: 10 - 30 = -20
//! ```
//!
//! A timer that was fired at 9 would not have come by that, and its task sleeps for ever, since nobody fires it again.
//! So changes are counted, before and after: **(a)** a reading counts only if no change was under way when it began,
//! and none has begun since.

use crate::primitives::{AtomicU64, AtomicUsize, Ordering, fence, relax};

/// The time that a clock shows. Who stops it or lets it go excludes others who do.
#[derive(Debug)]
pub(super) struct Dial {
    /// The time at which it stands; zero: it goes.
    stands_at: AtomicU64,
    /// What is to be added to the system's clock while it goes, modulo 2^64: who was stopped for long may be behind.
    ahead: AtomicU64,
    /// Stops and starts, twice each: odd while one is under way.
    changes: AtomicUsize,
}

impl Dial {
    pub(super) fn new() -> Self {
        Self {
            stands_at: AtomicU64::new(0),
            ahead: AtomicU64::new(0),
            changes: AtomicUsize::new(0),
        }
    }

    /// What it shows, where `system` reads the system's clock.
    pub(super) fn now(&self, system: impl Fn() -> u64) -> u64 {
        let mut step = 0;
        loop {
            // Ordering: Acquire; (Dial a) pairs with the Release at the end of `change`: its words are read as it left
            // them, or as a later one did.
            let changes = self.changes.load(Ordering::Acquire);
            if changes.is_multiple_of(2) {
                let time = self.at(system());
                // Ordering: Acquire; (Dial a) pairs with the Release fence of `change`: who has read one of its words
                // sees that it has begun.
                fence(Ordering::Acquire);
                // Ordering: Relaxed; after the fence.
                if self.changes.load(Ordering::Relaxed) == changes {
                    return time;
                }
            }
            relax(step);
            step = step.saturating_add(1);
        }
    }

    /// What it shows when the system's clock shows `system`, or, if it was stopped since that was read, a time before:
    /// for who looks again before he relies on it that something has not come.
    pub(super) fn at(&self, system: u64) -> u64 {
        // Ordering: Acquire; pairs with the Release of `start`: who sees that it goes sees how far ahead it is.
        match self.stands_at.load(Ordering::Acquire) {
            // Ordering: Relaxed; as was just said, or the clock was advanced since.
            0 => system.wrapping_add(self.ahead.load(Ordering::Relaxed)),
            time => time,
        }
    }

    /// Whether it stands.
    #[inline]
    pub(super) fn stands(&self) -> bool {
        // Ordering: Relaxed; one word tells.
        self.stands_at.load(Ordering::Relaxed) != 0
    }

    /// Stops it where it is.
    pub(super) fn stop(&self, system: impl Fn() -> u64) {
        self.change(|| {
            let time = self.at(system()).max(1);
            // Ordering: Relaxed; while it stands one word tells.
            self.stands_at.store(time, Ordering::Relaxed);
        });
    }

    /// Lets it go on from where it stands. False if it went already.
    ///
    /// Others may move it meanwhile: it goes on from where it was moved.
    pub(super) fn start(&self, system: impl Fn() -> u64) -> bool {
        self.change(|| {
            // Ordering: Relaxed; checked below.
            let mut time = self.stands_at.load(Ordering::Relaxed);
            while time != 0 {
                // Ordering: Relaxed; told by what follows.
                self.ahead.store(time.wrapping_sub(system()), Ordering::Relaxed);
                // Ordering: Release; pairs with the acquire of `at`. Relaxed if it was moved: once more.
                let went = self
                    .stands_at
                    .compare_exchange(time, 0, Ordering::Release, Ordering::Relaxed);
                match went {
                    Ok(_) => return true,
                    Err(moved) => time = moved,
                }
            }
            false
        })
    }

    /// Sets it to the time that `to` says, unless it goes. False then.
    pub(super) fn move_while_it_stands(&self, to: impl Fn(u64) -> u64) -> bool {
        let moved = |time: u64| (time != 0).then(|| to(time));
        self.stands_at
            // Ordering: Relaxed; while it stands one word tells.
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, moved)
            .is_ok()
    }

    /// Moves it to the time that `to` says while it goes, where the system's clock shows `system`.
    pub(super) fn move_while_it_goes(&self, system: u64, to: impl Fn(u64) -> u64) {
        let further = |ahead: u64| Some(to(system.wrapping_add(ahead)).wrapping_sub(system));
        // Ordering: Relaxed; one word tells, while it goes.
        let _before = self.ahead.fetch_update(Ordering::Relaxed, Ordering::Relaxed, further);
    }

    fn change<R>(&self, change: impl FnOnce() -> R) -> R {
        // Ordering: Relaxed; before the fence. Nobody else changes it.
        self.changes.fetch_add(1, Ordering::Relaxed);
        // Ordering: Release; (Dial a) pairs with the Acquire fence of `now`.
        fence(Ordering::Release);
        let result = change();
        // Ordering: Release; (Dial a) pairs with the Acquire of `now`.
        self.changes.fetch_add(1, Ordering::Release);
        result
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_from_where_it_stood() {
        let dial = Dial::new();
        assert_eq!(dial.now(|| 10), 10);
        dial.stop(|| 11);
        assert!(dial.stands());
        assert_eq!(dial.now(|| 40), 11);
        assert!(dial.move_while_it_stands(|time| time + 4));
        assert!(dial.start(|| 41));
        assert_eq!((dial.stands(), dial.now(|| 43), dial.at(43)), (false, 17, 17));
        assert!(!dial.start(|| 44) && !dial.move_while_it_stands(|time| time + 1));
        dial.move_while_it_goes(45, |time| time + 1);
        assert_eq!(dial.now(|| 45), 20);
    }
}

#[cfg(all(test, quadrille_loom))]
mod loom {
    use super::*;
    use ::loom::sync::Arc;
    use ::loom::thread;

    /// The time of a model, which passes when somebody says so. Who reads it late has seen what was done earlier.
    struct System(AtomicU64);

    impl System {
        fn passes(&self, nanos: u64) {
            // Ordering: Release; pairs with the Acquire of `nanos`.
            self.0.fetch_add(nanos, Ordering::Release);
        }

        fn nanos(&self) -> u64 {
            // Ordering: Acquire; pairs with the Release of `passes`.
            self.0.load(Ordering::Acquire)
        }
    }

    /// Beside one who stops the clock for long and lets it go, it never goes back.
    #[test]
    fn dial_is_never_put_back() {
        let mut builder = ::loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let both = Arc::new((Dial::new(), System(AtomicU64::new(1000))));
            let other = Arc::clone(&both);
            let thread = thread::spawn(move || {
                let (dial, system) = &*other;
                dial.stop(|| system.nanos());
                system.passes(100);
                assert!(dial.start(|| system.nanos()));
            });
            let (dial, system) = &*both;
            let first = dial.now(|| system.nanos());
            let second = dial.now(|| system.nanos());
            assert!(first <= second, "{first}, then {second}");
            thread.join().unwrap();
            let last = dial.now(|| system.nanos());
            assert!(second <= last, "{second}, then {last}");
        });
    }
}
