//! Which rows a comparison has: the workloads with their parameters.
//!
//! They are sized so that the fastest runtime takes about 0.3 s on a Zen 4 machine with two CPUs: in less than that, the sentinel's looks, a tick of the kernel's
//! or one slow start decide with. The slowest takes a few seconds, or gets less to do (`divisor`). The two of skynet are shorter, because how many
//! leaves there are is what they ask.

use clap::ValueEnum;
use quadrille_topology::Topology;

use crate::spec::{
    Body, ChannelKind, Contender, Family, Hackbench, RuntimeName, Schbench, SchbenchRequests, Serve, Service, Spec,
    Transport, Workload,
};

/// The workloads of `compare`, by the name that is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum WorkloadName {
    /// Messages from everybody to everybody, 1, 4, 10 and 20 groups, with bounds of 655 and 64 messages.
    Hackbench,
    /// Tasks spawned from a task and joined, 1000 a batch.
    SpawnJoin,
    /// 1000 tasks that yield 1000 times.
    Yield,
    /// A number there and back: 1 pair and 1000 pairs.
    PingPong,
    /// Tasks spawned from outside, 1000 a batch and one at a time.
    SpawnRemote,
    /// A tree of tasks with a million leaves.
    Skynet,
    /// Chains of 1000 tasks, each spawned by the one before.
    Chain,
    /// The 25th Fibonacci number, by fork and join.
    Fib,
    /// hackbench over pipes, 1, 4, 10 and 20 groups.
    HackbenchPipe,
    /// hackbench over AF_UNIX sockets, as perf bench sched messaging.
    HackbenchSocket,
    /// A number there and back through two pipes, as perf bench sched pipe.
    Pipe,
    /// By how much sleeps of 1 to 10 ms are late, of 1000 and of 10 tasks.
    Timers,
    /// A timeout that is armed and dropped.
    TimeoutDrop,
    /// Messengers that wake workers: by a tick, 4 and 16 each, and in a closed loop; and requests that sleep and compute.
    Schbench,
    /// Pairs that exchange messages beside tasks that compute.
    Mixed,
    /// Requests that come at 10 to 100 % of what the workers could do.
    Load,
    /// Arrays that no cache holds.
    Stream,
    /// Four tasks on one cache line.
    Numa,
    /// A TCP echo server: 1, 64 and 512 connections, beside a task that spins, and at 30 % load.
    RrTcp,
    /// A UDP echo server: 1 and 64 peers.
    RrUdp,
    /// Requests and answers of a file server, 39 bytes to 64 KiB: 1, 8 and 64 clients.
    Tbench,
    /// An HTTP server: 64 and 256 connections, beside a task that spins, and at 30 % load.
    Http,
    /// A TCP echo server with 10,000 connections that are idle: its memory and its wake-ups.
    Idle,
    /// 1000 threads that yield 1000 times.
    ThreadYield,
    /// Threads spawned from a thread and joined, 1000 a batch.
    ThreadSpawnJoin,
    /// A number there and back between threads: 1 pair and 1000 pairs.
    ThreadPingPong,
    /// hackbench --threads: 10 groups, with bounds of 655 and 64 messages.
    ThreadHackbench,
    /// hackbench --threads over pipes, 1, 4, 10 and 20 groups.
    ThreadHackbenchPipe,
    /// hackbench --threads over AF_UNIX sockets.
    ThreadHackbenchSocket,
    /// A tree of threads with 100,000 leaves.
    ThreadSkynet,
    /// 100,000 threads that sleep: what each costs to create, in memory, and to wake and join.
    ThreadSleepers,
    /// A TCP echo server with a thread a connection: 1, 64 and 512, and at 30 % load.
    ThreadRrTcp,
    /// tbench with a thread a client: 1, 8 and 64.
    ThreadTbench,
    /// schbench with threads.
    ThreadSchbench,
    /// The longest wait beside a task that spins, and in a closed loop.
    Fairness,
}

impl WorkloadName {
    /// What `compare` runs if nothing is named: what most programs do most, in a quarter of an hour.
    pub const DEFAULT: [Self; 5] = [
        Self::Hackbench,
        Self::SpawnJoin,
        Self::Yield,
        Self::PingPong,
        Self::SpawnRemote,
    ];

