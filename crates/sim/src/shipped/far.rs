//! What is put up for the workers of other last-level caches, and what a dry worker takes from behind those.
//!
//! Policy 3 has a say: first what is exported, anything else only after some microseconds without a find. So has policy
//! 6: little or nothing while few run there. Rescuers ask neither. Who goes to sleep beside what it may not have wakes
//! somebody who may.

use std::collections::VecDeque;

use quadrille_policy::{Cause, ExportView, LlcId, Nanos, Placement, RemoteStealView, WorkerId};

use super::coupling::Load;
use super::{Shipped, batch, cause};
use crate::line::Line;
use crate::workload::TaskId;
use crate::world::World;

/// What the workers of a cache put up for those of others.
#[derive(Debug, Default)]
pub(super) struct Exports {
    tasks: VecDeque<TaskId>,
    line: Line,
    /// When it became non-empty.
    since: Nanos,
}

impl Exports {
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// How long something has been waiting here; zero if it is empty.
    pub(super) fn age(&self, now: Nanos) -> Nanos {
        if self.is_empty() {
            Nanos(0)
        } else {
            now.since(self.since)
        }
    }
}

impl Shipped {
    /// Between tasks, with more in the deque than runs next and idle workers behind other caches: puts tasks up for
    /// those. Returns the first one that stays, which runs now and so keeps its place.
    pub(super) fn spill(&mut self, world: &mut World, worker: WorkerId, t: &mut Nanos) -> Option<TaskId> {
        let llc = world.space.llc(worker);
        let spare = self.workers[worker.index()].deque.len() / 2;
        if spare == 0 || self.sleepers.count() == 0 || !self.exports[llc.index()].is_empty() {
            return None;
        }
        let clock = self.workers[worker.index()].clock;
        if clock < self.workers[worker.index()].spared_until {
            return None;
        }
        if clock.since(self.workers[worker.index()].coupled.load.at) >= world.policy.config.idle_filter.sample {
            self.workers[worker.index()].coupled.load = self.load(world, llc, clock);
        }
        let load = self.workers[worker.index()].coupled.load;
        let least = load.least.filter(|llc| self.sleepers.idle_in_llc(llc.index()) > 0)?;
        // Any of those it is put up for; all would give back the same.
        let thief = *world.policy.plan.llcs[least.index()].workers.first()?;
        let mut leaves = Vec::new();
        let mut stays = None;
        while leaves.len() < spare.min(world.policy.config.aggregation.export_batch as usize)
            && let Some(task) = self.workers[worker.index()].deque.pop_front()
        {
            let state = &world.tasks[task.index()].policy;
            let view = ExportView {
                set: state.set,
                preferred: self.sets.look(state.set).policy.preferred,
                llc,
                util: load.util,
                has_idle: self.sleepers.idle_in_llc(llc.index()) > 0,
                least_util: load.least_util,
            };
            t.0 += world.cost.local_queue;
            // Once is enough: the next time it would go behind newer ones again.
            let stayed = self.put_up.get(task.index()) == Some(&true);
            if stayed || !world.policy.exports(&view) || world.policy.gives_back(state, thief) {
                stays = Some(task);
                break;
            }
            if self.put_up.len() <= task.index() {
                self.put_up.resize(world.tasks.len(), false);
            }
            self.put_up[task.index()] = true;
            leaves.push(task);
        }
        if !leaves.is_empty() {
            world.counters(worker).exports += leaves.len() as u64;
            self.publish_exports(world, leaves, llc, least, worker, t);
        }
        stays
    }

    /// Puts tasks of a worker behind `llc` up for the workers of other caches, those of `to` first.
    fn publish_exports(
        &mut self,
        world: &mut World,
        tasks: Vec<TaskId>,
        llc: LlcId,
        to: LlcId,
        by: WorkerId,
        t: &mut Nanos,
    ) {
        let queue = &mut self.exports[llc.index()];
        if queue.is_empty() {
            queue.since = self.workers[by.index()].clock;
        }
        t.0 += queue.line.write(world.when(*t), by, &world.space, &world.cost).0;
        queue.tasks.extend(tasks);
        let queued = queue.len();
        self.announce_to_anyone(world, queued, llc, to, Some(by), t);
    }

