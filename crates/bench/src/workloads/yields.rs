//! yield: many tasks, each yields many times.
//!
//! What a pass through the ready queue costs. A scheduler may be fast here by running one task to its end before the
//! next; so the figure stands beside the counter `first_done_permille`: when the first task was done, in thousandths of
//! the time of all. A fair scheduler is near 1000, an unfair one near 0. Verified by the number of yields.

use std::time::{Duration, Instant};

use crate::adapters::Runtime;
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::workloads::gate::{Gate, gate};

/// Runs it once: `rounds` times `tasks` tasks of `yields` yields; creation is excluded.
///
/// # Errors
/// [`Stop::Failed`] if the number of yields is wrong.
pub async fn run<R: Runtime>(runtime: R, tasks: usize, yields: usize, rounds: usize) -> Result<Measured, Stop> {
    let mut total = Measured::default();
    let mut first_done = 1000;
    for _ in 0..rounds {
        let (measured, permille) = round(runtime, tasks, yields).await?;
        first_done = first_done.min(permille);
        add(&mut total, measured);
    }
    total.counters.insert("first_done_permille".to_owned(), first_done);
    Ok(total)
}

async fn round<R: Runtime>(runtime: R, tasks: usize, yields: usize) -> Result<(Measured, u64), Stop> {
    let (opener, gate) = gate();
    let joins: Vec<_> = (0..tasks)
        .map(|_| runtime.spawn(task::<R>(yields, gate.clone())))
        .collect();
    drop(gate);
    opener.all_ready(tasks).await?;

    let meter = Meter::start(&runtime);
    let start = Instant::now();
    opener.open();
    let mut done = 0;
    let mut first = Duration::MAX;
    for join in joins {
        let (count, end) = join.await;
        done += count;
        first = first.min(end.saturating_duration_since(start));
    }
    let all = start.elapsed();
    let measured = meter.stop(&runtime, (tasks * yields) as u64);
    if done != tasks * yields {
        return Err(Stop::failed(format!(
            "{done} yields were made, {} asked for",
            tasks * yields
        )));
    }
    let permille = first.as_nanos() * 1000 / all.as_nanos().max(1);
    Ok((measured, u64::try_from(permille).unwrap_or(1000)))
}

async fn task<R: Runtime>(yields: usize, gate: Gate) -> (usize, Instant) {
    gate.pass().await;
    let mut done = 0;
    for _ in 0..yields {
        R::yield_now().await;
        done += 1;
    }
    (done, Instant::now())
}

fn add(total: &mut Measured, part: Measured) {
    total.ops += part.ops;
    total.wall_ns += part.wall_ns;
    total.user_ns += part.user_ns;
    total.sys_ns += part.sys_ns;
    total.vcsw += part.vcsw;
    total.ivcsw += part.ivcsw;
    for (name, count) in part.counters {
        *total.counters.entry(name).or_default() += count;
    }
}
