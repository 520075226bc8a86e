//! What the policy is told: the simulated machine as it is now, in the fields that the runtime fills.

use quadrille_policy::{CouplingView, GroupMask, Nanos, NodeId, RemoteStealView, SpawnView, WakeView, WorkerId};

use super::Shipped;
use crate::world::World;

impl Shipped {
    /// For a task whose home is the group `home`, woken by `waker`.
    pub(super) fn wake_view(
        &self,
        world: &World,
        waker: Option<WorkerId>,
        home: usize,
        yielded: bool,
        t: Nanos,
    ) -> WakeView {
        let llc = world.policy.plan.groups[home].llc.index();
        let now = waker.map_or(t, |waker| self.workers[waker.index()].clock);
        WakeView {
            waker,
            yielded,
            slot_empty: waker.is_some_and(|waker| self.workers[waker.index()].slot.is_none()),
            now,
            home_idle: GroupMask(self.sleepers.members(home)),
            home_queued: u32::try_from(self.groups[home].len()).unwrap_or(u32::MAX),
            home_oldest: self.groups[home].age(now),
            llc_util: self.utilisation(world, llc),
            llc_has_idle: self.sleepers.idle_in_llc(llc) > 0,
            coupling: CouplingView::default(),
        }
    }

    /// For a new task.
    pub(super) fn spawn_view(&self, world: &World, spawner: Option<WorkerId>) -> SpawnView {
        let plan = &world.policy.plan;
        let node = spawner.map_or(0, |worker| plan.workers[worker.index()].node.index());
        let idle_of = |node: usize| -> u32 {
            let llcs = plan.nodes[node].llcs.iter();
            llcs.map(|llc| self.sleepers.idle_in_llc(llc.index())).sum()
        };
        let idle = idle_of(node);
        let most = (0..plan.nodes.len())
            .map(|node| (node, idle_of(node)))
            .max_by_key(|(_, idle)| *idle)
            .unwrap_or((node, idle));
        SpawnView {
            spawner,
            node_running: len(plan.nodes[node].workers.len()).saturating_sub(idle),
            node_idle: idle,
            most_idle: (NodeId(u16::try_from(most.0).unwrap_or(0)), most.1),
            spread: None,
            preferred: None,
        }
    }

    /// For a thief that looks at another node.
    pub(super) fn remote_view(&self, world: &World, thief: WorkerId, node: NodeId, t: Nanos) -> RemoteStealView {
        let plan = &world.policy.plan.nodes[node.index()];
        let idle: u32 = plan.llcs.iter().map(|llc| self.sleepers.idle_in_llc(llc.index())).sum();
        let queued = plan
            .workers
            .iter()
            .map(|worker| self.workers[worker.index()].deque.len());
        let groups = plan
            .llcs
            .iter()
            .flat_map(|llc| &world.policy.plan.llcs[llc.index()].groups);
        let here = world.policy.plan.workers[thief.index()].node;
        let near = world.policy.plan.nodes[here.index()].llcs.iter();
        RemoteStealView {
            node,
            llc: plan.llcs.first().copied().unwrap_or_default(),
            skips: 0,
            idle,
            idle_here: near.map(|llc| self.sleepers.idle_in_llc(llc.index())).sum(),
            dry_for: self.workers[thief.index()]
                .dry_since
                .map_or(Nanos(0), |since| t.since(since)),
            running: len(plan.workers.len()).saturating_sub(idle),
            queued: len(queued.sum()),
            oldest: groups
                .map(|group| self.groups[group.index()].age(t))
                .max()
                .unwrap_or_default(),
        }
    }

    /// Share of a last-level cache's workers that are awake, in 1/1024.
    pub(super) fn utilisation(&self, world: &World, llc: usize) -> u16 {
        let workers = len(world.policy.plan.llcs[llc].workers.len());
        let awake = workers.saturating_sub(self.sleepers.idle_in_llc(llc));
        u16::try_from(awake * 1024 / workers.max(1)).unwrap_or(1024)
    }

    /// Average run of a task as the workers last published it; the longest of the first few.
    pub(super) fn average_run(&self) -> Nanos {
        let first = self.workers.iter().take(4);
        first.map(|worker| worker.average_run).max().unwrap_or_default()
    }
}

/// A count in a view.
pub(super) fn len(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
