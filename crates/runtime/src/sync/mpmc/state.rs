//! What the channel's lock protects, and every decision of the channel. No atomics, no user code.

use std::task::Waker;

use super::super::queue::Queue;
use super::super::waiters::{Wait, Waiter, Waiters};
use crate::panics::quietly;

/// A token is written off once this many messages (or places) have come since it was given, the one of its holder
/// included, while somebody else waits.
const OVERDUE: u8 = 64;

/// Most messages that one section moves: bounds the time that others find the lock taken.
pub(super) const BATCH_MAX: u8 = 64;

/// One side of the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Senders,
    Receivers,
}

/// What became of an attempt.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// Full for a sender, empty for a receiver.
    NotNow,
    Closed,
}

/// What the channel accepts, in the order in which that changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Messages.
    Open,
    /// Closed, but what the permits that are out send: receivers wait for that.
    Closing,
    /// Nothing: when the queue is empty, nothing will come.
    Closed,
    /// Nothing, and nobody will receive: there are no receivers, and what permits send is not kept.
    Abandoned,
}

/// What is to be done when a permit has ended.
#[must_use]
#[derive(Debug)]
pub(super) enum PermitEnd<T> {
    /// `settle`, in the same section.
    Settle,
    /// It was the last one of a channel that is closed: `notify_any`, until that has no more.
    NotifyAll,
    /// Nobody will receive the message: to be dropped outside of the lock.
    Unwanted(T),
}

/// The wakers to call once the lock is left.
///
/// To be taken apart, never lent: the whole would be copied through memory, whose last word is written as one byte and
/// read as eight. Such a read waits until all writes before it are in the cache, the message among them: a fifth of the
/// time of a message of 100 bytes.
#[must_use]
#[derive(Debug, Default)]
pub(super) struct Notices {
    pub(super) receiver: Option<Waker>,
    pub(super) sender: Option<Waker>,
    /// A weak waiter was notified and there are others: settle again.
    pub(super) is_partial: bool,
}

/// Calls the wakers, both even if the first one panics: each has a token and nobody else will tell it. Only outside of
/// the lock.
#[inline(always)]
pub(super) fn deliver(receiver: Option<Waker>, sender: Option<Waker>) {
    let mut sender = WakeIfUnwound(sender);
    if let Some(receiver) = receiver {
        receiver.wake();
    }
    if let Some(sender) = sender.0.take() {
        sender.wake();
    }
}

/// Calls its waker if it still has it when it is dropped: while a panic unwinds, which a second one must not meet.
struct WakeIfUnwound(Option<Waker>);

impl Drop for WakeIfUnwound {
    #[inline]
    fn drop(&mut self) {
        if let Some(waker) = self.0.take() {
            quietly(|| waker.wake());
        }
    }
}

// With the lock word before it: the first cache line is what every message changes, the second is who waits, which
// stays clean (and shared by the cores) while nobody does.
#[derive(Debug)]
#[repr(C)]
pub(super) struct State<T> {
    phase: Phase,
    /// What `OVERDUE` bounds, a side.
    receivers_passed: u8,
    senders_passed: u8,
    /// Messages for which there is room: the capacity, less a place for each permit that is out. The queue is never
    /// longer. So who sends without a permit pays nothing for there being some.
    limit: usize,
    queue: Queue<T>,
    receivers: Waiters,
    senders: Waiters,
}

