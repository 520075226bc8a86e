//! What the policy is told: counts and masks as they are now, perhaps stale.

use quadrille_policy::{
    CouplingView, GroupId, GroupMask, LlcId, Nanos, NodeId, NodePlan, RemoteStealView, Rng, SpawnView, TaskPolicy,
    WakeView, WorkerId,
};

use super::context::Context;
use super::{Members, Shared, WorkerShared};
use crate::lines;
use crate::primitives::Ordering;

impl Shared {
    /// For a task with these policy fields, woken by `waker` (`None`: by a thread that is no worker). What is not
    /// needed to decide is not looked at.
    pub(super) fn wake_view(&self, waker: Option<&Context>, task: &TaskPolicy, yielded: bool) -> WakeView {
        let home = task.home.index().min(self.groups.len() - 1);
        let now = waker.map_or_else(|| Nanos(crate::sys::clock::nanos()), |context| context.now.get());
        let mut view = WakeView {
            waker: waker.map(|context| context.id),
            yielded,
            slot_empty: waker.is_some_and(|context| context.me().slot.is_empty()),
            now,
            waker_run: waker.map_or(Nanos(0), |context| context.average_run.get()),
            // For others it makes no difference.
            home_run: waker.filter(|_| !yielded).map_or(Nanos(0), |_| self.home_run(task)),
            wake_cost: self.wake_cost(),
            home_idle: GroupMask::default(),
            home_queued: 0,
            home_oldest: Nanos(0),
            llc_util: 0,
            llc_has_idle: false,
            coupling: CouplingView::default(),
        };
        if self.policy.needs_home(&view, task) {
            let llc = self.policy.plan.groups[home].llc.index();
            view.home_idle = self.claimable(home, Some(task.home_worker), waker);
            view.home_queued = u32::try_from(self.groups[home].len()).unwrap_or(u32::MAX);
            view.home_oldest = self.groups[home].age(now);
            view.llc_util = self.loads.utilisation(llc);
            view.llc_has_idle = self.sleepers.idle.any_in_llc(llc);
        }
        view
    }

    /// Average run of a task on a task's home worker, as that last published it; zero if it has none.
    pub(super) fn home_run(&self, task: &TaskPolicy) -> Nanos {
        let home = self.workers.get(task.home_worker.index());
        home.map_or(Nanos(0), |worker| worker.average_run())
    }

    /// For a new task of `spawner`. `turn` says how many tasks of a set that is spread were before it, by some count.
    pub(super) fn spawn_view(&self, spawner: WorkerId, task: &TaskPolicy, turn: impl FnOnce() -> u32) -> SpawnView {
        let mut view = SpawnView::new(Some(spawner));
        if self.policy.needs_idle_nodes(task) {
            self.look_at_nodes(spawner, &mut view);
        }
        self.with_set(view, task, turn)
    }

    /// For a new task from outside.
    pub(super) fn root_view(&self, task: &TaskPolicy, turn: impl FnOnce() -> u32, rng: &mut Rng) -> SpawnView {
        let mut view = SpawnView::new(None);
        if self.policy.needs_idle_llc() {
            view.idle_llc = self.idler_of_two(rng);
        }
        self.with_set(view, task, turn)
    }

    fn with_set(&self, mut view: SpawnView, task: &TaskPolicy, turn: impl FnOnce() -> u32) -> SpawnView {
        if self.policy.aggregates() {
            let set = self.sets.look(task.set).policy;
            view.preferred = set.preferred;
            view.spread = (set.spread || task.set.is_spread()).then(turn);
        }
        view
    }

    /// Compares the spawner's node with the other one that has idle workers behind most of its caches, by the counts of
    /// a few caches of each (K): so many lines on any machine.
    fn look_at_nodes(&self, spawner: WorkerId, view: &mut SpawnView) {
        let plan = &self.policy.plan;
        let own = &plan.workers[spawner.index()];
        (view.node_running, view.node_idle) = self.look_at_node(own.node, Some(own.llc));
        let caches = &self.sleepers.idle.caches;
        let idle_caches = |node: &NodeId| {
            let llcs = &plan.nodes[node.index()].llcs;
            llcs.iter().filter(|llc| caches.any_behind(llc.index())).count()
        };
        let others = (1..plan.nodes.len()).map(|step| (own.node.index() + step) % plan.nodes.len());
        let others = others.map(|node| NodeId(u16::try_from(node).unwrap_or(0)));
        if let Some(other) = others.max_by_key(idle_caches).filter(|node| idle_caches(node) > 0) {
            view.most_idle = (other, self.look_at_node(other, None).1);
        }
    }

    /// Workers that are awake, and idle ones, behind the caches that stand for a node.
    fn look_at_stand_ins(&self, node: NodeId, first: Option<LlcId>) -> (u32, u32) {
        let counts = |llc: LlcId| self.sleepers.awake_and_idle(llc.index());
        let sum = |(awake, idle), (more_awake, more_idle)| (awake + more_awake, idle + more_idle);
        self.policy.plan.stand_ins(node, first).map(counts).fold((0, 0), sum)
    }

