//! How long the workers of a cache were busy, told a little late and never twice.
//!
//! Utilisation is a rate, and [`LazyCounter`](crate::LazyCounter) is not made for one: a worker in a long task tells
//! nothing until it ends and then all of it at once, and the longer a worker has lived the more it may keep to itself.
//! So a worker tells two things in one word: how long it was busy until some moment, and whether it still is. Whoever
//! reads the word adds the time since, and need not be told of a task that goes on for long.
//!
//! | what happens | is told |
//! |---|---|
//! | it is busy, and others believe that it is not | at once: perhaps it says nothing more for long |
//! | it is dry, or was now and then, and others believe that it was busy all the time | once an interval, if it is more than 1/64 of the time |
//! | it parks, or leaves | always |
//!
//! Others are thus wrong by what a worker was dry for since it last told something: an interval at most, and a search.

use crate::{LazyRule, Nanos};

/// Bits of [`BusySum`] that count busy workers. What is left for times are 48 bits, 78 hours, modulo which they are
/// added.
const RUNNING_BITS: u32 = 16;
/// What the word of times goes round at, ns.
const ROUND: u64 = 1 << (u64::BITS - RUNNING_BITS);
/// By less than this what is believed exceeds what was, ns: an interval of [`LazyCounters`](crate::LazyCounters), a
/// second at most, for each of the workers.
const BELIEVED_MAX: u64 = 1 << 43;
/// By less than this, all workers together, a reader's clock is behind those of the workers that told something last,
/// ns.
const BEHIND_MAX: u64 = 1 << 33;

/// What all workers of a cache have told, as one word: each adds to it what its [`BusyCounter`] answers, wrapping
/// around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusySum(u64);

impl BusySum {
    /// The sum of what was answered so far.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The workers that are busy.
    #[inline]
    #[must_use]
    pub const fn running(self) -> u64 {
        self.0 & ((1 << RUNNING_BITS) - 1)
    }

    /// How much longer than `counted` all workers together were busy until `now`; zero if less is known to have been
    /// than was believed. Right as long as it is asked again within 39 hours of busy time; after that,
    /// [`recount`](Self::recount).
    #[inline]
    #[must_use]
    pub const fn beyond(self, counted: Nanos, now: Nanos) -> Nanos {
        let more = self.until(now).wrapping_sub(counted.0) << RUNNING_BITS;
        let more = more.cast_signed() >> RUNNING_BITS;
        Nanos(if more < 0 { 0 } else { more.cast_unsigned() })
    }

    /// What is counted from now on in place of `counted`, if all workers together may have been busy for 19 hours
    /// since: the program was stopped, or slept. It agrees with the word, so that [`beyond`](Self::beyond) is right
    /// again; of 78 hours in between nothing is seen.
    ///
    /// ```
    /// use quadrille_policy::{BusyCounter, BusySum, Nanos};
    ///
    /// let word = BusyCounter::default().begins(Nanos(0));
    /// let (sum, hours) = (BusySum::from_bits(word), |hours: u64| Nanos::from_millis(hours * 3_600_000));
    /// assert_eq!(sum.beyond(Nanos(0), hours(40)), Nanos(0), "as if less were known");
    /// assert_eq!(sum.recount(Nanos(0), hours(40)), hours(40));
    /// assert_eq!(sum.beyond(hours(40), hours(41)), hours(1));
    /// ```
    #[must_use]
    pub const fn recount(self, counted: Nanos, now: Nanos) -> Nanos {
        let more = self.until(now).wrapping_sub(counted.0) & (ROUND - 1);
        let less = ROUND - more;
        // They were busy for no less than no time: what takes away more than was counted has gone round.
        Nanos(if less < BELIEVED_MAX && less <= counted.0.saturating_add(BEHIND_MAX) {
            counted.0.saturating_sub(less)
        } else {
            counted.0.saturating_add(more)
        })
    }

    /// Busy time of all workers until `now`, but for its upper bits.
    const fn until(self, now: Nanos) -> u64 {
        (self.0 >> RUNNING_BITS).wrapping_add(self.running().wrapping_mul(now.0))
    }

    /// What one worker, busy for so long until then, adds to the word.
    const fn of(told: Told) -> u64 {
        let running = told.running as u64;
        (told.busy.wrapping_sub(running * told.at.0) << RUNNING_BITS).wrapping_add(running)
    }
}

/// How long one worker was busy, and what it has told of it.
///
/// ```
/// use quadrille_policy::{BusyCounter, BusySum, LazyCounters, LazyRule, Nanos};
///
/// let rule = LazyRule::new(&LazyCounters::default());
/// let (mut worker, mut word) = (BusyCounter::default(), 0_u64); // the word is shared by all workers of a cache
/// word = word.wrapping_add(worker.begins(Nanos::from_millis(3)));
/// // A task runs for 20 ms and tells nothing.
/// let sum = BusySum::from_bits(word);
/// assert_eq!(sum.running(), 1);
/// assert_eq!(sum.beyond(Nanos(0), Nanos::from_millis(13)), Nanos::from_millis(10));
/// // Nor is there anything to tell at its end, if another follows.
/// assert_eq!(worker.goes_on(Nanos::from_millis(23), &rule), 0);
/// word = word.wrapping_add(worker.ends(Nanos::from_millis(23), &rule));
/// let sum = BusySum::from_bits(word);
/// assert_eq!(sum.beyond(Nanos::from_millis(10), Nanos::from_millis(99)), Nanos::from_millis(10));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusyCounter {
    /// Busy time up to `since`, or up to when it became dry; ns.
    busy: u64,
    /// Since when it has been busy and has not counted it; `None`: it is dry.
    since: Option<Nanos>,
    told: Told,
}

