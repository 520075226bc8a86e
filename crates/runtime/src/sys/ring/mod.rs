//! io_uring: two queues that are shared with the kernel, one of requests and one of their results.
//!
//! A ring is held as two halves, each of which has one owner at a time: [`Submissions`] puts entries in and calls the
//! kernel, [`Completions`] takes results out. That is what the crate `io-uring` asks of those who share a ring between
//! threads.

mod request;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use io_uring::squeue::PushError;
use io_uring::{IoUring, Probe, opcode};
use rustix::io::Errno;

pub(crate) use self::request::{Accept, Entry, Fsync, ReadAt, Recv, Request, Send, WriteAt};

/// Most entries that one call of the kernel takes; more are taken by more calls.
pub(crate) const SUBMISSIONS: u32 = 256;

/// Room for results that nobody has taken. Beyond it the kernel keeps them, until it is called to hand them over.
pub(crate) const COMPLETIONS: u32 = 4096;

/// What the result of a cancellation carries, beside what it is to cancel carries, which hasn't this bit.
pub(crate) const CANCELLATION: u64 = 1 << 63;

/// The result of a request that was cancelled, as the kernel gives it.
pub(crate) const CANCELLED: i32 = -libc::ECANCELED;

/// The result of a request with which the kernel could not go on, because the thread had ended that has handed it over,
/// and its memory was out of reach; or that names memory which is not there.
pub(crate) const FAULT: i32 = -libc::EFAULT;

/// The result of a cancellation that has found nothing to cancel.
pub(crate) const NOT_FOUND: i32 = -libc::ENOENT;

/// The result of a request that a signal has ended before it did anything.
pub(crate) const INTERRUPTED: i32 = -libc::EINTR;

/// The half of a ring that requests go into.
pub(crate) struct Submissions(Arc<IoUring>);

/// The half of a ring that results come out of.
pub(crate) struct Completions(Arc<IoUring>);

/// A result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    /// What the entry was pushed with.
    pub(crate) data: u64,
    /// What the system call would have returned; below zero: the number of an error.
    pub(crate) result: i32,
}

/// What became of a call.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entered {
    /// The kernel has taken every entry.
    All,
    /// The kernel takes no more before results are taken out, or has no memory at the moment.
    Busy,
}

/// A ring.
///
/// # Errors
///
/// The kernel has no io_uring, or somebody has forbidden it, or it allows no memory or no descriptor for it.
pub(crate) fn new() -> io::Result<(Submissions, Completions)> {
    let ring = IoUring::builder()
        .setup_clamp()
        .setup_cqsize(COMPLETIONS)
        .build(SUBMISSIONS)
        .map_err(|error| named("io_uring_setup", &error))?;
    let ring = Arc::new(ring);
    Ok((Submissions(Arc::clone(&ring)), Completions(ring)))
}

/// Whether the kernel does all that is asked of a ring here, found out with a new one: which operations it knows, that
/// it loses no results, and that the second system call is allowed, too, which a filter may forbid on its own.
///
/// # Errors
///
/// It does not; the message says what is missing.
pub(crate) fn probe(submissions: &mut Submissions, completions: &mut Completions) -> io::Result<()> {
    let ring = &submissions.0;
    let mut known = Probe::new();
    ring.submitter()
        .register_probe(&mut known)
        .map_err(|error| named("io_uring_register", &error))?;
    let needed = [
        ("accept", opcode::Accept::CODE),
        ("recv", opcode::Recv::CODE),
        ("send", opcode::Send::CODE),
        ("read", opcode::Read::CODE),
        ("write", opcode::Write::CODE),
        ("fsync", opcode::Fsync::CODE),
        ("cancel", opcode::AsyncCancel::CODE),
    ];
    if let Some((name, _)) = needed.iter().find(|(_, code)| !known.is_supported(*code)) {
        return Err(unsupported(format!("the kernel's io_uring has no operation {name}")));
    }
    if !ring.params().is_feature_nodrop() || !ring.params().is_feature_fast_poll() {
        return Err(unsupported(
            "the kernel's io_uring loses results or waits on threads, expected Linux 5.7 or later".to_owned(),
        ));
    }
    // SAFETY: an entry that does nothing names no memory. Its result is there when the call returns.
    let pushed = unsafe { submissions.push(&Entry::nothing(), 0) };
    assert!(pushed, "there is room in a new ring");
    let _entered = submissions
        .enter()
        .map_err(|error| named("io_uring_enter", &error.into()))?;
    let mut results = 0;
    completions.take(|completion| results += i32::from(completion.result == 0));
    if results == 1 {
        Ok(())
    } else {
        Err(unsupported("io_uring does not carry out what it is given".to_owned()))
    }
}

impl Submissions {
    /// Puts in an entry whose result will carry `data`; false if there is no room.
    ///
    /// # Safety
    ///
    /// What the entry names (memory, a descriptor) stays valid until its result was taken out, and nobody else touches
    /// the memory that the kernel writes, or writes the memory that it reads.
    pub(crate) unsafe fn push(&mut self, entry: &Entry, data: u64) -> bool {
        let entry = entry.as_raw().clone().user_data(data);
        // SAFETY: `&mut self`, and there is one of these a ring: nobody else has its queue.
        let mut queue = unsafe { self.0.submission_shared() };
        // SAFETY: passed on.
        let pushed: Result<(), PushError> = unsafe { queue.push(&entry) };
        pushed.is_ok()
    }

