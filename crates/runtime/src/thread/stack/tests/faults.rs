//! Overflows are reported with the thread's name; all other faults end the process as before.

use std::os::unix::process::ExitStatusExt;

use corosensei::{Coroutine, CoroutineResult};

use super::super::overflow::Entered;
use super::*;
use crate::child::{BARE, is_bare, is_child, run_child, run_child_as, stderr};

fn recurse(depth: usize) -> usize {
    let frame = std::hint::black_box([depth; 16]);
    if frame[0] == usize::MAX {
        return 0;
    }
    recurse(depth + 1) + frame[1]
}

/// A coroutine on `stack` that recurses for ever.
fn overflow(stack: Stack, name: Option<&str>) {
    let occupant = Occupant::new(stack, name);
    // SAFETY: dropped before the occupant, which has the stack.
    let lent = unsafe { occupant.stack().lend() };
    let mut coroutine = Coroutine::<(), (), usize, Lent>::with_stack(lent, |_, ()| recurse(0));
    // SAFETY: the guard goes before the occupant.
    let _entered = unsafe { enter(&occupant) };
    let _ = coroutine.resume(());
}

fn check_overflow(test: &str, message: &str) {
    let output = run_child(module_path!(), test);
    let stderr = stderr(&output);
    assert_eq!(output.status.signal(), Some(6), "{stderr}");
    assert!(stderr.contains(message), "{stderr}");
    assert!(
        stderr.contains("fatal runtime error: stack overflow, aborting\n"),
        "{stderr}"
    );
}

#[test]
fn an_overflow_names_the_thread_and_its_stack() {
    if is_child() {
        return overflow(
            Stacks::new(1).reserve(0, 100_000).unwrap().take(0),
            Some("deep thinker"),
        );
    }
    check_overflow(
        "an_overflow_names_the_thread_and_its_stack",
        "thread 'deep thinker' has overflowed its stack (131072 bytes)\n",
    );
}

#[test]
fn an_overflow_into_a_protected_range_is_reported_too() {
    if is_child() {
        let stacks = protected(1);
        // In the midst of a slab, where the guard's other neighbour is a stack.
        let _others: Vec<Stack> = (0..5).map(|_| take(&stacks, 0)).collect();
        return overflow(take(&stacks, 0), None);
    }
    check_overflow(
        "an_overflow_into_a_protected_range_is_reported_too",
        "thread '<unnamed>' has overflowed its stack (16384 bytes)\n",
    );
}

#[test]
fn an_overflow_on_a_thread_without_a_stack_for_signals_is_reported() {
    if is_child() {
        extern "C" fn body(_: *mut std::ffi::c_void) -> *mut std::ffi::c_void {
            overflow(take(&Stacks::new(1), 0), Some("on a thread of C"));
            std::ptr::null_mut()
        }
        return sys_thread::run(body);
    }
    check_overflow(
        "an_overflow_on_a_thread_without_a_stack_for_signals_is_reported",
        "thread 'on a thread of C' has overflowed its stack (16384 bytes)\n",
    );
}

/// A thread that std did not start.
mod sys_thread {
    use std::ffi::c_void;

    pub(super) fn run(body: extern "C" fn(*mut c_void) -> *mut c_void) {
        let mut thread = std::mem::MaybeUninit::uninit();
        // SAFETY: writes to `thread`, which is ours; `body` takes no argument that could dangle.
        let error = unsafe { libc::pthread_create(thread.as_mut_ptr(), std::ptr::null(), body, std::ptr::null_mut()) };
        assert_eq!(error, 0);
        // SAFETY: written by `pthread_create`, which succeeded.
        let thread = unsafe { thread.assume_init() };
        // SAFETY: a thread that nobody has joined or detached.
        unsafe { libc::pthread_join(thread, std::ptr::null_mut()) };
    }
}

#[test]
fn an_overflow_after_a_resume_is_the_right_threads() {
    if is_child() {
        let stacks = Stacks::new(1);
        let occupant = Occupant::new(take(&stacks, 0), Some("outer"));
        let bounds = occupant.stack().bounds();
        // SAFETY: dropped before the occupant, which has the stack and was declared before.
        let lent = unsafe { occupant.stack().lend() };
        let mut coroutine = Coroutine::<(), (), (), Lent>::with_stack(lent, move |yielder, ()| {
            // A coroutine inside of another, which is back on its own stack when that ends.
            let inner = take(&Stacks::new(1), 0);
            {
                let occupant = Occupant::new(inner, Some("inner"));
                // SAFETY: the guard goes before the occupant.
                let _entered = unsafe { enter(&occupant) };
                // SAFETY: as above.
                let lent = unsafe { occupant.stack().lend() };
                let mut nested = Coroutine::<(), (), (), Lent>::with_stack(lent, |_, ()| {});
                assert!(matches!(nested.resume(()), CoroutineResult::Return(())));
            }
            yielder.suspend(());
            write(bounds.limit() - 1);
        });
        for _ in 0..2 {
            // SAFETY: as above.
            let _entered = unsafe { enter(&occupant) };
            let _ = coroutine.resume(());
        }
        return;
    }
    check_overflow(
        "an_overflow_after_a_resume_is_the_right_threads",
        "thread 'outer' has overflowed its stack",
    );
}

