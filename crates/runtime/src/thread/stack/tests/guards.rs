//! What guards and stacks cost in mappings, addresses and memory, and what is said when one of these is used up.

use std::io;

use super::super::slab::Budget;
use super::*;
use crate::child::{assert_passed, is_child, run_child};
use crate::skipped::skipped;
use crate::sys::memory::{self, page_size};

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
            module_path!(),
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
        assert_passed(&run_child(module_path!(), "out_of_address_space_is_an_error"));
    }
}

/// Mappings of a page each, no two neighbours of which have the same protection, until the system refuses one. The last
/// of them.
fn use_up_mappings() -> *mut libc::c_void {
    let map = |protection| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the system chooses a place that nothing uses, and nobody touches it.
        unsafe { libc::mmap(std::ptr::null_mut(), page_size(), protection, flags, -1, 0) }
    };
    let mut protections = [libc::PROT_NONE, libc::PROT_READ].into_iter().cycle();
    let mut last = libc::MAP_FAILED;
    loop {
        match map(protections.next().unwrap()) {
            libc::MAP_FAILED => return last,
            next => last = next,
        }
    }
}

/// To the system mappings are memory: the error says which limit it is, also if it was others who took them.
#[test]
fn out_of_mappings_names_their_limit() {
    const NAME: &str = "out_of_mappings_names_their_limit";
    let Some(max) = memory::mappings_max().filter(|max| *max <= 1 << 17) else {
        return skipped("there is no limit of mappings, or it takes too long to come to");
    };
    if is_child() {
        let stacks = protected(1);
        // From here on guards count on what the process has now.
        let _kept = stacks.reserve(0, 0).unwrap();
        let last = use_up_mappings();
        let check = |of: &str| {
            let error = stacks.reserve(0, 1 << 20).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::OutOfMemory, "{of}");
            let said = error.to_string();
            let expected = format!("of the mappings that vm.max_map_count = {max} allows for");
            assert!(said.contains(&expected), "{of}: {said}");
        };
        check("a slab");
        // One for a slab is left, and none for its guards.
        // SAFETY: ours, and unused.
        assert_eq!(unsafe { libc::munmap(last, page_size()) }, 0);
        check("guards");
        return;
    }
    // A sanitizer's allocator does not live without mappings.
    if !cfg!(feature = "sanitizer") {
        assert_passed(&run_child(module_path!(), NAME));
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
        assert_passed(&run_child(
            module_path!(),
            "a_sleeping_thread_costs_one_page_and_some_bytes",
        ));
    }
}
