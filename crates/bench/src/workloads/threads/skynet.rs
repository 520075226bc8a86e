//! thread_skynet: a tree of threads, each but a leaf spawns ten and adds up what they return; see
//! [`skynet`](crate::workloads::skynet).
//!
//! Every thread that waits keeps its stack, so it has fewer leaves than the tree of tasks.

use crate::adapters::blocking::{ThreadRuntime, spawn_failed};
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::workloads::skynet::{CHILDREN, check, tasks};

/// Runs it once; `leaves` is a power of ten.
///
/// # Errors
/// [`Stop::Failed`] if a thread cannot be made, or the sum of the leaves is wrong.
pub fn run<R: ThreadRuntime>(runtime: R, leaves: usize) -> Result<Measured, Stop> {
    let meter = Meter::start(&runtime);
    let root = runtime
        .spawn(move || node(runtime, 0, leaves as u64))
        .map_err(|error| spawn_failed(&error))?;
    let sum = R::join(root)?;
    let measured = meter.stop(&runtime, tasks(leaves));
    check(sum, leaves).map(|()| measured)
}

/// The thread above the leaves from `first` on, `leaves` of them.
fn node<R: ThreadRuntime>(runtime: R, first: u64, leaves: u64) -> Result<u64, Stop> {
    if leaves == 1 {
        return Ok(first);
    }
    let below = leaves / CHILDREN as u64;
    let children: [_; CHILDREN] = std::array::from_fn(|child| {
        let first = first + child as u64 * below;
        runtime.spawn(move || node(runtime, first, below))
    });
    let mut sum = Ok(0);
    for child in children {
        let below = child.map_err(|error| spawn_failed(&error)).and_then(R::join);
        sum = sum.and_then(|sum: u64| below.map(|below| sum + below));
    }
    sum
}
