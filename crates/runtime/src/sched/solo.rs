//! One worker goes on alone, where it gets more done than all: what the policy says is done ([`SoloTrial`]).
//!
//! Nothing here is part of a wake-up. What the words say are hints with a time limit:
//!
//! - Who goes on alone, the *keeper*, is spared by thieves and wakes nobody for its deque, as one whose tasks are not
//!   worth stealing (W5). Each tally spares it until a window after the next is due. What is stuck there is rescued all
//!   the same.
//! - The others hand over what they have: between two tasks they wait until the keeper has stolen it, and so run none
//!   of it. They wait for as long as a keeper should take to look up, and no longer: it may be in a long task.
//! - Who is woken works, whoever goes on alone; the policy sees how much.

use quadrille_policy::{Cause, Nanos, Policy, SoloStep, SoloTally, SoloTrial, WorkerId};

use super::worker::Worker;
use crate::primitives::{AtomicU64, Ordering, spin_hint};
use crate::stress::Mutex;
use crate::sys::clock;

/// What all workers of a runtime know of it.
#[derive(Debug)]
pub(super) struct Solo {
    is_on: bool,
    /// Its number and one; 0: nobody.
    keeper: AtomicU64,
    /// Until when the others hand over what they have, by the clock.
    leaves_until: AtomicU64,
    /// When the next tally is due, by the clock.
    next: AtomicU64,
    trial: Mutex<SoloTrial>,
}

impl Solo {
    pub(super) fn new(policy: &Policy) -> Self {
        Self {
            is_on: policy.active().solo,
            keeper: AtomicU64::new(0),
            leaves_until: AtomicU64::new(0),
            next: AtomicU64::new(0),
            trial: Mutex::new(SoloTrial::default()),
        }
    }

    /// Whether that worker is to go on alone.
    pub(super) fn is_keeper(&self, worker: usize) -> bool {
        // Ordering: Relaxed; a hint.
        self.keeper.load(Ordering::Relaxed) == worker as u64 + 1
    }

    /// For tests: that one is.
    #[cfg(all(test, not(quadrille_loom)))]
    pub(super) fn keep(&self, worker: usize) {
        self.keeper.store(worker as u64 + 1, Ordering::Relaxed);
    }
}

impl Worker {
    /// Looking up: gives or takes what one worker is to have alone, and counts if it is time. Returns the time, which
    /// may have passed meanwhile.
    #[inline]
    pub(super) fn obey_solo(&self, now: Nanos) -> Nanos {
        let shared = &*self.context.shared;
        if !shared.solo.is_on || shared.clock.is_paused() {
            return now;
        }
        self.keeps_or_leaves(now)
    }

    fn keeps_or_leaves(&self, now: Nanos) -> Nanos {
        let solo = &*self.context.shared.solo;
        let mut now = now;
        // Ordering: Relaxed, here and below; hints, whose worst is that a worker waits in vain for a moment, or works.
        let keeper = solo.keeper.load(Ordering::Relaxed);
        let is_gathering = now.0 < solo.leaves_until.load(Ordering::Relaxed);
        if is_gathering && keeper == self.number() {
            self.gathers();
        } else if is_gathering && keeper != 0 {
            now = self.leaves(now);
        }
        // What is known outside of the lock may be over: of two who look the second finds a later time.
        if self.is_due(now)
            && let Ok(mut trial) = solo.trial.try_lock()
            && self.is_due(now)
        {
            let is_keeper = solo.keeper.load(Ordering::Relaxed) == self.number();
            let (step, next) = self.context.shared.policy.solo(&mut trial, &self.tally(now));
            self.obeys(step, next, is_keeper);
            drop(trial);
            // Who slept comes back, if that pays.
            if step == SoloStep::All && is_keeper && self.context.local.len() > 0 {
                self.context.offer();
            }
        }
        now
    }

    /// What it is called as keeper.
    fn number(&self) -> u64 {
        self.context.id.index() as u64 + 1
    }

