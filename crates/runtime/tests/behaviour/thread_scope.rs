//! Scopes: threads that borrow from the stack of the one that waits for them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use quadrille::Wait as _;
use quadrille::sync::CancellationToken;
use quadrille::task::JoinError;
use quadrille::thread::{self, scope};

use crate::count::{Count, OnDrop};
use crate::gate::Gate;
use crate::scopes::{spawns_after_its_closure_has_returned, waits_for_a_scope};
use crate::shape::{Shape, for_each_shape_if, on_both_kinds};
use crate::wait::eventually;

#[test]
fn threads_borrow_and_are_waited_for() {
    on_both_kinds(|| {
        let (sum, numbers) = (AtomicUsize::new(0), [1_usize, 2, 3]);
        let mut local = 0;
        let result = scope(|s| {
            for number in &numbers {
                let sum = &sum;
                s.spawn(move || {
                    thread::yield_now();
                    // A thread of the scope spawns into it.
                    s.spawn(move || sum.fetch_add(*number, Ordering::SeqCst));
                });
            }
            let handle = s.spawn(|| {
                local += 1;
                &numbers
            });
            handle.join().unwrap().len()
        });
        assert_eq!((sum.into_inner(), local, result), (6, 1, 3));
    });
}

/// What the closure of a scope was lent is there until the scope has ended, not until the closure has.
#[test]
fn threads_are_spawned_after_the_closure_has_returned() {
    spawns_after_its_closure_has_returned(|gate, token| {
        scope(|s| {
            s.spawn(move || {
                gate.pass().wait();
                s.spawn(|| s.spawn(move || drop(token)).join().unwrap()).join().unwrap();
            });
        });
    });
}

/// The same, on ordinary threads as well: their stack is used again as soon as they wait.
#[test]
fn threads_spawn_threads_while_the_scope_is_left() {
    on_both_kinds(|| {
        for _ in 0..50 {
            let outside = [1];
            scope(|s| {
                s.spawn(|| {
                    let inside = 1;
                    s.spawn(move || assert_eq!(outside[0], inside));
                });
            });
        }
    });
}

#[test]
fn a_panic_in_the_closure_waits_too() {
    on_both_kinds(|| {
        let ended = AtomicUsize::new(0);
        let result = catch_unwind(AssertUnwindSafe(|| {
            scope(|s| {
                for _ in 0..10 {
                    s.spawn(|| {
                        thread::yield_now();
                        ended.fetch_add(1, Ordering::SeqCst);
                    });
                }
                std::panic::resume_unwind(Box::new(7))
            })
        }));
        let payload: Box<dyn std::any::Any + Send> = match result {
            Ok(()) => panic!("it goes on"),
            Err(payload) => payload,
        };
        assert_eq!(payload.downcast_ref::<i32>(), Some(&7));
        assert_eq!(ended.into_inner(), 10);
    });
}

#[test]
fn a_panic_in_a_thread_is_told_once() {
    on_both_kinds(|| {
        let panics = || std::panic::resume_unwind(Box::new("mine"));
        let joined = scope(|s| s.spawn(panics).join().map(|(): ()| 1));
        assert_eq!(joined.unwrap_err().downcast_ref::<&str>(), Some(&"mine"));
        let left = catch_unwind(|| scope(|s| drop(s.spawn(panics))));
        assert!(
            left.unwrap_err()
                .downcast_ref::<&str>()
                .unwrap()
                .contains("a thread of this scope")
        );
    });
}

/// A result that borrows is dropped before the scope ends, also if nobody has asked for it.
#[test]
fn results_are_dropped_inside() {
    struct Adds<'a>(&'a Mutex<usize>);
    impl Drop for Adds<'_> {
        fn drop(&mut self) {
            *self.0.lock().unwrap() += 1;
        }
    }
    on_both_kinds(|| {
        let dropped = Mutex::new(0);
        scope(|s| {
            for _ in 0..100 {
                s.spawn(|| Adds(&dropped));
            }
        });
        assert_eq!(dropped.into_inner().unwrap(), 100);
    });
}

/// The runtime ends while a scope waits for threads that wait, have not started, or run elsewhere: first they end, then
/// it.
#[test]
fn a_scope_outlasts_its_borrows_at_shutdown() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let (gate, wrong, dropped, begun) = (Gate::default(), Count::default(), Count::default(), Count::default());
            let (ends, bad, waits) = (dropped.clone(), wrong.clone(), gate.clone());
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    let (ends, bad, waits, begun) = (ends.clone(), bad.clone(), waits.clone(), begun.clone());
                    runtime.spawn_thread(move || {
                        begun.add();
                        let alive = AtomicUsize::new(1);
                        let _before = OnDrop::new(|| {
                            ends.add();
                        });
                        scope(|s| {
                            for _ in 0..8 {
                                s.spawn(|| {
                                    let _after = OnDrop::new(|| {
                                        if alive.load(Ordering::SeqCst) != 1 {
                                            bad.add();
                                        }
                                    });
                                    waits.pass().wait();
                                });
                            }
                            waits.pass().wait();
                        });
                        alive.store(0, Ordering::SeqCst);
                    })
                })
                .collect();
            eventually("some wait", || gate.waiting() >= 8);
            drop(runtime);
            assert_eq!(wrong.get(), 0);
            assert!(dropped.get() == begun.get() && begun.get() > 0);
            for thread in threads {
                assert!(thread.join().is_err());
            }
        },
    );
}

