//! The bound queue of a worker: threads that have started and may run nowhere else (B).
//!
//! Two parts. The FIFO is a plain cell of the worker's context: what runs on the worker pushes here. The mailbox is where
//! everybody else pushes; it is part of what others see of the worker, and emptied by it alone.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::Linked;
use super::mailbox::Mailbox;

/// The worker's own part. Not `Sync`: no other thread sees it.
#[derive(Debug)]
pub(crate) struct BoundFifo<T>(RefCell<VecDeque<T>>);

impl<T: Linked> BoundFifo<T> {
    pub(crate) fn new() -> Self {
        Self(RefCell::new(VecDeque::new()))
    }

    /// Pushes at the back.
    #[inline]
    pub(crate) fn push(&self, item: T) {
        self.0.borrow_mut().push_back(item);
    }

    /// Takes from the front; when there is nothing, empties `mailbox` first.
    #[inline]
    pub(crate) fn pop(&self, mailbox: &Mailbox<T>) -> Option<T> {
        if let Some(item) = self.0.borrow_mut().pop_front() {
            return Some(item);
        }
        if mailbox.is_empty() {
            return None;
        }
        self.collect(mailbox);
        self.0.borrow_mut().pop_front()
    }

    /// Moves what is in the mailbox to the back, oldest first.
    pub(crate) fn collect(&self, mailbox: &Mailbox<T>) {
        if !mailbox.is_empty() {
            self.0.borrow_mut().extend(mailbox.drain());
        }
    }

    /// Number of items in it.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.borrow().len()
    }
}
