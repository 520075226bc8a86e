//! What is done: a workload with its parameters.

use serde::{Deserialize, Serialize};

use super::{Body, Schbench, SchbenchRequests, Serve, Service};

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
#[serde(deny_unknown_fields)]
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
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
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
    /// Trivial tasks, each of which a thread that is no worker spawns and waits for as its runtime says; an operation
    /// is a task.
    BlockOn {
        /// Tasks.
        tasks: usize,
    },
    /// Tasks each of which has the threads for blocking work run closures, one after another; an operation is a
    /// closure.
    Blocking {
        /// Tasks.
        tasks: usize,
        /// Closures a task.
        jobs: usize,
    },
    /// Messages of one task that each of many others receives; an operation is one of them receiving one.
    Broadcast {
        /// Tasks that receive.
        receivers: usize,
        /// Messages.
        messages: usize,
        /// Messages that are sent before the others run.
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
    /// Pairs of tasks that pass a number there and back through two channels of capacity 1; an operation is a round
    /// trip.
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
    Schbench(Schbench),
    /// A task a worker that asks a messenger, sleeps and multiplies matrices; an operation is a request.
    SchbenchRequests(SchbenchRequests),
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
    /// A TCP echo server whose clients, in another process, are connected and say nothing; an operation is a
    /// connection.
    Idle {
        /// Connections.
        connections: usize,
        /// For how long nothing comes, in milliseconds.
        millis: u64,
    },
    /// Four tasks that read and write one cache line; an operation is a turn of one of them.
    Numa {
        /// Turns a task.
        turns: usize,
    },
}

impl Workload {
    /// How many there are of what shortening makes fewer, though it is the question: a row that differs must say so.
    #[must_use]
    pub fn scale(&self) -> Option<(usize, &'static str)> {
        match *self {
            Self::Skynet { leaves } => Some((leaves, "leaves")),
            Self::Sleepers { threads } => Some((threads, "threads")),
            Self::Idle { connections, .. } => Some((connections, "connections")),
            Self::Fib { number, .. } => Some((number, "for n")),
            _ => None,
        }
    }

    /// Whether it allocates at least once an operation, of those that do not compute most of the time: then the
    /// allocator decides, too. A round trip over async-channel allocates twice, an answer of hyper's five times.
    #[must_use]
    pub fn allocates(&self) -> bool {
        match self {
            Self::SpawnJoin { .. }
            | Self::SpawnRemote { .. }
            | Self::BlockOn { .. }
            | Self::Blocking { .. }
            | Self::Chain { .. }
            | Self::Fib { .. }
            | Self::Skynet { .. }
            | Self::PingPong { .. } => true,
            Self::Serve(serve) => serve.service == Service::Http,
            _ => false,
        }
    }

    /// Whether its work can be done in one thread that waits for nobody else.
    #[must_use]
    pub fn has_floor(&self) -> bool {
        match self {
            Self::Hackbench(h) => h.transport == Transport::Channel,
            Self::SpawnJoin { .. }
            | Self::SpawnRemote { .. }
            | Self::BlockOn { .. }
            | Self::Chain { .. }
            | Self::Fib { .. }
            | Self::Skynet { .. }
            | Self::Yield { .. }
            | Self::PingPong { .. }
            | Self::Timers { .. }
            | Self::Stream { .. } => true,
            _ => false,
        }
    }

    /// Whether messages go through a channel, so that the kind of channel matters.
    #[must_use]
    pub fn has_channel(&self) -> bool {
        match self {
            Self::Hackbench(h) => h.transport == Transport::Channel,
            Self::PingPong { .. }
            | Self::Spin { .. }
            | Self::Schbench(_)
            | Self::SchbenchRequests(_)
            | Self::Mixed { .. } => true,
            Self::Closed { via_channel, .. } => *via_channel,
            _ => false,
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
            (Self::Hackbench(h), Body::Threads) => match h.transport {
                Transport::Channel => "thread_hackbench",
                Transport::Pipe => "thread_hackbench_pipe",
                Transport::Socket => "thread_hackbench_socket",
            },
            (Self::SpawnJoin { .. }, Body::Tasks) => "spawn_join",
            (Self::SpawnJoin { .. }, Body::Threads) => "thread_spawn_join",
            (Self::SpawnRemote { batch: 1, .. }, _) => "spawn_remote1",
            (Self::SpawnRemote { .. }, _) => "spawn_remote",
            (Self::BlockOn { .. }, _) => "block_on",
            (Self::Blocking { .. }, _) => "blocking",
            (Self::Broadcast { .. }, _) => "broadcast",
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
            (Self::Schbench(params), body) => params.name(body),
            (Self::SchbenchRequests(_), Body::Tasks) => "schbench_requests",
            (Self::SchbenchRequests(_), Body::Threads) => "thread_schbench_requests",
            (Self::Mixed { .. }, Body::Tasks) => "mixed",
            (Self::Mixed { .. }, Body::Threads) => "thread_mixed",
            (Self::Load { .. }, _) => "load",
            (Self::Pipe { .. }, _) => "pipe",
            (Self::Stream { .. }, _) => "stream",
            (Self::Numa { .. }, _) => "numa",
            (Self::Serve(serve), body) => serve.name(body),
            (Self::Idle { .. }, _) => "idle",
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::tests::HACKBENCH;

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
}