    /// About so many workers of a node are awake, by the caches that stand for it, `first` among them.
    pub(super) fn about_awake_on(&self, node: NodeId, first: LlcId) -> u32 {
        let (awake, idle) = self.look_at_stand_ins(node, Some(first));
        self.policy.plan.about_awake(node, awake, awake + idle)
    }

    /// Workers of a node that are awake behind the caches that stand for it, and all others.
    fn look_at_node(&self, node: NodeId, first: Option<LlcId>) -> (u32, u32) {
        let plan = &self.policy.plan;
        let (awake, _) = self.look_at_stand_ins(node, first);
        let workers = u32::try_from(plan.nodes[node.index()].workers.len()).unwrap_or(u32::MAX);
        (awake, workers.saturating_sub(awake))
    }

    /// Of two random caches with idle workers the one that has more.
    fn idler_of_two(&self, rng: &mut Rng) -> Option<LlcId> {
        let caches = &self.sleepers.idle.caches;
        let llcs = self.policy.plan.llcs.len();
        let mut any_but = |but: Option<usize>| {
            let idle = || (0..llcs).filter(|llc| Some(*llc) != but && caches.any_behind(*llc));
            let count = u32::try_from(idle().count()).unwrap_or(u32::MAX);
            idle().nth(rng.below(count) as usize)
        };
        let first = any_but(None)?;
        let second = any_but(Some(first)).filter(|second| caches.of(*second) > caches.of(first));
        u16::try_from(second.unwrap_or(first)).ok().map(LlcId)
    }

    /// For a thief behind `own` that looks at the queues behind `llc`, having found nothing for so long.
    pub(super) fn steal_view(&self, own: LlcId, llc: LlcId, dry_for: Nanos, skips: u8, now: Nanos) -> RemoteStealView {
        let plan = &self.policy.plan;
        let (here, there) = (&plan.llcs[own.index()], &plan.llcs[llc.index()]);
        let ((running, idle), (_, idle_here), workers) = if plan.nodes.len() > 1 {
            let workers = &plan.nodes[there.node.index()].workers;
            (self.awake_on_node(there.node), self.awake_on_node(here.node), workers)
        } else {
            (self.awake_in_llc(llc), self.awake_in_llc(own), &there.workers)
        };
        let in_deques: usize = workers.iter().map(|w| self.workers[w.index()].stealer.len()).sum();
        let exports = self.exports.get(llc.index());
        let in_queues = self.injectors[llc.index()].len() + exports.map_or(0, |queue| queue.len());
        RemoteStealView {
            node: there.node,
            llc,
            dry_for,
            skips,
            running,
            idle,
            idle_here,
            queued: u32::try_from(in_deques + in_queues).unwrap_or(u32::MAX),
            oldest: exports.map_or(Nanos(0), |queue| queue.age(now)),
        }
    }

    /// Workers of a node that are awake, and idle ones.
    pub(super) fn awake_on_node(&self, node: NodeId) -> (u32, u32) {
        let node = &self.policy.plan.nodes[node.index()];
        let idle = self.idle_on_node(node);
        (
            u32::try_from(node.workers.len())
                .unwrap_or(u32::MAX)
                .saturating_sub(idle),
            idle,
        )
    }

    fn idle_on_node(&self, node: &NodePlan) -> u32 {
        node.llcs.iter().map(|llc| self.idle_in_llc(llc.index())).sum()
    }

    /// Workers behind a LLC that are awake, and idle ones.
    pub(super) fn awake_in_llc(&self, llc: LlcId) -> (u32, u32) {
        let workers = self.policy.plan.llcs[llc.index()].workers.len();
        let idle = self.idle_in_llc(llc.index());
        (u32::try_from(workers).unwrap_or(u32::MAX).saturating_sub(idle), idle)
    }

    fn idle_in_llc(&self, llc: usize) -> u32 {
        let idle = |members: &Members| (self.sleepers.idle.members(members.group) & members.bits).count_ones();
        self.llc_members[llc].iter().map(idle).sum()
    }

    /// Share of a LLC's workers that are awake, in 1/1024.
    pub(super) fn utilisation(&self, llc: usize) -> u16 {
        let workers = self.policy.plan.llcs[llc].workers.len();
        let idle = self.idle_in_llc(llc) as usize;
        u16::try_from((workers.saturating_sub(idle)) * 1024 / workers.max(1)).unwrap_or(1024)
    }

    /// Average run of a task as the first two of these workers last published it, the longest: groups have hardly more
    /// of them, and those that are far away may run much longer tasks, or much shorter ones.
    pub(super) fn average_run_of(&self, members: &[WorkerId]) -> Nanos {
        self.runs_of(members).take(2).max().unwrap_or_default()
    }

