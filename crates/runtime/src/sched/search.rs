//! Where a dry worker looks, in what order, and how it goes to sleep when there is nothing.

use std::cell::LazyCell;
use std::time::Duration;

use quadrille_policy::{Cause, GroupId, Level, LlcId, Nanos, Spins, WorkerId};

use super::Shared;
use super::alarms::Alarm;
use super::context::Context;
use super::far::Sight;
use super::park::{Awake, Host, Look, ParkWord};
use super::publish;
use super::watch::Rounds;
use super::worker::Worker;
use crate::decisions;
use crate::primitives::spin_hint;
use crate::reactor::{Catch, Duty, Polled};
use crate::sys::clock;
use crate::sys::thread::wake_on_time;
use crate::task::Runnable;

/// How far a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Outward, through the gates unless it goes for what it has seen.
    Normal,
    /// Everywhere, and into the slots of workers that are stuck: the sentinel has seen something.
    Rescue,
}

impl Scope {
    /// Why a task moves that such a search finds.
    fn cause(self) -> Cause {
        match self {
            Self::Normal => Cause::Steal,
            Self::Rescue => Cause::Rescue,
        }
    }
}

impl Worker {
    /// The queues that this worker shares with others: its group's, and its LLC's injector. At most `limit` tasks.
    pub(super) fn take_shared(&mut self, limit: usize) -> Option<Runnable> {
        let context = &self.context;
        let plan = &context.shared.policy.plan.workers[context.id.index()];
        let counters = &context.me().counters;
        let group = &context.shared.groups[plan.group.index()];
        // In turn (W5): either may never be empty.
        self.injector_first = !self.injector_first;
        if self.injector_first
            && let Some(runnable) = self.take_injector(plan.llc, limit)
        {
            self.arrivals.came(counters, Cause::Wake);
            return Some(runnable);
        }
        let batch = context.shared.group_batch.min(limit - 1);
        if !group.is_empty()
            && let Some(runnable) = group.pop(batch, clock::nanos, |more| context.local.push(more))
        {
            counters.group_pops.add(1);
            self.arrivals.came(counters, Cause::Wake);
            return Some(runnable);
        }
        let found = self.take_injector(plan.llc, limit);
        if found.is_some() {
            self.arrivals.came(counters, Cause::Wake);
        }
        found
    }

    /// Notes that the task which runs next was taken from others, and what came with it into the deque.
    pub(super) fn taken(&self, scope: Scope) {
        let cause = scope.cause();
        let context = &self.context;
        self.arrivals.came(&context.me().counters, cause);
        self.arrivals.batch(&context.me().counters, context.local.len(), cause);
    }

    /// At most `limit` tasks of an injector, one to be run now.
    pub(super) fn take_injector(&self, llc: LlcId, limit: usize) -> Option<Runnable> {
        let context = &self.context;
        let injector = &context.shared.injectors[llc.index()];
        if injector.is_empty() {
            return None;
        }
        // A fair share: what is there by the workers that may want it, at least one.
        let share = injector.len() / context.shared.worker_count() + 1;
        let runnable = injector.pop(&context.local, share.min(limit))?;
        context.me().counters.injector_pops.add(1);
        Some(runnable)
    }

    /// Looks everywhere that `scope` allows, nearest first.
    pub(super) fn search(&mut self, scope: Scope) -> Option<Runnable> {
        self.context.me().counters.searches.add(1);
        self.sight.looks();
        let found = self.search_outward(scope);
        if found.is_none() {
            self.sight.sees_nothing();
            self.context.me().counters.searches_failed.add(1);
        }
        found
    }

    fn search_outward(&mut self, scope: Scope) -> Option<Runnable> {
        // First what nobody else can reach: with tasks always nearer it would wait for ever.
        if scope == Scope::Rescue
            && let Some(runnable) = self.take_stuck_slot()
        {
            self.taken(Scope::Rescue);
            return Some(runnable);
        }
        if let Some(runnable) = self.take_shared(self.context.shared.batch) {
            return Some(runnable);
        }
        let home = self.context.shared.policy.plan.workers[self.context.id.index()].llc;
        if let Some(runnable) = self.steal_in(home, scope, self.context.shared.batch) {
            self.taken(scope);
            return Some(runnable);
        }
        if let Some((runnable, how)) = self.take_from_neighbours(home, scope) {
            self.taken(how);
            return Some(runnable);
        }
        let now = self.far_now();
        if let Some(runnable) = self.search_exports(home, scope, now) {
            self.taken(scope);
            return Some(runnable);
        }
        if let Some(runnable) = self.search_levels(home, scope, now) {
            return Some(runnable);
        }
        if scope == Scope::Rescue {
            let found = self.rescue()?;
            self.taken(Scope::Rescue);
            return Some(found);
        }
        None
    }

