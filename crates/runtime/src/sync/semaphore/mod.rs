//! Permits that are taken, given back, and waited for in order.
//!
//! Under one lock are how many permits are *free*, whether it is *closed*, and the list of those who are waiting, each
//! with the number that it wants.
//!
//! | a future is | its waiter is | left by |
//! |---|---|---|
//! | new | none | its poll: ended, if what it wants is free and nobody waits, or it is closed; else waiting. By a task whose budget is spent: new for ended, and it is polled again |
//! | waiting | in the list | permits that are free, once it is the first and they are enough: served; `close`: refused; its drop |
//! | served | `Notified`, in no list | its poll: ended, with its permits; its drop: they are free again |
//! | refused | `Out`, or yet in the list | its poll: ended, with an error; its drop |
//! | ended | any | |
//!
//! # Theorem: a permit is in one place
//!
//! *(a) A permit is free, or held, or that of a future that is served; `forget` and `forget_permits` alone take one
//! away. (b) Once no call is at work the first who waits wants more than are free. (c) Who waits is served in the order
//! of the first polls that found too few free or others waiting, those without budget among them. (d) Nobody waits for
//! a semaphore that is closed.*
//!
//! (a) Permits are taken from those that are free in the section that serves their future, of which its waiter's place
//! is the proof, or ends it. A future that is served and dropped gives them back, as does a permit that is dropped. (b)
//! Three things make it untrue: permits that become free, a first waiter who leaves for nothing, and wants that are
//! less than are free where somebody enters the list. The first two go on to serve, in the same section or in one of
//! the same call, until it is true again; of the third there is none, since nobody enters the list who could have been
//! served, but behind others. (c) Who finds somebody waiting takes nothing, however little it wants, and goes to the
//! back; only the first is served. (d) Who finds it closed does not enter the list, in the section of the look; those
//! who are there are refused by the call that closes it.
//!
//! A poll without budget must not end the wait, and yet is one where others wait: who was polled goes before who is
//! polled later, and it enters the list like any other. One that finds nobody waiting and enough free takes nothing,
//! and comes again in its task's next turn.
//!
//! Nobody waits for nothing: zero permits are had at once, or at the next turn.
//!
//! Rejected: to take those who need few before one who needs many. Where permits are always in use the latter never has
//! enough. Rejected: to serve who has no budget and need not wait. Its task sits in a queue meanwhile and holds what it
//! has no use for: two tasks that took a lock in a loop took 72 ns a turn in place of 24, since each met the other's.
//! Rejected: to wake who may be served, and let it take what is free when it runs. Who comes meanwhile takes it away,
//! or must not, and the permit lies idle in both cases until the other runs.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use super::block::block_on;
use super::lock::Lock;
use super::waiters::{Wait, Waiter, Waiters};
use super::wake_all::wake_all;
use crate::coop;
use crate::panics::FirstPanic;
use crate::primitives::const_fn;

mod acquire;
mod error;
mod permit;

pub(super) use self::acquire::Turn;
pub use self::acquire::{Acquire, AcquireOwned};
pub use self::error::{AcquireError, TryAcquireError};
pub(super) use self::permit::Held;
pub use self::permit::{OwnedSemaphorePermit, SemaphorePermit};

/// Lets so many at a time do something; like tokio's.
///
/// It has a number of permits. Who has taken one, or several at once, may go on; dropping a permit gives it back. Who
/// waits is served in the order in which the waits began: one who needs many is not overtaken by those who need few.
/// Usable in tasks of any runtime, in user-level threads (`semaphore.acquire_blocking()`), and on plain threads.
///
/// ```
/// use std::sync::Arc;
/// use quadrille::sync::Semaphore;
///
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// // At most two requests are served at a time.
/// let slots = Arc::new(Semaphore::new(2));
/// let mut requests = Vec::new();
/// for request in 0..10 {
///     let slot = slots.clone().acquire_owned().await?;
///     requests.push(quadrille::spawn(async move {
///         let answer = request * 2;
///         drop(slot);
///         answer
///     }));
/// }
/// for (request, answer) in requests.into_iter().enumerate() {
///     assert_eq!(answer.await.unwrap(), request * 2);
/// }
/// assert_eq!(slots.available_permits(), 2);
/// # Ok::<(), quadrille::sync::AcquireError>(())
/// # }).unwrap();
/// ```
pub struct Semaphore {
    state: Lock<State>,
}

/// See the module.
#[derive(Debug)]
struct State {
    free: usize,
    is_closed: bool,
    waiting: Waiters,
}

/// What one look of a future has come to.
#[derive(Debug)]
enum Look {
    Ended(Result<(), AcquireError>),
    Waits(Wait),
}

