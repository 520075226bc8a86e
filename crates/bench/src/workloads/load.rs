//! load: requests that come at a given rate, whether or not the last ones are answered; how long each takes.
//!
//! An open loop: a thread of its own spawns a task for each request at the time that a schedule says, and if it is late
//! it catches up. A request's latency counts from its place in the schedule, so a runtime that delays the generator, or
//! the requests behind a slow one, does not hide it (coordinated omission). Requests come independently of each other
//! (exponential gaps, a fixed seed, so the same for every runtime); the full load is what the workers could do if they
//! did nothing else: one request a worker and `work_us`.
//!
//! Verified: every request ran once.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::adapters::Runtime;
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::workloads::fairness::work;
use crate::workloads::random::Random;
use crate::workloads::samples::Samples;

/// The seed of the schedule.
const SEED: u64 = 42;

/// How exactly a thread may sleep, in nanoseconds; the kernel's default is 50 us.
const SLACK: Option<NonZeroU64> = NonZeroU64::new(1);

/// Lets the calling thread sleep exactly.
///
/// # Errors
/// [`Stop::Unsupported`] if the kernel does not.
pub(super) fn sleep_exactly() -> Result<(), Stop> {
    rustix::thread::set_current_timer_slack(SLACK)
        .map_err(|_| Stop::unsupported("the kernel does not let a thread sleep exactly (PR_SET_TIMERSLACK)"))
}

/// The requests of a run, and the thread that waits for the last.
struct Requests {
    /// Latencies in nanoseconds, plus one; 0 until the request is done.
    latency: Vec<AtomicU64>,
    done: AtomicUsize,
    generator: Thread,
}

impl Requests {
    fn finish(&self, index: usize, due: Instant) {
        let nanos = u64::try_from(due.elapsed().as_nanos()).unwrap_or(u64::MAX - 1);
        // Ordering: Relaxed; published by the Release below. Adding shows a request that runs twice.
        self.latency[index].fetch_add(nanos + 1, Ordering::Relaxed);
        // Ordering: Release; pairs with the Acquire in `run`.
        if self.done.fetch_add(1, Ordering::Release) + 1 == self.latency.len() {
            self.generator.unpark();
        }
    }
}

/// Runs it once, on the calling thread: `percent` of the full load of `workers` workers for `duration`.
///
/// # Errors
/// [`Stop::Failed`] if a request did not run, or ran twice.
pub fn run<R: Runtime>(
    runtime: R,
    workers: usize,
    percent: u32,
    (work_time, duration): (Duration, Duration),
) -> Result<Measured, Stop> {
    let schedule = schedule(gap(workers, percent, work_time), duration);
    // Leaked, as in `spawn_remote`: no reference count in each task.
    let requests: &'static Requests = Box::leak(Box::new(Requests {
        latency: schedule.iter().map(|_| AtomicU64::new(0)).collect(),
        done: AtomicUsize::new(0),
        generator: thread::current(),
    }));
    sleep_exactly()?;
    let meter = Meter::start(&runtime);
    let start = Instant::now();
    let mut latest = Duration::ZERO;
    for (index, &offset) in schedule.iter().enumerate() {
        let due = start + offset;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        latest = latest.max(due.elapsed());
        runtime.spawn_outside(async move {
            work(work_time);
            requests.finish(index, due);
        });
    }
    // Ordering: Acquire; pairs with the Release in `finish`.
    while requests.done.load(Ordering::Acquire) < schedule.len() {
        thread::park();
    }
    let mut measured = meter.stop(&runtime, schedule.len() as u64);
    let late = u64::try_from(latest.as_nanos()).unwrap_or(u64::MAX);
    measured.counters.insert("generator_late_max_ns".to_owned(), late);
    // Ordering: Relaxed; the tasks are done, see above.
    judge(
        requests.latency.iter().map(|latency| latency.load(Ordering::Relaxed)),
        measured,
    )
}

/// `measured` with the latencies of the requests, of each what is in [`Requests::latency`].
///
/// # Errors
/// [`Stop::Failed`] if a request did not run.
pub(super) fn judge(latencies: impl Iterator<Item = u64>, measured: Measured) -> Result<Measured, Stop> {
    let latencies: Option<Vec<u64>> = latencies.map(|latency| latency.checked_sub(1)).collect();
    match latencies {
        Some(latencies) => Ok(Samples::from_nanos(latencies).into(measured)),
        None => Err(Stop::failed("a request was counted twice and another never ran")),
    }
}

/// The time between two requests on average.
pub(crate) fn gap(workers: usize, percent: u32, work_time: Duration) -> Duration {
    work_time * 100 / percent / u32::try_from(workers).unwrap_or(u32::MAX)
}

/// When the requests come, from the start on. Without a gap between them they would never end.
fn schedule(gap: Duration, duration: Duration) -> Vec<Duration> {
    let mut random = Random::new(SEED);
    let mut due = Duration::ZERO;
    std::iter::from_fn(|| {
        due += random.until_next(gap);
        (due < duration).then_some(due)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_has_the_rate_that_was_asked_for() {
        let due = schedule(Duration::from_micros(100), Duration::from_secs(1));
        assert!((9500..10_500).contains(&due.len()), "{}", due.len());
        assert!(due.is_sorted());
        assert_eq!(due, schedule(Duration::from_micros(100), Duration::from_secs(1)));
    }
}
