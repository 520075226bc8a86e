//! The end of a runtime with threads that are suspended: each is unwound, on its own OS thread, by destructors that do
//! things.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use quadrille::Wait as _;
use quadrille::sync::mpmc;
use quadrille::task::JoinError;
use quadrille::thread;

use crate::child::{assert_passed, is_child, run_child};
use crate::count::{Count, OnDrop};
use crate::gate::Gate;
use crate::shape::{Shape, for_each_shape, for_each_shape_if, occupy};
use crate::wait::{eventually, watched};

const THREADS: usize = 300;

#[test]
fn of_threads_that_wait_for_this_and_that() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let (dropped, waiting) = (Count::default(), Count::default());
        let (sender, receiver) = mpmc::bounded::<usize>(1);
        let gate = Gate::default();
        let threads: Vec<_> = (0..THREADS)
            .map(|index| {
                let (token, waiting) = (dropped.token(), waiting.clone());
                let (gate, sender, receiver) = (gate.clone(), sender.clone(), receiver.clone());
                runtime.spawn_thread(move || {
                    let here = std::thread::current().id();
                    let _dropped = OnDrop::new(move || {
                        assert_eq!(std::thread::current().id(), here);
                        drop(token);
                    });
                    waiting.add();
                    match index % 5 {
                        0 => gate.pass().wait(),
                        1 => thread::park(),
                        2 => thread::sleep(Duration::from_secs(1000)),
                        3 => loop {
                            thread::yield_now();
                        },
                        _ => loop {
                            sender.send(index).wait().unwrap();
                            receiver.recv().wait().unwrap();
                        },
                    }
                })
            })
            .collect();
        eventually("all wait", || waiting.get() == THREADS);
        drop(runtime);
        assert_eq!(dropped.get(), THREADS);
        for thread in threads {
            assert!(thread.is_finished());
            assert!(thread.join().is_err());
        }
    });
}

/// One worker, which is held up by the first task that it runs, and looks up before the second: by then it shall leave.
#[test]
fn of_threads_that_have_not_begun() {
    watched("one worker", || {
        let runtime = Shape::flat(1).runtime();
        let (dropped, begun) = (Count::default(), Count::default());
        let occupied = occupy(&runtime);
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (token, begun) = (dropped.token(), begun.clone());
                runtime.spawn_thread(move || {
                    let _token = token;
                    begun.add();
                })
            })
            .collect();
        runtime.shutdown_background();
        assert_eq!(dropped.get(), 0);
        drop(occupied);
        for thread in threads {
            let payload = thread.join().expect_err("it never ran");
            assert!(payload.downcast_ref::<JoinError>().is_some_and(JoinError::is_cancelled));
        }
        assert_eq!((dropped.get(), begun.get()), (THREADS, 0));
    });
}

/// Destructors spawn, wake, and drop handles; threads catch what unwinds them, and wait again.
#[test]
fn with_destructors_that_are_busy() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let (gate, other, dropped, caught) = (Gate::default(), Gate::default(), Count::default(), Count::default());
            let threads: Vec<_> = (0..50)
                .map(|_| {
                    let (gate, other, dropped, caught) = (gate.clone(), other.clone(), dropped.clone(), caught.clone());
                    runtime.spawn_thread(move || {
                        let late = dropped.clone();
                        let _busy = OnDrop::new(move || {
                            other.open();
                            let token = late.token();
                            drop(thread::spawn(move || drop(token)));
                            let token = late.token();
                            drop(quadrille::spawn(async move { drop(token) }));
                        });
                        for _ in 0..3 {
                            let waits = catch_unwind(AssertUnwindSafe(|| gate.pass().wait()));
                            assert!(waits.is_err());
                            caught.add();
                        }
                        gate.pass().wait();
                    })
                })
                .collect();
            eventually("all wait", || gate.waiting() == 50);
            drop(runtime);
            assert_eq!((dropped.get(), caught.get()), (100, 150));
            threads.into_iter().for_each(|thread| assert!(thread.join().is_err()));
        },
    );
}

/// Who is aborted and catches that is told again wherever it waits next, though nobody wakes it.
#[test]
fn by_an_abort_that_is_caught() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let (gate, caught) = (Gate::default(), Count::default());
            let (waits, catches) = (gate.clone(), caught.clone());
            let thread = runtime.spawn_thread(move || {
                for _ in 0..3 {
                    assert!(catch_unwind(AssertUnwindSafe(|| waits.pass().wait())).is_err());
                    catches.add();
                }
                waits.pass().wait();
            });
            eventually("it waits", || gate.waiting() == 1);
            thread.abort();
            let payload = thread.join().unwrap_err();
            assert!(payload.downcast_ref::<JoinError>().is_some_and(JoinError::is_cancelled));
            assert_eq!(caught.get(), 3);
        },
    );
}

/// Its children borrow from its stack: they end by themselves, and then it unwinds.
#[test]
fn by_an_abort_of_a_scope() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let (gate, ended, went_on) = (Gate::default(), Count::default(), Count::default());
            let parent = {
                let (gate, ended, went_on) = (gate.clone(), ended.clone(), went_on.clone());
                runtime.spawn_thread(move || {
                    thread::scope(|scope| {
                        for _ in 0..4 {
                            scope.spawn(|| {
                                gate.pass().wait();
                                ended.add();
                            });
                        }
                    });
                    went_on.add();
                })
            };
            eventually("the children wait", || gate.waiting() == 4);
            parent.abort();
            assert!(!parent.is_finished());
            gate.open();
            let payload = parent.join().unwrap_err();
            assert!(payload.downcast_ref::<JoinError>().is_some_and(JoinError::is_cancelled));
            assert_eq!((ended.get(), went_on.get()), (4, 0));
        },
    );
}