    /// The other caches, those of the own node first; each level that its gate lets this search look at.
    fn search_levels(&mut self, home: LlcId, scope: Scope, now: Nanos) -> Option<Runnable> {
        let plan = &self.context.shared.policy.plan.llcs[home.index()];
        let (on_node, others) = (plan.others_on_node, plan.others.len());
        for (level, places) in [(Level::Node, 0..on_node), (Level::Machine, on_node..others)] {
            if places.is_empty() || !self.attempt(level, scope) {
                continue;
            }
            let found = places.into_iter().find_map(|i| {
                let llc = self.context.shared.policy.plan.llcs[home.index()].others[i];
                let (found, how) = self.search_far(llc, scope, now);
                found.inspect(|_| self.taken(how))
            });
            self.gates.record(level, found.is_some());
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Whether this search looks at `level`. A rescuer asks no gate, nor does who goes for what it has seen.
    fn attempt(&mut self, level: Level, scope: Scope) -> bool {
        if scope == Scope::Rescue || self.sight.seen {
            self.gates.force(level);
            return true;
        }
        let mut rng = self.context.rng.get();
        let yes = decisions::attempt(&mut self.gates, level, &mut rng);
        self.context.rng.set(rng);
        yes
    }

    /// Steals at most `limit` tasks from a worker of one LLC, the first that has some: mates are looked at first, but
    /// by a rescuer.
    pub(super) fn steal_in(&mut self, llc: LlcId, scope: Scope, limit: usize) -> Option<Runnable> {
        let context = &self.context;
        let plan = &context.shared.policy.plan;
        let start = context.random_below(plan.llcs[llc.index()].workers.len());
        let (victim, runnable) = context
            .shared
            .policy
            .victims(context.id, llc, start, scope.cause())
            .find_map(|victim| Some((victim, self.rob(victim, scope, limit)?)))?;
        self.note_theft(victim);
        Some(runnable)
    }

    /// Steals at most `limit` tasks from one worker.
    pub(super) fn rob(&self, victim: WorkerId, scope: Scope, limit: usize) -> Option<Runnable> {
        let context = &self.context;
        let counters = &context.me().counters;
        counters.search_steps.add(1);
        let robbed = &*context.shared.workers[victim.index()];
        if robbed.stealer.is_empty() {
            context.keeps_up(victim);
            return None;
        }
        if scope == Scope::Normal && robbed.is_spared(context.now.get()) {
            return None;
        }
        let limit = context.take_from(victim, scope, limit);
        if limit == 0 {
            return None;
        }
        let runnable = context.local.steal(&robbed.stealer, limit)?;
        counters.count_steal(context.shared.policy.plan.level(victim, context.id));
        context.note_threads(victim, &runnable);
        Some(runnable)
    }

    /// What has waited in the group queues of a LLC for longer than its members should take.
    pub(super) fn take_overdue(&self, llc: LlcId, limit: Nanos) -> Option<Runnable> {
        self.waiting_groups(llc)
            .filter(|&(group, now)| self.age(group, now) >= limit)
            // Nothing, if a member has come first, or holds the lock: then the next one.
            .find_map(|(group, now)| self.rescue_from(group.index(), now))
    }

    /// What waits for other groups of the own cache: what is overdue, else what is left to members who are all away.
    /// And which of the two.
    fn take_from_neighbours(&self, home: LlcId, scope: Scope) -> Option<(Runnable, Scope)> {
        let shared = &self.context.shared;
        let limit = shared.policy.config.wake_groups.rescue_llc;
        let mut left = None;
        for (group, now) in self.waiting_groups(home) {
            if self.age(group, now) < limit {
                left = left.or_else(|| shared.members_are_away(group).then_some((group, now)));
            } else if let Some(found) = self.rescue_from(group.index(), now) {
                return Some((found, Scope::Rescue));
            }
        }
        let (group, now) = left?;
        Some((self.rescue_from(group.index(), now)?, scope))
    }

    /// The groups behind `llc`, but for our own, whose queue we look at as a member does, in whose queues something is,
    /// and the time.
    fn waiting_groups(&self, llc: LlcId) -> impl Iterator<Item = (GroupId, Nanos)> {
        let shared = &*self.context.shared;
        let own = shared.policy.plan.workers[self.context.id.index()].group;
        // Nearly always all are empty.
        let now = LazyCell::new(|| Nanos(clock::nanos()));
        let groups = shared.policy.plan.llcs[llc.index()].groups.iter();
        let steps = &self.context.me().counters.search_steps;
        groups
            .filter(move |group| **group != own)
            .inspect(|_| steps.add(1))
            .filter(|group| !shared.groups[group.index()].is_empty())
            .map(move |group| (*group, *now))
    }

    fn age(&self, group: GroupId, now: Nanos) -> Nanos {
        self.context.shared.groups[group.index()].age(now)
    }

    /// Takes one task of another group, and wakes a member for what it leaves there. Without groups nothing waits there
    /// but threads that were left to somebody who does not come, and who has no mates to come in his place: then a few.
    fn rescue_from(&self, group: usize, now: Nanos) -> Option<Runnable> {
        let shared = &self.context.shared;
        let more_max = if shared.policy.groups_on() {
            0
        } else {
            shared.policy.config.bind.waiting_rescue.saturating_sub(1) as usize
        };
        let queue = (&shared.groups[group], more_max);
        let more = |runnable| self.context.local.push(runnable);
        let (found, claimed) = publish::rescue_from_group(queue, now.0, &shared.sleepers, group, more);
        if let Some(seat) = claimed {
            shared.wake_claimed(seat, Some(&self.context));
        }
        found
    }

    /// The queues of other groups, however young what is in them.
    fn rescue(&self) -> Option<Runnable> {
        let context = &self.context;
        let own = context.shared.policy.plan.workers[context.id.index()].group.index();
        // Its own group's queue was looked at first of all.
        let others = (0..context.shared.groups.len()).filter(|group| *group != own);
        others
            .into_iter()
            .find_map(|group| self.rescue_from(group, context.now.get()))
    }

    /// Whether a queue that anyone may drain has something.
    pub(super) fn anything_shared(&self) -> bool {
        look_at_shared(&self.context)
    }

    /// Spins a little before the worker announces itself idle, which others then write back: between two tasks that
    /// follow each other closely nobody needs to know. It is still a searcher, and so a witness. True if something
    /// came.
    ///
    /// Who is the last one awake goes on, as long as that pays: where each task comes from a thread that has slept
    /// until the one before it was done, that one's wake-up is what the worker waits for, and then its own is what the
    /// thread waits for.
    pub(super) fn linger(&mut self) -> bool {
        let shared = &*self.context.shared;
        let delay = shared.policy.config.idle_filter.publish_delay.0;
        if delay == 0 || !shared.spins || !shared.policy.lingers() || shared.clock.is_paused() {
            return false;
        }
        let start = clock::nanos();
        let (config, wake_cost) = (&shared.policy.config, shared.wake_cost());
        if self.has_better_to_do(start, Spins::longest(config, wake_cost).max(Nanos(delay))) {
            return false;
        }
        let longest = Spins::longest_for_two(config, wake_cost);
        // Known once `delay` has passed.
        let mut is_worth_it = None;
        loop {
            let passed = clock::nanos().saturating_sub(start);
            if self.anything_shared() || !self.context.me().bound.is_empty() {
                if is_worth_it == Some(true) {
                    self.lingers.ended(true);
                }
                return true;
            }
            if passed >= delay {
                // Another one may have got up, with more than it needs: it sees a searcher, who does not look there.
                let may_go_on = Nanos(passed) < longest
                    && self.is_last_awake()
                    && !self.has_better_to_do(start.saturating_add(passed), longest);
                let config = &self.context.shared.policy.config;
                let pays = *is_worth_it.get_or_insert_with(|| may_go_on && self.lingers.are_worth_it(config));
                if pays && Nanos(passed) >= longest {
                    self.lingers.ended(false);
                }
                if !(pays && may_go_on) {
                    return false;
                }
            }
            (0..8).for_each(|_| spin_hint());
        }
    }

    /// Whether a worker does not linger for so long, since its first timer or events would wait for that, which other
    /// threads may bring at any time: events are not among what it looks at, and nobody else waits for them.
    fn has_better_to_do(&self, now: u64, spin: Nanos) -> bool {
        let sleepers = &self.context.shared.sleepers;
        let all_held = || self.rounds.all_held(&self.context);
        self.context.gets_up_soon(now, spin) || sleepers.would_poll(self.context.id.index(), all_held)
    }

    /// Whether all others are idle, as far as is known.
    fn is_last_awake(&self) -> bool {
        let sleepers = &self.context.shared.sleepers;
        // Those behind other caches, whose counts others write, last.
        sleepers.awake_and_idle(self.llc()).0 <= 1 && sleepers.idle.caches.total() + 1 >= sleepers.worker_count()
    }

    /// What it has not published yet, nor handed to the kernel.
    pub(super) fn hands_over(&mut self) {
        let counters = &self.context.me().counters;
        let now = self.context.now.get();
        self.context.load.flush(&self.context.shared, self.llc(), counters, now);
        self.empty_ring();
    }

    /// Stops searching and goes to sleep until there is a reason to search again.
    pub(super) fn sleep(&mut self) -> Awake {
        let worker = self.context.id.index();
        self.hands_over();
        self.contended.lies_down(&self.context.shared.policy.config);
        self.be_reserved();
        let mut bed = Bed {
            context: &self.context,
            rounds: &mut self.rounds,
            catch: &mut self.catch,
            spins: &mut self.spins,
            sight: self.sight,
        };
        let awake = self.context.shared.sleepers.sleep(worker, &mut bed);
        self.sight.seen = !awake.slept;
        if awake.slept {
            self.context.me().counters.parks.add(1);
            self.sight.skips = 0;
        }
        if awake.lost_wakeup {
            self.context.me().counters.rescued_by_timeout.add(1);
        }
        awake
    }
}

/// The queues that need the handshake of W1: own group, every injector, every export queue.
fn look_at_shared(context: &Context) -> bool {
    let shared = &*context.shared;
    let group = shared.policy.plan.workers[context.id.index()].group.index();
    !shared.groups[group].is_empty() || shared.anything_for_anyone()
}

impl Shared {
    /// Whether a queue that anyone may drain, and whose pushers rely on it (W1), has something.
    pub(super) fn anything_for_anyone(&self) -> bool {
        self.injectors.iter().any(|injector| !injector.is_empty()) || self.exports.iter().any(|queue| !queue.is_empty())
    }
}

impl Context {
    /// Whether its first timer leaves it no time to spin for so long.
    fn gets_up_soon(&self, now: u64, spin: Nanos) -> bool {
        let first = Nanos(self.me().timers.first());
        Spins::would_fill(spin, first.since(Nanos(self.shared.clock.at(now))))
    }
}

/// A worker on its way to sleep.
struct Bed<'a> {
    context: &'a Context,
    rounds: &'a mut Rounds,
    catch: &'a mut Catch,
    spins: &'a mut Spins,
    sight: Sight,
}

impl Host for Bed<'_> {
    fn final_look(&mut self, everything: bool) -> bool {
        let shared = &*self.context.shared;
        let group = shared.policy.plan.workers[self.context.id.index()].group.index();
        !self.context.me().bound.is_empty()
            || !self.catch.wakers.is_empty()
            || !shared.groups[group].is_empty()
            || self.sight.final_look(self.context, everything)
    }

