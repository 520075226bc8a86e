//! The end of a channel, where messages come and receivers wait; and where one is on the way to it.
//!
//! # Theorem Broadcast: who is there has every message once, or is told how many are lost
//!
//! - **(a)** A message has a share for each receiver that has not taken it, and no other. It is put in, receivers come
//!   and go, in sections of the end's lock, so that it is made with a share for each that is there: that has, by its
//!   position, not taken it. A receiver has its position alone, and moves on with each share that it takes, or that it
//!   is told is lost. It takes none of another message: under the lock of the slot it has seen its position there, and
//!   no two messages have the same.
//! - **(b)** Who finds nothing in the slot looks at the end, in the section in which it enters the list. What is lost
//!   is taken out in the section that makes it lost, and messages move in one. So there a message is before the end and
//!   where its receivers look for it, or lost by its position, or not sent yet: then the section that puts it in comes
//!   later, and finds the receiver in the list.
//! - **(c)** Nobody receives a message while another has one that is lost by it: that is taken out before the new one
//!   is put in, or by the same step.
//! - **(d)** Who goes is counted no more from the section on in which it learns how far it was sent messages. It takes
//!   its shares of those, and is *leaving* until it has dropped them; who waits for the end of all receivers waits for
//!   who is leaving, too. So it finds nothing in the channel.
//!
//! As long as there are fewer slots than are kept, the messages that somebody wants are among the last ones, as many as
//! there are slots: one that would be put over another has more slots made first. So none of them is lost then, and all
//! find places among twice as many, or more.

use std::mem;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrayvec::ArrayVec;

use super::RecvError;
use super::slots::Slots;
use crate::sync::shares::{Alone, Shares};
use crate::sync::watched::{Place, Watching};

/// Messages that one who goes passes by in a section. As many and fewer go at once.
const BATCH_MAX: usize = if cfg!(quadrille_loom) { 1 } else { 32 };

/// With so many slots all are made next that there will ever be, where those are no more than [`AT_ONCE_MAX`]: to
/// double them moves the messages of all, in one section, for which everybody waits.
const DOUBLED_MAX: usize = 1 << 14;
const AT_ONCE_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct End<T> {
    /// Those of now; receivers have them, too, or have had.
    slots: Arc<Slots<T>>,
    /// Position of the next message.
    next: u64,
    capacity: usize,
    pub(super) senders: usize,
    pub(super) receivers: usize,
    /// Receivers that are counted no more, and may have shares.
    leaving: usize,
}

/// What comes of sending.
pub(super) enum Pushed<T> {
    /// To so many.
    Sent(usize, Replaced<T>),
    /// Nobody is there.
    Unheard(Alone<T>),
    /// So many slots are to be made, outside of the lock; then once more.
    NeedsSlots(usize, Alone<T>),
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
            leaving: 0,
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

    /// A receiver goes: the position of the first message that it will not be sent.
    pub(super) fn leave(&mut self) -> u64 {
        self.receivers -= 1;
        self.leaving += 1;
        self.next
    }

    /// It has gone: whether there is no other, nor one that goes.
    pub(super) fn left(&mut self) -> bool {
        self.leaving -= 1;
        self.is_unheard()
    }

    /// Whether there is no receiver, and no share of one that goes.
    pub(super) fn is_unheard(&self) -> bool {
        self.receivers == 0 && self.leaving == 0
    }

    /// Position of the first message that is not lost.
    fn oldest(&self) -> u64 {
        self.next.saturating_sub(self.capacity as u64)
    }

