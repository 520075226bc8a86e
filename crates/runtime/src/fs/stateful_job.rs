//! A job that borrows a state by value: it comes back whatever becomes of the job.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::job::Job;
use crate::blocking::{AtStop, Reason};
use crate::reactor::stopped;
use crate::sync::oneshot;

/// An operation of the current runtime's pool on a state that it takes along. Done, not begun, or panicked, it gives
/// the state back.
#[derive(Debug)]
#[must_use = "its result, and the state"]
pub(super) struct StatefulJob<S, T>(Job<Reply<S, T>>);

/// The state, and the result if there is one.
type Reply<S, T> = (S, Option<T>);

/// Sends the state back, at the latest when it is dropped.
struct ReturnGuard<S, T>(Option<(S, oneshot::Sender<Reply<S, T>>)>);

const COMES_BACK: &str = "a job that is dropped gives its state back";

impl<S: Send + 'static, T: Send + 'static> StatefulJob<S, T> {
    /// Hands `operation` to the pool. With [`AtStop::Run`] it is carried out whoever goes or shuts down.
    ///
    /// # Errors
    ///
    /// Why the pool refuses it; gives `state` back.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    pub(super) fn new(
        at_stop: AtStop,
        state: S,
        operation: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> Result<Self, (S, Reason)> {
        let is_certain = matches!(at_stop, AtStop::Run);
        let submitted = Job::submit(at_stop, |sender| {
            let mut guard = ReturnGuard(Some((state, sender)));
            move || {
                let (state, sender) = guard.0.as_mut().expect("it is given back below");
                if is_certain || !sender.is_closed() {
                    let done = operation(state);
                    guard.give_back(Some(done));
                }
            }
        });
        submitted.map(StatefulJob).map_err(|(mut receiver, reason)| {
            let (state, _) = receiver.try_recv().expect(COMES_BACK);
            (state, reason)
        })
    }
}

impl<S, T> ReturnGuard<S, T> {
    fn give_back(&mut self, done: Option<T>) {
        if let Some((state, sender)) = self.0.take() {
            // Who waited may have gone; all is dropped then.
            let _ = sender.send((state, done));
        }
    }
}

impl<S, T> Drop for ReturnGuard<S, T> {
    fn drop(&mut self) {
        self.give_back(None);
    }
}

impl<S, T> Future for StatefulJob<S, T> {
    /// The state, and the result, or that there is none: the runtime has shut down before the job began, or the
    /// operation has panicked.
    type Output = (S, io::Result<T>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (state, done) = ready!(Pin::new(&mut self.0).poll(cx)).expect(COMES_BACK);
        Poll::Ready((state, done.ok_or_else(stopped)))
    }
}