    /// Whether it is this worker's to count now. A keeper counts for itself. But it may sleep: then whoever comes when
    /// its window says nothing any more ends it.
    fn is_due(&self, now: Nanos) -> bool {
        let shared = &*self.context.shared;
        let (keeper, due) = (
            shared.solo.keeper.load(Ordering::Relaxed),
            Nanos(shared.solo.next.load(Ordering::Relaxed)),
        );
        let late = if keeper == 0 || keeper == self.number() {
            0
        } else {
            SoloTrial::STALE * shared.policy.config.solo.window.0
        };
        now >= due && now.since(due).0 >= late
    }

    /// Does what the policy says until the `next` tally.
    fn obeys(&self, step: SoloStep, next: Nanos, is_keeper: bool) {
        let context = &self.context;
        let (solo, me) = (&*context.shared.solo, context.me());
        let window = context.shared.policy.config.solo.window.0;
        let after = |time: u64| next.0.saturating_add(time);
        solo.next.store(next.0, Ordering::Relaxed);
        let (keeper, spared_until, leaves_until) = match step {
            SoloStep::All => (0, 0, 0),
            SoloStep::Gathers => (self.number(), after(window), after(window / 4)),
            SoloStep::Alone => (self.number(), after(window), 0),
        };
        solo.keeper.store(keeper, Ordering::Relaxed);
        solo.leaves_until.store(leaves_until, Ordering::Relaxed);
        if is_keeper || keeper != 0 {
            me.told.spared_until.store(spared_until, Ordering::Relaxed);
        }
        match step {
            SoloStep::All => {}
            SoloStep::Gathers => me.counters.solo_trials.add(u64::from(!is_keeper)),
            SoloStep::Alone => me.counters.solo_windows.add(1),
        }
    }

    /// What all workers have done so far.
    fn tally(&self, now: Nanos) -> SoloTally {
        let shared = &*self.context.shared;
        let mut tally = SoloTally {
            at: now,
            workers: u32::try_from(shared.worker_count()).unwrap_or(u32::MAX),
            own_polls: self.context.me().counters.polls.get(),
            others_sleep: shared.sleepers.idle.caches.total() as usize + 1 >= shared.worker_count(),
            any_bound: shared.living() > 0,
            ..SoloTally::default()
        };
        for worker in &shared.workers {
            let counters = &worker.counters;
            let sum = |sum: &mut u64, more: u64| *sum = sum.wrapping_add(more);
            sum(&mut tally.units, counters.units.get());
            sum(&mut tally.units, counters.finished.get());
            sum(&mut tally.yields, counters.yields.get());
            sum(&mut tally.polls, counters.polls.get());
            for moves in [
                &counters.migrations_group,
                &counters.migrations_llc,
                &counters.migrations_node,
                &counters.migrations_machine,
            ] {
                sum(&mut tally.moves, moves.get());
            }
        }
        tally
    }

    /// Another worker goes on alone: waits until that has what is here, for a moment. Returns the time.
    fn leaves(&self, now: Nanos) -> Nanos {
        let context = &self.context;
        let shared = &*context.shared;
        // Thieves don't look there.
        if let Some(runnable) = context.me().slot.take() {
            context.local.push(runnable);
        }
        if context.local.len() == 0 {
            return now;
        }
        let end = now.0.saturating_add(patience(&shared.policy).0);
        // It is the keeper's, and no other thief's.
        context.me().told.spared_until.store(end, Ordering::Relaxed);
        let mut time = now.0;
        while context.local.len() > 0
            && time < end.min(shared.solo.leaves_until.load(Ordering::Relaxed))
            && !shared.sleepers.is_stopping()
        {
            spin_hint();
            time = clock::nanos();
        }
        context.me().told.spared_until.store(0, Ordering::Relaxed);
        // No task of ours ran meanwhile.
        context.now.set(Nanos(time));
        Nanos(time)
    }

