//! The futures that wait for permits.

use std::fmt;
use std::marker::PhantomPinned;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;

use super::{AcquireError, Enrolled, Held, Look, OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use crate::coop;
use crate::sync::waiters::{Wait, Waiter};

const OVER: &str = "the future of an acquisition was polled after it had ended";

/// What both futures do, and those of [`RwLock`](crate::sync::RwLock). `S` is a reference to the semaphore, the same
/// one always.
#[derive(Debug)]
pub(in crate::sync) struct Turn<S: Deref<Target = Semaphore>> {
    /// `None` once it has ended.
    semaphore: Option<S>,
    wants: u32,
    /// While it is waiting, served or refused; not before its first poll.
    waiter: Option<Waiter>,
    /// Neighbours in the list point to the waiter.
    _pinned: PhantomPinned,
}

impl<S: Deref<Target = Semaphore>> Turn<S> {
    pub(in crate::sync) fn new(semaphore: S, wants: u32) -> Self {
        Self {
            semaphore: Some(semaphore),
            wants,
            waiter: None,
            _pinned: PhantomPinned,
        }
    }

    /// Ready once it has ended; a task pays for that with its budget. Without budget it does not end, and has its place
    /// all the same if it has to wait.
    ///
    /// # Panics
    /// If polled after it was ready.
    pub(in crate::sync) fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Held<S>, AcquireError>> {
        if !coop::has_budget_remaining() {
            self.poll_spent(cx.waker());
            return Poll::Pending;
        }
        // SAFETY: the waiter is not moved while it is in a list.
        let this = unsafe { self.get_unchecked_mut() };
        coop::poll_progress(cx, |cx| {
            let semaphore = this.semaphore.as_deref().expect(OVER);
            let mut fresh = None;
            loop {
                let (look, stale) = semaphore.state.with(|state| {
                    // SAFETY: A1, inside the section; A2, pinned, and dropped in place; it is this one's waiter.
                    unsafe { state.look(this.wants, &mut this.waiter, cx.waker(), &mut fresh) }
                });
                match look {
                    Look::Waits(Wait::Queued) => return Poll::Pending,
                    Look::Waits(Wait::NeedsWaker) => fresh = Some(cx.waker().clone()),
                    Look::Ended(ended) => {
                        this.waiter = None;
                        let semaphore = this.semaphore.take();
                        let semaphore = semaphore.expect("it was there above");
                        let held = ended.map(|()| Held::new(semaphore, this.wants));
                        // While `held` is here to be dropped should that panic: on its way out it would be leaked, and
                        // its permits lost.
                        drop((stale, fresh));
                        return Poll::Ready(held);
                    }
                }
            }
        })
    }

    /// A poll of a task that has no budget: it is waiting afterwards, or `current` was called, for another poll.
    ///
    /// # Panics
    /// If polled after it was ready.
    #[cold]
    fn poll_spent(self: Pin<&mut Self>, current: &Waker) {
        // SAFETY: the waiter is not moved while it is in a list.
        let this = unsafe { self.get_unchecked_mut() };
        let semaphore = this.semaphore.as_deref().expect(OVER);
        let mut fresh = None;
        loop {
            let enrolled = semaphore.state.with(|state| {
                // SAFETY: A1, inside the section; A2, pinned, and dropped in place; it is this one's waiter.
                unsafe { state.enrol(this.wants, &mut this.waiter, current, &mut fresh) }
            });
            match enrolled {
                Enrolled::NeedsWaker => fresh = Some(current.clone()),
                Enrolled::Waiting => return,
                Enrolled::Over => return current.wake_by_ref(),
            }
        }
    }
}

impl<S: Deref<Target = Semaphore>> Drop for Turn<S> {
    fn drop(&mut self) {
        let (Some(semaphore), Some(waiter)) = (&self.semaphore, &self.waiter) else {
            return;
        };
        // If it was the first, who is next may have to wait no longer.
        semaphore.serve_after(|state| {
            // SAFETY: A1, inside the section; A3, there is no other list.
            let is_served = unsafe { state.waiting.is_notified(waiter) };
            state.give_back(if is_served { self.wants } else { 0 });
            // SAFETY: as above.
            unsafe { state.waiting.leave(waiter) }
        });
    }
}

pin_project! {
    /// The future of [`Semaphore::acquire`] and [`Semaphore::acquire_many`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct Acquire<'a> {
        #[pin]
        turn: Turn<&'a Semaphore>,
    }
}

impl<'a> Acquire<'a> {
    pub(super) fn new(semaphore: &'a Semaphore, permits: u32) -> Self {
        let turn = Turn::new(semaphore, permits);
        Self { turn }
    }

    /// For models, whose threads share one budget.
    #[cfg(all(test, quadrille_loom))]
    pub(in crate::sync) fn poll_spent(self: Pin<&mut Self>, current: &Waker) {
        self.project().turn.poll_spent(current);
    }
}

impl<'a> Future for Acquire<'a> {
    type Output = Result<SemaphorePermit<'a>, AcquireError>;

    /// # Panics
    /// If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().turn.poll(cx).map_ok(SemaphorePermit::new)
    }
}

impl fmt::Debug for Acquire<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("permits", &self.turn.wants)
            .finish_non_exhaustive()
    }
}

pin_project! {
    /// The future of [`Semaphore::acquire_owned`] and [`Semaphore::acquire_many_owned`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct AcquireOwned {
        #[pin]
        turn: Turn<Arc<Semaphore>>,
    }
}

impl AcquireOwned {
    pub(super) fn new(semaphore: Arc<Semaphore>, permits: u32) -> Self {
        let turn = Turn::new(semaphore, permits);
        Self { turn }
    }
}

impl Future for AcquireOwned {
    type Output = Result<OwnedSemaphorePermit, AcquireError>;

    /// # Panics
    /// If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().turn.poll(cx).map_ok(OwnedSemaphorePermit::new)
    }
}

impl fmt::Debug for AcquireOwned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireOwned")
            .field("permits", &self.turn.wants)
            .finish_non_exhaustive()
    }
}
