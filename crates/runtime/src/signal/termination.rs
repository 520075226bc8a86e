//! The signals that ask a process to end.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::unix::{Signal, SignalKind, signal};

/// Listens, from now on, to the signals by which a process is asked to end: `SIGINT`, which Ctrl-C sends, and
/// `SIGTERM`, which service managers and containers send. The module says [what that changes](super) for the process.
///
/// ```no_run
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use std::time::Duration;
///
/// use quadrille::net::{Server, TcpListener};
/// use quadrille::signal;
///
/// // First of all: a signal that comes before the first listener ends the process.
/// let termination = signal::termination()?;
/// let listener = TcpListener::bind("127.0.0.1:8080").await?;
/// let server = Server::new(listener)
///     .graceful_shutdown(termination)
///     .shutdown_timeout(Duration::from_secs(10));
/// server.serve(async |_, _| { /* … */ }).await?;
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
///
/// A server whose connections hear of it, too, and a second Ctrl-C that waits for none of them:
///
/// ```no_run
/// # use quadrille::{net::{Server, TcpListener}, signal, sync::CancellationToken};
/// # async fn serve(listener: TcpListener) -> Result<(), Box<dyn std::error::Error>> {
/// let (mut termination, stop) = (signal::termination()?, CancellationToken::new());
/// let server = Server::new(listener).graceful_shutdown(stop.clone());
/// let connections = stop.clone();
/// let mut server = quadrille::spawn(server.serve(move |_, _| {
///     let stop = connections.clone();
///     async move { stop.cancelled().await }
/// }));
/// for _ in 0..2 {
///     quadrille::select! {
///         () = &mut termination => stop.cancel(),
///         served = &mut server => return Ok(drop(served??)),
///     }
/// }
/// server.abort();
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The process has no descriptors left, or the runtime shuts down.
///
/// # Panics
///
/// Outside of a runtime (reported at the caller).
#[track_caller]
pub fn termination() -> io::Result<Termination> {
    Ok(Termination {
        interrupt: signal(SignalKind::interrupt())?,
        terminate: signal(SignalKind::terminate())?,
    })
}

/// Listens to the signals that ask a process to end; made by [`termination`].
///
/// It is a future that is ready when one has arrived, or when the runtime shuts down. Awaited again, by `&mut`, it
/// waits for the next one: a second Ctrl-C of who has no more patience.
#[derive(Debug)]
#[must_use = "a listener sees the signals that arrive while it lives"]
pub struct Termination {
    interrupt: Signal,
    terminate: Signal,
}

impl Termination {
    /// Waits until one has arrived since the last call, or since the listener was made, and tells which. `None` if the
    /// runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict: what has arrived is told by the next call.
    pub async fn recv(&mut self) -> Option<SignalKind> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// [`recv`](Self::recv) for implementations of `Future` and `Stream`: of those who poll, only the last is woken.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<SignalKind>> {
        let kinds = [
            (&mut self.interrupt, SignalKind::interrupt()),
            (&mut self.terminate, SignalKind::terminate()),
        ];
        for (signal, kind) in kinds {
            if let Poll::Ready(arrived) = signal.poll_recv(cx) {
                return Poll::Ready(arrived.map(|()| kind));
            }
        }
        Poll::Pending
    }
}

impl Future for Termination {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_recv(cx).map(drop)
    }
}
