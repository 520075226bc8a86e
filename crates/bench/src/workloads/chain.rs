//! chain: each task spawns the next and ends; the last one reports.
//!
//! What a hand-over by spawning costs. There is never more than one task ready, so a scheduler that wakes a second
//! worker for each link pays for nothing. Verified by the number that the links count up. After tokio's benchmark
//! `chained_spawn`.

use std::future::Future;

use async_channel::Sender;

use crate::adapters::Runtime;
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};

/// Runs it once: `rounds` chains of `depth` links, one after the other.
///
/// # Errors
/// [`Stop::Failed`] if a chain has another number of links.
pub async fn run<R: Runtime>(runtime: R, depth: usize, rounds: usize) -> Result<Measured, Stop> {
    let (sender, receiver) = async_channel::bounded(1);
    let meter = Meter::start(&runtime);
    let mut links = 0;
    for _ in 0..rounds {
        runtime.spawn_detached(link(runtime, 1, depth as u64, sender.clone()));
        links += receiver.recv().await.unwrap_or(0);
    }
    let measured = meter.stop(&runtime, (depth * rounds) as u64);
    check(links, measured.ops).map(|()| measured)
}

/// Compares how many links ran with how many were asked for.
pub(super) fn check(links: u64, asked_for: u64) -> Result<(), Stop> {
    if links == asked_for {
        Ok(())
    } else {
        Err(Stop::failed(format!("{links} links ran, {asked_for} were asked for")))
    }
}

/// The link number `index` of `depth`.
#[expect(
    clippy::manual_async_fn,
    reason = "a future that spawns its like needs a type that says it is Send"
)]
fn link<R: Runtime>(
    runtime: R,
    index: u64,
    depth: u64,
    done: Sender<u64>,
) -> impl Future<Output = ()> + Send + 'static {
    async move {
        if index == depth {
            // An error would mean that the workload is gone, and nobody counts.
            let _ = done.send(index).await;
        } else {
            runtime.spawn_detached(link(runtime, index + 1, depth, done));
        }
    }
}
