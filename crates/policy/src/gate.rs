//! Success-proportional gates on the non-local levels of a search.

use crate::Rng;

/// How far away a searcher looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The searcher's own group.
    Group,
    /// Its last-level cache.
    Llc,
    /// Its NUMA node.
    Node,
    /// The rest of the machine.
    Machine,
}

/// One gate a level, kept by a worker for itself.
#[derive(Clone, Debug, Default)]
pub struct Gates {
    _private: (),
}

impl Gates {
    /// Whether to look at `level` this time.
    #[inline]
    pub fn attempt(&mut self, _level: Level, _rng: &mut Rng) -> bool {
        true
    }

    /// Tells the gate what an attempt at `level` found.
    #[inline]
    pub fn record(&mut self, _level: Level, _found: bool) {}
}
