//! A channel that holds nothing: a sender waits until its message is received, as with bound 0 in std.
//!
//! Everything is under one short lock. Who must wait leaves an entry in a list, with a number that grows, so that it
//! finds it again by bisection:
//!
//! | list | an entry has | it is gone, or changed, when |
//! |---|---|---|
//! | `offers`: senders | the message | a receiver has taken it |
//! | `seats`: receivers | nothing yet | a sender has put a message there |
//!
//! A third list, `returned`, has messages that were put on a seat whose receiver gave up. They are taken before the
//! offers.
//!
//! - (a) Not both lists have somebody who waits: who comes looks at the other list first, in the section in which it
//!   enters its own.
//! - (b) Each change of another's entry takes the waker out of it, and calls it after the section. So who was
//!   served is woken, and who waits has a waker there.
//! - (c) No message is lost: one that was put on the seat of a receiver that gives up goes to the next free seat, or to
//!   the returned ones: its sender has been told that it was received, and its receiver has not gone.
//! - (d) Returned messages come in the order in which they were put on a seat for the first time, however their
//!   receivers give up, and before all offers: a message is put on a seat while there is no offer (a), so each offer
//!   was made later.
//! - (e) Seats with a message come before those without: the first free one is served, and who comes sits down at the
//!   end.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{RecvError, SendError, TryRecvError, TrySendError};
use std::task::{Context, Poll, Waker, ready};

use crate::coop;
use crate::panics::FirstPanic;
use crate::primitives::{AtomicUsize, Ordering};
use crate::sync::lock::Lock;
use crate::sync::wake_all::wake_all;

/// Somebody who waits.
struct Entry<T> {
    number: u64,
    /// In an offer always there, on a seat once it was served.
    message: Option<T>,
    /// On a seat that was served: the number of its message (d).
    message_number: u64,
    waker: Option<Waker>,
}

struct State<T> {
    offers: VecDeque<Entry<T>>,
    seats: VecDeque<Entry<T>>,
    /// By the number of the message (d).
    returned: BTreeMap<u64, T>,
    /// Of an entry, or of a message that was put on a seat.
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
    /// Puts a message of a sender on the first free seat.
    fn offer(&mut self, message: &mut Option<T>) -> Offered {
        let number = self.next_number();
        self.hand(message, number)
    }

    /// Puts a message with this number on the first free seat (e).
    fn hand(&mut self, message: &mut Option<T>, number: u64) -> Offered {
        if self.no_receiver {
            return Offered::NoReceiver;
        }
        let free = self.seats.partition_point(|seat| seat.message.is_some());
        match self.seats.get_mut(free) {
            Some(seat) => {
                (seat.message, seat.message_number) = (message.take(), number);
                Offered::Handed(seat.waker.take())
            }
            None => Offered::NotNow,
        }
    }

