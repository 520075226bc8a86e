//! Sending with a deadline: the message comes back.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::sender::Send;
use super::{SendError, SendTimeoutError, Sender};
use crate::time::{Timeout, timeout};

impl<T> Sender<T> {
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
    /// use quadrille::time::Duration;
    ///
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// let (sender, receiver) = quadrille::sync::mpmc::bounded(1);
    /// sender.send_timeout("first", Duration::from_secs(1)).await.unwrap();
    /// let late = sender.send_timeout("second", Duration::from_millis(1)).await.unwrap_err();
    /// assert!(late.is_timeout());
    /// assert_eq!(late.into_inner(), "second");
    /// assert_eq!(receiver.recv().await, Ok("first"));
    /// # });
    /// ```
    #[track_caller]
    pub fn send_timeout(&self, message: T, limit: Duration) -> SendTimeout<'_, T> {
        SendTimeout {
            send: timeout(limit, self.send(message)),
        }
    }
}

pin_project! {
    /// The future of [`Sender::send_timeout`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct SendTimeout<'a, T> {
        #[pin]
        send: Timeout<Send<'a, T>>,
    }
}

impl<T> Future for SendTimeout<'_, T> {
    type Output = Result<(), SendTimeoutError<T>>;

    /// # Panics
    /// If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut send = self.project().send;
        Poll::Ready(match ready!(send.as_mut().poll(cx)) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(SendError(message))) => Err(SendTimeoutError::Closed(message)),
            // It was not sent, for then the poll would not have elapsed.
            Err(_) => send
                .future()
                .cancel()
                .map_or(Ok(()), |message| Err(SendTimeoutError::Timeout(message))),
        })
    }
}

impl<T> fmt::Debug for SendTimeout<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendTimeout").finish_non_exhaustive()
    }
}
