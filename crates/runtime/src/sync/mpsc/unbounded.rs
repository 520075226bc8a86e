//! The handles of a channel without a bound.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::{FusedStream, Stream};

use super::super::block::block_on;
use super::error::{SendError, TryRecvError};
use super::{Recv, RecvMany, mpmc};

/// The sending side of an [`unbounded_channel`](super::unbounded_channel); clone it for more senders.
///
/// Dropping the last one closes the channel.
pub struct UnboundedSender<T> {
    inner: mpmc::Sender<T>,
}

impl<T> UnboundedSender<T> {
    #[inline]
    pub(super) fn new(inner: mpmc::Sender<T>) -> Self {
        Self { inner }
    }

    /// Sends a message at once.
    ///
    /// # Errors
    /// Gives the message back if the channel is closed.
    ///
    /// ```
    /// use quadrille::sync::mpsc::{self, error::SendError};
    ///
    /// let (sender, mut receiver) = mpsc::unbounded_channel();
    /// assert_eq!(sender.send(1), Ok(()));
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// drop(receiver);
    /// assert_eq!(sender.send(2), Err(SendError(2)));
    /// ```
    #[inline]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        // It is never full: not with as many messages as memory has bytes.
        self.inner
            .try_send(message)
            .map_err(|error| SendError(error.into_inner()))
    }

    /// Waits until the receiver has closed the channel, or is gone, as [`Sender::closed`](super::Sender::closed).
    ///
    /// # Cancel safety
    /// Strict: it takes nothing.
    pub async fn closed(&self) {
        self.inner.closed().await;
    }

    /// Whether the receiver has closed the channel, or is gone.
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    /// Whether both handles belong to one channel.
    pub fn same_channel(&self, other: &Self) -> bool {
        self.inner.same_channel(&other.inner)
    }

    /// A handle of the same channel that doesn't keep it open.
    #[must_use = "it keeps nothing open, and changes nothing"]
    pub fn downgrade(&self) -> WeakUnboundedSender<T> {
        WeakUnboundedSender {
            inner: self.inner.downgrade(),
        }
    }

    /// Senders of this channel.
    pub fn strong_count(&self) -> usize {
        self.inner.sender_count()
    }

    /// Weak senders of this channel.
    pub fn weak_count(&self) -> usize {
        self.inner.weak_count()
    }
}

impl<T> Clone for UnboundedSender<T> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone())
    }
}

impl<T> fmt::Debug for UnboundedSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnboundedSender")
            .field("len", &self.inner.len())
            .finish()
    }
}

/// A sending handle that doesn't count: the channel is closed when the last [`UnboundedSender`] is dropped, however
/// many of these there are. From [`UnboundedSender::downgrade`].
///
/// ```
/// let (sender, mut receiver) = quadrille::sync::mpsc::unbounded_channel();
/// let weak = sender.downgrade();
/// weak.upgrade().expect("there is a sender").send(1).unwrap();
/// drop(sender);
/// assert!(weak.upgrade().is_none());
/// assert_eq!(receiver.blocking_recv(), Some(1));
/// assert_eq!(receiver.blocking_recv(), None);
/// ```
pub struct WeakUnboundedSender<T> {
    inner: mpmc::WeakSender<T>,
}

impl<T> WeakUnboundedSender<T> {
    /// A sender, if there is one still: a channel whose last one is gone has none for good. It may have been closed all
    /// the same.
    pub fn upgrade(&self) -> Option<UnboundedSender<T>> {
        self.inner.upgrade().map(UnboundedSender::new)
    }

    /// Senders of this channel.
    pub fn strong_count(&self) -> usize {
        self.inner.sender_count()
    }

    /// Weak senders of this channel.
    pub fn weak_count(&self) -> usize {
        self.inner.weak_count()
    }
}

impl<T> Clone for WeakUnboundedSender<T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<T> fmt::Debug for WeakUnboundedSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakUnboundedSender").finish_non_exhaustive()
    }
}

/// The receiving side of an [`unbounded_channel`](super::unbounded_channel).
///
/// Dropping it closes the channel and drops the messages inside. It is a [`Stream`] that ends when the channel is
/// closed and drained.
pub struct UnboundedReceiver<T> {
    inner: mpmc::Receiver<T>,
}

impl<T> UnboundedReceiver<T> {
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
    /// let (sender, mut receiver) = quadrille::sync::mpsc::unbounded_channel();
    /// sender.send(1).unwrap();
    /// drop(sender);
    /// assert_eq!(receiver.recv().await, Some(1));
    /// assert_eq!(receiver.recv().await, None);
    /// # });
    /// ```
    #[inline]
    pub fn recv(&mut self) -> Recv<'_, T> {
        Recv::new(self.inner.recv())
    }

    /// Waits for messages and moves what is there, at most `count_max`, to the end of `messages`; gives how many, and
    /// otherwise is as [`Receiver::recv_many`](super::Receiver::recv_many).
    ///
    /// # Cancel safety
    /// Strict: messages are taken only by the poll that returns their number.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// let (sender, mut receiver) = quadrille::sync::mpsc::unbounded_channel();
    /// (0..100).for_each(|n| sender.send(n).unwrap());
    /// let mut batch = Vec::new();
    /// assert_eq!(receiver.recv_many(&mut batch, 1000).await, 100);
    /// assert_eq!(batch, Vec::from_iter(0..100));
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
    pub fn blocking_recv_many(&mut self, messages: &mut Vec<T>, count_max: usize) -> usize {
        block_on(self.recv_many(messages, count_max))
    }

    /// [`recv`](Self::recv) for whoever implements `Future` or `Stream`. Of those who poll, only the last is woken.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.inner.poll_recv(cx).map(Result::ok)
    }

    /// [`recv_many`](Self::recv_many) for whoever implements `Future` or `Stream`; it waits as
    /// [`poll_recv`](Self::poll_recv), in the same place. Nothing is taken by a poll that is pending; the vector may
    /// have grown.
    pub fn poll_recv_many(&mut self, cx: &mut Context<'_>, messages: &mut Vec<T>, count_max: usize) -> Poll<usize> {
        self.inner.poll_recv_all(cx, messages, count_max)
    }

    /// Closes the channel: no message is accepted any more; those inside can still be received.
    pub fn close(&mut self) {
        self.inner.close();
    }

    /// Whether the channel is closed, by [`close`](Self::close) or because all senders are gone; messages may still be
    /// inside.
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

    /// Senders of this channel.
    pub fn sender_strong_count(&self) -> usize {
        self.inner.sender_count()
    }

    /// Weak senders of this channel.
    pub fn sender_weak_count(&self) -> usize {
        self.inner.weak_count()
    }
}

impl<T> fmt::Debug for UnboundedReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnboundedReceiver").field("len", &self.len()).finish()
    }
}

impl<T> Stream for UnboundedReceiver<T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.get_mut().poll_recv(cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.inner.size_hint()
    }
}

/// As that of [`mpmc::Receiver`].
impl<T> FusedStream for UnboundedReceiver<T> {
    fn is_terminated(&self) -> bool {
        self.inner.is_terminated()
    }
}
