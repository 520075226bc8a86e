//! Telling one who waits, or all, that something has happened.
//!
//! Under one lock are a *permit*, and two lists: of those who are *waiting*, and of those who are *released* and have
//! yet to be woken. There is a number of *rounds*, which is raised under the lock, too. A future knows the round in
//! which it was made.
//!
//! | a future is | its round is | its waiter is | left by |
//! |---|---|---|---|
//! | new | the current one | none | its poll: the permit, if there is one, ends it, or makes it told if the task's budget is spent; or it is waiting |
//! | waiting | the current one | in the list `waiting` | `notify_one`: told; `notify_waiters`: released |
//! | told | any | `Notified`, in no list | its poll: ended; its drop: hands the notification on |
//! | released | an earlier one | none, or in the list `released`, or in no list | its poll: ended; its drop |
//! | ended | any | none | |
//!
//! The permit is there only while nobody is waiting: it is set where the list is found empty, and taken before anybody
//! enters it.
//!
//! # Theorem G: what is given arrives
//!
//! *(a) A `notify_one` ends one wait, or is the permit; of two permits one is left. (b) It does not end with a future
//! that is dropped. (c) A `notify_waiters` ends every wait whose future was made before, and no other. (d) Who is
//! released by it is given no `notify_one`.*
//!
//! (a) The list is asked, and the permit set, in one section of the lock; the permit is asked, and the list entered, in
//! one section of the lock. One comes first. (b) A future that is told leaves in the section in which the next one is
//! told, or the permit set. (c) The round is raised, and those who are waiting are moved to the list of the released,
//! in one section: who was made before has another round, polled or not, and who was in the list is woken from the
//! other one, in batches. A future is made without the lock: one that is made at the same time has been made before by
//! its round, or after. Who finds the new round sees whatever was done before that was raised, and so finds what it
//! waits for when it looks. (d) `notify_one` looks at the list of those who are waiting only. That a future is told can
//! be seen by its waiter, and not by its round, which may be over by the time it is dropped: so it hands on what it was
//! given, also then, and nothing else.
//!
//! A poll without budget must not end the wait, and yet is one: who was polled is told by the next `notify_one`. So it
//! enters the list like any other, and one that finds the permit is told there and then, by itself, and ends at its
//! next poll.
//!
//! Rejected: one list, and a count of those at its front who are released, as in `watched`. A `notify_one` would have
//! to pass over them. And a `notify_waiters` that takes all wakers in one section: as long as the list, with an
//! allocation under the lock.

use std::fmt;
use std::marker::PhantomPinned;
use std::mem;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;

use super::lock::Lock;
use super::waiters::{Wait, Waiter, Waiters};
use super::wake_all::Batch;
use crate::coop;
use crate::primitives::{AtomicU64, Ordering, const_fn};

/// Tells one who waits, or all, that something has happened; like tokio's.
///
/// It carries no data: what has happened is found out by who was told. [`notify_one`](Self::notify_one) that finds
/// nobody leaves a *permit*, one at most, which ends the next wait at once; so whoever looks at the data, and then
/// waits, misses nothing. Usable in tasks of any runtime, in user-level threads (`notify.notified().wait()`), and on
/// plain threads.
///
/// ```
/// use std::collections::VecDeque;
/// use std::sync::{Arc, Mutex};
/// use quadrille::sync::Notify;
///
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// let (jobs, changed) = (Mutex::new(VecDeque::new()), Notify::new());
/// let shared = Arc::new((jobs, changed));
/// let other = shared.clone();
/// let worker = quadrille::spawn(async move {
///     let (jobs, changed) = &*other;
///     loop {
///         let job = jobs.lock().unwrap().pop_front();
///         match job {
///             Some(job) => return job,
///             None => changed.notified().await,
///         }
///     }
/// });
/// shared.0.lock().unwrap().push_back("wash up");
/// shared.1.notify_one();
/// assert_eq!(worker.await.unwrap(), "wash up");
/// # });
/// ```
///
/// Where several wait for what several bring, two permits may become one while two who have looked have yet to wait.
/// Each makes its future first, then [enables](Notified::enable) it, then looks, then waits.
pub struct Notify {
    /// How many times all were told; raised under the lock, and read in it but for a future that is made. Label G: that
    /// one's load pairs with the addition of who tells all, so that who comes too late to be told sees what was done
    /// before.
    round: AtomicU64,
    state: Lock<State>,
}

