//! thread_yield: many threads, each yields many times; see [`yields`](crate::workloads::yields).

use std::time::Instant;

use super::gate::{Gate, gate};
use crate::adapters::blocking::ThreadRuntime;
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::workloads::yields::{Ends, Round, Total};

/// Runs it once: `rounds` times `threads` threads of `yields` yields; creation is excluded.
///
/// # Errors
/// [`Stop::Failed`] if the number of yields is wrong.
pub fn run<R: ThreadRuntime>(runtime: R, threads: usize, yields: usize, rounds: usize) -> Result<Measured, Stop> {
    let mut total = Total::default();
    for _ in 0..rounds {
        total.add(round(runtime, threads, yields)?);
    }
    Ok(total.finish())
}

fn round<R: ThreadRuntime>(runtime: R, threads: usize, yields: usize) -> Result<Round, Stop> {
    let (opener, gate) = gate::<R>(threads);
    let mut joins = Vec::with_capacity(threads);
    for _ in 0..threads {
        let gate = gate.clone();
        joins.push(runtime.spawn(move || thread(yields, gate)));
    }
    let joins = opener.all_ready(joins)?;

    let meter = Meter::start(&runtime);
    let start = Instant::now();
    opener.open(&joins);
    let mut ends = Ends::since(start);
    for join in joins {
        ends.add(R::join(join));
    }
    let all = start.elapsed();
    ends.round(all, meter.stop(&runtime, (threads * yields) as u64))
}

fn thread<R: ThreadRuntime>(yields: usize, gate: Gate<R>) -> (usize, Instant) {
    gate.pass();
    let mut done = 0;
    for _ in 0..yields {
        R::yield_now();
        done += 1;
    }
    (done, Instant::now())
}
