//! What is known of coupling sets: where they run, and which last-level cache they prefer.
//!
//! A set is a number that tasks carry; nothing is allocated for it and nothing refers to it, so nothing of it can be
//! used after its end. This table remembers the sets that have run of late, as a cache does: a set that runs claims a
//! slot, one that has not run for the time-out (default 50 ms) may lose it, and a set that finds no slot has no
//! preference. Whoever looks a set up by its number compares the number, and no time, which is on another line: a set
//! that comes back after a pause, and has lost nothing, is known as it was until somebody tells that it runs.
//!
//! | words | written | read |
//! |---|---|---|
//! | `head`: number, preference, pulls left | on a change; when a pull is taken | at wakes and spawns, by all |
//! | `tally`, `last_run` | once an epoch by each worker that ran the set | once an epoch by one |
//!
//! Heads stand side by side, so that the slots in which a set may be are one line or two; the books are on lines of
//! their own. A stale or mixed answer moves a task to a less good place, never more (W4): sums that arrive after a slot
//! changed hands count for the new set, two sets of one number are taken for one, a set may have two slots for a while.

mod tally;

use crossbeam_utils::CachePadded;
use quadrille_policy::{LlcId, Nanos, SetId, SetPolicy, SetView, Share};

pub(crate) use self::tally::Tally;
use crate::lines;
use crate::primitives::{AtomicU64, Ordering};

/// Sets that are remembered at most. This and the next are sizes of a table and no constants of the policy: a set that
/// finds no slot prefers nothing.
const SLOTS: usize = 256;

/// Slots in which a set may be.
const WAYS: usize = 4;

/// What a wake or a spawn wants to know of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) policy: SetPolicy,
    /// Tasks that the preferred cache still pulls in this epoch.
    pub(crate) pulls: u8,
}

/// The word that all read: 28 bits of number, 16 of preference plus one, one of `spread`, eight of pulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head(u64);

impl Head {
    fn new(number: u32, known: Known) -> Self {
        let preferred = known.policy.preferred.map_or(0, |llc| u64::from(llc.0) + 1);
        let spread = u64::from(known.policy.spread);
        Self(u64::from(number) | preferred << 28 | spread << 45 | u64::from(known.pulls) << 48)
    }

    fn number(self) -> u32 {
        u32::try_from(self.0 & ((1 << 28) - 1)).expect("28 bits")
    }

    fn known(self) -> Known {
        let preferred = u32::try_from(self.0 >> 28 & 0x1_FFFF).expect("17 bits");
        Known {
            policy: SetPolicy {
                preferred: preferred
                    .checked_sub(1)
                    .map(|llc| LlcId(u16::try_from(llc).unwrap_or(u16::MAX))),
                spread: self.0 >> 45 & 1 != 0,
            },
            pulls: self.0.to_be_bytes()[1],
        }
    }
}

/// What is written once an epoch.
#[derive(Debug)]
struct Books {
    /// Run time by LLC, then runs.
    tally: Tally,
    /// When its run time was told of last, ns.
    last_run: AtomicU64,
}

/// A place for one set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot<'a> {
    head: &'a AtomicU64,
    books: &'a Books,
}

/// What the end of an epoch finds.
#[derive(Debug)]
pub(crate) struct Epoch {
    /// Run time by LLC, before the halving.
    pub(crate) occupancy: Vec<u64>,
    /// Each as [`SetView::POLL`].
    pub(crate) polls: u64,
}

