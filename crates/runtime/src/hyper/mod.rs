//! What hyper asks of a runtime: servers and clients over HTTP/1 and HTTP/2.
//!
//! | hyper asks for | give it |
//! |---|---|
//! | a connection ([`Read`](::hyper::rt::Read), [`Write`](::hyper::rt::Write)) | a [`TcpStream`](crate::net::TcpStream) or a [`UnixStream`](crate::net::UnixStream) as it is; [`Io`] around anything else, TLS for example |
//! | an executor ([`Executor`](::hyper::rt::Executor), HTTP/2 only) | [`Executor`], or a [`Handle`] |
//! | a timer ([`Timer`](::hyper::rt::Timer)) | [`Timer`] |
//!
//! The streams read into hyper's buffers without a copy and without zeroing them first, and write headers and body with
//! one system call. No runtime of tokio's is in the process: hyper uses channels of the crate `tokio` (its feature
//! `sync`; for HTTP/2 also traits and codecs, its feature `io-util`), which need none.
//!
//! Features of hyper itself (`http1`, `http2`, `client`, `server`) are the program's choice: this crate turns none on.
//!
//! A server and its client; [`net::Server`](crate::net::Server) lets clients in, and goes on where no descriptor is
//! left:
//!
//! ```
//! use std::convert::Infallible;
//!
//! use http_body_util::{BodyExt, Empty, Full};
//! use hyper::body::{Bytes, Incoming};
//! use hyper::service::service_fn;
//! use hyper::{Request, Response};
//! use quadrille::hyper::Timer;
//! use quadrille::net::{Server, TcpListener, TcpStream};
//!
//! async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
//!     Ok(Response::new(Full::from("hello")))
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! # quadrille::Runtime::new()?.block_on(async {
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let address = listener.local_addr()?;
//! listener.set_nodelay(true)?;
//! let mut http = hyper::server::conn::http1::Builder::new();
//! http.timer(Timer);
//! let server = Server::new(listener);
//! quadrille::spawn(server.serve(move |stream, _| http.serve_connection(stream, service_fn(hello))));
//!
//! let stream = TcpStream::connect(address).await?;
//! let (mut client, connection) = hyper::client::conn::http1::handshake(stream).await?;
//! quadrille::spawn(connection);
//! let request = Request::get("/").header("host", "localhost").body(Empty::<Bytes>::new())?;
//! let response = client.send_request(request).await?;
//! assert_eq!(response.into_body().collect().await?.to_bytes(), "hello");
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! # Timeouts
//!
//! An HTTP/1 connection with a [`Timer`] gives a client 30 seconds for the headers of a request, which is hyper's
//! default; one without waits for ever. An HTTP/2 connection, and hyper-util's `auto` before it knows the version,
//! waits for ever for the first bytes with a [`Timer`], too, and does not end by `graceful_shutdown` before they are
//! there. A `timeout(limit, stream.readable())` before it is served lets go of who sends nothing, and the builder's
//! `keep_alive_interval`, which wants a [`Timer`], of who is gone later. Other timeouts are a
//! [`timeout`](crate::time::timeout) around what they are for.
//!
//! The same 30 seconds are how long a connection that is kept, but asks for nothing, stays: it has a place of a
//! [`Server::max_connections`](crate::net::Server::max_connections) as long, and for ever where there is no [`Timer`].
//!
//! # Upgrades
//!
//! `hyper::upgrade::on` gives a connection to who wants to speak another protocol over it, WebSocket for example, if
//! the server calls `with_upgrades` of the connection; without it is an error. axum's own `serve` calls it.
//!
//! # A request that is never answered
//!
//! hyper's own client has a race (its [issue 4122](https://github.com/hyperium/hyper/issues/4122), open with hyper
//! 1.12): a request that is sent at the moment at which the connection ends may stay in the channel between the two,
//! and the future of `send_request` is pending until the client is dropped. It is so with every runtime; a
//! [`timeout`](crate::time::timeout) around the request ends the wait; what was sent stays in that channel until the
//! client is dropped.
//!
//! # Graceful shutdown
//!
//! A connection is a future: when it is dropped, it is cut off in the middle of what it does. To let it end, call its
//! `graceful_shutdown` and poll it further: it answers the request that it is at, and closes then.
//! [`with_graceful_shutdown`] does that when a [`CancellationToken`](crate::sync::CancellationToken), or whatever else
//! is a future, says so.
//!
//! A [`Server`](crate::net::Server) that is told by the same token lets nobody in any more, waits for all of them, and
//! lets nobody hold up the end: an HTTP service with a graceful shutdown.
//!
//! ```
//! # use hyper::service::HttpService;
//! # use std::time::Duration;
//! # use quadrille::{net::{Served, Server, TcpListener}, sync::CancellationToken};
//! # async fn serve<S>(listener: TcpListener, service: S, stop: CancellationToken) -> std::io::Result<Served>
//! # where
//! #     S: HttpService<hyper::body::Incoming> + Clone + Send + 'static,
//! #     S::Future: Send,
//! #     S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
//! #     S::ResBody: Send + 'static,
//! #     <S::ResBody as hyper::body::Body>::Data: Send,
//! #     <S::ResBody as hyper::body::Body>::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
//! # {
//! use hyper::server::conn::http1;
//! use quadrille::hyper::{Timer, with_graceful_shutdown};
//!
//! Server::new(listener)
//!     .graceful_shutdown(stop.clone())
//!     .shutdown_timeout(Duration::from_secs(10))
//!     .serve(|stream, _| {
//!         let connection = http1::Builder::new().timer(Timer).serve_connection(stream, service.clone());
//!         with_graceful_shutdown(connection, stop.clone(), |connection| connection.graceful_shutdown())
//!     })
//!     .await
//! # }
//! ```
//!
//! A client that has sent a part of its headers holds up the end until the limit. The example `json_service` is a whole
//! service; an axum `Router` is a service for hyper in a `hyper_util::service::TowerToHyperService`.
//!
//! # Cancel safety
//!
//! Of the impls of hyper's traits: strict. An operation that was dropped while it was pending has read or written
//! nothing.

