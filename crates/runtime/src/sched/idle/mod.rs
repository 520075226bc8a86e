//! Which workers are idle: a bit a worker in its group's word, a bit a group in its LLC's summary.
//!
//! A bit is set by its worker alone and cleared by exactly one thread, which then owns the claim: it owes the worker one
//! token, or, if it is the worker itself, nothing. The pure part, bits in and bits out, is in [`word`].

pub(crate) mod word;

use crossbeam_utils::CachePadded;
use quadrille_policy::Plan;

use crate::primitives::{AtomicU32, AtomicU64, Ordering};
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

/// The idle bits of all workers.
#[derive(Debug)]
pub(crate) struct Idle {
    /// One word a group; bit `i` is its member `i`.
    groups: Box<[CachePadded<AtomicU64>]>,
    /// One summary a LLC, 64 groups a word.
    llcs: Box<[Box<[AtomicU64]>]>,
    /// Where a group's summary bit is: LLC and position in it.
    place: Box<[(usize, usize)]>,
    /// Number of bits set; at least it, while a claim is under way.
    count: CachePadded<AtomicU32>,
}

impl Idle {
    pub(crate) fn new(plan: &Plan) -> Self {
        let place = plan
            .groups
            .iter()
            .map(|group| (group.llc.index(), usize::from(group.index_in_llc)))
            .collect();
        let words = |groups: usize| (0..groups.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self {
            groups: plan
                .groups
                .iter()
                .map(|_| CachePadded::new(AtomicU64::new(0)))
                .collect(),
            llcs: plan.llcs.iter().map(|llc| words(llc.groups.len())).collect(),
            place,
            count: CachePadded::new(AtomicU32::new(0)),
        }
    }

    /// Sets the bit of `seat`: its worker is about to park.
    pub(crate) fn announce(&self, seat: Seat) {
        // Ordering: SeqCst; before the bit, so that a pusher that reads zero after its fence (W1 A) comes before (W1 b).
        self.count.fetch_add(1, Ordering::SeqCst);
        // Ordering: SeqCst; (W1 b).
        let old = self.groups[seat.group].fetch_or(1 << seat.member, Ordering::SeqCst);
        if old == 0 {
            stress::delay();
            self.set_summary(seat.group);
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
        loop {
            // Ordering: Relaxed; the fence (W1 A) has come before, the claim below decides.
            let idle = self.groups[group].load(Ordering::Relaxed);
            let member = word::pick(idle, prefer, avoid)?;
            if self.clear(group, member) {
                return Some(member);
            }
        }
    }

    /// Clears the bit of `seat` for a claimer. False if it is not set.
    pub(crate) fn claim_seat(&self, seat: Seat) -> bool {
        self.members(seat.group) & (1 << seat.member) != 0 && self.clear(seat.group, seat.member)
    }

    /// Claims an idle worker of `llc`, starting behind the group `from` of that LLC.
    pub(crate) fn claim_in_llc(&self, llc: usize, groups: &[usize], from: usize, avoid: Option<Seat>) -> Option<Seat> {
        let summary = &self.llcs[llc];
        for step in 0..summary.len() {
            let index = (from / 64 + step) % summary.len();
            // Ordering: Relaxed; the fence (W1 A) has come before, the claim decides.
            let mut bits = summary[index].load(Ordering::Relaxed);
            while let Some(bit) = word::pick_rotated(bits, if step == 0 { from % 64 } else { 0 }) {
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
        // Ordering: Relaxed; a hint, or after the fence (W1 A).
        self.groups[group].load(Ordering::Relaxed)
    }

    /// Whether `llc` looks as if it had an idle worker.
    pub(crate) fn any_in_llc(&self, llc: usize) -> bool {
        // Ordering: Relaxed; a hint.
        self.llcs[llc].iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// Number of idle workers.
    #[inline]
    pub(crate) fn count(&self) -> u32 {
        // Ordering: Relaxed; a hint, or after the fence (W1 A).
        self.count.load(Ordering::Relaxed)
    }

    /// True for exactly one caller a bit set.
    fn clear(&self, group: usize, member: u8) -> bool {
        let bit = 1 << member;
        // Ordering: SeqCst; the exact claim. Its acquire side orders the claimed worker's bit before our token, its
        // release side our publication before the worker's next announcement.
        let old = self.groups[group].fetch_and(!bit, Ordering::SeqCst);
        if old & bit == 0 {
            return false;
        }
        self.count.fetch_sub(1, Ordering::SeqCst);
        if old == bit {
            stress::delay();
            self.clear_summary(group);
        }
        true
    }

    fn set_summary(&self, group: usize) {
        let (llc, index) = self.place[group];
        // Ordering: SeqCst; (I a) publishes the group's bit to the second read in `clear_summary`.
        self.llcs[llc][index / 64].fetch_or(1 << (index % 64), Ordering::SeqCst);
    }

    fn clear_summary(&self, group: usize) {
        let (llc, index) = self.place[group];
        // Ordering: SeqCst; (I b) before the second read. If (I a) came first, its release and this acquire show us the
        // group's bit; if it comes later, it undoes what we do here.
        self.llcs[llc][index / 64].fetch_and(!(1 << (index % 64)), Ordering::SeqCst);
        stress::delay();
        // Ordering: Relaxed; after (I b).
        if self.groups[group].load(Ordering::Relaxed) != 0 {
            self.set_summary(group);
        }
    }
}
