//! Moves: how often tasks ran on another worker than before, by cause and by how far that is away. quadrille alone
//! counts them.

use crate::outcome::Counters;

/// What the names of their counters begin with; cause and distance follow.
const PREFIX: &str = "moves_";

/// Why tasks move, as the counters call it.
pub const CAUSES: [&str; 5] = ["wake", "steal", "pull", "rescue", "spawn"];

/// The smallest part of the machine that has both workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// A group of at most four hardware threads.
    Group,
    /// A last-level cache.
    Llc,
    /// A node.
    Node,
    /// The machine.
    Machine,
}

impl Distance {
    /// All of them, the nearest first.
    pub const ALL: [Self; 4] = [Self::Group, Self::Llc, Self::Node, Self::Machine];

    /// Where a task that moved so far came from, for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Group => "in the group",
            Self::Llc => "in the LLC",
            Self::Node => "in the node",
            Self::Machine => "from another",
        }
    }

    /// The last word of the counters.
    fn level(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Llc => "llc",
            Self::Node => "node",
            Self::Machine => "machine",
        }
    }
}

/// Whether this is a counter of moves.
#[must_use]
pub fn is_counter(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// The moves of one cause so far; `None` if nobody has counted.
#[must_use]
pub fn by_cause(counters: &Counters, cause: &str, distance: Distance) -> Option<u64> {
    counters.get(&format!("{PREFIX}{cause}_{}", distance.level())).copied()
}

/// The moves of all causes so far; `None` if nobody has counted.
#[must_use]
pub fn by_distance(counters: &Counters, distance: Distance) -> Option<u64> {
    let counts = CAUSES.iter().filter_map(|cause| by_cause(counters, cause, distance));
    counts.reduce(|sum, count| sum + count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_of_moves_has_its_cause_and_its_distance() {
        let runtime = quadrille::Runtime::builder().worker_threads(1).build().unwrap();
        let names: Vec<&str> = runtime.metrics().total().iter().map(|(name, _)| name).collect();
        let counters: Counters = names.iter().map(|&name| (name.to_owned(), 1)).collect();
        let moves = names.iter().filter(|name| is_counter(name)).count() as u64;
        let found = Distance::ALL.map(|distance| by_distance(&counters, distance));
        assert!(moves > 0);
        assert_eq!(found.iter().flatten().sum::<u64>(), moves, "{names:?}");
        assert_eq!(by_distance(&Counters::new(), Distance::Llc), None);
    }
}
