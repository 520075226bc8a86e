//! Places that are reserved before the message is there, and the futures that wait for one.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::shared::{Seat, Shared};
use super::state::{Outcome, Side, State};
use super::{SendError, Sender, TrySendError};

impl<T> Sender<T> {
    /// Reserves a place for a message; waits while the channel is full. So a message is made only once it is sure to be
    /// sent at once.
    ///
    /// # Errors
    /// If the channel is closed, also if that happens while waiting.
    /// # Cancel safety
    /// Strict, but for the order: no place is lost, and a call that is made again queues behind all who wait.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// let (sender, receiver) = quadrille::sync::mpmc::bounded(1);
    /// let permit = sender.reserve().await?;
    /// assert!(sender.try_send("another").unwrap_err().is_full(), "the place is taken");
    /// permit.send("the one");
    /// assert_eq!(receiver.recv().await, Ok("the one"));
    /// # Ok::<(), quadrille::sync::mpmc::SendError<()>>(())
    /// # }).unwrap();
    /// ```
    pub fn reserve(&self) -> Reserve<'_, T> {
        Reserve {
            shared: &self.shared,
            seat: Seat::new(),
        }
    }

    /// Reserves a place for a message if there is one now.
    ///
    /// # Errors
    /// If the channel is full or closed.
    ///
    /// ```
    /// let (sender, receiver) = quadrille::sync::mpmc::bounded(1);
    /// let permit = sender.try_reserve().unwrap();
    /// assert!(sender.try_reserve().unwrap_err().is_full());
    /// drop(permit);
    /// sender.try_reserve().unwrap().send(1);
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// ```
    pub fn try_reserve(&self) -> Result<Permit<'_, T>, TrySendError<()>> {
        let mut permit = None;
        let outcome = self.shared.try_op(|state| reserve(&self.shared, state, &mut permit));
        permit.ok_or(match outcome {
            Outcome::Closed => TrySendError::Closed(()),
            Outcome::NotNow | Outcome::Done => TrySendError::Full(()),
        })
    }

    /// As [`reserve`](Self::reserve), for a permit that borrows nothing: it holds the sender, and gives it back when it
    /// is used. Clone the sender before to keep one.
    ///
    /// # Errors
    /// As there; the sender is dropped then.
    /// # Cancel safety
    /// Loses the sender, which is dropped with the future; no place in the channel.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// let (sender, receiver) = quadrille::sync::mpmc::bounded(1);
    /// let permit = sender.reserve_owned().await?;
    /// let sender = std::thread::spawn(move || permit.send(1)).join().unwrap();
    /// assert_eq!(receiver.recv().await, Ok(1));
    /// drop(sender);
    /// assert!(receiver.recv().await.is_err());
    /// # Ok::<(), quadrille::sync::mpmc::SendError<()>>(())
    /// # }).unwrap();
    /// ```
    pub fn reserve_owned(self) -> ReserveOwned<T> {
        ReserveOwned {
            sender: Some(self),
            seat: Seat::new(),
        }
    }

    /// As [`try_reserve`](Self::try_reserve), for a permit that borrows nothing: it holds the sender, and gives it back
    /// when it is used.
    ///
    /// # Errors
    /// Gives the sender back if the channel is full or closed.
    ///
    /// ```
    /// let (sender, receiver) = quadrille::sync::mpmc::bounded(1);
    /// let permit = sender.try_reserve_owned().unwrap();
    /// let sender = permit.send(1);
    /// let full = sender.try_reserve_owned().unwrap_err();
    /// assert!(full.is_full());
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// assert!(full.into_inner().try_reserve_owned().is_ok());
    /// ```
    pub fn try_reserve_owned(self) -> Result<OwnedPermit<T>, TrySendError<Self>> {
        // The place of the permit goes on with the sender.
        match self.try_reserve().map(mem::forget) {
            Ok(()) => Ok(OwnedPermit { sender: Some(self) }),
            Err(TrySendError::Full(())) => Err(TrySendError::Full(self)),
            Err(TrySendError::Closed(())) => Err(TrySendError::Closed(self)),
        }
    }
}

/// Makes the permit in the section that takes the place: if a waker panics that is called after it, the permit is
/// dropped.
fn reserve<'a, T>(shared: &'a Shared<T>, state: &mut State<T>, permit: &mut Option<Permit<'a, T>>) -> Outcome {
    let outcome = state.reserve();
    if outcome == Outcome::Done {
        *permit = Some(Permit { shared });
    }
    outcome
}

/// # Safety
/// As [`Shared::poll_op`], with the side of the senders.
unsafe fn poll_reserve<'a, T>(
    shared: &'a Shared<T>,
    seat: &mut Seat,
    cx: &mut Context<'_>,
) -> Poll<Result<Permit<'a, T>, SendError<()>>> {
    let mut permit = None;
    // SAFETY: the caller's.
    let poll = unsafe { shared.poll_op(Side::Senders, seat, cx, |state| reserve(shared, state, &mut permit)) };
    // Without one: closed.
    poll.map(|_| permit.ok_or(SendError(())))
}

