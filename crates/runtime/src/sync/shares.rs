//! A value that a known number of owners have, each a share of it.
//!
//! As `Arc`, but who makes it says how many owners there will be: their shares are counted before, all at once, and one
//! hand has them until they are handed out. So an owner who comes counts nothing, and an owner who goes counts once.
//!
//! # Theorem
//!
//! *The count is the sum of the numbers of all [`Shares`] of the value.* It begins so, when [`Alone`] is shared;
//! [`Shares::split`] leaves the sum as it is; and who gives shares up takes as many off the count. So who takes off the
//! last was alone, and whoever finds as many counted as he has is alone, and stays so: nobody else is there to split
//! any off.

use std::mem::ManuallyDrop;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

use crate::primitives::{AtomicUsize, Ordering, fence};

/// A value that nobody else has, ready to be shared.
#[derive(Debug)]
pub(super) struct Alone<T>(Box<Counted<T>>);

/// A number of shares of one value, in one hand.
#[derive(Debug)]
pub(super) struct Shares<T> {
    /// Made by `Box`, which owns it as long as there are shares.
    counted: NonNull<Counted<T>>,
    number: NonZeroUsize,
}

#[derive(Debug)]
struct Counted<T> {
    /// Shares there are. Label U: an owner's subtraction, after all that he did with the value, pairs with the load or
    /// the fence of him who is alone.
    count: AtomicUsize,
    value: T,
}

// SAFETY: as for `Arc`: owners in several threads have `&T` at a time, and any of them may be the last, who drops the
// value.
unsafe impl<T: Send + Sync> Send for Shares<T> {}
// SAFETY: as above; a `&Shares<T>` lends nothing by itself, and shares are split by `&mut` only.
unsafe impl<T: Send + Sync> Sync for Shares<T> {}

impl<T> Alone<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Box::new(Counted {
            count: AtomicUsize::new(0),
            value,
        }))
    }

    pub(super) fn into_inner(self) -> T {
        self.0.value
    }

    /// So many shares of it.
    pub(super) fn shared_by(mut self, owners: NonZeroUsize) -> Shares<T> {
        self.0.count = AtomicUsize::new(owners.get());
        Shares {
            counted: NonNull::from(Box::leak(self.0)),
            number: owners,
        }
    }
}

impl<T> Shares<T> {
    /// One of them, if it is not the only one here.
    pub(super) fn split(&mut self) -> Option<Self> {
        let left = NonZeroUsize::new(self.number.get() - 1)?;
        self.number = left;
        Some(Self {
            counted: self.counted,
            number: NonZeroUsize::MIN,
        })
    }

    fn counted(&self) -> &Counted<T> {
        // SAFETY: it is freed by who takes the last shares off the count, or finds that his are all and gives them up
        // with it: not while these are counted and there (the theorem).
        unsafe { self.counted.as_ref() }
    }

    /// The value, if there are no shares but these.
    pub(super) fn into_alone(self) -> Result<Alone<T>, Self> {
        // Ordering: Acquire (U); whatever the others did with the value has been done.
        if self.counted().count.load(Ordering::Acquire) != self.number.get() {
            return Err(self);
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: made by `Box`; alone, and these shares are given up without being taken off.
        Ok(Alone(unsafe { Box::from_raw(this.counted.as_ptr()) }))
    }
}

impl<T: Clone> Shares<T> {
    /// The value, or a clone of it if others have a share.
    #[inline]
    pub(super) fn unwrap_or_clone(self) -> T {
        match self.into_alone() {
            Ok(alone) => alone.into_inner(),
            Err(shared) => {
                let clone = shared.counted().value.clone();
                // Here, where `clone` is dropped should that panic: a result that is on its way out would be leaked.
                drop(shared);
                clone
            }
        }
    }
}

impl<T> Drop for Shares<T> {
    #[inline]
    fn drop(&mut self) {
        let number = self.number.get();
        // Ordering: Release (U); pairs with the fence below, and with the load of `into_alone`, of whoever goes last.
        if self.counted().count.fetch_sub(number, Ordering::Release) == number {
            // Ordering: Acquire (U); whatever the others did with the value has been done.
            fence(Ordering::Acquire);
            // SAFETY: made by `Box`; these were the last shares.
            drop(unsafe { Box::from_raw(self.counted.as_ptr()) });
        }
    }
}
