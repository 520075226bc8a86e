//! A lock for many readers or one writer.

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

/// Lets many threads and tasks read a value, or one change it, as [`std::sync::RwLock`].
///
/// How it waits, and what fairness and deadlock mean, is as for [`Mutex`](super::Mutex). A reader does not pass those
/// who are in line; one that was woken and has not come yet can be passed, as with a mutex, four times at most. So a
/// writer is not starved by readers that overlap; a thread that reads twice at once may therefore deadlock with a
/// writer that came in between. A writer that panics poisons the lock, a reader does not.
///
/// ```
/// use quadrille::thread::sync::RwLock;
///
/// let lock = RwLock::new(5);
/// {
///     let (one, two) = (lock.read().unwrap(), lock.read().unwrap());
///     assert_eq!(*one + *two, 10);
/// }
/// *lock.write().unwrap() += 1;
/// assert_eq!(*lock.read().unwrap(), 6);
/// ```
pub struct RwLock<T: ?Sized> {
    raw: RawLock,
    poison: Poison,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through `&mut` of the lock, or by its holders: one writer, or readers (M1).
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: as above; a writer elsewhere gets the value as if it was sent there, and readers share it.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T: ?Sized> UnwindSafe for RwLock<T> {}
impl<T: ?Sized> RefUnwindSafe for RwLock<T> {}

impl<T> RwLock<T> {
    const_fn! {
        /// A lock that nobody holds.
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
    /// With the value, if the lock is poisoned.
    pub fn into_inner(self) -> LockResult<T> {
        let Self { poison, value, .. } = self;
        poison.wrap(value.into_inner())
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until the value can be read: suspends a user-level thread, blocks an ordinary one.
    ///
    /// # Errors
    /// With the guard, if the lock is poisoned.
    /// # Panics
    /// As [`Mutex::lock`](super::Mutex::lock).
    #[track_caller]
    #[inline]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        refuse_in_tasks();
        if !self.raw.try_acquire(Access::Shared) {
            wait_on(self.raw.acquire(Access::Shared), Reason::lock(self));
        }
        RwLockReadGuard::make(self)
    }

    /// Waits until the value can be changed: suspends a user-level thread, blocks an ordinary one.
    ///
    /// # Errors
    /// With the guard, if the lock is poisoned.
    /// # Panics
    /// As [`Mutex::lock`](super::Mutex::lock).
    #[track_caller]
    #[inline]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        refuse_in_tasks();
        if !self.raw.try_acquire(Access::Exclusive) {
            wait_on(self.raw.acquire(Access::Exclusive), Reason::lock(self));
        }
        RwLockWriteGuard::make(self)
    }

    /// Waits until the value can be read, without blocking anybody.
    ///
    /// # Errors
    /// With the guard, if the lock is poisoned.
    /// # Cancel safety
    /// As [`Mutex::lock_async`](super::Mutex::lock_async).
    pub fn read_async(&self) -> Read<'_, T> {
        Read {
            acquire: self.raw.acquire(Access::Shared),
            lock: self,
        }
    }

