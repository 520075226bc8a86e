//! A channel with many senders and one receiver, as [`std::sync::mpsc`].
//!
//! On top of [`sync::mpmc`](crate::sync::mpmc), but for a [`sync_channel`] of bound 0: same queue, same fairness. Take
//! that one for more than one receiver, or to receive in batches.
//!
//! ```
//! use quadrille::thread::{self, sync::mpsc};
//!
//! let runtime = quadrille::Runtime::new()?;
//! let (sender, receiver) = mpsc::channel();
//! for id in 0..10 {
//!     let sender = sender.clone();
//!     runtime.spawn_thread(move || sender.send(id).unwrap());
//! }
//! drop(sender);
//! let mut got: Vec<i32> = receiver.iter().collect();
//! got.sort();
//! assert_eq!(got, (0..10).collect::<Vec<_>>());
//! # Ok::<(), quadrille::BuildError>(())
//! ```

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

use super::{refuse_in_tasks, rendezvous};
use crate::coop;
use crate::sync::mpmc;
use crate::thread::note::Reason;
use crate::thread::wait::{suspends, wait_on, wait_timeout_on};

/// Makes a channel that holds any number of messages; sending never waits for room.
///
/// ```
/// let (sender, receiver) = quadrille::thread::sync::mpsc::channel();
/// sender.send(1).unwrap();
/// assert_eq!(receiver.recv(), Ok(1));
/// ```
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpmc::unbounded();
    let inner = ReceiverInner::Buffered(receiver);
    (Sender { inner: sender }, Receiver { inner })
}

/// Makes a channel that holds at most `bound` messages; sending to a full one waits. With bound 0 sending waits until
/// the message is received: a rendezvous.
///
/// ```
/// let (sender, receiver) = quadrille::thread::sync::mpsc::sync_channel(1);
/// sender.send(1).unwrap();
/// assert!(sender.try_send(2).is_err());
/// assert_eq!(receiver.recv(), Ok(1));
/// ```
#[must_use]
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    let (sender, receiver) = if bound == 0 {
        let (sender, receiver) = rendezvous::channel();
        (SenderInner::Rendezvous(sender), ReceiverInner::Rendezvous(receiver))
    } else {
        let (sender, receiver) = mpmc::bounded(bound);
        (SenderInner::Buffered(sender), ReceiverInner::Buffered(receiver))
    };
    (SyncSender { inner: sender }, Receiver { inner: receiver })
}

/// The sending side of a [`channel`]; clone it for more senders.
pub struct Sender<T> {
    inner: mpmc::Sender<T>,
}

impl<T> Sender<T> {
    /// Sends a message; never waits for the receiver.
    ///
    /// # Errors
    /// With the message, if the receiver is gone.
    /// # Blocking
    /// Nobody, in a task neither. But a user-level thread that has had its turn gives way here, as wherever it waits:
    /// hold no lock of std's meanwhile. If it is aborted, or the runtime stops, it unwinds from here, and the message
    /// goes with it.
    #[track_caller]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        if suspends() {
            // There is room always: what it may wait for is a turn. Else a thread that only sends would leave its
            // worker to nobody, not even to who receives.
            let sent = self.inner.send_blocking(message);
            return sent.map_err(|error| SendError(error.into_inner()));
        }
        let sent = self.inner.try_send(message);
        sent.map_err(|error| SendError(error.into_inner()))
    }
}

// Messages are whole or not there: no user code runs while the channel is changed, so no panic leaves it half done.
impl<T> UnwindSafe for Sender<T> {}
impl<T> RefUnwindSafe for Sender<T> {}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

/// The sending side of a [`sync_channel`]; clone it for more senders.
pub struct SyncSender<T> {
    inner: SenderInner<T>,
}

/// By bound: more than zero, or zero.
enum SenderInner<T> {
    Buffered(mpmc::Sender<T>),
    Rendezvous(rendezvous::Sender<T>),
}

impl<T> SyncSender<T> {
    /// Sends a message; waits while the channel is full, with bound 0 until the message is received.
    ///
    /// # Errors
    /// With the message, if the receiver is gone, also if it goes while waiting.
    /// # Panics
    /// As [`Mutex::lock`](super::Mutex::lock).
    #[track_caller]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        refuse_in_tasks();
        match &self.inner {
            SenderInner::Buffered(inner) => inner
                .send_blocking(message)
                .map_err(|error| SendError(error.into_inner())),
            SenderInner::Rendezvous(inner) => {
                let tried = if coop::has_budget_remaining() {
                    inner.try_send(message)
                } else {
                    Err(TrySendError::Full(message))
                };
                match tried {
                    Ok(()) => {
                        coop::spend();
                        Ok(())
                    }
                    Err(TrySendError::Disconnected(message)) => Err(SendError(message)),
                    Err(TrySendError::Full(message)) => wait_on(inner.send(message), Reason::channel(self.address())),
                }
            }
        }
    }

    /// Sends a message; waits as [`send`](Self::send) does, without blocking anybody.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    /// # Cancel safety
    /// Loses the message: it is dropped with the future, unless it was sent.
    pub async fn send_async(&self, message: T) -> Result<(), SendError<T>> {
        match &self.inner {
            SenderInner::Buffered(inner) => {
                let sent = inner.send(message).await;
                sent.map_err(|error| SendError(error.into_inner()))
            }
            SenderInner::Rendezvous(inner) => inner.send(message).await,
        }
    }

    /// Sends a message if there is room now; with bound 0, if the receiver waits for one.
    ///
    /// # Errors
    /// With the message, if the channel is full or the receiver is gone.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        match &self.inner {
            SenderInner::Buffered(inner) => inner.try_send(message).map_err(|error| match error {
                mpmc::TrySendError::Full(message) => TrySendError::Full(message),
                mpmc::TrySendError::Closed(message) => TrySendError::Disconnected(message),
            }),
            SenderInner::Rendezvous(inner) => inner.try_send(message),
        }
    }

    fn address(&self) -> usize {
        match &self.inner {
            SenderInner::Buffered(inner) => inner.address(),
            SenderInner::Rendezvous(inner) => inner.address(),
        }
    }
}

