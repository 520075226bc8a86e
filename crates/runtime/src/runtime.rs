//! A runtime, and the handles that reach it: what this module has is at the root of the crate as well.

use std::fmt;
use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use quadrille_policy::{Config, SetId, WorkerId};

use crate::block_on::block_on_here;
#[doc(no_inline)]
pub use crate::builder::Builder;
use crate::current;
#[doc(no_inline)]
pub use crate::current::EnterGuard;
use crate::error::BuildError;
use crate::metrics::Metrics;
use crate::sched::Shared;
use crate::sched::context::{Context, may_block};
use crate::stragglers::Stragglers;
use crate::task::JoinHandle;
use crate::task::body::{Body, Polled};
use crate::task::meta::BLOCKING;
use crate::task::spawn::{Options, allocate, allocate_unchecked};

/// An M:N runtime: workers, their queues, and all that tasks need.
///
/// Dropping it stops it: running tasks finish their current poll, every other task is dropped, the workers are joined,
/// and so are the threads of the blocking pool once they have finished what they are running. Dropped in asynchronous
/// code (inside a task or thread of whichever runtime, or inside `block_on`), it stops without waiting and without
/// panicking.
///
/// ```
/// let runtime = quadrille::Runtime::new()?;
/// let answer = runtime.block_on(async { quadrille::spawn(async { 6 * 7 }).await.unwrap() });
/// assert_eq!(answer, 42);
/// # Ok::<(), quadrille::BuildError>(())
/// ```
pub struct Runtime {
    handle: Handle,
    /// What the builder started beside the workers; stopped with them.
    pub(crate) trace: Option<crate::trace::Trace>,
    stopped: bool,
}

impl Runtime {
    /// A runtime with the default settings: one worker a hardware thread that this process may use, fewer under a CPU
    /// quota.
    ///
    /// # Errors
    /// If a setting from the environment is wrong, or a thread can't be started.
    pub fn new() -> Result<Self, BuildError> {
        Self::builder().build()
    }

    /// A builder with the default settings.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn from_shared(shared: Arc<Shared>) -> Self {
        Self {
            handle: Handle { shared },
            trace: None,
            stopped: false,
        }
    }

    /// A handle to this runtime.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Spawns a task; see [`Handle::spawn`].
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(future)
    }

    /// Runs a closure that may block; see [`Handle::spawn_blocking`].
    pub fn spawn_blocking<F, R>(&self, f: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.handle.spawn_blocking(f)
    }

    /// Runs `future` on the calling thread until it is ready; see [`Handle::block_on`].
    ///
    /// # Panics
    /// On a worker thread.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.handle.block_on(future)
    }

    /// Makes this the current runtime of the calling thread until the guard is dropped.
    #[must_use = "the runtime is current only while the guard lives"]
    pub fn enter(&self) -> EnterGuard {
        self.handle.enter()
    }

    /// The counters now.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.handle.metrics()
    }

    /// Stops the runtime and waits, at most `limit`, until its tasks and threads are dropped and its closures that may
    /// block have returned. What is left then runs on, and is told. Destructors of std's thread-locals on its OS
    /// threads, which run after all of that, are not waited for; a runtime that is dropped waits for them, too.
    ///
    /// In asynchronous code (on a worker of any runtime, inside [`block_on`](Self::block_on)) it stops the runtime and
    /// does not wait: call it by [`spawn_blocking`] there. The thread that this runs on is told
    /// of as left, if it is of the same runtime. To let tasks finish what they have begun, tell them and wait for them
    /// first, with a [`CancellationToken`](crate::sync::CancellationToken) and a
    /// [`TaskTracker`](crate::task::TaskTracker).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = quadrille::Runtime::new()?;
    /// runtime.spawn(std::future::pending::<()>());
    /// let left = runtime.shutdown_timeout(Duration::from_secs(5));
    /// assert!(left.is_empty(), "{left}");
    /// # Ok::<(), quadrille::BuildError>(())
    /// ```
    pub fn shutdown_timeout(mut self, limit: Duration) -> Stragglers {
        self.stop(Some(limit))
    }

    /// Stops the runtime without waiting for tasks or jobs: the last worker to leave drops the tasks. Waits only for
    /// the thread of the trace, which stops at once, or is left alone with the line that it prints.
    pub fn shutdown_background(mut self) {
        self.stopped = true;
        drop(self.trace.take());
        self.handle.shared.abandon();
    }

    fn stop(&mut self, limit: Option<Duration>) -> Stragglers {
        if std::mem::replace(&mut self.stopped, true) {
            return Stragglers::default();
        }
        drop(self.trace.take());
        self.handle.shared.shutdown(limit)
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.stop(None);
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("workers", &self.handle.worker_count())
            .finish_non_exhaustive()
    }
}

