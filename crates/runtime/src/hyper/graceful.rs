//! The end of a connection that answers first what has been asked.

use std::future::{Future, IntoFuture, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use crate::coop;

/// Drives `connection` to its end; once `signal` is ready, calls `shut_down` of it and drives it further.
///
/// `connection` is hyper's future of a connection, `shut_down` its `graceful_shutdown`, and `signal` whatever says
/// when, as a [`CancellationToken`](crate::sync::CancellationToken). The request that it is at is answered,
/// also one that has just arrived, as far as the runtime has heard of it from the system: the connection is polled once
/// more before it is told. What comes behind that is not, over HTTP/1; the client sees the connection closed.
///
/// ```
/// # use quadrille::sync::CancellationToken;
/// # use hyper::service::HttpService;
/// # async fn serve<S>(stream: quadrille::net::TcpStream, service: S, stop: CancellationToken) -> hyper::Result<()>
/// # where
/// #     S: HttpService<hyper::body::Incoming>,
/// #     S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
/// #     S::ResBody: 'static,
/// #     <S::ResBody as hyper::body::Body>::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
/// # {
/// use hyper::server::conn::http1;
/// use quadrille::hyper::{Timer, with_graceful_shutdown};
///
/// let connection = http1::Builder::new().timer(Timer).serve_connection(stream, service);
/// with_graceful_shutdown(connection, stop, |connection| connection.graceful_shutdown()).await
/// # }
/// ```
///
/// # Cancel safety
///
/// Not safe: the connection is dropped, and cut off in the middle of what it does.
pub async fn with_graceful_shutdown<C: Future>(
    connection: C,
    signal: impl IntoFuture,
    shut_down: impl FnOnce(Pin<&mut C>),
) -> C::Output {
    let (mut connection, mut signal) = (pin!(connection), pin!(signal.into_future()));
    let (mut shut_down, mut is_told) = (Some(shut_down), false);
    poll_fn(move |cx| {
        // Asked before the connection is polled, which may spend the budget of every poll, and heeded after that.
        is_told = is_told || signal.as_mut().poll(cx).is_ready();
        // Without a unit it can't read what has arrived.
        let can_read = coop::has_budget_remaining();
        if let Poll::Ready(output) = connection.as_mut().poll(cx) {
            return Poll::Ready(output);
        }
        if !is_told || shut_down.is_none() {
            return Poll::Pending;
        }
        if !can_read {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(shut_down) = shut_down.take() {
            shut_down(connection.as_mut());
        }
        connection.as_mut().poll(cx)
    })
    .await
}
