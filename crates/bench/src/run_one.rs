//! Runs one description in this process: starts the runtime, warms it up, measures.
//!
//! This is where names become types. Everything below is generic, everything above is data.

use std::marker::PhantomData;
use std::time::Duration;

use crate::adapters::async_channel::AsyncChannel;
use crate::adapters::broadcast::Broadcast;
use crate::adapters::program;
use crate::adapters::quadrille::{Mpmc, Quadrille};
use crate::adapters::servers::Servers;
use crate::adapters::{Channel, Streams};
use crate::outcome::{Measured, Outcome, Stop};
use crate::run_peers;
use crate::run_threads;
use crate::sizes::{BySize, by_size};
use crate::spec::{Body, ChannelKind, Family, Hackbench, Spec, Transport, Workload};
use crate::workloads::wire::{ChannelWire, StreamWire};
use crate::workloads::{
    bare, block_on, blocking, broadcast, chain, fairness, fib, hackbench, idle, load, mixed, numa, ping_pong, pipe,
    schbench, schbench_requests, serve, skynet, spawn_join, spawn_remote, stream, timers, yields,
};

/// Runs `spec` in this process.
#[must_use]
pub fn run(spec: &Spec) -> Outcome {
    match spec.body {
        Body::Tasks => run_family(spec),
        Body::Threads => run_threads::run(spec),
    }
    .into()
}

fn run_family(spec: &Spec) -> Result<Measured, Stop> {
    match spec.runtime.name.family() {
        Family::Tokio | Family::Smol | Family::Threads => run_peers::tasks(spec),
        Family::None => bare::run(spec.workload),
        Family::Quadrille => on::<_, Mpmc>(Quadrille::start(spec.workers, &spec.runtime)?, spec),
        Family::May => Err(Stop::unsupported("may has coroutines only, no tasks")),
        Family::Hackbench => program::run(spec),
        Family::Go => Err(Stop::failed("the Go program has a process of its own")),
    }
}

/// Runs it on a runtime that has started, over the channel that it names.
///
/// # Errors
/// Why there are no figures.
pub(crate) fn on<R: Streams + Servers + Broadcast, Own: Channel>(runtime: R, spec: &Spec) -> Result<Measured, Stop> {
    match spec.channel {
        ChannelKind::None | ChannelKind::Shared => warm_and_measure::<R, AsyncChannel>(runtime, spec),
        ChannelKind::Own => warm_and_measure::<R, Own>(runtime, spec),
    }
}

fn warm_and_measure<R: Streams + Servers + Broadcast, C: Channel>(runtime: R, spec: &Spec) -> Result<Measured, Stop> {
    if let Some(warm_up) = spec.workload.warm_up() {
        workload::<R, C>(runtime, warm_up, spec.workers, false)?;
    }
    workload::<R, C>(runtime, spec.workload, spec.workers, spec.progress)
}

fn workload<R: Streams + Servers + Broadcast, C: Channel>(
    runtime: R,
    workload: Workload,
    workers: usize,
    progress: bool,
) -> Result<Measured, Stop> {
    match workload {
        Workload::Hackbench(params) if params.transport == Transport::Channel => {
            hackbench_by_channel::<R, C>(runtime, params, progress)
        }
        Workload::Hackbench(params) => runtime.run(hackbench::run(
            runtime,
            StreamWire::new(runtime, params),
            params,
            progress,
        )),
        Workload::SpawnJoin { tasks, batch } => runtime.run(spawn_join::run(runtime, tasks, batch)),
        Workload::SpawnRemote { tasks, batch } => spawn_remote::run(runtime, tasks, batch),
        Workload::BlockOn { tasks } => block_on::run(runtime, tasks),
        Workload::Blocking { tasks, jobs } => runtime.run(blocking::run(runtime, tasks, jobs)),
        Workload::Broadcast {
            receivers,
            messages,
            batch,
        } => runtime.run(broadcast::run(runtime, receivers, messages, batch)),
        Workload::Yield { tasks, yields, rounds } => runtime.run(yields::run(runtime, workers, tasks, yields, rounds)),
        Workload::PingPong { pairs, round_trips } => runtime.run(ping_pong::run::<R, C>(runtime, pairs, round_trips)),
        Workload::Skynet { leaves } => runtime.run(skynet::run(runtime, leaves)),
        Workload::Chain { depth, rounds } => runtime.run(chain::run(runtime, depth, rounds)),
        Workload::Fib { number, rounds } => runtime.run(fib::run(runtime, number, rounds)),
        Workload::Pipe { round_trips } => runtime.run(pipe::run(runtime, round_trips)),
        Workload::Stream { elements, passes } => runtime.run(stream::run(runtime, workers, elements, passes)),
        Workload::Numa { turns } => runtime.run(numa::run(runtime, turns)),
        other => waiting::<R, C>(runtime, other, workers),
    }
}