/// A reference to a runtime: cheap to clone, usable from any thread, does not keep the runtime running.
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl Handle {
    /// The current runtime: the one last entered on this thread, else that of the worker that the thread is.
    ///
    /// # Panics
    /// Outside a runtime.
    #[must_use]
    #[track_caller]
    pub fn current() -> Self {
        Self::try_current().expect(
            "no quadrille runtime here: call this inside a task, inside `Runtime::block_on`, \
             or while a guard of `Handle::enter` lives",
        )
    }

    /// The current runtime, if there is one.
    #[must_use]
    pub fn try_current() -> Option<Self> {
        current::current()
    }

    /// Makes this the current runtime of the calling thread until the guard is dropped.
    #[must_use = "the runtime is current only while the guard lives"]
    pub fn enter(&self) -> EnterGuard {
        current::enter(self.clone())
    }

    /// Spawns a task. It starts at once, whether or not the handle is awaited; dropping the handle detaches it.
    ///
    /// Tasks that are spawned together begin in no order that is promised: the newest may go first while their spawner
    /// waits for one of them ([`Config::join_polls_max`](crate::policy::Config::join_polls_max)).
    ///
    /// On a runtime that has shut down the task is dropped and the handle gives a cancelled
    /// [`JoinError`](crate::task::JoinError).
    ///
    /// ```
    /// let runtime = quadrille::Runtime::new()?;
    /// let answer = runtime.handle().spawn(async { 6 * 7 });
    /// assert_eq!(runtime.block_on(answer)?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_with(Options::default(), future)
    }

    pub(crate) fn spawn_with<F>(&self, options: Options, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        // SAFETY: the future and its output are 'static.
        unsafe { spawn_unchecked(&self.shared, options, || Polled(future)) }
    }

    /// Runs `f` on a thread of the blocking pool, where it may block. At most 512 at a time by default; more wait, in a
    /// queue that has no bound: who produces them faster than they end bounds them, say by a semaphore or a bounded
    /// channel. While two threads are on their way nobody else is woken, or started, for the next ones: each of those
    /// calls two more if there are jobs for them, so that short jobs have few threads, and those that block have theirs
    /// in a few steps.
    ///
    /// The result is cancelled if the runtime shuts down before `f` has started, or if there is no thread and the
    /// system has none to give.
    ///
    /// ```
    /// let runtime = quadrille::Runtime::new()?;
    /// let manifest = runtime.handle().spawn_blocking(|| std::fs::read_to_string("Cargo.toml"));
    /// assert!(runtime.block_on(manifest)??.contains("[package]"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn_blocking<F, R>(&self, f: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.spawn_blocking_with(Options::default(), f)
    }

    pub(crate) fn spawn_blocking_with<F, R>(&self, options: Options, f: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let options = Options {
            flags: options.flags | BLOCKING,
            ..options
        };
        let policy = self.shared.new_policy(None, SetId::NONE);
        let (runnable, handle) = allocate(&self.shared, None, policy, options, Blocking(Some(f)));
        self.shared.submit_blocking(runnable);
        handle
    }

    /// Runs `future` on the calling thread until it is ready; what it spawns runs on the workers.
    ///
    /// It goes on when the runtime stops, and dropping the runtime waits for it inside of
    /// [`spawn_blocking`](Self::spawn_blocking) and [`block_in_place`](crate::task::block_in_place): timers still end
    /// then, as [`sleep`](crate::time::sleep) says. What waits for tasks of the runtime learns that they are cancelled,
    /// but not inside of `block_in_place`: they are dropped when that has returned, so that who waits for one
    /// [there](crate::task::block_in_place#what-waits-all-the-same) may wait for ever, and who drops the runtime with
    /// him. Each poll has a budget, as that of a task ([`coop`](crate::coop)).
    ///
    /// Before the thread sleeps it spins for as long as two wake-ups cost, 50 us at most, as long as that pays and a
    /// worker is idle or there are more CPUs than workers ([`Config::spin_max`]; `spin=0ns`: never): a task that it
    /// waits for takes 1 us where a sleep takes 10 and more.
    ///
    /// ```
    /// let runtime = quadrille::Runtime::new()?;
    /// let message = String::from("hello"); // neither the future nor its output need be 'static
    /// let length = runtime.handle().block_on(async { message.len() });
    /// assert_eq!(length, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// On a worker thread: inside a task use `.await`, on a user-level thread [`.wait()`](crate::Wait::wait), or
    /// `spawn_blocking` around code that must block.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        assert!(
            may_block(),
            "`block_on` would block a worker of a quadrille runtime: inside a task use `.await`, on a user-level thread `.wait()`"
        );
        let _entered = self.enter();
        let _seeded = self.shared.block_ons.begin(self.shared.policy.config.seed);
        block_on_here(future)
    }

    /// The counters now.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics::of(&self.shared)
    }

    /// The policies that this runtime was built with, wherever they came from; as text it is what
    /// [`Builder::config`](crate::Builder::config) and `QUADRILLE_POLICY` take.
    ///
    /// ```
    /// let runtime = quadrille::Runtime::builder().config("group=2".parse()?).build()?;
    /// assert!(runtime.handle().config().to_string().contains("group=2"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.shared.policy.config
    }

    /// One line: the workers, the machine they were planned for, how they are pinned and why; what discovery did not
    /// find, and policies that were asked for and do nothing.
    #[must_use]
    pub fn report(&self) -> &str {
        &self.shared.report
    }

    /// What operations of [`uring`](crate::uring) are carried out by, and why. Found out when the runtime was built; if
    /// its rings can't be watched, when the first socket or file is made.
    #[cfg(all(feature = "io-uring", target_os = "linux", not(quadrille_loom)))]
    #[must_use]
    pub fn io_backend(&self) -> crate::uring::Backend {
        let rings = self.shared.rings.as_ref().map_err(String::as_str);
        match rings.and_then(|rings| rings.refusal().map_or(Ok(()), Err)) {
            Ok(()) => crate::uring::Backend::IoUring,
            Err(why) => crate::uring::Backend::Fallback { why: why.to_owned() },
        }
    }

    /// The numbers of the workers behind each last-level cache, in the order of [`Metrics::llcs`], for
    /// [`spawn_pinned_on`](Self::spawn_pinned_on). A cache without workers has none, and its place.
    ///
    /// ```
    /// let runtime = quadrille::Runtime::builder().topology("node:1 llc:2 core:2".parse()?).build()?;
    /// assert_eq!(runtime.handle().workers_by_llc(), [[0, 1], [2, 3]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn workers_by_llc(&self) -> Vec<Vec<usize>> {
        let llcs = &self.shared.policy.plan.llcs;
        let numbers = |workers: &[WorkerId]| workers.iter().map(|worker| worker.index()).collect();
        llcs.iter().map(|llc| numbers(&llc.workers)).collect()
    }

    /// Number of workers.
    #[must_use]
    pub fn worker_count(&self) -> usize {
        self.shared.worker_count()
    }
}

