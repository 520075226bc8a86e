//! Which rows a comparison has: who runs each workload, over which channels, and how much of it.

mod name;

use quadrille_topology::Topology;

pub use self::name::WorkloadName;
use crate::spec::{Body, ChannelKind, Contender, Family, RuntimeName, Spec, Transport, Workload};

/// The most elements of an array of `stream`: three of them for each worker are 1.5 GiB.
const ELEMENTS_MAX: usize = 64 << 20;

/// `stream` with arrays that the caches of `machine` do not hold: those that `workers` workers go through together are
/// four times as large as what they have of last-level caches, as STREAM's rules want, as far as the memory of a
/// machine with such caches goes. Longer ones are gone through less often.
#[must_use]
pub fn beyond_caches(workload: Workload, workers: usize, machine: &Topology) -> Workload {
    let Workload::Stream { elements, passes } = workload else {
        return workload;
    };
    let largest = machine
        .llcs()
        .iter()
        .filter_map(|llc| llc.size_bytes)
        .max()
        .unwrap_or(0);
    let bytes = 4 * largest * workers.min(machine.llcs().len()) as u64 / workers as u64;
    let needed = usize::try_from(bytes).unwrap_or(usize::MAX) / size_of::<f64>();
    let longer = needed.min(ELEMENTS_MAX).max(elements);
    Workload::Stream {
        elements: longer,
        passes: (passes * elements / longer).max(1),
    }
}

/// Who is compared unless told otherwise: everybody who has something to say, and tokio with mimalloc where the
/// allocator is half of the result.
#[must_use]
pub fn runtimes(workload: &Workload, body: Body) -> Vec<RuntimeName> {
    let mut runtimes = Vec::new();
    for &runtime in body.runtimes() {
        if runtime == RuntimeName::None && !workload.has_floor() {
            continue;
        }
        runtimes.push(runtime);
        if runtime == RuntimeName::Tokio && workload.allocates() {
            runtimes.push(RuntimeName::TokioMimalloc);
        }
    }
    if let Workload::Hackbench(h) = workload
        && h.transport != Transport::Channel
    {
        runtimes.push(RuntimeName::Hackbench);
    }
    runtimes
}

/// How many times less a runtime gets to do: it is so much slower, roughly, or cannot have so many threads.
///
/// A coroutine of may needs two mappings, its stack and the guard page, and Linux allows 65,530 in a process
/// (vm.max_map_count); with more it aborts. Operating-system threads end at 32,768 (kernel.pid_max), and much earlier
/// in a container.
fn divisor(runtime: RuntimeName, workload: &Workload) -> usize {
    match (runtime.family(), workload) {
        (Family::Threads, Workload::Hackbench(h)) if h.transport == Transport::Channel => 16,
        (Family::Threads, Workload::Hackbench(_)) => 2,
        (Family::Threads, Workload::SpawnRemote { batch: 1, .. } | Workload::BlockOn { .. }) => 20,
        (Family::Threads, Workload::SpawnJoin { .. } | Workload::SpawnRemote { .. } | Workload::Chain { .. }) => 240,
        (Family::Threads, Workload::Fib { .. }) => 40,
        (Family::Threads, Workload::Yield { .. }) => 60,
        (Family::Threads, Workload::PingPong { .. }) => 100,
        (Family::Threads, Workload::Broadcast { .. } | Workload::Mixed { .. }) => 10,
        (Family::Threads, Workload::Skynet { .. }) => 100,
        (Family::Threads, Workload::Sleepers { .. }) => 50,
        (Family::Threads, Workload::Idle { .. }) => 5,
        // A round trip of half of its pairs takes 0.6 ms: they wait for the tasks that compute.
        (Family::Smol, Workload::Mixed { .. }) => 20,
        // A yield puts the goroutine into the queue of all, behind its lock.
        (Family::Go, Workload::Yield { .. }) => 3,
        (Family::May, Workload::SpawnJoin { .. }) => 4,
        (Family::May, Workload::Skynet { .. } | Workload::Mixed { .. }) => 10,
        (Family::May, Workload::Sleepers { .. }) => 5,
        _ => 1,
    }
}