/// Wakers on other threads are at work while the runtime ends, and afterwards.
#[test]
fn beside_wakers_that_go_on() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            for _ in 0..20 {
                let runtime = shape.runtime();
                let dropped = Count::default();
                let threads: Vec<_> = (0..20)
                    .map(|_| {
                        let token = dropped.token();
                        runtime.spawn_thread(move || {
                            let _token = token;
                            loop {
                                thread::park();
                            }
                        })
                    })
                    .collect();
                let unparked: Vec<_> = threads
                    .iter()
                    .map(|thread: &thread::JoinHandle<()>| thread.thread().clone())
                    .collect();
                let stop = Gate::default();
                let stopped = stop.clone();
                let waker = std::thread::spawn(move || {
                    while !stopped.is_open() {
                        unparked.iter().for_each(thread::Thread::unpark);
                    }
                });
                drop(runtime);
                assert_eq!(dropped.get(), 20);
                stop.open();
                waker.join().unwrap();
                threads.into_iter().for_each(|thread| assert!(thread.join().is_err()));
            }
        },
    );
}

/// A worker that leaves waits for what borrows from its thread and belongs to another runtime. It looks now and then,
/// not all the time.
#[test]
fn of_a_scope_that_waits_for_another_runtime() {
    let (runtime, other, gate) = (Shape::flat(1).runtime(), Shape::flat(1).runtime(), Gate::default());
    let (handle, elsewhere, waits) = (runtime.handle().clone(), other.handle().clone(), gate.clone());
    let thread = runtime.spawn_thread(move || {
        let _entered = elsewhere.enter();
        thread::scope(|scope| {
            scope.spawn(|| waits.pass().wait());
        });
    });
    eventually("the other's thread waits", || gate.waiting() == 1);
    let turns = || handle.metrics().total().polls;
    let before = turns();
    runtime.shutdown_background();
    eventually("it is told to end", || turns() > before);
    let (begin, before) = (Instant::now(), turns());
    // How long that is, is measured.
    std::thread::sleep(Duration::from_millis(100));
    // A few at once, and then a nap of 50 us and more before each.
    let (looks, looks_max) = (turns() - before, 100 + begin.elapsed().as_micros() / 50);
    assert!(u128::from(looks) <= looks_max, "{looks} of {looks_max}");
    assert!(!thread.is_finished());
    gate.open();
    assert!(thread.join().is_err());
}

/// A thread may end its own runtime: it is unwound when it next waits.
#[test]
fn from_inside() {
    for shape in [Shape::flat(1), Shape::flat(2)] {
        let (runtime, inner) = (shape.runtime(), shape.runtime());
        let dropped = Count::default();
        let token = dropped.token();
        let gate = Gate::default();
        let thread = inner.handle().clone().spawn_thread(move || {
            let _token = token;
            drop(inner);
            gate.pass().wait();
        });
        let joiner = runtime.spawn_thread(move || thread.join().is_err());
        assert!(joiner.join().unwrap());
        assert_eq!(dropped.get(), 1);
    }
}

/// Each waits for the one inside: it does not take a round of wake-ups for all that are left to end one.
#[test]
fn of_scopes_in_scopes() {
    const DEPTH: u32 = 500;
    fn nest(depth: u32, waits: &Gate, count: &Count) {
        if depth == 0 {
            count.add();
            return waits.pass().wait();
        }
        thread::scope(|scope| {
            scope.spawn(move || nest(depth - 1, waits, count));
        });
    }
    let ends = |shape: &Shape, before: u32| {
        let runtime = shape.runtime();
        // Their places are used again, the last one first.
        let others: Vec<_> = (0..before).map(|_| runtime.spawn_thread(thread::park)).collect();
        for other in others {
            other.thread().unpark();
            other.join().unwrap();
        }
        let (gate, count) = (Gate::default(), Count::default());
        let inside = count.clone();
        drop(runtime.spawn_thread(move || nest(DEPTH, &gate, &inside)));
        eventually("the innermost waits", || count.get() == 1);
        let handle = runtime.handle().clone();
        let before = handle.metrics().total().polls;
        drop(runtime);
        let polls = handle.metrics().total().polls - before;
        assert!(polls < 20 * u64::from(DEPTH), "{polls} polls to end {DEPTH} threads");
    };
    for_each_shape_if(
        |shape| shape.workers == 1,
        move |shape| [0, DEPTH].into_iter().for_each(|before| ends(shape, before)),
    );
}

/// What their stacks have needed is given back, though the address space stays with the handle.
#[test]
fn of_threads_with_deep_stacks_while_a_handle_is_kept() {
    const DEPTH: usize = 64 * 1024;
    fn reach(waiting: &Count) {
        let deep = std::hint::black_box([1_u8; DEPTH]);
        assert_eq!(deep[DEPTH / 2], 1);
        waiting.add();
    }
    if !is_child() {
        let name = "of_threads_with_deep_stacks_while_a_handle_is_kept";
        return assert_passed(&run_child(module_path!(), name));
    }
    let runtime = Shape::flat(1).runtime();
    let waiting = Count::default();
    for _ in 0..1000 {
        let waiting = waiting.clone();
        drop(runtime.spawn_thread(move || {
            reach(&waiting);
            thread::park();
        }));
    }
    eventually("all have reached deep", || waiting.get() == 1000);
    let handle = runtime.handle().clone();
    let before = resident_bytes();
    drop(runtime);
    let after = resident_bytes();
    assert!(
        after + 1000 * DEPTH / 2 < before,
        "{before} bytes before, {after} after"
    );
    drop(handle);
}

/// What the process has in memory.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * 1024
}
