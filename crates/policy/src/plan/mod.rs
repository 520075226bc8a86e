//! A topology compiled into the tables that the hot path indexes.
//!
//! A plan knows workers and no longer hardware threads. Three cases, for `w` workers on `p` hardware threads:
//!
//! - `w = p`: worker `i` sits on hardware thread `i`; groups are those of the topology.
//! - `w < p`: the fewest last-level caches that hold `w` are used, near ones where there is a choice, from that of
//!   [`PlanOptions::near`] on. All but the last are filled; in the last, every core gets one worker before any gets a
//!   second. Spreading over more caches would give each worker more cache and power, but every wake would then cross
//!   caches.
//! - `w > p`: they wrap around, so that each hardware thread carries ⌊w/p⌋ or one more; groups that grow beyond their
//!   size by this are split evenly again. For tests of large machines on small ones.
//!
//! Worker, core, cache and node numbers are dense: what has no worker has no number. Worker numbers follow the tree.

mod choose;
mod map;
#[cfg(test)]
mod tests;

use alloc::{format, string::String, vec, vec::Vec};
use core::fmt;

use quadrille_topology::{CoreId, GroupSize, Grouping, LlcId, NodeId, PuId, Topology};

pub use map::GroupMap;

use crate::{GROUP_LEN_MAX, GroupId, GroupMask, WorkerId, config::Numa, numa};

/// How a [`Plan`] is compiled.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// Number of workers; `None`: one a hardware thread. More than hardware threads wrap around.
    pub workers: Option<u16>,
    /// What makes a group; the default is the workers that share a level-2 cache, at most 4, or a last-level cache of
    /// at most 4.
    pub grouping: Grouping,
    /// The groups in place of what `grouping` makes.
    pub map: Option<GroupMap>,
    /// The operating system's number of a hardware thread. Fewer workers than hardware threads begin in its last-level
    /// cache if no other holds them better; `None`, or one that the machine does not have: in the first one. Programs
    /// that share a machine and do not know of each other would all use the first caches, and leave the others idle.
    pub near: Option<u32>,
}

/// Where one worker sits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerPlan {
    /// Its hardware thread, in the topology that the plan was compiled from.
    pub pu: PuId,
    /// The operating system's number of that.
    pub os_cpu: u32,
    /// Its core, among those that have a worker.
    pub core: CoreId,
    /// Its group.
    pub group: GroupId,
    /// Its bit in the group's masks.
    pub member: u8,
    /// The members of the group on its core, itself included.
    pub siblings: GroupMask,
    /// Its last-level cache, among those that have a worker.
    pub llc: LlcId,
    /// Its NUMA node, among those that have a worker.
    pub node: NodeId,
}

/// One group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPlan {
    /// Its workers, ascending; the position is the bit in masks.
    pub members: Vec<WorkerId>,
    /// Its last-level cache; that of its first member, if a [`GroupMap`] scatters the members.
    pub llc: LlcId,
    /// Its NUMA node.
    pub node: NodeId,
    /// Its position in the LLC's list of groups: its bit in the LLC's idle summary.
    pub index_in_llc: u16,
}

/// One last-level cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LlcPlan {
    /// Its groups, ascending.
    pub groups: Vec<GroupId>,
    /// Its workers, ascending.
    pub workers: Vec<WorkerId>,
    /// Its NUMA node.
    pub node: NodeId,
    /// Its capacity in bytes, if known.
    pub size_bytes: Option<u64>,
    /// All other LLCs, nearest first; equally near ones start at a different one for each LLC.
    pub others: Vec<LlcId>,
    /// How many of `others` are on the same node; they come first.
    pub others_on_node: usize,
}

/// One NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePlan {
    /// Its LLCs, ascending.
    pub llcs: Vec<LlcId>,
    /// Its workers, ascending.
    pub workers: Vec<WorkerId>,
    /// Running tasks up to which an imbalance between nodes is tolerated. By the defaults of [`Numa`];
    /// [`Policy::new`](crate::Policy::new) enters what its configuration says.
    pub tolerance: u32,
    /// Its caches that stand for it, at most; entered like the tolerance ([`Numa::looks`]).
    pub looks: usize,
}

