//! What is done: a workload with its parameters.

use serde::{Deserialize, Serialize};

use super::Body;

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
}

/// What a figure of a workload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Nanoseconds an operation.
    PerOperation,
    /// The longest wait, in nanoseconds.
    LongestWait,
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
            Self::CreateEach => "create_ns",
            Self::MemoryEach => "rss_bytes",
            Self::WakeJoinEach => "wake_join_ns",
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
            _ => &[Metric::PerOperation],
        }
    }

    /// The part of it that is done once before the measurement; nothing for a workload that is about the first time.
    #[must_use]
    pub fn warm_up(self) -> Option<Self> {
        match self {
            Self::Sleepers { .. } => None,
            _ => Some(self.shortened(WARM_UP_DIVISOR)),
        }
    }

    /// How many there are of what shortening makes fewer, though it is the question: a row that differs must say so.
    #[must_use]
    pub fn scale(&self) -> Option<(usize, &'static str)> {
        match *self {
            Self::Skynet { leaves } => Some((leaves, "leaves")),
            Self::Sleepers { threads } => Some((threads, "threads")),
            _ => None,
        }
    }

    /// Whether messages go through a channel, so that the kind of channel matters.
    #[must_use]
    pub fn has_channel(&self) -> bool {
        match self {
            Self::Hackbench(h) => h.transport == Transport::Channel,
            Self::PingPong { .. } | Self::Spin { .. } => true,
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
        }
    }

    /// Its name in reports.
    #[must_use]
    pub fn name(&self, body: Body) -> &'static str {
        match (self, body) {
            (Self::Hackbench(_), Body::Tasks) => "hackbench",
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
    fn a_tree_is_shortened_by_whole_levels() {
        for (divisor, leaves) in [(1, 1000), (6, 100), (10, 100), (11, 10), (600, 1), (100_000, 1)] {
            let shortened = Workload::Skynet { leaves: 1000 }.shortened(divisor);
            assert_eq!(shortened, Workload::Skynet { leaves }, "{divisor}");
        }
    }
}
