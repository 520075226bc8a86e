//! How busy each cache is, as the runtime tells and samples it: who goes to work, becomes dry, looks up or parks tells
//! what others should know, and takes a sample if one is due; the sentinel takes one for all.

use quadrille_policy::{BusyCounter, BusySum, LazyRule, Nanos, Utilisation, WorkerId};

use super::Shipped;
use crate::world::World;

/// What the workers of a last-level cache have told, and what is sampled from it.
#[derive(Debug)]
pub(super) struct CacheLoad {
    workers: u64,
    /// A [`BusySum`].
    busy: u64,
    counted: Nanos,
    sampled: Nanos,
    utilisation: Utilisation,
}

impl CacheLoad {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            workers: workers as u64,
            busy: 0,
            counted: Nanos(0),
            sampled: Nanos(0),
            utilisation: Utilisation::default(),
        }
    }

    fn sample(&mut self, now: Nanos, interval: Nanos) {
        let elapsed = now.since(self.sampled);
        if elapsed < interval {
            return;
        }
        let fresh = BusySum::from_bits(self.busy).beyond(self.counted, now);
        self.counted.0 += fresh.0;
        self.utilisation.sample_late(fresh, self.workers, elapsed, interval);
        self.sampled = now;
    }
}

impl Shipped {
    /// The worker has found a task after a search, or has none any more.
    pub(super) fn note_busy(&mut self, world: &World, worker: WorkerId, busy: bool, now: Nanos) {
        if busy {
            self.tell_busy(world, worker, |counter, _| counter.begins(now));
        } else {
            self.tell_busy(world, worker, |counter, rule| counter.ends(now, rule));
            self.sample_load(world, world.space.llc(worker).index(), now);
        }
    }

    /// It looks up from its tasks.
    pub(super) fn note_goes_on(&mut self, world: &World, worker: WorkerId, now: Nanos) {
        self.tell_busy(world, worker, |counter, rule| counter.goes_on(now, rule));
        self.sample_load(world, world.space.llc(worker).index(), now);
    }

    /// It parks.
    pub(super) fn note_parks(&mut self, world: &World, worker: WorkerId, now: Nanos) {
        self.tell_busy(world, worker, |counter, _| counter.flush(now));
    }

    fn tell_busy(&mut self, world: &World, worker: WorkerId, news: impl FnOnce(&mut BusyCounter, &LazyRule) -> u64) {
        let delta = news(&mut self.workers[worker.index()].busy, &self.rule);
        let sum = &mut self.loads[world.space.llc(worker).index()].busy;
        *sum = sum.wrapping_add(delta);
    }

    fn sample_load(&mut self, world: &World, llc: usize, now: Nanos) {
        let interval = world.policy.config.idle_filter.sample;
        self.loads[llc].sample(now, interval);
    }

    pub(super) fn sample_loads(&mut self, world: &World, now: Nanos) {
        (0..self.loads.len()).for_each(|llc| self.sample_load(world, llc, now));
    }

    /// Utilisation of a cache as last sampled, in 1/1024.
    pub(super) fn utilisation(&self, llc: usize) -> u16 {
        self.loads[llc].utilisation.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_outlasts_a_sample_counts_once() {
        let mut load = CacheLoad::new(4);
        let mut worker = BusyCounter::default();
        load.busy = worker.begins(Nanos(0));
        for ms in 1..=40 {
            load.sample(Nanos::from_millis(ms), Nanos::from_millis(1));
            let at = |ms| Nanos::from_millis(ms);
            if ms == 20 {
                load.busy = load.busy.wrapping_add(worker.flush(at(ms)));
            }
            assert!(load.utilisation.get() <= 256, "{ms} ms");
        }
        assert_eq!(load.utilisation.get(), 256);
    }
}
