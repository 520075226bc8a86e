//! Streaks: tasks that follow one another out of the slot, or threads out of the place before the bound FIFO, and when they have lasted for
//! too long ([`Streaks`](quadrille_policy::Streaks), W5).
//!
//! While they are measured nothing but a pop from the queue behind the place, or that there is nothing at all, begins a streak: what is in that
//! queue then has had its turn. If anything else did, what waits there could be passed by without end by what the worker takes elsewhere in
//! between and what that wakes.

use std::cell::Cell;

use quadrille_policy::Nanos;

use super::context::Context;
use super::worker::Worker;
use crate::sys::clock;

impl Context {
    /// The queue behind one of the two places has had its turn: a streak begins, at the time that is written to `since`.
    #[inline]
    pub(super) fn begin_streak(&self, since: &Cell<Nanos>) {
        if self.measures_streaks.get() {
            since.set(Nanos(clock::nanos()));
        }
    }

    /// Both queues were empty.
    pub(super) fn begin_streaks(&self) {
        self.begin_streak(&self.streak_since);
        self.bound_streak_since.set(self.streak_since.get());
    }

    /// Whether what is woken now comes too late for the streak that began at `since`, and goes behind those that wait.
    #[inline]
    pub(super) fn is_over(&self, since: &Cell<Nanos>) -> bool {
        self.measures_streaks.get() && self.has_lasted(since.get())
    }

    #[cold]
    fn has_lasted(&self, since: Nanos) -> bool {
        !self.shared.policy.joins_streak(Nanos(clock::nanos()).since(since))
    }
}

impl Worker {
    /// Looking up, `elapsed` after it did so last: whether streaks are measured from now on. Never while the clock stands: the order of tasks
    /// would depend on the system's.
    pub(super) fn measure_streaks(&mut self, elapsed: Nanos) {
        let context = &self.context;
        let counters = &context.me().counters;
        let began = counters.polls.get().saturating_sub(counters.slot_pops.get());
        let new = began.saturating_sub(self.streaks_before);
        self.streaks_before = began;
        self.streaks.looks_up(elapsed, u32::try_from(new).unwrap_or(u32::MAX));
        let policy = &context.shared.policy;
        let measures = policy.measures_streaks(self.streaks.average()) && !context.shared.clock.is_paused();
        self.streak_max = if measures {
            u32::MAX
        } else {
            policy.config.slot_polls_max
        };
        if measures && !context.measures_streaks.get() {
            // When those that run began nobody knows: as if they began now.
            context.streak_since.set(context.now.get());
            context.bound_streak_since.set(context.now.get());
        }
        context.measures_streaks.set(measures);
    }
}
