//! The runtime's mechanism in simulated time: what `quadrille`'s scheduler does around the policies' answers.
//!
//! It follows the life of a wake-up as the runtime's `sched/README.md` tells it: where a task goes ([`place`]), what
//! the policy is told ([`view`]), where a dry worker looks ([`search`]), and how it sleeps and is woken ([`sleep`]).
//! Coupling sets are told of, and asked about, as there ([`coupling`], with the books in [`sets`]); what is put up for
//! other caches, and what is taken from behind them, is in [`far`]; what the idle masks save is in [`scan`]. Some
//! things are simpler than in the runtime:
//!
//! - What a worker does between two events happens at once, at the beginning of the time that it takes. So the races
//!   that the runtime's theorems are about cannot happen here; what a race costs (lines, locks, wrong guesses) does.
//! - Tasks do not move while somebody looks: a steal always succeeds.
//! - What is read before the policy is asked where a task goes costs nothing: the idle word of the task's group, the
//!   summary of its cache, how long the queue is. To claim by the same words, and to announce what was queued, does.
//! - To tell of busy time costs nothing; and a worker does not linger before it announces itself idle.
//! - Nobody expects a burst of new tasks to come again (`wake-cost-burst`), overtakes a long task (`overtake` and what
//!   begins so), or goes on alone (`solo` likewise): those settings change nothing here.
//! - The sentinel looks once in its interval, as the runtime's does where nothing is ever overdue in a group's queue;
//!   what is, waits for one interval or two here, and there for at most 700 us.
//! - Sets have dense numbers and a place each, where the runtime remembers 256 and takes two of one number for one;
//!   what is told of a set, and taken from its pulls, is never lost to somebody else.
//! - There are no threads beside the workers: timers and first spawns come from outside at no cost. A first task that
//!   is [`Kin::Program`](crate::Kin) is in the set of a root that does not run.

mod coupling;
mod far;
mod group;
mod load;
mod place;
mod reserve;
mod scan;
mod search;
mod sets;
mod sleep;
mod theft;
mod view;
mod watch;

use std::collections::VecDeque;

use quadrille_policy::{
    BusyCounter, Cause, Found, Gates, LazyCounter, LazyRule, LlcId, Nanos, Pace, ProbeRate, Profit, Reserve, Rng,
    Streaks, WorkerId,
};

use self::coupling::Coupled;
use self::far::Exports;
use self::group::{Group, Injector};
use self::load::CacheLoad;
use self::sets::Sets;
use self::sleep::{Seat, Sleepers};
use self::watch::Rounds;
use crate::kin;
use crate::line::Line;
use crate::scheduler::{Next, Scheduler, Why};
use crate::workload::TaskId;
use crate::world::World;

/// What a worker without a task is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Between tasks: it looks at its own queues next.
    Between,
    /// It has searched and found this.
    Found { task: TaskId, rescue: bool },
    /// It has searched and found nothing.
    Dry,
    /// It spins on its park word.
    Spinning,
    /// It sleeps; as sentinel, with a time-out.
    Parked,
    /// It was claimed and comes back.
    Claimed,
}

#[derive(Debug)]
struct Worker {
    slot: Option<TaskId>,
    deque: VecDeque<TaskId>,
    /// The deque's ends, which thieves read and write.
    line: Line,
    phase: Phase,
    /// When it looks up from its deque.
    pace: Pace,
    /// Tasks out of the slot in a row.
    streak: u32,
    /// How long that lasts on average, and how many began since the last look up.
    streaks: Streaks,
    streaks_begun: u32,
    /// When the one that runs began.
    streak_since: Nanos,
    /// Its cached clock.
    clock: Nanos,
    unparked_at: Nanos,
    gates: Gates,
    /// Since when it has found nothing, and how many searches in a row policy 6 has spoiled.
    dry_since: Option<Nanos>,
    skips: u8,
    /// Whether it has spoiled the present one.
    spoiled: bool,
    /// Whether it stays awake for something that its final look has seen.
    seen: bool,
    rng: Rng,
    rounds: Rounds,
    profit: Profit,
    reserve: Reserve,
    /// Until when other tasks' wakers leave it alone while it is idle; zero: they don't.
    reserved_until: Nanos,
    probes: ProbeRate,
    /// Until when its deque is left to it, because stealing from it does not pay.
    spared_until: Nanos,
    /// Whether its injector comes before its group's queue the next time.
    injector_first: bool,
    load: LazyCounter,
    busy: BusyCounter,
    coupled: Coupled,
}

impl Worker {
    /// Whether there is something in its deque that thieves would not leave alone.
    fn is_worth(&self, now: Nanos) -> bool {
        !self.deque.is_empty() && now >= self.spared_until
    }
}

