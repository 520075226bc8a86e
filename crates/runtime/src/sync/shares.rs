//! A value that a known number of owners have, each a share of it.
//!
//! As `Arc`, but who makes it says how many owners there will be: their shares are counted before, all at once, and one hand has
//! them until they are handed out. So an owner who comes counts nothing, and an owner who goes counts once.
//!
//! # Theorem
//!
//! The count is the sum of the numbers of all [`Shares`] of the value. It begins so; [`Shares::split`] leaves the sum as it is,
//! [`Shares::multiplied`] sets both while there is one hand, and who gives shares up takes as many off the count. So who takes off the last is
//! alone, and whoever finds as many counted as he has is alone.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::primitives::{AtomicUsize, Ordering, fence};

/// A number of shares of one value, in one hand: at least one.
#[derive(Debug)]
pub(super) struct Shares<T> {
    counted: NonNull<Counted<T>>,
    number: usize,
    /// Who drops it may drop the value.
    _owned: PhantomData<Counted<T>>,
}

#[derive(Debug)]
struct Counted<T> {
    /// Shares there are. Label Q: an owner's subtraction, after all that he did with the value, pairs with the load or the fence
    /// of him who is alone.
    count: AtomicUsize,
    value: T,
}

// SAFETY: as for `Arc`: owners in several threads have `&T` at a time, and any of them may be the last, who drops the value.
unsafe impl<T: Send + Sync> Send for Shares<T> {}
// SAFETY: as above; a `&Shares<T>` lends a `&T`, and shares are split by `&mut` only.
unsafe impl<T: Send + Sync> Sync for Shares<T> {}

impl<T> Shares<T> {
    /// One share of a value that nobody else has.
    pub(super) fn new(value: T) -> Self {
        let counted = Box::new(Counted {
            count: AtomicUsize::new(1),
            value,
        });
        Self::of(NonNull::from(Box::leak(counted)), 1)
    }

    fn of(counted: NonNull<Counted<T>>, number: usize) -> Self {
        Self {
            counted,
            number,
            _owned: PhantomData,
        }
    }

    /// So many shares of a value that nobody else has: at least one.
    pub(super) fn multiplied(mut self, number: usize) -> Self {
        debug_assert!(self.are_all() && number > 0);
        // Ordering: Relaxed; nobody else has it, and how it comes to others is who hands it on's affair.
        self.counted().count.store(number, Ordering::Relaxed);
        self.number = number;
        self
    }

    /// One of them, if it is not the only one here.
    pub(super) fn split(&mut self) -> Option<Self> {
        if self.number == 1 {
            return None;
        }
        self.number -= 1;
        Some(Self::of(self.counted, 1))
    }

    fn counted(&self) -> &Counted<T> {
        // SAFETY: it is freed by who takes the last share off the count, which these are not yet (the theorem).
        unsafe { self.counted.as_ref() }
    }

    /// Whether there are no other shares than these.
    pub(super) fn are_all(&self) -> bool {
        // Ordering: Acquire (Q); whatever the others did with the value has been done.
        self.counted().count.load(Ordering::Acquire) == self.number
    }

    /// The value, if nobody else has a share.
    pub(super) fn into_inner(self) -> Result<T, Self> {
        if !self.are_all() {
            return Err(self);
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: made by `Box::leak`; alone, and these shares are given up without a word.
        let counted = unsafe { Box::from_raw(this.counted.as_ptr()) };
        Ok(counted.value)
    }
}

impl<T: Clone> Shares<T> {
    /// The value, or a clone of it if others have a share.
    #[inline]
    pub(super) fn unwrap_or_clone(self) -> T {
        self.into_inner()
            .unwrap_or_else(|shared| shared.counted().value.clone())
    }
}

impl<T> Drop for Shares<T> {
    #[inline]
    fn drop(&mut self) {
        // Ordering: Release (Q); pairs with the fence below, and with the load of `are_all`, of whoever goes last.
        if self.counted().count.fetch_sub(self.number, Ordering::Release) == self.number {
            // Ordering: Acquire (Q); whatever the others did with the value has been done.
            fence(Ordering::Acquire);
            // SAFETY: made by `Box::leak`; these were the last shares.
            drop(unsafe { Box::from_raw(self.counted.as_ptr()) });
        }
    }
}
