//! Aborting a task from afar: what handles and the body agree on.

use super::meta::Id;
use crate::primitives::{AtomicBool, AtomicU32, Ordering, fence};
use crate::sched::Shared;

/// What abort handles and the body share.
#[derive(Debug)]
pub(crate) struct AbortCell {
    id: Id,
    /// Address of the scheduler, never dereferenced: the handle may outlive it. Looked up among the live ones.
    scheduler: usize,
    /// The task's key in the registry, zero until it was first pending.
    key: AtomicU32,
    aborted: AtomicBool,
    finished: AtomicBool,
}

impl AbortCell {
    pub(super) fn new(id: Id, scheduler: *const Shared) -> Self {
        Self {
            id,
            scheduler: scheduler.addr(),
            key: AtomicU32::new(0),
            aborted: AtomicBool::new(false),
            finished: AtomicBool::new(false),
        }
    }

    /// The task's id.
    pub(super) fn id(&self) -> Id {
        self.id
    }

    /// Address of the task's scheduler.
    pub(super) fn scheduler(&self) -> usize {
        self.scheduler
    }

    /// Asks the task to stop. The key of a task that must be woken to notice.
    ///
    /// `None`: it has finished, or was asked before, or has never been pending: then it is in a queue, or running, and
    /// looks at `aborted` when it is next polled or when it registers.
    pub(crate) fn abort(&self) -> Option<u32> {
        // Ordering: SeqCst RMW; (E c) aborted before key, against key before aborted in `registered`.
        if self.aborted.swap(true, Ordering::SeqCst) || self.is_finished() {
            return None;
        }
        // Ordering: SeqCst; (E c).
        fence(Ordering::SeqCst);
        // Ordering: Relaxed; the fence decides.
        let key = self.key.load(Ordering::Relaxed);
        (key != 0).then_some(key)
    }

    /// The task's key was found by the handle that made this cell.
    pub(super) fn set_key(&self, key: u32) {
        // Ordering: Relaxed; whoever gets a handle gets it after this.
        self.key.store(key, Ordering::Relaxed);
    }

    /// Whether the body has been dropped.
    pub(super) fn is_finished(&self) -> bool {
        // Ordering: Acquire; pairs with the Release in `finish` (E d).
        self.finished.load(Ordering::Acquire)
    }

    /// Whether somebody asked the task to stop.
    #[inline]
    pub(super) fn is_aborted(&self) -> bool {
        // Ordering: Relaxed; a wake follows the store, and the next poll sees what came before that (C a). A task that
        // aborts itself is on the same thread.
        self.aborted.load(Ordering::Relaxed)
    }

    /// The body has entered the registry. True if the task was aborted before.
    pub(super) fn registered(&self, key: u32) -> bool {
        // Ordering: Relaxed; the fences here and in `abort` decide who sees whose store.
        self.key.store(key, Ordering::Relaxed);
        // Ordering: SeqCst; (E c) key before aborted.
        fence(Ordering::SeqCst);
        self.aborted.load(Ordering::Relaxed)
    }

    /// The body has been dropped.
    pub(super) fn finish(&self) {
        // Ordering: Release; (E d) pairs with the Acquire in `is_finished`.
        self.finished.store(true, Ordering::Release);
    }
}
