//! One descriptor that is watched, as its owner holds it.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::Arc;
#[cfg(all(feature = "io-uring", target_os = "linux", not(quadrille_loom)))]
use std::task::Waker;
use std::task::{Context, Poll};

use super::slab::Place;
use super::source::{Source, WaiterId};
use super::{Shard, Side, Tick, wake_each};
use crate::coop;
use crate::primitives::{AtomicBool, Ordering};
use crate::sys::poller::{Event, Interest};
use crate::thread;

thread_local! {
    /// As whom those wait who poll without a future of their own, if this is no user-level thread.
    static POLLER: Cell<WaiterId> = const { Cell::new(WaiterId::SHARED) };
}

/// As whom the caller waits, who has no future of his own: a user-level thread as itself, since nobody else is woken by
/// the waker with which it polls; by the place of what it has of its own, where no other is as long as it lives. All
/// tasks as one.
///
/// A thread that gives up leaves its waker to the next event, or to be replaced by who has its place next.
fn poller() -> WaiterId {
    match thread::place() {
        Some(place) => WaiterId::at(place),
        None => POLLER.get(),
    }
}

/// Calls `poll` of an ordinary thread, which blocks until what it polls is ready: where that has to wait, it does so as
/// itself, too.
pub(crate) fn poll_as_thread<T>(poll: impl FnOnce() -> T) -> T {
    /// Puts back who polled, also when `poll` panics.
    struct Restore(WaiterId);
    impl Drop for Restore {
        fn drop(&mut self) {
            POLLER.set(self.0);
        }
    }
    let place = POLLER.with(|poller| std::ptr::from_ref(poller).addr());
    let _restore = Restore(POLLER.replace(WaiterId::at(place)));
    poll()
}

/// What the kernel is to watch of a descriptor, and from when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interests {
    Read,
    Write,
    /// Both sides from the beginning: for one that is written first.
    Both,
    /// Reading from the beginning, and writing as well from when somebody has to wait for it. Until then nobody hears
    /// that there is room: a datagram that is taken at the other end makes room each time, and most writes find some.
    ReadFirst,
}

impl Interests {
    /// What to begin with.
    fn at_first(self) -> Interest {
        Interest {
            readable: self != Interests::Write,
            writable: matches!(self, Interests::Write | Interests::Both),
        }
    }
}

/// A watched descriptor. Dropping it ends the watch only as far as the runtime is concerned: see
/// [`deregister`](Self::deregister).
pub(crate) struct Registration {
    shard: Arc<Shard>,
    index: u32,
    /// That of `index`.
    source: Place,
    /// The kernel does not watch the writing side yet, and is to as soon as somebody waits for it.
    defers_write: AtomicBool,
}

