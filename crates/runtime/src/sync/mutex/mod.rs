//! One holder at a time, over a [`Semaphore`] of one permit.
//!
//! The semaphore is the mutex's own. Nobody but the mutex sees it, and the mutex neither adds permits, nor forgets any,
//! nor closes it.
//!
//! # Theorem MX1: one holder
//!
//! *(a) While a guard lives no other does. (b) Who waits is served in the order of the first polls that had to wait.*
//!
//! (a) The permit is in one place (theorem of the semaphore, a). A guard is made of it, holds it as long as it lives,
//! and hands it on when it becomes a guard of a part. What a holder did is seen by the next, since the permit comes
//! back and is taken in sections of one lock. (b) The semaphore's (b) and (c).
//!
//! A guard that is forgotten (`mem::forget`) keeps the permit for ever. That delays others, and is safe.
//!
//! Rejected: who comes at the right moment goes before who waits, as `async-lock`'s mutex has it. To hand the permit
//! over costs a switch of tasks, which here is little: where the mutex is held across an `.await`, which is what it is
//! for, that one takes twice as long, since who was woken finds it taken, and elsewhere as long. Rejected: a word of
//! the mutex's own, as for [`RwLock`](super::RwLock).

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::block::block_on;
use super::error::TryLockError;
use super::semaphore::{Held, Semaphore};
use crate::primitives::const_fn;

mod acquire;
mod guard;

pub use self::acquire::{Lock, LockOwned};
pub use self::guard::{MappedMutexGuard, MutexGuard, OwnedMappedMutexGuard, OwnedMutexGuard};

/// Lets one at a time have a value, across an `.await`; like tokio's.
///
/// Who waits is served in the order in which the waits began. Who asks for it while it has it waits for ever.
///
/// Usable in tasks of any runtime, in user-level threads (`mutex.lock().wait()`), and on plain threads. Nothing is
/// poisoned: if a holder panics, its guard is dropped, and the next finds the value as it was left. Where it is never
/// held across an `.await`, std's mutex is faster still; where threads alone use it,
/// [`thread::sync::Mutex`](crate::thread::sync::Mutex) knows poison and has a
/// [`Condvar`](crate::thread::sync::Condvar).
///
/// ```
/// use std::sync::Arc;
/// use quadrille::sync::Mutex;
///
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// let log = Arc::new(Mutex::new(Vec::new()));
/// let mut writers = quadrille::task::JoinSet::new();
/// for writer in 0..3 {
///     let log = log.clone();
///     writers.spawn(async move {
///         let mut lines = log.lock().await;
///         lines.push(format!("{writer} begins"));
///         quadrille::task::yield_now().await;
///         lines.push(format!("{writer} ends"));
///     });
/// }
/// writers.join_all().await;
/// let lines = log.lock().await;
/// assert!(lines.chunks(2).all(|pair| pair[0].as_bytes()[0] == pair[1].as_bytes()[0]));
/// # });
/// ```
pub struct Mutex<T: ?Sized> {
    permit: Semaphore,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through `&mut` of the mutex, or by a guard, of which there is one (MX1 a): it is sent to
// where that is. The rest of the mutex is `Sync`.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    const_fn! {
        /// A mutex that nobody holds.
        ///
        /// ```
        /// static COUNT: quadrille::sync::Mutex<u32> = quadrille::sync::Mutex::new(0);
        /// *COUNT.try_lock().unwrap() += 1;
        /// ```
        #[must_use]
        pub fn new(value: T) -> Self {
            Self {
                permit: Semaphore::new(1),
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

impl<T: ?Sized> Mutex<T> {
    /// Waits until nobody has it, and those who have waited longer have had it. A task whose [budget](crate::coop) is
    /// spent and that finds it free comes again in its next turn.
    ///
    /// # Cancel safety
    /// Strict, but for the order: a call that is dropped has taken nothing, and one that is made again queues behind
    /// all who wait.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// let mutex = quadrille::sync::Mutex::new(5);
    /// *mutex.lock().await += 1;
    /// assert_eq!(mutex.into_inner(), 6);
    /// # });
    /// ```
    pub fn lock(&self) -> Lock<'_, T> {
        Lock::new(self)
    }

    /// As [`lock`](Self::lock), with a guard that keeps the mutex and borrows nothing.
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock); the mutex is let go of, too.
    ///
    /// ```
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// let mutex = std::sync::Arc::new(quadrille::sync::Mutex::new(5));
    /// let mut guard = mutex.clone().lock_owned().await;
    /// quadrille::spawn(async move { *guard += 1 }).await.unwrap();
    /// assert_eq!(*mutex.lock().await, 6);
    /// # });
    /// ```
    pub fn lock_owned(self: Arc<Self>) -> LockOwned<T> {
        LockOwned::new(self)
    }

    /// As [`lock`](Self::lock), for threads.
    ///
    /// # Blocking
    /// Suspends a user-level thread, and blocks an ordinary one. In a task it holds up its worker.
    ///
    /// ```
    /// let mutex = quadrille::sync::Mutex::new(5);
    /// *mutex.lock_blocking() += 1;
    /// assert_eq!(*mutex.lock_blocking(), 6);
    /// ```
    pub fn lock_blocking(&self) -> MutexGuard<'_, T> {
        block_on(self.lock())
    }

    /// As [`lock_owned`](Self::lock_owned), for threads.
    ///
    /// # Blocking
    /// As [`lock_blocking`](Self::lock_blocking).
    pub fn lock_owned_blocking(self: Arc<Self>) -> OwnedMutexGuard<T> {
        block_on(self.lock_owned())
    }

    /// Takes it if that is possible at once.
    ///
    /// # Errors
    /// If somebody has it, or others wait.
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError> {
        let held = Held::try_take(&self.permit, 1).map_err(|_| TryLockError)?;
        // SAFETY: just taken, of this mutex.
        Ok(unsafe { MutexGuard::make(self, held) })
    }

    /// As [`try_lock`](Self::try_lock), with a guard that keeps the mutex and borrows nothing.
    ///
    /// # Errors
    /// As there.
    pub fn try_lock_owned(self: Arc<Self>) -> Result<OwnedMutexGuard<T>, TryLockError> {
        let held = Held::try_take(Owner(self), 1).map_err(|_| TryLockError)?;
        // SAFETY: just taken, of this mutex.
        Ok(unsafe { OwnedMutexGuard::make(held) })
    }

    /// The value, without locking: nobody else can have it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
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
        match Held::try_take_unpaid(&self.permit, 1) {
            // SAFETY: just taken, of this mutex.
            Ok(held) => shown.field("data", &&*unsafe { MutexGuard::make(self, held) }),
            Err(_) => shown.field("data", &format_args!("<locked>")),
        };
        shown.finish_non_exhaustive()
    }
}

/// The semaphore of a mutex, which it keeps.
struct Owner<T: ?Sized>(Arc<Mutex<T>>);

impl<T: ?Sized> Deref for Owner<T> {
    type Target = Semaphore;

    fn deref(&self) -> &Semaphore {
        &self.0.permit
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests;
