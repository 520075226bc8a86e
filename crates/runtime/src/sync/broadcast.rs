//! A channel whose every message reaches every receiver; one that is too slow loses the oldest, and is told how many.
//!
//! ```
//! use quadrille::sync::broadcast::{self, RecvError};
//!
//! # quadrille::Runtime::new().unwrap().block_on(async {
//! let (sender, mut first) = broadcast::channel(2);
//! let mut second = sender.subscribe();
//! sender.send("hello").unwrap();
//! assert_eq!((first.recv().await, second.recv().await), (Ok("hello"), Ok("hello")));
//! for n in ["a", "b", "c"] {
//!     sender.send(n).unwrap();
//! }
//! assert_eq!(first.recv().await, Err(RecvError::Lagged(1)));
//! assert_eq!(first.recv().await, Ok("b"));
//! # });
//! ```
//!
//! Messages have positions. The channel keeps the last ones, as many as it has capacity, each with the number of receivers that take it
//! next; those who have missed some take the first that is kept. The messages before the first that somebody takes next are *left*: all
//! have taken them, and they go at once. A receiver has the position of what it takes next. All of that is under one
//! lock; a message is cloned and dropped outside of it, and so kept in an `Arc`: the last receiver has it without a clone.
//!
//! A receiver that goes is counted no more, which is one step; what is left by that it takes out, some in a section.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::iter;
use std::mem;
use std::pin::pin;
use std::sync::Arc;

use super::notify::Notify;
use super::watched::{Place, Watched, Watching};
use crate::coop;
use crate::panics::FirstPanic;

pub use super::error::SendError;

/// The errors, where tokio has them.
pub mod error {
    pub use super::{RecvError, SendError, TryRecvError};
}

/// Messages that are left, and taken out at a time.
const BATCH_MAX: usize = 32;

#[derive(Debug)]
struct Shared<T> {
    ring: Watched<Ring<T>>,
    /// Tells those who wait for the end of all receivers, and for no message, once the ring says so.
    unheard: Notify,
}

#[derive(Debug)]
struct Ring<T> {
    messages: VecDeque<Message<T>>,
    /// Position of the first of them, or of the next one.
    first: u64,
    capacity: usize,
    senders: usize,
    receivers: usize,
    /// How many of them take the next message next.
    at_end: usize,
}

#[derive(Debug)]
struct Message<T> {
    value: Arc<T>,
    /// Receivers that take it next.
    here: usize,
}

impl<T> Watching for Shared<T> {
    type State = Ring<T>;

    fn watched(&self) -> &Watched<Ring<T>> {
        &self.ring
    }
}

impl<T> Ring<T> {
    /// Position of the next message.
    fn next(&self) -> u64 {
        self.first + self.messages.len() as u64
    }

    /// Takes the message at `position`, and advances it.
    fn take(&mut self, position: &mut u64) -> Option<Result<Arc<T>, RecvError>> {
        if *position < self.first {
            let missed = self.first - *position;
            *position = self.first;
            return Some(Err(RecvError::Lagged(missed)));
        }
        let index = self.index(*position);
        let Some(message) = self.messages.get(index) else {
            return (self.senders == 0).then_some(Err(RecvError::Closed));
        };
        *position += 1;
        if index == 0 && message.here == 1 {
            return self.pop_first().map(Ok);
        }
        let value = message.value.clone();
        *self.here(index) -= 1;
        *self.here(index + 1) += 1;
        Some(Ok(value))
    }

    /// Where the message at that position is.
    fn index(&self, position: u64) -> usize {
        usize::try_from(position.saturating_sub(self.first)).unwrap_or(usize::MAX)
    }

    /// How many take what is there next, or the next message if nothing is.
    fn here(&mut self, index: usize) -> &mut usize {
        self.messages
            .get_mut(index)
            .map_or(&mut self.at_end, |message| &mut message.here)
    }

    /// A receiver comes. What it takes next.
    fn enter(&mut self) -> u64 {
        self.receivers += 1;
        self.at_end += 1;
        self.next()
    }

