//! How a worker goes to sleep and is woken.

use quadrille_policy::{GroupPlan, LlcId, Nanos, Plan, Spins, WorkerId};

use super::watch::Look;
use super::{Phase, Shipped, batch};
use crate::line::Line;
use crate::scheduler::Next;
use crate::state_lines::StateLines;
use crate::trace::What;
use crate::workload::TaskId;
use crate::world::World;

/// A worker's place in the idle masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) group: usize,
    pub(super) member: u8,
}

/// What the workers of a last-level cache share.
#[derive(Clone, Debug, Default)]
struct OfLlc {
    summary: Line,
    idle: u32,
    idle_line: Line,
    searching: u32,
    searching_line: Line,
}

/// Who is idle, who searches, who keeps watch; and the lines that this is on.
#[derive(Debug)]
pub(super) struct Sleepers {
    /// By group: idle members.
    groups: Vec<(u64, Line)>,
    /// By last-level cache.
    llcs: Vec<OfLlc>,
    /// Idle workers of all caches.
    count: u32,
    /// The word that says which caches have some.
    bits_line: Line,
    sentinel: Option<WorkerId>,
    recent: Option<WorkerId>,
    /// By worker, and by group its cache.
    seats: Vec<Seat>,
    llc_of: Vec<LlcId>,
    /// By group: the members of each core; empty if no core of the machine has two workers.
    cores: Vec<Vec<u64>>,
    /// By worker: the line of its state, where searches read those instead of the masks.
    states: Option<StateLines>,
}

