//! blocking: tasks that have closures run where blocking is allowed, one after another.
//!
//! What an operation on a file or a call into a library that may block costs beside itself: the way to a thread of the
//! pool and back. The closures do nothing. Verified by the sum of the results.

use super::spawn_join::check;
use crate::adapters::Runtime;
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};

/// Runs it once, inside a task.
///
/// # Errors
/// [`Stop::Failed`] if the sum of the results is wrong.
pub async fn run<R: Runtime>(runtime: R, tasks: usize, jobs: usize) -> Result<Measured, Stop> {
    let meter = Meter::start(&runtime);
    let tasks: Vec<_> = (0..tasks)
        .map(|_| runtime.spawn(one_after_another(runtime, jobs as u64)))
        .collect();
    let (mut sum, mut count) = (0, 0);
    for task in tasks {
        sum += task.await;
        count += 1;
    }
    let measured = meter.stop(&runtime, (count * jobs) as u64);
    check(sum, count, jobs).map(|()| measured)
}

async fn one_after_another<R: Runtime>(runtime: R, jobs: u64) -> u64 {
    let mut sum = 0;
    for index in 0..jobs {
        sum += runtime.spawn_blocking(move || index).await;
    }
    sum
}
