//! Waiting for tasks to end without keeping their handles.
//!
//! A tracker is one word, twice the number of tokens that live and one if it is closed, and those who wait for that to
//! be one: closed and empty. Whoever makes it so, by closing it or by dropping the last token, does that under the lock
//! of those who wait, opens a new *round* in the same section, and wakes them. All other changes of the word need no
//! lock.
//!
//! Who begins to wait looks at the word and the round in one section. An end that comes before is over, or is what it
//! sees; one that comes after opens a round, by which the wait ends, even if the tracker is not closed or not empty any
//! more. It takes its place in the list in the section in which it sees no new round, and so is found there.
//!
//! The losing interleaving, if the round began in a section of its own: who has dropped the last token is late for
//! that; one who waits sees the end, opens the tracker, makes a token, closes it, and waits again; the late round ends
//! this wait, though the token lives.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::JoinHandle;
use crate::coop;
use crate::guarded::guarded;
use crate::primitives::{AtomicUsize, Ordering};
use crate::runtime::{self, Handle};
use crate::sync::watched::{Place, Watched, Watching};
use crate::thread;

/// Counts tasks, and waits until all have ended; like tokio-util's.
///
/// Unlike a [`JoinSet`](crate::JoinSet) it keeps no results, so a server can use it for ever: a task costs nothing once
/// it has ended. [`wait`](Self::wait) needs the tracker to be [closed](Self::close), which refuses nothing: tasks can
/// still be added, and are waited for. All clones are one tracker.
///
/// A graceful shutdown: tell all to stop, and give them some time.
///
/// ```
/// use quadrille::sync::CancellationToken;
/// use quadrille::task::TaskTracker;
/// use quadrille::time::{Duration, timeout};
///
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// let (tracker, token) = (TaskTracker::new(), CancellationToken::new());
/// for _ in 0..10 {
///     let token = token.clone();
///     tracker.spawn(async move {
///         token.cancelled().await;
///         // Finish what was begun.
///     });
/// }
/// token.cancel();
/// tracker.close();
/// let ended = timeout(Duration::from_secs(30), tracker.wait()).await;
/// assert!(ended.is_ok(), "{} tasks are left", tracker.len());
/// # });
/// ```
#[derive(Clone)]
pub struct TaskTracker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// See the module.
    word: AtomicUsize,
    round: Watched<u64>,
}

/// In the word: the tracker is closed.
const CLOSED: usize = 1;
/// In the word: one token.
const TOKEN: usize = 2;

impl Watching for Shared {
    type State = u64;

    fn watched(&self) -> &Watched<u64> {
        &self.round
    }
}

impl Shared {
    fn word(&self) -> usize {
        // Ordering: Acquire; pairs with the Release of `token_dropped`: what the tasks did happens before the wait
        // ends.
        self.word.load(Ordering::Acquire)
    }

    fn is_over(&self) -> bool {
        self.word() == CLOSED
    }

    /// Takes a step that makes the tracker closed and empty if the word is `last` before it: then a round begins in the
    /// same section. What the word was.
    #[cold]
    fn may_end(&self, last: usize, step: impl FnOnce(&AtomicUsize) -> usize) -> usize {
        self.round.change(|round| {
            let before = step(&self.word);
            if before == last {
                *round += 1;
            }
            (before == last, before)
        })
    }

    fn token_made(&self) {
        // Ordering: Relaxed; who makes it has a token, or the tracker, and hands it on in some way that orders this
        // before its end.
        self.word.fetch_add(TOKEN, Ordering::Relaxed);
    }

