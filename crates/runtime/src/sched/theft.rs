//! What a thief tells the policy of its hauls.

use quadrille_policy::{Haul, Nanos, WorkerId};

use super::worker::Worker;
use crate::primitives::Ordering;
use crate::sys::clock;

impl Worker {
    /// Notes that one task was stolen from `victim` to be run now, and the others in the deque with it.
    pub(super) fn note_theft(&mut self, victim: WorkerId) {
        let context = &self.context;
        self.profit.stole(&context.shared.policy.config.steal, || Haul {
            victim,
            tasks: u32::try_from(context.local.len() + 1).unwrap_or(u32::MAX),
            polls: context.me().counters.polls.get(),
            at: Nanos(clock::nanos()),
        });
    }

    /// The worker is dry, so what was stolen last is used up: if it has not paid, its victim is spared for a while.
    pub(super) fn judge_theft(&mut self) {
        let context = &self.context;
        let (steal, polls) = (&context.shared.policy.config.steal, context.me().counters.polls.get());
        if let Some((victim, until)) = self.profit.used_up(steal, polls, || Nanos(clock::nanos())) {
            let victim = &context.shared.workers[victim.index()];
            // Ordering: Relaxed; a hint.
            victim.told.spared_until.store(until.0, Ordering::Relaxed);
        }
    }
}
