//! The guards of writers.

use std::marker::PhantomData;
use std::sync::Arc;

use super::{OwnedRwLockReadGuard, Owner, RwLock, RwLockReadGuard};
use crate::sync::guard::{Exclusive, Shared, lends_mut};
use crate::sync::semaphore::{Held, Semaphore};

/// The right to change the value of a [`RwLock`]; dropping it gives that back.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    inner: Exclusive<&'a Semaphore, T>,
    value: PhantomData<&'a mut T>,
    /// It is sent where a reader's may be.
    becomes: PhantomData<Shared<&'a Semaphore, T>>,
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// For whoever has taken all permits of the lock.
    ///
    /// # Safety
    /// They are what is held.
    pub(super) unsafe fn make(lock: &'a RwLock<T>, held: Held<&'a Semaphore>) -> Self {
        debug_assert!(std::ptr::eq(*held.semaphore(), &lock.permits) && held.permits() == lock.readers_max);
        // SAFETY: by our contract; it is the value of that lock.
        let inner = unsafe { Exclusive::new(held, lock.value.get()) };
        Self::of(inner)
    }

    fn of(inner: Exclusive<&'a Semaphore, T>) -> Self {
        Self {
            inner,
            value: PhantomData,
            becomes: PhantomData,
        }
    }

    /// Goes on as a reader; no writer comes in between. Readers are let in who come next, up to the first writer who
    /// waits.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// let lock = quadrille::sync::RwLock::new(5);
    /// let mut writer = lock.write().await;
    /// *writer += 1;
    /// let reader = writer.downgrade();
    /// assert_eq!(*reader + *lock.read().await, 12);
    /// # });
    /// ```
    pub fn downgrade(self) -> RwLockReadGuard<'a, T> {
        // SAFETY: it is for the whole value; `becomes` lets no guard be sent whose value isn't `Sync`.
        RwLockReadGuard::of(unsafe { self.inner.downgrade() })
    }

    /// The right to change a part of the value.
    ///
    /// ```
    /// use quadrille::sync::{RwLock, RwLockWriteGuard};
    ///
    /// # futures_lite::future::block_on(async {
    /// let lock = RwLock::new((1, "one"));
    /// let mut name = RwLockWriteGuard::map(lock.write().await, |pair| &mut pair.1);
    /// *name = "unity";
    /// drop(name);
    /// assert_eq!(lock.into_inner(), (1, "unity"));
    /// # });
    /// ```
    pub fn map<U: ?Sized>(this: Self, part: impl FnOnce(&mut T) -> &mut U) -> RwLockMappedWriteGuard<'a, U> {
        let Ok(mapped) = Self::try_map(this, |value| Some(part(value))) else {
            unreachable!("there is a part");
        };
        mapped
    }

    /// The right to change a part of the value, if there is one.
    ///
    /// # Errors
    /// With the guard, if `part` gives none.
    pub fn try_map<U: ?Sized>(
        this: Self,
        part: impl FnOnce(&mut T) -> Option<&mut U>,
    ) -> Result<RwLockMappedWriteGuard<'a, U>, Self> {
        // SAFETY: both guards have a reference for `'a` beside, this one to `T`, the other to `U`.
        let mapped = unsafe { this.inner.try_map(part) };
        mapped.map(RwLockMappedWriteGuard::of).map_err(Self::of)
    }
}

lends_mut!(impl['a, T: ?Sized] RwLockWriteGuard<'a, T> => T);

/// The right to change a part of the value of a [`RwLock`]; dropping it gives that back.
///
/// It does not become a reader's: what was lent here to be changed, say the inside of a `Cell`, others would read
/// there.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockMappedWriteGuard<'a, T: ?Sized> {
    inner: Exclusive<&'a Semaphore, T>,
    value: PhantomData<&'a mut T>,
}

impl<'a, T: ?Sized> RwLockMappedWriteGuard<'a, T> {
    fn of(inner: Exclusive<&'a Semaphore, T>) -> Self {
        let value = PhantomData;
        Self { inner, value }
    }

    /// As [`RwLockWriteGuard::map`].
    pub fn map<U: ?Sized>(this: Self, part: impl FnOnce(&mut T) -> &mut U) -> RwLockMappedWriteGuard<'a, U> {
        let Ok(mapped) = Self::try_map(this, |value| Some(part(value))) else {
            unreachable!("there is a part");
        };
        mapped
    }

    /// As [`RwLockWriteGuard::try_map`].
    ///
    /// # Errors
    /// As there.
    pub fn try_map<U: ?Sized>(
        this: Self,
        part: impl FnOnce(&mut T) -> Option<&mut U>,
    ) -> Result<RwLockMappedWriteGuard<'a, U>, Self> {
        // SAFETY: both guards have a reference for `'a` beside, this one to `T`, the other to `U`.
        let mapped = unsafe { this.inner.try_map(part) };
        mapped.map(RwLockMappedWriteGuard::of).map_err(Self::of)
    }
}

