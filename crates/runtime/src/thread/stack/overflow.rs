//! What happens when a thread runs into its guard: a report with its name and the size of its stack, as std does for
//! its threads, and the end of the process.
//!
//! The worker says before each resume on which stack it is about to be ([`enter`]). A fault whose address is in the
//! guard of that stack is an overflow of it; every other fault is nobody's business here ([`fault`]). The stack of a
//! worker itself, of a thread on which user code blocks, and of any other thread is std's to report.
//!
//! The handler runs in the middle of anything, so it does nothing but follow a thread-local pointer to plain numbers
//! that stay where they are, write to standard error, and abort. It never follows the pointer to the name: it hands it
//! to the kernel, which answers with an error if there is nothing.
//!
//! What is not caught: code without stack probes that steps over the whole guard with one frame of more than 8 KiB (see
//! `class`), and a system call that is given a buffer in the guard, which fails with `EFAULT` instead.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;

use super::Stack;
use crate::sys::fault::{self, AlternateStack};

/// A user-level thread's stack, and as much of the thread as a report needs to know.
pub(crate) struct Occupant {
    stack: Stack,
    /// Address and length of the name; null: it has none.
    name: *const u8,
    name_len: usize,
}

impl Occupant {
    /// The thread of this name, which begins on this stack and on this OS thread, and stays there. The name is only
    /// shown, and nothing happens if it is gone.
    #[inline]
    pub(crate) fn new(stack: Stack, name: Option<&str>) -> Self {
        if !IS_READY.get() {
            prepare();
        }
        let (name, name_len) = name.map_or((ptr::null(), 0), |name| (name.as_ptr(), name.len()));
        Self { stack, name, name_len }
    }

    pub(crate) fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The stack, at its end.
    pub(crate) fn into_stack(self) -> Stack {
        self.stack
    }
}

thread_local! {
    /// Written by this thread around resumes, read by the handler on this thread. Neither is lazy nor has a destructor,
    /// so that the handler may look at any time.
    static CURRENT: Cell<*const Occupant> = const { Cell::new(ptr::null()) };
    /// Whether this thread was prepared for handling faults.
    static IS_READY: Cell<bool> = const { Cell::new(false) };
    /// The stack for handlers, if this thread had none. Kept until the thread ends.
    static ALTERNATE: Cell<Option<AlternateStack>> = const { Cell::new(None) };
}

/// Says that the calling OS thread, which is on its own stack, is about to switch to that of `occupant`. When the
/// answer is dropped, it is back. Who is on a thread's stack says first that it leaves that ([`leave`]).
///
/// # Safety
/// `occupant` stays where it is until the answer is dropped, which it is, on this OS thread.
#[inline]
#[must_use = "dropped at once, it says nothing"]
pub(crate) unsafe fn enter(occupant: &Occupant) -> Entered {
    debug_assert!(CURRENT.get().is_null(), "it is on its own stack");
    // The switch that follows is opaque to the compiler, and the handler is known to the system: so the cell is written
    // before the switch.
    CURRENT.set(occupant);
    Entered(PhantomData)
}

/// See [`enter`]. It is of this OS thread: a pointer is not `Send`.
#[derive(Debug)]
#[must_use = "dropped at once, it says nothing"]
pub(crate) struct Entered(PhantomData<*const Occupant>);

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        CURRENT.set(ptr::null());
    }
}

/// Says that the calling OS thread is on no thread's stack, as far as [`enter`] is concerned, until the answer is
/// dropped.
#[must_use = "dropped at once, it says nothing"]
pub(crate) fn leave() -> Left {
    Left(CURRENT.replace(ptr::null()))
}

/// See [`leave`].
#[derive(Debug)]
#[must_use = "dropped at once, it says nothing"]
pub(crate) struct Left(*const Occupant);

impl Drop for Left {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Once an OS thread: the process has the handler, and this thread a stack to run it on.
#[cold]
fn prepare() {
    fault::install(inspect);
    // Without memory for it an overflow still ends the process, by the signal and without a report. A thread that is
    // ending (its thread-locals are gone) does without.
    if let Ok(stack) = AlternateStack::ensure() {
        let _ = ALTERNATE.try_with(|alternate| alternate.set(Some(stack)));
    }
    IS_READY.set(true);
}

/// Looks at the address of a fault, in a signal handler. Doesn't return if it is an overflow.
fn inspect(address: usize) {
    let current = CURRENT.get();
    // SAFETY: null, or an occupant that stays where it is until the cell says another, by the contract of `enter`. It
    // does not change.
    if let Some(current) = unsafe { current.as_ref() }
        && current.stack.bounds().guards(address)
    {
        report(current);
        fault::abort();
    }
}

fn report(current: &Occupant) {
    let say = |text: &str| fault::write_stderr(text.as_ptr(), text.len());
    say("\nthread '");
    if current.name.is_null() {
        say("<unnamed>");
    } else {
        fault::write_stderr(current.name, current.name_len);
    }
    say("' has overflowed its stack (");
    let mut digits = [0; DIGITS];
    say(decimal(current.stack.bounds().size(), &mut digits));
    say(" bytes)\nfatal runtime error: stack overflow, aborting\n");
}

/// Decimal digits of the largest `usize`.
const DIGITS: usize = 20;

/// `number` in decimal, without allocating.
fn decimal(mut number: usize, digits: &mut [u8; DIGITS]) -> &str {
    let mut start = DIGITS;
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10).to_le_bytes()[0];
        number /= 10;
        if number == 0 {
            break;
        }
    }
    std::str::from_utf8(&digits[start..]).unwrap_or("?")
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::super::Stacks;
    use super::*;

    #[test]
    fn numbers_in_decimal() {
        for number in [0, 7, 10, 262_144, usize::MAX] {
            assert_eq!(decimal(number, &mut [0; DIGITS]), number.to_string());
        }
    }

    #[test]
    fn entering_nests() {
        let stacks = Stacks::new(1);
        let [outer, inner] =
            [Some("outer"), None].map(|name| Occupant::new(stacks.reserve(0, 0).unwrap().take(0), name));
        {
            // SAFETY: the guard goes before the occupant.
            let _outer = unsafe { enter(&outer) };
            {
                let _left = leave();
                // SAFETY: as above.
                let _inner = unsafe { enter(&inner) };
                assert!(ptr::eq(CURRENT.get(), &raw const inner) && inner.name.is_null());
            }
            assert!(ptr::eq(CURRENT.get(), &raw const outer));
            assert_eq!(outer.name_len, 5);
        }
        assert!(CURRENT.get().is_null());
    }
}
