//! Threads that borrow from the stack of the thread that spawns them, as std's.
//!
//! Why that is sound is said in [`shared`], which scopes of [tasks](crate::task::scope) share.

pub(crate) mod shared;

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::thread;

use self::shared::{Loan, Packet, Words};
use super::handle::{Thread, payload};
use super::note::Reason;
use super::spawn::Builder;
use super::wait::wait_on;
use crate::task::{self, JoinError};

/// In which threads can be spawned that borrow what outlives it; see [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    loan: Loan<'scope, 'env>,
}

/// The closure of a scoped thread, and where its result goes. Dropped in this order: the closure first.
struct Child<'scope, F, T> {
    closure: F,
    packet: Arc<Packet<'scope, T>>,
}

impl<F: FnOnce() -> T, T> Child<'_, F, T> {
    fn run(self) {
        let Self { closure, packet } = self;
        packet.put(catch_unwind(AssertUnwindSafe(closure)));
    }
}

/// Runs `f`, which may spawn threads that borrow from the caller, and waits for all of them.
///
/// As [`std::thread::scope`], with user-level threads. A user-level thread that calls it is suspended while it waits,
/// an ordinary thread is blocked; that one must have entered a runtime. If the runtime shuts down, the threads of the
/// scope are ended first, and then the thread that waits for them.
///
/// If the calling thread is [aborted](super::JoinHandle::abort), its scope's threads are not: they borrow from it, and
/// go on. Where `f` waits it is unwound; then all are waited for to their ends, also those that wait for something that
/// does not come; then the thread is unwound from here, and a panic of theirs that nobody has joined is not passed on.
/// A thread that is to be stopped with its scope tells its threads, by [`abort`](ScopedJoinHandle::abort) of each, or a
/// [`CancellationToken`](crate::sync::CancellationToken) whose [guard](crate::sync::CancellationToken::drop_guard) `f`
/// has.
///
/// As with std's, a handle that is forgotten (`mem::forget`) is waited for, with the result that it may have: for ever.
/// So is a thread that can't begin, as where all workers are in [`block_in_place`](crate::task::block_in_place) and
/// wait for scopes of threads: on a runtime with one worker, in the first such call.
///
/// # Panics
/// - If a thread of the scope has panicked and was not joined, once all have ended.
/// - If one was ended by the shutdown of its runtime and was not joined, on an ordinary thread, or on a user-level
///   thread of another runtime.
/// - In a task: it could not wait.
/// - On a user-level thread that panics or is unwound, if not all have ended within about a second, for which it blocks
///   the worker, as [`Wait::wait`](super::Wait::wait) does. The process then aborts. What needs this worker does not
///   come.
///
/// ```
/// use quadrille::thread;
///
/// let runtime = quadrille::Runtime::new()?;
/// let sum = runtime.spawn_thread(|| {
///     let numbers = [1, 2, 3];
///     thread::scope(|s| {
///         let first = s.spawn(|| numbers[0]);
///         let rest = s.spawn(|| numbers[1..].iter().sum::<i32>());
///         first.join().unwrap() + rest.join().unwrap()
///     })
/// });
/// assert_eq!(sum.join().unwrap(), 6);
/// # Ok::<(), quadrille::BuildError>(())
/// ```
///
/// What a thread borrows must outlive the scope:
///
/// ```compile_fail
/// quadrille::thread::scope(|s| {
///     let inside = 1;
///     s.spawn(|| assert_eq!(inside, 1));
/// });
/// ```
#[track_caller]
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    // Here and not in the closure: who is lent it uses it until all have ended.
    let scope = Scope { loan: Loan::new() };
    shared::enter(Words::Threads, &scope.loan.data, || f(&scope))
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Spawns a thread that may borrow what outlives the scope, on the current runtime.
    ///
    /// # Panics
    /// Outside of a runtime, and if there is no memory for its stack: [`Builder::spawn_scoped`] gives that as an error.
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        Builder::new()
            .spawn_scoped(self, f)
            .expect("no memory for the stack of a user-level thread")
    }

    /// Calls `launch` with a closure that runs `f` and leaves its result with the handle.
    pub(super) fn launch<F, T>(
        &'scope self,
        f: F,
        launch: impl FnOnce(Box<dyn FnOnce() + Send + 'scope>) -> task::JoinHandle<thread::Result<()>>,
    ) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let packet = Packet::new(&self.loan.data);
        let child = Child {
            closure: f,
            packet: packet.clone(),
        };
        ScopedJoinHandle {
            task: launch(Box::new(move || child.run())),
            packet,
        }
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.loan.fmt(f)
    }
}

/// Waits for a thread of a [`scope`] to end, and gives its result; also a future of that. Dropping it leaves that to
/// the scope.
///
/// # Cancel safety
/// Strict, by `(&mut handle).await`.
pub struct ScopedJoinHandle<'scope, T> {
    task: task::JoinHandle<thread::Result<()>>,
    packet: Arc<Packet<'scope, T>>,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits until the thread has ended; see [`JoinHandle::join`](super::JoinHandle::join).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn join(self) -> thread::Result<T> {
        let id = self.task.id();
        let ended = wait_on(self.task, Reason::join(id));
        self.packet.take(id, ended).map_err(payload)
    }

    /// Asks the thread to end, as [`JoinHandle::abort`](super::JoinHandle::abort); the scope does not mind.
    ///
    /// ```
    /// use quadrille::task::JoinError;
    /// use quadrille::thread;
    ///
    /// let runtime = quadrille::Runtime::new()?;
    /// let payload = runtime.spawn_thread(|| {
    ///     thread::scope(|s| {
    ///         let waits = s.spawn(thread::park);
    ///         waits.abort();
    ///         waits.join().unwrap_err()
    ///     })
    /// });
    /// let payload = payload.join().unwrap();
    /// assert!(payload.downcast_ref::<JoinError>().is_some_and(JoinError::is_cancelled));
    /// # Ok::<(), quadrille::BuildError>(())
    /// ```
    pub fn abort(&self) {
        self.packet.forgive();
        self.task
            .with_waker(|waker| self.task.abort_handle().abort_thread(waker));
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
}

impl<T> Future for ScopedJoinHandle<'_, T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let id = self.task.id();
        let ended = ready!(Pin::new(&mut self.task).poll(cx));
        Poll::Ready(self.packet.take(id, ended))
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle")
            .field("id", &self.task.id())
            .field("finished", &self.is_finished())
            .finish()
    }
}