/// See the module.
#[derive(Debug)]
struct State {
    waiting: Waiters,
    released: Waiters,
    permit: bool,
}

/// Which of those who are waiting is told.
#[derive(Debug, Clone, Copy)]
enum End {
    First,
    Last,
}

/// What a poll without budget has found.
#[must_use]
#[derive(Debug)]
enum Enrolled {
    /// Nothing has changed: its waker is to be cloned, see [`Wait::NeedsWaker`].
    NeedsWaker,
    /// It is waiting.
    Waiting,
    /// It was given the permit just now, and its waker is to be called.
    Told(Option<Waker>),
    /// It was told or released before, and will end at its next poll.
    Over,
}

impl State {
    /// Ends the wait of one, whose waker it is, or sets the permit.
    ///
    /// # Safety
    /// A1 and A2 of `waiters`.
    unsafe fn notify(&mut self, which: End) -> Option<Waker> {
        let told = match which {
            // SAFETY: the caller's.
            End::First => unsafe { self.waiting.notify_first() },
            // SAFETY: as above.
            End::Last => unsafe { self.waiting.notify_last() },
        };
        // Who is in the list has a waker there.
        self.permit |= told.is_none();
        told
    }

    /// The only list in which a waiter of a future can be, whose round `is_over` or is not.
    fn list_of(&mut self, is_over: bool) -> &mut Waiters {
        if is_over { &mut self.released } else { &mut self.waiting }
    }

    /// One look at whether a future has ended, whose round `is_over` or is not; if not it is waiting afterwards, with
    /// the waker `current`, of which `fresh` is a clone if it is anything (see [`Waiters::wait`]). Without a `current`
    /// it keeps the waker that it has. With a waker that is to be dropped outside of the lock.
    ///
    /// # Safety
    /// A1 and A2 of `waiters`; the waiter, if any, is that of one future of this `Notify`, and `is_over` true of it in
    /// this section.
    unsafe fn look(
        &mut self,
        is_over: bool,
        waiter: &mut Option<Waiter>,
        current: Option<&Waker>,
        fresh: &mut Option<Waker>,
    ) -> (Option<Wait>, Option<Waker>) {
        // SAFETY: A1, the caller's; A3, it is told, hence in no list, or this is not true.
        let is_told = waiter.as_ref().is_some_and(|w| unsafe { self.waiting.is_notified(w) });
        if is_told || is_over || self.permit {
            // It is left to who needs it.
            self.permit &= is_told || is_over;
            let list = self.list_of(is_over);
            // SAFETY: A1, the caller's; A3, in no other list.
            return (None, waiter.as_ref().and_then(|w| unsafe { list.leave(w) }));
        }
        let waiter = waiter.get_or_insert_with(Waiter::weak);
        // SAFETY: A1, the caller's; A3, its round is not over.
        let is_queued = unsafe { self.waiting.is_queued(waiter) };
        let current = match current {
            Some(current) => current,
            None if is_queued => return (Some(Wait::Queued), None),
            None => Waker::noop(),
        };
        // SAFETY: as above; A2, the caller's.
        let wait = unsafe { self.waiting.wait(waiter, current, fresh) };
        (Some(wait), None)
    }

    /// Sees to it that a future is waiting, or told, or released, and ends nothing; see [`look`](Self::look) for the
    /// waker.
    ///
    /// # Safety
    /// As `look`.
    unsafe fn enrol(
        &mut self,
        is_over: bool,
        waiter: &mut Option<Waiter>,
        current: &Waker,
        fresh: &mut Option<Waker>,
    ) -> Enrolled {
        let waiter = waiter.get_or_insert_with(Waiter::weak);
        // SAFETY: A1, the caller's; A3, it is told, hence in no list, or this is not true.
        if is_over || unsafe { self.waiting.is_notified(waiter) } {
            return Enrolled::Over;
        }
        // SAFETY: A1 and A2, the caller's; A3, its round is not over.
        let wait = unsafe { self.waiting.wait(waiter, current, fresh) };
        if wait == Wait::NeedsWaker {
            return Enrolled::NeedsWaker;
        }
        if mem::take(&mut self.permit) {
            // Nobody was waiting, so that it is this one, by its own waker.
            // SAFETY: A1 and A2, the caller's.
            return Enrolled::Told(unsafe { self.waiting.notify_first() });
        }
        Enrolled::Waiting
    }
}

