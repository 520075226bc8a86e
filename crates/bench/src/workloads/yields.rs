//! yield: many tasks, each yields many times.
//!
//! What a pass through the ready queue costs. A scheduler may be fast here by running one task to its end before the
//! next; so the figure stands beside the counter `first_done_permille`: when the first task was done, in thousandths of
//! the time of all. A fair scheduler is near 1000, an unfair one near 0. Verified by the number of yields, and by how
//! many tasks were under way together: were a yield nothing, it would be one a worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::adapters::Runtime;
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::workloads::gate::{Gate, gate};

/// Runs it once: `rounds` times `tasks` tasks of `yields` yields; creation is excluded.
///
/// # Errors
/// [`Stop::Failed`] if the number of yields is wrong, or `workers` workers ran one task after the other.
pub async fn run<R: Runtime>(
    runtime: R,
    workers: usize,
    tasks: usize,
    yields: usize,
    rounds: usize,
) -> Result<Measured, Stop> {
    let mut total = Total::default();
    for _ in 0..rounds {
        let (round, together) = round(runtime, tasks, yields).await?;
        if R::YIELD_IS_A_SWITCH {
            check_together(together, workers, tasks, yields)?;
        }
        total.add(round);
    }
    Ok(total.finish())
}

async fn round<R: Runtime>(runtime: R, tasks: usize, yields: usize) -> Result<(Round, usize), Stop> {
    let (opener, gate) = gate();
    let under_way = UnderWay::default();
    let joins: Vec<_> = (0..tasks)
        .map(|_| runtime.spawn(task::<R>(yields, gate.clone(), under_way.clone())))
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

async fn task<R: Runtime>(yields: usize, gate: Gate, under_way: UnderWay) -> End {
    gate.pass().await;
    under_way.begin();
    let mut done = 0;
    for _ in 0..yields {
        R::yield_now().await;
        done += 1;
    }
    under_way.end(done)
}

/// How many tasks, or threads, have begun and not ended. Each counts itself twice, beside a thousand yields.
#[derive(Clone, Default)]
pub(super) struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    pub(super) fn begin(&self) {
        // Ordering: Relaxed; a count, nothing is published with it.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The end of one that has made so many yields.
    pub(super) fn end(&self, yields: usize) -> End {
        let at = Instant::now();
        // Ordering: Relaxed; as above.
        let together = self.0.fetch_sub(1, Ordering::Relaxed);
        End { yields, at, together }
    }
}

/// How a task, or a thread, has ended.
#[derive(Clone, Copy)]
pub(super) struct End {
    yields: usize,
    at: Instant,
    /// How many were under way, with itself.
    together: usize,
}

/// Whether yields have let others run, where there were enough tasks and yields to tell: who runs to its end before the
/// next begins is alone on its worker, and so `workers` at most are under way together. The first one may end before
/// all have begun, so it is the most of all ends that counts.
///
/// # Errors
/// [`Stop::Failed`] if they have not.
pub(super) fn check_together(together: usize, workers: usize, tasks: usize, yields: usize) -> Result<(), Stop> {
    let can_tell = tasks >= 10 * workers && yields >= 100;
    if !can_tell || together > workers {
        return Ok(());
    }
    Err(Stop::failed(format!(
        "{tasks} yielded, and never more than {together} were under way together on {workers} workers: a yield let nobody else run"
    )))
}

/// What the tasks, or threads, of a round come to: how many yields each has made, and when it was done.
pub(super) struct Ends {
    start: Instant,
    done: usize,
    first: Duration,
    together: usize,
}

impl Ends {
    pub(super) fn since(start: Instant) -> Self {
        Self {
            start,
            done: 0,
            first: Duration::MAX,
            together: 0,
        }
    }

    pub(super) fn add(&mut self, end: End) {
        self.done += end.yields;
        self.first = self.first.min(end.at.saturating_duration_since(self.start));
        self.together = self.together.max(end.together);
    }

    /// The round, which took `all`, if no yield is missing, and how many were under way together.
    pub(super) fn round(self, all: Duration, measured: Measured) -> Result<(Round, usize), Stop> {
        if self.done as u64 != measured.ops {
            return Err(Stop::failed(format!(
                "{} yields were made, {} asked for",
                self.done, measured.ops
            )));
        }
        let permille = self.first.as_nanos() * 1000 / all.as_nanos().max(1);
        let round = Round {
            measured,
            first_done_permille: u64::try_from(permille).unwrap_or(1000),
        };
        Ok((round, self.together))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What `ends` say of tasks that begin and end in this order: each number begins one, or ends it if it was begun.
    fn together(order: &[usize]) -> usize {
        let under_way = UnderWay::default();
        let mut ends = Ends::since(Instant::now());
        let mut begun = Vec::new();
        for task in order {
            if begun.contains(task) {
                ends.add(under_way.end(1));
            } else {
                under_way.begin();
                begun.push(*task);
            }
        }
        let measured = Measured {
            ops: begun.len() as u64,
            ..Measured::default()
        };
        ends.round(Duration::from_secs(1), measured).unwrap().1
    }

    #[test]
    fn who_is_under_way_together_is_counted() {
        assert_eq!(together(&[1, 1, 2, 2, 3, 3]), 1);
        assert_eq!(together(&[1, 1, 2, 3, 4, 2, 3, 4]), 3);
    }

    #[test]
    fn a_yield_that_lets_nobody_run_is_a_failure_where_one_can_tell() {
        assert!(check_together(2, 2, 1000, 1000).is_err());
        assert!(check_together(1, 1, 1000, 1000).is_err());
        assert!(check_together(3, 2, 1000, 1000).is_ok());
        for (tasks, yields) in [(3, 1000), (1000, 3)] {
            assert!(check_together(2, 2, tasks, yields).is_ok());
        }
    }
}
