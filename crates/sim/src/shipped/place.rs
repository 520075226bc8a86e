//! Ready, placed, published, notified.

use quadrille_policy::{Cause, Claim, LlcId, Nanos, Placement, Policy, Reason, Search, UnparkView, WorkerId};

use super::Shipped;
use super::group::Entry;
use super::sleep::Seat;
use super::view::len;
use crate::workload::TaskId;
use crate::world::World;

impl Shipped {
    /// Queues a task that was woken.
    pub(super) fn wake(&mut self, world: &mut World, task: TaskId, by: Option<WorkerId>, yielded: bool, t: &mut Nanos) {
        let groups_on = world.policy.groups_on();
        let placement = if groups_on {
            self.asked(world, task, by, yielded, t)
        } else {
            Policy::wake_without_groups(by, yielded)
        };
        match by {
            Some(worker) if placement == Placement::Deque && !groups_on => {
                world.counters(worker).wakes_self += 1;
                self.workers[worker.index()].deque.push_back(task);
                t.0 += world.cost.local_queue;
                // As in the runtime: a re-queue signals nobody but a missing sentinel.
                self.keep_watch(world, world.space.llc(worker), by, t);
            }
            Some(worker) => self.put(world, task, worker, placement, t),
            None => self.publish(world, task, placement, None, t),
        }
    }

    /// The policy's answer for a task that was woken.
    fn asked(
        &mut self,
        world: &mut World,
        task: TaskId,
        by: Option<WorkerId>,
        yielded: bool,
        t: &mut Nanos,
    ) -> Placement {
        let state = world.tasks[task.index()].policy;
        let mut view = self.wake_view(world, by, &state, yielded, t);
        if self.aggregates && !yielded {
            view.coupling = self.coupling_view(world, task, by, t);
        }
        let rng = match by {
            Some(by) => &mut self.workers[by.index()].rng,
            None => &mut self.rng,
        };
        let state = &mut world.tasks[task.index()].policy;
        let (placement, reason) = world.policy.place_wake(&view, state, rng);
        self.note_pull(&view.coupling, placement, state);
        if reason == Reason::Pulled {
            world.came(task, Cause::Pull);
        }
        if let Some(by) = by {
            world.counters(by).count_reason(reason, placement);
        }
        placement
    }

    /// Queues a new task.
    pub(super) fn spawn(&mut self, world: &mut World, task: TaskId, by: Option<WorkerId>, t: &mut Nanos) {
        let placement = if world.policy.groups_on() {
            let view = self.spawn_view(world, task, by);
            let rng = match by {
                Some(by) => &mut self.workers[by.index()].rng,
                None => &mut self.rng,
            };
            world
                .policy
                .place_spawn(&view, &mut world.tasks[task.index()].policy, rng)
        } else {
            Policy::spawn_without_groups(by)
        };
        match by {
            Some(worker) => self.put(world, task, worker, placement, t),
            None => self.publish(world, task, placement, None, t),
        }
    }

    fn put(&mut self, world: &mut World, task: TaskId, by: WorkerId, placement: Placement, t: &mut Nanos) {
        match placement {
            Placement::Slot => {
                world.counters(by).wakes_self += 1;
                self.push_slot(world, task, by, t);
            }
            Placement::Deque => {
                world.counters(by).wakes_self += 1;
                t.0 += world.cost.local_queue;
                self.workers[by.index()].deque.push_back(task);
                self.offer(world, by, t);
            }
            other => self.publish(world, task, other, Some(by), t),
        }
    }

    fn push_slot(&mut self, world: &mut World, task: TaskId, by: WorkerId, t: &mut Nanos) {
        t.0 += world.cost.local_queue;
        let me = &mut self.workers[by.index()];
        let is_over = !me.deque.is_empty()
            && world.policy.measures_streaks(me.streaks.average())
            && !world.policy.joins_streak(t.since(me.streak_since));
        if is_over {
            me.deque.push_back(task);
            self.offer(world, by, t);
        } else if let Some(displaced) = me.slot.replace(task) {
            me.deque.push_back(displaced);
            self.offer(world, by, t);
        } else {
            self.keep_watch(world, world.space.llc(by), Some(by), t);
        }
    }

