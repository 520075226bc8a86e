//! Tasks that borrow from the stack of the thread that spawns them.
//!
//! A future can be leaked by safe code, so a scope of tasks can't be one: it blocks, as that of threads does, and is
//! sound for the same reason; see [`shared`](crate::thread::scope::shared).

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::body::Polled;
use super::spawn::Options;
use super::{Id, JoinHandle};
use crate::error::JoinError;
use crate::panics::quietly;
use crate::runtime::{spawn_unchecked, with_current};
use crate::thread::scope::shared::{self, Loan, Packet, Words};

/// In which tasks can be spawned that borrow what outlives it; see [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    loan: Loan<'scope, 'env>,
}

/// Runs `f`, which may spawn tasks that borrow from the caller, and waits for all of them.
///
/// As [`thread::scope`](crate::thread::scope()), with tasks: a user-level thread that calls it is suspended while it
/// waits, an ordinary thread is blocked; that one must have entered a runtime. If the runtime shuts down, the tasks of
/// the scope are dropped first; but a scope inside of [`block_in_place`](super::block_in_place) keeps its worker from
/// leaving, and waits for tasks that run no more.
///
/// If the calling thread is [aborted](crate::thread::JoinHandle::abort), its tasks go on, and are waited for before it
/// is unwound, as there.
///
/// In a task it panics. There is no scope that is awaited: a future can be forgotten, with all that it lends, while its
/// tasks run on. A task that wants one spawns a thread, or moves what it would lend into an `Arc`.
///
/// # Panics
/// - If a task of the scope has panicked and was not joined, once all have ended.
/// - If one was ended by the shutdown of its runtime and was not joined, on an ordinary thread, or on a user-level
///   thread of another runtime.
/// - In a task: it could not wait.
/// - On a user-level thread that panics or is unwound, if not all have ended within about a second, for which it blocks
///   the worker, as [`Wait::wait`](crate::Wait::wait) does. The process then aborts. What needs this worker does not
///   come.
///
/// ```
/// use quadrille::task;
///
/// let runtime = quadrille::Runtime::new()?;
/// let _current = runtime.enter();
/// let numbers = [1, 2, 3];
/// let mut doubled = [0; 3];
/// task::scope(|s| {
///     for (number, doubled) in numbers.iter().zip(&mut doubled) {
///         s.spawn(async move {
///             task::yield_now().await;
///             *doubled = number * 2;
///         });
///     }
/// });
/// assert_eq!(doubled, [2, 4, 6]);
/// # Ok::<(), quadrille::BuildError>(())
/// ```
///
/// What a task borrows must outlive the scope:
///
/// ```compile_fail,E0373
/// quadrille::task::scope(|s| {
///     let inside = 1;
///     s.spawn(async { assert_eq!(inside, 1) });
/// });
/// ```
///
/// Nor may two of them change the same:
///
/// ```compile_fail,E0499
/// let mut numbers = [1, 2, 3];
/// quadrille::task::scope(|s| {
///     s.spawn(async { numbers[0] = 7 });
///     s.spawn(async { numbers[0] = 8 });
/// });
/// ```
///
/// Nor may a handle, by which a result is taken that borrows, leave the scope:
///
/// ```compile_fail
/// let numbers = [1, 2, 3];
/// let handle = quadrille::task::scope(|s| s.spawn(async { &numbers }));
/// drop(numbers);
/// ```
#[track_caller]
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    // Here and not in the closure: who is lent it uses it until all have ended.
    let scope = Scope { loan: Loan::new() };
    shared::enter(Words::Tasks, &scope.loan.data, || f(&scope))
}

impl<'scope> Scope<'scope, '_> {
    /// Spawns a task that may borrow what outlives the scope, on the current runtime. Tasks of the scope may spawn
    /// more.
    ///
    /// # Panics
    /// Outside of a runtime.
    #[track_caller]
    pub fn spawn<F>(&'scope self, future: F) -> ScopedJoinHandle<'scope, F::Output>
    where
        F: Future + Send + 'scope,
        F::Output: Send + 'scope,
    {
        with_current(|scheduler| {
            let packet = Packet::new(&self.loan.data);
            let child = Child {
                future: Some(future),
                packet: packet.clone(),
            };
            // SAFETY: what the future borrows is there for 'scope, and the scope does not end before the future, with
            // all that belongs to its result, is dropped (`Packet`).
            let task = unsafe { spawn_unchecked(scheduler, Options::default(), || Polled(child)) };
            ScopedJoinHandle { task, packet }
        })
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.loan.fmt(f)
    }
}

pin_project! {
    // The future of a scoped task, and where its result goes. Dropped in this order: the future first.
    struct Child<'scope, F: Future> {
        // `None` once it was ready.
        #[pin]
        future: Option<F>,
        packet: Arc<Packet<'scope, F::Output>>,
    }
}

impl<F: Future> Future for Child<'_, F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let result = catch_unwind(AssertUnwindSafe(|| {
            let future = this.future.as_mut().as_pin_mut();
            future.expect("a task is not polled after its end").poll(cx)
        }));
        let result = match result {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => {
                // Its destructor belongs to it.
                match catch_unwind(AssertUnwindSafe(|| this.future.set(None))) {
                    Ok(()) => Ok(output),
                    Err(payload) => {
                        quietly(|| drop(output));
                        Err(payload)
                    }
                }
            }
            Err(payload) => Err(payload),
        };
        this.packet.put(result);
        Poll::Ready(())
    }
}

/// A future of the result of a task of a [`scope`]; a thread waits for it with [`.wait()`](crate::Wait::wait). Dropping
/// it leaves that to the scope.
///
/// # Cancel safety
/// Strict, by `(&mut handle).await`.
#[must_use = "without a look at its result a panic of the task is the scope's"]
pub struct ScopedJoinHandle<'scope, T> {
    task: JoinHandle<()>,
    packet: Arc<Packet<'scope, T>>,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Asks the task to stop at its next suspension point; the scope does not mind.
    pub fn abort(&self) {
        self.packet.forgive();
        self.task.abort();
    }

    /// Whether the task has ended, in whatever way.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    /// The task's id.
    #[must_use]
    pub fn id(&self) -> Id {
        self.task.id()
    }
}

impl<T> Future for ScopedJoinHandle<'_, T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = ready!(Pin::new(&mut self.task).poll(cx));
        Poll::Ready(self.packet.take(self.task.id(), ended))
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle")
            .field("id", &self.id())
            .field("finished", &self.is_finished())
            .finish()
    }
}