impl Registration {
    /// Watches `fd`. Call [`deregister`](Self::deregister) before it is closed. Who calls this sees to it that somebody
    /// polls the shard.
    ///
    /// # Errors
    ///
    /// The system can't watch this kind of descriptor, or has no descriptor for the set, or the runtime was shut down.
    pub(crate) fn new(shard: &Arc<Shard>, fd: BorrowedFd<'_>, interests: Interests) -> io::Result<Self> {
        let index = shard.add(fd, interests.at_first())?;
        Ok(Self {
            shard: Arc::clone(shard),
            index,
            source: shard.place(index),
            defers_write: AtomicBool::new(interests == Interests::ReadFirst),
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

    #[inline]
    fn source(&self) -> &Source {
        &self.source
    }

    /// Ends the watch of `fd`, which must be the one that was registered.
    ///
    /// # Errors
    ///
    /// It isn't.
    pub(crate) fn deregister(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.shard.remove(fd)
    }

    /// Ready if an event came since the last [`clear_readiness`](Self::clear_readiness); `eager` and `fd` as in
    /// [`ready`](Self::ready). Of those who poll one side in this way only the last task is woken, and all threads;
    /// that one has no such limit.
    pub(crate) fn poll_ready(
        &self,
        fd: BorrowedFd<'_>,
        side: Side,
        eager: bool,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Tick>> {
        let mut waiter = Some(poller());
        coop::poll_progress(cx, |cx| self.poll_source(fd, side, &mut waiter, eager, cx))
    }

    /// What [`poll_ready`](Self::poll_ready) and [`ready`](Self::ready) answer to who is eager, in a few instructions,
    /// if that is a tick; else ask them.
    #[inline]
    pub(crate) fn ready_at_once(&self, side: Side) -> Option<Tick> {
        if !coop::has_budget_remaining() {
            return None;
        }
        let tick = self.source().tick_at_once(side)?;
        coop::spend();
        Some(tick)
    }

    /// As [`Source::poll`]; if there is a waiter afterwards, the kernel watches for it. If it can't, there is none.
    fn poll_source(
        &self,
        fd: BorrowedFd<'_>,
        side: Side,
        waiter: &mut Option<WaiterId>,
        eager: bool,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Tick>> {
        let poll = self.source().poll(side, waiter, eager, cx);
        if poll.is_pending()
            && side == Side::Write
            && let Err(error) = self.watch_write(fd)
        {
            if let Some(waiter) = waiter.take() {
                self.source().remove_waiter(side, waiter);
            }
            return Poll::Ready(Err(error));
        }
        poll.map_err(io::Error::from)
    }

    /// Sees to it that the kernel watches the writing side (L e). Who comes at the same time may do it as well.
    fn watch_write(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        // Ordering: Relaxed; who sees the store below late asks once more.
        if self.defers_write.load(Ordering::Relaxed) {
            self.shard.modify(fd, self.index, Interests::Both.at_first())?;
            // Ordering: Relaxed; after a system call that has succeeded, and nothing is read on the strength of it.
            self.defers_write.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Is it readable? If not, `waker` is called at the next event. For who is no task, and has no budget; of several
    /// only the last is called.
    ///
    /// # Errors
    ///
    /// The runtime was shut down.
    #[cfg(all(feature = "io-uring", target_os = "linux", not(quadrille_loom)))]
    pub(crate) fn enlist_reader(&self, waker: &Waker) -> io::Result<bool> {
        let mut waiter = Some(WaiterId::SHARED);
        let mut cx = Context::from_waker(waker);
        match self.source().poll(Side::Read, &mut waiter, false, &mut cx) {
            Poll::Ready(outcome) => outcome.map(|_| true).map_err(io::Error::from),
            Poll::Pending => Ok(false),
        }
    }

    /// Waits for readiness; any number of tasks may do so. `fd` is what was registered. `eager` also ends if nothing is
    /// known of the side, for those who try in any case.
    pub(crate) fn ready<'a>(&'a self, fd: BorrowedFd<'a>, side: Side, eager: bool) -> Ready<'a> {
        Ready {
            registration: self,
            fd,
            side,
            eager,
            waiter: None,
        }
    }

    /// Somebody who was told `tick` found that nothing can be done. Keeps a newer event.
    pub(crate) fn clear_readiness(&self, side: Side, tick: Tick) {
        self.source().clear(side, tick);
    }

    /// Somebody who was told `tick` has found out nothing of a side that is ready. Keeps a newer event. Who is `eager`
    /// tries in any case; who is not waits for the next event.
    pub(crate) fn forget_readiness(&self, side: Side, tick: Tick) {
        self.source().forget(side, tick);
    }

    /// Somebody who was told `tick` has read, or written, less of a stream than there was room for: that was all. Keeps
    /// a newer event, and the readiness of a stream whose other end is closed: the end came with the data, and is told
    /// but once.
    pub(crate) fn clear_exhausted(&self, side: Side, tick: Tick) {
        self.source().clear_exhausted(side, tick);
    }

    /// Whether any event of `side` was of an end, an error or urgent data: if none was, nothing has ended that an event
    /// has told of.
    pub(crate) fn has_ended(&self, side: Side) -> bool {
        self.source().has_ended(side)
    }

    /// The owner has ended the writing, of which the system may tell nobody: an event of our own (L e).
    pub(crate) fn tell_write_ended(&self) {
        let event = Event {
            key: self.shard.key_of(self.index),
            readable: false,
            writable: true,
            ended: true,
        };
        let mut wakers = Vec::new();
        // Of a source that is closed nothing is said: whoever waits for it knows.
        self.source().set_ready(self.source().generation(), &event, &mut wakers);
        wake_each(&mut wakers);
    }

    /// Whether its reactor was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.source().is_closed()
    }

    /// The current tick, to be taken before an attempt without a wait.
    pub(crate) fn tick(&self, side: Side) -> Tick {
        self.source().tick(side)
    }
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
    registration: &'a Registration,
    fd: BorrowedFd<'a>,
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
            let poll = this
                .registration
                .poll_source(this.fd, this.side, &mut this.waiter, this.eager, cx);
            if poll.is_ready() {
                // The event that made it ready has taken the waiter out, or will: it found the bit.
                this.waiter = None;
            }
            poll
        })
    }
}

impl Drop for Ready<'_> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter {
            self.registration.source().remove_waiter(self.side, waiter);
        }
    }
}
