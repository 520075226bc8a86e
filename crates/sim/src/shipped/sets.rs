//! What is known of coupling sets: where they run, what that means, and who may follow.
//!
//! The policies decide; this is the books. Sets have dense numbers here, so that none is ever looked for and none gives
//! way to another, where the runtime remembers 256 of them.

use quadrille_policy::{LlcId, Nanos, Policy, PullView, SetId, SetPolicy, SetView, Share};

use crate::kin::ROOTS;
use crate::line::Line;

/// What a wake or a spawn wants to know of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) policy: SetPolicy,
    /// Tasks that the preferred cache still pulls in this epoch.
    pub(super) pulls: u8,
}

#[derive(Debug, Default)]
struct Set {
    known: Known,
    /// What all read, and what is written once an epoch by each worker that ran the set.
    head: Line,
    books: Line,
    /// Run time by last-level cache, ns.
    occupancy: Vec<u64>,
    /// Each as [`SetView::POLL`].
    polls: u64,
    last_run: Option<Nanos>,
    /// When the epoch ends.
    due: Nanos,
}

/// What became of what was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// When the set ran last before; `None`: not of late.
    last_run: Option<Nanos>,
    /// Whether its epoch has ended.
    pub(super) is_due: bool,
}

/// The sets that have run.
#[derive(Debug)]
pub(super) struct Sets {
    /// By number: those that the workload has numbered, and the spawn roots.
    numbered: Vec<Option<Box<Set>>>,
    roots: Vec<Option<Box<Set>>>,
    llcs: usize,
}

impl Sets {
    pub(super) fn new(llcs: usize) -> Self {
        Self {
            numbered: Vec::new(),
            roots: Vec::new(),
            llcs,
        }
    }

    /// What is known of a set; nothing, if it may not prefer anything or has not been told of. As in
    /// the runtime, no time is compared: after a pause that is what was known before, until it is told of again.
    #[inline]
    pub(super) fn look(&self, set: SetId) -> Known {
        let found = if set.may_prefer() {
            self.find(set.number())
        } else {
            None
        };
        found.map_or(Known::default(), |set| set.known)
    }

    /// The line that a look at this set reads, if it has been told of.
    #[inline]
    pub(super) fn head(&mut self, number: u32) -> Option<&mut Line> {
        self.find_mut(number).map(|set| &mut set.head)
    }

    /// A task has followed its set: one pull less.
    pub(super) fn take_pull(&mut self, set: SetId) {
        if let Some(set) = self.find_mut(set.number()) {
            set.known.pulls = set.known.pulls.saturating_sub(1);
        }
    }

    /// Adds what a worker behind `llc` tells of a set; the line of its books is the teller's to write.
    pub(super) fn add(&mut self, share: Share, llc: LlcId, now: Nanos, ttl: Nanos) -> (Told, &mut Line) {
        let llcs = self.llcs;
        let (table, index) = self.place(share.number);
        if table.len() <= index {
            table.resize_with(index + 1, || None);
        }
        let set = table[index].get_or_insert_with(|| {
            Box::new(Set {
                occupancy: vec![0; llcs],
                ..Set::default()
            })
        });
        let last_run = set.last_run.filter(|last| now.since(*last) < ttl);
        if last_run.is_none() {
            // After a pause the old sums say nothing.
            set.occupancy.fill(0);
            (set.polls, set.due, set.known) = (0, now, Known::default());
        }
        set.last_run = Some(now);
        set.occupancy[llc.index()] += share.ns;
        set.polls += u64::from(share.polls) * SetView::POLL;
        let told = Told {
            last_run,
            is_due: set.due <= now,
        };
        (told, &mut set.books)
    }

