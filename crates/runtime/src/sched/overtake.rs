//! Short tasks go before long ones that have waited for longer: what the policy says is done ([`Overtaking`](quadrille_policy::Overtaking)).
//!
//! A task is passed over by its own worker, between two polls: it is taken from the front of the deque, or from the slot, and goes to the back as a task does that
//! gives way. So it is in nobody else's hands for no longer than that one's is, thieves find it, and what W1 and W5 say of who is requeued is true of it.
//! As long as no task is long nothing here runs, and no task costs more than without.

use quadrille_policy::Nanos;

use super::worker::Worker;
use crate::sys::clock;
use crate::task::Runnable;
use crate::task::meta::BOUND;

/// Tasks that are passed over in a row, at most, before others are known to be there: some 10 ns each.
const IN_A_ROW: usize = 64;

impl Worker {
    /// Before a task, once it is due or long ones are about: looks up, or takes the next task by time. As [`look_up`](Self::look_up): `None`: stop.
    #[cold]
    pub(super) fn comes_between(&mut self) -> Option<Option<Runnable>> {
        if self.overtaking.is_on() {
            let has_come = self.pace.has_come();
            let now = (has_come || self.overtaking.needs_time()).then(|| self.times_polls());
            if !has_come {
                // A long poll ends: timers and readiness have waited for it.
                let since = self.context.now.get();
                let look_up = self.context.shared.policy.config.look_up;
                if now.is_none_or(|now| now.since(since) < look_up) {
                    return Some(self.next_by_time(now));
                }
                self.pace.comes_early();
            }
        }
        let found = self.look_up()?;
        if !self.overtaking.is_on() {
            return Some(found);
        }
        self.pace.steps();
        // What it did meanwhile no task took.
        let now = self.times_polls();
        if let Some(runnable) = found {
            self.overtaking.begins(runnable.meta().id.number());
            return Some(Some(runnable));
        }
        Some(self.next_by_time(Some(now)))
    }

    /// Reads the clock for the polls that have begun since it was read for such.
    fn times_polls(&mut self) -> Nanos {
        let now = Nanos(clock::nanos());
        self.overtaking.ended(now);
        now
    }

    /// Out of slot, deque and bound FIFO, by time; `now` if the clock has been read.
    fn next_by_time(&mut self, now: Option<Nanos>) -> Option<Runnable> {
        let runnable = self.next_local()?;
        let task = runnable.meta().id.number();
        if self.overtaking.is_long(task) && !runnable.meta().has(BOUND) {
            let now = now.unwrap_or_else(|| self.times_polls());
            return self.pass_over(runnable, now);
        }
        self.overtaking.begins(task);
        Some(runnable)
    }

    /// That long task, or what goes before it: the next one of the deque that may, or the slot's once the deque has been gone through.
    fn pass_over(&mut self, runnable: Runnable, now: Nanos) -> Option<Runnable> {
        let mut left = self.context.local.len().min(IN_A_ROW);
        // Whatever a policy answers.
        let most = 2 * left + 2;
        let mut passed = 0;
        let mut next = Some(runnable);
        while let Some(runnable) = next.take() {
            let queued = self.context.local.len();
            if passed == most || !self.is_passed_over(&runnable, now, queued) {
                next = Some(runnable);
                break;
            }
            self.context.me().counters.passed_over.add(1);
            self.context.local.push(runnable);
            passed += 1;
            if left == 0 {
                next = self.context.me().slot.take();
                if next.is_none() {
                    self.sees_long_ones_only(queued);
                }
            }
            left = left.saturating_sub(1);
            next = next.or_else(|| self.context.local.pop());
        }
        if passed > 0 {
            // As for what gives way: somebody watches, and what the next poll spawns is known by where the deque ends (W5).
            self.context.streak_end.set(self.context.local.end());
            self.context.keep_watch();
        }
        // Thieves may have taken all of it.
        let next = next.or_else(|| self.next_local())?;
        self.overtaking.begins(next.meta().id.number());
        Some(next)
    }

    fn is_passed_over(&mut self, runnable: &Runnable, now: Nanos, queued: usize) -> bool {
        let task = runnable.meta().id.number();
        self.overtaking.is_long(task) && self.overtaking.passes(task, now, queued)
    }

    /// In slot and deque, as far as it looks.
    fn sees_long_ones_only(&mut self, queued: usize) {
        if queued > IN_A_ROW {
            self.overtaking.goes_in_order(queued);
        } else {
            self.overtaking.nobody_else();
        }
    }
}
