//! Where a woken task goes: `select_task_rq_fair` without the rules that hackbench does not reach.

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
        let Some(previous) = world.tasks[task.index()].last_worker else {
            return self.idlest(world, t);
        };
        if why == Why::Spawned {
            return self.idlest(world, t);
        }
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

    /// For a new task: the CPU with the shortest queue; among equals, the first from a random one on.
    fn idlest(&mut self, world: &World, t: &mut Nanos) -> WorkerId {
        let count = self.cpus.len();
        t.0 += world.cost.scan_step * count as u64;
        let start = self.rng.below(u32::try_from(count).unwrap_or(u32::MAX)) as usize;
        let at = |step: usize| (start + step) % count;
        let best = (0..count)
            .min_by_key(|step| self.cpus[at(*step)].load())
            .unwrap_or_default();
        WorkerId(u16::try_from(at(best)).expect("workers fit u16"))
    }
}
