//! spawn_remote: trivial tasks spawned from a thread that is no worker, in batches; the last task of a batch unparks
//! it.
//!
//! With batches of 1 (`spawn_remote1`) it is the way into an idle runtime and back: wake a worker, run one task, unpark
//! the thread. Verified by the number of tasks that ran.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};

use crate::adapters::Runtime;
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};

/// One word that the tasks count in, and the thread to be told of every full batch.
struct Batches {
    done: AtomicUsize,
    batch: usize,
    spawner: Thread,
}

impl Batches {
    fn one_done(&self) {
        // Ordering: Release; pairs with the Acquire load in `wait_for`.
        let done = self.done.fetch_add(1, Ordering::Release) + 1;
        if done.is_multiple_of(self.batch) {
            self.spawner.unpark();
        }
    }

    fn wait_for(&self, count: usize) {
        // Ordering: Acquire; pairs with the Release increments in `one_done`.
        while self.done.load(Ordering::Acquire) < count {
            thread::park();
        }
    }
}

/// Runs it once, on the calling thread; `tasks` is rounded down to whole batches, at least one.
///
/// # Errors
/// [`Stop::Failed`] if a task ran more or less than once.
pub fn run<R: Runtime>(runtime: R, tasks: usize, batch: usize) -> Result<Measured, Stop> {
    let batches = (tasks / batch).max(1);
    // Leaked: a reference count would be a contended word in each task, of which the workload should have just one.
    let shared: &'static Batches = Box::leak(Box::new(Batches {
        done: AtomicUsize::new(0),
        batch,
        spawner: thread::current(),
    }));
    let meter = Meter::start(&runtime);
    for index in 0..batches {
        for _ in 0..batch {
            runtime.spawn_outside(async move { shared.one_done() });
        }
        shared.wait_for((index + 1) * batch);
    }
    let measured = meter.stop(&runtime, (batches * batch) as u64);
    // Ordering: Acquire; as in `wait_for`.
    let ran = shared.done.load(Ordering::Acquire);
    check(ran, batches * batch).map(|()| measured)
}

/// Compares how many tasks ran with how many were spawned.
pub(super) fn check(ran: usize, spawned: usize) -> Result<(), Stop> {
    if ran == spawned {
        Ok(())
    } else {
        Err(Stop::failed(format!("{ran} tasks ran, {spawned} were spawned")))
    }
}
