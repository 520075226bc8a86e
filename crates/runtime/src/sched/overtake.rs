//! Short tasks go before long ones that have waited for longer: what the policy says is done
//! ([`Overtaking`](quadrille_policy::Overtaking)).
//!
//! A task is passed over by its own worker, between two polls: it is taken from the front of the deque, or from the
//! slot, and goes to the back as a task does that gives way. So it is in nobody else's hands for no longer than that
//! one's is, thieves find it, and what W1 and W5 say of who is requeued is true of it. What is bound goes to the back
//! of the bound FIFO likewise. As long as a worker looks up in time nothing here runs, but for as long as others
//! compute for 3 ms after the last long poll, and while a long one waits, and no task costs more than without.

use quadrille_policy::Nanos;

use super::context::Context;
use super::worker::{Looked, Worker};
use crate::sys::clock;
use crate::task::Runnable;
use crate::task::meta::{BOUND, LONG};

/// Where so many are passed over at once, that takes little beside a long poll, and needs no look at the clock.
const UNTIMED: usize = 32;

/// How far the two queues have been gone through, since the first one was passed over, or since there was nothing but
/// long ones.
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

    fn begins_again(&mut self, context: &Context) {
        self.deque = context.local.len();
        self.bound = context.bound.listed();
    }

    /// Takes the next one of the queue it is in: behind all of that comes what waits before it.
    fn next(&mut self, context: &Context) -> Option<Runnable> {
        let next = self.listed(context).or_else(|| self.ahead(context));
        self.has_entered &= next.is_none();
        next
    }

    fn listed(&mut self, context: &Context) -> Option<Runnable> {
        self.is_ahead = false;
        let me = context.me();
        let left = self.left();
        *left = left.checked_sub(1)?;
        let popped = if self.in_bound {
            context.bound.pop(&me.bound).inspect(|_| me.counters.bound_pops.add(1))
        } else {
            context.local.pop().inspect(|_| me.counters.local_pops.add(1))
        };
        if popped.is_none() {
            // Thieves have taken the rest.
            *self.left() = 0;
        }
        popped
    }

    fn ahead(&mut self, context: &Context) -> Option<Runnable> {
        self.is_ahead = true;
        let me = context.me();
        let ahead = if self.in_bound {
            context.bound.pop_next()
        } else {
            me.slot.take()
        };
        ahead.inspect(|_| me.counters.slot_pops.add(1))
    }

    fn left(&mut self) -> &mut usize {
        if self.in_bound {
            &mut self.bound
        } else {
            &mut self.deque
        }
    }

    /// The first of the queue that it is in has been taken, and nothing of it passed over.
    fn enters(&mut self, worker: &Worker) {
        self.has_entered = true;
        self.is_ahead = self.was_ahead(worker);
        // A mailbox that was emptied has made it longer.
        self.begins_again(&worker.context);
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
}

impl Worker {
    /// Before a task, once it is due or long ones are about: looks up, or takes the next task by time.
    #[cold]
    pub(super) fn comes_between(&mut self) -> Looked {
        if self.overtaking.is_on() {
            let has_come = self.pace.has_come();
            let now = (has_come || self.overtaking.needs_time()).then(|| self.times_polls());
            if !has_come {
                // A long poll ends: timers and readiness have waited for it.
                let since = self.context.now.get();
                let look_up = self.context.shared.policy.config.look_up;
                if now.is_none_or(|now| now.since(since) < look_up) {
                    return Looked::from(self.next_by_time(now));
                }
                self.pace.comes_early();
            }
        }
        let looked = self.look_up();
        self.counts_units = self.overtaking.is_on() || self.context.shared.policy.active().solo;
        if matches!(looked, Looked::Stop) || !self.overtaking.is_on() {
            return looked;
        }
        self.pace.steps();
        // What it did meanwhile no task took.
        let now = self.times_polls();
        if let Looked::Task(runnable) = &looked {
            self.mark_if_long(runnable);
            self.overtaking.begins(runnable.meta().id.number());
            return looked;
        }
        Looked::from(self.next_by_time(Some(now)))
    }

    /// Reads the clock for the polls that have begun since it was read for such.
    fn times_polls(&mut self) -> Nanos {
        let now = Nanos(clock::nanos());
        self.overtaking.have_spent(self.context.me().counters.units.get());
        self.overtaking.ended(now);
        now
    }

    /// What is known of the task goes with it: a mark, or none.
    fn mark_if_long(&mut self, runnable: &Runnable) {
        let meta = runnable.meta();
        let was_marked = meta.has(LONG);
        let is_marked = self.overtaking.meets(meta.id.number(), was_marked);
        if is_marked && !was_marked {
            meta.set(LONG);
        } else if was_marked && !is_marked {
            meta.clear(LONG);
        }
    }

