//! Bounded channels: a count, two lists of waiting tasks, and the lines and lock that an operation touches.
//!
//! A waiting task is woken and tries again; it is not handed a message or a place. Who takes the last of several
//! messages or places leaves nobody waiting: an operation that leaves something behind wakes one more of its own kind.

use std::collections::VecDeque;

use quadrille_policy::{Nanos, WorkerId};

use crate::cost::Cost;
use crate::line::{Lock, Taken, When};
use crate::space::Space;
use crate::workload::{ChannelSpec, TaskId, Transport};

/// One channel.
#[derive(Debug)]
pub(crate) struct Channel {
    spec: ChannelSpec,
    len: u32,
    senders: VecDeque<TaskId>,
    receivers: VecDeque<TaskId>,
    lock: Lock,
    writer: WorkerId,
    /// When the last of those that sleep for the lock has its turn.
    turns_until: Nanos,
}

/// An operation to be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation<'a> {
    pub(crate) task: TaskId,
    pub(crate) now: Nanos,
    pub(crate) by: WorkerId,
    /// It has slept for the lock before, and does not again: it is handed to who has waited longest.
    pub(crate) has_slept: bool,
    pub(crate) space: &'a Space,
    pub(crate) cost: &'a Cost,
}

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    /// How long it took.
    pub(crate) took: Nanos,
    /// How much of that was waiting for the lock.
    pub(crate) waited: Nanos,
    /// Whether the message went through; if not, the task waits in the channel's list, or for its turn.
    pub(crate) passed: bool,
    /// The task sleeps for the lock: until when, and who wakes it then.
    pub(crate) turn: Option<(Nanos, WorkerId)>,
    /// Who is ready because of it.
    pub(crate) wakes: [Option<TaskId>; 2],
}

impl Channel {
    pub(crate) fn new(spec: ChannelSpec) -> Self {
        let capacity = spec.capacity.max(1);
        Self {
            spec: ChannelSpec {
                capacity,
                grain: spec.grain.clamp(1, capacity),
                ..spec
            },
            len: 0,
            senders: VecDeque::new(),
            receivers: VecDeque::new(),
            lock: Lock::default(),
            writer: WorkerId(0),
            turns_until: Nanos(0),
        }
    }

    /// Puts a message in.
    pub(crate) fn send(&mut self, operation: &Operation<'_>) -> Done {
        let Operation { task, by, cost, .. } = *operation;
        if let Some(done) = self.sleeps(operation, cost.pipe_write) {
            return done;
        }
        let taken = self.enter(operation, Nanos(0));
        let mut done = self.done(taken, cost.pipe_write, cost);
        if self.len == self.spec.capacity {
            self.senders.push_back(task);
            return done;
        }
        self.len += 1;
        self.writer = by;
        done.passed = true;
        done.wakes[0] = self.receivers.pop_front();
        if self.free() >= self.spec.grain {
            done.wakes[1] = self.senders.pop_front();
        }
        done
    }

    /// Takes a message out.
    pub(crate) fn recv(&mut self, operation: &Operation<'_>) -> Done {
        let Operation {
            task, by, space, cost, ..
        } = *operation;
        if let Some(done) = self.sleeps(operation, cost.pipe_read) {
            return done;
        }
        let lines = u64::from(self.spec.bytes.div_ceil(64));
        // The first line of the message comes at full price, the rest is on its way meanwhile.
        let message = if self.len == 0 {
            Nanos(0)
        } else {
            Nanos(space.line(self.writer, by).0 * (3 + lines) / 4)
        };
        let taken = self.enter(operation, message);
        let mut done = self.done(taken, cost.pipe_read, cost);
        done.took.0 += message.0;
        if self.len == 0 {
            self.receivers.push_back(task);
            return done;
        }
        self.len -= 1;
        done.passed = true;
        if self.free() >= self.spec.grain {
            done.wakes[0] = self.senders.pop_front();
        }
        if self.len > 0 {
            done.wakes[1] = self.receivers.pop_front();
        }
        done
    }

