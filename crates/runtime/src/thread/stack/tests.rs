//! The pool as threads will use it, and what only a process of its own can show.
//!
//! A test that dies, or that measures the whole process, runs itself again in a child: the test harness of this binary
//! with the test's name and [`CHILD`] in the environment.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::sync::{Arc, Barrier};

use corosensei::stack::Stack as _;
use corosensei::{Coroutine, CoroutineResult};

use super::class::{SIZE_MAX, SIZE_MIN};
use super::overflow::Entered;
use super::slab::Budget;
use super::*;
use crate::sys::clock;
use crate::sys::memory::{self, page_size};

/// Set in children.
const CHILD: &str = "QUADRILLE_TEST_CHILD";

/// Its value in a child that is to do without our handler of faults.
const BARE: &str = "bare";

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs the test `name` of this file again, in a child.
fn run_child(name: &str) -> Output {
    run_child_as(name, "1")
}

fn run_child_as(name: &str, kind: &str) -> Output {
    let path = module_path!().split_once("::").unwrap().1;
    Command::new(std::env::current_exe().unwrap())
        .args([&format!("{path}::{name}"), "--exact", "--nocapture"])
        .env(CHILD, kind)
        .output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Asserts that the child's test ran and passed.
fn assert_passed(output: &Output) {
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}\n{}", stderr(output));
    assert!(stdout.contains("1 passed"), "{stdout}");
}

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

#[test]
fn a_stack_has_at_least_the_size_asked_for() {
    let stacks = Stacks::new(1);
    for size in [0, 1, 16 * 1024, 100_000, DEFAULT_SIZE, 3 << 20] {
        let reservation = stacks.reserve(0, size).unwrap();
        let promised = reservation.size();
        let stack = reservation.take(0);
        let bounds = stack.bounds();
        assert!(promised >= size.max(SIZE_MIN));
        assert_eq!(bounds.size(), promised);
        assert!(bounds.base() - bounds.limit() >= promised);
        assert_eq!(stack.base().get(), bounds.base());
        assert_eq!(stack.limit().get(), bounds.limit() - 2 * page_size());
        write(bounds.base() - 1);
        write(bounds.limit());
    }
}

#[test]
fn a_stack_that_is_too_large_is_refused() {
    let error = Stacks::new(1).reserve(0, SIZE_MAX + 1).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("1073741825"), "{error}");
}

#[test]
fn the_last_one_given_back_is_the_first_taken() {
    let stacks = Stacks::new(1);
    let out: Vec<Stack> = (0..3).map(|_| take(&stacks, 0)).collect();
    let bounds: Vec<_> = out.iter().map(Stack::bounds).collect();
    out.into_iter().for_each(|stack| stack.give_back(0));
    let again: Vec<Stack> = (0..3).map(|_| take(&stacks, 0)).collect();
    let reversed: Vec<_> = again.iter().rev().map(Stack::bounds).collect();
    assert_eq!(reversed, bounds);
}

#[test]
fn a_stack_goes_to_the_llc_that_gave_it_back() {
    let stacks = Stacks::new(2);
    let [a, b] = [take(&stacks, 0), take(&stacks, 0)];
    let (in_0, in_1) = (a.bounds(), b.bounds());
    a.give_back(0);
    b.give_back(1);
    let [b, a] = [take(&stacks, 1), take(&stacks, 0)];
    assert_eq!((a.bounds(), b.bounds()), (in_0, in_1));
}

#[test]
fn a_dropped_stack_goes_back_to_where_it_was_taken() {
    let stacks = Stacks::new(2);
    let stack = stacks.reserve(0, 0).unwrap().take(1);
    let bounds = stack.bounds();
    drop(stack);
    assert_eq!(take(&stacks, 1).bounds(), bounds);
}

#[test]
fn another_llc_helps_out_before_anything_is_mapped() {
    let stacks = Stacks::new(3);
    let class = Class::of(0).unwrap();
    let slab = class.slab_stacks(0);
    // The slab is made in LLC 0; 1 and 2 reserve and run all of it.
    let first = stacks.reserve(0, 0).unwrap();
    let rest: Vec<_> = (1..slab).map(|i| stacks.reserve(1 + i % 2, 0).unwrap()).collect();
    let out: Vec<_> = rest.into_iter().map(|reservation| reservation.take(2)).collect();
    let last = first.take(1);
    let all: BTreeSet<_> = out.iter().chain([&last]).map(|stack| stack.bounds().base()).collect();
    assert_eq!(all.len(), slab);
    let low = out.iter().chain([&last]).map(|stack| stack.bounds().lowest()).min();
    let high = out.iter().chain([&last]).map(|stack| stack.bounds().top()).max();
    assert_eq!(high.unwrap() - low.unwrap(), slab * class.stride());
}

