//! What a thief tells the policy of its hauls.

use quadrille_policy::{Haul, Nanos, WorkerId};

use super::Shipped;
use super::view::len;
use crate::world::World;

impl Shipped {
    /// Notes that one task was stolen from `victim` to be run now, and the others in the deque with it.
    pub(super) fn note_theft(&mut self, world: &mut World, thief: WorkerId, victim: WorkerId, at: Nanos) {
        let polls = world.counters(thief).polls;
        let me = &mut self.workers[thief.index()];
        me.profit.stole(&world.policy.config.steal, || Haul {
            victim,
            tasks: len(me.deque.len() + 1),
            polls,
            at,
        });
    }

    /// The worker is dry, so what was stolen last is used up: if it has not paid, its victim is spared for a while.
    pub(super) fn judge_theft(&mut self, world: &mut World, thief: WorkerId, now: Nanos) {
        let polls = world.counters(thief).polls;
        let me = &mut self.workers[thief.index()];
        if let Some((victim, until)) = me.profit.used_up(&world.policy.config.steal, polls, || now) {
            self.workers[victim.index()].spared_until = until;
        }
    }
}
