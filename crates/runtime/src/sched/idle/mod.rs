//! Which workers are idle: a bit a worker in its group's word, a bit a group in its LLC's summary.
//!
//! A bit is set by its worker alone and cleared by exactly one thread, which then owns the claim: it owes the worker
//! one token, or, if it is the worker itself, nothing. The pure part, bits in and bits out, is in [`word`].

mod caches;
pub(crate) mod word;

use crossbeam_utils::CachePadded;
use quadrille_policy::{Plan, WorkerId};

use self::caches::Caches;
use crate::lines;
use crate::primitives::{AtomicU64, Ordering};
use crate::stress;

/// A worker's place in the masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) group: usize,
    pub(crate) member: u8,
}

/// What a worker that cleared its own bit found.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Withdrawn {
    /// The bit was set: nobody has claimed us.
    Free,
    /// The bit was gone: a claimer owes us a token.
    Claimed,
}

/// 64 groups of a LLC, a bit each.
#[derive(Debug)]
struct Summary {
    /// Some member is idle.
    idle: AtomicU64,
    /// Some core is idle as a whole. A preference, kept where cores have several workers.
    cores: AtomicU64,
}

/// The idle bits of all workers.
#[derive(Debug)]
pub(crate) struct Idle {
    /// One word a group; bit `i` is its member `i`.
    groups: Box<[CachePadded<AtomicU64>]>,
    /// One summary a LLC, 64 groups a word.
    llcs: Box<[Box<[CachePadded<Summary>]>]>,
    /// By group: the members of each core; empty on a machine whose cores have one worker each.
    cores: Box<[Box<[u64]>]>,
    /// Where a group's summary bit is: LLC and position in it.
    place: Box<[(usize, usize)]>,
    /// The bits by cache, counted.
    pub(crate) caches: Caches,
}

impl Idle {
    pub(crate) fn new(plan: &Plan) -> Self {
        let place = plan
            .groups
            .iter()
            .map(|group| (group.llc.index(), usize::from(group.index_in_llc)))
            .collect();
        let summary = |_| {
            CachePadded::new(Summary {
                idle: AtomicU64::new(0),
                cores: AtomicU64::new(0),
            })
        };
        let words = |groups: usize| (0..groups.div_ceil(64)).map(summary).collect();
        Self {
            groups: plan
                .groups
                .iter()
                .map(|_| CachePadded::new(AtomicU64::new(0)))
                .collect(),
            llcs: plan.llcs.iter().map(|llc| words(llc.groups.len())).collect(),
            place,
            cores: cores(plan),
            caches: Caches::new(plan.llcs.len()),
        }
    }

    /// Sets the bit of `seat`: its worker is about to park.
    pub(crate) fn announce(&self, seat: Seat) {
        self.caches.enter(self.llc_of(seat.group));
        // Ordering: SeqCst; (W1 b).
        let old = self.groups[seat.group].fetch_or(1 << seat.member, Ordering::SeqCst);
        if old == 0 {
            stress::delay();
            self.set_summary(seat.group);
        }
        let cores = &self.cores[seat.group];
        if !cores.is_empty() && word::has_idle_core(old | 1 << seat.member, cores) {
            self.set_cores(seat.group);
        }
    }

    /// Clears the bit of `seat`, which is the caller's own.
    pub(crate) fn withdraw(&self, seat: Seat) -> Withdrawn {
        if self.clear(seat.group, seat.member) {
            Withdrawn::Free
        } else {
            Withdrawn::Claimed
        }
    }

    /// Clears the bit of one idle member of `group`: `prefer` if it is idle, any other but `avoid` else, `avoid` last.
    pub(crate) fn claim_in_group(&self, group: usize, prefer: Option<u8>, avoid: Option<u8>) -> Option<u8> {
        lines::touch(&self.groups[group]);
        loop {
            // Ordering: Relaxed; the fence (W1 A) has come before, the claim below decides.
            let idle = self.groups[group].load(Ordering::Relaxed);
            let member = word::pick(idle, prefer, avoid, &self.cores[group])?;
            if self.clear(group, member) {
                return Some(member);
            }
        }
    }

    /// Clears the bit of `seat` for a claimer. False if it is not set.
    pub(crate) fn claim_seat(&self, seat: Seat) -> bool {
        self.members(seat.group) & (1 << seat.member) != 0 && self.clear(seat.group, seat.member)
    }

