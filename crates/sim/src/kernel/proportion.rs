//! How many CPUs a search looks at where no utilisation limits it: as many as the time that this CPU was idle lately
//! allows (`SIS_PROP`, the default of Linux 4.13 to 5.19), the rule that the cut-off by utilisation was measured
//! against, and replaced.
//!
//! A CPU knows for how long it is idle on average, and what its searches took. The quotient, times the CPUs of the
//! cache, is how many it looks at; at least three. What searches take is subtracted from the idle time, which is halved
//! in every tick that the CPU stays busy; half of the average is what it begins with whenever it was idle.

use quadrille_policy::Nanos;

/// A tick, at 1000 a second as in the kernel's default configuration for x86-64.
const TICK: Nanos = Nanos::from_millis(1);

/// What one CPU knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proportion {
    /// Moving average of what its searches took.
    cost: Nanos,
    /// What is left of its idle time (`wake_avg_idle`).
    idle: Nanos,
    /// The tick as of which that is.
    tick: u64,
}

impl Proportion {
    pub(super) fn new(average_idle: Nanos) -> Self {
        Self {
            cost: Nanos(0),
            idle: average_idle,
            tick: 0,
        }
    }

    /// The CPU was idle, and is so on average.
    pub(super) fn was_idle(&mut self, average: Nanos, now: Nanos) {
        self.idle = Nanos(average.0 / 2);
        self.tick = now.0 / TICK.0;
    }

    /// How many of `cpus` it may look at.
    pub(super) fn depth(&mut self, cpus: u64, now: Nanos) -> u64 {
        let tick = now.0 / TICK.0;
        let passed = tick.saturating_sub(self.tick);
        self.idle.0 = self
            .idle
            .0
            .checked_shr(u32::try_from(passed).unwrap_or(u32::MAX))
            .unwrap_or(0);
        self.tick = self.tick.max(tick);
        let (cost, idle) = (self.cost.0 + 1, self.idle.0 * cpus);
        // The kernel counts before it looks, and stops at zero.
        let counted = if idle > 4 * cost { idle / cost } else { 4 };
        counted.saturating_sub(1).min(cpus)
    }

    /// A search took so long.
    pub(super) fn searched(&mut self, took: Nanos) {
        self.idle.0 = self.idle.0.saturating_sub(took.0);
        self.cost.0 = self.cost.0 - self.cost.0 / 8 + took.0 / 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    #[test]
    fn a_cpu_that_was_idle_looks_at_all_and_pays_for_it() {
        let mut cpu = Proportion::new(Nanos(0));
        cpu.searched(Nanos(80 * US));
        cpu.was_idle(Nanos(20 * US), Nanos(0)); // 10 us, and a search takes 10
        assert_eq!(cpu.depth(48, Nanos(0)), 46);
        cpu.searched(Nanos(8 * US));
        assert_eq!(cpu.depth(48, Nanos(0)), 8); // a fifth of ten CPUs' worth
    }

    #[test]
    fn one_that_stays_busy_looks_at_three() {
        let mut cpu = Proportion::new(Nanos(1_000 * US));
        cpu.searched(Nanos(24 * US));
        let depths = [0, 4, 8, 12, 16].map(|ms| cpu.depth(48, Nanos::from_millis(ms)));
        assert!(depths.is_sorted_by(|a, b| a >= b), "{depths:?}");
        assert_eq!((depths[0], depths[4]), (48, 3));
    }
}
