//! From where each hardware thread sits to the tables.

use alloc::{collections::BTreeMap, vec::Vec};

use super::{Core, L2, Llc, Node, Pu, PuSpan, Topology};
use crate::{CoreId, L2Id, LlcId, NodeId, PuId};

/// Where a hardware thread sits: a key for each level. Keys need be unique within the parent only, except that
/// `node` is the operating system's number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) os_index: u32,
    pub(crate) node: u32,
    pub(crate) llc: u32,
    pub(crate) l2: u32,
    pub(crate) core: u32,
}

impl Topology {
    /// Makes the tables of a machine from where each hardware thread sits. At every level the parts are numbered in the
    /// order of their first hardware thread in `places`, and parts with equal keys under different parents are
    /// different parts.
    ///
    /// The caller keeps to [`Topology::PU_COUNT_MAX`] and to unique CPU numbers.
    pub(crate) fn build(places: impl IntoIterator<Item = Place>) -> Self {
        let mut ranks = Ranks::default();
        let mut ranked: Vec<Place> = places.into_iter().map(|p| ranks.nested(&p)).collect();
        ranked.sort_by_key(|rank| (rank.node, rank.llc, rank.l2, rank.core));
        assert!(ranked.len() <= Self::PU_COUNT_MAX, "more than 65,535 hardware threads");

        let mut t = Self::empty();
        let mut last: Option<Place> = None;
        for (i, rank) in (0..u16::MAX).zip(ranked) {
            t.grow(i, &rank, last.as_ref(), &ranks);
            t.pus.push(Pu {
                id: PuId(i),
                os_index: rank.os_index,
                core: t.cores[t.cores.len() - 1].id,
                l2: t.l2s[t.l2s.len() - 1].id,
                llc: t.llcs[t.llcs.len() - 1].id,
                node: t.nodes[t.nodes.len() - 1].id,
            });
            last = Some(rank);
        }
        t.by_os = t.pus.iter().map(|pu| pu.id).collect();
        t.by_os.sort_by_key(|pu| t.pus[pu.index()].os_index);
        t.set_distances(Self::default_distance);
        t
    }

    fn empty() -> Self {
        Self {
            pus: Vec::new(),
            cores: Vec::new(),
            l2s: Vec::new(),
            llcs: Vec::new(),
            nodes: Vec::new(),
            by_os: Vec::new(),
            distances: Vec::new(),
        }
    }

    /// Makes room for hardware thread `i`: opens the parts in which it is the first, lengthens the others by one.
    fn grow(&mut self, i: u16, rank: &Place, last: Option<&Place>, ranks: &Ranks) {
        let new = |level: fn(&Place) -> u32| last.is_none_or(|l| level(l) != level(rank));
        let pus = PuSpan { first: i, len: 1 };
        if new(|p| p.node) {
            let id = NodeId(next_id(&self.nodes));
            let os_index = ranks.node_os[rank.node as usize];
            self.nodes.push(Node { id, os_index, pus });
        } else if let Some(part) = self.nodes.last_mut() {
            part.pus.len += 1;
        }
        let node = NodeId(next_id(&self.nodes) - 1);
        if new(|p| p.llc) {
            let (id, size_bytes) = (LlcId(next_id(&self.llcs)), None);
            self.llcs.push(Llc {
                id,
                node,
                size_bytes,
                pus,
            });
        } else if let Some(part) = self.llcs.last_mut() {
            part.pus.len += 1;
        }
        let llc = LlcId(next_id(&self.llcs) - 1);
        if new(|p| p.l2) {
            let (id, size_bytes) = (L2Id(next_id(&self.l2s)), None);
            self.l2s.push(L2 {
                id,
                llc,
                node,
                size_bytes,
                pus,
            });
        } else if let Some(part) = self.l2s.last_mut() {
            part.pus.len += 1;
        }
        let l2 = L2Id(next_id(&self.l2s) - 1);
        if new(|p| p.core) {
            let id = CoreId(next_id(&self.cores));
            self.cores.push(Core { id, l2, llc, node, pus });
        } else if let Some(part) = self.cores.last_mut() {
            part.pus.len += 1;
        }
    }
}

/// Numbers the parts of each level in the order of their first appearance.
#[derive(Debug, Default)]
struct Ranks {
    node_os: Vec<u32>,
    node: BTreeMap<u32, u32>,
    llc: BTreeMap<(u32, u32), u32>,
    l2: BTreeMap<(u32, u32), u32>,
    core: BTreeMap<(u32, u32), u32>,
}

impl Ranks {
    /// The place with its keys replaced by ranks that are unique in the machine.
    fn nested(&mut self, place: &Place) -> Place {
        let node = rank(&mut self.node, place.node);
        if node as usize == self.node_os.len() {
            self.node_os.push(place.node);
        }
        let llc = rank(&mut self.llc, (node, place.llc));
        let l2 = rank(&mut self.l2, (llc, place.l2));
        let core = rank(&mut self.core, (l2, place.core));
        Place {
            os_index: place.os_index,
            node,
            llc,
            l2,
            core,
        }
    }
}

fn rank<K: Ord>(ranks: &mut BTreeMap<K, u32>, key: K) -> u32 {
    let next = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
    *ranks.entry(key).or_insert(next)
}

/// The id of the next element; a table is never longer than the hardware threads are many.
fn next_id<T>(table: &[T]) -> u16 {
    u16::try_from(table.len()).unwrap_or(u16::MAX)
}
