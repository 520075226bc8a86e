//! Streaks: tasks that follow one another out of the slot, or from the back of the deque while one waits for another, or threads out of the place
//! before the bound FIFO, and when they have lasted for too long ([`Streaks`](quadrille_policy::Streaks), W5).
//!
//! While they are measured nothing but a pop from the queue behind the place, or that there is nothing at all, begins a streak: what is in that
//! queue then has had its turn. If anything else did, what waits there could be passed by without end by what the worker takes elsewhere in
//! between and what that wakes.

use std::cell::Cell;

use quadrille_policy::Nanos;

use super::context::Context;
use super::worker::Worker;
use crate::sys::clock;
use crate::task::Runnable;
use crate::task::meta::LastWorker;

/// Tasks from the back of the deque for each look at the clock.
const NEWEST_A_LOOK: u32 = 8;

/// Out of line: whoever begins a streak needs no room for what reading the clock does.
#[inline(never)]
fn begins_now(since: &Cell<Nanos>) {
    since.set(Nanos(clock::nanos()));
}

impl Context {
    /// The queue behind one of the two places has had its turn: a streak begins, at the time that is written to `since`.
    #[inline]
    pub(super) fn begin_streak(&self, since: &Cell<Nanos>) {
        if self.measures_streaks.get() {
            begins_now(since);
        }
    }

    /// Both queues were empty.
    pub(super) fn begin_streaks(&self) {
        self.begin_streak(&self.streak_since);
        self.streak_end.set(self.local.end());
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

/// What the calling thread polls waits for a task to end: if it is a worker, what it spawned last may go before what waits for longer.
#[inline]
pub(crate) fn waits_for_a_task() {
    Context::with(|context| {
        if let Some(context) = context {
            context.is_joining.set(true);
        }
    });
}

impl Worker {
    /// The newest task of the deque, if it has not begun and goes before the oldest. Asked while a task waits for another; if the answer is no, the
    /// oldest has its turn.
    pub(super) fn take_newest(&mut self) -> Option<Runnable> {
        let since = self.context.streak_end.get();
        let policy = &self.context.shared.policy;
        if self.context.local.end() > since && policy.takes_newest(self.newest) && self.newest_are_in_time() {
            let context = &self.context;
            // What was there before, or came from others, or has run already waits in the order in which it came.
            let ours = LastWorker::spawned_by(context.id);
            // SAFETY: we hold the runnable while it is looked at (rule 1 of `task`).
            let is_new = |runnable: &Runnable| unsafe { runnable.meta().last_worker() }.get() == ours;
            if let Some(runnable) = context.local.pop_newest(since, is_new) {
                let counters = &context.me().counters;
                counters.local_pops.add(1);
                counters.newest_pops.add(1);
                self.arrivals.newest(counters, context.local.len());
                self.newest += 1;
                return Some(runnable);
            }
        }
        self.context.is_joining.set(false);
        self.newest = 0;
        None
    }

    /// Whether the newest have not gone first for too long, whatever those before them have taken. Not while the clock stands.
    fn newest_are_in_time(&mut self) -> bool {
        let context = &self.context;
        if context.is_over(&context.streak_since) {
            return false;
        }
        if !self.newest.is_multiple_of(NEWEST_A_LOOK) || context.shared.clock.is_paused() {
            return true;
        }
        let now = Nanos(clock::nanos());
        if self.newest == 0 {
            self.newest_since = now;
        }
        context.shared.policy.joins_streak(now.since(self.newest_since))
    }

    /// Looking up, `elapsed` after it did so last: whether streaks are measured from now on. Never while the clock stands: the order of tasks
    /// would depend on the system's.
    pub(super) fn measure_streaks(&mut self, elapsed: Nanos) {
        let context = &self.context;
        let counters = &context.me().counters;
        // What was taken and left to another was not polled.
        let taken = counters.polls.get() + counters.bound_elsewhere.get();
        let began = taken.saturating_sub(counters.slot_pops.get() + counters.newest_pops.get());
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