/// In a child: this thread runs a user-level thread, unless the child is to do without.
fn enter_unless_bare() -> Option<Entered> {
    (!is_bare()).then(|| {
        let stack = take(&Stacks::new(1), 0);
        let occupant = Box::leak(Box::new(Occupant::new(stack, Some("bystander"))));
        // SAFETY: the occupant stays for ever, and the guard goes on this thread.
        unsafe { enter(occupant) }
    })
}

/// Asserts that the child dies as it does without our handler: by SIGSEGV, or as a sanitizer has it.
fn check_as_before(test: &str) {
    let bare = run_child_as(module_path!(), test, BARE);
    let output = run_child(module_path!(), test);
    assert_eq!(output.status, bare.status, "{}\n{}", stderr(&bare), stderr(&output));
    if !cfg!(feature = "sanitizer") {
        assert!(output.status.signal().is_some(), "{}", output.status);
    }
    assert!(!output.status.success());
    assert!(!stderr(&output).contains("bystander"), "{}", stderr(&output));
    let report = "has overflowed its stack\n";
    assert_eq!(
        stderr(&output).contains(report),
        stderr(&bare).contains(report),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_guard_that_is_not_the_current_threads_is_an_ordinary_fault() {
    if is_child() {
        let _bystander = enter_unless_bare();
        return write(take(&Stacks::new(1), 0).bounds().limit() - 1);
    }
    check_as_before("a_guard_that_is_not_the_current_threads_is_an_ordinary_fault");
}

#[test]
fn other_faults_end_the_process_as_before() {
    if is_child() {
        let _bystander = enter_unless_bare();
        return write(std::hint::black_box(8));
    }
    check_as_before("other_faults_end_the_process_as_before");
}

#[test]
fn a_signal_that_was_only_sent_ends_the_process_as_before() {
    if is_child() {
        let _bystander = enter_unless_bare();
        // std's handler takes the first for a fault and restores the default.
        for _ in 0..2 {
            // SAFETY: sends a signal to this thread.
            unsafe { libc::raise(libc::SIGSEGV) };
        }
        return;
    }
    check_as_before("a_signal_that_was_only_sent_ends_the_process_as_before");
}

#[test]
fn without_a_handler_before_ours_the_system_ends_the_process() {
    if is_child() {
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            // SAFETY: the default needs no handler.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        let _bystander = enter_unless_bare();
        // SAFETY: sends a signal to this thread. One is enough: the default is asked for in its stead.
        unsafe { libc::raise(libc::SIGBUS) };
        return;
    }
    check_as_before("without_a_handler_before_ours_the_system_ends_the_process");
}

#[test]
fn a_handler_of_the_programs_own_is_called_as_before() {
    extern "C" fn handler(_: std::ffi::c_int, info: *mut libc::siginfo_t, _: *mut std::ffi::c_void) {
        // SAFETY: installed with SA_SIGINFO.
        let info = unsafe { &*info };
        // SAFETY: a fault of access has an address.
        let address = unsafe { info.si_addr() };
        // SAFETY: ends the process at once, without destructors.
        unsafe { libc::_exit(if address.addr() == 8 { 42 } else { 43 }) };
    }
    if is_child() {
        // SAFETY: zeros are a valid value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler as extern "C" fn(_, _, _) as usize;
        action.sa_flags = libc::SA_SIGINFO;
        // SAFETY: a handler of the signature that SA_SIGINFO asks for.
        let error = unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut()) };
        assert_eq!(error, 0);
        let _bystander = enter_unless_bare();
        return write(std::hint::black_box(8));
    }
    let output = run_child(module_path!(), "a_handler_of_the_programs_own_is_called_as_before");
    assert_eq!(output.status.code(), Some(42), "{}", stderr(&output));
}

#[test]
fn an_overflow_of_an_ordinary_thread_is_still_reported_by_std() {
    if is_child() {
        drop(enter_unless_bare());
        std::hint::black_box(recurse(0));
        return;
    }
    check_as_before("an_overflow_of_an_ordinary_thread_is_still_reported_by_std");
}
