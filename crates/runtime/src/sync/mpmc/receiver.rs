//! The receiving handle, its futures, and the handle as a stream.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::{FusedStream, Stream};

use super::super::block::block_on;
use super::blocking::Take;
use super::shared::{Seat, Shared};
use super::state::{BATCH_MAX, Outcome, Side, State};
use super::{RecvError, TryRecvError};
use crate::coop;
use crate::panics::FirstPanic;

/// Most messages that [`Receiver::recv_many`] moves, and by which it grows the vector at a time.
const GROW_MAX: usize = BATCH_MAX as usize;

/// The receiving side of a channel; clone it for more receivers, each message goes to one of them.
///
/// Dropping the last one closes the channel and drops the messages inside. It is a [`Stream`] that ends when the
/// channel is closed and drained.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// Where the stream waits; made when it is polled first. It stays when the future of a `next` is dropped, so
    /// nothing can be built on its being polled again.
    stream_seat: Option<Pin<Box<Seat>>>,
    /// Whether the stream has said that it is at its end.
    has_ended: bool,
}

impl<T> Receiver<T> {
    pub(super) fn new(shared: Arc<Shared<T>>) -> Self {
        Self {
            shared,
            stream_seat: None,
            has_ended: false,
        }
    }

    /// Receives the oldest message; waits while there is none.
    ///
    /// ```
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// let (sender, receiver) = quadrille::sync::mpmc::bounded(4);
    /// quadrille::spawn(async move {
    ///     for n in 1..=10 {
    ///         sender.send(n).await.unwrap();
    ///     }
    /// });
    /// let mut sum = 0;
    /// while let Ok(n) = receiver.recv().await {
    ///     sum += n;
    /// }
    /// assert_eq!(sum, 55, "its last sender has gone");
    /// # });
    /// ```
    ///
    /// # Errors
    /// If the channel is closed and drained.
    /// # Cancel safety
    /// Loses no message: one is taken only by the poll that returns it. A call that is made again queues behind all who
    /// wait.
    #[inline]
    pub fn recv(&self) -> Recv<'_, T> {
        Recv {
            shared: &self.shared,
            seat: Seat::new(),
        }
    }

    /// Waits for messages and moves what is there, at most `count_max`, to the end of `messages`; returns how many.
    ///
    /// One call moves at most 64, so that others get at the channel. With `count_max` zero it returns zero at once, or,
    /// in a task without budget, in its next turn. The vector grows by what is there to be moved, and not while nothing
    /// is.
    ///
    /// # Errors
    /// If the channel is closed and drained.
    /// # Cancel safety
    /// Loses no message, as [`recv`](Self::recv).
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// let (sender, receiver) = quadrille::sync::mpmc::unbounded();
    /// (0..10).for_each(|n| sender.try_send(n).unwrap());
    /// let mut batch = Vec::new();
    /// assert_eq!(receiver.recv_many(&mut batch, 4).await, Ok(4));
    /// assert_eq!(batch, [0, 1, 2, 3]);
    /// # });
    /// ```
    pub fn recv_many<'a>(&'a self, messages: &'a mut Vec<T>, count_max: usize) -> RecvMany<'a, T> {
        RecvMany {
            shared: &self.shared,
            messages,
            count_max,
            seat: Seat::new(),
        }
    }

    /// [`recv`](Self::recv) for whoever implements `Future` or `Stream`. It waits where the receiver waits as a
    /// `Stream`: it keeps that place until something comes, and delays nobody behind it. Of those who poll, only the
    /// last is woken.
    ///
    /// # Errors
    /// If the channel is closed and drained.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// let (sender, mut receiver) = quadrille::sync::mpmc::bounded(1);
    /// sender.send(42).await.unwrap();
    /// assert_eq!(std::future::poll_fn(|cx| receiver.poll_recv(cx)).await, Ok(42));
    /// # });
    /// ```
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, RecvError>> {
        let next = Pin::new(self).poll_next(cx);
        next.map(|message| message.ok_or(RecvError))
    }

    /// [`recv_many`](Self::recv_many) for whoever implements `Future` or `Stream`; it waits as
    /// [`poll_recv`](Self::poll_recv), in the same place. At most 64 messages a poll. Nothing is taken by one that
    /// is pending, so nothing is lost if there is no other; the vector may have grown.
    ///
    /// # Errors
    /// If the channel is closed and drained.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// let (sender, mut receiver) = quadrille::sync::mpmc::unbounded();
    /// (0..10).for_each(|n| sender.try_send(n).unwrap());
    /// let mut batch = Vec::new();
    /// let count = std::future::poll_fn(|cx| receiver.poll_recv_many(cx, &mut batch, 4)).await;
    /// assert_eq!((count, batch), (Ok(4), vec![0, 1, 2, 3]));
    /// # });
    /// ```
    pub fn poll_recv_many(
        &mut self,
        cx: &mut Context<'_>,
        messages: &mut Vec<T>,
        count_max: usize,
    ) -> Poll<Result<usize, RecvError>> {
        let seat = self.stream_seat.get_or_insert_with(|| Box::pin(Seat::new()));
        // SAFETY: the seat isn't moved.
        let seat = unsafe { seat.as_mut().get_unchecked_mut() };
        // Before room is made, which then is for one at least: there is one round, and no other in which it would wait
        // as who does not keep its place.
        seat.keep();
        // SAFETY: the seat is boxed, and `drop` cancels before it frees it; it is used with this channel and side only.
        let poll = unsafe { poll_many(&self.shared, seat, cx, messages, count_max) };
        self.has_ended |= poll == Poll::Ready(Err(RecvError));
        poll
    }

    /// As [`poll_recv_many`](Self::poll_recv_many), and goes on until nothing is there or `count_max` are taken. Zero
    /// if the channel is closed and drained.
    pub(in crate::sync) fn poll_recv_all(
        &mut self,
        cx: &mut Context<'_>,
        messages: &mut Vec<T>,
        count_max: usize,
    ) -> Poll<usize> {
        let first = ready!(self.poll_recv_many(cx, messages, count_max));
        Poll::Ready(first.map_or(0, |count| recv_rest(&self.shared, messages, count, count_max)))
    }

    /// Receives the oldest message if there is one now.
    ///
    /// # Errors
    /// If there is none; the error tells whether one may come.
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut received = Err(TryRecvError::Empty);
        let outcome = self.shared.try_op(|state| state.take(|message| received = Ok(message)));
        if outcome == Outcome::Closed {
            received = Err(TryRecvError::Closed);
        }
        received
    }

    /// Receives the oldest message; while there is none a user-level thread is suspended, and an ordinary one sleeps.
    /// On a user-level thread the same as `recv().wait()` with fewer copies of the message
    /// ([`send_blocking`](super::Sender::send_blocking)).
    ///
    /// # Errors
    /// If the channel is closed and drained.
    /// # Blocking
    /// In a task it holds up the worker: there use [`recv`](Self::recv).
    #[track_caller]
    #[inline(always)]
    pub fn recv_blocking(&self) -> Result<T, RecvError> {
        let mut received = Err(RecvError);
        // Done or closed, which `received` tells.
        _ = self.shared.block_op(Take(&mut received));
        received
    }

    /// [`recv_many`](Self::recv_many), for threads: while nothing is there a user-level one is suspended, and an
    /// ordinary one sleeps.
    ///
    /// # Errors
    /// If the channel is closed and drained.
    /// # Blocking
    /// In a task it holds up the worker: there use [`recv_many`](Self::recv_many).
    ///
    /// ```
    /// let (sender, receiver) = quadrille::sync::mpmc::unbounded();
    /// std::thread::spawn(move || (0..10).for_each(|n| sender.try_send(n).unwrap()));
    /// let mut all = Vec::new();
    /// while receiver.recv_many_blocking(&mut all, 4).is_ok() {}
    /// assert_eq!(all, Vec::from_iter(0..10));
    /// ```
    pub fn recv_many_blocking(&self, messages: &mut Vec<T>, count_max: usize) -> Result<usize, RecvError> {
        block_on(self.recv_many(messages, count_max))
    }

    /// What the ends of one channel have in common: to be shown.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    /// Closes the channel: no message is accepted any more but those of [`Permit`](super::Permit)s that are out; they
    /// and those inside can still be received. False if it was closed.
    pub fn close(&self) -> bool {
        self.shared.close()
    }

    /// Whether the channel is closed; messages may still be inside, and come from [`Permit`](super::Permit)s that were
    /// out.
    pub fn is_closed(&self) -> bool {
        self.shared.look(State::is_closed)
    }

    /// Messages inside now.
    pub fn len(&self) -> usize {
        self.shared.look(State::len)
    }

    /// Whether no message is inside now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a message would have to wait now: a place that a [`Permit`](super::Permit) holds is taken.
    pub fn is_full(&self) -> bool {
        self.shared.look(State::is_full)
    }

    /// Messages that fit inside, those of permits among them; `None` if unbounded.
    pub fn capacity(&self) -> Option<usize> {
        Some(self.shared.capacity).filter(|capacity| *capacity != usize::MAX)
    }

    /// Messages that would find a place now: neither full nor reserved.
    pub(in crate::sync) fn free(&self) -> usize {
        self.shared.look(State::free)
    }

    /// [`capacity`](Self::capacity) as a number; `usize::MAX` if unbounded.
    pub(in crate::sync) fn capacity_max(&self) -> usize {
        self.shared.capacity
    }

    /// Weak senders of this channel.
    pub(in crate::sync) fn weak_count(&self) -> usize {
        self.shared.weak_count()
    }

    /// Sending handles of this channel.
    pub fn sender_count(&self) -> usize {
        self.shared.count(Side::Senders)
    }

    /// Receiving handles of this channel.
    pub fn receiver_count(&self) -> usize {
        self.shared.count(Side::Receivers)
    }

    /// Whether both handles belong to one channel.
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.shared.handle_added(Side::Receivers);
        Self {
            shared: Arc::clone(&self.shared),
            stream_seat: None,
            has_ended: false,
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let Some(seat) = &mut self.stream_seat else {
            return self.shared.handle_dropped(Side::Receivers);
        };
        // SAFETY: the seat isn't moved.
        let seat = unsafe { seat.as_mut().get_unchecked_mut() };
        // It counts no more, whatever a waker of the user's does.
        let mut panic = FirstPanic::default();
        panic.catch(|| self.shared.cancel(Side::Receivers, seat));
        panic.catch(|| self.shared.handle_dropped(Side::Receivers));
        panic.go_on();
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish()
    }
}

