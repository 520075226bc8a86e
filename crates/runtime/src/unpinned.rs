//! A worker that is not pinned for a while: for what inherits, or asks for, the CPUs of its thread.

use quadrille_topology::{PuSet, current_affinity, set_current_affinity};

use crate::runtime::Handle;
use crate::sched::context::{Context, is_away};
use crate::sys::thread::Spawner;

/// While it lives, the calling thread may run wherever its runtime may, so that a process which it starts may, too, and
/// a runtime which it builds. A worker that is pinned is pinned again after that; other threads are left as they are.
pub(crate) struct Unpinned(Option<PuSet>);

impl Unpinned {
    /// `current` is the current runtime.
    pub(crate) fn new(current: Option<&Handle>) -> Self {
        let unpin = |spawner: &Spawner| {
            let before = spawner.has_mask().then(current_affinity)?.ok()?;
            spawner.prepare();
            Some(before)
        };
        let before = Context::with(|context| match context {
            Some(context) => unpin(context.shared.pool.spawner()),
            // Its worker's context has been put aside, or is gone; the thread is the same.
            None if is_away() => unpin(current?.shared.pool.spawner()),
            None => None,
        });
        Unpinned(before)
    }
}

impl Drop for Unpinned {
    fn drop(&mut self) {
        if let Some(mask) = &self.0 {
            // A mask that has become invalid since leaves the worker unpinned: slower, not wrong.
            let _ = set_current_affinity(mask);
        }
    }
}
