//! Tasks whose futures need not be `Send`: they stay with one worker.
//!
//! | state | is | may move between OS threads | dropped by |
//! |---|---|---|---|
//! | fresh | the closure that makes the future | yes | anyone |
//! | made | the future | no (B) | its owner |
//! | gone | nothing | yes | anyone |
//!
//! A task of [`spawn_local`] is bound to the worker that spawns it from the start, and is made: its future comes from
//! that OS thread. One of [`spawn_pinned`] is fresh until its first run, which binds it like a thread's (B a). When it
//! is pending for the first time it enters the list of its owner, which ends it before it leaves (B c); as every task
//! it also enters the registry, for its abort handles.
//!
//! What others have of the task is `Send`: wakers and abort handles touch no part of the future, and whoever holds the
//! runnable brings it to its owner, to be run or dropped. The result is the joiner's: see [`spawn_local`].

use std::future::Future;
use std::pin::Pin;
use std::ptr;
use std::task::{Context as TaskContext, Poll};

use quadrille_policy::WorkerId;

use super::JoinHandle;
use super::body::Polled;
use super::meta::PINNED;
use super::spawn::{Options, allocate_anywhere};
use crate::runtime::{Handle, spawn_unchecked};
use crate::sched::context::Context;
use crate::sys::fault::abort_with;

/// The body of a task that stays with one worker.
struct Pinned<C, F> {
    state: State<C, F>,
    /// Dropped after the state.
    entered: Entered,
}

enum State<C, F> {
    Fresh(C),
    Made(F),
    Gone,
}

/// The owner of a body, and the body's place on its list.
struct Entered {
    /// The worker that alone may use the future; null before there is one. Never dereferenced.
    owner: *const Context,
    /// `None` before the task was pending.
    key: Option<usize>,
}

// SAFETY: a fresh body holds the closure, which is Send; one that is gone nothing. One that is made holds a future that
// need not be: that is polled and dropped by its owner's OS thread alone (B), which is checked here each time, and may
// lie in memory that others free only when it is gone. The pointer is never followed.
unsafe impl<C: Send, F> Send for Pinned<C, F> {}

impl<C, F> Pinned<C, F> {
    /// Whether the calling thread may use the future.
    #[inline]
    fn is_owned_here(&self) -> bool {
        Context::with(|context| context.is_some_and(|context| ptr::eq(context, self.entered.owner)))
    }
}

impl<C: FnOnce() -> F, F> Pinned<C, F> {
    /// The first run, by the worker that becomes the owner.
    fn make(&mut self) {
        self.entered.owner = Context::with(|context| context.map_or_else(|| misplaced(), ptr::from_ref));
        let State::Fresh(make) = std::mem::replace(&mut self.state, State::Gone) else {
            unreachable!("a body is made once");
        };
        self.state = State::Made(make());
    }
}

impl<C: FnOnce() -> F, F: Future> Future for Pinned<C, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<F::Output> {
        // SAFETY: the future is not moved once it is made; the closure, which is moved, is not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        if let State::Fresh(_) = &this.state {
            this.make();
        }
        if !this.is_owned_here() {
            misplaced();
        }
        let State::Made(future) = &mut this.state else {
            unreachable!("a task is not polled after its end");
        };
        // SAFETY: it stays where it is until it is dropped with `self`, which is pinned.
        let poll = unsafe { Pin::new_unchecked(future) }.poll(cx);
        if poll.is_pending() && this.entered.key.is_none() {
            let enter = |context: &Context| context.will_wait(cx.waker().clone());
            this.entered.key = Context::with(|context| context.map(enter));
        }
        poll
    }
}

impl<C, F> Drop for Pinned<C, F> {
    fn drop(&mut self) {
        if matches!(self.state, State::Made(_)) && !self.is_owned_here() {
            misplaced();
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            Context::with(|context| context.unwrap_or_else(|| misplaced()).waits_no_more(key));
        }
    }
}

#[cold]
fn misplaced() -> ! {
    abort_with(format_args!(
        "a task that is bound to a worker is run or dropped away from it"
    ))
}

/// Spawns a task on the worker that the calling code runs on, to stay there: its future need not be `Send`, and may
/// share an `Rc` with its spawner.
///
/// To be called by a task or a user-level thread. A thread stays on its worker, a [pinned](spawn_pinned) or local task
/// too; any other task may go on elsewhere at its next `.await`, and so may not keep what is not `Send` either.
///
/// The task runs when its worker comes to it, in turn with what else is ready there; **nobody else can**: behind a task
/// that computes for long it waits for as long as that does. It is aborted, named in counters and joined like any
/// other. Its future is dropped on this worker, whatever ends it. The handle is `Send` if the result is.
///
/// # Panics
/// If the calling code does not run on a worker: in `block_on`, and so in `#[quadrille::main]`, in `spawn_blocking`, in
/// `block_in_place`, in a task that may move while the tasks of all workers [block in place](super::block_in_place),
/// since another thread runs it then, and in destructors of a runtime's last tasks. [`spawn_pinned`] works there.
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
///
/// let runtime = quadrille::Runtime::new()?;
/// let task = runtime.handle().spawn_pinned(|| async {
///     let sum = Rc::new(Cell::new(0));
///     let add = |n| {
///         let sum = sum.clone();
///         quadrille::task::spawn_local(async move { sum.set(sum.get() + n) })
///     };
///     for handle in [add(1), add(2), add(3)] {
///         handle.await.unwrap();
///     }
///     sum.get()
/// });
/// assert_eq!(runtime.block_on(task).unwrap(), 6);
/// # Ok::<(), quadrille::BuildError>(())
/// ```
#[track_caller]
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    spawn_local_with(Options::default(), future)
}

