//! thread_schbench: messengers and workers that are threads; see [`schbench`](crate::workloads::schbench) and
//! [`schbench_requests`].

use std::time::Instant;

use super::gate::{Gate, gate};
use crate::adapters::blocking::{ThreadChannel, ThreadRuntime, all_made};
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::spec::{Schbench, SchbenchRequests};
use crate::workloads::fairness::work;
use crate::workloads::schbench::{Latencies, Ticks, WakeUp};
use crate::workloads::schbench_requests::{self, Matrices};

/// Runs the tick, or the closed loop, once.
///
/// # Errors
/// [`Stop::Failed`] if a thread cannot be made, or a wake-up is missing.
pub fn run<R: ThreadRuntime, C: ThreadChannel>(runtime: R, params: Schbench) -> Result<Measured, Stop> {
    let count = params.messengers * params.workers;
    let is_ticking = !params.is_closed();
    let (opener, gate) = gate::<R>(if is_ticking { count + params.messengers } else { count });
    let mut behind_gate = Vec::new();
    let mut messengers = Vec::new();
    for messenger in 0..params.messengers {
        let (posts, post_office) = C::bounded::<usize>(params.workers);
        let mut wakers = Vec::new();
        for index in 0..params.workers {
            let (waker, wakes) = C::bounded::<WakeUp>(1);
            wakers.push(waker);
            let (posts, gate) = ((!is_ticking).then(|| posts.clone()), gate.clone());
            behind_gate.push(runtime.spawn(move || worker::<R, C>(index, posts.as_ref(), wakes, params, gate)));
        }
        if is_ticking {
            let (gate, ticks) = (gate.clone(), Ticks::new(params, messenger));
            behind_gate.push(runtime.spawn(move || tick::<R, C>(&wakers, params, ticks, gate)));
        } else {
            messengers.push(runtime.spawn(move || answer::<C, WakeUp>(post_office, &wakers)));
        }
    }
    let behind_gate = opener.all_ready(behind_gate)?;
    let messengers = all_made(messengers)?;
    let meter = Meter::start(&runtime);
    opener.open(&behind_gate);
    let mut latencies = Latencies::with_capacity(count * params.rounds);
    for thread in behind_gate {
        latencies.merge(R::join(thread));
    }
    for messenger in messengers {
        R::join(messenger);
    }
    latencies.finish(meter.stop(&runtime, (count * params.rounds) as u64))
}

fn worker<R: ThreadRuntime, C: ThreadChannel>(
    index: usize,
    posts: Option<&C::Sender<usize>>,
    mut wakes: C::Receiver<WakeUp>,
    params: Schbench,
    gate: Gate<R>,
) -> Latencies {
    let mut latencies = Latencies::with_capacity(params.rounds);
    gate.pass();
    for _ in 0..params.rounds {
        if posts.is_some_and(|posts| C::send(posts, index).is_err()) {
            break;
        }
        let Some(wake_up) = C::recv(&mut wakes) else { break };
        latencies.add(wake_up);
        work(params.work());
    }
    latencies
}

/// The messenger of the closed loop, and of requests.
fn answer<C: ThreadChannel, W: From<Instant> + Send + 'static>(mut posts: C::Receiver<usize>, wakers: &[C::Sender<W>]) {
    while let Some(index) = C::recv(&mut posts) {
        if C::send(&wakers[index], Instant::now().into()).is_err() {
            break;
        }
    }
}

/// The messenger of the tick. It has no latencies of its own.
fn tick<R: ThreadRuntime, C: ThreadChannel>(
    wakers: &[C::Sender<WakeUp>],
    params: Schbench,
    mut ticks: Ticks,
    gate: Gate<R>,
) -> Latencies {
    gate.pass();
    let mut due = Instant::now();
    for _ in 0..params.rounds {
        due += ticks.draw();
        let ahead = due.saturating_duration_since(Instant::now());
        if !ahead.is_zero() {
            R::sleep(ahead);
        }
        let (due, stamp) = (Some(due), Instant::now());
        if wakers
            .iter()
            .any(|waker| C::send(waker, WakeUp { due, stamp }).is_err())
        {
            break;
        }
    }
    Latencies::default()
}

/// Runs the requests once, with `count` workers.
///
/// # Errors
/// [`Stop::Failed`] if a thread cannot be made, a request is missing, or a product is wrong.
pub fn requests<R: ThreadRuntime, C: ThreadChannel>(
    runtime: R,
    count: usize,
    params: SchbenchRequests,
) -> Result<Measured, Stop> {
    let (opener, gate) = gate::<R>(count);
    let (posts, post_office) = C::bounded::<usize>(count);
    let mut wakers = Vec::new();
    let mut workers = Vec::new();
    for index in 0..count {
        let (waker, wakes) = C::bounded::<Instant>(1);
        wakers.push(waker);
        let (posts, gate) = (posts.clone(), gate.clone());
        workers.push(runtime.spawn(move || serve::<R, C>(index, &posts, wakes, params, gate)));
    }
    drop(posts);
    let messenger = all_made(vec![runtime.spawn(move || answer::<C, Instant>(post_office, &wakers))])?;
    let workers = opener.all_ready(workers)?;
    let meter = Meter::start(&runtime);
    opener.open(&workers);
    let mut latencies = schbench_requests::Latencies::with_capacity(count * params.requests);
    for worker in workers {
        latencies.merge(R::join(worker));
    }
    for messenger in messenger {
        R::join(messenger);
    }
    latencies.finish(meter.stop(&runtime, (count * params.requests) as u64))
}

/// A worker that serves requests.
fn serve<R: ThreadRuntime, C: ThreadChannel>(
    index: usize,
    posts: &C::Sender<usize>,
    mut wakes: C::Receiver<Instant>,
    params: SchbenchRequests,
    gate: Gate<R>,
) -> schbench_requests::Latencies {
    let mut latencies = schbench_requests::Latencies::with_capacity(params.requests);
    let mut matrices = Matrices::new(params.kib);
    gate.pass();
    for _ in 0..params.requests {
        if C::send(posts, index).is_err() {
            break;
        }
        let Some(stamp) = C::recv(&mut wakes) else { break };
        latencies.wakes.add_since(stamp);
        let begin = Instant::now();
        R::sleep(params.sleep());
        matrices.work(params.operations);
        latencies.requests.add_since(begin);
    }
    latencies.check(&matrices);
    latencies
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::threads::{SyncChannel, Threads};
    use crate::workloads::schbench::tests::{TICKS, check_schedule};

    #[test]
    fn a_late_tick_does_not_put_off_the_next_one() {
        let (opener, gate) = gate::<Threads>(1);
        opener.open_each([]);
        let (waker, wakes) = <SyncChannel as ThreadChannel>::bounded(TICKS.rounds);
        tick::<Threads, SyncChannel>(&[waker], TICKS, Ticks::new(TICKS, 0), gate);
        check_schedule(&wakes.try_iter().collect::<Vec<_>>());
    }
}
