//! Streaks: tasks that follow one another out of the slot, or from the back of the deque while one waits for another,
//! or threads out of the place before the bound FIFO, and when they have lasted for too long
//! ([`Streaks`](quadrille_policy::Streaks), W5).
//!
//! While they are measured nothing but a pop from the queue behind the place, or that there is nothing at all, begins a
//! streak: what is in that queue then has had its turn. If anything else did, what waits there could be passed by
//! without end by what the worker takes elsewhere in between and what that wakes.

use std::cell::Cell;

use quadrille_policy::Nanos;

use super::context::Context;
use super::worker::Worker;
use crate::sys::clock;
use crate::task::Runnable;
use crate::task::meta::LastWorker;

/// Tasks from the back of the deque for each look at the clock.
const NEWEST_A_LOOK: u32 = 8;

/// What is known of the streak of one of the two places, if they are measured.
#[derive(Debug, Default)]
pub(super) struct Streak {
    /// When what is in the queue behind it had its turn.
    since: Cell<Nanos>,
    /// How many more join it before the clock is read.
    joins: Cell<u32>,
}

impl Streak {
    /// Out of line: whoever begins a streak needs no room for what reading the clock does.
    #[inline(never)]
    fn begins_now(&self, joins: u32) {
        self.begins(Nanos(clock::nanos()), joins);
    }

    /// From now on, with a look at the clock for each `joins` that join it, one at least.
    fn begins(&self, now: Nanos, joins: u32) {
        self.since.set(now);
        self.joins.set(joins - 1);
    }
}

impl Context {
    /// The queue behind one of the two places has had its turn: a streak begins.
    #[inline]
    pub(super) fn begin_streak(&self, streak: &Streak) {
        if self.measures_streaks.get() {
            streak.begins_now(self.joins_a_look.get());
        }
    }

    /// Both queues were empty.
    pub(super) fn begin_streaks(&self) {
        self.begin_streak(&self.slot_streak);
        self.streak_end.set(self.local.end());
        self.bound_streak
            .begins(self.slot_streak.since.get(), self.joins_a_look.get());
    }

    /// Whether what is woken now comes too late for a streak, and goes behind those that wait. If not it is one of
    /// those that join.
    #[inline]
    pub(super) fn is_over(&self, streak: &Streak) -> bool {
        self.measures_streaks.get() && !self.joins(streak)
    }

    fn joins(&self, streak: &Streak) -> bool {
        let joins = streak.joins.get();
        if joins > 0 {
            streak.joins.set(joins - 1);
            return true;
        }
        self.joins_by_the_clock(streak)
    }

    /// What is over stays so until another begins.
    #[cold]
    fn joins_by_the_clock(&self, streak: &Streak) -> bool {
        let since = streak.since.get();
        let joins = self.shared.policy.joins_streak(Nanos(clock::nanos()).since(since));
        if joins {
            // This one is one of them.
            streak.joins.set(self.joins_a_look.get() - 1);
        }
        joins
    }
}

/// What the calling thread polls waits for a task to end: if it is a worker, what it spawned last may go before what
/// waits for longer.
#[inline]
pub(crate) fn waits_for_a_task() {
    Context::with(|context| {
        if let Some(context) = context {
            context.is_joining.set(true);
        }
    });
}

impl Worker {
    /// The newest task of the deque, if it has not begun and goes before the oldest. Asked while a task waits for
    /// another; if the answer is no, the oldest has its turn.
    pub(super) fn take_newest(&mut self) -> Option<Runnable> {
        let since = self.context.streak_end.get();
        let policy = &self.context.shared.policy;
        if self.context.local.end() > since && policy.takes_newest(self.newest) && self.newest_are_in_time() {
            let context = &self.context;
            // What was there before, or came from others, or has run already waits in the order in which it came.
            let ours = LastWorker::spawned_by(context.id);
            let is_new = |runnable: &Runnable| runnable.last_worker().get() == ours;
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

    /// Whether the newest have not gone first for too long, whatever those before them have taken. Not while the clock
    /// stands.
    fn newest_are_in_time(&mut self) -> bool {
        let context = &self.context;
        if context.is_over(&context.slot_streak) {
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

    /// Looking up, `elapsed` after it did so last: whether streaks are measured from now on. Never while the clock
    /// stands: the order of tasks would depend on the system's.
    pub(super) fn measure_streaks(&mut self, elapsed: Nanos) {
        let context = &self.context;
        let counters = &context.me().counters;
        // What was taken and left to another was not polled.
        let taken = counters.polls.get() + counters.bound_elsewhere.get() + self.slot_passes;
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
            context.slot_streak.begins(context.now.get(), 1);
            context.bound_streak.begins(context.now.get(), 1);
        }
        context.measures_streaks.set(measures);
        context.joins_a_look.set(policy.joins_a_look(context.average_run.get()));
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::super::still::Still;
    use super::*;

    #[test]
    fn so_many_join_for_each_look_at_the_clock() {
        let mut still = Still::new("core:1", "slot-time=0ns");
        let worker = still.worker(0);
        let context = &worker.context;
        context.measures_streaks.set(true);
        context.joins_a_look.set(3);
        let joined = |streak: &Streak| [(); 4].map(|()| !context.is_over(streak));
        // Two before the first look; what is over then stays so.
        let streak = Streak::default();
        streak.begins(Nanos(0), 3);
        assert_eq!(joined(&streak), [true, true, false, false]);
        assert_eq!(joined(&streak), [false; 4]);
        // The third looks in time, and is one of the next three; then time has passed.
        streak.begins(Nanos(u64::MAX), 3);
        assert_eq!(joined(&streak), [true; 4]);
        streak.since.set(Nanos(0));
        assert_eq!(joined(&streak), [true, false, false, false]);
    }
}
