//! Linux: epoll, and an eventfd to end a wait.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

use super::{EVENTS_MAX, Event, Interest, NOTIFICATION};
use crate::primitives::{AtomicBool, Ordering};

/// A set of descriptors to wait for.
#[derive(Debug)]
pub(crate) struct Poller {
    set: OwnedFd,
    /// In the set like any other; its counter is never read, each write is an edge.
    notifier: OwnedFd,
    /// The kernel, or a filter of system calls, knows no waits shorter than a millisecond.
    is_coarse: AtomicBool,
}

/// The events of one wait.
pub(crate) struct Events(Vec<epoll::Event>);

impl Poller {
    /// An empty set.
    ///
    /// # Errors
    ///
    /// No descriptor is left to the process.
    pub(crate) fn new() -> io::Result<Self> {
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        let notifier = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&set, &notifier, EventData::new_u64(NOTIFICATION), flags)?;
        Ok(Self {
            set,
            notifier,
            is_coarse: AtomicBool::new(false),
        })
    }

    /// Adds a descriptor; its events will carry `key`. If it is ready now, there is an event for that.
    ///
    /// Remove it before it is closed: if it has been duplicated, its events go on.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        let mut flags = EventFlags::ET | EventFlags::RDHUP;
        if interest.readable {
            flags |= EventFlags::IN | EventFlags::PRI;
        }
        if interest.writable {
            flags |= EventFlags::OUT;
        }
        Ok(epoll::add(&self.set, fd, EventData::new_u64(key), flags)?)
    }

    /// Removes a descriptor.
    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::delete(&self.set, fd)?)
    }

    /// Waits for an event, for [`notify`](Self::notify), or for `timeout` (`None`: as long as it takes). True if it was
    /// notified, or ended before its time for no reason.
    pub(crate) fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<bool> {
        events.0.clear();
        let timeout = timeout.map(|timeout| self.timespec(timeout));
        match epoll::wait(&self.set, spare_capacity(&mut events.0), timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(true),
            Err(Errno::NOSYS | Errno::PERM) if timeout.is_some() && !self.is_coarse() => {
                // Ordering: Relaxed; who sees it late asks the kernel once more.
                self.is_coarse.store(true, Ordering::Relaxed);
                return Ok(true);
            }
            Err(error) => return Err(error.into()),
        }
        let notified = events.0.iter().position(|event| event.data.u64() == NOTIFICATION);
        if let Some(position) = notified {
            events.0.swap_remove(position);
        }
        Ok(notified.is_some())
    }

    /// Ends the current wait, or the next one if there is none.
    pub(crate) fn notify(&self) -> io::Result<()> {
        let one = 1_u64.to_ne_bytes();
        match rustix::io::write(&self.notifier, &one) {
            Err(Errno::AGAIN) => {
                // 2^64 - 2 of them; the counter starts again.
                let mut counter = [0; 8];
                let _ = rustix::io::read(&self.notifier, &mut counter);
                rustix::io::write(&self.notifier, &one)?;
            }
            written => _ = written?,
        }
        Ok(())
    }

    fn is_coarse(&self) -> bool {
        // Ordering: Relaxed; see `wait`.
        self.is_coarse.load(Ordering::Relaxed)
    }

    fn timespec(&self, timeout: Duration) -> Timespec {
        let timeout = if self.is_coarse() { round_up(timeout) } else { timeout };
        Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        }
    }
}

/// To whole milliseconds.
fn round_up(timeout: Duration) -> Duration {
    let ms = timeout.as_nanos().div_ceil(1_000_000);
    Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX))
}

impl Events {
    /// Room for the events of one wait.
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(EVENTS_MAX))
    }

    /// Those of the last wait.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        let gone = EventFlags::HUP | EventFlags::ERR;
        self.0.iter().map(move |event| {
            // Copied out: on x86-64 the struct is packed.
            let (flags, data) = (event.flags, event.data);
            let ends = flags.intersects(gone);
            Event {
                key: data.u64(),
                readable: ends || flags.intersects(EventFlags::IN | EventFlags::PRI | EventFlags::RDHUP),
                writable: ends || flags.contains(EventFlags::OUT),
                // A read stops before urgent data, whatever is behind it.
                ended: ends || flags.intersects(EventFlags::RDHUP | EventFlags::PRI),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coarse_wait_is_rounded_up() {
        for (us, ms) in [(0, 0), (1, 1), (1000, 1), (1001, 2)] {
            assert_eq!(round_up(Duration::from_micros(us)), Duration::from_millis(ms));
        }
    }
}
