//! Where a woken task goes: `select_task_rq_fair` without the rules that hackbench does not reach.

use std::ops::Range;

use quadrille_policy::{Nanos, WorkerId};

use super::Kernel;
use crate::scheduler::Why;
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
        let target = self.affine(previous, waker);
        self.idle_sibling(world, target, previous, waker, t)
    }

    /// Either the task's previous CPU or the waker's: the previous one if it is idle or no busier; the waker is about to
    /// wait, so its own task does not count (a synchronous wake-up, as pipes do).
    fn affine(&self, previous: WorkerId, waker: Option<WorkerId>) -> WorkerId {
        let Some(waker) = waker else {
            return previous;
        };
        let (there, here) = (&self.cpus[previous.index()], &self.cpus[waker.index()]);
        if there.is_idle() || here.load().saturating_sub(1) >= there.load() {
            previous
        } else {
            waker
        }
    }

    /// `target`, the previous CPU, or another one of `target`'s cache if it is idle; else `target`.
    fn idle_sibling(
        &mut self,
        world: &mut World,
        target: WorkerId,
        previous: WorkerId,
        waker: Option<WorkerId>,
        t: &mut Nanos,
    ) -> WorkerId {
        if self.cpus[target.index()].is_idle() {
            return target;
        }
        let llc = world.space.llc(target);
        if self.cpus[previous.index()].is_idle() && world.space.llc(previous) == llc {
            return previous;
        }
        let by = waker.unwrap_or(previous);
        let depth = if world.policy.active().idle_filter {
            self.caches[llc.index()].depth(*t)
        } else {
            u64::MAX
        };
        if depth == 0 {
            world.counters(by).wakes_cut += 1;
            return target;
        }
        let cpus = &world.policy.plan.llcs[llc.index()].workers;
        let first = cpus[0].index();
        let start = target.index() - first + 1;
        let found = (0..cpus.len())
            .take(usize::try_from(depth).unwrap_or(usize::MAX))
            .position(|step| self.cpus[first + (start + step) % cpus.len()].is_idle());
        let steps = found.map_or_else(|| depth.min(cpus.len() as u64), |position| position as u64 + 1);
        let idle = found.map(|position| cpus[(start + position) % cpus.len()]);
        t.0 += world.cost.scan_step * steps;
        let counters = world.counters(by);
        counters.wakes_searched += 1;
        counters.search_steps += steps;
        if idle.is_some() {
            counters.wakes_found += 1;
        }
        idle.unwrap_or(target)
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