    /// There is more in the deque than is run next: wakes an idle worker if that pays.
    pub(super) fn offer(&mut self, world: &mut World, by: WorkerId, t: &mut Nanos) {
        let idle = self.sleepers.count();
        if idle == 0 {
            return;
        }
        t.0 += self.sleepers.read_shared(world, by).0;
        let llc = world.space.llc(by);
        let me = &self.workers[by.index()];
        if me.clock < me.spared_until {
            return self.keep_watch(world, llc, Some(by), t);
        }
        let view = UnparkView {
            idle,
            searching: self.sleepers.searching_for(world, llc, Some(by), t),
            sentinel: self.sleepers.has_sentinel(),
            running: 1,
            queued: len(me.deque.len()),
            average_run: me.pace.average_run(),
            burst: Nanos(0),
            wake_cost: self.wake_cost,
        };
        if pays(world, &view, Some(by)) {
            self.wake_any(world, llc, Some(by), t);
        } else {
            self.keep_watch(world, llc, Some(by), t);
        }
    }

    pub(super) fn publish(
        &mut self,
        world: &mut World,
        task: TaskId,
        placement: Placement,
        by: Option<WorkerId>,
        t: &mut Nanos,
    ) {
        match placement {
            Placement::Group { group, claim } => self.publish_group(world, task, group.index(), claim, by, t),
            Placement::IdleInLlc { llc, fallback } => match self.search_in_llc(world, llc, by, t) {
                Some(seat) => {
                    self.note_move(world, task, seat, by, *t);
                    self.push_group(world, task, seat.group, by, t);
                    self.wake_claimed(world, seat, by, t);
                    self.keep_watch(world, llc, by, t);
                }
                None => {
                    // It goes home; whatever reason there was to leave.
                    world.came(task, Cause::Wake);
                    self.publish_group(world, task, fallback.index(), Claim::Member, by, t);
                }
            },
            Placement::Injector { llc } => self.publish_injector(world, task, llc, by, t),
            Placement::Slot | Placement::Deque => self.publish_injector(world, task, LlcId(0), by, t),
        }
    }

    /// Tells the policy that a wake placed the task with the worker in `seat`.
    fn note_move(&self, world: &mut World, task: TaskId, seat: Seat, by: Option<WorkerId>, now: Nanos) {
        let worker = world.policy.plan.groups[seat.group].members[usize::from(seat.member)];
        let home = world.tasks[task.index()].policy.home;
        let home = world.policy.plan.groups.get(home.index()).map(|group| group.llc);
        if let Some(by) = by {
            let changes_cache = home != Some(world.space.llc(worker));
            world.counters(by).set_moves += u64::from(changes_cache);
        }
        world.policy.moved(&mut world.tasks[task.index()].policy, worker, now);
        if let Some(by) = by {
            world.counters(by).wakes_found += 1;
        }
    }

    fn publish_injector(&mut self, world: &mut World, task: TaskId, llc: LlcId, by: Option<WorkerId>, t: &mut Nanos) {
        let index = llc.index().min(self.injectors.len() - 1);
        let llc = LlcId(u16::try_from(index).unwrap_or(0));
        if let Some(by) = by {
            world.counters(by).wakes_injector += 1;
        }
        self.injectors[index].push(world, task, by, t);
        let queued = self.injectors[index].len();
        self.announce_to_anyone(world, queued, llc, llc, by, t);
    }

    /// Something was put into a queue of the cache `owner` that anyone may drain and that has so many tasks now: wakes
    /// somebody, near `llc` first, if that is owed or pays.
    pub(super) fn announce_to_anyone(
        &mut self,
        world: &mut World,
        queued: usize,
        owner: LlcId,
        llc: LlcId,
        by: Option<WorkerId>,
        t: &mut Nanos,
    ) {
        if let Some(by) = by {
            t.0 += self.sleepers.read_shared(world, by).0;
        }
        let (awake, _) = self.awake_in_llc(world, owner);
        let view = UnparkView {
            idle: 1,
            searching: 0,
            sentinel: self.sleepers.has_sentinel(),
            running: awake,
            queued: len(queued),
            average_run: self.average_run_of(&world.policy.plan.llcs[owner.index()].workers),
            burst: Nanos(0),
            wake_cost: self.wake_cost,
        };
        let asked = self.sleepers.count() > 0 && self.sleepers.searching_for(world, llc, by, t) == 0;
        let owes = asked && (view.running == 0 || pays(world, &view, by));
        if owes {
            self.wake_any(world, llc, by, t);
        } else {
            self.keep_watch(world, llc, by, t);
        }
    }

