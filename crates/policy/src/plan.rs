//! A topology compiled into the tables that the hot path indexes.

use alloc::vec::Vec;
use core::fmt;

use quadrille_topology::{CoreId, LlcId, NodeId, PuId, Topology};

use crate::{GroupId, WorkerId};

/// How a [`Plan`] is compiled.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// Number of workers; `None`: one a hardware thread. More than hardware threads wrap around.
    pub workers: Option<u16>,
}

/// Where one worker sits.
#[derive(Clone, Debug)]
pub struct WorkerPlan {
    /// Its hardware thread.
    pub pu: PuId,
    /// The operating system's number of that.
    pub os_cpu: u32,
    /// Its core.
    pub core: CoreId,
    /// Its group.
    pub group: GroupId,
    /// Its bit in the group's masks.
    pub member: u8,
    /// Its last-level cache.
    pub llc: LlcId,
    /// Its NUMA node.
    pub node: NodeId,
}

/// One group.
#[derive(Clone, Debug)]
pub struct GroupPlan {
    /// Its workers; the position is the bit in masks.
    pub members: Vec<WorkerId>,
    /// Its last-level cache.
    pub llc: LlcId,
    /// Its NUMA node.
    pub node: NodeId,
    /// Its position in the LLC's list of groups: its bit in the LLC's idle summary.
    pub index_in_llc: u16,
}

/// One last-level cache.
#[derive(Clone, Debug)]
pub struct LlcPlan {
    /// Its groups.
    pub groups: Vec<GroupId>,
    /// Its workers.
    pub workers: Vec<WorkerId>,
    /// Its NUMA node.
    pub node: NodeId,
    /// All other LLCs, nearest first.
    pub others: Vec<LlcId>,
    /// How many of `others` are on the same node.
    pub others_on_node: usize,
}

/// One NUMA node.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// Its LLCs.
    pub llcs: Vec<LlcId>,
    /// Its workers.
    pub workers: Vec<WorkerId>,
    /// Running tasks up to which an imbalance between nodes is tolerated.
    pub tolerance: u32,
}

/// The machine as the scheduler sees it: which worker belongs where, and who is near to whom.
#[derive(Clone, Debug)]
pub struct Plan {
    /// By [`WorkerId`].
    pub workers: Vec<WorkerPlan>,
    /// By [`GroupId`].
    pub groups: Vec<GroupPlan>,
    /// By [`LlcId`].
    pub llcs: Vec<LlcPlan>,
    /// By [`NodeId`].
    pub nodes: Vec<NodePlan>,
}

/// A plan that can't be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError(pub(crate) alloc::string::String);

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
    /// If there would be no worker.
    pub fn compile(topology: &Topology, options: &PlanOptions) -> Result<Self, PlanError> {
        let pus = topology.pus();
        let count = options.workers.map_or(pus.len(), usize::from);
        if count == 0 || pus.is_empty() {
            return Err(PlanError("a plan needs at least one worker and one hardware thread".into()));
        }
        let mut plan = Self { workers: Vec::new(), groups: Vec::new(), llcs: Vec::new(), nodes: Vec::new() };
        for i in 0..count {
            let pu = pus[i % pus.len()];
            plan.add_worker(WorkerId(u16::try_from(i).unwrap_or(u16::MAX)), pu);
        }
        Ok(plan)
    }

    fn add_worker(&mut self, id: WorkerId, pu: quadrille_topology::Pu) {
        if self.nodes.is_empty() {
            self.nodes.push(NodePlan { llcs: alloc::vec![LlcId(0)], workers: Vec::new(), tolerance: 2 });
            self.llcs.push(LlcPlan {
                groups: Vec::new(),
                workers: Vec::new(),
                node: NodeId(0),
                others: Vec::new(),
                others_on_node: 0,
            });
        }
        let group = GroupId(id.0 / 4);
        if group.index() == self.groups.len() {
            self.groups.push(GroupPlan {
                members: Vec::new(),
                llc: LlcId(0),
                node: NodeId(0),
                index_in_llc: group.0,
            });
            self.llcs[0].groups.push(group);
        }
        let member = self.groups[group.index()].members.len();
        self.groups[group.index()].members.push(id);
        self.llcs[0].workers.push(id);
        self.nodes[0].workers.push(id);
        self.workers.push(WorkerPlan {
            pu: pu.id,
            os_cpu: pu.os_index,
            core: pu.core,
            group,
            member: u8::try_from(member).unwrap_or(63),
            llc: LlcId(0),
            node: NodeId(0),
        });
    }
}
