//! What users call on tasks: names, and giving way.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::pinned::spawn_local_with;
use super::spawn::Options;
use super::{Id, JoinHandle, running};
use crate::coop;
use crate::runtime::Handle;

/// Gives way to the tasks that are ready: the calling task goes to the back of its worker's queue.
///
/// Wakes nobody. On a thread that is no worker it lets the executor of that thread go round once.
///
/// # Cancel safety
/// Strict: dropping the future means not to give way.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// quadrille::task::yield_now().await;
/// # });
/// ```
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false }
}

/// The future of [`yield_now`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        coop::gives_way();
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The id of the calling task.
///
/// # Panics
/// Where [`try_id`] has none.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// let task = quadrille::spawn(async { quadrille::task::id() });
/// let id = task.id();
/// assert_eq!(task.await.unwrap(), id);
/// # });
/// ```
#[must_use]
#[track_caller]
pub fn id() -> Id {
    try_id().expect("no quadrille task here: call this inside a task, a user-level thread, or a closure of `spawn_blocking`; `Runtime::block_on` is none by itself")
}

/// The id of the task that the calling thread runs, if it runs one: as its [`JoinHandle::id`] says.
///
/// A closure of [`spawn_blocking`](crate::spawn_blocking) and a user-level thread are tasks in this, too. The future of
/// a [`block_on`](crate::Runtime::block_on) has none of its own: `None`, or the id of the task or closure around it.
/// Destructors are told the id of the task whose future they are part of, also if it is dropped without running, and of
/// the one whose result they drop, if nobody has asked for that.
///
/// ```
/// # let runtime = quadrille::Runtime::new().unwrap();
/// assert_eq!(quadrille::task::try_id(), None);
/// let job = runtime.spawn_blocking(quadrille::task::try_id);
/// let id = job.id();
/// assert_eq!(runtime.block_on(job).unwrap(), Some(id));
/// ```
#[must_use]
pub fn try_id() -> Option<Id> {
    running::id()
}

/// Makes tasks with a name.
///
/// ```
/// # let runtime = quadrille::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let handle = quadrille::task::Builder::new().name("answer").spawn(async { 42 });
/// assert_eq!(handle.name(), Some("answer"));
/// # handle.await.unwrap();
/// # });
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until it spawns"]
pub struct Builder {
    name: Option<Box<str>>,
}

impl Builder {
    /// A builder of tasks without a name.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the task; shown in dumps and by [`JoinHandle::name`]. Costs one allocation.
    pub fn name(mut self, name: impl AsRef<str>) -> Self {
        self.name = Some(name.as_ref().into());
        self
    }

    /// Spawns `future` on the current runtime.
    ///
    /// # Panics
    /// Outside a runtime.
    #[track_caller]
    pub fn spawn<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_on(future, &Handle::current())
    }

    /// Spawns `future` on the runtime behind `handle`.
    pub fn spawn_on<F>(self, future: F, handle: &Handle) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        handle.spawn_with(self.options(), future)
    }

    /// Spawns `future` on the worker that the calling code runs on, to stay there; see
    /// [`task::spawn_local`](super::spawn_local).
    ///
    /// # Panics
    /// As that.
    #[track_caller]
    pub fn spawn_local<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        spawn_local_with(self.options(), future)
    }

    /// Spawns a task on the current runtime whose future is made where it runs; see [`Handle::spawn_pinned`].
    ///
    /// # Panics
    /// Outside a runtime.
    #[track_caller]
    pub fn spawn_pinned<C, F>(self, make: C) -> JoinHandle<F::Output>
    where
        C: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        Handle::current().spawn_pinned_with(self.options(), make)
    }

    /// Runs `f` on a thread of the current runtime's blocking pool; see [`Handle::spawn_blocking`].
    ///
    /// # Panics
    /// Outside a runtime.
    #[track_caller]
    pub fn spawn_blocking<F, R>(self, f: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.spawn_blocking_on(f, &Handle::current())
    }

    /// Runs `f` on a thread of the blocking pool of the runtime behind `handle`.
    pub fn spawn_blocking_on<F, R>(self, f: F, handle: &Handle) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        handle.spawn_blocking_with(self.options(), f)
    }

    fn options(self) -> Options {
        Options {
            name: self.name,
            ..Options::default()
        }
    }
}
