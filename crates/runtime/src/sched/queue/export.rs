//! An LLC's export queue: what its workers put up for the workers of other caches.
//!
//! A thief can't ask a deque which of its tasks share data with their neighbours: reading a task before it is taken
//! would be reading what another worker may have freed. So the owner, who may look at its own tasks, sorts them.

use quadrille_policy::Nanos;

use super::injector::Injector;
use super::local::Local;
use crate::primitives::{AtomicU64, Ordering};
use crate::task::Runnable;

#[derive(Debug, Default)]
pub(crate) struct ExportQueue {
    tasks: Injector,
    /// When it became non-empty, ns; a hint for the age of what is in it.
    since: AtomicU64,
}

impl ExportQueue {
    /// Pushes from any thread (W1 a). The last touch of the tasks (W3).
    pub(crate) fn push_all(&self, tasks: Vec<Runnable>, now: Nanos) {
        if self.is_empty() {
            // Ordering: Relaxed; a hint.
            self.since.store(now.0, Ordering::Relaxed);
        }
        tasks.into_iter().for_each(|runnable| self.tasks.push(runnable));
    }

    /// Takes one task and moves up to `limit - 1` further ones to `local`.
    pub(crate) fn pop(&self, local: &Local, limit: usize) -> Option<Runnable> {
        self.tasks.pop(local, limit)
    }

    /// Takes one task.
    pub(crate) fn pop_one(&self) -> Option<Runnable> {
        self.tasks.pop_one()
    }

    /// Whether it looks empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Number of tasks in it, roughly.
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// How long something has been waiting here; zero if the queue looks empty.
    pub(crate) fn age(&self, now: Nanos) -> Nanos {
        if self.is_empty() {
            return Nanos(0);
        }
        // Ordering: Relaxed; a hint.
        now.since(Nanos(self.since.load(Ordering::Relaxed)))
    }
}
