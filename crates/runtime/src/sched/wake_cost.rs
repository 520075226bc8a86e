//! What waking a worker costs, as measured lately.

use quadrille_policy::{Nanos, Policy, Waking};

use super::Shared;
use crate::lines;
use crate::primitives::{AtomicU64, Ordering};

/// The moving averages, and when some of them was forgotten.
#[derive(Debug)]
pub(super) struct MeasuredWake {
    /// [`Waking::cost`], ns.
    cost: AtomicU64,
    /// [`Waking::lost`], ns.
    lost: AtomicU64,
    /// By the clock.
    forgotten_at: AtomicU64,
}

impl MeasuredWake {
    pub(super) fn new(policy: &Policy) -> Self {
        let Waking { cost, lost } = policy.first_waking();
        Self {
            cost: AtomicU64::new(cost.0),
            lost: AtomicU64::new(lost.0),
            forgotten_at: AtomicU64::new(0),
        }
    }
}

impl Shared {
    /// Measured cost of waking a parked worker.
    #[inline]
    pub(crate) fn wake_cost(&self) -> Nanos {
        lines::touch(&self.wake_cost);
        // Ordering: Relaxed; an estimate.
        Nanos(self.wake_cost.cost.load(Ordering::Relaxed))
    }

    /// The same with what is lost where others want the CPUs.
    #[inline]
    pub(crate) fn waking(&self) -> Waking {
        Waking {
            cost: self.wake_cost(),
            // Ordering: Relaxed; an estimate, and no harm if the two are not of one moment.
            lost: Nanos(self.wake_cost.lost.load(Ordering::Relaxed)),
        }
    }

    fn set_waking(&self, waking: Waking) {
        // Ordering: Relaxed; estimates; a lost update does no harm.
        self.wake_cost.cost.store(waking.cost.0, Ordering::Relaxed);
        self.wake_cost.lost.store(waking.lost.0, Ordering::Relaxed);
    }

    /// Takes a measurement of a wake-up into the moving averages: of what was known before, what is old is forgotten first.
    pub(super) fn measured_wake(&self, measured: Waking, now: Nanos) {
        self.forget_wake(now);
        self.set_waking(self.policy.measured_wake(self.waking(), measured));
    }

    /// Forgets some of what was measured, by the intervals of the sentinel since somebody did so last: by time, whoever looks and how often.
    pub(super) fn forget_wake(&self, now: Nanos) {
        let forgotten_at = &self.wake_cost.forgotten_at;
        // Ordering: Relaxed, here and below; estimates, and of two who come at once the second forgets the same again at most.
        let at = Nanos(forgotten_at.load(Ordering::Relaxed));
        let intervals = now.since(at).0 / self.policy.config.sentinel_interval.0;
        if intervals == 0 {
            return;
        }
        forgotten_at.store(now.0, Ordering::Relaxed);
        let measured = self.waking();
        let left = self.policy.forget_wake(measured, intervals);
        if left != measured {
            self.set_waking(left);
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
        let measured = Waking {
            cost: Nanos::from_millis(10),
            lost: Nanos(u64::MAX),
        };
        (0..32).for_each(|_| shared.measured_wake(measured, at(0)));
        let dear = shared.waking();
        let least = dear.cost.min(dear.lost);
        assert!(least > Nanos::from_millis(6), "{dear:?}");
        shared.forget_wake(Nanos(at(1).0 - 1));
        assert_eq!(shared.waking(), dear, "no interval has passed");
        shared.forget_wake(at(1));
        let after_one = shared.waking();
        assert!(after_one.cost < dear.cost && after_one.lost < dear.lost);
        (0..9).for_each(|_| shared.forget_wake(at(1)));
        assert_eq!(shared.waking(), after_one, "however many look");
        shared.forget_wake(at(1_001));
        let later = shared.waking();
        let most = later.cost.max(later.lost);
        assert!(most < Nanos(after_one.cost.0 / 10), "however few: {later:?}");
        shared.forget_wake(at(10_000));
        let last = shared.waking();
        assert!(last.cost.0 - kept.0 < 256 && last.lost.0 < 256, "{last:?}");
    }
}
