//! One cache line a worker, with what a search wants to know of it: is it idle, how much is queued.
//!
//! Searches read such lines by the dozen, most of them again and again, so that here each reader's copies are told
//! apart, where a [`Line`](crate::line::Line) folds its readers into one word. A line has an owner, its last writer,
//! and an epoch, the number of its writes; a copy is as good as the epoch it was made in. As in MESI:
//!
//! | who has the line as of its last write | what a read costs |
//! |---|---|
//! | the reader's own level-2 cache, because it was read or written there | a line that the thread has itself |
//! | its last-level cache, because it was read behind it | a line from another core of the last-level cache |
//! | the owner alone, or other caches | a line at the owner's distance |
//!
//! A read makes a copy in both of the reader's caches; a write makes all other copies worthless. Reads do not queue up,
//! and writes cost nothing here: who writes does so under the lock that is on the same line, or pays for a line of its
//! own.

use quadrille_policy::{Nanos, WorkerId};
use quadrille_topology::Distance;

use crate::cost::Cost;
use crate::space::Space;

/// The lines of all workers, and who has copies of them.
#[derive(Debug)]
pub(crate) struct StateLines {
    owners: Vec<WorkerId>,
    /// By line.
    epochs: Vec<u32>,
    /// By level-2 cache, then by line: the epoch of its copy. A search reads neighbours of one row.
    in_l2: Vec<u32>,
    /// By last-level cache, then by line.
    in_llc: Vec<u32>,
}

impl StateLines {
    /// Every line is its worker's own at first.
    pub(crate) fn new(space: &Space) -> Self {
        let [workers, l2s, llcs] = space.sizes();
        let id = |worker: usize| WorkerId(u16::try_from(worker).expect("workers fit u16"));
        let mut lines = Self {
            owners: (0..workers).map(id).collect(),
            epochs: vec![0; workers],
            in_l2: vec![0; workers * l2s],
            in_llc: vec![0; workers * llcs],
        };
        for worker in 0..workers {
            lines.write(id(worker), id(worker), space);
        }
        lines
    }

    /// `by` has written the line of `of`.
    #[inline]
    pub(crate) fn write(&mut self, of: WorkerId, by: WorkerId, space: &Space) {
        let line = of.index();
        self.owners[line] = by;
        self.epochs[line] = self.epochs[line].wrapping_add(1);
        self.keep(line, by, space);
    }

    /// `by` looks at the line of `of`; returns what that took.
    #[inline]
    pub(crate) fn read(&mut self, of: WorkerId, by: WorkerId, space: &Space, cost: &Cost) -> Nanos {
        let (line, lines) = (of.index(), self.epochs.len());
        let epoch = self.epochs[line];
        if self.in_l2[space.l2(by).index() * lines + line] == epoch {
            return Nanos(cost.line_same);
        }
        let from_owner = space.distance(self.owners[line], by);
        let is_near = self.in_llc[space.llc(by).index() * lines + line] == epoch;
        self.keep(line, by, space);
        cost.line(if is_near {
            from_owner.min(Distance::Llc)
        } else {
            from_owner
        })
    }

    fn keep(&mut self, line: usize, by: WorkerId, space: &Space) {
        let (epoch, lines) = (self.epochs[line], self.epochs.len());
        self.in_l2[space.l2(by).index() * lines + line] = epoch;
        self.in_llc[space.llc(by).index() * lines + line] = epoch;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quadrille_policy::{Plan, PlanOptions};
    use quadrille_topology::Topology;

    /// Two nodes of two caches of two cores of two threads.
    fn space() -> Space {
        let machine: Topology = "node:2 llc:2 l2:2 pu:2".parse().unwrap();
        let plan = Plan::compile(&machine, &PlanOptions::default()).unwrap();
        Space::new(&plan, &machine, &Cost::default())
    }

    const OF: WorkerId = WorkerId(0);

    #[test]
    fn a_line_that_changed_costs_a_transfer_once() {
        let (space, cost) = (space(), Cost::default());
        let mut lines = StateLines::new(&space);
        for (by, distance) in [(2, Distance::Llc), (4, Distance::Node), (8, Distance::Remote)] {
            let by = WorkerId(by);
            for _ in 0..2 {
                lines.write(OF, OF, &space);
                assert_eq!(lines.read(OF, by, &space, &cost), cost.line(distance));
                for _ in 0..3 {
                    assert_eq!(lines.read(OF, by, &space, &cost), Nanos(cost.line_same), "unchanged");
                }
            }
        }
    }

    #[test]
    fn its_owner_and_siblings_have_it() {
        let (space, cost) = (space(), Cost::default());
        let mut lines = StateLines::new(&space);
        let hit = Nanos(cost.line_same);
        assert_eq!(lines.read(OF, OF, &space, &cost), hit);
        assert_eq!(lines.read(OF, WorkerId(1), &space, &cost), hit);
        // A waker writes it, and takes it away from the worker itself.
        lines.write(OF, WorkerId(8), &space);
        assert_eq!(lines.read(OF, WorkerId(9), &space, &cost), hit);
        assert_eq!(lines.read(OF, OF, &space, &cost), cost.line(Distance::Remote));
        assert_eq!(lines.read(OF, WorkerId(1), &space, &cost), hit);
    }

    #[test]
    fn who_comes_second_behind_a_cache_fetches_it_from_there() {
        let (space, cost) = (space(), Cost::default());
        let mut lines = StateLines::new(&space);
        let far = lines.read(OF, WorkerId(8), &space, &cost);
        let second = lines.read(OF, WorkerId(10), &space, &cost);
        assert_eq!(
            [far, second],
            [Distance::Remote, Distance::Llc].map(|distance| cost.line(distance))
        );
        // That of another worker has not been read there.
        assert_eq!(lines.read(WorkerId(2), WorkerId(10), &space, &cost), far);
        lines.write(OF, OF, &space);
        assert_eq!(lines.read(OF, WorkerId(10), &space, &cost), far);
    }
}
