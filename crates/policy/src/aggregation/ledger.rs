//! Where sets run: a worker's own table, from which sums are told to others once an epoch.

use super::SetId;
use crate::Nanos;

/// Entries of a ledger. A power of two. The size of a table and no constant of the policy: what is evicted is told
/// early.
const LEN: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Number of the set; 0: free.
    number: u32,
    /// Runs since the last settlement.
    fresh: u32,
    /// Runs that were settled.
    polls: u32,
    /// Whether a task other than the set's root has run.
    several: bool,
    /// Run time that was settled.
    ns: u64,
}

/// What a worker has to tell about a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The set's number.
    pub number: u32,
    /// Time that the worker ran its tasks.
    pub ns: u64,
    /// Runs of its tasks.
    pub polls: u32,
}

/// For the last eight sets that a worker ran: how often, and for how long.
///
/// No clock is read when tasks switch. A run is counted; when the worker looks at its clock anyway, the time that has
/// passed is divided among the runs since then ([`Ledger::settle`]). Long runs are timed exactly, because a worker
/// whose tasks take long looks at the clock after each.
///
/// A set that only its root has run is a single task, which shares nothing: it is never told of.
///
/// ```
/// use quadrille_policy::{Ledger, Nanos, SetId};
///
/// let mut ledger = Ledger::default();
/// let set = SetId::declared(3);
/// assert_eq!(ledger.charge(set, 10), None);
/// ledger.settle(Nanos(500));
/// assert_eq!(ledger.take().map(|share| (share.number, share.ns)).next(), Some((3, 500)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    entries: [Entry; LEN],
    /// Runs since the last settlement, those of tasks without a set included.
    runs: u32,
    /// Average run at the last settlement.
    average: u64,
}

impl Ledger {
    /// Counts a run of the task `task_id` of `set`. Returns what is to be told of another set that had to give way.
    #[inline]
    pub fn charge(&mut self, set: SetId, task_id: u64) -> Option<Share> {
        self.runs += 1;
        let number = set.number();
        if number == 0 {
            return None;
        }
        let entry = &mut self.entries[index(number)];
        let mut evicted = None;
        if entry.number != number {
            let old = *entry;
            *entry = Entry {
                number,
                ..Entry::default()
            };
            evicted = told(old, self.average);
        }
        entry.fresh += 1;
        entry.several |= !set.is_root(task_id);
        evicted
    }

    /// Divides `elapsed`, the time since the last settlement that was not idle, among the runs since then.
    pub fn settle(&mut self, elapsed: Nanos) {
        if self.runs == 0 {
            return;
        }
        self.average = elapsed.0 / u64::from(self.runs);
        for entry in &mut self.entries {
            let ns = u128::from(elapsed.0) * u128::from(entry.fresh) / u128::from(self.runs);
            entry.ns += u64::try_from(ns).unwrap_or(u64::MAX);
            entry.polls = entry.polls.saturating_add(entry.fresh);
            entry.fresh = 0;
        }
        self.runs = 0;
    }

    /// Takes out everything, at the end of an epoch; settle before.
    pub fn take(&mut self) -> impl Iterator<Item = Share> + use<> {
        let average = self.average;
        let entries = core::mem::take(&mut self.entries);
        entries.into_iter().filter_map(move |entry| told(entry, average))
    }
}

/// A set is spread over the table by its number: consecutive ones, which roots have, do not collide.
#[inline]
const fn index(number: u32) -> usize {
    number as usize % LEN
}

fn told(entry: Entry, average: u64) -> Option<Share> {
    let share = Share {
        number: entry.number,
        ns: entry.ns + u64::from(entry.fresh) * average,
        polls: entry.polls.saturating_add(entry.fresh),
    };
    (entry.number != 0 && entry.several && share.polls > 0).then_some(share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const A: SetId = SetId::declared(1);
    const B: SetId = SetId::declared(2);
    /// Shares its entry with `A`.
    const A2: SetId = SetId::declared(9);

    fn shares(ledger: &mut Ledger) -> Vec<(u32, u64, u32)> {
        ledger
            .take()
            .map(|share| (share.number, share.ns, share.polls))
            .collect()
    }

    #[test]
    fn time_is_divided_by_runs() {
        let mut ledger = Ledger::default();
        for set in [A, A, A, B, SetId::NONE] {
            assert_eq!(ledger.charge(set, 100), None);
        }
        ledger.settle(Nanos(1000));
        assert_eq!(ledger.charge(B, 100), None);
        ledger.settle(Nanos(7));
        assert_eq!(shares(&mut ledger), [(1, 600, 3), (2, 207, 2)]);
        assert_eq!(shares(&mut ledger), []);
        // Nothing ran: the time is nobody's.
        ledger.settle(Nanos(1_000_000));
        assert_eq!(shares(&mut ledger), []);
    }

    #[test]
    fn who_gives_way_is_told_of() {
        let mut ledger = Ledger::default();
        ledger.charge(A, 100);
        ledger.settle(Nanos(50));
        ledger.charge(A, 100);
        let evicted = ledger.charge(A2, 100);
        let expected = Share {
            number: 1,
            ns: 100,
            polls: 2,
        };
        assert_eq!(evicted, Some(expected), "one run settled, one by the average");
        ledger.settle(Nanos(80));
        assert_eq!(shares(&mut ledger), [(9, 40, 1)]);
    }

    #[test]
    fn a_root_alone_is_not_told_of() {
        let mut ledger = Ledger::default();
        let root = SetId::root(5);
        ledger.charge(root, 5);
        ledger.settle(Nanos(10));
        assert_eq!(shares(&mut ledger), []);
        ledger.charge(root, 5);
        ledger.charge(root, 6);
        ledger.settle(Nanos(10));
        assert_eq!(shares(&mut ledger), [(5, 10, 2)]);
        // Nor when it gives way.
        ledger.charge(root, 5);
        assert_eq!(ledger.charge(SetId::root(13), 13), None);
    }
}
