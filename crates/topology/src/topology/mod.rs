//! The machine as dense tables.

mod build;

use alloc::{vec, vec::Vec};
use core::ops::Range;

pub(crate) use self::build::Place;
use crate::{CoreId, L2Id, LlcId, NodeId, PuId, PuSet};

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

/// Consecutive hardware threads: what belongs to one core, cache or node, because [`PuId`]s follow the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PuSpan {
    first: u16,
    len: u16,
}

impl PuSpan {
    /// The first hardware thread; every span has one.
    #[must_use]
    pub const fn first(self) -> PuId {
        PuId(self.first)
    }

    /// How many hardware threads, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a span is never empty")]
    #[must_use]
    pub const fn len(self) -> usize {
        self.len as usize
    }

    /// Whether the hardware thread is one of them.
    #[must_use]
    pub const fn contains(self, pu: PuId) -> bool {
        pu.0 >= self.first && pu.0 - self.first < self.len
    }

    /// As a range to slice [`Topology::pus`] with.
    #[must_use]
    pub const fn range(self) -> Range<usize> {
        self.first as usize..self.first as usize + self.len as usize
    }

    /// The hardware threads, ascending.
    pub fn iter(self) -> impl ExactSizeIterator<Item = PuId> {
        // At most 65,535 hardware threads, so the end fits.
        (self.first..self.first + self.len).map(PuId)
    }
}

/// One physical core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Core {
    /// Its dense index.
    pub id: CoreId,
    /// Its level-2 cache.
    pub l2: L2Id,
    /// Its last-level cache.
    pub llc: LlcId,
    /// Its NUMA node.
    pub node: NodeId,
    /// Its hardware threads, SMT siblings of each other.
    pub pus: PuSpan,
}

/// One level-2 cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct L2 {
    /// Its dense index.
    pub id: L2Id,
    /// The last-level cache behind it.
    pub llc: LlcId,
    /// Its NUMA node.
    pub node: NodeId,
    /// Its capacity in bytes, if known.
    pub size_bytes: Option<u64>,
    /// The hardware threads that share it.
    pub pus: PuSpan,
}

/// One last-level-cache domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Llc {
    /// Its dense index.
    pub id: LlcId,
    /// Its NUMA node.
    pub node: NodeId,
    /// Its capacity in bytes, if known.
    pub size_bytes: Option<u64>,
    /// The hardware threads that share it.
    pub pus: PuSpan,
}

/// One NUMA node with hardware threads; nodes that are memory only do not appear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// Its dense index.
    pub id: NodeId,
    /// The number the operating system gives it.
    pub os_index: u32,
    /// Its hardware threads.
    pub pus: PuSpan,
}

/// A machine as a value: hardware threads in topological order (node, LLC, L2, core).
///
/// Every level nests in the one above it and has at least one member per parent: a machine without L2 information has
/// one L2 a core, a machine without nodes has one. A cache that spans two nodes is cut at the border.
///
/// ```
/// use quadrille_topology::{PuId, Topology};
///
/// let machine: Topology = "node:2 llc:4 core:8 pu:2".parse()?;
/// assert_eq!(machine.pus().len(), 128);
/// assert_eq!(machine.llcs().len(), 8);
/// assert_eq!(machine.siblings(PuId(5)).len(), 2);
/// assert_eq!(machine.to_string(), "node:2 llc:4 core:8 pu:2");
/// # Ok::<(), quadrille_topology::TopologyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    pus: Vec<Pu>,
    cores: Vec<Core>,
    l2s: Vec<L2>,
    llcs: Vec<Llc>,
    nodes: Vec<Node>,
    /// All hardware threads by ascending CPU number.
    by_os: Vec<PuId>,
    /// Row-major, `nodes.len()` squared.
    distances: Vec<u16>,
}

impl Topology {
    /// A machine has at most this many hardware threads: 65,535.
    pub const PU_COUNT_MAX: usize = u16::MAX as usize;

    /// A machine that a string describes has at most this many nodes, as many as Linux knows: the matrix of their
    /// distances then takes 2 MiB.
    pub const NODE_COUNT_MAX: usize = 1024;

