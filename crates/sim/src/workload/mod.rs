//! Programs to simulate: tasks as small state machines that name their next step.
//!
//! A [`Workload`] owns the state of all its tasks. It is asked for the next step of one of them whenever the step
//! before has ended; steps that have to wait (a full channel, a sleep) end when the waiting does. Nothing else happens
//! behind its back: tasks, channels and memories exist because it made them.
//!
//! ```
//! use quadrille_sim::{
//!     ChannelId, ChannelSpec, Config, Context, Cost, Machine, Model, Nanos, NewTask, Setup, Simulation, Step, TaskId,
//!     Workload,
//! };
//!
//! /// One task sends a million messages to another.
//! #[derive(Debug, Default)]
//! struct Pair {
//!     channel: ChannelId,
//! }
//!
//! impl Workload for Pair {
//!     fn name(&self) -> String {
//!         "pair".into()
//!     }
//!
//!     fn start(&mut self, setup: &mut Setup<'_>) {
//!         self.channel = setup.channel(ChannelSpec::default());
//!         setup.task(NewTask::default()); // task 0
//!         setup.task(NewTask::default()); // task 1
//!     }
//!
//!     fn step(&mut self, task: TaskId, context: &mut Context<'_>) -> Step {
//!         match task {
//!             TaskId(0) => Step::Send(self.channel),
//!             _ => {
//!                 context.done(1); // the message before
//!                 Step::Recv(self.channel)
//!             }
//!         }
//!     }
//! }
//!
//! let machine: Machine = "core:2".parse()?;
//! let simulation = Simulation::new(machine, Cost::default(), Config::default(), Model::Shipped, Pair::default(), 1)?;
//! let report = simulation.run(Nanos::from_millis(1));
//! assert!(report.done > 1_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod hackbench;
mod old_schbench;
mod rpc;
mod schbench;
mod sharing;
mod stream;
mod text;

use std::fmt;

use quadrille_policy::{Nanos, Rng, WorkerId};

pub use self::hackbench::{Hackbench, Kinship};
pub use self::old_schbench::OldSchbench;
pub use self::rpc::{Rpc, Table};
pub use self::schbench::Schbench;
pub use self::sharing::Sharing;
pub use self::stream::Stream;
use crate::channel::Channel;
use crate::histogram::Histogram;
use crate::memory::Memory;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The index as a `usize`.
            #[inline]
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// A task: dense from zero, in the order in which they were made.
    TaskId
);
id!(
    /// A channel, likewise.
    ChannelId
);
id!(
    /// A piece of memory, likewise.
    MemoryId
);

/// What a task does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Computes for so long; longer while the SMT sibling is busy.
    Compute(Nanos),
    /// Puts a message into a channel; waits while it is full.
    Send(ChannelId),
    /// Takes a message from a channel; waits while it is empty.
    Recv(ChannelId),
    /// Waits for a time; a timer wakes it.
    Sleep(Nanos),
    /// Wakes a task from its [`Step::Wait`], or lets its next one end at once. Waking twice counts once.
    Wake(TaskId),
    /// Waits until it is woken.
    Wait,
    /// Makes a task, which is ready at once. Its id is in [`Context::spawned`] of the next step.
    Spawn(NewTask),
    /// Reads or writes so many bytes of a memory.
    Touch(Touch),
    /// Lets others run first.
    Yield,
    /// Ends.
    Exit,
}

/// An access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Which memory.
    pub memory: MemoryId,
    /// How many bytes of it, from wherever the last access ended.
    pub bytes: u64,
    /// Whether they are written.
    pub write: bool,
}

/// A task to be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewTask {
    /// Which tasks it shares data with. Default: those that it descends from.
    pub kin: Kin,
}

/// Which tasks a new one is said to share data with: its coupling set (policy 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kin {
    /// The set of the task that makes it. A first task has one of its own, for all that descend from it.
    #[default]
    Inherited,
    /// The program of this number: as if one task had made all of it. Nothing is declared; the set is like a process is
    /// to the kernel.
    Program(u32),
    /// The set of this number, declared as `quadrille::TaskGroup` does.
    Declared(u32),
    /// The same, declared to want a last-level cache each.
    Spread(u32),
}

