//! What the policy is told: the simulated machine as it is now, in the fields that the runtime fills.

use quadrille_policy::{
    CouplingView, LlcId, Nanos, NodeId, Policy, RemoteStealView, SpawnView, TaskPolicy, WakeView, WorkerId,
};

use super::sleep::Sleepers;
use super::{Phase, Shipped};
use crate::workload::TaskId;
use crate::world::World;

impl Shipped {
    /// For a woken task with these policy fields.
    ///
    /// What the waker reads for it costs nothing, but for a search without masks.
    pub(super) fn wake_view(
        &mut self,
        world: &mut World,
        waker: Option<WorkerId>,
        task: &TaskPolicy,
        yielded: bool,
        t: &mut Nanos,
    ) -> WakeView {
        let home = task.home.index().min(self.groups.len() - 1);
        let llc = world.policy.plan.groups[home].llc.index();
        let now = waker.map_or(*t, |waker| self.workers[waker.index()].clock);
        let home_worker = self.workers.get(task.home_worker.index());
        let mut view = WakeView {
            waker,
            yielded,
            slot_empty: waker.is_some_and(|waker| self.workers[waker.index()].slot.is_none()),
            now,
            waker_run: waker.map_or(Nanos(0), |waker| self.workers[waker.index()].pace.average_run()),
            home_run: home_worker.map_or(Nanos(0), |worker| worker.pace.average_run()),
            wake_cost: self.wake_cost,
            home_idle: self.claimable(world, home, Some(task.home_worker), waker, *t),
            home_queued: u32::try_from(self.groups[home].len()).unwrap_or(u32::MAX),
            home_oldest: self.groups[home].age(now),
            llc_util: self.utilisation(llc),
            llc_has_idle: self.sleepers.idle_in_llc(llc) > 0,
            coupling: CouplingView::default(),
        };
        if self.sleepers.are_scanned() && world.policy.needs_home(&view, task) {
            self.scan(world, &mut view, task, LlcId(u16::try_from(llc).unwrap_or(0)), t);
        }
        view
    }

    /// For a new task.
    pub(super) fn spawn_view(&mut self, world: &World, task: TaskId, spawner: Option<WorkerId>) -> SpawnView {
        let policy = &world.policy;
        let mut view = SpawnView::new(spawner);
        match spawner {
            Some(spawner) if policy.needs_idle_nodes(&world.tasks[task.index()].policy) => {
                self.look_at_nodes(world, spawner, &mut view);
            }
            None if policy.needs_idle_llc() => view.idle_llc = self.idler_of_two(),
            _ => {}
        }
        if self.aggregates {
            let set = world.tasks[task.index()].policy.set;
            let known = self.sets.look(set).policy;
            view.preferred = known.preferred;
            if known.spread || set.is_spread() {
                let any = || match spawner {
                    Some(by) => self.workers[by.index()].rng.below(u32::MAX),
                    None => set.number(),
                };
                view.spread = Some(world.families.turn(task).unwrap_or_else(any));
            }
        }
        view
    }

    /// Compares the spawner's node with the other one that has idle workers behind most of its caches.
    fn look_at_nodes(&self, world: &World, spawner: WorkerId, view: &mut SpawnView) {
        let plan = &world.policy.plan;
        let own = &plan.workers[spawner.index()];
        (view.node_running, view.node_idle) = self.look_at_node(world, own.node, Some(own.llc));
        let idle_caches = |node: &NodeId| {
            let llcs = &plan.nodes[node.index()].llcs;
            llcs.iter()
                .filter(|llc| self.sleepers.idle_in_llc(llc.index()) > 0)
                .count()
        };
        let others = (1..plan.nodes.len()).map(|step| (own.node.index() + step) % plan.nodes.len());
        let others = others.map(|node| NodeId(u16::try_from(node).unwrap_or(0)));
        if let Some(other) = others.max_by_key(idle_caches).filter(|node| idle_caches(node) > 0) {
            view.most_idle = (other, self.look_at_node(world, other, None).1);
        }
    }

    /// Workers that are awake, and idle ones, behind the caches that stand for a node.
    fn look_at_stand_ins(&self, world: &World, node: NodeId, first: Option<LlcId>) -> (u32, u32) {
        let counts = |llc: LlcId| self.awake_in_llc(world, llc);
        let sum = |(awake, idle), (more_awake, more_idle)| (awake + more_awake, idle + more_idle);
        world.policy.plan.stand_ins(node, first).map(counts).fold((0, 0), sum)
    }

