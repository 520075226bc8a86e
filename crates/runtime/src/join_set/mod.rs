//! A set of tasks whose results come in the order in which they finish.

mod map;
mod member;
mod members;

use std::fmt;
use std::future::{Future, poll_fn};
use std::task::{Context, Poll};

pub use self::map::JoinMap;
use self::member::Member;
use self::members::Members;
use crate::coop;
use crate::runtime::{self, Handle};
use crate::sched::waits_for_a_task;
use crate::task::{self, AbortHandle, Id, JoinError, JoinHandle};
use crate::thread;

/// Tasks, and user-level threads, that belong together: awaited in the order in which they finish, aborted when the set
/// is dropped.
///
/// Waiting costs what the tasks that have finished cost, however many there are in the set.
///
/// A set needs about 100 bytes for each task besides what the task does, for as many as were in it at the same time.
/// Of that it gives back what is more than 1,024 tasks need, once it has needed less than a quarter for a while: from
/// one time that it is empty to the next, or, if it never is, until as many results have been taken as it has room for.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use quadrille::JoinSet;
///
/// let mut set = JoinSet::new();
/// for number in 0..10 {
///     set.spawn(async move { number * number });
/// }
/// let mut sum = 0;
/// while let Some(result) = set.join_next().await {
///     sum += result.unwrap();
/// }
/// assert_eq!(sum, 285);
/// # });
/// ```
#[must_use = "dropping the set aborts its tasks"]
pub struct JoinSet<T> {
    members: Members<Member<T>>,
}

impl<T> JoinSet<T> {
    /// An empty set.
    pub fn new() -> Self {
        JoinSet {
            members: Members::new(Member::takes),
        }
    }

    /// How many tasks are in the set: those whose results have not been taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Room for so many tasks is not given back at present.
    pub(super) fn slots_kept(&self) -> usize {
        self.members.slots_kept()
    }

    /// Is no task in the set?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Asks all tasks to stop at their next suspension point, and threads to unwind from it. They stay in the set until
    /// their results are taken: cancelled, unless they finished first.
    pub fn abort_all(&mut self) {
        self.members.iter().for_each(Member::abort);
    }

    /// Removes all tasks from the set and lets them run on.
    pub fn detach_all(&mut self) {
        self.members.clear();
    }
}

impl<T: 'static> JoinSet<T> {
    /// Spawns a task on the worker that the calling code runs on, to stay there, and adds it to the set; see
    /// [`task::spawn_local`](crate::task::spawn_local).
    ///
    /// # Panics
    ///
    /// As that.
    #[track_caller]
    pub fn spawn_local<F>(&mut self, future: F) -> AbortHandle
    where
        F: Future<Output = T> + 'static,
    {
        self.insert(task::spawn_local(future))
    }

    /// Adds a task that was spawned before.
    pub(crate) fn insert(&mut self, task: JoinHandle<T>) -> AbortHandle {
        let abort = task.abort_handle();
        self.members.insert(Member::Task(task));
        abort
    }
}

impl<T: Send + 'static> JoinSet<T> {
    /// Spawns a task on the current runtime, and adds it to the set.
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn spawn<F>(&mut self, future: F) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.insert(runtime::spawn(future))
    }

    /// Spawns a task on the runtime of `handle`, and adds it to the set.
    #[track_caller]
    pub fn spawn_on<F>(&mut self, future: F, handle: &Handle) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.insert(handle.spawn(future))
    }

    /// Runs a closure that may block on the blocking pool of the current runtime, and adds it to the set. It can't be
    /// aborted once it has begun.
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn spawn_blocking<F>(&mut self, f: F) -> AbortHandle
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.insert(runtime::spawn_blocking(f))
    }

    /// Runs a closure that may block on the blocking pool of `handle`, and adds it to the set; see
    /// [`spawn_blocking`](Self::spawn_blocking).
    pub fn spawn_blocking_on<F>(&mut self, f: F, handle: &Handle) -> AbortHandle
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.insert(handle.spawn_blocking(f))
    }

    /// Spawns a user-level thread on the current runtime, and adds it to the set. Where the set aborts it, it unwinds:
    /// see [`thread::JoinHandle::abort`].
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller); if there is no memory for its stack.
    ///
    /// ```
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// use quadrille::{JoinSet, thread};
    ///
    /// let mut set = JoinSet::new();
    /// set.spawn_thread(|| {
    ///     thread::sleep(std::time::Duration::from_millis(1));
    ///     "a thread"
    /// });
    /// set.spawn(async { "a task" });
    /// let mut results = set.join_all().await;
    /// results.sort();
    /// assert_eq!(results, ["a task", "a thread"]);
    /// # });
    /// ```
    #[track_caller]
    pub fn spawn_thread<F>(&mut self, f: F) -> thread::AbortHandle
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.insert_thread(thread::spawn(f))
    }

    /// Spawns a user-level thread on the runtime of `handle`, and adds it to the set; see
    /// [`spawn_thread`](Self::spawn_thread).
    ///
    /// # Panics
    ///
    /// If there is no memory for its stack.
    #[track_caller]
    pub fn spawn_thread_on<F>(&mut self, f: F, handle: &Handle) -> thread::AbortHandle
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.insert_thread(handle.spawn_thread(f))
    }

    pub(crate) fn insert_thread(&mut self, thread: thread::JoinHandle<T>) -> thread::AbortHandle {
        let abort = thread.abort_handle();
        self.members.insert(Member::Thread(thread));
        abort
    }
}

