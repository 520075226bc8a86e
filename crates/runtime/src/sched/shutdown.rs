//! How a runtime ends, in numbered steps.
//!
//! 1. Somebody calls `stop`: the flag, then a token for every worker. Then the stores of timers and the reactor are
//!    closed: whoever waits there and is no task of the runtime is woken, and sees the flag (F). The reactor wakes its
//!    user-level threads, too; timers don't.
//! 2. Every worker finishes the task it is running and leaves its loop when it next looks up (at most `global_interval`
//!    tasks later). It waits until all have done so. Then it unwinds the stacks of its bound threads (B c), which
//!    nobody else may; meanwhile it drops what is ready and has not started, and tasks, also those of others: one that
//!    has none stays for that until nobody has. So once the first destructor runs, nothing else of the user's does, and
//!    no task sees another cancelled. Then it stops being its thread's worker: what its thread schedules from now on
//!    goes to an injector like any foreign wake. What is spawned from outside from now on is dropped where it was made,
//!    so that step 4 comes to an end.
//! 3. It hands what is in its slot and deque to its LLC's injector.
//! 4. The last worker to get here drops every task: it empties the queues, wakes every task in the registry (whose
//!    runnables then arrive in the queues, from us or from a foreign waker that was under way), and repeats until both
//!    are empty. Dropping a runnable drops the task's future and tells its joiner. No started thread is among them:
//!    each worker has ended its own in step 2.
//! 5. It sets `terminated`, fences, and empties the queues once more. A pusher pushes, fences, and reads `terminated`:
//!    so either the last look sees its task, or it sees the flag and empties the queues itself. Nothing stays. A thread
//!    that runs tasks in place of workers that block (`in_place`) counts as one until step 2 and takes no part in the
//!    rest. Then it ends what the kernel has yet to do for rings, and waits until nothing is (`reactor/ring`).
//! 6. The threads are joined by whoever called `shutdown` from a thread that may block and polls nothing, else by
//!    nobody. With a limit it waits for their `Departures` and joins none: who has departed has dropped all that it had
//!    of the runtime and of the user's hooks, but thread-locals of the user's may hold up its end for ever.

use std::time::Duration;

use quadrille_policy::Nanos;

use super::Shared;
use super::context::may_join;
use super::worker::Worker;
use crate::current;
use crate::primitives::{AtomicBool, AtomicU32, Ordering, fence};
use crate::runtime::Handle;
use crate::stragglers::Stragglers;
use crate::stress;
use crate::sys::clock;
use crate::task::Runnable;
use crate::thread::list;

impl Worker {
    /// Steps 3 to 5.
    pub(super) fn leave(self) {
        let counters = &self.context.me().counters;
        let now = Nanos(clock::nanos());
        self.context.load.ends(&self.context.shared, self.llc(), counters, now);
        self.context.load.flush(&self.context.shared, self.llc(), counters, now);
        let context = self.context;
        let shared = context.shared.clone();
        // Destructors that run from here on find their runtime, though the thread is its worker no more.
        let _current = current::enter(Handle { shared: shared.clone() });
        let llc = shared.policy.plan.workers[context.id.index()].llc.index();
        while let Some(runnable) = context.me().slot.take().or_else(|| context.local.pop()) {
            shared.injectors[llc].push(runnable);
        }
        drop(context);
        shared.has_left();
    }
}

impl Shared {
    /// Adds the thread of a worker.
    pub(crate) fn adopt(&self, thread: std::thread::JoinHandle<()>) {
        self.threads.lock().unwrap().push(thread);
    }

    /// Step 1, and step 6 if the calling thread may wait: it is no worker of any runtime, and polls no future. Such a
    /// thread also waits for what the blocking pool is running. For both together at most `limit`. What is left then.
    pub(crate) fn shutdown(&self, limit: Option<Duration>) -> Stragglers {
        let until = limit.map(clock::after);
        self.sleepers.stop();
        self.close_timers();
        self.close_reactor();
        let rest = || until.map(|until| until.saturating_duration_since(clock::now()));
        let (workers, limit) = match rest() {
            _ if !may_join() => (self.departures.left(), Some(Duration::ZERO)),
            None => (0, None),
            Some(limit) => (self.departures.wait(limit), rest()),
        };
        match limit {
            None => self.join_workers(),
            Some(_) => self.detach_workers(),
        }
        Stragglers {
            workers,
            blocking_threads: self.pool.shutdown(limit),
            threads: if workers == 0 { Vec::new() } else { list::all(self) },
        }
    }

    /// Step 1, and nobody waits: workers and the threads of the pool end on their own.
    pub(crate) fn abandon(&self) {
        self.sleepers.stop();
        self.close_timers();
        self.close_reactor();
        self.pool.shutdown(Some(Duration::ZERO));
        self.detach_workers();
    }

    /// Joins all workers. Not for workers: neither for themselves nor for others, whose tasks may wait for theirs.
    fn join_workers(&self) {
        let threads = std::mem::take(&mut *self.threads.lock().unwrap());
        for thread in threads {
            // A worker's thread catches the panics of tasks; one of our own has been reported by the hook.
            let _ = thread.join();
        }
    }

