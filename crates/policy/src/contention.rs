//! Whether workers that are woken have the CPUs for themselves.

use crate::{Config, Nanos};

/// A look that took longer counts as one of so many ns.
const LOOK_MAX: u64 = 1_000_000_000;

/// After so many periods ([`WakeCost::look`](crate::WakeCost::look)) without a look that ended, what was seen says
/// nothing any more: 1 s with looks each 10 ms.
const STALE: u64 = 100;

/// How much of the time that it was up a worker, once unparked, waited for a CPU that others had. Each worker keeps its
/// own.
///
/// The time from unpark to first instruction does not show that the CPUs are taken: a kernel that lets who was woken
/// run at once lets somebody else wait for it, a client or another worker, and takes the CPU back in the middle of a
/// task. Where more threads want to run than there are CPUs, one worker more does little more work. So a worker looks
/// now and then, after it was unparked, how long it waits for a CPU until it lies down again; a look counts by its
/// length, up to a second, and half as much with each that follows. Who gets up by itself, for events, a timer or as
/// sentinel, does not look.
///
/// Whoever has the CPU meanwhile is taken to wait as long in turn, as two threads do that share one. So of the time
/// that the worker was up, twice what it waited is lost and the rest is gained. A wake-up that is left out is made good
/// by the sentinel after one interval; so a wake-up [costs](Self::cost) what is lost for each interval that is gained.
/// Where a quota stops all threads at once, that counts as waiting, too, though nobody runs meanwhile.
///
/// ```
/// use quadrille_policy::{Config, Contention, Nanos};
///
/// let config = Config::default();
/// let mut contention = Contention::default();
/// let now = Nanos::from_millis(20);
/// assert_eq!(contention.cost(now, &config), Nanos(0));
/// // Three threads on two CPUs: each waits for a third of the time.
/// contention.looked(now, Nanos::from_micros(900), Nanos::from_micros(300), &config);
/// assert_eq!(contention.cost(now, &config), Nanos::from_millis(1));
/// // Nothing was seen for a second.
/// assert_eq!(contention.cost(Nanos::from_millis(1_020), &config), Nanos(0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contention {
    /// Time between getting up and lying down, ns.
    up: u64,
    /// Of that, ready and not run.
    waited: u64,
    /// When the last look ended.
    seen: Nanos,
}

impl Contention {
    /// An unparked worker lies down `now`, after it was `up` for so long, and `waited` of that for a CPU.
    pub fn looked(&mut self, now: Nanos, up: Nanos, waited: Nanos, config: &Config) {
        if self.is_stale(now, config) {
            *self = Self::default();
        }
        self.seen = now;
        // By the same factor, if at all.
        let (longest, waited) = (up.0.max(LOOK_MAX), waited.min(up).0);
        let part = |time: u64| {
            u64::try_from(u128::from(time) * u128::from(LOOK_MAX) / u128::from(longest)).unwrap_or(LOOK_MAX)
        };
        self.up = self.up / 2 + part(up.0);
        self.waited = self.waited / 2 + part(waited);
    }

    /// What is lost for each interval of the sentinel that is gained; without end if nothing is.
    #[must_use]
    pub fn cost(&self, now: Nanos, config: &Config) -> Nanos {
        if self.waited == 0 || self.is_stale(now, config) {
            return Nanos(0);
        }
        let lost = self.waited.saturating_mul(2);
        let gained = self.up.saturating_sub(lost);
        let cost = (u128::from(lost) * u128::from(config.sentinel_interval.0)).checked_div(u128::from(gained));
        Nanos(cost.and_then(|cost| u64::try_from(cost).ok()).unwrap_or(u64::MAX))
    }

    fn is_stale(&self, now: Nanos, config: &Config) -> bool {
        now.since(self.seen).0 / STALE >= config.wake_cost.look.0
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const INTERVAL: Nanos = Nanos::from_micros(500);
    const NOW: Nanos = Nanos(1);

    fn after(looks: &[(u64, u64)]) -> Nanos {
        let mut contention = Contention::default();
        for &(up, waited) in looks {
            contention.looked(NOW, Nanos(up), Nanos(waited), &Config::default());
        }
        contention.cost(NOW, &Config::default())
    }

    #[test]
    fn who_has_a_cpu_for_itself_costs_nothing() {
        assert_eq!(after(&[]), Nanos(0));
        assert_eq!(after(&[(0, 0)]), Nanos(0), "no division by zero");
        assert_eq!(after(&[(1_000_000, 0); 3]), Nanos(0));
    }

    #[test]
    fn what_is_lost_is_weighed_against_what_is_gained() {
        // What one of n threads waits that share n - 1 CPUs.
        for (parts, us) in [(17, 66), (5, 333), (4, 500), (3, 1_000)] {
            assert_eq!(after(&[(parts * 1_000, 1_000)]).0 / 1_000, us, "1 of {parts}");
        }
        for waited in [500, 700, 1_000, u64::MAX] {
            assert_eq!(
                after(&[(1_000, waited)]),
                Nanos(u64::MAX),
                "{waited} of 1000: nothing is gained"
            );
        }
        assert_eq!(after(&[(u64::MAX, u64::MAX); 9]), Nanos(u64::MAX), "no overflow");
        assert_eq!(after(&[(u64::MAX, u64::MAX / 4)]).0 / 1_000, 499, "no overflow");
    }

    #[test]
    fn a_look_counts_by_its_length() {
        let short = (1_000, 1_000);
        let long = (1_000_000, 0);
        assert_eq!(after(&[long, short]).0 / 1_000, 2);
        assert!(after(&[short, long]) < Nanos::from_micros(1));
        let (hour, second) = ((3_600_000_000_000, 0), (1_000_000_000, 500_000_000));
        assert_eq!(
            after(&[hour, second]),
            Nanos(2 * INTERVAL.0),
            "as if it had been of a second"
        );
    }

    #[test]
    fn old_looks_fade() {
        let mut contention = Contention::default();
        let config = Config::default();
        contention.looked(NOW, Nanos(1_000_000), Nanos(1_000_000), &config);
        let mut costs = Vec::new();
        for _ in 0..12 {
            contention.looked(NOW, Nanos(1_000_000), Nanos(0), &config);
            costs.push(contention.cost(NOW, &config));
        }
        assert!(costs.is_sorted_by(|before, after| after < before), "{costs:?}");
        assert!(costs[11] < Nanos::from_micros(1), "{costs:?}");
    }

    /// It is neither counted nor mixed with what is seen later.
    #[test]
    fn what_was_seen_long_ago_says_nothing() {
        let config = Config::default();
        let last = |period: u64| Nanos(NOW.0 + STALE * config.wake_cost.look.0 - period);
        for (now, is_stale) in [(last(1), false), (last(0), true)] {
            let mut contention = Contention::default();
            contention.looked(NOW, Nanos(3_000), Nanos(1_000), &config);
            assert_eq!(contention.cost(now, &config) == Nanos(0), is_stale);
            contention.looked(now, Nanos(3_000), Nanos(0), &config);
            assert_eq!(contention.cost(now, &config) == Nanos(0), is_stale);
        }
    }
}