    fn anything_left(&mut self) -> bool {
        !self.context.me().bound.is_empty() || look_at_shared(self.context)
    }

    fn spin(&mut self, word: &ParkWord) {
        let shared = &*self.context.shared;
        if !shared.spins {
            return;
        }
        let limit = Spins::longest(&shared.policy.config, shared.wake_cost());
        if self.context.gets_up_soon(clock::nanos(), limit) {
            return;
        }
        if self.spins.are_worth_it(&shared.policy.config) {
            self.spins.ended(word.spin(limit));
        }
    }

    fn may_jump(&self) -> bool {
        self.context.shared.clock.may_jump()
    }

    fn alarm(&mut self, may_jump: bool) -> Alarm {
        let alarm = self.context.alarm(may_jump);
        if alarm != Alarm::Never && !self.context.wakes_on_time.replace(true) {
            wake_on_time();
        }
        alarm
    }

    fn was_due(&mut self, time: u64) {
        self.context.got_up_for(time);
    }

    fn sentinel_look(&mut self) -> Look {
        self.context.me().counters.sentinel_looks.add(1);
        let now = Nanos(clock::nanos());
        self.context.shared.sample_loads(now);
        self.rounds.look(&self.context.shared, now)
    }

    fn interval(&mut self) -> Duration {
        let policy = &self.context.shared.policy;
        Duration::from_nanos(self.rounds.next_look(policy, Nanos(clock::nanos())).0)
    }

    fn now_and_soon(&mut self) -> (u64, u64) {
        let shared = &*self.context.shared;
        let now = shared.clock.now();
        (now, now.saturating_add(shared.policy.config.sentinel_interval.0))
    }

    fn others(&self) -> &[LlcId] {
        &self.context.shared.policy.plan.llcs[self.context.llc()].others
    }

    fn poll(&mut self, duty: &Duty<'_>, timeout: Option<Duration>) -> Polled {
        let polled = super::poll::poll(duty, self.catch, timeout, &self.context.me().counters);
        self.context.with_results(polled, self.catch)
    }

    fn is_neglected(&self, shard: usize) -> bool {
        self.rounds.is_neglected(shard)
    }

    fn all_held(&self) -> bool {
        self.rounds.all_held(self.context)
    }

    fn takes_over(&mut self, shard: usize, rouse: bool) {
        self.context.me().counters.io_takeovers.add(1);
        if rouse {
            let llc = LlcId(u16::try_from(shard).expect("LLCs fit u16"));
            self.context.shared.wake_behind(llc, self.context);
        }
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests;