    /// The load of `own` and of the least busy of the other caches; of those on other nodes only if none on our own
    /// will do.
    fn load(&self, world: &World, own: LlcId, at: Nanos) -> Load {
        let plan = &world.policy.plan.llcs[own.index()];
        let (near, far) = plan.others.split_at(plan.others_on_node);
        let util = |llc: LlcId| self.sleepers.awake_share(&world.policy, llc.index());
        let least_of = |llcs: &[LlcId]| {
            let least = llcs
                .iter()
                .map(|llc| (util(*llc), *llc))
                .min_by_key(|(util, _)| *util)?;
            self.may_take_from(world, least.1, own, at).then_some(least)
        };
        let least = least_of(near).or_else(|| least_of(far));
        Load {
            at,
            util: util(own),
            least_util: least.map_or(u16::MAX, |(util, _)| util),
            least: least.map(|(_, llc)| llc),
        }
    }

    /// Whether policy 6 lets a thief behind `thief` that has waited for long take from behind `own`.
    fn may_take_from(&self, world: &World, thief: LlcId, own: LlcId, now: Nanos) -> bool {
        let view = || self.steal_view(world, thief, own, Nanos(u64::MAX), 0, now);
        !world.policy.limits_steals(thief, own) || world.policy.steal_remote(&view()) > 0
    }

    /// Whether policy 6 lets a worker that has announced itself take nothing from behind `llc`.
    fn must_leave(&self, world: &World, worker: WorkerId, llc: LlcId, now: Nanos) -> bool {
        let view = self.view_of(world, worker, llc, now);
        view.is_some_and(|view| world.policy.steal_remote(&view) == 0)
    }

    /// What policy 6 is told by a worker that looks behind `llc` and has announced itself; `None`: it has nothing to
    /// say.
    fn view_of(&self, world: &World, worker: WorkerId, llc: LlcId, now: Nanos) -> Option<RemoteStealView> {
        let own = world.space.llc(worker);
        if !world.policy.limits_steals(own, llc) {
            return None;
        }
        let skips = self.workers[worker.index()].skips;
        Some(self.steal_view(world, own, llc, self.dry_for(worker, now), skips, now))
    }

    /// For how long a worker has found nothing.
    fn dry_for(&self, worker: WorkerId, now: Nanos) -> Nanos {
        let since = self.workers[worker.index()].dry_since;
        since.map_or(Nanos(0), |since| now.since(since))
    }

    /// How many tasks policy 6 lets a worker that searches take from behind `llc`.
    fn allowance(&mut self, world: &World, worker: WorkerId, llc: LlcId, rescue: bool, now: Nanos) -> usize {
        if rescue {
            return batch(world);
        }
        let Some(mut view) = self.view_of(world, worker, llc, now) else {
            return batch(world);
        };
        // It is counted by its idle bit otherwise.
        view.idle_here += 1;
        let allowed = world.policy.steal_remote(&view);
        self.workers[worker.index()].spoiled |= world.policy.spoils(&view, allowed);
        batch(world).min(allowed as usize)
    }

    /// What is exported, the own cache's first, then the nearest.
    pub(super) fn search_exports(
        &mut self,
        world: &mut World,
        worker: WorkerId,
        rescue: bool,
        t: &mut Nanos,
    ) -> Option<TaskId> {
        if !self.aggregates {
            return None;
        }
        let home = world.space.llc(worker);
        if let Some(task) = self.take_exported(world, worker, home, batch(world), t) {
            return Some(self.taken(world, worker, task, rescue));
        }
        for i in 0..world.policy.plan.llcs[home.index()].others.len() {
            let llc = world.policy.plan.llcs[home.index()].others[i];
            if self.look_at_exports(world, worker, llc, t) {
                continue;
            }
            let limit = self.allowance(world, worker, llc, rescue, *t);
            if limit > 0
                && let Some(task) = self.take_exported(world, worker, llc, limit, t)
                && let Some(kept) = self.settle_steal(world, worker, task, llc, rescue, t)
            {
                return Some(self.taken(world, worker, kept, rescue));
            }
        }
        None
    }

