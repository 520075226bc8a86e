//! Policy 5: counts that others see a little late.
//!
//! From Aaron Lu's change to Linux 6.7: a sum over all workers is kept by everybody adding to one word, and that word's
//! cache line is what workers then wait for. So a worker counts for itself and adds to the sum only if at least an
//! interval has passed *and* the count moved by more than 1/64 of what was published. Two years later the kernel's
//! version turned out to lose what a worker had not published when it went idle for good; hence
//! [`flush`](LazyCounter::flush) before parking, at exit and before any exact decision.
//!
//! For load, occupancy and statistics only, and for utilisation in a form of its own
//! ([`BusyCounter`](crate::BusyCounter)). How many workers are parked or searching, whether there is work and whether
//! all is done are exact counts of the mechanism's.

use crate::{Nanos, config::LazyCounters};

/// When a change is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LazyRule {
    interval: Nanos,
    threshold_div: u32,
}

impl LazyRule {
    /// Every change at once.
    pub const EAGER: Self = Self {
        interval: Nanos(0),
        threshold_div: u32::MAX,
    };

    /// The rule with these constants, whatever their mode;
    /// [`Policy::lazy_rule`](crate::Policy::lazy_rule) asks that too.
    #[must_use]
    pub fn new(config: &LazyCounters) -> Self {
        Self {
            interval: config.interval,
            threshold_div: config.threshold_div.max(1),
        }
    }

    /// Whether it may be time again, so long after the last publication.
    #[inline]
    pub(crate) fn has_passed(&self, since_last: Nanos) -> bool {
        since_last >= self.interval
    }

    /// Whether a change is more than the fraction of `whole` that others need not know.
    #[inline]
    pub(crate) fn exceeds(&self, change: u64, whole: u64) -> bool {
        change > whole / u64::from(self.threshold_div)
    }
}

/// A worker's share of a sum. The published shares of all workers add up to the sum.
///
/// ```
/// use quadrille_policy::{LazyCounter, LazyCounters, LazyRule, Nanos};
///
/// let rule = LazyRule::new(&LazyCounters::default());
/// let mut tasks = LazyCounter::default();
/// let mut sum = 0; // shared by all workers
/// tasks.add(3);
/// sum += tasks.due(Nanos::from_micros(10), &rule).unwrap_or(0);
/// assert_eq!(sum, 0); // too soon
/// sum += tasks.flush(Nanos::from_micros(20)); // about to park
/// assert_eq!(sum, 3);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LazyCounter {
    local: i64,
    published: i64,
    last: Nanos,
}

impl LazyCounter {
    /// Changes the worker's own count.
    #[inline]
    pub fn add(&mut self, delta: i64) {
        self.local = self.local.wrapping_add(delta);
    }

    /// The worker's own count, exact.
    #[inline]
    #[must_use]
    pub const fn get(&self) -> i64 {
        self.local
    }

    /// What to add to the shared sum now, if it is time; asked at task switches. The caller adds it.
    #[inline]
    #[must_use = "the shared sum misses what is not added to it"]
    pub fn due(&mut self, now: Nanos, rule: &LazyRule) -> Option<i64> {
        if !rule.has_passed(now.since(self.last)) {
            return None;
        }
        let delta = self.local.wrapping_sub(self.published);
        rule.exceeds(delta.unsigned_abs(), self.published.unsigned_abs())
            .then(|| self.flush(now))
    }

    /// What to add to the shared sum so that it is exact, 0 if it is. The caller adds it.
    #[inline]
    #[must_use = "the shared sum misses what is not added to it"]
    pub fn flush(&mut self, now: Nanos) -> i64 {
        let delta = self.local.wrapping_sub(self.published);
        self.published = self.local;
        self.last = now;
        delta
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn the_error_is_bounded_and_gone_after_a_flush() {
        for seed in 1..=50 {
            let mut rng = Rng::new(seed);
            let rule = LazyRule::new(&LazyCounters::default());
            let mut workers = [LazyCounter::default(); 4];
            // Changes since the last time that the interval had passed, a worker: what the clock may hide.
            let mut hidden = [0_u64; 4];
            let (mut sum, mut now) = (0_i64, Nanos(0));
            for _ in 0..2_000 {
                now.0 += u64::from(rng.below(300_000));
                let i = rng.below(4) as usize;
                let delta = i64::from(rng.below(200)) - 90;
                workers[i].add(delta);
                hidden[i] += delta.unsigned_abs();
                let asked_in_time = now.since(workers[i].last) >= rule.interval;
                sum += workers[i].due(now, &rule).unwrap_or(0);
                if asked_in_time {
                    hidden[i] = 0;
                }
                let error = workers[i].local.abs_diff(workers[i].published);
                let bound = workers[i].published.unsigned_abs() / 64 + hidden[i];
                assert!(error <= bound, "seed {seed}: {error} > {bound}");
            }
            let published: i64 = workers.iter().map(|worker| worker.published).sum();
            assert_eq!(sum, published, "seed {seed}");
            for worker in &mut workers {
                sum += worker.flush(now);
            }
            let exact: i64 = workers.iter().map(LazyCounter::get).sum();
            assert_eq!(sum, exact, "seed {seed}");
        }
    }

    fn check(published: i64, delta: i64, after: Nanos, rule: &LazyRule, due: Option<i64>) {
        let mut counter = LazyCounter::default();
        counter.add(published);
        assert_eq!(counter.flush(Nanos(7)), published);
        counter.add(delta);
        let now = Nanos(7 + after.0);
        assert_eq!(counter.due(now, rule), due, "{published} {delta:+} after {after}");
        // What was due is due once.
        assert!(due.is_none() || counter.due(now, rule).is_none());
    }

    #[test]
    fn both_the_interval_and_the_threshold_must_be_passed() {
        let rule = LazyRule::new(&LazyCounters::default());
        let ms = Nanos::from_millis(1);
        check(0, 1, ms, &rule, Some(1));
        check(0, 1, Nanos(ms.0 - 1), &rule, None);
        check(0, 0, ms, &rule, None);
        check(63, 1, ms, &rule, Some(1)); // integer division: below 64 any change counts
        check(64, 1, ms, &rule, None);
        check(64, -2, ms, &rule, Some(-2));
        check(-6_400, 100, ms, &rule, None);
        check(-6_400, 101, ms, &rule, Some(101));
        check(6_400, 1_000, Nanos(0), &rule, None);
        check(i64::MAX, i64::MIN, ms, &rule, Some(i64::MIN));
    }

    #[test]
    fn the_eager_rule_publishes_every_change() {
        for published in [0, 1, 64, 1_000_000, -5] {
            check(published, 1, Nanos(0), &LazyRule::EAGER, Some(1));
            check(published, 0, Nanos(0), &LazyRule::EAGER, None);
        }
    }
}
