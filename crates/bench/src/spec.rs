//! What one run is: a workload with its parameters, a runtime, a kind of channel and a number of workers.
//!
//! A [`Spec`] travels as one JSON argument to the child process that runs it, so the Rust and the Go program read the
//! same thing, and any row can be repeated by hand: `quadrille run-one '<spec>'`.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The runtimes that can be asked for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum RuntimeName {
    /// quadrille as it comes.
    Quadrille,
    /// quadrille with one worker.
    #[serde(rename = "quadrille-1w")]
    #[value(name = "quadrille-1w")]
    Quadrille1w,
    /// quadrille with every policy off: plain work stealing.
    QuadrilleBaseline,
    /// quadrille in a program with mimalloc.
    QuadrilleMimalloc,
    /// tokio's multi-threaded runtime; the base of every ratio.
    Tokio,
    /// tokio with one worker.
    #[serde(rename = "tokio-1w")]
    #[value(name = "tokio-1w")]
    Tokio1w,
    /// tokio in a program with mimalloc.
    TokioMimalloc,
    /// smol's executor (async-executor), run by one thread a worker.
    Smol,
    /// smol's executor, run by one thread.
    #[serde(rename = "smol-1w")]
    #[value(name = "smol-1w")]
    Smol1w,
    /// A Go program; needs `go` when it is first used.
    Go,
    /// The Go program with GOMAXPROCS=1.
    #[serde(rename = "go-1w")]
    #[value(name = "go-1w")]
    Go1w,
    /// One operating-system thread a task.
    Threads,
}

/// The program behind a [`RuntimeName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The runtime of this workspace.
    Quadrille,
    /// tokio.
    Tokio,
    /// async-executor.
    Smol,
    /// The Go program.
    Go,
    /// `std::thread`.
    Threads,
}

impl RuntimeName {
    /// The program that runs it.
    #[must_use]
    pub fn family(self) -> Family {
        match self {
            Self::Quadrille | Self::Quadrille1w | Self::QuadrilleBaseline | Self::QuadrilleMimalloc => {
                Family::Quadrille
            }
            Self::Tokio | Self::Tokio1w | Self::TokioMimalloc => Family::Tokio,
            Self::Smol | Self::Smol1w => Family::Smol,
            Self::Go | Self::Go1w => Family::Go,
            Self::Threads => Family::Threads,
        }
    }

    /// The number of workers it gets when `workers` were asked for: one for the `-1w` names.
    #[must_use]
    pub fn workers(self, workers: usize) -> usize {
        match self {
            Self::Quadrille1w | Self::Tokio1w | Self::Smol1w | Self::Go1w => 1,
            _ => workers,
        }
    }

    /// Whether it runs in the program with mimalloc.
    #[must_use]
    pub fn uses_mimalloc(self) -> bool {
        matches!(self, Self::QuadrilleMimalloc | Self::TokioMimalloc)
    }

    /// The name as it is typed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Quadrille => "quadrille",
            Self::Quadrille1w => "quadrille-1w",
            Self::QuadrilleBaseline => "quadrille-baseline",
            Self::QuadrilleMimalloc => "quadrille-mimalloc",
            Self::TokioMimalloc => "tokio-mimalloc",
            Self::Tokio => "tokio",
            Self::Tokio1w => "tokio-1w",
            Self::Smol => "smol",
            Self::Smol1w => "smol-1w",
            Self::Go => "go",
            Self::Go1w => "go-1w",
            Self::Threads => "threads",
        }
    }
}

/// Which channel carries the messages of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChannelKind {
    /// The workload sends no messages, or not through a channel.
    None,
    /// async-channel, the same crate for every Rust runtime.
    Shared,
    /// The best one the runtime brings itself.
    Own,
}

impl ChannelKind {
    /// The name of the channel that `family` uses for this kind.
    #[must_use]
    pub fn name(self, family: Family) -> &'static str {
        match (self, family) {
            (Self::None, _) => "-",
            (Self::Shared, _) | (Self::Own, Family::Smol) => "async-channel",
            (Self::Own, Family::Quadrille) => "quadrille::sync::mpmc",
            (Self::Own, Family::Tokio) => "tokio::sync::mpsc",
            (Self::Own, Family::Go) => "chan",
            (Self::Own, Family::Threads) => "std::sync::mpsc",
        }
    }
}

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

/// A workload and its parameters.
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

/// What the figure of a workload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Nanoseconds an operation.
    PerOperation,
    /// The longest wait, in nanoseconds.
    LongestWait,
}

impl Workload {
    /// What its figure is.
    #[must_use]
    pub fn metric(&self) -> Metric {
        match self {
            Self::Spin { .. } | Self::Closed { .. } => Metric::LongestWait,
            _ => Metric::PerOperation,
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
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hackbench(_) => "hackbench",
            Self::SpawnJoin { .. } => "spawn_join",
            Self::SpawnRemote { batch: 1, .. } => "spawn_remote1",
            Self::SpawnRemote { .. } => "spawn_remote",
            Self::Yield { .. } => "yield",
            Self::PingPong { .. } => "ping_pong",
            Self::Spin { .. } => "fairness_spin",
            Self::Closed { .. } => "fairness_closed",
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

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// What is done.
    pub workload: Workload,
    /// Who does it.
    pub runtime: RuntimeName,
    /// What carries the messages.
    pub channel: ChannelKind,
    /// Worker threads, already adjusted for the `-1w` names; threads ignore it.
    pub workers: usize,
    /// Whether the child reports its progress on stderr, a fraction a line.
    #[serde(default)]
    pub progress: bool,
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
    fn spec_round_trips_through_json() {
        for workload in [
            Workload::Hackbench(HACKBENCH),
            Workload::SpawnRemote { tasks: 10, batch: 1 },
            Workload::Closed {
                tasks: 16,
                work_us: 20,
                turns: 7,
                via_channel: true,
            },
        ] {
            for runtime in RuntimeName::value_variants() {
                let spec = Spec {
                    workload,
                    runtime: *runtime,
                    channel: ChannelKind::Own,
                    workers: 2,
                    progress: false,
                };
                let json = serde_json::to_string(&spec).unwrap();
                assert!(json.contains(&format!("\"{}\"", runtime.name())), "{json}");
                assert_eq!(serde_json::from_str::<Spec>(&json).unwrap(), spec);
                assert_eq!(runtime.to_possible_value().unwrap().get_name(), runtime.name());
            }
        }
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
}