impl<T> JoinSet<T> {
    /// Waits until one of the tasks has finished, removes it from the set and returns its result; `None` if the set is
    /// empty.
    ///
    /// # Errors
    ///
    /// The result is an error if the task has panicked or was cancelled.
    ///
    /// # Cancel safety
    ///
    /// Strict: a task leaves the set only when its result is returned.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        poll_fn(|cx| self.poll_join_next(cx)).await
    }

    /// As [`join_next`](Self::join_next), with the id of the task; [`JoinError::id`] has it where there is no result.
    ///
    /// # Cancel safety
    ///
    /// As there.
    ///
    /// ```
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// let mut set = quadrille::JoinSet::new();
    /// let id = set.spawn(async { 7 }).id();
    /// assert_eq!(set.join_next_with_id().await.unwrap().unwrap(), (id, 7));
    /// # });
    /// ```
    pub async fn join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
        poll_fn(|cx| self.poll_join_next_with_id(cx)).await
    }

    /// The result of a task that has finished; `None` if there is none at the moment, or the set is empty.
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.try_finished().map(|(_, result)| result)
    }

    /// As [`try_join_next`](Self::try_join_next), with the id of the task.
    pub fn try_join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
        self.try_finished().map(with_id)
    }

    /// Polls for the next result: `Ready(None)` if the set is empty, `Pending` if no task has finished. The waker of
    /// the last poll is called when that changes.
    pub fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        let polled = self.poll_finished(cx);
        polled.map(|finished| finished.map(|(_, result)| result))
    }

    /// As [`poll_join_next`](Self::poll_join_next), with the id of the task.
    pub fn poll_join_next_with_id(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<(Id, T), JoinError>>> {
        self.poll_finished(cx).map(|finished| finished.map(with_id))
    }

    fn try_finished(&mut self) -> Option<Finished<T>> {
        // There is no later turn to put it off to.
        coop::without_limit(|| self.members.try_next())
    }

    fn poll_finished(&mut self, cx: &mut Context<'_>) -> Poll<Option<Finished<T>>> {
        let polled = self.poll_unhurried(cx);
        if polled.is_pending() {
            waits_for_a_task();
        }
        polled
    }

    /// [`poll_join_next`](Self::poll_join_next) for who does not wait for what it spawned last: that goes after what
    /// waits for longer.
    pub(crate) fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        let polled = self.poll_unhurried(cx);
        polled.map(|finished| finished.map(|(_, result)| result))
    }

    fn poll_unhurried(&mut self, cx: &mut Context<'_>) -> Poll<Option<Finished<T>>> {
        // One unit for each result; the polls of the members are our own business.
        coop::poll_progress(cx, |cx| coop::without_limit(|| self.members.poll_next(cx)))
    }

    /// Aborts all tasks and waits until they are gone.
    ///
    /// # Cancel safety
    ///
    /// Strict: the tasks are aborted with the first poll; calling again waits for the rest.
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while self.join_next().await.is_some() {}
    }

    /// Waits for all tasks; returns what they gave, in the order in which they finished.
    ///
    /// # Panics
    ///
    /// With the panic of a task that has panicked, or if a task was cancelled; the others are aborted.
    ///
    /// # Cancel safety
    ///
    /// Not safe: dropping it aborts the tasks and loses all results. [`join_next`](Self::join_next) keeps them.
    pub async fn join_all(mut self) -> Vec<T> {
        let mut outputs = Vec::with_capacity(self.len());
        while let Some(result) = self.join_next().await {
            match result {
                Ok(output) => outputs.push(output),
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(error) => panic!("a task of the set gave no result: {error}"),
            }
        }
        outputs
    }
}

/// A task that is no longer in the set, and what it gave.
type Finished<T> = (Member<T>, Result<T, JoinError>);

fn with_id<T>((task, result): Finished<T>) -> Result<(Id, T), JoinError> {
    result.map(|value| (task.id(), value))
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.abort_all();
    }
}

impl<T> Default for JoinSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet").field("len", &self.len()).finish()
    }
}

/// Spawns each future on the current runtime.
impl<T: Send + 'static, F: Future<Output = T> + Send + 'static> FromIterator<F> for JoinSet<T> {
    fn from_iter<I: IntoIterator<Item = F>>(futures: I) -> Self {
        let mut set = JoinSet::new();
        set.extend(futures);
        set
    }
}

/// Spawns each future on the current runtime, and adds it to the set.
impl<T: Send + 'static, F: Future<Output = T> + Send + 'static> Extend<F> for JoinSet<T> {
    fn extend<I: IntoIterator<Item = F>>(&mut self, futures: I) {
        for future in futures {
            self.spawn(future);
        }
    }
}

#[cfg(test)]
mod tests;
