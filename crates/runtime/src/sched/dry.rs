//! A worker that is out of work: it searches, lingers, sleeps, and searches again, until there is a task or the runtime
//! stops. And what it owes others when it goes to work.

use quadrille_policy::Nanos;

use super::far::Sight;
use super::park::Awake;
use super::search::Scope;
use super::worker::Worker;
use crate::primitives::{Ordering, spin_hint};
use crate::sys::clock;
use crate::task::Runnable;

impl Worker {
    /// What a worker without a task of its own looks at before it calls itself a searcher, which all others would read
    /// and write: it is awake, as between any two tasks, and owes nobody what it leaves.
    fn take_near(&mut self) -> Option<Runnable> {
        if self.context.shared.sleepers.is_stopping() {
            return None;
        }
        self.waits_for_more();
        let context = &self.context;
        let pops = context.me().counters.injector_pops.get();
        let there = context.shared.injectors[context.llc()].len();
        // The count of tasks until the next look up goes on: a worker that always finds something here has its duties
        // too.
        let found = self.take_shared(self.context.shared.batch);
        if self.context.me().counters.injector_pops.get() == pops {
            self.coalescing.found(0, 0);
        } else {
            let taken = self.context.local.len() + 1;
            self.coalescing.found(there.max(taken), there.saturating_sub(taken));
        }
        let found = found?;
        self.announce_leftovers(false);
        Some(found)
    }

    /// Before it looks into the injector, which others fill one by one as it empties it: leaves them the lines of the
    /// queue for a moment, as if it ran one more task.
    #[inline]
    fn waits_for_more(&mut self) {
        let context = &self.context;
        let shared = &*context.shared;
        if !shared.spins {
            return;
        }
        let wait = self.coalescing.put_off(self.pace.average_run(), &shared.policy.config);
        if wait == Nanos(0) {
            return;
        }
        let start = clock::nanos();
        let mut pause = 0;
        while pause < wait.0 {
            (0..4).for_each(|_| spin_hint());
            pause = clock::nanos().saturating_sub(start);
        }
        // No task of ours ran meanwhile.
        context.now.set(Nanos(context.now.get().0.saturating_add(pause)));
    }

    /// Out of work: search, sleep, search again, until there is a task or the runtime stops. Out of line, so that who
    /// takes the next task is not: that is worth 20 instructions a task.
    #[inline(never)]
    pub(super) fn dry(&mut self) -> Option<Runnable> {
        self.judge_theft();
        self.arrivals.deque_is_empty();
        if let Some(runnable) = self.take_completed().or_else(|| self.take_near()) {
            return Some(runnable);
        }
        let now = Nanos(clock::nanos());
        if let Some(runnable) = self.take_polled(now) {
            return Some(runnable);
        }
        self.run_dry(now);
        if let Some(runnable) = self.take_fired() {
            // As after a look up.
            self.name_successor();
            return Some(runnable);
        }
        let counters = &self.context.me().counters;
        self.context.load.ends(&self.context.shared, self.llc(), counters, now);
        let worker = self.context.id.index();
        let mut awake = Awake::default();
        loop {
            if self.context.shared.sleepers.is_stopping() {
                if awake.claimed {
                    self.context.shared.sleepers.stop_search(worker);
                }
                return None;
            }
            self.context.take_turn();
            if !awake.claimed {
                // Before it calls itself a searcher, as in `take_near`.
                if !awake.rescue
                    && let Some(runnable) = self.take_fired()
                {
                    self.begins();
                    self.name_successor();
                    return Some(runnable);
                }
                self.context.shared.sleepers.start_search(worker);
            }
            if awake.claimed && awake.slept {
                self.measure_wake(Nanos(clock::nanos()));
            }
            let found = self.find_anywhere(awake.rescue);
            if found.is_some() {
                self.context.now.set(Nanos(clock::nanos()));
                self.ends_search(awake.rescue);
                return found;
            }
            if awake.claimed {
                self.context.me().counters.useless_unparks.add(1);
            }
            if self.releases_memory() {
                awake = Awake::default();
                continue;
            }
            awake = self.sleep();
            self.context.take_turn();
            if self.wake_caught()
                && let Some(runnable) = self.goes_on_with_caught(awake)
            {
                return Some(runnable);
            }
            // Also if it has not slept: the search must not pass by what the final look has found worth staying for.
            self.context.now.set(Nanos(clock::nanos()));
        }
    }

