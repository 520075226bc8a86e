//! A channel that holds nothing: a sender waits until its message is received, as with bound 0 in std.
//!
//! Everything is under one short lock. Who must wait leaves an entry in a list, with a number that grows, so that it finds it again by
//! bisection:
//!
//! | list | an entry has | it is gone, or changed, when |
//! |---|---|---|
//! | `offers`: senders | the message | a receiver has taken it |
//! | `seats`: receivers | nothing yet | a sender has put a message there |
//!
//! - (a) Not both lists have somebody who waits: who comes looks at the other list first, in the section in which it enters its own.
//! - (b) Each change of another's entry takes the waker out of it, and calls it after the section. So who was
//!   served is woken, and who waits has a waker there.
//! - (c) No message is lost: one that was put on the seat of a receiver that gives up goes to the next seat, or to the front
//!   of the offers, with the number 0: its sender has been told that it was received, and its receiver has not gone.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{RecvError, SendError, TryRecvError, TrySendError};
use std::task::{Context, Poll, Waker, ready};

use crate::coop;
use crate::primitives::{AtomicUsize, Ordering};
use crate::sync::lock::Lock;
use crate::sync::wake_all::wake_all;

/// Somebody who waits.
struct Entry<T> {
    /// Its number; 0: nobody waits for this message to be taken.
    number: u64,
    /// In an offer always there, on a seat once it was served.
    message: Option<T>,
    waker: Option<Waker>,
}

struct State<T> {
    offers: VecDeque<Entry<T>>,
    seats: VecDeque<Entry<T>>,
    last_number: u64,
    no_senders: bool,
    no_receiver: bool,
}

/// What became of a message.
enum Offered {
    /// A receiver has it, and is to be woken.
    Handed(Option<Waker>),
    NoReceiver,
    NotNow,
}

impl<T> State<T> {
    /// Puts a message on the first free seat.
    fn offer(&mut self, message: &mut Option<T>) -> Offered {
        if self.no_receiver {
            return Offered::NoReceiver;
        }
        match self.seats.iter_mut().find(|seat| seat.message.is_none()) {
            Some(seat) => {
                seat.message = message.take();
                Offered::Handed(seat.waker.take())
            }
            None => Offered::NotNow,
        }
    }

    /// Takes the oldest offer, and whom to tell.
    fn take(&mut self) -> Result<(T, Option<Waker>), TryRecvError> {
        match self.offers.pop_front() {
            Some(offer) => Ok((offer.message.expect("an offer has its message"), offer.waker)),
            None if self.no_senders => Err(TryRecvError::Disconnected),
            None => Err(TryRecvError::Empty),
        }
    }

    /// A new entry at the end of a list; its number.
    fn enter(&mut self, message: Option<T>, waker: Option<Waker>) -> u64 {
        self.last_number += 1;
        let number = self.last_number;
        let list = if message.is_some() {
            &mut self.offers
        } else {
            &mut self.seats
        };
        list.push_back(Entry { number, message, waker });
        number
    }
}

fn find<T>(list: &VecDeque<Entry<T>>, number: u64) -> Option<usize> {
    list.binary_search_by_key(&number, |entry| entry.number).ok()
}

struct Shared<T> {
    state: Lock<State<T>>,
    /// Sending handles. Label N: the decrement to zero pairs with the decrements before it.
    senders: AtomicUsize,
}

/// Makes a channel that holds nothing.
pub(super) fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        state: Lock::new(State {
            offers: VecDeque::new(),
            seats: VecDeque::new(),
            last_number: 0,
            no_senders: false,
            no_receiver: false,
        }),
        senders: AtomicUsize::new(1),
    });
    (Sender { shared: shared.clone() }, Receiver { shared })
}

/// A sending side.
pub(super) struct Sender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    /// Sends a message to a receiver that waits for one now.
    pub(super) fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        let mut message = Some(message);
        let offered = self.shared.state.with(|state| state.offer(&mut message));
        match (offered, message) {
            (Offered::Handed(waker), _) => {
                wake(waker);
                Ok(())
            }
            (Offered::NoReceiver, Some(message)) => Err(TrySendError::Disconnected(message)),
            (Offered::NotNow, Some(message)) => Err(TrySendError::Full(message)),
            (_, None) => unreachable!("only a message that is handed over is taken"),
        }
    }

    /// Sends a message; waits until it is received.
    pub(super) fn send(&self, message: T) -> Send<'_, T> {
        Send {
            shared: &self.shared,
            message: Some(message),
            number: 0,
        }
    }

    /// What both sides have in common, to be shown.
    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        // Ordering: Relaxed; the handle that is cloned keeps the count above zero.
        self.shared.senders.fetch_add(1, Ordering::Relaxed);
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // Ordering: AcqRel (N); what was done by handles that are gone comes before the close.
        if self.shared.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            let state = &self.shared.state;
            state.with(|state| state.no_senders = true);
            let take = |state: &mut State<T>| state.seats.iter_mut().find_map(|seat| seat.waker.take());
            wake_all(|batch| state.with(|state| batch.fill_from(|| take(state))));
        }
    }
}

/// The receiving side.
pub(super) struct Receiver<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Receiver<T> {
    /// Receives from a sender that waits now.
    pub(super) fn try_recv(&self) -> Result<T, TryRecvError> {
        let (message, waker) = self.shared.state.with(State::take)?;
        wake(waker);
        Ok(message)
    }

