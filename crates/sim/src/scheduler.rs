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
    /// The same, but who looks for an idle worker behind a cache goes through its workers one by one, as the kernel
    /// does, instead of asking the idle masks: what policy 2 is measured against.
    ShippedScan,
    /// One locked run queue a CPU, as in Linux 6.5. A group of the configuration is the unit in which wakers take the
    /// lock of another CPU's queue themselves; `scattered` makes units of so many CPUs across caches and nodes instead.
    KernelFaithful {
        /// CPUs of a unit that is scattered over the machine; `None`: the groups of the configuration.
        scattered: Option<u16>,
    },
    /// The same with units as configured, and a proposed change to where woken tasks go.
    KernelChanged(Change),
}

/// What proposals, and one older rule, change in the kernel's choice of a CPU for a woken task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// A busy CPU will do if it is used to at most 80 % with the task (`UTIL_FITS_CAPACITY`,
    /// 20231019160523.1582101-1-mathieu.desnoyers@efficios.com).
    Fits,
    /// The previous CPU is looked at before the chosen one, and again where the search for an idle one fails
    /// (`SELECT_BIAS_PREV`, from the same series).
    Previous,
    /// Both of these.
    FitsAndPrevious,
    /// Where utilisation does not limit the search for an idle CPU (`filter=off`), the waker's CPU does by how much it
    /// was idle lately (`SIS_PROP`, which was the rule before).
    Proportion,
    /// CPUs that share a level-2 cache with the chosen one are searched first, and the previous CPU comes last if it
    /// does not (20230530070253.33306-3-yangyicong@huawei.com).
    Clusters,
}

impl Change {
    const ALL: [(&'static str, Self); 5] = [
        ("kernel-fits", Self::Fits),
        ("kernel-previous", Self::Previous),
        ("kernel-fits-previous", Self::FitsAndPrevious),
        ("kernel-prop", Self::Proportion),
        ("kernel-clusters", Self::Clusters),
    ];

    fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, change)| *change == self);
        found.map_or("", |(name, _)| name)
    }
}

impl FromStr for Model {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, change)) = Change::ALL.iter().find(|(name, _)| *name == text) {
            return Ok(Self::KernelChanged(*change));
        }
        let scattered = text.strip_prefix("kernel-scattered:").map(str::parse::<u16>);
        match (text, scattered) {
            ("shipped", _) => Ok(Self::Shipped),
            ("shipped-scan", _) => Ok(Self::ShippedScan),
            ("kernel", _) => Ok(Self::KernelFaithful { scattered: None }),
            (_, Some(Ok(len @ 1..))) => Ok(Self::KernelFaithful { scattered: Some(len) }),
            _ => Err(format!(
                "model `{text}`: expected shipped, shipped-scan, kernel, {}, or kernel-scattered: and CPUs a unit",
                Change::ALL.map(|(name, _)| name).join(", ")
            )),
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shipped => f.write_str("shipped"),
            Self::ShippedScan => f.write_str("shipped-scan"),
            Self::KernelChanged(change) => f.write_str(change.name()),
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

    /// For how long `worker` may go on with its task from `now` on before it is asked again; zero: the task must give
    /// way. Puts `now` off by what the worker has to do first.
    fn may_run(&mut self, world: &mut World, worker: WorkerId, now: &mut Nanos) -> Nanos;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_round_trip() {
        let changed = Change::ALL.map(|(name, _)| name);
        for text in ["shipped", "shipped-scan", "kernel", "kernel-scattered:3"]
            .into_iter()
            .chain(changed)
        {
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