lends_mut!(impl['a, T: ?Sized] RwLockMappedWriteGuard<'a, T> => T);

/// As [`RwLockWriteGuard`]; keeps the lock and borrows nothing.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct OwnedRwLockWriteGuard<T: ?Sized> {
    inner: Exclusive<Owner<T>, T>,
    /// It is sent where a reader's may be.
    becomes: PhantomData<Shared<Owner<T>, T>>,
}

impl<T: ?Sized> OwnedRwLockWriteGuard<T> {
    /// For whoever has taken all permits.
    ///
    /// # Safety
    /// They are what is held.
    pub(super) unsafe fn make(held: Held<Owner<T>>) -> Self {
        let lock = &held.semaphore().0;
        debug_assert!(held.permits() == lock.readers_max);
        let value = lock.value.get();
        // SAFETY: by our contract; it is the value of that lock.
        let inner = unsafe { Exclusive::new(held, value) };
        Self::of(inner)
    }

    fn of(inner: Exclusive<Owner<T>, T>) -> Self {
        let becomes = PhantomData;
        Self { inner, becomes }
    }

    /// As [`RwLockWriteGuard::downgrade`].
    pub fn downgrade(self) -> OwnedRwLockReadGuard<T> {
        // SAFETY: as above.
        OwnedRwLockReadGuard::of(unsafe { self.inner.downgrade() })
    }

    /// As [`RwLockWriteGuard::map`]; the part borrows nothing, since the type of the guard would not say for how long.
    pub fn map<U: ?Sized + 'static>(
        this: Self,
        part: impl FnOnce(&mut T) -> &mut U,
    ) -> OwnedRwLockMappedWriteGuard<T, U> {
        let Ok(mapped) = Self::try_map(this, |value| Some(part(value))) else {
            unreachable!("there is a part");
        };
        mapped
    }

    /// As [`RwLockWriteGuard::try_map`].
    ///
    /// # Errors
    /// As there.
    pub fn try_map<U: ?Sized + 'static>(
        this: Self,
        part: impl FnOnce(&mut T) -> Option<&mut U>,
    ) -> Result<OwnedRwLockMappedWriteGuard<T, U>, Self> {
        // SAFETY: `U` is `'static`, and `T` stays in the type of the guard, which is invariant in it.
        match unsafe { this.inner.try_map(part) } {
            Ok(inner) => Ok(OwnedRwLockMappedWriteGuard { inner }),
            Err(inner) => Err(Self::of(inner)),
        }
    }

    /// The lock that it keeps.
    #[must_use]
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T>> {
        &this.inner.held().semaphore().0
    }
}

lends_mut!(impl[T: ?Sized] OwnedRwLockWriteGuard<T> => T);

/// As [`RwLockMappedWriteGuard`]; keeps the lock and borrows nothing. Of a lock of `T` it changes a `U`.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct OwnedRwLockMappedWriteGuard<T: ?Sized, U: ?Sized = T> {
    inner: Exclusive<Owner<T>, U>,
}

impl<T: ?Sized, U: ?Sized> OwnedRwLockMappedWriteGuard<T, U> {
    /// As [`RwLockWriteGuard::map`]; the part borrows nothing, since the type of the guard would not say for how long.
    pub fn map<V: ?Sized + 'static>(
        this: Self,
        part: impl FnOnce(&mut U) -> &mut V,
    ) -> OwnedRwLockMappedWriteGuard<T, V> {
        let Ok(mapped) = Self::try_map(this, |value| Some(part(value))) else {
            unreachable!("there is a part");
        };
        mapped
    }

    /// As [`RwLockWriteGuard::try_map`].
    ///
    /// # Errors
    /// As there.
    pub fn try_map<V: ?Sized + 'static>(
        this: Self,
        part: impl FnOnce(&mut U) -> Option<&mut V>,
    ) -> Result<OwnedRwLockMappedWriteGuard<T, V>, Self> {
        // SAFETY: `V` is `'static`. `U` is `T`, which stays in the type, or was `'static` when it was chosen, and the
        // guard is invariant in it.
        match unsafe { this.inner.try_map(part) } {
            Ok(inner) => Ok(OwnedRwLockMappedWriteGuard { inner }),
            Err(inner) => Err(Self { inner }),
        }
    }

    /// The lock that it keeps.
    #[must_use]
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T>> {
        &this.inner.held().semaphore().0
    }
}

lends_mut!(impl[T: ?Sized, U: ?Sized] OwnedRwLockMappedWriteGuard<T, U> => U);