    /// Puts in a request to cancel that with `data`; false if there is no room.
    pub(crate) fn push_cancellation(&mut self, data: u64) -> bool {
        let entry = Entry::new(opcode::AsyncCancel::new(data).build());
        // SAFETY: it names no memory.
        unsafe { self.push(&entry, data | CANCELLATION) }
    }

    /// Hands over what was put in.
    ///
    /// # Errors
    ///
    /// The kernel refuses the call itself.
    pub(crate) fn enter(&mut self) -> Result<Entered, Errno> {
        loop {
            match self.0.submit().map_err(|error| errno(&error)) {
                // A failed entry ends a call before the next one is looked at.
                Ok(_) if !self.is_empty() => {}
                Ok(_) => return Ok(Entered::All),
                Err(Errno::INTR) => {}
                Err(error) if passes(error) => return Ok(Entered::Busy),
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the kernel has taken everything.
    pub(crate) fn is_empty(&mut self) -> bool {
        // SAFETY: as in `push`.
        unsafe { self.0.submission_shared() }.is_empty()
    }

    /// Whether the kernel keeps results for which there was no room: the next call hands them over.
    pub(crate) fn has_kept_results(&mut self) -> bool {
        // SAFETY: as in `push`.
        unsafe { self.0.submission_shared() }.cq_overflow()
    }
}

impl AsFd for Submissions {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring owns its descriptor, and lives as long as `self`.
        unsafe { BorrowedFd::borrow_raw(self.0.as_raw_fd()) }
    }
}

impl Completions {
    /// Takes all results out, those included that come meanwhile.
    pub(crate) fn take(&mut self, mut f: impl FnMut(Completion)) {
        // SAFETY: `&mut self`, and there is one of these a ring: nobody else has its queue.
        let mut queue = unsafe { self.0.completion_shared() };
        loop {
            for entry in &mut queue {
                f(Completion {
                    data: entry.user_data(),
                    result: entry.result(),
                });
            }
            queue.sync();
            if queue.is_empty() {
                return;
            }
        }
    }
}

impl std::fmt::Debug for Submissions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Submissions").field(&self.0.as_raw_fd()).finish()
    }
}

impl std::fmt::Debug for Completions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Completions").field(&self.0.as_raw_fd()).finish()
    }
}

/// An error with the name of the call that gave it.
fn named(call: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{call}: {error}"))
}

fn unsupported(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why)
}

/// Whether a later call may find what this one did not: room for results, or memory, which the kernel also needs for
/// each thread that calls the ring for the first time.
fn passes(error: Errno) -> bool {
    matches!(error, Errno::AGAIN | Errno::BUSY | Errno::NOMEM)
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring, unless the kernel refuses one.
    fn ring() -> Option<(Submissions, Completions)> {
        let refused = |error: &io::Error| {
            matches!(
                error.kind(),
                io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied
            )
        };
        match new() {
            Ok(ring) => Some(ring),
            Err(error) if refused(&error) => {
                crate::skipped::skipped(&error.to_string());
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Puts in `count` entries that do nothing, numbered, and hands all of them over.
    fn submit(submissions: &mut Submissions, count: u64) {
        for data in 0..count {
            // SAFETY: it names no memory.
            while !unsafe { submissions.push(&Entry::nothing(), data) } {
                assert_eq!(submissions.enter().unwrap(), Entered::All);
            }
        }
        assert_eq!(submissions.enter().unwrap(), Entered::All);
        assert!(submissions.is_empty());
    }

    /// A lack of memory is no more the end of the process than a lack of room is; a ring that is none is.
    #[test]
    fn what_passes_is_asked_for_again() {
        for error in [Errno::AGAIN, Errno::BUSY, Errno::NOMEM] {
            assert!(passes(error), "{error}");
        }
        for error in [Errno::BADF, Errno::INVAL, Errno::FAULT, Errno::NXIO] {
            assert!(!passes(error), "{error}");
        }
    }

    /// More than there is room for is put in and taken out in turns, and every result has its number.
    #[test]
    fn each_entry_has_a_result_of_its_own() {
        let Some((mut submissions, mut completions)) = ring() else {
            return;
        };
        probe(&mut submissions, &mut completions).unwrap();
        let count = 3 * SUBMISSIONS;
        submit(&mut submissions, u64::from(count));
        let mut seen = vec![0; count as usize];
        completions.take(|completion| seen[usize::try_from(completion.data).unwrap()] += 1);
        assert!(seen.iter().all(|seen| *seen == 1), "{seen:?}");
        assert!(!submissions.has_kept_results());
    }

    /// Results for which there is no room are kept, and come when there is.
    #[test]
    fn no_result_is_lost_for_lack_of_room() {
        let Some((mut submissions, mut completions)) = ring() else {
            return;
        };
        let count = u64::from(COMPLETIONS + 2 * SUBMISSIONS);
        submit(&mut submissions, count);
        assert!(submissions.has_kept_results());
        let mut sum = 0;
        completions.take(|completion| sum += completion.data);
        while submissions.has_kept_results() {
            assert_eq!(submissions.enter().unwrap(), Entered::All);
            completions.take(|completion| sum += completion.data);
        }
        assert_eq!(sum, count * (count - 1) / 2);
    }
}
