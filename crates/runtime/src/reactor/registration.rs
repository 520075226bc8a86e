//! One descriptor that is watched, as its owner holds it.

use std::fmt;
use std::future::Future;
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::Arc;
#[cfg(all(feature = "io-uring", target_os = "linux", not(quadrille_loom)))]
use std::task::Waker;
use std::task::{Context, Poll};

use super::source::{Closed, Source, WaiterId};
use super::{Interest, Shard, Side, Tick};
use crate::coop;

/// A watched descriptor. Dropping it ends the watch only as far as the runtime is concerned: see
/// [`deregister`](Self::deregister).
pub(crate) struct Registration {
    shard: Arc<Shard>,
    index: u32,
}

impl Registration {
    /// Watches `fd`. Call [`deregister`](Self::deregister) before it is closed. Who calls this sees to it that somebody polls the shard.
    ///
    /// # Errors
    ///
    /// The system can't watch this kind of descriptor, or has no descriptor for the set, or the runtime was shut down.
    pub(crate) fn new(shard: &Arc<Shard>, fd: BorrowedFd<'_>, interest: Interest) -> io::Result<Self> {
        let index = shard.add(fd, interest)?;
        Ok(Self {
            shard: Arc::clone(shard),
            index,
        })
    }

    /// What its events carry, for models.
    #[cfg(quadrille_loom)]
    pub(crate) fn key(&self) -> u64 {
        self.shard.key_of(self.index)
    }

    /// Its place, for tests.
    #[cfg(all(test, not(quadrille_loom)))]
    pub(super) fn index(&self) -> u32 {
        self.index
    }

    fn source(&self) -> &Source {
        self.shard.source(self.index)
    }

    /// Ends the watch of `fd`, which must be the one that was registered.
    ///
    /// # Errors
    ///
    /// It isn't.
    pub(crate) fn deregister(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.shard.remove(fd)
    }

    /// Ready if an event came since the last [`clear_readiness`](Self::clear_readiness); `eager` as in [`ready`](Self::ready). Of those who poll
    /// one side in this way only the last is woken; that one has no such limit.
    pub(crate) fn poll_ready(&self, side: Side, eager: bool, cx: &mut Context<'_>) -> Poll<io::Result<Tick>> {
        let mut waiter = Some(WaiterId::SHARED);
        coop::poll_progress(cx, |cx| answer(self.source().poll(side, &mut waiter, eager, cx)))
    }

    /// Is it ready? If not, `waker` is called at the next event. For who is no task, and has no budget; of several only the last is called.
    ///
    /// # Errors
    ///
    /// The runtime was shut down.
    #[cfg(all(feature = "io-uring", target_os = "linux", not(quadrille_loom)))]
    pub(crate) fn enlist(&self, side: Side, waker: &Waker) -> io::Result<bool> {
        let mut waiter = Some(WaiterId::SHARED);
        match self
            .source()
            .poll(side, &mut waiter, false, &mut Context::from_waker(waker))
        {
            Poll::Ready(outcome) => outcome.map(|_| true).map_err(io::Error::from),
            Poll::Pending => Ok(false),
        }
    }

    /// Waits for readiness; any number of tasks may do so. `eager` also ends if nothing is known of the side, for those
    /// who try in any case.
    pub(crate) fn ready(&self, side: Side, eager: bool) -> Ready<'_> {
        Ready {
            source: self.source(),
            side,
            eager,
            waiter: None,
        }
    }

    /// Somebody who was told `tick` found that nothing can be done. Keeps a newer event.
    pub(crate) fn clear_readiness(&self, side: Side, tick: Tick) {
        self.source().clear(side, tick);
    }

    /// Somebody who was told `tick` has found out nothing of a side that is ready. Keeps a newer event. Who is `eager` tries in any case; who is not
    /// waits for the next event.
    pub(crate) fn forget_readiness(&self, side: Side, tick: Tick) {
        self.source().forget(side, tick);
    }

    /// Somebody who was told `tick` has read, or written, less of a stream than there was room for: that was all. Keeps a newer event, and
    /// the readiness of a stream whose other end is closed: the end came with the data, and is told but once.
    pub(crate) fn clear_exhausted(&self, side: Side, tick: Tick) {
        self.source().clear_exhausted(side, tick);
    }

    /// Whether any event of `side` was of an end, an error or urgent data: if none was, nothing has ended that an event has told of.
    pub(crate) fn has_ended(&self, side: Side) -> bool {
        self.source().has_ended(side)
    }

    /// The current tick, to be taken before an attempt without a wait.
    pub(crate) fn tick(&self, side: Side) -> Tick {
        self.source().tick(side)
    }
}

/// The answer with the error that users see.
fn answer(poll: Poll<Result<Tick, Closed>>) -> Poll<io::Result<Tick>> {
    poll.map_err(io::Error::from)
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.shard.forget(self.index);
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("index", &self.index)
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
    /// The name under which it waits, if it does.
    waiter: Option<WaiterId>,
}

impl Future for Ready<'_> {
    type Output = io::Result<Tick>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<Tick>> {
        let this = self.get_mut();
        coop::poll_progress(cx, |cx| {
            let poll = this.source.poll(this.side, &mut this.waiter, this.eager, cx);
            if poll.is_ready() {
                // The event that made it ready has taken the waiter out, or will: it found the bit.
                this.waiter = None;
            }
            answer(poll)
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
