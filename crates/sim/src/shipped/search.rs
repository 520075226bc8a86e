//! Where a dry worker looks, and in what order.

use quadrille_policy::{Cause, Level, LlcId, Nanos, WorkerId};

use super::{Shipped, batch, cause};
use crate::workload::TaskId;
use crate::world::World;

impl Shipped {
    /// The queues that a worker shares with others: its group's, and its cache's injector. At most `limit` tasks.
    pub(super) fn take_shared(
        &mut self,
        world: &mut World,
        worker: WorkerId,
        limit: usize,
        t: &mut Nanos,
    ) -> Option<TaskId> {
        let plan = &world.policy.plan.workers[worker.index()];
        let (group, llc) = (plan.group.index(), plan.llc);
        let me = &mut self.workers[worker.index()];
        me.injector_first = !me.injector_first;
        if me.injector_first
            && let Some(task) = self.take_injector(world, worker, llc, limit, t)
        {
            return Some(task);
        }
        if self.groups[group].look(world, worker, t) {
            let group_batch = world.policy.config.steal.group_batch as usize;
            let sink = &mut self.workers[worker.index()].deque;
            if let Some(task) = self.groups[group].pop(world, group_batch.min(limit - 1), worker, t, sink) {
                world.counters(worker).group_pops += 1;
                return Some(task);
            }
        }
        self.take_injector(world, worker, llc, limit, t)
    }

    pub(super) fn take_injector(
        &mut self,
        world: &mut World,
        worker: WorkerId,
        llc: LlcId,
        limit: usize,
        t: &mut Nanos,
    ) -> Option<TaskId> {
        let sink = &mut self.workers[worker.index()].deque;
        let task = self.injectors[llc.index()].pop(world, limit, worker, t, sink)?;
        world.counters(worker).injector_pops += 1;
        Some(task)
    }

    /// Looks everywhere, nearest first; without `rescue` through the gates, unless it goes for what it has seen.
    pub(super) fn search(
        &mut self,
        world: &mut World,
        worker: WorkerId,
        rescue: bool,
        t: &mut Nanos,
    ) -> Option<TaskId> {
        self.workers[worker.index()].spoiled = false;
        let found = self.search_outward(world, worker, rescue, t);
        let me = &mut self.workers[worker.index()];
        if found.is_none() && me.spoiled {
            me.skips = me.skips.saturating_add(1);
        }
        let counters = world.counters(worker);
        counters.searches += 1;
        counters.searches_failed += u64::from(found.is_none());
        found
    }

    fn search_outward(&mut self, world: &mut World, worker: WorkerId, rescue: bool, t: &mut Nanos) -> Option<TaskId> {
        if rescue && let Some(task) = self.take_stuck_slot(worker) {
            return Some(task);
        }
        if let Some(task) = self.take_shared(world, worker, batch(world), t) {
            return Some(task);
        }
        let home = world.policy.plan.workers[worker.index()].llc;
        let near = self
            .steal_in(world, worker, home, batch(world), rescue, t)
            .or_else(|| self.take_from_neighbours(world, worker, rescue, t));
        if near.is_some() {
            return near;
        }
        if let Some(task) = self.search_exports(world, worker, rescue, t) {
            return Some(task);
        }
        if let Some(task) = self.search_levels(world, worker, rescue, t) {
            return Some(task);
        }
        if rescue { self.rescue(world, worker, t) } else { None }
    }

