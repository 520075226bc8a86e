//! How far workers are from each other.

use quadrille_policy::{CoreId, LlcId, Nanos, NodeId, Plan, WorkerId};
use quadrille_topology::{Distance, L2Id, Topology};

use crate::cost::Cost;

/// Where one worker sits.
#[derive(Clone, Copy, Debug)]
struct Place {
    core: CoreId,
    l2: L2Id,
    llc: LlcId,
    node: NodeId,
}

/// Where all workers sit, and what it takes to move a line from one to another.
#[derive(Debug)]
pub(crate) struct Space {
    places: Vec<Place>,
    /// By distance.
    lines: [Nanos; Distance::ALL.len()],
}

impl Space {
    pub(crate) fn new(plan: &Plan, topology: &Topology, cost: &Cost) -> Self {
        let place = |worker: &quadrille_policy::WorkerPlan| Place {
            core: worker.core,
            l2: topology.pus()[worker.pu.index()].l2,
            llc: worker.llc,
            node: worker.node,
        };
        Self {
            places: plan.workers.iter().map(place).collect(),
            lines: Distance::ALL.map(|distance| cost.line(distance)),
        }
    }

    /// The nearest thing that two workers share; [`Distance::Group`] is a level-2 cache here.
    #[inline]
    pub(crate) fn distance(&self, a: WorkerId, b: WorkerId) -> Distance {
        let (x, y) = (self.places[a.index()], self.places[b.index()]);
        // The first bit that is set tells, instead of branches that nobody can predict.
        let shared = u32::from(a == b)
            | u32::from(x.core == y.core) << 1
            | u32::from(x.l2 == y.l2) << 2
            | u32::from(x.llc == y.llc) << 3
            | u32::from(x.node == y.node) << 4
            | 1 << 5;
        Distance::ALL[shared.trailing_zeros() as usize]
    }

    /// What it takes `b` to fetch a line that `a` has modified, or the other way round.
    #[inline]
    pub(crate) fn line(&self, a: WorkerId, b: WorkerId) -> Nanos {
        self.lines[self.distance(a, b) as usize]
    }

    /// The level-2 cache of a worker, by which copies of lines are told apart.
    #[inline]
    pub(crate) fn l2(&self, worker: WorkerId) -> L2Id {
        self.places[worker.index()].l2
    }

    /// How many workers there are, and bounds of the numbers of their level-2 and last-level caches.
    pub(crate) fn sizes(&self) -> [usize; 3] {
        let bound = |index: fn(&Place) -> usize| self.places.iter().map(index).max().map_or(0, |last| last + 1);
        [
            self.places.len(),
            bound(|place| place.l2.index()),
            bound(|place| place.llc.index()),
        ]
    }

    pub(crate) fn core(&self, worker: WorkerId) -> CoreId {
        self.places[worker.index()].core
    }

    pub(crate) fn llc(&self, worker: WorkerId) -> LlcId {
        self.places[worker.index()].llc
    }

    pub(crate) fn node(&self, worker: WorkerId) -> NodeId {
        self.places[worker.index()].node
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
        let space = Space::new(&plan, &machine, &Cost::default());
        let from_zero = |worker| space.distance(WorkerId(0), WorkerId(worker));
        for worker in 0..32 {
            let line = space.line(WorkerId(0), WorkerId(worker));
            assert_eq!(line, Cost::default().line(from_zero(worker)), "worker {worker}");
        }
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