    /// Claims an idle worker of `llc`, starting behind the group `from` of that LLC; one on a core that is idle as a
    /// whole if there is one. Looks at no more than `looks_max` groups.
    pub(crate) fn claim_in_llc(
        &self,
        llc: usize,
        groups: &[usize],
        from: usize,
        avoid: Option<Seat>,
        looks_max: usize,
    ) -> Option<Seat> {
        let mut left = looks_max;
        if groups.first().is_some_and(|group| !self.cores[*group].is_empty()) {
            let seat = self.claim_by(|summary| &summary.cores, llc, groups, from, avoid, &mut left);
            if seat.is_some() {
                return seat;
            }
        }
        self.claim_by(|summary| &summary.idle, llc, groups, from, avoid, &mut left)
    }

    /// The groups of `llc` that have an idle member, by the summary, from the group `from` on.
    pub(crate) fn idle_groups<'a>(
        &'a self,
        llc: usize,
        groups: &'a [usize],
        from: usize,
    ) -> impl Iterator<Item = usize> + 'a {
        let start = from % groups.len().max(1);
        let rotated = (start..groups.len()).chain(0..start);
        rotated
            .filter(move |index| self.summary_has(llc, *index))
            .map(|index| groups[index])
    }

    fn summary_has(&self, llc: usize, index: usize) -> bool {
        let summary = &self.llcs[llc][index / 64];
        lines::touch(summary);
        // Ordering: Relaxed; a hint.
        summary.idle.load(Ordering::Relaxed) & 1 << (index % 64) != 0
    }

    fn claim_by(
        &self,
        bits_of: impl Fn(&Summary) -> &AtomicU64,
        llc: usize,
        groups: &[usize],
        from: usize,
        avoid: Option<Seat>,
        left: &mut usize,
    ) -> Option<Seat> {
        let summary = &self.llcs[llc];
        for step in 0..summary.len() {
            let index = (from / 64 + step) % summary.len();
            lines::touch(&summary[index]);
            // Ordering: Relaxed; the fence (W1 A) has come before, the claim decides.
            let mut bits = bits_of(&summary[index]).load(Ordering::Relaxed);
            while let Some(bit) = word::pick_rotated(bits, if step == 0 { from % 64 } else { 0 }) {
                *left = left.checked_sub(1)?;
                bits &= !(1 << bit);
                let group = groups[index * 64 + usize::from(bit)];
                let avoided = avoid.filter(|seat| seat.group == group).map(|seat| seat.member);
                if let Some(member) = self.claim_in_group(group, None, avoided) {
                    return Some(Seat { group, member });
                }
            }
        }
        None
    }

    /// The idle members of `group`.
    #[inline]
    pub(crate) fn members(&self, group: usize) -> u64 {
        lines::touch(&self.groups[group]);
        // Ordering: Relaxed; a hint, or after the fence (W1 A).
        self.groups[group].load(Ordering::Relaxed)
    }

    /// Whether `llc` looks as if it had an idle worker.
    pub(crate) fn any_in_llc(&self, llc: usize) -> bool {
        self.llcs[llc].iter().for_each(lines::touch);
        // Ordering: Relaxed; a hint.
        self.llcs[llc]
            .iter()
            .any(|summary| summary.idle.load(Ordering::Relaxed) != 0)
    }

    /// The cache that `group` counts for.
    #[inline]
    pub(crate) fn llc_of(&self, group: usize) -> usize {
        self.place[group].0
    }

    /// Number of idle workers by their bits, one after the other.
    pub(crate) fn bits(&self) -> u32 {
        (0..self.groups.len())
            .map(|group| self.members(group).count_ones())
            .sum()
    }

    /// True for exactly one caller a bit set.
    fn clear(&self, group: usize, member: u8) -> bool {
        lines::touch(&self.groups[group]);
        let bit = 1 << member;
        // Ordering: SeqCst; the exact claim. Its acquire side orders the claimed worker's bit before our token, its
        // release side our publication before the worker's next announcement.
        let old = self.groups[group].fetch_and(!bit, Ordering::SeqCst);
        if old & bit == 0 {
            return false;
        }
        self.caches.leave(self.llc_of(group));
        if old == bit {
            stress::delay();
            self.clear_summary(group);
        }
        let cores = &self.cores[group];
        if !cores.is_empty() && word::has_idle_core(old, cores) && !word::has_idle_core(old & !bit, cores) {
            self.clear_cores(group, cores);
        }
        true
    }

    /// Where the summaries of `group`'s LLC have its bits.
    fn summary(&self, group: usize) -> (&Summary, u64) {
        let (llc, index) = self.place[group];
        lines::touch(&self.llcs[llc][index / 64]);
        (&self.llcs[llc][index / 64], 1 << (index % 64))
    }

    fn set_summary(&self, group: usize) {
        let (summary, bit) = self.summary(group);
        // Ordering: SeqCst; (I a) publishes the group's bit to the second read in `clear_summary`.
        summary.idle.fetch_or(bit, Ordering::SeqCst);
    }

    fn clear_summary(&self, group: usize) {
        let (summary, bit) = self.summary(group);
        // Ordering: SeqCst; (I b) before the second read. If (I a) came first, its release and this acquire show us the
        // group's bit; if it comes later, it undoes what we do here.
        summary.idle.fetch_and(!bit, Ordering::SeqCst);
        stress::delay();
        // Ordering: Relaxed; after (I b).
        if self.groups[group].load(Ordering::Relaxed) != 0 {
            self.set_summary(group);
        }
    }

    fn set_cores(&self, group: usize) {
        let (summary, bit) = self.summary(group);
        // Ordering: SeqCst; as (I a), one level up.
        summary.cores.fetch_or(bit, Ordering::SeqCst);
    }

    fn clear_cores(&self, group: usize, cores: &[u64]) {
        let (summary, bit) = self.summary(group);
        // Ordering: SeqCst; as (I b), one level up.
        summary.cores.fetch_and(!bit, Ordering::SeqCst);
        if word::has_idle_core(self.members(group), cores) {
            self.set_cores(group);
        }
    }
}

