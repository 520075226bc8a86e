//! What a line of the trace says: what was counted since the last one, and which workers have done nothing since.

use std::fmt::{self, Write as _};
use std::sync::Weak;

use crate::metrics::Metrics;
use crate::sched::Shared;
use crate::thread::{ThreadInfo, ThreadState, list};

/// Makes the lines of a runtime.
pub(crate) struct Lines {
    shared: Weak<Shared>,
    last: Metrics,
    /// Who was idle at the last line: who has just been woken has counted nothing yet.
    idle: Vec<bool>,
    /// Stands before the first line.
    report: Option<String>,
}

impl Lines {
    pub(crate) fn new(shared: Weak<Shared>, report: String) -> Self {
        Self {
            shared,
            last: Metrics::default(),
            idle: Vec::new(),
            report: Some(report),
        }
    }
}

impl Iterator for Lines {
    type Item = String;

    /// The next one; `None` once the runtime is gone.
    fn next(&mut self) -> Option<String> {
        let shared = &*self.shared.upgrade()?;
        let now = Metrics::of(shared);
        let idle: Vec<_> = (0..now.workers.len())
            .map(|worker| shared.sleepers.is_idle(worker))
            .collect();
        let was_idle = std::mem::replace(&mut self.idle, idle);
        let is_idle = |worker: usize| self.idle[worker] || was_idle.get(worker).is_none_or(|was_idle| *was_idle);
        let held: Vec<_> = held(&now, &self.last, is_idle).collect();
        // Who runs what is asked for only where it is told: it costs a look at every thread.
        let threads = if held.is_empty() { Vec::new() } else { list::all(shared) };
        let counted = Counted {
            now: &now,
            last: &self.last,
        };
        let mut line = self.report.take().map_or_else(String::new, |report| report + "\n");
        let _ = write!(line, "{counted}{}", Stuck { held, threads });
        self.last = now;
        Some(line)
    }
}

/// The workers that are not idle and have counted nothing since `last`: each runs one task, or blocks.
fn held<'a>(now: &'a Metrics, last: &'a Metrics, is_idle: impl Fn(usize) -> bool + 'a) -> impl Iterator<Item = usize> {
    let workers = now.workers.iter().zip(&last.workers).enumerate();
    workers
        .filter(move |(worker, (now, last))| now == last && !is_idle(*worker))
        .map(|(worker, _)| worker)
}

/// What was counted since the last line.
struct Counted<'a> {
    now: &'a Metrics,
    last: &'a Metrics,
}

impl fmt::Display for Counted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (now, last) = (self.now.total(), self.last.total());
        write!(
            f,
            "pending={} wake_cost={}ns",
            self.now.pending_tasks, self.now.wake_cost_ns
        )?;
        for ((name, value), (_, old)) in now.iter().zip(last.iter()) {
            if value != old {
                write!(f, " {name}={}", value.wrapping_sub(old))?;
            }
        }
        Ok(())
    }
}

/// The workers that have done nothing, with the user-level threads that they run: ` stuck=0(ThreadId(7) "parser"),1`.
struct Stuck {
    held: Vec<usize>,
    threads: Vec<ThreadInfo>,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, held) in self.held.iter().enumerate() {
            f.write_str(if place == 0 { " stuck=" } else { "," })?;
            write!(f, "{held}")?;
            let is_there = |info: &&ThreadInfo| info.state == ThreadState::Running { worker: *held };
            if let Some(info) = self.threads.iter().find(is_there) {
                write!(f, "({:?}", info.id)?;
                if let Some(name) = &info.name {
                    write!(f, " {name:?}")?;
                }
                f.write_str(")")?;
            }
        }
        Ok(())
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;
    use crate::metrics::WorkerMetrics;

    fn polls(polls: [u64; 3]) -> Metrics {
        let worker = |polls| WorkerMetrics {
            polls,
            ..WorkerMetrics::default()
        };
        Metrics {
            workers: polls.map(worker).into(),
            ..Metrics::default()
        }
    }

    #[test]
    fn who_is_awake_and_has_counted_nothing_is_held() {
        let held = |now, last: &Metrics, idle: usize| -> Vec<usize> {
            held(&polls(now), last, |worker| worker == idle).collect()
        };
        assert_eq!(held([4, 5, 6], &polls([4, 4, 6]), 2), [0]);
        assert_eq!(held([4, 5, 6], &polls([4, 5, 6]), 9), [0, 1, 2]);
        assert_eq!(
            held([0, 0, 0], &Metrics::default(), 9),
            [0; 0],
            "the first line says nothing"
        );
    }

    #[test]
    fn a_line_says_what_was_counted_and_who_is_stuck() {
        let (last, now) = (polls([4, 4, 6]), polls([4, 9, 6]));
        let counted = Counted { now: &now, last: &last };
        assert_eq!(counted.to_string(), "pending=0 wake_cost=0ns polls=5");
        let stuck = |held: &[usize]| {
            let (held, threads) = (held.to_vec(), Vec::new());
            Stuck { held, threads }.to_string()
        };
        assert_eq!((stuck(&[]), stuck(&[0, 2])), (String::new(), " stuck=0,2".to_owned()));
    }
}