/// Of one worker, others know that it was busy for so long until then, and whether it was at that moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Told {
    busy: u64,
    running: bool,
    at: Nanos,
}

impl BusyCounter {
    /// The worker has found a task. As all of these: what to add to the word of its cache, zero for nothing.
    #[inline]
    #[must_use = "others are not told what is not added"]
    pub fn begins(&mut self, now: Nanos) -> u64 {
        if self.since.is_none() {
            self.since = Some(now);
        }
        if self.told.running { 0 } else { self.flush(now) }
    }

    /// It looks up from its tasks.
    #[inline]
    #[must_use = "others are not told what is not added"]
    pub fn goes_on(&mut self, now: Nanos, rule: &LazyRule) -> u64 {
        self.count(now);
        self.due(now, rule)
    }

    /// It is dry.
    #[inline]
    #[must_use = "others are not told what is not added"]
    pub fn ends(&mut self, now: Nanos, rule: &LazyRule) -> u64 {
        self.count(now);
        self.since = None;
        self.due(now, rule)
    }

    /// It parks, or leaves.
    #[inline]
    #[must_use = "others are not told what is not added"]
    pub fn flush(&mut self, now: Nanos) -> u64 {
        self.count(now);
        let told = Told {
            busy: self.busy,
            running: self.since.is_some(),
            at: now,
        };
        let before = core::mem::replace(&mut self.told, told);
        BusySum::of(told).wrapping_sub(BusySum::of(before))
    }

    #[inline]
    fn count(&mut self, now: Nanos) {
        if let Some(since) = &mut self.since {
            self.busy += now.since(*since).0;
            *since = now.max(*since);
        }
    }