    /// A machine that a string describes has at most this many LLCs. A scheduler may well keep tables of all pairs of
    /// them.
    pub const LLC_COUNT_MAX: usize = 4096;

    /// What a node's own memory costs in the unit of [`Topology::node_distance`]: 10, by ACPI's convention.
    pub const LOCAL_DISTANCE: u16 = 10;

    /// What another node's memory costs where nothing better is known: 20, by ACPI's convention.
    pub const REMOTE_DISTANCE: u16 = 20;

    /// A machine without structure: `count` hardware threads, each a core with an L2 of its own, in one LLC of one
    /// node.
    #[must_use]
    pub fn flat(count: u16) -> Self {
        Self::flat_over(&(0..u32::from(count)).collect())
    }

    /// A machine without structure whose hardware threads are the given CPUs: each a core with an L2 of its own, in one
    /// LLC of one node. CPUs past the 65,535th are left out.
    #[must_use]
    pub fn flat_over(cpus: &PuSet) -> Self {
        let pus = cpus.iter().take(Self::PU_COUNT_MAX);
        Self::build(pus.map(|os_index| Place {
            os_index,
            node: 0,
            llc: 0,
            l2: os_index,
            core: os_index,
        }))
    }

    /// The hardware threads, in topological order: `pus()[i].id == PuId(i)`.
    #[must_use]
    pub fn pus(&self) -> &[Pu] {
        &self.pus
    }

    /// The cores, in topological order: `cores()[i].id == CoreId(i)`.
    #[must_use]
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// The level-2 caches, in topological order: `l2s()[i].id == L2Id(i)`.
    #[must_use]
    pub fn l2s(&self) -> &[L2] {
        &self.l2s
    }

    /// The last-level caches, in topological order: `llcs()[i].id == LlcId(i)`.
    #[must_use]
    pub fn llcs(&self) -> &[Llc] {
        &self.llcs
    }

    /// The nodes with hardware threads: `nodes()[i].id == NodeId(i)`.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The hardware threads of a core, cache or node.
    ///
    /// # Panics
    /// If the span is of another, larger machine.
    #[must_use]
    pub fn pus_of(&self, span: PuSpan) -> &[Pu] {
        &self.pus[span.range()]
    }

    /// The cores behind an L2.
    #[must_use]
    pub fn cores_of(&self, l2: L2Id) -> &[Core] {
        children(&self.cores, l2, |core| core.l2)
    }

    /// The L2s in front of an LLC.
    #[must_use]
    pub fn l2s_of(&self, llc: LlcId) -> &[L2] {
        children(&self.l2s, llc, |l2| l2.llc)
    }

    /// The LLCs of a node.
    #[must_use]
    pub fn llcs_of(&self, node: NodeId) -> &[Llc] {
        children(&self.llcs, node, |llc| llc.node)
    }

    /// The hardware threads of the same core, the asked one included.
    ///
    /// # Panics
    /// If the machine has no such hardware thread.
    #[must_use]
    pub fn siblings(&self, pu: PuId) -> &[Pu] {
        self.pus_of(self.cores[self.pus[pu.index()].core.index()].pus)
    }

    /// The hardware thread with this number of the operating system.
    #[must_use]
    pub fn pu_by_os_index(&self, os_index: u32) -> Option<&Pu> {
        let found = self
            .by_os
            .binary_search_by_key(&os_index, |pu| self.pus[pu.index()].os_index);
        Some(&self.pus[self.by_os[found.ok()?].index()])
    }

    /// All CPU numbers, as an affinity mask.
    #[must_use]
    pub fn os_set(&self) -> PuSet {
        self.pus.iter().map(|pu| pu.os_index).collect()
    }

    /// The CPU numbers of a core, cache or node, as an affinity mask.
    ///
    /// # Panics
    /// If the span is of another, larger machine.
    #[must_use]
    pub fn os_set_of(&self, span: PuSpan) -> PuSet {
        self.pus_of(span).iter().map(|pu| pu.os_index).collect()
    }

