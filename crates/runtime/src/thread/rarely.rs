//! A vector that few of its owners ever fill.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

/// A `Vec` of which to drop an empty one is to look at a word: what is done for any other is not part of whoever drops it.
pub(super) struct Rarely<T>(ManuallyDrop<Vec<T>>);

impl<T> Rarely<T> {
    pub(super) const fn new() -> Self {
        Self(ManuallyDrop::new(Vec::new()))
    }

    #[cold]
    fn free(&mut self) {
        // SAFETY: for `drop` alone, so this is its end.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

impl<T> Drop for Rarely<T> {
    #[inline(always)]
    fn drop(&mut self) {
        // Without capacity it has neither elements nor memory. (A type without size, of which no vector has less capacity, is dropped as any.)
        if self.capacity() > 0 {
            self.free();
        }
    }
}

impl<T> Default for Rarely<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Deref for Rarely<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T> DerefMut for Rarely<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Rarely<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn what_is_in_it_is_dropped_with_it_and_taken_out_is_not() {
        let one = Rc::new(());
        let mut vector = Rarely::new();
        vector.extend([one.clone(), one.clone()]);
        let taken = std::mem::take(&mut *vector);
        assert_eq!(Rc::strong_count(&one), 3);
        vector.push(one.clone());
        drop(vector);
        assert_eq!(Rc::strong_count(&one), 3);
        drop(taken);
        drop(Rarely::<Rc<()>>::new());
        assert_eq!(Rc::strong_count(&one), 1);
    }
}
