//! A channel for one message.
//!
//! ```
//! use quadrille::sync::oneshot;
//! # futures_lite::future::block_on(async {
//! let (sender, receiver) = oneshot::channel();
//! sender.send(42).unwrap();
//! assert_eq!(receiver.await, Ok(42));
//! # });
//! ```
//!
//! # Theorem Oneshot
//!
//! *(a) No message without a wake-up: who waits for the other side is woken when that ends. (b) A message is received, dropped by the receiver, or given back to the sender.*
//!
//! (a) A side that ends (sends, closes, is dropped), while the other is there, sets its flag and takes the other side's waker in the same section of a lock, then calls it; a side that
//! waits looks at the flag and leaves its waker in the same section. So no wake-up is lost, whichever section comes first.
//!
//! (b) The message has a place beside the lock. The sender writes it once, in the section in which it ends, before it sets its flag, and if the receiver has not
//! ended before; then it comes back to it no more. Who finds that flag set, which is read by Acquire and was set by Release, and is the receiver, has the
//! place for itself. So it takes the message without the lock, and a receiver that has found the flag set needs no section to end: there is nobody to tell, and
//! the sender takes the wakers of both in that section of its own, and keeps what they are in until then.

use std::fmt;
use std::mem;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use super::block::block_on;
use super::lock::Lock;
use crate::coop;
use crate::primitives::{AtomicBool, Ordering, UnsafeCell};

pub use super::error::{RecvError, SendError, TryRecvError};

struct Shared<T> {
    /// Written by the sender, in its last section; the receiver's once `sender_gone` is set (b).
    message: UnsafeCell<Option<T>>,
    /// Set in the sender's last section.
    sender_gone: AtomicBool,
    ends: Lock<Ends>,
}

// SAFETY: `ends` and `sender_gone` may be shared. The message is moved from the sender's thread to the receiver's, `Send`, by (b); no `&T` is ever shared.
unsafe impl<T: Send> Sync for Shared<T> {}

// None of its sections, and nothing that touches the message, runs the user's code, so no panic of his leaves it half changed.
impl<T> UnwindSafe for Shared<T> {}
impl<T> RefUnwindSafe for Shared<T> {}

impl<T> Shared<T> {
    /// Whether the sender has ended; if so, the message is the receiver's.
    #[inline]
    fn is_over(&self) -> bool {
        // Ordering: Acquire; (b) pairs with the store in `Sender::end`, before which the message was written.
        self.sender_gone.load(Ordering::Acquire)
    }
}

#[derive(Debug)]
struct Ends {
    receiver_gone: bool,
    /// Of the sender, while it waits for the receiver to go.
    sender_waker: Option<Waker>,
    /// Of the receiver, while it waits for the message.
    receiver_waker: Option<Waker>,
}

/// Makes a channel for one message.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        message: UnsafeCell::new(None),
        sender_gone: AtomicBool::new(false),
        ends: Lock::new(Ends {
            receiver_gone: false,
            sender_waker: None,
            receiver_waker: None,
        }),
    });
    (
        Sender {
            shared: Some(Arc::clone(&shared)),
        },
        Receiver { shared },
    )
}

/// Leaves a waker of the current task in `place`, unless `is_over` says that there is nothing to wait for. If a new waker
/// is needed, the first section only finds that out (`None`): it is cloned outside of the lock.
fn poll_wait(
    ends: &Lock<Ends>,
    cx: &mut Context<'_>,
    is_over: impl Fn(&Ends) -> bool,
    place: impl Fn(&mut Ends) -> &mut Option<Waker>,
) -> Poll<()> {
    let mut fresh = None;
    loop {
        let poll = ends.with(|ends| {
            if is_over(ends) {
                return Some(Poll::Ready(()));
            }
            let waker = place(ends);
            if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                fresh.as_ref()?;
                mem::swap(waker, &mut fresh);
            }
            Some(Poll::Pending)
        });
        match poll {
            Some(poll) => return poll,
            None => fresh = Some(cx.waker().clone()),
        }
    }
}

/// The side that sends. Dropping it unused makes the receiver fail.
pub struct Sender<T> {
    /// `None` once sent.
    shared: Option<Arc<Shared<T>>>,
}

