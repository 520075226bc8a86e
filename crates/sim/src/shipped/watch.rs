//! Looking after workers that are stuck in a task: by the sentinel, or by busy ones while nobody is idle.

use quadrille_policy::{Cause, LlcId, Nanos, Plan, WorkerId};

use super::{Shipped, batch};
use crate::workload::TaskId;
use crate::world::World;

/// What the sentinel has seen at the end of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Something is stuck, or waits for longer than waking us has cost.
    Stuck,
    /// Tasks have run since the last look.
    Active,
    /// Nothing has run since the last look.
    Quiet,
}

/// What an observer remembers from one look to the next.
#[derive(Debug)]
pub(super) struct Rounds {
    /// Polls of each worker at the last look; empty until the first one, as most never look.
    polls: Vec<u64>,
    /// Empty until the first look, too.
    stuck: Vec<bool>,
    waiting: Vec<bool>,
    cursor: usize,
    llc: usize,
    last: Nanos,
}

impl Rounds {
    pub(super) fn new(worker: usize, plan: &Plan) -> Self {
        Self {
            polls: Vec::new(),
            stuck: Vec::new(),
            waiting: vec![false; plan.groups.len()],
            cursor: worker + 1,
            llc: 0,
            last: Nanos(0),
        }
    }

    /// Time since the last look.
    pub(super) fn passed(&self, now: Nanos) -> Nanos {
        now.since(self.last)
    }
}

impl Shipped {
    /// Tasks that `other` has run since the observer's last look, and whether it has work and has run none.
    fn look_at(&mut self, world: &mut World, observer: WorkerId, other: usize) -> (u64, bool) {
        let polls = world.counters(WorkerId(u16::try_from(other).unwrap_or(0))).polls;
        let has_work = !self.workers[other].deque.is_empty() || self.workers[other].slot.is_some();
        let count = self.workers.len();
        let rounds = &mut self.workers[observer.index()].rounds;
        rounds.polls.resize(count, 0);
        rounds.stuck.resize(count, false);
        let advanced = polls - std::mem::replace(&mut rounds.polls[other], polls);
        let stuck = advanced == 0 && has_work;
        rounds.stuck[other] = stuck;
        (advanced, stuck)
    }

    /// Forgets some of what waking a worker has cost, by the intervals since somebody did so last, whoever looks.
    pub(super) fn forget_wake(&mut self, world: &World, now: Nanos) {
        let intervals = now.since(self.wake_forgotten).0 / world.policy.config.sentinel_interval.0;
        if intervals > 0 {
            self.wake_forgotten = now;
            self.wake_cost = world.policy.forget_wake(self.wake_cost, intervals);
        }
    }

    /// The sentinel's look at every queue.
    pub(super) fn look(&mut self, world: &mut World, observer: WorkerId, now: Nanos) -> Look {
        let rounds = &mut self.workers[observer.index()].rounds;
        let interval = rounds.passed(now).0;
        rounds.last = now;
        self.forget_wake(world, now);
        let recent = interval <= 2 * world.policy.config.sentinel_interval.0;
        let mut active = false;
        let mut reason = self.injectors.iter().any(|injector| !injector.is_empty())
            || self.exports.iter().any(|queue| !queue.is_empty());
        for other in 0..self.workers.len() {
            let (advanced, stuck) = self.look_at(world, observer, other);
            let queued = self.workers[other].deque.len() as u64;
            let slow = recent
                && world
                    .policy
                    .is_slow(self.wake_cost, (queued, advanced), Nanos(interval));
            active |= advanced > 0;
            reason |= stuck || slow;
        }
        let rounds = &mut self.workers[observer.index()].rounds;
        for (group, waiting) in self.groups.iter().zip(&mut rounds.waiting) {
            let waits = !group.is_empty();
            reason |= waits && *waiting;
            *waiting = waits;
        }
        match (reason, active) {
            (true, _) => Look::Stuck,
            (false, true) => Look::Active,
            (false, false) => Look::Quiet,
        }
    }

