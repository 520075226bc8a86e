//! The driver of the runtime that the calling thread is in.

use std::cell::RefCell;
use std::sync::Arc;

use super::Driver;

thread_local! {
    /// The innermost runtime's driver.
    static CURRENT: RefCell<Option<Arc<Driver>>> = const { RefCell::new(None) };
}

/// Calls `f` with the driver of the current runtime.
///
/// # Panics
///
/// Outside of a runtime, reported at the caller.
#[track_caller]
pub(crate) fn with_current<R>(f: impl FnOnce(&Driver) -> R) -> R {
    let driver = CURRENT.with(|current| current.borrow().clone());
    match driver {
        Some(driver) => f(&driver),
        None => panic!(
            "no runtime here: timers and I/O need a task or `block_on` of a quadrille runtime around them"
        ),
    }
}

/// Makes `driver` the calling thread's current one until the guard is dropped.
pub(crate) fn enter(driver: Arc<Driver>) -> Entered {
    Entered {
        previous: CURRENT.replace(Some(driver)),
    }
}

/// Restores what was current before.
#[derive(Debug)]
#[must_use = "dropping it leaves the driver"]
pub(crate) struct Entered {
    previous: Option<Arc<Driver>>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let left = CURRENT.replace(self.previous.take());
        drop(left);
    }
}
