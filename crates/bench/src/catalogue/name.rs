//! The workloads of `compare` by name, and the parameters of each row.
//!
//! They are sized so that the fastest runtime takes about 0.3 s on a Zen 4 machine with two CPUs: in less than that,
//! the sentinel's looks, a tick of the kernel's or one slow start decide with. The slowest takes a few seconds, or gets
//! less to do. The two of skynet are shorter, because how many leaves there are is what they ask.

use clap::ValueEnum;

use crate::spec::{Body, Hackbench, Schbench, SchbenchRequests, Serve, Service, Transport, Workload};

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
    /// A thread outside that spawns a task and blocks until it is done.
    BlockOn,
    /// Closures that may block, one after another: of 1 task, of 8, and of 50.
    Blocking,
    /// Messages to all: to 16 tasks, 64 and one at a time, and to 100, 16 at a time.
    Broadcast,
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
    /// Messengers that wake workers: by a tick, 4 and 16 each, and in a closed loop; and requests that sleep and
    /// compute.
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
    /// Pairs of threads that exchange messages beside threads that compute.
    ThreadMixed,
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
            | Self::BlockOn
            | Self::Blocking
            | Self::Broadcast
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
            | Self::ThreadSchbench
            | Self::ThreadMixed => Body::Threads,
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
            Self::BlockOn => vec![Workload::BlockOn { tasks: 120_000 }],
            Self::Blocking => [1, 8, 50].map(blocking).into(),
            Self::Broadcast => [(16, 64), (16, 1), (100, 16)].map(broadcast).into(),
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
            | Self::ThreadMixed
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
            Self::Mixed => vec![mixed(100_000)],
            Self::ThreadMixed => vec![mixed(40_000)],
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
const LOADS: [u32; 10] = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100];

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

fn mixed(round_trips: usize) -> Workload {
    Workload::Mixed {
        pairs: 16,
        round_trips,
        heavy: 4,
        piece_us: 200,
    }
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

/// 120,000 closures.
fn blocking(tasks: usize) -> Workload {
    Workload::Blocking {
        tasks,
        jobs: 120_000 / tasks,
    }
}

/// About 10,000,000 messages received.
fn broadcast((receivers, batch): (usize, usize)) -> Workload {
    Workload::Broadcast {
        receivers,
        messages: 10_000_000 / receivers,
        batch,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_load_curve_has_a_point_every_ten_hundredths() {
        let workloads = WorkloadName::Load.workloads();
        let found = workloads.iter().map(|workload| match workload {
            Workload::Load { percent, .. } => *percent,
            other => panic!("{other:?}"),
        });
        assert_eq!(
            found.collect::<Vec<_>>(),
            (1..=10).map(|tenth| tenth * 10).collect::<Vec<_>>()
        );
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
