//! Runs one description in this process: starts the runtime, warms it up, measures.
//!
//! This is where names become types. Everything below is generic, everything above is data.

use std::marker::PhantomData;
use std::time::Duration;

use crate::adapters::async_channel::AsyncChannel;
use crate::adapters::quadrille::{Mpmc, Quadrille};
use crate::adapters::smol::Smol;
use crate::adapters::threads::{SyncChannel, Threads};
use crate::adapters::tokio::{Tokio, TokioMpsc};
use crate::adapters::{Channel, Streams};
use crate::outcome::{Measured, Outcome, Stop};
use crate::run_threads;
use crate::sizes::{BySize, by_size};
use crate::spec::{Body, ChannelKind, Family, Hackbench, Spec, Transport, Workload};
use crate::workloads::wire::{ChannelWire, StreamWire};
use crate::workloads::{fairness, hackbench, ping_pong, skynet, spawn_join, spawn_remote, yields};

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
    match spec.runtime.family() {
        Family::Tokio => on::<_, TokioMpsc>(Tokio::start(spec.workers)?, spec),
        Family::Smol if uses_streams(spec) => on::<_, AsyncChannel>(Smol::start_with_reactor(spec.workers)?, spec),
        Family::Smol => on::<_, AsyncChannel>(Smol::start(spec.workers)?, spec),
        Family::Threads => on::<_, SyncChannel>(Threads, spec),
        Family::Quadrille => on::<_, Mpmc>(Quadrille::start(spec.workers, spec.runtime)?, spec),
        Family::May => Err(Stop::unsupported("may has coroutines only, no tasks")),
        Family::Go => Err(Stop::failed("the Go program has a process of its own")),
    }
}

fn uses_streams(spec: &Spec) -> bool {
    matches!(spec.workload, Workload::Hackbench(h) if h.transport != Transport::Channel)
}

fn on<R: Streams, Own: Channel>(runtime: R, spec: &Spec) -> Result<Measured, Stop> {
    match spec.channel {
        ChannelKind::None | ChannelKind::Shared => warm_and_measure::<R, AsyncChannel>(runtime, spec),
        ChannelKind::Own => warm_and_measure::<R, Own>(runtime, spec),
    }
}

fn warm_and_measure<R: Streams, C: Channel>(runtime: R, spec: &Spec) -> Result<Measured, Stop> {
    if let Some(warm_up) = spec.workload.warm_up() {
        workload::<R, C>(runtime, warm_up, false)?;
    }
    workload::<R, C>(runtime, spec.workload, spec.progress)
}

fn workload<R: Streams, C: Channel>(runtime: R, workload: Workload, progress: bool) -> Result<Measured, Stop> {
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
        Workload::Yield { tasks, yields, rounds } => runtime.run(yields::run(runtime, tasks, yields, rounds)),
        Workload::PingPong { pairs, round_trips } => runtime.run(ping_pong::run::<R, C>(runtime, pairs, round_trips)),
        Workload::Skynet { leaves } => runtime.run(skynet::run(runtime, leaves)),
        Workload::Sleepers { .. } => Err(Stop::failed("this workload is about threads; it has no tasks")),
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