    /// Waits until the value can be changed, without blocking anybody.
    ///
    /// # Errors
    /// With the guard, if the lock is poisoned.
    /// # Cancel safety
    /// As [`Mutex::lock_async`](super::Mutex::lock_async).
    pub fn write_async(&self) -> Write<'_, T> {
        Write {
            acquire: self.raw.acquire(Access::Exclusive),
            lock: self,
        }
    }

    /// Reads the value if that is possible at once.
    ///
    /// # Errors
    /// If somebody changes it or waits for the lock; or with the guard, if the lock is poisoned.
    #[inline]
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        if self.raw.try_acquire(Access::Shared) {
            Ok(RwLockReadGuard::make(self)?)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// Changes the value if that is possible at once.
    ///
    /// # Errors
    /// If somebody has it, or the lock is reserved for somebody; or with the guard, if the lock is poisoned.
    #[inline]
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        if self.raw.try_acquire(Access::Exclusive) {
            Ok(RwLockWriteGuard::make(self)?)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// Whether a writer has panicked. Another thread may change that at once.
    pub fn is_poisoned(&self) -> bool {
        self.poison.is_set()
    }

    /// Forgets that a writer has panicked.
    pub fn clear_poison(&self) {
        self.poison.clear();
    }

    /// The value, without locking: nobody else can have it.
    ///
    /// # Errors
    /// With the value, if the lock is poisoned.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.poison.wrap(self.value.get_mut())
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RwLock");
        match self.try_read() {
            Ok(guard) => shown.field("data", &&*guard),
            Err(TryLockError::Poisoned(error)) => shown.field("data", &&**error.get_ref()),
            Err(TryLockError::WouldBlock) => shown.field("data", &format_args!("<locked>")),
        };
        shown.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

/// The right to read the value of a [`RwLock`]; dropping it gives that back.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    value: PhantomData<&'a T>,
}

impl<'a, T: ?Sized> RwLockReadGuard<'a, T> {
    /// For whoever has taken the lock.
    #[inline]
    fn make(lock: &'a RwLock<T>) -> LockResult<Self> {
        lock.poison.wrap(Self {
            lock,
            value: PhantomData,
        })
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: while the guard lives no writer holds the lock (M1).
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.release(Access::Shared);
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// The right to change the value of a [`RwLock`]; dropping it gives that back.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    before: Before,
    /// As in a mutex's guard.
    value: PhantomData<&'a mut T>,
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// For whoever has taken the lock.
    #[inline]
    fn make(lock: &'a RwLock<T>) -> LockResult<Self> {
        lock.poison.wrap(Self {
            lock,
            before: lock.poison.before(),
            value: PhantomData,
        })
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Goes on as a reader; no writer comes in between. Others may read from now on.
    ///
    /// ```
    /// use quadrille::thread::sync::{RwLock, RwLockWriteGuard};
    ///
    /// let lock = RwLock::new(0);
    /// let mut writer = lock.write().unwrap();
    /// *writer = 1;
    /// let reader = RwLockWriteGuard::downgrade(writer);
    /// assert_eq!(*reader + *lock.read().unwrap(), 2);
    /// ```
    pub fn downgrade(this: Self) -> RwLockReadGuard<'a, T> {
        let lock = this.lock;
        lock.poison.after(this.before);
        mem::forget(this);
        // Made first: it gives back what is kept if a waker panics.
        let guard = RwLockReadGuard {
            lock,
            value: PhantomData,
        };
        lock.raw.downgrade();
        guard
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard is the one holder of the lock (M1), and lends the value no longer than it lives.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.poison.after(self.before);
        self.lock.raw.release(Access::Exclusive);
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

pin_project! {
    /// The future of [`RwLock::read_async`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct Read<'a, T: ?Sized> {
        #[pin]
        acquire: Locking<'a>,
        lock: &'a RwLock<T>,
    }
}

impl<'a, T: ?Sized> Future for Read<'a, T> {
    type Output = LockResult<RwLockReadGuard<'a, T>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        this.acquire.poll(cx).map(|()| RwLockReadGuard::make(this.lock))
    }
}

impl<T: ?Sized> fmt::Debug for Read<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Read").finish_non_exhaustive()
    }
}

pin_project! {
    /// The future of [`RwLock::write_async`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct Write<'a, T: ?Sized> {
        #[pin]
        acquire: Locking<'a>,
        lock: &'a RwLock<T>,
    }
}

impl<'a, T: ?Sized> Future for Write<'a, T> {
    type Output = LockResult<RwLockWriteGuard<'a, T>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        this.acquire.poll(cx).map(|()| RwLockWriteGuard::make(this.lock))
    }
}

impl<T: ?Sized> fmt::Debug for Write<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Write").finish_non_exhaustive()
    }
}
