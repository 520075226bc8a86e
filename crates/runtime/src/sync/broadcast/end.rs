//! The end of a channel, where messages come and receivers wait; and where one is on the way to it.
//!
//! # Theorem Broadcast: who is there has every message once, or is told how many are lost
//!
//! - **(a)** A message has a share for each receiver that has not taken it, and no other. It is put in, receivers come and go, in sections
//!   of the end's lock, so that it is made with a share for each that is there: that has, by its position, not taken it. A receiver has its position
//!   alone, and moves on with each share that it takes, or that it is told is lost. It takes none of another message: under the lock of
//!   the slot it has seen its position there, and no two messages have the same.
//! - **(b)** Who finds nothing in the slot looks at the end, in the section in which it enters the list. What is lost is taken out in
//!   the section that makes it lost, and messages move in one. So there a message is before the end and where its receivers look for it,
//!   or lost by its position, or not sent yet: then the section that puts it in comes later, and finds the receiver in the list.
//! - **(c)** Who goes is counted no more from the section on in which it learns how far it was sent messages. It takes its shares of those.
//!   By (a) the last to take one takes the message, which so goes with who wants it last.

use std::mem;
use std::sync::Arc;

use super::RecvError;
use super::slots::Slots;
use crate::sync::shares::Shares;

#[derive(Debug)]
pub(super) struct End<T> {
    /// Those of now; receivers have them, too, or have had.
    slots: Arc<Slots<T>>,
    /// Position of the next message.
    next: u64,
    capacity: usize,
    pub(super) senders: usize,
    pub(super) receivers: usize,
}

/// What a message has put out of the channel, to be dropped outside of the lock.
pub(super) struct Replaced<T> {
    _message: Option<Shares<T>>,
    _slots: Option<Arc<Slots<T>>>,
}

impl<T> End<T> {
    /// Of a channel with a sender and a receiver, which takes the first message next.
    pub(super) fn new(capacity: usize, slots: usize) -> (Self, Cursor<T>) {
        let slots = Arc::new(Slots::new(slots));
        let end = Self {
            slots: slots.clone(),
            next: 0,
            capacity,
            senders: 1,
            receivers: 1,
        };
        (end, Cursor { slots, next: 0 })
    }

    /// A receiver comes.
    pub(super) fn enter(&mut self) -> Cursor<T> {
        self.receivers += 1;
        Cursor {
            slots: self.slots.clone(),
            next: self.next,
        }
    }

    /// A receiver goes: the position of the first message that it will not be sent, and whether there is no receiver any more.
    pub(super) fn leave(&mut self) -> (u64, bool) {
        self.receivers -= 1;
        (self.next, self.receivers == 0)
    }

    /// Position of the first message that is not lost.
    fn oldest(&self) -> u64 {
        self.next.saturating_sub(self.capacity as u64)
    }

    /// How many messages not all have taken. Who has yet to take one has yet to take those behind it: they are the last ones.
    pub(super) fn wanted(&self) -> usize {
        let (mut free, mut wanted) = (self.oldest(), self.next);
        while free < wanted {
            let middle = free.midpoint(wanted);
            if self.slots.is_wanted(middle) {
                wanted = middle;
            } else {
                free = middle + 1;
            }
        }
        usize::try_from(self.next - wanted).expect("at most the capacity")
    }

    /// Sends to all who receive.
    pub(super) fn push(&mut self, message: Shares<T>) -> Replaced<T> {
        let message = message.multiplied(self.receivers);
        let position = self.next;
        self.next += 1;
        let is_full_size = self.slots.len() >= self.capacity;
        match self.slots.put(position, message, is_full_size) {
            Ok(replaced) => {
                // With more slots than are kept that one was free, and another message goes.
                let lost = self
                    .oldest()
                    .checked_sub(1)
                    .filter(|_| self.slots.len() > self.capacity);
                Replaced {
                    _message: replaced.or_else(|| self.slots.remove(lost?)),
                    _slots: None,
                }
            }
            Err(message) => {
                let grown = Arc::new(self.slots.grown());
                let put = grown.put(position, message, false);
                assert!(matches!(put, Ok(None)), "there are places that have never been used");
                Replaced {
                    _message: None,
                    _slots: Some(mem::replace(&mut self.slots, grown)),
                }
            }
        }
    }
}

/// Where a receiver is.
#[derive(Debug)]
pub(super) struct Cursor<T> {
    /// Those of the last look at the end.
    slots: Arc<Slots<T>>,
    /// Position of what it takes next.
    next: u64,
}

impl<T> Cursor<T> {
    /// Position of what it takes next.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// How many messages were sent since, those among them that are lost included.
    pub(super) fn distance(&self, end: &End<T>) -> u64 {
        end.next - self.next
    }

    /// The next message, if it is where it was to be expected.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Shares<T>> {
        let message = self.slots.take(self.next)?;
        self.next += 1;
        Some(message)
    }

    /// How many messages were lost since the last look, and the slots of before if they have moved. What is kept is from now on where
    /// it is to be expected, while the lock of the end is held.
    pub(super) fn catch_up(&mut self, end: &End<T>) -> (u64, Option<Arc<Slots<T>>>) {
        let has_moved = !Arc::ptr_eq(&self.slots, &end.slots);
        let before = has_moved.then(|| mem::replace(&mut self.slots, end.slots.clone()));
        let missed = end.oldest().saturating_sub(self.next);
        self.next += missed;
        (missed, before)
    }

    /// The next message, or why there is none; nothing if that is to be waited for.
    pub(super) fn take_at(&mut self, end: &End<T>) -> Option<Result<Shares<T>, RecvError>> {
        // The slots of before have no messages: no destructor of the user's.
        let (missed, _) = self.catch_up(end);
        if missed > 0 {
            return Some(Err(RecvError::Lagged(missed)));
        }
        if self.next == end.next {
            return (end.senders == 0).then_some(Err(RecvError::Closed));
        }
        let message = self.take();
        debug_assert!(message.is_some(), "it was sent, and is not lost");
        message.map(Ok)
    }
}
