//! Policy 4: the policy fields of a task, and the cap on its group changes in a window.
//!
//! From Mathieu Desnoyers' rate limits for wake-up migrations (LKML, September 2023): a task that was moved often in
//! the last millisecond stays where its data is. What counts is a change of *group*; moves inside one are free, and
//! neither a thief nor a pull (step 2 of [`place`](crate::Policy::place_wake)) is ever refused. States of the adaptive
//! quota q, per task, at a group change:
//!
//! | window | used u | becomes |
//! |---|---|---|
//! | the same, or an earlier one by up to a second | any | u + 1 |
//! | the next | u >= q: used up | 1, and q = max(1, q/2) |
//! | the next | u < q | 1, and q = min(configured, q + 1) |
//! | a later one | any | 1, and q = min(configured, q + 1) |
//!
//! So a pause recovers one step at the next change, like the kernel's, and not one for each window that passes: whoever
//! does not move needs no quota, and nobody has to count windows. Without the last row a quota of 1 would be for ever,
//! since the change that opens a window uses it up.
//!
//! A worker reads the clock between tasks, so that who wakes a task may be some windows behind who woke it before. What
//! such a waker counts belongs to the task's window: if it opened one of its own, two workers that wake a task in turn
//! would never use up anything.

use crate::{
    GroupId, Nanos, SetId, Tick, WorkerId,
    config::{CapMode, MigrationCap},
};

/// What a task carries for the policies. It belongs to the task's current owner and passes on with the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskPolicy {
    /// The group that the task was last deliberately placed in.
    pub home: GroupId,
    /// The member of it that ran the task last.
    pub home_worker: WorkerId,
    /// The window that `used` counts in.
    pub window: Tick,
    /// Coupling set: tasks that share data.
    pub set: SetId,
    /// Group changes in this window.
    pub used: u8,
    /// Group changes allowed in this window; 0: the task has not run yet, and whoever runs it first gives it its home.
    pub quota: u8,
    /// The other last-level cache whose wakes are counted, by the low byte of its number.
    pub from: u8,
    /// Wakes in a row from there; with [`drift`](crate::Aggregation::drift), if that is on another node than home,
    /// wakes from that node less those from home's.
    pub streak: u8,
}

/// The cap, compiled: windows are numbered without a division.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cap {
    mode: CapMode,
    quota: u8,
    /// 2^64 divided by the window, rounded up.
    windows_per_ns: u64,
    /// Windows by which a waker's clock may be behind: a second.
    behind_max: u32,
}

impl Cap {
    pub(crate) fn new(config: &MigrationCap) -> Self {
        Self {
            mode: config.mode,
            quota: config.quota.max(1),
            windows_per_ns: u64::MAX / config.window.0.max(2) + 1,
            behind_max: u32::try_from(1_000_000_000 / config.window.0.max(2)).unwrap_or(u32::MAX),
        }
    }

    /// Group changes a task is allowed in its first window.
    #[inline]
    pub(crate) fn quota(&self) -> u8 {
        self.quota
    }