    #[inline]
    fn due(&mut self, now: Nanos, rule: &LazyRule) -> u64 {
        let passed = now.since(self.told.at);
        // First: what is news takes a division.
        if !rule.has_passed(passed) {
            return 0;
        }
        let believed = self.told.busy + if self.told.running { passed.0 } else { 0 };
        let is_news = self.told.running != self.since.is_some() || rule.exceeds(self.busy.abs_diff(believed), passed.0);
        if is_news { self.flush(now) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::{LazyCounters, Rng};

    const MS: u64 = 1_000_000;

    fn lazy() -> LazyRule {
        LazyRule::new(&LazyCounters::default())
    }

    /// Workers that share a word.
    struct Cache {
        word: u64,
        workers: vec::Vec<BusyCounter>,
        /// What was really so, by worker: busy time, and since when it has been busy or dry.
        truth: vec::Vec<(u64, Nanos, bool)>,
        told: u32,
    }

    impl Cache {
        fn new(workers: usize) -> Self {
            Self {
                word: 0,
                workers: vec![BusyCounter::default(); workers],
                truth: vec![(0, Nanos(0), false); workers],
                told: 0,
            }
        }

        fn tell(&mut self, delta: u64) {
            self.word = self.word.wrapping_add(delta);
            self.told += u32::from(delta != 0);
        }

        /// The worker is busy or dry from `now` on, or still is.
        fn turns(&mut self, worker: usize, busy: bool, now: Nanos, rule: &LazyRule) {
            let counter = &mut self.workers[worker];
            let (total, since, was_busy) = &mut self.truth[worker];
            *total += if *was_busy { now.since(*since).0 } else { 0 };
            (*since, *was_busy) = (now, busy);
            let delta = match (counter.since.is_some(), busy) {
                (false, true) => counter.begins(now),
                (true, true) => counter.goes_on(now, rule),
                (_, false) => counter.ends(now, rule),
            };
            self.tell(delta);
        }

        fn is_truly(&self, now: Nanos) -> u64 {
            let of = |(total, since, busy): &(u64, Nanos, bool)| total + if *busy { now.since(*since).0 } else { 0 };
            self.truth.iter().map(of).sum()
        }

        fn believed(&self, now: Nanos) -> u64 {
            BusySum::from_bits(self.word).beyond(Nanos(0), now).0
        }
    }

    #[test]
    fn nothing_is_told_of_a_task_that_goes_on() {
        let (rule, mut cache) = (lazy(), Cache::new(3));
        for worker in 0..3 {
            cache.turns(worker, true, Nanos(worker as u64), &rule);
        }
        assert_eq!(cache.told, 3);
        for ms in 1..=1_000 {
            let now = Nanos(ms * MS);
            cache.turns(1, true, now, &rule);
            assert_eq!(cache.believed(now), cache.is_truly(now), "{ms} ms");
        }
        assert_eq!(cache.told, 3);
        let end = Nanos(1_000 * MS);
        (0..3).for_each(|worker| cache.turns(worker, false, end, &rule));
        let later = Nanos(5_000 * MS);
        assert_eq!(cache.believed(later), cache.is_truly(later));
        assert_eq!((cache.told, BusySum::from_bits(cache.word).running()), (6, 0));
    }

    #[test]
    fn who_counts_anew_agrees_with_the_word() {
        let (rule, mut cache) = (lazy(), Cache::new(2));
        cache.turns(0, true, Nanos(1_000 * MS), &rule);
        let sum = BusySum::from_bits(cache.word);
        // The reader read its clock before the worker did.
        assert_eq!(sum.recount(Nanos(0), Nanos(999 * MS)), Nanos(0));
        assert_eq!(sum.recount(Nanos(5 * MS), Nanos(1_002 * MS)), Nanos(2 * MS));
        // As much as the word holds, and more.
        for hours in [1, 39, 40, 77, 79, 200] {
            let now = Nanos((1_000 + hours * 3_600_000) * MS);
            let anew = sum.recount(Nanos(0), now);
            assert_eq!(anew.0, hours * 3_600_000 * MS % ROUND, "{hours} h");
            assert_eq!(sum.beyond(anew, Nanos(now.0 + MS)), Nanos(MS), "{hours} h");
        }
    }

    #[test]
    fn what_is_believed_is_late_by_an_interval_at_most_and_exact_after_a_flush() {
        for seed in 1..=40 {
            let (rule, mut rng, mut cache) = (lazy(), Rng::new(seed), Cache::new(4));
            let mut now = Nanos(u64::from(rng.below(1_000_000)));
            for _ in 0..3_000 {
                now.0 += u64::from(rng.below(400_000));
                let worker = rng.below(4) as usize;
                cache.turns(worker, rng.below(2) == 0, now, &rule);
                // Dry or busy, a worker says so within an interval, or at its next turn: that is what a search, or a
                // park that flushes, stands for here.
                for worker in 0..4 {
                    let (told, (_, since, busy)) = (cache.workers[worker].told, cache.truth[worker]);
                    if !busy && told.running && now.since(since).0 > MS {
                        let delta = cache.workers[worker].flush(now);
                        cache.tell(delta);
                    }
                }
                let late = cache.believed(now).abs_diff(cache.is_truly(now));
                assert!(late <= 4 * (2 * MS + 400_000), "seed {seed}: {late} ns");
            }
            for worker in 0..4 {
                let delta = cache.workers[worker].flush(now);
                cache.tell(delta);
            }
            assert_eq!(cache.believed(now), cache.is_truly(now), "seed {seed}");
        }
    }

    #[test]
    fn a_worker_tells_at_most_twice_an_interval() {
        let (rule, mut cache) = (lazy(), Cache::new(1));
        // 5 us busy, 5 us dry.
        for step in 0..200_000_u64 {
            cache.turns(0, step % 2 == 0, Nanos(step * 5_000), &rule);
        }
        assert!((990..=2_000).contains(&cache.told), "{}", cache.told);
        let now = Nanos(1_000 * MS);
        let share = cache.believed(now) * 1024 / now.0;
        assert!((510..=514).contains(&share), "{share}");
    }

    #[test]
    fn the_eager_rule_tells_every_change() {
        let mut cache = Cache::new(1);
        for step in 1..=100_u64 {
            cache.turns(0, step % 2 == 0, Nanos(step), &LazyRule::EAGER);
            assert_eq!(cache.believed(Nanos(step)), cache.is_truly(Nanos(step)));
        }
        assert_eq!(cache.told, 99, "the first was none");
    }

    /// Times are added modulo 2^48, and so is what was counted.
    #[test]
    fn times_wrap_around() {
        let rule = lazy();
        for start in [(1_u64 << 48) - 5, 1 << 63, u64::MAX - 100 * MS] {
            let (mut worker, mut word) = (BusyCounter::default(), 0_u64);
            word = word.wrapping_add(worker.begins(Nanos(start)));
            let sum = BusySum::from_bits(word);
            assert_eq!(sum.beyond(Nanos(0), Nanos(start + 7)), Nanos(7));
            assert_eq!(
                sum.beyond(Nanos(9), Nanos(start + 7)),
                Nanos(0),
                "less than was believed"
            );
            let counted = Nanos(1 << 50);
            let before = BusyCounter {
                busy: counted.0,
                ..BusyCounter::default()
            };
            let mut worker = before;
            let word = worker.flush(Nanos(start)).wrapping_add(worker.begins(Nanos(start)));
            assert_eq!(
                BusySum::from_bits(word).beyond(counted, Nanos(start + 3)),
                Nanos(3),
                "{start}"
            );
            assert_eq!(worker.goes_on(Nanos(start + 50 * MS), &rule), 0);
        }
    }
}
