//! The handles of a channel that has a capacity.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::{FusedStream, Stream};

use super::super::block::block_on;
use super::error::{SendError, TryRecvError, TrySendError};
use super::{OwnedPermit, Permit, Recv, RecvMany, Reserve, ReserveOwned, SendTimeout, Sending, mpmc};

/// The sending side of a [`channel`](super::channel); clone it for more senders.
///
/// Dropping the last one closes the channel.
pub struct Sender<T> {
    pub(super) inner: mpmc::Sender<T>,
}

impl<T> Sender<T> {
    #[inline]
    pub(super) fn new(inner: mpmc::Sender<T>) -> Self {
        Self { inner }
    }

    /// Sends a message; waits while the channel is full. Nothing is sent before the future is polled.
    ///
    /// # Errors
    /// Gives the message back if the channel is closed, also if that happens while waiting.
    /// # Cancel safety
    /// Loses the message: it is dropped with the future, unless it was sent. [`Sending::cancel`] gives it back instead,
    /// and [`reserve`](Self::reserve) waits before there is one. No other message and no place in the channel is lost,
    /// but a call that is made again queues behind all who wait.
    ///
    /// ```
    /// use quadrille::sync::mpsc;
    /// # futures_lite::future::block_on(async {
    /// let (sender, receiver) = mpsc::channel(1);
    /// sender.send("there is room").await?;
    /// drop(receiver);
    /// let refused = sender.send("nobody receives").await.unwrap_err();
    /// assert_eq!(refused.0, "nobody receives");
    /// # Ok::<(), mpsc::error::SendError<&str>>(())
    /// # }).unwrap();
    /// ```
    #[inline]
    pub fn send(&self, message: T) -> Sending<'_, T> {
        Sending::new(self.inner.send(message))
    }

    /// Sends a message if there is room now.
    ///
    /// # Errors
    /// Gives the message back if the channel is full or closed.
    #[inline]
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.inner
            .try_send(message)
            .map_err(|error| TrySendError::of(error, |message| message))
    }

    /// Sends a message; waits while the channel is full, but not longer than `limit`. A channel that has room takes the
    /// message however short that is.
    ///
    /// # Errors
    /// Gives the message back if the time has passed first, or if the channel is closed, also if that happens while
    /// waiting.
    /// # Panics
    /// As [`time::sleep`](crate::time::sleep): outside of a runtime, whose timer it takes.
    /// # Cancel safety
    /// Loses the message, as [`send`](Self::send); the time-out does not.
    ///
    /// ```
    /// use quadrille::sync::mpsc::{self, error::SendTimeoutError};
    /// use quadrille::time::Duration;
    ///
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// let (sender, mut receiver) = mpsc::channel(1);
    /// sender.send_timeout("first", Duration::from_secs(1)).await.unwrap();
    /// let late = sender.send_timeout("second", Duration::from_millis(1)).await;
    /// assert_eq!(late, Err(SendTimeoutError::Timeout("second")));
    /// assert_eq!(receiver.recv().await, Some("first"));
    /// # });
    /// ```
    #[track_caller]
    pub fn send_timeout(&self, message: T, limit: Duration) -> SendTimeout<'_, T> {
        SendTimeout::new(self.inner.send_timeout(message, limit))
    }

    /// Sends a message; while the channel is full a user-level thread is suspended, and an ordinary one sleeps.
    ///
    /// # Errors
    /// Gives the message back if the channel is closed, also if that happens while waiting.
    /// # Blocking
    /// In a task it holds up the worker, where tokio's panics: there use [`send`](Self::send).
    ///
    /// ```
    /// # let runtime = quadrille::Runtime::new().unwrap();
    /// let (sender, mut receiver) = quadrille::sync::mpsc::channel(1);
    /// let thread = runtime.spawn_thread(move || (0..3).for_each(|n| sender.blocking_send(n).unwrap()));
    /// assert_eq!((0..3).map(|_| receiver.blocking_recv().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
    /// thread.join().unwrap();
    /// ```
    #[track_caller]
    #[inline(always)]
    pub fn blocking_send(&self, message: T) -> Result<(), SendError<T>> {
        self.inner.send_blocking(message).map_err(SendError::of)
    }

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
    /// let (sender, mut receiver) = quadrille::sync::mpsc::channel(1);
    /// let permit = sender.reserve().await?;
    /// assert!(sender.try_send("another").is_err(), "the place is taken");
    /// permit.send("the one");
    /// assert_eq!(receiver.recv().await, Some("the one"));
    /// # Ok::<(), quadrille::sync::mpsc::error::SendError<()>>(())
    /// # }).unwrap();
    /// ```
    #[inline]
    pub fn reserve(&self) -> Reserve<'_, T> {
        Reserve::new(self.inner.reserve())
    }

    /// Reserves a place for a message if there is one now.
    ///
    /// # Errors
    /// If the channel is full or closed.
    #[inline]
    pub fn try_reserve(&self) -> Result<Permit<'_, T>, TrySendError<()>> {
        let reserved = self.inner.try_reserve();
        reserved
            .map(Permit::new)
            .map_err(|error| TrySendError::of(error, |()| ()))
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
    /// let (sender, mut receiver) = quadrille::sync::mpsc::channel(1);
    /// let permit = sender.reserve_owned().await?;
    /// let sender = std::thread::spawn(move || permit.send(1)).join().unwrap();
    /// assert_eq!(receiver.recv().await, Some(1));
    /// drop(sender);
    /// assert_eq!(receiver.recv().await, None);
    /// # Ok::<(), quadrille::sync::mpsc::error::SendError<()>>(())
    /// # }).unwrap();
    /// ```
    #[inline]
    pub fn reserve_owned(self) -> ReserveOwned<T> {
        ReserveOwned::new(self.inner.reserve_owned())
    }

    /// As [`try_reserve`](Self::try_reserve), for a permit that borrows nothing: it holds the sender, and gives it back
    /// when it is used.
    ///
    /// # Errors
    /// Gives the sender back if the channel is full or closed.
    #[inline]
    pub fn try_reserve_owned(self) -> Result<OwnedPermit<T>, TrySendError<Self>> {
        let reserved = self.inner.try_reserve_owned();
        reserved
            .map(OwnedPermit::new)
            .map_err(|error| TrySendError::of(error, Self::new))
    }

    /// Waits until the receiver has closed the channel, or is gone: so who makes messages learns that nobody wants them
    /// any more.
    ///
    /// # Cancel safety
    /// Strict: it takes nothing.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// let (sender, receiver) = quadrille::sync::mpsc::channel::<u8>(1);
    /// drop(receiver);
    /// sender.closed().await;
    /// assert!(sender.is_closed());
    /// # });
    /// ```
    pub async fn closed(&self) {
        self.inner.closed().await;
    }

    /// Whether the receiver has closed the channel, or is gone; messages of [`Permit`]s that were out may still come.
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    /// Messages for which there is room now: [`max_capacity`](Self::max_capacity) less those inside and the [`Permit`]s
    /// that are out.
    ///
    /// ```
    /// let (sender, _receiver) = quadrille::sync::mpsc::channel(5);
    /// sender.try_send(1).unwrap();
    /// let _permit = sender.try_reserve().unwrap();
    /// assert_eq!((sender.capacity(), sender.max_capacity()), (3, 5));
    /// ```
    pub fn capacity(&self) -> usize {
        self.inner.free()
    }

    /// Messages for which there is room in an empty channel, as was said when it was made.
    pub fn max_capacity(&self) -> usize {
        self.inner.capacity_max()
    }

    /// Whether both handles belong to one channel.
    pub fn same_channel(&self, other: &Self) -> bool {
        self.inner.same_channel(&other.inner)
    }

    /// A handle of the same channel that doesn't keep it open.
    #[must_use = "it keeps nothing open, and changes nothing"]
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender {
            inner: self.inner.downgrade(),
        }
    }

    /// Senders of this channel, [`OwnedPermit`]s among them.
    pub fn strong_count(&self) -> usize {
        self.inner.sender_count()
    }

    /// Weak senders of this channel.
    pub fn weak_count(&self) -> usize {
        self.inner.weak_count()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone())
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// A sending handle that doesn't count: the channel is closed when the last [`Sender`] is dropped, however many of
/// these there are. From [`Sender::downgrade`].
///
/// ```
/// let (sender, mut receiver) = quadrille::sync::mpsc::channel(1);
/// let weak = sender.downgrade();
/// weak.upgrade().expect("there is a sender").try_send(1).unwrap();
/// drop(sender);
/// assert!(weak.upgrade().is_none());
/// assert_eq!(receiver.blocking_recv(), Some(1));
/// assert_eq!(receiver.blocking_recv(), None);
/// ```
pub struct WeakSender<T> {
    inner: mpmc::WeakSender<T>,
}