/// The shipped model.
#[derive(Debug)]
pub(crate) struct Shipped {
    workers: Vec<Worker>,
    groups: Vec<Group>,
    /// By last-level cache.
    injectors: Vec<Injector>,
    exports: Vec<Exports>,
    loads: Vec<CacheLoad>,
    sets: Sets,
    /// By task: whether it has been put up for other caches since it last ran.
    put_up: Vec<bool>,
    /// Whether policy 3 is on.
    aggregates: bool,
    sleepers: Sleepers,
    /// What the last search without masks has found: behind which cache, and whom.
    scanned: Option<(LlcId, Option<Seat>)>,
    /// Measured cost of waking a parked worker, moving average.
    wake_cost: Nanos,
    /// When some of it was forgotten.
    wake_forgotten: Nanos,
    /// When counts are published, and the lines that they are published to: one a cache, or one for all.
    rule: LazyRule,
    load_lines: Vec<Line>,
    /// For choices on behalf of nobody.
    rng: Rng,
}

impl Worker {
    /// Something else than the slot's task runs next.
    fn begin_streak(&mut self, now: Nanos) {
        self.streaks_begun += 1;
        self.streak_since = now;
    }
}

impl Shipped {
    pub(crate) fn new(world: &World, scans: bool, seed: u64) -> Self {
        let policy = &world.policy;
        let plan = &policy.plan;
        let seed = policy
            .config
            .seed
            .wrapping_add(seed.wrapping_mul(0xD134_2543_DE82_EF95));
        let worker = |id: usize| Worker {
            slot: None,
            deque: VecDeque::new(),
            line: Line::default(),
            phase: Phase::Between,
            pace: Pace::default(),
            streak: 0,
            streaks: Streaks::default(),
            streaks_begun: 0,
            streak_since: Nanos(0),
            clock: Nanos(0),
            unparked_at: Nanos(0),
            gates: policy.new_gates(),
            dry_since: None,
            skips: 0,
            spoiled: false,
            seen: false,
            rng: Rng::new(seed.wrapping_add((id as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))),
            rounds: Rounds::new(id, plan),
            profit: Profit::default(),
            reserve: policy.new_reserve(),
            reserved_until: Nanos(0),
            probes: ProbeRate::default(),
            spared_until: Nanos(0),
            injector_first: false,
            load: LazyCounter::default(),
            busy: BusyCounter::default(),
            coupled: Coupled::new(policy),
        };
        Self {
            workers: (0..plan.workers.len()).map(worker).collect(),
            groups: plan.groups.iter().map(|_| Group::default()).collect(),
            injectors: plan.llcs.iter().map(|_| Injector::default()).collect(),
            exports: plan.llcs.iter().map(|_| Exports::default()).collect(),
            loads: plan.llcs.iter().map(|llc| CacheLoad::new(llc.workers.len())).collect(),
            sets: Sets::new(plan.llcs.len()),
            put_up: Vec::new(),
            aggregates: policy.aggregates(),
            sleepers: Sleepers::new(world, scans),
            scanned: None,
            wake_cost: policy.config.wake_cost.first,
            wake_forgotten: Nanos(0),
            rule: policy.lazy_rule(),
            load_lines: vec![Line::default(); plan.llcs.len()],
            rng: Rng::new(!seed),
        }
    }

    /// The next task of the worker's own queues.
    fn next_local(&mut self, world: &mut World, worker: WorkerId, t: &mut Nanos) -> Option<TaskId> {
        let me = &mut self.workers[worker.index()];
        t.0 += world.cost.local_queue;
        let measures = world.policy.measures_streaks(me.streaks.average());
        if (measures || me.streak < world.policy.config.slot_polls_max)
            && let Some(task) = me.slot.take()
        {
            me.streak += 1;
            world.counters(worker).slot_pops += 1;
            return Some(task);
        }
        me.streak = 0;
        if let Some(task) = me.deque.pop_front() {
            me.begin_streak(*t);
            t.0 += me.line.write(world.when(*t), worker, &world.space, &world.cost).0;
            world.counters(worker).local_pops += 1;
            return Some(task);
        }
        let found = me.slot.take();
        me.streaks_begun += u32::from(found.is_some());
        found
    }

    /// Between tasks, every interval: read the clock, offer surplus, serve the shared queues.
    fn look_up(&mut self, world: &mut World, worker: WorkerId, t: &mut Nanos) -> Option<TaskId> {
        let me = &mut self.workers[worker.index()];
        let elapsed = t.since(me.clock);
        me.clock = *t;
        me.pace.looks_up(elapsed, &world.policy.config);
        me.streaks.looks_up(elapsed, std::mem::take(&mut me.streaks_begun));
        let share = me.pace.share(batch(world));
        let has_more = !me.deque.is_empty();
        self.note_goes_on(world, worker, *t);
        if has_more {
            self.offer(world, worker, t);
        }
        let aggregates = self.aggregates;
        if aggregates {
            self.settle(world, worker, elapsed, t);
        }
        let mut found = self.observe(world, worker, t);
        let mut what = Found::Theirs;
        if aggregates && found.is_none() {
            found = self.take_back(world, worker, t);
            what = if found.is_some() { Found::TakenBack } else { what };
        }
        if share > 0 {
            found = found.or_else(|| self.take_shared(world, worker, share, t));
        }
        if aggregates && found.is_none() {
            found = self.spill(world, worker, t);
            what = if found.is_some() { Found::Ours } else { what };
        }
        if found.is_some() {
            self.workers[worker.index()].pace.found(what);
            self.vacate_slot(world, worker, t);
            self.name_successor(world, worker, t);
        }
        found
    }