impl<T> UnwindSafe for SyncSender<T> {}
impl<T> RefUnwindSafe for SyncSender<T> {}

impl<T> Clone for SyncSender<T> {
    fn clone(&self) -> Self {
        let inner = match &self.inner {
            SenderInner::Buffered(inner) => SenderInner::Buffered(inner.clone()),
            SenderInner::Rendezvous(inner) => SenderInner::Rendezvous(inner.clone()),
        };
        Self { inner }
    }
}

impl<T> fmt::Debug for SyncSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncSender").finish_non_exhaustive()
    }
}

/// The receiving side of a channel. There is one.
pub struct Receiver<T> {
    inner: ReceiverInner<T>,
}

/// By bound: more than zero, or none, or zero.
enum ReceiverInner<T> {
    Buffered(mpmc::Receiver<T>),
    Rendezvous(rendezvous::Receiver<T>),
}

impl<T> Receiver<T> {
    /// Receives the oldest message; waits while there is none.
    ///
    /// # Errors
    /// If there is none and all senders are gone.
    /// # Panics
    /// As [`Mutex::lock`](super::Mutex::lock).
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        refuse_in_tasks();
        match &self.inner {
            ReceiverInner::Buffered(inner) => inner.recv_blocking().map_err(|_closed| RecvError),
            ReceiverInner::Rendezvous(inner) => match self.try_recv_in_turn() {
                Ok(message) => Ok(message),
                Err(TryRecvError::Disconnected) => Err(RecvError),
                Err(TryRecvError::Empty) => wait_on(inner.recv(), Reason::channel(self.address())),
            },
        }
    }

    /// Receives a message that is there, for a unit of the budget. Without one left nothing is: the wait that follows
    /// gives way first.
    fn try_recv_in_turn(&self) -> Result<T, TryRecvError> {
        if !coop::has_budget_remaining() {
            return Err(TryRecvError::Empty);
        }
        let received = self.try_recv();
        if received.is_ok() {
            coop::spend();
        }
        received
    }

    /// Receives the oldest message; waits while there is none, without blocking anybody.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    /// # Cancel safety
    /// Strict: no message is lost, and nobody else receives here.
    pub async fn recv_async(&self) -> Result<T, RecvError> {
        match &self.inner {
            ReceiverInner::Buffered(inner) => inner.recv().await.map_err(|_closed| RecvError),
            ReceiverInner::Rendezvous(inner) => inner.recv().await,
        }
    }

    /// Receives the oldest message; waits while there is none, but no longer than `limit`.
    ///
    /// # Errors
    /// If there is none in time, or all senders are gone.
    /// # Panics
    /// As [`Mutex::lock`](super::Mutex::lock).
    #[track_caller]
    pub fn recv_timeout(&self, limit: Duration) -> Result<T, RecvTimeoutError> {
        refuse_in_tasks();
        match self.try_recv_in_turn() {
            Ok(message) => Ok(message),
            Err(TryRecvError::Disconnected) => Err(RecvTimeoutError::Disconnected),
            Err(TryRecvError::Empty) => {
                match wait_timeout_on(self.recv_async(), limit, Reason::channel(self.address())) {
                    Ok(Ok(message)) => Ok(message),
                    Ok(Err(RecvError)) => Err(RecvTimeoutError::Disconnected),
                    Err(_elapsed) => Err(RecvTimeoutError::Timeout),
                }
            }
        }
    }

    /// Receives the oldest message if there is one now; with bound 0, if a sender waits with one.
    ///
    /// # Errors
    /// If there is none; the error tells whether one may come.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        match &self.inner {
            ReceiverInner::Buffered(inner) => inner.try_recv().map_err(|error| match error {
                mpmc::TryRecvError::Empty => TryRecvError::Empty,
                mpmc::TryRecvError::Closed => TryRecvError::Disconnected,
            }),
            ReceiverInner::Rendezvous(inner) => inner.try_recv(),
        }
    }

    fn address(&self) -> usize {
        match &self.inner {
            ReceiverInner::Buffered(inner) => inner.address(),
            ReceiverInner::Rendezvous(inner) => inner.address(),
        }
    }

    /// Messages as they come, until all senders are gone; waits for each as [`recv`](Self::recv).
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// The messages that are there.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }
}

impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

/// The iterator of [`Receiver::iter`].
#[derive(Debug)]
pub struct Iter<'a, T> {
    receiver: &'a Receiver<T>,
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    #[track_caller]
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

/// The iterator of [`Receiver::try_iter`].
#[derive(Debug)]
pub struct TryIter<'a, T> {
    receiver: &'a Receiver<T>,
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

/// A receiver as an iterator.
#[derive(Debug)]
pub struct IntoIter<T> {
    receiver: Receiver<T>,
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    #[track_caller]
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: self }
    }
}