impl<T> State<T> {
    pub(super) fn new(capacity: usize) -> Self {
        let expected = if capacity == usize::MAX { 0 } else { capacity };
        Self {
            phase: Phase::Open,
            receivers_passed: 0,
            senders_passed: 0,
            limit: capacity,
            queue: Queue::with_expected(expected),
            receivers: Waiters::new(),
            senders: Waiters::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.phase != Phase::Open
    }

    /// Whether each place has a message in it, or a permit for it.
    pub(super) fn is_full(&self) -> bool {
        self.queue.len() >= self.limit
    }

    /// Places with neither a message in them nor a permit for them.
    pub(super) fn free(&self) -> usize {
        self.limit.saturating_sub(self.queue.len())
    }

    /// Moves the message in. It stays where it is unless the outcome is `Done`.
    #[inline(always)]
    pub(super) fn put(&mut self, message: &mut Option<T>) -> Outcome {
        let outcome = self.room();
        if outcome == Outcome::Done && message.is_some() {
            let some = || message.take().expect("it was there a moment ago");
            self.queue.push_with(some);
            if self.is_full() {
                self.receivers.write_off();
            } else {
                count_passed(&mut self.receivers, &mut self.receivers_passed, 1);
            }
        }
        outcome
    }

    /// Whether a message could be put in.
    #[inline(always)]
    fn room(&self) -> Outcome {
        if self.is_closed() {
            Outcome::Closed
        } else if self.is_full() {
            Outcome::NotNow
        } else {
            Outcome::Done
        }
    }

    /// Takes a place for a message to come. To be ended by `fill` or `release`.
    pub(super) fn reserve(&mut self) -> Outcome {
        let outcome = self.room();
        if outcome == Outcome::Done {
            self.limit -= 1;
            // As in `put`: when it becomes full, if there is a message that somebody was told of.
            if self.is_full() && !self.queue.is_empty() {
                self.receivers.write_off();
            }
        }
        outcome
    }

    /// Moves a message into a place that was reserved, of `capacity` in all.
    pub(super) fn fill(&mut self, message: T, capacity: usize) -> PermitEnd<T> {
        self.limit += 1;
        if self.phase == Phase::Abandoned {
            return PermitEnd::Unwanted(message);
        }
        self.queue.push(message);
        // It was full before if it is now, so that it doesn't become full, as in `put`. If it did so without a message,
        // the first one is for who has the token, if it isn't written off here, and the second one may be the last that
        // comes.
        if self.is_full() && self.queue.len() <= 2 {
            self.receivers.write_off();
        } else {
            count_passed(&mut self.receivers, &mut self.receivers_passed, 1);
        }
        self.permit_ended(capacity)
    }

    /// Gives back a place that was reserved, of `capacity` in all.
    pub(super) fn release(&mut self, capacity: usize) -> PermitEnd<T> {
        self.limit += 1;
        // As in `take`: a place has come free.
        self.count_places(1);
        self.permit_ended(capacity)
    }

    fn permit_ended(&mut self, capacity: usize) -> PermitEnd<T> {
        if self.phase == Phase::Closing && self.limit == capacity {
            self.phase = Phase::Closed;
            return PermitEnd::NotifyAll;
        }
        PermitEnd::Settle
    }

    /// Moves the oldest message to where `keep` puts it, which is its last place: a copy saved for large messages.
    /// `keep` neither panics nor drops it, nor what was there (a `T`): it runs in the section.
    #[inline(always)]
    pub(super) fn take(&mut self, keep: impl FnOnce(T)) -> Outcome {
        if self.queue.is_empty() {
            return self.nothing_there();
        }
        self.queue.pop_with(keep);
        self.count_places(1);
        Outcome::Done
    }

    /// Moves the oldest messages to the end of `messages`: at most `count_max`, at most what fits without growing it,
    /// at most 64. Done with none, if none fits: then the caller makes room, and tries again.
    pub(super) fn take_many(&mut self, messages: &mut Vec<T>, count_max: usize) -> (Outcome, usize) {
        if self.queue.is_empty() {
            return (self.nothing_there(), 0);
        }
        let room = messages.capacity() - messages.len();
        let count = self.queue.len().min(count_max).min(room);
        let count = u8::try_from(count).unwrap_or(BATCH_MAX).min(BATCH_MAX);
        if count == 0 {
            return (Outcome::Done, 0);
        }
        for _ in 0..count {
            messages.extend(self.queue.pop());
        }
        self.count_places(count);
        (Outcome::Done, usize::from(count))
    }

    /// So many places have come free, one at least.
    #[inline(always)]
    fn count_places(&mut self, count: u8) {
        if self.queue.is_empty() {
            self.senders.write_off();
        } else {
            count_passed(&mut self.senders, &mut self.senders_passed, count);
        }
    }

    fn nothing_there(&self) -> Outcome {
        match self.phase {
            Phase::Open | Phase::Closing => Outcome::NotNow,
            Phase::Closed | Phase::Abandoned => Outcome::Closed,
        }
    }

    /// Whether (i) and (ii) hold whatever is inside: there is nothing to settle.
    #[inline(always)]
    pub(super) fn nobody_waits(&self) -> bool {
        self.receivers.is_empty() && self.senders.is_empty()
    }

    /// Restores (i) and (ii) (see the channel's module); for weak receivers, of which one is notified at a time, after
    /// as many calls as it takes.
    ///
    /// # Safety
    /// A1 and A2 of `waiters`, for both sides.
    #[inline(always)]
    pub(super) unsafe fn settle(&mut self) -> Notices {
        let mut notices = Notices::default();
        if self.receivers.needs_notice() && !self.queue.is_empty() {
            // SAFETY: the caller's.
            notices.receiver = unsafe { self.receivers.notify_first() };
            self.receivers_passed = 1;
            notices.is_partial = self.receivers.needs_notice();
        }
        if self.senders.needs_notice() && self.queue.len() < self.limit {
            // SAFETY: the caller's.
            notices.sender = unsafe { self.senders.notify_first() };
            self.senders_passed = 1;
        }
        notices
    }

    /// Enters the list of `side`; see [`Waiters::wait`]. Only in the section in which the attempt was `NotNow`.
    ///
    /// # Safety
    /// A1, A2 and A3 of `waiters`.
    pub(super) unsafe fn wait(
        &mut self,
        side: Side,
        waiter: &Waiter,
        current: &Waker,
        fresh: &mut Option<Waker>,
    ) -> Wait {
        // SAFETY: the caller's.
        unsafe { self.side(side).wait(waiter, current, fresh) }
    }

    /// Leaves the list of `side`; see [`Waiters::leave`]. To be followed by `settle`.
    ///
    /// # Safety
    /// A1 and A3 of `waiters`.
    pub(super) unsafe fn leave(&mut self, side: Side, waiter: &Waiter) -> Option<Waker> {
        // SAFETY: the caller's.
        unsafe { self.side(side).leave(waiter) }
    }

    /// Refuses messages from now on, but those of the permits that are out, of `capacity` in all; false if it did so
    /// before. To be followed by `notify_any` until that has no more.
    pub(super) fn close(&mut self, capacity: usize) -> bool {
        if self.is_closed() {
            return false;
        }
        self.phase = if self.limit == capacity {
            Phase::Closed
        } else {
            Phase::Closing
        };
        true
    }

    /// Notifies somebody who still waits for what a closed channel has no more: receivers only once the last permit has
    /// ended. Who was notified doesn't wait again, so it comes to an end.
    ///
    /// # Safety
    /// A1 and A2 of `waiters`, for both sides.
    pub(super) unsafe fn notify_any(&mut self) -> Option<Waker> {
        if self.phase != Phase::Closing {
            // SAFETY: the caller's.
            let receiver = unsafe { self.receivers.notify_first() };
            if receiver.is_some() {
                return receiver;
            }
        }
        // SAFETY: the caller's.
        unsafe { self.senders.notify_first() }
    }

    /// Takes every message out, to be dropped outside of the lock, and keeps none from now on. Only of a closed
    /// channel, when the last receiver is gone.
    pub(super) fn abandon(&mut self) -> Queue<T> {
        self.phase = Phase::Abandoned;
        self.queue.take_all()
    }

    fn side(&mut self, side: Side) -> &mut Waiters {
        match side {
            Side::Senders => &mut self.senders,
            Side::Receivers => &mut self.receivers,
        }
    }
}

/// Writes the token off if `count` messages more (or places) make it overdue. They count only while somebody waits
/// beside its holder: a channel without such pays for one look.
#[inline(always)]
fn count_passed(waiters: &mut Waiters, passed: &mut u8, count: u8) {
    if waiters.is_relying() {
        *passed = passed.saturating_add(count);
        if *passed >= OVERDUE {
            waiters.write_off();
        }
    }
}