impl<T> Stream for Receiver<T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let this = self.get_mut();
        let seat = this.stream_seat.get_or_insert_with(|| Box::pin(Seat::new()));
        // SAFETY: the seat isn't moved.
        let seat = unsafe { seat.as_mut().get_unchecked_mut() };
        seat.keep();
        let mut received = Poll::Pending;
        // SAFETY: the seat is boxed, and `drop` cancels before it frees it; it is used with this channel and side only.
        let poll = unsafe {
            this.shared.poll_op(Side::Receivers, seat, cx, |state| {
                state.take(|message| received = Poll::Ready(Some(message)))
            })
        };
        if poll == Poll::Ready(Outcome::Closed) {
            this.has_ended = true;
            received = Poll::Ready(None);
        }
        received
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, None)
    }
}

/// For `select!` of the crate futures, which polls it until it has given `None`: not only until the channel is closed
/// and drained, since nobody would be told of the end then.
impl<T> FusedStream for Receiver<T> {
    fn is_terminated(&self) -> bool {
        self.has_ended
    }
}

/// The future of [`Receiver::recv`].
#[must_use = "futures do nothing unless awaited"]
pub struct Recv<'a, T> {
    shared: &'a Shared<T>,
    seat: Seat,
}

impl<T> Future for Recv<'_, T> {
    type Output = Result<T, RecvError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the seat isn't moved.
        let this = unsafe { self.get_unchecked_mut() };
        let mut received = Poll::Pending;
        // SAFETY: the seat is this future's, pinned, and `drop` cancels; it is used with this channel and side only.
        let poll = unsafe {
            this.shared.poll_op(Side::Receivers, &mut this.seat, cx, |state| {
                state.take(|message| received = Poll::Ready(Ok(message)))
            })
        };
        if poll == Poll::Ready(Outcome::Closed) {
            received = Poll::Ready(Err(RecvError));
        }
        received
    }
}

