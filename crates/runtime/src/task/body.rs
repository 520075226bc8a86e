//! What a task does with the user's future: catches its panics, obeys aborts, enters the registry when it is first pending.

use std::any::Any;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Meta;
use super::join::Cancelled;
use super::meta::THREAD;
use crate::primitives::Ordering;
use crate::sched::Shared;

/// What a future leaves behind: the value, or the payload of its panic, or [`Cancelled`] as a payload.
///
/// The worker drops it where nobody asked for it. A panic of the user's destructor ends here (rule 3 of `task`).
pub(crate) struct Outcome<T>(ManuallyDrop<Result<T, Box<dyn Any + Send>>>);

impl<T> Outcome<T> {
    fn new(result: Result<T, Box<dyn Any + Send>>) -> Self {
        Self(ManuallyDrop::new(result))
    }

    /// The result, for the joiner.
    #[inline]
    pub(super) fn into_result(self) -> Result<T, Box<dyn Any + Send>> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is neither dropped nor used after this line.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }
}

impl<T> Drop for Outcome<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this is the destructor, so the first drop and the last use; `into_result` does not come here.
        quietly(|| unsafe { ManuallyDrop::drop(&mut self.0) });
    }
}

/// Calls `f`, which runs destructors or wakers of the user's, and lets no panic out of them.
pub(super) fn quietly(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        // It has been reported by the panic hook. Its own destructor might panic as well, and nobody is left to be told.
        std::mem::forget(payload);
    }
}

/// Polls a task's future once. Unless it goes on waiting, it is gone afterwards, and this is what it leaves.
///
/// # Safety
/// The future is there, stays where it is until it is dropped, and is the caller's; it is not used again once it is gone.
#[inline]
pub(super) unsafe fn poll<F: Future>(future: *mut F, meta: &Meta, cx: &mut Context<'_>) -> Option<Outcome<F::Output>> {
    let mut result = Err(None);
    // A thread obeys by unwinding, which takes polls.
    if meta.has(THREAD) || !is_aborted(meta) {
        // SAFETY: it is there, and ours, by our contract.
        let future = unsafe { &mut *future };
        // SAFETY: by our contract it is never moved until it is dropped in place.
        let pinned = unsafe { Pin::new_unchecked(future) };
        match catch_unwind(AssertUnwindSafe(|| pinned.poll(cx))) {
            Ok(Poll::Pending) => {
                // Ordering: Relaxed; only the runner writes it. A user-level thread, whose key is another, is on the list of its
                // owner instead, which ends it before it leaves (B c).
                let registered = meta.key.load(Ordering::Relaxed) != 0;
                if registered || !enter_registry(meta, cx) {
                    return None;
                }
            }
            Ok(Poll::Ready(value)) => result = Ok(value),
            Err(payload) => result = Err(Some(payload)),
        }
    }
    // SAFETY: it is there, and gone after this.
    let dropped = unsafe { drop_future(future) };
    let result = match (result, dropped) {
        (Ok(value), None) => Ok(value),
        (Ok(value), Some(payload)) => {
            quietly(|| drop(value));
            Err(payload)
        }
        (Err(None), dropped) => Err(dropped.unwrap_or_else(|| Box::new(Cancelled))),
        (Err(Some(payload)), dropped) => {
            // The panic of the poll wins over one of the destructor.
            std::mem::forget(dropped);
            Err(payload)
        }
    };
    leave(meta);
    Some(Outcome::new(result))
}

/// Drops a task's future without a result.
///
/// # Safety
/// The future is there, the caller's, and not used again.
pub(super) unsafe fn cancel<F>(future: *mut F, meta: &Meta) {
    // A panic here has nobody to be reported to: the task was cancelled.
    // SAFETY: by our contract.
    std::mem::forget(unsafe { drop_future(future) });
    leave(meta);
    scheduler(meta).counts_cancelled();
}

/// Drops the future; a panic of its destructor is returned.
///
/// # Safety
/// As for [`cancel`].
unsafe fn drop_future<F>(future: *mut F) -> Option<Box<dyn Any + Send>> {
    // SAFETY: by our contract this is the first drop and the last use.
    catch_unwind(AssertUnwindSafe(|| unsafe { future.drop_in_place() })).err()
}

/// Makes the task findable for shutdown and abort handles. True if it was aborted meanwhile.
#[cold]
fn enter_registry(meta: &Meta, cx: &Context<'_>) -> bool {
    let key = scheduler(meta).registry.insert(cx.waker().clone());
    meta.registered(key)
}

/// Whether somebody has asked the task to stop.
#[inline]
pub(crate) fn is_aborted(meta: &Meta) -> bool {
    meta.extras()
        .and_then(|extras| extras.abort.get())
        .is_some_and(|cell| cell.is_aborted())
}

/// The scheduler of a task that the caller runs or drops.
fn scheduler(meta: &Meta) -> &Shared {
    // SAFETY: rule 4 of `task`: the scheduler is there for as long as a worker, or a pool thread, runs or drops a task of its own.
    unsafe { &*meta.scheduler() }
}

/// Tells the abort handles of a task, which has some, that its future has gone.
pub(super) fn tell_abort_handles(meta: &Meta) {
    let cell = meta.extras().and_then(|extras| extras.abort.get());
    debug_assert!(cell.is_some(), "it is published before the task's word says so");
    if let Some(cell) = cell {
        cell.finish();
    }
}

/// The future has gone: nobody needs to find the task any more.
fn leave(meta: &Meta) {
    // Ordering: Relaxed; whoever drops the future got it from the runner that wrote the key.
    let key = meta.key.load(Ordering::Relaxed);
    if key != 0 && !meta.has(THREAD) {
        scheduler(meta).registry.remove(key);
    }
}
