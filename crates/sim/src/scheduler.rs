//! What a model of a scheduler is asked.

use std::fmt;
use std::str::FromStr;

use quadrille_policy::{Nanos, WorkerId};

use crate::workload::TaskId;
use crate::world::World;

/// Which scheduler is simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Model {
    /// The runtime's mechanism around the policies.
    #[default]
    Shipped,
}

impl FromStr for Model {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "shipped" => Ok(Self::Shipped),
            _ => Err(format!("model `{text}`: expected shipped")),
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Shipped => "shipped",
        })
    }
}

/// Why a task is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It was woken.
    Woken,
    /// It gave way, by itself or because its time was up.
    Yielded,
    /// It is new.
    Spawned,
}

/// What a worker without a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It runs a task from `at` on.
    Run {
        /// Which.
        task: TaskId,
        /// When it begins.
        at: Nanos,
    },
    /// It asks again then.
    At(Nanos),
    /// It sleeps until somebody [continues](World::continue_at) it.
    Sleep,
}

/// The mechanism around the decisions.
pub(crate) trait Scheduler: fmt::Debug {
    /// What `worker`, which has no task, does at `now`.
    fn next(&mut self, world: &mut World, worker: WorkerId, now: Nanos) -> Next;

    /// Queues a task that became ready through `by` (`None`: through no worker); returns how long that takes `by`.
    fn ready(&mut self, world: &mut World, task: TaskId, by: Option<WorkerId>, why: Why, now: Nanos) -> Nanos;

    /// `worker`'s task waits or has ended; returns how long it takes the worker to note that.
    fn left(&mut self, world: &mut World, worker: WorkerId, now: Nanos) -> Nanos;

    /// For how long `worker` may go on with its task at `now` before it is asked again; zero: the task must give way.
    fn may_run(&mut self, world: &World, worker: WorkerId, now: Nanos) -> Nanos;
}
