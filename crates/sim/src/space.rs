//! How far workers are from each other.

use quadrille_policy::{CoreId, LlcId, NodeId, Plan, WorkerId};
use quadrille_topology::{Distance, L2Id, Topology};

/// Where one worker sits.
#[derive(Clone, Copy, Debug)]
struct Place {
    core: CoreId,
    l2: L2Id,
    llc: LlcId,
    node: NodeId,
}

/// Where all workers sit.
#[derive(Debug)]
pub(crate) struct Space(Vec<Place>);

impl Space {
    pub(crate) fn new(plan: &Plan, topology: &Topology) -> Self {
        let place = |worker: &quadrille_policy::WorkerPlan| Place {
            core: worker.core,
            l2: topology.pus()[worker.pu.index()].l2,
            llc: worker.llc,
            node: worker.node,
        };
        Self(plan.workers.iter().map(place).collect())
    }

    /// The nearest thing that two workers share; [`Distance::Group`] is a level-2 cache here.
    #[inline]
    pub(crate) fn distance(&self, a: WorkerId, b: WorkerId) -> Distance {
        if a == b {
            return Distance::Same;
        }
        let (a, b) = (self.0[a.index()], self.0[b.index()]);
        if a.core == b.core {
            Distance::Core
        } else if a.l2 == b.l2 {
            Distance::Group
        } else if a.llc == b.llc {
            Distance::Llc
        } else if a.node == b.node {
            Distance::Node
        } else {
            Distance::Remote
        }
    }

    /// The level-2 cache of a worker, by which copies of lines are told apart.
    #[inline]
    pub(crate) fn l2(&self, worker: WorkerId) -> L2Id {
        self.0[worker.index()].l2
    }

    /// How many workers there are, and bounds of the numbers of their level-2 and last-level caches.
    pub(crate) fn sizes(&self) -> [usize; 3] {
        let bound = |index: fn(&Place) -> usize| self.0.iter().map(index).max().map_or(0, |last| last + 1);
        [
            self.0.len(),
            bound(|place| place.l2.index()),
            bound(|place| place.llc.index()),
        ]
    }

    pub(crate) fn core(&self, worker: WorkerId) -> CoreId {
        self.0[worker.index()].core
    }

    pub(crate) fn llc(&self, worker: WorkerId) -> LlcId {
        self.0[worker.index()].llc
    }

    pub(crate) fn node(&self, worker: WorkerId) -> NodeId {
        self.0[worker.index()].node
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quadrille_policy::PlanOptions;

    #[test]
    fn the_nearest_shared_thing_counts() {
        let machine: Topology = "node:2 llc:2 l2:2 core:2 pu:2".parse().unwrap();
        let plan = Plan::compile(&machine, &PlanOptions::default()).unwrap();
        let space = Space::new(&plan, &machine);
        let from_zero = |worker| space.distance(WorkerId(0), WorkerId(worker));
        assert_eq!(
            [0, 1, 2, 4, 8, 16].map(from_zero),
            [
                Distance::Same,
                Distance::Core,
                Distance::Group,
                Distance::Llc,
                Distance::Node,
                Distance::Remote
            ]
        );
    }
}
