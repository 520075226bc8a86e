//! Where a woken task goes: `select_task_rq_fair` without the rules that hackbench does not reach.

use std::ops::Range;

use quadrille_policy::{Nanos, WorkerId};
use quadrille_topology::Distance;

use super::Kernel;
use crate::scheduler::{Change, Why};
use crate::workload::TaskId;
use crate::world::World;

impl Kernel {
    /// The CPU for a task that became ready.
    pub(super) fn select(
        &mut self,
        world: &mut World,
        task: TaskId,
        waker: Option<WorkerId>,
        why: Why,
        t: &mut Nanos,
    ) -> WorkerId {
        let previous = world.tasks[task.index()].last_worker;
        let Some(previous) = previous.filter(|_| why != Why::Spawned) else {
            return match waker {
                Some(parent) => self.idlest_near(world, parent, t),
                None => self.idlest(0..self.cpus.len(), world, t),
            };
        };
        if self.limit.is_reached(task, *t) {
            return previous;
        }
        let target = self.affine(previous, waker);
        let chosen = match self.sitting(world, task, target, previous, *t) {
            Some(found) => found,
            None => self.idle_sibling(world, target, previous, waker, t),
        };
        if chosen != previous {
            self.limit.moved(task, *t);
        }
        chosen
    }

    /// Either the task's previous CPU or the waker's (`wake_affine`). The waker is about to wait, and does not count: its CPU
    /// it is if nothing is queued there. Else the previous one if it is idle or no busier.
    fn affine(&self, previous: WorkerId, waker: Option<WorkerId>) -> WorkerId {
        let Some(waker) = waker else {
            return previous;
        };
        let (there, here) = (&self.cpus[previous.index()], &self.cpus[waker.index()]);
        if here.queue.is_empty() {
            return waker;
        }
        if there.is_idle() || here.load().saturating_sub(1) >= there.load() {
            previous
        } else {
            waker
        }
    }

    /// Without a search: `target` or the previous CPU, if it is idle or fits, and they share a cache; the previous one first
    /// where that is the bias.
    fn sitting(
        &mut self,
        world: &World,
        task: TaskId,
        target: WorkerId,
        previous: WorkerId,
        now: Nanos,
    ) -> Option<WorkerId> {
        let near = match self.change {
            Some(Change::Clusters) => world.space.distance(previous, target) <= Distance::Group,
            _ => world.space.llc(previous) == world.space.llc(target),
        };
        let previous = near.then_some(previous);
        let order = if self.prefers_previous() {
            [previous, Some(target)]
        } else {
            [Some(target), previous]
        };
        let mut order = order.into_iter().flatten();
        order.find(|cpu| self.cpus[cpu.index()].is_idle() || self.fits(world, task, *cpu, now))
    }

    /// Whether a CPU is used to at most 80 % with the task; one that ran there last is in the figure already.
    fn fits(&mut self, world: &World, task: TaskId, cpu: WorkerId, now: Nanos) -> bool {
        if !self.asks_shares {
            return false;
        }
        let own = match self.shares.get_mut(task.index()) {
            Some(share) if world.tasks[task.index()].last_worker != Some(cpu) => share.get(now),
            _ => 0,
        };
        (self.cpus[cpu.index()].used.get(now) + own) * 100 <= 80 * 1024
    }

    fn prefers_previous(&self) -> bool {
        matches!(self.change, Some(Change::Previous | Change::FitsAndPrevious))
    }

    /// What is left where nobody idle is found: `target`, or the previous CPU where that is the bias; with clusters the
    /// previous CPU too, if it is idle after all.
    fn fallback(&self, world: &World, target: WorkerId, previous: WorkerId) -> WorkerId {
        let near = world.space.llc(previous) == world.space.llc(target);
        let idle = self.change == Some(Change::Clusters) && self.cpus[previous.index()].is_idle();
        if near && (idle || self.prefers_previous()) {
            previous
        } else {
            target
        }
    }

