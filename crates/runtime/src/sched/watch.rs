//! Looking after workers that are stuck in a task: by the sentinel, or by busy ones while nobody is idle.

use quadrille_policy::{Glances, LlcId, Nanos, Policy};

use super::context::Context;
use super::park::Look;
use super::queue::group::GroupQueue;
use super::search::Scope;
use super::worker::Worker;
use super::{Shared, WorkerShared};
use crate::reactor::Reactor;
use crate::task::Runnable;

/// How a worker has come on since the last look.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// Tasks it has run.
    advanced: u64,
    /// Tasks in its deque.
    queued: u64,
    /// It has work and has finished nothing.
    stuck: bool,
}

/// What the sentinel remembers from one look to the next.
#[derive(Debug)]
pub(crate) struct Rounds {
    /// Polls of each worker at the last look.
    polls: Vec<u64>,
    /// Timers that all of them had fired by then.
    timers: u64,
    /// Workers that had work and finished nothing since the look before.
    stuck: Vec<bool>,
    /// Workers that had begun no task since the look before.
    held: Vec<bool>,
    /// Where the next look of a busy worker begins.
    cursor: usize,
    /// The LLC whose shared queues a busy worker looks at next.
    llc: usize,
    /// Groups whose queue was not empty at the last look.
    waiting: Vec<bool>,
    shards: Vec<Neglect>,
    last: Nanos,
    /// How often it looks at the groups' queues: nothing but a look shows that nobody drains a mailbox.
    glances: Glances,
}

/// What the last look has seen of a shard of descriptors (L c).
#[derive(Clone, Copy, Debug, Default)]
struct Neglect {
    /// How often it was polled by then.
    polls: u64,
    /// It had sources and no holder.
    unpolled: bool,
    /// It was so at the look before, too, and nobody has polled it in between.
    neglected: bool,
}

impl Rounds {
    /// For `worker`, the first of whose looks begins with its neighbour.
    pub(crate) fn new(worker: usize, shared: &Shared) -> Self {
        let (workers, groups) = (shared.worker_count(), shared.groups.len());
        Self {
            polls: vec![0; workers],
            timers: 0,
            stuck: vec![false; workers],
            held: vec![false; workers],
            cursor: worker + 1,
            llc: 0,
            waiting: vec![false; groups],
            shards: vec![Neglect::default(); shared.sleepers.reactor.shards().len()],
            last: Nanos(0),
            glances: Glances::default(),
        }
    }

    fn look_at(&mut self, shared: &Shared, index: usize) -> Progress {
        let worker = &shared.workers[index];
        let polls = worker.counters.polls.get();
        let advanced = polls.wrapping_sub(std::mem::replace(&mut self.polls[index], polls));
        if advanced == 0 {
            shared.hand_over_for(index);
        }
        let queued = worker.stealer.len() as u64;
        let stuck = advanced == 0 && (queued > 0 || !worker.slot.is_empty());
        self.stuck[index] = stuck;
        self.held[index] = advanced == 0;
        Progress {
            advanced,
            queued,
            stuck,
        }
    }

    /// Looks who has polled the shards of descriptors.
    pub(super) fn look_at_shards(&mut self, reactor: &Reactor) {
        if !reactor.is_used() {
            return;
        }
        for (shard, seen) in reactor.shards().iter().zip(&mut self.shards) {
            let (polls, unpolled) = (shard.polls(), shard.is_unpolled());
            *seen = Neglect {
                polls,
                unpolled,
                neglected: unpolled && seen.unpolled && seen.polls == polls,
            };
        }
    }

    /// Whether nobody has polled a shard with sources between the last two looks.
    pub(super) fn is_neglected(&self, shard: usize) -> bool {
        self.shards[shard].neglected
    }