/// What carries the messages of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A bounded channel between tasks of the runtime.
    #[default]
    Channel,
    /// A pipe of the kernel: a system call an operation, and its lock.
    Pipe,
}

/// A channel to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelSpec {
    /// Messages it holds.
    pub capacity: u32,
    /// Bytes of one.
    pub bytes: u32,
    /// Free places from which on a waiting sender is woken: 1, or for pipes what fits into a page.
    pub grain: u32,
    /// What carries the messages.
    pub transport: Transport,
}

impl Default for ChannelSpec {
    /// 655 messages of 100 bytes, which is what a pipe holds, between tasks of the runtime.
    fn default() -> Self {
        Self {
            capacity: 655,
            bytes: 100,
            grain: 1,
            transport: Transport::Channel,
        }
    }
}

/// A memory to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySpec {
    /// Its size. Up to a cache line it behaves as one; above, it moves through caches and memory channels.
    pub bytes: u64,
}

/// A program whose tasks are state machines.
pub trait Workload: fmt::Debug {
    /// What it is called in reports, with its parameters.
    fn name(&self) -> String;

    /// Makes the channels, memories and first tasks. They start at time zero, from outside the runtime.
    fn start(&mut self, setup: &mut Setup<'_>);

    /// The next step of `task`.
    fn step(&mut self, task: TaskId, context: &mut Context<'_>) -> Step;

    /// What a unit of [`Context::done`] is, for reports.
    fn unit(&self) -> &'static str {
        "messages"
    }
}

/// A workload from its text form: its name, and its parameters after a colon, such as `hackbench:g=10,f=20`.
///
/// # Errors
/// One line that names what is wrong and what was expected.
pub fn parse_workload(text: &str) -> Result<Box<dyn Workload>, String> {
    let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
    match name {
        "hackbench" => Ok(Box::new(parameters.parse::<Hackbench>()?)),
        "schbench" => Ok(Box::new(parameters.parse::<Schbench>()?)),
        "old-schbench" => Ok(Box::new(parameters.parse::<OldSchbench>()?)),
        "rpc" => Ok(Box::new(parameters.parse::<Rpc>()?)),
        "stream" => Ok(Box::new(parameters.parse::<Stream>()?)),
        "sharing" => Ok(Box::new(parameters.parse::<Sharing>()?)),
        _ => Err(format!(
            "workload `{name}`: expected hackbench, schbench, old-schbench, rpc, stream or sharing"
        )),
    }
}

impl Workload for Box<dyn Workload> {
    fn name(&self) -> String {
        (**self).name()
    }

    fn start(&mut self, setup: &mut Setup<'_>) {
        (**self).start(setup);
    }

    fn step(&mut self, task: TaskId, context: &mut Context<'_>) -> Step {
        (**self).step(task, context)
    }

    fn unit(&self) -> &'static str {
        (**self).unit()
    }
}

/// Makes what a workload starts with.
#[derive(Debug)]
pub struct Setup<'a> {
    pub(crate) channels: &'a mut Vec<Channel>,
    pub(crate) memories: &'a mut Vec<Memory>,
    pub(crate) tasks: &'a mut Vec<NewTask>,
    pub(crate) workers: usize,
}

impl Setup<'_> {
    /// Number of workers of the machine.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Makes a channel.
    pub fn channel(&mut self, spec: ChannelSpec) -> ChannelId {
        self.channels.push(Channel::new(spec));
        ChannelId(last(self.channels.len()))
    }

    /// Makes a memory; its home is the node of whoever touches it first.
    pub fn memory(&mut self, spec: MemorySpec) -> MemoryId {
        self.memories.push(Memory::new(spec));
        MemoryId(last(self.memories.len()))
    }

    /// Makes a task.
    pub fn task(&mut self, task: NewTask) -> TaskId {
        self.tasks.push(task);
        TaskId(last(self.tasks.len()))
    }
}

fn last(len: usize) -> u32 {
    u32::try_from(len - 1).expect("fewer than 2^32 of a kind")
}