    /// A receiver goes, which was to take that next.
    fn leave(&mut self, position: u64) {
        let index = self.index(position);
        *self.here(index) -= 1;
        self.receivers -= 1;
    }

    /// How many of the first messages are left.
    fn count_left(&self) -> usize {
        self.messages.iter().take_while(|message| message.here == 0).count()
    }

    /// The first message, if it is left.
    fn pop_left(&mut self) -> Option<Arc<T>> {
        let is_left = self.messages.front().is_some_and(|message| message.here == 0);
        is_left.then(|| self.pop_first()).flatten()
    }

    /// Takes out the first message; who was to take it next takes the one behind it next.
    fn pop_first(&mut self) -> Option<Arc<T>> {
        let first = self.messages.pop_front()?;
        self.first += 1;
        *self.here(0) += first.here;
        Some(first.value)
    }
}

/// Makes a channel that keeps `capacity` messages for those who are late.
///
/// # Panics
/// If the capacity is zero.
#[track_caller]
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a broadcast channel of capacity 0: at least 1 is needed");
    let shared = Arc::new(Shared {
        ring: Watched::new(Ring {
            messages: VecDeque::with_capacity(capacity.min(1024)),
            first: 0,
            capacity,
            senders: 1,
            receivers: 1,
            at_end: 1,
        }),
        unheard: Notify::new(),
    });
    let receiver = Receiver {
        shared: shared.clone(),
        next: 0,
    };
    (Sender { shared }, receiver)
}

/// The side that sends. When the last one is dropped the channel is closed.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    /// A channel without a receiver yet; see [`subscribe`](Self::subscribe).
    ///
    /// # Panics
    /// If the capacity is zero.
    #[must_use]
    #[track_caller]
    pub fn new(capacity: usize) -> Self {
        channel(capacity).0
    }

    /// Sends a message to all receivers that there are: their number. Never waits.
    ///
    /// # Errors
    /// Gives the message back if there is no receiver. There may be one later.
    ///
    /// # Panics
    /// Never: a message that is given back was nobody else's.
    pub fn send(&self, message: T) -> Result<usize, SendError<T>> {
        let message = Arc::new(message);
        let (sent, old) = self.shared.ring.change(|ring| {
            if ring.receivers == 0 {
                return (false, (Err(message), None));
            }
            let old = (ring.messages.len() == ring.capacity).then(|| ring.pop_first());
            ring.messages.push_back(Message {
                value: message,
                here: mem::take(&mut ring.at_end),
            });
            (true, (Ok(ring.receivers), old))
        });
        drop(old);
        sent.map_err(|message| SendError(Arc::into_inner(message).expect("nobody else has seen it")))
    }

    /// A receiver of what is sent from now on.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver::enters(&self.shared)
    }

    /// How many messages not all have taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.ring.with(|ring| ring.messages.len() - ring.count_left())
    }

    /// Whether all have taken all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many receivers there are.
    #[must_use]
    pub fn receiver_count(&self) -> usize {
        self.shared.ring.with(|ring| ring.receivers)
    }

    /// Waits until there is no receiver.
    ///
    /// # Cancel safety
    /// Strict.
    pub async fn closed(&self) {
        loop {
            // Made before the look, so that it is told of what comes after that (theorem G). There may be one again when it is.
            let unheard = self.shared.unheard.notified();
            if self.receiver_count() == 0 {
                return coop::consume_budget().await;
            }
            unheard.await;
        }
    }

    /// Whether both are of the same channel.
    #[must_use]
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.ring.with(|ring| ring.senders += 1);
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.shared.ring.change(|ring| {
            ring.senders -= 1;
            (ring.senders == 0, ())
        });
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("receivers", &self.receiver_count())
            .field("len", &self.len())
            .finish()
    }
}

/// The side that receives.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// Position of what it takes next.
    next: u64,
}

