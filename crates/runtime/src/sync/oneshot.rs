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
//! How the two sides share the message, and why no wake-up is lost: Theorem Oneshot, in `oneshot/link`.

pub mod error;
mod link;

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use self::link::{Link, Receives, Sends};
use super::block::block_on;
use crate::coop;

#[doc(inline)]
pub use self::error::{RecvError, SendError, TryRecvError};

/// Makes a channel for one message.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (sends, receives) = link::pair();
    (
        Sender { link: sends },
        Receiver {
            link: Some(receives),
            is_told: false,
        },
    )
}

/// The side that sends. Dropping it unused makes the receiver fail.
pub struct Sender<T> {
    link: Link<T, Sends>,
}

impl<T> Sender<T> {
    /// Sends the message. Never waits.
    ///
    /// # Errors
    /// Gives the message back if the receiver was closed or dropped. `Ok` doesn't say that the message will be looked
    /// at.
    #[inline]
    pub fn send(self, message: T) -> Result<(), SendError<T>> {
        self.link.send(message).map_err(SendError)
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
        coop::poll_progress(cx, |cx| self.link.poll_other_gone(cx))
    }

    /// Whether the receiver was closed or dropped, so that sending would fail.
    pub fn is_closed(&self) -> bool {
        self.link.is_other_gone()
    }
}

/// A sender in [`Sender::closed`], which leaves no waker behind.
struct WaitsForEnd<'a, T>(&'a mut Sender<T>);

impl<T> Drop for WaitsForEnd<'_, T> {
    fn drop(&mut self) {
        drop(self.0.link.take_back());
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
    /// `None` once how it came out was told, or this side was closed before the sender ended.
    link: Option<Link<T, Receives>>,
    /// How it came out was told.
    is_told: bool,
}