/// The machine as the scheduler sees it: which worker belongs where, and who is near to whom.
///
/// ```
/// use quadrille_policy::{Plan, PlanOptions, WorkerId};
/// use quadrille_topology::Topology;
///
/// let machine: Topology = "node:2 llc:2 l2:4 pu:2".parse()?;
/// let plan = Plan::compile(&machine, &PlanOptions::default())?;
/// assert_eq!(plan.workers.len(), 32);
/// assert_eq!(plan.groups[0].members, [WorkerId(0), WorkerId(1)]); // two siblings share an L2
/// assert_eq!(plan.llcs[0].others.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// By [`WorkerId`].
    pub workers: Vec<WorkerPlan>,
    /// By [`GroupId`]; ascending by LLC.
    pub groups: Vec<GroupPlan>,
    /// By [`LlcId`].
    pub llcs: Vec<LlcPlan>,
    /// By [`NodeId`].
    pub nodes: Vec<NodePlan>,
    /// Every LLC once, so that the first few are on different nodes: where tasks go that want a cache each.
    pub spread: Vec<LlcId>,
}

/// A plan that can't be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError(String);

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for PlanError {}

impl Plan {
    /// Compiles `topology` for a number of workers.
    ///
    /// # Errors
    /// If there would be no worker, if groups of no member or of more than [`GROUP_LEN_MAX`] are asked for, or if a map
    /// of groups is not one of these workers.
    pub fn compile(topology: &Topology, options: &PlanOptions) -> Result<Self, PlanError> {
        let pu_count = topology.pus().len();
        let count = options.workers.map_or(pu_count, usize::from);
        if count == 0 || pu_count == 0 {
            return Err(PlanError(format!(
                "{count} workers on {pu_count} hardware threads: expected at least one of each"
            )));
        }
        let group_len_max = match options.grouping.size {
            GroupSize::L2 => 4,
            GroupSize::Fixed(len) if (1..=GROUP_LEN_MAX).contains(&len) => usize::from(len),
            GroupSize::Fixed(len) => {
                return Err(PlanError(format!(
                    "groups of {len} workers: expected 1 to {GROUP_LEN_MAX}"
                )));
            }
        };
        let used = choose::choose(topology, count, options.near);
        let mut plan = Self::without_groups(topology, &used, count);
        if let Some(map) = &options.map {
            map.check(count)?;
            map.groups().iter().for_each(|members| plan.add_group(members));
        } else {
            for pus in used.groups(options.grouping).members() {
                plan.add_groups(&workers_on(pus, used.pus().len(), count), group_len_max);
            }
        }
        plan.order_llcs(&used);
        plan.spread = plan.spread_order();
        Ok(plan)
    }

    /// The caches of `node` whose counts stand for it when a task is spawned, or might follow its set or its waker
    /// there: all of them, or [`Numa::looks`], so that nobody looks at more on a larger machine. The first is `first`,
    /// if it is one of the node's.
    pub fn stand_ins(&self, node: NodeId, first: Option<LlcId>) -> impl Iterator<Item = LlcId> {
        let node = self.nodes.get(node.index());
        let (llcs, most) = node.map_or((&[][..], 0), |node| (&node.llcs[..], node.looks));
        let start = llcs.iter().position(|llc| Some(*llc) == first).unwrap_or(0);
        llcs[start..].iter().chain(&llcs[..start]).copied().take(most)
    }

