//! What is counted: how busy a last-level cache is, and the load of the task group that all CPUs add to.

use quadrille_policy::{LazyCounter, LazyRule, Nanos, Policy, WorkerId};

use crate::busy::BusyTime;
use crate::line::Counter;
use crate::world::World;

/// How often the utilisation of a cache is looked at.
const SAMPLE: Nanos = Nanos::from_millis(1);

/// How busy the CPUs of a cache are.
#[derive(Debug)]
pub(super) struct CacheLoad(BusyTime);

impl CacheLoad {
    pub(super) fn new(cpus: usize) -> Self {
        Self(BusyTime::new(cpus))
    }

    /// A CPU, which `counted` or not as busy, is busy or not from `now` on.
    pub(super) fn busy(&mut self, now: Nanos, counted: &mut bool, busy: bool) {
        self.0.busy(now, counted, busy);
    }

    /// How many CPUs a search may look at: none above 85 %, falling with the square of utilisation (`SIS_UTIL`,
    /// 20220612163428.849378-1-yu.c.chen@intel.com).
    pub(super) fn depth(&mut self, now: Nanos) -> u64 {
        self.0.sample(now, SAMPLE);
        let util = u64::from(self.0.utilisation());
        let busy = util * util * 117 * 117 / (10_000 * 1024);
        self.0.workers() * 1024_u64.saturating_sub(busy) / 1024
    }
}

/// The load of the one task group that all tasks are in (`tg->load_avg`): each CPU adds what changes, to one line.
#[derive(Debug)]
pub(super) struct GroupLoad {
    line: Counter,
    shares: Vec<LazyCounter>,
    rule: LazyRule,
}

impl GroupLoad {
    pub(super) fn new(policy: &Policy) -> Self {
        Self {
            line: Counter::default(),
            shares: vec![LazyCounter::default(); policy.plan.workers.len()],
            rule: policy.lazy_rule(),
        }
    }

    /// A task was enqueued by `by`, which `moved` it there from another CPU or not; returns how long the publication
    /// took. Only moves change a CPU's share at once; everything else changes it slowly, and is below what is
    /// published.
    pub(super) fn enqueued(&mut self, world: &mut World, by: WorkerId, moved: bool, now: Nanos) -> Nanos {
        if !moved {
            return Nanos(0);
        }
        let share = &mut self.shares[by.index()];
        share.add(1);
        if share.due(now, &self.rule).is_none() {
            return Nanos(0);
        }
        let took = self.line.add(world.when(now), &world.cost);
        let counters = world.counters(by);
        counters.publications += 1;
        counters.lock_wait_ns += took.0;
        took
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_falls_with_utilisation() {
        let mut cache = CacheLoad::new(16);
        let mut counted = [false; 16];
        assert_eq!(cache.depth(Nanos(0)), 16);
        counted[..12].iter_mut().for_each(|cpu| cache.busy(Nanos(0), cpu, true));
        for ms in 1..60 {
            cache.depth(Nanos::from_millis(ms));
        }
        assert_eq!(cache.depth(Nanos::from_millis(60)), 3); // published: 3 of 16 at 75 %
        counted[12..]
            .iter_mut()
            .for_each(|cpu| cache.busy(Nanos::from_millis(60), cpu, true));
        for ms in 61..120 {
            cache.depth(Nanos::from_millis(ms));
        }
        assert_eq!(cache.depth(Nanos::from_millis(120)), 0);
    }
}