    fn publish_group(
        &mut self,
        world: &mut World,
        task: TaskId,
        group: usize,
        claim: Claim,
        by: Option<WorkerId>,
        t: &mut Nanos,
    ) {
        let group = group.min(self.groups.len() - 1);
        let prefer = match claim {
            Claim::Nobody | Claim::Member => None,
            Claim::Prefer(worker) => {
                let plan = &world.policy.plan.workers[worker.index()];
                (plan.group.index() == group).then_some(plan.member)
            }
        };
        let unobserved = claim != Claim::Nobody || !self.sleepers.has_sentinel();
        self.push_group(world, task, group, by, t);
        match self.announce(world, group, prefer, unobserved, by, t) {
            Some(seat) => self.wake_claimed(world, seat, by, t),
            None => self.keep_watch(world, world.policy.plan.groups[group].llc, by, t),
        }
    }

    /// Claims an idle member of a group in whose queue something was put, if that is owed or pays.
    pub(super) fn announce(
        &mut self,
        world: &mut World,
        group: usize,
        prefer: Option<u8>,
        unobserved: bool,
        by: Option<WorkerId>,
        t: &mut Nanos,
    ) -> Option<Seat> {
        if let Some(by) = by {
            t.0 += self.sleepers.read_group(world, group, by).0;
        }
        let idle = self.sleepers.members(group).count_ones();
        if idle == 0 {
            return None;
        }
        let awake = len(world.policy.plan.groups[group].members.len()).saturating_sub(idle);
        if awake > 0 && !(unobserved && self.unpark_pays(world, group, idle, awake, by)) {
            return None;
        }
        let avoid = self.sleepers.sentinel_seat().filter(|seat| seat.group == group);
        self.sleepers.claim_in_group(world, group, prefer, avoid, by, t)
    }

    fn unpark_pays(&self, world: &mut World, group: usize, idle: u32, awake: u32, by: Option<WorkerId>) -> bool {
        let view = UnparkView {
            idle,
            searching: 0,
            sentinel: self.sleepers.has_sentinel(),
            running: awake,
            queued: len(self.groups[group].len()).max(1),
            average_run: self.average_run_of(&world.policy.plan.groups[group].members),
            burst: Nanos(0),
            wake_cost: self.wake_cost,
        };
        pays(world, &view, by)
    }

    fn push_group(&mut self, world: &mut World, task: TaskId, group: usize, by: Option<WorkerId>, t: &mut Nanos) {
        let member = by.is_some_and(|by| world.policy.plan.workers[by.index()].group.index() == group);
        let entry = self.groups[group].push(world, task, by, member, t);
        if let Some(by) = by {
            match entry {
                Entry::Direct => world.counters(by).wakes_direct += 1,
                Entry::Mailbox => world.counters(by).wakes_mailbox += 1,
            }
        }
    }

    /// Something was queued and nobody was woken for it: somebody must look at the queues from time to time.
    pub(super) fn keep_watch(&mut self, world: &mut World, llc: LlcId, by: Option<WorkerId>, t: &mut Nanos) {
        let sleepers = &self.sleepers;
        if sleepers.count() != 0 && !sleepers.has_sentinel() && !sleepers.anyone_searches() {
            self.wake_any(world, llc, by, t);
        }
    }

    /// Claims and wakes an idle worker, nearest to `llc` first, the sentinel last.
    pub(super) fn wake_any(&mut self, world: &mut World, llc: LlcId, by: Option<WorkerId>, t: &mut Nanos) {
        let from = by.map_or(0, |by| self.index_in_llc(world, by));
        let others = world.policy.plan.llcs[llc.index()].others.len();
        let mut seat = None;
        if others == 0 {
            seat = self.sleepers.claim_recent(world, by, t);
        }
        for other in 0..=others {
            if seat.is_some() {
                break;
            }
            let llc = match other {
                0 => llc,
                _ => world.policy.plan.llcs[llc.index()].others[other - 1],
            };
            seat = self.claim_in_llc(world, llc, from, by, t);
        }
        if let Some(seat) = seat {
            self.wake_claimed(world, seat, by, t);
        }
    }