/// The members of each core, by group; empty lists if no core of the machine has two workers.
fn cores(plan: &Plan) -> Box<[Box<[u64]>]> {
    let smt = plan.workers.iter().any(|worker| worker.siblings.0.count_ones() > 1);
    let cores_of = |members: &[WorkerId]| -> Box<[u64]> {
        let mut cores: Vec<u64> = members
            .iter()
            .map(|worker| plan.workers[worker.index()].siblings.0)
            .collect();
        cores.dedup();
        cores.into()
    };
    let groups = plan.groups.iter();
    groups
        .map(|group| if smt { cores_of(&group.members) } else { Box::default() })
        .collect()
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use quadrille_policy::PlanOptions;

    use super::*;

    fn idle(machine: &str) -> (Idle, Vec<Seat>) {
        let plan = Plan::compile(&machine.parse().unwrap(), &PlanOptions::default()).unwrap();
        let seats = plan.workers.iter().map(|worker| Seat {
            group: worker.group.index(),
            member: worker.member,
        });
        (Idle::new(&plan), seats.collect())
    }

    /// Four groups of a core of two, workers 2g and 2g + 1.
    #[test]
    fn a_whole_idle_core_is_claimed_first() {
        let (idle, seats) = idle("llc:1 l2:4 pu:2");
        let groups = [0, 1, 2, 3];
        let claim = |from| {
            let seat = idle.claim_in_llc(0, &groups, from, None, usize::MAX)?;
            seats.iter().position(|s| *s == seat)
        };
        for worker in [1, 2, 3, 7] {
            idle.announce(seats[worker]);
        }
        assert_eq!(claim(2), Some(2), "its core is idle, that of 7 is half idle");
        assert_eq!(claim(2), Some(7), "no core is: the next group");
        idle.announce(seats[2]);
        let _free = idle.withdraw(seats[3]);
        idle.announce(seats[0]);
        assert_eq!(claim(1), Some(0));
        assert_eq!((claim(0), claim(0), claim(0)), (Some(1), Some(2), None));
    }

    #[test]
    fn a_bounded_search_looks_at_so_many_groups() {
        let (idle, seats) = idle("llc:1 l2:4 core:2");
        seats.iter().for_each(|seat| idle.announce(*seat));
        assert_eq!(idle.claim_in_llc(0, &[0, 1, 2, 3], 0, None, 0), None);
        let found = idle.claim_in_llc(0, &[0, 1, 2, 3], 3, None, 1);
        assert_eq!(found, Some(seats[6]));
    }
}
