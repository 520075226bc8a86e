//! Whether a thread that goes to sleep spins a little before, and for how long.

use crate::{Config, Nanos};

/// A worker does not spin if it gets up by itself within so many times the spin: with 50 us within 1 ms.
const NEAR_SPINS: u64 = 20;

/// How the last spins have ended, and so whether there is one before the next sleep. A worker keeps one for itself, so
/// does a thread that waits in `block_on`, and the threads for blocking work have one in common.
///
/// A spin as long as a wake-up costs is at most twice as dear as the best that can be done without knowing the future.
/// But where tasks come from outside, by readiness or time, the future is known well enough: nobody wakes this worker,
/// and what it spends others could use, who may be the ones that it waits for. So after 8 spins in a row without
/// success (`spin-vain`) it spins before each 16th sleep alone (`spin-probe`), until one succeeds.
///
/// ```
/// use quadrille_policy::{Config, Spins};
///
/// let config = Config::default();
/// let mut spins = Spins::default();
/// for _ in 0..8 {
///     assert!(spins.are_worth_it(&config));
///     spins.ended(false);
/// }
/// assert_eq!((0..160).filter(|_| spins.are_worth_it(&config)).count(), 10);
/// spins.ended(true);
/// assert!(spins.are_worth_it(&config));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spins {
    /// Spins in a row without success, as far as that can be counted.
    vain: u8,
    /// Sleeps without a spin since the last one.
    left_out: u8,
}

impl Spins {
    /// Of somebody who has not spun yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { vain: 0, left_out: 0 }
    }

    /// How long to spin: as long as a wake-up costs, and [`spin_max`](Config::spin_max) at most.
    #[inline]
    #[must_use]
    pub fn longest(config: &Config, wake_cost: Nanos) -> Nanos {
        config.spin_max.min(wake_cost)
    }

    /// How long to spin where two wake-ups may lie between what was done last and what comes next: as long as both
    /// cost, and [`spin_max`](Config::spin_max) at most. So the last worker that is awake looks for work before it
    /// announces itself idle, since the thread from which its next task comes may sleep; and so do threads outside, who
    /// wait for a worker that may.
    ///
    /// ```
    /// use quadrille_policy::{Config, Nanos, Spins};
    ///
    /// let config = Config::default();
    /// let cost = Nanos::from_micros(10);
    /// assert_eq!(Spins::longest(&config, cost), cost);
    /// assert_eq!(Spins::longest_for_two(&config, cost), Nanos::from_micros(20));
    /// assert_eq!(Spins::longest_for_two(&config, Nanos::from_millis(1)), config.spin_max);
    /// ```
    #[inline]
    #[must_use]
    pub fn longest_for_two(config: &Config, wake_cost: Nanos) -> Nanos {
        config.spin_max.min(Nanos(wake_cost.0.saturating_mul(2)))
    }

    /// Whether a worker that gets up by itself in `left`, for a timer, would spin most of the time if it did so each
    /// time for `spin`. It does not then.
    #[inline]
    #[must_use]
    pub fn would_fill(spin: Nanos, left: Nanos) -> bool {
        left.0 < spin.0.saturating_mul(NEAR_SPINS)
    }

    /// Whether to spin before this sleep.
    #[inline]
    #[must_use]
    pub fn are_worth_it(&mut self, config: &Config) -> bool {
        if self.vain < config.spin_vain {
            return true;
        }
        self.left_out = (self.left_out + 1) % config.spin_probe.max(1);
        self.left_out == 0
    }

    /// A spin has ended, with a wake-up for the worker or without.
    #[inline]
    pub fn ended(&mut self, woken: bool) {
        self.vain = if woken { 0 } else { self.vain.saturating_add(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spin_is_as_long_as_what_it_may_save() {
        let config = Config::default();
        let max = config.spin_max;
        for (cost, spin, linger) in [
            (Nanos(0), Nanos(0), Nanos(0)),
            (Nanos(7), Nanos(7), Nanos(14)),
            (max, max, max),
            (Nanos(u64::MAX), max, max),
        ] {
            let longest = (Spins::longest(&config, cost), Spins::longest_for_two(&config, cost));
            assert_eq!(longest, (spin, linger));
        }
    }

    #[test]
    fn who_gets_up_within_twenty_spins_does_not_spin() {
        let spin = Nanos(50);
        let fills = [0, 999, 1000, u64::MAX].map(|left| Spins::would_fill(spin, Nanos(left)));
        assert_eq!(fills, [true, true, false, false]);
        assert!(!Spins::would_fill(Nanos(0), Nanos(0)), "there is no spin");
    }

    /// Of so many sleeps, before how many a worker spins whose spins all end so.
    fn spins(spins: &mut Spins, sleeps: u32, woken: bool) -> u32 {
        by("default", spins, sleeps, woken)
    }

    fn by(config: &str, spins: &mut Spins, sleeps: u32, woken: bool) -> u32 {
        let config: Config = config.parse().unwrap();
        let worth_it = |_: &u32| {
            let is_worth_it = spins.are_worth_it(&config);
            if is_worth_it {
                spins.ended(woken);
            }
            is_worth_it
        };
        u32::try_from((0..sleeps).filter(worth_it).count()).unwrap()
    }

    #[test]
    fn what_pays_is_done_always() {
        assert_eq!(spins(&mut Spins::default(), 1000, true), 1000);
    }

    #[test]
    fn what_never_pays_is_tried_now_and_then() {
        assert_eq!(spins(&mut Spins::default(), 8 + 1600, false), 8 + 100);
    }

    #[test]
    fn one_success_is_enough() {
        let mut state = Spins::default();
        assert_eq!(spins(&mut state, 8 + 16, false), 9);
        assert_eq!(spins(&mut state, 15, true), 0);
        assert_eq!(spins(&mut state, 100, true), 100, "from the next probe on");
    }

    #[test]
    fn how_often_is_for_the_configuration_to_say() {
        assert_eq!(
            by("spin-vain=2,spin-probe=10", &mut Spins::default(), 2 + 100, false),
            2 + 10
        );
        assert_eq!(by("spin-probe=1", &mut Spins::default(), 1000, false), 1000);
    }

    #[test]
    fn a_probe_of_every_zeroth_sleep_is_one_of_each() {
        let config = Config {
            spin_probe: 0,
            ..Config::default()
        };
        let mut spins = Spins::default();
        for _ in 0..20 {
            assert!(spins.are_worth_it(&config));
            spins.ended(false);
        }
    }
}