/// The channels that `runtime` gets rows for: the shared one, and its own if that is another. Threads use their
/// runtime's own.
#[must_use]
pub fn channels(workload: &Workload, body: Body, runtime: RuntimeName) -> Vec<ChannelKind> {
    if !workload.has_channel() {
        return vec![ChannelKind::None];
    }
    match (body, runtime.family()) {
        (Body::Threads, _) | (_, Family::Go | Family::Threads | Family::May | Family::Hackbench | Family::None) => {
            vec![ChannelKind::Own]
        }
        (Body::Tasks, Family::Quadrille | Family::Tokio) => vec![ChannelKind::Shared, ChannelKind::Own],
        (Body::Tasks, Family::Smol) => vec![ChannelKind::Shared],
    }
}

/// How many times less a first look has to do: where time passes, enough for a few hundred waits; where operations are
/// counted, as few as are still many.
fn quick_divisor(workload: &Workload) -> usize {
    match workload {
        // The length of a spin is the question that it asks, so it stays.
        Workload::Spin { .. } => 1,
        Workload::Hackbench(h) if h.transport == Transport::Channel => 24,
        Workload::SpawnJoin { .. }
        | Workload::SpawnRemote { .. }
        | Workload::BlockOn { .. }
        | Workload::Blocking { .. }
        | Workload::Broadcast { .. }
        | Workload::Yield { .. }
        | Workload::PingPong { .. }
        | Workload::Chain { .. }
        | Workload::Fib { .. }
        | Workload::TimeoutDrop { .. }
        | Workload::Mixed { .. }
        | Workload::Numa { .. } => 36,
        _ => 6,
    }
}