    /// Reads whether an export queue is empty.
    fn look_at_exports(&mut self, world: &World, worker: WorkerId, llc: LlcId, t: &mut Nanos) -> bool {
        let queue = &mut self.exports[llc.index()];
        t.0 += queue.line.read(worker, &world.space, &world.cost).0 + world.cost.search_step;
        queue.is_empty()
    }

    /// Notes for a task, and what came with it into the deque, that it was taken from others.
    fn taken(&self, world: &mut World, worker: WorkerId, task: TaskId, rescue: bool) -> TaskId {
        let cause = cause(rescue);
        let deque = self.workers[worker.index()].deque.iter();
        deque.chain([&task]).for_each(|task| world.came(*task, cause));
        task
    }

    /// What other queues there are behind another cache.
    pub(super) fn search_far(
        &mut self,
        world: &mut World,
        worker: WorkerId,
        llc: LlcId,
        rescue: bool,
        t: &mut Nanos,
    ) -> Option<TaskId> {
        let overdue = world.policy.config.wake_groups.rescue_any;
        let anything = rescue || world.policy.takes_anything(self.dry_for(worker, *t));
        let limit = if anything {
            self.allowance(world, worker, llc, rescue, *t)
        } else {
            0
        };
        let found = if limit > 0 {
            self.take_injector(world, worker, llc, limit, t)
                .or_else(|| self.steal_in(world, worker, llc, limit, rescue, t))
        } else {
            None
        };
        // What has waited for so long is nobody's in particular.
        found
            .and_then(|task| self.settle_steal(world, worker, task, llc, rescue, t))
            .or_else(|| self.take_overdue(world, worker, llc, overdue, t))
    }

    /// After a steal: gives back what stays on another node, each to a mate of its home, who is woken for it.
    fn settle_steal(
        &mut self,
        world: &mut World,
        worker: WorkerId,
        found: TaskId,
        llc: LlcId,
        rescue: bool,
        t: &mut Nanos,
    ) -> Option<TaskId> {
        let plan = &world.policy.plan;
        let near = plan.llcs[llc.index()].node == plan.workers[worker.index()].node;
        if near || rescue || !world.policy.active().numa {
            return Some(found);
        }
        let mut kept = None;
        let more = std::mem::take(&mut self.workers[worker.index()].deque);
        for task in std::iter::once(found).chain(more) {
            let state = &world.tasks[task.index()].policy;
            if world.policy.gives_back(state, worker) {
                let fallback = state.home;
                let llc = world.policy.plan.groups[fallback.index().min(self.groups.len() - 1)].llc;
                world.counters(worker).steals_given_back += 1;
                self.publish(world, task, Placement::IdleInLlc { llc, fallback }, Some(worker), t);
            } else if kept.is_none() {
                kept = Some(task);
            } else {
                self.workers[worker.index()].deque.push_back(task);
            }
        }
        kept
    }

    /// At most `limit` tasks of an export queue, one to be run now.
    pub(super) fn take_exported(
        &mut self,
        world: &mut World,
        worker: WorkerId,
        llc: LlcId,
        limit: usize,
        t: &mut Nanos,
    ) -> Option<TaskId> {
        if !self.aggregates || self.look_at_exports(world, worker, llc, t) {
            return None;
        }
        let queue = &mut self.exports[llc.index()];
        t.0 += queue.line.write(world.when(*t), worker, &world.space, &world.cost).0;
        let share = (queue.len() / 2).clamp(1, limit);
        let first = queue.tasks.pop_front()?;
        t.0 += world.cost.local_queue * (share - 1) as u64;
        self.workers[worker.index()]
            .deque
            .extend(queue.tasks.drain(..share - 1));
        let own = world.space.llc(worker) == llc;
        let counters = world.counters(worker);
        if own {
            counters.exports_taken_back += 1;
        } else {
            counters.export_pops += 1;
        }
        Some(first)
    }