    /// What memory of node `to` costs node `from`, relative to 10 for its own (ACPI SLIT).
    ///
    /// # Panics
    /// If the machine has no such node.
    #[must_use]
    pub fn node_distance(&self, from: NodeId, to: NodeId) -> u16 {
        assert!(to.index() < self.nodes.len(), "no node {}", to.0);
        self.distances[from.index() * self.nodes.len() + to.index()]
    }

    /// What is left of the machine when only these CPUs may be used, with dense ids again; CPUs that the machine does
    /// not have are ignored, and what keeps no CPU disappears. Nothing in common gives a machine without hardware
    /// threads.
    ///
    /// ```
    /// use quadrille_topology::Topology;
    ///
    /// let machine: Topology = "node:2 core:4".parse()?;
    /// let half = machine.restrict(&"1-2,7".parse()?);
    /// assert_eq!(half.pus().iter().map(|pu| pu.os_index).collect::<Vec<_>>(), [1, 2, 7]);
    /// assert_eq!(half.nodes().len(), 2);
    /// # Ok::<(), quadrille_topology::TopologyError>(())
    /// ```
    #[must_use]
    pub fn restrict(&self, allowed: &PuSet) -> Self {
        let kept: Vec<&Pu> = self.pus.iter().filter(|pu| allowed.contains(pu.os_index)).collect();
        let mut part = Self::build(kept.iter().map(|pu| Place {
            os_index: pu.os_index,
            node: self.nodes[pu.node.index()].os_index,
            llc: u32::from(pu.llc.0),
            l2: u32::from(pu.l2.0),
            core: u32::from(pu.core.0),
        }));
        // The order of the tree is kept, so the i-th hardware thread of the part is the i-th kept one.
        let whole = |span: PuSpan| kept[span.first().index()];
        for i in 0..part.l2s.len() {
            part.l2s[i].size_bytes = self.l2s[whole(part.l2s[i].pus).l2.index()].size_bytes;
        }
        for i in 0..part.llcs.len() {
            part.llcs[i].size_bytes = self.llcs[whole(part.llcs[i].pus).llc.index()].size_bytes;
        }
        let nodes: Vec<NodeId> = part.nodes.iter().map(|node| whole(node.pus).node).collect();
        part.set_distances(|from, to| self.node_distance(nodes[from.index()], nodes[to.index()]));
        part
    }

    pub(crate) fn default_distance(from: NodeId, to: NodeId) -> u16 {
        if from == to {
            Self::LOCAL_DISTANCE
        } else {
            Self::REMOTE_DISTANCE
        }
    }

    pub(crate) fn set_distances(&mut self, distance: impl Fn(NodeId, NodeId) -> u16) {
        let count = self.nodes.len();
        self.distances = vec![0; count * count];
        for from in &self.nodes {
            for to in &self.nodes {
                self.distances[from.id.index() * count + to.id.index()] = distance(from.id, to.id);
            }
        }
    }

    pub(crate) fn set_node_os_index(&mut self, node: NodeId, os_index: u32) {
        self.nodes[node.index()].os_index = os_index;
    }

    /// Tells each L2 its capacity, asked by its first CPU.
    pub(crate) fn set_l2_sizes(&mut self, size_bytes: impl Fn(&Pu) -> Option<u64>) {
        for part in &mut self.l2s {
            part.size_bytes = size_bytes(&self.pus[part.pus.first().index()]);
        }
    }

    /// Tells each LLC its capacity, asked by its first CPU.
    pub(crate) fn set_llc_sizes(&mut self, size_bytes: impl Fn(&Pu) -> Option<u64>) {
        for part in &mut self.llcs {
            part.size_bytes = size_bytes(&self.pus[part.pus.first().index()]);
        }
    }
}

/// The run of elements whose parent is `parent`, in a table sorted by parent.
fn children<T, P: Ord>(table: &[T], parent: P, parent_of: impl Fn(&T) -> P) -> &[T] {
    let start = table.partition_point(|x| parent_of(x) < parent);
    let end = table.partition_point(|x| parent_of(x) <= parent);
    &table[start..end]
}
