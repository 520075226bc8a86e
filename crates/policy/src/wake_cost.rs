//! Cost-aware wake: a worker is unparked only if the expected wait exceeds the cost of waking.

use crate::{Nanos, UnparkView};

/// Whether to unpark one idle worker.
pub(crate) fn pays(view: &UnparkView) -> bool {
    if view.idle == 0 || view.searching > 0 {
        return false;
    }
    if view.running == 0 || !view.sentinel || view.average_run == Nanos(0) {
        return true;
    }
    let wait = view.average_run.0.saturating_mul(u64::from(view.queued)) / u64::from(view.running);
    wait > view.wake_cost.0
}
