//! How threads send and receive: an operation whose message stays where its caller has it.

use std::pin::Pin;
use std::task::{Context, Poll};

use super::super::block::block_on;
use super::RecvError;
use super::shared::{Seat, Shared};
use super::state::{Outcome, Side, State};
use crate::{coop, thread};

/// What is tried, again and again, until it is done or the channel is closed.
pub(super) trait Attempt<T> {
    /// With whom it waits.
    const SIDE: Side;

    fn attempt(&mut self, state: &mut State<T>) -> Outcome;
}

/// To send the message, which stays if the channel is closed.
pub(super) struct Put<'m, T>(pub(super) &'m mut Option<T>);

impl<T> Attempt<T> for Put<'_, T> {
    const SIDE: Side = Side::Senders;

    #[inline(always)]
    fn attempt(&mut self, state: &mut State<T>) -> Outcome {
        state.put(self.0)
    }
}

/// To receive a message; the error stays if the channel is closed.
pub(super) struct Take<'m, T>(pub(super) &'m mut Result<T, RecvError>);

impl<T> Attempt<T> for Take<'_, T> {
    const SIDE: Side = Side::Receivers;

    #[inline(always)]
    fn attempt(&mut self, state: &mut State<T>) -> Outcome {
        state.take(|message| *self.0 = Ok(message))
    }
}

/// An attempt until it is done. The futures of tasks hold their message and answer with it; a thread has a stack of its
/// own, where the message may stay, and is copied once in place of four times.
struct Operation<'a, T, A: Attempt<T>> {
    shared: &'a Shared<T>,
    attempt: A,
    seat: Seat,
}

impl<T, A: Attempt<T>> Future for Operation<'_, T, A> {
    type Output = Outcome;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        // SAFETY: nothing is moved out of the seat; `attempt` is not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        let attempt = &mut this.attempt;
        // SAFETY: the seat is this future's, pinned, and `drop` cancels; it is used with this channel and side only.
        unsafe {
            this.shared
                .poll_op(A::SIDE, &mut this.seat, cx, |state| attempt.attempt(state))
        }
    }
}

impl<T, A: Attempt<T>> Drop for Operation<'_, T, A> {
    #[inline]
    fn drop(&mut self) {
        self.shared.cancel(A::SIDE, &mut self.seat);
    }
}

impl<T> Shared<T> {
    /// Repeats `attempt` until it is possible, and waits as the calling thread does: a user-level one is suspended, and
    /// gives way when its budget is spent; an ordinary one sleeps.
    #[track_caller]
    #[inline(always)]
    pub(super) fn block_op(&self, mut attempt: impl Attempt<T>) -> Outcome {
        // What can be done at once needs neither a future nor a waker.
        if coop::has_budget_remaining() {
            let outcome = self.try_op(|state| attempt.attempt(state));
            if outcome != Outcome::NotNow {
                coop::spend();
                return outcome;
            }
        }
        let operation = Operation {
            shared: self,
            attempt,
            seat: Seat::new(),
        };
        let address = std::ptr::from_ref(self).addr();
        match thread::suspend_on(operation, thread::Reason::channel(address)) {
            Ok(outcome) => outcome,
            Err(operation) => sleep_op(operation),
        }
    }
}

/// The rest on an ordinary thread.
#[inline(never)]
fn sleep_op<T>(operation: Operation<'_, T, impl Attempt<T>>) -> Outcome {
    block_on(operation)
}