impl Notify {
    const_fn! {
        /// Without a permit, and nobody waits.
        #[must_use]
        pub fn new() -> Self {
            Self {
                round: AtomicU64::new(0),
                state: Lock::new(State {
                    waiting: Waiters::new(),
                    released: Waiters::new(),
                    permit: false,
                }),
            }
        }
    }

    /// Waits for a notification: takes the permit if there is one, or waits to be told.
    ///
    /// By `notify_waiters` it is told from now on, by `notify_one` once it was polled or [enabled](Notified::enable).
    ///
    /// # Cancel safety
    /// Loses the place among those who wait. A notification is not lost: the next one gets it.
    pub fn notified(&self) -> Notified<'_> {
        Notified { turn: Turn::new(self) }
    }

    /// The same, with a future that keeps the `Notify` and borrows nothing.
    ///
    /// # Cancel safety
    /// As [`notified`](Self::notified).
    pub fn notified_owned(self: Arc<Self>) -> OwnedNotified {
        OwnedNotified { turn: Turn::new(self) }
    }

    /// Ends the wait of the one who waits longest, or leaves a permit if nobody waits. There is never more than one.
    pub fn notify_one(&self) {
        self.notify(End::First);
    }

    /// Ends the wait of the one who came last, or leaves a permit if nobody waits: a cache is warmer there. If that one
    /// is dropped before it could say so, the one who waits longest gets the notification.
    pub fn notify_last(&self) {
        self.notify(End::Last);
    }

    /// Ends the wait of all whose future was made before. Leaves no permit, and takes none away.
    pub fn notify_waiters(&self) {
        let mut batch = Batch::default();
        self.state.with(|state| {
            // Ordering: Release (G). A load and a store would do: nobody else writes.
            self.round.fetch_add(1, Ordering::Release);
            // SAFETY: A1, inside the section; A2, `Turn` sees to it.
            unsafe { state.released.append(&mut state.waiting) };
            // SAFETY: as above.
            batch.fill_from(|| unsafe { state.released.release_first() });
        });
        batch.wake_all(|batch| {
            self.state.with(|state| {
                // SAFETY: as above.
                batch.fill_from(|| unsafe { state.released.release_first() });
            });
        });
    }

    /// Whether all were told since that round: in a section of the lock, for as long as that.
    fn is_over(&self, round: u64) -> bool {
        // Ordering: Relaxed; under the lock it is as it was left.
        self.round.load(Ordering::Relaxed) != round
    }

    fn notify(&self, which: End) {
        // SAFETY: A1, inside the section; A2, `Turn` sees to it.
        let told = self.state.with(|state| unsafe { state.notify(which) });
        if let Some(waker) = told {
            waker.wake();
        }
    }
}

impl Default for Notify {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let permit = self.state.with(|state| state.permit);
        f.debug_struct("Notify")
            .field("permit", &permit)
            .finish_non_exhaustive()
    }
}

/// What both futures do. `N` is a reference to the `Notify`, the same one always.
#[derive(Debug)]
struct Turn<N: Deref<Target = Notify>> {
    notify: N,
    /// In which it was made.
    round: u64,
    /// While it is waiting, told or released; not before its first poll.
    waiter: Option<Waiter>,
    has_ended: bool,
    /// Neighbours in the list point to the waiter.
    _pinned: PhantomPinned,
}

impl<N: Deref<Target = Notify>> Turn<N> {
    fn new(notify: N) -> Self {
        // Ordering: Acquire (G).
        let round = notify.round.load(Ordering::Acquire);
        Self {
            notify,
            round,
            waiter: None,
            has_ended: false,
            _pinned: PhantomPinned,
        }
    }

    /// Ready once it has ended. Else it is waiting, with the waker `current`, or without one of its own.
    fn poll(self: Pin<&mut Self>, current: Option<&Waker>) -> Poll<()> {
        // SAFETY: the waiter is not moved while it is in a list.
        let this = unsafe { self.get_unchecked_mut() };
        let mut fresh = None;
        while !this.has_ended {
            let (wait, _stale) = this.notify.state.with(|state| {
                // SAFETY: A1, inside the section; A2, pinned, and dropped in place; it is this one's waiter.
                unsafe { state.look(this.notify.is_over(this.round), &mut this.waiter, current, &mut fresh) }
            });
            match wait {
                Some(Wait::Queued) => return Poll::Pending,
                Some(Wait::NeedsWaker) => fresh = Some(current.unwrap_or(Waker::noop()).clone()),
                None => {
                    this.waiter = None;
                    this.has_ended = true;
                }
            }
        }
        Poll::Ready(())
    }

