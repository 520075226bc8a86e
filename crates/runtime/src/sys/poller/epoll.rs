//! Linux: epoll, and an eventfd to end a wait.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::ptr;
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
        Ok(epoll::add(&self.set, fd, EventData::new_u64(key), flags_of(interest))?)
    }

    /// Changes what it is to hear of a descriptor that was added with `key`. If it is ready now, there is an event for
    /// that, also for a side that was watched before.
    pub(crate) fn modify(&self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(
            &self.set,
            fd,
            EventData::new_u64(key),
            flags_of(interest),
        )?)
    }

    /// Removes a descriptor.
    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::delete(&self.set, fd)?)
    }

    /// Waits for an event, for [`notify`](Self::notify), or for `timeout` (`None`: as long as it takes). True if it was
    /// notified, or ended before its time for no reason.
    pub(crate) fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<bool> {
        events.0.clear();
        let waited = match timeout {
            Some(timeout) if !timeout.is_zero() => self.wait_for(events, timeout),
            _ => Waited::of(epoll::wait(
                &self.set,
                spare_capacity(&mut events.0),
                timeout.map(timespec).as_ref(),
            )),
        };
        match waited {
            Waited::Whole => {}
            Waited::Short => return Ok(true),
            Waited::Failed(error) => return Err(error.into()),
        }
        let notified = events.0.iter().position(|event| event.data.u64() == NOTIFICATION);
        if let Some(position) = notified {
            events.0.swap_remove(position);
        }
        Ok(notified.is_some())
    }

    /// To the nanosecond where the kernel can, else to the millisecond, never for less.
    fn wait_for(&self, events: &mut Events, timeout: Duration) -> Waited {
        if !self.is_coarse() {
            match wait_exactly(&self.set, &mut events.0, timeout) {
                Err(Errno::NOSYS | Errno::PERM) => {
                    // Ordering: Relaxed; who sees it late asks the kernel once more.
                    self.is_coarse.store(true, Ordering::Relaxed);
                }
                waited => return Waited::of(waited),
            }
        }
        let rounded = round_up(timeout);
        let limit = rounded.min(COARSE_MAX);
        let waited = epoll::wait(&self.set, spare_capacity(&mut events.0), Some(&timespec(limit)));
        match Waited::of(waited) {
            // The time was over of a part of the wait.
            Waited::Whole if limit < rounded && events.0.is_empty() => Waited::Short,
            waited => waited,
        }
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

    /// Whether a wait was found to be rounded up to milliseconds.
    pub(crate) fn is_coarse(&self) -> bool {
        // Ordering: Relaxed; see `wait`.
        self.is_coarse.load(Ordering::Relaxed)
    }
}

fn flags_of(interest: Interest) -> EventFlags {
    let mut flags = EventFlags::ET | EventFlags::RDHUP;
    if interest.readable {
        flags |= EventFlags::IN | EventFlags::PRI;
    }
    if interest.writable {
        flags |= EventFlags::OUT;
    }
    flags
}

/// How a wait has ended.
enum Waited {
    /// With events, or when its time was over.
    Whole,
    /// Before its time, for no reason.
    Short,
    Failed(Errno),
}

impl Waited {
    fn of(waited: rustix::io::Result<usize>) -> Self {
        match waited {
            Ok(_) => Self::Whole,
            Err(Errno::INTR) => Self::Short,
            Err(error) => Self::Failed(error),
        }
    }
}

/// The longest wait that a kernel which counts milliseconds is asked for: an `int` of them.
const COARSE_MAX: Duration = Duration::from_millis(i32::MAX as u64);

/// To whole milliseconds.
fn round_up(timeout: Duration) -> Duration {
    let ms = timeout.as_nanos().div_ceil(1_000_000);
    Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX))
}

fn timespec(timeout: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    }
}

/// `epoll_pwait2` (Linux 5.11). rustix, without its feature `linux_5_11`, calls it only for waits of more than 24.8
/// days and rounds all others up to milliseconds; with that feature it has no way back to older kernels.
///
/// # Errors
///
/// Those of the system call: `ENOSYS`, or what a filter answers, where there is none.
fn wait_exactly(set: &OwnedFd, events: &mut Vec<epoll::Event>, timeout: Duration) -> rustix::io::Result<usize> {
    /// The kernel's, which has 64 bits on every machine.
    #[repr(C)]
    struct KernelTimespec {
        seconds: i64,
        nanoseconds: i64,
    }
    let timeout = KernelTimespec {
        seconds: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        nanoseconds: timeout.subsec_nanos().into(),
    };
    let room = events.spare_capacity_mut();
    let count = c_int::try_from(room.len()).unwrap_or(c_int::MAX);
    // SAFETY: the kernel reads `timeout`, and writes at most `count` events to `room`, which has place for so many;
    // rustix's type is laid out as its own. No mask of signals is given, whose length is of no use then.
    let found = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            set.as_raw_fd(),
            room.as_mut_ptr(),
            count,
            &raw const timeout,
            ptr::null::<libc::sigset_t>(),
            0_usize,
        )
    };
    let Ok(found) = usize::try_from(found) else {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL));
    };
    // SAFETY: `Poller::wait` has cleared the vector; the kernel has written the first `found` of its room, and no more
    // than `count`.
    unsafe { events.set_len(found) };
    Ok(found)
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
