//! Handles to a spawned task: await its result, abort it, or let it go.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::Meta;
use super::abort::AbortCell;
use super::body::Outcome;
use super::cell::{self, Header};
use super::lifecycle::Detached;
use super::meta::{Id, THREAD};
use super::waker;
use crate::error::JoinError;
use crate::sched::{Shared, waits_for_a_task};

/// The payload of a task that was aborted, in place of a panic's.
pub(crate) struct Cancelled;

/// Awaits a task's result.
///
/// Dropping the handle detaches the task: it runs on. The result is `Err` if the task panicked, was aborted, or was
/// dropped by the shutdown of its runtime.
///
/// # Cancel safety
/// Strict: a handle that was polled and not ready can be awaited later. One that is polled again after it was ready
/// answers that the task was cancelled: the result has gone.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// let handle = quadrille::spawn(async { 6 * 7 });
/// assert_eq!(handle.await.unwrap(), 42);
/// # });
/// ```
pub struct JoinHandle<T> {
    header: NonNull<Header>,
    claim: Claim,
    /// It may drop a result.
    _result: PhantomData<T>,
}

/// Whether a handle may still have the result of its task.
///
/// A word: a handle is handed on in words, and to read one of which a byte was just written takes until that is in the
/// cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
enum Claim {
    Open,
    /// The result was moved out, or there is none.
    Spent,
}

// SAFETY: it is a part in a lifecycle, which is made of atomics, a look at metadata, which is Sync, and the right to
// take a `T`.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: as above; nothing of a `T` is reachable through a shared handle.
unsafe impl<T: Send> Sync for JoinHandle<T> {}

// The output is moved out of the allocation, never pinned there.
impl<T> Unpin for JoinHandle<T> {}

// A panic while it is used leaves it as it was, or taken.
impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// The one handle of a task.
    ///
    /// # Safety
    /// The caller joins the task, gives that up to the handle, and the task's future has results of type `T`.
    pub(super) unsafe fn new(header: NonNull<Header>) -> Self {
        Self {
            header,
            claim: Claim::Open,
            _result: PhantomData,
        }
    }

    fn header(&self) -> &Header {
        // SAFETY: the task is there while it is joined (C e).
        unsafe { self.header.as_ref() }
    }

    pub(crate) fn meta(&self) -> &Meta {
        &self.header().meta
    }

    /// Lends `f` a waker of the task, which is a user-level thread: one that is pending keeps a waker of its own, on
    /// its stack. Of a task that keeps none the runner may have decided already that nobody can wake it
    /// (`Lifecycle::pause`).
    pub(crate) fn with_waker<R>(&self, f: impl FnOnce(&Waker) -> R) -> R {
        debug_assert!(self.meta().has(THREAD), "its body keeps a waker while it is pending");
        // SAFETY: the task is there while it is joined (C e), so while `f` runs; clones have a part of their own.
        let waker = unsafe { waker::lend(self.header) };
        f(&waker)
    }

    /// Asks the task to stop at its next suspension point; awaiting the handle then gives an error with
    /// [`JoinError::is_cancelled`], unless the task finished first.
    ///
    /// ```
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// let task = quadrille::spawn(std::future::pending::<()>());
    /// task.abort();
    /// assert!(task.await.unwrap_err().is_cancelled());
    /// # });
    /// ```
    pub fn abort(&self) {
        self.abort_handle().abort();
    }

    /// A handle that can only abort the task; any number of clones.
    #[must_use]
    pub fn abort_handle(&self) -> AbortHandle {
        let cell = self.meta().abort_cell();
        if self.header().lifecycle.watch() {
            cell.finish();
        }
        AbortHandle { cell }
    }

    /// Whether the task has finished, in whatever way.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.header().lifecycle.is_done()
    }

    /// The task's id.
    #[must_use]
    pub fn id(&self) -> Id {
        self.meta().id
    }

    /// The name given by [`task::Builder`](crate::task::Builder), if any.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.meta().extras().and_then(|extras| extras.name.as_deref())
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(outcome) = crate::coop::poll_progress(cx, |cx| self.poll_outcome(cx)) else {
            waits_for_a_task();
            return Poll::Pending;
        };
        let id = self.id();
        Poll::Ready(match outcome.map(Outcome::into_result) {
            Some(Ok(value)) => Ok(value),
            Some(Err(payload)) => Err(error(id, payload)),
            None => Err(JoinError::cancelled(id)),
        })
    }
}

impl<T> JoinHandle<T> {
    /// Whether the task has finished, else `waker` is told when it has. Unlike a poll it takes no result, and nobody
    /// counts as waiting.
    pub(crate) fn is_done_or_tells(&mut self, waker: &Waker) -> bool {
        self.header().lifecycle.poll_done(waker).is_ready()
    }

    /// What the task has left, once. `None`: it was dropped, or that has been taken.
    #[inline]
    fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outcome<T>>> {
        if self.claim == Claim::Spent {
            return Poll::Ready(None);
        }
        let has_outcome = std::task::ready!(self.header().lifecycle.poll_done(cx.waker()));
        self.claim = Claim::Spent;
        // SAFETY: the results are of type `T` (`new`), and we join the task. One is there, and ours (C c); `claim` says
        // that it is read once.
        Poll::Ready(has_outcome.then(|| unsafe { cell::take_outcome(self.header) }))
    }
}

/// What a joiner is told of a payload.
#[cold]
pub(crate) fn error(id: Id, payload: Box<dyn Any + Send>) -> JoinError {
    if payload.is::<Cancelled>() {
        JoinError::cancelled(id)
    } else {
        JoinError::panicked(id, payload)
    }
}

impl<T> Drop for JoinHandle<T> {
    #[inline]
    fn drop(&mut self) {
        if let Detached::Done { outcome } = self.header().lifecycle.detach() {
            if outcome && self.claim == Claim::Open {
                // SAFETY: as in `poll_outcome`; we are gone after this. The task is there while it is joined (C e),
                // which ends below.
                unsafe { cell::drop_outcome::<T>(self.header) };
            }
            let then = self.header().lifecycle.detach_done();
            // SAFETY: the answer to that.
            unsafe { cell::free_if(self.header, then) };
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("id", &self.id())
            .field("finished", &self.is_finished())
            .finish()
    }
}

/// Aborts a task; obtained from [`JoinHandle::abort_handle`].
#[derive(Clone)]
pub struct AbortHandle {
    cell: Arc<AbortCell>,
}

impl AbortHandle {
    /// Asks the task to stop at its next suspension point. Does nothing if it has finished.
    pub fn abort(&self) {
        if let Some(key) = self.cell.abort()
            && let Some(shared) = Shared::find(self.cell.scheduler())
            && let Some(waker) = shared.registry.waker(key)
        {
            waker.wake();
        }
    }

    /// The same for a user-level thread, which is in no registry: by a waker of its task.
    pub(crate) fn abort_thread(&self, waker: &Waker) {
        // None: it is in no registry.
        let _key = self.cell.abort();
        waker.wake_by_ref();
    }

    /// Whether the task has finished, in whatever way.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.cell.is_finished()
    }

    /// The task's id.
    #[must_use]
    pub fn id(&self) -> Id {
        self.cell.id()
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle")
            .field("id", &self.id())
            .field("finished", &self.is_finished())
            .finish()
    }
}
