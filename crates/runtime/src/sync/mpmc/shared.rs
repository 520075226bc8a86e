//! The lock around the state, and the steps of one operation.

use std::task::{Context, Poll, Waker};

use crossbeam_utils::CachePadded;

use super::super::lock::Lock;
use super::super::notify::Notify;
use super::super::waiters::{Wait, Waiter};
use super::super::wake_all::wake_all;
use super::state::{Notices, Outcome, PermitEnd, Side, State, deliver};
use crate::coop;
use crate::panics::FirstPanic;
use crate::primitives::{AtomicUsize, Ordering};

#[derive(Debug)]
pub(super) struct Shared<T> {
    state: CachePadded<Lock<State<T>>>,
    /// Most messages inside, with those that permits will send; `usize::MAX`: unbounded. Immutable.
    pub(super) capacity: usize,
    /// Handles that exist. Label Handles: the decrement to zero pairs with the decrements before it.
    sender_count: AtomicUsize,
    receiver_count: AtomicUsize,
    /// Weak senders that exist: to be looked at, nothing hangs on it.
    weak_count: AtomicUsize,
    /// Tells those who wait for the end alone, once the state says so. Apart from that: its lines are those of every
    /// message.
    closed: Notify,
}

/// What a future holds for its whole life: a waiter, from the moment when it must wait until its operation is done.
///
/// Most operations never wait, and a future is moved about before its first poll: a place that is empty costs one word,
/// where five of them, copied in pieces that the store buffer can't forward, took half the time of a receive.
#[derive(Debug)]
pub(super) struct Seat {
    waiter: Option<Waiter>,
}

impl Seat {
    #[inline(always)]
    pub(super) const fn new() -> Self {
        Self { waiter: None }
    }

    /// Says before a poll that the seat outlives the wait: that nobody leaves it who loses interest.
    pub(super) fn keep(&mut self) {
        self.waiter.get_or_insert_with(Waiter::weak);
    }

    /// Whether it may be in the list.
    pub(super) fn is_taken(&self) -> bool {
        self.waiter.is_some()
    }
}

