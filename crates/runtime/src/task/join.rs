//! Handles to a spawned task: await its result, abort it, or let it go.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_task::FallibleTask;

use super::Meta;
use super::abort::AbortCell;
use super::body::Outcome;
use super::meta::Id;
use crate::error::JoinError;
use crate::sched::Shared;

/// The payload of a task that was aborted, in place of a panic's.
pub(crate) struct Cancelled;

/// Awaits a task's result.
///
/// Dropping the handle detaches the task: it runs on. The result is `Err` if the task panicked, was aborted, or was
/// dropped by the shutdown of its runtime.
///
/// # Cancel safety
/// Strict: a handle that was polled and not ready can be awaited later. One that is polled again after it was ready answers
/// that the task was cancelled: the result has gone.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// let handle = quadrille::spawn(async { 6 * 7 });
/// assert_eq!(handle.await.unwrap(), 42);
/// # });
/// ```
pub struct JoinHandle<T> {
    /// `None` only in `drop`.
    task: Option<FallibleTask<Outcome<T>, Meta>>,
    /// The metadata in the task's allocation, which `task` keeps alive.
    meta: NonNull<Meta>,
}

// SAFETY: the pointer leads to a `Meta`, which is Sync, and lives as long as `task`, which decides the rest.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: as above; nothing of a `T` is reachable through a shared handle.
unsafe impl<T: Send> Sync for JoinHandle<T> {}

// The output is moved out of the allocation, never pinned there.
impl<T> Unpin for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    pub(super) fn new(task: async_task::Task<Outcome<T>, Meta>) -> Self {
        let meta = NonNull::from(task.metadata());
        Self {
            task: Some(task.fallible()),
            meta,
        }
    }

    pub(crate) fn meta(&self) -> &Meta {
        // SAFETY: async-task frees the allocation only after its handle, which `self.task` is, has gone.
        unsafe { self.meta.as_ref() }
    }

    fn task(&self) -> &FallibleTask<Outcome<T>, Meta> {
        self.task.as_ref().expect("the task is taken in drop only")
    }

    /// Asks the task to stop at its next suspension point; awaiting the handle then gives an error with
    /// [`JoinError::is_cancelled`], unless the task finished first.
    pub fn abort(&self) {
        self.abort_handle().abort();
    }

    /// A handle that can only abort the task; any number of clones.
    #[must_use]
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle {
            cell: self.meta().abort_cell(|| self.is_finished()),
        }
    }

    /// Whether the task has finished, in whatever way.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let finished = self.task().is_finished();
        if finished {
            self.tell_abort_handles();
        }
        finished
    }

    /// The task has finished. Its body tells the abort handles that exist when it is dropped; a handle that is made
    /// between that and the end learns of it here, or when the task's memory is freed (E e).
    #[inline]
    fn tell_abort_handles(&self) {
        if let Some(cell) = self.meta().extras().and_then(|extras| extras.abort.get()) {
            cell.finish();
        }
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
        let task = self.task.as_mut().expect("the task is taken in drop only");
        let outcome = std::task::ready!(crate::coop::poll_progress(cx, |cx| Pin::new(task).poll(cx)));
        self.tell_abort_handles();
        let id = self.id();
        Poll::Ready(match outcome.map(Outcome::into_result) {
            Some(Ok(value)) => Ok(value),
            Some(Err(payload)) => Err(error(id, payload)),
            None => Err(JoinError::cancelled(id)),
        })
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
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.detach();
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
