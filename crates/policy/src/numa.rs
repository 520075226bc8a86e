//! Policy 6: a small imbalance between nodes is none.
//!
//! A few tasks that share data lose more by being spread over nodes than idle workers elsewhere gain, while jobs that fill
//! the memory channels must be spread; nothing tells which kind begins. Linux settled (5.11 to 6.0) on a threshold from
//! the topology, below which small differences are ignored and above which they count in full.

use crate::{
    NodePlan, RemoteStealView, SpawnView,
    config::{Numa, Skip},
};

/// Running tasks up to which `node` keeps an imbalance to itself: an eighth of its workers by default, or the number of
/// its last-level caches if it has several, because one task a cache is what uses it well.
pub(crate) fn tolerance(numa: &Numa, node: &NodePlan) -> u32 {
    let len = |list: usize| u32::try_from(list).unwrap_or(u32::MAX);
    match node.llcs.len() {
        0 | 1 => (len(node.workers.len()) / u32::from(numa.tolerance_div.max(1))).max(1),
        llcs => len(llcs),
    }
}

/// Whether a new task stays on the spawner's node: it is among the few that are tolerated, or no other node has
/// noticeably more idle workers.
#[inline]
pub(crate) fn stays(numa: &Numa, tolerance: u32, view: &SpawnView) -> bool {
    let (_, idle_there) = view.most_idle;
    view.node_running < tolerance || idle_there.saturating_sub(view.node_idle) <= numa.min_imbalance
}

/// How many tasks a thief may take from `node`, 0 for none: one, or half of what `node` has in excess of its tolerance.
/// It has looked on its own node for long enough, and the other one runs more than it tolerates or has tasks queue up.
/// Once a task has waited for too long, anybody may have it.
#[inline]
pub(crate) fn remote_steal(numa: &Numa, skip: &Skip, node: &NodePlan, view: &RemoteStealView) -> u32 {
    let workers = u32::try_from(node.workers.len()).unwrap_or(u32::MAX);
    let queues_up = view.queued >= workers.saturating_mul(2);
    let unbalanced = view.running > node.tolerance || queues_up;
    let allowed = view.dry_for >= numa.steal_after && unbalanced || view.oldest >= skip.max_age;
    if view.queued == 0 || !allowed {
        return 0;
    }
    let tasks = view.running.saturating_add(view.queued);
    (tasks.saturating_sub(node.tolerance) / 2).clamp(1, view.queued)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Nanos, NodeId, WorkerId};

    fn check(node_running: u32, node_idle: u32, idle_there: u32, stay: bool) {
        let view = SpawnView {
            spawner: None,
            node_running,
            node_idle,
            most_idle: (NodeId(1), idle_there),
        };
        assert_eq!(stays(&Numa::default(), 3, &view), stay, "{view:?}");
    }

    #[test]
    fn few_tasks_and_small_differences_stay() {
        for idle in [0, 3, 24] {
            check(0, 22, idle, true);
            check(2, 0, idle, true); // two run, the third is still tolerated
        }
        check(3, 21, 23, true);
        check(3, 21, 24, false);
        check(24, 0, 2, true);
        check(24, 0, 3, false);
        check(24, 5, 0, true);
    }

    /// A node of 24 workers (tolerance 3) with 4 tasks running and 10 queued, seen by a thief that has been dry for long.
    const VIEW: RemoteStealView = RemoteStealView {
        node: NodeId(1),
        dry_for: Nanos::from_micros(50),
        running: 4,
        queued: 10,
        oldest: Nanos(0),
    };

    fn check_steal(view: RemoteStealView, taken: u32) {
        let node = NodePlan {
            workers: (0..24).map(WorkerId).collect(),
            tolerance: 3,
            ..NodePlan::default()
        };
        let answer = remote_steal(&Numa::default(), &Skip::default(), &node, &view);
        assert_eq!(answer, taken, "{view:?}");
    }

    #[test]
    fn thieves_take_half_of_the_excess_and_only_when_dry() {
        check_steal(VIEW, 5);
        check_steal(RemoteStealView { queued: 1, ..VIEW }, 1);
        check_steal(RemoteStealView { queued: 0, ..VIEW }, 0);
        check_steal(RemoteStealView { queued: 100, ..VIEW }, 50);
        let early = RemoteStealView {
            dry_for: Nanos(49_999),
            ..VIEW
        };
        check_steal(early, 0);
        check_steal(
            RemoteStealView {
                oldest: Nanos::from_micros(200),
                ..early
            },
            5,
        );
        check_steal(RemoteStealView { running: 3, ..VIEW }, 0);
        check_steal(
            RemoteStealView {
                running: 3,
                queued: 47,
                ..VIEW
            },
            0,
        );
        check_steal(
            RemoteStealView {
                running: 3,
                queued: 48,
                ..VIEW
            },
            24,
        );
        check_steal(
            RemoteStealView {
                running: 0,
                queued: 1,
                oldest: Nanos(200_000),
                ..VIEW
            },
            1,
        );
    }
}