    /// The window that `now` lies in.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "windows wrap by design; only small distances are asked"
    )]
    pub(crate) fn window(&self, now: Nanos) -> Tick {
        Tick(((u128::from(now.0) * u128::from(self.windows_per_ns)) >> 64) as u32)
    }

    /// Whether the task has used up its quota in the window of `now`.
    #[inline]
    pub(crate) fn is_used_up(&self, task: &TaskPolicy, now: Nanos) -> bool {
        task.quota != 0 && task.used >= task.quota && self.is_in(task.window, self.window(now))
    }

    /// Whether what happens in `window`, by a clock that may be behind, belongs to the task's window.
    #[inline]
    fn is_in(&self, of_task: Tick, window: Tick) -> bool {
        of_task.0.wrapping_sub(window.0) <= self.behind_max
    }

    /// Counts a group change.
    #[inline]
    pub(crate) fn count(&self, task: &mut TaskPolicy, now: Nanos) {
        let window = self.window(now);
        if self.is_in(task.window, window) {
            task.used = task.used.saturating_add(1);
            return;
        }
        let follows = task.window.0.wrapping_add(1) == window.0;
        task.quota = match self.mode {
            CapMode::Fixed | CapMode::Off => self.quota,
            _ if follows && task.used >= task.quota => (task.quota / 2).max(1),
            _ => task.quota.saturating_add(1).min(self.quota),
        };
        task.window = window;
        task.used = 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn cap(mode: CapMode, quota: u8) -> Cap {
        Cap::new(&MigrationCap {
            mode,
            quota,
            ..MigrationCap::default()
        })
    }

    fn task(used: u8, quota: u8) -> TaskPolicy {
        TaskPolicy {
            home: GroupId(3),
            home_worker: WorkerId(13),
            window: Tick(5),
            set: SetId::NONE,
            used,
            quota,
            from: 0,
            streak: 0,
        }
    }

    /// Counts one change and gives back (used, quota).
    fn counted(cap: &Cap, used: u8, quota: u8, now_ms: u64) -> (u8, u8) {
        let mut task = task(used, quota);
        cap.count(&mut task, Nanos(now_ms * MS));
        assert_eq!(task.window, Tick(u32::try_from(now_ms).unwrap()));
        assert_eq!((task.home, task.home_worker), (GroupId(3), WorkerId(13)));
        (task.used, task.quota)
    }

    #[test]
    fn every_transition_of_the_adaptive_quota() {
        let most = 10;
        let cap = cap(CapMode::Adaptive, most);
        for quota in 1..=most {
            for used in 0..=u8::MAX {
                let same = counted(&cap, used, quota, 5);
                assert_eq!(same, (used.saturating_add(1), quota));
                let next = counted(&cap, used, quota, 6);
                let expected = if used >= quota {
                    (quota / 2).max(1)
                } else {
                    (quota + 1).min(most)
                };
                assert_eq!(next, (1, expected), "{used} of {quota}");
                let later = counted(&cap, used, quota, 7);
                assert_eq!(later, (1, (quota + 1).min(most)), "{used} of {quota}");
            }
        }
    }

    #[test]
    fn every_transition_of_the_fixed_quota() {
        for most in [1, 2, 10, u8::MAX] {
            let cap = cap(CapMode::Fixed, most);
            for used in 0..=u8::MAX {
                assert_eq!(counted(&cap, used, most, 5), (used.saturating_add(1), most));
                assert_eq!(counted(&cap, used, most, 6), (1, most));
            }
        }
    }

    #[test]
    fn used_up_is_what_the_window_says() {
        let cap = cap(CapMode::Adaptive, 10);
        for quota in 0..=10 {
            for used in 0..=u8::MAX {
                let task = task(used, quota);
                let now = cap.is_used_up(&task, Nanos(5 * MS + MS / 2));
                assert_eq!(now, quota != 0 && used >= quota, "{used} of {quota}");
                assert!(!cap.is_used_up(&task, Nanos(6 * MS)));
            }
        }
    }

    #[test]
    fn a_bouncing_task_ends_at_one_change_a_window_and_recovers() {
        let cap = cap(CapMode::Adaptive, 10);
        let mut task = task(0, 10);
        for window in 10..20 {
            while !cap.is_used_up(&task, Nanos(window * MS)) {
                cap.count(&mut task, Nanos(window * MS));
            }
        }
        assert_eq!((task.used, task.quota), (1, 1));
        for window in 15..24 {
            cap.count(&mut task, Nanos(2 * window * MS));
        }
        assert_eq!(task.quota, 10);
    }

    #[test]
    fn a_waker_with_an_older_clock_counts_in_the_window_of_the_task() {
        let cap = cap(CapMode::Adaptive, 10);
        let mut task = task(0, 10);
        for i in 0..40 {
            cap.count(&mut task, Nanos((12 - 2 * (i % 2)) * MS));
        }
        assert_eq!((task.window, task.used, task.quota), (Tick(12), 40, 10));
        for now in [10, 12] {
            assert!(cap.is_used_up(&task, Nanos(now * MS)), "{now}");
        }
        cap.count(&mut task, Nanos(13 * MS));
        assert_eq!((task.window, task.used, task.quota), (Tick(13), 1, 5));
        // Nobody's clock is that old: the numbers have wrapped around.
        task.window = Tick(2_000);
        assert!(cap.is_in(task.window, Tick(1_000)));
        assert!(!cap.is_in(task.window, Tick(999)));
    }

    #[test]
    fn windows_have_their_length() {
        for window in [10_000, 100_000, 333_333, 1_000_000, 2_000_000] {
            let config = MigrationCap {
                window: Nanos(window),
                ..MigrationCap::default()
            };
            let cap = Cap::new(&config);
            for i in [0, 1, 2, 1_000, 1_000_000] {
                assert_eq!(cap.window(Nanos(i * window + 1)), Tick(u32::try_from(i).unwrap()));
                assert_eq!(cap.window(Nanos((i + 1) * window - 1)), Tick(u32::try_from(i).unwrap()));
            }
        }
    }
}
