//! What waking a worker costs, as measured lately.

use quadrille_policy::{Nanos, Policy};

use super::Shared;
use crate::lines;
use crate::primitives::{AtomicU64, Ordering};

/// The moving average, and when some of it was forgotten.
#[derive(Debug)]
pub(super) struct MeasuredWake {
    /// From unpark to the first instruction, and what is lost where others want the CPUs (`contended`), ns.
    average: AtomicU64,
    /// By the clock.
    forgotten_at: AtomicU64,
}

impl MeasuredWake {
    pub(super) fn new(policy: &Policy) -> Self {
        Self {
            average: AtomicU64::new(policy.config.wake_cost.first.0),
            forgotten_at: AtomicU64::new(0),
        }
    }
}

impl Shared {
    /// Measured cost of waking a parked worker, contention for the CPUs included.
    #[inline]
    pub(crate) fn wake_cost(&self) -> Nanos {
        lines::touch(&self.wake_cost);
        // Ordering: Relaxed; an estimate.
        Nanos(self.wake_cost.average.load(Ordering::Relaxed))
    }

    /// Takes a measurement of the cost of a wake-up into the moving average: of what was known before, what is old is
    /// forgotten first.
    pub(super) fn measured_wake(&self, cost: Nanos, now: Nanos) {
        self.forget_wake(now);
        let average = self.policy.measured_wake(self.wake_cost(), cost);
        // Ordering: Relaxed; an estimate; a lost update does no harm.
        self.wake_cost.average.store(average.0, Ordering::Relaxed);
    }

    /// Forgets some of what was measured, by the intervals of the sentinel since somebody did so last: by time, whoever
    /// looks and how often.
    pub(super) fn forget_wake(&self, now: Nanos) {
        let MeasuredWake { average, forgotten_at } = &*self.wake_cost;
        // Ordering: Relaxed, here and below; estimates, and of two who come at once the second forgets the same again
        // at most.
        let at = Nanos(forgotten_at.load(Ordering::Relaxed));
        let intervals = now.since(at).0 / self.policy.config.sentinel_interval.0;
        if intervals == 0 {
            return;
        }
        forgotten_at.store(now.0, Ordering::Relaxed);
        let measured = self.wake_cost();
        let left = self.policy.forget_wake(measured, intervals);
        if left != measured {
            average.store(left.0, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::super::still::Still;
    use super::*;

    /// Who is no longer woken because that was dear is no longer measured; what it cost is forgotten with time.
    #[test]
    fn what_a_wake_up_cost_is_forgotten() {
        let still = Still::new("core:2", "default");
        let (shared, interval) = (&*still.shared, still.shared.policy.config.sentinel_interval.0);
        let kept = shared.policy.config.wake_cost.kept;
        let at = |intervals: u64| Nanos(1_000_000_000 + intervals * interval);
        (0..32).for_each(|_| shared.measured_wake(Nanos::from_millis(10), at(0)));
        let dear = shared.wake_cost();
        assert!(dear > Nanos::from_millis(6), "{dear}");
        shared.forget_wake(Nanos(at(1).0 - 1));
        assert_eq!(shared.wake_cost(), dear, "no interval has passed");
        shared.forget_wake(at(1));
        let after_one = shared.wake_cost();
        assert!(after_one < dear);
        (0..9).for_each(|_| shared.forget_wake(at(1)));
        assert_eq!(shared.wake_cost(), after_one, "however many look");
        shared.forget_wake(at(1_001));
        assert!(shared.wake_cost() < Nanos(after_one.0 / 10), "however few");
        shared.forget_wake(at(10_000));
        assert!(shared.wake_cost().0 - kept.0 < 256);
    }
}
