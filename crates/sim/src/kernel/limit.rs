//! A limit on how often wake-ups may move a task to another CPU.
//!
//! Two proposals of September 2023: a fixed quota of moves in a window, after which affine wake-ups return to the
//! previous CPU (20230905171105.1005672-2-mathieu.desnoyers@efficios.com), and one that adapts (-3 of the same series).
//! A window opens with the first move after the one before has ended. The adaptive quota is then halved if that one was
//! used up, else it grows by one. Moves by balancing count, and are not limited.

use quadrille_policy::{CapMode, MigrationCap, Nanos};

use crate::workload::TaskId;

/// The moves of one task.
#[derive(Clone, Copy, Debug)]
struct Moves {
    quota: u8,
    used: u8,
    ends: Nanos,
}

/// The moves of all tasks.
#[derive(Debug)]
pub(super) struct Limit {
    cap: MigrationCap,
    tasks: Vec<Moves>,
}

impl Limit {
    /// With what the configuration says of the cap; `auto` is none, because the kernel has none.
    pub(super) fn new(cap: MigrationCap) -> Self {
        Self { cap, tasks: Vec::new() }
    }

    fn is_on(&self) -> bool {
        matches!(self.cap.mode, CapMode::Fixed | CapMode::Adaptive)
    }

    /// Whether a wake-up must leave the task where it is.
    pub(super) fn is_reached(&self, task: TaskId, now: Nanos) -> bool {
        let moves = self.tasks.get(task.index()).filter(|_| self.is_on());
        moves.is_some_and(|moves| now < moves.ends && moves.used >= moves.quota)
    }

    /// The task was moved to another CPU.
    pub(super) fn moved(&mut self, task: TaskId, now: Nanos) {
        if !self.is_on() {
            return;
        }
        if self.tasks.len() <= task.index() {
            let none = Moves {
                quota: self.cap.quota,
                used: 0,
                ends: Nanos(0),
            };
            self.tasks.resize(task.index() + 1, none);
        }
        let moves = &mut self.tasks[task.index()];
        if now >= moves.ends {
            if self.cap.mode == CapMode::Adaptive {
                moves.quota = if moves.used >= moves.quota {
                    (moves.quota / 2).max(1)
                } else {
                    moves.quota.saturating_add(1).min(self.cap.quota)
                };
            }
            *moves = Moves {
                used: 0,
                ends: Nanos(now.0 + self.cap.window.0),
                ..*moves
            };
        }
        moves.used = moves.used.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: TaskId = TaskId(3);

    fn limit(mode: CapMode, quota: u8) -> Limit {
        Limit::new(MigrationCap {
            mode,
            quota,
            window: Nanos(100),
            ..MigrationCap::default()
        })
    }

    /// Moves at every step of 10 unless the limit says no; returns how many.
    fn moves(limit: &mut Limit, steps: std::ops::Range<u64>) -> usize {
        let mut move_at = |now| {
            let free = !limit.is_reached(TASK, now);
            if free {
                limit.moved(TASK, now);
            }
            free
        };
        steps.filter(|step| move_at(Nanos(step * 10))).count()
    }

    #[test]
    fn a_fixed_quota_is_kept_in_every_window() {
        assert_eq!(moves(&mut limit(CapMode::Fixed, 1), 0..40), 4);
        assert_eq!(moves(&mut limit(CapMode::Fixed, 3), 0..40), 12);
        assert_eq!(moves(&mut limit(CapMode::Auto, 1), 0..40), 40);
        assert_eq!(moves(&mut limit(CapMode::Off, 1), 0..40), 40);
    }

    #[test]
    fn the_greatest_adaptive_quota_grows_no_further() {
        let mut limit = limit(CapMode::Adaptive, u8::MAX);
        for window in 0..3 {
            limit.moved(TASK, Nanos(window * 100));
        }
        assert_eq!(limit.tasks[TASK.index()].quota, u8::MAX);
    }

    #[test]
    fn an_adaptive_quota_halves_and_recovers() {
        let mut limit = limit(CapMode::Adaptive, 8);
        assert_eq!(moves(&mut limit, 0..10), 8);
        assert_eq!(moves(&mut limit, 10..20), 4);
        assert_eq!(moves(&mut limit, 20..30), 2);
        assert_eq!(moves(&mut limit, 30..50), 2); // one a window, used up each time
        limit.moved(TASK, Nanos(10_000)); // halves once more, and stays at one
        assert!(limit.is_reached(TASK, Nanos(10_001)));
    }
}
