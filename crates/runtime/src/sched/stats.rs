//! Counters: one writer each, read by anyone at any time.

use crossbeam_utils::CachePadded;
use quadrille_policy::{Cause, Level, Placement, Reason};

use crate::primitives::{AtomicU64, Ordering};

/// A counter that one thread writes.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owner may.
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        // Ordering: Relaxed; single writer, readers want no more than a recent value.
        self.0
            .store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// The value.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        // Ordering: Relaxed; see `add`.
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident),+ $(,)?) => {
        /// Counters of one worker.
        #[derive(Debug, Default)]
        pub(crate) struct WorkerCounters {
            $($(#[$doc])* pub(crate) $field: Counter,)+
        }

        /// The counters of a worker, or the sum over all, at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct WorkerMetrics {
            $($(#[$doc])* pub $field: u64,)+
        }

        impl WorkerCounters {
            /// The values now.
            pub(crate) fn snapshot(&self) -> WorkerMetrics {
                WorkerMetrics { $($field: self.$field.get(),)+ }
            }
        }

        impl WorkerMetrics {
            /// Every counter with its name, in the order of declaration.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field),)+].into_iter()
            }

            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$field = self.$field.wrapping_add(other.$field);)+
            }
        }
    };
}

counters! {
    /// Polls of tasks.
    polls,
    /// Tasks that this worker took from its own LIFO slot.
    slot_pops,
    /// Tasks that this worker took from its own deque.
    local_pops,
    /// Tasks taken from its group's FIFO and mailbox.
    group_pops,
    /// Tasks taken from injectors.
    injector_pops,
    /// Tasks put up for the workers of other LLCs.
    exports,
    /// Visits to such a queue of another LLC that found a task.
    export_pops,
    /// Visits to that of the own LLC, for which nobody had come.
    exports_taken_back,
    /// Wake-ups and spawns that took a task to another LLC than its home's, on behalf of its coupling set or its waker.
    set_moves,
    /// Stolen tasks that were given back, because they belong to a few that stay on their node.
    steals_given_back,
    /// Successful steals inside its group.
    steals_group,
    /// Successful steals inside its LLC.
    steals_llc,
    /// Successful steals inside its node.
    steals_node,
    /// Successful steals from another node.
    steals_machine,
    /// Tasks that ran here and were last run by another worker of the same group. These four are the sums of the `moves_`
    /// below, but for the spawns.
    migrations_group,
    /// The same, from another group of the LLC.
    migrations_llc,
    /// The same, from another LLC of the node.
    migrations_node,
    /// The same, from another node.
    migrations_machine,
    /// Wake-ups by tasks of this worker that stayed with it (slot or deque).
    wakes_self,
    /// Wake-ups pushed directly into a group's FIFO.
    wakes_direct,
    /// Wake-ups pushed into a group's mailbox.
    wakes_mailbox,
    /// Wake-ups pushed into an injector.
    wakes_injector,
    /// Wake-ups among those to an injector for which the home group's queue was too long (policy 1).
    wakes_overflow,
    /// Times a member of a group found the lock of its queue taken when it queued a wake-up (policy 1).
    lock_contended,
    /// Wake-ups whose home group was busy while another group of the cache had an idle worker, which was looked for.
    wakes_searched,
    /// Those among them that found one.
    wakes_found,
    /// The same, but not looked for because the cache is too busy (policy 2).
    wakes_cut,
    /// The same, but not looked for because the task was moved often enough (policy 4).
    wakes_capped,
    /// The same, but not looked for because the home group's queue is short (policy 4).
    wakes_fit,
    /// Random probes of two workers, whether one is idle (policy 2).
    probes,
    /// Those among them that met an idle one.
    probes_idle,
    /// Times a count was added to a sum that workers share (policy 5).
    publications,
    /// Other workers that this worker claimed and woke.
    unparks,
    /// Those among them that slept in the kernel.
    unparks_futex,
    /// Times that an idle worker was left asleep because waking it would not pay.
    unparks_suppressed,
    /// Times this worker was woken and found nothing.
    useless_unparks,
    /// Searches begun.
    searches,
    /// Searches that found nothing.
    searches_failed,
    /// Times it went to sleep in the kernel or spun on its park word.
    parks,
    /// Looks at all queues as sentinel.
    sentinel_looks,
    /// Tasks found stuck by such a look.
    rescues,
    /// Whether it was pinned one to one and may run anywhere in its LLC now, because others wanted its CPU (0 or 1).
    pin_fallbacks,
    /// Moves of tasks by wake-ups, inside the group.
    moves_wake_group,
    /// Moves of tasks by wake-ups, from another group of the LLC.
    moves_wake_llc,
    /// Moves of tasks by wake-ups, from another LLC of the node.
    moves_wake_node,
    /// Moves of tasks by wake-ups, from another node.
    moves_wake_machine,
    /// Moves of tasks by steals, inside the group.
    moves_steal_group,
    /// Moves of tasks by steals, from another group of the LLC.
    moves_steal_llc,
    /// Moves of tasks by steals, from another LLC of the node.
    moves_steal_node,
    /// Moves of tasks by steals, from another node.
    moves_steal_machine,
    /// Moves of tasks because their cache fetched them, inside the group.
    moves_pull_group,
    /// Moves of tasks because their cache fetched them, from another group of the LLC.
    moves_pull_llc,
    /// Moves of tasks because their cache fetched them, from another LLC of the node.
    moves_pull_node,
    /// Moves of tasks because their cache fetched them, from another node.
    moves_pull_machine,
    /// Moves of tasks that were stuck, inside the group.
    moves_rescue_group,
    /// Moves of tasks that were stuck, from another group of the LLC.
    moves_rescue_llc,
    /// Moves of tasks that were stuck, from another LLC of the node.
    moves_rescue_node,
    /// Moves of tasks that were stuck, from another node.
    moves_rescue_machine,
    /// First runs of tasks away from who spawned them, inside the group.
    moves_spawn_group,
    /// First runs of tasks away from who spawned them, from another group of the LLC.
    moves_spawn_llc,
    /// First runs of tasks away from who spawned them, from another LLC of the node.
    moves_spawn_node,
    /// First runs of tasks away from who spawned them, from another node.
    moves_spawn_machine,
    /// Lost wake-ups: times that work was found beside which every worker slept. Must stay 0; it is looked for by builds
    /// with `--cfg quadrille_stress` only.
    rescued_by_timeout,
}

