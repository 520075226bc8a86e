//! Groups: the few hardware threads, at most 4 by default, that wake tasks through one queue.
//!
//! The limit of 4 and the choice of the L2 follow the discussion of "[RFC PATCH v3 2/3] sched: Introduce
//! cpus_share_l2c" (Mathieu Desnoyers, LKML, August 2023): with wake queues forced on 16, 8, 4, 2 and 1 hardware
//! threads the same hackbench took 49, 39, 34, 34 and 33 s on 2 x EPYC 9654.

use alloc::{format, vec, vec::Vec};
use core::{fmt, str::FromStr};

use crate::{Distance, GroupId, L2, Pu, PuId, Topology, TopologyError};

/// Groups of [`GroupSize::L2`] have at most this many members.
const L2_GROUP_LEN_MAX: usize = 4;

/// How to cut a machine into groups; the default is one group for each L2, split evenly if more than 4 share it, and
/// one for a whole LLC of at most 4 hardware threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Grouping {
    /// What decides the size of a group. Default: [`GroupSize::L2`].
    pub size: GroupSize,
    /// Joins neighbouring L2s of one LLC while the sum stays at 4 or fewer, also of larger LLCs. Default: false.
    /// Without effect on [`GroupSize::Fixed`].
    pub merge_small_l2: bool,
}

/// What decides the size of a group. `FromStr` and `Display` write `l2` or the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GroupSize {
    /// The hardware threads that share an L2; k of them give ⌈k/4⌉ groups whose sizes differ by at most one. SMT
    /// siblings stay together where that is possible with 4: it costs evenness if need be (3 cores of 2 give 4 + 2),
    /// and only a core of more than 4 hardware threads is cut. An LLC of at most 4 is one group, whoever shares an L2:
    /// smaller queues are hardly better, and groups of one would part workers that can help each other. Only hardware
    /// threads that the topology has count: a plan for fewer workers than there are leaves the others out.
    #[default]
    L2,
    /// This many, whatever they share: each LLC is cut in topological order, and its last group takes what is left. For
    /// experiments.
    Fixed(u16),
}

impl fmt::Display for GroupSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::L2 => f.write_str("l2"),
            Self::Fixed(len) => write!(f, "{len}"),
        }
    }
}

impl FromStr for GroupSize {
    type Err = TopologyError;

    fn from_str(text: &str) -> Result<Self, TopologyError> {
        match text.parse::<u16>() {
            _ if text == "l2" => Ok(Self::L2),
            Ok(len) if len > 0 && !text.starts_with('+') => Ok(Self::Fixed(len)),
            _ => Err(TopologyError::syntax(format!(
                "group size `{text}`: expected l2 or a number from 1 to 65535"
            ))),
        }
    }
}

/// A machine cut into groups: every hardware thread is in exactly one.
///
/// ```
/// use quadrille_topology::{Grouping, PuId, Topology};
///
/// let machine: Topology = "llc:2 core:6".parse()?;
/// let groups = machine.groups(Grouping::default());
/// assert_eq!(groups.members().len(), 4);
/// assert_eq!(groups.members()[0], [PuId(0), PuId(1), PuId(2)]);
/// assert_eq!(groups.group_of(PuId(4)).index(), 1);
/// # Ok::<(), quadrille_topology::TopologyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    members: Vec<Vec<PuId>>,
    group_of: Vec<GroupId>,
}

impl Groups {
    /// Groups as the caller lists them, for experiments such as groups scattered over LLCs and nodes. They are numbered
    /// in the order given; the members of each are sorted.
    ///
    /// # Errors
    /// [`TopologyError::is_invalid`] if a group is empty, or a hardware thread is unknown, in two groups, or in none.
    pub fn explicit(topology: &Topology, members: Vec<Vec<PuId>>) -> Result<Self, TopologyError> {
        let mut seen = vec![false; topology.pus().len()];
        for (group, pus) in members.iter().enumerate() {
            if pus.is_empty() {
                return Err(TopologyError::invalid(format!(
                    "group {group} is empty: expected at least one hardware thread"
                )));
            }
            for pu in pus {
                match seen.get_mut(pu.index()) {
                    Some(seen) if !*seen => *seen = true,
                    Some(_) => {
                        return Err(TopologyError::invalid(format!(
                            "hardware thread {} in group {group}: expected it in one group, found it in two",
                            pu.0
                        )));
                    }
                    None => {
                        return Err(TopologyError::invalid(format!(
                            "hardware thread {} in group {group}: expected one of the {} of the machine",
                            pu.0,
                            topology.pus().len()
                        )));
                    }
                }
            }
        }
        if let Some(missing) = seen.iter().position(|seen| !seen) {
            return Err(TopologyError::invalid(format!(
                "hardware thread {missing} is in no group: expected every one in a group"
            )));
        }
        Ok(Self::new(topology, members))
    }

    /// `members` is a partition of the machine's hardware threads into non-empty parts.
    fn new(topology: &Topology, mut members: Vec<Vec<PuId>>) -> Self {
        let mut group_of = vec![GroupId(0); topology.pus().len()];
        for (group, pus) in (0..u16::MAX).map(GroupId).zip(&mut members) {
            pus.sort_unstable();
            for pu in pus {
                group_of[pu.index()] = group;
            }
        }
        Self { members, group_of }
    }