    /// Whether all others who are awake behind the cache of its worker have begun no task since the look before the
    /// last one, as who is in a long one. A hint.
    pub(super) fn all_held(&self, context: &Context) -> bool {
        let shared = &*context.shared;
        let others = shared.policy.plan.llcs[context.llc()].workers.iter();
        let mut awake = others.filter(|other| **other != context.id && !shared.sleepers.is_idle(other.index()));
        awake.all(|other| {
            let (held, polls) = (self.held[other.index()], self.polls[other.index()]);
            held && shared.workers[other.index()].counters.polls.get() == polls
        })
    }

    /// Time since the last look.
    pub(super) fn passed(&self, now: Nanos) -> Nanos {
        now.since(self.last)
    }

    /// Until the sentinel should look again: the rest of its interval, which is counted from its last look at every
    /// queue and not from now, since one that is claimed again and again before it ends would never look; with groups a
    /// glance may come sooner.
    pub(super) fn next_look(&self, policy: &Policy, now: Nanos) -> Nanos {
        let interval = policy.config.sentinel_interval;
        let left = Nanos(interval.0.saturating_sub(self.passed(now).0));
        if policy.groups_on() {
            left.min(self.glances.interval(&policy.config))
        } else {
            left
        }
    }

    /// The sentinel's look at every queue; before its interval has ended, a glance at those of the groups.
    pub(super) fn look(&mut self, shared: &Shared, now: Nanos) -> Look {
        let interval = now.since(self.last).0;
        let policy = &shared.policy;
        // With nobody awake W1 says that nothing waits. What does all the same was lost, and a stress build is to find
        // that.
        let awake = (shared.sleepers.idle.caches.total() as usize) < shared.worker_count();
        let limit = policy.config.wake_groups.rescue_any;
        let overdue = |group: &GroupQueue<Runnable>| awake && group.age(now) >= limit;
        let any_overdue = shared.groups.iter().any(overdue);
        self.glances.ended(any_overdue);
        if policy.groups_on() && interval < policy.config.sentinel_interval.0 {
            self.shards.iter_mut().for_each(|seen| seen.neglected = false);
            let stuck = any_overdue || shared.any_overdue(now);
            return if stuck { Look::Stuck } else { Look::Active };
        }
        self.last = now;
        shared.forget_wake(now);
        self.look_at_shards(&shared.sleepers.reactor);
        // After a longer time without a look the pace of the workers is not that of now.
        let recent = interval <= 2 * shared.policy.config.sentinel_interval.0;
        let wake_cost = shared.wake_cost();
        let (mut ran, mut timers) = (0_u64, 0_u64);
        let mut reason = any_overdue || shared.anything_for_anyone() || shared.any_overdue(now);
        for index in 0..shared.worker_count() {
            let Progress {
                advanced,
                queued,
                stuck,
            } = self.look_at(shared, index);
            // What waits for a worker that goes on alone waits, though not for longer than an interval.
            let least = if shared.solo.is_keeper(index) && shared.workers[index].is_spared(now) {
                policy.config.sentinel_interval
            } else {
                wake_cost
            };
            let slow = recent && policy.is_slow(least, (queued, advanced), Nanos(interval));
            ran = ran.saturating_add(advanced);
            timers = timers.wrapping_add(shared.workers[index].counters.fired());
            reason |= stuck || slow;
        }
        for (group, waiting) in shared.groups.iter().zip(&mut self.waiting) {
            let now = !group.is_empty();
            reason |= now && *waiting;
            *waiting = now;
        }
        let fired = timers.wrapping_sub(std::mem::replace(&mut self.timers, timers));
        match (reason, ran) {
            (true, _) => Look::Stuck,
            (false, 0) => Look::Quiet,
            (false, ran) if ran <= fired => Look::Timers,
            (false, _) => Look::Active,
        }
    }
}

impl Worker {
    /// The observer's duty while nobody is idle, and so nobody is sentinel: once an interval, between two tasks, looks
    /// whether one of a few other workers is stuck, or the shared queues of an LLC are left alone, and takes from
    /// there.
    pub(super) fn observe(&mut self, now: Nanos) -> Option<Runnable> {
        let shared = &*self.context.shared;
        if shared.sleepers.idle.caches.any() || now.since(self.rounds.last) < shared.policy.config.sentinel_interval {
            return None;
        }
        self.rounds.last = now;
        shared.forget_wake(now);
        self.poll_neglected();
        let found = self.take_from_stuck(now).or_else(|| self.take_from_next_llc());
        if found.is_some() {
            self.context.me().counters.rescues.add(1);
            self.taken(Scope::Rescue);
        }
        found
    }

