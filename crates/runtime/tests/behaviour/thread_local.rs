//! Variables of which every user-level thread has its own.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::io::Read as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use quadrille::Wait as _;
use quadrille::net::UnixStream;
use quadrille::thread;
use quadrille::thread::BlockingIo;

use crate::count::{Count, OnDrop, Token};
use crate::gate::Gate;
use crate::shape::{Shape, for_each_shape_if};
use crate::wait::eventually;

quadrille::thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(7) };
    static TOKENS: RefCell<Vec<Token>> = RefCell::new(Vec::new());
    static LAST: RefCell<Option<OnDrop<Box<dyn FnOnce()>>>> = RefCell::new(None);
}

#[test]
fn each_thread_has_its_own() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let (runtime, dropped) = (shape.runtime(), Count::default());
            let threads: Vec<_> = (0..100)
                .map(|index| {
                    let token = dropped.token();
                    runtime.spawn_thread(move || {
                        assert_eq!(NUMBER.get(), 7);
                        NUMBER.set(index);
                        TOKENS.with_borrow_mut(|tokens| tokens.push(token));
                        thread::yield_now();
                        assert_eq!((NUMBER.get(), TOKENS.with_borrow(Vec::len)), (index, 1));
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(dropped.get(), 100);
            NUMBER.set(8);
            assert_eq!(runtime.spawn_thread(|| NUMBER.get()).join().unwrap(), 7);
            assert_eq!(NUMBER.get(), 8, "an ordinary thread has its own, too");
        },
    );
}

#[test]
fn a_suspended_thread_loses_its_own_at_shutdown() {
    let (runtime, dropped, gate) = (Shape::flat(2).runtime(), Count::default(), Gate::default());
    let (token, waits) = (dropped.token(), gate.clone());
    let thread = runtime.spawn_thread(move || {
        TOKENS.with_borrow_mut(|tokens| tokens.push(token));
        waits.pass().wait();
    });
    eventually("it waits", || gate.waiting() == 1);
    drop(runtime);
    assert_eq!(dropped.get(), 1);
    assert!(thread.join().is_err());
}

/// A destructor finds what is not dropped yet, not itself, and may wait.
#[test]
fn destructors_use_others() {
    let runtime = Shape::flat(1).runtime();
    let seen = Count::default();
    let sees = seen.clone();
    let thread = runtime.spawn_thread(move || {
        NUMBER.set(1);
        let destructor: Box<dyn FnOnce()> = Box::new(move || {
            thread::yield_now();
            assert_eq!(NUMBER.get(), 1);
            assert!(LAST.try_with(|_| ()).is_err());
            sees.add();
        });
        LAST.with_borrow_mut(|last| *last = Some(OnDrop::new(destructor)));
    });
    thread.join().unwrap();
    assert_eq!(seen.get(), 1);
}

/// Runs when the calling thread's own is dropped.
fn at_the_end(f: impl FnOnce() + 'static) {
    let destructor: Box<dyn FnOnce()> = Box::new(f);
    LAST.with_borrow_mut(|last| *last = Some(OnDrop::new(destructor)));
}

/// Waits in each way that there is, for what comes soon or not at all, and counts.
fn wait_in_each_way(steps: &Count, silent: UnixStream) {
    let soon = Duration::from_millis(1);
    thread::sleep(soon);
    steps.add();
    thread::park_timeout(soon);
    steps.add();
    thread::yield_now();
    steps.add();
    quadrille::task::yield_now().wait();
    steps.add();
    assert!(pending::<()>().wait_timeout(soon).is_err());
    steps.add();
    let mut silent = BlockingIo::new(silent);
    silent.set_read_timeout(Some(soon)).unwrap();
    assert!(silent.read(&mut [0]).is_err());
    steps.add();
    silent.set_read_timeout(None).unwrap();
    assert!(silent.read(&mut [0]).is_err());
    steps.add();
    // Its thread runs on this worker, or, if that leaves, does not begin.
    thread::scope(|scope| {
        scope.spawn(thread::yield_now);
    });
    steps.add();
}

/// A thread that is told to end can't be suspended by its destructors, whether they are of what is on its stack or of
/// what is its own: they wait in place.
#[test]
fn destructors_wait_to_their_end_when_their_thread_is_told_to_end() {
    for aborts in [true, false] {
        for catches in [true, false] {
            let (runtime, gate, steps) = (Shape::flat(1).runtime(), Gate::default(), Count::default());
            let (waits, counts) = (gate.clone(), steps.clone());
            let thread = runtime.spawn_thread(move || {
                let (silent, far) = UnixStream::pair().unwrap();
                at_the_end(move || {
                    wait_in_each_way(&counts, silent);
                    drop(far);
                });
                if catches {
                    assert!(catch_unwind(AssertUnwindSafe(|| waits.pass().wait())).is_err());
                } else {
                    waits.pass().wait();
                }
            });
            eventually("it waits", || gate.waiting() == 1);
            if aborts {
                thread.abort();
                assert_eq!(thread.join().is_ok(), catches);
            }
            drop(runtime);
            assert_eq!(steps.get(), 8, "aborts: {aborts}, catches: {catches}");
        }
    }
}

/// Nor is one unwound that waits already: it goes on in place.
#[test]
fn a_destructor_waits_on_when_its_thread_is_told_to_end() {
    let (runtime, gate, ended) = (Shape::flat(1).runtime(), Gate::default(), Count::default());
    let (waits, ends) = (gate.clone(), ended.clone());
    let thread = runtime.spawn_thread(move || {
        at_the_end(move || {
            waits.pass().wait();
            thread::yield_now();
            ends.add();
        });
    });
    eventually("it waits", || gate.waiting() == 1);
    let abort = thread.abort_handle();
    // On the thread's worker, so that it goes on after both.
    let tells = async move {
        abort.abort();
        gate.open();
    };
    runtime.block_on(runtime.spawn(tells)).unwrap();
    thread.join().expect("its closure had ended");
    assert_eq!(ended.get(), 1);
}

/// What does not come in about a second is not waited for: the destructor is unwound, quietly, and the next one has its
/// turn.
#[test]
fn a_destructor_that_waits_for_ever_is_given_up_when_its_thread_is_told_to_end() {
    let (runtime, gate, dropped) = (Shape::flat(1).runtime(), Gate::default(), Count::default());
    let (waits, token, late) = (gate.clone(), dropped.token(), dropped.token());
    let thread = runtime.spawn_thread(move || {
        TOKENS.with_borrow_mut(|tokens| tokens.push(token));
        at_the_end(move || {
            let _late = late;
            thread::park();
            unreachable!("nobody unparks it");
        });
        waits.pass().wait();
    });
    eventually("it waits", || gate.waiting() == 1);
    thread.abort();
    assert!(thread.join().is_err());
    assert_eq!(dropped.get(), 2);
}

/// As on a user-level thread: what is not dropped yet, what is made meanwhile, and not itself.
#[test]
fn destructors_use_others_on_an_ordinary_thread() {
    let (seen, tokens) = (Count::default(), Count::default());
    let (sees, token) = (seen.clone(), tokens.token());
    let thread = std::thread::spawn(move || {
        NUMBER.set(1);
        let destructor: Box<dyn FnOnce()> = Box::new(move || {
            assert_eq!(NUMBER.get(), 1);
            assert!(LAST.try_with(|_| ()).is_err());
            TOKENS.with_borrow_mut(|tokens| tokens.push(token));
            sees.add();
        });
        LAST.with_borrow_mut(|last| *last = Some(OnDrop::new(destructor)));
    });
    thread.join().unwrap();
    assert_eq!((seen.get(), tokens.get()), (1, 1));
}

quadrille::thread_local! {
    static UNMADE: Cell<usize> = panic!("it is set before it is used");
    static UNMADE_TOO: RefCell<usize> = panic!("it is set before it is used");
}

/// On an ordinary thread and a user-level one.
#[test]
fn the_first_value_may_be_set() {
    let sets = || {
        UNMADE.set(1);
        UNMADE_TOO.set(2);
        UNMADE.set(UNMADE.get() + 2);
        UNMADE_TOO.set(UNMADE_TOO.with_borrow(|number| *number) + 2);
        (UNMADE.get(), UNMADE_TOO.take())
    };
    assert_eq!(sets(), (3, 4));
    assert_eq!(Shape::flat(1).runtime().spawn_thread(sets).join().unwrap(), (3, 4));
    let task = async { catch_unwind(|| UNMADE.set(1)).is_err() };
    assert!(
        Shape::flat(1)
            .runtime()
            .block_on(async { quadrille::spawn(task).await.unwrap() })
    );
}

#[test]
fn a_task_has_none() {
    let runtime = Shape::flat(1).runtime();
    let task = runtime.spawn(async { NUMBER.try_with(Cell::get).is_err() });
    assert!(runtime.block_on(task).unwrap());
}
