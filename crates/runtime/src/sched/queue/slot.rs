//! The LIFO slot: the task a worker runs next.
//!
//! Filled and emptied by its worker, and emptied late by who rescues (W5). Every transfer is a swap, so that a word
//! leaves it once (W2); filling it notifies nobody.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::Linked;
use crate::primitives::{AtomicPtr, Ordering};

#[derive(Debug)]
pub(crate) struct Slot<T: Linked> {
    word: AtomicPtr<()>,
    holds: PhantomData<T>,
}

// SAFETY: the slot hands a T from one thread to another, by an atomic word.
unsafe impl<T: Linked + Send> Sync for Slot<T> {}
// SAFETY: as above.
unsafe impl<T: Linked + Send> Send for Slot<T> {}

impl<T: Linked> Slot<T> {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicPtr::new(ptr::null_mut()),
            holds: PhantomData,
        }
    }

    /// Fills the slot and gives back what was in it. Owner only.
    #[inline]
    pub(crate) fn replace(&self, item: T) -> Option<T> {
        // Ordering: AcqRel; (W1 a) publishes the task to whoever takes it, and takes in one that was put here before.
        from(self.word.swap(item.into_raw().as_ptr(), Ordering::AcqRel))
    }

    /// Takes what is in the slot.
    #[inline]
    pub(crate) fn take(&self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        self.take_present()
    }

    /// The same for who has just seen that it does not look empty.
    #[inline]
    pub(crate) fn take_present(&self) -> Option<T> {
        // Ordering: Acquire; pairs with `replace` (W1 a).
        from(self.word.swap(ptr::null_mut(), Ordering::Acquire))
    }

    /// Whether the slot looks empty; exact for its owner if it says yes.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // Ordering: Relaxed; a hint, the swap decides.
        self.word.load(Ordering::Relaxed).is_null()
    }
}

fn from<T: Linked>(word: *mut ()) -> Option<T> {
    // SAFETY: words in the slot come from `into_raw`, and the swap that gave us this one gave it to nobody else.
    NonNull::new(word).map(|raw| unsafe { T::from_raw(raw) })
}

impl<T: Linked> Drop for Slot<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
