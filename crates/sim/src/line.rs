//! Cache lines and locks in simulated time.
//!
//! Whoever wants one says when and gets the time at which it has it. Requests are served in the order in which they are
//! made, which is the order of events.

use std::collections::VecDeque;

use quadrille_policy::{Nanos, WorkerId};

use crate::cost::Cost;
use crate::space::Space;

/// A cache line that several workers read and write.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    owner: WorkerId,
    /// Workers that have read it since it was written, folded into 64 bits: with more than 64 workers some reads are
    /// taken for hits that are none.
    readers: u64,
    free_at: Nanos,
}

impl Line {
    /// Reads it at `now`; returns what that took. Reads do not queue up.
    #[inline]
    pub(crate) fn read(&mut self, by: WorkerId, space: &Space, cost: &Cost) -> Nanos {
        let bit = 1_u64 << (by.0 % 64);
        if self.owner == by || self.readers & bit != 0 {
            return Nanos(cost.line_same);
        }
        self.readers |= bit;
        cost.line(space.distance(self.owner, by))
    }

    /// Writes it at `now`, after all earlier writes; returns what that took.
    #[inline]
    pub(crate) fn write(&mut self, now: Nanos, by: WorkerId, space: &Space, cost: &Cost) -> Nanos {
        let transfer = if self.owner == by {
            // Its readers' copies are invalidated, which takes as long as to fetch one from nearby.
            if self.readers == 0 {
                cost.line_same
            } else {
                cost.line_llc
            }
        } else {
            cost.line(space.distance(self.owner, by)).0
        };
        let end = now.max(self.free_at).0 + transfer;
        self.owner = by;
        self.readers = 0;
        self.free_at = Nanos(end);
        Nanos(end - now.0)
    }
}

/// A lock whose waiters spin, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lock {
    holder: WorkerId,
    free_at: Nanos,
    /// When each of those that hold it or wait for it lets go of it.
    ends: VecDeque<Nanos>,
}

/// What taking a lock was like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// When the lock was there.
    pub(crate) at: Nanos,
    /// How long it was waited for, without the transfer of its line.
    pub(crate) waited: Nanos,
}

impl Lock {
    /// Waits for the lock from `now` on and holds it for `hold`.
    pub(crate) fn take(&mut self, now: Nanos, by: WorkerId, hold: Nanos, space: &Space, cost: &Cost) -> Taken {
        while self.ends.front().is_some_and(|end| *end <= now) {
            self.ends.pop_front();
        }
        let waiters = self.ends.len() as u64;
        let crowd = cost.lock_waiter * waiters.saturating_sub(1);
        let free = now.max(self.free_at);
        let at = Nanos(free.0 + cost.line(space.distance(self.holder, by)).0 + crowd);
        self.holder = by;
        self.free_at = Nanos(at.0 + hold.0);
        self.ends.push_back(self.free_at);
        Taken {
            at,
            waited: free.since(now),
        }
    }

    /// Whether somebody has it, or waits for it, at `now`.
    #[inline]
    pub(crate) fn is_taken(&self, now: Nanos) -> bool {
        self.free_at > now
    }

    /// Who had it last.
    #[inline]
    pub(crate) fn holder(&self) -> WorkerId {
        self.holder
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quadrille_policy::{Plan, PlanOptions};
    use quadrille_topology::Topology;

    fn space() -> Space {
        let machine: Topology = "node:2 l2:4".parse().unwrap();
        let plan = Plan::compile(&machine, &PlanOptions::default()).unwrap();
        Space::new(&plan, &machine)
    }

    #[test]
    fn a_line_costs_its_way() {
        let (space, cost, mut line) = (space(), Cost::default(), Line::default());
        let [near, far] = [WorkerId(1), WorkerId(4)];
        assert_eq!(line.read(near, &space, &cost), Nanos(cost.line_llc));
        assert_eq!(line.read(near, &space, &cost), Nanos(cost.line_same));
        assert_eq!(line.write(Nanos(0), far, &space, &cost), Nanos(cost.line_remote));
        assert_eq!(line.read(near, &space, &cost), Nanos(cost.line_remote));
        assert_eq!(line.owner, far);
    }

    #[test]
    fn writes_queue_up() {
        let (space, cost, mut line) = (space(), Cost::default(), Line::default());
        let times: Vec<_> = (1..4)
            .map(|w| line.write(Nanos(0), WorkerId(w), &space, &cost).0)
            .collect();
        assert_eq!(times, [50, 100, 150]);
    }

    #[test]
    fn a_lock_is_handed_on_and_crowds_cost() {
        let (space, cost, mut lock) = (space(), Cost::default(), Lock::default());
        let mut take = |now, by| lock.take(Nanos(now), WorkerId(by), Nanos(100), &space, &cost);
        assert_eq!(
            take(0, 1),
            Taken {
                at: Nanos(50),
                waited: Nanos(0)
            }
        );
        assert_eq!(
            take(0, 2),
            Taken {
                at: Nanos(200),
                waited: Nanos(150)
            }
        );
        // Two are ahead: the holder and one that waits.
        assert_eq!(
            take(0, 3),
            Taken {
                at: Nanos(350 + 12),
                waited: Nanos(300)
            }
        );
        assert_eq!(
            take(10_000, 3),
            Taken {
                at: Nanos(10_001),
                waited: Nanos(0)
            }
        );
        assert!(lock.is_taken(Nanos(10_100)) && !lock.is_taken(Nanos(10_101)));
        assert_eq!(lock.holder(), WorkerId(3));
    }
}