impl<T> WeakSender<T> {
    /// A sender, if there is one still: a channel whose last one is gone has none for good. It may have been closed all
    /// the same.
    pub fn upgrade(&self) -> Option<Sender<T>> {
        self.inner.upgrade().map(Sender::new)
    }

    /// Senders of this channel, [`OwnedPermit`]s among them.
    pub fn strong_count(&self) -> usize {
        self.inner.sender_count()
    }

    /// Weak senders of this channel.
    pub fn weak_count(&self) -> usize {
        self.inner.weak_count()
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<T> fmt::Debug for WeakSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// The receiving side of a [`channel`](super::channel).
///
/// Dropping it closes the channel and drops the messages inside. It is a [`Stream`] that ends when the channel is
/// closed and drained.
pub struct Receiver<T> {
    inner: mpmc::Receiver<T>,
}

impl<T> Receiver<T> {
    #[inline]
    pub(super) fn new(inner: mpmc::Receiver<T>) -> Self {
        Self { inner }
    }

    /// Receives the oldest message; waits while there is none. `None` if the channel is closed and drained.
    ///
    /// # Cancel safety
    /// Strict: a message is taken only by the poll that returns it.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// let (sender, mut receiver) = quadrille::sync::mpsc::channel(4);
    /// sender.send(1).await.unwrap();
    /// drop(sender);
    /// assert_eq!(receiver.recv().await, Some(1));
    /// assert_eq!(receiver.recv().await, None);
    /// # });
    /// ```
    #[inline]
    pub fn recv(&mut self) -> Recv<'_, T> {
        Recv::new(self.inner.recv())
    }

    /// Waits for messages and moves what is there, at most `count_max`, to the end of `messages`; gives how many. Zero
    /// if the channel is closed and drained, or if `count_max` is zero: then at once, or, in a task without budget, in
    /// its next turn.
    ///
    /// After each 64 senders get at the channel. The vector grows by what is there to be moved, and not while nothing
    /// is.
    ///
    /// # Cancel safety
    /// Strict: messages are taken only by the poll that returns their number.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// let (sender, mut receiver) = quadrille::sync::mpsc::channel(10);
    /// (0..10).for_each(|n| sender.try_send(n).unwrap());
    /// let mut batch = Vec::new();
    /// assert_eq!(receiver.recv_many(&mut batch, 4).await, 4);
    /// assert_eq!(batch, [0, 1, 2, 3]);
    /// # });
    /// ```
    #[inline]
    pub fn recv_many<'a>(&'a mut self, messages: &'a mut Vec<T>, count_max: usize) -> RecvMany<'a, T> {
        RecvMany::new(self.inner.recv_many(messages, count_max))
    }

    /// Receives the oldest message if there is one now.
    ///
    /// # Errors
    /// If there is none; the error tells whether one may come.
    #[inline]
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.inner.try_recv().map_err(TryRecvError::of)
    }