impl<T> Drop for Recv<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.shared.cancel(Side::Receivers, &mut self.seat);
    }
}

impl<T> fmt::Debug for Recv<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recv").finish_non_exhaustive()
    }
}

/// The future of [`Receiver::recv_many`].
#[must_use = "futures do nothing unless awaited"]
pub struct RecvMany<'a, T> {
    shared: &'a Shared<T>,
    messages: &'a mut Vec<T>,
    count_max: usize,
    seat: Seat,
}

impl<T> Future for RecvMany<'_, T> {
    type Output = Result<usize, RecvError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the seat isn't moved.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: the seat is this future's, pinned, and `drop` cancels; it is used with this channel and side only.
        unsafe { poll_many(this.shared, &mut this.seat, cx, this.messages, this.count_max) }
    }
}

impl<T> RecvMany<'_, T> {
    /// As `poll`, and goes on until nothing is there or `count_max` are taken. Zero if the channel is closed and
    /// drained.
    pub(in crate::sync) fn poll_all(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<usize> {
        let first = ready!(self.as_mut().poll(cx));
        // SAFETY: the seat isn't moved.
        let this = unsafe { self.get_unchecked_mut() };
        Poll::Ready(first.map_or(0, |count| recv_rest(this.shared, this.messages, count, this.count_max)))
    }
}