/// What a poll without budget has come to.
#[must_use]
#[derive(Debug)]
enum Enrolled {
    /// Nothing has changed: its waker is to be cloned, see [`Wait::NeedsWaker`].
    NeedsWaker,
    /// It is in the list.
    Waiting,
    /// It was served or refused, or need not wait: it is to be polled again.
    Over,
}

impl State {
    fn give_back(&mut self, permits: u32) {
        // With 32 bits there may be more than a `usize` counts, where some were added while others were held.
        self.free = self.free.saturating_add(permits as usize);
    }

    /// Takes what is wanted, unless somebody waits for what is free.
    fn try_take(&mut self, wants: u32) -> Result<(), TryAcquireError> {
        if self.is_closed {
            return Err(TryAcquireError::Closed);
        }
        if wants == 0 {
            return Ok(());
        }
        match self.free.checked_sub(wants as usize) {
            Some(rest) if self.waiting.is_empty() => {
                self.free = rest;
                Ok(())
            }
            _ => Err(TryAcquireError::NoPermits),
        }
    }

    /// Whether the first who waits can have what it wants.
    ///
    /// # Safety
    /// A1 and A2 of `waiters`.
    unsafe fn can_serve(&self) -> bool {
        // SAFETY: the caller's.
        let wants = unsafe { self.waiting.first_wants() };
        !self.is_closed && wants.is_some_and(|wants| wants as usize <= self.free)
    }

    /// Gives the first who waits what it wants, if that is free. With its waker, to be called outside of the lock.
    ///
    /// # Safety
    /// A1 and A2 of `waiters`.
    unsafe fn serve_first(&mut self) -> Option<Waker> {
        // SAFETY: the caller's.
        if !unsafe { self.can_serve() } {
            return None;
        }
        // SAFETY: the caller's.
        let wants = unsafe { self.waiting.first_wants() };
        self.free -= wants.unwrap_or(0) as usize;
        // SAFETY: the caller's. Who is in the list has a waker there.
        unsafe { self.waiting.notify_first() }
    }

    /// One look of a future at whether it has ended; if not it is waiting afterwards, with the waker `current`, of
    /// which `fresh` is a clone if it is anything (see [`Waiters::wait`]). With a waker that is to be dropped outside
    /// of the lock.
    ///
    /// # Safety
    /// A1 and A2 of `waiters`; the waiter, if any, is that of one future of this semaphore, which wants `wants`.
    unsafe fn look(
        &mut self,
        wants: u32,
        waiter: &mut Option<Waiter>,
        current: &Waker,
        fresh: &mut Option<Waker>,
    ) -> (Look, Option<Waker>) {
        if let Some(waiter) = waiter {
            // SAFETY: A1, the caller's; A3, there is no other list.
            let is_served = unsafe { self.waiting.is_notified(waiter) };
            if is_served {
                // SAFETY: as above.
                return (Look::Ended(Ok(())), unsafe { self.waiting.leave(waiter) });
            }
        }
        match self.try_take(wants) {
            Ok(()) => return (Look::Ended(Ok(())), None),
            Err(TryAcquireError::NoPermits) => {}
            Err(TryAcquireError::Closed) => {
                // SAFETY: A1 and A3, as above.
                let stale = waiter.as_ref().and_then(|w| unsafe { self.waiting.leave(w) });
                return (Look::Ended(Err(AcquireError)), stale);
            }
        }
        let waiter = waiter.get_or_insert_with(|| Waiter::wanting(wants));
        // SAFETY: A1 and A2, the caller's; A3, as above.
        (Look::Waits(unsafe { self.waiting.wait(waiter, current, fresh) }), None)
    }

    /// Sees to it that a future is waiting, unless it need not, and ends nothing; see [`look`](Self::look) for the
    /// waker.
    ///
    /// # Safety
    /// As `look`.
    unsafe fn enrol(
        &mut self,
        wants: u32,
        waiter: &mut Option<Waiter>,
        current: &Waker,
        fresh: &mut Option<Waker>,
    ) -> Enrolled {
        // SAFETY: A1, the caller's; A3, there is no other list.
        let is_served = waiter.as_ref().is_some_and(|w| unsafe { self.waiting.is_notified(w) });
        let need_not = self.is_closed || wants == 0 || self.waiting.is_empty() && wants as usize <= self.free;
        if is_served || need_not {
            return Enrolled::Over;
        }
        let waiter = waiter.get_or_insert_with(|| Waiter::wanting(wants));
        // SAFETY: A1 and A2, the caller's; A3, as above.
        match unsafe { self.waiting.wait(waiter, current, fresh) } {
            Wait::NeedsWaker => Enrolled::NeedsWaker,
            Wait::Queued => Enrolled::Waiting,
        }
    }
}

