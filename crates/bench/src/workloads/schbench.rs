//! schbench: messengers wake workers, which work a little; how long it takes from the wake-up until a worker runs.
//!
//! - **tick**: every tick each messenger takes one time stamp and wakes all its workers, as in schbench before 2023; so
//!   the latency includes the wake loop. A tick there is always as long, and whether the messengers' bursts meet
//!   always, never or now and then is left to chance, on which the quantiles depend more than on who runs them. Here a
//!   tick takes half to one and a half times its length, drawn evenly from a fixed seed, the same for every runtime; so
//!   they meet as often in each run. When ticks are due stands before the first one: who comes late to one, by its
//!   timer or because a worker still had the last wake-up, makes up for it, so that the load is the same for every
//!   runtime. The stamp leaves out for how long the messenger itself waited behind other work, so that a scheduler
//!   looks the better the later it runs one. From when its tick was due the same is counted again, the messenger's wait
//!   and the timer's lateness included.
//! - **closed**: each worker asks its messenger, which answers at once with a time stamp. Always somebody is ready; in
//!   a queue that is first in, first out every wait would be that of a full round.
//!
//! What schbench does since then, requests that sleep and compute, is [`schbench_requests`](super::schbench_requests).
//!
//! schbench has processors that are pre-empted; here nobody is, so the work is short (20 us). Verified by the number of
//! wake-ups.

use std::time::{Duration, Instant};

use crate::adapters::{Channel, Received, Runtime, Sent};
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::spec::Schbench;
use crate::workloads::fairness::work;
use crate::workloads::gate::{Gate, gate};
use crate::workloads::random::Random;
use crate::workloads::samples::Samples;

/// Runs it once.
///
/// # Errors
/// [`Stop::Failed`] if a wake-up is missing.
pub async fn run<R: Runtime, C: Channel>(runtime: R, params: Schbench) -> Result<Measured, Stop> {
    let (opener, gate) = gate();
    let mut messengers = Vec::new();
    let mut workers = Vec::new();
    for messenger in 0..params.messengers {
        let (posts, post_office) = C::bounded::<usize>(params.workers);
        let mut wakers = Vec::new();
        for index in 0..params.workers {
            let (waker, wakes) = C::bounded::<WakeUp>(1);
            wakers.push(waker);
            let posts = params.is_closed().then(|| posts.clone());
            workers.push(runtime.spawn(worker::<C>(index, posts, wakes, params, gate.clone())));
        }
        drop(posts);
        messengers.push(if params.is_closed() {
            runtime.spawn(answer::<C, WakeUp>(post_office, wakers))
        } else {
            runtime.spawn(tick::<R, C>(
                wakers,
                params,
                Ticks::new(params, messenger),
                gate.clone(),
            ))
        });
    }
    drop(gate);
    let ticking = if params.is_closed() { 0 } else { params.messengers };
    opener.all_ready(workers.len() + ticking).await?;
    let meter = Meter::start(&runtime);
    opener.open();
    let expected = params.messengers * params.workers * params.rounds;
    let mut latencies = Latencies::with_capacity(expected);
    for worker in workers {
        latencies.merge(worker.await);
    }
    for messenger in messengers {
        messenger.await;
    }
    latencies.finish(meter.stop(&runtime, expected as u64))
}

/// What a messenger sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct WakeUp {
    /// When the tick was due; nobody waits for one in the closed loop.
    pub(super) due: Option<Instant>,
    /// When the messenger came to it.
    pub(super) stamp: Instant,
}

impl From<Instant> for WakeUp {
    fn from(stamp: Instant) -> Self {
        Self { due: None, stamp }
    }
}

/// How long it took from wake-ups until a worker ran.
#[derive(Default)]
pub(super) struct Latencies {
    /// From the messengers' stamps.
    wakes: Samples,
    /// From when ticks were due.
    dues: Samples,
}

impl Latencies {
    /// Room for so many wake-ups.
    pub(super) fn with_capacity(count: usize) -> Self {
        Self {
            wakes: Samples::with_capacity(count),
            dues: Samples::with_capacity(count),
        }
    }

    /// A worker runs.
    pub(super) fn add(&mut self, wake_up: WakeUp) {
        let now = Instant::now();
        self.wakes.add(now.saturating_duration_since(wake_up.stamp));
        if let Some(due) = wake_up.due {
            self.dues.add(now.saturating_duration_since(due));
        }
    }

    /// Adds all of another.
    pub(super) fn merge(&mut self, other: Self) {
        self.wakes.merge(other.wakes);
        self.dues.merge(other.dues);
    }

    /// The run with its quantiles, if no wake-up is missing.
    pub(super) fn finish(self, measured: Measured) -> Result<Measured, Stop> {
        let Self { wakes, dues } = self;
        if wakes.len() as u64 != measured.ops {
            let (found, expected) = (wakes.len(), measured.ops);
            return Err(Stop::failed(format!("{found} wake-ups, {expected} expected")));
        }
        let measured = wakes.into(measured);
        Ok(if dues.is_empty() {
            measured
        } else {
            dues.into_dues(measured)
        })
    }
}