    /// Takes what the others have in their deques.
    fn gathers(&self) {
        let context = &self.context;
        let shared = &*context.shared;
        let before = context.local.len();
        for (number, other) in shared.workers.iter().enumerate() {
            let Ok(victim) = u16::try_from(number).map(WorkerId) else {
                break;
            };
            // Each time half of what is there: 2^8 tasks are gone after 8, and the worker waits for the rest.
            for _ in 0..8 {
                if victim == context.id || other.stealer.is_empty() {
                    break;
                }
                let Some(runnable) = context.local.steal(&other.stealer, shared.batch) else {
                    break;
                };
                context
                    .me()
                    .counters
                    .count_steal(shared.policy.plan.level(victim, context.id));
                context.note_threads(victim, &runnable);
                context.local.push(runnable);
            }
        }
        if context.local.len() > before {
            // Those that were here before ran here before, and are not counted.
            let counters = &context.me().counters;
            self.arrivals.batch(counters, context.local.len(), Cause::Steal);
        }
    }
}

/// For how long a worker waits for one that goes on alone, at most: until that should have looked up, and less than
/// would make others take it for stuck.
fn patience(policy: &Policy) -> Nanos {
    let config = &policy.config;
    Nanos((2 * config.look_up.0).min(config.sentinel_interval.0 / 2))
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use quadrille_policy::SetId;

    use super::*;
    use crate::sched::search::Scope;
    use crate::sched::still::Still;

    const MACHINE: &str = "core:2";

    fn queued(worker: &Worker) -> (usize, bool) {
        (worker.context.local.len(), worker.context.me().slot.is_empty())
    }

    /// So much done by the worker since it was last asked, half of it by tasks of the other.
    fn works(worker: &Worker, polls: u64, units: u64) {
        let counters = &worker.context.me().counters;
        counters.polls.add(polls);
        counters.units.add(units);
        counters.migrations_group.add(polls / 2);
    }

    #[test]
    fn who_gathers_gets_all_that_the_other_has_and_is_left_alone() {
        let mut still = Still::new(MACHINE, "default");
        let (keeper, mut other) = (still.worker(0), still.worker(1));
        (0..40).for_each(|_| other.context.local.push(still.task(1, SetId::NONE)));
        other.context.me().slot.replace(still.task(1, SetId::NONE));
        let now = Nanos(clock::nanos());
        let next = Nanos(now.0 + 1_000_000);
        keeper.obeys(SoloStep::Gathers, next, false);
        assert_eq!(keeper.context.me().counters.solo_trials.get(), 1);
        // Nobody comes, while both are on this thread: it waits for a moment only.
        other.keeps_or_leaves(now);
        let waited = Nanos(clock::nanos()).since(now);
        assert!(waited >= patience(&still.shared.policy), "{waited}");
        assert!(!other.context.me().is_spared(now));
        assert_eq!(queued(&other), (41, true), "what was in the slot is where thieves look");
        keeper.keeps_or_leaves(now);
        assert_eq!(queued(&other).0, 0);
        assert_eq!(queued(&keeper).0, 41);
        // The other steals none of it, but a rescuer does.
        assert!(other.steal_in(quadrille_policy::LlcId(0), Scope::Normal, 128).is_none());
        let rescued = other.steal_in(quadrille_policy::LlcId(0), Scope::Rescue, 1);
        assert!(rescued.is_some());
        keeper.obeys(SoloStep::All, next, true);
        let stolen = other.steal_in(quadrille_policy::LlcId(0), Scope::Normal, 1);
        assert!(stolen.is_some());
    }

    /// With a patience of half an hour, so that who waits in vain never ends.
    #[test]
    fn who_has_nothing_to_hand_over_or_nobody_to_take_it_does_not_wait() {
        let mut still = Still::new(MACHINE, "default");
        let mut policy = still.shared.policy.clone();
        policy.config.look_up = Nanos::from_millis(1_000_000);
        assert_eq!(patience(&policy), Nanos(policy.config.sentinel_interval.0 / 2));
        let (keeper, other) = (still.worker(0), still.worker(1));
        let now = Nanos(clock::nanos());
        let far = Nanos(now.0 + 1_000_000_000);
        keeper.obeys(SoloStep::Gathers, far, false);
        assert_eq!(other.keeps_or_leaves(now), now);
        other.context.local.push(still.task(1, SetId::NONE));
        assert!(other.keeps_or_leaves(now) > now);
        // It is over: by the time, by the word, because the runtime stops.
        assert_eq!(
            other.keeps_or_leaves(Nanos(far.0 + 1_000_000_000)).0,
            far.0 + 1_000_000_000
        );
        still.shared.sleepers.stop();
        assert_eq!(other.leaves(now), now);
        keeper.obeys(SoloStep::All, far, true);
        assert_eq!(other.keeps_or_leaves(now), now);
    }

    /// By the counters, as two workers of which one gets half as much again done alone.
    #[test]
    fn a_trial_goes_its_way() {
        let mut still = Still::new(MACHINE, "default");
        let (keeper, other) = (still.worker(0), still.worker(1));
        let solo = &still.shared.solo;
        let keeps = || solo.keeper.load(Ordering::Relaxed) == 1;
        let mut now = Nanos(clock::nanos());
        let mut window = |units: u64| {
            works(&keeper, 1000, units);
            keeper.keeps_or_leaves(now);
            now = Nanos(solo.next.load(Ordering::Relaxed));
            if keeps() {
                // It counts for itself.
                other.keeps_or_leaves(now);
            }
        };
        window(0);
        assert!(!keeps());
        window(100_000);
        assert!(keeps() && solo.leaves_until.load(Ordering::Relaxed) > 0);
        still.announce(1);
        window(1_000);
        assert!(keeps() && solo.leaves_until.load(Ordering::Relaxed) == 0);
        window(75_000);
        window(150_000);
        window(150_000);
        // Something has disturbed it: the other leaves once more, and it goes on. That is no trial.
        window(10_000);
        assert!(keeps() && solo.leaves_until.load(Ordering::Relaxed) > 0);
        window(1_000);
        window(75_000);
        window(150_000);
        assert!(keeps() && solo.leaves_until.load(Ordering::Relaxed) == 0);
        assert_eq!(keeper.context.me().counters.solo_trials.get(), 1);
        assert!(keeps() && keeper.context.me().is_spared(now));
        assert_eq!(keeper.context.me().counters.solo_windows.get(), 7);
        // It has gone to sleep: whoever looks up four windows after it should have ends it.
        let window = still.shared.policy.config.solo.window.0;
        other.keeps_or_leaves(Nanos(now.0 + 4 * window - 1));
        assert!(keeps());
        other.keeps_or_leaves(Nanos(now.0 + 4 * window));
        assert_eq!(solo.keeper.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_keeper_that_is_none_any_more_wakes_who_sleeps() {
        for step in [SoloStep::All, SoloStep::Alone] {
            let mut still = Still::new(MACHINE, "solo-window=100us,adversary=none");
            let keeper = still.worker(0);
            let now = Nanos(clock::nanos());
            keeper.obeys(SoloStep::Alone, now, false);
            still.announce(1);
            (0..1000).for_each(|_| keeper.context.local.push(still.task(0, SetId::NONE)));
            keeper.context.average_run.set(Nanos::from_millis(1));
            keeper.context.now.set(now);
            keeper.context.offer();
            assert!(still.is_idle(1), "it is spared");
            if step == SoloStep::All {
                // Nothing was measured: so it ends.
                keeper.keeps_or_leaves(now);
            }
            assert_eq!(still.is_idle(1), step != SoloStep::All);
        }
    }

    #[test]
    fn nobody_goes_on_alone_where_it_is_off_or_the_clock_stands() {
        for (machine, config, is_on) in [
            (MACHINE, "default", true),
            (MACHINE, "solo=off", false),
            ("core:1", "solo=on", false),
            ("core:8", "default", false),
            ("core:8", "solo=on", true),
        ] {
            let mut still = Still::new(machine, config);
            let worker = still.worker(0);
            let mut now = Nanos(clock::nanos());
            for _ in 0..3 {
                works(&worker, 4000, 4000);
                worker.obey_solo(now);
                now = Nanos(now.0 + still.shared.policy.config.solo.window.0);
            }
            assert_eq!(
                worker.context.me().counters.solo_trials.get() > 0,
                is_on,
                "{machine} {config}"
            );
        }
    }
}
