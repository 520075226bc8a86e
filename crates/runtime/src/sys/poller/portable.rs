//! Elsewhere: kqueue, by way of the crate `polling`.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use polling::PollMode;

use super::{EVENTS_MAX, Event, Interest, NOTIFICATION};
use crate::sys::clock;

/// A set of descriptors to wait for.
#[derive(Debug)]
pub(crate) struct Poller(polling::Poller);

/// The events of one wait.
pub(crate) struct Events(polling::Events);

impl Poller {
    /// An empty set.
    ///
    /// # Errors
    ///
    /// No descriptor is left to the process, or the system has no edge-triggered events.
    pub(crate) fn new() -> io::Result<Self> {
        let poller = polling::Poller::new()?;
        if !poller.supports_edge() {
            return Err(unsupported("this system has no edge-triggered events"));
        }
        Ok(Self(poller))
    }

    /// Adds a descriptor; its events will carry `key`. If it is ready now, there is an event for that.
    ///
    /// Remove it before it is closed: if it has been duplicated, its events go on.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        let event = wanted(key, interest)?;
        // SAFETY: polling asks that a source be deleted before it is dropped, for the backends that go on using the
        // number. Those that support edge mode (epoll and kqueue; `new` accepts no other) hold no number: there the
        // kernel itself forgets a descriptor when it is closed. The number is open now, because `fd` borrows it.
        unsafe { self.0.add_with_mode(fd.as_raw_fd(), event, PollMode::Edge) }
    }

    /// Changes what it is to hear of a descriptor that was added with `key`. If it is ready now, there is an event for
    /// that, also for a side that was watched before.
    pub(crate) fn modify(&self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        self.0.modify_with_mode(fd, wanted(key, interest)?, PollMode::Edge)
    }

    /// Removes a descriptor.
    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.0.delete(fd)
    }

    /// Waits for an event, for [`notify`](Self::notify), or for `timeout` (`None`: as long as it takes). True if it
    /// ended before that, and not, as far as can be told, by an event: most likely by a notification.
    pub(crate) fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<bool> {
        events.0.clear();
        let end = timeout.map(clock::after);
        match self.0.wait(&mut events.0, timeout) {
            Ok(0) => Ok(end.is_none_or(|end| clock::now() < end)),
            Ok(_) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Ends the current wait, or the next one if there is none.
    pub(crate) fn notify(&self) -> io::Result<()> {
        self.0.notify()
    }

    /// Whether waits are rounded up to milliseconds: nowhere.
    #[cfg(test)]
    pub(crate) fn is_coarse(&self) -> bool {
        false
    }
}

fn wanted(key: u64, interest: Interest) -> io::Result<polling::Event> {
    debug_assert!(key != NOTIFICATION, "no source has that key");
    let key = usize::try_from(key).map_err(|_| unsupported("keys of this system have fewer than 64 bits"))?;
    Ok(polling::Event::new(key, interest.readable, interest.writable))
}

impl Events {
    /// Room for the events of one wait.
    pub(crate) fn new() -> Self {
        Self(polling::Events::with_capacity(
            NonZeroUsize::new(EVENTS_MAX).expect("it is not zero"),
        ))
    }

    /// Those of the last wait. Of each it is taken that the other end may be closed: not every system says.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        self.0.iter().map(|event| {
            let ends = event.is_interrupt() || event.is_err() == Some(true);
            Event {
                key: event.key as u64,
                readable: event.readable || ends,
                writable: event.writable || ends,
                ended: true,
            }
        })
    }
}

fn unsupported(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why)
}
