//! The futures: each has one of `mpmc` in it, and gives its output in the types of this module.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::error::{SendError, SendTimeoutError};
use super::{OwnedPermit, Permit, mpmc};

/// A future `$name` around an `$inner`, whose output is what `$poll` makes of that.
macro_rules! future_around {
    ($(#[$doc:meta])* $name:ident<$($lifetime:lifetime,)? T>, $inner:ty => $output:ty, $poll:expr) => {
        pin_project! {
            $(#[$doc])*
            #[must_use = "futures do nothing unless awaited"]
            pub struct $name<$($lifetime,)? T> {
                #[pin]
                inner: $inner,
            }
        }

        impl<$($lifetime,)? T> $name<$($lifetime,)? T> {
            #[inline]
            pub(super) fn new(inner: $inner) -> Self {
                Self { inner }
            }
        }

        impl<$($lifetime,)? T> Future for $name<$($lifetime,)? T> {
            type Output = $output;

            #[inline]
            fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
                $poll(self.project().inner, cx)
            }
        }

        impl<$($lifetime,)? T> fmt::Debug for $name<$($lifetime,)? T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    };
}

future_around! {
    /// The future of [`Sender::send`](super::Sender::send). It panics if it is polled after it was ready or cancelled.
    Sending<'a, T>, mpmc::Send<'a, T> => Result<(), SendError<T>>,
    |inner: Pin<&mut mpmc::Send<'a, T>>, cx| inner.poll(cx).map_err(SendError::of)
}

impl<T> Sending<'_, T> {
    /// Gives up and takes the message back; `None` if it was sent.
    ///
    /// ```
    /// use std::pin::pin;
    /// use futures_lite::future::{block_on, poll_once};
    /// # block_on(async {
    /// let (sender, _receiver) = quadrille::sync::mpsc::channel(1);
    /// sender.send(1).await.unwrap();
    /// let mut send = pin!(sender.send(2));
    /// assert!(poll_once(send.as_mut()).await.is_none());
    /// assert_eq!(send.cancel(), Some(2));
    /// # });
    /// ```
    pub fn cancel(self: Pin<&mut Self>) -> Option<T> {
        self.project().inner.cancel()
    }
}

future_around! {
    /// The future of [`Sender::send_timeout`](super::Sender::send_timeout). It panics if it is polled after it was
    /// ready.
    SendTimeout<'a, T>, mpmc::SendTimeout<'a, T> => Result<(), SendTimeoutError<T>>,
    |inner: Pin<&mut mpmc::SendTimeout<'a, T>>, cx| inner.poll(cx).map_err(SendTimeoutError::of)
}

future_around! {
    /// The future of [`Sender::reserve`](super::Sender::reserve).
    Reserve<'a, T>, mpmc::Reserve<'a, T> => Result<Permit<'a, T>, SendError<()>>,
    |inner: Pin<&mut mpmc::Reserve<'a, T>>, cx| inner.poll(cx).map_ok(Permit::new).map_err(SendError::of)
}

future_around! {
    /// The future of [`Sender::reserve_owned`](super::Sender::reserve_owned). It panics if it is polled after it was
    /// ready.
    ReserveOwned<T>, mpmc::ReserveOwned<T> => Result<OwnedPermit<T>, SendError<()>>,
    |inner: Pin<&mut mpmc::ReserveOwned<T>>, cx| inner.poll(cx).map_ok(OwnedPermit::new).map_err(SendError::of)
}

future_around! {
    /// The future of [`Receiver::recv`](super::Receiver::recv) and of
    /// [`UnboundedReceiver::recv`](super::UnboundedReceiver::recv).
    Recv<'a, T>, mpmc::Recv<'a, T> => Option<T>,
    |inner: Pin<&mut mpmc::Recv<'a, T>>, cx| inner.poll(cx).map(Result::ok)
}

future_around! {
    /// The future of [`Receiver::recv_many`](super::Receiver::recv_many) and of
    /// [`UnboundedReceiver::recv_many`](super::UnboundedReceiver::recv_many).
    RecvMany<'a, T>, mpmc::RecvMany<'a, T> => usize,
    |inner: Pin<&mut mpmc::RecvMany<'a, T>>, cx| inner.poll_all(cx)
}
