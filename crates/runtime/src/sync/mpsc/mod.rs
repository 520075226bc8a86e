//! A first-in, first-out channel with any number of senders and one receiver, by tokio's names.
//!
//! ```
//! use quadrille::sync::mpsc;
//!
//! # quadrille::Runtime::new().unwrap().block_on(async {
//! let (sender, mut receiver) = mpsc::channel(64);
//! quadrille::spawn(async move {
//!     for n in 1..=10 {
//!         sender.send(n).await.unwrap();
//!     }
//! });
//! let mut sum = 0;
//! while let Some(n) = receiver.recv().await {
//!     sum += n;
//! }
//! assert_eq!(sum, 55, "its last sender has gone");
//! # });
//! ```
//!
//! It is [`mpmc`] by other names: same queue, same memory, same fairness, same budget (of which `recv_many` spends one
//! unit, however many it takes), and what is said there of order, of wakers that panic and of a future that is kept and
//! not polled holds here. Take that one for several receivers, for a receiver that is shared, or to close a channel
//! from the senders' side.
//!
//! - **Closing.** [`Receiver::close`], dropping the receiver or the last sender closes the channel. It then takes no
//!   message, but those of [`Permit`]s that are out; those inside are still received, and [`recv`](Receiver::recv) is
//!   `None` once there are none and no permit is out. Dropping the receiver drops those inside. [`Sender::closed`]
//!   waits for the closing.
//! - **Threads.** The methods named `blocking_` suspend a user-level thread, as [`wait`](crate::Wait::wait) does, and
//!   put an ordinary one to sleep. In a task they hold up the worker: there is nothing that refuses it.
//!
//! # Other than in tokio
//! - A receiver is a [`Stream`](futures_core::Stream).
//! - `blocking_send` and `blocking_recv` hold up the worker if they are called in a task, where tokio's panic.
//! - Who waits for a place is told of one, and not given it: whoever runs may take it first, and a future that was told
//!   and is neither polled nor dropped delays those behind it ([`mpmc`], *Forgotten futures*).
//! - [`Sender::send`] gives its message back by [`Sending::cancel`].
//! - There are no `reserve_many` and `try_reserve_many`.
//! - A capacity may be any number but zero, and memory for a chunk of messages is taken at once ([`channel`]).
//! - The texts of the [errors](error).
//!
// ---- For maintainers
// -------------------------------------------------------------------------------------------------
//
// Nothing waits, counts or is unsafe here: each handle has one of `mpmc` in it, and each future one of its futures,
// whose output it maps. Two types a kind of handle, for that is how tokio keeps capacities from who has none. The
// futures are in future.rs, none of which is called `Send`: `use quadrille::sync::mpsc::*` must not hide the trait.

mod bounded;
mod future;
mod permit;
mod unbounded;

pub mod error;

pub use self::bounded::{Receiver, Sender, WeakSender};
pub use self::future::{Recv, RecvMany, Reserve, ReserveOwned, SendTimeout, Sending};
pub use self::permit::{OwnedPermit, Permit};
pub use self::unbounded::{UnboundedReceiver, UnboundedSender, WeakUnboundedSender};

use super::mpmc;

/// Makes a channel that holds at most `capacity` messages; sending to a full one waits.
///
/// Memory is that of [`mpmc::bounded`].
///
/// # Panics
/// If `capacity` is zero.
///
/// ```
/// use quadrille::sync::mpsc::{self, error::TrySendError};
///
/// let (sender, mut receiver) = mpsc::channel(1);
/// assert_eq!(sender.try_send(1), Ok(()));
/// assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
/// assert_eq!(receiver.try_recv(), Ok(1));
/// ```
#[track_caller]
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpmc::bounded(capacity);
    (Sender::new(sender), Receiver::new(receiver))
}

/// Makes a channel that holds any number of messages; sending never waits.
///
/// Memory is that of [`mpmc::unbounded`]: it follows the number of messages, and nothing but the senders bounds that.
///
/// ```
/// let (sender, receiver) = quadrille::sync::mpsc::unbounded_channel();
/// (0..1000).for_each(|n| assert_eq!(sender.send(n), Ok(())));
/// assert_eq!(receiver.len(), 1000);
/// ```
pub fn unbounded_channel<T>() -> (UnboundedSender<T>, UnboundedReceiver<T>) {
    let (sender, receiver) = mpmc::unbounded();
    (UnboundedSender::new(sender), UnboundedReceiver::new(receiver))
}