    /// A pipe's mutex is spun for only so long. Who sleeps is woken when its turn is: after all who are at it now, one
    /// after the other.
    fn sleeps(&mut self, operation: &Operation<'_>, system_call: u64) -> Option<Done> {
        let Operation {
            now, has_slept, cost, ..
        } = *operation;
        let free_at = self.lock.free_at();
        if has_slept || self.spec.transport == Transport::Channel || free_at.since(now).0 <= cost.pipe_spin {
            return None;
        }
        let turn = Nanos(free_at.max(self.turns_until).0 + cost.pipe_hold);
        self.turns_until = turn;
        let at_once = Taken::default();
        Some(Done {
            turn: Some((turn, self.lock.holder())),
            ..self.done(at_once, system_call / 2, cost)
        })
    }

    fn free(&self) -> u32 {
        self.spec.capacity - self.len
    }

    /// Fetches the lines that every operation writes. A pipe's are under its lock; those of a channel are taken one
    /// after the other by whoever is there, which comes to the same with a shorter hold.
    fn enter(&mut self, operation: &Operation<'_>, message: Nanos) -> Taken {
        let Operation {
            now, by, space, cost, ..
        } = *operation;
        let way = self.lock.way(by, space);
        let more_lines = way.0 * cost.channel_lines.saturating_sub(1);
        let hold = match self.spec.transport {
            Transport::Channel => more_lines,
            Transport::Pipe => more_lines + message.0 + cost.pipe_hold,
        };
        self.lock
            .take_over(When { event: now, own: now }, by, way, Nanos(hold), cost)
    }

    fn done(&self, taken: Taken, system_call: u64, cost: &Cost) -> Done {
        let base = match self.spec.transport {
            Transport::Channel => cost.channel_op,
            Transport::Pipe => system_call,
        };
        Done {
            took: Nanos(taken.took.0 + base),
            waited: taken.waited,
            passed: false,
            turn: None,
            wakes: [None; 2],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quadrille_policy::{Plan, PlanOptions};
    use quadrille_topology::Topology;

    struct Fixture {
        channel: Channel,
        space: Space,
        now: Nanos,
    }

    impl Fixture {
        fn new(capacity: u32, grain: u32) -> Self {
            let machine: Topology = "l2:2".parse().unwrap();
            let plan = Plan::compile(&machine, &PlanOptions::default()).unwrap();
            Self {
                channel: Channel::new(ChannelSpec {
                    capacity,
                    grain,
                    ..ChannelSpec::default()
                }),
                space: Space::new(&plan, &machine, &Cost::default()),
                now: Nanos(0),
            }
        }

        /// Whether it went through, and whom it woke.
        fn check(&mut self, send: bool, task: u32, passed: bool, wakes: &[u32]) {
            self.now.0 += 10_000;
            let cost = Cost::default();
            let operation = Operation {
                task: TaskId(task),
                now: self.now,
                by: WorkerId(u16::from(send)),
                has_slept: false,
                space: &self.space,
                cost: &cost,
            };
            let done = if send {
                self.channel.send(&operation)
            } else {
                self.channel.recv(&operation)
            };
            let woken: Vec<u32> = done.wakes.into_iter().flatten().map(|task| task.0).collect();
            assert_eq!(
                (done.passed, &woken[..]),
                (passed, wakes),
                "task {task} at {}",
                self.now
            );
            assert!(done.took.0 >= cost.channel_op);
        }
    }

    #[test]
    fn full_and_empty_channels_let_tasks_wait_and_wake_them() {
        let mut two = Fixture::new(2, 1);
        two.check(false, 9, false, &[]);
        two.check(true, 1, true, &[9]);
        two.check(true, 1, true, &[]);
        two.check(true, 2, false, &[]);
        two.check(true, 3, false, &[]);
        two.check(false, 9, true, &[2]);
        two.check(false, 9, true, &[3]);
    }

    #[test]
    fn who_leaves_something_behind_wakes_one_of_its_own_kind() {
        let mut two = Fixture::new(2, 2);
        two.check(true, 1, true, &[]);
        two.check(true, 1, true, &[]);
        two.check(true, 2, false, &[]);
        two.check(true, 3, false, &[]);
        two.check(false, 9, true, &[]); // one place is less than the grain
        two.check(false, 9, true, &[2]);
        two.check(false, 9, false, &[]);
        two.check(true, 2, true, &[9]);
        two.check(false, 9, true, &[3]);
    }
}
