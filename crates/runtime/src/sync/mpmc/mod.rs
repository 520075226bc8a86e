//! A first-in, first-out channel with any number of senders and receivers; each message goes to one receiver.
//!
//! By tokio's names, and with one receiver, it is [`mpsc`](super::mpsc).
//!
//! ```
//! use quadrille::sync::mpmc;
//! # futures_lite::future::block_on(async {
//! let (sender, receiver) = mpmc::bounded(64);
//! sender.send("one").await?;
//! sender.send("two").await?;
//! drop(sender);
//! assert_eq!(receiver.recv().await, Ok("one"));
//! assert_eq!(receiver.recv().await, Ok("two"));
//! assert!(receiver.recv().await.is_err(), "closed and drained");
//! # Ok::<(), mpmc::SendError<&str>>(())
//! # }).unwrap();
//! ```
//!
//! - **Order.** Messages leave in the order in which they entered; those of one sender keep its order.
//! - **Closing.** Either side may `close`; dropping the last sender or the last receiver does it. A closed channel
//!   takes no message; those inside are still received, except that the last receiver to go drops them. So are those of
//!   [`Permit`]s that were out when it was closed: until the last of them has ended, receivers wait. [`Sender::closed`]
//!   waits for the closing itself.
//! - **Permits.** [`Sender::reserve`] takes a place before there is a message. A place that is taken counts as filled,
//!   for [`is_full`](Sender::is_full) and for who waits; not for [`len`](Sender::len).
//! - **Weak senders.** [`Sender::downgrade`] gives a handle that does not keep the channel open.
//! - **Fairness.** Waiters are told first come, first told. Whoever runs may take a message or a place before a waiter
//!   that was told but doesn't run yet; that waiter then waits again *at the front*. No waiter is passed by another
//!   waiter; how often a running task passes it is bounded by that task's budget, not by the channel. A task that has
//!   spent its [budget](crate::coop) has not asked yet: whoever asks before its next turn goes first.
//! - **Forgotten futures.** A [`Send`], [`Reserve`], [`ReserveOwned`] or [`Recv`] that was told and is then neither
//!   polled nor dropped delays others by at most 64 messages (or by a full, or empty, channel if that comes first),
//!   after which it is no longer counted on, however few are inside at a time. So does one whose task or user-level
//!   thread cannot run, behind a long poll or bound to a worker that is held up. While it does, nobody behind it is
//!   told. So never let the other side wait for one of those behind it: then neither 64 messages nor a full, or empty,
//!   channel comes, and all wait for ever. Dropping it hands its turn on at once. A [`Receiver`] that was polled as a
//!   stream keeps its place when the future of `next` is dropped; it delays nobody: whoever waits behind it is told as
//!   well. So of several that wait as streams a message wakes all, and those who find it gone wait again in another
//!   order: where many share the work, let them [`recv`](Receiver::recv), which wakes one.
//! - **Panics.** If somebody's waker panics, so does the operation that has called it, when it is done: the message
//!   that it has received is dropped then, unless that is in the vector of a [`recv_many`](Receiver::recv_many).
//!
// ---- For maintainers
// -------------------------------------------------------------------------------------------------
//
// # Parts
//
// `State` (state.rs) is everything that the lock protects: queue, phase, two lists of waiters. `Shared`
// (shared.rs) is the lock around it and the steps of one operation. `Sender` and `Receiver` are handles, their futures
// carry the waiter; permit.rs, timed.rs and weak.rs are further ways to send, blocking.rs is how threads do both. What
// is `pub(in crate::sync)` is what `mpsc` asks besides: free places, weak senders, and batches of any size.
//
// # One operation
//
//  1. Enter the lock, try. Done: leave the list, *settle*, leave the lock, call the wakers that settling returned.
//     Where nobody waits, and the operation never did, that is all: settling would find no list with somebody in it.
//  2. Not possible: if the waiter has no waker for this task yet, it takes a clone. No user code runs inside the lock,
//     and cloning a waker is user code, unless the waker is that of a task of this crate: then it raises a count. Else
//     leave the lock, clone, and start over at 1.
//  3. Wait: enter the list (back; front if notified before), leave the lock, Pending.
//
// Settling notifies the first waiting receiver if there are messages and no receiver holds a token, and the first
// waiting sender if there is room and no sender holds a token. A token (waiters.rs) is the promise of the waiter
// notified last to come and look; coming (1, 3) or being dropped gives it back, and 1 and dropping settle again.
//
// # Theorem Channel: no lost wake-up
//
// Whenever the lock is free and the channel is open:
//
//   (i)   messages and a receiver in the list  =>  a receiver holds a token;
//   (ii)  room and a sender in the list        =>  a sender holds a token.
//
// Room is a place with neither a message in it nor a permit for it: `limit`, the capacity less the permits that are
// out, is above the length. A sender is whoever waits to send or to reserve.
//
// Proof, for (i). Every section that adds a message, adds or takes a token, or empties the list's head ends by
// settling, which establishes (i) directly, except two. Step 3 adds a receiver and may give a token back; it happens
// only in the section that has found no message. Writing off happens in `put`, `reserve` and `fill`, which settle. (ii)
// alike, with room for messages. (A section that finds both lists empty, and whose future has no waiter, need not
// settle: (i) and (ii) are vacuous, and a token that is out is its holder's to give back.) So nobody waits for
// something that is there unless somebody who was woken for it has yet to act. That waiter's waker is called right
// after the section that gave it the token; when it is polled it takes a message or finds none (then (i) is vacuous),
// when it is dropped its token moves on. Once closed nobody enters a list, and `close` notifies all who are in.
//
// A stream that is told gets no token, so that settling leaves (i) to the section after it: `deliver` enters it though
// the waker panics that it calls between the two (`deliver_partial`), and so up to the last. Nor does a panic end
// `close` before all are told, or keep the last receiver from dropping what is inside.
//
// Permits add the section that ends one: it makes room, or fills what it takes, and settles; a message is made room for
// and put in by one section, so nobody is told of room that isn't there. The permit exists from the section on
// that took the place, so that no panic and no dropped future loses it.
//
// While permits of a closed channel are out (*closing*) it is as if open to receivers, (i) holds, and they wait.
// Senders are not let in: `close` notifies them, and them alone, since a receiver would wait again. The section that
// ends the last permit closes the channel to receivers, who are all notified then. Who waits after it finds it closed.
//
// The losing interleaving, if dropping a permit didn't settle (loom test `channel_dropped_permit_makes_room`): the
// sender finds the one place taken and waits; the permit is dropped; a place is free, and nobody will tell.
//
// The losing interleaving, if dropping a future didn't settle (loom test `channel_dropped_waiter_passes_its_token_on`):
//
//   sender                       receiver A                 receiver B
//   put; A is told, has token
//                                dropped before its poll
//                                                           in the list, a message is there, and nobody will tell
//
// # Why one token a side
//
// Telling one receiver for each message, as event-listener based channels do, costs a wake-up and a task switch a
// message although the receiver that runs first takes a batch. With one token a burst of 64 messages costs one or two.
// A receiver that takes a message and leaves more behind hands a token to the next, so that slow receivers still spread
// over all workers; senders alike.
//
// A stream's waiter outlives the wait: dropping the future of `next` tells us nothing, and the receiver may be used by
// `recv` then, or not at all. So it is weak: it is told, but holds no token, and the section after it tells the next.
//
// A token whose holder doesn't run must not stall the rest: `put` writes it off when the channel becomes full and after
// 64 messages that came since it was given, `take` when it becomes empty and after 64 places. What comes is counted,
// not what is inside then: of a channel that others keep at a few messages the length never gets to 64. Only while
// somebody waits beside the holder, for whom it is; otherwise it costs one look, at the word that the end of the
// section looks at as well. The counts are two bytes beside the phase, where there was room, in the line that every
// message changes.
//
// `reserve` writes off if it fills a channel that has a message. A message that a permit sends finds the channel as
// full as it leaves it, so `fill` can't go by that: of a full one the first two messages write off, the first for a
// token of before, the second for one that the first has given. The rest would wake a receiver each. It can't be the
// first alone: if all 32 places are filled by permits and its receiver is forgotten, nobody else would hear of 32
// messages.
//
// # Rejected
//
// - *Handing the message to a waiting receiver directly* (Go). Saves the receiver one uncontended lock (about 8 ns),
//   and costs a wake-up for each message as long as any receiver waits. A dropped future would have to put its message
//   back.
// - *Waking senders only when half of the channel is free.* A sender then waits although there is room, and if the
//   receiver waits for that sender's next step, for ever. The token gives the same batching without the trap: while
//   the woken sender doesn't run, the receiver drains on.
// - *Reserving the slot for a notified waiter* (a strict FIFO semaphore). The channel then stands still until that task
//   gets to run; it is the convoy that makes fair locks slow.
// - *A count of permits beside the limit.* Every `put` would add the two. Lowered, the limit is the sum.
// - *A lock-free ring with event counts* (async-channel). Two contended words instead of one for each side, and every
//   wait allocates or locks a list anyway.

