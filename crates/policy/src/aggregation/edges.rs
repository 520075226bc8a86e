//! Who wakes whom: tasks that one other cache wakes again and again belong there, unless their waker wakes many.

use super::LlcView;
use crate::{Nanos, Policy, TaskPolicy, WorkerId, config::Aggregation};

/// Wakers that a worker remembers. A power of two. The size of a table and no constant of the policy: who is forgotten is taken for
/// one that wakes few, as everybody is who begins.
const WAKERS: usize = 16;

#[derive(Clone, Copy, Debug, Default)]
struct Waker {
    task: u64,
    /// A bit for each wakee, by its id: of the current [`Aggregation::wakees_for`] and of the one before.
    current: u64,
    before: u64,
    since: Nanos,
}

/// How many different tasks each of the last tasks of a worker has woken: a sender of messages to many is *wide*, and is
/// no reason for any of them to move.
///
/// Approximate on purpose: 16 wakers a worker, 64 wakees a waker by the low bits of their ids.
///
/// ```
/// use quadrille_policy::{Nanos, Wakees};
///
/// let mut wakees = Wakees::default();
/// assert_eq!(wakees.note(1, 2, Nanos(0)), 1);
/// assert_eq!(wakees.note(1, 2, Nanos(9)), 1);
/// assert_eq!(wakees.note(1, 3, Nanos(9)), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Wakees {
    wakers: [Waker; WAKERS],
    memory: Nanos,
}

impl Default for Wakees {
    fn default() -> Self {
        Self::new(&Aggregation::default())
    }
}

impl Wakees {
    /// None yet; remembers for as long as configured.
    #[must_use]
    pub fn new(config: &Aggregation) -> Self {
        Self {
            wakers: [Waker::default(); WAKERS],
            memory: config.wakees_for,
        }
    }

    /// Notes that the task `waker` wakes the task `wakee`. Returns how many different ones it has woken of late, that one
    /// included.
    #[inline]
    pub fn note(&mut self, waker: u64, wakee: u64, now: Nanos) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "an index by the low bits")]
        let entry = &mut self.wakers[waker as usize % WAKERS];
        if entry.task != waker {
            *entry = Waker {
                task: waker,
                since: now,
                ..Waker::default()
            };
        }
        let passed = now.since(entry.since);
        if passed >= self.memory {
            entry.before = if passed.0 < self.memory.0.saturating_mul(2) {
                entry.current
            } else {
                0
            };
            entry.current = 0;
            entry.since = now;
        }
        entry.current |= 1 << (wakee & 63);
        (entry.current | entry.before).count_ones()
    }
}

impl Policy {
    /// Notes who wakes a task. True if the last [`pull_after`](crate::Aggregation::pull_after) wakes all came from one
    /// other last-level cache; the mechanism then tells [`CouplingView::waker`](crate::CouplingView).
    #[inline]
    pub fn couple(&self, task: &mut TaskPolicy, waker: WorkerId) -> bool {
        let (Some(worker), Some(home)) = (self.worker(waker), self.plan.groups.get(task.home.index())) else {
            return false;
        };
        if worker.llc == home.llc {
            task.streak = 0;
            return false;
        }
        // Caches whose numbers differ by 256 are taken for one.
        let [_, from] = worker.llc.0.to_be_bytes();
        task.streak = if task.from == from {
            task.streak.saturating_add(1)
        } else {
            1
        };
        task.from = from;
        task.streak >= self.config.aggregation.pull_after
    }

    /// Whether the one that wakes the task may have it: the waker is not wide, its cache is hardly busy, and policy 6 does
    /// not object.
    #[inline]
    pub(crate) fn waker_pulls(&self, task: &TaskPolicy, waker: &LlcView, wakees: u32) -> bool {
        wakees <= self.config.aggregation.wide && self.has_room(task, waker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NODES, policy, task};

    #[test]
    fn wakees_are_counted_once_and_forgotten() {
        let mut wakees = Wakees::default();
        let at = Nanos::from_millis;
        for wakee in 0..20 {
            assert_eq!(u64::from(wakees.note(1, wakee, at(wakee))), wakee + 1);
        }
        // Another waker has its own; one with the same place takes it over.
        assert_eq!(wakees.note(2, 0, at(20)), 1);
        assert_eq!(wakees.note(17, 0, at(20)), 1);
        assert_eq!(wakees.note(1, 0, at(20)), 1);
        for (ms, wakee, count) in [(1019, 5, 2), (1020, 5, 2), (1500, 7, 3), (2020, 5, 2), (3020, 5, 1)] {
            assert_eq!(wakees.note(1, wakee, at(ms)), count, "{ms} ms");
        }
        assert_eq!(wakees.note(1, 5, at(9000)), 1);
        // As long as configured.
        let mut brief = policy(NODES, "sets-wakees=1ms").new_wakees();
        let counts = [(0, 1), (1, 2), (2, 3), (3, 4)].map(|(ms, wakee)| brief.note(1, wakee, at(ms)));
        assert_eq!(counts, [1, 2, 2, 2]);
    }

    #[test]
    fn four_wakes_in_a_row_from_one_other_cache_couple() {
        let policy = policy(NODES, "default");
        let mut task = task(&policy, 1);
        // Worker, and whether its wake completes a row. Cache 0 has the workers 0 to 7, 1 to 15, 2 to 23, 3 to 31.
        let wakes = [
            (8, false),
            (15, false),
            (12, false),
            (9, true),
            (9, true),
            (16, false), // another cache: from the start
            (16, false),
            (16, false),
            (3, false), // home's own
            (16, false),
            (17, false),
            (18, false),
            (999, false), // no worker: not seen
            (19, true),
        ];
        for (index, (waker, couples)) in wakes.into_iter().enumerate() {
            assert_eq!(policy.couple(&mut task, WorkerId(waker)), couples, "wake {index}");
        }
    }

    #[test]
    fn a_house_move_begins_a_new_row() {
        let policy = policy(NODES, "default");
        let mut task = task(&policy, 1);
        for _ in 0..4 {
            policy.couple(&mut task, WorkerId(8));
        }
        policy.moved(&mut task, WorkerId(8), Nanos(0));
        assert_eq!(task.streak, 0);
        assert!(!policy.couple(&mut task, WorkerId(0)));
    }
}
