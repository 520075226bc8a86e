//! How a wake-up whose home is busy finds an idle worker elsewhere in the cache (policy 2).
//!
//! Either way it only looks for a bit; the claim is exact, and without one the task is queued at home (W1).

use quadrille_policy::{LlcId, Search};

use super::Shared;
use super::context::Context;
use super::idle::Seat;
use crate::decisions;

impl Shared {
    /// Claims an idle worker of `llc` for a wake-up, the way that policy 2 wants it looked for.
    pub(super) fn search_in_llc(&self, llc: LlcId, by: Option<&Context>) -> Option<Seat> {
        let Some(context) = by else {
            return self.claim_in_llc(llc, 0, self.looks);
        };
        let mut rate = context.probe_rate.get();
        let util = self.loads.utilisation(llc.index().min(self.llc_groups.len() - 1));
        let how = decisions::search(&self.policy, &mut rate, util, context.now.get());
        let probed = if how == Search::Mask {
            None
        } else {
            let met = self.probe(llc, context);
            rate.record(met.is_some());
            met.filter(|seat| Some(*seat) != self.sleepers.sentinel_seat() && self.sleepers.idle.claim_seat(*seat))
        };
        context.probe_rate.set(rate);
        let group = &self.policy.plan.groups[self.group_of(context.id)];
        // Who sends a task to another cache on purpose wants somebody there, not one of two.
        let on_purpose = self.policy.aggregates() && group.llc != llc;
        if probed.is_some() || (how == Search::Probe && !on_purpose) {
            return probed;
        }
        let from = usize::from(group.index_in_llc) + 1;
        if self.policy.reserves()
            && let Some(seat) = self.claim_unkept(llc, from, by)
        {
            return Some(seat);
        }
        self.claim_in_llc(llc, from, self.looks)
    }

    /// The first of two workers of `llc`, chosen at random, that is idle.
    fn probe(&self, llc: LlcId, by: &Context) -> Option<Seat> {
        let workers = &self.policy.plan.llcs.get(llc.index())?.workers;
        let counters = &by.me().counters;
        counters.probes.add(1);
        let random = (0..2).map(|_| workers[by.random_below(workers.len())]);
        let met = random
            .into_iter()
            .map(|worker| self.sleepers.seat(worker.index()))
            .find(|seat| self.claimable(seat.group, None, Some(by)).has(seat.member));
        counters.probes_idle.add(u64::from(met.is_some()));
        met
    }
}
