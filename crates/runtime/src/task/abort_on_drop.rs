//! A handle that takes its task with it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{AbortHandle, JoinError, JoinHandle};

/// A [`JoinHandle`] that aborts its task when it is dropped, so that the task lives no longer than whoever waits for
/// it.
///
/// The task is asked to stop at its next suspension point, not waited for.
///
/// # Cancel safety
/// Not safe: a `select!` that drops it aborts the task. Poll it through a reference, and it can be awaited later.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use quadrille::task::{AbortOnDropHandle, JoinError};
///
/// let handle = AbortOnDropHandle::new(quadrille::spawn(async { 6 * 7 }));
/// assert_eq!(handle.await.unwrap(), 42);
///
/// let handle = AbortOnDropHandle::new(quadrille::spawn(std::future::pending::<()>()));
/// let abort = handle.abort_handle();
/// drop(handle);
/// while !abort.is_finished() {
///     quadrille::task::yield_now().await;
/// }
/// # });
/// ```
#[must_use = "dropping the handle aborts the task"]
pub struct AbortOnDropHandle<T> {
    /// `None`: it was let go.
    task: Option<JoinHandle<T>>,
}

impl<T> AbortOnDropHandle<T> {
    /// Aborts the task of `handle` when it is dropped.
    pub fn new(handle: JoinHandle<T>) -> Self {
        Self { task: Some(handle) }
    }

    /// Lets the task run on: its handle without that.
    #[must_use = "dropping that handle detaches the task"]
    #[expect(clippy::missing_panics_doc, reason = "it is let go of once, by value")]
    pub fn detach(mut self) -> JoinHandle<T> {
        self.task.take().expect("it is let go of here alone")
    }

    /// As [`JoinHandle::abort`].
    pub fn abort(&self) {
        self.as_ref().abort();
    }

    /// As [`JoinHandle::abort_handle`].
    #[must_use]
    pub fn abort_handle(&self) -> AbortHandle {
        self.as_ref().abort_handle()
    }

    /// As [`JoinHandle::is_finished`].
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.as_ref().is_finished()
    }
}

impl<T> AsRef<JoinHandle<T>> for AbortOnDropHandle<T> {
    fn as_ref(&self) -> &JoinHandle<T> {
        self.task.as_ref().expect("it is there until it is let go of")
    }
}

impl<T> From<JoinHandle<T>> for AbortOnDropHandle<T> {
    fn from(handle: JoinHandle<T>) -> Self {
        Self::new(handle)
    }
}

impl<T> Future for AbortOnDropHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let task = self.task.as_mut().expect("it is there until it is let go of");
        Pin::new(task).poll(cx)
    }
}

impl<T> Drop for AbortOnDropHandle<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task.as_ref().filter(|task| !task.is_finished()) {
            task.abort();
        }
    }
}

impl<T> fmt::Debug for AbortOnDropHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AbortOnDropHandle").field(self.as_ref()).finish()
    }
}
