//! A lock for one holder at a time.

use std::cell::UnsafeCell;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::sync::{LockResult, TryLockError, TryLockResult};
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::poison::{Before, Poison};
use super::raw::{Access, Locking, RawLock};
use super::refuse_in_tasks;
use crate::primitives::const_fn;
use crate::thread::note::Reason;
use crate::thread::wait::wait_on;

/// Lets one thread or task at a time have a value, as [`std::sync::Mutex`].
///
/// Waiting suspends a user-level thread, blocks an ordinary one, and is a future in a task
/// ([`lock_async`](Self::lock_async)); all three may wait for one lock. A free lock is taken by one compare-exchange,
/// waiting allocates nothing. The guard may be held across a wait, and in a task across an `.await`; it is `Send` if
/// the value is.
///
/// ```
/// use std::sync::Arc;
/// use quadrille::thread::{self, sync::Mutex};
///
/// let runtime = quadrille::Runtime::new()?;
/// let count = Arc::new(Mutex::new(0));
/// let threads: Vec<_> = (0..10)
///     .map(|_| {
///         let count = Arc::clone(&count);
///         runtime.spawn_thread(move || *count.lock().unwrap() += 1)
///     })
///     .collect();
/// let task = runtime.spawn({
///     let count = Arc::clone(&count);
///     async move { *count.lock_async().await.unwrap() += 1 }
/// });
/// threads.into_iter().for_each(|thread| thread.join().unwrap());
/// runtime.block_on(task).unwrap();
/// assert_eq!(*count.lock().unwrap(), 11);
/// # Ok::<(), quadrille::BuildError>(())
/// ```
///
/// # Poisoning
///
/// A guard that is dropped because its thread, or the poll of its task, panics leaves the lock *poisoned*: each later
/// `lock` is an error that holds the guard. So does a thread that is unwound by an abort or the end of its runtime:
/// what it did with the value was not finished either. A task that is dropped while it is pending, as by an abort, does
/// not poison.
///
/// # Fairness
///
/// Whoever runs may take a free lock before those who wait. A waiter that was woken and came too late four times is
/// next, whoever else runs. Waiters are woken first come, first served; a task that has spent its [budget](crate::coop)
/// comes at its next turn. A future of `lock_async` that was polled must be polled on or dropped: it may be its turn.
///
/// A `lock` that finds the lock free spends no budget, since to give way there would be to do so with other locks held:
/// a loop that only locks keeps its worker, as one that computes does.
/// [`coop::consume_budget`](crate::coop::consume_budget)`().wait()` in it gives way.
///
/// # Deadlock
///
/// A thread that locks what it has locked waits for ever.
pub struct Mutex<T: ?Sized> {
    raw: RawLock,
    poison: Poison,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through `&mut` of the mutex, or by the guard's holder, of whom there is one at a time
// (M1).
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above; who gets the lock on another thread gets the value as if it was sent there.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T: ?Sized> UnwindSafe for Mutex<T> {}
impl<T: ?Sized> RefUnwindSafe for Mutex<T> {}

impl<T> Mutex<T> {
    const_fn! {
        /// A mutex that nobody holds.
        #[must_use]
        pub fn new(value: T) -> Self {
            Self {
                raw: RawLock::new(),
                poison: Poison::new(),
                value: UnsafeCell::new(value),
            }
        }
    }

    /// The value.
    ///
    /// # Errors
    /// With the value, if the mutex is poisoned.
    pub fn into_inner(self) -> LockResult<T> {
        let Self { poison, value, .. } = self;
        poison.wrap(value.into_inner())
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock: suspends a user-level thread, blocks an ordinary one.
    ///
    /// # Errors
    /// With the guard, if the mutex is poisoned.
    /// # Panics
    /// In a task, whether or not the lock is free: use [`lock_async`](Self::lock_async) or
    /// [`try_lock`](Self::try_lock). On a user-level thread that panics, if the lock does not become free soon; see
    /// [`Wait::wait`](crate::Wait::wait).
    #[track_caller]
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        refuse_in_tasks();
        self.lock_here()
    }

    /// The same, where the caller knows that it is in no task.
    #[track_caller]
    #[inline]
    pub(super) fn lock_here(&self) -> LockResult<MutexGuard<'_, T>> {
        if !self.raw.try_acquire(Access::Exclusive) {
            wait_on(self.raw.acquire(Access::Exclusive), Reason::lock(self));
        }
        MutexGuard::make(self)
    }

    /// Waits for the lock without blocking anybody.
    ///
    /// # Errors
    /// With the guard, if the mutex is poisoned.
    /// # Cancel safety
    /// Loses its place: a call that is made again queues behind all who wait. If it was its turn, the next one is told.
    pub fn lock_async(&self) -> Lock<'_, T> {
        Lock {
            acquire: self.raw.acquire(Access::Exclusive),
            mutex: self,
        }
    }

    /// Takes the lock if that is possible at once.
    ///
    /// # Errors
    /// If it is held, or reserved for somebody; or with the guard, if the mutex is poisoned.
    #[inline]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        if self.raw.try_acquire(Access::Exclusive) {
            Ok(MutexGuard::make(self)?)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// Whether a holder has panicked. Another thread may change that at once.
    pub fn is_poisoned(&self) -> bool {
        self.poison.is_set()
    }

    /// Forgets that a holder has panicked.
    pub fn clear_poison(&self) {
        self.poison.clear();
    }

    /// The value, without locking: nobody else can have it.
    ///
    /// # Errors
    /// With the value, if the mutex is poisoned.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.poison.wrap(self.value.get_mut())
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Mutex");
        match self.try_lock() {
            Ok(guard) => shown.field("data", &&*guard),
            Err(TryLockError::Poisoned(error)) => shown.field("data", &&**error.get_ref()),
            Err(TryLockError::WouldBlock) => shown.field("data", &format_args!("<locked>")),
        };
        shown.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

/// The right to use the value of a [`Mutex`]; dropping it unlocks.
#[must_use = "if unused the Mutex will immediately unlock"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    before: Before,
    /// It is `Sync` if a `&mut T` is, which `&Mutex<T>` alone does not ask for.
    value: PhantomData<&'a mut T>,
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// For whoever has taken the lock.
    #[inline]
    fn make(mutex: &'a Mutex<T>) -> LockResult<Self> {
        mutex.poison.wrap(Self {
            mutex,
            before: mutex.poison.before(),
            value: PhantomData,
        })
    }

    /// Unlocks, whether or not the thread panics. The mutex.
    pub(super) fn unlock(self) -> &'a Mutex<T> {
        let mutex = self.mutex;
        mem::forget(self);
        mutex.raw.release(Access::Exclusive);
        mutex
    }

    pub(super) fn mutex(&self) -> &'a Mutex<T> {
        self.mutex
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard is the one holder of the lock (M1), and lends the value no longer than it lives.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.poison.after(self.before);
        self.mutex.raw.release(Access::Exclusive);
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

pin_project! {
    /// The future of [`Mutex::lock_async`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct Lock<'a, T: ?Sized> {
        #[pin]
        acquire: Locking<'a>,
        mutex: &'a Mutex<T>,
    }
}

impl<'a, T: ?Sized> Future for Lock<'a, T> {
    type Output = LockResult<MutexGuard<'a, T>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        this.acquire.poll(cx).map(|()| MutexGuard::make(this.mutex))
    }
}

impl<T: ?Sized> fmt::Debug for Lock<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").finish_non_exhaustive()
    }
}