    /// Receives a message; waits until a sender has one.
    pub(super) fn recv(&self) -> Recv<'_, T> {
        Recv {
            shared: &self.shared,
            number: 0,
        }
    }

    /// What both sides have in common, to be shown.
    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let state = &self.shared.state;
        // Those that wait take their messages back. Those that nobody waits for go with us.
        let left = state.with(|state| {
            state.no_receiver = true;
            let kept = state.offers.partition_point(|offer| offer.number == 0);
            let rest = state.offers.split_off(kept);
            std::mem::replace(&mut state.offers, rest)
        });
        let take = |state: &mut State<T>| state.offers.iter_mut().find_map(|offer| offer.waker.take());
        wake_all(|batch| state.with(|state| batch.fill_from(|| take(state))));
        drop(left);
    }
}

/// The future of [`Sender::send`].
#[must_use = "futures do nothing unless awaited"]
pub(super) struct Send<'a, T> {
    shared: &'a Shared<T>,
    /// Before it is offered, and if it is refused.
    message: Option<T>,
    /// Of its offer; zero before.
    number: u64,
}

// Nothing points to it: what waits is in the list.
impl<T> Unpin for Send<'_, T> {}

impl<T> Send<'_, T> {
    fn poll_now(&mut self, cx: &Context<'_>) -> Poll<Result<(), SendError<T>>> {
        let mut waker = Some(cx.waker().clone());
        // Dropped outside of the section, as what is left of `waker`.
        let mut stale = None;
        let (number, message) = (&mut self.number, &mut self.message);
        let (poll, told) = self.shared.state.with(|state| {
            if *number == 0 {
                return match state.offer(message) {
                    Offered::Handed(receiver) => (Poll::Ready(()), receiver),
                    Offered::NoReceiver => (Poll::Ready(()), None),
                    Offered::NotNow => {
                        *number = state.enter(message.take(), waker.take());
                        (Poll::Pending, None)
                    }
                };
            }
            let Some(index) = find(&state.offers, *number) else {
                *number = 0;
                return (Poll::Ready(()), None);
            };
            if state.no_receiver {
                let offer = state.offers.remove(index).expect("found just above");
                (*number, *message, stale) = (0, offer.message, offer.waker);
                return (Poll::Ready(()), None);
            }
            std::mem::swap(&mut state.offers[index].waker, &mut waker);
            (Poll::Pending, None)
        });
        drop(stale);
        wake(told);
        ready!(poll);
        Poll::Ready(self.message.take().map_or(Ok(()), |message| Err(SendError(message))))
    }
}

impl<T> Future for Send<'_, T> {
    type Output = Result<(), SendError<T>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(
            self.message.is_some() || self.number != 0,
            "a send was polled after it had ended"
        );
        coop::poll_progress(cx, |cx| self.poll_now(cx))
    }
}

impl<T> Drop for Send<'_, T> {
    fn drop(&mut self) {
        if self.number != 0 {
            let withdrawn = self.shared.state.with(|state| {
                let index = find(&state.offers, self.number)?;
                state.offers.remove(index)
            });
            drop(withdrawn);
        }
    }
}

/// The future of [`Receiver::recv`].
#[must_use = "futures do nothing unless awaited"]
pub(super) struct Recv<'a, T> {
    shared: &'a Shared<T>,
    /// Of its seat; zero before.
    number: u64,
}

impl<T> Recv<'_, T> {
    fn poll_now(&mut self, cx: &Context<'_>) -> Poll<Result<T, RecvError>> {
        let mut waker = Some(cx.waker().clone());
        // Dropped outside of the section, as what is left of `waker`.
        let mut stale = None;
        let number = &mut self.number;
        let received = self.shared.state.with(|state| match find(&state.seats, *number) {
            Some(index) if state.seats[index].message.is_some() || state.no_senders => {
                *number = 0;
                let seat = state.seats.remove(index).expect("found just above");
                stale = seat.waker;
                Some((seat.message.ok_or(RecvError), None))
            }
            Some(index) => {
                std::mem::swap(&mut state.seats[index].waker, &mut waker);
                None
            }
            None => match state.take() {
                Ok((message, sender)) => Some((Ok(message), sender)),
                Err(TryRecvError::Disconnected) => Some((Err(RecvError), None)),
                Err(TryRecvError::Empty) => {
                    *number = state.enter(None, waker.take());
                    None
                }
            },
        });
        drop(stale);
        let Some((received, sender)) = received else {
            return Poll::Pending;
        };
        wake(sender);
        Poll::Ready(received)
    }
}

impl<T> Future for Recv<'_, T> {
    type Output = Result<T, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        coop::poll_progress(cx, |cx| self.poll_now(cx))
    }
}

impl<T> Drop for Recv<'_, T> {
    fn drop(&mut self) {
        if self.number == 0 {
            return;
        }
        // (c)
        let (seat, next) = self.shared.state.with(|state| {
            let index = find(&state.seats, self.number).expect("who waits has a seat");
            let mut seat = state.seats.remove(index).expect("found just above");
            if seat.message.is_none() {
                return (seat, None);
            }
            match state.offer(&mut seat.message) {
                Offered::Handed(next) => (seat, next),
                Offered::NoReceiver | Offered::NotNow => {
                    let index = state.offers.partition_point(|offer| offer.number == 0);
                    let message = seat.message.take();
                    state.offers.insert(
                        index,
                        Entry {
                            number: 0,
                            message,
                            waker: None,
                        },
                    );
                    (seat, None)
                }
            }
        });
        wake(next);
        drop(seat);
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