    /// The other caches, those of the own node first; each level that its gate lets this search look at. A rescuer asks
    /// none, nor does who goes for what it has seen.
    fn search_levels(&mut self, world: &mut World, worker: WorkerId, rescue: bool, t: &mut Nanos) -> Option<TaskId> {
        let home = world.policy.plan.workers[worker.index()].llc;
        let plan = &world.policy.plan.llcs[home.index()];
        let (on_node, others) = (plan.others_on_node, plan.others.len());
        for (level, places) in [(Level::Node, 0..on_node), (Level::Machine, on_node..others)] {
            let me = &mut self.workers[worker.index()];
            if places.is_empty() {
                continue;
            }
            if rescue || me.seen {
                me.gates.force(level);
            } else if !me.gates.attempt(level, &mut me.rng) {
                continue;
            }
            let found = places.into_iter().find_map(|i| {
                let llc = world.policy.plan.llcs[home.index()].others[i];
                self.search_far(world, worker, llc, rescue, t)
            });
            self.workers[worker.index()].gates.record(level, found.is_some());
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Steals from the workers of one cache, mates first, but for a rescuer: half of what the first one has that has
    /// something, at most `most`.
    pub(super) fn steal_in(
        &mut self,
        world: &mut World,
        thief: WorkerId,
        llc: LlcId,
        most: usize,
        rescue: bool,
        t: &mut Nanos,
    ) -> Option<TaskId> {
        if most == 0 {
            return None;
        }
        let count = world.policy.plan.llcs[llc.index()].workers.len();
        let bound = u32::try_from(count).unwrap_or(u32::MAX);
        let start = self.workers[thief.index()].rng.below(bound) as usize;
        let clock = self.workers[thief.index()].clock;
        let mut steps = 0;
        let victim = world.policy.victims(thief, llc, start, cause(rescue)).find(|victim| {
            steps += 1;
            let (space, cost) = (&world.space, &world.cost);
            let other = &mut self.workers[victim.index()];
            t.0 += cost.search_step + other.line.read(thief, space, cost).0;
            !other.deque.is_empty() && (rescue || other.is_worth(clock))
        });
        world.counters(thief).search_steps += steps;
        let victim = victim?;
        let (space, cost) = (&world.space, &world.cost);
        let other = &mut self.workers[victim.index()];
        let share = other.deque.len().div_ceil(2).min(most);
        t.0 += other.line.write(world.when(*t), thief, space, cost).0 + cost.local_queue * share as u64;
        let mut taken: Vec<TaskId> = other.deque.drain(..share).collect();
        let first = taken.remove(0);
        let level = world.policy.plan.level(victim, thief);
        world.counters(thief).count_steal(level);
        let cause = cause(rescue);
        taken.iter().chain([&first]).for_each(|task| world.came(*task, cause));
        self.workers[thief.index()].deque.extend(taken);
        self.note_theft(world, thief, victim, *t);
        Some(first)
    }

    /// What has waited in the group queues of a cache for longer than its members should take.
    pub(super) fn take_overdue(
        &mut self,
        world: &mut World,
        worker: WorkerId,
        llc: LlcId,
        limit: Nanos,
        t: &mut Nanos,
    ) -> Option<TaskId> {
        for i in 0..world.policy.plan.llcs[llc.index()].groups.len() {
            let Some(group) = other_group(world, worker, llc, i) else {
                continue;
            };
            if self.waits(world, worker, group, t)
                && self.groups[group].age(*t) >= limit
                && let Some(task) = self.rescue_from(world, worker, (group, Cause::Rescue), t)
            {
                return Some(task);
            }
        }
        None
    }

    /// What waits for other groups of the own cache: what is overdue, else what is left to members who are all away.
    fn take_from_neighbours(
        &mut self,
        world: &mut World,
        worker: WorkerId,
        rescue: bool,
        t: &mut Nanos,
    ) -> Option<TaskId> {
        let home = world.policy.plan.workers[worker.index()].llc;
        let limit = world.policy.config.wake_groups.rescue_llc;
        let mut left = None;
        for i in 0..world.policy.plan.llcs[home.index()].groups.len() {
            let Some(group) = other_group(world, worker, home, i) else {
                continue;
            };
            if !self.waits(world, worker, group, t) {
                continue;
            }
            if self.groups[group].age(*t) < limit {
                left = left.or_else(|| self.members_are_away(world, group).then_some(group));
            } else if let Some(task) = self.rescue_from(world, worker, (group, Cause::Rescue), t) {
                return Some(task);
            }
        }
        self.rescue_from(world, worker, (left?, cause(rescue)), t)
    }

    /// Whether something waits in a group's queue.
    fn waits(&mut self, world: &mut World, worker: WorkerId, group: usize, t: &mut Nanos) -> bool {
        world.counters(worker).search_steps += 1;
        self.groups[group].look(world, worker, t)
    }

    /// Takes one task of another group, and wakes a member for what it leaves there.
    fn rescue_from(
        &mut self,
        world: &mut World,
        worker: WorkerId,
        (group, cause): (usize, Cause),
        t: &mut Nanos,
    ) -> Option<TaskId> {
        let sink = &mut self.workers[worker.index()].deque;
        let found = self.groups[group].pop(world, 0, worker, t, sink)?;
        world.came(found, cause);
        if !self.groups[group].is_empty()
            && let Some(seat) = self.announce(world, group, None, true, Some(worker), t)
        {
            self.wake_claimed(world, seat, Some(worker), t);
        }
        Some(found)
    }

    /// The queues of other groups, however young what is in them.
    fn rescue(&mut self, world: &mut World, worker: WorkerId, t: &mut Nanos) -> Option<TaskId> {
        let own = world.policy.plan.workers[worker.index()].group.index();
        (0..self.groups.len())
            .filter(|group| *group != own)
            .find_map(|group| self.rescue_from(world, worker, (group, Cause::Rescue), t))
    }

    /// Whether a queue that anyone may drain has something.
    pub(super) fn anything_shared(&mut self, world: &World, worker: WorkerId, t: &mut Nanos) -> bool {
        let group = world.policy.plan.workers[worker.index()].group.index();
        t.0 += world.cost.search_step * self.injectors.len() as u64;
        self.groups[group].look(world, worker, t)
            || self.injectors.iter().any(|injector| !injector.is_empty())
            || self.exports.iter().any(|queue| !queue.is_empty())
    }
}

/// The group `i` behind a cache, but for the searcher's own, whose queue it looks at as a member does.
fn other_group(world: &World, worker: WorkerId, llc: LlcId, i: usize) -> Option<usize> {
    let plan = &world.policy.plan;
    let group = plan.llcs[llc.index()].groups[i];
    (group != plan.workers[worker.index()].group).then_some(group.index())
}