    /// Nobody will wait for the workers.
    fn detach_workers(&self) {
        drop(std::mem::take(&mut *self.threads.lock().unwrap()));
    }

    /// A worker, or who ran tasks in place of one, is about to leave, and has handed over what it had.
    fn has_left(&self) {
        if self.running.leave(1) {
            self.drop_all_tasks();
        }
    }

    /// Who ran tasks in place of workers that blocked, and was counted as one of them, does so no more.
    pub(super) fn count_out(&self) {
        // Never the last: no worker leaves before the latch opens, and so nobody but a worker drops the tasks.
        let _is_last = self.running.leave(1);
        self.looping.count_down(1);
    }

    /// A worker thread could not be started: it counts as one that has left.
    pub(crate) fn never_started(&self, workers: usize) {
        // The first of them has departed by itself.
        self.departures.gone(workers - 1);
        let workers = u32::try_from(workers).expect("workers fit u16");
        self.looping.count_down(workers);
        if self.running.leave(workers) {
            self.drop_all_tasks();
        }
    }

    /// Steps 4 and 5.
    fn drop_all_tasks(&self) {
        debug_assert_eq!(self.living(), 0, "each worker has ended what is bound to it (B c)");
        loop {
            let dropped = self.drop_queued();
            let pending = self.registry.wake_all();
            if !dropped && !pending {
                break;
            }
            if !dropped {
                // A foreign waker holds a runnable and is about to push it.
                std::thread::yield_now();
            }
        }
        self.terminated.set(|| {
            self.drop_queued();
        });
        self.drain_rings();
        self.stacks.release_idle();
    }

    /// After a push by a foreign thread: step 5's other half.
    pub(super) fn refuse_if_terminated(&self) {
        self.terminated.refuse(|| {
            self.drop_queued();
        });
    }

    /// Drops what is in the shared queues: all, also what somebody else is at. True if there was anything.
    fn drop_queued(&self) -> bool {
        let mut any = false;
        for group in &self.groups {
            let taken = group.take_all();
            any |= !taken.is_empty();
            drop(taken);
        }
        while let Some(runnable) = self.take_injected() {
            drop(runnable);
            any = true;
        }
        any
    }

    /// Takes one out of the shared queues; of a group's none while somebody else is at it.
    pub(super) fn take_queued(&self) -> Option<Runnable> {
        let grouped = self.groups.iter().find_map(|group| group.pop(0, clock::nanos, drop));
        grouped.or_else(|| self.take_injected())
    }

    fn take_injected(&self) -> Option<Runnable> {
        let injected = self.injectors.iter().find_map(|injector| injector.pop_one());
        injected.or_else(|| self.exports.iter().find_map(|queue| queue.pop_one()))
    }
}

/// How many may run tasks: workers that have not left, and who runs tasks in place of them (D).
#[derive(Debug)]
pub(crate) struct Running {
    count: AtomicU32,
    /// Whether one of them stays until none has anything to unwind (B c).
    stays: AtomicBool,
}

impl Running {
    pub(crate) fn new(workers: u32) -> Self {
        Self {
            count: AtomicU32::new(workers),
            stays: AtomicBool::new(false),
        }
    }

    /// Whether the caller is to stay, because nobody does.
    pub(super) fn claims_stay(&self) -> bool {
        // Ordering: Relaxed; nothing is read on its strength.
        !self.stays.swap(true, Ordering::Relaxed)
    }

    /// One more. Only while no worker has left, and none can before this has returned.
    pub(crate) fn count_in(&self) {
        // Ordering: AcqRel; (D a), as the decrement.
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    /// So many leave, and have handed over what they had. Whether they are the last, who see all of that.
    #[must_use = "the last one drops every task"]
    pub(crate) fn leave(&self, count: u32) -> bool {
        // Ordering: AcqRel; (D a) what the others handed over happens before the last one's drain.
        self.count.fetch_sub(count, Ordering::AcqRel) == count
    }
}

/// Whether every body has been dropped, so that nothing is accepted any more.
#[derive(Debug)]
pub(crate) struct Terminated(AtomicBool);

impl Terminated {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Step 5: sets the flag, then calls `empty` for the last time.
    pub(crate) fn set(&self, empty: impl FnOnce()) {
        // Ordering: Relaxed; the fence decides.
        self.0.store(true, Ordering::Relaxed);
        stress::delay();
        // Ordering: SeqCst; (T) flag before the last look, against push before flag in `refuse`.
        fence(Ordering::SeqCst);
        empty();
    }

    /// After a push that no worker may see any more: calls `empty` if the flag is set.
    pub(crate) fn refuse(&self, empty: impl FnOnce()) {
        stress::delay();
        // Ordering: SeqCst; (T) push before flag, against flag before the last look in `set`.
        fence(Ordering::SeqCst);
        // Ordering: Relaxed; the fence decides.
        if self.0.load(Ordering::Relaxed) {
            empty();
        }
    }
}
