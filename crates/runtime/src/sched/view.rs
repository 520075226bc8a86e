//! What the policy is told: counts and masks as they are now, perhaps stale.

use crossbeam_utils::CachePadded;
use quadrille_policy::{
    CouplingView, GroupMask, LlcId, Nanos, NodeId, NodePlan, RemoteStealView, SpawnView, TaskPolicy, WakeView, WorkerId,
};

use super::context::Context;
use super::{Members, Shared, WorkerShared};
use crate::lines;
use crate::primitives::Ordering;

impl Shared {
    /// For a task with these policy fields, woken by `waker` (`None`: by a thread that is no worker). What is not needed to
    /// decide is not looked at.
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
            view.home_idle = GroupMask(self.sleepers.idle.members(home));
            view.home_queued = u32::try_from(self.groups[home].len()).unwrap_or(u32::MAX);
            view.home_oldest = self.groups[home].age(now);
            view.llc_util = self.loads.utilisation(llc);
            view.llc_has_idle = self.sleepers.idle.any_in_llc(llc);
        }
        view
    }

    /// Average run of a task on a task's home worker, as that last published it; zero if it has none.
    fn home_run(&self, task: &TaskPolicy) -> Nanos {
        let home = self.workers.get(task.home_worker.index());
        longest_run(home.into_iter())
    }

    /// For a new task. `turn` says how many tasks of a set that is spread were before it, by some count.
    pub(super) fn spawn_view(
        &self,
        spawner: Option<WorkerId>,
        task: &TaskPolicy,
        turn: impl FnOnce() -> u32,
    ) -> SpawnView {
        let mut view = self.spawn_view_of_nodes(spawner);
        if self.policy.aggregates() {
            let set = self.sets.look(task.set).policy;
            view.preferred = set.preferred;
            view.spread = (set.spread || task.set.is_spread()).then(turn);
        }
        view
    }

    fn spawn_view_of_nodes(&self, spawner: Option<WorkerId>) -> SpawnView {
        let plan = &self.policy.plan;
        let node = spawner.map_or(0, |worker| plan.workers[worker.index()].node.index());
        if plan.nodes.len() == 1 {
            let idle = self.sleepers.idle.caches.total();
            let all = u32::try_from(self.worker_count()).unwrap_or(u32::MAX);
            let running = all.saturating_sub(idle);
            return SpawnView {
                spawner,
                node_running: running,
                node_idle: idle,
                most_idle: (NodeId(0), idle),
                spread: None,
                preferred: None,
            };
        }
        let idle_of = |node: usize| self.idle_on_node(&plan.nodes[node]);
        let idle = idle_of(node);
        let most = (0..plan.nodes.len())
            .map(|n| (n, idle_of(n)))
            .max_by_key(|(_, idle)| *idle)
            .unwrap_or((node, idle));
        SpawnView {
            spawner,
            node_running: u32::try_from(plan.nodes[node].workers.len())
                .unwrap_or(u32::MAX)
                .saturating_sub(idle),
            node_idle: idle,
            most_idle: (NodeId(u16::try_from(most.0).unwrap_or(0)), most.1),
            spread: None,
            preferred: None,
        }
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

    /// Average run of a task as the workers last published it; the longest of the first few.
    pub(super) fn average_run(&self) -> Nanos {
        longest_run(self.workers.iter().take(4))
    }

    /// The same of the first two of a group's members, which most groups have no more of: those of other groups may run much
    /// longer tasks, or much shorter ones.
    pub(super) fn average_run_of(&self, members: &[WorkerId]) -> Nanos {
        let few = members.iter().take(2);
        longest_run(few.map(|worker| &self.workers[worker.index()]))
    }
}

fn longest_run<'a>(workers: impl Iterator<Item = &'a CachePadded<WorkerShared>>) -> Nanos {
    // Ordering: Relaxed; estimates.
    let runs = workers
        .inspect(|worker| lines::touch(&worker.average_run))
        .map(|worker| worker.average_run.load(Ordering::Relaxed));
    Nanos(runs.max().unwrap_or(0))
}