/// # Safety
/// As [`Shared::poll_op`], with the side of the receivers.
unsafe fn poll_many<T>(
    shared: &Shared<T>,
    seat: &mut Seat,
    cx: &mut Context<'_>,
    messages: &mut Vec<T>,
    count_max: usize,
) -> Poll<Result<usize, RecvError>> {
    if count_max == 0 {
        return coop::poll_spend(cx).map(|()| Ok(0));
    }
    loop {
        // For one at least once it has waited: it would leave its place in the list with nothing.
        make_room(shared, messages, usize::from(seat.is_taken()), count_max);
        let mut count = 0;
        // SAFETY: the caller's.
        let poll = unsafe {
            shared.poll_op(Side::Receivers, seat, cx, |state| {
                let (outcome, taken) = state.take_many(messages, count_max);
                count = taken;
                outcome
            })
        };
        match ready!(poll) {
            Outcome::Closed => return Poll::Ready(Err(RecvError)),
            // There was none when room was made, and one when it was to be taken.
            _ if count == 0 => {}
            _ => return Poll::Ready(Ok(count)),
        }
    }
}

/// What is inside after a batch of `count`, up to `count_max` with that: further batches, each of which ends the
/// section, so that others get at the channel, while the one before was as large as can be. Returns how many in all.
fn recv_rest<T>(shared: &Shared<T>, messages: &mut Vec<T>, count: usize, count_max: usize) -> usize {
    let (mut all, mut batch) = (count, count);
    // No more than there are places, though each batch makes room: who sends must not hold up who receives.
    let count_max = count_max.min(shared.capacity);
    while batch == GROW_MAX && all < count_max {
        make_room(shared, messages, 0, count_max - all);
        batch = 0;
        // Whether the channel is closed is for who finds nothing in it.
        _ = shared.try_op(|state| {
            let (outcome, taken) = state.take_many(messages, count_max - all);
            batch = taken;
            outcome
        });
        all += batch;
    }
    all
}

/// Room for what is inside now, `least` at least, up to what is wanted: who only waits has no memory for what may never
/// come. Outside of the lock, because it may allocate.
fn make_room<T>(shared: &Shared<T>, messages: &mut Vec<T>, least: usize, count_max: usize) {
    let wanted = count_max.min(GROW_MAX);
    if messages.capacity() - messages.len() < wanted {
        let there = shared.look(State::len);
        messages.reserve(there.clamp(least, wanted));
    }
}

impl<T> Drop for RecvMany<'_, T> {
    fn drop(&mut self) {
        self.shared.cancel(Side::Receivers, &mut self.seat);
    }
}

impl<T> fmt::Debug for RecvMany<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvMany")
            .field("count_max", &self.count_max)
            .finish_non_exhaustive()
    }
}
