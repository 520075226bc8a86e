//! How far two hardware threads are from each other.

use core::fmt;

use crate::{PuId, Topology};

/// The nearest thing that two hardware threads share; `Ord` sorts near before far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// They are the same hardware thread.
    Same,
    /// SMT siblings: the same core.
    Core,
    /// The same group and the same LLC. A topology alone knows no groups, see
    /// [`Groups::distance`](crate::Groups::distance).
    Group,
    /// The same last-level cache.
    Llc,
    /// The same NUMA node.
    Node,
    /// Different nodes; [`Topology::node_distance`] says how far.
    Remote,
}

impl Distance {
    /// Every distance, near before far: `ALL[d as usize] == d`.
    pub const ALL: [Self; 6] = [Self::Same, Self::Core, Self::Group, Self::Llc, Self::Node, Self::Remote];

    /// One lower-case word, as metrics and tables print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Core => "core",
            Self::Group => "group",
            Self::Llc => "llc",
            Self::Node => "node",
            Self::Remote => "remote",
        }
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Topology {
    /// How far two hardware threads are from each other, never [`Distance::Group`].
    ///
    /// # Panics
    /// If the machine has no such hardware thread.
    ///
    /// ```
    /// use quadrille_topology::{Distance, PuId, Topology};
    ///
    /// let machine: Topology = "node:2 llc:2 core:2 pu:2".parse()?;
    /// assert_eq!(machine.distance(PuId(0), PuId(1)), Distance::Core);
    /// assert_eq!(machine.distance(PuId(0), PuId(2)), Distance::Llc);
    /// assert_eq!(machine.distance(PuId(0), PuId(4)), Distance::Node);
    /// assert_eq!(machine.distance(PuId(0), PuId(8)), Distance::Remote);
    /// # Ok::<(), quadrille_topology::TopologyError>(())
    /// ```
    #[must_use]
    pub fn distance(&self, a: PuId, b: PuId) -> Distance {
        let (a, b) = (&self.pus()[a.index()], &self.pus()[b.index()]);
        if a.id == b.id {
            Distance::Same
        } else if a.core == b.core {
            Distance::Core
        } else if a.llc == b.llc {
            Distance::Llc
        } else if a.node == b.node {
            Distance::Node
        } else {
            Distance::Remote
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_sorted_and_indexed_by_value() {
        for (i, d) in Distance::ALL.into_iter().enumerate() {
            assert_eq!(d as usize, i);
        }
        assert!(Distance::ALL.is_sorted());
    }
}