    /// The duty of a busy worker while nobody is idle: once an interval, looks after a few others.
    pub(super) fn observe(&mut self, world: &mut World, worker: WorkerId, t: &mut Nanos) -> Option<TaskId> {
        let interval = world.policy.config.sentinel_interval;
        let me = &mut self.workers[worker.index()];
        if self.sleepers.count() > 0 || me.rounds.passed(*t) < interval {
            return None;
        }
        me.rounds.last = *t;
        self.forget_wake(world, *t);
        let found = self
            .take_from_stuck(world, worker, t)
            .or_else(|| self.take_from_next_llc(world, worker, t));
        world.counters(worker).rescues += u64::from(found.is_some());
        found
    }

    fn take_from_next_llc(&mut self, world: &mut World, worker: WorkerId, t: &mut Nanos) -> Option<TaskId> {
        let rounds = &mut self.workers[worker.index()].rounds;
        let index = rounds.llc % self.injectors.len();
        rounds.llc = index + 1;
        let llc = LlcId(u16::try_from(index).expect("LLCs fit u16"));
        let limit = world.policy.config.wake_groups.rescue_any;
        let room = self.room(world, worker).min(batch(world));
        let own = llc == world.space.llc(worker);
        let found = self
            .take_exported(world, worker, llc, room, t)
            .or_else(|| self.take_overdue(world, worker, llc, limit, t));
        if own {
            return found;
        }
        found.or_else(|| self.take_injector(world, worker, llc, room, t))
    }

    /// How many tasks more a worker comes to before an observer looks again.
    fn room(&self, world: &World, worker: WorkerId) -> usize {
        let me = &self.workers[worker.index()];
        me.pace.room(world.policy.config.sentinel_interval, me.deque.len())
    }

    fn take_from_stuck(&mut self, world: &mut World, worker: WorkerId, t: &mut Nanos) -> Option<TaskId> {
        let workers = self.workers.len();
        for _ in 0..(world.policy.config.observed as usize).min(workers) {
            let rounds = &mut self.workers[worker.index()].rounds;
            let index = rounds.cursor % workers;
            rounds.cursor = index + 1;
            t.0 += world.cost.search_step;
            if index == worker.index() || !self.look_at(world, worker, index).1 {
                continue;
            }
            if let Some(task) = self.take_over(world, worker, index, t) {
                return Some(task);
            }
        }
        None
    }

    /// What a stuck worker has, at most a few batches and what there is room for; one task to be run now.
    fn take_over(&mut self, world: &mut World, worker: WorkerId, stuck: usize, t: &mut Nanos) -> Option<TaskId> {
        let room = self.room(world, worker);
        let other = &mut self.workers[stuck];
        t.0 += other.line.write(world.when(*t), worker, &world.space, &world.cost).0;
        let count = other.deque.len().min(8 * batch(world)).min(room);
        let mut taken: Vec<TaskId> = other.deque.drain(..count).collect();
        taken.extend(other.slot.take());
        t.0 += world.cost.local_queue * taken.len() as u64;
        taken.iter().for_each(|task| world.came(*task, Cause::Rescue));
        let mut taken = taken.into_iter();
        let first = taken.next();
        self.workers[worker.index()].deque.extend(taken);
        first
    }

    /// A task in the slot of a worker that was stuck at the last look.
    pub(super) fn take_stuck_slot(&mut self, worker: WorkerId) -> Option<TaskId> {
        let stuck = |other: &usize| self.workers[worker.index()].rounds.stuck.get(*other) == Some(&true);
        let other = (0..self.workers.len())
            .filter(stuck)
            .find(|other| self.workers[*other].slot.is_some())?;
        self.workers[other].slot.take()
    }

    /// A searcher goes to work, perhaps for long: while a queue has work, one of the idle workers must keep watch.
    pub(super) fn name_successor(&mut self, world: &mut World, worker: WorkerId, t: &mut Nanos) {
        if self.sleepers.has_sentinel() || self.sleepers.count() == 0 {
            return;
        }
        let left = self
            .workers
            .iter()
            .any(|other| !other.deque.is_empty() || other.slot.is_some());
        let queued = left
            || self.groups.iter().any(|group| !group.is_empty())
            || self.injectors.iter().any(|injector| !injector.is_empty())
            || self.exports.iter().any(|queue| !queue.is_empty());
        if queued {
            self.keep_watch(world, world.space.llc(worker), Some(worker), t);
        }
    }
}
