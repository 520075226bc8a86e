//! block_on: a thread that is no worker spawns a task, and blocks until that is done, again and again.
//!
//! What a program pays that is not asynchronous itself and asks one that is, and the main function of one that awaits
//! its tasks: the way into a runtime and back, each end as its runtime's documentation says. Of `spawn_remote1` the way
//! back is the workload's own. Verified by the sum of the results.

use super::spawn_join::check;
use crate::adapters::Runtime;
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};

/// Runs it once, on the calling thread.
///
/// # Errors
/// [`Stop::Failed`] if the sum of the results is wrong.
pub fn run<R: Runtime>(runtime: R, tasks: usize) -> Result<Measured, Stop> {
    let mut sum = 0;
    let meter = Meter::start(&runtime);
    for index in 0..tasks as u64 {
        sum += runtime.block_on(async move { runtime.spawn(async move { index }).await });
    }
    let measured = meter.stop(&runtime, tasks as u64);
    check(sum, 1, tasks).map(|()| measured)
}