    /// Whether all members of a group are in tasks, so long by what they have last published that none is expected
    /// soon. Who is idle, or on its way to this very queue, says with its last average nothing of when it comes.
    pub(super) fn members_are_away(&self, group: GroupId) -> bool {
        let members = &self.policy.plan.groups[group.index()].members;
        let shortest = self.runs_of(members).min().unwrap_or_default();
        self.policy.members_are_away(members.len(), shortest)
            && self.sleepers.idle.members(group.index()) == 0
            && !members.iter().any(|worker| self.sleepers.is_waking(worker.index()))
    }

    fn runs_of<'a>(&'a self, workers: &'a [WorkerId]) -> impl Iterator<Item = Nanos> + 'a {
        workers.iter().map(|worker| self.workers[worker.index()].average_run())
    }
}

impl WorkerShared {
    /// Average run of its tasks, as it last published it; zero: unknown.
    pub(super) fn average_run(&self) -> Nanos {
        lines::touch(&self.told.average_run);
        // Ordering: Relaxed; an estimate.
        Nanos(self.told.average_run.load(Ordering::Relaxed))
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use quadrille_policy::SetId;

    use super::super::still::Still;
    use super::*;

    /// Of 16, 64 and 256 workers.
    const NODES: [&str; 3] = ["node:2 llc:1 core:8", "node:2 llc:4 core:8", "node:4 llc:8 core:8"];

    /// A machine of which all workers of these nodes are idle.
    fn idle_on(machine: &str, config: &str, nodes: impl Fn(usize) -> bool) -> Still {
        let still = Still::new(machine, config);
        for (worker, plan) in (0_u16..).zip(&still.shared.policy.plan.workers) {
            if nodes(plan.node.index()) {
                still.announce(worker);
            }
        }
        still
    }

    /// How many of 8 tasks that a worker of the first node spawns leave it: they go to an injector.
    fn leave(machine: &str, config: &str, nodes: impl Fn(usize) -> bool) -> u64 {
        let mut still = idle_on(machine, config, nodes);
        let shared = still.shared.clone();
        let worker = still.worker(0);
        let entered = worker.context.enter();
        for _ in 0..8 {
            worker.context.spawn(still.task(0, SetId::NONE), None);
        }
        drop(entered);
        while let Some(task) = worker.context.local.pop() {
            drop(task);
        }
        shared.workers[0].counters.snapshot().wakes_injector
    }

    #[test]
    fn spawns_leave_a_node_that_is_full() {
        for machine in NODES {
            assert!(leave(machine, "numa=on", |node| node > 0) > 0, "{machine}");
            assert_eq!(leave(machine, "numa=off", |node| node > 0), 0, "{machine}, the control");
            assert_eq!(leave(machine, "numa=on", |_| false), 0, "{machine}, nobody is idle");
        }
    }

    #[test]
    fn few_stay_where_they_are_spawned() {
        for machine in NODES {
            let mut still = idle_on(machine, "numa=on", |node| node > 0);
            // Its node has one more worker awake than this one, or none.
            let plan = still.shared.policy.plan.clone();
            for worker in plan.nodes[0].workers.iter().filter(|worker| worker.index() > 0) {
                still.announce(worker.0);
            }
            let worker = still.worker(0);
            let entered = worker.context.enter();
            worker.context.spawn(still.task(0, SetId::NONE), None);
            drop(entered);
            assert!(worker.context.local.pop().is_some(), "{machine}");
        }
    }

    #[test]
    fn spawns_from_outside_go_where_somebody_is_idle() {
        for machine in NODES {
            let still = idle_on(machine, "numa=on", |node| node == 1);
            let plan = &still.shared.policy.plan;
            let mut seen = vec![0; plan.llcs.len()];
            let mut rng = Rng::new(7);
            for _ in 0..200 {
                let task = still.shared.new_policy(None, SetId::NONE);
                let llc = still.shared.root_view(&task, || 0, &mut rng).idle_llc;
                seen[llc.unwrap().index()] += 1;
            }
            for (llc, seen) in plan.llcs.iter().zip(&seen) {
                assert_eq!(*seen > 0, llc.node == NodeId(1), "{machine}: {seen:?}");
            }
            let still = idle_on(machine, "numa=on", |_| false);
            let task = still.shared.new_policy(None, SetId::NONE);
            assert_eq!(still.shared.root_view(&task, || 0, &mut Rng::new(1)).idle_llc, None);
        }
    }

    #[test]
    fn of_two_caches_the_idler_one_is_taken() {
        let still = Still::new("node:2 llc:1 core:8", "numa=on");
        [0, 8, 9].into_iter().for_each(|worker| still.announce(worker));
        for seed in 1..50 {
            assert_eq!(still.shared.idler_of_two(&mut Rng::new(seed)), Some(LlcId(1)));
        }
    }
}