// The user's code runs under no lock of the scheduler, and a panic of a task ends with it: none leaves anything half
// done here.
impl UnwindSafe for Runtime {}
impl RefUnwindSafe for Runtime {}
impl UnwindSafe for Handle {}
impl RefUnwindSafe for Handle {}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("workers", &self.worker_count())
            .finish_non_exhaustive()
    }
}

/// Spawns a task on the current runtime; see [`Handle::spawn`].
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// let tasks = [1, 2, 3].map(|n| quadrille::spawn(async move { n * n }));
/// let mut squares = Vec::new();
/// for task in tasks {
///     squares.push(task.await.unwrap());
/// }
/// assert_eq!(squares, [1, 4, 9]);
/// # });
/// ```
///
/// # Panics
/// Outside a runtime.
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // Two branches, each with the future moved once.
    if current::is_worker() {
        return Context::with(|context| spawn_here(context.expect("asked just above"), Options::default(), future));
    }
    Handle::current().spawn(future)
}

/// Runs a closure that may block on the current runtime's blocking pool; see [`Handle::spawn_blocking`].
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// let slept = quadrille::spawn_blocking(|| {
///     std::thread::sleep(std::time::Duration::from_millis(1)); // would hold up a worker in a task
///     "done"
/// });
/// assert_eq!(slept.await.unwrap(), "done");
/// # });
/// ```
///
/// # Panics
/// Outside a runtime.
#[track_caller]
pub fn spawn_blocking<F, R>(f: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    Handle::current().spawn_blocking(f)
}

