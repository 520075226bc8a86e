//! Where a woken task goes: `select_task_rq_fair` without the rules that hackbench does not reach.

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
                None => self.idlest(&every(self.cpus.len()), world, None, t),
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

    /// Either the task's previous CPU or the waker's (`wake_affine`). The waker is about to wait, and does not count:
    /// its CPU it is if nothing is queued there. Else the previous one if it is idle or no busier.
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

    /// Without a search: `target` or the previous CPU, if it is idle or fits, and they share a cache; the previous one
    /// first where that is the bias.
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
        let count = world.policy.plan.llcs[llc.index()].workers.len() as u64;
        let depth = if world.policy.active().idle_filter {
            self.caches[llc.index()].depth(*t)
        } else if self.change == Some(Change::Proportion) {
            self.cpus[by.index()].proportion.depth(count, *t)
        } else {
            count
        };
        if depth == 0 {
            world.counters(by).wakes_cut += 1;
            return otherwise;
        }
        let cpus = &world.policy.plan.llcs[llc.index()].workers;
        let start = target.index() - cpus[0].index() + 1;
        let wrapped = || (0..cpus.len()).map(|step| cpus[(start + step) % cpus.len()]);
        let is_near = |cpu: &WorkerId| world.space.distance(*cpu, target) <= Distance::Group;
        let depth = usize::try_from(depth.min(count)).unwrap_or(cpus.len());
        let began = *t;
        let (found, steps) = if self.change == Some(Change::Clusters) {
            let far = wrapped().filter(|cpu| !is_near(cpu));
            self.scan(world, wrapped().filter(is_near).chain(far).take(depth), by, t)
        } else {
            self.scan(world, wrapped().take(depth), by, t)
        };
        self.cpus[by.index()].proportion.searched(t.since(began));
        let counters = world.counters(by);
        counters.wakes_searched += 1;
        counters.search_steps += steps;
        if found.is_some() {
            counters.wakes_found += 1;
        }
        found.unwrap_or(otherwise)
    }

    /// The first of these that is idle, and how many `by` has looked at.
    fn scan(
        &mut self,
        world: &World,
        cpus: impl Iterator<Item = WorkerId>,
        by: WorkerId,
        t: &mut Nanos,
    ) -> (Option<WorkerId>, u64) {
        let mut steps = 0;
        for cpu in cpus {
            steps += 1;
            t.0 += self.look(world, cpu, by).0;
            if self.cpus[cpu.index()].is_idle() {
                return (Some(cpu), steps);
            }
        }
        (None, steps)
    }

    /// For a new task of somebody who runs here: the idlest CPU of its node, if no other node has more idle CPUs or few
    /// enough tasks run here; else of the node with the most idle CPUs.
    fn idlest_near(&mut self, world: &World, parent: WorkerId, t: &mut Nanos) -> WorkerId {
        let here = world.space.node(parent).index();
        let nodes = &world.policy.plan.nodes;
        for node in nodes {
            t.0 += self.look_at_all(world, &node.workers, parent).0;
        }
        let idle = |node: usize| {
            let cpus = nodes[node].workers.iter();
            cpus.filter(|cpu| self.cpus[cpu.index()].is_idle()).count()
        };
        let most = (0..nodes.len()).rev().max_by_key(|node| idle(*node)).unwrap_or(here);
        let running = nodes[here].workers.len() - idle(here) + 1;
        let few = world.policy.active().numa && running <= nodes[here].tolerance as usize;
        let node = if few || idle(most) <= idle(here) { here } else { most };
        self.idlest(&nodes[node].workers, world, Some(parent), t)
    }

    /// The CPU with the shortest queue of these; among equals, the first from a random one on.
    fn idlest(&mut self, cpus: &[WorkerId], world: &World, by: Option<WorkerId>, t: &mut Nanos) -> WorkerId {
        if let Some(by) = by {
            t.0 += self.look_at_all(world, cpus, by).0;
        }
        let start = self.rng.below(u32::try_from(cpus.len()).unwrap_or(u32::MAX)) as usize;
        let from_start = cpus[start..].iter().chain(&cpus[..start]);
        let best = from_start.min_by_key(|cpu| self.cpus[cpu.index()].load());
        *best.expect("a node has CPUs")
    }
}

