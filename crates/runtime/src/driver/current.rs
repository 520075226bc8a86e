//! The driver of the runtime that the calling thread is in.

use super::Driver;
use crate::runtime::Handle;

/// Calls `f` with the driver of the current runtime.
///
/// # Panics
///
/// Outside of a runtime, reported at the caller.
#[track_caller]
pub(crate) fn with_current<R>(f: impl FnOnce(&Driver) -> R) -> R {
    f(&Handle::current().shared.driver)
}