    /// What a searcher finds. A worker that finds something whenever it is dry never looks up: so timers and who is
    /// stuck come before what it searches. A `rescue` comes before all: where its own timers expire again and again the
    /// sentinel would never come to it.
    pub(super) fn find_anywhere(&mut self, rescue: bool) -> Option<Runnable> {
        if rescue {
            self.context.fire();
            if let Some(runnable) = self.find(Scope::Rescue) {
                return Some(runnable);
            }
        }
        self.take_fired()
            .or_else(|| self.observe(self.context.now.get()))
            // What an observer, or a rescuer, has fired is in no queue that a search looks at.
            .or_else(|| self.next_local())
            .or_else(|| self.find(Scope::Normal))
            .or_else(|| if self.linger() { self.find(Scope::Normal) } else { None })
    }

    /// It has got up for events, and may have been claimed besides. `None`: whom they concern is elsewhere.
    fn goes_on_with_caught(&mut self, awake: Awake) -> Option<Runnable> {
        // Their time may have come as well; the next look up is a while away.
        self.context.fire();
        let runnable = self.next_local()?;
        self.begins();
        // Who was claimed counts as a searcher, and does not search.
        let up = (awake.claimed && awake.slept).then(|| Nanos(clock::nanos()));
        let last = awake.claimed && self.context.shared.sleepers.stop_search(self.context.id.index());
        self.announce_leftovers(last);
        // After its duties, since it may ask the kernel, and by the time before them, when it got up.
        if let Some(up) = up {
            self.measure_wake(up);
        }
        Some(runnable)
    }

    /// A searcher has found something, and owes others what it leaves.
    fn ends_search(&self, rescue: bool) {
        self.begins();
        let last = self.context.shared.sleepers.stop_search(self.context.id.index());
        if rescue {
            self.context.me().counters.rescues.add(1);
        }
        self.announce_leftovers(last);
    }

    /// Tells others of what it leaves as it goes to work. `last`: it was the last searcher of its cache.
    pub(super) fn announce_leftovers(&self, last: bool) {
        // W1s: what a pusher left to us as its witness and we do not take is ours to announce.
        if self.context.local.len() > 0 || (last && self.anything_shared()) {
            self.context.offer();
        }
        if last {
            self.pass_on();
        }
        self.name_successor();
    }

    /// What a worker does before it sleeps, a piece at a time: what it keeps of stacks goes back to their shelf, and,
    /// if there are too many idle ones, pages of some to the system. A searcher that has found nothing is none
    /// meanwhile, as if it ran a task, and leaves to others what it would leave then (O); it searches again after,
    /// which the last one owes (W1s). False: there was nothing to do.
    pub(super) fn releases_memory(&mut self) -> bool {
        self.context.stacks.put_back();
        if !self.context.stacks.is_crowded() {
            return false;
        }
        self.context.shared.sleepers.stop_search(self.context.id.index());
        self.hands_over();
        self.name_successor();
        self.context.stacks.release_crowd();
        self.context.now.set(Nanos(clock::nanos()));
        true
    }

    /// A bound thread that somebody has woken, or what a search finds. A rescue begins with what is stuck (W5).
    fn find(&mut self, scope: Scope) -> Option<Runnable> {
        match scope {
            Scope::Normal => self.take_bound().or_else(|| self.search(scope)),
            Scope::Rescue => self
                .take_overdue_timers()
                .or_else(|| self.search(scope))
                .or_else(|| self.take_bound()),
        }
    }

    /// Notes the time at which there is nothing left to do.
    fn run_dry(&mut self, now: Nanos) {
        self.sight = Sight {
            dry_since: now,
            ..Sight::default()
        };
        self.was_busy_until(now);
    }

    /// Takes the time from our unparker's look at its clock until `now`, when we got up, into the measured cost of a
    /// wake-up, and what is lost where others want the CPUs.
    pub(super) fn measure_wake(&mut self, now: Nanos) {
        // Ordering: Relaxed; a measurement, published by the token.
        let at = self.context.me().told.unparked_at.swap(0, Ordering::Relaxed);
        if at != 0 {
            let shared = &self.context.shared;
            let lost = self.contended.gets_up(now, &shared.policy.config);
            shared.measured_wake(Nanos(now.since(Nanos(at)).0.saturating_add(lost.0)), now);
        }
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;
    use crate::sched::still::Still;

    /// By a wait of 100 us, and by what is not taken for work of its tasks.
    #[test]
    fn who_is_on_the_heels_of_a_pusher_looks_later() {
        for (config, waits) in [("coalesce=100us", true), ("coalesce=0ns", false)] {
            let mut still = Still::spinning("core:1", config);
            let mut worker = still.worker(0);
            worker.context.now.set(Nanos(clock::nanos()));
            let mut passed = Nanos(0);
            for _ in 0..5 {
                still.inject(0);
                let before = worker.context.now.get();
                assert!(worker.take_near().is_some());
                passed = worker.context.now.get().since(before);
            }
            assert_eq!(passed >= Nanos::from_micros(100), waits, "{config}: {passed}");
        }
    }
}
