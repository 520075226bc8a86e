//! Signals of Unix, by kind.

use std::ffi::c_int;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use super::hub::Hub;
use crate::runtime::Handle;
use crate::sys::signal;

/// A kind of signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SignalKind(c_int);

impl SignalKind {
    /// The signal with this number of the operating system, for those without a name here, such as real-time signals.
    #[must_use]
    pub const fn from_raw(number: c_int) -> Self {
        SignalKind(number)
    }

    /// Its number.
    #[must_use]
    pub const fn as_raw_value(self) -> c_int {
        self.0
    }

    /// `SIGALRM`: a timer of the process has expired. By default it ends the process.
    #[must_use]
    pub const fn alarm() -> Self {
        SignalKind(signal::SIGALRM)
    }

    /// `SIGCHLD`: a child process has ended, stopped or gone on. By default it is ignored.
    #[must_use]
    pub const fn child() -> Self {
        SignalKind(signal::SIGCHLD)
    }

    /// `SIGHUP`: the terminal is gone; services read their settings again. By default it ends the process.
    #[must_use]
    pub const fn hangup() -> Self {
        SignalKind(signal::SIGHUP)
    }

    /// `SIGINT`: somebody pressed Ctrl-C. By default it ends the process.
    #[must_use]
    pub const fn interrupt() -> Self {
        SignalKind(signal::SIGINT)
    }

    /// `SIGIO`: a descriptor that was told to signal is ready. By default it ends the process.
    #[must_use]
    pub const fn io() -> Self {
        SignalKind(signal::SIGIO)
    }

    /// `SIGPIPE`: a write to a pipe that nobody reads. Programs of Rust ignore it.
    #[must_use]
    pub const fn pipe() -> Self {
        SignalKind(signal::SIGPIPE)
    }

    /// `SIGQUIT`: somebody pressed Ctrl-\\. By default it ends the process and leaves a core.
    #[must_use]
    pub const fn quit() -> Self {
        SignalKind(signal::SIGQUIT)
    }

    /// `SIGTERM`: the process is asked to end. By default it does.
    #[must_use]
    pub const fn terminate() -> Self {
        SignalKind(signal::SIGTERM)
    }

    /// `SIGUSR1`, which means what the program says. By default it ends the process.
    #[must_use]
    pub const fn user_defined1() -> Self {
        SignalKind(signal::SIGUSR1)
    }

    /// `SIGUSR2`, which means what the program says. By default it ends the process.
    #[must_use]
    pub const fn user_defined2() -> Self {
        SignalKind(signal::SIGUSR2)
    }

    /// `SIGWINCH`: the terminal has another size. By default it is ignored.
    #[must_use]
    pub const fn window_change() -> Self {
        SignalKind(signal::SIGWINCH)
    }
}

impl From<c_int> for SignalKind {
    fn from(number: c_int) -> Self {
        SignalKind(number)
    }
}

impl From<SignalKind> for c_int {
    fn from(kind: SignalKind) -> Self {
        kind.0
    }
}

/// Listens to signals of one kind; made by [`signal`]. Also a [`Stream`], which ends when the runtime shuts down.
///
/// Any number of listeners may live at a time, in one runtime or several: each sees every arrival.
#[must_use = "a listener sees the signals that arrive while it lives"]
pub struct Signal {
    hub: Arc<Hub>,
    /// The count of arrivals that this listener has told of.
    seen: u64,
    /// What [`Signal::poll_recv`] waits for, if it does.
    change: Option<Change>,
}

/// The future of [`Hub::changed`], which keeps its hub.
type Change = Pin<Box<dyn Future<Output = io::Result<u64>> + Send + Sync>>;

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal")
            .field("hub", &self.hub)
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}

/// Listens to signals of a kind from now on. The module says [what that changes](super) for the process.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use quadrille::signal::unix::{SignalKind, signal};
///
/// let mut hangup = signal(SignalKind::hangup())?;
/// let reload = quadrille::spawn(async move {
///     while hangup.recv().await.is_some() {
///         println!("reading the settings again");
///     }
/// });
/// # reload.abort();
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
///
/// # Errors
///
/// [`InvalidInput`](io::ErrorKind::InvalidInput) for what can't be listened to: `SIGKILL`, `SIGSTOP`, the faults
/// `SIGILL`, `SIGFPE`, `SIGSEGV` and `SIGBUS`, and numbers that are no signals. Else the process has no descriptors
/// left, or the runtime shuts down.
///
/// # Panics
///
/// Outside of a runtime (reported at the caller).
#[track_caller]
pub fn signal(kind: SignalKind) -> io::Result<Signal> {
    let runtime = Handle::current();
    let hub = runtime.shared.signals.get(kind.0)?;
    let seen = hub.count();
    Ok(Signal {
        hub,
        seen,
        change: None,
    })
}

impl Stream for Signal {
    type Item = ();

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<()>> {
        self.get_mut().poll_recv(cx)
    }
}

impl Signal {
    /// Waits until the signal has arrived since the last call, or since the listener was made; once for any number of
    /// arrivals. `None` if the runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict: what has arrived is told by the next call.
    pub async fn recv(&mut self) -> Option<()> {
        self.seen = self.hub.changed(self.seen).await.ok()?;
        Some(())
    }

    /// [`recv`](Self::recv) for implementations of `Future` and `Stream`: of those who poll, only the last is woken.
    /// While it waits it has an allocation of its own.
    ///
    /// ```
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// use std::future::poll_fn;
    /// use std::task::Poll;
    /// use quadrille::signal::unix::{SignalKind, signal};
    ///
    /// let mut hangup = signal(SignalKind::hangup())?;
    /// let first = poll_fn(|cx| Poll::Ready(hangup.poll_recv(cx))).await;
    /// assert_eq!(first, Poll::Pending, "nothing has arrived");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        loop {
            let (hub, seen) = (&self.hub, self.seen);
            let change = self.change.get_or_insert_with(|| {
                let hub = Arc::clone(hub);
                Box::pin(async move { hub.changed(seen).await })
            });
            let changed = ready!(change.as_mut().poll(cx));
            self.change = None;
            match changed {
                // `recv` has told of it meanwhile.
                Ok(count) if count == self.seen => {}
                Ok(count) => {
                    self.seen = count;
                    return Poll::Ready(Some(()));
                }
                Err(_) => return Poll::Ready(None),
            }
        }
    }
}