/// How long a messenger's ticks take.
pub(super) struct Ticks {
    usual_us: u64,
    random: Random,
}

impl Ticks {
    /// Of one of the messengers.
    pub(super) fn new(params: Schbench, messenger: usize) -> Self {
        Self {
            usual_us: params.tick_us,
            random: Random::new(messenger as u64),
        }
    }

    /// Half to one and a half times what is usual.
    pub(super) fn draw(&mut self) -> Duration {
        let half = self.usual_us / 2;
        Duration::from_micros(self.random.between(half, self.usual_us.saturating_add(half)))
    }
}

async fn worker<C: Channel>(
    index: usize,
    posts: Option<C::Sender<usize>>,
    mut wakes: C::Receiver<WakeUp>,
    params: Schbench,
    gate: Gate,
) -> Latencies {
    let mut latencies = Latencies::with_capacity(params.rounds);
    gate.pass().await;
    for _ in 0..params.rounds {
        if let Some(posts) = &posts
            && C::send(posts, index).await.sent().is_err()
        {
            break;
        }
        let Some(wake_up) = C::recv(&mut wakes).await.value() else {
            break;
        };
        latencies.add(wake_up);
        work(params.work());
    }
    latencies
}

/// The messenger of the closed loop, and of [`schbench_requests`](super::schbench_requests).
pub(super) async fn answer<C: Channel, W: From<Instant> + Send + 'static>(
    mut posts: C::Receiver<usize>,
    wakers: Vec<C::Sender<W>>,
) {
    while let Some(index) = C::recv(&mut posts).await.value() {
        if C::send(&wakers[index], Instant::now().into()).await.sent().is_err() {
            break;
        }
    }
}

/// The messenger of the tick.
async fn tick<R: Runtime, C: Channel>(wakers: Vec<C::Sender<WakeUp>>, params: Schbench, mut ticks: Ticks, gate: Gate) {
    gate.pass().await;
    let mut due = Instant::now();
    for _ in 0..params.rounds {
        due += ticks.draw();
        let ahead = due.saturating_duration_since(Instant::now());
        if !ahead.is_zero() {
            R::sleep(ahead).await;
        }
        let (due, stamp) = (Some(due), Instant::now());
        for waker in &wakers {
            if C::send(waker, WakeUp { due, stamp }).await.sent().is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use futures_lite::future::block_on;

    use super::*;
    use crate::adapters::threads::{SyncChannel, Threads};

    /// A few ticks of one messenger.
    pub(in crate::workloads) const TICKS: Schbench = Schbench {
        messengers: 1,
        workers: 1,
        work_us: 20,
        tick_us: 1000,
        rounds: 5,
    };

    /// What the first messenger of [`TICKS`] has sent is due as its ticks follow each other, however late each wake-up
    /// was.
    pub(in crate::workloads) fn check_schedule(wake_ups: &[WakeUp]) {
        assert_eq!(wake_ups.len(), TICKS.rounds);
        let dues: Vec<Instant> = wake_ups.iter().filter_map(|wake_up| wake_up.due).collect();
        let apart: Vec<Duration> = dues.windows(2).map(|two| two[1] - two[0]).collect();
        let mut ticks = Ticks::new(TICKS, 0);
        let drawn: Vec<Duration> = dues.iter().map(|_| ticks.draw()).collect();
        assert_eq!(apart, drawn[1..]);
        assert!(wake_ups.iter().zip(dues).all(|(wake_up, due)| wake_up.stamp >= due));
    }

    #[test]
    fn a_late_tick_does_not_put_off_the_next_one() {
        let (opener, gate) = gate();
        opener.open();
        let (waker, wakes) = <SyncChannel as Channel>::bounded(TICKS.rounds);
        let ticks = Ticks::new(TICKS, 0);
        block_on(tick::<Threads, SyncChannel>(vec![waker], TICKS, ticks, gate));
        check_schedule(&wakes.try_iter().collect::<Vec<_>>());
    }

    /// The same of each messenger in every run, others of the next one, and as long as they are called on average.
    #[test]
    fn ticks_are_drawn_around_the_usual_one() {
        let params = Schbench {
            messengers: 2,
            workers: 1,
            work_us: 20,
            tick_us: 1000,
            rounds: 1,
        };
        let draw = |messenger| -> Vec<Duration> {
            let mut ticks = Ticks::new(params, messenger);
            (0..1000).map(|_| ticks.draw()).collect()
        };
        let ticks = draw(0);
        assert_eq!(ticks, draw(0));
        assert_ne!(ticks, draw(1));
        let micros = Duration::from_micros;
        assert!(ticks.iter().all(|tick| (micros(500)..=micros(1500)).contains(tick)));
        let average = ticks.iter().sum::<Duration>() / 1000;
        assert!((micros(970)..micros(1030)).contains(&average), "{average:?}");
    }
}
