//! Reservations, stacks and the pool that outlives its handle.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Barrier};

use corosensei::stack::Stack as _;
use corosensei::{Coroutine, CoroutineResult};

use super::super::class::{SIZE_MAX, SIZE_MIN};
use super::super::shelf::HOT_MAX;
use super::*;
use crate::sys::clock;
use crate::sys::memory::{self, page_size};
use crate::thread;

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
        // SAFETY: dropped before the stack, which was declared before.
        let lent = unsafe { stack.lend() };
        assert_eq!(lent.base().get(), bounds.base());
        assert_eq!(lent.limit().get(), bounds.limit() - 2 * page_size());
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
fn what_is_dropped_goes_to_the_first_llc() {
    let stacks = Stacks::new(2);
    let in_first = || counts(&stacks, 1);
    // Mapped in LLC 1, where one stays promised to us.
    let stack = stacks.reserve(1, 0).unwrap().take(1);
    let bounds = stack.bounds();
    let reservation = stacks.reserve(1, 0).unwrap();
    assert_eq!(in_first(), (0, 0));
    drop(stack);
    assert_eq!(in_first(), (1, 1));
    drop(reservation);
    assert_eq!(in_first(), (1, 2));
    assert_eq!(take(&stacks, 0).bounds(), bounds);
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

/// Two workers of two LLCs keep stacks and credit, and others do without: whatever the order, who has a reservation
/// finds a stack, none is given out twice, and all end up on the shelves.
#[test]
fn what_workers_keep_is_on_the_account() {
    for seed in 0..200 {
        let stacks = Stacks::new(2);
        let witness = Arc::clone(&stacks.pool().witness);
        // SAFETY: dropped below, before `stacks`.
        let kept = [0, 1].map(|llc| unsafe { Kept::of(&stacks, llc, 0) });
        let (mut reserved, mut out) = (Vec::new(), Vec::new());
        let mut rng = quadrille_policy::Rng::new(seed);
        for _ in 0..400 {
            let llc = rng.below(2) as usize;
            let by_worker = rng.below(4) > 0;
            match rng.below(if seed % 2 == 0 { 4 } else { 5 }) {
                0 if by_worker => reserved.push(kept[llc].reserve(0).unwrap()),
                0 | 4 => reserved.push(stacks.reserve(llc, 0).unwrap()),
                1 if rng.below(4) == 0 => drop(reserved.pop()),
                1 | 2 => out.extend(reserved.pop().map(|reservation| match by_worker {
                    true => kept[llc].take(reservation),
                    false => reservation.take(llc),
                })),
                _ => out.pop().into_iter().for_each(|stack| match by_worker {
                    true => kept[llc].give_back(stack),
                    false => stack.give_back(llc),
                }),
            }
            let all: BTreeSet<usize> = out.iter().map(|stack| stack.bounds().base()).collect();
            assert_eq!(all.len(), out.len(), "{seed}");
        }
        out.extend(reserved.into_iter().map(|reservation| kept[0].take(reservation)));
        out.into_iter().for_each(|stack| kept[1].give_back(stack));
        drop(kept);
        let (free, credit) = counts(&stacks, 2);
        assert!(free > 0 && free == credit, "{free}, {credit}");
        drop(stacks);
        assert_eq!(Arc::strong_count(&witness), 1, "{seed}");
    }
}

/// What one thread leaves is what the next one gets, without the shelf.
#[test]
fn a_worker_gets_the_stack_that_it_used_last() {
    let stacks = Stacks::new(1);
    // SAFETY: dropped before `stacks`.
    let kept = unsafe { Kept::of(&stacks, 0, 0) };
    let first = kept.take(kept.reserve(0).unwrap());
    let bounds = first.bounds();
    kept.give_back(first);
    // The first one had a slab mapped, the second one takes credit off the shelf.
    drop(kept.reserve(0).unwrap());
    let before = counts(&stacks, 1);
    for _ in 0..100 {
        let next = kept.take(kept.reserve(0).unwrap());
        assert_eq!(next.bounds(), bounds);
        kept.give_back(next);
        let after = counts(&stacks, 1);
        assert_eq!(after, before, "the shelf is not asked");
    }
    // Of another size there is nothing.
    let large = kept.take(kept.reserve(SIZE_MAX / 2).unwrap());
    assert!(large.bounds().size() > bounds.size());
    kept.give_back(large);
}

/// A worker on which more threads end than it spawned keeps neither more stacks than it may nor more credit, and loses
/// none.
#[test]
fn a_worker_keeps_no_more_than_it_may() {
    let stacks = Stacks::new(1);
    let witness = Arc::clone(&stacks.pool().witness);
    // SAFETY: dropped below, before `stacks`.
    let kept = unsafe { Kept::of(&stacks, 0, 0) };
    let reserved: Vec<_> = (0..200).map(|_| stacks.reserve(0, 0).unwrap()).collect();
    let all = counts(&stacks, 1).0;
    for reservation in reserved {
        let stack = kept.take(reservation);
        kept.give_back(stack);
        let (free, credit) = counts(&stacks, 1);
        assert!(
            all - free <= 33 && free - credit <= 200,
            "{free} of {all}, credit {credit}"
        );
    }
    let (free, credit) = counts(&stacks, 1);
    assert!(
        free - credit <= 32,
        "what is not promised any more is on the shelf: {free}, {credit}"
    );
    drop(kept);
    assert_eq!(counts(&stacks, 1), (all, all));
    drop(stacks);
    assert_eq!(Arc::strong_count(&witness), 1);
}

/// Stacks of threads that a worker spawns and runs.
fn take_kept(kept: &Kept, count: usize) -> Vec<Stack> {
    (0..count).map(|_| kept.take(kept.reserve(0).unwrap())).collect()
}

/// What a worker keeps is used before anything is mapped.
#[test]
fn a_workers_own_stacks_are_good_for_its_promises() {
    let stacks = Stacks::new(1);
    // SAFETY: dropped before `stacks`.
    let kept = unsafe { Kept::of(&stacks, 0, 0) };
    let out = take_kept(&kept, 16);
    out.into_iter().for_each(|stack| kept.give_back(stack));
    let next = kept.reserve(0).unwrap();
    assert_eq!(counts(&stacks, 1).0, 16, "no second slab");
    drop((next, kept));
    assert_eq!(counts(&stacks, 1), (16, 16));
}

/// A worker that sleeps keeps nothing, and a busy one nothing that was of no use for a period.
#[test]
fn what_is_of_no_use_goes_back() {
    let stacks = Stacks::new(1);
    // SAFETY: dropped before `stacks`.
    let kept = unsafe { Kept::of(&stacks, 0, 0) };
    let out = take_kept(&kept, 10);
    kept.tick(0);
    out.into_iter().for_each(|stack| kept.give_back(stack));
    assert_eq!(counts(&stacks, 1).0, 6);
    // The first period in which they are there, and of which three are used in the next.
    kept.tick(TRIM_EVERY_NS);
    assert_eq!(counts(&stacks, 1).0, 6, "they have just come");
    let out = take_kept(&kept, 3);
    out.into_iter().for_each(|stack| kept.give_back(stack));
    kept.tick(2 * TRIM_EVERY_NS - 1);
    assert_eq!(counts(&stacks, 1).0, 6, "the period is not over");
    kept.tick(2 * TRIM_EVERY_NS);
    assert_eq!(counts(&stacks, 1).0, 13, "but for three");
    kept.put_back();
    assert_eq!(counts(&stacks, 1), (16, 16));
}

/// Stacks that come back to a worker are looked at as those that come back to a shelf.
#[test]
fn a_worker_looks_at_stacks_that_come_back() {
    let stacks = Stacks::new(1);
    // SAFETY: dropped before `stacks`.
    let kept = unsafe { Kept::of(&stacks, 0, super::super::pool::LOOK_BYTES) };
    for _ in 0..2 {
        let stack = kept.take(kept.reserve(super::super::pool::LOOK_BYTES).unwrap());
        write(stack.bounds().base() - 1);
        kept.give_back(stack);
    }
    assert!(stacks.depth_max() > 0);
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

/// Stacks beyond the maximum keep their pages while there is work, and lose them when the worker has none.
#[test]
fn a_worker_out_of_work_relieves_a_crowd() {
    const CROWD: usize = 2 * HOT_MAX;
    let runtime = crate::Runtime::builder().worker_threads(1).build().unwrap();
    let shared = Arc::clone(&runtime.handle().shared);
    let pool = shared.stacks.pool();
    let main = runtime.handle().clone();
    let main = runtime.spawn_thread(move || {
        let begun = Arc::new(AtomicUsize::new(0));
        let spawn = |_| {
            let begun = Arc::clone(&begun);
            let body = move || {
                begun.fetch_add(1, Ordering::Relaxed);
                thread::park();
            };
            thread::spawn(body)
        };
        let threads: Vec<_> = (0..CROWD).map(spawn).collect();
        while begun.load(Ordering::Relaxed) < CROWD {
            thread::yield_now();
        }
        threads.iter().for_each(|thread| thread.thread().unpark());
        while threads.iter().any(|thread| !thread.is_finished()) {
            thread::yield_now();
        }
        main.shared.stacks.pool().is_crowded(0)
    });
    assert!(main.join().unwrap(), "nobody was out of work");
    let class = Class::of(DEFAULT_SIZE).unwrap();
    let counts = || pool.with_shelf(0, class, |shelf| shelf.counts());
    let relieved = (0..100_000).any(|_| {
        std::thread::park_timeout(std::time::Duration::from_micros(100));
        let (hot, cold) = counts();
        hot <= HOT_MAX && hot + cold >= CROWD
    });
    assert!(relieved, "with pages and without: {:?}", counts());
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
    let on = |stack: &Stack| {
        let drops = std::rc::Rc::clone(&drops);
        // SAFETY: each coroutine is dropped before its stack, below.
        let lent = unsafe { stack.lend() };
        Coroutine::<u32, u32, u32, Lent>::with_stack(lent, move |yielder, first| {
            let _note = Note(&drops);
            first + yielder.suspend(first)
        })
    };
    let occupy = |llc| Occupant::new(take(&stacks, llc), Some("coroutine"));
    let resume = |occupant: &Occupant, coroutine: &mut Coroutine<u32, u32, u32, Lent>, input| {
        // SAFETY: the guard goes before the occupant.
        let _entered = unsafe { enter(occupant) };
        coroutine.resume(input)
    };
    let occupant = occupy(0);
    let bounds = occupant.stack().bounds();
    let mut finishing = on(occupant.stack());
    assert!(matches!(
        resume(&occupant, &mut finishing, 1),
        CoroutineResult::Yield(1)
    ));
    assert!(matches!(
        resume(&occupant, &mut finishing, 2),
        CoroutineResult::Return(3)
    ));
    drop(finishing);
    occupant.into_stack().give_back(1);

    let occupant = occupy(1);
    let mut dropped = on(occupant.stack());
    assert!(matches!(resume(&occupant, &mut dropped, 1), CoroutineResult::Yield(1)));
    drop(dropped);
    drop(occupant);
    assert_eq!(drops.get(), 2);

    assert_eq!(take(&stacks, 1).bounds(), bounds);
    assert_eq!(counts(&stacks, 2), (16, 16));
}
