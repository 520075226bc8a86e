//! schbench: messengers wake workers, which work a little; how long it takes from the wake-up until a worker runs.
//!
//! - **tick**: every tick each messenger takes one time stamp and wakes all its workers, as in schbench before 2023; so the
//!   latency includes the wake loop.
//! - **closed**: each worker asks its messenger, which answers at once with a time stamp. Always somebody is ready; in a queue that
//!   is first in, first out every wait would be that of a full round.
//!
//! What schbench does since then, requests that sleep and compute, is [`schbench_requests`](super::schbench_requests).
//!
//! schbench has processors that are pre-empted; here nobody is, so the work is short (20 us). Verified by the number of wake-ups.

use std::time::Instant;

use crate::adapters::{Channel, Received, Runtime, Sent};
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::spec::Schbench;
use crate::workloads::fairness::work;
use crate::workloads::gate::{Gate, gate};
use crate::workloads::samples::Samples;

/// Runs it once.
///
/// # Errors
/// [`Stop::Failed`] if a wake-up is missing.
pub async fn run<R: Runtime, C: Channel>(runtime: R, params: Schbench) -> Result<Measured, Stop> {
    let (opener, gate) = gate();
    let mut messengers = Vec::new();
    let mut workers = Vec::new();
    for _ in 0..params.messengers {
        let (posts, post_office) = C::bounded::<usize>(params.workers);
        let mut wakers = Vec::new();
        for index in 0..params.workers {
            let (waker, wakes) = C::bounded::<Instant>(1);
            wakers.push(waker);
            let posts = params.is_closed().then(|| posts.clone());
            workers.push(runtime.spawn(worker::<C>(index, posts, wakes, params, gate.clone())));
        }
        drop(posts);
        messengers.push(if params.is_closed() {
            runtime.spawn(answer::<C>(post_office, wakers))
        } else {
            runtime.spawn(tick::<R, C>(wakers, params, gate.clone()))
        });
    }
    drop(gate);
    let ticking = if params.is_closed() { 0 } else { params.messengers };
    opener.all_ready(workers.len() + ticking).await?;
    let meter = Meter::start(&runtime);
    opener.open();
    let mut latencies = Samples::with_capacity(params.messengers * params.workers * params.rounds);
    for worker in workers {
        latencies.merge(worker.await);
    }
    for messenger in messengers {
        messenger.await;
    }
    let expected = params.messengers * params.workers * params.rounds;
    finish(latencies, meter.stop(&runtime, expected as u64))
}

/// The run with its quantiles, if no wake-up is missing.
pub(super) fn finish(latencies: Samples, measured: Measured) -> Result<Measured, Stop> {
    if latencies.len() as u64 == measured.ops {
        Ok(latencies.into(measured))
    } else {
        Err(Stop::failed(format!(
            "{} wake-ups, {} expected",
            latencies.len(),
            measured.ops
        )))
    }
}

async fn worker<C: Channel>(
    index: usize,
    posts: Option<C::Sender<usize>>,
    mut wakes: C::Receiver<Instant>,
    params: Schbench,
    gate: Gate,
) -> Samples {
    let mut latencies = Samples::with_capacity(params.rounds);
    gate.pass().await;
    for _ in 0..params.rounds {
        if let Some(posts) = &posts
            && C::send(posts, index).await.sent().is_err()
        {
            break;
        }
        let Some(stamp) = C::recv(&mut wakes).await.value() else {
            break;
        };
        latencies.add_since(stamp);
        work(params.work());
    }
    latencies
}

/// The messenger of the closed loop, and of [`schbench_requests`](super::schbench_requests).
pub(super) async fn answer<C: Channel>(mut posts: C::Receiver<usize>, wakers: Vec<C::Sender<Instant>>) {
    while let Some(index) = C::recv(&mut posts).await.value() {
        if C::send(&wakers[index], Instant::now()).await.sent().is_err() {
            break;
        }
    }
}

/// The messenger of the tick.
async fn tick<R: Runtime, C: Channel>(wakers: Vec<C::Sender<Instant>>, params: Schbench, gate: Gate) {
    gate.pass().await;
    for _ in 0..params.rounds {
        R::sleep(params.tick()).await;
        let stamp = Instant::now();
        for waker in &wakers {
            if C::send(waker, stamp).await.sent().is_err() {
                return;
            }
        }
    }
}
