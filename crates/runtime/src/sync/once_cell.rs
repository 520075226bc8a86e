//! A value that is made once, by one at a time, asynchronously.
//!
//! | the cell is | the value | `is_set` | who has a turn | left by |
//! |---|---|---|---|---|
//! | empty | none | no | nobody | who takes the turn; `&mut` |
//! | being made | none, or being written | no | one | its value: set; its error, its panic, its drop: empty, or the turn of the next who waits |
//! | set | there, and lent | yes | nobody, for ever | `&mut` |
//!
//! A *turn* is the one permit of a semaphore of the cell's own, which is closed when the value is there: that refuses
//! all who wait for a turn at once. Who waits for a value and would not make one watches beside it.
//!
//! # Theorem Once: one value, and who asks for it gets it
//!
//! *(a) While the cell is shared one value is written at most, and nobody who has it sees it change. (b) What was
//! written before `is_set` is seen by who finds that set. (c) Who waits for a turn gets it, unless the value comes
//! first. (d) Once the value is there, nobody waits.*
//!
//! (a) Who writes has the turn, and got it of a semaphore that was open. The first one closes it before the turn is
//! given back, so there is no second. A cell that is made with its value has an open semaphore; there everybody finds
//! `is_set`, which is asked first. (b) It is set by Release, and read by Acquire. (c) The theorem of the semaphore; a
//! turn is dropped with the call that has it. (d) Closing refuses those who wait for a turn. Who watches looks at
//! `is_set` in the section in which it enters the list, and that list is told in a later section than `is_set`, or it
//! sees that.
//!
//! A forgotten future (`mem::forget`) that has the turn keeps it for ever. That delays others, and is safe.
//!
//! Rejected: one list of both kinds, in which `set` wakes all. Who fails would have to wake one of the right kind, and
//! who waits for the turn would have no order.

use std::cell::UnsafeCell;
use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::pin;

use super::block::block_on;
use super::semaphore::{AcquireError, Semaphore, SemaphorePermit};
use super::watched::{Place, Watched};
use crate::coop;
use crate::panics::FirstPanic;
use crate::primitives::{AtomicBool, Ordering, const_fn};

/// Keeps a value that is made when it is first wanted, across an `.await`; like tokio's.
///
/// One at a time makes it; the others wait. If that fails, panics or is dropped, the cell is empty as before, and the
/// one that waits longest has its turn. Once the value is there it stays, and [`get`](Self::get) costs one load.
///
/// Usable in tasks of any runtime, in user-level threads (`pin!(cell.wait()).wait()`, or the methods in `_blocking`),
/// and on plain threads. Who asks the cell for its value while it makes it waits for itself, for ever.
///
/// ```
/// use quadrille::sync::OnceCell;
///
/// static CONFIG: OnceCell<String> = OnceCell::new();
///
/// async fn config() -> &'static str {
///     CONFIG.get_or_init(async || String::from("read from afar")).await
/// }
///
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// let other = quadrille::spawn(async { config().await.len() });
/// assert_eq!(config().await.len(), other.await.unwrap());
/// # });
/// ```
pub struct OnceCell<T> {
    /// The right to make the value.
    turn: Semaphore,
    /// Who waits for the value, and does not want to make it.
    watched: Watched<()>,
    /// Whether the value is there. Once (b): the store that ends the making pairs with the loads that find it.
    is_set: AtomicBool,
    /// Written by who has the turn, while `is_set` is false; read by all when it is true.
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the value is reached through `&mut` of the cell, or is there for good and lent to all (a): `T: Sync`. It may
// have been made on another thread than the one that takes it out or drops it: `T: Send`. The rest of the cell is
// `Sync`.
unsafe impl<T: Send + Sync> Sync for OnceCell<T> {}

// As std's `OnceLock`, also in being `UnwindSafe` by itself: who panics while it makes the value leaves none.
impl<T: UnwindSafe + RefUnwindSafe> RefUnwindSafe for OnceCell<T> {}

impl<T> OnceCell<T> {
    const_fn! {
        /// Without a value.
        #[must_use]
        pub fn new() -> Self {
            Self::new_with(None)
        }
    }

    const_fn! {
        /// With that value, if it is one.
        ///
        /// ```
        /// static LIMIT: quadrille::sync::OnceCell<u32> = quadrille::sync::OnceCell::new_with(Some(5));
        /// assert_eq!(LIMIT.get(), Some(&5));
        /// ```
        #[must_use]
        pub fn new_with(value: Option<T>) -> Self {
            Self {
                turn: Semaphore::new(1),
                watched: Watched::new(()),
                is_set: AtomicBool::new(value.is_some()),
                value: UnsafeCell::new(value),
            }
        }
    }

    /// Whether there is a value.
    #[must_use]
    pub fn is_initialized(&self) -> bool {
        // Ordering: Acquire; (Once b) pairs with the store in `publish`, before which the value was written.
        self.is_set.load(Ordering::Acquire)
    }

