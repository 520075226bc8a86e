//! thread_ping_pong: pairs of threads pass a number there and back through two channels of capacity 1; see
//! [`ping_pong`](crate::workloads::ping_pong).

use super::gate::{Gate, gate};
use crate::adapters::blocking::{ThreadChannel, ThreadRuntime};
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::workloads::ping_pong::{check, left_early};

/// Runs it once; creation is excluded.
///
/// # Errors
/// [`Stop::Failed`] if a thread cannot be made, or a number came back wrong, or not at all.
pub fn run<R: ThreadRuntime, C: ThreadChannel>(runtime: R, pairs: usize, round_trips: usize) -> Result<Measured, Stop> {
    let (opener, gate) = gate::<R>(2 * pairs);
    let mut joins = Vec::with_capacity(2 * pairs);
    for _ in 0..pairs {
        let (there, there_end) = C::bounded::<u64>(1);
        let (back, back_end) = C::bounded::<u64>(1);
        let (ping_gate, pong_gate) = (gate.clone(), gate.clone());
        let trips = round_trips as u64;
        joins.push(runtime.spawn(move || ping::<R, C>(&there, back_end, trips, ping_gate)));
        joins.push(runtime.spawn(move || pong::<R, C>(there_end, &back, trips, pong_gate)));
    }
    let joins = opener.all_ready(joins)?;

    let meter = Meter::start(&runtime);
    opener.open(&joins);
    let mut result = Ok(());
    for join in joins {
        result = result.and(R::join(join));
    }
    let measured = meter.stop(&runtime, (pairs * round_trips) as u64);
    result.map(|()| measured)
}

fn ping<R: ThreadRuntime, C: ThreadChannel>(
    there: &C::Sender<u64>,
    mut back: C::Receiver<u64>,
    round_trips: u64,
    gate: Gate<R>,
) -> Result<(), Stop> {
    gate.pass();
    let mut number = 0;
    for trip in 0..round_trips {
        C::send(there, number)?;
        number = check(trip, C::recv(&mut back))?;
    }
    Ok(())
}

pub(super) fn pong<R: ThreadRuntime, C: ThreadChannel>(
    mut there: C::Receiver<u64>,
    back: &C::Sender<u64>,
    round_trips: u64,
    gate: Gate<R>,
) -> Result<(), Stop> {
    gate.pass();
    for trip in 0..round_trips {
        let number = C::recv(&mut there).ok_or_else(|| left_early(trip))?;
        C::send(back, number + 1)?;
    }
    Ok(())
}
