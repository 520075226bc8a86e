//! Panics of the user's that end where they are.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls `f`, which runs destructors, wakers or hooks of the user's, and lets no panic out of them: it has been reported by the panic
/// hook, and others are none the worse.
pub(crate) fn quietly(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        // Its own destructor might panic as well, and nobody is left to be told.
        mem::forget(payload);
    }
}