    /// Receives the oldest message; while there is none a user-level thread is suspended, and an ordinary one sleeps.
    /// `None` if the channel is closed and drained.
    ///
    /// # Blocking
    /// In a task it holds up the worker, where tokio's panics: there use [`recv`](Self::recv).
    #[track_caller]
    #[inline(always)]
    pub fn blocking_recv(&mut self) -> Option<T> {
        self.inner.recv_blocking().ok()
    }

    /// [`recv_many`](Self::recv_many), for threads: while nothing is there a user-level one is suspended, and an
    /// ordinary one sleeps.
    ///
    /// # Blocking
    /// In a task it holds up the worker, where tokio's panics: there use [`recv_many`](Self::recv_many).
    ///
    /// ```
    /// let (sender, mut receiver) = quadrille::sync::mpsc::channel(2);
    /// std::thread::spawn(move || (0..10).for_each(|n| sender.blocking_send(n).unwrap()));
    /// let mut all = Vec::new();
    /// while receiver.blocking_recv_many(&mut all, 4) > 0 {}
    /// assert_eq!(all, Vec::from_iter(0..10));
    /// ```
    pub fn blocking_recv_many(&mut self, messages: &mut Vec<T>, count_max: usize) -> usize {
        block_on(self.recv_many(messages, count_max))
    }

