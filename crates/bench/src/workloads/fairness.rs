//! fairness: how long a ready task waits while others misbehave (`spin`) or keep everybody busy (`closed`).
//!
//! The figure is the longest single wait, not a mean: a scheduler that starves one task looks well in every average.
//!
//! - **spin**: a task wakes some tasks, which are then in whatever place is nearest to it, and spins without yielding.
//!   With yielders, every other worker has work of its own all the while, so it must look beyond that.
//! - **closed**: a few tasks work and queue again at once, through a yield, or as in schbench through a message to a
//!   messenger and its answer. Somebody is always ready; nobody may be passed over for long.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::adapters::{Channel, Received, Runtime, Sent};
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::workloads::gate::{Gate, gate};

/// What a task has seen of waiting.
#[derive(Clone, Copy, Default)]
struct Waits {
    count: u64,
    longest: Duration,
}

impl Waits {
    fn add(&mut self, since: Instant) {
        self.count += 1;
        self.longest = self.longest.max(since.elapsed());
    }

    fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.longest = self.longest.max(other.longest);
    }

    fn longest_ns(self) -> u64 {
        u64::try_from(self.longest.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A yielder that has not come to run after so long is not waited for: it never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// Which yielders have come to run.
#[derive(Debug)]
struct Arrivals(Vec<AtomicBool>);

impl Arrivals {
    fn of(count: usize) -> Self {
        Self((0..count).map(|_| AtomicBool::new(false)).collect())
    }

    /// Number `index` runs. Ordering: Relaxed; nothing is published.
    fn arrive(&self, index: usize) {
        self.0[index].store(true, Ordering::Relaxed);
    }

    /// The first one that is not there.
    fn missing(&self) -> Option<usize> {
        self.0.iter().position(|arrived| !arrived.load(Ordering::Relaxed))
    }

    /// Yields until all are there.
    async fn all<R: Runtime>(&self, patience: Duration) -> Result<(), Stop> {
        let begin = Instant::now();
        while let Some(missing) = self.missing() {
            if begin.elapsed() >= patience {
                return Err(Stop::failed(format!(
                    "yielder {} of {} did not run in {patience:?}",
                    missing + 1,
                    self.0.len()
                )));
            }
            R::yield_now().await;
        }
        Ok(())
    }
}

/// Spins for so long.
pub(super) fn work(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        hint::spin_loop();
    }
}

/// Runs `spin` once.
///
/// # Errors
/// [`Stop::Failed`] if a task was not woken, or a yielder never ran.
pub async fn spin<R: Runtime, C: Channel>(
    runtime: R,
    duration: Duration,
    woken: usize,
    yielders: usize,
) -> Result<Measured, Stop> {
    let stop = Arc::new(AtomicBool::new(false));
    let arrivals = Arc::new(Arrivals::of(yielders));
    let (opener, gate) = gate();
    let mut wakers = Vec::new();
    let mut sleepers = Vec::new();
    for _ in 0..woken {
        let (sender, receiver) = C::bounded::<Instant>(1);
        wakers.push(sender);
        sleepers.push(runtime.spawn(sleeper::<C>(receiver, gate.clone())));
    }
    let joins: Vec<_> = (0..yielders)
        .map(|index| {
            let yielder = yielder::<R>(index, Arc::clone(&arrivals), Arc::clone(&stop), gate.clone());
            runtime.spawn(yielder)
        })
        .collect();
    opener.all_ready(woken + yielders).await?;
    drop(gate);

    let meter = Meter::start(&runtime);
    opener.open();
    let spinner = runtime.spawn(spinner::<R, C>(wakers, arrivals, duration, stop));
    let spun = spinner.await;
    let (mut of_woken, mut of_yielders) = (Waits::default(), Waits::default());
    for sleeper in sleepers {
        of_woken.merge(sleeper.await);
    }
    for join in joins {
        of_yielders.merge(join.await);
    }
    let mut measured = meter.stop(&runtime, of_woken.count + of_yielders.count);
    spun?;
    if of_woken.count != woken as u64 {
        return Err(Stop::failed(format!("{} of {woken} tasks were woken", of_woken.count)));
    }
    measured
        .counters
        .insert("longest_wait_woken_ns".to_owned(), of_woken.longest_ns());
    measured
        .counters
        .insert("longest_wait_yielders_ns".to_owned(), of_yielders.longest_ns());
    measured.longest_wait_ns = Some(of_woken.longest_ns().max(of_yielders.longest_ns()));
    Ok(measured)
}

async fn spinner<R: Runtime, C: Channel>(
    wakers: Vec<C::Sender<Instant>>,
    arrivals: Arc<Arrivals>,
    duration: Duration,
    stop: Arc<AtomicBool>,
) -> Result<(), Stop> {
    // Everybody who is to be woken is asleep before the spin.
    for _ in 0..100 {
        R::yield_now().await;
    }
    // And every yielder has begun to yield: one that first ran after the spin would have seen nothing of it.
    let mut result = arrivals.all::<R>(PATIENCE).await;
    for waker in &wakers {
        result = result.and(C::send(waker, Instant::now()).await.sent());
    }
    work(duration);
    // Ordering: Relaxed; the yielders stop soon, nothing is published.
    stop.store(true, Ordering::Relaxed);
    result
}

async fn sleeper<C: Channel>(mut receiver: C::Receiver<Instant>, gate: Gate) -> Waits {
    gate.pass().await;
    let mut waits = Waits::default();
    if let Some(since) = C::recv(&mut receiver).await.value() {
        waits.add(since);
    }
    waits
}

async fn yielder<R: Runtime>(index: usize, arrivals: Arc<Arrivals>, stop: Arc<AtomicBool>, gate: Gate) -> Waits {
    gate.pass().await;
    let mut waits = Waits::default();
    let mut since = Instant::now();
    arrivals.arrive(index);
    loop {
        R::yield_now().await;
        waits.add(since);
        // Ordering: Relaxed; see `spinner`.
        if stop.load(Ordering::Relaxed) {
            return waits;
        }
        since = Instant::now();
    }
}

/// Runs `closed` once with yields.
///
/// # Errors
/// [`Stop::Failed`] if a turn is missing.
pub async fn closed_by_yield<R: Runtime>(
    runtime: R,
    tasks: usize,
    work_time: Duration,
    turns: usize,
) -> Result<Measured, Stop> {
    let (opener, gate) = gate();
    let joins: Vec<_> = (0..tasks)
        .map(|_| runtime.spawn(yielding_worker::<R>(work_time, turns, gate.clone())))
        .collect();
    drop(gate);
    opener.all_ready(tasks).await?;
    let meter = Meter::start(&runtime);
    opener.open();
    let mut all = Waits::default();
    for join in joins {
        all.merge(join.await);
    }
    finish(meter.stop(&runtime, all.count), all, tasks * turns)
}

async fn yielding_worker<R: Runtime>(work_time: Duration, turns: usize, gate: Gate) -> Waits {
    gate.pass().await;
    let mut waits = Waits::default();
    for _ in 0..turns {
        work(work_time);
        let since = Instant::now();
        R::yield_now().await;
        waits.add(since);
    }
    waits
}

/// Runs `closed` once with a messenger.
///
/// # Errors
/// [`Stop::Failed`] if a turn is missing.
pub async fn closed_by_channel<R: Runtime, C: Channel>(
    runtime: R,
    tasks: usize,
    work_time: Duration,
    turns: usize,
) -> Result<Measured, Stop> {
    let (opener, gate) = gate();
    let (posts, post_office) = C::bounded::<(usize, Instant)>(tasks);
    let mut answers = Vec::new();
    let mut joins = Vec::new();
    for index in 0..tasks {
        let (answer, receiver) = C::bounded::<Instant>(1);
        answers.push(answer);
        let worker = posting_worker::<C>(index, posts.clone(), receiver, work_time, turns, gate.clone());
        joins.push(runtime.spawn(worker));
    }
    drop(posts);
    drop(gate);
    joins.push(runtime.spawn(messenger::<C>(post_office, answers)));
    opener.all_ready(tasks).await?;
    let meter = Meter::start(&runtime);
    opener.open();
    let mut all = Waits::default();
    for join in joins {
        all.merge(join.await);
    }
    // The messenger waits too, once a message.
    finish(meter.stop(&runtime, all.count), all, 2 * tasks * turns)
}

async fn posting_worker<C: Channel>(
    index: usize,
    posts: C::Sender<(usize, Instant)>,
    mut answers: C::Receiver<Instant>,
    work_time: Duration,
    turns: usize,
    gate: Gate,
) -> Waits {
    gate.pass().await;
    let mut waits = Waits::default();
    for _ in 0..turns {
        work(work_time);
        if C::send(&posts, (index, Instant::now())).await.sent().is_err() {
            return waits;
        }
        match C::recv(&mut answers).await.value() {
            Some(since) => waits.add(since),
            None => return waits,
        }
    }
    waits
}

async fn messenger<C: Channel>(mut posts: C::Receiver<(usize, Instant)>, answers: Vec<C::Sender<Instant>>) -> Waits {
    let mut waits = Waits::default();
    while let Some((index, since)) = C::recv(&mut posts).await.value() {
        waits.add(since);
        if C::send(&answers[index], Instant::now()).await.sent().is_err() {
            break;
        }
    }
    waits
}

fn finish(mut measured: Measured, all: Waits, expected: usize) -> Result<Measured, Stop> {
    measured.longest_wait_ns = Some(all.longest_ns());
    if all.count == expected as u64 {
        Ok(measured)
    } else {
        Err(Stop::failed(format!(
            "{} waits were seen, {expected} expected",
            all.count
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::threads::Threads;

    #[test]
    fn a_yielder_that_does_not_come_to_run_is_named() {
        let arrivals = Arrivals::of(3);
        let all = || futures_lite::future::block_on(arrivals.all::<Threads>(Duration::ZERO));
        arrivals.arrive(0);
        arrivals.arrive(2);
        assert_eq!(all(), Err(Stop::failed("yielder 2 of 3 did not run in 0ns")));
        arrivals.arrive(1);
        assert_eq!(all(), Ok(()));
    }
}
