//! Idle workers that are kept for the tasks that they ran last, as the runtime keeps them.

use quadrille_policy::{GroupMask, LlcId, Nanos, Policy, WorkerId};

use super::Shipped;
use super::sleep::Seat;
use crate::world::World;

impl Shipped {
    /// Says until when the worker, which goes to sleep, is kept.
    pub(super) fn be_reserved(&mut self, world: &mut World, worker: WorkerId, now: Nanos) {
        let me = &mut self.workers[worker.index()];
        me.reserved_until = me.reserve.parks(now);
        world.counters(worker).reserved += u64::from(me.reserved_until.0 != 0);
    }

    /// The idle members of `group` that a wake-up by `by` may claim at first: all but those that are kept for other
    /// tasks than the one that `own` ran last.
    pub(super) fn claimable(
        &self,
        world: &mut World,
        group: usize,
        own: Option<WorkerId>,
        by: Option<WorkerId>,
        now: Nanos,
    ) -> GroupMask {
        let idle = GroupMask(self.sleepers.members(group));
        if idle.is_empty() || !world.policy.reserves() {
            return idle;
        }
        let plan = &world.policy.plan;
        let members = plan.groups[group].members.iter().zip(0_u8..);
        let kept = members
            .filter(|(worker, _)| self.workers[worker.index()].reserved_until > now)
            .map(|(_, member)| GroupMask::only(member).0);
        let kept = GroupMask(kept.fold(0, |kept, member| kept | member));
        let own = own.and_then(|worker| plan.workers.get(worker.index()));
        let own = own.filter(|plan| plan.group.index() == group).map(|plan| plan.member);
        let may = Policy::claimable(idle, kept, own);
        if let (true, Some(by)) = (may != idle, by) {
            world.counters(by).reserved_passed += 1;
        }
        may
    }

    /// Claims an idle worker of `llc` that is not kept, from the group `from` on; the sentinel is left for later, too.
    pub(super) fn claim_unkept(
        &mut self,
        world: &mut World,
        llc: LlcId,
        from: usize,
        by: Option<WorkerId>,
        t: &mut Nanos,
    ) -> Option<Seat> {
        let groups = world.policy.plan.llcs[llc.index()].groups.clone();
        let from = from % groups.len().max(1);
        let sentinel = self.sleepers.sentinel_seat();
        let mut looks = 0;
        for group in groups[from..].iter().chain(&groups[..from]).map(|group| group.index()) {
            if self.sleepers.members(group) == 0 {
                continue;
            }
            if looks == usize::from(world.policy.config.idle_filter.looks) {
                break;
            }
            looks += 1;
            if let Some(by) = by {
                t.0 += self.sleepers.read_group(world, group, by).0;
            }
            let mut may = self.claimable(world, group, None, by, *t);
            if let Some(seat) = sentinel.filter(|seat| seat.group == group) {
                may = Policy::claimable(may, GroupMask::only(seat.member), None);
            }
            if let Some(member) = may.first() {
                return self.sleepers.claim_in_group(world, group, Some(member), None, by, t);
            }
        }
        None
    }
}
