//! Policy 6: a small imbalance between nodes is none.
//!
//! A few tasks that share data lose more by being spread over nodes than idle workers elsewhere gain, while jobs that fill
//! the memory channels must be spread; nothing tells which kind begins. Linux settled (5.11 to 6.0) on a threshold from
//! the topology, below which small differences are ignored and above which they count in full.

use crate::{NodePlan, SpawnView, config::Numa};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeId;

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
}