    /// Takes the oldest message that was returned or else offered, and whom to tell.
    fn take(&mut self) -> Result<(T, Option<Waker>), TryRecvError> {
        if let Some((_, message)) = self.returned.pop_first() {
            return Ok((message, None));
        }
        match self.offers.pop_front() {
            Some(offer) => Ok((offer.message.expect("an offer has its message"), offer.waker)),
            None if self.no_senders => Err(TryRecvError::Disconnected),
            None => Err(TryRecvError::Empty),
        }
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// A new entry at the end of a list; its number.
    fn enter(&mut self, message: Option<T>, waker: Option<Waker>) -> u64 {
        let number = self.next_number();
        let list = if message.is_some() {
            &mut self.offers
        } else {
            &mut self.seats
        };
        list.push_back(Entry {
            number,
            message,
            message_number: 0,
            waker,
        });
        number
    }
}

fn find<T>(list: &VecDeque<Entry<T>>, number: u64) -> Option<usize> {
    list.binary_search_by_key(&number, |entry| entry.number).ok()
}

/// Takes the first waker behind the entry `seen`, which becomes the last one that was looked at. A list in which nobody
/// leaves a waker any more is so emptied in one pass, whoever leaves it meanwhile.
fn next_waker<T>(list: &mut VecDeque<Entry<T>>, seen: &mut u64) -> Option<Waker> {
    let from = list.partition_point(|entry| entry.number <= *seen);
    list.range_mut(from..).find_map(|entry| {
        *seen = entry.number;
        entry.waker.take()
    })
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
            returned: BTreeMap::new(),
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
            // Who comes from now on does not wait.
            let mut seen = 0;
            wake_all(|batch| state.with(|state| batch.fill_from(|| next_waker(&mut state.seats, &mut seen))));
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
            std::mem::take(&mut state.returned)
        });
        // Who comes from now on does not wait.
        let mut seen = 0;
        // Whatever wakers and destructors of users do.
        let mut panic = FirstPanic::default();
        panic.catch(|| {
            wake_all(|batch| state.with(|state| batch.fill_from(|| next_waker(&mut state.offers, &mut seen))))
        });
        for message in left.into_values() {
            panic.catch(|| drop(message));
        }
        panic.go_on();
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
        let (seat, next) = self.shared.state.with(|state| {
            let index = find(&state.seats, self.number).expect("who waits has a seat");
            let mut seat = state.seats.remove(index).expect("found just above");
            if seat.message.is_none() {
                return (seat, None);
            }
            // (c), (d)
            match state.hand(&mut seat.message, seat.message_number) {
                Offered::Handed(next) => (seat, next),
                Offered::NoReceiver | Offered::NotNow => {
                    let message = seat.message.take().expect("looked at just above, and not handed on");
                    state.returned.insert(seat.message_number, message);
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

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;

    /// Those that wait are told in one pass, in their order, though some that were told leave in the middle of it.
    #[test]
    fn who_was_told_is_not_looked_at_again() {
        let entry = |number| Entry {
            number,
            message: Some(()),
            message_number: 0,
            waker: (number != 7).then(|| Waker::noop().clone()),
        };
        let mut list: VecDeque<_> = [3, 4, 6, 7, 9].into_iter().map(entry).collect();
        let mut seen = 0;
        let mut next = |list: &mut VecDeque<_>| next_waker(list, &mut seen).map(|_| ());
        assert_eq!((next(&mut list), next(&mut list)), (Some(()), Some(())));
        let left: Vec<u64> = list
            .iter()
            .filter(|entry| entry.waker.is_some())
            .map(|entry| entry.number)
            .collect();
        assert_eq!(left, [6, 9]);

        // Were it looked at, its waker would be found.
        list[0].waker = Some(Waker::noop().clone());
        list.remove(1);
        assert_eq!((next(&mut list), next(&mut list)), (Some(()), Some(())), "6, then 9");
        assert_eq!((next(&mut list), next(&mut list)), (None, None));
        assert!(list[0].waker.is_some());
    }

    /// The first free seat is the one behind those with a message, whoever gets up.
    #[test]
    fn seats_with_a_message_come_first() {
        let (sender, receiver) = channel();
        let cx = &mut Context::from_waker(Waker::noop());
        let mut seats: Vec<_> = (0..6).map(|_| Box::pin(receiver.recv())).collect();
        for seat in &mut seats {
            assert!(seat.as_mut().poll(cx).is_pending());
        }
        let served = || {
            receiver
                .shared
                .state
                .with(|state| state.seats.iter().map(|seat| seat.message).collect::<Vec<_>>())
        };
        sender.try_send(1).unwrap();
        sender.try_send(2).unwrap();
        drop(seats.remove(4));
        assert_eq!(served(), [Some(1), Some(2), None, None, None]);
        drop(seats.remove(0));
        assert_eq!(served(), [Some(2), Some(1), None, None]);
        sender.try_send(3).unwrap();
        assert_eq!(seats.remove(0).as_mut().poll(cx), Poll::Ready(Ok(2)));
        assert_eq!(served(), [Some(1), Some(3), None]);
    }
}
