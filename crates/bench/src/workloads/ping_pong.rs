//! ping_pong: pairs of tasks pass a number there and back through two channels of capacity 1.
//!
//! What it costs to wake somebody and wait for the answer; after perf's `bench sched pipe`. Verified: the partner adds
//! one on each pass, so the number counts the round trips.

use crate::adapters::{Channel, Received, Runtime, Sent};
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::workloads::gate::{Gate, gate};

/// Runs it once; creation is excluded.
///
/// # Errors
/// [`Stop::Failed`] if a number came back wrong, or not at all.
pub async fn run<R: Runtime, C: Channel>(runtime: R, pairs: usize, round_trips: usize) -> Result<Measured, Stop> {
    let (opener, gate) = gate();
    let mut joins = Vec::with_capacity(pairs * 2);
    for _ in 0..pairs {
        let (there, there_end) = C::bounded::<u64>(1);
        let (back, back_end) = C::bounded::<u64>(1);
        joins.push(runtime.spawn(ping::<C>(there, back_end, round_trips as u64, gate.clone())));
        joins.push(runtime.spawn(pong::<C>(there_end, back, round_trips as u64, gate.clone())));
    }
    drop(gate);
    opener.all_ready(joins.len()).await?;

    let meter = Meter::start(&runtime);
    opener.open();
    let mut result = Ok(());
    for join in joins {
        result = result.and(join.await);
    }
    let measured = meter.stop(&runtime, (pairs * round_trips) as u64);
    result.map(|()| measured)
}

async fn ping<C: Channel>(
    there: C::Sender<u64>,
    mut back: C::Receiver<u64>,
    round_trips: u64,
    gate: Gate,
) -> Result<(), Stop> {
    gate.pass().await;
    let mut number = 0;
    for trip in 0..round_trips {
        C::send(&there, number).await.sent()?;
        number = check(trip, C::recv(&mut back).await.value())?;
    }
    Ok(())
}

/// Answers `round_trips` numbers, each with the next.
pub(super) async fn pong<C: Channel>(
    mut there: C::Receiver<u64>,
    back: C::Sender<u64>,
    round_trips: u64,
    gate: Gate,
) -> Result<(), Stop> {
    gate.pass().await;
    for trip in 0..round_trips {
        let Some(number) = C::recv(&mut there).await.value() else {
            return Err(left_early(trip));
        };
        C::send(&back, number + 1).await.sent()?;
    }
    Ok(())
}

/// The number that came back from a round trip, if it is right.
pub(super) fn check(trip: u64, answer: Option<u64>) -> Result<u64, Stop> {
    match answer {
        Some(answer) if answer == trip + 1 => Ok(answer),
        answer => Err(Stop::failed(format!("round trip {trip} answered {answer:?}"))),
    }
}

/// The failure of the one who answers.
pub(super) fn left_early(trip: u64) -> Stop {
    Stop::failed(format!("the asker left after {trip} round trips"))
}