    /// Ends the epoch of a set: what it prefers, and how many of its tasks come there. `util` says how busy a cache is.
    /// True if others have something new to read.
    pub(super) fn end_epoch(
        &mut self,
        policy: &Policy,
        number: u32,
        told: Told,
        now: Nanos,
        util: impl Fn(LlcId) -> u16,
    ) -> bool {
        let config = &policy.config.aggregation;
        let Some(set) = self.find_mut(number) else {
            return false;
        };
        let mut decided = set.known.policy;
        decided.update(
            config,
            &SetView {
                occupancy: &set.occupancy,
                polls: set.polls,
                // A ledger tells of sets of several tasks only; who runs counts by its time.
                tasks: 2,
                llc_workers: policy.smallest_llc(),
                last_run: told.last_run,
                now,
            },
        );
        let pulls = policy.pull(&PullView {
            set: decided,
            occupancy: &set.occupancy,
            util: util(decided.preferred.unwrap_or_default()),
        });
        set.occupancy.iter_mut().for_each(|ns| *ns /= 2);
        set.polls /= 2;
        set.due = Nanos(now.0 + config.epoch.0);
        let known = Known { policy: decided, pulls };
        std::mem::replace(&mut set.known, known) != known
    }

    fn find(&self, number: u32) -> Option<&Set> {
        let found = match number.checked_sub(ROOTS) {
            Some(root) => self.roots.get(root as usize),
            None => self.numbered.get(number as usize),
        };
        found?.as_deref()
    }

    fn find_mut(&mut self, number: u32) -> Option<&mut Set> {
        let (table, index) = self.place(number);
        table.get_mut(index)?.as_deref_mut()
    }

    fn place(&mut self, number: u32) -> (&mut Vec<Option<Box<Set>>>, usize) {
        match number.checked_sub(ROOTS) {
            Some(root) => (&mut self.roots, root as usize),
            None => (&mut self.numbered, number as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Machine};
    use quadrille_policy::Plan;

    const MS: u64 = 1_000_000;
    const EPOCH: Nanos = Nanos::from_millis(10);
    const TTL: Nanos = Nanos::from_millis(50);

    fn policy() -> Policy {
        let machine: Machine = "node:2 llc:2 core:8".parse().unwrap();
        let config = Config::default();
        let plan = Plan::compile(machine.topology(), &config.plan_options(None)).unwrap();
        Policy::new(config, plan)
    }

    /// A worker behind `llc` tells, `ms` after the start, that it ran the set for a millisecond; returns what is known
    /// then.
    fn tell(sets: &mut Sets, policy: &Policy, set: SetId, llc: u16, ms: u64) -> Known {
        let share = Share {
            number: set.number(),
            ns: MS,
            polls: 100,
        };
        let now = Nanos(ms * MS);
        let (told, _) = sets.add(share, LlcId(llc), now, TTL);
        if told.is_due {
            sets.end_epoch(policy, set.number(), told, now, |_| 0);
        }
        sets.look(set)
    }

    #[test]
    fn a_set_prefers_where_it_runs_and_pulls_what_runs_elsewhere() {
        let (policy, mut sets) = (policy(), Sets::new(4));
        for set in [SetId::declared(3), SetId::root((ROOTS + 7).into())] {
            assert_eq!(sets.look(set), Known::default());
            // After the pause nothing is known until the first epoch has ended.
            let known = tell(&mut sets, &policy, set, 2, 0);
            assert_eq!((known.policy.preferred, known.pulls), (None, 0));
            assert_eq!(tell(&mut sets, &policy, set, 2, 1), known);
            assert_eq!(tell(&mut sets, &policy, set, 1, 2), known);
            let known = tell(&mut sets, &policy, set, 2, EPOCH.0 / MS);
            assert_eq!((known.policy.preferred, known.pulls), (Some(LlcId(2)), 1));
            sets.take_pull(set);
            sets.take_pull(set);
            assert_eq!(sets.look(set).pulls, 0);
        }
        assert_eq!(sets.look(SetId::declared(3).spread()), Known::default());
    }

    #[test]
    fn after_a_pause_nothing_is_known_once_it_runs_again() {
        let (policy, mut sets) = (policy(), Sets::new(4));
        let set = SetId::declared(1);
        for ms in [0, 10] {
            tell(&mut sets, &policy, set, 1, ms);
        }
        assert_eq!(sets.look(set).policy.preferred, Some(LlcId(1)));
        assert_eq!(tell(&mut sets, &policy, set, 0, 60).policy.preferred, None);
        assert_eq!(tell(&mut sets, &policy, set, 0, 70).policy.preferred, Some(LlcId(0)));
    }
}