    /// Out of slot, deque and bound FIFO, by time; `now` if the clock has been read.
    fn next_by_time(&mut self, now: Option<Nanos>) -> Option<Runnable> {
        let Some(runnable) = self.next_local() else {
            // Whatever comes now, nobody knows since when.
            self.overtaking.pauses();
            return None;
        };
        self.mark_if_long(&runnable);
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
        // Of two queues, this one, and one before each: all of them may be passed over twice, and once more for one
        // that is not there.
        let most = 3 * (round.deque + round.bound + 3);
        let (mut passed, mut passed_bound, mut from_slot) = (0, 0, false);
        let mut next = Some(runnable);
        while let Some(runnable) = next.take() {
            let context = &self.context;
            let front = context.local.front();
            let at = (!round.in_bound).then(|| context.local.end());
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
            if let Some(runnable) = &next {
                self.mark_if_long(runnable);
            }
        }
        if passed > 0 {
            self.begins_after(&round);
        }
        if passed > passed_bound {
            self.watches_passed(from_slot);
        }
        let next = match next {
            Some(next) => next,
            None => {
                // Thieves have taken the rest.
                let Some(next) = self.next_local() else {
                    self.overtaking.pauses();
                    return None;
                };
                self.mark_if_long(&next);
                next
            }
        };
        if passed > UNTIMED {
            self.overtaking.resumes_at(Nanos(clock::nanos()));
        }
        self.overtaking.begins(next.meta().id.number());
        Some(next)
    }

    /// What comes after one that was passed over: what is left of its queue, and then the other queue, as if there were
    /// nothing in that one.
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