impl Sleepers {
    pub(super) fn new(world: &World, are_scanned: bool) -> Self {
        let plan = &world.policy.plan;
        let seat = |worker: &quadrille_policy::WorkerPlan| Seat {
            group: worker.group.index(),
            member: worker.member,
        };
        Self {
            groups: plan.groups.iter().map(|_| (0, Line::default())).collect(),
            llcs: vec![OfLlc::default(); plan.llcs.len()],
            count: 0,
            bits_line: Line::default(),
            sentinel: None,
            recent: None,
            seats: plan.workers.iter().map(seat).collect(),
            llc_of: plan.groups.iter().map(|group| group.llc).collect(),
            cores: cores(plan),
            states: are_scanned.then(|| StateLines::new(&world.space)),
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Searchers for whose sake nobody is woken for what is queued behind `llc`: those of that cache; where all its
    /// workers are awake, those of the nearest that has idle ones.
    pub(super) fn searching_for(&mut self, world: &World, llc: LlcId, by: Option<WorkerId>, t: &mut Nanos) -> u32 {
        let near = self.searching_behind(world, llc, by, t);
        if near > 0 || self.llcs[llc.index()].idle > 0 {
            return near;
        }
        let others = &world.policy.plan.llcs[llc.index()].others;
        let idle = others.iter().find(|other| self.llcs[other.index()].idle > 0);
        idle.map_or(0, |other| self.searching_behind(world, *other, by, t))
    }

    fn searching_behind(&mut self, world: &World, llc: LlcId, by: Option<WorkerId>, t: &mut Nanos) -> u32 {
        let llc = &mut self.llcs[llc.index()];
        if let Some(by) = by {
            t.0 += llc.searching_line.read(by, &world.space, &world.cost).0;
        }
        llc.searching
    }

    pub(super) fn anyone_searches(&self) -> bool {
        self.llcs.iter().any(|llc| llc.searching > 0)
    }

    pub(super) fn has_sentinel(&self) -> bool {
        self.sentinel.is_some()
    }

    pub(super) fn members(&self, group: usize) -> u64 {
        self.groups[group].0
    }

    /// Whether a core of the group is idle as a whole; no, if no core of the machine has two workers.
    pub(super) fn has_idle_core(&self, group: usize) -> bool {
        let idle = self.groups[group].0;
        self.cores[group].iter().any(|core| idle & core == *core)
    }

    pub(super) fn idle_in_llc(&self, llc: usize) -> u32 {
        self.llcs[llc].idle
    }

    pub(super) fn sentinel_seat(&self) -> Option<Seat> {
        self.sentinel.map(|worker| self.seats[worker.index()])
    }

    pub(super) fn seat(&self, worker: WorkerId) -> Seat {
        self.seats[worker.index()]
    }

    /// Reads whether anybody is idle: a word that says for which caches, or the count of the only one.
    pub(super) fn read_shared(&mut self, world: &World, by: WorkerId) -> Nanos {
        let line = match &mut self.llcs[..] {
            [only] => &mut only.idle_line,
            _ => &mut self.bits_line,
        };
        line.read(by, &world.space, &world.cost)
    }

    /// Reads a group's idle word.
    pub(super) fn read_group(&mut self, world: &World, group: usize, by: WorkerId) -> Nanos {
        self.groups[group].1.read(by, &world.space, &world.cost)
    }

    /// Reads a cache's summary.
    pub(super) fn read_llc(&mut self, world: &World, llc: usize, by: WorkerId) -> Nanos {
        self.llcs[llc].summary.read(by, &world.space, &world.cost)
    }

    /// Reads how many workers are idle behind a cache.
    pub(super) fn read_count(&mut self, world: &World, llc: LlcId, by: WorkerId) -> Nanos {
        self.llcs[llc.index()].idle_line.read(by, &world.space, &world.cost)
    }

    /// Whether searches go from worker to worker.
    pub(super) fn are_scanned(&self) -> bool {
        self.states.is_some()
    }

    /// `by` changes the state of `worker`.
    pub(super) fn changes(&mut self, world: &World, worker: WorkerId, by: WorkerId) {
        if let Some(states) = &mut self.states {
            states.write(worker, by, &world.space);
        }
    }

    /// `by` looks at the state of `worker`.
    pub(super) fn read_state(&mut self, world: &World, worker: WorkerId, by: WorkerId) -> Nanos {
        let states = self.states.as_mut();
        let line = states.map_or(Nanos(0), |states| states.read(worker, by, &world.space, &world.cost));
        Nanos(world.cost.scan_step + line.0)
    }

    /// `worker` searches, says `by`: itself, or who has claimed it.
    fn start_search(&mut self, world: &World, worker: WorkerId, by: Option<WorkerId>, t: &mut Nanos) {
        let llc = &mut self.llcs[world.space.llc(worker).index()];
        llc.searching += 1;
        if let Some(by) = by {
            t.0 += llc
                .searching_line
                .write(world.when(*t), by, &world.space, &world.cost)
                .0;
        }
    }

    /// True if it was the last searcher of its cache.
    fn stop_search(&mut self, world: &World, by: WorkerId, t: &mut Nanos) -> bool {
        let llc = &mut self.llcs[world.space.llc(by).index()];
        llc.searching -= 1;
        t.0 += llc
            .searching_line
            .write(world.when(*t), by, &world.space, &world.cost)
            .0;
        llc.searching == 0
    }

    /// Sets the idle bit of `worker`.
    fn announce(&mut self, world: &World, worker: WorkerId, t: &mut Nanos) {
        self.changes(world, worker, worker);
        let seat = self.seats[worker.index()];
        let (space, cost) = (&world.space, &world.cost);
        let several = self.llcs.len() > 1;
        let llc = &mut self.llcs[self.llc_of[seat.group].index()];
        self.count += 1;
        llc.idle += 1;
        t.0 += llc.idle_line.write(world.when(*t), worker, space, cost).0;
        if several && llc.idle == 1 {
            t.0 += self.bits_line.write(world.when(*t), worker, space, cost).0;
        }
        let (bits, line) = &mut self.groups[seat.group];
        t.0 += line.write(world.when(*t), worker, space, cost).0;
        let was_empty = *bits == 0;
        *bits |= 1 << seat.member;
        if was_empty {
            t.0 += llc.summary.write(world.when(*t), worker, space, cost).0;
        }
    }

    /// Clears the idle bit of `seat`, which is set.
    fn clear(&mut self, world: &World, seat: Seat, by: Option<WorkerId>, t: &mut Nanos) {
        let (space, cost) = (&world.space, &world.cost);
        let (bits, line) = &mut self.groups[seat.group];
        *bits &= !(1 << seat.member);
        let is_empty = *bits == 0;
        self.count -= 1;
        let several = self.llcs.len() > 1;
        let llc = &mut self.llcs[self.llc_of[seat.group].index()];
        llc.idle -= 1;
        let Some(by) = by else {
            return;
        };
        if let Some(states) = &mut self.states {
            states.write(
                world.policy.plan.groups[seat.group].members[usize::from(seat.member)],
                by,
                space,
            );
        }
        t.0 += line.write(world.when(*t), by, space, cost).0;
        t.0 += llc.idle_line.write(world.when(*t), by, space, cost).0;
        if several && llc.idle == 0 {
            t.0 += self.bits_line.write(world.when(*t), by, space, cost).0;
        }
        if is_empty {
            t.0 += llc.summary.write(world.when(*t), by, space, cost).0;
        }
    }

    /// Claims one idle member of `group`: `prefer` if it is idle, one of a core that is idle as a whole else, any other
    /// but `avoid` else, `avoid` last.
    pub(super) fn claim_in_group(
        &mut self,
        world: &World,
        group: usize,
        prefer: Option<u8>,
        avoid: Option<Seat>,
        by: Option<WorkerId>,
        t: &mut Nanos,
    ) -> Option<Seat> {
        let idle = self.groups[group].0;
        let others = idle & !avoid.map_or(0, |seat| 1 << seat.member);
        let preferred = prefer.filter(|member| idle & (1 << member) != 0);
        let whole = self.cores[group].iter().filter(|core| idle & **core == **core);
        let on_idle_core = whole.map(|core| others & core).find(|bits| *bits != 0);
        let lowest = on_idle_core
            .unwrap_or(if others == 0 { idle } else { others })
            .trailing_zeros();
        let member = preferred.or_else(|| u8::try_from(lowest).ok().filter(|_| idle != 0))?;
        let seat = Seat { group, member };
        self.clear(world, seat, by, t);
        Some(seat)
    }

    /// Claims the worker that went idle last, if it still is and is not the sentinel.
    pub(super) fn claim_recent(&mut self, world: &World, by: Option<WorkerId>, t: &mut Nanos) -> Option<Seat> {
        let recent = self.recent.filter(|recent| Some(*recent) != self.sentinel)?;
        let seat = self.seats[recent.index()];
        if self.groups[seat.group].0 & (1 << seat.member) == 0 {
            return None;
        }
        self.clear(world, seat, by, t);
        Some(seat)
    }

    fn take_duty(&mut self, worker: WorkerId) -> bool {
        *self.sentinel.get_or_insert(worker) == worker
    }

    fn resign(&mut self, worker: WorkerId) {
        if self.sentinel == Some(worker) {
            self.sentinel = None;
        }
    }
}

fn cores(plan: &Plan) -> Vec<Vec<u64>> {
    let smt = plan.workers.iter().any(|worker| worker.siblings.0.count_ones() > 1);
    let cores_of = |group: &GroupPlan| {
        let members = group.members.iter().filter(|_| smt);
        let mut cores: Vec<u64> = members.map(|worker| plan.workers[worker.index()].siblings.0).collect();
        cores.dedup();
        cores
    };
    plan.groups.iter().map(cores_of).collect()
}

impl Shipped {
    /// Out of work: looks at the queues that it shares, then searches.
    pub(super) fn dry(&mut self, world: &mut World, worker: WorkerId, t: Nanos) -> Next {
        let mut t = t;
        self.judge_theft(world, worker, t);
        if let Some(task) = self.take_near(world, worker, &mut t) {
            self.workers[worker.index()].begin_streak(t);
            return self.run(world, worker, task, t);
        }
        self.run_dry(world, worker, &mut t);
        self.note_busy(world, worker, false, t);
        self.search_from(world, worker, false, false, t)
    }

    /// What is looked at before a worker counts itself among the searchers.
    fn take_near(&mut self, world: &mut World, worker: WorkerId, t: &mut Nanos) -> Option<TaskId> {
        let found = self.take_shared(world, worker, batch(world), t)?;
        self.note_busy(world, worker, true, *t);
        if !self.workers[worker.index()].deque.is_empty() {
            self.offer(world, worker, t);
        }
        self.name_successor(world, worker, t);
        Some(found)
    }

    /// A claimed worker is counted as a searcher already.
    fn search_from(&mut self, world: &mut World, worker: WorkerId, claimed: bool, rescue: bool, t: Nanos) -> Next {
        let start = t;
        let mut t = t;
        if !claimed {
            self.sleepers.start_search(world, worker, Some(worker), &mut t);
        }
        self.workers[worker.index()].dry_since.get_or_insert(start);
        let found = self
            .observe(world, worker, &mut t)
            .or_else(|| self.search(world, worker, rescue, &mut t));
        let me = &mut self.workers[worker.index()];
        me.clock = t;
        me.phase = match found {
            Some(task) => Phase::Found { task, rescue },
            None => Phase::Dry,
        };
        let counters = world.counters(worker);
        counters.useless_unparks += u64::from(claimed && found.is_none());
        counters.overhead_ns += t.since(start).0;
        Next::At(t)
    }

    /// The search has found something: stops searching, wakes others for what else there is.
    pub(super) fn found(&mut self, world: &mut World, worker: WorkerId, task: TaskId, rescue: bool, t: Nanos) -> Next {
        let mut t = t;
        self.note_busy(world, worker, true, t);
        let last = self.sleepers.stop_search(world, worker, &mut t);
        world.counters(worker).rescues += u64::from(rescue);
        if !self.workers[worker.index()].deque.is_empty() || (last && self.anything_shared(world, worker, &mut t)) {
            self.offer(world, worker, &mut t);
        }
        if last {
            self.pass_on(world, worker, &mut t);
        }
        self.name_successor(world, worker, &mut t);
        self.run(world, worker, task, t)
    }

    /// The search has found nothing: announces itself, looks once more, and spins.
    pub(super) fn sleep(&mut self, world: &mut World, worker: WorkerId, now: Nanos) -> Next {
        let mut t = now;
        self.note_parks(world, worker, now);
        self.be_reserved(world, worker, now);
        self.sleepers.recent = Some(worker);
        let last = self.sleepers.stop_search(world, worker, &mut t);
        self.sleepers.announce(world, worker, &mut t);
        let seen = self.final_look(world, worker, last, &mut t);
        self.workers[worker.index()].seen = seen;
        if seen {
            let seat = self.sleepers.seats[worker.index()];
            self.sleepers.clear(world, seat, Some(worker), &mut t);
            world.counters(worker).overhead_ns += t.since(now).0;
            return self.search_from(world, worker, false, false, t);
        }
        world.trace.note(now, worker.0, What::Sleep, None);
        self.workers[worker.index()].skips = 0;
        let counters = world.counters(worker);
        counters.parks += 1;
        counters.overhead_ns += t.since(now).0;
        if self.workers.len() > 1 {
            self.sleepers.take_duty(worker);
        }
        let spin = Spins::longest(&world.policy.config, self.wake_cost);
        self.workers[worker.index()].phase = Phase::Spinning;
        Next::At(Nanos(t.0 + spin.0))
    }

    /// It has spun for long enough.
    pub(super) fn park(&mut self, world: &mut World, worker: WorkerId, t: Nanos) -> Next {
        self.workers[worker.index()].phase = Phase::Parked;
        world.counters(worker).overhead_ns += world.cost.park_call;
        if self.sleepers.sentinel != Some(worker) {
            return Next::Sleep;
        }
        let interval = world.policy.config.sentinel_interval;
        let passed = self.workers[worker.index()].rounds.passed(t);
        Next::At(Nanos(t.0 + interval.since(passed).0.max(1)))
    }

    /// The sentinel's interval has ended.
    pub(super) fn sentinel_look(&mut self, world: &mut World, worker: WorkerId, t: Nanos) -> Next {
        world.counters(worker).sentinel_looks += 1;
        self.sample_loads(world, t);
        let interval = world.policy.config.sentinel_interval;
        match self.look(world, worker, t) {
            Look::Stuck => {
                let mut t = t;
                self.sleepers.resign(worker);
                let seat = self.sleepers.seats[worker.index()];
                self.sleepers.clear(world, seat, Some(worker), &mut t);
                self.search_from(world, worker, false, true, t)
            }
            Look::Active => Next::At(Nanos(t.0 + interval.0)),
            Look::Quiet if (self.sleepers.count() as usize) < self.workers.len() => Next::At(Nanos(t.0 + interval.0)),
            Look::Quiet => {
                self.sleepers.resign(worker);
                Next::Sleep
            }
        }
    }

    /// It was claimed, and the token is there.
    pub(super) fn come_back(&mut self, world: &mut World, worker: WorkerId, t: Nanos) -> Next {
        self.sleepers.resign(worker);
        self.forget_wake(world, t);
        let took = t.since(self.workers[worker.index()].unparked_at);
        self.wake_cost = world.policy.measured_wake(self.wake_cost, took);
        self.search_from(world, worker, true, false, t)
    }

    /// Posts the token that a claim owes.
    pub(super) fn wake_claimed(&mut self, world: &mut World, seat: Seat, by: Option<WorkerId>, t: &mut Nanos) {
        let worker = world.policy.plan.groups[seat.group].members[usize::from(seat.member)];
        self.sleepers.start_search(world, worker, by, t);
        world.trace.note(*t, worker.0, What::Claim, None);
        let parked = self.workers[worker.index()].phase == Phase::Parked;
        let way = by.map_or(0, |by| world.space.line(by, worker).0);
        let me = &mut self.workers[worker.index()];
        me.unparked_at = *t;
        me.phase = Phase::Claimed;
        if parked && by.is_some() {
            t.0 += world.cost.unpark_call;
        }
        let latency = if parked { world.cost.parked_latency } else { way };
        world.continue_at(worker, Nanos(t.0 + way + latency));
        if let Some(by) = by {
            let counters = world.counters(by);
            counters.unparks += 1;
            counters.unparks_futex += u64::from(parked);
        }
    }
}
