//! What is done: a workload with its parameters.

use serde::{Deserialize, Serialize};

use super::{Body, Serve};

/// How much of the work is done once before the measurement: one part in this many.
const WARM_UP_DIVISOR: usize = 8;

/// What hackbench sends its messages through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// A bounded channel in this process.
    Channel,
    /// A pipe.
    Pipe,
    /// A pair of connected AF_UNIX stream sockets.
    Socket,
}

/// The parameters of hackbench; names and meaning follow the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hackbench {
    /// Groups; they do not talk to each other.
    pub groups: usize,
    /// Senders, and receivers, a group.
    pub fds: usize,
    /// Messages each sender sends to each receiver of its group.
    pub loops: usize,
    /// Bytes a message.
    pub size: usize,
    /// Messages a channel holds; pipes and sockets have the bound of the kernel instead.
    pub capacity: usize,
    /// What carries the messages.
    pub transport: Transport,
}

impl Hackbench {
    /// Messages one receiver gets.
    #[must_use]
    pub fn messages_per_receiver(&self) -> u64 {
        (self.fds * self.loops) as u64
    }

    /// Messages of the whole run.
    #[must_use]
    pub fn messages(&self) -> u64 {
        (self.groups * self.fds) as u64 * self.messages_per_receiver()
    }
}

/// A workload and its parameters. Where it says tasks, its body says whether they are tasks or threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Workload {
    /// Groups of senders and receivers, everybody to everybody; an operation is a message.
    Hackbench(Hackbench),
    /// Trivial tasks spawned from inside a task and joined, `batch` at a time; an operation is a task.
    SpawnJoin {
        /// Tasks in all.
        tasks: usize,
        /// Tasks spawned before the first of them is joined.
        batch: usize,
    },
    /// Trivial tasks spawned from a thread that is no worker, which waits for each batch; an operation is a task.
    SpawnRemote {
        /// Tasks in all.
        tasks: usize,
        /// Tasks spawned before the thread waits; the last of them unparks it.
        batch: usize,
    },
    /// Tasks that yield in turn; an operation is a yield.
    Yield {
        /// Tasks.
        tasks: usize,
        /// Yields a task and round.
        yields: usize,
        /// How often the whole is done.
        rounds: usize,
    },
    /// Pairs of tasks that pass a number there and back through two channels of capacity 1; an operation is a round trip.
    PingPong {
        /// Pairs.
        pairs: usize,
        /// Round trips a pair.
        round_trips: usize,
    },
    /// A tree of tasks: each but a leaf spawns ten and adds up their results; an operation is a task.
    Skynet {
        /// Leaves, a power of ten.
        leaves: usize,
    },
    /// Threads that are made, park, are all woken and joined; an operation is a thread.
    Sleepers {
        /// Threads.
        threads: usize,
    },
    /// One task wakes others and then spins without yielding; the result is the longest wait of any other task.
    Spin {
        /// How long the task spins, in microseconds.
        spin_us: u64,
        /// Tasks that it wakes right before it spins.
        woken: usize,
        /// Tasks that yield all the time.
        yielders: usize,
    },
    /// A closed loop of tasks that work and queue again; the result is the longest wait.
    Closed {
        /// Tasks.
        tasks: usize,
        /// Work before a task queues again, in microseconds.
        work_us: u64,
        /// Turns a task.
        turns: usize,
        /// Queue through a messenger and channels instead of a yield.
        via_channel: bool,
    },
    /// Tasks of which each spawns the next and ends; an operation is a task.
    Chain {
        /// Tasks in a chain.
        depth: usize,
        /// Chains, one after the other.
        rounds: usize,
    },
    /// Fibonacci numbers by fork and join; an operation is a task.
    Fib {
        /// Which number.
        number: usize,
        /// How often.
        rounds: usize,
    },
    /// Tasks that sleep random times; the results are by how much they oversleep.
    Timers {
        /// Tasks.
        tasks: usize,
        /// Sleeps a task.
        sleeps: usize,
        /// The shortest sleep, in microseconds.
        from_us: u64,
        /// The longest.
        to_us: u64,
    },
    /// A timer of ten seconds that is armed and dropped; an operation is a timer.
    TimeoutDrop {
        /// Timers, one after the other.
        timers: usize,
    },
    /// Messengers that wake workers; the results are how long it takes until a worker runs.
    Schbench {
        /// Messengers.
        messengers: usize,
        /// Workers of each.
        workers: usize,
        /// Work for each wake-up, in microseconds.
        work_us: u64,
        /// Time between two wake-ups of all, in microseconds; 0 is the closed loop.
        tick_us: u64,
        /// Wake-ups a worker.
        rounds: usize,
    },
    /// Pairs that exchange messages beside tasks that compute; the result is how long a round trip takes.
    Mixed {
        /// Pairs.
        pairs: usize,
        /// Round trips a pair.
        round_trips: usize,
        /// Tasks that compute.
        heavy: usize,
        /// Work between two yields of theirs, in microseconds.
        piece_us: u64,
    },
    /// Requests at a given rate; the result is how long one takes from when it was due.
    Load {
        /// The rate, in hundredths of what the workers could do.
        percent: u32,
        /// Work for each request, in microseconds.
        work_us: u64,
        /// How long requests come, in milliseconds.
        millis: u64,
    },
    /// A number there and back between two tasks through two pipes; an operation is a round trip.
    Pipe {
        /// Round trips.
        round_trips: usize,
    },
    /// A task a worker, with arrays of its own that no cache holds; an operation is a cache line moved.
    Stream {
        /// Elements of 8 bytes in each of a task's three arrays.
        elements: usize,
        /// Passes of four loops through them.
        passes: usize,
    },
    /// A server and its load, from another process; an operation is a request.
    Serve(Serve),
    /// Four tasks that read and write one cache line; an operation is a turn of one of them.
    Numa {
        /// Turns a task.
        turns: usize,
    },
}