mod blocking;
pub mod error;
mod iter;
mod permit;
mod receiver;
mod sender;
mod shared;
mod state;
mod timed;
mod weak;

#[cfg(all(test, not(quadrille_loom)))]
mod tests;

use std::sync::Arc;

#[doc(inline)]
pub use error::{RecvError, SendError, SendTimeoutError, TryRecvError, TrySendError};
pub use iter::{IntoIter, Iter, TryIter};
pub use permit::{OwnedPermit, Permit, Reserve, ReserveOwned};
pub use receiver::{Receiver, Recv, RecvMany};
pub use sender::{Send, Sender};
pub use timed::SendTimeout;
pub use weak::WeakSender;

use shared::Shared;

/// Makes a channel that holds at most `capacity` messages; sending to a full one waits.
///
/// Memory for a chunk of messages, or for `capacity` if that is less, is taken at once, and is kept. A chunk is 1024
/// messages, or as many as fit into 64 KiB if that is less, one at least. Beyond that memory follows the number of
/// messages, as of an [`unbounded`] channel.
///
/// # Panics
/// If `capacity` is zero.
///
/// ```
/// let (sender, receiver) = quadrille::sync::mpmc::bounded(1);
/// assert!(sender.try_send(1).is_ok());
/// assert!(sender.try_send(2).unwrap_err().is_full());
/// assert_eq!(receiver.try_recv(), Ok(1));
/// ```
#[track_caller]
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a channel needs room for at least one message");
    channel(capacity)
}

/// Makes a channel that holds any number of messages; sending never waits.
///
/// Memory follows the number of messages, in chunks of at most 1024 and of 64 KiB (or of one message, if that is
/// larger), and is given back as they are received, but for one chunk, or two where a chunk is of fewer than 4.
///
/// ```
/// let (sender, receiver) = quadrille::sync::mpmc::unbounded();
/// (0..1000).for_each(|n| assert!(sender.try_send(n).is_ok()));
/// assert_eq!(receiver.len(), 1000);
/// ```
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    channel(usize::MAX)
}

fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared::new(capacity));
    (Sender::new(Arc::clone(&shared)), Receiver::new(shared))
}
