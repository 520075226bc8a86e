//! timers: many tasks that sleep, each a random time again and again; and timeouts that never fire.
//!
//! - **timers**: by how much each sleep is late, and what it costs. The times are the same for every runtime: a fixed
//!   seed.
//! - **timeout_drop**: a timer of ten seconds is armed, polled once and dropped, as around every request that is
//!   answered in time.
//!
//! Verified: no sleep is early, and none is missing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::adapters::{Counts, Runtime};
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::workloads::gate::{Gate, gate};
use crate::workloads::load::sleep_exactly;
use crate::workloads::random::Random;
use crate::workloads::samples::Samples;

/// For how long the one thread waits for more sleeps after the first is due. quadrille's workers do as long by default
/// where sleeps end on time (`Builder::timer_slack`).
const SLACK: Duration = Duration::from_micros(90);

/// A deadline that never comes in a run.
const FAR: Duration = Duration::from_secs(10);

/// Runs `timers` once: each of `tasks` tasks sleeps `sleeps` times between `from_us` and `to_us` microseconds.
///
/// # Errors
/// [`Stop::Failed`] if a sleep was early or is missing.
pub async fn run<R: Runtime>(
    runtime: R,
    tasks: usize,
    sleeps: usize,
    (from_us, to_us): (u64, u64),
) -> Result<Measured, Stop> {
    let (opener, gate) = gate();
    let joins: Vec<_> = (0..tasks as u64)
        .map(|seed| runtime.spawn(sleeper::<R>(Random::new(seed), sleeps, (from_us, to_us), gate.clone())))
        .collect();
    drop(gate);
    opener.all_ready(tasks).await?;
    let meter = Meter::start(&runtime);
    opener.open();
    let mut late = Samples::with_capacity(tasks * sleeps);
    let mut early = 0;
    for join in joins {
        let (samples, too_early) = join.await;
        late.merge(samples);
        early += too_early;
    }
    judge(late, early, meter.stop(&runtime, (tasks * sleeps) as u64))
}

/// `measured` with how late the sleeps were.
///
/// # Errors
/// [`Stop::Failed`] if a sleep was early or is missing.
pub(super) fn judge(late: Samples, early: usize, measured: Measured) -> Result<Measured, Stop> {
    if early != 0 || late.len() as u64 != measured.ops {
        return Err(Stop::failed(format!(
            "{} sleeps of {}, {early} of them early",
            late.len(),
            measured.ops
        )));
    }
    Ok(late.into(measured))
}

/// How late its sleeps were, and how many were early.
async fn sleeper<R: Runtime>(
    mut random: Random,
    sleeps: usize,
    (from_us, to_us): (u64, u64),
    gate: Gate,
) -> (Samples, usize) {
    let mut late = Samples::with_capacity(sleeps);
    let mut early = 0;
    gate.pass().await;
    for _ in 0..sleeps {
        let asked = Duration::from_micros(random.between(from_us, to_us));
        let start = Instant::now();
        R::sleep(asked).await;
        let slept = start.elapsed();
        early += usize::from(slept < asked);
        late.add(slept.saturating_sub(asked));
    }
    (late, early)
}

/// The same sleeps out of a heap, in the calling thread, which gets up a slack after the first is due and ends all that
/// are due by then: what they cost if nothing is scheduled. Who gets up more often is less late for more CPU.
///
/// # Errors
/// As [`run`], and [`Stop::Unsupported`] if the kernel does not let a thread sleep exactly.
pub fn in_one_thread(
    counts: &impl Counts,
    tasks: usize,
    sleeps: usize,
    (from_us, to_us): (u64, u64),
) -> Result<Measured, Stop> {
    sleep_exactly()?;
    let mut sleepers: Vec<_> = (0..tasks as u64).map(|seed| (Random::new(seed), sleeps)).collect();
    let mut due = BinaryHeap::with_capacity(tasks);
    let mut late = Samples::with_capacity(tasks * sleeps);
    let meter = Meter::start(counts);
    let mut sleep = |due: &mut BinaryHeap<_>, index: usize| {
        let (random, left) = &mut sleepers[index];
        if let Some(others) = left.checked_sub(1) {
            *left = others;
            let asked = Duration::from_micros(random.between(from_us, to_us));
            due.push(Reverse((Instant::now() + asked, index)));
        }
    };
    (0..tasks).for_each(|index| sleep(&mut due, index));
    while let Some(&Reverse((first, _))) = due.peek() {
        std::thread::sleep((first + SLACK).saturating_duration_since(Instant::now()));
        while let Some(&Reverse((time, index))) = due.peek()
            && let Some(by) = Instant::now().checked_duration_since(time)
        {
            due.pop();
            late.add(by);
            sleep(&mut due, index);
        }
    }
    judge(late, 0, meter.stop(counts, (tasks * sleeps) as u64))
}

/// Runs `timeout_drop` once, in one task.
///
/// # Errors
/// [`Stop::Failed`] if a timer of ten seconds was ready at once.
pub async fn arm_and_drop<R: Runtime>(runtime: R, timers: usize) -> Result<Measured, Stop> {
    let meter = Meter::start(&runtime);
    let mut fired = 0;
    for _ in 0..timers {
        let mut timer = pin!(R::sleep(FAR));
        let is_ready = poll_fn(|cx| Poll::Ready(timer.as_mut().poll(cx).is_ready())).await;
        fired += usize::from(is_ready);
    }
    let measured = meter.stop(&runtime, timers as u64);
    none_fired(fired, timers).map(|()| measured)
}

/// That none of so many timers of ten seconds was ready at once.
pub(super) fn none_fired(fired: usize, timers: usize) -> Result<(), Stop> {
    if fired == 0 {
        Ok(())
    } else {
        Err(Stop::failed(format!(
            "{fired} of {timers} timers fired ten seconds early"
        )))
    }
}
