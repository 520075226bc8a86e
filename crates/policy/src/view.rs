//! What is known when a question is asked. Every field may be stale.

use crate::{CouplingView, GroupMask, Nanos, WorkerId};

/// What is known when a task becomes ready.
#[derive(Clone, Copy, Debug)]
pub struct WakeView {
    /// The worker that wakes the task; `None` from a thread outside the runtime.
    pub waker: Option<WorkerId>,
    /// Whether the task woke itself while it ran (a yield): it goes to the back and signals nobody.
    pub yielded: bool,
    /// Whether the waker's LIFO slot is empty.
    pub slot_empty: bool,
    /// The waker's cached clock.
    pub now: Nanos,
    /// Average run of a task on the waker; zero: unknown, taken as short.
    pub waker_run: Nanos,
    /// Average run of a task on the task's home worker; zero: unknown, taken as long.
    pub home_run: Nanos,
    /// As [`UnparkView::wake_cost`].
    pub wake_cost: Nanos,
    /// Idle members of the task's home group. This and the rest need not be looked up unless [`Policy::needs_home`]
    /// says so.
    ///
    /// [`Policy::needs_home`]: crate::Policy::needs_home
    pub home_idle: GroupMask,
    /// Tasks queued in the home group's FIFO and mailbox.
    pub home_queued: u32,
    /// Age of the oldest of them; zero if unknown, which keeps some of what is skipped skipped for longer.
    pub home_oldest: Nanos,
    /// Utilisation of the home LLC in 1/1024.
    pub llc_util: u16,
    /// Whether the home LLC has an idle worker at all.
    pub llc_has_idle: bool,
    /// What is known of the task's set and of its waker.
    pub coupling: CouplingView,
}

/// What is known when a task is spawned. The fields about idle workers need not be looked up unless
/// [`Policy::needs_idle_nodes`] or [`Policy::needs_idle_llc`] says so.
///
/// [`Policy::needs_idle_nodes`]: crate::Policy::needs_idle_nodes
/// [`Policy::needs_idle_llc`]: crate::Policy::needs_idle_llc
#[derive(Clone, Copy, Debug)]
pub struct SpawnView {
    /// The spawning worker; `None` from a thread outside the runtime.
    pub spawner: Option<WorkerId>,
    /// Workers awake on the spawner's node: at least so many, if not all of its caches were [looked
    /// at](crate::Plan::stand_ins).
    pub node_running: u32,
    /// The other workers of the spawner's node.
    pub node_idle: u32,
    /// Another node with idle workers behind most of its caches, and how many workers it has but for those that are
    /// known to be awake; zero: none.
    pub most_idle: (quadrille_topology::NodeId, u32),
    /// For a spawn from outside: of two caches with idle workers the one that has more; `None`: nobody is idle.
    pub idle_llc: Option<quadrille_topology::LlcId>,
    /// Whether the task's set is spread, and how many of its tasks were before it, by some count.
    pub spread: Option<u32>,
    /// The cache that the task's set prefers.
    pub preferred: Option<quadrille_topology::LlcId>,
}

impl SpawnView {
    /// Nothing but who spawns.
    #[must_use]
    pub fn new(spawner: Option<WorkerId>) -> Self {
        Self {
            spawner,
            node_running: 0,
            node_idle: 0,
            most_idle: (quadrille_topology::NodeId(0), 0),
            idle_llc: None,
            spread: None,
            preferred: None,
        }
    }
}

/// What is known when work was published and a worker could be woken for it.
#[derive(Clone, Copy, Debug)]
pub struct UnparkView {
    /// Idle (parked, unclaimed) workers that could run the work.
    pub idle: u32,
    /// Workers awake and searching that will look at the queue.
    pub searching: u32,
    /// Whether a parked worker looks at all queues at least once a rescue interval.
    pub sentinel: bool,
    /// Workers that drain the queue and are awake (running a task).
    pub running: u32,
    /// Tasks queued ahead of and including the new one, for those workers.
    pub queued: u32,
    /// Average run of a task on those workers; zero: unknown, taken as long.
    pub average_run: Nanos,
    /// If the task is new: how long the last one of the burst is expected to wait that may have begun
    /// ([`Bursts`](crate::Bursts)); else zero.
    pub burst: Nanos,
    /// Measured cost from an unpark to the first instruction of the woken worker, plus the waker's system call, plus
    /// what is lost where others want the CPUs ([`Contention`](crate::Contention)). For tasks that timers have woken as
    /// long as they may wait, if that is longer ([`patience_of_timers`](crate::Policy::patience_of_timers)).
    pub wake_cost: Nanos,
}

/// What is known when a worker without work looks at another node; or, on a machine of one node, at another cache.
#[derive(Clone, Copy, Debug)]
pub struct RemoteStealView {
    /// The other cache's node.
    pub node: quadrille_topology::NodeId,
    /// The other cache.
    pub llc: quadrille_topology::LlcId,
    /// How long the thief has found nothing nearer: since it last had a task, asleep or searching.
    pub dry_for: Nanos,
    /// [Spoiled](crate::Policy::spoils) searches since it last had a task or slept.
    pub skips: u8,
    /// Workers awake there (on the other node, or behind the other cache).
    pub running: u32,
    /// Idle workers there.
    pub idle: u32,
    /// Idle workers here, the thief included, whether it still searches or has announced itself.
    pub idle_here: u32,
    /// Tasks queued there.
    pub queued: u32,
    /// Age of the oldest of them; zero if unknown.
    pub oldest: Nanos,
}