macro_rules! moves {
    ($($cause:ident $level:ident $field:ident,)+) => {
        impl WorkerCounters {
            /// The counter of moves for this cause from so far away.
            fn moves(&self, cause: Cause, level: Level) -> &Counter {
                match (cause, level) {
                    $((Cause::$cause, Level::$level) => &self.$field,)+
                }
            }
        }

        impl WorkerMetrics {
            /// Tasks that ran on another worker than before for this cause, from so far away.
            #[must_use]
            pub fn moves(&self, cause: Cause, level: Level) -> u64 {
                match (cause, level) {
                    $((Cause::$cause, Level::$level) => self.$field,)+
                }
            }
        }
    };
}

moves! {
    Wake Group moves_wake_group,
    Wake Llc moves_wake_llc,
    Wake Node moves_wake_node,
    Wake Machine moves_wake_machine,
    Steal Group moves_steal_group,
    Steal Llc moves_steal_llc,
    Steal Node moves_steal_node,
    Steal Machine moves_steal_machine,
    Pull Group moves_pull_group,
    Pull Llc moves_pull_llc,
    Pull Node moves_pull_node,
    Pull Machine moves_pull_machine,
    Rescue Group moves_rescue_group,
    Rescue Llc moves_rescue_llc,
    Rescue Node moves_rescue_node,
    Rescue Machine moves_rescue_machine,
    Spawn Group moves_spawn_group,
    Spawn Llc moves_spawn_llc,
    Spawn Node moves_spawn_node,
    Spawn Machine moves_spawn_machine,
}

impl WorkerCounters {
    /// Counts a task that runs here and came from so far away.
    pub(crate) fn count_move(&self, cause: Cause, level: Level) {
        self.moves(cause, level).add(1);
        if cause != Cause::Spawn {
            let migrations = match level {
                Level::Group => &self.migrations_group,
                Level::Llc => &self.migrations_llc,
                Level::Node => &self.migrations_node,
                Level::Machine => &self.migrations_machine,
            };
            migrations.add(1);
        }
    }

    /// Counts why a wake-up goes where it goes.
    pub(crate) fn count_reason(&self, reason: Reason, placement: Placement) {
        match reason {
            Reason::Waker | Reason::Pulled | Reason::IdleHome | Reason::Other => return,
            Reason::NobodyIdle => {}
            Reason::Searched => self.wakes_searched.add(1),
            Reason::CutOff => self.wakes_cut.add(1),
            Reason::Capped => self.wakes_capped.add(1),
            Reason::Fits => self.wakes_fit.add(1),
        }
        if matches!(placement, Placement::Injector { .. }) {
            self.wakes_overflow.add(1);
        }
    }

    /// Counts a successful steal from so far away.
    pub(crate) fn count_steal(&self, level: Level) {
        let steals = match level {
            Level::Group => &self.steals_group,
            Level::Llc => &self.steals_llc,
            Level::Node => &self.steals_node,
            Level::Machine => &self.steals_machine,
        };
        steals.add(1);
    }
}

/// Counters of threads that are no workers of the runtime.
#[derive(Debug, Default)]
pub(crate) struct ForeignCounters {
    pub(crate) wakes: CachePadded<AtomicU64>,
    pub(crate) unparks: CachePadded<AtomicU64>,
}

impl ForeignCounters {
    pub(crate) fn count_unpark(&self) {
        // Ordering: Relaxed; a statistic.
        self.unparks.fetch_add(1, Ordering::Relaxed);
    }
}
