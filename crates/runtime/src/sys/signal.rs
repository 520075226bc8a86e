//! Signals: counting their arrivals, beside whatever else in the process listens to them.
//!
//! Handlers are those of `signal-hook-registry`: one a signal for the whole process, which calls what was there before
//! it and then every action. Ours is to raise a counter and to write one byte into a pipe, whose reader a reactor
//! watches. Both may be done in a signal handler, on whichever thread the system picks.
//!
//! Such a thread may be a worker that runs a user-level thread, whose stack has no room to spare for a handler: the
//! kernel alone stores several KiB of registers. So the handler is told to run on the alternate stack, which every
//! worker has.
//!
//! That stack is std's, with 8 KiB where the registers need no more: room for two handlers at a time, not for four. And
//! all signals that are pending when a thread goes on, say of a process that was stopped for a while, are delivered in
//! one go: the kernel puts the frame of each handler on top of the one before, unless it is blocked there. So while one
//! of these handlers runs, every signal is blocked on its thread but [`UNBLOCKED`]; a signal to the process may go to
//! another thread meanwhile. Only a handler of one of those comes on top of it, as a rule when the process is about to
//! end.
//!
//! This holds for the handler that a signal has when somebody begins to listen to it, whoever has installed that, and
//! for what it calls:
//!
//! - A handler that was there before ours is called by ours. It has that stack and that mask, not its own: it can't
//!   wait for another signal, and one that leaves by `longjmp` should restore the mask (`siglongjmp`).
//! - A handler that others install by `sigaction` after ours has the stack and the mask which they gave it, until
//!   somebody begins to listen anew. If it calls ours, it should have `SA_ONSTACK` and a full mask.
//! - Signals that others alone listen to, by `signal-hook-registry` or else, are theirs.

use std::ffi::c_int;
use std::fmt;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::ptr;
use std::sync::Arc;

use signal_hook_registry::SigId;

use crate::primitives::{AtomicU64, Ordering, StaticMutex};

pub(crate) use libc::{SIGALRM, SIGCHLD, SIGHUP, SIGINT, SIGIO, SIGPIPE, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};

/// Signals that can't be listened to, and why.
const REFUSED: [(c_int, &str); 6] = [
    (libc::SIGKILL, "no process can catch it"),
    (libc::SIGSTOP, "no process can catch it"),
    (libc::SIGILL, "it reports a fault of the instruction that runs"),
    (libc::SIGFPE, "it reports a fault of the instruction that runs"),
    (libc::SIGSEGV, "it reports a fault of the instruction that runs"),
    (libc::SIGBUS, "it reports a fault of the instruction that runs"),
];

/// Signals that interrupt a handler: faults of the instruction that runs, and `abort`. Blocked when it is raised, a
/// fault ends the process without its handler, and so without a report.
const UNBLOCKED: [c_int; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
];

/// How often a signal has arrived, and the pipe that tells of it.
pub(crate) struct Arrivals {
    /// Raised before the write, so that whoever finds the pipe empty after it has become readable sees it.
    ///
    /// Label Arrivals: the increment pairs with the load of who counts.
    count: AtomicU64,
    writer: PipeWriter,
}

impl Arrivals {
    /// A counter at zero, and the pipe that becomes readable when it is raised. Both ends are in non-blocking mode.
    pub(crate) fn new() -> io::Result<(Arc<Self>, PipeReader)> {
        let (reader, writer) = io::pipe()?;
        super::fd::set_nonblocking(writer.as_fd())?;
        super::fd::set_nonblocking(reader.as_fd())?;
        let arrivals = Arrivals {
            count: AtomicU64::new(0),
            writer,
        };
        Ok((Arc::new(arrivals), reader))
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        // Ordering: Acquire (Arrivals); pairs with the increment in `note`.
        self.count.load(Ordering::Acquire)
    }

    /// One more. Async-signal-safe: a read-modify-write, and `write(2)` to a descriptor that does not block.
    fn note(&self) {
        // Ordering: Release (Arrivals); pairs with the load in `count`.
        self.count.fetch_add(1, Ordering::Release);
        // A pipe that is full is readable: somebody will find it empty later than now.
        let _ = (&self.writer).write(&[0]);
    }
}

impl fmt::Debug for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrivals").field("count", &self.count()).finish()
    }
}

/// While it lives, arrivals of a signal are counted.
#[derive(Debug)]
pub(crate) struct Listening(SigId);

/// Counts the arrivals of `signal` in `arrivals`. From the first call on, and for good, the signal has lost its default
/// effect on the process.
///
/// # Errors
///
/// The signal can't be caught, or doesn't exist.
pub(crate) fn listen(signal: c_int, arrivals: Arc<Arrivals>) -> io::Result<Listening> {
    if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == signal) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("signal {signal} can't be listened to: {why}"),
        ));
    }
    // SAFETY: the action may run in a signal handler.
    // - async-signal-safe, and it does not panic: `note`;
    // - it holds a count of what it uses, and the registry drops it outside of handlers, when none runs it.
    let id = unsafe { signal_hook_registry::register(signal, move || arrivals.note()) };
    let listening = Listening(id.map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("signal {signal} can't be listened to: {error}; expected a signal of this system"),
        )
    })?);
    use_alternate_stack_alone(signal)?;
    Ok(listening)
}

impl Drop for Listening {
    fn drop(&mut self) {
        signal_hook_registry::unregister(self.0);
    }
}