#[test]
fn any_number_of_an_llc_will_do() {
    let stacks = Stacks::new(2);
    stacks.reserve(usize::MAX, 0).unwrap().take(17).give_back(usize::MAX);
    assert_eq!(Stacks::new(0).reserve(3, 0).unwrap().size(), SIZE_MIN.max(page_size()));
}

/// What is free on the shelves, and what may be promised.
fn counts(stacks: &Stacks, llcs: usize) -> (usize, usize) {
    let class = Class::of(0).unwrap();
    let counts = (0..llcs).map(|llc| {
        stacks.pool().with_shelf(llc, class, |shelf| {
            let (hot, cold) = shelf.counts();
            (hot + cold, shelf.credit())
        })
    });
    counts.fold((0, 0), |sum, (free, credit)| (sum.0 + free, sum.1 + credit))
}

#[test]
fn every_order_of_steps_keeps_the_counts() {
    const STEPS: u32 = 6;
    // Each digit of `order` in base 4 is a step: reserve, drop a reservation, take, give back.
    for order in 0..4_u32.pow(STEPS) {
        let stacks = Stacks::new(2);
        let witness = Arc::clone(&stacks.pool().witness);
        let (mut reserved, mut out) = (Vec::new(), Vec::new());
        for step in 0..STEPS {
            let llc = step as usize % 2;
            match order / 4_u32.pow(step) % 4 {
                0 => reserved.push(stacks.reserve(llc, 0).unwrap()),
                1 => drop(reserved.pop()),
                2 => out.extend(reserved.pop().map(|reservation| reservation.take(llc))),
                _ => out.pop().into_iter().for_each(|stack| stack.give_back(llc)),
            }
            let (free, credit) = counts(&stacks, 2);
            assert_eq!(free, credit + reserved.len(), "{order} at {step}");
            assert!(free + out.len() == 0 || free + out.len() == 16, "{order} at {step}");
        }
        // What is left outlives the handle.
        drop(stacks);
        out.extend(reserved.into_iter().map(|reservation| reservation.take(0)));
        for stack in out {
            assert_eq!(Arc::strong_count(&witness), 2, "{order}");
            write(stack.bounds().base() - 1);
            stack.give_back(0);
        }
        assert_eq!(Arc::strong_count(&witness), 1, "{order}");
    }
}

#[test]
fn threads_share_the_pool_and_lose_nothing() {
    const THREADS: usize = 4;
    let stacks = Stacks::new(2);
    let witness = Arc::clone(&stacks.pool().witness);
    let barrier = Barrier::new(THREADS);
    let (sender, receiver) = std::sync::mpsc::channel::<Reservation>();
    let receiver = std::sync::Mutex::new(receiver);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (stacks, barrier, receiver, sender) = (&stacks, &barrier, &receiver, sender.clone());
            scope.spawn(move || {
                barrier.wait();
                for round in 0..2000 {
                    let mine = stacks.reserve(thread, 0).unwrap();
                    sender.send(stacks.reserve(round, 0).unwrap()).unwrap();
                    let mine = mine.take(thread);
                    // Whose stack this is, nobody else writes to.
                    write(mine.bounds().base() - 1);
                    let other = receiver.lock().unwrap().recv().unwrap();
                    if round % 3 == 0 {
                        drop(other);
                    } else {
                        let other = other.take(thread + 1);
                        assert_ne!(other.bounds(), mine.bounds());
                        other.give_back(round);
                    }
                    mine.give_back(round + 1);
                }
            });
        }
    });
    let (free, credit) = counts(&stacks, 2);
    assert_eq!(free, credit);
    assert!(free >= THREADS, "{free}");
    drop(stacks);
    assert_eq!(Arc::strong_count(&witness), 1);
}

#[test]
fn the_pool_ends_with_whoever_is_last_on_any_thread() {
    for _ in 0..200 {
        let stacks = Stacks::new(2);
        let witness = Arc::clone(&stacks.pool().witness);
        let barrier = Barrier::new(3);
        let [stack, reservation] = [0, 1].map(|llc| stacks.reserve(llc, 0).unwrap());
        let stack = stack.take(1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                barrier.wait();
                stack.give_back(0);
            });
            scope.spawn(|| {
                barrier.wait();
                reservation.take(0).give_back(1);
            });
            barrier.wait();
            drop(stacks);
        });
        assert_eq!(Arc::strong_count(&witness), 1);
    }
}

