//! A worker that is not pinned for a while: for what inherits, or asks for, the CPUs of its thread.

use std::cell::RefCell;

use quadrille_topology::{PuSet, TopologyError, current_affinity, set_current_affinity};

thread_local! {
    /// Of a thread that was pinned: where it might run before.
    static BEFORE: RefCell<Option<PuSet>> = const { RefCell::new(None) };
}

/// Pins the calling thread, which begins as a worker.
///
/// # Errors
///
/// It may not run there; then it is left as it is.
pub(crate) fn pin(mask: &PuSet) -> Result<(), TopologyError> {
    let before = current_affinity().ok();
    set_current_affinity(mask)?;
    BEFORE.set(before);
    Ok(())
}

/// While it lives, the calling thread may run wherever it might before it was [pinned](pin), so that a process which it
/// starts may, too, and a runtime which it builds. It is pinned again after that; a thread that was not is left as it
/// is.
pub(crate) struct Unpinned(Option<PuSet>);

impl Unpinned {
    pub(crate) fn new() -> Self {
        // Where the thread ends, and that is gone, it is left as it is.
        let wide = BEFORE.try_with(|before| before.borrow().clone()).ok().flatten();
        let unpin = |wide| {
            let pinned = current_affinity().ok()?;
            set_current_affinity(&wide).ok()?;
            Some(pinned)
        };
        Unpinned(wide.and_then(unpin))
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
