//! How a worker ends what is bound to it before it leaves (B c).

use std::mem;
use std::sync::Arc;

use quadrille_policy::WorkerId;

use super::Shared;
use super::worker::Worker;
use crate::coop;
use crate::primitives::{Ordering, relax};
use crate::task::meta::THREAD;

/// While it lives, a worker may run tasks (B d). Dropped as well when one of our own panics, so that nobody waits for
/// it.
#[derive(Debug)]
pub(super) struct Looping {
    shared: Arc<Shared>,
    worker: WorkerId,
}

impl Looping {
    pub(super) fn new(shared: Arc<Shared>, worker: WorkerId) -> Self {
        Self { shared, worker }
    }
}

impl Drop for Looping {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Nobody will end what is bound to it.
            let worker = &self.shared.workers[self.worker.index()];
            for count in [&worker.living, &worker.living_tasks] {
                // Ordering: Relaxed; the latch publishes it (B d).
                count.store(0, Ordering::Relaxed);
            }
        }
        self.shared.looping.count_down(1);
    }
}

impl Worker {
    /// Runs each bound thread that is ready once, to be unwound. Whether one of them has ended.
    fn unwind_ready(&self) -> bool {
        let (before, ready) = (self.context.living.len.get(), self.context.bound.len());
        // Not until it is empty: a thread that catches what unwinds it, and waits again, is ready again.
        for _ in 0..ready {
            match self.context.bound.pop(&self.context.me().bound) {
                Some(thread) if thread.meta().has(THREAD) => self.execute(thread),
                // Nothing but its destructors is to run of a task.
                Some(task) => coop::without_limit(|| drop(task)),
                None => break,
            }
        }
        self.context.living.len.get() < before
    }

    /// Ends every started thread and bound task of this worker, while it still is its OS thread's worker (B c), and
    /// once all have ended the loop that `looping` stands for. By `&self`, as `execute`.
    pub(super) fn unwind_threads(&self, looping: Looping) {
        self.context.unwinding.set(true);
        drop(looping);
        self.context.shared.looping.wait();
        let (mut tasks_woken, mut stays, mut step) = (false, false, 0_u32);
        loop {
            let before = self.context.living.len.get();
            self.context.living.wake_all();
            if before > 0 && !mem::replace(&mut tasks_woken, true) {
                // A scope of ours may wait for tasks that wait: they are dropped here, or with who is their owner. No
                // task enters the registry any more.
                self.context.shared.registry.wake_all();
            }
            self.context.bound.collect(&self.context.me().bound);
            if before == 0 && self.context.bound.len() == 0 {
                stays = self.is_to_stay(stays);
                if !stays {
                    break;
                }
            }
            // Those whose scopes have ended by that are ready then: only once nobody has ended all are woken again.
            while self.unwind_ready() {}
            // What has not started may be what a scope of ours waits for, here or with another worker that leaves.
            coop::stop();
            let dropped = self.drop_ready();
            if self.context.living.len.get() == before && !dropped {
                // A foreign waker holds a runnable and is about to push it, or a scope waits for threads of another
                // worker, or of another runtime: as long as they like.
                relax(step);
                step = step.saturating_add(1);
            } else {
                step = 0;
            }
        }
    }

    /// Whether this worker, which has nothing to unwind, stays for those that have: one does, so that what they wait
    /// for, which they may do in place (`Frame::stays`), is dropped though it is in their own queues.
    fn is_to_stay(&self, stays: bool) -> bool {
        let shared = &self.context.shared;
        // It does not rise any more: who is resumed now has been suspended before.
        shared.living() > 0 && (stays || shared.running.claims_stay())
    }

    /// Drops what is ready and has not started, and tasks, wherever they are. Whether there was anything.
    fn drop_ready(&self) -> bool {
        let context = &self.context;
        let mut dropped = false;
        // One at a time: what is dropped may wait for another one, which others must find.
        let others = || {
            let workers = context.shared.workers.iter();
            workers.filter_map(|worker| worker.slot.take().or_else(|| context.local.steal(&worker.stealer, 1)))
        };
        let own = || context.me().slot.take().or_else(|| context.local.pop());
        let queued = || context.shared.take_queued();
        while let Some(runnable) = own().or_else(|| others().next()).or_else(queued) {
            drop(runnable);
            dropped = true;
        }
        dropped
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::sched::still::Still;

    /// What was bound to a worker of which one of our own steps panicked is nobody's: the one that stays waits for
    /// those that come to an end alone.
    #[test]
    fn nobody_stays_for_a_worker_that_panicked() {
        let mut still = Still::new("core:2", "default");
        let worker = still.worker(0);
        let shared = still.shared.clone();
        let looping = |number| Looping::new(shared.clone(), WorkerId(number));
        // Ordering: Relaxed; one thread.
        shared.workers[1].living.store(1, Ordering::Relaxed);
        let ends = looping(1);
        let panicked = catch_unwind(AssertUnwindSafe(move || {
            let _ends = ends;
            panic!("for the test, in a worker's loop");
        }));
        assert!(panicked.is_err());
        worker.unwind_threads(looping(0));
        assert!(shared.running.claims_stay(), "nobody has stayed");
    }
}
