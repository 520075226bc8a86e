//! Cache lines and locks in simulated time.
//!
//! Whoever wants one says when and is told how long it takes. Requests are served in the order in which they are made,
//! which is the order of events. What an event does takes time, so that the requests it makes lie a little ahead of it;
//! if they were entered as of then, an earlier request of a later event would wait for a line that nobody has yet. So
//! lines and locks are occupied from the time of the event on, and only the waiting is counted from the requester's own
//! time.

use std::collections::VecDeque;

use quadrille_policy::{Nanos, WorkerId};

use crate::cost::Cost;
use crate::space::Space;

/// When something is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct When {
    /// The time of the event.
    pub(crate) event: Nanos,
    /// The requester's own time: the same, or later.
    pub(crate) own: Nanos,
}

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
    /// Reads it; returns what that took. Reads do not queue up.
    #[inline]
    pub(crate) fn read(&mut self, by: WorkerId, space: &Space, cost: &Cost) -> Nanos {
        let bit = 1_u64 << (by.0 % 64);
        if self.owner == by || self.readers & bit != 0 {
            return Nanos(cost.line_same);
        }
        self.readers |= bit;
        space.line(self.owner, by)
    }

    /// Writes it after all earlier writes; returns what that took.
    #[inline]
    pub(crate) fn write(&mut self, when: When, by: WorkerId, space: &Space, cost: &Cost) -> Nanos {
        let transfer = if self.owner == by {
            // Its readers' copies are invalidated, which takes as long as to fetch one from nearby.
            if self.readers == 0 {
                cost.line_same
            } else {
                cost.line_llc
            }
        } else {
            space.line(self.owner, by).0
        };
        let waited = self.free_at.since(when.own);
        self.owner = by;
        self.readers = 0;
        self.free_at = Nanos(when.event.max(self.free_at).0 + transfer);
        Nanos(waited.0 + transfer)
    }
}

/// A line that everybody adds to, and nobody owns for long.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counter {
    free_at: Nanos,
}

impl Counter {
    /// Adds to it after all earlier additions; returns what that took.
    #[inline]
    pub(crate) fn add(&mut self, when: When, cost: &Cost) -> Nanos {
        let waited = self.free_at.since(when.own);
        self.free_at = Nanos(when.event.max(self.free_at).0 + cost.contended_add);
        Nanos(waited.0 + cost.contended_add)
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// How long it took until the lock was there.
    pub(crate) took: Nanos,
    /// The part of it that was waiting, without the transfer of its line.
    pub(crate) waited: Nanos,
}

impl Lock {
    /// Waits for the lock and holds it for `hold`.
    pub(crate) fn take(&mut self, when: When, by: WorkerId, hold: Nanos, space: &Space, cost: &Cost) -> Taken {
        self.take_over(when, by, self.way(by, space), hold, cost)
    }

    /// What it takes `by` to fetch its line.
    #[inline]
    pub(crate) fn way(&self, by: WorkerId, space: &Space) -> Nanos {
        space.line(self.holder, by)
    }

    /// The same as [`take`](Self::take) for who knows the [`way`](Self::way).
    #[inline]
    pub(crate) fn take_over(&mut self, when: When, by: WorkerId, way: Nanos, hold: Nanos, cost: &Cost) -> Taken {
        if self.free_at <= when.event {
            // The last of them has let go of it.
            self.ends.clear();
        } else {
            while self.ends.front().is_some_and(|end| *end <= when.event) {
                self.ends.pop_front();
            }
        }
        let waiters = self.ends.len() as u64;
        let crowd = cost.lock_waiter * waiters.saturating_sub(1);
        let transfer = way.0 + crowd;
        let waited = self.free_at.since(when.own);
        self.holder = by;
        self.free_at = Nanos(when.event.max(self.free_at).0 + transfer + hold.0);
        self.ends.push_back(self.free_at);
        Taken {
            took: Nanos(waited.0 + transfer),
            waited,
        }
    }

    /// Whether somebody has it, or waits for it, at `now`.
    #[inline]
    pub(crate) fn is_taken(&self, now: Nanos) -> bool {
        self.free_at > now
    }

    /// When the last of those that have it or wait for it lets go of it.
    #[inline]
    pub(crate) fn free_at(&self) -> Nanos {
        self.free_at
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

    fn at(now: u64) -> When {
        When {
            event: Nanos(now),
            own: Nanos(now),
        }
    }

    fn space() -> Space {
        let machine: Topology = "node:2 l2:4".parse().unwrap();
        let plan = Plan::compile(&machine, &PlanOptions::default()).unwrap();
        Space::new(&plan, &machine, &Cost::default())
    }

    #[test]
    fn a_line_costs_its_way() {
        let (space, cost, mut line) = (space(), Cost::default(), Line::default());
        let [near, far] = [WorkerId(1), WorkerId(4)];
        assert_eq!(line.read(near, &space, &cost), Nanos(cost.line_llc));
        assert_eq!(line.read(near, &space, &cost), Nanos(cost.line_same));
        assert_eq!(line.write(at(0), far, &space, &cost), Nanos(cost.line_remote));
        assert_eq!(line.read(near, &space, &cost), Nanos(cost.line_remote));
        assert_eq!(line.owner, far);
    }

    #[test]
    fn writes_queue_up() {
        let (space, cost, mut line) = (space(), Cost::default(), Line::default());
        let times: Vec<_> = (1..4)
            .map(|w| line.write(at(0), WorkerId(w), &space, &cost).0)
            .collect();
        assert_eq!(times, [50, 100, 150]);
    }

    #[test]
    fn additions_queue_up_wherever_they_come_from() {
        let (cost, mut counter) = (Cost::default(), Counter::default());
        let one = cost.contended_add;
        assert_eq!([(); 3].map(|()| counter.add(at(0), &cost).0), [one, 2 * one, 3 * one]);
        assert_eq!(counter.add(at(1_000_000), &cost).0, one);
    }

    #[test]
    fn a_request_ahead_of_its_event_keeps_nobody_from_the_line() {
        let (space, cost, mut line) = (space(), Cost::default(), Line::default());
        let ahead = When {
            event: Nanos(0),
            own: Nanos(5_000),
        };
        assert_eq!(line.write(ahead, WorkerId(1), &space, &cost), Nanos(50));
        assert_eq!(line.write(at(10), WorkerId(2), &space, &cost), Nanos(40 + 50));
        assert_eq!(line.write(ahead, WorkerId(3), &space, &cost), Nanos(50));
    }

    #[test]
    fn a_lock_is_handed_on_and_crowds_cost() {
        let (space, cost, mut lock) = (space(), Cost::default(), Lock::default());
        let mut take = |now, by| lock.take(at(now), WorkerId(by), Nanos(100), &space, &cost);
        assert_eq!(
            take(0, 1),
            Taken {
                took: Nanos(50),
                waited: Nanos(0)
            }
        );
        assert_eq!(
            take(0, 2),
            Taken {
                took: Nanos(200),
                waited: Nanos(150)
            }
        );
        // Two are ahead: the holder and one that waits.
        assert_eq!(
            take(0, 3),
            Taken {
                took: Nanos(350 + 12),
                waited: Nanos(300)
            }
        );
        assert_eq!(
            take(10_000, 3),
            Taken {
                took: Nanos(1),
                waited: Nanos(0)
            }
        );
        assert!(lock.is_taken(Nanos(10_100)) && !lock.is_taken(Nanos(10_101)));
        assert_eq!(lock.holder(), WorkerId(3));
    }
}
