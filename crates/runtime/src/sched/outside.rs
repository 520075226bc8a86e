//! Threads that are no workers: whether they spin before they sleep, and for how long.
//!
//! A thread in `block_on` waits for what a worker does, and one of the pool's for the next job, of whoever waits for
//! the last one's answer. To wake them through the kernel costs more than most of what they wait for. But they spin
//! only where there is a hardware thread for them, that of a worker who is idle or one that no worker has: they would
//! take one from who works, and have used up their slice when they are told.

use quadrille_policy::{Config, Nanos, Spins};

use super::Shared;
use crate::blocking::{AtStop, Job, Rejected};
use crate::primitives::{AtomicU32, Ordering};

/// Those that wait in `block_on`.
#[derive(Debug)]
pub(super) struct Outside {
    /// Hardware threads that no worker has.
    spare: u32,
    /// Threads that spin now.
    spinning: AtomicU32,
}

impl Outside {
    pub(super) fn new(spare: u32) -> Self {
        Self {
            spare,
            spinning: AtomicU32::new(0),
        }
    }
}

impl Shared {
    /// As long as two wake-ups cost: the thread's own, and that of the worker which it waits for.
    fn spin_outside(&self) -> Nanos {
        if self.clock.is_paused() {
            return Nanos(0);
        }
        Spins::longest_for_two(&self.policy.config, self.wake_cost())
    }

    /// Has the calling thread `spin` for so long at most, if there is a hardware thread for it beside those that spin
    /// already. What `spin` answers.
    pub(crate) fn spins_outside<R>(&self, spin: impl FnOnce(&Config, Nanos) -> Option<R>) -> Option<R> {
        let limit = self.spin_outside();
        if !self.spins || limit == Nanos(0) {
            return None;
        }
        let room = self.outside.spare.saturating_add(self.sleepers.idle.caches.total());
        // Ordering: Relaxed, here and below; a number of threads.
        let is_free = self.outside.spinning.fetch_add(1, Ordering::Relaxed) < room;
        let answer = if is_free {
            spin(&self.policy.config, limit)
        } else {
            None
        };
        self.outside.spinning.fetch_sub(1, Ordering::Relaxed);
        answer
    }

    /// Has a thread of the pool run `job`, and says for how long one spins that is out of jobs.
    ///
    /// # Errors
    /// As [`Pool::submit_with`](crate::blocking::Pool::submit_with).
    pub(crate) fn submit(&self, job: Job, at_stop: AtStop) -> Result<(), Rejected> {
        let has_cpu = self.spins && (self.outside.spare > 0 || self.sleepers.idle.caches.any());
        self.pool
            .watch_for(if has_cpu { self.spin_outside() } else { Nanos(0) });
        self.pool.submit_with(job, at_stop)
    }
}
