//! Whether workers that are woken have the CPUs for themselves.

use crate::Nanos;

/// What of its time a worker that was woken was ready to run and did not, because others had the CPUs. A worker keeps one for itself.
///
/// The time from unpark to first instruction does not show that the CPUs are taken: a kernel that lets who was woken run at once lets
/// somebody else wait for it, a client or another worker, and takes the CPU back in the middle of a task. Where as many threads want to run as there are
/// CPUs, one worker more does no more work. So a worker looks now and then, after it was woken, how long it waits for a CPU until it sleeps
/// again; a look counts by its length, and half as much with each that follows.
///
/// A wake-up decides about one interval of the sentinel, who comes for what nobody was woken for. If of that interval
/// the woken worker waits a part, others, with whom it takes turns, wait as long; both are part of what a wake-up
/// [costs](Self::cost).
///
/// ```
/// use quadrille_policy::{Contention, Nanos};
///
/// let interval = Nanos::from_micros(500);
/// let mut contention = Contention::default();
/// assert_eq!(contention.cost(interval), Nanos(0));
/// // Three threads on two CPUs: each waits for a third of the time.
/// contention.looked(Nanos::from_micros(900), Nanos::from_micros(300));
/// assert_eq!(contention.cost(interval), Nanos(333_333));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contention {
    /// Time between getting up and going to sleep, ns.
    up: u64,
    /// Of that, ready and not run.
    waited: u64,
}

impl Contention {
    /// A woken worker has gone to sleep again `up` later, and `waited` of that for a CPU.
    pub fn looked(&mut self, up: Nanos, waited: Nanos) {
        self.up = self.up / 2 + up.0.min(u64::MAX / 2);
        self.waited = self.waited / 2 + waited.min(up).0.min(u64::MAX / 2);
    }

    /// What all wait for a CPU because one is woken, in an `interval` of the sentinel: at most twice that.
    #[must_use]
    pub fn cost(&self, interval: Nanos) -> Nanos {
        let waited = u128::from(self.waited) * 2 * u128::from(interval.0);
        // `waited` is `up` at most.
        let cost = waited.checked_div(u128::from(self.up)).unwrap_or(0);
        Nanos(u64::try_from(cost).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const INTERVAL: Nanos = Nanos::from_micros(500);

    fn after(looks: &[(u64, u64)]) -> Nanos {
        let mut contention = Contention::default();
        for &(up, waited) in looks {
            contention.looked(Nanos(up), Nanos(waited));
        }
        contention.cost(INTERVAL)
    }

    #[test]
    fn who_has_a_cpu_for_itself_costs_nothing() {
        assert_eq!(after(&[]), Nanos(0));
        assert_eq!(after(&[(0, 0)]), Nanos(0), "no division by zero");
        assert_eq!(after(&[(1_000_000, 0); 3]), Nanos(0));
    }

    #[test]
    fn a_look_counts_by_its_length() {
        assert_eq!(after(&[(1_000, 500)]), INTERVAL);
        assert_eq!(after(&[(1_000_000, 0), (1_000, 1_000)]).0 / 1_000, 1);
        assert!(after(&[(1_000, 1_000), (1_000_000, 0)]) < Nanos::from_micros(1));
    }

    #[test]
    fn old_looks_fade() {
        let mut contention = Contention::default();
        contention.looked(Nanos(1_000), Nanos(1_000));
        let costs = (0..10).map(|_| {
            contention.looked(Nanos(1_000), Nanos(0));
            contention.cost(INTERVAL)
        });
        let costs: Vec<_> = costs.collect();
        assert!(costs.is_sorted_by(|before, after| after < before), "{costs:?}");
        assert!(costs[9] < Nanos::from_micros(1), "{costs:?}");
    }

    #[test]
    fn it_costs_two_intervals_at_most() {
        assert_eq!(
            after(&[(1_000, u64::MAX)]),
            Nanos(2 * INTERVAL.0),
            "waited for no longer than it was up"
        );
        assert_eq!(after(&[(u64::MAX, u64::MAX); 9]), Nanos(2 * INTERVAL.0), "no overflow");
    }
}
