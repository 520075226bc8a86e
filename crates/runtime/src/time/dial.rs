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
//! Nor may it be read while somebody has stopped it who has not said where yet: it would stand at a time that is past.
//! So changes are counted, before and after: **(a)** a reading counts only if no change was under way when it began,
//! and none has begun when the system's clock has been read. Each side counts, or reads that clock, fences, and does
//! the other: of two that overlap the change reads the later time, or the reader sees it.

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
            // Ordering: Acquire; (Dial a) pairs with the Release at the end of `change`: its words and its time are
            // read as it left them, or later.
            let changes = self.changes.load(Ordering::Acquire);
            if changes.is_multiple_of(2) {
                let time = self.at(system());
                // Ordering: SeqCst; (Dial a) the clock and the words are read before the count, against count before
                // clock and words in `change`.
                fence(Ordering::SeqCst);
                // Ordering: Relaxed; after the fence.
                if self.changes.load(Ordering::Relaxed) == changes {
                    return time;
                }
            }
            relax(step);
            step = step.saturating_add(1);
        }
    }

    /// The same, where the system's clock was read before, as `time`: that is what it shows if it was never stopped.
    pub(super) fn now_or(&self, time: u64, system: impl Fn() -> u64) -> u64 {
        // Ordering: SeqCst; (Dial a) as in `now`.
        fence(Ordering::SeqCst);
        // Ordering: Relaxed; after the fence.
        match self.changes.load(Ordering::Relaxed) {
            0 => time,
            _ => self.now(system),
        }
    }

    /// What it shows when the system's clock shows `system`, unless it changes meanwhile, or has since that was read.
    fn at(&self, system: u64) -> u64 {
        // Ordering: Relaxed; `now` tells whether both words are of one time.
        match self.stands_at.load(Ordering::Relaxed) {
            // Ordering: Relaxed; as above, or the clock was advanced since.
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
                // Ordering: Relaxed; told by the count, as what follows.
                self.ahead.store(time.wrapping_sub(system()), Ordering::Relaxed);
                // Ordering: Release; pairs with the Acquire of `move_while_it_stands`. Relaxed if it was moved: once
                // more.
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
            // Ordering: Relaxed; while it stands one word tells. Acquire; who finds that it goes adds to what `start`
            // has stored (`move_while_it_goes`).
            .fetch_update(Ordering::Relaxed, Ordering::Acquire, moved)
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
        // Ordering: SeqCst; (Dial a) the count comes before the clock and the words, against `now`.
        fence(Ordering::SeqCst);
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
        assert_eq!((dial.now(|| 10), dial.now_or(9, || 10)), (10, 9));
        dial.stop(|| 11);
        assert!(dial.stands());
        assert_eq!(dial.now(|| 40), 11);
        assert!(dial.move_while_it_stands(|time| time + 4));
        assert!(dial.start(|| 41));
        assert_eq!(
            (dial.stands(), dial.now(|| 43), dial.now_or(12, || 43)),
            (false, 17, 17)
        );
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

    /// The time of a model, which passes when somebody says so; who reads it learns of nothing else.
    struct System(AtomicU64);

    impl System {
        fn passes(&self) {
            // Ordering: Relaxed; it is a clock.
            self.0.fetch_add(100, Ordering::Relaxed);
        }

        fn nanos(&self) -> u64 {
            // Ordering: Relaxed; as above.
            self.0.load(Ordering::Relaxed)
        }
    }

    /// Beside one who stops the clock and lets it go, it never goes back.
    #[test]
    fn dial_is_never_put_back() {
        check(|dial, system| dial.now(|| system.nanos()));
    }

    /// Nor where the system's clock was read before.
    #[test]
    fn dial_of_an_earlier_reading_is_never_put_back() {
        check(|dial, system| {
            let time = system.nanos();
            dial.now_or(time, || system.nanos())
        });
    }

    fn check(reads: impl Fn(&Dial, &System) -> u64 + Copy + Send + Sync + 'static) {
        let mut builder = ::loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(move || {
            let both = Arc::new((Dial::new(), System(AtomicU64::new(1000))));
            let (other, third) = (Arc::clone(&both), Arc::clone(&both));
            let stops = thread::spawn(move || {
                let (dial, system) = &*other;
                dial.stop(|| system.nanos());
                system.passes();
                assert!(dial.start(|| system.nanos()));
            });
            let passes = thread::spawn(move || third.1.passes());
            let (dial, system) = &*both;
            let first = dial.now(|| system.nanos());
            let second = reads(dial, system);
            assert!(first <= second, "{first}, then {second}");
            stops.join().unwrap();
            passes.join().unwrap();
            let last = dial.now(|| system.nanos());
            assert!(second <= last, "{second}, then {last}");
        });
    }
}