    /// [`recv`](Self::recv) for whoever implements `Future` or `Stream`. Of those who poll, only the last is woken.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// let (sender, mut receiver) = quadrille::sync::mpsc::channel(1);
    /// sender.send(42).await.unwrap();
    /// assert_eq!(std::future::poll_fn(|cx| receiver.poll_recv(cx)).await, Some(42));
    /// # });
    /// ```
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.inner.poll_recv(cx).map(Result::ok)
    }

    /// [`recv_many`](Self::recv_many) for whoever implements `Future` or `Stream`; it waits as
    /// [`poll_recv`](Self::poll_recv), in the same place. Nothing is taken by a poll that is pending; the vector may
    /// have grown.
    pub fn poll_recv_many(&mut self, cx: &mut Context<'_>, messages: &mut Vec<T>, count_max: usize) -> Poll<usize> {
        self.inner.poll_recv_all(cx, messages, count_max)
    }

    /// Closes the channel: no message is accepted any more but those of [`Permit`]s that are out; they and those inside
    /// can still be received, and to lose none receive until there is `None`.
    ///
    /// ```
    /// use quadrille::sync::mpsc::error::TryRecvError::{Disconnected, Empty};
    ///
    /// let (sender, mut receiver) = quadrille::sync::mpsc::channel(3);
    /// sender.try_send(1).unwrap();
    /// let permit = sender.try_reserve().unwrap();
    /// receiver.close();
    /// assert!(sender.try_send(2).is_err());
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// assert_eq!(receiver.try_recv(), Err(Empty), "one is to come");
    /// permit.send(3);
    /// assert_eq!(receiver.try_recv(), Ok(3));
    /// assert_eq!(receiver.try_recv(), Err(Disconnected));
    /// ```
    pub fn close(&mut self) {
        self.inner.close();
    }

    /// Whether the channel is closed, by [`close`](Self::close) or because all senders are gone; messages may still be
    /// inside, and come from [`Permit`]s that were out.
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    /// Whether no message is inside now.
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Messages inside now.
    pub fn len(&self) -> usize {
        self.inner.len()
    }

    /// Messages for which there is room now, as [`Sender::capacity`].
    pub fn capacity(&self) -> usize {
        self.inner.free()
    }

    /// Messages for which there is room in an empty channel, as was said when it was made.
    pub fn max_capacity(&self) -> usize {
        self.inner.capacity_max()
    }

    /// Senders of this channel, [`OwnedPermit`]s among them.
    pub fn sender_strong_count(&self) -> usize {
        self.inner.sender_count()
    }

    /// Weak senders of this channel.
    pub fn sender_weak_count(&self) -> usize {
        self.inner.weak_count()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T> Stream for Receiver<T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.get_mut().poll_recv(cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.inner.size_hint()
    }
}

/// As that of [`mpmc::Receiver`].
impl<T> FusedStream for Receiver<T> {
    fn is_terminated(&self) -> bool {
        self.inner.is_terminated()
    }
}