/// What a figure of a workload is; the smaller, the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Nanoseconds an operation.
    PerOperation,
    /// The longest wait, in nanoseconds.
    LongestWait,
    /// The median latency, in nanoseconds.
    P50,
    /// The latency that one in a hundred exceeds.
    P99,
    /// The latency that one in a thousand exceeds.
    P999,
    /// Processor nanoseconds an operation, of all threads.
    Cpu,
    /// Nanoseconds from the first spawn until all have begun, for each thread.
    CreateEach,
    /// Bytes by which the process has grown in memory when all sleep, for each thread.
    MemoryEach,
    /// Nanoseconds from the first wake-up until all are joined, for each thread.
    WakeJoinEach,
}

impl Metric {
    /// Its name in JSON, and in the counters of a run if it is not what the run itself is timed by.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PerOperation => "ns_per_op",
            Self::LongestWait => "longest_wait_ns",
            Self::P50 => "p50_ns",
            Self::P99 => "p99_ns",
            Self::P999 => "p999_ns",
            Self::Cpu => "cpu_ns_per_op",
            Self::CreateEach => "create_ns",
            Self::MemoryEach => "rss_bytes",
            Self::WakeJoinEach => "wake_join_ns",
        }
    }

    /// Which quantile it is, in thousandths; `None` if it is none.
    #[must_use]
    pub fn permille(self) -> Option<usize> {
        match self {
            Self::P50 => Some(500),
            Self::P99 => Some(990),
            Self::P999 => Some(999),
            _ => None,
        }
    }
}