impl<T> Shared<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            state: CachePadded::new(Lock::new(State::new(capacity))),
            capacity,
            sender_count: AtomicUsize::new(1),
            receiver_count: AtomicUsize::new(1),
            weak_count: AtomicUsize::new(0),
            closed: Notify::new(),
        }
    }

    /// Looks at the state.
    pub(super) fn look<R>(&self, f: impl FnOnce(&State<T>) -> R) -> R {
        self.state.with(|state| f(state))
    }

    /// Tries once.
    #[inline]
    pub(super) fn try_op(&self, attempt: impl FnOnce(&mut State<T>) -> Outcome) -> Outcome {
        let (outcome, notices) = self.state.with(|state| {
            let outcome = attempt(state);
            // SAFETY: A1, inside the lock; A2, the futures see to it (`poll_op`).
            (outcome, unsafe { state.settle() })
        });
        self.deliver(notices);
        outcome
    }

    /// Tries, if the task has budget left; if that is not possible now, waits on `side`. `attempt` is repeated only
    /// after `NotNow`.
    ///
    /// # Safety
    /// `seat` is used with this channel and side only; once this was pending it stays in place until `cancel`, or until
    /// this was ready.
    #[inline]
    pub(super) unsafe fn poll_op(
        &self,
        side: Side,
        seat: &mut Seat,
        cx: &mut Context<'_>,
        attempt: impl FnMut(&mut State<T>) -> Outcome,
    ) -> Poll<Outcome> {
        // SAFETY: the caller's.
        coop::poll_progress(cx, |cx| unsafe { self.poll_unbudgeted(side, seat, cx, attempt) })
    }

    /// # Safety
    /// As `poll_op`.
    #[inline(always)]
    unsafe fn poll_unbudgeted(
        &self,
        side: Side,
        seat: &mut Seat,
        cx: &mut Context<'_>,
        mut attempt: impl FnMut(&mut State<T>) -> Outcome,
    ) -> Poll<Outcome> {
        let mut fresh = None;
        loop {
            let step = self.state.with(|state| {
                let outcome = attempt(state);
                if outcome != Outcome::NotNow && seat.waiter.is_none() && state.nobody_waits() {
                    return Step::Done(outcome);
                }
                // SAFETY: A1, inside the lock; A2 and A3, the caller's.
                unsafe { conclude(state, outcome, side, seat, cx.waker(), &mut fresh) }
            });
            match step {
                Step::Done(outcome) => return Poll::Ready(outcome),
                Step::Told(outcome, notices, _stale) => {
                    seat.waiter = None;
                    self.deliver(notices);
                    return Poll::Ready(outcome);
                }
                Step::Wait(Wait::Queued) => return Poll::Pending,
                Step::Wait(Wait::NeedsWaker) => fresh = Some(cx.waker().clone()),
            }
        }
    }

    /// Gives up waiting; a notification that was not acted on goes to the next. After this the seat may go.
    #[inline]
    pub(super) fn cancel(&self, side: Side, seat: &mut Seat) {
        if seat.waiter.is_some() {
            self.cancel_waiting(side, seat);
        }
    }

    #[cold]
    fn cancel_waiting(&self, side: Side, seat: &mut Seat) {
        let Some(waiter) = &seat.waiter else { return };
        let (notices, _stale) = self.state.with(|state| {
            // SAFETY: A1, inside the lock; A3, `poll_op` made the waiter for this side.
            let stale = unsafe { state.leave(side, waiter) };
            // SAFETY: A1, inside the lock; A2, the futures see to it (`poll_op`).
            (unsafe { state.settle() }, stale)
        });
        seat.waiter = None;
        self.deliver(notices);
    }

    /// Calls the wakers, and settles until nothing is left to settle, whatever a waker of the user's does: the first
    /// panic goes on then.
    #[inline(always)]
    fn deliver(&self, notices: Notices) {
        let Notices {
            receiver,
            sender,
            is_partial,
        } = notices;
        if is_partial {
            self.deliver_partial(receiver, sender);
        } else {
            deliver(receiver, sender);
        }
    }

    #[cold]
    fn deliver_partial(&self, mut receiver: Option<Waker>, mut sender: Option<Waker>) {
        let mut panic = FirstPanic::default();
        let mut is_partial = true;
        while is_partial {
            panic.catch(|| deliver(receiver.take(), sender.take()));
            // SAFETY: A1, inside the lock; A2, the futures see to it (`poll_op`).
            let notices = self.state.with(|state| unsafe { state.settle() });
            (receiver, sender, is_partial) = (notices.receiver, notices.sender, notices.is_partial);
        }
        panic.catch(|| deliver(receiver.take(), sender.take()));
        panic.go_on();
    }

    /// Gives back a place that was reserved, with a message in it or, by `None`, without.
    pub(super) fn end_permit(&self, message: Option<T>) {
        let (end, notices) = self.state.with(|state| {
            let end = match message {
                Some(message) => state.fill(message, self.capacity),
                None => state.release(self.capacity),
            };
            // SAFETY: A1, inside the lock; A2, the futures see to it (`poll_op`).
            let notices = matches!(end, PermitEnd::Settle).then(|| unsafe { state.settle() });
            (end, notices)
        });
        self.deliver(notices.unwrap_or_default());
        match end {
            PermitEnd::Settle => {}
            PermitEnd::NotifyAll => self.notify_all(),
            PermitEnd::Unwanted(message) => drop(message),
        }
    }

    /// Closes the channel and wakes everybody who waits in vain, whatever a waker of the user's does: the first panic
    /// goes on when all are woken. False if it was closed.
    pub(super) fn close(&self) -> bool {
        let closes = self.state.with(|state| state.close(self.capacity));
        if closes {
            let mut panic = FirstPanic::default();
            panic.catch(|| self.notify_all());
            panic.catch(|| self.closed.notify_waiters());
            panic.go_on();
        }
        closes
    }

    /// Waits until the channel is closed. Who is made before the look is told of what comes after it (theorem G).
    pub(super) async fn closed(&self) {
        let closed = self.closed.notified();
        if self.look(State::is_closed) {
            return coop::consume_budget().await;
        }
        closed.await;
    }

    /// Wakes all who wait for what a closed channel has no more.
    fn notify_all(&self) {
        wake_all(|batch| {
            self.state.with(|state| {
                // SAFETY: A1, inside the lock; A2, the futures see to it (`poll_op`).
                batch.fill_from(|| unsafe { state.notify_any() });
            });
        });
    }

    pub(super) fn count(&self, side: Side) -> usize {
        // Ordering: Relaxed; a count to look at, nothing is read on its strength.
        self.counter(side).load(Ordering::Relaxed)
    }

    pub(super) fn handle_added(&self, side: Side) {
        // Ordering: Relaxed; the handle that is cloned keeps the count above zero.
        self.counter(side).fetch_add(1, Ordering::Relaxed);
    }

    /// Adds a handle unless the last one of its side is gone, which has closed the channel; false then.
    pub(super) fn handle_revived(&self, side: Side) -> bool {
        let one_more = |count| (count > 0).then(|| count + 1);
        // Ordering: Relaxed; in one step with the look, so the count was never zero, and somebody who keeps it above
        // zero makes the handle good: nothing else is read on its strength.
        self.counter(side)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .is_ok()
    }

    /// The last handle of a side closes the channel; the last receiver also drops what is inside, whatever wakers and
    /// destructors of users do.
    pub(super) fn handle_dropped(&self, side: Side) {
        // Ordering: AcqRel (Handles); whatever was done by handles that are gone comes before the close.
        if self.counter(side).fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let mut panic = FirstPanic::default();
        panic.catch(|| _ = self.close());
        if side == Side::Receivers {
            let mut messages = self.state.with(State::abandon);
            while let Some(message) = messages.pop() {
                panic.catch(|| drop(message));
            }
        }
        panic.go_on();
    }

    pub(super) fn weak_count(&self) -> usize {
        // Ordering: Relaxed; a count to look at, nothing is read on its strength. So below.
        self.weak_count.load(Ordering::Relaxed)
    }

    pub(super) fn weak_added(&self) {
        self.weak_count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn weak_dropped(&self) {
        self.weak_count.fetch_sub(1, Ordering::Relaxed);
    }

    fn counter(&self, side: Side) -> &AtomicUsize {
        match side {
            Side::Senders => &self.sender_count,
            Side::Receivers => &self.receiver_count,
        }
    }
}

