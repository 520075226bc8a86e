//! spawn_join: trivial tasks, spawned from inside a task in batches, all joined.
//!
//! What a fan-out costs: allocate, schedule, run, hand the result over. Verified by the sum of the results.

use crate::adapters::Runtime;
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};

/// Runs it once; `tasks` is rounded down to whole batches, at least one.
///
/// # Errors
/// [`Stop::Failed`] if the sum of the results is wrong.
pub async fn run<R: Runtime>(runtime: R, tasks: usize, batch: usize) -> Result<Measured, Stop> {
    let batches = (tasks / batch).max(1);
    let mut joins = Vec::with_capacity(batch);
    let mut sum = 0;
    let meter = Meter::start(&runtime);
    for _ in 0..batches {
        for index in 0..batch as u64 {
            joins.push(runtime.spawn(async move { index }));
        }
        for join in joins.drain(..) {
            sum += join.await;
        }
    }
    let measured = meter.stop(&runtime, (batches * batch) as u64);
    check(sum, batches, batch).map(|()| measured)
}

/// Compares the sum of all results with what it must be: the indices in each batch.
pub(super) fn check(sum: u64, batches: usize, batch: usize) -> Result<(), Stop> {
    let expected = (0..batch as u64).sum::<u64>() * batches as u64;
    if sum == expected {
        Ok(())
    } else {
        Err(Stop::failed(format!(
            "the tasks' results sum up to {sum}, not {expected}"
        )))
    }
}
