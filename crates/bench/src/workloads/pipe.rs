//! pipe: two tasks pass a number there and back through two pipes.
//!
//! perf's `bench sched pipe`: every message is a system call, and a wake-up through the reactor. Verified: the partner
//! adds one on each pass.

use crate::adapters::{Streams, stream_failed};
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::spec::Transport;
use crate::workloads::gate::{Gate, gate};
use crate::workloads::ping_pong::check;

/// Runs it once.
///
/// # Errors
/// [`Stop::Failed`] if a number came back wrong, or not at all; what the kernel or the runtime refuses.
pub async fn run<R: Streams>(runtime: R, round_trips: usize) -> Result<Measured, Stop> {
    let (there, there_end) = runtime.open(Transport::Pipe)?;
    let (back, back_end) = runtime.open(Transport::Pipe)?;
    let (opener, gate) = gate();
    let trips =
        u32::try_from(round_trips).map_err(|_| Stop::failed("more round trips than a number of 4 bytes counts"))?;
    let ping = runtime.spawn(ping::<R>(there, back_end, trips, gate.clone()));
    let pong = runtime.spawn(pong::<R>(there_end, back, trips, gate));
    opener.all_ready(2).await?;
    let meter = Meter::start(&runtime);
    opener.open();
    // A number that came back wrong comes first: who answers then only sees that the other one has gone.
    let result = ping.await;
    let result = result.and(pong.await);
    let measured = meter.stop(&runtime, round_trips as u64);
    result.map(|()| measured)
}

async fn ping<R: Streams>(there: R::Writer, mut back: R::Reader, trips: u32, gate: Gate) -> Result<(), Stop> {
    gate.pass().await;
    let mut number = 0u32;
    for trip in 0..trips {
        send::<R>(&there, number).await?;
        let answer = receive::<R>(&mut back).await?;
        check(u64::from(trip), Some(u64::from(answer)))?;
        number = answer;
    }
    Ok(())
}

async fn pong<R: Streams>(mut there: R::Reader, back: R::Writer, trips: u32, gate: Gate) -> Result<(), Stop> {
    gate.pass().await;
    for _ in 0..trips {
        let number = receive::<R>(&mut there).await?;
        send::<R>(&back, number + 1).await?;
    }
    Ok(())
}

async fn send<R: Streams>(writer: &R::Writer, number: u32) -> Result<(), Stop> {
    let bytes = number.to_ne_bytes();
    R::write_all(writer, &bytes)
        .await
        .map_err(|error| stream_failed(&error))
}

async fn receive<R: Streams>(reader: &mut R::Reader) -> Result<u32, Stop> {
    let mut bytes = [0; 4];
    R::read_exact(reader, &mut bytes)
        .await
        .map_err(|error| stream_failed(&error))?;
    Ok(u32::from_ne_bytes(bytes))
}
