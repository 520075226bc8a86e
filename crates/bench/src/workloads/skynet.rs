//! skynet: a tree in which each task but a leaf spawns ten and adds up what they return.
//!
//! What a deep fan-out costs: tasks are spawned by tasks all over the machine, most of them wait for others, and a
//! scheduler that runs the youngest first needs far less memory than one that runs the oldest. A leaf returns its
//! number. Verified by the sum at the root. After the "skynet 1M" benchmark; that one returns results through channels,
//! this one through joins, where the runtime has them.

use std::future::Future;

use crate::adapters::Runtime;
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};

/// Children of a task.
pub(super) const CHILDREN: usize = 10;

/// Runs it once; `leaves` is a power of ten.
///
/// # Errors
/// [`Stop::Failed`] if the sum of the leaves is wrong.
pub async fn run<R: Runtime>(runtime: R, leaves: usize) -> Result<Measured, Stop> {
    let meter = Meter::start(&runtime);
    let sum = runtime.spawn(node(runtime, 0, leaves as u64)).await;
    let measured = meter.stop(&runtime, tasks(leaves));
    check(sum, leaves).map(|()| measured)
}

/// The task above the leaves from `first` on, `leaves` of them.
#[expect(
    clippy::manual_async_fn,
    reason = "a future that spawns its like needs a type that says it is Send"
)]
fn node<R: Runtime>(runtime: R, first: u64, leaves: u64) -> impl Future<Output = u64> + Send + 'static {
    async move {
        if leaves == 1 {
            return first;
        }
        let below = leaves / CHILDREN as u64;
        let children: [R::Join<u64>; CHILDREN] =
            std::array::from_fn(|child| runtime.spawn(node(runtime, first + child as u64 * below, below)));
        let mut sum = 0;
        for child in children {
            sum += child.await;
        }
        sum
    }
}

/// Tasks of a tree with so many leaves.
pub(super) fn tasks(leaves: usize) -> u64 {
    ((leaves * CHILDREN - 1) / (CHILDREN - 1)) as u64
}

/// Compares the sum of the leaves' numbers with what it must be.
pub(super) fn check(sum: u64, leaves: usize) -> Result<(), Stop> {
    let leaves = leaves as u64;
    let expected = leaves * (leaves - 1) / 2;
    if sum == expected {
        Ok(())
    } else {
        Err(Stop::failed(format!("the leaves sum up to {sum}, not {expected}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_all_its_levels() {
        assert_eq!(tasks(1), 1);
        assert_eq!(tasks(10), 11);
        assert_eq!(tasks(1_000_000), 1_111_111);
    }
}
