//! Runs a description whose body is threads: what [`run_one`](crate::run_one) is for tasks.

use std::marker::PhantomData;
use std::time::Duration;

use crate::adapters::blocking::{ThreadChannel, ThreadStreams};
use crate::adapters::program;
use crate::adapters::quadrille::{Mpmc, Quadrille};
use crate::adapters::servers::blocking::ThreadServers;
use crate::outcome::{Measured, Stop};
use crate::run_peers;
use crate::sizes::{BySize, by_size};
use crate::spec::{Family, Hackbench, Spec, Transport, Workload};
use crate::workloads::threads::{hackbench, mixed, ping_pong, schbench, serve, skynet, sleepers, spawn_join, yields};
use crate::workloads::wire::{ChannelWire, StreamWire};

/// Runs `spec`, whose body is threads, in this process.
///
/// # Errors
/// Why there are no figures.
pub fn run(spec: &Spec) -> Result<Measured, Stop> {
    match spec.runtime.name.family() {
        Family::Quadrille => on::<_, Mpmc>(Quadrille::start(spec.workers, &spec.runtime)?, spec),
        Family::May | Family::Threads => run_peers::threads(spec),
        Family::Tokio | Family::Smol => Err(Stop::unsupported(format!(
            "{} has tasks only, no user-level threads",
            spec.runtime
        ))),
        Family::None => Err(Stop::unsupported(
            "what is done without a runtime is the same for tasks and threads",
        )),
        Family::Hackbench => program::run(spec),
        Family::Go => Err(Stop::failed("the Go program has a process of its own")),
    }
}

/// Runs it on a runtime that has started.
///
/// # Errors
/// Why there are no figures.
pub(crate) fn on<R: ThreadStreams + ThreadServers, C: ThreadChannel>(
    runtime: R,
    spec: &Spec,
) -> Result<Measured, Stop> {
    if let Some(warm_up) = spec.workload.warm_up() {
        workload::<R, C>(runtime, warm_up, spec.workers, false)?;
    }
    workload::<R, C>(runtime, spec.workload, spec.workers, spec.progress)
}

fn workload<R: ThreadStreams + ThreadServers, C: ThreadChannel>(
    runtime: R,
    workload: Workload,
    workers: usize,
    progress: bool,
) -> Result<Measured, Stop> {
    match workload {
        Workload::Hackbench(params) if params.transport == Transport::Channel => {
            hackbench_by_channel::<R, C>(runtime, params, progress)
        }
        Workload::Hackbench(params) => {
            let wire = StreamWire::new(runtime, params);
            runtime.run(move || hackbench::run(runtime, &wire, params, progress))
        }
        Workload::SpawnJoin { tasks, batch } => runtime.run(move || spawn_join::run(runtime, tasks, batch)),
        Workload::Yield { tasks, yields, rounds } => {
            runtime.run(move || yields::run(runtime, workers, tasks, yields, rounds))
        }
        Workload::PingPong { pairs, round_trips } => {
            runtime.run(move || ping_pong::run::<R, C>(runtime, pairs, round_trips))
        }
        Workload::Skynet { leaves } => runtime.run(move || skynet::run(runtime, leaves)),
        Workload::Sleepers { threads } => runtime.run(move || sleepers::run(runtime, threads)),
        Workload::Schbench(params) => runtime.run(move || schbench::run::<R, C>(runtime, params)),
        Workload::SchbenchRequests(params) => runtime.run(move || schbench::requests::<R, C>(runtime, workers, params)),
        Workload::Mixed {
            pairs,
            round_trips,
            heavy,
            piece_us,
        } => {
            let heavy = (heavy, Duration::from_micros(piece_us));
            runtime.run(move || mixed::run::<R, C>(runtime, (pairs, round_trips), heavy))
        }
        Workload::Serve(params) => serve::run(runtime, params),
        _ => Err(Stop::failed("this workload is about tasks; it has no threads")),
    }
}

fn hackbench_by_channel<R: ThreadStreams, C: ThreadChannel>(
    runtime: R,
    params: Hackbench,
    progress: bool,
) -> Result<Measured, Stop> {
    if !C::IS_BOUNDED {
        return Err(Stop::unsupported(
            "its channels have no bound: no sender would ever wait",
        ));
    }
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

impl<R: ThreadStreams, C: ThreadChannel> BySize for ByChannel<R, C> {
    fn run<const SIZE: usize>(self) -> Result<Measured, Stop> {
        let Self {
            runtime,
            params,
            progress,
            ..
        } = self;
        let wire = ChannelWire::<C, SIZE>::new(params.capacity);
        runtime.run(move || hackbench::run(runtime, &wire, params, progress))
    }
}
