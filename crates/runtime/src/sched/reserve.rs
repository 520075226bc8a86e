//! Idle workers that are kept for the tasks that they ran last (policy 2, off by default).
//!
//! A worker that goes to sleep says until when it is kept, and wakers of other tasks look for somebody else at first. What
//! they claim is claimed exactly, and who finds nobody else claims as if nobody were kept: a reservation chooses between idle
//! workers, and the queues that a task goes to, and who is told of it (W1), are what they would be without.

use quadrille_policy::{GroupMask, LlcId, Policy, WorkerId};

use super::Shared;
use super::context::Context;
use super::idle::Seat;
use super::schedule::count;
use super::worker::Worker;
use crate::lines;
use crate::primitives::Ordering;
use crate::sys::clock;

/// Groups with idle members that a waker looks at for one who is not kept.
const LOOKS_MAX: usize = 3;

impl Worker {
    /// Says until when the worker, which goes to sleep, is kept.
    pub(super) fn be_reserved(&mut self) {
        if !self.reserve.is_on() {
            return;
        }
        let me = self.context.me();
        let until = self.reserve.parks(self.context.now.get());
        // Ordering: Relaxed; a hint.
        me.reserved_until.store(until.0, Ordering::Relaxed);
        me.counters.reserved.add(u64::from(until.0 != 0));
    }
}

impl Shared {
    /// The idle members of `group` that a wake-up by `by` may claim at first: all but those that are kept for other tasks than
    /// the one that `own` ran last.
    #[inline]
    pub(super) fn claimable(&self, group: usize, own: Option<WorkerId>, by: Option<&Context>) -> GroupMask {
        let idle = GroupMask(self.sleepers.idle.members(group));
        if idle.is_empty() || !self.policy.reserves() {
            return idle;
        }
        self.claimable_beside_kept(group, idle, own, by)
    }

    #[cold]
    fn claimable_beside_kept(
        &self,
        group: usize,
        idle: GroupMask,
        own: Option<WorkerId>,
        by: Option<&Context>,
    ) -> GroupMask {
        let kept = self.kept_of(group, idle);
        let plan = &self.policy.plan.workers;
        let own = own.and_then(|worker| plan.get(worker.index()));
        let own = own.filter(|plan| plan.group.index() == group).map(|plan| plan.member);
        let may = Policy::claimable(idle, kept, own);
        if may != idle {
            count(by, |counters| counters.reserved_passed.add(1));
        }
        may
    }

    /// Those of `idle` that are kept. The clock is read if one seems to be: a waker remembers the time from before its task.
    fn kept_of(&self, group: usize, idle: GroupMask) -> GroupMask {
        let members = &self.policy.plan.groups[group].members;
        let mut now = None;
        let mut is_kept = |member: u8| {
            let worker = &self.workers[members[usize::from(member)].index()];
            lines::touch(&worker.reserved_until);
            // Ordering: Relaxed; a hint.
            let until = worker.reserved_until.load(Ordering::Relaxed);
            until != 0 && until > *now.get_or_insert_with(clock::nanos)
        };
        let mut kept = 0;
        let mut left = idle;
        while let Some(member) = left.first() {
            left.0 &= left.0 - 1;
            kept |= u64::from(is_kept(member)) << member;
        }
        GroupMask(kept)
    }

    /// Claims an idle worker of `llc` that is not kept, from the group `from` on; the sentinel is left for later, too.
    pub(super) fn claim_unkept(&self, llc: LlcId, from: usize, by: Option<&Context>) -> Option<Seat> {
        let groups = self.llc_groups.get(llc.index())?;
        let sentinel = self.sleepers.sentinel_seat();
        let idle = &self.sleepers.idle;
        let looked_at = idle.idle_groups(llc.index(), groups, from).take(LOOKS_MAX);
        looked_at.into_iter().find_map(|group| {
            let mut may = self.claimable(group, None, by);
            if let Some(seat) = sentinel.filter(|seat| seat.group == group) {
                may = Policy::claimable(may, GroupMask::only(seat.member), None);
            }
            let seat = Seat {
                group,
                member: may.first()?,
            };
            idle.claim_seat(seat).then_some(seat)
        })
    }
}