impl Semaphore {
    /// The most permits that [`new`](Self::new) and [`add_permits`](Self::add_permits) leave free, those that are held
    /// not counted: an eighth of what a `usize` counts.
    pub const MAX_PERMITS: usize = usize::MAX >> 3;

    const_fn! {
        /// With `permits` that are free.
        ///
        /// # Panics
        /// If they are more than [`MAX_PERMITS`](Self::MAX_PERMITS).
        #[must_use]
        #[track_caller]
        pub fn new(permits: usize) -> Self {
            assert!(permits <= Self::MAX_PERMITS, "a semaphore of more than Semaphore::MAX_PERMITS permits");
            Self {
                state: Lock::new(State {
                    free: permits,
                    is_closed: false,
                    waiting: Waiters::new(),
                }),
            }
        }
    }

    /// How many permits could be had at once: none while somebody waits, since what is free then is kept for the first.
    #[must_use]
    pub fn available_permits(&self) -> usize {
        self.state
            .with(|state| if state.waiting.is_empty() { state.free } else { 0 })
    }

    /// Makes more permits, and serves who waits for them.
    ///
    /// # Panics
    /// If more than [`MAX_PERMITS`](Self::MAX_PERMITS) would be free; nothing has changed then.
    ///
    /// ```
    /// let semaphore = quadrille::sync::Semaphore::new(0);
    /// assert!(semaphore.try_acquire().is_err());
    /// semaphore.add_permits(1);
    /// semaphore.try_acquire().unwrap().forget();
    /// assert_eq!(semaphore.available_permits(), 0);
    /// ```
    #[track_caller]
    pub fn add_permits(&self, permits: usize) {
        let mut free = 0;
        let mut fits = true;
        self.serve_after(|state| {
            free = state.free;
            fits = permits <= Self::MAX_PERMITS.saturating_sub(free);
            state.free += if fits { permits } else { 0 };
            None
        });
        assert!(
            fits,
            "{permits} permits added to {free} that are free are more than Semaphore::MAX_PERMITS"
        );
    }

    /// Takes up to `permits` of those that are free away, for ever: how many those were.
    ///
    /// ```
    /// let semaphore = quadrille::sync::Semaphore::new(3);
    /// assert_eq!(semaphore.forget_permits(5), 3);
    /// assert!(semaphore.try_acquire().is_err());
    /// ```
    pub fn forget_permits(&self, permits: usize) -> usize {
        self.state.with(|state| {
            let forgotten = permits.min(state.free);
            state.free -= forgotten;
            forgotten
        })
    }

