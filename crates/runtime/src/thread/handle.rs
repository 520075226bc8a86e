//! Handles to threads: who they are, and what they come to.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::thread;

use super::note::Reason;
use super::park::Token;
use super::wait::wait_on;
use crate::error::JoinError;
use crate::task;
use crate::task::Meta;
use crate::task::join::error;

/// A handle to a thread, user-level or of the operating system: its id and name, and the right to unpark it.
///
/// From [`current`](super::current) or [`JoinHandle::thread`]. Cheap to clone.
#[derive(Clone)]
pub struct Thread(Kind);

#[derive(Clone)]
enum Kind {
    User(Arc<Inner>),
    Os(thread::Thread),
}

#[derive(Debug)]
struct Inner {
    id: task::Id,
    name: Option<Box<str>>,
    token: Token,
}

impl Thread {
    /// The handle to the user-level thread with this metadata, made when first asked for.
    pub(super) fn of(meta: &Meta) -> &Self {
        let extras = meta.extras_or_new();
        extras.thread.get_or_init(|| {
            Self(Kind::User(Arc::new(Inner {
                id: meta.id,
                name: extras.name.clone(),
                token: Token::default(),
            })))
        })
    }

    /// The handle to a thread of the operating system.
    pub(super) fn os(thread: thread::Thread) -> Self {
        Self(Kind::Os(thread))
    }

    /// The token by which a user-level thread is unparked.
    pub(super) fn token(&self) -> Option<&Token> {
        match &self.0 {
            Kind::User(inner) => Some(&inner.token),
            Kind::Os(_) => None,
        }
    }

    /// The thread's id.
    #[must_use]
    pub fn id(&self) -> ThreadId {
        ThreadId(match &self.0 {
            Kind::User(inner) => IdKind::User(inner.id),
            Kind::Os(thread) => IdKind::Os(thread.id()),
        })
    }

    /// The name given by [`Builder::name`](super::Builder::name), if any.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Kind::User(inner) => inner.name.as_deref(),
            Kind::Os(thread) => thread.name(),
        }
    }

    /// Lets the thread's current or next [`park`](super::park) return. Twice before it does counts once.
    pub fn unpark(&self) {
        match &self.0 {
            Kind::User(inner) => inner.token.post(),
            Kind::Os(thread) => thread.unpark(),
        }
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread")
            .field("id", &self.id())
            .field("name", &self.name())
            .finish()
    }
}

/// Identifies a running thread, user-level or of the operating system, within its process; never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ThreadId(IdKind);

impl ThreadId {
    /// The id of the user-level thread that this task is.
    pub(super) fn of(task: task::Id) -> Self {
        Self(IdKind::User(task))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum IdKind {
    User(task::Id),
    Os(thread::ThreadId),
}

impl fmt::Debug for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IdKind::User(id) => write!(f, "ThreadId({id})"),
            IdKind::Os(id) => id.fmt(f),
        }
    }
}

/// The number of a user-level thread, which [`Handle::threads`](crate::Handle::threads) shows; for one of the operating
/// system what std shows.
impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IdKind::User(id) => id.fmt(f),
            IdKind::Os(id) => fmt::Debug::fmt(&id, f),
        }
    }
}

/// Waits for a user-level thread to end, and gives its result.
///
/// Threads [`join`](Self::join) it, tasks `.await` it. Dropping the handle detaches the thread: it runs on, and drops
/// its result itself, where a destructor may wait, as std's do. A handle that is dropped after the end drops the
/// result, too. One that is dropped in the very moment of the end leaves it to the worker, where a destructor can't
/// wait: whose result writes when it is dropped, as a `BufWriter` does, drops it in its closure.
///
/// # Cancel safety
/// As a future: strict.
///
/// ```
/// # let runtime = quadrille::Runtime::new().unwrap();
/// let handle = runtime.spawn_thread(|| 6 * 7);
/// assert_eq!(handle.join().unwrap(), 42);
///
/// runtime.block_on(async {
///     let handle = quadrille::thread::spawn(|| 6 * 7);
///     assert_eq!(handle.await.unwrap(), 42);
/// });
/// ```
pub struct JoinHandle<T> {
    task: task::JoinHandle<thread::Result<T>>,
}