#[track_caller]
pub(super) fn spawn_local_with<F>(options: Options, future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    assert!(
        Context::with(|context| context.is_some()),
        "no worker of a quadrille runtime here to spawn a local task on: call this in a pinned task or a user-level thread, \
         in another task only where not all workers may block in place, or use `task::spawn_pinned`"
    );
    Context::with(|context| {
        let context = context.expect("asked just above");
        let policy = context
            .shared
            .new_policy(Some(context.id), context.set.get().inherited());
        let made = || {
            Polled(Pinned::<fn() -> F, F> {
                state: State::Made(future),
                entered: Entered {
                    owner: context,
                    key: None,
                },
            })
        };
        // SAFETY: the future and its output are 'static.
        // - The future is run and dropped here: `spawn_bound` binds the task to this worker, and theorem B says the
        //   rest.
        // - A result that is not Send is given or dropped here: the handle, which is not Send then, cannot leave; who
        //   runs the task is here.
        let (runnable, handle) = unsafe { allocate_anywhere(&context.shared, Some(context), policy, options, made) };
        context.spawn_bound(runnable);
        handle
    })
}

/// Spawns a task on the current runtime whose future is made where it runs, and need not be `Send`; see
/// [`Handle::spawn_pinned`].
///
/// # Panics
/// Outside a runtime.
#[track_caller]
pub fn spawn_pinned<C, F>(make: C) -> JoinHandle<F::Output>
where
    C: FnOnce() -> F + Send + 'static,
    F: Future + 'static,
    F::Output: Send + 'static,
{
    Handle::current().spawn_pinned(make)
}

impl Handle {
    /// Spawns a task whose future is made by `make` on the worker that runs it first, and stays there: it need not be
    /// `Send`.
    ///
    /// Until then the task is placed and stolen like any other; which worker it is bound to is decided as for a
    /// [user-level thread](crate::thread#where-a-thread-runs), and as there nobody else can run it from then on. The
    /// future is dropped on that worker, whatever ends it; a closure that has not been called is dropped anywhere.
    ///
    /// ```
    /// use std::rc::Rc;
    ///
    /// let runtime = quadrille::Runtime::new()?;
    /// let task = runtime.handle().spawn_pinned(|| async {
    ///     let shared = Rc::new(5);
    ///     quadrille::task::yield_now().await;
    ///     *shared
    /// });
    /// assert_eq!(runtime.block_on(task).unwrap(), 5);
    /// # Ok::<(), quadrille::BuildError>(())
    /// ```
    pub fn spawn_pinned<C, F>(&self, make: C) -> JoinHandle<F::Output>
    where
        C: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_pinned_with(Options::default(), make)
    }

    /// The same on the worker with the number `worker`, from 0 to [`worker_count`](Self::worker_count) - 1.
    ///
    /// A worker that is busy is not interrupted: the task waits for its turn, and nobody else can take it over. One a
    /// worker is what a server wants that keeps connections, or a cache, to each.
    ///
    /// # Panics
    /// If there is no such worker.
    ///
    /// ```
    /// let runtime = quadrille::Runtime::builder().worker_threads(2).build()?;
    /// let handle = runtime.handle();
    /// let name = || async { std::thread::current().name().map(str::to_owned) };
    /// let names = [0, 1].map(|worker| runtime.block_on(handle.spawn_pinned_on(worker, name)).unwrap());
    /// assert_ne!(names[0], names[1]);
    /// # Ok::<(), quadrille::BuildError>(())
    /// ```
    #[track_caller]
    pub fn spawn_pinned_on<C, F>(&self, worker: usize, make: C) -> JoinHandle<F::Output>
    where
        C: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_pinned_with(self.pinned_to(worker), make)
    }

    /// The options of a task on this worker.
    #[track_caller]
    pub(super) fn pinned_to(&self, worker: usize) -> Options {
        let count = self.worker_count();
        assert!(
            worker < count,
            "there is no worker {worker}: they are 0 to {}",
            count - 1
        );
        Options {
            worker: u16::try_from(worker).ok().map(WorkerId),
            ..Options::default()
        }
    }

    pub(super) fn spawn_pinned_with<C, F>(&self, options: Options, make: C) -> JoinHandle<F::Output>
    where
        C: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        let options = Options {
            flags: PINNED,
            ..options
        };
        let fresh = || {
            Polled(Pinned {
                state: State::Fresh(make),
                entered: Entered {
                    owner: ptr::null(),
                    key: None,
                },
            })
        };
        // SAFETY: the future and its output are 'static.
        unsafe { spawn_unchecked(&self.shared, options, fresh) }
    }
}
