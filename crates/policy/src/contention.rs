//! Whether workers that are woken have the CPUs for themselves.

use crate::Nanos;

/// What of its time a worker that was woken was ready to run and did not, because others had the CPUs. A worker keeps one for itself.
///
/// The time from unpark to first instruction does not show that the CPUs are taken: a kernel that lets who was woken run at once lets
/// somebody else wait for it, a client or another worker, and takes the CPU back in the middle of a task. Where as many threads want to run as there are
/// CPUs, one worker more does no more work. So a worker looks now and then, after it was woken, how long it waits for a CPU until it sleeps
/// again; a look counts by its length, and half as much with each that follows.
///
/// What one waits others run, and the other way round: with whom it takes turns waits as long as it does. So of the time that it was up, twice what it waited
/// is lost, and the rest is gained. A wake-up decides about one interval of the sentinel, who comes for what nobody was woken for, and so it
/// [costs](Self::cost) what is lost for each interval that is gained.
///
/// ```
/// use quadrille_policy::{Contention, Nanos};
///
/// let interval = Nanos::from_micros(500);
/// let mut contention = Contention::default();
/// assert_eq!(contention.cost(interval), Nanos(0));
/// // Three threads on two CPUs: each waits for a third of the time.
/// contention.looked(Nanos::from_micros(900), Nanos::from_micros(300));
/// assert_eq!(contention.cost(interval), Nanos::from_millis(1));
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

    /// What is lost for each `interval` of the sentinel that is gained; without end if nothing is.
    #[must_use]
    pub fn cost(&self, interval: Nanos) -> Nanos {
        if self.waited == 0 {
            return Nanos(0);
        }
        let lost = self.waited.saturating_mul(2);
        let gained = self.up.saturating_sub(lost);
        let cost = (u128::from(lost) * u128::from(interval.0)).checked_div(u128::from(gained));
        Nanos(cost.and_then(|cost| u64::try_from(cost).ok()).unwrap_or(u64::MAX))
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
    fn what_is_lost_is_weighed_against_what_is_gained() {
        // Of so many parts one waited: as many threads more than CPUs, shared by all.
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
    }

    #[test]
    fn a_look_counts_by_its_length() {
        let short = (1_000, 1_000);
        let long = (1_000_000, 0);
        assert_eq!(after(&[long, short]).0 / 1_000, 2);
        assert!(after(&[short, long]) < Nanos::from_micros(1));
    }

    #[test]
    fn old_looks_fade() {
        let mut contention = Contention::default();
        contention.looked(Nanos(1_000_000), Nanos(1_000_000));
        let mut costs = Vec::new();
        for _ in 0..12 {
            contention.looked(Nanos(1_000_000), Nanos(0));
            costs.push(contention.cost(INTERVAL));
        }
        assert!(costs.is_sorted_by(|before, after| after < before), "{costs:?}");
        assert!(costs[11] < Nanos::from_micros(1), "{costs:?}");
    }
}
