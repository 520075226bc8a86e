//! Policy 6: a small imbalance between nodes is none.
//!
//! A few tasks that share data lose more by being spread over nodes than idle workers elsewhere gain, while jobs that
//! fill the memory channels must be spread; nothing tells which kind begins. Linux settled (5.11 to 6.0) on a threshold
//! from the topology, below which small differences are ignored and above which they count in full.

use crate::{
    Nanos, NodePlan, RemoteStealView, SetId, SpawnView,
    config::{Numa, Skip},
};

/// Running tasks up to which `node` keeps an imbalance to itself: an eighth of its workers by default, or the number of
/// its last-level caches if it has several, because one task a cache is what uses it well. Never more than its workers:
/// a plan has those alone that the affinity mask allows.
pub(crate) fn tolerance(numa: &Numa, node: &NodePlan) -> u32 {
    let len = |list: usize| u32::try_from(list).unwrap_or(u32::MAX);
    let workers = len(node.workers.len());
    let tolerated = match node.llcs.len() {
        0 | 1 => workers / u32::from(numa.tolerance_div.max(1)),
        llcs => len(llcs),
    };
    tolerated.min(workers).max(1)
}

/// Whether the imbalance between here and there is none: few enough tasks run here, or hardly more workers are idle
/// there. First placement and stealing both ask this, so that one does not undo what the other does (Linux
/// cb29a5c19d2d).
#[inline]
pub(crate) fn tolerates(numa: &Numa, tolerance: u32, running: u32, idle_here: u32, idle_there: u32) -> bool {
    running < tolerance || idle_there.saturating_sub(idle_here) <= numa.min_imbalance
}

/// So many workers are too few, at most.
const FEW: u32 = 2;

/// Whether a place of so many workers is too small for these rules. A thief's: the difference in idle workers that it
/// sees is never more than is none, so that all it could take would be tolerated. And one that is stolen from, so that
/// of two such places neither is left alone.
#[inline]
pub(crate) fn is_too_small(numa: &Numa, workers: usize) -> bool {
    workers <= numa.min_imbalance.clamp(1, FEW) as usize
}

/// Whether a new task stays on the spawner's node: it is one of few that were declared to belong together, it is among
/// the few that are tolerated, or no other node has noticeably more idle workers.
#[inline]
pub(crate) fn stays(numa: &Numa, tolerance: u32, set: SetId, view: &SpawnView) -> bool {
    let (_, idle_there) = view.most_idle;
    set.is_packed() || tolerates(numa, tolerance, view.node_running, view.node_idle, idle_there)
}

/// What a thief is told of the place that it looks at: a node, or a cache on a machine of one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) workers: usize,
    pub(crate) tolerance: u32,
    /// How long the thief must have found nothing nearer.
    pub(crate) after: Nanos,
}

/// How many tasks a thief may take from `place`, 0 for none: one, or half of what it has in excess of its tolerance.
/// The thief has found nothing nearer for long enough, and the imbalance is more than is tolerated, or tasks queue up
/// there. Once a task has waited for too long, or a thief was told to leave it in too many searches, anybody may have
/// it.
#[inline]
pub(crate) fn remote_steal(numa: &Numa, skip: &Skip, place: Place, view: &RemoteStealView) -> u32 {
    let workers = u32::try_from(place.workers).unwrap_or(u32::MAX);
    let queues_up = view.queued >= workers.saturating_mul(numa.queues_up);
    // A spawner asks before its task runs; a thief takes from those that count already.
    let running = view.running.saturating_sub(1);
    let tolerated = tolerates(numa, place.tolerance, running, view.idle, view.idle_here);
    let due = view.dry_for >= place.after && (!tolerated || queues_up);
    let overdue = view.oldest >= skip.max_age || view.skips >= skip.max_count;
    if view.queued == 0 || !(due || overdue) {
        return 0;
    }
    let tasks = view.running.saturating_add(view.queued);
    (tasks.saturating_sub(place.tolerance) / 2).clamp(1, view.queued)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LlcId, NodeId, WorkerId};

    fn check(node_running: u32, node_idle: u32, idle_there: u32, stay: bool) {
        let view = SpawnView {
            node_running,
            node_idle,
            most_idle: (NodeId(1), idle_there),
            ..SpawnView::new(None)
        };
        assert_eq!(stays(&Numa::default(), 3, SetId::NONE, &view), stay, "{view:?}");
        let packed = SetId::declared(1).packed();
        assert!(stays(&Numa::default(), 3, packed, &view), "{view:?}");
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

    #[test]
    fn tolerance_is_narrowed_by_affinity() {
        let check = |workers: u16, llcs: u16, tolerated| {
            let node = NodePlan {
                llcs: (0..llcs).map(LlcId).collect(),
                workers: (0..workers).map(WorkerId).collect(),
                ..NodePlan::default()
            };
            assert_eq!(
                tolerance(&Numa::default(), &node),
                tolerated,
                "{workers} workers, {llcs} caches"
            );
        };
        for (workers, llcs, tolerated) in [(24, 1, 3), (32, 1, 4), (7, 1, 1), (1, 1, 1), (24, 3, 3), (2, 3, 2)] {
            check(workers, llcs, tolerated);
        }
    }

    /// A node of 24 workers (tolerance 3) with 4 tasks running and 10 queued, seen by a thief that has been dry for
    /// long and whose own node does nothing else.
    const VIEW: RemoteStealView = RemoteStealView {
        node: NodeId(1),
        llc: LlcId(1),
        dry_for: Nanos::from_micros(50),
        skips: 0,
        running: 4,
        idle: 20,
        idle_here: 24,
        queued: 10,
        oldest: Nanos(0),
    };

    fn check_steal(view: RemoteStealView, taken: u32) {
        let place = Place {
            workers: 24,
            tolerance: 3,
            after: Nanos::from_micros(50),
        };
        let answer = remote_steal(&Numa::default(), &Skip::default(), place, &view);
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
        let aged = RemoteStealView {
            oldest: Nanos::from_micros(200),
            ..early
        };
        check_steal(aged, 5);
    }

    #[test]
    fn few_that_run_and_small_differences_are_left_alone() {
        let few = RemoteStealView { running: 3, ..VIEW };
        check_steal(few, 0);
        check_steal(RemoteStealView { queued: 47, ..few }, 0);
        // Two queued a worker are no small imbalance.
        check_steal(RemoteStealView { queued: 48, ..few }, 24);
        let near = RemoteStealView { idle_here: 22, ..VIEW };
        check_steal(near, 0);
        check_steal(RemoteStealView { idle_here: 23, ..VIEW }, 5);
        let lonely = RemoteStealView {
            running: 0,
            queued: 1,
            ..VIEW
        };
        check_steal(lonely, 0);
        check_steal(
            RemoteStealView {
                oldest: Nanos(200_000),
                ..lonely
            },
            1,
        );
    }

    #[test]
    fn what_is_left_is_taken_after_eight_searches() {
        let left = RemoteStealView { running: 1, ..VIEW };
        for skips in 0..8 {
            check_steal(RemoteStealView { skips, ..left }, 0);
        }
        check_steal(RemoteStealView { skips: 8, ..left }, 4);
    }
}
