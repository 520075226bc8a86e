//! thread_spawn_join: trivial threads, spawned from inside a thread in batches, all joined; see
//! [`spawn_join`](crate::workloads::spawn_join).
//!
//! The warm-up is at least a whole batch, so a runtime that keeps stacks has as many as it needs.

use crate::adapters::blocking::{ThreadRuntime, spawn_failed};
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::workloads::spawn_join::check;

/// Runs it once; `threads` is rounded down to whole batches, at least one.
///
/// # Errors
/// [`Stop::Failed`] if a thread cannot be made, or the sum of the results is wrong.
pub fn run<R: ThreadRuntime>(runtime: R, threads: usize, batch: usize) -> Result<Measured, Stop> {
    let batches = (threads / batch).max(1);
    let mut joins = Vec::with_capacity(batch);
    let mut sum = 0;
    let meter = Meter::start(&runtime);
    for _ in 0..batches {
        for index in 0..batch as u64 {
            joins.push(runtime.spawn(move || index).map_err(|error| spawn_failed(&error))?);
        }
        for join in joins.drain(..) {
            sum += R::join(join);
        }
    }
    let measured = meter.stop(&runtime, (batches * batch) as u64);
    check(sum, batches, batch).map(|()| measured)
}
