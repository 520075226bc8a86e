//! What happens when a thread runs into its guard: a report with its name and the size of its stack, as std does for its
//! threads, and the end of the process.
//!
//! The worker says before each resume on which stack it is about to be ([`enter`]). A fault whose address is in the guard of
//! that stack is an overflow of it; every other fault is nobody's business here ([`fault`]). The stack of a worker itself, of a
//! thread on which user code blocks, and of any other thread is std's to report.
//!
//! The handler runs in the middle of anything, so it does nothing but look into a thread-local of plain numbers, write to
//! standard error, and abort. It never follows the pointer to the name: it hands it to the kernel, which answers with an
//! error if there is nothing. Thus nothing unsound comes of an [`Entered`] that is leaked.
//!
//! What is not caught: code without stack probes that steps over the whole guard with one frame of more than 8 KiB (see
//! `class`), and a system call that is given a buffer in the guard, which fails with `EFAULT` instead.

use std::cell::Cell;
use std::marker::PhantomData;

use super::class::StackBounds;
use crate::sys::fault::{self, AlternateStack};

/// The user-level thread that an OS thread is running.
#[derive(Clone, Copy)]
struct Current {
    bounds: StackBounds,
    /// Address and length of the name; null: it has none.
    name: *const u8,
    name_len: usize,
}

impl Current {
    const NONE: Self = Self {
        bounds: StackBounds::NONE,
        name: std::ptr::null(),
        name_len: 0,
    };
}

thread_local! {
    /// Written by this thread around resumes, read by the handler on this thread. Neither is lazy nor has a destructor, so
    /// that the handler may look at any time.
    static CURRENT: Cell<Current> = const { Cell::new(Current::NONE) };
    /// Whether this thread was prepared for handling faults.
    static IS_READY: Cell<bool> = const { Cell::new(false) };
    /// The stack for handlers, if this thread had none. Kept until the thread ends.
    static ALTERNATE: Cell<Option<AlternateStack>> = const { Cell::new(None) };
}

/// Says that the calling OS thread is about to switch to `stack`, on which runs a thread of the given name. When the answer
/// is dropped, it is back where it was before.
///
/// Costs a few loads and stores, the first time on a thread a few system calls.
#[inline]
#[must_use = "dropped at once, it says nothing"]
pub(crate) fn enter<'a>(stack: &StackBounds, name: Option<&'a str>) -> Entered<'a> {
    if !IS_READY.get() {
        prepare();
    }
    let (name, name_len) = name.map_or((std::ptr::null(), 0), |name| (name.as_ptr(), name.len()));
    // The switch that follows is opaque to the compiler, and the handler is known to the system: so the cell is written
    // before the switch.
    let previous = CURRENT.replace(Current {
        bounds: *stack,
        name,
        name_len,
    });
    Entered {
        previous,
        _borrows: PhantomData,
    }
}

/// See [`enter`].
#[must_use = "dropped at once, it says nothing"]
pub(crate) struct Entered<'a> {
    previous: Current,
    /// The name, and this OS thread: a pointer is not `Send`.
    _borrows: PhantomData<(&'a str, *const u8)>,
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        CURRENT.set(self.previous);
    }
}

impl std::fmt::Debug for Entered<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entered").finish_non_exhaustive()
    }
}

/// Once an OS thread: the process has the handler, and this thread a stack to run it on.
#[cold]
fn prepare() {
    fault::install(inspect);
    // Without memory for it an overflow still ends the process, by the signal and without a report. A thread that is ending
    // (its thread-locals are gone) does without.
    if let Ok(stack) = AlternateStack::ensure() {
        let _ = ALTERNATE.try_with(|alternate| alternate.set(Some(stack)));
    }
    IS_READY.set(true);
}

/// Looks at the address of a fault, in a signal handler. Doesn't return if it is an overflow.
fn inspect(address: usize) {
    let current = CURRENT.get();
    if current.bounds.guards(address) {
        report(&current);
        fault::abort();
    }
}

fn report(current: &Current) {
    let say = |text: &str| fault::write_stderr(text.as_ptr(), text.len());
    say("\nthread '");
    if current.name.is_null() {
        say("<unnamed>");
    } else {
        fault::write_stderr(current.name, current.name_len);
    }
    say("' has overflowed its stack (");
    let mut digits = [0; DIGITS];
    say(decimal(current.bounds.size(), &mut digits));
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
    use super::super::class::Class;
    use super::*;

    #[test]
    fn numbers_in_decimal() {
        for number in [0, 7, 10, 262_144, usize::MAX] {
            assert_eq!(decimal(number, &mut [0; DIGITS]), number.to_string());
        }
    }

    #[test]
    fn entering_nests() {
        let current = || CURRENT.get().bounds;
        let [outer, inner] = [1, 2].map(|number| Class::of(0).unwrap().bounds(number << 40, 0));
        {
            let _outer = enter(&outer, Some("outer"));
            {
                let _inner = enter(&inner, None);
                assert_eq!(current(), inner);
                assert!(CURRENT.get().name.is_null());
            }
            assert_eq!(current(), outer);
            assert_eq!(CURRENT.get().name_len, 5);
        }
        assert_eq!(current(), StackBounds::NONE);
    }
}
