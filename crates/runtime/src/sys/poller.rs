//! Waiting for readiness and for a deadline at the same time.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

pub(crate) use polling::Events;
use polling::{Event, PollMode};

/// Most events that one wait returns; more come with the next.
const EVENTS_MAX: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// What a registration wants to hear about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

/// A set of descriptors to wait for, in edge mode: an event tells that something has changed, once.
#[derive(Debug)]
pub(crate) struct Poller(polling::Poller);

impl Poller {
    /// An empty set.
    ///
    /// # Errors
    ///
    /// No descriptor is left to the process, or the system has no edge-triggered events.
    pub(crate) fn new() -> io::Result<Self> {
        let poller = polling::Poller::new()?;
        if !poller.supports_edge() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this system has no edge-triggered events",
            ));
        }
        Ok(Poller(poller))
    }

    /// Adds a descriptor; its events will carry `key`. If it is ready now, there is an event for that.
    ///
    /// Remove it before it is closed: if it has been duplicated, its events go on.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>, key: usize, interest: Interest) -> io::Result<()> {
        let event = Event::new(key, interest.readable, interest.writable);
        // SAFETY: polling asks that a source be deleted before it is dropped, for the backends that go on using the
        // number. Those that support edge mode (epoll and kqueue; `new` accepts no other) hold no number: there the
        // kernel itself forgets a descriptor when it is closed. The number is open now, because `fd` borrows it.
        unsafe { self.0.add_with_mode(fd.as_raw_fd(), event, PollMode::Edge) }
    }

    /// Removes a descriptor.
    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.0.delete(fd)
    }

    /// Room for the events of one wait.
    pub(crate) fn events() -> Events {
        Events::with_capacity(EVENTS_MAX)
    }

    /// Waits for an event, for [`notify`](Self::notify), or for `timeout` (`None`: as long as it takes).
    pub(crate) fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        events.clear();
        self.0.wait(events, timeout).map(drop)
    }

    /// Ends the current wait, or the next one if there is none.
    pub(crate) fn notify(&self) -> io::Result<()> {
        self.0.notify()
    }
}
