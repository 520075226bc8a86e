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
    let mut total = Total::default();
    for _ in 0..rounds {
        total.add(round(runtime, tasks, yields).await?);
    }
    Ok(total.finish())
}

async fn round<R: Runtime>(runtime: R, tasks: usize, yields: usize) -> Result<Round, Stop> {
    let (opener, gate) = gate();
    let joins: Vec<_> = (0..tasks)
        .map(|_| runtime.spawn(task::<R>(yields, gate.clone())))
        .collect();
    drop(gate);
    opener.all_ready(tasks).await?;

    let meter = Meter::start(&runtime);
    let start = Instant::now();
    opener.open();
    let mut ends = Ends::since(start);
    for join in joins {
        ends.add(join.await);
    }
    let all = start.elapsed();
    ends.round(all, meter.stop(&runtime, (tasks * yields) as u64))
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

/// What the tasks, or threads, of a round come to: how many yields each has made, and when it was done.
pub(super) struct Ends {
    start: Instant,
    done: usize,
    first: Duration,
}

impl Ends {
    pub(super) fn since(start: Instant) -> Self {
        Self {
            start,
            done: 0,
            first: Duration::MAX,
        }
    }

    pub(super) fn add(&mut self, (done, end): (usize, Instant)) {
        self.done += done;
        self.first = self.first.min(end.saturating_duration_since(self.start));
    }

    /// The round, which took `all`, if no yield is missing.
    pub(super) fn round(self, all: Duration, measured: Measured) -> Result<Round, Stop> {
        if self.done as u64 != measured.ops {
            return Err(Stop::failed(format!(
                "{} yields were made, {} asked for",
                self.done, measured.ops
            )));
        }
        let permille = self.first.as_nanos() * 1000 / all.as_nanos().max(1);
        Ok(Round {
            measured,
            first_done_permille: u64::try_from(permille).unwrap_or(1000),
        })
    }
}

/// One round.
pub(super) struct Round {
    measured: Measured,
    first_done_permille: u64,
}

/// All rounds.
pub(super) struct Total {
    measured: Measured,
    first_done_permille: u64,
}

impl Default for Total {
    fn default() -> Self {
        Self {
            measured: Measured::default(),
            first_done_permille: 1000,
        }
    }
}

impl Total {
    pub(super) fn add(&mut self, round: Round) {
        self.first_done_permille = self.first_done_permille.min(round.first_done_permille);
        let (total, part) = (&mut self.measured, round.measured);
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

    pub(super) fn finish(mut self) -> Measured {
        let name = "first_done_permille".to_owned();
        self.measured.counters.insert(name, self.first_done_permille);
        self.measured
    }
}
