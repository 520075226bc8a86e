//! For tests of the queues: something that can stand in one.

use std::ptr::NonNull;

use super::Linked;
use crate::primitives::AtomicPtr;

/// A value in a box with a link.
pub(super) struct Item<T>(Box<(AtomicPtr<()>, T)>);

impl<T> Item<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Box::new((AtomicPtr::default(), value)))
    }

    pub(super) fn value(&self) -> &T {
        &self.0.1
    }
}

// SAFETY: the word is the box's address; the link is a field of what is in the box.
unsafe impl<T> Linked for Item<T> {
    fn into_raw(self) -> NonNull<()> {
        NonNull::from(Box::leak(self.0)).cast()
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: from `into_raw`, once, says the caller.
        Self(unsafe { Box::from_raw(raw.cast().as_ptr()) })
    }

    unsafe fn link<'a>(raw: NonNull<()>) -> &'a AtomicPtr<()> {
        // SAFETY: from `into_raw` and not yet turned back, says the caller.
        unsafe { &(*raw.cast::<(AtomicPtr<()>, T)>().as_ptr()).0 }
    }
}
