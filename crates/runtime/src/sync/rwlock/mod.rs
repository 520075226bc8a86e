//! Many readers or one writer, over a [`Semaphore`]: a reader holds one of its permits, a writer all.
//!
//! The semaphore is the lock's own. Nobody but the lock sees it, and the lock neither adds permits, nor forgets any,
//! nor closes it. So it has as many as it was made with, `readers_max`, which is one at least.
//!
//! # Theorem RW1: readers or one writer
//!
//! *(a) While a guard of a writer lives no other guard does. (b) Who waits is served in the order of the first polls
//! that had to wait, a writer like a reader; readers that follow one another are served together. (c) Between a writer
//! and the reader that it becomes there is no other writer.*
//!
//! (a) Permits are in one place (theorem of the semaphore, a). A guard is made of the permits that somebody has taken,
//! holds them as long as it lives, and hands them on when it becomes another one: a writer's has them all, so that
//! nothing is left for a second guard, which has one at least. What a guard did is seen by the next, since permits come
//! back and are taken in sections of one lock. (b) The semaphore's (b) and (c). (c) A writer that becomes a reader
//! keeps one permit throughout, and gives back the others in one section: a writer, who wants all, is not served by
//! that.
//!
//! A guard that is forgotten (`mem::forget`) keeps its permits for ever. That delays others, and is safe.
//!
//! Rejected: a word of the lock's own, in which readers are counted, with a list beside it. Taking a free lock would be
//! one read-modify-write in place of two short sections; but that is one more protocol, where the semaphore's is proved
//! and modelled. Rejected: readers that pass a writer who waits. Where readers overlap all the time it would never have
//! its turn. Rejected: a reader that can become a writer (`upgradable_read`). It would have to be served before writers
//! who came earlier, or to let go of what it has read; then it can as well ask to write.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::block::block_on;
use super::error::TryLockError;
use super::semaphore::{Held, Semaphore};
use crate::primitives::const_fn;

mod acquire;
mod read_guard;
mod write_guard;

pub use self::acquire::{Read, ReadOwned, Write, WriteOwned};
pub use self::read_guard::{OwnedRwLockReadGuard, RwLockReadGuard};
pub use self::write_guard::{
    OwnedRwLockMappedWriteGuard, OwnedRwLockWriteGuard, RwLockMappedWriteGuard, RwLockWriteGuard,
};

/// Lets many read a value at a time, or one change it, across an `.await`; like tokio's.
///
/// Who waits is served in the order in which the waits began, whether it wants to read or to write. So a writer is not
/// starved by readers that overlap, nor the other way round: a reader that comes while a writer waits goes behind it.
/// Who asks to read while it has a guard of a reader may therefore wait for ever, for a writer that came in between.
///
/// Usable in tasks of any runtime, in user-level threads (`lock.read().wait()`), and on plain threads. Nothing is
/// poisoned: if a holder panics, its guard is dropped, and the next finds the value as it was left.
///
/// ```
/// use std::sync::Arc;
/// use quadrille::sync::RwLock;
///
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// let prices = Arc::new(RwLock::new(vec![1, 2, 3]));
/// let writes = quadrille::spawn({
///     let prices = prices.clone();
///     async move { prices.write().await.push(4) }
/// });
/// writes.await.unwrap();
/// let (one, other) = (prices.read().await, prices.read().await);
/// assert_eq!((one.len(), other.iter().sum::<i32>()), (4, 10));
/// # });
/// ```
pub struct RwLock<T: ?Sized> {
    permits: Semaphore,
    /// How many permits there are: what a writer takes.
    readers_max: u32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through `&mut` of the lock, or by guards: one of a writer, or some of readers (RW1 a). A
// writer elsewhere gets it as if it was sent there, and readers share it. The rest of the lock is `Sync`.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

/// How many readers [`RwLock::new`] allows at a time: as many as a semaphore has permits where a `usize` has 32 bits.
const READERS_MAX: u32 = u32::MAX >> 3;

impl<T> RwLock<T> {
    const_fn! {
        /// A lock that nobody holds. It has at most `u32::MAX >> 3` readers at a time; more wait.
        #[must_use]
        pub fn new(value: T) -> Self {
            Self::with_max_readers(value, READERS_MAX)
        }
    }

    const_fn! {
        /// A lock that nobody holds, with at most so many readers at a time; more wait.
        ///
        /// # Panics
        /// If they are none, or more than `u32::MAX >> 3`.
        ///
        /// ```
        /// use quadrille::sync::RwLock;
        ///
        /// static LOCK: RwLock<i32> = RwLock::with_max_readers(5, 2);
        /// let (one, other) = (LOCK.try_read().unwrap(), LOCK.try_read().unwrap());
        /// assert!(LOCK.try_read().is_err());
        /// # drop((one, other));
        /// ```
        #[must_use]
        #[track_caller]
        pub fn with_max_readers(value: T, readers_max: u32) -> Self {
            assert!(readers_max > 0, "a lock without readers");
            assert!(readers_max <= READERS_MAX, "a lock of more than u32::MAX >> 3 readers");
            Self {
                permits: Semaphore::new(readers_max as usize),
                readers_max,
                value: UnsafeCell::new(value),
            }
        }
    }

