//! A ring of elements that fetches its next place before it is needed.

use std::mem::MaybeUninit;

use crate::sys::prefetch;

/// Elements below this size mostly lie in the cache line of the one before them: nothing to fetch.
const FETCH_BYTES_MIN: usize = 32;

/// Cache lines of one element that are fetched; the hardware follows what lies behind.
const FETCH_LINES_MAX: usize = 4;

/// A queue in one piece of memory that grows when it is full.
///
/// `VecDeque` does the same. But who writes into many rings in turn (a sender to all its receivers) finds the next
/// place of each in no near cache, and the release of the channel's lock waits behind that store: a third of the time
/// of a message of 100 bytes in rings of 64 KiB, and `VecDeque` doesn't say where its next place is.
#[derive(Debug)]
pub(super) struct Ring<T> {
    /// Initialised at the `len` places from `head` on, around the end.
    places: Box<[MaybeUninit<T>]>,
    /// Below the number of places, or zero.
    head: usize,
    /// At most the number of places.
    len: usize,
}

impl<T> Ring<T> {
    /// With memory for `capacity` elements; zero takes none.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self {
            places: Box::new_uninit_slice(capacity),
            head: 0,
            len: 0,
        }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    pub(super) fn push(&mut self, value: T) {
        self.push_with(|| value);
    }

    /// The value is made when its place is known, so that it can be made there: a copy saved for large ones.
    #[inline(always)]
    pub(super) fn push_with(&mut self, make: impl FnOnce() -> T) {
        if self.len == self.places.len() {
            self.grow();
        }
        let tail = self.wrapped(self.head + self.len);
        self.places[tail].write(make());
        self.len += 1;
        self.fetch(self.wrapped(tail + 1));
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<T> {
        let mut value = None;
        self.pop_with(|oldest| value = Some(oldest));
        value
    }

    /// Moves the oldest value to where `keep` puts it, which is its last place: a copy saved for large ones. Nothing if
    /// the ring is empty.
    #[inline(always)]
    pub(super) fn pop_with(&mut self, keep: impl FnOnce(T)) {
        if self.len == 0 {
            return;
        }
        let oldest = self.head;
        self.head = self.wrapped(oldest + 1);
        self.len -= 1;
        // SAFETY: initialised, because `len` was not zero; read once, because the place has left the range.
        keep(unsafe { self.places[oldest].assume_init_read() });
    }

    /// Of an index below twice the number of places.
    #[inline(always)]
    fn wrapped(&self, index: usize) -> usize {
        if index >= self.places.len() {
            index - self.places.len()
        } else {
            index
        }
    }

    /// Fetches a place; of an index that may be any.
    #[inline(always)]
    fn fetch(&self, index: usize) {
        if size_of::<T>() < FETCH_BYTES_MIN {
            return;
        }
        let first = self.places.as_ptr().wrapping_add(index).cast::<u8>();
        prefetch::line(first);
        // A loop of known length has no instructions of its own.
        let mut line = 1;
        while line < FETCH_LINES_MAX && line * prefetch::LINE < size_of::<T>() {
            prefetch::line(first.wrapping_add(line * prefetch::LINE));
            line += 1;
        }
        prefetch::line(first.wrapping_add(size_of::<T>() - 1));
    }

    /// Places of the first growth: of large elements no more than are needed.
    const FEWEST: usize = match 16 * 1024 / if size_of::<T>() == 0 { 1 } else { size_of::<T>() } {
        0 => 1,
        fit if fit < 4 => fit,
        _ => 4,
    };

    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.places.len()
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = Self::with_capacity((2 * self.places.len()).max(Self::FEWEST));
        while let Some(value) = self.pop() {
            larger.places[larger.len].write(value);
            larger.len += 1;
        }
        *self = larger;
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        /// Goes on if a destructor panics.
        struct Rest<'a, T>(&'a mut Ring<T>);

        impl<T> Drop for Rest<'_, T> {
            fn drop(&mut self) {
                while self.0.pop().is_some() {}
            }
        }

        let rest = Rest(self);
        while rest.0.pop().is_some() {}
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;

    /// All sequences of `steps` pushes and pops from a ring of `capacity`, against a `VecDeque`.
    fn check(capacity: usize, steps: u32) {
        for sequence in 0..1_u32 << steps {
            let mut ring = Ring::with_capacity(capacity);
            let mut model = VecDeque::new();
            for step in 0..steps {
                if sequence >> step & 1 == 1 {
                    let value = [u64::from(step); 5];
                    ring.push(value);
                    model.push_back(value);
                } else {
                    assert_eq!(
                        ring.pop(),
                        model.pop_front(),
                        "capacity {capacity}, sequence {sequence:b}"
                    );
                }
                assert_eq!((ring.len(), ring.is_empty()), (model.len(), model.is_empty()));
            }
        }
    }

    #[test]
    fn every_short_history_is_that_of_a_queue() {
        (0..6).for_each(|capacity| check(capacity, 12));
    }

    #[test]
    fn elements_without_size() {
        let mut ring = Ring::with_capacity(2);
        (0..9).for_each(|_| ring.push(()));
        assert_eq!(std::iter::from_fn(|| ring.pop()).count(), 9);
    }

    #[test]
    fn what_is_inside_is_dropped_with_it_also_when_a_destructor_panics() {
        struct Sometimes {
            _counted: Rc<()>,
            panics: bool,
        }
        impl Drop for Sometimes {
            fn drop(&mut self) {
                assert!(!self.panics, "as asked");
            }
        }
        let count = Rc::new(());
        let mut ring = Ring::with_capacity(3);
        for n in 0..5 {
            ring.push(Sometimes {
                _counted: Rc::clone(&count),
                panics: n == 2,
            });
        }
        drop(ring.pop());
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(ring)));
        assert!(dropped.is_err());
        assert_eq!(Rc::strong_count(&count), 1);
    }
}