/// Sees to it that the handler of `signal` runs on the thread's alternate stack, and that no other comes on top of it.
fn use_alternate_stack_alone(signal: c_int) -> io::Result<()> {
    /// Of those who read an action and write it back. Handlers that others install meanwhile are not kept out; they
    /// have the same problem with signal-hook-registry.
    static TURN: StaticMutex<()> = StaticMutex::new(());
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut action = action_of(signal)?;
    let blocks_more = block_others(&mut action.sa_mask);
    if action.sa_flags & libc::SA_ONSTACK != 0 && !blocks_more {
        return Ok(());
    }
    action.sa_flags |= libc::SA_ONSTACK;
    // SAFETY: reads an action that the system has handed out, with the handler that it had; writes nothing.
    match unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Adds all signals to `mask` but [`UNBLOCKED`], which stay as they are; whether any was added.
fn block_others(mask: &mut libc::sigset_t) -> bool {
    let mut added = false;
    // The kernel takes these two out again.
    let stays_out = |signal| UNBLOCKED.contains(&signal) || signal == libc::SIGKILL || signal == libc::SIGSTOP;
    // More numbers than any system has. What is no signal, or the C library's own, is refused.
    for signal in (1..128).filter(|&signal| !stays_out(signal)) {
        // SAFETY: reads the set, which the reference keeps alive.
        if unsafe { libc::sigismember(mask, signal) } == 0 {
            // SAFETY: writes the set, which is the caller's to lend.
            added |= unsafe { libc::sigaddset(mask, signal) } == 0;
        }
    }
    added
}

/// What is done when `signal` arrives.
fn action_of(signal: c_int) -> io::Result<libc::sigaction> {
    // SAFETY: all zeros is a valid value: no handler, no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: writes one action, which is ours; changes nothing without a new one.
    match unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) } {
        0 => Ok(action),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends a signal to the calling thread; it has been handled on return.
#[cfg(test)]
pub(crate) fn raise(signal: c_int) {
    // SAFETY: no pointers; the tests raise only what they listen to.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn arrivals_are_counted_and_make_the_pipe_readable() {
        let (arrivals, mut reader) = Arrivals::new().unwrap();
        let _listening = listen(libc::SIGURG, Arc::clone(&arrivals)).unwrap();
        assert_eq!(arrivals.count(), 0);
        for round in 1..=3 {
            raise(libc::SIGURG);
            assert_eq!(arrivals.count(), round);
        }
        assert_eq!(reader.read(&mut [0; 9]).unwrap(), 3);
        assert_eq!(reader.read(&mut [0; 9]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_full_pipe_holds_up_nobody() {
        let (arrivals, _reader) = Arrivals::new().unwrap();
        for _ in 0..100_000 {
            arrivals.note();
        }
        assert_eq!(arrivals.count(), 100_000);
    }

    #[test]
    fn who_listens_no_more_holds_nothing() {
        let (arrivals, _reader) = Arrivals::new().unwrap();
        let listening = listen(libc::SIGCONT, Arc::clone(&arrivals)).unwrap();
        drop(listening);
        assert_eq!(Arc::strong_count(&arrivals), 1);
        raise(libc::SIGCONT);
        assert_eq!(arrivals.count(), 0);
    }

    #[test]
    fn handlers_run_on_the_alternate_stack() {
        let (arrivals, _reader) = Arrivals::new().unwrap();
        let _listening = listen(SIGWINCH, arrivals).unwrap();
        let flags = action_of(SIGWINCH).unwrap().sa_flags;
        assert_ne!(flags & libc::SA_ONSTACK, 0);
        assert_ne!(flags & libc::SA_RESTART, 0, "calls that wait go on");
    }

    #[test]
    fn a_handler_blocks_all_that_can_wait() {
        let (arrivals, _reader) = Arrivals::new().unwrap();
        let _listening = listen(libc::SIGTSTP, Arc::clone(&arrivals)).unwrap();
        let mut mask = action_of(libc::SIGTSTP).unwrap().sa_mask;
        // SAFETY: reads the set, which is ours.
        let is_blocked = |signal| unsafe { libc::sigismember(&raw const mask, signal) } == 1;
        for signal in [SIGALRM, SIGCHLD, SIGHUP, SIGTERM, SIGWINCH, libc::SIGPROF, libc::SIGURG] {
            assert!(is_blocked(signal), "{signal}");
        }
        for signal in UNBLOCKED {
            assert!(!is_blocked(signal), "{signal}");
        }
        assert!(!block_others(&mut mask), "it is full");
    }

    #[test]
    fn a_fault_that_a_handler_blocks_stays_blocked() {
        // SAFETY: all zeros is a valid value: an empty set.
        let mut mask: libc::sigset_t = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: writes the set, which is ours.
        unsafe { libc::sigaddset(&raw mut mask, libc::SIGBUS) };
        assert!(block_others(&mut mask));
        for (signal, expected) in [(libc::SIGBUS, 1), (libc::SIGSEGV, 0), (SIGTERM, 1)] {
            // SAFETY: reads the set, which is ours.
            assert_eq!(unsafe { libc::sigismember(&raw const mask, signal) }, expected);
        }
    }

    #[test]
    fn what_cannot_be_caught_is_refused_by_number() {
        for (signal, _) in REFUSED {
            let (arrivals, _reader) = Arrivals::new().unwrap();
            let error = listen(signal, arrivals).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(&signal.to_string()), "{error}");
        }
        for signal in [-1, 0, 1000] {
            let (arrivals, _reader) = Arrivals::new().unwrap();
            let error = listen(signal, arrivals).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains("expected a signal"), "{error}");
        }
    }
}