impl<T: Clone> Receiver<T> {
    /// Waits for the next message.
    ///
    /// # Errors
    /// [`Lagged`](RecvError::Lagged) if messages were lost since the last call, and how many; the next call goes on behind them.
    /// [`Closed`](RecvError::Closed) if all were received, and no sender is left.
    ///
    /// # Cancel safety
    /// Strict.
    pub async fn recv(&mut self) -> Result<T, RecvError> {
        let Self { shared, next } = self;
        let mut place = pin!(Place::new(&**shared));
        let message =
            std::future::poll_fn(|cx| coop::poll_progress(cx, |cx| place.as_mut().poll(cx, |_, ring| ring.take(next))));
        message.await.map(Arc::unwrap_or_clone)
    }

    /// The next message, if it is there.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), and [`Empty`](TryRecvError::Empty) if there is none yet.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        match self.shared.ring.with(|ring| ring.take(&mut self.next)) {
            None => Err(TryRecvError::Empty),
            Some(Ok(message)) => Ok(Arc::unwrap_or_clone(message)),
            Some(Err(RecvError::Closed)) => Err(TryRecvError::Closed),
            Some(Err(RecvError::Lagged(missed))) => Err(TryRecvError::Lagged(missed)),
        }
    }

    /// Waits for the next message: suspends a user-level thread, blocks an ordinary one.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    /// # Blocking
    /// In a task it holds up the worker: there use [`recv`](Self::recv).
    pub fn blocking_recv(&mut self) -> Result<T, RecvError> {
        super::block::block_on(self.recv())
    }
}

impl<T> Receiver<T> {
    /// Another receiver, of what is sent from now on.
    #[must_use]
    pub fn resubscribe(&self) -> Self {
        Self::enters(&self.shared)
    }

    fn enters(shared: &Arc<Shared<T>>) -> Self {
        Self {
            shared: shared.clone(),
            next: shared.ring.with(Ring::enter),
        }
    }

    /// How many messages were sent and not received, those among them that are lost included.
    #[must_use]
    pub fn len(&self) -> usize {
        let len = self.shared.ring.with(|ring| ring.next() - self.next);
        usize::try_from(len).unwrap_or(usize::MAX)
    }

    /// Whether nothing was sent that was not received.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether no sender is left.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.ring.with(|ring| ring.senders == 0)
    }

    /// Whether both are of the same channel.
    #[must_use]
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut panic = FirstPanic::default();
        // Whatever the wakers and the destructors of users do.
        let is_last = self.shared.ring.with(|ring| {
            ring.leave(self.next);
            ring.receivers == 0
        });
        let mut left = Vec::new();
        loop {
            // As many as there is room for outside of the lock.
            self.shared
                .ring
                .with(|ring| left.extend(iter::from_fn(|| ring.pop_left()).take(BATCH_MAX)));
            if left.is_empty() {
                break;
            }
            for message in left.drain(..) {
                panic.catch(|| drop(message));
            }
        }
        // Only now, so that who is told finds the messages gone. Who has subscribed meanwhile tells in its turn.
        if is_last && self.shared.ring.with(|ring| ring.receivers == 0) {
            panic.catch(|| self.shared.unheard.notify_waiters());
        }
        panic.go_on();
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("len", &self.len()).finish()
    }
}

/// Why no message was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// So many messages were lost: more were sent than the channel keeps. The receiver goes on behind them.
    Lagged(u64),
    /// All messages were received, and no sender is left.
    Closed,
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lagged(missed) => write!(f, "the receiver was too slow for {missed} messages"),
            Self::Closed => f.write_str("receiving from an empty and closed channel"),
        }
    }
}

impl Error for RecvError {}

/// Why no message could be received at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// No message is there yet.
    Empty,
    /// So many messages were lost.
    Lagged(u64),
    /// All messages were received, and no sender is left.
    Closed,
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("receiving from an empty channel"),
            Self::Lagged(missed) => RecvError::Lagged(*missed).fmt(f),
            Self::Closed => RecvError::Closed.fmt(f),
        }
    }
}

impl Error for TryRecvError {}

#[cfg(all(test, not(quadrille_loom)))]
mod tests;
