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
        .map_err(|(_, error)| error)
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
        .map_err(|(_, error)| error)
    }

    /// Hands what `job` makes to the pool. If that takes no job, the other end says what came of it when it was dropped.
    fn submit<J>(
        at_stop: AtStop,
        job: impl FnOnce(oneshot::Sender<T>) -> J,
    ) -> Result<Self, (oneshot::Receiver<T>, io::Error)>
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
                let error = match rejected.reason {
                    Reason::NoThread(error) => error,
                    Reason::Stopping => stopped(),
                };
                Err((receiver, error))
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

/// An operation of the current runtime's pool that takes something along, which comes back whatever becomes of it: done, not begun, or panicked.
#[derive(Debug)]
#[must_use = "its result, and what it has taken along"]
pub(super) struct Errand<S, T>(Job<(S, Option<T>)>);

/// What is taken along, and the way back.
struct Luggage<S, T>(Option<(S, WayBack<S, T>)>);

type WayBack<S, T> = oneshot::Sender<(S, Option<T>)>;

impl<S: Send + 'static, T: Send + 'static> Errand<S, T> {
    /// Hands `operation` to the pool. With [`AtStop::Run`] it is carried out whoever goes or shuts down.
    ///
    /// # Errors
    ///
    /// As [`Job::new`]; gives `luggage` back.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    pub(super) fn new(
        at_stop: AtStop,
        luggage: S,
        operation: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> Result<Self, (S, io::Error)> {
        let is_certain = matches!(at_stop, AtStop::Run);
        let submitted = Job::submit(at_stop, |sender| {
            let mut luggage = Luggage(Some((luggage, sender)));
            move || {
                let (held, sender) = luggage.0.as_mut().expect("it is given back below");
                if is_certain || !sender.is_closed() {
                    let done = operation(held);
                    luggage.give_back(Some(done));
                }
            }
        });
        submitted.map(Errand).map_err(|(mut receiver, error)| {
            let (luggage, _) = receiver.try_recv().expect(COMES_BACK);
            (luggage, error)
        })
    }
}

impl<S, T> Luggage<S, T> {
    fn give_back(&mut self, done: Option<T>) {
        if let Some((luggage, sender)) = self.0.take() {
            // Who waited may have gone; all is dropped then.
            let _ = sender.send((luggage, done));
        }
    }
}

impl<S, T> Drop for Luggage<S, T> {
    fn drop(&mut self) {
        self.give_back(None);
    }
}

const COMES_BACK: &str = "a job that is dropped gives back what it has taken along";

impl<S, T> Future for Errand<S, T> {
    /// What was taken along, and the result, or that the runtime has shut down before the job began.
    type Output = (S, io::Result<T>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (luggage, done) = ready!(Pin::new(&mut self.0).poll(cx)).expect(COMES_BACK);
        Poll::Ready((luggage, done.ok_or_else(stopped)))
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

fn stopped() -> io::Error {
    io::Error::other("the runtime is shutting down")
}
