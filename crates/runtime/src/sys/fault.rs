//! Faults of memory access: who is told of them, on which stack, and what may be said there. And how the process ends
//! for a fault of ours.
//!
//! SIGSEGV and SIGBUS go to one handler of ours in the process. It asks a function whether the fault is a stack
//! overflow of a user-level thread; any other fault goes on to the handler that was there before: std's, which reports
//! overflows of ordinary threads, or a crash reporter's. A handler that is installed after ours should do the same for
//! ours.
//!
//! A handler for overflows needs a stack of its own, which belongs to the OS thread. std gives one to each thread that
//! it starts, if it found no other handler at the start of the program. [`AlternateStack::ensure`] makes up for the
//! rest: threads that C started, and programs whose `main` is not Rust's.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

use super::memory::{Mapping, page_size};

/// The signals that a page without access raises: one on Linux, the other on some systems.
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Who is asked first, and what each signal did before, in the order of [`SIGNALS`].
struct Handlers {
    inspect: fn(usize),
    previous: [libc::sigaction; SIGNALS.len()],
}

static HANDLERS: OnceLock<Handlers> = OnceLock::new();

/// Has `inspect` called with the address of each fault of the process, from a signal handler: it may only do what is
/// async-signal-safe, and ends the process if the fault is its own. Only the first call does anything.
pub(crate) fn install(inspect: fn(usize)) {
    HANDLERS.get_or_init(|| {
        let previous = SIGNALS.map(|signal| {
            // `inspect` is known only when all of this is done. A fault in between is nobody's overflow: no user-level
            // thread has run yet.
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_fault;
            set_action(signal, handler as usize, libc::SA_SIGINFO | libc::SA_ONSTACK)
        });
        Handlers { inspect, previous }
    });
}

/// Sets what `signal` does and answers what it did.
fn set_action(signal: c_int, handler: usize, flags: c_int) -> libc::sigaction {
    // SAFETY: all zeros is a valid value: no handler, no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    let mut previous = action;
    // SAFETY: reads one and writes the other, both live and ours. The handler is `SIG_DFL` or `on_fault`, which has the
    // signature that `SA_SIGINFO` asks for.
    let result = unsafe { libc::sigaction(signal, &raw const action, &raw mut previous) };
    assert_eq!(result, 0, "sigaction refuses invalid signals only");
    previous
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands a valid `siginfo_t` to a handler that was installed with SA_SIGINFO; it is the
    // handler's.
    let details = unsafe { &*info };
    // What another process or `raise` sent has no address.
    let is_fault = details.si_code > 0;
    let Some(handlers) = HANDLERS.get() else {
        // Another thread is about to store them; the instruction will fault again.
        return;
    };
    if is_fault {
        // SAFETY: a signal that the kernel raised for a fault has an address.
        let address = unsafe { details.si_addr() };
        (handlers.inspect)(address.addr());
    }
    let index = usize::from(signal == SIGNALS[1]);
    pass_on(&handlers.previous[index], signal, info, context, is_fault);
}

/// Does what the signal did before.
fn pass_on(
    previous: &libc::sigaction,
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
    is_fault: bool,
) {
    let handler = previous.sa_sigaction;
    if handler == libc::SIG_IGN && !is_fault {
        return;
    }
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        // A fault that is ignored kills all the same. On return the instruction faults again, or the signal that was
        // only sent comes again, and the process dies as if we had never been here.
        set_action(signal, libc::SIG_DFL, 0);
        if !is_fault {
            // SAFETY: async-signal-safe; the signal is blocked until the handler returns.
            unsafe { libc::raise(signal) };
        }
        return;
    }
    let handler = ptr::with_exposed_provenance::<()>(handler);
    if previous.sa_flags & libc::SA_SIGINFO == 0 {
        // SAFETY: whoever installed it without SA_SIGINFO promised a function of this signature.
        let handler = unsafe { std::mem::transmute::<*const (), extern "C" fn(c_int)>(handler) };
        handler(signal);
    } else {
        type Detailed = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
        // SAFETY: whoever installed it with SA_SIGINFO promised a function of this signature.
        let handler = unsafe { std::mem::transmute::<*const (), Detailed>(handler) };
        handler(signal, info, context);
    }
}