/// What one section of `poll_op` ended with.
enum Step {
    /// The operation is done, and was nobody's business.
    Done(Outcome),
    /// The outcome, whom to wake, and a waker that is no longer needed.
    Told(Outcome, Notices, Option<Waker>),
    Wait(Wait),
}

/// The rest of a section in which somebody waits, or must: leaves the list and settles, or enters it.
///
/// # Safety
/// A1, A2 and A3 of `waiters`.
#[inline(always)]
unsafe fn conclude<T>(
    state: &mut State<T>,
    outcome: Outcome,
    side: Side,
    seat: &mut Seat,
    current: &Waker,
    fresh: &mut Option<Waker>,
) -> Step {
    if outcome == Outcome::NotNow {
        // Made in its place: `get_or_insert_with` makes it elsewhere and copies it in other pieces than it was written
        // in, and such a read waits for the cache.
        if seat.waiter.is_none() {
            seat.waiter = Some(Waiter::new());
        }
        let Some(waiter) = &seat.waiter else {
            unreachable!("made above")
        };
        // SAFETY: the caller's.
        return Step::Wait(unsafe { state.wait(side, waiter, current, fresh) });
    }
    let stale = match &seat.waiter {
        // SAFETY: the caller's.
        Some(waiter) => unsafe { state.leave(side, waiter) },
        None => None,
    };
    // SAFETY: the caller's.
    Step::Told(outcome, unsafe { state.settle() }, stale)
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_state_fills_two_cache_lines() {
        assert_eq!(size_of::<Lock<State<[u8; 100]>>>(), 128);
        assert_eq!(align_of::<Shared<u8>>() % 64, 0);
    }
}
