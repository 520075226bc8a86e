//! Short tasks go before long ones that have waited for longer: what the policy says is done ([`Overtaking`](quadrille_policy::Overtaking)).
//!
//! A task is passed over by its own worker, between two polls: it is taken from the front of the deque, or from the slot, and goes to the back as a task
//! does that gives way. So it is in nobody else's hands for no longer than that one's is, thieves find it, and what W1 and W5 say of who is requeued is true
//! of it. As long as a worker looks up in time nothing here runs, but for 64 looks up after the last long poll, and no task costs more than without.

use quadrille_policy::Nanos;

use super::worker::Worker;
use crate::sys::clock;
use crate::task::Runnable;
use crate::task::meta::BOUND;

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
        let Some(runnable) = self.next_local() else {
            // Whatever comes now, nobody knows since when.
            self.overtaking.pauses();
            return None;
        };
        let task = runnable.meta().id.number();
        if self.overtaking.may_pass(task) {
            let now = now.unwrap_or_else(|| self.times_polls());
            // What is bound is in no deque, and has its turns by number.
            if !runnable.meta().has(BOUND) {
                return self.pass_over(runnable, now);
            }
        }
        self.overtaking.begins(task);
        Some(runnable)
    }

    /// That task, or what goes before it: the next one of the deque that may, or the slot's once the deque has been gone through.
    fn pass_over(&mut self, runnable: Runnable, now: Nanos) -> Option<Runnable> {
        // All of them may be passed over twice, and once more for one that is not there.
        let mut left = self.context.local.len();
        let most = 3 * left + 4;
        let mut passed = 0;
        let mut in_slot = self.streak > 0;
        let from_slot = in_slot;
        let mut next = Some(runnable);
        while let Some(runnable) = next.take() {
            let task = runnable.meta().id.number();
            if passed == most || !self.overtaking.passes(task, now) {
                next = Some(runnable);
                break;
            }
            let counters = &self.context.me().counters;
            counters.passed_over.add(1);
            self.slot_passes += u64::from(in_slot);
            self.context.local.push(runnable);
            passed += 1;
            next = if left == 0 { self.context.me().slot.take() } else { None };
            in_slot = next.is_some();
            if in_slot {
                self.context.me().counters.slot_pops.add(1);
                continue;
            }
            if left == 0 {
                self.overtaking.nobody_else();
            }
            left = left.saturating_sub(1);
            next = self.context.local.pop();
            self.context.me().counters.local_pops.add(u64::from(next.is_some()));
        }
        if passed > 0 {
            self.has_passed_over(from_slot, in_slot);
        }
        // Thieves may have taken all of it.
        let next = next.or_else(|| self.next_local())?;
        self.overtaking.begins(next.meta().id.number());
        Some(next)
    }

    /// As for what gives way: somebody watches. What has been in the slot is offered. The deque's front has its turn, unless the slot had it: a streak begins (W5).
    fn has_passed_over(&mut self, from_slot: bool, slot_is_next: bool) {
        if !slot_is_next {
            self.streak = 0;
            self.newest = 0;
            self.context.is_joining.set(false);
            self.context.begin_streak(&self.context.slot_streak);
        }
        self.context.streak_end.set(self.context.local.end());
        if from_slot {
            self.context.offer();
        } else {
            self.context.keep_watch();
        }
    }
}