impl<T> Receiver<T> {
    /// Receives the message if it is there.
    ///
    /// # Errors
    /// If it isn't; the error tells whether it may come.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        if self.link.as_ref().is_some_and(|link| !link.is_other_gone()) {
            return Err(TryRecvError::Empty);
        }
        self.take().ok_or(TryRecvError::Closed)
    }

    /// Whether there is no message to receive now: none was sent yet, or it was received, or none will come.
    pub fn is_empty(&self) -> bool {
        !self.link.as_ref().is_some_and(Link::has_message)
    }

    /// Whether the message, or that none will come, was received: a further poll only fails. So a branch of a `select!`
    /// in a loop can be disabled.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// let (sender, mut receiver) = quadrille::sync::oneshot::channel();
    /// assert!(sender.send(42).is_ok() && !receiver.is_empty() && !receiver.is_terminated());
    /// assert_eq!((&mut receiver).await, Ok(42));
    /// assert!(receiver.is_empty() && receiver.is_terminated());
    /// # });
    /// ```
    pub fn is_terminated(&self) -> bool {
        self.is_told
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
        if let Some(link) = self.link.take() {
            self.link = link.end().err();
        }
    }

    /// The message, if there is one, of a sender that has ended; this side ends with that.
    #[inline]
    fn take(&mut self) -> Option<T> {
        self.is_told = true;
        self.link.take().and_then(Link::receive)
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, RecvError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        coop::poll_progress(cx, |cx| {
            if let Some(link) = &mut self.link {
                ready!(link.poll_other_gone(cx));
            }
            Poll::Ready(self.take().ok_or(RecvError))
        })
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
    use std::sync::Arc;
    use std::task::{Wake, Waker};
    use std::thread;

    use crate::sync::wake_all::tests::Wakes;

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
    fn what_was_told_is_not_waited_for_again() {
        let (sender, mut receiver) = channel();
        assert!(receiver.is_empty() && !receiver.is_terminated());
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        assert!(block_on(poll_once(&mut receiver)).is_none());
        assert!(receiver.is_empty() && !receiver.is_terminated(), "it may come");
        assert!(sender.send(1).is_ok());
        assert!(!receiver.is_empty() && !receiver.is_terminated());
        assert_eq!(receiver.try_recv(), Ok(1));
        assert!(receiver.is_empty() && receiver.is_terminated());

        let (sender, mut receiver) = channel::<u8>();
        drop(sender);
        assert!(receiver.is_empty() && !receiver.is_terminated(), "nobody was told");
        assert_eq!(block_on(&mut receiver), Err(RecvError));
        assert!(receiver.is_terminated());

        let (_sender, mut receiver) = channel::<u8>();
        receiver.close();
        assert!(receiver.is_empty() && !receiver.is_terminated());
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
        assert!(receiver.is_terminated());
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
        let count = Arc::new(Wakes::default());
        let waker = Waker::from(count.clone());
        let mut cx = Context::from_waker(&waker);
        assert!(pin!(sender.closed()).poll(&mut cx).is_pending());
        assert_eq!(Arc::strong_count(&count), 2, "the channel keeps none");

        // One that was never polled has left none, and takes none away.
        assert!(sender.poll_closed(&mut cx).is_pending());
        drop(sender.closed());
        drop(receiver);
        assert_eq!(count.count(), 1);
    }

    #[test]
    fn who_ends_leaves_no_waker_while_the_other_lives() {
        let count = Arc::new(Wakes::default());
        let waker = Waker::from(count.clone());
        let mut cx = Context::from_waker(&waker);
        let (sender, mut receiver) = channel::<u8>();
        assert!(Pin::new(&mut receiver).poll(&mut cx).is_pending());
        receiver.close();
        assert_eq!(Arc::strong_count(&count), 2, "closed");
        drop(sender);

        let (mut sender, _receiver) = channel::<u8>();
        assert!(sender.poll_closed(&mut cx).is_pending());
        drop(sender);
        assert_eq!(Arc::strong_count(&count), 2, "dropped");
        assert_eq!(count.count(), 0);
    }

    /// Panics whenever it is called.
    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker that panics");
        }
    }

    fn panics(f: impl FnOnce()) -> bool {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err()
    }

    #[test]
    fn a_waker_that_panics_comes_after_all_that_matters() {
        let waiters = Arc::new(Panics);
        let waker = Waker::from(waiters.clone());
        let mut cx = Context::from_waker(&waker);
        let probe = Arc::new(());

        let (sender, mut receiver) = channel();
        assert!(Pin::new(&mut receiver).poll(&mut cx).is_pending());
        assert!(panics(|| drop(sender.send(probe.clone()))));
        assert!(block_on(receiver).is_ok(), "the message has come");

        let (mut sender, mut receiver) = channel();
        assert!(sender.poll_closed(&mut cx).is_pending());
        assert!(panics(|| receiver.close()));
        assert!(sender.send(probe.clone()).is_err(), "the receiver is closed");
        assert_eq!(block_on(receiver), Err(RecvError));

        let (sender, mut receiver) = channel::<Arc<()>>();
        assert!(Pin::new(&mut receiver).poll(&mut cx).is_pending());
        assert!(panics(|| drop(sender)));
        assert_eq!(block_on(receiver), Err(RecvError));
        assert_eq!((Arc::strong_count(&probe), Arc::strong_count(&waiters)), (1, 2));
    }

    /// A message whose end panics.
    struct Bad(#[expect(dead_code, reason = "it is counted from outside")] Arc<()>);

    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("a message that panics");
        }
    }

    #[test]
    fn a_message_whose_end_panics_is_dropped_once() {
        let probe = Arc::new(());
        let (sender, receiver) = channel();
        assert!(sender.send(Bad(probe.clone())).is_ok());
        assert!(panics(|| drop(receiver)));
        assert_eq!(Arc::strong_count(&probe), 1);

        let (sender, receiver) = channel();
        drop(receiver);
        assert!(panics(|| drop(sender.send(Bad(probe.clone())))));
        assert_eq!(Arc::strong_count(&probe), 1);
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
