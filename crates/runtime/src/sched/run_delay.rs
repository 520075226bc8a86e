//! A worker whose CPUs are wanted by others: it notices, and from then on may run anywhere in its LLC, or, if it
//! already might, on all CPUs.
//!
//! Several programs that all pin to the first CPUs is what made other runtimes take back pinning by default. The kernel
//! counts how long a thread was ready and did not run; a worker reads that about once a second, between two tasks.

use quadrille_policy::{Nanos, Pin};
use quadrille_topology::{PuSet, set_current_affinity};

use crate::sys::thread::run_delay;

/// What a worker remembers from one look to the next.
#[derive(Debug)]
pub(super) struct RunDelay {
    /// Where the worker may run once its CPUs are crowded; `None`: it may there already.
    fallback: Option<PuSet>,
    looked: Nanos,
    /// [`Pin::look`].
    period: Nanos,
    /// [`Pin::delay_div`].
    delay_div: u32,
    /// The kernel's count at the last look. `None` before the first one, which says nothing yet: a file is read when a
    /// worker has lasted, not when it begins.
    delay: Option<u64>,
}

impl RunDelay {
    /// For the calling thread, which is bound and may fall back to `fallback`.
    pub(super) fn new(fallback: Option<PuSet>, now: Nanos, config: &Pin) -> Self {
        Self {
            period: config.look,
            delay_div: config.delay_div,
            delay: None,
            looked: now,
            fallback,
        }
    }

    /// Once a period: widens the calling thread's mask if it had to wait for its CPUs. True if it did that now.
    pub(super) fn look(&mut self, now: Nanos) -> bool {
        if self.fallback.is_none() || now.since(self.looked) < self.period {
            return false;
        }
        let Some(delay) = run_delay() else {
            // A kernel that doesn't count will not begin to.
            self.fallback = None;
            return false;
        };
        let passed = now.since(std::mem::replace(&mut self.looked, now));
        let before = self.delay.replace(delay).unwrap_or(delay);
        let crowded = is_crowded(delay.saturating_sub(before), passed, self.delay_div);
        // A mask that the kernel refuses, because the machine has changed, leaves the worker where it is.
        crowded
            && self
                .fallback
                .take()
                .is_some_and(|mask| set_current_affinity(&mask).is_ok())
    }
}

/// Whether a thread that was ready for `delay_ns` of `period` without running should go elsewhere.
fn is_crowded(delay_ns: u64, period: Nanos, delay_div: u32) -> bool {
    delay_ns > period.0 / u64::from(delay_div.max(1))
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;

    const PERIOD: Nanos = Nanos(1_000_000_000);

    #[test]
    fn more_than_a_tenth_is_crowded() {
        assert!(!is_crowded(0, PERIOD, 10));
        assert!(!is_crowded(100_000_000, PERIOD, 10));
        assert!(is_crowded(100_000_001, PERIOD, 10));
        assert!(!is_crowded(100_000_001, PERIOD, 9));
        assert!(!is_crowded(900_000_000, Nanos(10 * PERIOD.0), 10));
    }

    #[test]
    fn without_a_fallback_nothing_is_read() {
        let mut delay = RunDelay::new(None, Nanos(0), &Pin::default());
        assert!(!delay.look(Nanos(u64::MAX)));
        assert_eq!(delay.looked, Nanos(0));
    }

    #[test]
    fn it_looks_once_a_period() {
        let mask: PuSet = (0..1024).collect();
        let mut delay = RunDelay::new(Some(mask), Nanos(0), &Pin::default());
        assert!(!delay.look(Nanos(PERIOD.0 - 1)));
        assert_eq!(delay.looked, Nanos(0));
        // Of a thousand seconds this thread has not waited a hundred.
        assert!(!delay.look(Nanos(1000 * PERIOD.0)));
        assert!(delay.fallback.is_none() || delay.looked == Nanos(1000 * PERIOD.0));
    }
}