    /// About so many workers of `node` are awake, if `awake` of the `of` workers are that are behind the caches that
    /// stand for it.
    ///
    /// ```
    /// use quadrille_policy::{NodeId, Plan, PlanOptions};
    ///
    /// let plan = Plan::compile(&"llc:8 core:4".parse()?, &PlanOptions::default())?;
    /// assert_eq!(plan.about_awake(NodeId(0), 5, 16), 10);
    /// assert_eq!(plan.about_awake(NodeId(0), 1, 32), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn about_awake(&self, node: NodeId, awake: u32, of: u32) -> u32 {
        let workers = self.nodes.get(node.index()).map_or(0, |node| node.workers.len() as u64);
        let about = (u64::from(awake) * workers).div_ceil(u64::from(of.max(1)));
        u32::try_from(about).unwrap_or(u32::MAX)
    }

    /// Cores with a worker behind the smallest last-level cache.
    pub(crate) fn smallest_llc(&self) -> u32 {
        let cores = self.llcs.iter().map(|llc| {
            let mut cores: Vec<CoreId> = llc
                .workers
                .iter()
                .map(|worker| self.workers[worker.index()].core)
                .collect();
            cores.dedup();
            cores.len()
        });
        u32::try_from(cores.min().unwrap_or(0)).unwrap_or(u32::MAX)
    }

    /// One LLC of each node, then a second of each, and so on.
    fn spread_order(&self) -> Vec<LlcId> {
        let most = self.nodes.iter().map(|node| node.llcs.len()).max().unwrap_or(0);
        let rounds = (0..most).flat_map(|round| self.nodes.iter().filter_map(move |node| node.llcs.get(round)));
        rounds.copied().collect()
    }

    /// Everything but groups and the order of LLCs; `used` is the part of `topology` that has workers.
    fn without_groups(topology: &Topology, used: &Topology, count: usize) -> Self {
        let mut plan = Self {
            workers: Vec::with_capacity(count),
            groups: Vec::new(),
            llcs: vec![LlcPlan::default(); used.llcs().len()],
            nodes: vec![NodePlan::default(); used.nodes().len()],
            spread: Vec::new(),
        };
        for llc in used.llcs() {
            plan.llcs[llc.id.index()].node = llc.node;
            plan.llcs[llc.id.index()].size_bytes = llc.size_bytes;
            plan.nodes[llc.node.index()].llcs.push(llc.id);
        }
        for pu in used.pus() {
            let whole = topology.pu_by_os_index(pu.os_index).unwrap_or(pu);
            for id in workers_on(&[pu.id], used.pus().len(), count) {
                plan.llcs[pu.llc.index()].workers.push(id);
                plan.nodes[pu.node.index()].workers.push(id);
                plan.workers.push(WorkerPlan {
                    pu: whole.id,
                    os_cpu: pu.os_index,
                    core: pu.core,
                    group: GroupId(0),
                    member: 0,
                    siblings: GroupMask(0),
                    llc: pu.llc,
                    node: pu.node,
                });
            }
        }
        for node in &mut plan.nodes {
            node.tolerance = numa::tolerance(&Numa::default(), node);
            node.looks = usize::from(Numa::default().looks);
        }
        plan
    }

    /// Adds the workers of one group of the topology, split evenly if wrapping made them too many.
    fn add_groups(&mut self, workers: &[WorkerId], len_max: usize) {
        let parts = workers.len().div_ceil(len_max);
        let (short, longer) = (workers.len() / parts, workers.len() % parts);
        let start = |part: usize| part * short + part.min(longer);
        for part in 0..parts {
            self.add_group(&workers[start(part)..start(part + 1)]);
        }
    }

    fn add_group(&mut self, members: &[WorkerId]) {
        let id = GroupId(narrow(self.groups.len()));
        let (llc, node) = {
            let first = &self.workers[members[0].index()];
            (first.llc, first.node)
        };
        for (worker, member) in members.iter().zip(0_u8..) {
            let core = self.workers[worker.index()].core;
            let on_core = |other: &WorkerId| self.workers[other.index()].core == core;
            let siblings = members
                .iter()
                .zip(0..)
                .filter(|(other, _)| on_core(other))
                .fold(0, |mask, (_, bit)| mask | 1 << bit);
            let plan = &mut self.workers[worker.index()];
            plan.group = id;
            plan.member = member;
            plan.siblings = GroupMask(siblings);
        }
        let groups = &mut self.llcs[llc.index()].groups;
        self.groups.push(GroupPlan {
            members: members.to_vec(),
            llc,
            node,
            index_in_llc: narrow(groups.len()),
        });
        groups.push(id);
    }

    /// Fills `others`: the own node first, then nodes by distance. Within a node the start rotates with the LLC, so
    /// that not all of them fall upon the same victim.
    fn order_llcs(&mut self, used: &Topology) {
        for own in 0..self.llcs.len() {
            let home = self.llcs[own].node;
            let mut nodes: Vec<NodeId> = used.nodes().iter().map(|node| node.id).collect();
            nodes.sort_by_key(|&node| (node != home, used.node_distance(home, node), node));
            let mut others = Vec::with_capacity(self.llcs.len() - 1);
            for node in nodes {
                let llcs = &self.nodes[node.index()].llcs;
                let start = own % llcs.len();
                let rotated = llcs[start..].iter().chain(&llcs[..start]);
                others.extend(rotated.filter(|llc| llc.index() != own));
            }
            let llc = &mut self.llcs[own];
            llc.others_on_node = self.nodes[home.index()].llcs.len() - 1;
            llc.others = others;
        }
    }
}

/// The workers on these hardware threads when `count` workers are spread over `pu_count` of them in order.
fn workers_on(pus: &[PuId], pu_count: usize, count: usize) -> Vec<WorkerId> {
    let (short, longer) = (count / pu_count, count % pu_count);
    let start = |pu: usize| pu * short + pu.min(longer);
    pus.iter()
        .flat_map(|pu| start(pu.index())..start(pu.index() + 1))
        .map(|worker| WorkerId(narrow(worker)))
        .collect()
}

/// There are at most 65,535 workers, hence groups.
fn narrow(index: usize) -> u16 {
    debug_assert!(index <= usize::from(u16::MAX), "index {index}");
    u16::try_from(index).unwrap_or(u16::MAX)
}