/// What a task knows when it names its next step, and whom it tells about what it did.
#[derive(Debug)]
pub struct Context<'a> {
    pub(crate) now: Nanos,
    pub(crate) worker: WorkerId,
    pub(crate) started_after: Option<Nanos>,
    pub(crate) spawned: Option<TaskId>,
    pub(crate) rng: &'a mut Rng,
    pub(crate) done: &'a mut u64,
    pub(crate) samples: &'a mut Histogram,
}

impl Context<'_> {
    /// The time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// The worker that runs the task.
    #[must_use]
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// If the step before has waited: how long the task was ready before it ran again.
    #[must_use]
    pub fn started_after(&self) -> Option<Nanos> {
        self.started_after
    }

    /// If the step before was [`Step::Spawn`]: the new task.
    #[must_use]
    pub fn spawned(&self) -> Option<TaskId> {
        self.spawned
    }

    /// A number below `bound` from the generator of the workload, 0 if `bound` is.
    pub fn random(&mut self, bound: u32) -> u32 {
        self.rng.below(bound)
    }

    /// Counts units of work for the throughput.
    pub fn done(&mut self, units: u64) {
        *self.done += units;
    }

    /// Records a time of the workload's own, such as that of a request.
    pub fn sample(&mut self, time: Nanos) {
        self.samples.record(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_have_names_and_parameters() {
        let hackbench = parse_workload("hackbench:g=2,f=3").unwrap();
        assert_eq!(hackbench.name(), "hackbench:g=2,f=3,l=0,s=100,via=channel");
        assert_eq!(
            parse_workload("hackbench").unwrap().name(),
            "hackbench:g=10,f=20,l=0,s=100,via=channel"
        );
        for text in [
            "schbench:t=3,sleep=4,compute=5,footprint=6",
            "old-schbench:m=3,t=4,spin=5,sleep=6",
            "rpc:pairs=7,think=1,work=2,table=2,pipe=1",
            "stream:t=3,reads=2,array=64,pass=8,spread=1",
            "sharing:t=3,rounds=4,declared=1",
        ] {
            assert_eq!(parse_workload(text).unwrap().name(), text);
        }
        assert!(
            parse_workload("hackbunch:g=2")
                .unwrap_err()
                .contains("expected hackbench")
        );
        assert!(parse_workload("hackbench:g=x").unwrap_err().contains("g=x"));
    }

    #[test]
    fn numbers_that_no_run_can_hold_are_refused_by_name_and_value() {
        for text in [
            "hackbench g=4294967295",
            "stream reads=4294967295",
            "stream t=65536",
            "stream pass=268435456",
            "stream array=1048577",
            "schbench t=1048576",
            "schbench footprint=1048577",
            "old-schbench m=4294967295",
            "old-schbench t=4294967295",
            "rpc pairs=4294967295",
            "sharing t=1048577",
        ] {
            let message = parse_workload(&text.replace(' ', ":")).unwrap_err();
            let (_, value) = text.split_once('=').unwrap();
            assert!(message.contains(value) && !message.contains('\n'), "{text}: {message}");
            assert!(
                text.starts_with("hackbench") || message.starts_with(text),
                "{text}: {message}"
            );
        }
    }

    #[test]
    fn the_largest_numbers_run() {
        for text in [
            "hackbench:g=1,f=2,s=4294967295,c=4294967295",
            "stream:t=2,reads=15,array=1048576,pass=1048576",
            "schbench:t=2,sleep=4294967295,compute=4294967295,footprint=1048576",
            "schbench:t=2,sleep=0,compute=4294967295,footprint=1048576",
            "old-schbench:m=2,t=2,spin=4294967295,sleep=4294967295",
            "old-schbench:m=2,t=2,spin=0,sleep=0",
            "rpc:pairs=2,think=4294967295,work=4294967295",
            "sharing:t=2,rounds=4294967295,gap=4294967295",
        ] {
            let machine: crate::Machine = "llc:2 core:2".parse().unwrap();
            let simulation = crate::Simulation::new(
                machine,
                crate::Cost::default(),
                crate::Config::default(),
                crate::Model::Shipped,
                parse_workload(text).unwrap(),
                1,
            );
            let report = simulation.unwrap().run(Nanos::from_millis(1));
            assert_eq!(report.stalled, 0, "{text}");
        }
    }
}
