//! Where a dry worker looks, in what order, and how it goes to sleep when there is nothing.

use std::time::Duration;

use quadrille_policy::{Level, LlcId, Nanos};

use super::WorkerShared;
use super::context::Context;
use super::park::{Awake, Host, Look, ParkWord};
use super::publish;
use super::worker::Worker;
use crate::primitives::spin_hint;
use crate::stress::BATCH;
use crate::sys::clock;
use crate::task::Runnable;

/// How far a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Outward, through the gates.
    Normal,
    /// Everywhere, and into the slots of workers that are stuck: the sentinel has seen something.
    Rescue,
}

/// What the sentinel remembers from one look to the next.
#[derive(Debug)]
pub(crate) struct Rounds {
    /// Polls of each worker at the last look.
    polls: Vec<u64>,
    /// Workers that had work and finished nothing since the look before.
    stuck: Vec<bool>,
    /// Where the next look of a busy worker begins.
    cursor: usize,
    /// The LLC whose shared queues a busy worker looks at next.
    llc: usize,
    /// Groups whose queue was not empty at the last look.
    waiting: Vec<bool>,
    last: Nanos,
}

impl Rounds {
    /// For `worker`, the first of whose looks begins with its neighbour.
    pub(crate) fn new(worker: usize, workers: usize, groups: usize) -> Self {
        Self {
            polls: vec![0; workers],
            stuck: vec![false; workers],
            cursor: worker + 1,
            llc: 0,
            waiting: vec![false; groups],
            last: Nanos(0),
        }
    }
}

/// At most so many other workers are looked at by a busy one in one interval.
const OBSERVED: usize = 8;

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

impl Rounds {
    fn look_at(&mut self, shared: &super::Shared, index: usize) -> Progress {
        let worker = &shared.workers[index];
        let polls = worker.counters.polls.get();
        let advanced = polls.wrapping_sub(std::mem::replace(&mut self.polls[index], polls));
        let queued = worker.stealer.len() as u64;
        let stuck = advanced == 0 && (queued > 0 || !worker.slot.is_empty());
        self.stuck[index] = stuck;
        Progress {
            advanced,
            queued,
            stuck,
        }
    }
}

impl Worker {
    /// The observer's duty while nobody is idle, and so nobody is sentinel: once an interval, between two tasks, looks
    /// whether one of a few other workers is stuck, or the shared queues of an LLC are left alone, and takes from there.
    pub(super) fn observe(&mut self, now: Nanos) -> Option<Runnable> {
        let shared = &*self.context.shared;
        if shared.sleepers.idle.count() > 0 || now.since(self.rounds.last) < shared.policy.config.sentinel_interval {
            return None;
        }
        self.rounds.last = now;
        let found = self.take_from_stuck().or_else(|| self.take_from_next_llc());
        if found.is_some() {
            self.context.me().counters.rescues.add(1);
        }
        found
    }

    /// Injector and overdue groups of one LLC after the other: their workers may all be stuck.
    fn take_from_next_llc(&mut self) -> Option<Runnable> {
        let policy = &self.context.shared.policy;
        let index = self.rounds.llc % policy.plan.llcs.len();
        let llc = LlcId(u16::try_from(index).expect("LLCs fit u16"));
        self.rounds.llc = index + 1;
        self.take_injector(llc)
            .or_else(|| self.take_overdue(llc, policy.config.wake_groups.rescue_any))
    }