    /// Takes a permit; waits while there is none, or others wait.
    ///
    /// # Errors
    /// If the semaphore is closed, also if that happens while waiting.
    /// # Cancel safety
    /// Strict, but for the order: a call that is dropped has taken nothing, and one that is made again queues behind
    /// all who wait.
    pub fn acquire(&self) -> Acquire<'_> {
        self.acquire_many(1)
    }

    /// Takes so many permits at once, in one [`SemaphorePermit`]; waits while there are fewer, or others wait. Those
    /// who come later wait behind it.
    ///
    /// With more than there are it waits until they are [added](Self::add_permits), and holds up all others.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// // A reader takes one, a writer all.
    /// let lock = quadrille::sync::Semaphore::new(100);
    /// let reader = lock.acquire().await?;
    /// assert!(lock.try_acquire_many(100).is_err());
    /// drop(reader);
    /// let _writer = lock.acquire_many(100).await?;
    /// assert!(lock.try_acquire().is_err());
    /// # Ok::<(), quadrille::sync::AcquireError>(())
    /// # }).unwrap();
    /// ```
    pub fn acquire_many(&self, permits: u32) -> Acquire<'_> {
        Acquire::new(self, permits)
    }

    /// As [`acquire`](Self::acquire), with a permit that keeps the semaphore and borrows nothing.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub fn acquire_owned(self: Arc<Self>) -> AcquireOwned {
        self.acquire_many_owned(1)
    }

    /// As [`acquire_many`](Self::acquire_many), with a permit that keeps the semaphore and borrows nothing.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub fn acquire_many_owned(self: Arc<Self>, permits: u32) -> AcquireOwned {
        AcquireOwned::new(self, permits)
    }

    /// As [`acquire`](Self::acquire), for threads.
    ///
    /// # Errors
    /// As there.
    /// # Blocking
    /// Suspends a user-level thread, and blocks an ordinary one. In a task it holds up its worker.
    ///
    /// ```
    /// let semaphore = quadrille::sync::Semaphore::new(1);
    /// let permit = semaphore.acquire_blocking()?;
    /// std::thread::scope(|scope| {
    ///     let waits = scope.spawn(|| semaphore.acquire_blocking().map(drop));
    ///     drop(permit);
    ///     waits.join().unwrap()
    /// })?;
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # Ok::<(), quadrille::sync::AcquireError>(())
    /// ```
    pub fn acquire_blocking(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.acquire_many_blocking(1)
    }

    /// As [`acquire_many`](Self::acquire_many), for threads.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    /// # Blocking
    /// As [`acquire_blocking`](Self::acquire_blocking).
    pub fn acquire_many_blocking(&self, permits: u32) -> Result<SemaphorePermit<'_>, AcquireError> {
        block_on(self.acquire_many(permits))
    }

    /// As [`acquire_owned`](Self::acquire_owned), for threads.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    /// # Blocking
    /// As [`acquire_blocking`](Self::acquire_blocking).
    pub fn acquire_owned_blocking(self: Arc<Self>) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.acquire_many_owned_blocking(1)
    }

    /// As [`acquire_many_owned`](Self::acquire_many_owned), for threads.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    /// # Blocking
    /// As [`acquire_blocking`](Self::acquire_blocking).
    pub fn acquire_many_owned_blocking(self: Arc<Self>, permits: u32) -> Result<OwnedSemaphorePermit, AcquireError> {
        block_on(self.acquire_many_owned(permits))
    }

    /// Takes a permit if one is free, and nobody waits.
    ///
    /// # Errors
    /// If not, or if the semaphore is closed.
    pub fn try_acquire(&self) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.try_acquire_many(1)
    }

    /// Takes so many permits if they are free, and nobody waits.
    ///
    /// # Errors
    /// If not, or if the semaphore is closed.
    pub fn try_acquire_many(&self, permits: u32) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        Held::try_take(self, permits).map(SemaphorePermit::new)
    }

    /// As [`try_acquire`](Self::try_acquire), with a permit that keeps the semaphore and borrows nothing.
    ///
    /// # Errors
    /// As there.
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.try_acquire_many_owned(1)
    }

    /// As [`try_acquire_many`](Self::try_acquire_many), with a permit that keeps the semaphore and borrows nothing.
    ///
    /// # Errors
    /// As there.
    pub fn try_acquire_many_owned(self: Arc<Self>, permits: u32) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        Held::try_take(self, permits).map(OwnedSemaphorePermit::new)
    }

    /// Refuses permits from now on: to who waits, and to who asks. Those that are held stay valid.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// let semaphore = quadrille::sync::Semaphore::new(1);
    /// semaphore.close();
    /// assert!(semaphore.acquire().await.is_err() && semaphore.is_closed());
    /// # });
    /// ```
    pub fn close(&self) {
        self.state.with(|state| state.is_closed = true);
        wake_all(|batch| {
            self.state.with(|state| {
                // SAFETY: A1, inside the section; A2, `acquire` sees to it.
                batch.fill_from(|| unsafe { state.waiting.release_first() });
            });
        });
    }

    /// Whether it is [closed](Self::close).
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state.with(|state| state.is_closed)
    }

    /// As [`State::try_take`].
    fn try_take_unpaid(&self, permits: u32) -> Result<(), TryAcquireError> {
        self.state.with(|state| state.try_take(permits))
    }

    /// The same for a task that pays with its budget.
    fn try_take(&self, permits: u32) -> Result<(), TryAcquireError> {
        let taken = self.try_take_unpaid(permits);
        if taken.is_ok() {
            coop::spend();
        }
        taken
    }

    /// Gives permits back, and serves who waits for them.
    fn give_back(&self, permits: u32) {
        self.serve_after(|state| {
            state.give_back(permits);
            None
        });
    }

    /// Makes `change`, and serves those who wait for as long as what is free is enough for the first. The waker that
    /// `change` leaves is dropped.
    fn serve_after(&self, change: impl FnOnce(&mut State) -> Option<Waker>) {
        let (_stale, first, goes_on) = self.state.with(|state| {
            let stale = change(state);
            // SAFETY: A1, inside the section; A2, `acquire` sees to it.
            let first = unsafe { state.serve_first() };
            // SAFETY: as above.
            (stale, first, unsafe { state.can_serve() })
        });
        let mut panic = FirstPanic::default();
        if let Some(waker) = first {
            panic.catch(|| waker.wake());
        }
        if goes_on {
            panic.catch(|| self.serve_all());
        }
        panic.go_on();
    }

    #[cold]
    fn serve_all(&self) {
        wake_all(|batch| {
            self.state.with(|state| {
                // SAFETY: A1, inside the section; A2, `acquire` sees to it.
                batch.fill_from(|| unsafe { state.serve_first() });
            });
        });
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (free, is_closed) = self.state.with(|state| (state.free, state.is_closed));
        f.debug_struct("Semaphore")
            .field("free", &free)
            .field("is_closed", &is_closed)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests;
