//! What a model of a scheduler is asked.

use std::fmt;
use std::str::FromStr;

use quadrille_policy::{Nanos, WorkerId};

use crate::workload::TaskId;
use crate::world::World;

/// Which scheduler is simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Model {
    /// The runtime's mechanism around the policies.
    #[default]
    Shipped,
    /// One locked run queue a CPU, as in Linux 6.5. A group of the configuration is the unit in which wakers take the lock
    /// of another CPU's queue themselves; `scattered` makes units of so many CPUs across caches and nodes instead.
    KernelFaithful {
        /// CPUs of a unit that is scattered over the machine; `None`: the groups of the configuration.
        scattered: Option<u16>,
    },
}

impl FromStr for Model {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let scattered = text.strip_prefix("kernel-scattered:").map(str::parse::<u16>);
        match (text, scattered) {
            ("shipped", _) => Ok(Self::Shipped),
            ("kernel", _) => Ok(Self::KernelFaithful { scattered: None }),
            (_, Some(Ok(len @ 1..))) => Ok(Self::KernelFaithful { scattered: Some(len) }),
            _ => Err(format!(
                "model `{text}`: expected shipped, kernel, or kernel-scattered: and CPUs a unit"
            )),
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shipped => f.write_str("shipped"),
            Self::KernelFaithful { scattered: None } => f.write_str("kernel"),
            Self::KernelFaithful { scattered: Some(len) } => write!(f, "kernel-scattered:{len}"),
        }
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

    /// For how long `worker` may go on with its task from `now` on before it is asked again; zero: the task must give way.
    /// Puts `now` off by what the worker has to do first.
    fn may_run(&mut self, world: &mut World, worker: WorkerId, now: &mut Nanos) -> Nanos;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_round_trip() {
        for text in ["shipped", "kernel", "kernel-scattered:3"] {
            assert_eq!(text.parse::<Model>().unwrap().to_string(), text);
        }
        for text in ["", "linux", "kernel-scattered:0", "kernel-scattered:x"] {
            assert!(
                text.parse::<Model>().unwrap_err().contains("expected shipped"),
                "{text}"
            );
        }
    }
}
