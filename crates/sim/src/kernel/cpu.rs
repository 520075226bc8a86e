//! One CPU: its run queue, its wake list, and whether it is idle.

use std::collections::VecDeque;

use quadrille_policy::Nanos;

use super::MIGRATION_COST;
use super::proportion::Proportion;
use super::share::Share;
use crate::line::{Line, Lock};
use crate::workload::TaskId;

/// What a CPU is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// It runs a task, or chooses one.
    #[default]
    Between,
    /// It runs a task.
    Running,
    /// It is idle and watches for wake-ups.
    Idle,
    /// It was told and comes out of idle.
    Rising,
}

/// One CPU.
#[derive(Debug)]
pub(super) struct Cpu {
    pub(super) queue: VecDeque<TaskId>,
    /// Woken tasks that the CPU itself shall enqueue.
    pub(super) list: VecDeque<TaskId>,
    pub(super) list_line: Line,
    pub(super) lock: Lock,
    pub(super) state: State,
    /// The task that it runs or has run last.
    pub(super) last: Option<TaskId>,
    /// Its list is not empty, and it runs a task.
    pub(super) interrupted: bool,
    pub(super) slice_ends: Nanos,
    /// Moving average of how long it is idle, at most twice the migration cost.
    pub(super) average_idle: Nanos,
    idle_since: Nanos,
    /// How far it searches where no utilisation limits that.
    pub(super) proportion: Proportion,
    /// Whether it counts as busy in its cache.
    pub(super) counted: bool,
    /// What share of time it runs tasks; told only where somebody asks.
    pub(super) used: Share,
}

impl Default for Cpu {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            list: VecDeque::new(),
            list_line: Line::default(),
            lock: Lock::default(),
            state: State::Between,
            last: None,
            interrupted: false,
            slice_ends: Nanos(0),
            average_idle: Nanos(2 * MIGRATION_COST.0),
            idle_since: Nanos(0),
            proportion: Proportion::new(Nanos(2 * MIGRATION_COST.0)),
            counted: false,
            used: Share::default(),
        }
    }
}

impl Cpu {
    /// Whether it has nothing to do and nothing on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.state == State::Idle && self.list.is_empty()
    }

    /// Tasks queued and running.
    pub(super) fn load(&self) -> usize {
        self.queue.len() + self.list.len() + usize::from(self.state == State::Running)
    }

    pub(super) fn goes_idle(&mut self, now: Nanos) {
        self.state = State::Idle;
        self.idle_since = now;
    }

    pub(super) fn woke_up(&mut self, now: Nanos) {
        self.state = State::Between;
        // As `update_avg` and its cap: an eighth of the difference.
        let (old, new) = (self.average_idle.0, now.since(self.idle_since).0);
        let average = old - old / 8 + new / 8;
        self.average_idle = Nanos(average.min(2 * MIGRATION_COST.0));
        self.proportion.was_idle(self.average_idle, now);
    }
}
