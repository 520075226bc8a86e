//! The end of a connection that answers first what has been asked.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};

/// Drives `connection` to its end; once `signal` is ready, calls `shut_down` of it and drives it further.
///
/// `connection` is hyper's future of a connection, `shut_down` its `graceful_shutdown`, and `signal` whatever says
/// when, as [`cancelled`](crate::sync::CancellationToken::cancelled) of a token. A request of whose arrival the task
/// has been woken by then is answered, also the first: the connection is polled once more before it is told. One that
/// comes later is not; over HTTP/1 its client sees the connection closed.
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
/// with_graceful_shutdown(connection, stop.cancelled(), |connection| connection.graceful_shutdown()).await
/// # }
/// ```
///
/// # Cancel safety
///
/// None: the connection is dropped, and cut off in the middle of what it does.
pub async fn with_graceful_shutdown<C: Future>(
    connection: C,
    signal: impl Future,
    shut_down: impl FnOnce(Pin<&mut C>),
) -> C::Output {
    let (mut connection, mut signal) = (pin!(connection), pin!(signal));
    let mut shut_down = Some(shut_down);
    poll_fn(move |cx| {
        // Asked before the connection is polled, which may spend the budget of every poll, and heeded after that.
        let is_told = shut_down.is_some() && signal.as_mut().poll(cx).is_ready();
        let outcome = connection.as_mut().poll(cx);
        if outcome.is_pending()
            && is_told
            && let Some(shut_down) = shut_down.take()
        {
            shut_down(connection.as_mut());
            return connection.as_mut().poll(cx);
        }
        outcome
    })
    .await
}
