//! What a thief remembers of a theft until the stolen tasks are used up.

use quadrille_policy::{Haul, Nanos, Profit, WorkerId};

use super::Shipped;
use super::view::len;
use crate::world::World;

#[derive(Clone, Copy, Debug)]
struct Theft {
    victim: WorkerId,
    tasks: u32,
    /// The thief's polls until then.
    polls: u64,
    at: Nanos,
}

/// A worker's last theft, and what it has learned from those before.
#[derive(Debug, Default)]
pub(super) struct Thefts {
    last: Option<Theft>,
    profit: Profit,
}

impl Shipped {
    /// Notes that one task was stolen from `victim` to be run now, and the others in the deque with it.
    pub(super) fn note_theft(&mut self, world: &mut World, thief: WorkerId, victim: WorkerId, at: Nanos) {
        let polls = world.counters(thief).polls;
        let me = &mut self.workers[thief.index()];
        me.thefts.last = Some(Theft {
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
        let Some(theft) = me.thefts.last.take() else { return };
        me.clock = now;
        let haul = Haul {
            victim: theft.victim,
            tasks: theft.tasks,
            polls: polls - theft.polls,
            elapsed: now.since(theft.at),
        };
        if let Some(pause) = me.thefts.profit.pause(&world.policy.config.steal, &haul) {
            self.workers[haul.victim.index()].spared_until = Nanos(now.0 + pause.0);
        }
    }
}