    /// What its workloads are written with.
    #[must_use]
    pub fn body(self) -> Body {
        match self {
            Self::Hackbench
            | Self::SpawnJoin
            | Self::Yield
            | Self::PingPong
            | Self::SpawnRemote
            | Self::Skynet
            | Self::Chain
            | Self::Fib
            | Self::HackbenchPipe
            | Self::HackbenchSocket
            | Self::Pipe
            | Self::Timers
            | Self::TimeoutDrop
            | Self::Schbench
            | Self::Mixed
            | Self::Load
            | Self::Stream
            | Self::Numa
            | Self::RrTcp
            | Self::RrUdp
            | Self::Tbench
            | Self::Http
            | Self::Idle
            | Self::Fairness => Body::Tasks,
            Self::ThreadYield
            | Self::ThreadSpawnJoin
            | Self::ThreadPingPong
            | Self::ThreadHackbench
            | Self::ThreadHackbenchPipe
            | Self::ThreadHackbenchSocket
            | Self::ThreadSkynet
            | Self::ThreadSleepers
            | Self::ThreadRrTcp
            | Self::ThreadTbench
            | Self::ThreadSchbench => Body::Threads,
        }
    }

    /// Its workloads at full length.
    #[must_use]
    pub fn workloads(self) -> Vec<Workload> {
        match self {
            Self::Hackbench => [655, 64].into_iter().flat_map(hackbench_rows).collect(),
            Self::HackbenchPipe | Self::ThreadHackbenchPipe => hackbench_by_stream(Transport::Pipe),
            Self::HackbenchSocket | Self::ThreadHackbenchSocket => hackbench_by_stream(Transport::Socket),
            Self::ThreadHackbench => [655, 64]
                .into_iter()
                .map(|bound| hackbench_row(10, 5600, bound))
                .collect(),
            Self::SpawnJoin | Self::ThreadSpawnJoin => vec![Workload::SpawnJoin {
                tasks: 4_800_000,
                batch: 1000,
            }],
            Self::Yield | Self::ThreadYield => vec![Workload::Yield {
                tasks: 1000,
                yields: 1000,
                rounds: 30,
            }],
            Self::PingPong | Self::ThreadPingPong => vec![
                Workload::PingPong {
                    pairs: 1,
                    round_trips: 4_000_000,
                },
                Workload::PingPong {
                    pairs: 1000,
                    round_trips: 7200,
                },
            ],
            Self::SpawnRemote => vec![
                Workload::SpawnRemote {
                    tasks: 3_000_000,
                    batch: 1000,
                },
                Workload::SpawnRemote {
                    tasks: 120_000,
                    batch: 1,
                },
            ],
            Self::Skynet => vec![Workload::Skynet { leaves: 1_000_000 }],
            Self::ThreadSkynet => vec![Workload::Skynet { leaves: 100_000 }],
            Self::ThreadSleepers => vec![Workload::Sleepers { threads: 100_000 }],
            Self::Chain => vec![Workload::Chain {
                depth: 1000,
                rounds: 4800,
            }],
            Self::Fib => vec![Workload::Fib { number: 25, rounds: 36 }],
            Self::Pipe => vec![Workload::Pipe { round_trips: 60_000 }],
            Self::Numa => vec![Workload::Numa { turns: 80_000_000 }],
            Self::Stream => vec![Workload::Stream {
                elements: 4_000_000,
                passes: 15,
            }],
            Self::RrTcp
            | Self::RrUdp
            | Self::Http
            | Self::Tbench
            | Self::ThreadTbench
            | Self::ThreadRrTcp
            | Self::Idle => self.served(),
            Self::Timers
            | Self::TimeoutDrop
            | Self::Schbench
            | Self::ThreadSchbench
            | Self::Mixed
            | Self::Load
            | Self::Fairness => self.waits(),
        }
    }

