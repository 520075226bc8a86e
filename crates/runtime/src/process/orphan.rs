//! Children that nobody will wait for: who sees to it that they leave no zombie.

use std::process::Child;
use std::sync::PoisonError;

use super::running::Running;
use crate::primitives::StaticMutex;

/// Children whose runtime has stopped before they ended.
static LEFT: StaticMutex<Vec<Child>> = StaticMutex::new(Vec::new());

/// Waits for a child whose owner has gone, in a task of its runtime.
pub(super) fn adopt(mut running: Running) {
    reap();
    // An error is the answer that there is nothing to wait for (any more).
    if matches!(running.try_wait(), Ok(None)) {
        let runtime = running.runtime.clone();
        // On a runtime that has stopped the task is dropped at once.
        drop(runtime.spawn(Orphan(Some(running)).wait()));
    }
}

/// Leaves a child that can't be watched to whoever calls [`reap`].
pub(super) fn leave(mut child: Child) {
    if matches!(child.try_wait(), Ok(None)) {
        LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(child);
    }
}

/// Waits for those that were left and have ended.
pub(super) fn reap() {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    left.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
}

/// A child that a task waits for. It outlives the task.
struct Orphan(Option<Running>);

impl Orphan {
    async fn wait(mut self) {
        if let Some(running) = &mut self.0 {
            // If it fails, `drop` sees whether there is still something to wait for.
            let _ = running.wait().await;
        }
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        if let Some(running) = self.0.take() {
            leave(running.into_child());
        }
    }
}
