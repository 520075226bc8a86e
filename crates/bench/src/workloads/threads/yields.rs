//! thread_yield: many threads, each yields many times; see [`yields`](crate::workloads::yields).

use std::time::Instant;

use super::gate::{Gate, gate};
use crate::adapters::blocking::ThreadRuntime;
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::workloads::yields::{End, Ends, Round, Total, UnderWay, check_together};

/// Runs it once: `rounds` times `threads` threads of `yields` yields; creation is excluded.
///
/// # Errors
/// [`Stop::Failed`] if the number of yields is wrong, or `workers` workers ran one thread after the other.
pub fn run<R: ThreadRuntime>(
    runtime: R,
    workers: usize,
    threads: usize,
    yields: usize,
    rounds: usize,
) -> Result<Measured, Stop> {
    let mut total = Total::default();
    for _ in 0..rounds {
        let (round, together) = round(runtime, threads, yields)?;
        if R::YIELD_IS_A_SWITCH {
            check_together(together, workers, threads, yields)?;
        }
        total.add(round);
    }
    Ok(total.finish())
}

fn round<R: ThreadRuntime>(runtime: R, threads: usize, yields: usize) -> Result<(Round, usize), Stop> {
    let (opener, gate) = gate::<R>(threads);
    let under_way = UnderWay::default();
    let mut joins = Vec::with_capacity(threads);
    for _ in 0..threads {
        let (gate, under_way) = (gate.clone(), under_way.clone());
        joins.push(runtime.spawn(move || thread(yields, gate, &under_way)));
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

fn thread<R: ThreadRuntime>(yields: usize, gate: Gate<R>, under_way: &UnderWay) -> End {
    gate.pass();
    under_way.begin();
    let mut done = 0;
    for _ in 0..yields {
        R::yield_now();
        done += 1;
    }
    under_way.end(done)
}