    /// The workloads that are servers.
    fn served(self) -> Vec<Workload> {
        match self {
            Self::RrTcp => servers(Service::TcpEcho, &[1, 64, 512]),
            Self::RrUdp => servers(Service::UdpEcho, &[1, 64]),
            Self::Http => servers(Service::Http, &[64, 256]),
            Self::Tbench | Self::ThreadTbench => [1, 8, 64]
                .map(|clients| server(Service::Tbench, clients, 0, false))
                .to_vec(),
            Self::ThreadRrTcp => [(1, 0), (64, 0), (512, 0), (64, RATE)]
                .map(|(connections, rate)| server(Service::TcpEcho, connections, rate, false))
                .to_vec(),
            Self::Idle => vec![Workload::Idle {
                connections: 10_000,
                millis: 3000,
            }],
            _ => Vec::new(),
        }
    }

    /// The workloads whose figures are waits.
    fn waits(self) -> Vec<Workload> {
        match self {
            Self::Timers => [1000, 10].map(timers).to_vec(),
            Self::TimeoutDrop => vec![Workload::TimeoutDrop { timers: 6_000_000 }],
            Self::Schbench | Self::ThreadSchbench => vec![
                schbench(4, 1000, 1000),
                schbench(16, 1000, 1000),
                schbench(16, 0, 2000),
                Workload::SchbenchRequests(SchbenchRequests {
                    sleep_us: 100,
                    kib: 256,
                    operations: 5,
                    requests: 200,
                }),
            ],
            Self::Mixed => vec![Workload::Mixed {
                pairs: 16,
                round_trips: 100_000,
                heavy: 4,
                piece_us: 200,
            }],
            Self::Load => LOADS
                .map(|percent| Workload::Load {
                    percent,
                    work_us: 200,
                    millis: 2000,
                })
                .to_vec(),
            Self::Fairness => vec![
                Workload::Spin {
                    spin_us: 50_000,
                    woken: 16,
                    yielders: 0,
                },
                Workload::Spin {
                    spin_us: 50_000,
                    woken: 16,
                    yielders: 16,
                },
                Workload::Closed {
                    tasks: 16,
                    work_us: 20,
                    turns: 3000,
                    via_channel: false,
                },
                Workload::Closed {
                    tasks: 16,
                    work_us: 20,
                    turns: 3000,
                    via_channel: true,
                },
            ],
            _ => Vec::new(),
        }
    }
}

/// The points of the load curve, in hundredths.
const LOADS: [u32; 8] = [10, 30, 50, 60, 70, 80, 90, 100];

/// Requests a second in the rows with an open loop: about 30 % of what two workers of tokio answered in a closed one.
const RATE: u32 = 30_000;

/// A closed loop for each number of connections; beside a spinner, and open loops without and with one, for 64.
fn servers(service: Service, connections: &[usize]) -> Vec<Workload> {
    let row = |connections, rate, spinner| server(service, connections, rate, spinner);
    let closed = connections.iter().map(|&connections| row(connections, 0, false));
    let others = [row(64, 0, true), row(64, RATE, false), row(64, RATE, true)];
    closed.chain(others).collect()
}

fn server(service: Service, connections: usize, rate: u32, spinner: bool) -> Workload {
    Workload::Serve(Serve {
        service,
        connections,
        size: 64,
        rate,
        spinner,
        millis: 1000,
    })
}

fn timers(tasks: usize) -> Workload {
    Workload::Timers {
        tasks,
        sleeps: 100,
        from_us: 1000,
        to_us: 10_000,
    }
}

fn schbench(workers: usize, tick_us: u64, rounds: usize) -> Workload {
    Workload::Schbench(Schbench {
        messengers: 2,
        workers,
        work_us: 20,
        tick_us,
        rounds,
    })
}

/// hackbench over what the kernel carries.
fn hackbench_by_stream(transport: Transport) -> Vec<Workload> {
    [(1, 2000), (4, 500), (10, 200), (20, 100)]
        .into_iter()
        .map(|(groups, loops)| match hackbench_row(groups, loops, 655) {
            Workload::Hackbench(h) => Workload::Hackbench(Hackbench { transport, ..h }),
            other => other,
        })
        .collect()
}

/// The most elements of an array of `stream`: three of them for each worker are 1.5 GiB.
const ELEMENTS_MAX: usize = 64 << 20;

/// `stream` with arrays that the caches of `machine` do not hold: those that `workers` workers go through together are four times as large as what they
/// have of last-level caches, as STREAM's rules want, as far as the memory of a machine with such caches goes. Longer ones are gone through less often.
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

