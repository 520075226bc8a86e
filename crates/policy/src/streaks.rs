//! How long a worker serves tasks that wake one another before the deque has its turn again.
//!
//! A task of the deque and those that follow it out of the slot are a streak. While streaks are short, three polls out
//! of the slot are as much as a streak may have ([`Config::slot_polls_max`]), because a clock is dear beside them. That
//! is no measure where others take long: two tasks that exchange messages would be parted after a microsecond to wait
//! for milliseconds, and tasks that compute would go before those that have waited for longer. So once streaks are long
//! on average, they are measured, and a woken task joins the one that wakes it during its first [`Config::slot_time`]
//! only, however often; later it goes to the end of the deque. The clock is read once for as many as take an eighth of
//! that on average ([`Policy::joins_a_look`]).
//!
//! While one of its tasks waits for another to end, a streak also has the newest tasks of the deque, if they have not
//! begun, up to [`Config::join_polls_max`] of them. A tree of tasks is then done depth first: what runs next was made a
//! moment ago and lies in the cache, as does who waits for it, and of a tree those are alive that lie on one path, and
//! their siblings. Oldest first does it breadth first, with all of its leaves alive at once. It is the order of Cilk's
//! workers (Blumofe and Leiserson, "Scheduling multithreaded computations by work stealing", 1994), whose thieves take
//! the oldest, too. A cap is what Cilk has no need of: its workers have one tree, ours have others' tasks beside it.

use crate::{Nanos, Policy};

/// A worker's average streak.
///
/// ```
/// use quadrille_policy::{Nanos, Streaks};
///
/// let mut streaks = Streaks::default();
/// streaks.looks_up(Nanos::from_micros(100), 4);
/// assert_eq!(streaks.average(), Nanos::from_micros(25));
/// // A look up in the middle of one.
/// streaks.looks_up(Nanos::from_micros(20), 0);
/// assert_eq!(streaks.average(), Nanos::from_micros(30));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streaks {
    /// Time that went into them.
    busy: Nanos,
    /// How many began.
    count: u32,
}

/// A look at the clock costs some 20 to 40 ns, next to nothing beside what as many tasks take.
const JOINS_A_LOOK_MAX: u64 = 16;

/// After so many streaks half of what is known is forgotten.
const MEMORY: u32 = 32;

impl Streaks {
    /// The worker looks up: so much time went into tasks since it did so last, and so many streaks began.
    #[inline]
    pub fn looks_up(&mut self, elapsed: Nanos, began: u32) {
        self.busy = Nanos(self.busy.0.saturating_add(elapsed.0));
        self.count = self.count.saturating_add(began);
        if self.count >= MEMORY {
            self.busy = Nanos(self.busy.0 / 2);
            self.count /= 2;
        }
    }

    /// How long one lasts.
    #[inline]
    #[must_use]
    pub fn average(&self) -> Nanos {
        Nanos(self.busy.0 / u64::from(self.count.max(1)))
    }
}

impl Policy {
    /// Whether streaks of such a length are measured: if they are longer than
    /// [`Config::slot_time`](crate::Config::slot_time).
    #[inline]
    #[must_use]
    pub fn measures_streaks(&self, average: Nanos) -> bool {
        average > self.config.slot_time
    }

    /// Whether a worker, one of whose tasks waits for another's end, takes the newest task of its deque before the
    /// oldest, if it has done so `taken` times since the oldest had its turn.
    #[inline]
    #[must_use]
    pub fn takes_newest(&self, taken: u32) -> bool {
        taken < self.config.join_polls_max
    }

    /// Whether a task that is woken so long after the streak began joins it.
    #[inline]
    #[must_use]
    pub fn joins_streak(&self, since: Nanos) -> bool {
        since <= self.config.slot_time
    }

    /// How many woken tasks join a streak for each look at the clock, where tasks take `average_run`: as many as take
    /// an eighth of [`Config::slot_time`](crate::Config::slot_time), and 16 at most.
    #[inline]
    #[must_use]
    pub fn joins_a_look(&self, average_run: Nanos) -> u32 {
        let eighth = self.config.slot_time.0 / 8;
        let joins = eighth.checked_div(average_run.0).unwrap_or(1);
        u32::try_from(joins.clamp(1, JOINS_A_LOOK_MAX)).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{PAIR, policy};

    #[test]
    fn half_is_forgotten_after_so_many() {
        let mut streaks = Streaks::default();
        assert_eq!(streaks.average(), Nanos(0));
        for _ in 0..1_000 {
            streaks.looks_up(Nanos(61_000), 16);
        }
        assert_eq!(streaks.average(), Nanos(61_000 / 16));
        // Three times as much as is remembered of the others.
        (0..3).for_each(|_| streaks.looks_up(Nanos(0), 16));
        assert!(streaks.average() < Nanos(61_000 / 16 / 2), "{streaks:?}");
    }

    #[test]
    fn time_counts_for_the_streak_that_goes_on() {
        let mut streaks = Streaks::default();
        streaks.looks_up(Nanos(7), 1);
        (0..9).for_each(|_| streaks.looks_up(Nanos(7), 0));
        assert_eq!(streaks.average(), Nanos(70));
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut streaks = Streaks::default();
        for began in [0, 1, u32::MAX, u32::MAX] {
            streaks.looks_up(Nanos(u64::MAX), began);
            assert!(streaks.average() > Nanos(0));
        }
    }

    #[test]
    fn long_ones_are_measured_and_joined_early() {
        for (config, average, since, measures, joins) in [
            ("default", 10_000, 10_000, false, true),
            ("default", 10_001, 10_001, true, false),
            ("slot-time=1s", 999_999_999, 0, false, true),
            ("slot-time=0ns", 1, 1, true, false),
        ] {
            let policy = policy(PAIR, config);
            assert_eq!(policy.measures_streaks(Nanos(average)), measures, "{config}, {average}");
            assert_eq!(policy.joins_streak(Nanos(since)), joins, "{config}, {since}");
        }
    }

    #[test]
    fn the_clock_is_read_for_each_eighth_of_the_time() {
        for (config, average, joins) in [
            ("default", 0, 1),
            ("default", 1, 16),
            ("default", 250, 5),
            ("default", 1_250, 1),
            ("default", 1_000_000, 1),
            ("slot-time=0ns", 1, 1),
            ("slot-time=1s", 250, 16),
        ] {
            assert_eq!(
                policy(PAIR, config).joins_a_look(Nanos(average)),
                joins,
                "{config}, {average}"
            );
        }
    }

    #[test]
    fn the_newest_go_first_so_many_times() {
        for (config, taken, first) in [
            ("default", 63, true),
            ("default", 64, false),
            ("join-polls=1", 0, true),
            ("join-polls=1", 1, false),
            ("join-polls=0", 0, false),
        ] {
            assert_eq!(policy(PAIR, config).takes_newest(taken), first, "{config}, {taken}");
        }
    }
}
