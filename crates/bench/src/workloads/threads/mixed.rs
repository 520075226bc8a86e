//! thread_mixed: threads that compute in long pieces beside pairs of threads that exchange messages; see
//! [`mixed`](crate::workloads::mixed).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::gate::{Gate, gate};
use super::ping_pong::pong;
use crate::adapters::blocking::{ThreadChannel, ThreadRuntime, all_made};
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::workloads::fairness::work;
use crate::workloads::mixed::finish;
use crate::workloads::ping_pong::check;
use crate::workloads::samples::Samples;

/// Runs it once: `pairs` pairs of `round_trips` each, beside `heavy` threads with pieces of `piece`; creation is
/// excluded.
///
/// # Errors
/// [`Stop::Failed`] if a thread cannot be made, a number came back wrong, or not at all, or a heavy thread was passed
/// over.
pub fn run<R: ThreadRuntime, C: ThreadChannel>(
    runtime: R,
    (pairs, round_trips): (usize, usize),
    (heavy, piece): (usize, Duration),
) -> Result<Measured, Stop> {
    let (opener, gate) = gate::<R>(2 * pairs + heavy);
    let stop = Arc::new(AtomicBool::new(false));
    let trips = round_trips as u64;
    let (mut pings, mut pongs, mut computing) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..pairs {
        let (there, there_end) = C::bounded::<u64>(1);
        let (back, back_end) = C::bounded::<u64>(1);
        let (ping_gate, pong_gate) = (gate.clone(), gate.clone());
        pings.push(runtime.spawn(move || ping::<R, C>(&there, back_end, trips, ping_gate)));
        pongs.push(runtime.spawn(move || pong::<R, C>(there_end, &back, trips, pong_gate)));
    }
    for _ in 0..heavy {
        let (stop, gate) = (Arc::clone(&stop), gate.clone());
        computing.push(runtime.spawn(move || compute(piece, &stop, gate)));
    }
    let (pings, pongs, computing) = (all_made(pings)?, all_made(pongs)?, all_made(computing)?);
    opener.wait();

    let meter = Meter::start(&runtime);
    opener.open_each(
        pings
            .iter()
            .map(R::thread)
            .chain(pongs.iter().map(R::thread))
            .chain(computing.iter().map(R::thread)),
    );
    let mut latencies = Samples::with_capacity(pairs * round_trips);
    let mut result = Ok(());
    for ping in pings {
        match R::join(ping) {
            Ok(samples) => latencies.merge(samples),
            Err(failure) => result = result.and(Err(failure)),
        }
    }
    // Ordering: Relaxed; the heavy threads stop soon, nothing is published.
    stop.store(true, Ordering::Relaxed);
    let measured = meter.stop(&runtime, (pairs * round_trips) as u64);
    for pong in pongs {
        result = result.and(R::join(pong));
    }
    let pieces: Vec<_> = computing.into_iter().map(R::join).collect();
    result.and(finish(measured, latencies, &pieces, piece))
}

fn ping<R: ThreadRuntime, C: ThreadChannel>(
    there: &C::Sender<u64>,
    mut back: C::Receiver<u64>,
    round_trips: u64,
    gate: Gate<R>,
) -> Result<Samples, Stop> {
    let mut latencies = Samples::with_capacity(usize::try_from(round_trips).unwrap_or(0));
    gate.pass();
    let mut number = 0;
    for trip in 0..round_trips {
        let start = Instant::now();
        C::send(there, number)?;
        number = check(trip, C::recv(&mut back))?;
        latencies.add_since(start);
    }
    Ok(latencies)
}

/// How many pieces it has computed until it was to stop.
fn compute<R: ThreadRuntime>(piece: Duration, stop: &AtomicBool, gate: Gate<R>) -> u64 {
    gate.pass();
    let mut pieces = 0;
    // Ordering: Relaxed; see `run`.
    while !stop.load(Ordering::Relaxed) {
        work(piece);
        pieces += 1;
        R::yield_now();
    }
    pieces
}
