//! idle: a TCP echo server whose clients, in a process of their own, are connected and say nothing.
//!
//! Each connection has been echoed once, so its task has run and waits for the next request. Two figures: the resident
//! memory of the server, as it is then less what it was before the first connection, a connection; and how often its
//! threads have blocked while nothing came, which is how often they were woken. Counting begins when they have come to
//! rest, and leaves out the thread that counts. There is no warm-up: a server's first connections are the question.
//! Verified by the clients: afterwards each connection is echoed again.

use std::thread;
use std::time::Duration;

use super::serve::start;
use crate::adapters::servers::Servers;
use crate::generate::{Order, Seen};
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::peer::Peer;
use crate::process::{blocked, resident_bytes, wait_for_rest};
use crate::spec::{Metric, Serve, Service};

/// A runtime that has not come to rest after so long never does; its wake-ups are counted as they are.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of an echo.
const SIZE: usize = 64;

/// Runs it once, on the calling thread: the server on `runtime`, the clients in another process.
///
/// # Errors
/// [`Stop::Unsupported`] if the runtime has no such server; [`Stop::Failed`] if a connection is refused or not echoed.
pub fn run<R: Servers>(runtime: R, workers: usize, connections: usize, millis: u64) -> Result<Measured, Stop> {
    let address = start(runtime, workers, Service::TcpEcho)?;
    wait_for_rest(PATIENCE).map_err(Stop::failed)?;
    let resident_before = resident_bytes().map_err(Stop::failed)?;
    let serve = Serve {
        service: Service::TcpEcho,
        connections,
        size: SIZE,
        rate: 0,
        spinner: false,
        // All are echoed once, however short the time.
        millis: 1,
    };
    let mut clients = Peer::start("generate", &Order { address, serve })?;
    clients.expect("begin")?;
    wait_for_rest(PATIENCE).map_err(Stop::failed)?;
    let resident = resident_bytes().map_err(Stop::failed)?;

    let blocked_before = blocked().map_err(Stop::failed)?.times;
    let meter = Meter::start(&runtime);
    thread::sleep(Duration::from_millis(millis));
    let mut measured = meter.stop(&runtime, connections as u64);
    // Without the thread that counts: it has just slept.
    measured.vcsw = blocked().map_err(Stop::failed)?.times.saturating_sub(blocked_before);
    for (metric, figure) in [
        (Metric::WakeUps, measured.vcsw),
        (Metric::MemoryEach, resident.saturating_sub(resident_before)),
    ] {
        measured.counters.insert(metric.name().to_owned(), figure);
    }

    clients.go()?;
    let line = clients.line()?;
    let seen: Seen = clients.parse(&line)?;
    if seen.requests >= connections as u64 {
        Ok(measured)
    } else {
        let echoes = seen.requests;
        Err(Stop::failed(format!(
            "{echoes} echoes came over {connections} connections"
        )))
    }
}