    /// A CPU of `target`'s cache that a search finds idle, else the fallback.
    fn idle_sibling(
        &mut self,
        world: &mut World,
        target: WorkerId,
        previous: WorkerId,
        waker: Option<WorkerId>,
        t: &mut Nanos,
    ) -> WorkerId {
        let llc = world.space.llc(target);
        let otherwise = self.fallback(world, target, previous);
        let by = waker.unwrap_or(previous);
        let depth = if world.policy.active().idle_filter {
            self.caches[llc.index()].depth(*t)
        } else {
            u64::MAX
        };
        if depth == 0 {
            world.counters(by).wakes_cut += 1;
            return otherwise;
        }
        let cpus = &world.policy.plan.llcs[llc.index()].workers;
        let start = target.index() - cpus[0].index() + 1;
        let wrapped = || (0..cpus.len()).map(|step| cpus[(start + step) % cpus.len()]);
        let is_near = |cpu: &WorkerId| world.space.distance(*cpu, target) <= Distance::Group;
        let idle = |cpu: &WorkerId| self.cpus[cpu.index()].is_idle();
        let depth = usize::try_from(depth).unwrap_or(usize::MAX).min(cpus.len());
        let (found, steps) = if self.change == Some(Change::Clusters) {
            let far = wrapped().filter(|cpu| !is_near(cpu));
            first(wrapped().filter(is_near).chain(far).take(depth), idle)
        } else {
            first(wrapped().take(depth), idle)
        };
        t.0 += world.cost.scan_step * steps;
        let counters = world.counters(by);
        counters.wakes_searched += 1;
        counters.search_steps += steps;
        if found.is_some() {
            counters.wakes_found += 1;
        }
        found.unwrap_or(otherwise)
    }

    /// For a new task of somebody who runs here: the idlest CPU of its node, if no other node has more idle CPUs or few
    /// enough tasks run here; else of the node with the most idle CPUs.
    fn idlest_near(&mut self, world: &World, parent: WorkerId, t: &mut Nanos) -> WorkerId {
        let here = world.space.node(parent).index();
        let nodes = &world.policy.plan.nodes;
        let idle = |node: usize| {
            let cpus = nodes[node].workers.iter();
            cpus.filter(|cpu| self.cpus[cpu.index()].is_idle()).count()
        };
        t.0 += world.cost.scan_step * self.cpus.len() as u64;
        let most = (0..nodes.len()).rev().max_by_key(|node| idle(*node)).unwrap_or(here);
        let running = nodes[here].workers.len() - idle(here) + 1;
        let few = world.policy.active().numa && running <= nodes[here].tolerance as usize;
        let node = if few || idle(most) <= idle(here) { here } else { most };
        let cpus = nodes[node].workers.iter().map(|cpu| cpu.index());
        let range = cpus.clone().min().zip(cpus.max());
        self.idlest(
            range.map_or(0..self.cpus.len(), |(first, last)| first..last + 1),
            world,
            t,
        )
    }

    /// The CPU with the shortest queue in a range; among equals, the first from a random one on.
    fn idlest(&mut self, range: Range<usize>, world: &World, t: &mut Nanos) -> WorkerId {
        let count = range.len();
        t.0 += world.cost.scan_step * count as u64;
        let start = self.rng.below(u32::try_from(count).unwrap_or(u32::MAX)) as usize;
        let at = |step: usize| range.start + (start + step) % count;
        let best = (0..count)
            .min_by_key(|step| self.cpus[at(*step)].load())
            .unwrap_or_default();
        WorkerId(u16::try_from(at(best)).expect("workers fit u16"))
    }
}

/// The first of these that is idle, and how many were looked at.
fn first(cpus: impl Iterator<Item = WorkerId>, idle: impl Fn(&WorkerId) -> bool) -> (Option<WorkerId>, u64) {
    let mut steps = 0;
    let found = cpus.inspect(|_| steps += 1).find(idle);
    (found, steps)
}

#[cfg(test)]
mod tests {
    use crate::{Cost, Machine, Model, Nanos, Sharing, Simulation};

    /// Moves of four new tasks to other nodes than their maker's, which has 24 CPUs.
    fn check(config: &str, moves: u64) {
        let machine: Machine = "kunpeng-4n".parse().unwrap();
        let workload: Sharing = "rounds=10".parse().unwrap();
        let model = Model::KernelFaithful { scattered: None };
        let simulation = Simulation::new(machine, Cost::default(), config.parse().unwrap(), model, workload, 1);
        let report = simulation.unwrap().run(Nanos::from_millis(10));
        assert!(report.finished, "{config}");
        assert_eq!(report.total().moves_spawn_machine, moves, "{config}");
    }

    #[test]
    fn new_tasks_go_where_most_cpus_are_idle_beyond_what_is_tolerated() {
        check("numa=off", 3);
        check("numa=on,numa-div=4", 0); // their maker and they are five of six
        check("numa=on,numa-div=8", 2); // their maker and two are three of three
        check("numa=on,numa-div=6", 1);
    }
}
