//! The bound queue of a worker: threads that have started and may run nowhere else (B).
//!
//! Two parts. The FIFO, a list through the tasks' metadata, is part of the worker's context: what runs on the worker
//! pushes here; before the list there is a place for the one that is to follow whoever has just woken it, as the slot
//! is before the deque. Nobody rescues what is in that place, because nobody else may run it. The mailbox is where
//! everybody else pushes; it is part of what others see of the worker, and emptied by it alone.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::Linked;
use super::mailbox::Mailbox;
use crate::primitives::Ordering;

/// The worker's own part: a list linked through its items. Not `Sync`: no other thread sees it.
#[derive(Debug)]
pub(crate) struct BoundFifo<T: Linked> {
    /// What is popped next; null: nothing.
    first: Cell<*mut ()>,
    /// What was pushed last; means nothing while `first` is null.
    last: Cell<*mut ()>,
    /// What follows the thread that has woken it; null: nothing. Not in the list.
    next: Cell<*mut ()>,
    /// With `next`.
    len: Cell<usize>,
    holds: PhantomData<T>,
}

impl<T: Linked> BoundFifo<T> {
    pub(crate) fn new() -> Self {
        Self {
            first: Cell::new(ptr::null_mut()),
            last: Cell::new(ptr::null_mut()),
            next: Cell::new(ptr::null_mut()),
            len: Cell::new(0),
            holds: PhantomData,
        }
    }

    /// Pushes at the back.
    #[inline]
    pub(crate) fn push(&self, item: T) {
        self.len.set(self.len.get() + 1);
        self.append(item.into_raw());
    }

    /// Puts it where [`pop_next`](Self::pop_next) finds it, and what was there at the back.
    #[inline]
    pub(crate) fn push_next(&self, item: T) {
        self.len.set(self.len.get() + 1);
        if let Some(displaced) = NonNull::new(self.next.replace(item.into_raw().as_ptr())) {
            self.append(displaced);
        }
    }

    /// Takes what was put there last, if nobody has yet.
    #[inline]
    pub(crate) fn pop_next(&self) -> Option<T> {
        let raw = NonNull::new(self.next.replace(ptr::null_mut()))?;
        self.len.set(self.len.get() - 1);
        // SAFETY: put there as a word, and taken out once.
        Some(unsafe { T::from_raw(raw) })
    }

    fn append(&self, raw: NonNull<()>) {
        // SAFETY: just turned into a word, or out of `next`, and ours.
        let link = unsafe { T::link(raw) };
        // Ordering: Relaxed; the list is this thread's, here and below.
        link.store(ptr::null_mut(), Ordering::Relaxed);
        if self.first.get().is_null() {
            self.first.set(raw.as_ptr());
        } else if let Some(last) = NonNull::new(self.last.get()) {
            // SAFETY: it is in the list, hence ours.
            unsafe { T::link(last) }.store(raw.as_ptr(), Ordering::Relaxed);
        }
        self.last.set(raw.as_ptr());
    }

    /// Takes from the front; when there is nothing, empties `mailbox` first, and then takes what
    /// [`push_next`](Self::push_next) has put before the list. What comes after it is fetched into the cache meanwhile,
    /// in two steps.
    #[inline]
    pub(crate) fn pop(&self, mailbox: &Mailbox<T>) -> Option<T> {
        let raw = match NonNull::new(self.first.get()) {
            Some(raw) => raw,
            None => return self.pop_collected(mailbox),
        };
        Some(self.take_first(raw))
    }

    /// [`pop`](Self::pop) with an empty list. Out of line, as the list seldom is.
    #[inline(never)]
    fn pop_collected(&self, mailbox: &Mailbox<T>) -> Option<T> {
        self.collect(mailbox);
        match NonNull::new(self.first.get()) {
            Some(raw) => Some(self.take_first(raw)),
            None => self.pop_next(),
        }
    }

    /// Takes the first of the list, which is `raw`.
    #[inline]
    fn take_first(&self, raw: NonNull<()>) -> T {
        // SAFETY: it is in the list, hence ours.
        let next = unsafe { T::link(raw) }.load(Ordering::Relaxed);
        self.first.set(next);
        self.len.set(self.len.get() - 1);
        if let Some(next) = NonNull::new(next) {
            // Two turns before it runs a thread is fetched, so that it is there when one turn later its word for its
            // stack is read.
            // SAFETY: as above.
            if let Some(after) = NonNull::new(unsafe { T::link(next) }.load(Ordering::Relaxed)) {
                T::fetch(after);
            }
            // SAFETY: as above.
            unsafe { T::prefetch(next) };
        }
        // SAFETY: pushed as a word, and taken out once.
        unsafe { T::from_raw(raw) }
    }

    /// Moves what is in the mailbox to the back, oldest first.
    #[inline]
    pub(crate) fn collect(&self, mailbox: &Mailbox<T>) {
        if !mailbox.is_empty() {
            mailbox.drain().for_each(|item| self.push(item));
        }
    }

    /// Number of items in it.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.get()
    }

    /// Number of items in the list: without what [`pop_next`](Self::pop_next) finds.
    pub(crate) fn listed(&self) -> usize {
        self.len.get() - usize::from(!self.next.get().is_null())
    }
}

impl<T: Linked> Drop for BoundFifo<T> {
    fn drop(&mut self) {
        let nothing = Mailbox::new();
        while let Some(item) = self.pop(&nothing) {
            drop(item);
        }
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::sched::queue::item::Item;

    #[test]
    fn first_in_first_out_and_nothing_is_left() {
        let numbers: Vec<_> = (0..9).map(Arc::new).collect();
        let item = |number: usize| Item::new(numbers[number].clone());
        let (fifo, mailbox) = (BoundFifo::new(), Mailbox::new());
        let pop = || fifo.pop(&mailbox).map(|item: Item<Arc<usize>>| **item.value());
        assert_eq!(pop(), None);
        // Emptied and filled again, so that what was last is of no meaning.
        for round in [0..1, 1..4] {
            round.clone().for_each(|number| fifo.push(item(number)));
            assert_eq!(fifo.len(), round.len());
            assert_eq!(
                round.clone().map(|_| pop()).collect::<Vec<_>>(),
                round.map(Some).collect::<Vec<_>>()
            );
            assert_eq!((pop(), fifo.len()), (None, 0));
        }
        // Before all others while it is asked for so, behind them else, and in the list once another is.
        fifo.push(item(0));
        fifo.push_next(item(1));
        fifo.push_next(item(2));
        assert_eq!((fifo.len(), fifo.listed()), (3, 2));
        let pop_next = || fifo.pop_next().map(|item: Item<Arc<usize>>| **item.value());
        assert_eq!((pop_next(), pop_next(), fifo.len()), (Some(2), None, 2));
        fifo.push_next(item(3));
        assert_eq!([pop(), pop(), pop(), pop()], [Some(0), Some(1), Some(3), None]);
        fifo.push_next(item(8));
        fifo.push(item(4));
        mailbox.push(item(5));
        mailbox.push(item(6));
        fifo.collect(&mailbox);
        assert_eq!(fifo.len(), 4);
        fifo.push(item(7));
        assert_eq!([pop(), pop()], [Some(4), Some(5)]);
        mailbox.push(item(6));
        drop(fifo);
        assert_eq!(mailbox.drain().count(), 1);
        assert!(
            numbers.iter().all(|number| Arc::strong_count(number) == 1),
            "each is dropped once"
        );
    }
}