impl<T> Sender<T> {
    /// Sends the message. Never waits.
    ///
    /// # Errors
    /// Gives the message back if the receiver was closed or dropped. `Ok` doesn't say that the message will be looked at.
    pub fn send(mut self, message: T) -> Result<(), SendError<T>> {
        let mut message = Some(message);
        if let Some(shared) = self.shared.take() {
            Self::end(&shared, &mut message);
        }
        message.map_or(Ok(()), |message| Err(SendError(message)))
    }

    /// Waits until the receiver is closed or dropped.
    ///
    /// # Cancel safety
    /// Strict: dropping the future and calling again equals not dropping it.
    pub async fn closed(&mut self) {
        let waiting = WaitsForEnd(self);
        std::future::poll_fn(|cx| waiting.0.poll_closed(cx)).await;
    }

    /// Polls for the receiver being closed or dropped; the task of the last poll is woken.
    pub fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(shared) = &self.shared else {
            return Poll::Ready(());
        };
        coop::poll_progress(cx, |cx| {
            poll_wait(
                &shared.ends,
                cx,
                |ends| ends.receiver_gone,
                |ends| &mut ends.sender_waker,
            )
        })
    }

    /// Whether the receiver was closed or dropped, so that sending would fail.
    pub fn is_closed(&self) -> bool {
        let shared = self.shared.as_ref();
        shared.is_none_or(|shared| shared.ends.with(|ends| ends.receiver_gone))
    }

    /// Ends this side, with or without a message. The message stays where it is if the receiver is gone.
    fn end(shared: &Shared<T>, message: &mut Option<T>) {
        let (receiver, _own) = shared.ends.with(|ends| {
            if !ends.receiver_gone {
                // SAFETY: the receiver stays away from it before the store below (b), and the one sender ends once. Nothing is there that would be dropped.
                shared.message.with_mut(|place| unsafe { *place = message.take() });
            }
            // Ordering: Release; (b) pairs with the load in `is_over`.
            shared.sender_gone.store(true, Ordering::Release);
            (ends.receiver_waker.take(), ends.sender_waker.take())
        });
        if let Some(receiver) = receiver {
            receiver.wake();
        }
    }
}

/// A sender in [`Sender::closed`], which leaves no waker behind.
struct WaitsForEnd<'a, T>(&'a mut Sender<T>);

impl<T> Drop for WaitsForEnd<'_, T> {
    fn drop(&mut self) {
        let shared = self.0.shared.as_ref();
        let waker = shared.map(|shared| shared.ends.with(|ends| ends.sender_waker.take()));
        // Outside of the lock.
        drop(waker);
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            Self::end(&shared, &mut None);
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("is_closed", &self.is_closed()).finish()
    }
}

