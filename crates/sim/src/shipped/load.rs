//! How busy each cache is, as the runtime samples it: who goes to work, becomes dry, or looks up takes a sample if one is due,
//! and the sentinel does for all.

use quadrille_policy::{Nanos, WorkerId};

use super::Shipped;
use crate::world::World;

/// A rest counts for at most so many samples: they leave 1 % of the past.
const SAMPLES_MAX: u64 = 16;

impl Shipped {
    /// The worker has found a task after a search, or has none any more.
    pub(super) fn note_busy(&mut self, world: &World, worker: WorkerId, busy: bool, now: Nanos) {
        let llc = world.space.llc(worker).index();
        self.loads[llc].busy(now, &mut self.workers[worker.index()].is_busy, busy);
        if !busy {
            self.sample_load(world, llc, now);
        }
    }

    pub(super) fn sample_load(&mut self, world: &World, llc: usize, now: Nanos) {
        let interval = world.policy.config.idle_filter.sample;
        self.loads[llc].sample(now, interval, SAMPLES_MAX);
    }

    pub(super) fn sample_loads(&mut self, world: &World, now: Nanos) {
        (0..self.loads.len()).for_each(|llc| self.sample_load(world, llc, now));
    }

    /// Utilisation of a cache as last sampled, in 1/1024.
    pub(super) fn utilisation(&self, llc: usize) -> u16 {
        self.loads[llc].utilisation()
    }
}
