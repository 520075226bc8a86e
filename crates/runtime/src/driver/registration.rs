//! One descriptor that is watched, as its owner holds it.

use std::fmt;
use std::future::Future;
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::source::{Closed, Side, Source, Tick, WaiterId};
use super::{Interest, Shared, stopped};
use crate::coop;

/// A watched descriptor. Dropping it ends the watch only as far as the driver is concerned: see
/// [`deregister`](Self::deregister).
pub(crate) struct Registration {
    shared: Arc<Shared>,
    source: Arc<Source>,
    key: usize,
}

impl Registration {
    pub(super) fn new(shared: Arc<Shared>, fd: BorrowedFd<'_>, interest: Interest) -> io::Result<Self> {
        {
            let mut state = shared.lock();
            shared.ensure_started(&mut state)?;
        }
        let source = Arc::new(Source::default());
        let key = shared.sources().add(Arc::clone(&source)).map_err(|Closed| stopped())?;
        let registration = Registration { shared, source, key };
        registration.shared.poller().add(fd, key, interest)?;
        Ok(registration)
    }

    /// Ends the watch of `fd`, which must be the one that was registered.
    ///
    /// # Errors
    ///
    /// It isn't.
    pub(crate) fn deregister(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.shared.poller().remove(fd)
    }

    /// Ready if an event came since the last [`clear_readiness`](Self::clear_readiness). Of those who poll one side in
    /// this way only the last is woken; [`ready`](Self::ready) has no such limit.
    pub(crate) fn poll_ready(&self, side: Side, cx: &mut Context<'_>) -> Poll<io::Result<Tick>> {
        coop::poll_progress(cx, |cx| answer(self.source.poll(side, WaiterId::SHARED, false, cx)))
    }

    /// Waits for readiness; any number of tasks may do so. `eager` also ends if nothing is known of the side, for those
    /// who try in any case.
    pub(crate) fn ready(&self, side: Side, eager: bool) -> Ready<'_> {
        Ready {
            source: &self.source,
            side,
            eager,
            waiter: None,
        }
    }

    /// Somebody who was told `tick` found that nothing can be done. Keeps a newer event.
    pub(crate) fn clear_readiness(&self, side: Side, tick: Tick) {
        self.source.clear(side, tick);
    }

    /// The current tick, to be taken before an attempt without a wait.
    pub(crate) fn tick(&self, side: Side) -> Tick {
        self.source.tick(side)
    }
}

/// The answer with the error that users see.
fn answer(poll: Poll<Result<Tick, Closed>>) -> Poll<io::Result<Tick>> {
    poll.map(|result| result.map_err(|Closed| stopped()))
}

impl Drop for Registration {
    fn drop(&mut self) {
        let removed = self.shared.sources().remove(self.key);
        drop(removed);
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// The future of [`Registration::ready`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub(crate) struct Ready<'a> {
    source: &'a Source,
    side: Side,
    eager: bool,
    /// The name under which it waits, once it has to.
    waiter: Option<WaiterId>,
}

impl Future for Ready<'_> {
    type Output = io::Result<Tick>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<Tick>> {
        let this = self.get_mut();
        coop::poll_progress(cx, |cx| {
            let waiter = *this.waiter.get_or_insert_with(|| this.source.new_waiter());
            answer(this.source.poll(this.side, waiter, this.eager, cx))
        })
    }
}

impl Drop for Ready<'_> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter {
            self.source.remove_waiter(self.side, waiter);
        }
    }
}
