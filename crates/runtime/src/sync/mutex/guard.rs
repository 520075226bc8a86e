//! The guards of a mutex, for the whole value and for a part.

use std::marker::PhantomData;
use std::sync::Arc;

use super::{Mutex, Owner};
use crate::sync::guard::{Exclusive, lends_mut};
use crate::sync::semaphore::{Held, Semaphore};

/// The right to the value of a [`Mutex`]; dropping it gives that back.
#[must_use = "if unused the Mutex will immediately unlock"]
pub struct MutexGuard<'a, T: ?Sized> {
    inner: Exclusive<&'a Semaphore, T>,
    mutex: &'a Mutex<T>,
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// For whoever has taken the permit of the mutex.
    ///
    /// # Safety
    /// It is what is held.
    pub(super) unsafe fn make(mutex: &'a Mutex<T>, held: Held<&'a Semaphore>) -> Self {
        debug_assert!(std::ptr::eq(*held.semaphore(), &mutex.permit) && held.permits() == 1);
        // SAFETY: by our contract; it is the value of that mutex, which has one permit.
        let inner = unsafe { Exclusive::new(held, mutex.value.get()) };
        Self { inner, mutex }
    }

    /// The right to a part of the value.
    ///
    /// ```
    /// use quadrille::sync::{Mutex, MutexGuard};
    ///
    /// # futures_lite::future::block_on(async {
    /// let mutex = Mutex::new((1, "one"));
    /// let mut name = MutexGuard::map(mutex.lock().await, |pair| &mut pair.1);
    /// *name = "unity";
    /// drop(name);
    /// assert_eq!(mutex.into_inner(), (1, "unity"));
    /// # });
    /// ```
    pub fn map<U: ?Sized>(this: Self, part: impl FnOnce(&mut T) -> &mut U) -> MappedMutexGuard<'a, U> {
        let Ok(mapped) = Self::try_map(this, |value| Some(part(value))) else {
            unreachable!("there is a part");
        };
        mapped
    }

    /// The right to a part of the value, if there is one.
    ///
    /// # Errors
    /// With the guard, if `part` gives none.
    pub fn try_map<U: ?Sized>(
        this: Self,
        part: impl FnOnce(&mut T) -> Option<&mut U>,
    ) -> Result<MappedMutexGuard<'a, U>, Self> {
        let Self { inner, mutex } = this;
        // SAFETY: both guards have a reference for `'a` beside, this one to `T`, the other to `U`.
        match unsafe { inner.try_map(part) } {
            Ok(inner) => Ok(MappedMutexGuard::of(inner)),
            Err(inner) => Err(Self { inner, mutex }),
        }
    }

    /// Whose it is.
    #[must_use]
    pub fn mutex(this: &Self) -> &'a Mutex<T> {
        this.mutex
    }
}

lends_mut!(impl['a, T: ?Sized] MutexGuard<'a, T> => T);

/// The right to a part of the value of a [`Mutex`]; dropping it gives that back.
#[must_use = "if unused the Mutex will immediately unlock"]
pub struct MappedMutexGuard<'a, T: ?Sized> {
    inner: Exclusive<&'a Semaphore, T>,
    value: PhantomData<&'a mut T>,
}

impl<'a, T: ?Sized> MappedMutexGuard<'a, T> {
    fn of(inner: Exclusive<&'a Semaphore, T>) -> Self {
        let value = PhantomData;
        Self { inner, value }
    }

    /// As [`MutexGuard::map`].
    pub fn map<U: ?Sized>(this: Self, part: impl FnOnce(&mut T) -> &mut U) -> MappedMutexGuard<'a, U> {
        let Ok(mapped) = Self::try_map(this, |value| Some(part(value))) else {
            unreachable!("there is a part");
        };
        mapped
    }

    /// As [`MutexGuard::try_map`].
    ///
    /// # Errors
    /// As there.
    pub fn try_map<U: ?Sized>(
        this: Self,
        part: impl FnOnce(&mut T) -> Option<&mut U>,
    ) -> Result<MappedMutexGuard<'a, U>, Self> {
        // SAFETY: both guards have a reference for `'a` beside, this one to `T`, the other to `U`.
        let mapped = unsafe { this.inner.try_map(part) };
        mapped.map(MappedMutexGuard::of).map_err(Self::of)
    }
}