/// The number of the worker on which the calling task or user-level thread runs now: its place in
/// [`Metrics::workers`], and what [`Handle::spawn_pinned_on`] takes. A task may find another after each `.await`.
///
/// `None` on other threads, so in [`Runtime::block_on`], in [`spawn_blocking`], inside of
/// [`block_in_place`](crate::task::block_in_place), and in a task that another thread runs while all workers are in
/// there. A guard of [`Handle::enter`] changes nothing: it is a worker of the runtime that runs the task.
///
/// ```
/// let runtime = quadrille::Runtime::builder().worker_threads(2).build()?;
/// let pinned = runtime.handle().spawn_pinned_on(1, || async { quadrille::worker_index() });
/// assert_eq!(runtime.block_on(pinned)?, Some(1));
/// assert_eq!(runtime.block_on(async { quadrille::worker_index() }), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn worker_index() -> Option<usize> {
    Context::with(|context| context.map(|context| context.id.index()))
}

#[inline]
fn spawn_here<F>(context: &Context, options: Options, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let (set, turn) = options.set.unzip();
    let set = set.unwrap_or_else(|| context.set.get().inherited());
    let policy = context.shared.new_policy(Some(context.id), set);
    let (runnable, handle) = allocate(&context.shared, Some(context), policy, options, future);
    context.spawn(runnable, turn);
    handle
}

/// Spawns what `make` makes, on the runtime behind `shared`.
///
/// # Safety
/// As [`allocate_unchecked`].
pub(crate) unsafe fn spawn_unchecked<B>(
    shared: &Arc<Shared>,
    options: Options,
    make: impl FnOnce() -> B,
) -> JoinHandle<B::Output>
where
    B: Body + Send,
    B::Output: Send,
{
    Context::with(|context| {
        let here = context.filter(|context| Arc::ptr_eq(&context.shared, shared));
        let ((set, turn), worker) = (options.set.unzip(), options.worker);
        let set = set.unwrap_or_else(|| here.map_or_else(SetId::default, |context| context.set.get().inherited()));
        let policy = shared.new_policy(here.map(|context| context.id), set);
        // SAFETY: passed on.
        let (runnable, handle) = unsafe { allocate_unchecked(shared, here, policy, options, make) };
        match (here, worker) {
            (Some(context), Some(worker)) => context.spawn_named(runnable, worker),
            (Some(context), None) => context.spawn(runnable, turn),
            (None, _) => shared.spawn_foreign(runnable, turn),
        }
        handle
    })
}

/// Calls `f` with the current runtime, without counting references on a worker; see [`Handle::current`].
#[track_caller]
#[inline]
pub(crate) fn with_current<R>(f: impl FnOnce(&Arc<Shared>) -> R) -> R {
    with_current_worker(|shared, _| f(shared))
}

/// The same, and the worker of it that the calling thread is.
#[track_caller]
#[inline]
pub(crate) fn with_current_worker<R>(f: impl FnOnce(&Arc<Shared>, Option<&Context>) -> R) -> R {
    if current::is_worker() {
        return Context::with(|context| f(&context.expect("asked just above").shared, context));
    }
    f(&Handle::current().shared, None)
}

/// A closure as a future that is ready when first polled.
struct Blocking<F>(Option<F>);

impl<F> Unpin for Blocking<F> {}

impl<F: FnOnce() -> R, R> Future for Blocking<F> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<R> {
        let f = self.0.take().expect("a blocking task is polled once");
        Poll::Ready(f())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Runs `test` in a runtime of one worker, and shuts it down.
    pub(crate) fn with_runtime(test: impl FnOnce()) {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        let _entered = runtime.enter();
        test();
    }
}
