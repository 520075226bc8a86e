//! Counters: one writer each, read by anyone at any time.

use crossbeam_utils::CachePadded;

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
    /// Successful steals inside its group.
    steals_group,
    /// Successful steals inside its LLC.
    steals_llc,
    /// Successful steals inside its node.
    steals_node,
    /// Successful steals from another node.
    steals_machine,
    /// Tasks that ran here and were last run by another worker of the same group.
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
    /// Other workers that this worker claimed and woke.
    unparks,
    /// Those among them that slept in the kernel.
    unparks_futex,
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
    /// Lost wake-ups: times that work was found beside which every worker slept. Must stay 0; it is looked for by builds
    /// with `--cfg quadrille_stress` only.
    rescued_by_timeout,
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