/// Writes bytes to standard error; what can't be written is lost. Async-signal-safe.
///
/// The kernel does the reading: of memory that is gone it writes nothing, or what is there now.
pub(crate) fn write_stderr(start: *const u8, len: usize) {
    // SAFETY: `write` reads through the kernel, which answers EFAULT where there is no memory.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, start.cast(), len) };
}

/// Ends the process by SIGABRT. Async-signal-safe.
pub(crate) fn abort() -> ! {
    std::process::abort()
}

/// Says on standard error why, and ends the process: an invariant of ours is broken, so that to go on would be
/// undefined behaviour, or nobody could ever go on. Not for a signal handler.
#[cold]
pub(crate) fn abort_with(reason: fmt::Arguments<'_>) -> ! {
    let _ = writeln!(io::stderr(), "quadrille: {reason}");
    std::process::abort()
}

/// The stack on which this thread handles signals, as far as it is ours.
#[derive(Debug)]
pub(crate) struct AlternateStack {
    ours: Option<Mapping>,
}

impl AlternateStack {
    /// Bytes for signal handlers: several times what the kernel asks for where it saves the most registers (AVX-512,
    /// AMX: about 11 KiB), and only what is touched is memory.
    const SIZE: usize = 64 * 1024;

    /// Gives the calling thread a stack for signal handlers, if it has none.
    ///
    /// # Errors
    ///
    /// The system's, if there is no memory for it. Overflows then end the process without a report.
    pub(crate) fn ensure() -> io::Result<Self> {
        if Self::query().ss_flags & libc::SS_DISABLE == 0 {
            return Ok(Self { ours: None });
        }
        let guard = page_size();
        let mapping = Mapping::new(guard + Self::SIZE)?;
        mapping.guard_by_protection(0..guard)?;
        Self::set(mapping.start() + guard, 0)?;
        Ok(Self { ours: Some(mapping) })
    }

    fn query() -> libc::stack_t {
        let mut current = MaybeUninit::<libc::stack_t>::zeroed();
        // SAFETY: only writes to `current`, which is ours.
        unsafe { libc::sigaltstack(ptr::null(), current.as_mut_ptr()) };
        // SAFETY: zeros, which are a value of this type, if the call wrote nothing.
        unsafe { current.assume_init() }
    }

    fn set(start: usize, flags: c_int) -> io::Result<()> {
        let stack = libc::stack_t {
            ss_sp: ptr::with_exposed_provenance_mut(start),
            ss_flags: flags,
            ss_size: Self::SIZE,
        };
        // SAFETY: reads `stack`. What it names is a mapping of `SIZE` bytes that lives until `drop` has unset it, or,
        // with SS_DISABLE, not looked at.
        if unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) } == 0 {
            return Ok(());
        }
        Err(io::Error::last_os_error())
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        let Some(mapping) = self.ours.take() else { return };
        let is_set = Self::query().ss_sp.addr() == mapping.start() + page_size();
        // Somebody's own choice since then is left alone.
        if is_set && Self::set(0, libc::SS_DISABLE).is_err() {
            // In use right now: a handler that ends its thread. Nothing may unmap it.
            std::mem::forget(mapping);
        }
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_of_std_has_an_alternate_stack_already() {
        let theirs = AlternateStack::query();
        assert_eq!(theirs.ss_flags & libc::SS_DISABLE, 0);
        let stack = AlternateStack::ensure().unwrap();
        assert!(stack.ours.is_none());
        drop(stack);
        assert_eq!(AlternateStack::query().ss_sp, theirs.ss_sp);
    }

    #[test]
    fn a_thread_without_an_alternate_stack_gets_one_for_as_long_as_it_is_kept() {
        // std removes its own at the end of the thread, wherever it is set by then.
        let theirs = AlternateStack::query();
        AlternateStack::set(0, libc::SS_DISABLE).unwrap();
        let stack = AlternateStack::ensure().unwrap();
        let ours = AlternateStack::query();
        assert_eq!(ours.ss_sp.addr(), stack.ours.as_ref().unwrap().start() + page_size());
        assert_eq!(ours.ss_flags & libc::SS_DISABLE, 0);
        drop(stack);
        assert_ne!(AlternateStack::query().ss_flags & libc::SS_DISABLE, 0);
        // SAFETY: what std had set, which lives as long as this thread.
        assert_eq!(unsafe { libc::sigaltstack(&raw const theirs, ptr::null_mut()) }, 0);
    }
}
