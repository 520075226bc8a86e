//! The user's future inside a task: catches its panics, obeys aborts, enters the registry when first pending.

use std::any::Any;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Meta;
use super::join::Cancelled;
use super::meta::{FUTURE_DROPPED, THREAD};
use crate::primitives::Ordering;

/// What a body leaves behind: the value, or the payload of its panic, or [`Cancelled`] as a payload.
///
/// async-task drops it where nobody asked for it: on the worker, if the task is detached. A panic of the user's destructor
/// ends here (rule 3 of `task`): async-task would abort the process.
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
        drop_quietly(|| unsafe { ManuallyDrop::drop(&mut self.0) });
    }
}

/// Calls `drop`, which runs destructors of the user's, and lets no panic out of them.
fn drop_quietly(drop: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(drop)) {
        // It has been reported by the panic hook. Its own destructor might panic as well, and nobody is left to be told.
        std::mem::forget(payload);
    }
}

/// The user's future, in place.
pub(crate) struct Body<F> {
    /// Dropped by `finish` or by `drop`, whichever comes first (`FUTURE_DROPPED`).
    future: ManuallyDrop<F>,
    meta: *const Meta,
}

// SAFETY: the pointer leads to the metadata of the same allocation, which is Sync; the future decides the rest.
unsafe impl<F: Send> Send for Body<F> {}

impl<F> Body<F> {
    /// A body whose task has this metadata.
    ///
    /// # Safety
    /// `meta` lives in the same task as the body will, and so outlives it.
    pub(super) unsafe fn new(future: F, meta: *const Meta) -> Self {
        Self {
            future: ManuallyDrop::new(future),
            meta,
        }
    }

    fn meta(&self) -> &Meta {
        // SAFETY: `new`'s contract: the metadata outlives the body.
        unsafe { &*self.meta }
    }

    /// Drops the user's future once; a panic of its destructor is returned.
    fn drop_future(&mut self) -> Option<Box<dyn Any + Send>> {
        if self.meta().has(FUTURE_DROPPED) {
            return None;
        }
        self.meta().set(FUTURE_DROPPED);
        // SAFETY: the flag was not set, so this is the first drop; the future is never used after it.
        catch_unwind(AssertUnwindSafe(|| unsafe { ManuallyDrop::drop(&mut self.future) })).err()
    }

    /// Makes the task findable for shutdown and abort handles. True if it was aborted meanwhile.
    #[cold]
    fn enter_registry(&self, cx: &Context<'_>) -> bool {
        let meta = self.meta();
        // SAFETY: rule 4 of `task`: the scheduler outlives every body.
        let shared = unsafe { &*meta.scheduler() };
        let key = shared.registry.insert(cx.waker().clone());
        meta.registered(key)
    }

    fn aborted(&self) -> bool {
        self.meta()
            .extras()
            .and_then(|extras| extras.abort.get())
            .is_some_and(|cell| cell.is_aborted())
    }
}

impl<F: Future> Future for Body<F> {
    type Output = Outcome<F::Output>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the future is pinned with the body and never moved out of it.
        let this = unsafe { self.get_unchecked_mut() };
        if this.aborted() {
            return Poll::Ready(this.cancel());
        }
        // SAFETY: structural pinning: `future` is never moved until it is dropped in place.
        let future = unsafe { Pin::new_unchecked(&mut *this.future) };
        match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(Poll::Pending) => {
                // Ordering: Relaxed; only the runner writes it. A user-level thread, whose key is another, is on the list of its
                // owner instead, which ends it before it leaves (B c).
                let registered = this.meta().key.load(Ordering::Relaxed) != 0;
                if !registered && this.enter_registry(cx) {
                    return Poll::Ready(this.cancel());
                }
                Poll::Pending
            }
            Ok(Poll::Ready(value)) => Poll::Ready(match this.drop_future() {
                None => Outcome::new(Ok(value)),
                Some(payload) => {
                    drop_quietly(|| drop(value));
                    Outcome::new(Err(payload))
                }
            }),
            Err(payload) => {
                // The panic of the poll wins over one of the destructor.
                std::mem::forget(this.drop_future());
                Poll::Ready(Outcome::new(Err(payload)))
            }
        }
    }
}

impl<F> Body<F> {
    #[cold]
    fn cancel<T>(&mut self) -> Outcome<T> {
        Outcome::new(Err(self.drop_future().unwrap_or_else(|| Box::new(Cancelled))))
    }
}

impl<F> Drop for Body<F> {
    fn drop(&mut self) {
        // A panic here has nobody to be reported to: the task was cancelled.
        std::mem::forget(self.drop_future());
        let meta = self.meta();
        // SAFETY: rule 4 of `task`: the scheduler outlives every body.
        let shared = unsafe { &*meta.scheduler() };
        if shared.loads.on() {
            shared.count_task(-1);
        }
        if let Some(cell) = meta.extras().and_then(|extras| extras.abort.get()) {
            cell.finish();
        }
        // Ordering: Relaxed; whoever drops the body got it from the runner that wrote the key.
        let key = meta.key.load(Ordering::Relaxed);
        if key != 0 && !meta.has(THREAD) {
            shared.registry.remove(key);
        }
    }
}