    /// Exports, overdue groups and injector of one LLC after the other: their workers may all be stuck.
    fn take_from_next_llc(&mut self) -> Option<Runnable> {
        let policy = &self.context.shared.policy;
        let index = self.rounds.llc % policy.plan.llcs.len();
        let llc = LlcId(u16::try_from(index).expect("LLCs fit u16"));
        self.rounds.llc = index + 1;
        let limit = self.room().min(self.context.shared.batch);
        // The own injector is served at every second look up, in proportion.
        let others = llc != policy.plan.workers[self.context.id.index()].llc;
        let injected = || if others { self.take_injector(llc, limit) } else { None };
        // The injector, which may never be empty, last.
        self.take_exported(llc, limit)
            .or_else(|| self.take_overdue(llc, policy.config.wake_groups.rescue_any))
            .or_else(injected)
    }

    /// How many tasks more we come to before an observer looks again.
    fn room(&self) -> usize {
        let interval = self.context.shared.policy.config.sentinel_interval;
        self.pace.room(interval, self.context.local.len())
    }

    fn take_from_stuck(&mut self, now: Nanos) -> Option<Runnable> {
        let shared = &*self.context.shared;
        let workers = shared.worker_count();
        for _ in 0..(shared.policy.config.observed as usize).min(workers) {
            let index = self.rounds.cursor % workers;
            self.rounds.cursor = index + 1;
            if index == self.context.id.index() {
                continue;
            }
            // What is fired comes after what we have.
            self.context.fire_overdue_of(index, now);
            if !self.rounds.look_at(shared, index).stuck {
                continue;
            }
            let found = self.take_over(&shared.workers[index]);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// What a stuck worker has, as far as we have room: what is left there waits for another interval. One to be run
    /// now.
    fn take_over(&self, stuck: &WorkerShared) -> Option<Runnable> {
        let (local, batch) = (&self.context.local, self.context.shared.batch);
        let room = self.room();
        // One of them is run at once.
        let full = local.len() + room - 1;
        let found = local.steal(&stuck.stealer, batch.min(room));
        if found.is_none() {
            return stuck.slot.take();
        }
        // A batch is half of what is there: 2^8 tasks are gone after 8 of them. No constant of a policy: what is left
        // is taken in another interval.
        for _ in 0..8 {
            let left = full.saturating_sub(local.len());
            if left == 0 {
                break;
            }
            let Some(runnable) = local.steal(&stuck.stealer, batch.min(left)) else {
                break;
            };
            local.push(runnable);
        }
        if let Some(runnable) = stuck.slot.take() {
            local.push(runnable);
        }
        found
    }

    /// A task in the slot of a worker that was stuck at the last look.
    pub(super) fn take_stuck_slot(&self) -> Option<Runnable> {
        let workers = self.context.shared.workers.iter().zip(&self.rounds.stuck);
        workers
            .filter(|(_, stuck)| **stuck)
            .find_map(|(worker, _)| worker.slot.take())
    }

    /// A searcher goes to work, perhaps for long. It may have been the sentinel, or the witness for whose sake a pusher
    /// woke nobody: while a queue has work, one of the idle workers must keep watch (O).
    pub(super) fn name_successor(&self) {
        let context = &self.context;
        let shared = &*context.shared;
        if shared.needs_successor(context.now.get(), Some(context)) {
            shared.keep_watch(shared.policy.plan.workers[context.id.index()].llc, Some(context));
        }
    }
}

impl Shared {
    /// Whether nobody keeps watch, though somebody idle could, of what is queued, watched or set: for who would have
    /// come to it by himself, and does not now.
    pub(super) fn needs_successor(&self, now: Nanos, by: Option<&Context>) -> bool {
        if !self.sleepers.is_unwatched() || !self.sleepers.idle.caches.any() {
            return false;
        }
        let left = |worker: &WorkerShared| !worker.stealer.is_empty() || !worker.slot.is_empty();
        let is_own = |index: usize| by.is_some_and(|context| context.id.index() == index);
        let mut others = self.workers.iter().enumerate().filter(|(index, _)| !is_own(*index));
        others.any(|(_, worker)| left(worker))
            || self.groups.iter().any(|group| !group.is_empty())
            || self.anything_for_anyone()
            || self.sleepers.reactor.any_unpolled()
            || self.any_ring_queued()
            || by.is_some_and(|context| left(context.me()) && !self.someone_comes(now, None))
            || self
                .leaves_timers()
                .is_some_and(|first| !self.someone_comes(now, Some(first)))
    }

    /// Whether somebody idle gets up by himself within an interval, and so need not be woken for what a worker that is
    /// awake has in its own queues; or within one after the `first` of the timers in its store has expired (F c). For
    /// one who has fenced after it queued or found that (`is_unwatched`).
    pub(super) fn someone_comes(&self, now: Nanos, first: Option<Nanos>) -> bool {
        let interval = self.policy.config.sentinel_interval.0;
        let now = self.clock.at(now.0);
        let from = first.map_or(now, |first| first.0.max(now));
        // Whose time has come is about to get up, unless that was long ago.
        let times = now.saturating_sub(interval)..=from.saturating_add(interval);
        self.sleepers.someone_gets_up(&times)
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use quadrille_policy::SetId;

    use super::*;
    use crate::primitives::Ordering;
    use crate::sched::queue::local::Local;
    use crate::sched::still::Still;
    use crate::sys::clock;

    /// How many of 1000 tasks of a stuck worker one takes over that has `queued` tasks which run for `run` on average.
    fn taken_over(run: Nanos, queued: usize) -> usize {
        let mut still = Still::new("core:2", "default");
        let mut worker = still.worker(0);
        let task = || still.task(0, SetId::NONE);
        worker.pace.looks_up(run, &still.shared.policy.config);
        (0..queued).for_each(|_| worker.context.local.push(task()));
        let others = Local::new();
        (0..1000).for_each(|_| others.push(task()));
        let stuck = WorkerShared::new(&others);
        stuck.slot.replace(task());
        assert!(worker.take_over(&stuck).is_some());
        1001 - others.len() - usize::from(!stuck.slot.is_empty())
    }

    /// A group's queue that is never empty does not keep a worker from its injector, nor the other way round.
    #[test]
    fn group_and_injector_take_turns() {
        let mut still = Still::new("core:1", "groups=on");
        let mut worker = still.worker(0);
        let groups = &still.shared.groups;
        (0..100).for_each(|_| {
            groups[0].push(still.task(0, SetId::NONE), true, || 0);
            still.inject(0);
        });
        let counters = || {
            let counters = &still.shared.workers[0].counters;
            (counters.group_pops.get(), counters.injector_pops.get())
        };
        for turn in 1..=40 {
            let found = worker.take_shared(1);
            assert!(found.is_some());
            let (group, injector) = counters();
            assert_eq!(group + injector, turn);
            assert!(group.abs_diff(injector) <= 1, "{group} and {injector}");
        }
    }

    /// The sentinel looks as often as without groups once 8 looks in a row have found nothing overdue, until one does.
    #[test]
    fn glances_that_never_pay_are_left_out() {
        let still = Still::new("l2:2 core:1", "groups=on,group=1");
        let (shared, policy) = (&*still.shared, &still.shared.policy);
        let mut rounds = Rounds::new(0, shared);
        // The clock begins with the process: an interval has passed since a look that never was.
        let mut now = Nanos(clock::nanos() + policy.config.sentinel_interval.0);
        let mut look = |rounds: &mut Rounds| {
            let left = rounds.next_look(policy, now);
            now = Nanos(now.0 + left.0);
            (left.0 / 1_000, rounds.look(shared, now), now)
        };
        // A look at every queue, which begins an interval.
        _ = look(&mut rounds);
        let glances: Vec<_> = (0..7).map(|_| look(&mut rounds).0).collect();
        assert_eq!(
            glances,
            [200, 200, 100, 200, 200, 100, 200],
            "the eighth is in the middle of an interval"
        );
        assert_eq!(look(&mut rounds).0, 300, "the rest of it");
        let (left, _, pushed_at) = look(&mut rounds);
        assert_eq!(left, 500);
        shared.groups[1].push(still.task(0, SetId::NONE), false, || pushed_at.0);
        let (left, found, _) = look(&mut rounds);
        assert!(left == 500 && matches!(found, Look::Stuck), "{left} us");
        assert_eq!(look(&mut rounds).0, 200);
    }

    /// However dear waking somebody has become, the sentinel, who is awake, comes for what waits for longer than an
    /// interval.
    #[test]
    fn a_backlog_of_an_interval_is_come_for_whatever_a_wake_up_costs() {
        let dear = Nanos::from_millis(10);
        // The same of one that is spared, though waking somebody is cheap.
        for (queued, cost, spared, is_stuck) in [
            (1, dear, false, false),
            (12, dear, false, true),
            (1, Nanos(0), false, true),
            (1, Nanos(0), true, false),
            (12, Nanos(0), true, true),
        ] {
            let mut still = Still::new("core:2", "default");
            let (local, shared) = (still.local(0), still.shared.clone());
            let interval = shared.policy.config.sentinel_interval;
            let now = Nanos(clock::nanos() + interval.0);
            (0..32).for_each(|_| shared.measured_wake(cost, now));
            if spared {
                shared.workers[0].told.spared_until.store(u64::MAX, Ordering::Relaxed);
                shared.solo.keep(0);
            }
            still.announce(1);
            let mut rounds = Rounds::new(1, &shared);
            rounds.last = now;
            (0..queued).for_each(|_| local.push(still.task(0, SetId::NONE)));
            // Two polls an interval: twelve tasks wait for six.
            shared.workers[0].counters.polls.add(2);
            let found = rounds.look(&shared, Nanos(now.0 + interval.0));
            assert_eq!(
                matches!(found, Look::Stuck),
                is_stuck,
                "{queued} tasks, spared {spared}: {found:?}"
            );
            while local.pop().is_some() {}
        }
    }

    /// A timer of its own expires whenever the sentinel gets up for what is stuck.
    #[test]
    fn a_rescue_comes_before_what_a_timer_of_its_own_wakes() {
        let mut still = Still::new("core:3", "default");
        let mut worker = still.worker(0);
        for rescue in [false, true] {
            let set = worker.context.set_timer(1, std::task::Waker::noop().clone());
            assert!(set.is_ok());
            worker.context.now.set(Nanos(clock::nanos()));
            worker.context.local.push(still.task(0, SetId::NONE));
            still.shared.workers[1].slot.replace(still.task(1, SetId::NONE));
            worker.rounds.stuck[1] = true;
            assert!(worker.find_anywhere(rescue).is_some());
            assert_eq!(still.shared.workers[1].slot.is_empty(), rescue);
            assert_eq!(
                worker.context.local.len(),
                usize::from(rescue),
                "the other one was taken"
            );
            drop(still.shared.workers[1].slot.take());
        }
    }

    #[test]
    fn no_more_is_taken_over_than_runs_in_an_interval() {
        let interval = quadrille_policy::Config::default().sentinel_interval;
        let slot = 1;
        assert_eq!(taken_over(Nanos(interval.0 / 50), 0), 50 + slot);
        assert_eq!(taken_over(Nanos(interval.0 / 50), 40), 10 + slot);
        assert_eq!(taken_over(Nanos(interval.0 / 50), 60), 1 + slot, "one runs at once");
        assert!(taken_over(Nanos(0), 0) > 700, "batches of 128 as long as there is room");
    }
}