    /// The value, if it is there. Never waits.
    ///
    /// ```
    /// let cell = quadrille::sync::OnceCell::new();
    /// assert_eq!(cell.get(), None);
    /// cell.try_set(5).unwrap();
    /// assert_eq!(cell.get(), Some(&5));
    /// ```
    #[must_use]
    #[inline]
    pub fn get(&self) -> Option<&T> {
        if !self.is_initialized() {
            return None;
        }
        // SAFETY: it can be read as long as `self` is borrowed: it was written before (b), is not written again (a),
        // and `&mut` of the cell is not to be had.
        unsafe { &*self.value.get() }.as_ref()
    }

    /// The value, without looking whether it is there.
    ///
    /// # Safety
    /// It is: [`get`](Self::get) would find it.
    #[must_use]
    #[inline]
    pub unsafe fn get_unchecked(&self) -> &T {
        // SAFETY: it is there, says the caller.
        unsafe { self.get().unwrap_unchecked() }
    }

    /// The value, if it is there, to be changed: nobody else can have it.
    #[must_use]
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut().as_mut()
    }

    /// Takes the value out; the cell is then as a new one.
    ///
    /// ```
    /// let mut cell = quadrille::sync::OnceCell::from(5);
    /// assert_eq!(cell.take(), Some(5));
    /// assert_eq!(cell.try_set(6), Ok(()));
    /// ```
    pub fn take(&mut self) -> Option<T> {
        mem::take(self).into_inner()
    }

