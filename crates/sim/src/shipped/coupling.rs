//! Coupling sets as the scheduler sees them: who runs which, what is told of them, what a wake wants to know.

use quadrille_policy::{
    CouplingView, GroupId, Ledger, LlcId, LlcView, Nanos, Placement, Policy, Share, TaskPolicy, Wakees, WorkerId,
};

use super::Shipped;
use super::sets::Known;
use crate::kin;
use crate::workload::TaskId;
use crate::world::World;

/// What a worker keeps for policy 3.
#[derive(Debug)]
pub(super) struct Coupled {
    ledger: Ledger,
    /// When the ledger was told last.
    told: Nanos,
    pub(super) load: Load,
    wakees: Wakees,
}

impl Coupled {
    pub(super) fn new(policy: &Policy) -> Self {
        Self {
            ledger: Ledger::default(),
            told: Nanos(0),
            load: Load::default(),
            wakees: policy.new_wakees(),
        }
    }
}

/// How busy the worker's cache is and the least busy one of the others, as of some time ago.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    pub(super) at: Nanos,
    pub(super) util: u16,
    pub(super) least_util: u16,
    /// `None`: no other has an idle worker who may take our tasks.
    pub(super) least: Option<LlcId>,
}

impl Shipped {
    /// Notes which task is about to run, and so which set.
    #[inline]
    pub(super) fn enter_set(&mut self, world: &mut World, worker: WorkerId, task: TaskId, t: &mut Nanos) {
        if let Some(put_up) = self.put_up.get_mut(task.index()) {
            *put_up = false;
        }
        let set = world.tasks[task.index()].policy.set;
        let ledger = &mut self.workers[worker.index()].coupled.ledger;
        if let Some(evicted) = ledger.charge(set, kin::name(task)) {
            self.tell(world, worker, evicted, t);
        }
    }

    /// Divides the time since the last look among those who ran, and tells of them once an epoch.
    pub(super) fn settle(&mut self, world: &mut World, worker: WorkerId, elapsed: Nanos, t: &mut Nanos) {
        let Coupled { ledger, told, .. } = &mut self.workers[worker.index()].coupled;
        ledger.settle(elapsed);
        if t.since(*told) < world.policy.config.aggregation.epoch {
            return;
        }
        *told = *t;
        for share in ledger.take() {
            self.tell(world, worker, share, t);
        }
    }

    /// There is nothing left to do: notes since when, and who has run until now.
    pub(super) fn run_dry(&mut self, world: &mut World, worker: WorkerId, t: &mut Nanos) {
        let me = &mut self.workers[worker.index()];
        (me.dry_since, me.skips, me.seen) = (Some(*t), 0, false);
        let elapsed = t.since(me.clock);
        me.clock = *t;
        me.pace.pauses(elapsed);
        me.streaks.looks_up(elapsed, std::mem::take(&mut me.streaks_begun));
        if self.aggregates {
            self.settle(world, worker, elapsed, t);
        }
    }

    /// Tells others of a set that this worker ran; at the end of the set's epoch, asks what it prefers.
    fn tell(&mut self, world: &mut World, worker: WorkerId, share: Share, t: &mut Nanos) {
        let ttl = world.policy.config.aggregation.ttl;
        let (told, books) = self.sets.add(share, world.space.llc(worker), *t, ttl);
        t.0 += books.write(world.when(*t), worker, &world.space, &world.cost).0;
        if !told.is_due {
            return;
        }
        let Self { sets, sleepers, .. } = self;
        let util = |llc: LlcId| sleepers.awake_share(&world.policy, llc.index());
        if sets.end_epoch(&world.policy, share.number, told, *t, util)
            && let Some(head) = sets.head(share.number)
        {
            t.0 += head.write(world.when(*t), worker, &world.space, &world.cost).0;
        }
    }

    /// What a wake wants to know of the task and its set; notes who wakes whom, if a worker does.
    pub(super) fn coupling_view(
        &mut self,
        world: &mut World,
        task: TaskId,
        by: Option<WorkerId>,
        t: &mut Nanos,
    ) -> CouplingView {
        let state = world.tasks[task.index()].policy;
        let Some(by) = by else {
            return self.set_view(world, &state);
        };
        if let Some(head) = self.sets.head(state.set.number()) {
            t.0 += head.read(by, &world.space, &world.cost).0;
        }
        let mut view = self.set_view(world, &state);
        if let Some(preferred) = view.preferred {
            self.reads_counts(world, preferred.llc, state.home, by, t);
        }
        let waker = world.running(by).map_or(0, kin::name);
        let me = &mut self.workers[by.index()];
        view.wakees = me.coupled.wakees.note(waker, kin::name(task), me.clock);
        if world.policy.couple(&mut world.tasks[task.index()].policy, by) {
            let llc = world.space.llc(by);
            self.reads_counts(world, llc, state.home, by, t);
            view.waker = Some(self.llc_view(world, llc, state.home));
            if world.policy.leads(&world.tasks[task.index()].policy, by)
                && let Some(home) = world.policy.plan.groups.get(state.home.index())
            {
                t.0 += self.sleepers.read_count(world, home.llc, by).0;
                view.home_util = self.sleepers.awake_share(&world.policy, home.llc.index());
            }
        }
        view
    }

    /// What it takes to see the counts of a cache that a task at `home` might move to: `llc_view`.
    fn reads_counts(&mut self, world: &World, llc: LlcId, home: GroupId, by: WorkerId, t: &mut Nanos) {
        let plan = &world.policy.plan;
        let node = plan.llcs[llc.index()].node;
        let leaves_node = plan.groups.get(home.index()).is_some_and(|home| home.node != node);
        let most = if leaves_node { usize::MAX } else { 1 };
        for seen in plan.stand_ins(node, Some(llc)).take(most) {
            t.0 += self.sleepers.read_count(world, seen, by).0;
        }
    }

    fn set_view(&self, world: &World, task: &TaskPolicy) -> CouplingView {
        let Known { policy, pulls } = self.sets.look(task.set);
        let home = world.policy.plan.groups.get(task.home.index()).map(|group| group.llc);
        let preferred = policy.preferred.filter(|llc| Some(*llc) != home);
        CouplingView {
            preferred: preferred.map(|llc| self.llc_view(world, llc, task.home)),
            pulls: pulls > 0,
            ..CouplingView::default()
        }
    }

    /// Of a cache that a task at `home` might move to.
    fn llc_view(&self, world: &World, llc: LlcId, home: GroupId) -> LlcView {
        let plan = &world.policy.plan;
        let node = plan.llcs[llc.index()].node;
        let leaves_node = plan.groups.get(home.index()).is_some_and(|home| home.node != node);
        LlcView {
            llc,
            util: self.sleepers.awake_share(&world.policy, llc.index()),
            has_idle: self.sleepers.idle_in_llc(llc.index()) > 0,
            node_running: if leaves_node {
                self.about_awake_on(world, node, llc)
            } else {
                0
            },
        }
    }

    /// Tells the set that a task follows its preference: one less does in this epoch.
    pub(super) fn note_pull(&mut self, coupling: &CouplingView, placement: Placement, task: &TaskPolicy) {
        if coupling.pulls
            && let Placement::IdleInLlc { llc, .. } = placement
            && coupling.preferred.is_some_and(|preferred| preferred.llc == llc)
        {
            self.sets.take_pull(task.set);
        }
    }
}