    /// Claims an idle worker of `llc` for a wake-up, the way that policy 2 wants it looked for.
    fn search_in_llc(&mut self, world: &mut World, llc: LlcId, by: Option<WorkerId>, t: &mut Nanos) -> Option<Seat> {
        let Some(worker) = by else {
            return self.claim_in_llc(world, llc, 0, None, t);
        };
        if let Some((scanned, seat)) = self.scanned.take()
            && scanned == llc
        {
            let seat = seat?;
            let member = Some(seat.member);
            return self.sleepers.claim_in_group(world, seat.group, member, None, by, t);
        }
        let util = self.utilisation(llc.index());
        let me = &mut self.workers[worker.index()];
        let how = world.policy.search(&mut me.probes, util, me.clock);
        let mut probed = None;
        if how != Search::Mask {
            let met = self.probe(world, llc, worker, t);
            self.workers[worker.index()].probes.record(met.is_some());
            let free = met.filter(|seat| Some(*seat) != self.sleepers.sentinel_seat());
            probed = free.and_then(|seat| {
                self.sleepers
                    .claim_in_group(world, seat.group, Some(seat.member), None, by, t)
            });
        }
        // Who sends a task to another cache on purpose wants somebody there, not one of two.
        let on_purpose = self.aggregates && world.space.llc(worker) != llc;
        if probed.is_some() || (how == Search::Probe && !on_purpose) {
            return probed;
        }
        let from = self.index_in_llc(world, worker) + 1;
        let unkept = if world.policy.reserves() {
            self.claim_unkept(world, llc, from, by, t)
        } else {
            None
        };
        unkept.or_else(|| self.claim_in_llc(world, llc, from, by, t))
    }

    /// The first of two workers of `llc`, chosen at random, that is idle.
    fn probe(&mut self, world: &mut World, llc: LlcId, by: WorkerId, t: &mut Nanos) -> Option<Seat> {
        let workers = &world.policy.plan.llcs[llc.index()].workers;
        let bound = len(workers.len());
        let rng = &mut self.workers[by.index()].rng;
        let chosen = [(); 2].map(|()| workers[rng.below(bound) as usize]);
        let met = chosen
            .into_iter()
            .map(|worker| self.sleepers.seat(worker))
            .find(|seat| self.claimable(world, seat.group, None, Some(by), *t).has(seat.member));
        for seat in chosen.map(|worker| self.sleepers.seat(worker)) {
            t.0 += self.sleepers.read_group(world, seat.group, by).0;
        }
        let counters = world.counters(by);
        counters.probes += 1;
        counters.probes_idle += u64::from(met.is_some());
        met
    }

    pub(super) fn claim_in_llc(
        &mut self,
        world: &mut World,
        llc: LlcId,
        from: usize,
        by: Option<WorkerId>,
        t: &mut Nanos,
    ) -> Option<Seat> {
        if let Some(by) = by {
            t.0 += self.sleepers.read_llc(world, llc.index(), by).0;
        }
        if self.sleepers.idle_in_llc(llc.index()) == 0 {
            return None;
        }
        let avoid = self.sleepers.sentinel_seat();
        let groups = &world.policy.plan.llcs[llc.index()].groups;
        let rotated = || {
            let from = from % groups.len();
            groups[from..].iter().chain(&groups[..from]).map(|group| group.index())
        };
        // One on a core that is idle as a whole, if there is one.
        let group = rotated()
            .find(|group| self.sleepers.has_idle_core(*group))
            .or_else(|| rotated().find(|group| self.sleepers.members(*group) != 0))?;
        let avoid = avoid.filter(|seat| seat.group == group);
        self.sleepers.claim_in_group(world, group, None, avoid, by, t)
    }

    fn index_in_llc(&self, world: &World, worker: WorkerId) -> usize {
        let group = world.policy.plan.workers[worker.index()].group;
        usize::from(world.policy.plan.groups[group.index()].index_in_llc)
    }
}

/// Whether waking an idle worker pays; counts it if not, unless somebody searches anyway.
fn pays(world: &mut World, view: &UnparkView, by: Option<WorkerId>) -> bool {
    let pays = world.policy.unpark(view);
    if let (false, 0, Some(by)) = (pays, view.searching, by) {
        world.counters(by).unparks_suppressed += 1;
    }
    pays
}