    /// What is run now was found after others were passed over. If it is the next one of the queue of one of those,
    /// that queue has its turn, and a streak begins, unless it waited before the queue (W5).
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
            }
            (false, true) => {}
            (true, false) => {
                self.bound_streak = 0;
                context.begin_streak(&context.bound_streak);
            }
            (true, true) => self.bound_streak += 1,
        }
    }

    /// What was passed over waits in the deque, as what gives way: somebody watches. What has been in the slot is
    /// offered.
    fn watches_passed(&self, from_slot: bool) {
        self.context.streak_end.set(self.context.local.end());
        if from_slot {
            self.context.offer();
        } else {
            self.context.keep_watch();
        }
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use std::hint;

    use quadrille_policy::{Overtaking, SetId};

    use super::*;
    use crate::sched::still::Still;
    use crate::task::meta::LastWorker;

    const NOW: Nanos = Nanos::from_micros(150);

    /// Two looks up were late, and it is 0.
    fn goes_on(overtaking: &mut Overtaking) {
        overtaking.looks_up(NOW, Nanos(0), 0);
        overtaking.looks_up(NOW, Nanos(0), 0);
        assert!(overtaking.is_on());
        overtaking.ended(Nanos(0));
    }

    /// A worker that has nothing, and a task that others may pass until 200 us.
    fn beside_a_long_one() -> (Still, Worker, Runnable) {
        let mut still = Still::new("core:1", "default");
        let mut worker = still.worker(0);
        let long = still.task(0, SetId::NONE);
        let overtaking = &mut worker.overtaking;
        goes_on(overtaking);
        for end in [50, 125] {
            overtaking.begins(long.meta().id.number());
            overtaking.ended(Nanos::from_micros(end));
        }
        (still, worker, long)
    }

    /// Polls that take 60 us each, by the clock, and spend so many units each.
    fn is_long_by_the_clock(units: u64) -> bool {
        let mut still = Still::new("core:1", "default");
        let mut worker = still.worker(0);
        goes_on(&mut worker.overtaking);
        let mut now = worker.times_polls();
        for _ in 0..3 {
            worker.overtaking.begins(7);
            worker.context.me().counters.units.add(units);
            while Nanos(clock::nanos()).since(now) < Nanos::from_micros(60) {
                hint::spin_loop();
            }
            now = worker.times_polls();
        }
        worker.overtaking.is_long(7)
    }

    /// The units are so many that a pause of the system is within what they may take.
    #[test]
    fn units_that_polls_have_spent_are_told() {
        assert!(is_long_by_the_clock(0));
        assert!(!is_long_by_the_clock(1_000_000));
    }

    fn bound(still: &Still) -> Runnable {
        binds(still.task(0, SetId::NONE), still)
    }

    fn binds(runnable: Runnable, still: &Still) -> Runnable {
        runnable
            .last_worker()
            .set(LastWorker::ran_on(quadrille_policy::WorkerId(0)));
        assert_eq!(still.shared.worker_count(), 1);
        runnable.meta().set(BOUND);
        runnable
    }

    fn id(runnable: &Runnable) -> u64 {
        runnable.meta().id.number()
    }

    fn next(worker: &mut Worker) -> u64 {
        id(&worker.next_by_time(Some(NOW)).unwrap())
    }

    #[test]
    fn the_deque_has_its_turn_after_a_long_one_of_the_slot() {
        let (still, mut worker, long) = beside_a_long_one();
        let short = still.task(0, SetId::NONE);
        let number = id(&short);
        worker.context.me().slot.replace(long);
        worker.context.local.push(short);
        worker.streak = 1;
        worker.context.is_joining.set(true);
        assert_eq!(next(&mut worker), number);
        assert_eq!(
            (worker.streak, worker.context.is_joining.get()),
            (0, false),
            "a streak begins"
        );
        assert_eq!((worker.context.local.len(), worker.slot_passes), (1, 1));
    }

    #[test]
    fn so_has_the_bound_fifo() {
        let (still, mut worker, long) = beside_a_long_one();
        let short = bound(&still);
        let number = id(&short);
        worker.context.bound.push(short);
        worker.context.bound.push_next(binds(long, &still));
        worker.bound_streak = 1;
        assert_eq!(next(&mut worker), number);
        assert_eq!((worker.bound_streak, worker.bound_first), (0, false));
        assert_eq!((worker.context.bound.len(), worker.slot_passes), (1, 1));
    }

    #[test]
    fn what_waits_before_the_fifo_is_counted() {
        let (still, mut worker, long) = beside_a_long_one();
        let short = bound(&still);
        let number = id(&short);
        worker.context.bound.push(binds(long, &still));
        worker.context.bound.push_next(short);
        worker.bound_streak = worker.streak_max;
        assert_eq!(next(&mut worker), number);
        assert_eq!(worker.bound_streak, 1, "the FIFO has been gone through");
    }

    #[test]
    fn the_other_queue_begins_with_what_waits_before_it() {
        let (still, mut worker, long) = beside_a_long_one();
        let [slot, front] = [(); 2].map(|()| still.task(0, SetId::NONE));
        let number = id(&slot);
        worker.context.me().slot.replace(slot);
        worker.context.local.push(front);
        worker.context.bound.push(binds(long, &still));
        worker.bound_first = true;
        assert_eq!(next(&mut worker), number);
        assert_eq!((worker.streak, worker.bound_first), (1, true));
        drop(worker);

        let (still, mut worker, long) = beside_a_long_one();
        let [before, first] = [(); 2].map(|()| bound(&still));
        let number = id(&before);
        worker.context.bound.push(first);
        worker.context.bound.push_next(before);
        worker.context.local.push(long);
        assert_eq!(next(&mut worker), number);
        assert_eq!((worker.bound_streak, worker.bound_first), (1, false));
    }

    #[test]
    fn what_one_worker_knows_goes_along_with_the_task() {
        let mut still = Still::new("core:2", "default");
        let [mut one, mut other] = [0, 1].map(|number| still.worker(number));
        let [long, short] = [(); 2].map(|()| still.task(0, SetId::NONE));
        let [number, first] = [&long, &short].map(id);
        for worker in [&mut one, &mut other] {
            goes_on(&mut worker.overtaking);
        }
        for end in [50, 100] {
            one.overtaking.begins(number);
            one.overtaking.ended(Nanos::from_micros(end));
        }
        one.context.local.push(long);
        let long = one.next_by_time(Some(Nanos::from_micros(300))).unwrap();
        assert!(long.meta().has(LONG));
        // A long one of its own has had its turn.
        other.overtaking.begins(u64::MAX);
        other.overtaking.ended(Nanos::from_micros(100));
        other.context.local.push(long);
        other.context.local.push(short);
        assert_eq!(next(&mut other), first, "it is passed over");
        other.overtaking.ended(Nanos::from_micros(300));
        let long = other.next_by_time(Some(Nanos::from_micros(300))).unwrap();
        other.overtaking.ended(Nanos::from_micros(301));
        other.context.local.push(long);
        let long = other.next_by_time(Some(Nanos::from_micros(302))).unwrap();
        assert!(!long.meta().has(LONG), "its poll was short");
    }

    #[test]
    fn what_a_look_up_finds_is_known_by_its_mark() {
        let mut still = Still::new("core:1", "default");
        let mut worker = still.worker(0);
        goes_on(&mut worker.overtaking);
        let long = still.task(0, SetId::NONE);
        let number = id(&long);
        long.meta().set(LONG);
        still.shared.injectors[0].push(long);
        worker.pace.comes_early();
        let Looked::Task(found) = worker.comes_between() else {
            panic!("it was put into the injector");
        };
        assert_eq!(id(&found), number);
        assert!(worker.overtaking.is_long(number));
    }

    #[test]
    fn those_in_the_mailbox_go_before_a_long_one() {
        let (still, mut worker, long) = beside_a_long_one();
        let short = bound(&still);
        let number = id(&short);
        worker.context.bound.push(binds(long, &still));
        worker.context.me().bound.push(short);
        assert_eq!(next(&mut worker), number);
        assert_eq!(worker.context.bound.len(), 1);
    }
}