    /// About so many workers of a node are awake, by the caches that stand for it, `first` among them.
    pub(super) fn about_awake_on(&self, world: &World, node: NodeId, first: LlcId) -> u32 {
        let (awake, idle) = self.look_at_stand_ins(world, node, Some(first));
        world.policy.plan.about_awake(node, awake, awake + idle)
    }

    /// Workers of a node that are awake behind the caches that stand for it, and all others.
    fn look_at_node(&self, world: &World, node: NodeId, first: Option<LlcId>) -> (u32, u32) {
        let plan = &world.policy.plan;
        let (awake, _) = self.look_at_stand_ins(world, node, first);
        (awake, len(plan.nodes[node.index()].workers.len()).saturating_sub(awake))
    }

    /// Of two random caches with idle workers the one that has more.
    fn idler_of_two(&mut self) -> Option<LlcId> {
        let llcs = self.loads.len();
        let idle_in = |llc| self.sleepers.idle_in_llc(llc);
        let mut any_but = |but: Option<usize>| {
            let idle = || (0..llcs).filter(|llc| Some(*llc) != but && idle_in(*llc) > 0);
            idle().nth(self.rng.below(len(idle().count())) as usize)
        };
        let first = any_but(None)?;
        let second = any_but(Some(first)).filter(|second| idle_in(*second) > idle_in(first));
        u16::try_from(second.unwrap_or(first)).ok().map(LlcId)
    }

    /// For a thief behind `own` that looks at the queues behind `llc`, having found nothing for so long.
    pub(super) fn steal_view(
        &self,
        world: &World,
        own: LlcId,
        llc: LlcId,
        dry_for: Nanos,
        skips: u8,
        now: Nanos,
    ) -> RemoteStealView {
        let plan = &world.policy.plan;
        let (here, there) = (&plan.llcs[own.index()], &plan.llcs[llc.index()]);
        let ((running, idle), (_, idle_here), workers) = if plan.nodes.len() > 1 {
            let workers = &plan.nodes[there.node.index()].workers;
            let counts = (
                self.awake_on_node(world, there.node),
                self.awake_on_node(world, here.node),
            );
            (counts.0, counts.1, workers)
        } else {
            let counts = (self.awake_in_llc(world, llc), self.awake_in_llc(world, own));
            (counts.0, counts.1, &there.workers)
        };
        let in_deques: usize = workers.iter().map(|w| self.workers[w.index()].deque.len()).sum();
        let exports = &self.exports[llc.index()];
        let in_queues = self.injectors[llc.index()].len() + exports.len();
        RemoteStealView {
            node: there.node,
            llc,
            dry_for,
            skips,
            running,
            idle,
            idle_here,
            queued: len(in_deques + in_queues),
            oldest: exports.age(now),
        }
    }

    /// Workers of a node that are awake, and idle ones.
    pub(super) fn awake_on_node(&self, world: &World, node: NodeId) -> (u32, u32) {
        let plan = &world.policy.plan.nodes[node.index()];
        let idle = plan.llcs.iter().map(|llc| self.sleepers.idle_in_llc(llc.index())).sum();
        (len(plan.workers.len()).saturating_sub(idle), idle)
    }

    pub(super) fn awake_in_llc(&self, world: &World, llc: LlcId) -> (u32, u32) {
        let workers = len(world.policy.plan.llcs[llc.index()].workers.len());
        let idle = self.sleepers.idle_in_llc(llc.index());
        (workers.saturating_sub(idle), idle)
    }

    /// Average run of a task as the first two of these workers last published it, the longest.
    pub(super) fn average_run_of(&self, members: &[WorkerId]) -> Nanos {
        let first = members.iter().take(2);
        first
            .map(|worker| self.workers[worker.index()].pace.average_run())
            .max()
            .unwrap_or_default()
    }

    /// Whether all members of a group are in tasks, so long that none is expected soon.
    pub(super) fn members_are_away(&self, world: &World, group: usize) -> bool {
        let members = &world.policy.plan.groups[group].members;
        let workers = || members.iter().map(|worker| &self.workers[worker.index()]);
        let shortest = workers().map(|worker| worker.pace.average_run()).min();
        world
            .policy
            .members_are_away(members.len(), shortest.unwrap_or_default())
            && workers().all(|worker| matches!(worker.phase, Phase::Between | Phase::Found { .. }))
    }
}

impl Sleepers {
    /// Share of a last-level cache's workers that are awake, in 1/1024.
    pub(super) fn awake_share(&self, policy: &Policy, llc: usize) -> u16 {
        let workers = len(policy.plan.llcs[llc].workers.len());
        let awake = workers.saturating_sub(self.idle_in_llc(llc));
        u16::try_from(awake * 1024 / workers.max(1)).unwrap_or(1024)
    }
}

/// A count in a view.
pub(super) fn len(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