    /// The value.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until the value can be read: while somebody changes it, or others wait.
    ///
    /// # Cancel safety
    /// Strict, but for the order: a call that is dropped has taken nothing, and one that is made again queues behind
    /// all who wait.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// let lock = quadrille::sync::RwLock::new(5);
    /// assert_eq!(*lock.read().await, 5);
    /// # });
    /// ```
    pub fn read(&self) -> Read<'_, T> {
        Read::new(self)
    }

    /// Waits until the value can be changed: while somebody has it, or others wait. Those who come later wait behind
    /// it.
    ///
    /// # Cancel safety
    /// As [`read`](Self::read). If one that waits is dropped, readers behind it are let in.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// let lock = quadrille::sync::RwLock::new(5);
    /// *lock.write().await += 1;
    /// assert_eq!(lock.into_inner(), 6);
    /// # });
    /// ```
    pub fn write(&self) -> Write<'_, T> {
        Write::new(self)
    }

    /// As [`read`](Self::read), with a guard that keeps the lock and borrows nothing.
    ///
    /// # Cancel safety
    /// As [`read`](Self::read); the lock is let go of, too.
    pub fn read_owned(self: Arc<Self>) -> ReadOwned<T> {
        ReadOwned::new(self)
    }

    /// As [`write`](Self::write), with a guard that keeps the lock and borrows nothing.
    ///
    /// # Cancel safety
    /// As [`write`](Self::write); the lock is let go of, too.
    ///
    /// ```
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// let lock = std::sync::Arc::new(quadrille::sync::RwLock::new(5));
    /// let mut guard = lock.clone().write_owned().await;
    /// quadrille::spawn(async move { *guard += 1 }).await.unwrap();
    /// assert_eq!(*lock.read().await, 6);
    /// # });
    /// ```
    pub fn write_owned(self: Arc<Self>) -> WriteOwned<T> {
        WriteOwned::new(self)
    }

    /// As [`read`](Self::read), for threads.
    ///
    /// # Blocking
    /// Suspends a user-level thread, and blocks an ordinary one. In a task it holds up its worker.
    pub fn read_blocking(&self) -> RwLockReadGuard<'_, T> {
        block_on(self.read())
    }

    /// As [`write`](Self::write), for threads.
    ///
    /// # Blocking
    /// As [`read_blocking`](Self::read_blocking).
    ///
    /// ```
    /// let lock = quadrille::sync::RwLock::new(5);
    /// *lock.write_blocking() += 1;
    /// assert_eq!(*lock.read_blocking(), 6);
    /// ```
    pub fn write_blocking(&self) -> RwLockWriteGuard<'_, T> {
        block_on(self.write())
    }

    /// Reads the value if that is possible at once.
    ///
    /// # Errors
    /// If somebody changes it, or others wait.
    pub fn try_read(&self) -> Result<RwLockReadGuard<'_, T>, TryLockError> {
        let held = Held::try_take(&self.permits, 1).map_err(|_| TryLockError)?;
        // SAFETY: just taken, of this lock.
        Ok(unsafe { RwLockReadGuard::make(self, held) })
    }

    /// Changes the value if that is possible at once.
    ///
    /// # Errors
    /// If somebody has it, or others wait.
    pub fn try_write(&self) -> Result<RwLockWriteGuard<'_, T>, TryLockError> {
        let held = Held::try_take(&self.permits, self.readers_max).map_err(|_| TryLockError)?;
        // SAFETY: all of them, just taken, of this lock.
        Ok(unsafe { RwLockWriteGuard::make(self, held) })
    }

    /// As [`try_read`](Self::try_read), with a guard that keeps the lock and borrows nothing.
    ///
    /// # Errors
    /// As there.
    pub fn try_read_owned(self: Arc<Self>) -> Result<OwnedRwLockReadGuard<T>, TryLockError> {
        let held = Held::try_take(Owner(self), 1).map_err(|_| TryLockError)?;
        // SAFETY: just taken, of this lock.
        Ok(unsafe { OwnedRwLockReadGuard::make(held) })
    }

    /// As [`try_write`](Self::try_write), with a guard that keeps the lock and borrows nothing.
    ///
    /// # Errors
    /// As there.
    pub fn try_write_owned(self: Arc<Self>) -> Result<OwnedRwLockWriteGuard<T>, TryLockError> {
        let all = self.readers_max;
        let held = Held::try_take(Owner(self), all).map_err(|_| TryLockError)?;
        // SAFETY: all of them, just taken, of this lock.
        Ok(unsafe { OwnedRwLockWriteGuard::make(held) })
    }

    /// The value, without locking: nobody else can have it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
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
        match Held::try_take_unpaid(&self.permits, 1) {
            // SAFETY: just taken, of this lock.
            Ok(held) => shown.field("data", &&*unsafe { RwLockReadGuard::make(self, held) }),
            Err(_) => shown.field("data", &format_args!("<locked>")),
        };
        shown.finish_non_exhaustive()
    }
}

/// The semaphore of a lock, which it keeps.
struct Owner<T: ?Sized>(Arc<RwLock<T>>);

impl<T: ?Sized> Deref for Owner<T> {
    type Target = Semaphore;

    fn deref(&self) -> &Semaphore {
        &self.0.permits
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests;
