//! mixed: tasks that compute in long pieces beside pairs that exchange messages.
//!
//! A service that answers small requests while it also does something heavy. The heavy tasks yield after each piece, as
//! well behaved ones do; the figure is how long a round trip of a pair takes in between. Verified: the number that goes
//! there and back counts the round trips, and no heavy task was passed over while the pairs talked.

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

/// A heavy task that did nothing while the pairs talked for so many times as long as a piece of each heavy task takes
/// has been passed over. With less the pairs may be done before it was its turn.
const TURNS: u32 = 100;

/// And at least so long: a worker that shares its CPU with other processes is off it for tens of milliseconds, and the
/// tasks in its queue with it, while the other worker serves the pairs. No runtime passed those over.
const SURELY: Duration = Duration::from_millis(200);

/// Runs it once: `pairs` pairs of `round_trips` each, beside `heavy` tasks with pieces of `piece`.
///
/// # Errors
/// [`Stop::Failed`] if a number came back wrong, or a heavy task was passed over.
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
    let measured = meter.stop(&runtime, (pairs * round_trips) as u64);
    for pong in pongs {
        result = result.and(pong.await);
    }
    let mut pieces = Vec::with_capacity(heavy);
    for task in computing {
        pieces.push(task.await);
    }
    result.and(finish(measured, latencies, &pieces, piece))
}

/// The figures, if no heavy task was passed over: how many pieces of that length each has done.
pub(super) fn finish(
    mut measured: Measured,
    latencies: Samples,
    pieces: &[u64],
    piece: Duration,
) -> Result<Measured, Stop> {
    none_passed_over(pieces, piece, Duration::from_nanos(measured.wall_ns))?;
    measured.counters.insert("heavy_pieces".to_owned(), pieces.iter().sum());
    Ok(latencies.into(measured))
}

/// That each heavy task did something in `time`, if that was long enough for all of them.
fn none_passed_over(pieces: &[u64], piece: Duration, time: Duration) -> Result<(), Stop> {
    let heavy = pieces.len();
    let a_turn = piece.saturating_mul(u32::try_from(heavy).unwrap_or(u32::MAX));
    match pieces.iter().position(|&done| done == 0) {
        Some(idle) if time >= a_turn.saturating_mul(TURNS).max(SURELY) => Err(Stop::failed(format!(
            "heavy task {} of {heavy} computed nothing in {time:?}",
            idle + 1
        ))),
        _ => Ok(()),
    }
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

/// How many pieces it has computed until it was to stop.
async fn compute<R: Runtime>(piece: Duration, stop: Arc<AtomicBool>, gate: Gate) -> u64 {
    gate.pass().await;
    let mut pieces = 0;
    // Ordering: Relaxed; see `run`.
    while !stop.load(Ordering::Relaxed) {
        work(piece);
        pieces += 1;
        R::yield_now().await;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_passed_over_if_it_did_nothing_while_there_was_time_for_a_hundred_turns() {
        let check = |pieces: &[u64], millis: u64| {
            none_passed_over(pieces, Duration::from_millis(2), Duration::from_millis(millis)).err()
        };
        assert_eq!(check(&[7, 1, 3], 1_000_000), None);
        assert_eq!(check(&[7, 0, 0], 599), None);
        let expected = Stop::failed("heavy task 2 of 3 computed nothing in 600ms");
        assert_eq!(check(&[7, 0, 0], 600), Some(expected));
        assert_eq!(check(&[], 600), None);
    }

    #[test]
    fn no_task_is_passed_over_in_less_than_a_fifth_of_a_second() {
        let check = |millis| none_passed_over(&[7, 0], Duration::from_micros(20), Duration::from_millis(millis)).err();
        assert_eq!(check(4), None, "its worker may have been off its CPU");
        assert_eq!(check(199), None);
        assert!(check(200).is_some());
    }
}