mod graceful;
mod io;
mod stream;

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

pub use self::graceful::with_graceful_shutdown;
pub use self::io::Io;
use crate::runtime::{Handle, spawn};
use crate::time::{self, Sleep};

/// Runs hyper's futures as tasks of the runtime that is current when hyper has one; they are placed, woken and stolen
/// as all tasks are. A [`Handle`] is an executor, too, of its runtime.
///
/// HTTP/1 needs none. HTTP/2 gives it a task for each connection of a client, and for each request that a server is at.
///
/// # Panics
///
/// When hyper has a future for it, outside of a runtime.
#[derive(Clone, Copy, Debug, Default)]
pub struct Executor;

impl<F> ::hyper::rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        drop(spawn(future));
    }
}

impl<F> ::hyper::rt::Executor<F> for Handle
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        drop(self.spawn(future));
    }
}

/// Gives hyper the [`Sleep`] of this crate; see [`sleep`](time::sleep).
///
/// Moving a deadline, which hyper does for every request on a connection that is kept, allocates nothing.
///
/// # Panics
///
/// When hyper asks for a timer, outside of a runtime.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timer;

impl ::hyper::rt::Timer for Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn ::hyper::rt::Sleep>> {
        Box::pin(time::sleep(duration))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn ::hyper::rt::Sleep>> {
        Box::pin(time::sleep_until(deadline.into()))
    }

    fn now(&self) -> Instant {
        time::now().into()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn ::hyper::rt::Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(sleep) => sleep.get_mut().reset(deadline.into()),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

impl ::hyper::rt::Sleep for Sleep {}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll};

    use ::hyper::rt::Timer as _;
    use futures_lite::future::{block_on, poll_once};

    use super::*;
    use crate::runtime::tests::with_runtime;
    use crate::sys::clock;

    /// Late enough never to come within a test.
    const LONG: Duration = Duration::from_secs(1000);

    /// Somebody else's, always ready.
    struct Other;

    impl Future for Other {
        type Output = ();

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            Poll::Ready(())
        }
    }

    impl ::hyper::rt::Sleep for Other {}

    #[test]
    fn a_sleep_is_ready_at_its_deadline() {
        with_runtime(|| {
            let start = Timer.now();
            block_on(Timer.sleep(Duration::from_millis(2)));
            assert!(start.elapsed() >= Duration::from_millis(2));
            block_on(Timer.sleep_until(start));
            assert!(block_on(poll_once(Timer.sleep(LONG))).is_none());
        });
    }

    #[test]
    fn resetting_moves_the_same_sleep() {
        with_runtime(|| {
            let start = Timer.now();
            let mut sleep = Timer.sleep(LONG);
            let before: *const dyn ::hyper::rt::Sleep = &*sleep;
            assert!(block_on(poll_once(sleep.as_mut())).is_none());
            Timer.reset(&mut sleep, start);
            assert!(std::ptr::addr_eq(before, &raw const *sleep));
            block_on(sleep.as_mut());
            Timer.reset(&mut sleep, start + LONG);
            assert!(block_on(poll_once(sleep)).is_none());
        });
    }

    #[test]
    fn resetting_replaces_the_sleep_of_another_timer() {
        with_runtime(|| {
            let mut sleep: Pin<Box<dyn ::hyper::rt::Sleep>> = Box::pin(Other);
            Timer.reset(&mut sleep, clock::after(LONG));
            assert!(block_on(poll_once(sleep.as_mut())).is_none());
            assert!(sleep.is::<Sleep>());
        });
    }
}