    /// One task that the own cache has put up for others and nobody came for. It has lost its place in a deque, and is
    /// to be run now.
    pub(super) fn take_back(&mut self, world: &mut World, worker: WorkerId, t: &mut Nanos) -> Option<TaskId> {
        let llc = world.space.llc(worker);
        if self.exports[llc.index()].age(*t) <= world.policy.config.wake_groups.rescue_llc {
            return None;
        }
        let task = self.take_exported(world, worker, llc, 1, t)?;
        world.came(task, Cause::Steal);
        Some(task)
    }

    /// The last searcher goes to work. Another may have gone to sleep beside what it was told to leave, because this
    /// one searched: wakes somebody for the first such queue.
    pub(super) fn pass_on(&mut self, world: &mut World, worker: WorkerId, t: &mut Nanos) {
        if !self.aggregates && !world.policy.active().numa {
            return;
        }
        let own = world.space.llc(worker);
        for i in 0..world.policy.plan.llcs[own.index()].others.len() {
            let llc = world.policy.plan.llcs[own.index()].others[i];
            let left = !self.exports[llc.index()].is_empty() || !self.injectors[llc.index()].is_empty();
            if left && self.wake_behind(world, llc, worker, t) {
                return;
            }
        }
    }

    /// Wakes an idle worker behind `llc`. False if there is none.
    fn wake_behind(&mut self, world: &mut World, llc: LlcId, by: WorkerId, t: &mut Nanos) -> bool {
        let seat = self.claim_in_llc(world, llc, 0, Some(by), t);
        seat.is_some_and(|seat| {
            self.wake_claimed(world, seat, Some(by), t);
            true
        })
    }

    /// Whether there is anything that a worker must not, or need not, sleep beside; the deques of its own cache
    /// included, and all if it was the last searcher.
    pub(super) fn final_look(&mut self, world: &mut World, worker: WorkerId, last: bool, t: &mut Nanos) -> bool {
        let group = world.policy.plan.workers[worker.index()].group.index();
        if self.groups[group].look(world, worker, t) {
            return true;
        }
        let own = world.space.llc(worker);
        let free = !self.aggregates && !world.policy.active().numa;
        t.0 += world.cost.search_step * self.injectors.len() as u64;
        let mut not_ours = Vec::new();
        for index in 0..self.injectors.len() {
            let llc = LlcId(u16::try_from(index).unwrap_or(0));
            let exported = !self.exports[index].is_empty();
            let waits = !self.injectors[index].is_empty()
                || exported
                || (last || llc == own) && self.worth_stealing(world, llc, worker, t);
            if !waits {
                continue;
            }
            let anything = || exported || world.policy.takes_anything(self.dry_for(worker, *t));
            if free || llc == own || anything() && !self.must_leave(world, worker, llc, *t) {
                return true;
            }
            not_ours.push(llc);
        }
        // The last one hands over what it may not have, behind each of them; where nobody is idle, it stays.
        let handed_over = |llc: LlcId| self.wake_behind(world, llc, worker, t);
        last && not_ours.into_iter().map(handed_over).filter(|woken| !woken).count() > 0
    }

    /// Whether a deque behind `llc` has something that thieves may want.
    fn worth_stealing(&mut self, world: &World, llc: LlcId, by: WorkerId, t: &mut Nanos) -> bool {
        let (space, cost) = (&world.space, &world.cost);
        let workers = &mut self.workers;
        world.policy.plan.llcs[llc.index()].workers.iter().any(|victim| {
            let other = &mut workers[victim.index()];
            t.0 += cost.search_step + other.line.read(by, space, cost).0;
            other.is_worth(*t)
        })
    }
}
