//! Short tasks go before long ones that have waited for longer: what the policy says is done ([`Overtaking`](quadrille_policy::Overtaking)).
//!
//! A task is passed over by its own worker, between two polls: it is taken from the front of the deque, or from the slot, and goes to the back as a task
//! does that gives way. So it is in nobody else's hands for no longer than that one's is, thieves find it, and what W1 and W5 say of who is requeued is true
//! of it. What is bound goes to the back of the bound FIFO likewise. As long as a worker looks up in time nothing here runs, but for 64 looks up after the
//! last long poll, and no task costs more than without.

use quadrille_policy::Nanos;

use super::context::Context;
use super::worker::Worker;
use crate::sys::clock;
use crate::task::Runnable;
use crate::task::meta::BOUND;

/// How far the two queues have been gone through, since the first one was passed over, or since there was nothing but long ones.
struct Round {
    /// Whether it is in the bound FIFO, and not in the deque.
    in_bound: bool,
    /// Whether what it has found waited before that queue: in the slot, or where the FIFO has such a place.
    is_ahead: bool,
    /// Whether the other queue has been gone through.
    is_second: bool,
    /// Whether what it has found was the first of the queue, taken as if nobody had been passed over.
    has_entered: bool,
    /// What is left of the deque, at most.
    deque: usize,
    /// What is left of the bound FIFO.
    bound: usize,
}

impl Round {
    /// That runnable has been taken, and may be passed over.
    fn begins(worker: &Worker, runnable: &Runnable) -> Self {
        let context = &worker.context;
        let in_bound = runnable.meta().has(BOUND);
        // Those in the mailbox go before a long one, too.
        context.bound.collect(&context.me().bound);
        let mut round = Self {
            in_bound,
            is_ahead: false,
            is_second: false,
            has_entered: true,
            deque: 0,
            bound: 0,
        };
        round.begins_again(context);
        round.is_ahead = round.was_ahead(worker);
        round
    }

    /// The first of the queue that it is in has been taken.
    fn enters(&mut self, worker: &Worker) {
        self.has_entered = true;
        self.is_ahead = self.was_ahead(worker);
        if !self.is_ahead {
            let left = if self.in_bound {
                &mut self.bound
            } else {
                &mut self.deque
            };
            *left = left.saturating_sub(1);
        }
    }

    /// Whether what `worker` has just taken of that queue waited before it.
    fn was_ahead(&self, worker: &Worker) -> bool {
        let streak = if self.in_bound {
            worker.bound_streak
        } else {
            worker.streak
        };
        streak > 0
    }

    fn begins_again(&mut self, context: &Context) {
        self.deque = context.local.len();
        self.bound = context.bound.listed();
    }

    /// Takes the next one of the queue it is in: behind all of that comes what waits before it.
    fn next(&mut self, context: &Context) -> Option<Runnable> {
        let me = context.me();
        let left = if self.in_bound {
            &mut self.bound
        } else {
            &mut self.deque
        };
        if *left > 0 {
            self.is_ahead = false;
            *left -= 1;
            let popped = if self.in_bound {
                context.bound.pop(&me.bound).inspect(|_| me.counters.bound_pops.add(1))
            } else {
                context.local.pop().inspect(|_| me.counters.local_pops.add(1))
            };
            if popped.is_some() {
                return popped;
            }
            // Thieves have taken the rest.
            *left = 0;
        }
        self.is_ahead = true;
        let ahead = if self.in_bound {
            context.bound.pop_next()
        } else {
            me.slot.take()
        };
        ahead.inspect(|_| me.counters.slot_pops.add(1))
    }
}

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
            return self.pass_over(runnable, now);
        }
        self.overtaking.begins(task);
        Some(runnable)
    }

    /// That task, or what goes before it: the next one that may, of its own queue first.
    fn pass_over(&mut self, runnable: Runnable, now: Nanos) -> Option<Runnable> {
        let mut round = Round::begins(self, &runnable);
        // Of two queues, this one, and one before each: all of them may be passed over twice, and once more for one that is not there.
        let most = 3 * (round.deque + round.bound + 3);
        let (mut passed, mut passed_bound, mut from_slot) = (0, 0, false);
        let mut next = Some(runnable);
        while let Some(runnable) = next.take() {
            let context = &self.context;
            let end = context.local.end();
            let front = end - context.local.len() as u64;
            let at = (!round.in_bound).then_some(end);
            if passed == most || !self.overtaking.passes(runnable.meta().id.number(), now, front, at) {
                next = Some(runnable);
                break;
            }
            passed += 1;
            context.me().counters.passed_over.add(1);
            self.slot_passes += u64::from(round.is_ahead);
            if round.in_bound {
                passed_bound += 1;
                context.bound.push(runnable);
            } else {
                from_slot |= round.is_ahead;
                context.local.push(runnable);
            }
            next = self.after(&mut round);
        }
        if passed > 0 {
            self.begins_after(&round);
        }
        if passed > passed_bound {
            self.watches_passed(from_slot);
        }
        // Thieves may have taken all of it.
        let next = next.or_else(|| self.next_local())?;
        self.overtaking.begins(next.meta().id.number());
        Some(next)
    }

    /// What comes after one that was passed over: what is left of its queue, and then the other queue, as if there were nothing in that one.
    fn after(&mut self, round: &mut Round) -> Option<Runnable> {
        // Of this queue, of the other one, and of both from the beginning.
        for _ in 0..4 {
            if let Some(runnable) = round.next(&self.context) {
                return Some(runnable);
            }
            if round.is_second {
                self.overtaking.nobody_else();
                round.begins_again(&self.context);
            }
            round.is_second = !round.is_second;
            round.in_bound = !round.in_bound;
            let first = if round.in_bound {
                self.take_bound()
            } else {
                self.next_stealable()
            };
            if first.is_some() {
                round.enters(self);
                return first;
            }
        }
        None
    }

    /// What is run now was found after others were passed over. If it is the next one of the queue of one of those, that queue has its turn, and a streak begins,
    /// unless it waited before the queue (W5).
    fn begins_after(&mut self, round: &Round) {
        let context = &self.context;
        self.bound_first = !round.in_bound && context.bound.len() > 0;
        match (round.in_bound, round.is_ahead) {
            _ if round.has_entered => {}
            (false, false) => {
                self.streak = 0;
                self.newest = 0;
                context.is_joining.set(false);
                context.begin_streak(&context.slot_streak);
                context.streak_end.set(context.local.end());
            }
            (false, true) => {}
            (true, false) => {
                self.bound_streak = 0;
                context.begin_streak(&context.bound_streak);
            }
            (true, true) => self.bound_streak += 1,
        }
    }

    /// What was passed over waits in the deque, as what gives way: somebody watches. What has been in the slot is offered.
    fn watches_passed(&self, from_slot: bool) {
        self.context.streak_end.set(self.context.local.end());
        if from_slot {
            self.context.offer();
        } else {
            self.context.keep_watch();
        }
    }
}
