//! One operation on a thread that may block, as a future.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::blocking::{AtStop, Reason};
use crate::runtime::with_current;
use crate::sync::oneshot;
use crate::time::presence::AtWork;

/// An operation of the current runtime's pool. Dropped before a thread has taken it, it isn't begun.
#[derive(Debug)]
#[must_use = "its result"]
pub(crate) struct Job<T>(oneshot::Receiver<T>);

impl<T: Send + 'static> Job<T> {
    /// Hands `operation` to the pool.
    ///
    /// # Errors
    ///
    /// The runtime shuts down, or there is no thread and the system has none to give.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    pub(super) fn new(operation: impl FnOnce() -> T + Send + 'static) -> io::Result<Self> {
        Self::submit(AtStop::Drop, |sender| {
            move || {
                if !sender.is_closed() {
                    // Who waited may go meanwhile; the result is dropped then.
                    let _ = sender.send(operation());
                }
            }
        })
        .map_err(|(_, reason)| refusal(reason))
    }

    /// The same, but `operation` is carried out whoever goes or shuts down.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new); then it isn't.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    pub(crate) fn certain(operation: impl FnOnce() -> T + Send + 'static) -> io::Result<Self> {
        Self::submit(AtStop::Run, |sender| {
            move || {
                let _ = sender.send(operation());
            }
        })
        .map_err(|(_, reason)| refusal(reason))
    }

    /// Hands the closure that `job` makes to the pool. If the pool refuses it, the closure has been dropped when this returns, and the receiver has
    /// whatever its drop has sent.
    pub(super) fn submit<J>(
        at_stop: AtStop,
        job: impl FnOnce(oneshot::Sender<T>) -> J,
    ) -> Result<Self, (oneshot::Receiver<T>, Reason)>
    where
        J: FnOnce() + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let job = job(sender);
        let submitted = with_current(|shared| {
            let at_work = AtWork::begin(shared.clone());
            let job = move || {
                let _at_work = at_work;
                job();
            };
            shared.pool.submit_with(Box::new(job), at_stop)
        });
        match submitted {
            Ok(()) => Ok(Job(receiver)),
            Err(rejected) => {
                drop(rejected.job);
                Err((receiver, rejected.reason))
            }
        }
    }
}

impl<T> Future for Job<T> {
    /// The result, or that the runtime has shut down before the job began.
    type Output = io::Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        let received = ready!(Pin::new(&mut self.0).poll(cx));
        Poll::Ready(received.map_err(|_| stopped()))
    }
}

/// Runs an operation on the current runtime's pool.
pub(crate) async fn run<T: Send + 'static>(
    operation: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    Job::new(operation)?.await?
}

/// Tries until nothing interrupts.
pub(crate) fn retry(mut operation: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match operation() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// What users are told of a job that the pool has refused.
pub(super) fn refusal(reason: Reason) -> io::Error {
    match reason {
        Reason::NoThread(error) => error,
        Reason::Stopping => stopped(),
    }
}

pub(super) fn stopped() -> io::Error {
    io::Error::other("the runtime is shutting down")
}