impl<T> JoinHandle<T> {
    pub(super) fn new(task: task::JoinHandle<thread::Result<T>>) -> Self {
        Self { task }
    }

    /// Waits until the thread has ended: on a user-level thread by suspending it, on an ordinary one by blocking it.
    ///
    /// # Errors
    /// The payload of the thread's panic. If the thread was ended, or not even begun, by [`abort`](Self::abort) or the
    /// shutdown of its runtime, the payload is a [`JoinError`] with [`is_cancelled`](JoinError::is_cancelled).
    ///
    /// # Panics
    /// As [`Wait::wait`](super::Wait::wait); in a task use `.await`.
    #[track_caller]
    pub fn join(self) -> thread::Result<T> {
        let reason = Reason::join(self.task.id());
        wait_on(self, reason).map_err(payload)
    }

    /// The thread.
    #[must_use]
    pub fn thread(&self) -> &Thread {
        Thread::of(self.task.meta())
    }

    /// Whether the thread has ended, in whatever way; `join` then returns at once.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    /// Asks the thread to end; see [`AbortHandle::abort`].
    ///
    /// ```
    /// use quadrille::task::JoinError;
    /// use quadrille::thread;
    ///
    /// # let runtime = quadrille::Runtime::new().unwrap();
    /// let thread = runtime.spawn_thread(|| loop {
    ///     thread::park();
    /// });
    /// thread.abort();
    /// let payload = thread.join().unwrap_err();
    /// assert!(payload.downcast_ref::<JoinError>().is_some_and(JoinError::is_cancelled));
    /// ```
    pub fn abort(&self) {
        self.task
            .with_waker(|waker| self.task.abort_handle().abort_thread(waker));
    }

    /// A handle that can only abort the thread; any number of clones.
    #[must_use]
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle {
            thread: self.thread().clone(),
            task: self.task.abort_handle(),
            waker: self.task.with_waker(Waker::clone),
        }
    }
}

/// Asks a user-level thread to end; obtained from [`JoinHandle::abort_handle`], and of use when the thread has been
/// detached or somebody else joins it. While it exists the memory of the thread's task, some hundred bytes, is kept;
/// its stack is not.
#[derive(Clone)]
pub struct AbortHandle {
    thread: Thread,
    task: task::AbortHandle,
    waker: Waker,
}

impl AbortHandle {
    /// Asks the thread to end: it unwinds, quietly, from the call in which it waits, or the next in which it does,
    /// unless its closure has ended, as at the [end of its runtime](super#panics-and-the-end-of-the-runtime). One that
    /// has not begun does not begin. Does nothing if the thread has ended.
    ///
    /// Whoever joins it gets an error with [`is_cancelled`](JoinError::is_cancelled), unless it ends by itself first. A
    /// lock of [`thread::sync`](super::sync) that it holds is poisoned, as by a panic. A thread that waits for those of
    /// its own [`scope`](super::scope()) unwinds when they have ended, which abort does not ask of them. Code that
    /// never waits is not interrupted, nor what blocks the worker in [`block_in_place`](crate::task::block_in_place). A
    /// thread that has not begun ends by its closure's destructor: should that panic, whoever joins it gets the panic.
    pub fn abort(&self) {
        self.task.abort_thread(&self.waker);
    }

    /// Whether the thread has ended, in whatever way.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    /// The thread.
    #[must_use]
    pub fn thread(&self) -> &Thread {
        &self.thread
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle").field("id", &self.thread.id()).finish()
    }
}

impl<T> JoinHandle<T> {
    /// See [`task::JoinHandle`].
    pub(crate) fn is_done_or_tells(&mut self, waker: &Waker) -> bool {
        self.task.is_done_or_tells(waker)
    }

    /// The id of the task that it is.
    pub(crate) fn task_id(&self) -> task::Id {
        self.task.id()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let id = self.task.id();
        let ended = ready!(Pin::new(&mut self.task).poll(cx));
        Poll::Ready(ended.and_then(|result| result.map_err(|payload| error(id, payload))))
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("id", &self.task.id())
            .field("finished", &self.is_finished())
            .finish()
    }
}

/// What `join` gives in place of an error: std's has a payload only.
pub(super) fn payload(error: JoinError) -> Box<dyn Any + Send> {
    error.try_into_panic().unwrap_or_else(|error| Box::new(error))
}