#[test]
fn idle_stacks_lose_their_pages_and_are_used_again() {
    if !cfg!(target_os = "linux") {
        return;
    }
    const SECOND: u64 = 1_000_000_000;
    let stacks = Stacks::new(1);
    let out: Vec<Stack> = (0..100).map(|_| take(&stacks, 0)).collect();
    let bounds: Vec<_> = out.iter().map(Stack::bounds).collect();
    for stack in out {
        write(stack.bounds().base() - 1);
        stack.give_back(0);
    }
    let resident = || {
        bounds
            .iter()
            .filter(|stack| memory::lowest_resident(stack.limit()..stack.top()).is_some())
            .count()
    };
    assert_eq!(resident(), 100);
    let start = clock::nanos();
    stacks.trim(start + SECOND);
    assert_eq!(resident(), 100);
    stacks.tick(start + 2 * SECOND);
    assert_eq!(resident(), 0);
    let stack = take(&stacks, 0);
    write(stack.bounds().base() - 1);
    assert_eq!(resident(), 1);
}

#[test]
fn a_stack_that_was_used_deeply_is_noticed_and_cut() {
    if !cfg!(target_os = "linux") {
        return;
    }
    // Each of this size is looked at.
    let size = 64 << 20;
    let stacks = Stacks::new(1);
    let stack = stacks.reserve(0, size).unwrap().take(0);
    let bounds = stack.bounds();
    let resident = || bounds.top() - memory::lowest_resident(bounds.limit()..bounds.top()).unwrap();
    for depth in [1, 60 << 10, 1 << 20] {
        write(bounds.base() - depth);
    }
    assert!(resident() >= 1 << 20);
    stack.give_back(0);
    assert_eq!(resident().next_multiple_of(4096), 60 << 10 | 4096);
    assert!(
        (1 << 20..(1 << 20) + page_size()).contains(&stacks.depth_max()),
        "{}",
        stacks.depth_max()
    );
}

#[test]
fn a_coroutine_that_ends_or_is_unwound_returns_its_stack() {
    struct Note<'a>(&'a std::cell::Cell<u32>);
    impl Drop for Note<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let drops = std::rc::Rc::new(std::cell::Cell::new(0));
    let stacks = Stacks::new(2);
    let on = |stack: Stack| {
        let drops = std::rc::Rc::clone(&drops);
        Coroutine::<u32, u32, u32, Stack>::with_stack(stack, move |yielder, first| {
            let _note = Note(&drops);
            first + yielder.suspend(first)
        })
    };
    let stack = take(&stacks, 0);
    let bounds = stack.bounds();

    let mut finishing = on(stack);
    let resume = |coroutine: &mut Coroutine<u32, u32, u32, Stack>, input| {
        let _entered = enter(&bounds, Some("coroutine"));
        coroutine.resume(input)
    };
    assert!(matches!(resume(&mut finishing, 1), CoroutineResult::Yield(1)));
    assert!(matches!(resume(&mut finishing, 2), CoroutineResult::Return(3)));
    finishing.into_stack().give_back(1);

    let mut dropped = on(take(&stacks, 1));
    assert!(matches!(resume(&mut dropped, 1), CoroutineResult::Yield(1)));
    drop(dropped);
    assert_eq!(drops.get(), 2);

    assert_eq!(take(&stacks, 1).bounds(), bounds);
    assert_eq!(counts(&stacks, 2), (16, 16));
}

fn recurse(depth: usize) -> usize {
    let frame = std::hint::black_box([depth; 16]);
    if frame[0] == usize::MAX {
        return 0;
    }
    recurse(depth + 1) + frame[1]
}

/// A coroutine on `stack` that recurses for ever.
fn overflow(stack: Stack, name: Option<&str>) {
    let bounds = stack.bounds();
    let mut coroutine = Coroutine::<(), (), usize, Stack>::with_stack(stack, |_, ()| recurse(0));
    let _entered = enter(&bounds, name);
    let _ = coroutine.resume(());
}