/// The side that receives: a future of the message.
///
/// Its output is an error if the sender was dropped unused, if this side was closed before the message came, and if
/// the message was taken before.
///
/// # Cancel safety
/// Strict, by `(&mut receiver).await`. Dropping the receiver itself drops a message that has come.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Receiver<T> {
    /// Receives the message if it is there.
    ///
    /// # Errors
    /// If it isn't; the error tells whether it may come.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        if self.shared.is_over() {
            return self.take().ok_or(TryRecvError::Closed);
        }
        let is_closed = self.shared.ends.with(|ends| ends.receiver_gone);
        Err(if is_closed {
            TryRecvError::Closed
        } else {
            TryRecvError::Empty
        })
    }

    /// Receives the message; until it comes a user-level thread is suspended, and an ordinary one sleeps.
    ///
    /// # Errors
    /// If it can't come any more.
    /// # Blocking
    /// In a task it holds up the worker: there await the receiver.
    pub fn recv_blocking(mut self) -> Result<T, RecvError> {
        match self.try_recv() {
            Ok(message) => Ok(message),
            Err(TryRecvError::Empty) => block_on(self),
            Err(TryRecvError::Closed) => Err(RecvError),
        }
    }

    /// Refuses a message from now on. One that was sent before can still be received.
    pub fn close(&mut self) {
        if self.shared.is_over() {
            return;
        }
        let (sender, _own) = self.shared.ends.with(|ends| {
            ends.receiver_gone = true;
            (ends.sender_waker.take(), ends.receiver_waker.take())
        });
        if let Some(sender) = sender {
            sender.wake();
        }
    }

    /// The message, if the sender has ended and has left one.
    #[inline]
    fn take(&mut self) -> Option<T> {
        if !self.shared.is_over() {
            return None;
        }
        // SAFETY: the sender has ended, so the place is the receiver's (b), which is lent to us alone.
        self.shared.message.with_mut(|place| unsafe { (*place).take() })
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        coop::poll_progress(cx, |cx| {
            let shared = &*self.shared;
            if !shared.is_over() {
                let is_over = |ends: &Ends| shared.is_over() || ends.receiver_gone;
                ready!(poll_wait(&shared.ends, cx, is_over, |ends| &mut ends.receiver_waker));
            }
            Poll::Ready(self.take().ok_or(RecvError))
        })
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.close();
        // Not left to the sender, who may be about to let go of it.
        drop(self.take());
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;
    use futures_lite::future::{block_on, poll_once};
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::thread;

    /// Counts its calls.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn message_arrives_before_and_after_the_wait() {
        let (sender, receiver) = channel();
        assert!(sender.send(1).is_ok());
        assert_eq!(block_on(receiver), Ok(1));

        let (sender, mut receiver) = channel();
        assert!(block_on(poll_once(&mut receiver)).is_none());
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        assert!(sender.send(2).is_ok());
        assert_eq!(block_on(poll_once(&mut receiver)), Some(Ok(2)));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
        assert_eq!(block_on(receiver), Err(RecvError), "there is one message only");
    }

    #[test]
    fn sender_that_goes_without_a_message_fails_the_receiver() {
        let (sender, receiver) = channel::<u8>();
        drop(sender);
        assert_eq!(receiver.recv_blocking(), Err(RecvError));
    }

    #[test]
    fn closed_receiver_refuses_but_keeps_what_came_before() {
        let (sender, mut receiver) = channel();
        assert!(!sender.is_closed());
        receiver.close();
        assert!(sender.is_closed());
        assert_eq!(sender.send(1), Err(SendError(1)));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));

        let (sender, mut receiver) = channel();
        assert!(sender.send(2).is_ok());
        receiver.close();
        assert_eq!(block_on(receiver), Ok(2));
    }

    #[test]
    fn sender_learns_that_nobody_waits_any_more() {
        let (mut sender, receiver) = channel::<u8>();
        assert!(block_on(poll_once(sender.closed())).is_none());
        drop(receiver);
        assert!(block_on(poll_once(sender.closed())).is_some());
    }

    #[test]
    fn a_dropped_wait_for_the_end_leaves_no_waker() {
        let (mut sender, receiver) = channel::<u8>();
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let mut cx = Context::from_waker(&waker);
        assert!(pin!(sender.closed()).poll(&mut cx).is_pending());
        assert_eq!(Arc::strong_count(&count), 2, "the channel keeps none");

        // One that was never polled has left none, and takes none away.
        assert!(sender.poll_closed(&mut cx).is_pending());
        drop(sender.closed());
        drop(receiver);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn message_is_dropped_once_whoever_goes_first() {
        let probe = Arc::new(());
        let (sender, receiver) = channel();
        assert!(sender.send(Arc::clone(&probe)).is_ok());
        assert_eq!(Arc::strong_count(&probe), 2);
        drop(receiver);
        assert_eq!(Arc::strong_count(&probe), 1);

        let (sender, receiver) = channel();
        drop(receiver);
        assert!(sender.send(Arc::clone(&probe)).is_err());
        assert_eq!(Arc::strong_count(&probe), 1);
    }

    #[test]
    fn threads_hand_messages_over() {
        for n in 0..500 {
            let (sender, receiver) = channel();
            let thread = thread::spawn(move || sender.send(n).is_ok());
            assert_eq!(receiver.recv_blocking(), Ok(n));
            assert!(thread.join().unwrap());
        }
    }
}