/// So many CPUs.
fn every(count: usize) -> Vec<WorkerId> {
    let id = |cpu: usize| WorkerId(u16::try_from(cpu).expect("workers fit u16"));
    (0..count).map(id).collect()
}

#[cfg(test)]
mod tests {
    use crate::scheduler::Change;
    use crate::{Cost, Hackbench, Machine, Model, Nanos, Report, Rpc, Sharing, Simulation, Workload};

    const KERNEL: Model = Model::KernelFaithful { scattered: None };

    fn run(machine: &str, model: Model, config: &str, workload: impl Workload, seed: u64) -> Report {
        let machine: Machine = machine.parse().unwrap();
        let simulation = Simulation::new(machine, Cost::default(), config.parse().unwrap(), model, workload, seed);
        simulation.unwrap().run(Nanos::from_millis(10))
    }

    /// Moves of four new tasks to other nodes than their maker's, which has 24 CPUs.
    fn check_new(config: &str, moves: u64) {
        let workload: Sharing = "rounds=10".parse().unwrap();
        let report = run("kunpeng-4n", KERNEL, config, workload, 1);
        assert!(report.finished, "{config}");
        assert_eq!(report.total().moves_spawn_machine, moves, "{config}");
    }

    #[test]
    fn new_tasks_go_where_most_cpus_are_idle_beyond_what_is_tolerated() {
        check_new("numa=off", 3);
        check_new("numa=on,numa-div=4", 0); // their maker and they are five of six
        check_new("numa=on,numa-div=8", 2); // their maker and two are three of three
        check_new("numa=on,numa-div=6", 1);
    }

    /// Transactions of one pair with each of eight seeds, which decide where its tasks begin.
    fn pairs(machine: &str, model: Model) -> Vec<u64> {
        let rpc: Rpc = "pairs=1,pipe=1".parse().unwrap();
        let one = |seed| run(machine, model, "group=4,filter=on", rpc.clone(), seed).done;
        (1..=8).map(one).collect()
    }

    /// The sibling of a core is as near as it gets, so that pairs may differ by that.
    #[test]
    fn a_waker_that_is_alone_fetches_whom_it_wakes_into_its_cache() {
        let done = pairs("llc:4 l2:4", KERNEL);
        let (least, most) = (done.iter().min().unwrap(), done.iter().max().unwrap());
        assert!(least * 100 > most * 98, "{done:?}");
    }

    #[test]
    fn clusters_fetch_it_behind_the_same_l2() {
        let plain = pairs("l2:4 core:4", KERNEL);
        let clusters = pairs("l2:4 core:4", Model::KernelChanged(Change::Clusters));
        let gains = plain.iter().zip(&clusters).filter(|(plain, clusters)| clusters > plain);
        assert!(gains.count() >= 4, "{plain:?} {clusters:?}");
        let least = clusters.iter().min().unwrap();
        assert!(
            least * 100 >= plain.iter().max().unwrap() * 99,
            "{plain:?} {clusters:?}"
        );
    }

    /// Moves of ten thousand messages of so many groups on 32 CPUs, of which some are idle, with each of four seeds.
    fn moves(model: Model, config: &str, groups: u32) -> u64 {
        let hackbench: Hackbench = format!("g={groups},via=pipe").parse().unwrap();
        let one = |seed| {
            let report = run("llc:2 l2:16", model, config, hackbench.clone(), seed);
            let count = report.total();
            (count.migrations_group + count.migrations_llc + count.migrations_node) * 10_000 / report.done
        };
        (1..=4).map(one).sum()
    }

    #[test]
    fn proposals_keep_tasks_where_they_were() {
        let base = |groups| moves(KERNEL, "cap=off", groups);
        let changed = |change, groups| moves(Model::KernelChanged(change), "cap=off", groups);
        let check = |got: u64, base: u64| assert!(got * 4 < base * 3, "{got} of {base}");
        check(moves(KERNEL, "cap=fixed:1:2ms", 1), base(1));
        check(changed(Change::Fits, 1), base(1));
        check(changed(Change::Previous, 2), base(2));
        check(changed(Change::FitsAndPrevious, 2), base(2));
        // Auto is the runtime's; the kernel has no limit.
        assert_eq!(moves(KERNEL, "default", 1), base(1));
    }
}