    /// The members of each group, ascending: `members()[g.index()]` belongs to group `g`.
    #[must_use]
    pub fn members(&self) -> &[Vec<PuId>] {
        &self.members
    }

    /// How many groups there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is no group, which is so of a machine without hardware threads only.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The group of a hardware thread.
    ///
    /// # Panics
    /// If the machine has no such hardware thread.
    #[must_use]
    pub fn group_of(&self, pu: PuId) -> GroupId {
        self.group_of[pu.index()]
    }

    /// How far two hardware threads are from each other, [`Distance::Group`] included. Two members of one group that
    /// do not share an LLC (which takes [`Groups::explicit`]) are as far as the machine puts them.
    ///
    /// # Panics
    /// If the machine has no such hardware thread.
    #[must_use]
    pub fn distance(&self, topology: &Topology, a: PuId, b: PuId) -> Distance {
        match topology.distance(a, b) {
            Distance::Llc if self.group_of(a) == self.group_of(b) => Distance::Group,
            distance => distance,
        }
    }
}

impl Topology {
    /// Cuts the machine into groups, numbered in topological order.
    ///
    /// # Panics
    /// If `grouping` asks for groups of 0.
    #[must_use]
    #[track_caller]
    pub fn groups(&self, grouping: Grouping) -> Groups {
        let cut = |llc: &crate::Llc| match grouping.size {
            GroupSize::Fixed(len) => {
                assert!(len > 0, "groups of 0 hardware threads: expected at least 1");
                let pus: Vec<PuId> = llc.pus.iter().collect();
                pus.chunks(usize::from(len)).map(<[PuId]>::to_vec).collect()
            }
            GroupSize::L2 if llc.pus.len() <= L2_GROUP_LEN_MAX => vec![llc.pus.iter().collect()],
            GroupSize::L2 if grouping.merge_small_l2 => merged(self, self.l2s_of(llc.id)),
            GroupSize::L2 => self
                .l2s_of(llc.id)
                .iter()
                .flat_map(|l2| split(self, l2))
                .collect::<Vec<_>>(),
        };
        Groups::new(self, self.llcs().iter().flat_map(cut).collect())
    }
}

/// Joins neighbours while the sum stays small; an L2 that must be split joins nobody.
fn merged(topology: &Topology, l2s: &[L2]) -> Vec<Vec<PuId>> {
    let mut groups: Vec<Vec<PuId>> = Vec::new();
    for l2 in l2s {
        match groups.last_mut() {
            Some(last) if last.len() + l2.pus.len() <= L2_GROUP_LEN_MAX => last.extend(l2.pus.iter()),
            _ => groups.extend(split(topology, l2)),
        }
    }
    groups
}

/// The hardware threads of one L2 in groups of at most 4, evenly, siblings together.
fn split(topology: &Topology, l2: &L2) -> Vec<Vec<PuId>> {
    if l2.pus.len() <= L2_GROUP_LEN_MAX {
        return vec![l2.pus.iter().collect()];
    }
    let cores = topology.cores_of(l2.id);
    // What must stay together; a core of more than 4 is cut evenly first.
    let units: Vec<Vec<PuId>> = cores
        .iter()
        .flat_map(|core| even_chunks(topology.pus_of(core.pus)))
        .collect();
    let len = units[0].len();
    if units.iter().all(|unit| unit.len() == len) {
        let per_group = L2_GROUP_LEN_MAX / len;
        return even_parts(&units, units.len().div_ceil(per_group))
            .map(<[Vec<PuId>]>::concat)
            .collect();
    }
    let mut count = l2.pus.len().div_ceil(L2_GROUP_LEN_MAX);
    loop {
        // Ends at the latest with a group for each unit, since no unit exceeds 4.
        let groups = packed(&units, count);
        if groups.iter().all(|group| group.len() <= L2_GROUP_LEN_MAX) {
            return groups;
        }
        count += 1;
    }
}

/// Units of different sizes into `count` groups, the largest first, each to the emptiest group.
fn packed(units: &[Vec<PuId>], count: usize) -> Vec<Vec<PuId>> {
    let mut order: Vec<&Vec<PuId>> = units.iter().collect();
    order.sort_by_key(|unit| core::cmp::Reverse(unit.len()));
    let mut groups = vec![Vec::new(); count];
    for unit in order {
        if let Some(emptiest) = groups.iter_mut().min_by_key(|group: &&mut Vec<PuId>| group.len()) {
            emptiest.extend_from_slice(unit);
        }
    }
    groups.retain(|group| !group.is_empty());
    for group in &mut groups {
        group.sort_unstable();
    }
    groups.sort_unstable();
    groups
}

/// The hardware threads of a core, in as few even pieces of at most 4 as possible.
fn even_chunks(pus: &[Pu]) -> Vec<Vec<PuId>> {
    even_parts(pus, pus.len().div_ceil(L2_GROUP_LEN_MAX))
        .map(|part| part.iter().map(|pu| pu.id).collect())
        .collect()
}

/// `count` consecutive parts whose lengths differ by at most one, the longer ones first.
fn even_parts<T>(items: &[T], count: usize) -> impl Iterator<Item = &[T]> {
    let (short, longer) = (items.len() / count, items.len() % count);
    let start = move |i: usize| i * short + i.min(longer);
    (0..count).map(move |i| &items[start(i)..start(i + 1)])
}