    fn token_dropped(&self) {
        const LAST: usize = TOKEN | CLOSED;
        // Ordering: Relaxed; the exchange looks again.
        let mut word = self.word.load(Ordering::Relaxed);
        while word != LAST {
            let without = word - TOKEN;
            // Ordering: Release; hands over what the task did, to `word` and to who drops the last one. Relaxed on
            // failure, which reads nothing else.
            let changed = self
                .word
                .compare_exchange_weak(word, without, Ordering::Release, Ordering::Relaxed);
            match changed {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
        // Ordering: AcqRel; as above, and takes in what the tasks before it did, for the round.
        self.may_end(LAST, |word| word.fetch_sub(TOKEN, Ordering::AcqRel));
    }
}

impl TaskTracker {
    /// A tracker that is open and empty.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                word: AtomicUsize::new(0),
                round: Watched::new(0),
            }),
        }
    }

    /// Waits until the tracker is closed and empty: at this moment, or at any moment from the call on, however short.
    ///
    /// # Cancel safety
    /// Strict, but for a moment that passes between the drop and the next call.
    pub fn wait(&self) -> TaskTrackerWaitFuture<'_> {
        let shared = &*self.shared;
        TaskTrackerWaitFuture {
            round: shared.round.with(|round| (!shared.is_over()).then_some(*round)),
            place: Place::new(&self.shared),
        }
    }

    /// Closes the tracker, so that [`wait`](Self::wait) can end. False if it was closed.
    pub fn close(&self) -> bool {
        // Ordering: AcqRel; as who drops the last token, whose place it takes if there is none.
        let close = |word: &AtomicUsize| word.fetch_or(CLOSED, Ordering::AcqRel);
        self.shared.may_end(0, close) & CLOSED == 0
    }

    /// Opens the tracker again. False if it was open.
    pub fn reopen(&self) -> bool {
        // Ordering: AcqRel; a later end sees what was done before this.
        self.shared.word.fetch_and(!CLOSED, Ordering::AcqRel) & CLOSED != 0
    }

    /// Whether the tracker is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.word() & CLOSED != 0
    }

    /// How many tasks and tokens there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.word() / TOKEN
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Spawns a task on the current runtime, and tracks it.
    ///
    /// # Panics
    /// Outside a runtime.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        runtime::spawn(self.track_future(future))
    }

    /// Spawns a task on the runtime of `handle`, and tracks it.
    #[track_caller]
    pub fn spawn_on<F>(&self, future: F, handle: &Handle) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        handle.spawn(self.track_future(future))
    }

    /// Spawns a task on the worker that the calling code runs on, to stay there, and tracks it.
    ///
    /// # Panics
    /// As [`task::spawn_local`](super::spawn_local).
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        super::spawn_local(self.track_future(future))
    }

    /// Runs a closure that may block on the blocking pool of the current runtime, and tracks it.
    ///
    /// # Panics
    /// Outside a runtime.
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, f: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        runtime::spawn_blocking(self.track_call(f))
    }

    /// Runs a closure that may block on the blocking pool of `handle`, and tracks it.
    pub fn spawn_blocking_on<F, R>(&self, f: F, handle: &Handle) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        handle.spawn_blocking(self.track_call(f))
    }

    /// Spawns a user-level thread on the current runtime, and tracks it.
    ///
    /// # Panics
    /// As [`thread::spawn`](crate::thread::spawn).
    #[track_caller]
    pub fn spawn_thread<F, T>(&self, f: F) -> thread::JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        thread::spawn(self.track_call(f))
    }

    /// `f`, tracked until it has returned or is dropped.
    fn track_call<F: FnOnce() -> R, R>(&self, f: F) -> impl FnOnce() -> R + use<F, R> {
        guarded(f, self.token())
    }

    /// `future`, tracked until it is dropped: not only until it is ready.
    ///
    /// # Cancel safety
    /// That of `future`, which is dropped first: whoever waits for the tracker goes on after that.
    pub fn track_future<F: Future>(&self, future: F) -> TrackedFuture<F> {
        TrackedFuture {
            future,
            token: self.token(),
        }
    }

    /// A token, which counts as a task until it is dropped.
    #[must_use = "what is tracked ends when the token is dropped"]
    pub fn token(&self) -> TaskTrackerToken {
        self.shared.token_made();
        TaskTrackerToken { tracker: self.clone() }
    }

    /// Whether both are the same tracker.
    #[must_use]
    pub fn ptr_eq(left: &Self, right: &Self) -> bool {
        Arc::ptr_eq(&left.shared, &right.shared)
    }
}

impl Default for TaskTracker {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TaskTracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskTracker")
            .field("len", &self.len())
            .field("is_closed", &self.is_closed())
            .finish()
    }
}