impl Workload {
    /// What its figures are; a table each.
    #[must_use]
    pub fn metrics(&self) -> &'static [Metric] {
        match self {
            Self::Spin { .. } | Self::Closed { .. } => &[Metric::LongestWait],
            Self::Sleepers { .. } => &[Metric::CreateEach, Metric::MemoryEach, Metric::WakeJoinEach],
            Self::Timers { .. } => &[Metric::P50, Metric::P99, Metric::Cpu],
            Self::Schbench { .. } => &[Metric::P50, Metric::P99, Metric::P999, Metric::LongestWait],
            Self::Mixed { .. } => &[Metric::P50, Metric::P99, Metric::PerOperation],
            Self::Serve(Serve { rate: 0, .. }) => &[Metric::Cpu, Metric::PerOperation, Metric::P50, Metric::P99],
            Self::Serve(_) => &[Metric::Cpu, Metric::P50, Metric::P99, Metric::P999],
            Self::Load { .. } => &[Metric::P50, Metric::P99, Metric::P999, Metric::Cpu],
            _ => &[Metric::PerOperation],
        }
    }

    /// The part of it that is done once before the measurement; nothing for a workload that is about the first time.
    #[must_use]
    pub fn warm_up(self) -> Option<Self> {
        match self {
            // The generator warms a server up.
            Self::Sleepers { .. } | Self::Serve(_) => None,
            _ => Some(self.shortened(WARM_UP_DIVISOR)),
        }
    }

    /// How many there are of what shortening makes fewer, though it is the question: a row that differs must say so.
    #[must_use]
    pub fn scale(&self) -> Option<(usize, &'static str)> {
        match *self {
            Self::Skynet { leaves } => Some((leaves, "leaves")),
            Self::Sleepers { threads } => Some((threads, "threads")),
            Self::Fib { number, .. } => Some((number, "for n")),
            _ => None,
        }
    }

    /// Whether it allocates so much that the allocator is half of the result.
    #[must_use]
    pub fn allocates(&self) -> bool {
        matches!(
            self,
            Self::SpawnJoin { .. }
                | Self::SpawnRemote { .. }
                | Self::Chain { .. }
                | Self::Fib { .. }
                | Self::Skynet { .. }
        )
    }

    /// Whether its work can be done in one thread that never waits.
    #[must_use]
    pub fn has_floor(&self) -> bool {
        match self {
            Self::Hackbench(h) => h.transport == Transport::Channel,
            Self::Yield { .. } | Self::PingPong { .. } | Self::Stream { .. } => true,
            other => other.allocates(),
        }
    }

    /// Whether messages go through a channel, so that the kind of channel matters.
    #[must_use]
    pub fn has_channel(&self) -> bool {
        match self {
            Self::Hackbench(h) => h.transport == Transport::Channel,
            Self::PingPong { .. } | Self::Spin { .. } | Self::Schbench { .. } | Self::Mixed { .. } => true,
            Self::Closed { via_channel, .. } => *via_channel,
            _ => false,
        }
    }

    /// The same with `1/divisor` of the operations, at least one of each.
    #[must_use]
    pub fn shortened(self, divisor: usize) -> Self {
        let part = |count: usize| (count / divisor).max(1);
        match self {
            Self::Hackbench(h) => Self::Hackbench(Hackbench {
                loops: part(h.loops),
                ..h
            }),
            Self::SpawnJoin { tasks, batch } => Self::SpawnJoin {
                tasks: part(tasks).max(batch),
                batch,
            },
            Self::SpawnRemote { tasks, batch } => Self::SpawnRemote {
                tasks: part(tasks).max(batch),
                batch,
            },
            Self::Yield { tasks, yields, rounds } if rounds >= divisor => Self::Yield {
                tasks,
                yields,
                rounds: part(rounds),
            },
            Self::Yield { tasks, yields, rounds } => Self::Yield {
                tasks,
                yields: (yields * rounds / divisor).max(1),
                rounds: 1,
            },
            Self::PingPong { pairs, round_trips } => Self::PingPong {
                pairs,
                round_trips: part(round_trips),
            },
            Self::Skynet { leaves } => Self::Skynet {
                leaves: fewer_leaves(leaves, divisor),
            },
            Self::Sleepers { threads } => Self::Sleepers { threads: part(threads) },
            Self::Chain { depth, rounds } => Self::Chain {
                depth,
                rounds: part(rounds),
            },
            Self::Fib { number, rounds } if rounds >= divisor => Self::Fib {
                number,
                rounds: part(rounds),
            },
            Self::Fib { number, .. } => Self::Fib {
                number: number.saturating_sub(steps_of_fibonacci(divisor)).max(1),
                rounds: 1,
            },
            Self::Spin {
                spin_us,
                woken,
                yielders,
            } => Self::Spin {
                spin_us: (spin_us / divisor as u64).max(1),
                woken,
                yielders,
            },
            Self::Closed {
                tasks,
                work_us,
                turns,
                via_channel,
            } => Self::Closed {
                tasks,
                work_us,
                turns: part(turns),
                via_channel,
            },
            other => other.shortened_waits(divisor),
        }
    }

    /// [`Workload::shortened`] for those that wait, or move memory.
    fn shortened_waits(self, divisor: usize) -> Self {
        let part = |count: usize| (count / divisor).max(1);
        match self {
            Self::Timers {
                tasks,
                sleeps,
                from_us,
                to_us,
            } => Self::Timers {
                tasks,
                sleeps: part(sleeps),
                from_us,
                to_us,
            },
            Self::TimeoutDrop { timers } => Self::TimeoutDrop { timers: part(timers) },
            Self::Schbench {
                messengers,
                workers,
                work_us,
                tick_us,
                rounds,
            } => Self::Schbench {
                messengers,
                workers,
                work_us,
                tick_us,
                rounds: part(rounds),
            },
            Self::Mixed {
                pairs,
                round_trips,
                heavy,
                piece_us,
            } => Self::Mixed {
                pairs,
                round_trips: part(round_trips),
                heavy,
                piece_us,
            },
            Self::Load {
                percent,
                work_us,
                millis,
            } => Self::Load {
                percent,
                work_us,
                millis: (millis / divisor as u64).max(1),
            },
            Self::Pipe { round_trips } => Self::Pipe {
                round_trips: part(round_trips),
            },
            Self::Stream { elements, passes } => Self::Stream {
                elements,
                passes: part(passes),
            },
            Self::Numa { turns } => Self::Numa { turns: part(turns) },
            Self::Serve(serve) => Self::Serve(Serve {
                millis: (serve.millis / divisor as u64).max(1),
                ..serve
            }),
            other => other,
        }
    }

    /// Its name in reports.
    #[must_use]
    pub fn name(&self, body: Body) -> &'static str {
        match (self, body) {
            (Self::Hackbench(h), Body::Tasks) => match h.transport {
                Transport::Channel => "hackbench",
                Transport::Pipe => "hackbench_pipe",
                Transport::Socket => "hackbench_socket",
            },
            (Self::Hackbench(_), Body::Threads) => "thread_hackbench",
            (Self::SpawnJoin { .. }, Body::Tasks) => "spawn_join",
            (Self::SpawnJoin { .. }, Body::Threads) => "thread_spawn_join",
            (Self::SpawnRemote { batch: 1, .. }, _) => "spawn_remote1",
            (Self::SpawnRemote { .. }, _) => "spawn_remote",
            (Self::Yield { .. }, Body::Tasks) => "yield",
            (Self::Yield { .. }, Body::Threads) => "thread_yield",
            (Self::PingPong { .. }, Body::Tasks) => "ping_pong",
            (Self::PingPong { .. }, Body::Threads) => "thread_ping_pong",
            (Self::Skynet { .. }, Body::Tasks) => "skynet",
            (Self::Skynet { .. }, Body::Threads) => "thread_skynet",
            (Self::Sleepers { .. }, _) => "thread_sleepers",
            (Self::Spin { .. }, _) => "fairness_spin",
            (Self::Closed { .. }, _) => "fairness_closed",
            (Self::Chain { .. }, _) => "chain",
            (Self::Fib { .. }, _) => "fib",
            (Self::Timers { .. }, _) => "timers",
            (Self::TimeoutDrop { .. }, _) => "timeout_drop",
            (Self::Schbench { tick_us: 0, .. }, _) => "schbench_closed",
            (Self::Schbench { .. }, _) => "schbench_tick",
            (Self::Mixed { .. }, _) => "mixed",
            (Self::Load { .. }, _) => "load",
            (Self::Pipe { .. }, _) => "pipe",
            (Self::Stream { .. }, _) => "stream",
            (Self::Numa { .. }, _) => "numa",
            (Self::Serve(serve), _) => serve.name(),
        }
    }

    /// Its parameters as a JSON object.
    ///
    /// # Panics
    /// Never: a workload is plain numbers and strings, which always serialise.
    #[must_use]
    pub fn params(&self) -> serde_json::Value {
        let mut value = serde_json::to_value(self).expect("numbers and strings serialise");
        if let Some(object) = value.as_object_mut() {
            object.remove("name");
        }
        value
    }
}