impl Slot<'_> {
    #[inline]
    fn head(&self) -> Head {
        lines::touch(self.head);
        // Ordering: Relaxed; the word is all there is to know, nothing else is read on its strength.
        Head(self.head.load(Ordering::Relaxed))
    }

    fn last_run(&self) -> Nanos {
        // Ordering: Relaxed; a time.
        Nanos(self.books.last_run.load(Ordering::Relaxed))
    }

    /// Ends an epoch, if it is due and nobody else does: halves the sums, and publishes what `decide` makes of them.
    pub(crate) fn end_epoch(&self, llcs: usize, now: Nanos, epoch: Nanos, decide: impl FnOnce(Known, &Epoch) -> Known) {
        let Some(turn) = self.books.tally.turn(now.0, now.0.saturating_add(epoch.0)) else {
            return;
        };
        let sums = Epoch {
            occupancy: (0..llcs).map(|llc| turn.halve(llc)).collect(),
            polls: turn.halve(llcs),
        };
        let head = self.head();
        let known = decide(head.known(), &sums);
        self.publish(head, Head::new(head.number(), known));
    }

    /// Changes the word that all read, if there is a change. A pull that is taken meanwhile wins: the next epoch
    /// decides again.
    fn publish(&self, old: Head, new: Head) {
        if new != old {
            // Ordering: Relaxed; as in `head`.
            let _lost_to_a_pull = self
                .head
                .compare_exchange(old.0, new.0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// The sets that have run of late. Empty, and never asked, while the policy is off.
#[derive(Debug)]
pub(crate) struct Sets {
    heads: Box<[AtomicU64]>,
    books: Box<[CachePadded<Books>]>,
    llcs: usize,
    ttl: Nanos,
}

impl Sets {
    /// For a machine of so many LLCs; 0: for none.
    pub(crate) fn new(llcs: usize, ttl: Nanos) -> Self {
        let slots = if llcs == 0 { 0 } else { SLOTS };
        let books = |_| {
            CachePadded::new(Books {
                tally: Tally::new(llcs + 1),
                last_run: AtomicU64::new(0),
            })
        };
        Self {
            heads: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            books: (0..slots).map(books).collect(),
            llcs,
            ttl,
        }
    }

    /// What is known of a set; nothing, if it may not prefer anything or has not run of late.
    #[inline]
    pub(crate) fn look(&self, set: SetId) -> Known {
        if !set.may_prefer() {
            return Known::default();
        }
        let slot = self.find(set.number());
        slot.map_or(Known::default(), |slot| slot.head().known())
    }

    /// A task has followed its set: one pull less. False if none was left.
    pub(crate) fn take_pull(&self, set: SetId) -> bool {
        let Some(slot) = self.find(set.number()) else {
            return false;
        };
        let head = slot.head();
        let known = head.known();
        let Some(pulls) = known.pulls.checked_sub(1) else {
            return false;
        };
        let new = Head::new(head.number(), Known { pulls, ..known });
        // Ordering: Relaxed; as in `head`.
        slot.head
            .compare_exchange(head.0, new.0, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Adds what a worker behind `llc` tells of a set. Returns its slot, and when it had run before, if that is known;
    /// nothing, if there is no slot for it.
    pub(crate) fn add(&self, share: Share, llc: usize, now: Nanos) -> Option<(Slot<'_>, Option<Nanos>)> {
        let (slot, before) = match self.find(share.number) {
            Some(slot) => {
                let before = slot.last_run();
                // After a pause the old sums say nothing.
                if now.since(before) >= self.ttl
                    && let Some(turn) = slot.books.tally.turn_early(now.0)
                    && slot.last_run() == before
                {
                    turn.clear();
                    slot.publish(slot.head(), Head::new(share.number, Known::default()));
                }
                (slot, Some(before))
            }
            // The slot says now, for the other claimers; the set itself has not run before.
            None => (self.claim(share.number, now)?, None),
        };
        // Ordering: Relaxed; a time, once an epoch and worker.
        slot.books.last_run.store(now.0, Ordering::Relaxed);
        slot.books.tally.add(llc, share.ns);
        slot.books.tally.add(self.llcs, u64::from(share.polls) * SetView::POLL);
        Some((slot, before))
    }

    #[inline]
    fn find(&self, number: u32) -> Option<Slot<'_>> {
        self.ways(number).find(|slot| slot.head().number() == number)
    }

    /// A slot whose set has not run for the time-out, for the set `number` now.
    fn claim(&self, number: u32, now: Nanos) -> Option<Slot<'_>> {
        self.ways(number).find(|slot| {
            let old = slot.head();
            let free = old.number() == 0 || now.since(slot.last_run()) >= self.ttl;
            // The turn keeps a halver of the old set from subtracting what is gone.
            let Some(turn) = free.then(|| slot.books.tally.turn_early(now.0)).flatten() else {
                return false;
            };
            // Before the number changes, so that nothing of the new set is cleared.
            turn.clear();
            // Ordering: Relaxed; a time: nobody else shall find the slot free.
            slot.books.last_run.store(now.0, Ordering::Relaxed);
            let new = Head::new(number, Known::default());
            // Ordering: Relaxed; as in `head`.
            slot.head
                .compare_exchange(old.0, new.0, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        })
    }

    fn ways(&self, number: u32) -> impl Iterator<Item = Slot<'_>> {
        let first = number as usize;
        (0..WAYS.min(self.heads.len())).map(move |way| {
            let index = (first + way) % SLOTS;
            Slot {
                head: &self.heads[index],
                books: &self.books[index],
            }
        })
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests;
