//! Why a task runs elsewhere than before, and how far that is.

use crate::{Level, Plan, WorkerId};

/// Why a task runs on another worker than last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The wake-up put it there.
    Wake,
    /// A worker without work took it from a queue that others were to serve.
    Steal,
    /// The last-level cache that its coupling set prefers, or that its only waker is in, fetched it.
    Pull,
    /// It was stuck behind a worker that does not finish, or in a group whose members did not come.
    Rescue,
    /// It was put there when it was spawned; this is its first run.
    Spawn,
}

impl Cause {
    /// Every cause, in the order of declaration.
    pub const ALL: [Self; 5] = [Self::Wake, Self::Steal, Self::Pull, Self::Rescue, Self::Spawn];
}

impl Plan {
    /// How far two workers are from each other. Members of one group that do not share a last-level cache, which takes
    /// an explicit map, are as far as the machine puts them.
    ///
    /// # Panics
    /// If the plan has no such worker.
    #[must_use]
    pub fn level(&self, a: WorkerId, b: WorkerId) -> Level {
        let (a, b) = (&self.workers[a.index()], &self.workers[b.index()]);
        if a.node != b.node {
            Level::Machine
        } else if a.llc != b.llc {
            Level::Node
        } else if a.group != b.group {
            Level::Llc
        } else {
            Level::Group
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Level, WorkerId,
        testing::{NODES, policy},
    };

    #[test]
    fn levels_are_those_of_the_machine() {
        let plan = policy(NODES, "default").plan;
        for (a, b, level) in [
            (0, 0, Level::Group),
            (0, 3, Level::Group),
            (3, 4, Level::Llc),
            (7, 8, Level::Node),
            (8, 7, Level::Node),
            (15, 16, Level::Machine),
            (0, 31, Level::Machine),
        ] {
            assert_eq!(plan.level(WorkerId(a), WorkerId(b)), level, "{a} {b}");
        }
    }
}
