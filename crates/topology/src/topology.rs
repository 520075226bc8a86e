//! The machine as dense tables.

use alloc::vec::Vec;

use crate::{CoreId, L2Id, LlcId, NodeId, PuId};

/// One hardware thread and where it sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pu {
    /// Its dense index.
    pub id: PuId,
    /// The number the operating system gives it; never assumed to be contiguous.
    pub os_index: u32,
    /// Its core; hardware threads of one core are SMT siblings.
    pub core: CoreId,
    /// Its level-2 cache.
    pub l2: L2Id,
    /// Its last-level cache.
    pub llc: LlcId,
    /// Its NUMA node.
    pub node: NodeId,
}

/// A machine as a value: hardware threads in topological order (node, LLC, L2, core).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    pus: Vec<Pu>,
}

impl Topology {
    /// The hardware threads, in topological order: `pus()[i].id == PuId(i)`.
    #[must_use]
    pub fn pus(&self) -> &[Pu] {
        &self.pus
    }

    /// A machine without structure: `count` hardware threads, each a core with an L2 of its own, in one LLC of one node.
    #[must_use]
    pub fn flat(count: u16) -> Self {
        let pus = (0..count)
            .map(|i| Pu {
                id: PuId(i),
                os_index: u32::from(i),
                core: CoreId(i),
                l2: L2Id(i),
                llc: LlcId(0),
                node: NodeId(0),
            })
            .collect();
        Self { pus }
    }
}
