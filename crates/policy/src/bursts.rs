//! How long tasks wait that a worker spawns faster than it runs them.
//!
//! [Cost-aware wake](crate::WakeCost) goes by what is queued. A task that spawns a thousand others queues them one by
//! one, and would have to make hundreds of short ones before waking somebody for them pays, though whoever had been
//! woken for the first would have come in time for most. Programs do the same again: a worker on which somebody begins
//! to spawn is expected to have another burst.

use crate::{Config, Nanos};

/// What was spawned into a worker's deque beyond what it ran, between two of its looks up, and so the time that the
/// last of a burst waits.
///
/// The longest is kept; of it a 32nd is forgotten at each look up (`wake-cost-burst`), so that 100 us are 10 after 75
/// looks up, some 5,000 short tasks.
///
/// ```
/// use quadrille_policy::{Bursts, Config, Nanos};
///
/// let (config, run) = (Config::default(), Nanos(20));
/// let mut bursts = Bursts::default();
/// // In 25 us a task has spawned 1,000; 62 of them have run. To make the others has taken as long as they will.
/// bursts.looks_up((1_000, 62), run, Nanos::from_micros(25), &config);
/// assert_eq!(bursts.wait(), Nanos(2 * 938 * 20));
/// // Each task of a chain spawns the next one.
/// bursts.looks_up((1_062, 124), run, Nanos::from_micros(2), &config);
/// assert_eq!(bursts.wait(), Nanos(2 * 938 * 20 * 31 / 32));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bursts {
    /// All new tasks that its deque was given so far, less the tasks that it has polled.
    before: i64,
    wait: Nanos,
}

impl Bursts {
    /// The worker looks up, `elapsed` after it did so last. Since it exists so many new tasks went into its deque, and
    /// it has polled so many, whose runs take `average_run`.
    #[inline]
    pub fn looks_up(&mut self, (spawned, polled): (u64, u64), average_run: Nanos, elapsed: Nanos, config: &Config) {
        let now = spawned.wrapping_sub(polled).cast_signed();
        let surplus = now.wrapping_sub(self.before).max(0).cast_unsigned();
        self.before = now;
        let div = u64::from(config.wake_cost.burst);
        if div == 0 {
            return;
        }
        let runs = average_run.0.saturating_mul(surplus);
        // Who makes them runs none meanwhile. More of that time may have gone into other things.
        let wait = runs.saturating_add(runs.min(elapsed.0));
        let left = self.wait.0 - self.wait.0.div_ceil(div);
        self.wait = Nanos(left.max(wait));
    }

    /// How long the last task of the worker's next burst is expected to wait; zero: nothing is known of bursts.
    #[inline]
    #[must_use]
    pub fn wait(&self) -> Nanos {
        self.wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is expected, in us, after looks up at which so many tasks had been spawned and polled, which run for 1 us.
    fn after(config: &str, elapsed_us: u64, looks: impl IntoIterator<Item = (u64, u64)>) -> u64 {
        let config: Config = config.parse().unwrap();
        let mut bursts = Bursts::default();
        for counts in looks {
            bursts.looks_up(counts, Nanos::from_micros(1), Nanos::from_micros(elapsed_us), &config);
        }
        bursts.wait().0 / 1000
    }

    #[test]
    fn what_is_spawned_beyond_what_runs_is_a_burst() {
        let check = |elapsed_us, looks: &[(u64, u64)], expected| {
            let looks = looks.iter().copied();
            assert_eq!(after("default", elapsed_us, looks.clone()), expected, "{looks:?}");
        };
        check(100, &[], 0);
        check(100, &[(0, 64)], 0);
        check(100, &[(64, 64)], 0);
        check(0, &[(1_000, 40)], 960);
        check(100, &[(1_000, 40)], 1_060);
        check(5_000, &[(1_000, 40)], 1_920);
        check(0, &[(1_000, 40), (1_000, 104)], 930);
        check(0, &[(1_000, 40), (3_000, 104)], 1_936);
        // It has polled what was spawned elsewhere.
        check(0, &[(0, 500), (100, 520)], 80);
        check(u64::MAX / 1000, &[(u64::MAX >> 1, 0)], u64::MAX / 1000);
    }

    #[test]
    fn what_does_not_come_again_is_forgotten() {
        let then_none = |looks| core::iter::once((1_000, 0)).chain((1..=looks).map(|look| (1_000, look * 64)));
        assert!(after("default", 0, then_none(20)) > 500);
        assert!(after("default", 0, then_none(75)) < 100);
        assert_eq!(after("default", 0, then_none(300)), 0);
        assert_eq!(after("wake-cost-burst=1", 0, then_none(1)), 0);
        assert_eq!(after("wake-cost-burst=0", 0, then_none(0)), 0, "off");
    }
}
