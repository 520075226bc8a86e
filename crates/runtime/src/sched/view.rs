//! What the policy is told: counts and masks as they are now, perhaps stale.

use quadrille_policy::{GroupMask, Nanos, NodeId, SpawnView, WakeView, WorkerId};

use super::Shared;
use super::context::Context;
use crate::lines;
use crate::primitives::Ordering;

impl Shared {
    /// For a task whose home is the group `home`, woken by `waker` (`None`: by a thread that is no worker).
    pub(super) fn wake_view(&self, waker: Option<&Context>, home: usize, yielded: bool) -> WakeView {
        let llc = self.policy.plan.groups[home].llc.index();
        let now = waker.map_or_else(|| Nanos(crate::sys::clock::nanos()), |context| context.now.get());
        WakeView {
            waker: waker.map(|context| context.id),
            yielded,
            slot_empty: waker.is_some_and(|context| context.me().slot.is_empty()),
            now,
            home_idle: GroupMask(self.sleepers.idle.members(home)),
            home_queued: u32::try_from(self.groups[home].len()).unwrap_or(u32::MAX),
            home_oldest: self.groups[home].age(now),
            llc_util: self.loads.utilisation(llc),
            llc_has_idle: self.sleepers.idle.any_in_llc(llc),
        }
    }

    /// For a new task.
    pub(super) fn spawn_view(&self, spawner: Option<WorkerId>) -> SpawnView {
        let plan = &self.policy.plan;
        let node = spawner.map_or(0, |worker| plan.workers[worker.index()].node.index());
        let idle_of = |node: usize| -> u32 {
            let llcs = plan.nodes[node].llcs.iter();
            let groups = llcs.flat_map(|llc| self.llc_groups[llc.index()].iter());
            groups
                .map(|group| self.sleepers.idle.members(*group).count_ones())
                .sum()
        };
        if plan.nodes.len() == 1 {
            let idle = self.sleepers.idle.count();
            let all = u32::try_from(self.worker_count()).unwrap_or(u32::MAX);
            let running = all.saturating_sub(idle);
            return SpawnView {
                spawner,
                node_running: running,
                node_idle: idle,
                most_idle: (NodeId(0), idle),
            };
        }
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
        }
    }

    /// Average run of a task as the workers last published it; the longest of the first few.
    pub(super) fn average_run(&self) -> Nanos {
        // Ordering: Relaxed; estimates.
        Nanos(
            self.workers
                .iter()
                .take(4)
                .inspect(|worker| lines::touch(&worker.average_run))
                .map(|worker| worker.average_run.load(Ordering::Relaxed))
                .max()
                .unwrap_or(0),
        )
    }
}
