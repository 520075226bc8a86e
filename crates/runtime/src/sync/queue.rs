//! A first-in, first-out store whose longest pause doesn't grow with its length.
//!
//! One `VecDeque` would copy every element when it grows, and it grows inside the channel's lock. So elements live in
//! chunks of at most [`CHUNK_BYTES`]: growing costs one allocation, and shrinking gives memory back. A channel whose
//! bound fits one chunk is a plain ring that never allocates after its creation.

use std::collections::VecDeque;
use std::mem;

use super::ring::Ring;

/// The size that a chunk should not exceed: 64 KiB, the ring that hackbench gives a receiver.
const CHUNK_BYTES: usize = 64 * 1024;

// The hot fields first, in 40 bytes; those behind them are reached when a chunk is full or empty.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Queue<T> {
    /// The oldest elements. Empty only if the whole queue is.
    front: Ring<T>,
    /// Elements in `behind`; new ones go there while it isn't zero.
    behind_len: usize,
    chunk_max: usize,
    more: Box<More<T>>,
}

#[derive(Debug)]
struct More<T> {
    /// Younger chunks, oldest first; none is empty.
    behind: VecDeque<Ring<T>>,
    /// The chunk that ran empty last, kept for the next one that is needed: while there are others, so that a burst
    /// that was received leaves one chunk; and where chunks are of so few elements that each of a few messages would
    /// need another.
    spare: Option<Ring<T>>,
}

impl<T> Queue<T> {
    /// Space for `len_expected` elements is there at once, as far as one chunk holds it.
    pub(super) fn with_expected(len_expected: usize) -> Self {
        let chunk_max = (CHUNK_BYTES / size_of::<T>().max(1)).clamp(1, 1024);
        Self {
            front: Ring::with_capacity(len_expected.min(chunk_max)),
            behind_len: 0,
            chunk_max,
            more: Box::new(More {
                behind: VecDeque::new(),
                spare: None,
            }),
        }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.front.len() + self.behind_len
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.front.is_empty()
    }

    #[inline(always)]
    pub(super) fn push(&mut self, value: T) {
        self.push_with(|| value);
    }

    /// See [`Ring::push_with`].
    #[inline(always)]
    pub(super) fn push_with(&mut self, make: impl FnOnce() -> T) {
        if self.behind_len == 0 && self.front.len() < self.chunk_max {
            self.front.push_with(make);
        } else {
            self.push_behind(make());
        }
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<T> {
        let mut value = None;
        self.pop_with(|oldest| value = Some(oldest));
        value
    }

    /// See [`Ring::pop_with`]. `keep` neither panics nor drops the value: the next chunk would not be found, and the
    /// channel's lock is held.
    #[inline(always)]
    pub(super) fn pop_with(&mut self, keep: impl FnOnce(T)) {
        self.front.pop_with(keep);
        if self.behind_len != 0 && self.front.is_empty() {
            self.advance();
        }
    }

    /// Takes everything out and leaves an empty queue without memory.
    pub(super) fn take_all(&mut self) -> Self {
        let chunk_max = self.chunk_max;
        let empty = Self {
            front: Ring::with_capacity(0),
            behind_len: 0,
            chunk_max,
            more: Box::new(More {
                behind: VecDeque::new(),
                spare: None,
            }),
        };
        mem::replace(self, empty)
    }

    #[cold]
    fn push_behind(&mut self, value: T) {
        let chunk_max = self.chunk_max;
        match self.more.behind.back_mut() {
            Some(last) if last.len() < chunk_max => last.push(value),
            _ => {
                let mut chunk = self.more.spare.take().unwrap_or_else(|| Ring::with_capacity(chunk_max));
                chunk.push(value);
                self.more.behind.push_back(chunk);
            }
        }
        self.behind_len += 1;
    }

    #[cold]
    fn advance(&mut self) {
        if let Some(next) = self.more.behind.pop_front() {
            self.behind_len -= next.len();
            let empty = mem::replace(&mut self.front, next);
            self.more.spare = (self.behind_len != 0 || self.chunk_max < 4).then_some(empty);
        }
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;

    /// Runs rounds of `push` and `pop` elements against a `VecDeque`.
    fn check(expected: usize, rounds: &[(usize, usize)]) {
        let mut queue = Queue::with_expected(expected);
        let mut model = VecDeque::new();
        let mut next = 0_u64;
        for &(pushed, popped) in rounds {
            for _ in 0..pushed {
                queue.push(next);
                model.push_back(next);
                next += 1;
            }
            for _ in 0..popped {
                assert_eq!(queue.pop(), model.pop_front());
                assert_eq!((queue.len(), queue.is_empty()), (model.len(), model.is_empty()));
            }
        }
        let mut rest = queue.take_all();
        assert!(queue.is_empty());
        while let Some(value) = model.pop_front() {
            assert_eq!(rest.pop(), Some(value));
        }
        assert_eq!(rest.pop(), None);
    }

    #[test]
    fn order_holds_within_one_chunk_and_over_many() {
        check(4, &[(4, 2), (2, 4), (0, 1), (3, 1)]);
        check(0, &[(5000, 10), (1, 4000), (3000, 3000), (0, 2000), (1, 1)]);
        check(2000, &[(2000, 1500), (1500, 1500), (1500, 2000), (3, 0)]);
    }

    #[test]
    fn a_burst_leaves_one_chunk() {
        let mut queue = Queue::with_expected(0);
        for _ in 0..2 {
            (0..10_000).for_each(|n| queue.push(n));
            (0..5_000).for_each(|n| assert_eq!(queue.pop(), Some(n)));
            assert!(queue.more.spare.is_some(), "others are needed");
            (5_000..10_000).for_each(|n| assert_eq!(queue.pop(), Some(n)));
            assert!(queue.more.spare.is_none() && queue.more.behind.is_empty());
        }
    }

    #[test]
    fn chunks_of_large_and_of_empty_elements() {
        let mut large = Queue::with_expected(2);
        (0..20_u8).for_each(|n| large.push([n; 10_000]));
        assert_eq!(
            (0..20).filter(|n| large.pop().is_some_and(|v| v[9_999] == *n)).count(),
            20
        );
        for expected in [0, 100] {
            let mut huge = Queue::<[u8; 1 << 16]>::with_expected(expected);
            huge.push([1; 1 << 16]);
            assert_eq!(huge.front.places(), 1, "its memory is that of one");
        }
        let mut empty = Queue::with_expected(usize::MAX);
        (0..5000).for_each(|_| empty.push(()));
        assert_eq!(empty.len(), 5000);
    }
}