/// By how many a Fibonacci number's index must fall for about `1/divisor` of the calls: each step is a factor of 1.6.
fn steps_of_fibonacci(divisor: usize) -> usize {
    (0..)
        .take_while(|&steps| 1.618_f64.powi(steps) < divisor as f64)
        .count()
}

/// The power of ten that is about `leaves / divisor`: a tenth for each power of ten that the divisor has begun.
fn fewer_leaves(leaves: usize, divisor: usize) -> usize {
    let mut leaves = leaves;
    let mut divisor = divisor;
    while divisor > 1 && leaves > 1 {
        leaves /= 10;
        divisor = divisor.div_ceil(10);
    }
    leaves
}

#[cfg(test)]
mod tests {
    use super::*;

    const HACKBENCH: Hackbench = Hackbench {
        groups: 2,
        fds: 3,
        loops: 5,
        size: 100,
        capacity: 655,
        transport: Transport::Channel,
    };

    #[test]
    fn messages_are_groups_times_fds_squared_times_loops() {
        assert_eq!(HACKBENCH.messages_per_receiver(), 15);
        assert_eq!(HACKBENCH.messages(), 90);
    }

    #[test]
    fn params_leave_the_name_out() {
        let params = Workload::PingPong {
            pairs: 1,
            round_trips: 9,
        }
        .params();
        assert_eq!(params, serde_json::json!({"pairs": 1, "round_trips": 9}));
    }

