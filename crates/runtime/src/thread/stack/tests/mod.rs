//! The pool as threads will use it, and what only a process of its own can show.

mod faults;
mod guards;
mod pool;

use super::*;

fn take(stacks: &Stacks, llc: usize) -> Stack {
    stacks.reserve(llc, 0).unwrap().take(llc)
}

/// Guards by protected ranges, as on a system without marks.
fn protected(llcs: usize) -> Stacks {
    Stacks::with_guarding(
        llcs,
        Guarding {
            marks: false,
            ..Guarding::default()
        },
    )
}

fn write(address: usize) {
    // SAFETY: the test says whose the address is; where it is nobody's, the process is meant to die.
    unsafe { std::ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(1) };
}