/// Counts as a task of its tracker while it lives; made by [`TaskTracker::token`].
#[derive(Debug)]
pub struct TaskTrackerToken {
    tracker: TaskTracker,
}

impl TaskTrackerToken {
    /// Its tracker.
    #[must_use]
    pub fn task_tracker(&self) -> &TaskTracker {
        &self.tracker
    }
}

impl Clone for TaskTrackerToken {
    /// Another token of the same tracker.
    fn clone(&self) -> Self {
        self.tracker.token()
    }
}

impl Drop for TaskTrackerToken {
    fn drop(&mut self) {
        self.tracker.shared.token_dropped();
    }
}

pin_project! {
    /// A future that its tracker counts until it is dropped; made by [`TaskTracker::track_future`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct TrackedFuture<F> {
        // Dropped in this order.
        #[pin]
        future: F,
        token: TaskTrackerToken,
    }
}

impl<F: Future> Future for TrackedFuture<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.project().future.poll(cx)
    }
}

pin_project! {
    /// The future of [`TaskTracker::wait`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct TaskTrackerWaitFuture<'a> {
        // That of the call; `None` if it was over then.
        round: Option<u64>,
        #[pin]
        place: Place<&'a Arc<Shared>>,
    }
}

impl Future for TaskTrackerWaitFuture<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let Some(begun) = *this.round else {
            return coop::poll_spend(cx);
        };
        let look = |_: &&Arc<Shared>, round: &mut u64| (*round != begun).then_some(());
        coop::poll_progress(cx, |cx| this.place.poll(cx, look))
    }
}

impl fmt::Debug for TaskTrackerWaitFuture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskTrackerWaitFuture").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use futures_lite::future::{block_on, poll_once};

    use super::*;

    /// Every script of six steps: a wait that was begun ends exactly if the tracker was closed and empty since.
    #[test]
    fn every_short_script() {
        for script in 0..4_usize.pow(6) {
            let tracker = TaskTracker::new();
            let (mut tokens, mut closed) = (Vec::new(), false);
            // Each wait, and whether it is to end.
            let mut waits = Vec::new();
            for at in 0..6 {
                waits.push((Box::pin(tracker.wait()), closed && tokens.is_empty()));
                if at % 2 == 0 {
                    let (wait, over) = waits.last_mut().expect("just pushed");
                    assert_eq!(block_on(poll_once(wait.as_mut())).is_some(), *over);
                }
                match script / 4_usize.pow(at) % 4 {
                    0 => tokens.push(tracker.token()),
                    1 => _ = tokens.pop(),
                    2 => {
                        assert_eq!(tracker.close(), !closed);
                        closed = true;
                    }
                    _ => {
                        assert_eq!(tracker.reopen(), closed);
                        closed = false;
                    }
                }
                assert_eq!((tracker.len(), tracker.is_closed()), (tokens.len(), closed));
                let over = closed && tokens.is_empty();
                waits.iter_mut().for_each(|(_, ends)| *ends |= over);
            }
            for (wait, ends) in waits {
                assert_eq!(block_on(poll_once(wait)).is_some(), ends, "script {script}");
            }
        }
    }

    #[test]
    fn what_is_tracked_is_waited_for_until_it_is_dropped() {
        let tracker = TaskTracker::new();
        let mut future = Box::pin(tracker.track_future(async { 5 }));
        assert_eq!(block_on(future.as_mut()), 5);
        assert_eq!(tracker.len(), 1, "it is ready, and there");
        drop(future);
        assert!(tracker.is_empty());
        let token = tracker.token();
        let again = token.clone();
        assert!(TaskTracker::ptr_eq(token.task_tracker(), again.task_tracker()));
        assert_eq!(tracker.len(), 2);
        drop(token);
        let mut wait = Box::pin(tracker.wait());
        assert!(!tracker.clone().is_closed() && tracker.close());
        assert!(block_on(poll_once(wait.as_mut())).is_none());
        std::thread::scope(|scope| {
            scope.spawn(|| block_on(wait));
            drop(again);
        });
    }
}
