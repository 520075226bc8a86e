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

macro_rules! worker_counters {
    (
        counts: [$($(#[$doc:meta])* $field:ident,)+]
        moves: [$($(#[$move_doc:meta])* $cause:ident $level:ident $move:ident,)+]
    ) => {
        /// Counters of one worker.
        #[derive(Debug, Default)]
        pub(crate) struct WorkerCounters {
            $($(#[$doc])* pub(crate) $field: Counter,)+
            $($(#[$move_doc])* pub(crate) $move: Counter,)+
        }

        /// The counters of a worker, or the sum over all, at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct WorkerMetrics {
            $($(#[$doc])* pub $field: u64,)+
            $($(#[$move_doc])* pub $move: u64,)+
        }

        impl WorkerCounters {
            /// The values now.
            pub(crate) fn snapshot(&self) -> WorkerMetrics {
                WorkerMetrics {
                    $($field: self.$field.get(),)+
                    $($move: self.$move.get(),)+
                }
            }

            /// The counter of moves for this cause from so far away.
            fn moves(&self, cause: Cause, level: Level) -> &Counter {
                match (cause, level) {
                    $((Cause::$cause, Level::$level) => &self.$move,)+
                }
            }
        }

        impl WorkerMetrics {
            /// Every counter with its name, in the order of declaration.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field),)+ $((stringify!($move), self.$move),)+].into_iter()
            }

            /// Tasks that ran on another worker than before for this cause, from so far away.
            #[must_use]
            pub fn moves(&self, cause: Cause, level: Level) -> u64 {
                match (cause, level) {
                    $((Cause::$cause, Level::$level) => self.$move,)+
                }
            }

            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$field = self.$field.wrapping_add(other.$field);)+
                $(self.$move = self.$move.wrapping_add(other.$move);)+
            }
        }
    };
}

quadrille_policy::counters!(worker_counters);

impl WorkerCounters {
    /// Timers that this worker has fired, of whomever.
    pub(crate) fn fired(&self) -> u64 {
        self.timers.get() + self.timers_pulled.get() + self.timers_overdue.get()
    }

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
