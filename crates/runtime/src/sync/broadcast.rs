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
//! Messages have positions, and a receiver that of what it takes next. The channel keeps the last messages, as many as
//! it has capacity, each in a slot with a share for every receiver that has yet to take it. Who has the last share of a
//! message has the message itself, and all others a clone.
//!
//! Who receives looks into the slot alone: receivers of different messages take different locks. Only if the message is
//! not there it asks at the channel's end, under whose lock messages come, receivers come and go, and who finds nothing
//! waits. A message is cloned and dropped outside of all locks.

// The protocol and its theorem are in `broadcast/end.rs`.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use self::end::{Cursor, End, Pushed};
use self::slots::Slots;
use super::notify::Notify;
use super::shares::{Alone, Shares};
use super::watched::{Place, Watched, Watching};
use crate::coop;
use crate::panics::FirstPanic;

#[doc(inline)]
pub use self::error::{RecvError, SendError, TryRecvError};
pub use self::stream::{Lagged, ReceiverStream};
pub use self::weak::WeakSender;

mod end;
pub mod error;
mod slots;
mod stream;
mod weak;

/// So many slots are made at first, or as many as the channel keeps messages. More are made when they are needed, and
/// stay.
const FIRST_SLOTS_MAX: usize = 64;

#[derive(Debug)]
struct Shared<T> {
    end: Watched<End<T>>,
    /// Tells those who wait for the end of all receivers, and for no message, once the count says so.
    unheard: Notify,
}

impl<T> Watching for Shared<T> {
    type State = End<T>;

    fn watched(&self) -> &Watched<End<T>> {
        &self.end
    }
}

/// Makes a channel that keeps `capacity` messages for those who are late.
///
/// # Panics
/// If the capacity is zero.
#[track_caller]
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a broadcast channel of capacity 0: at least 1 is needed");
    with_slots(capacity, capacity.min(FIRST_SLOTS_MAX).next_power_of_two())
}

/// Makes a channel that has so many slots at first, a power of two.
pub(super) fn with_slots<T>(capacity: usize, slots: usize) -> (Sender<T>, Receiver<T>) {
    let (end, cursor) = End::new(capacity, slots);
    let shared = Arc::new(Shared {
        end: Watched::new(end),
        unheard: Notify::new(),
    });
    let receiver = Receiver {
        shared: shared.clone(),
        cursor,
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
    /// If the destructor of the message that is lost by this one does, or a waker. It was sent all the same.
    pub fn send(&self, message: T) -> Result<usize, SendError<T>> {
        let (mut message, mut more) = (Alone::new(message), None);
        loop {
            let pushed = self.shared.end.change(|end| {
                let pushed = end.push(message, &mut more);
                (matches!(pushed, Pushed::Sent(..)), pushed)
            });
            match pushed {
                Pushed::Sent(receivers, _replaced) => return Ok(receivers),
                Pushed::Unheard(message) => return Err(SendError(message.into_inner())),
                Pushed::NeedsSlots(len, back) => {
                    message = back;
                    more = Some(Slots::new(len));
                }
            }
        }
    }

    /// A receiver of what is sent from now on.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver::enters(&self.shared)
    }

    /// How many messages not all have taken. While a receiver is dropped that is more than 32 behind, it may count as
    /// if it were still there, and stood at one of the messages that it has yet to pass by.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.end.with(|end| end.wanted())
    }

    /// Whether all have taken all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many receivers there are.
    #[must_use]
    pub fn receiver_count(&self) -> usize {
        self.shared.end.with(|end| end.receivers)
    }

    /// How many senders there are, this one among them. A [`WeakSender`] is none.
    ///
    /// ```
    /// let (sender, receiver) = quadrille::sync::broadcast::channel::<u8>(1);
    /// let second = sender.clone();
    /// assert_eq!((sender.strong_count(), receiver.sender_strong_count()), (2, 2));
    /// let weak = sender.downgrade();
    /// drop((sender, second));
    /// assert_eq!((receiver.sender_strong_count(), weak.sender_count()), (0, 0));
    /// ```
    #[must_use]
    pub fn strong_count(&self) -> usize {
        self.shared.end.with(|end| end.senders)
    }

    /// Waits until there is no receiver, and what they were sent has been dropped.
    ///
    /// # Cancel safety
    /// Strict.
    pub async fn closed(&self) {
        loop {
            // Made before the look, so that it is told of what comes after that (theorem G). There may be one again
            // when it is.
            let unheard = self.shared.unheard.notified();
            if self.shared.end.with(|end| end.is_unheard()) {
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
        self.shared.end.with(|end| end.senders += 1);
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.shared.end.change(|end| {
            end.senders -= 1;
            (end.senders == 0, ())
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
    cursor: Cursor<T>,
}

impl<T: Clone> Receiver<T> {
    /// Waits for the next message.
    ///
    /// # Errors
    /// [`Lagged`](RecvError::Lagged) if messages were lost since the last call, and how many; the next call goes on
    /// behind them. [`Closed`](RecvError::Closed) if all were received, and no sender is left.
    ///
    /// # Cancel safety
    /// Strict.
    pub async fn recv(&mut self) -> Result<T, RecvError> {
        let Self { shared, cursor } = self;
        let mut place = pin!(Place::new(&**shared));
        let message = poll_fn(|cx| coop::poll_progress(cx, |cx| cursor.poll_at(place.as_mut(), cx)));
        message.await.map(Shares::unwrap_or_clone)
    }

    /// The next message, if it is there.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), and [`Empty`](TryRecvError::Empty) if there is none yet.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let Self { shared, cursor } = self;
        let mut before = None;
        let taken = cursor.take().map(Ok);
        match taken.or_else(|| shared.end.with(|end| cursor.take_at(end, &mut before))) {
            None => Err(TryRecvError::Empty),
            Some(Ok(message)) => Ok(Shares::unwrap_or_clone(message)),
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
    pub fn recv_blocking(&mut self) -> Result<T, RecvError> {
        super::block::block_on(self.recv())
    }

    /// [`recv_blocking`](Self::recv_blocking) by the name that tokio has for it.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn blocking_recv(&mut self) -> Result<T, RecvError> {
        self.recv_blocking()
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
            cursor: shared.end.with(End::enter),
        }
    }

    /// How many messages were sent and not received, those among them that are lost included.
    #[must_use]
    pub fn len(&self) -> usize {
        let len = self.shared.end.with(|end| self.cursor.distance(end));
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
        self.sender_strong_count() == 0
    }

    /// How many senders there are; see [`Sender::strong_count`].
    #[must_use]
    pub fn sender_strong_count(&self) -> usize {
        self.shared.end.with(|end| end.senders)
    }

    /// Whether both are of the same channel.
    #[must_use]
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let Self { shared, cursor } = self;
        let (mut until, mut passed) = (None, Vec::new());
        loop {
            let mut before = None;
            let batch = shared.end.with(|end| {
                let until = *until.get_or_insert_with(|| end.leave());
                cursor.pass(end, until, &mut before)
            });
            let is_last = !batch.is_full();
            passed.extend(batch);
            if is_last {
                break;
            }
        }
        // Whatever the wakers and the destructors of users do; all at the end, so that no destructor finds here what
        // nobody wants any more.
        let mut panic = FirstPanic::default();
        for message in passed {
            panic.catch(|| drop(message));
        }
        // Only now, so that who is told finds the messages gone. Who has subscribed meanwhile tells in its turn.
        if shared.end.with(End::left) {
            panic.catch(|| shared.unheard.notify_waiters());
        }
        panic.go_on();
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("len", &self.len()).finish()
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests;