/// The rows of one workload, in the order of `runtimes`; `quick` runs about a sixth of the work, or less, but the whole
/// of a spin, and at least one of each operation.
#[must_use]
pub fn rows(workload: Workload, body: Body, runtimes: &[Contender], workers: usize, quick: bool) -> Vec<Spec> {
    let mut rows = Vec::new();
    for runtime in runtimes {
        let mut divisor = divisor(runtime.name, &workload);
        if quick {
            divisor *= quick_divisor(&workload);
        }
        for channel in channels(&workload, body, runtime.name) {
            rows.push(Spec {
                workload: workload.shortened(divisor),
                body,
                runtime: runtime.clone(),
                channel,
                workers: runtime.name.workers(workers),
                progress: false,
            });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contenders(names: &[RuntimeName]) -> Vec<Contender> {
        names.iter().copied().map(Contender::new).collect()
    }

    #[test]
    fn a_floor_and_a_second_base_stand_where_they_say_something() {
        let named = |name: WorkloadName| runtimes(&name.workloads()[0], name.body());
        let has = |name, runtime| named(name).contains(&runtime);
        assert!(has(WorkloadName::SpawnJoin, RuntimeName::TokioMimalloc));
        assert!(has(WorkloadName::SpawnJoin, RuntimeName::None));
        assert!(has(WorkloadName::PingPong, RuntimeName::TokioMimalloc));
        assert!(has(WorkloadName::Http, RuntimeName::TokioMimalloc));
        assert!(!has(WorkloadName::Http, RuntimeName::None));
        assert!(!has(WorkloadName::RrTcp, RuntimeName::TokioMimalloc));
        assert!(!has(WorkloadName::Timers, RuntimeName::TokioMimalloc));
        assert!(has(WorkloadName::Timers, RuntimeName::None));
        assert!(has(WorkloadName::HackbenchPipe, RuntimeName::Hackbench));
        assert!(has(WorkloadName::ThreadHackbenchSocket, RuntimeName::Hackbench));
        assert!(!has(WorkloadName::Hackbench, RuntimeName::Hackbench));
        assert_eq!(named(WorkloadName::ThreadYield), Body::Threads.runtimes());
    }

    #[test]
    fn each_rust_runtime_has_the_shared_channel_and_its_own() {
        let workload = WorkloadName::PingPong.workloads()[0];
        let runtimes = [
            RuntimeName::Quadrille,
            RuntimeName::Tokio1w,
            RuntimeName::Smol,
            RuntimeName::Go,
        ];
        let rows = rows(workload, Body::Tasks, &contenders(&runtimes), 2, false);
        let found: Vec<_> = rows
            .iter()
            .map(|row| (row.runtime.name.name(), row.channel, row.workers))
            .collect();
        assert_eq!(
            found,
            [
                ("quadrille", ChannelKind::Shared, 2),
                ("quadrille", ChannelKind::Own, 2),
                ("tokio-1w", ChannelKind::Shared, 1),
                ("tokio-1w", ChannelKind::Own, 1),
                ("smol", ChannelKind::Shared, 2),
                ("go", ChannelKind::Own, 2),
            ]
        );
    }

    #[test]
    fn threads_and_quick_runs_do_less() {
        let workload = WorkloadName::SpawnJoin.workloads()[0];
        let tasks = |runtime, quick| match rows(workload, Body::Tasks, &contenders(&[runtime]), 2, quick)[0].workload {
            Workload::SpawnJoin { tasks, .. } => tasks,
            other => panic!("{other:?}"),
        };
        assert_eq!(tasks(RuntimeName::Tokio, false), 4_800_000);
        assert_eq!(tasks(RuntimeName::Threads, false), 20_000);
        assert_eq!(tasks(RuntimeName::Tokio, true), 133_333);
    }

    #[test]
    fn arrays_of_stream_grow_with_the_caches() {
        let stream = |workers, machine: &str| {
            let workload = WorkloadName::Stream.workloads()[0];
            match beyond_caches(workload, workers, &machine.parse().unwrap()) {
                Workload::Stream { elements, passes } => (elements, passes),
                other => panic!("{other:?}"),
            }
        };
        let mib = |count: usize| count << 17;
        assert_eq!(stream(2, "core:2"), (4_000_000, 15), "of unknown size");
        assert_eq!(stream(16, "core:16 llc-size:33554432"), (4_000_000, 15));
        assert_eq!(stream(2, "core:2 llc-size:33554432"), (mib(64), 7));
        assert_eq!(stream(4, "llc:2 core:2 llc-size:33554432"), (mib(64), 7));
        assert_eq!(stream(1, "llc:2 core:2 llc-size:33554432"), (mib(128), 3));
        assert_eq!(stream(1, "core:1 llc-size:536870912"), (ELEMENTS_MAX, 1));
    }

    #[test]
    fn threads_use_the_channel_of_their_runtime() {
        let workload = WorkloadName::ThreadPingPong.workloads()[0];
        let rows = rows(workload, Body::Threads, &contenders(Body::Threads.runtimes()), 2, false);
        let found: Vec<_> = rows
            .iter()
            .map(|row| (row.runtime.name.name(), row.channel.name(row.runtime.name.family())))
            .collect();
        assert_eq!(
            found,
            [
                ("quadrille", "quadrille::sync::mpmc"),
                ("go", "chan"),
                ("may", "may::sync::mpsc"),
                ("threads", "std::sync::mpsc"),
            ]
        );
    }

    #[test]
    fn who_cannot_have_so_many_threads_gets_fewer() {
        let workload = WorkloadName::ThreadSleepers.workloads()[0];
        let rows = rows(workload, Body::Threads, &contenders(Body::Threads.runtimes()), 2, false);
        let found: Vec<_> = rows.iter().map(|row| row.workload.scale().unwrap().0).collect();
        assert_eq!(found, [100_000, 100_000, 20_000, 2000]);
    }
}
