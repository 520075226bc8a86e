//! mixed: tasks that compute in long pieces beside pairs that exchange messages.
//!
//! A service that answers small requests while it also does something heavy. The heavy tasks yield after each piece, as well
//! behaved ones do; the figure is how long a round trip of a pair takes in between. Verified: the number that goes there and back
//! counts the round trips, and no heavy task was idle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::adapters::{Channel, Received, Runtime, Sent};
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::workloads::fairness::work;
use crate::workloads::gate::{Gate, gate};
use crate::workloads::ping_pong::{check, pong};
use crate::workloads::samples::Samples;

/// Runs it once: `pairs` pairs of `round_trips` each, beside `heavy` tasks with pieces of `piece`.
///
/// # Errors
/// [`Stop::Failed`] if a number came back wrong, or a heavy task never ran.
pub async fn run<R: Runtime, C: Channel>(
    runtime: R,
    (pairs, round_trips): (usize, usize),
    (heavy, piece): (usize, Duration),
) -> Result<Measured, Stop> {
    let (opener, gate) = gate();
    let stop = Arc::new(AtomicBool::new(false));
    let mut pings = Vec::new();
    let mut pongs = Vec::new();
    for _ in 0..pairs {
        let (there, there_end) = C::bounded::<u64>(1);
        let (back, back_end) = C::bounded::<u64>(1);
        pings.push(runtime.spawn(ping::<C>(there, back_end, round_trips as u64, gate.clone())));
        pongs.push(runtime.spawn(pong::<C>(there_end, back, round_trips as u64, gate.clone())));
    }
    let computing: Vec<_> = (0..heavy)
        .map(|_| runtime.spawn(compute::<R>(piece, Arc::clone(&stop), gate.clone())))
        .collect();
    drop(gate);
    opener.all_ready(2 * pairs + heavy).await?;
    let meter = Meter::start(&runtime);
    opener.open();
    let mut latencies = Samples::with_capacity(pairs * round_trips);
    let mut result = Ok(());
    for ping in pings {
        match ping.await {
            Ok(samples) => latencies.merge(samples),
            Err(failure) => result = result.and(Err(failure)),
        }
    }
    // Ordering: Relaxed; the heavy tasks stop soon, nothing is published.
    stop.store(true, Ordering::Relaxed);
    let mut measured = meter.stop(&runtime, (pairs * round_trips) as u64);
    for pong in pongs {
        result = result.and(pong.await);
    }
    let mut pieces = 0;
    for task in computing {
        let done = task.await;
        if done == 0 {
            result = result.and(Err(Stop::failed("a heavy task never ran")));
        }
        pieces += done;
    }
    measured.counters.insert("heavy_pieces".to_owned(), pieces);
    result.map(|()| latencies.into(measured))
}

async fn ping<C: Channel>(
    there: C::Sender<u64>,
    mut back: C::Receiver<u64>,
    round_trips: u64,
    gate: Gate,
) -> Result<Samples, Stop> {
    let mut latencies = Samples::with_capacity(usize::try_from(round_trips).unwrap_or(0));
    gate.pass().await;
    let mut number = 0;
    for trip in 0..round_trips {
        let start = Instant::now();
        C::send(&there, number).await.sent()?;
        number = check(trip, C::recv(&mut back).await.value())?;
        latencies.add_since(start);
    }
    Ok(latencies)
}

/// How many pieces it has computed.
async fn compute<R: Runtime>(piece: Duration, stop: Arc<AtomicBool>, gate: Gate) -> u64 {
    gate.pass().await;
    let mut pieces = 0;
    // At least one, also where the pairs are done before this task first runs. Ordering: Relaxed; see `run`.
    while pieces == 0 || !stop.load(Ordering::Relaxed) {
        work(piece);
        pieces += 1;
        R::yield_now().await;
    }
    pieces
}