    #[test]
    fn shortened_keeps_at_least_one_operation() {
        assert_eq!(
            Workload::SpawnJoin {
                tasks: 5000,
                batch: 1000
            }
            .shortened(100),
            Workload::SpawnJoin {
                tasks: 1000,
                batch: 1000
            }
        );
        assert_eq!(
            Workload::Yield {
                tasks: 3,
                yields: 10,
                rounds: 2
            }
            .shortened(4),
            Workload::Yield {
                tasks: 3,
                yields: 5,
                rounds: 1
            }
        );
        assert_eq!(
            Workload::PingPong {
                pairs: 1,
                round_trips: 3
            }
            .shortened(8),
            Workload::PingPong {
                pairs: 1,
                round_trips: 1
            }
        );
    }

    #[test]
    fn fibonacci_is_shortened_by_rounds_and_then_by_steps() {
        let fib = |number, rounds| Workload::Fib { number, rounds };
        assert_eq!(fib(25, 8).shortened(8), fib(25, 1));
        assert_eq!(fib(25, 1).shortened(8), fib(20, 1));
        assert_eq!(fib(3, 1).shortened(1000), fib(1, 1));
    }

    #[test]
    fn a_tree_is_shortened_by_whole_levels() {
        for (divisor, leaves) in [(1, 1000), (6, 100), (10, 100), (11, 10), (600, 1), (100_000, 1)] {
            let shortened = Workload::Skynet { leaves: 1000 }.shortened(divisor);
            assert_eq!(shortened, Workload::Skynet { leaves }, "{divisor}");
        }
    }
}
