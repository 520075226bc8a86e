//! thread_sleepers: a crowd of threads that all sleep, and are all woken.
//!
//! Three figures of one run: what a thread costs to make, in memory while it sleeps, and to wake and join. Creation
//! lasts from the first spawn until all have begun; memory is by how much the process's resident set has grown when all
//! sleep; waking lasts from the first unpark to the last join. There is no warm-up: the first time is the question.
//! Verified by the sum of the results.

use std::time::Instant;

use super::gate::gate;
use crate::adapters::blocking::ThreadRuntime;
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::process::resident_bytes;
use crate::spec::Metric;
use crate::workloads::spawn_join::check;

/// Runs it once.
///
/// # Errors
/// [`Stop::Failed`] if a thread cannot be made, or the sum of the results is wrong.
pub fn run<R: ThreadRuntime>(runtime: R, threads: usize) -> Result<Measured, Stop> {
    let (opener, gate) = gate::<R>(threads);
    let mut joins = Vec::with_capacity(threads);
    let mut sum = 0;

    let resident_before = resident_bytes().map_err(Stop::failed)?;
    let meter = Meter::start(&runtime);
    let start = Instant::now();
    for index in 0..threads as u64 {
        let gate = gate.clone();
        let body = move || {
            gate.pass();
            index
        };
        joins.push(runtime.spawn(body));
    }
    let joins = opener.all_ready(joins)?;
    let create_ns = nanos_since(start);

    let resident = resident_bytes().map_err(Stop::failed)?.saturating_sub(resident_before);

    let start = Instant::now();
    opener.open(&joins);
    for join in joins {
        sum += R::join(join);
    }
    let wake_join_ns = nanos_since(start);
    let mut measured = meter.stop(&runtime, threads as u64);
    // Without the look at the memory in between.
    measured.wall_ns = create_ns + wake_join_ns;
    for (metric, figure) in [
        (Metric::CreateEach, create_ns),
        (Metric::MemoryEach, resident),
        (Metric::WakeJoinEach, wake_join_ns),
    ] {
        measured.counters.insert(metric.name().to_owned(), figure);
    }
    check(sum, 1, threads).map(|()| measured)
}

fn nanos_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