fn check_overflow(test: &str, message: &str) {
    let output = run_child(test);
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
        let outer = take(&stacks, 0);
        let bounds = outer.bounds();
        let mut coroutine = Coroutine::<(), (), (), Stack>::with_stack(outer, move |yielder, ()| {
            // A coroutine inside of another, which is back on its own stack when that ends.
            let inner = take(&Stacks::new(1), 0);
            {
                let _entered = enter(&inner.bounds(), Some("inner"));
                let mut nested = Coroutine::<(), (), (), Stack>::with_stack(inner, |_, ()| {});
                assert!(matches!(nested.resume(()), CoroutineResult::Return(())));
            }
            yielder.suspend(());
            write(bounds.limit() - 1);
        });
        for _ in 0..2 {
            let _entered = enter(&bounds, Some("outer"));
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
fn enter_unless_bare() -> Option<(Stack, Entered<'static>)> {
    let is_bare = std::env::var_os(CHILD).is_some_and(|kind| kind == BARE);
    (!is_bare).then(|| {
        let stack = take(&Stacks::new(1), 0);
        let entered = enter(&stack.bounds(), Some("bystander"));
        (stack, entered)
    })
}

/// Asserts that the child dies as it does without our handler: by SIGSEGV, or as a sanitizer has it.
fn check_as_before(test: &str) {
    let bare = run_child_as(test, BARE);
    let output = run_child(test);
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
    let output = run_child("a_handler_of_the_programs_own_is_called_as_before");
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

#[test]
fn both_ends_and_both_kinds_of_guards() {
    for stacks in [Stacks::new(1), protected(1)] {
        let out: Vec<Stack> = (0..40).map(|_| take(&stacks, 0)).collect();
        for stack in &out {
            write(stack.bounds().limit());
            write(stack.bounds().base() - 1);
        }
    }
}

#[test]
fn marks_split_no_mappings_and_protected_ranges_are_refused_in_time() {
    if is_child() {
        let count = 1000;
        let before = memory::mappings();
        let marked = Stacks::new(1);
        let _marked: Vec<_> = (0..count).map(|_| marked.reserve(0, 0).unwrap()).collect();
        let with_marks = memory::mappings() - before;
        let protected = protected(1);
        let _protected: Vec<_> = (0..count).map(|_| protected.reserve(0, 0).unwrap()).collect();
        let with_protection = memory::mappings() - before - with_marks;
        assert!(with_protection >= 2 * count, "{with_protection}");
        // A kernel without marks makes both alike.
        assert!(with_marks < 50 || with_marks >= 2 * count, "{with_marks}");
        return;
    }
    if cfg!(target_os = "linux") {
        assert_passed(&run_child(
            "marks_split_no_mappings_and_protected_ranges_are_refused_in_time",
        ));
    }
}

#[test]
fn too_many_protected_guards_are_an_error_and_not_the_end() {
    static BUDGET: Budget = Budget::new();
    let budget = BUDGET.limit_to(160);
    let stacks = Stacks::with_guarding(1, Guarding { marks: false, budget });
    let mut reserved = Vec::new();
    let error = loop {
        match stacks.reserve(0, 0) {
            Ok(reservation) => reserved.push(reservation),
            Err(error) => break error,
        }
    };
    // 7/8 of 160 are 140: 70 stacks of two mappings each, the last ones in ever smaller slabs.
    assert_eq!((reserved.len(), budget.used()), (70, 140));
    assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("vm.max_map_count = 160"), "{error}");
    reserved.pop();
    let again = stacks.reserve(0, 0).unwrap();
    assert!(stacks.reserve(0, 0).is_err());
    drop((reserved, again, stacks));
    assert_eq!(budget.used(), 0);
}

#[test]
fn out_of_address_space_is_an_error() {
    if is_child() {
        let limit = libc::rlimit {
            rlim_cur: 1 << 30,
            rlim_max: 1 << 30,
        };
        // SAFETY: reads `limit`, which is ours.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
        let stacks = Stacks::new(1);
        let size = 64 << 20;
        let mut reserved = Vec::new();
        let error = loop {
            match stacks.reserve(0, size) {
                Ok(reservation) => reserved.push(reservation),
                Err(error) => break error,
            }
            assert!(reserved.len() < 16, "16 stacks of 64 MiB are more than 1 GiB");
        };
        assert!(!reserved.is_empty());
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        assert!(error.to_string().contains("67108864"), "{error}");
        // Small ones fit into what is left.
        drop(take(&stacks, 0));
        return;
    }
    // A sanitizer's shadow takes more addresses than the limit.
    if !cfg!(feature = "sanitizer") {
        assert_passed(&run_child("out_of_address_space_is_an_error"));
    }
}

/// Bytes of this process in memory.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * page_size()
}

#[test]
fn a_sleeping_thread_costs_one_page_and_some_bytes() {
    const COUNT: usize = 10_000;
    if is_child() {
        let stacks = Stacks::new(2);
        let mut out = Vec::with_capacity(COUNT);
        out.extend((0..COUNT).map(|_| stacks.reserve(0, DEFAULT_SIZE).unwrap().take(1)));
        out.clear();
        drop(stacks);

        let before = resident_bytes();
        let stacks = Stacks::new(2);
        for _ in 0..COUNT {
            let stack = stacks.reserve(0, DEFAULT_SIZE).unwrap().take(1);
            // As deep as a thread sleeps whose frames take 3 KiB.
            write(stack.bounds().base() - 1);
            write(stack.bounds().base() - 3000);
            out.push(stack);
        }
        let each = (resident_bytes() - before) / COUNT;
        assert!((page_size()..page_size() + 100).contains(&each), "{each} bytes each");
        return;
    }
    if cfg!(target_os = "linux") {
        assert_passed(&run_child("a_sleeping_thread_costs_one_page_and_some_bytes"));
    }
}