    /// What it runs next was taken in between: what is in the slot goes where thieves look, unless they find something
    /// there.
    fn vacate_slot(&mut self, world: &mut World, worker: WorkerId, t: &mut Nanos) {
        let me = &mut self.workers[worker.index()];
        if !me.deque.is_empty() || me.slot.is_none() {
            return;
        }
        t.0 += world.cost.local_queue;
        me.deque.extend(me.slot.take());
        self.offer(world, worker, t);
    }

    /// Says that a task is run, in the name of the policy.
    fn run(&mut self, world: &mut World, worker: WorkerId, task: TaskId, mut t: Nanos) -> Next {
        let me = &mut self.workers[worker.index()];
        me.phase = Phase::Between;
        me.dry_since = None;
        let clock = me.clock;
        let state = &mut world.tasks[task.index()];
        if let Some(last) = state.last_worker {
            let workers = &world.policy.plan.workers;
            if workers[last.index()].llc != workers[worker.index()].llc {
                world.policy.stolen(&mut state.policy, worker, clock);
            }
        }
        if world.policy.groups_on() {
            world.policy.ran(&mut state.policy, worker);
        }
        let me = &mut self.workers[worker.index()];
        if me.reserve.is_on() {
            me.reserve.runs(kin::name(task), clock);
        }
        if self.aggregates {
            self.enter_set(world, worker, task, &mut t);
        }
        t.0 += world.cost.poll + self.count(world, worker, 1, t).0;
        Next::Run { task, at: t }
    }

    /// Policy 5: one task more or less runs here.
    fn count(&mut self, world: &mut World, worker: WorkerId, delta: i64, now: Nanos) -> Nanos {
        let load = &mut self.workers[worker.index()].load;
        load.add(delta);
        if load.due(now, &self.rule).is_none() {
            return Nanos(0);
        }
        world.counters(worker).publications += 1;
        let line = if world.policy.active().lazy_counters {
            &mut self.load_lines[world.space.llc(worker).index()]
        } else {
            &mut self.load_lines[0]
        };
        let took = line.write(world.when(now), worker, &world.space, &world.cost);
        world.counters(worker).lock_wait_ns += took.0;
        took
    }
}

/// At most so many tasks move in one steal or one visit to an injector.
fn batch(world: &World) -> usize {
    world.policy.config.steal.batch as usize
}

/// Why a searcher takes a task.
fn cause(rescue: bool) -> Cause {
    if rescue { Cause::Rescue } else { Cause::Steal }
}

impl Scheduler for Shipped {
    fn next(&mut self, world: &mut World, worker: WorkerId, now: Nanos) -> Next {
        let mut t = now;
        match self.workers[worker.index()].phase {
            Phase::Between => {
                let me = &mut self.workers[worker.index()];
                let due = me.pace.is_due();
                let found = if due { self.look_up(world, worker, &mut t) } else { None };
                if found.is_some() {
                    self.workers[worker.index()].streaks_begun += 1;
                }
                match found.or_else(|| self.next_local(world, worker, &mut t)) {
                    Some(task) => self.run(world, worker, task, t),
                    None => self.dry(world, worker, t),
                }
            }
            Phase::Found { task, rescue } => {
                self.workers[worker.index()].begin_streak(t);
                self.found(world, worker, task, rescue, t)
            }
            Phase::Dry => self.sleep(world, worker, t),
            Phase::Spinning => self.park(world, worker, t),
            Phase::Parked => self.sentinel_look(world, worker, t),
            Phase::Claimed => self.come_back(world, worker, t),
        }
    }

    fn ready(&mut self, world: &mut World, task: TaskId, by: Option<WorkerId>, why: Why, now: Nanos) -> Nanos {
        let mut t = now;
        if let (Why::Yielded, Some(by)) = (why, by) {
            t.0 += self.count(world, by, -1, now).0;
        }
        match why {
            Why::Woken => self.wake(world, task, by, false, &mut t),
            Why::Yielded => self.wake(world, task, by, true, &mut t),
            Why::Spawned => self.spawn(world, task, by, &mut t),
        }
        t.since(now)
    }

    fn left(&mut self, world: &mut World, worker: WorkerId, now: Nanos) -> Nanos {
        self.count(world, worker, -1, now)
    }

    fn may_run(&mut self, _world: &mut World, _worker: WorkerId, _now: &mut Nanos) -> Nanos {
        Nanos(u64::MAX)
    }
}
