//! Threads that are no workers: for how long they spin before they sleep.
//!
//! A thread in `block_on` waits for what a worker does, and one of the pool's for the next job, of whoever waits for the last one's answer. To wake them through the kernel costs more
//! than most of what they wait for.

use quadrille_policy::{Nanos, Spins};

use super::Shared;
use crate::blocking::{AtStop, Job, Rejected};

impl Shared {
    /// For how long such a thread spins, as things are now: as long as two wake-ups cost, its own and that of the worker which it waits for. Not at all unless there is a
    /// hardware thread for it, that of a worker who is idle or one that no worker has: it would take one from who works, and have used up its slice when it is told.
    pub(crate) fn spin_outside(&self) -> Nanos {
        let has_cpu = self.spins && (self.spare > 0 || self.sleepers.idle.caches.total() > 0);
        if has_cpu && !self.clock.is_paused() {
            Spins::longest_of_last(&self.policy.config, self.wake_cost())
        } else {
            Nanos(0)
        }
    }

    /// Has a thread of the pool run `job`, and says for how long it spins after the last one.
    ///
    /// # Errors
    /// As [`Pool::submit_with`](crate::blocking::Pool::submit_with).
    pub(crate) fn submit(&self, job: Job, at_stop: AtStop) -> Result<(), Rejected> {
        self.pool.watch_for(self.spin_outside());
        self.pool.submit_with(job, at_stop)
    }
}