/// An ordinary thread waits for a scope whose runtime ends meanwhile.
#[test]
fn an_ordinary_thread_is_told_of_the_shutdown() {
    let runtime = Shape::flat(2).runtime();
    let (gate, handle) = (Gate::default(), runtime.handle().clone());
    let waits = gate.clone();
    let outside = std::thread::spawn(move || {
        let _guard = handle.enter();
        catch_unwind(AssertUnwindSafe(|| scope(|s| drop(s.spawn(|| waits.pass().wait())))))
    });
    eventually("it waits", || gate.waiting() == 1);
    drop(runtime);
    let payload = outside.join().unwrap().unwrap_err();
    assert!(payload.downcast_ref::<&str>().unwrap().contains("shutdown"));
}

/// Nobody has ended the thread that waits, so it must not go without a word.
#[test]
fn a_scope_over_another_runtime_that_has_ended_panics() {
    let (own, other) = (Shape::flat(1).runtime(), Shape::flat(1).runtime());
    let handle = other.handle().clone();
    drop(other);
    let waiting = own.spawn_thread(move || {
        let _entered = handle.enter();
        scope(|s| drop(s.spawn(|| ())));
    });
    let payload = waiting.join().unwrap_err();
    let message = payload
        .downcast_ref::<&str>()
        .expect("a panic, not an end by the runtime");
    assert!(message.contains("shutdown"), "{message}");
}

/// In a scope inside of another it leaves both, each when its threads have ended, of whose panics it says nothing more.
#[test]
fn who_is_aborted_waits_for_each_scope() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let (gate, ended) = (Gate::default(), Count::default());
            let (waits, ends) = (gate.clone(), ended.clone());
            let parent = runtime.spawn_thread(move || {
                let child = || {
                    let _token = ends.token();
                    waits.pass().wait();
                    std::panic::resume_unwind(Box::new(()));
                };
                scope(|outer| {
                    let _left = OnDrop::new(|| assert_eq!(ends.get(), 1, "that of the inner one"));
                    scope(|inner| drop(inner.spawn(child)));
                    drop(outer.spawn(child));
                });
            });
            // Both: a parent that comes to the scope's end after its child has ended has nothing to wait for, where it
            // would notice.
            eventually("the child waits, and its parent", || {
                gate.waiting() == 1 && waits_for_a_scope(&runtime)
            });
            parent.abort();
            assert!(!parent.is_finished());
            gate.open();
            let payload = parent.join().unwrap_err();
            assert!(payload.downcast_ref::<JoinError>().is_some_and(JoinError::is_cancelled));
            assert_eq!(ended.get(), 1, "nobody is spawned any more");
        },
    );
}

/// A guard in the closure of the scope is dropped where that is unwound.
#[test]
fn who_is_aborted_may_tell_its_threads() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let begun = Count::default();
            let begins = begun.clone();
            let parent = runtime.spawn_thread(move || {
                let token = CancellationToken::new();
                scope(|s| {
                    let _tells = token.drop_guard_ref();
                    let child = s.spawn(|| {
                        begins.add();
                        token.cancelled().wait();
                    });
                    child.join().unwrap();
                });
            });
            eventually("the child has begun", || begun.get() == 1);
            parent.abort();
            assert!(parent.join().is_err());
        },
    );
}

/// One that was asked to stop is none of the scope's concern: before it begins, while it waits, and if it catches that
/// and has a result all the same.
#[test]
fn threads_of_a_scope_are_aborted() {
    on_both_kinds(|| {
        let (gate, waits) = (Gate::default(), Count::default());
        let result = scope(|s| {
            let waiting = s.spawn(|| {
                waits.add();
                thread::park();
            });
            let detached = s.spawn(|| {
                waits.add();
                gate.pass().wait();
            });
            let stubborn = s.spawn(|| {
                waits.add();
                drop(catch_unwind(thread::park));
                7
            });
            while waits.get() < 3 {
                thread::yield_now();
            }
            waiting.abort();
            detached.abort();
            stubborn.abort();
            drop(detached);
            let payload = waiting.join().unwrap_err();
            assert!(payload.downcast_ref::<JoinError>().is_some_and(JoinError::is_cancelled));
            let unbegun = s.spawn(|| ());
            unbegun.abort();
            drop(unbegun);
            stubborn.join().unwrap()
        });
        assert_eq!(result, 7);
    });
}

#[test]
fn a_handle_is_a_future_of_the_result() {
    on_both_kinds(|| {
        let number = 6;
        let result = scope(|s| {
            let mut handle = s.spawn(|| number + 1);
            let result = (&mut handle).wait();
            assert!(handle.is_finished());
            result.unwrap()
        });
        assert_eq!(result, 7);
        let error = scope(|s| s.spawn(|| panic!("on purpose")).wait().map(|()| 1));
        assert!(error.unwrap_err().is_panic());
    });
}