/// The workloads whose figures are waits.
fn waiting<R: Servers, C: Channel>(runtime: R, workload: Workload, workers: usize) -> Result<Measured, Stop> {
    match workload {
        Workload::Timers {
            tasks,
            sleeps,
            from_us,
            to_us,
        } => runtime.run(timers::run(runtime, tasks, sleeps, (from_us, to_us))),
        Workload::TimeoutDrop { timers } => runtime.run(timers::arm_and_drop(runtime, timers)),
        Workload::Schbench(params) => runtime.run(schbench::run::<R, C>(runtime, params)),
        Workload::SchbenchRequests(params) => runtime.run(schbench_requests::run::<R, C>(runtime, workers, params)),
        Workload::Mixed {
            pairs,
            round_trips,
            heavy,
            piece_us,
        } => {
            let piece = Duration::from_micros(piece_us);
            runtime.run(mixed::run::<R, C>(runtime, (pairs, round_trips), (heavy, piece)))
        }
        Workload::Load {
            percent,
            work_us,
            millis,
        } => {
            let times = (Duration::from_micros(work_us), Duration::from_millis(millis));
            load::run(runtime, workers, percent, times)
        }
        Workload::Spin {
            spin_us,
            woken,
            yielders,
        } => {
            let duration = Duration::from_micros(spin_us);
            runtime.run(fairness::spin::<R, C>(runtime, duration, woken, yielders))
        }
        Workload::Closed {
            tasks,
            work_us,
            turns,
            via_channel: false,
        } => {
            let work = Duration::from_micros(work_us);
            runtime.run(fairness::closed_by_yield(runtime, tasks, work, turns))
        }
        Workload::Closed {
            tasks,
            work_us,
            turns,
            via_channel: true,
        } => {
            let work = Duration::from_micros(work_us);
            runtime.run(fairness::closed_by_channel::<R, C>(runtime, tasks, work, turns))
        }
        other => server(runtime, other, workers),
    }
}

/// The workloads that are servers, with clients in another process.
fn server<R: Servers>(runtime: R, workload: Workload, workers: usize) -> Result<Measured, Stop> {
    match workload {
        Workload::Serve(params) => serve::run(runtime, workers, params),
        Workload::Idle { connections, millis } => idle::run(runtime, workers, connections, millis),
        _ => Err(Stop::failed("this workload is about threads; it has no tasks")),
    }
}

fn hackbench_by_channel<R: Streams, C: Channel>(
    runtime: R,
    params: Hackbench,
    progress: bool,
) -> Result<Measured, Stop> {
    let run = ByChannel::<R, C> {
        runtime,
        params,
        progress,
        channel: PhantomData,
    };
    by_size(params.size, run)
}

/// hackbench over channels, but for the size of its messages.
struct ByChannel<R, C> {
    runtime: R,
    params: Hackbench,
    progress: bool,
    channel: PhantomData<fn() -> C>,
}

impl<R: Streams, C: Channel> BySize for ByChannel<R, C> {
    fn run<const SIZE: usize>(self) -> Result<Measured, Stop> {
        let wire = ChannelWire::<C, SIZE>::new(self.params.capacity);
        self.runtime
            .run(hackbench::run(self.runtime, wire, self.params, self.progress))
    }
}
