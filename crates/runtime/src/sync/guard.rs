//! What the guards have in common: permits, and a pointer to what they are for. Nothing else reaches the value.
//!
//! The pointer leads to the value of the lock, or to a part that a closure has chosen among what the value lends.
//! Neither type has a destructor: permits give themselves back.

use std::ops::Deref;

use crate::sync::semaphore::{Held, Semaphore};

/// A reader's. `S` is a reference to the lock's semaphore that borrows the lock, or keeps it.
pub(super) struct Shared<S: Deref<Target = Semaphore>, T: ?Sized> {
    /// One at least.
    held: Held<S>,
    value: *const T,
}

// SAFETY: it is a `&T` (see `get`), whose `Send` is `T: Sync`; and `S`.
unsafe impl<S: Deref<Target = Semaphore> + Send, T: ?Sized + Sync> Send for Shared<S, T> {}
// SAFETY: as above; its `Sync` is no more than `T: Sync`.
unsafe impl<S: Deref<Target = Semaphore> + Sync, T: ?Sized + Send + Sync> Sync for Shared<S, T> {}

impl<S: Deref<Target = Semaphore>, T: ?Sized> Shared<S, T> {
    /// # Safety
    /// `value` is that of the lock whose permits `held` has, of which they are one at least.
    pub(super) unsafe fn new(held: Held<S>, value: *const T) -> Self {
        debug_assert!(held.permits() > 0);
        Self { held, value }
    }

    pub(super) fn held(&self) -> &Held<S> {
        &self.held
    }

    #[inline]
    pub(super) fn get(&self) -> &T {
        // SAFETY: it can be read as long as `self` is borrowed.
        // - it is alive, say the callers of `new`, of the lock's value, and of `try_map`, of a part or what is brought
        //   along; `S` borrows or keeps the lock;
        // - nobody changes it: a writer would hold all permits, of which this guard has one (RW1 a).
        unsafe { &*self.value }
    }

    /// For a part of the value, if `part` chooses one; else as it was.
    ///
    /// # Safety
    /// `T` and `U` outlive all that the type of the result lets it live. For `part` may assume that what is in a `T`
    /// outlives the reference that it is given, and answer with what it has brought along of that lifetime; a type that
    /// has lost it would let the result outlive that (the hole of `OwningRef::map`, Kimundi/owning-ref-rs#71).
    pub(super) unsafe fn try_map<U: ?Sized>(self, part: impl FnOnce(&T) -> Option<&U>) -> Result<Shared<S, U>, Self> {
        match part(self.get()) {
            Some(part) => Ok(Shared {
                value: part,
                held: self.held,
            }),
            None => Err(self),
        }
    }
}

/// That of a writer, or of who has a mutex. `S` as for [`Shared`].
pub(super) struct Exclusive<S: Deref<Target = Semaphore>, T: ?Sized> {
    /// All that there are.
    held: Held<S>,
    value: *mut T,
}

// SAFETY: it is a `&mut T` (see `get_mut`), whose `Send` is `T: Send`; and `S`. `downgrade` asks for what a reader's
// needs.
unsafe impl<S: Deref<Target = Semaphore> + Send, T: ?Sized + Send> Send for Exclusive<S, T> {}
// SAFETY: as above; by `&self` there is no more than `&T`, and the lock by what is around it, which is `Sync` if
// `T: Send`.
unsafe impl<S: Deref<Target = Semaphore> + Sync, T: ?Sized + Send + Sync> Sync for Exclusive<S, T> {}

impl<S: Deref<Target = Semaphore>, T: ?Sized> Exclusive<S, T> {
    /// # Safety
    /// `value` is that of the lock whose permits `held` has, and they are all.
    pub(super) unsafe fn new(held: Held<S>, value: *mut T) -> Self {
        Self { held, value }
    }

    pub(super) fn held(&self) -> &Held<S> {
        &self.held
    }

    #[inline]
    pub(super) fn get(&self) -> &T {
        // SAFETY: it can be read as long as `self` is borrowed.
        // - it is alive: as in `Shared::get`;
        // - nobody else reaches it: another guard would hold a permit, and this one has all (RW1 a, MX1 a); who borrows
        //   `self` to change it has it alone.
        unsafe { &*self.value }
    }

    #[inline]
    pub(super) fn get_mut(&mut self) -> &mut T {
        // SAFETY: as in `get`; nobody reads it either, since `self` is borrowed exclusively.
        unsafe { &mut *self.value }
    }

    /// For a part of the value, if `part` chooses one; else as it was.
    ///
    /// # Safety
    /// As [`Shared::try_map`].
    pub(super) unsafe fn try_map<U: ?Sized>(
        mut self,
        part: impl FnOnce(&mut T) -> Option<&mut U>,
    ) -> Result<Exclusive<S, U>, Self> {
        match part(self.get_mut()) {
            Some(part) => Ok(Exclusive {
                value: part,
                held: self.held,
            }),
            None => Err(self),
        }
    }

    /// Goes on as a reader.
    ///
    /// # Safety
    /// - It is for the whole value, and not for a part: what could be written by a `&mut` of a part may be shared in
    ///   the whole, say the inside of a `Cell`.
    /// - If it was sent from another thread, `T` is `Sync`: other readers may be there.
    pub(super) unsafe fn downgrade(self) -> Shared<S, T> {
        // Made first: it gives back what is kept if a waker panics.
        let mut reader = Shared {
            held: self.held,
            value: self.value,
        };
        reader.held.keep(1);
        reader
    }
}

/// A guard lends what it is for, and shows that.
macro_rules! lends {
    (impl[$($of:tt)*] $guard:ty => $value:ident) => {
        impl<$($of)*> std::ops::Deref for $guard {
            type Target = $value;

            #[inline]
            fn deref(&self) -> &$value {
                self.inner.get()
            }
        }

        impl<$($of)*> std::fmt::Debug for $guard
        where
            $value: std::fmt::Debug,
        {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<$($of)*> std::fmt::Display for $guard
        where
            $value: std::fmt::Display,
        {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                (**self).fmt(f)
            }
        }
    };
}

/// A writer's also lends it to be changed.
macro_rules! lends_mut {
    (impl[$($of:tt)*] $guard:ty => $value:ident) => {
        $crate::sync::guard::lends!(impl[$($of)*] $guard => $value);

        impl<$($of)*> std::ops::DerefMut for $guard {
            #[inline]
            fn deref_mut(&mut self) -> &mut $value {
                self.inner.get_mut()
            }
        }
    };
}

pub(super) use {lends, lends_mut};
