//! The queues that workers share: a group's FIFO and mailbox, and a cache's injector.

use std::collections::VecDeque;

use quadrille_policy::{Nanos, OnContention, WorkerId};

use crate::line::{Line, Lock};
use crate::workload::TaskId;
use crate::world::World;

/// How a task entered a group's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// Directly, under the lock.
    Direct,
    /// Through the mailbox.
    Mailbox,
}

/// A group's wake queue.
#[derive(Debug, Default)]
pub(super) struct Group {
    fifo: VecDeque<TaskId>,
    mailbox: VecDeque<TaskId>,
    lock: Lock,
    head: Line,
    /// When the queue became non-empty or was last drained.
    since: Nanos,
}

impl Group {
    /// Queues a task: directly for a member if the lock is free or is waited for, else through the mailbox.
    pub(super) fn push(
        &mut self,
        world: &mut World,
        task: TaskId,
        by: Option<WorkerId>,
        member: bool,
        t: &mut Nanos,
    ) -> Entry {
        if self.is_empty() {
            self.since = *t;
        }
        let Some(by) = by else {
            self.mailbox.push_back(task);
            return Entry::Mailbox;
        };
        let spin = world.policy.config.wake_groups.on_contention == OnContention::Spin;
        let contended = member && self.lock.is_taken(world.now);
        world.counters(by).lock_contended += u64::from(contended);
        if member && (spin || !contended) {
            let hold = Nanos(world.cost.group_hold);
            let taken = self.lock.take(world.when(*t), by, hold, &world.space, &world.cost);
            world.counters(by).lock_wait_ns += taken.waited.0;
            t.0 += taken.took.0 + hold.0;
            self.fifo.push_back(task);
            return Entry::Direct;
        }
        t.0 += self.head.write(world.when(*t), by, &world.space, &world.cost).0;
        self.mailbox.push_back(task);
        Entry::Mailbox
    }

    /// Takes the oldest task and hands up to `max` further ones, at most half, to `sink`. Nothing while somebody else
    /// is at it.
    pub(super) fn pop(
        &mut self,
        world: &World,
        max: usize,
        by: WorkerId,
        t: &mut Nanos,
        sink: &mut VecDeque<TaskId>,
    ) -> Option<TaskId> {
        if self.is_empty() || self.lock.is_taken(world.now) {
            return None;
        }
        let (space, cost) = (&world.space, &world.cost);
        if !self.mailbox.is_empty() {
            t.0 += self.head.write(world.when(*t), by, space, cost).0;
        }
        let moved = max.min((self.fifo.len() + self.mailbox.len()).saturating_sub(1) / 2);
        let hold = Nanos(cost.group_hold + cost.local_queue * (self.mailbox.len() + moved) as u64);
        let taken = self.lock.take(world.when(*t), by, hold, space, cost);
        t.0 += taken.took.0 + hold.0;
        self.fifo.append(&mut self.mailbox);
        let first = self.fifo.pop_front();
        sink.extend(self.fifo.drain(..moved));
        self.since = *t;
        first
    }

    /// Looks whether something is there.
    pub(super) fn look(&mut self, world: &World, by: WorkerId, t: &mut Nanos) -> bool {
        t.0 += self.head.read(by, &world.space, &world.cost).0 + world.cost.search_step;
        !self.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fifo.is_empty() && self.mailbox.is_empty()
    }

    /// Number of tasks in FIFO and mailbox, as in the runtime.
    pub(super) fn len(&self) -> usize {
        self.fifo.len() + self.mailbox.len()
    }

    /// For how long something has waited without a drain; zero if nothing waits.
    pub(super) fn age(&self, now: Nanos) -> Nanos {
        if self.is_empty() {
            Nanos(0)
        } else {
            now.since(self.since)
        }
    }
}

/// The queue of a last-level cache for tasks from outside and for what exceeds a group's.
#[derive(Debug, Default)]
pub(super) struct Injector {
    tasks: VecDeque<TaskId>,
    line: Line,
}

impl Injector {
    pub(super) fn push(&mut self, world: &World, task: TaskId, by: Option<WorkerId>, t: &mut Nanos) {
        if let Some(by) = by {
            t.0 += self.line.write(world.when(*t), by, &world.space, &world.cost).0;
        }
        self.tasks.push_back(task);
    }

    /// Takes one task and moves a fair share of the others to `sink`.
    pub(super) fn pop(
        &mut self,
        world: &World,
        limit: usize,
        by: WorkerId,
        t: &mut Nanos,
        sink: &mut VecDeque<TaskId>,
    ) -> Option<TaskId> {
        t.0 += self.line.read(by, &world.space, &world.cost).0 + world.cost.search_step;
        // No more than half, which is what the runtime's queue gives at once.
        let most = self.tasks.len().div_ceil(2);
        let share = (self.tasks.len() / world.worker_count() + 1).min(most);
        let first = self.tasks.pop_front()?;
        t.0 += self.line.write(world.when(*t), by, &world.space, &world.cost).0;
        let moved = share.min(limit).saturating_sub(1).min(self.tasks.len());
        t.0 += world.cost.local_queue * moved as u64;
        sink.extend(self.tasks.drain(..moved));
        Some(first)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }
}
