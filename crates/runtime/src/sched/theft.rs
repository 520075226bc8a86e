//! What a thief remembers of a theft until the stolen tasks are used up.

use quadrille_policy::{Haul, Nanos, Profit, WorkerId};

use super::worker::Worker;
use crate::primitives::Ordering;
use crate::sys::clock;

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

impl Worker {
    /// Notes that one task was stolen from `victim` to be run now, and the others in the deque with it.
    pub(super) fn note_theft(&mut self, victim: WorkerId) {
        let context = &self.context;
        self.thefts.last = Some(Theft {
            victim,
            tasks: u32::try_from(context.local.len() + 1).unwrap_or(u32::MAX),
            polls: context.me().counters.polls.get(),
            at: Nanos(clock::nanos()),
        });
    }

    /// The worker is dry, so what was stolen last is used up: if it has not paid, its victim is spared for a while.
    pub(super) fn judge_theft(&mut self) {
        let Some(theft) = self.thefts.last.take() else { return };
        let context = &self.context;
        let now = Nanos(clock::nanos());
        context.now.set(now);
        let haul = Haul {
            victim: theft.victim,
            tasks: theft.tasks,
            polls: context.me().counters.polls.get() - theft.polls,
            elapsed: now.since(theft.at),
        };
        if let Some(pause) = self.thefts.profit.pause(&context.shared.policy.config.steal, &haul) {
            let victim = &context.shared.workers[haul.victim.index()];
            // Ordering: Relaxed; a hint.
            victim.spared_until.store(now.0 + pause.0, Ordering::Relaxed);
        }
    }
}
