//! A vector that few of its owners ever fill.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

/// A `Vec` of which to drop an empty one is to look at a word: what is done for any other is not part of whoever drops
/// it.
pub(super) struct Rarely<T>(ManuallyDrop<Vec<T>>);

impl<T> Rarely<T> {
    pub(super) const fn new() -> Self {
        Self(ManuallyDrop::new(Vec::new()))
    }

    /// # Safety
    /// It is not used any more after this.
    #[cold]
    unsafe fn free(&mut self) {
        // SAFETY: by our contract.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

impl<T> Drop for Rarely<T> {
    #[inline(always)]
    fn drop(&mut self) {
        // Without capacity it has neither elements nor memory. A vector of zero-sized values has `usize::MAX`.
        if self.capacity() > 0 {
            // SAFETY: this is its end.
            unsafe { self.free() };
        }
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
    use std::cell::Cell;
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

    #[test]
    fn values_without_size_are_dropped() {
        thread_local! {
            static DROPS: Cell<u32> = const { Cell::new(0) };
        }
        struct Sizeless;
        impl Drop for Sizeless {
            fn drop(&mut self) {
                DROPS.set(DROPS.get() + 1);
            }
        }
        let mut vector = Rarely::new();
        vector.extend([Sizeless, Sizeless]);
        drop(vector);
        assert_eq!(DROPS.get(), 2);
    }
}