    /// Polls it for a task, which pays with its budget for the end of the wait.
    fn poll_budgeted(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if coop::has_budget_remaining() {
            return coop::poll_progress(cx, |cx| self.poll(Some(cx.waker())));
        }
        self.poll_spent(cx.waker());
        Poll::Pending
    }

    /// A poll of a task that has no budget: it is waiting afterwards, or `current` was called, for a poll that can end
    /// it.
    #[cold]
    fn poll_spent(self: Pin<&mut Self>, current: &Waker) {
        // SAFETY: the waiter is not moved while it is in a list.
        let this = unsafe { self.get_unchecked_mut() };
        let mut fresh = None;
        while !this.has_ended {
            let enrolled = this.notify.state.with(|state| {
                // SAFETY: A1, inside the section; A2, pinned, and dropped in place; it is this one's waiter.
                unsafe { state.enrol(this.notify.is_over(this.round), &mut this.waiter, current, &mut fresh) }
            });
            match enrolled {
                Enrolled::NeedsWaker => fresh = Some(current.clone()),
                Enrolled::Waiting => return,
                Enrolled::Told(None) | Enrolled::Over => break,
                Enrolled::Told(Some(waker)) => return waker.wake(),
            }
        }
        current.wake_by_ref();
    }
}

impl<N: Deref<Target = Notify>> Drop for Turn<N> {
    fn drop(&mut self) {
        let Some(waiter) = &self.waiter else { return };
        let (told, _stale) = self.notify.state.with(|state| {
            // SAFETY: A1, inside the section; A3, in no other list than `list_of` says.
            let is_told = unsafe { state.waiting.is_notified(waiter) };
            // SAFETY: as above.
            let stale = unsafe { state.list_of(self.notify.is_over(self.round)).leave(waiter) };
            // SAFETY: as above; A2, every `Turn` sees to it.
            let told = is_told.then(|| unsafe { state.notify(End::First) });
            (told.flatten(), stale)
        });
        if let Some(waker) = told {
            waker.wake();
        }
    }
}

pin_project! {
    /// The future of [`Notify::notified`]. Once it is ready it stays so.
    #[must_use = "futures do nothing unless awaited"]
    pub struct Notified<'a> {
        #[pin]
        turn: Turn<&'a Notify>,
    }
}

pin_project! {
    /// The future of [`Notify::notified_owned`]. Once it is ready it stays so.
    #[must_use = "futures do nothing unless awaited"]
    pub struct OwnedNotified {
        #[pin]
        turn: Turn<Arc<Notify>>,
    }
}

impl Notified<'_> {
    /// Takes its place among those who wait, which wakes nobody yet, or takes the permit: whether the wait is over.
    ///
    /// From now on a `notify_one` can end it. So nothing is missed between a look at what is waited for, and the wait:
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use quadrille::sync::Notify;
    ///
    /// async fn wait_until_set(flag: &AtomicBool, changed: &Notify) {
    ///     loop {
    ///         let mut notified = pin!(changed.notified());
    ///         notified.as_mut().enable();
    ///         if flag.load(Ordering::Acquire) {
    ///             return;
    ///         }
    ///         notified.await;
    ///     }
    /// }
    /// # let (flag, changed) = (AtomicBool::new(false), Notify::new());
    /// # let runtime = quadrille::Runtime::new().unwrap();
    /// # std::thread::scope(|scope| {
    /// #     scope.spawn(|| {
    /// #         flag.store(true, Ordering::Release);
    /// #         changed.notify_waiters();
    /// #     });
    /// #     runtime.block_on(wait_until_set(&flag, &changed));
    /// # });
    /// ```
    pub fn enable(self: Pin<&mut Self>) -> bool {
        self.project().turn.poll(None).is_ready()
    }
}

impl OwnedNotified {
    /// As [`Notified::enable`].
    pub fn enable(self: Pin<&mut Self>) -> bool {
        self.project().turn.poll(None).is_ready()
    }
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.project().turn.poll_budgeted(cx)
    }
}

impl Future for OwnedNotified {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.project().turn.poll_budgeted(cx)
    }
}

impl fmt::Debug for Notified<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notified").finish_non_exhaustive()
    }
}

impl fmt::Debug for OwnedNotified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedNotified").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests;
