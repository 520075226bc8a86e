//! The sending handle and its future.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::blocking::Put;
use super::shared::{Seat, Shared};
use super::state::{Outcome, Side, State};
use super::{SendError, TrySendError};

/// The sending side of a channel; clone it for more senders.
///
/// Dropping the last one closes the channel.
pub struct Sender<T> {
    pub(super) shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    pub(super) fn new(shared: Arc<Shared<T>>) -> Self {
        Self { shared }
    }

    /// Sends a message; waits while the channel is full.
    ///
    /// Nothing is sent before the future is polled: await it, or [`wait`](crate::Wait::wait) for it. Without a bound
    /// [`try_send`](Self::try_send) is enough, which sends at once, as `send` of tokio's `UnboundedSender` does.
    ///
    /// ```
    /// # use quadrille::sync::mpmc;
    /// # futures_lite::future::block_on(async {
    /// let (sender, receiver) = mpmc::bounded(1);
    /// sender.send("there is room").await?;
    /// drop(receiver);
    /// let refused = sender.send("nobody receives").await.unwrap_err();
    /// assert_eq!(refused.into_inner(), "nobody receives");
    /// # Ok::<(), mpmc::SendError<&str>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Gives the message back if the channel is closed, also if that happens while waiting.
    /// # Cancel safety
    /// Loses the message: it is dropped with the future, unless it was sent. [`Send::cancel`] gives it back instead,
    /// and [`try_send`](Self::try_send) never keeps it. No other message and no place in the channel is lost, but a
    /// call that is made again queues behind all who wait.
    #[inline]
    pub fn send(&self, message: T) -> Send<'_, T> {
        Send {
            shared: &self.shared,
            message: Some(message),
            seat: Seat::new(),
        }
    }

    /// Sends a message if there is room now.
    ///
    /// # Errors
    /// Gives the message back if the channel is full or closed.
    #[inline]
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        let mut message = Some(message);
        let outcome = self.shared.try_op(|state| state.put(&mut message));
        if outcome == Outcome::Done {
            return Ok(());
        }
        message.map_or(Ok(()), |message| {
            Err(match outcome {
                Outcome::Closed => TrySendError::Closed(message),
                Outcome::NotNow | Outcome::Done => TrySendError::Full(message),
            })
        })
    }

    /// Sends a message; while the channel is full a user-level thread is suspended, and an ordinary one sleeps. On a
    /// user-level thread the same as `send(message).wait()` with fewer copies of the message.
    ///
    /// # Errors
    /// Gives the message back if the channel is closed, also if that happens while waiting.
    /// # Blocking
    /// In a task it holds up the worker: there use [`send`](Self::send).
    ///
    /// ```
    /// # let runtime = quadrille::Runtime::new().unwrap();
    /// let (sender, receiver) = quadrille::sync::mpmc::bounded(1);
    /// let thread = runtime.spawn_thread(move || (0..3).for_each(|n| sender.send_blocking(n).unwrap()));
    /// assert_eq!((0..3).map(|_| receiver.recv_blocking().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
    /// thread.join().unwrap();
    /// ```
    #[track_caller]
    #[inline(always)]
    pub fn send_blocking(&self, message: T) -> Result<(), SendError<T>> {
        let mut message = Some(message);
        match self.shared.block_op(Put(&mut message)) {
            Outcome::Closed => message.map_or(Ok(()), |message| Err(SendError(message))),
            Outcome::Done | Outcome::NotNow => Ok(()),
        }
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

    /// Whether the channel is closed; messages of [`Permit`](super::Permit)s that were out may still come.
    pub fn is_closed(&self) -> bool {
        self.shared.look(State::is_closed)
    }

    /// Waits until the channel is closed, by whichever side: so who makes messages learns that nobody wants them any
    /// more.
    ///
    /// # Cancel safety
    /// Strict: it takes nothing.
    ///
    /// ```
    /// use quadrille::sync::mpmc;
    ///
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// let (sender, receiver) = mpmc::bounded::<String>(8);
    /// let watches = quadrille::spawn(async move {
    ///     quadrille::select! {
    ///         () = sender.closed() => "nobody listens",
    ///         () = quadrille::time::sleep(quadrille::time::Duration::from_secs(60)) => "it is time",
    ///     }
    /// });
    /// drop(receiver);
    /// assert_eq!(watches.await.unwrap(), "nobody listens");
    /// # });
    /// ```
    pub async fn closed(&self) {
        self.shared.closed().await;
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

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.handle_added(Side::Senders);
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.shared.handle_dropped(Side::Senders);
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish()
    }
}

/// The future of [`Sender::send`].
#[must_use = "futures do nothing unless awaited"]
pub struct Send<'a, T> {
    shared: &'a Shared<T>,
    /// Not pinned. `None` once sent or given back.
    message: Option<T>,
    seat: Seat,
}

impl<T> Send<'_, T> {
    /// Gives up and takes the message back; `None` if it was sent.
    ///
    /// ```
    /// use std::pin::pin;
    /// use futures_lite::future::{block_on, poll_once};
    /// # block_on(async {
    /// let (sender, receiver) = quadrille::sync::mpmc::bounded(1);
    /// sender.send(1).await.unwrap();
    /// let mut send = pin!(sender.send(2));
    /// assert!(poll_once(send.as_mut()).await.is_none());
    /// assert_eq!(send.cancel(), Some(2));
    /// # });
    /// ```
    pub fn cancel(self: Pin<&mut Self>) -> Option<T> {
        // SAFETY: nothing is moved out of the seat; `message` is not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        this.shared.cancel(Side::Senders, &mut this.seat);
        this.message.take()
    }
}

impl<T> Future for Send<'_, T> {
    type Output = Result<(), SendError<T>>;

    /// # Panics
    /// If polled after it was ready or cancelled.
    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: nothing is moved out of the seat; `message` is not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        let message = &mut this.message;
        assert!(message.is_some(), "a send was polled after it had ended");
        // SAFETY: the seat is this future's, pinned, and `drop` cancels; it is used with this channel and side only.
        let poll = unsafe {
            this.shared
                .poll_op(Side::Senders, &mut this.seat, cx, |state| state.put(message))
        };
        match poll {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Outcome::Closed) => {
                Poll::Ready(this.message.take().map_or(Ok(()), |message| Err(SendError(message))))
            }
            Poll::Ready(_) => Poll::Ready(Ok(())),
        }
    }
}

impl<T> Drop for Send<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.shared.cancel(Side::Senders, &mut self.seat);
    }
}

impl<T> fmt::Debug for Send<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Send").field("sent", &self.message.is_none()).finish()
    }
}