lends_mut!(impl['a, T: ?Sized] MappedMutexGuard<'a, T> => T);

/// As [`MutexGuard`]; keeps the mutex and borrows nothing.
#[must_use = "if unused the Mutex will immediately unlock"]
pub struct OwnedMutexGuard<T: ?Sized> {
    inner: Exclusive<Owner<T>, T>,
}

impl<T: ?Sized> OwnedMutexGuard<T> {
    /// For whoever has taken the permit.
    ///
    /// # Safety
    /// It is what is held.
    pub(super) unsafe fn make(held: Held<Owner<T>>) -> Self {
        debug_assert!(held.permits() == 1);
        let value = held.semaphore().0.value.get();
        // SAFETY: by our contract; it is the value of that mutex, which has one permit.
        let inner = unsafe { Exclusive::new(held, value) };
        Self { inner }
    }

    /// As [`MutexGuard::map`]; the part borrows nothing, since the type of the guard would not say for how long.
    pub fn map<U: ?Sized + 'static>(this: Self, part: impl FnOnce(&mut T) -> &mut U) -> OwnedMappedMutexGuard<T, U> {
        let Ok(mapped) = Self::try_map(this, |value| Some(part(value))) else {
            unreachable!("there is a part");
        };
        mapped
    }

    /// As [`MutexGuard::try_map`].
    ///
    /// # Errors
    /// As there.
    pub fn try_map<U: ?Sized + 'static>(
        this: Self,
        part: impl FnOnce(&mut T) -> Option<&mut U>,
    ) -> Result<OwnedMappedMutexGuard<T, U>, Self> {
        // SAFETY: `U` is `'static`, and `T` stays in the type of the guard, which is invariant in it.
        match unsafe { this.inner.try_map(part) } {
            Ok(inner) => Ok(OwnedMappedMutexGuard { inner }),
            Err(inner) => Err(Self { inner }),
        }
    }

    /// The mutex that it keeps.
    #[must_use]
    pub fn mutex(this: &Self) -> &Arc<Mutex<T>> {
        &this.inner.held().semaphore().0
    }
}

lends_mut!(impl[T: ?Sized] OwnedMutexGuard<T> => T);

/// As [`MappedMutexGuard`]; keeps the mutex and borrows nothing. Of a mutex of `T` it is for a `U`.
#[must_use = "if unused the Mutex will immediately unlock"]
pub struct OwnedMappedMutexGuard<T: ?Sized, U: ?Sized = T> {
    inner: Exclusive<Owner<T>, U>,
}

impl<T: ?Sized, U: ?Sized> OwnedMappedMutexGuard<T, U> {
    /// As [`MutexGuard::map`]; the part borrows nothing, since the type of the guard would not say for how long.
    pub fn map<V: ?Sized + 'static>(this: Self, part: impl FnOnce(&mut U) -> &mut V) -> OwnedMappedMutexGuard<T, V> {
        let Ok(mapped) = Self::try_map(this, |value| Some(part(value))) else {
            unreachable!("there is a part");
        };
        mapped
    }

    /// As [`MutexGuard::try_map`].
    ///
    /// # Errors
    /// As there.
    pub fn try_map<V: ?Sized + 'static>(
        this: Self,
        part: impl FnOnce(&mut U) -> Option<&mut V>,
    ) -> Result<OwnedMappedMutexGuard<T, V>, Self> {
        // SAFETY: `V` is `'static`. `U` is `T`, which stays in the type, or was `'static` when it was chosen, and the
        // guard is invariant in it.
        match unsafe { this.inner.try_map(part) } {
            Ok(inner) => Ok(OwnedMappedMutexGuard { inner }),
            Err(inner) => Err(Self { inner }),
        }
    }

    /// The mutex that it keeps.
    #[must_use]
    pub fn mutex(this: &Self) -> &Arc<Mutex<T>> {
        &this.inner.held().semaphore().0
    }
}

lends_mut!(impl[T: ?Sized, U: ?Sized] OwnedMappedMutexGuard<T, U> => U);