/// Who is compared unless told otherwise: everybody who has something to say, and tokio with mimalloc where the allocator is half
/// of the result.
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

fn hackbench_rows(capacity: usize) -> impl Iterator<Item = Workload> {
    [(1, 24_000), (4, 14_000), (10, 5600), (20, 2800)]
        .into_iter()
        .map(move |(groups, loops)| hackbench_row(groups, loops, capacity))
}

fn hackbench_row(groups: usize, loops: usize, capacity: usize) -> Workload {
    Workload::Hackbench(Hackbench {
        groups,
        fds: 20,
        loops,
        size: 100,
        capacity,
        transport: Transport::Channel,
    })
}

/// How many times less a runtime gets to do: it is so much slower, roughly, or cannot have so many threads.
///
/// A coroutine of may needs two mappings, its stack and the guard page, and Linux allows 65,530 in a process
/// (vm.max_map_count); with more it aborts. Operating-system threads end at 32,768 (kernel.pid_max), and much earlier in a
/// container.
fn divisor(runtime: RuntimeName, workload: &Workload) -> usize {
    match (runtime.family(), workload) {
        (Family::Threads, Workload::Hackbench(h)) if h.transport == Transport::Channel => 16,
        (Family::Threads, Workload::Hackbench(_)) => 2,
        (Family::Threads, Workload::SpawnRemote { batch: 1, .. }) => 20,
        (Family::Threads, Workload::SpawnJoin { .. } | Workload::SpawnRemote { .. } | Workload::Chain { .. }) => 240,
        (Family::Threads, Workload::Fib { .. }) => 40,
        (Family::Threads, Workload::Yield { .. }) => 60,
        (Family::Threads, Workload::PingPong { .. }) => 100,
        (Family::Threads, Workload::Mixed { .. }) => 10,
        (Family::Threads, Workload::Skynet { .. }) => 100,
        (Family::Threads, Workload::Sleepers { .. }) => 50,
        (Family::Threads, Workload::Idle { .. }) => 5,
        // A round trip of half of its pairs takes 0.6 ms: they wait for the tasks that compute.
        (Family::Smol, Workload::Mixed { .. }) => 20,
        // A yield puts the goroutine into the queue of all, behind its lock.
        (Family::Go, Workload::Yield { .. }) => 3,
        (Family::May, Workload::SpawnJoin { .. }) => 4,
        (Family::May, Workload::Skynet { .. }) => 10,
        (Family::May, Workload::Sleepers { .. }) => 5,
        _ => 1,
    }
}

/// The channels that `runtime` gets rows for: the shared one, and its own if that is another. Threads use their runtime's
/// own.
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

/// How many times less a first look has to do: where time passes, enough for a few hundred waits; where operations are counted, as few as are still many.
fn quick_divisor(workload: &Workload) -> usize {
    match workload {
        // The length of a spin is the question that it asks, so it stays.
        Workload::Spin { .. } => 1,
        Workload::Hackbench(h) if h.transport == Transport::Channel => 24,
        Workload::SpawnJoin { .. }
        | Workload::SpawnRemote { .. }
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

/// The rows of one workload, in the order of `runtimes`; `quick` runs a sixth of the work, or less.
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
    fn hackbench_has_both_bounds() {
        let workloads = WorkloadName::Hackbench.workloads();
        let found: Vec<_> = workloads
            .iter()
            .map(|workload| match workload {
                Workload::Hackbench(h) => (h.groups, h.capacity, h.fds, h.size),
                other => panic!("{other:?}"),
            })
            .collect();
        let expected: Vec<_> = [655, 64]
            .into_iter()
            .flat_map(|bound| [1, 4, 10, 20].map(|groups| (groups, bound, 20, 100)))
            .collect();
        assert_eq!(found, expected);
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

    #[test]
    fn a_name_says_what_its_rows_are_called() {
        for name in WorkloadName::value_variants() {
            let typed = name.to_possible_value().unwrap();
            for workload in name.workloads() {
                let row = workload.name(name.body());
                assert!(row.starts_with(typed.get_name()), "{row} of {}", typed.get_name());
            }
        }
    }
}