    /// How many messages not all have taken. Who has yet to take one has yet to take those behind it: they are the last
    /// ones. While it is looked for the first of them moves on, message by message, so that what is found was right at
    /// some time meanwhile. But one that leaves has no shares of what was sent since: it is found as if it were there
    /// and had them, or not at all.
    pub(super) fn wanted(&self) -> usize {
        if self.receivers == 0 {
            return 0;
        }
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

    /// Sends to all who receive. `more` are slots that it has asked for before; they stay there if there are enough by
    /// now.
    pub(super) fn push(&mut self, message: Alone<T>, more: &mut Option<Slots<T>>) -> Pushed<T> {
        let Some(receivers) = NonZeroUsize::new(self.receivers) else {
            return Pushed::Unheard(message);
        };
        let (position, slots) = (self.next, self.slots.len());
        // With more slots than are kept the new message's is free, and another is lost; with as many it takes the place
        // of the lost one.
        let lost = position
            .checked_sub(self.capacity as u64)
            .filter(|_| slots > self.capacity);
        let lost = lost.and_then(|lost| self.slots.remove(lost));
        let put = self
            .slots
            .put(position, message.shared_by(receivers), slots >= self.capacity);
        let replaced = match put {
            Ok(replaced) => Replaced {
                _message: lost.or(replaced),
                _slots: None,
            },
            Err(back) => {
                let back = back.into_alone().ok().expect("nobody else has seen it");
                let next = self.slots_next();
                let Some(more) = more.take_if(|more| more.len() == next) else {
                    return Pushed::NeedsSlots(next, back);
                };
                Replaced {
                    _message: None,
                    _slots: Some(self.push_into(more, back.shared_by(receivers))),
                }
            }
        };
        self.next += 1;
        Pushed::Sent(receivers.get(), replaced)
    }

    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// How many slots take the place of those of now, if those are fewer than messages are kept.
    fn slots_next(&self) -> usize {
        let slots = self.slots.len();
        match self.capacity.checked_next_power_of_two() {
            Some(all) if slots >= DOUBLED_MAX && all <= AT_ONCE_MAX => all,
            _ => 2 * slots,
        }
    }

    /// Moves all messages to `more`, which are empty, and puts the next one behind them. The slots of before.
    fn push_into(&mut self, more: Slots<T>, message: Shares<T>) -> Arc<Slots<T>> {
        self.slots.move_to(&more);
        let put = more.put(self.next, message, false);
        assert!(matches!(put, Ok(None)), "there are places that have never been used");
        mem::replace(&mut self.slots, Arc::new(more))
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

    /// How many messages were lost since the last look. What is kept is from now on where it is to be expected, while
    /// the lock of the end is held. The slots of before, if messages have moved, are left in `before`, to be dropped
    /// outside of it.
    fn catch_up(&mut self, end: &End<T>, before: &mut Option<Arc<Slots<T>>>) -> u64 {
        if !Arc::ptr_eq(&self.slots, &end.slots) {
            *before = Some(mem::replace(&mut self.slots, end.slots.clone()));
        }
        let missed = end.oldest().saturating_sub(self.next);
        self.next += missed;
        missed
    }

    /// The next message, or why there is none; nothing if that is to be waited for. For `before` see `catch_up`.
    pub(super) fn take_at(
        &mut self,
        end: &End<T>,
        before: &mut Option<Arc<Slots<T>>>,
    ) -> Option<Result<Shares<T>, RecvError>> {
        let missed = self.catch_up(end, before);
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

    /// The next message, once it is there, or why there will be none. `place` is one at the end of this channel.
    pub(super) fn poll_at<W>(
        &mut self,
        place: Pin<&mut Place<W>>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Shares<T>, RecvError>>
    where
        W: Watching<State = End<T>>,
    {
        let mut before = None;
        // Who has waited leaves the list at the end.
        let at_hand = if place.is_taken() { None } else { self.take() };
        match at_hand {
            Some(message) => Poll::Ready(Ok(message)),
            None => place.poll(cx, |_, end| self.take_at(end, &mut before)),
        }
    }

    /// Takes messages before `until`, a batch of them. For `before` see `catch_up`.
    pub(super) fn pass(
        &mut self,
        end: &End<T>,
        until: u64,
        before: &mut Option<Arc<Slots<T>>>,
    ) -> ArrayVec<Shares<T>, BATCH_MAX> {
        self.catch_up(end, before);
        let mut passed = ArrayVec::new();
        while self.next < until && !passed.is_full() {
            let Some(message) = self.take() else {
                debug_assert!(false, "it was sent, and is not lost");
                break;
            };
            passed.push(message);
        }
        passed
    }
}