    /// The value, if it is there.
    #[must_use]
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }

    /// Waits until there is a value, that somebody else makes.
    ///
    /// # Cancel safety
    /// Strict.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// let cell = quadrille::sync::OnceCell::new();
    /// let (value, set) = futures_lite::future::zip(cell.wait(), cell.set(5)).await;
    /// assert_eq!((value, set), (&5, Ok(&5)));
    /// # });
    /// ```
    pub async fn wait(&self) -> &T {
        if let Some(value) = self.get() {
            coop::consume_budget().await;
            return value;
        }
        let mut place = pin!(Place::new(&self.watched));
        let look = |_: &_, (): &mut ()| self.is_initialized().then_some(());
        poll_fn(|cx| coop::poll_progress(cx, |cx| place.as_mut().poll(cx, look))).await;
        self.found()
    }

    /// As [`wait`](Self::wait), for threads. Once the value is there it costs one load.
    ///
    /// # Blocking
    /// Suspends a user-level thread, and blocks an ordinary one. In a task it holds up its worker.
    pub fn wait_blocking(&self) -> &T {
        match self.get() {
            Some(value) => value,
            None => block_on(self.wait()),
        }
    }

    /// The value; makes it if there is none, or waits for who is making it.
    ///
    /// # Errors
    /// What `make`, or the future that it returns, has failed with. The cell is empty then, and the next who waits has
    /// its turn.
    /// # Panics
    /// If a waker of another who waits does; the value is set, and all were woken.
    /// # Cancel safety
    /// The future of `make` is dropped with this one, and the next who waits has its turn. Else strict, but for the
    /// order: one that is called again queues behind all who wait.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// let cell = quadrille::sync::OnceCell::new();
    /// assert_eq!(cell.get_or_try_init(async || "five".parse::<i32>()).await.ok(), None);
    /// assert_eq!(cell.get_or_try_init(async || "5".parse::<i32>()).await, Ok(&5));
    /// # });
    /// ```
    pub async fn get_or_try_init<E, F: Future<Output = Result<T, E>>>(
        &self,
        make: impl FnOnce() -> F,
    ) -> Result<&T, E> {
        // Not by way of `turn`: to set up its future costs more than this.
        if let Some(value) = self.get() {
            coop::consume_budget().await;
            return Ok(value);
        }
        match self.turn().await {
            Asked::Set(value) => Ok(value),
            Asked::Mine(turn) => {
                let made = make().await?;
                Ok(self.publish(turn, made))
            }
        }
    }

    /// As [`get_or_try_init`](Self::get_or_try_init), for threads. Once the value is there it costs one load.
    ///
    /// # Errors
    /// As there.
    /// # Panics
    /// As there.
    /// # Blocking
    /// As [`wait_blocking`](Self::wait_blocking); `make` runs on the calling thread, and a user-level one may be
    /// suspended by it.
    pub fn get_or_try_init_blocking<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        match self.turn_blocking() {
            Asked::Set(value) => Ok(value),
            Asked::Mine(turn) => {
                let made = make()?;
                Ok(self.publish(turn, made))
            }
        }
    }

    /// The value; makes it if there is none, or waits for who is making it.
    ///
    /// # Panics
    /// As [`get_or_try_init`](Self::get_or_try_init).
    /// # Cancel safety
    /// As [`get_or_try_init`](Self::get_or_try_init).
    pub async fn get_or_init<F: Future<Output = T>>(&self, make: impl FnOnce() -> F) -> &T {
        // As in `get_or_try_init`.
        if let Some(value) = self.get() {
            coop::consume_budget().await;
            return value;
        }
        let made = self.get_or_try_init(async || Ok(make().await));
        made.await.unwrap_or_else(|never: Infallible| match never {})
    }

    /// As [`get_or_init`](Self::get_or_init), for threads. Once the value is there it costs one load.
    ///
    /// # Panics
    /// As there.
    /// # Blocking
    /// As [`get_or_try_init_blocking`](Self::get_or_try_init_blocking).
    ///
    /// ```
    /// let cell = quadrille::sync::OnceCell::new();
    /// assert_eq!(cell.get_or_init_blocking(|| 5), &5);
    /// assert_eq!(cell.get_or_init_blocking(|| 6), &5);
    /// ```
    pub fn get_or_init_blocking(&self, make: impl FnOnce() -> T) -> &T {
        let made = self.get_or_try_init_blocking(|| Ok(make()));
        made.unwrap_or_else(|never: Infallible| match never {})
    }

    /// Sets the value, unless there is one; waits for who is making one.
    ///
    /// # Errors
    /// Gives the value back if there is one.
    /// # Panics
    /// As [`get_or_try_init`](Self::get_or_try_init).
    /// # Cancel safety
    /// Loses the value.
    pub async fn set(&self, value: T) -> Result<&T, T> {
        match self.turn().await {
            Asked::Set(_) => Err(value),
            Asked::Mine(turn) => Ok(self.publish(turn, value)),
        }
    }

    /// Sets the value, unless there is one, or somebody is making one.
    ///
    /// # Errors
    /// Gives the value back if so.
    /// # Panics
    /// As [`get_or_try_init`](Self::get_or_try_init).
    pub fn try_set(&self, value: T) -> Result<(), T> {
        if self.is_initialized() {
            return Err(value);
        }
        match self.turn.try_acquire() {
            Err(_) => Err(value),
            Ok(turn) => {
                self.publish(turn, value);
                Ok(())
            }
        }
    }

    /// As [`set`](Self::set), for threads.
    ///
    /// # Errors
    /// As there.
    /// # Panics
    /// As there.
    /// # Blocking
    /// As [`wait_blocking`](Self::wait_blocking).
    pub fn set_blocking(&self, value: T) -> Result<&T, T> {
        match self.turn_blocking() {
            Asked::Set(_) => Err(value),
            Asked::Mine(turn) => Ok(self.publish(turn, value)),
        }
    }

    /// Waits for the turn, or the value. A task pays for either with its budget.
    async fn turn(&self) -> Asked<'_, T> {
        if let Some(value) = self.get() {
            coop::consume_budget().await;
            return Asked::Set(value);
        }
        self.turn_or_value(self.turn.acquire().await)
    }

    fn turn_blocking(&self) -> Asked<'_, T> {
        match self.get() {
            Some(value) => Asked::Set(value),
            None => self.turn_or_value(block_on(self.turn.acquire())),
        }
    }

    /// What a wait for the turn, by who has found no value, has come to.
    fn turn_or_value<'a>(&'a self, acquired: Result<SemaphorePermit<'a>, AcquireError>) -> Asked<'a, T> {
        match acquired {
            Ok(permit) => Asked::Mine(permit),
            Err(AcquireError) => Asked::Set(self.found()),
        }
    }

    /// The value, for who was told that it is there.
    fn found(&self) -> &T {
        self.get().expect("who is told that there is a value finds it")
    }

    /// Ends the making with a value, and tells all who wait.
    ///
    /// # Panics
    /// If a waker does; the value is set, and all were woken.
    fn publish(&self, turn: SemaphorePermit<'_>, value: T) -> &T {
        debug_assert!(!self.is_initialized(), "who has the turn has found no value");
        // SAFETY: nobody else reaches it. Nobody else writes, without the turn (a), nor reads, while `is_set` is false;
        // `turn` was got by who had found that false, and while the semaphore is open it stays so.
        unsafe { *self.value.get() = Some(value) };
        // Ordering: Release; (Once b) to the load in `is_initialized`, whose reader reads the value.
        self.is_set.store(true, Ordering::Release);
        let mut panic = FirstPanic::default();
        panic.catch(|| self.turn.close());
        panic.catch(|| self.watched.change(|()| (true, ())));
        drop(turn);
        panic.go_on();
        self.found()
    }
}

/// What waiting for the turn comes to.
#[must_use]
enum Asked<'a, T> {
    /// There is a value.
    Set(&'a T),
    /// There is none, and nobody else makes one until this is dropped.
    Mine(SemaphorePermit<'a>),
}

impl<T> Default for OnceCell<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> From<T> for OnceCell<T> {
    fn from(value: T) -> Self {
        Self::new_with(Some(value))
    }
}

/// With a clone of the value, if it is there.
impl<T: Clone> Clone for OnceCell<T> {
    fn clone(&self) -> Self {
        Self::new_with(self.get().cloned())
    }
}

impl<T: PartialEq> PartialEq for OnceCell<T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceCell<T> {}

impl<T: fmt::Debug> fmt::Debug for OnceCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_tuple("OnceCell");
        match self.get() {
            Some(value) => shown.field(value),
            None => shown.field(&format_args!("<uninitialized>")),
        };
        shown.finish()
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests;
