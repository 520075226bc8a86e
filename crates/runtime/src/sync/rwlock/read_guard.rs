//! The guards of readers.

use std::marker::PhantomData;
use std::sync::Arc;

use super::{Owner, RwLock};
use crate::sync::guard::{Shared, lends};
use crate::sync::semaphore::{Held, Semaphore};

/// The right to read the value of a [`RwLock`], or a part of it; dropping it gives that back.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    pub(super) inner: Shared<&'a Semaphore, T>,
    pub(super) value: PhantomData<&'a T>,
}

impl<'a, T: ?Sized> RwLockReadGuard<'a, T> {
    /// For whoever has taken a permit of the lock.
    ///
    /// # Safety
    /// It is what is held.
    pub(super) unsafe fn make(lock: &'a RwLock<T>, held: Held<&'a Semaphore>) -> Self {
        debug_assert!(std::ptr::eq(*held.semaphore(), &lock.permits));
        // SAFETY: by our contract; it is the value of that lock.
        let inner = unsafe { Shared::new(held, lock.value.get()) };
        Self::of(inner)
    }

    pub(super) fn of(inner: Shared<&'a Semaphore, T>) -> Self {
        let value = PhantomData;
        Self { inner, value }
    }

    /// The right to read a part of what it is for.
    ///
    /// ```
    /// use quadrille::sync::{RwLock, RwLockReadGuard};
    ///
    /// # futures_lite::future::block_on(async {
    /// let lock = RwLock::new((1, "one"));
    /// let name = RwLockReadGuard::map(lock.read().await, |pair| &pair.1);
    /// assert_eq!(*name, "one");
    /// # });
    /// ```
    pub fn map<U: ?Sized>(this: Self, part: impl FnOnce(&T) -> &U) -> RwLockReadGuard<'a, U> {
        let Ok(mapped) = Self::try_map(this, |value| Some(part(value))) else {
            unreachable!("there is a part");
        };
        mapped
    }

    /// The right to read a part of what it is for, if there is one.
    ///
    /// # Errors
    /// With the guard, if `part` gives none.
    pub fn try_map<U: ?Sized>(this: Self, part: impl FnOnce(&T) -> Option<&U>) -> Result<RwLockReadGuard<'a, U>, Self> {
        // SAFETY: both guards have a reference for `'a` beside, this one to `T`, the other to `U`.
        let mapped = unsafe { this.inner.try_map(part) };
        mapped.map(RwLockReadGuard::of).map_err(Self::of)
    }
}

lends!(impl['a, T: ?Sized] RwLockReadGuard<'a, T> => T);

/// As [`RwLockReadGuard`]; keeps the lock and borrows nothing. Of a lock of `T` it reads a `U`.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct OwnedRwLockReadGuard<T: ?Sized, U: ?Sized = T> {
    inner: Shared<Owner<T>, U>,
    /// Invariant in `U`: a lifetime in it that could be shortened would be lost with the next part.
    part: PhantomData<fn(&mut U)>,
}

impl<T: ?Sized> OwnedRwLockReadGuard<T> {
    /// For whoever has taken a permit.
    ///
    /// # Safety
    /// It is what is held.
    pub(super) unsafe fn make(held: Held<Owner<T>>) -> Self {
        let value = held.semaphore().0.value.get();
        // SAFETY: by our contract; it is the value of that lock.
        let inner = unsafe { Shared::new(held, value) };
        Self::of(inner)
    }
}

impl<T: ?Sized, U: ?Sized> OwnedRwLockReadGuard<T, U> {
    pub(super) fn of(inner: Shared<Owner<T>, U>) -> Self {
        let part = PhantomData;
        Self { inner, part }
    }

    /// As [`RwLockReadGuard::map`]; the part borrows nothing, since the type of the guard would not say for how long.
    pub fn map<V: ?Sized + 'static>(this: Self, part: impl FnOnce(&U) -> &V) -> OwnedRwLockReadGuard<T, V> {
        let Ok(mapped) = Self::try_map(this, |value| Some(part(value))) else {
            unreachable!("there is a part");
        };
        mapped
    }

    /// As [`RwLockReadGuard::try_map`].
    ///
    /// # Errors
    /// As there.
    pub fn try_map<V: ?Sized + 'static>(
        this: Self,
        part: impl FnOnce(&U) -> Option<&V>,
    ) -> Result<OwnedRwLockReadGuard<T, V>, Self> {
        // SAFETY: `V` is `'static`. `U` is `T`, which stays in the type, or was `'static` when it was chosen, and the
        // guard is invariant in it.
        let mapped = unsafe { this.inner.try_map(part) };
        mapped.map(OwnedRwLockReadGuard::of).map_err(Self::of)
    }

    /// The lock that it keeps.
    #[must_use]
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T>> {
        &this.inner.held().semaphore().0
    }
}

lends!(impl[T: ?Sized, U: ?Sized] OwnedRwLockReadGuard<T, U> => U);