    fn take_from_stuck(&mut self) -> Option<Runnable> {
        let shared = &*self.context.shared;
        let workers = shared.worker_count();
        for _ in 0..OBSERVED.min(workers) {
            let index = self.rounds.cursor % workers;
            self.rounds.cursor = index + 1;
            if index == self.context.id.index() || !self.rounds.look_at(shared, index).stuck {
                continue;
            }
            let found = self.take_over(&shared.workers[index]);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// All that a stuck worker has, one task to be run now: what is left there would wait for another interval.
    fn take_over(&self, stuck: &WorkerShared) -> Option<Runnable> {
        let local = &self.context.local;
        let found = stuck.stealer.steal(local, BATCH);
        if found.is_none() {
            return stuck.slot.take();
        }
        // A batch is half of what is there: 2^8 tasks are gone after 8 of them.
        let mut more = (0..8).map_while(|_| stuck.stealer.steal(local, BATCH));
        while let Some(runnable) = more.next().or_else(|| stuck.slot.take()) {
            local.push(runnable);
        }
        found
    }

    /// The queues that this worker shares with others: its group's, and its LLC's injector.
    pub(super) fn take_shared(&mut self) -> Option<Runnable> {
        let context = &self.context;
        let plan = &context.shared.policy.plan.workers[context.id.index()];
        let counters = &context.me().counters;
        let group = &context.shared.groups[plan.group.index()];
        if !group.is_empty()
            && let Some(runnable) = group.pop(BATCH, context.now.get().0, |more| context.local.push(more))
        {
            counters.group_pops.add(1);
            return Some(runnable);
        }
        self.take_injector(plan.llc)
    }

    fn take_injector(&self, llc: LlcId) -> Option<Runnable> {
        let context = &self.context;
        let injector = &context.shared.injectors[llc.index()];
        if injector.is_empty() {
            return None;
        }
        // A fair share: what is there by the workers that may want it, at least one.
        let share = injector.len() / context.shared.worker_count() + 1;
        let runnable = injector.pop(&context.local, share.min(BATCH))?;
        context.me().counters.injector_pops.add(1);
        Some(runnable)
    }

    /// Looks everywhere that `scope` allows, nearest first.
    pub(super) fn search(&mut self, scope: Scope) -> Option<Runnable> {
        self.context.me().counters.searches.add(1);
        let found = self.search_outward(scope);
        if found.is_none() {
            self.context.me().counters.searches_failed.add(1);
        }
        found
    }

    fn search_outward(&mut self, scope: Scope) -> Option<Runnable> {
        // First what nobody else can reach: with tasks always nearer it would wait for ever.
        if scope == Scope::Rescue
            && let Some(runnable) = self.take_stuck_slot()
        {
            return Some(runnable);
        }
        if let Some(runnable) = self.take_shared() {
            return Some(runnable);
        }
        let home = self.context.shared.policy.plan.workers[self.context.id.index()].llc;
        if let Some(runnable) = self.steal_in(home) {
            return Some(runnable);
        }
        if let Some(runnable) = self.take_overdue(home, self.context.shared.policy.config.wake_groups.rescue_llc) {
            return Some(runnable);
        }
        let others = self.context.shared.policy.plan.llcs[home.index()].others.len();
        let on_node = self.context.shared.policy.plan.llcs[home.index()].others_on_node;
        for i in 0..others {
            let llc = self.context.shared.policy.plan.llcs[home.index()].others[i];
            let level = if i < on_node { Level::Node } else { Level::Machine };
            if scope == Scope::Normal && !self.attempt(level) {
                continue;
            }
            let overdue = self.context.shared.policy.config.wake_groups.rescue_any;
            let found = self
                .take_injector(llc)
                .or_else(|| self.take_overdue(llc, overdue))
                .or_else(|| self.steal_in(llc));
            self.gates.record(level, found.is_some());
            if found.is_some() {
                return found;
            }
        }
        if scope == Scope::Rescue { self.rescue() } else { None }
    }

    fn attempt(&mut self, level: Level) -> bool {
        let mut rng = self.context.rng.get();
        let yes = self.gates.attempt(level, &mut rng);
        self.context.rng.set(rng);
        yes
    }

    /// Steals from the workers of one LLC, from a random one on.
    fn steal_in(&self, llc: LlcId) -> Option<Runnable> {
        let context = &self.context;
        let plan = &context.shared.policy.plan;
        let victims = &plan.llcs[llc.index()].workers;
        let start = context.random_below(victims.len());
        for i in 0..victims.len() {
            let victim = victims[(start + i) % victims.len()];
            if victim == context.id {
                continue;
            }
            let stealer = &context.shared.workers[victim.index()].stealer;
            if !stealer.is_empty()
                && let Some(runnable) = stealer.steal(&context.local, BATCH)
            {
                let (a, b) = (&plan.workers[victim.index()], &plan.workers[context.id.index()]);
                let counters = &context.me().counters;
                let counter = if a.group == b.group {
                    &counters.steals_group
                } else if a.llc == b.llc {
                    &counters.steals_llc
                } else if a.node == b.node {
                    &counters.steals_node
                } else {
                    &counters.steals_machine
                };
                counter.add(1);
                return Some(runnable);
            }
        }
        None
    }

    /// What has waited in the group queues of a LLC for longer than its members should take.
    fn take_overdue(&self, llc: LlcId, limit: Nanos) -> Option<Runnable> {
        let context = &self.context;
        let groups = &context.shared.policy.plan.llcs[llc.index()].groups;
        if groups.len() < 2 && context.shared.policy.plan.workers[context.id.index()].llc == llc {
            return None;
        }
        let now = Nanos(clock::nanos());
        let overdue = groups
            .iter()
            .find(|group| context.shared.groups[group.index()].age(now) > limit)?;
        self.rescue_from(overdue.index(), now)
    }

    /// Takes one task of another group, and wakes a member for what it leaves there.
    fn rescue_from(&self, group: usize, now: Nanos) -> Option<Runnable> {
        let shared = &self.context.shared;
        let (found, claimed) = publish::rescue_from_group(&shared.groups[group], now.0, &shared.sleepers, group);
        if let Some(seat) = claimed {
            shared.wake_claimed(seat, Some(&self.context));
        }
        found
    }

    /// A task in the slot of a worker that was stuck at the last look.
    fn take_stuck_slot(&self) -> Option<Runnable> {
        let workers = self.context.shared.workers.iter().zip(&self.rounds.stuck);
        workers
            .filter(|(_, stuck)| **stuck)
            .find_map(|(worker, _)| worker.slot.take())
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

    /// Stops searching and goes to sleep until there is a reason to search again.
    pub(super) fn sleep(&mut self) -> Awake {
        let worker = self.context.id.index();
        let mut bed = Bed {
            context: &self.context,
            rounds: &mut self.rounds,
        };
        let awake = self.context.shared.sleepers.sleep(worker, &mut bed);
        if awake.slept {
            self.context.me().counters.parks.add(1);
        }
        if awake.lost_wakeup {
            self.context.me().counters.rescued_by_timeout.add(1);
        }
        awake
    }
}

/// Step 4 of parking for the queues that need the handshake of W1: own group, every injector.
fn look_at_shared(context: &Context) -> bool {
    let shared = &*context.shared;
    let group = shared.policy.plan.workers[context.id.index()].group.index();
    !shared.groups[group].is_empty() || shared.injectors.iter().any(|injector| !injector.is_empty())
}

/// A worker on its way to sleep.
struct Bed<'a> {
    context: &'a Context,
    rounds: &'a mut Rounds,
}

impl Host for Bed<'_> {
    fn final_look(&mut self, everything: bool) -> bool {
        let shared = &*self.context.shared;
        if look_at_shared(self.context) {
            return true;
        }
        // Work that its owner will do itself if need be, but that we are free to do now: deques of the same LLC. The
        // last searcher looks at the whole machine.
        let plan = &shared.policy.plan;
        let llc = plan.workers[self.context.id.index()].llc;
        if everything {
            shared.workers.iter().any(|worker| !worker.stealer.is_empty())
        } else {
            plan.llcs[llc.index()]
                .workers
                .iter()
                .any(|w| !shared.workers[w.index()].stealer.is_empty())
        }
    }

    fn spin(&mut self, word: &ParkWord) {
        let shared = &*self.context.shared;
        if !shared.spins {
            return;
        }
        // As long as a wake-up would cost: at most twice the best that can be done without knowing the future.
        let limit = shared.policy.config.spin_max.0.min(shared.wake_cost().0);
        let start = clock::nanos();
        while clock::nanos() - start < limit {
            for _ in 0..16 {
                if word.has_token() {
                    return;
                }
                spin_hint();
            }
        }
    }

    fn sentinel_look(&mut self) -> Look {
        let shared = &*self.context.shared;
        self.context.me().counters.sentinel_looks.add(1);
        let now = Nanos(clock::nanos());
        let interval = now.since(self.rounds.last).0;
        self.rounds.last = now;
        // After a longer time without a look the pace of the workers is not that of now.
        let recent = interval <= 2 * shared.policy.config.sentinel_interval.0;
        let mut active = false;
        let mut reason = shared.injectors.iter().any(|injector| !injector.is_empty());
        for index in 0..shared.worker_count() {
            let Progress {
                advanced,
                queued,
                stuck,
            } = self.rounds.look_at(shared, index);
            // Flowing, but so slowly that waking us is cheaper than the wait.
            let slow = recent && advanced > 0 && queued.saturating_mul(interval / advanced) > shared.wake_cost().0;
            active |= advanced > 0;
            reason |= stuck || slow;
        }
        for (group, waiting) in shared.groups.iter().zip(&mut self.rounds.waiting) {
            let now = !group.is_empty();
            reason |= now && *waiting;
            *waiting = now;
        }
        match (reason, active) {
            (true, _) => Look::Stuck,
            (false, true) => Look::Active,
            (false, false) => Look::Quiet,
        }
    }

    fn interval(&mut self) -> Duration {
        // Counted from the last look, not from now: a sentinel that is claimed again and again before its interval ends
        // would never look.
        let interval = self.context.shared.policy.config.sentinel_interval.0;
        let passed = Nanos(clock::nanos()).since(self.rounds.last).0;
        Duration::from_nanos(interval.saturating_sub(passed))
    }
}