/// A place in a channel for one message, from [`Sender::reserve`] and [`Sender::try_reserve`]. Dropping it gives the
/// place to the next who waits for one.
///
/// While it is out a channel that is closed is not at its end: receivers wait for its message. Forgetting it
/// ([`mem::forget`]) takes the place for ever, and if the channel is closed receivers wait for that message for ever.
#[must_use = "a permit that is dropped gives its place back"]
pub struct Permit<'a, T> {
    shared: &'a Shared<T>,
}

impl<T> Permit<'_, T> {
    /// Sends a message, also if the channel has been closed meanwhile. If all receivers are gone it is dropped, and
    /// nobody is told.
    pub fn send(self, message: T) {
        let shared = self.shared;
        mem::forget(self);
        shared.end_permit(Some(message));
    }
}

impl<T> Drop for Permit<'_, T> {
    fn drop(&mut self) {
        self.shared.end_permit(None);
    }
}

impl<T> fmt::Debug for Permit<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").finish_non_exhaustive()
    }
}

/// A [`Permit`] that borrows nothing, from [`Sender::reserve_owned`] and [`Sender::try_reserve_owned`]. It counts as a
/// sender, since it holds one.
#[must_use = "a permit that is dropped gives its place back"]
pub struct OwnedPermit<T> {
    /// `None` once used.
    sender: Option<Sender<T>>,
}

impl<T> OwnedPermit<T> {
    /// Sends a message as [`Permit::send`] does, and gives the sender back.
    pub fn send(self, message: T) -> Sender<T> {
        self.end(Some(message))
    }

    /// Gives the place back without a message, and the sender.
    ///
    /// ```
    /// let (sender, _receiver) = quadrille::sync::mpmc::bounded::<u8>(1);
    /// let permit = sender.try_reserve_owned().unwrap();
    /// let sender = permit.release();
    /// assert!(!sender.is_full());
    /// ```
    pub fn release(self) -> Sender<T> {
        self.end(None)
    }

    fn end(mut self, message: Option<T>) -> Sender<T> {
        let sender = self.sender.take().expect("ended only by value");
        sender.shared.end_permit(message);
        sender
    }

    /// Whether the places of both are in one channel.
    ///
    /// ```
    /// let (sender, _receiver) = quadrille::sync::mpmc::bounded::<u8>(2);
    /// let (other, _receiver) = quadrille::sync::mpmc::bounded::<u8>(1);
    /// let first = sender.clone().try_reserve_owned().unwrap();
    /// assert!(first.same_channel(&sender.try_reserve_owned().unwrap()));
    /// assert!(!first.same_channel(&other.try_reserve_owned().unwrap()));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        other
            .sender
            .as_ref()
            .is_some_and(|sender| self.same_channel_as_sender(sender))
    }

    /// Whether the place is in the channel of `sender`.
    pub fn same_channel_as_sender(&self, sender: &Sender<T>) -> bool {
        self.sender.as_ref().is_some_and(|own| own.same_channel(sender))
    }
}

impl<T> Drop for OwnedPermit<T> {
    fn drop(&mut self) {
        if let Some(sender) = self.sender.take() {
            sender.shared.end_permit(None);
        }
    }
}

impl<T> fmt::Debug for OwnedPermit<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedPermit").finish_non_exhaustive()
    }
}

/// The future of [`Sender::reserve`].
#[must_use = "futures do nothing unless awaited"]
pub struct Reserve<'a, T> {
    shared: &'a Shared<T>,
    seat: Seat,
}

impl<'a, T> Future for Reserve<'a, T> {
    type Output = Result<Permit<'a, T>, SendError<()>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the seat isn't moved.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: the seat is this future's, pinned, and `drop` cancels; it is used with this channel and side only.
        unsafe { poll_reserve(this.shared, &mut this.seat, cx) }
    }
}

impl<T> Drop for Reserve<'_, T> {
    fn drop(&mut self) {
        self.shared.cancel(Side::Senders, &mut self.seat);
    }
}

impl<T> fmt::Debug for Reserve<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reserve").finish_non_exhaustive()
    }
}

/// The future of [`Sender::reserve_owned`].
#[must_use = "futures do nothing unless awaited"]
pub struct ReserveOwned<T> {
    /// Not pinned. `None` once the permit has it, or the channel was closed.
    sender: Option<Sender<T>>,
    seat: Seat,
}

impl<T> Future for ReserveOwned<T> {
    type Output = Result<OwnedPermit<T>, SendError<()>>;

    /// # Panics
    /// If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the seat isn't moved; `sender` is not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        let shared = this.sender.as_ref().map(|sender| &*sender.shared);
        let shared = shared.expect("a reservation was polled after it had ended");
        // SAFETY: the seat is this future's, pinned, and `drop` cancels; it is used with this channel and side only.
        let reserved = ready!(unsafe { poll_reserve(shared, &mut this.seat, cx) });
        // As in `try_reserve_owned`.
        let reserved = reserved.map(mem::forget);
        let sender = this.sender.take();
        Poll::Ready(reserved.map(|()| OwnedPermit { sender }))
    }
}

impl<T> Drop for ReserveOwned<T> {
    fn drop(&mut self) {
        if let Some(sender) = &self.sender {
            sender.shared.cancel(Side::Senders, &mut self.seat);
        }
    }
}

impl<T> fmt::Debug for ReserveOwned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReserveOwned").finish_non_exhaustive()
    }
}
