//! Tasks that borrow from a stack: it is not left before they have ended, however they end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use quadrille::Wait as _;
use quadrille::task::{self, yield_now};
use quadrille::thread;

use crate::child::{assert_passed, is_child, run_child};
use crate::count::{Count, OnDrop};
use crate::gate::Gate;
use crate::scopes::spawns_after_its_closure_has_returned;
use crate::shape::{Shape, for_each_shape, for_each_shape_if, on_both_kinds};
use crate::wait::eventually;

#[test]
fn they_change_what_they_borrow() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let work = || {
            let mut squares = [0; 100];
            let sum = task::scope(|s| {
                for (i, square) in squares.iter_mut().enumerate() {
                    let _ended = s.spawn(async move {
                        yield_now().await;
                        *square = i * i;
                    });
                }
                // A task of the scope spawns another, and awaits it.
                let inner = s.spawn(async move { s.spawn(async { 5 }).await.unwrap() + 1 });
                inner.wait().unwrap()
            });
            assert_eq!(sum, 6);
            squares.iter().sum::<usize>()
        };
        let _current = runtime.enter();
        assert_eq!(work(), 328_350);
        assert_eq!(runtime.spawn_thread(work).join().unwrap(), 328_350);
        assert_eq!(runtime.block_on(runtime.spawn_blocking(work)).unwrap(), 328_350);
    });
}

#[test]
fn their_panics_reach_who_joins_or_the_scope() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let _current = runtime.enter();
        let ended = Count::default();
        let joined = task::scope(|s| {
            let _token = s.spawn(async {
                yield_now().await;
                ended.add();
            });
            s.spawn(async { panic!("joined") }).wait().map(|(): ()| ())
        });
        assert!(joined.unwrap_err().is_panic());
        let left = catch_unwind(AssertUnwindSafe(|| {
            task::scope(|s| {
                let _left = s.spawn(async { panic!("left") });
                let _ended = s.spawn(async {
                    yield_now().await;
                    ended.add();
                });
            });
        }));
        assert!(left.is_err());
        let own = catch_unwind(AssertUnwindSafe(|| {
            task::scope(|s| {
                let _ended = s.spawn(async {
                    yield_now().await;
                    ended.add();
                });
                panic!("the scope's own");
            });
        }));
        assert!(own.is_err());
        assert_eq!(ended.get(), 3, "each was waited for");
    });
}

/// As those of a task that is none of a scope: the second panic is nobody's.
#[test]
fn a_future_and_its_output_may_both_panic_when_they_are_dropped() {
    const NAME: &str = "a_future_and_its_output_may_both_panic_when_they_are_dropped";
    if !is_child() {
        // A panic while another one unwinds ends the process.
        return assert_passed(&run_child(module_path!(), NAME));
    }
    let runtime = Shape::flat(1).runtime();
    let _current = runtime.enter();
    let panics = || OnDrop::new(|| panic!("when it is dropped"));
    let joined = task::scope(|s| {
        let held = panics();
        // The future keeps what it holds to its end, not to that of its last poll.
        let future = std::future::poll_fn(move |_| {
            _ = &held;
            Poll::Ready(panics())
        });
        s.spawn(future).wait().map(drop)
    });
    assert!(joined.unwrap_err().is_panic());
}

#[test]
fn who_is_aborted_is_forgiven() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let _current = runtime.enter();
        let drops = Count::default();
        task::scope(|s| {
            let (left, joined) = (drops.token(), drops.token());
            let left = s.spawn(async move {
                let _token = left;
                std::future::pending::<()>().await;
            });
            let joined = s.spawn(async move {
                let _token = joined;
                std::future::pending::<()>().await;
            });
            left.abort();
            joined.abort();
            assert!(joined.wait().unwrap_err().is_cancelled());
        });
        assert_eq!(drops.get(), 2);
    });
}

/// What the closure of a scope was lent is there until the scope has ended, not until the closure has.
#[test]
fn tasks_are_spawned_after_the_closure_has_returned() {
    spawns_after_its_closure_has_returned(|gate, token| {
        task::scope(|s| {
            let _left = s.spawn(async move {
                gate.pass().await;
                let inner = s.spawn(async move { s.spawn(async move { drop(token) }).await.unwrap() });
                inner.await.unwrap();
            });
        });
    });
}

/// The same, on ordinary threads as well: their stack is used again as soon as they wait.
#[test]
fn tasks_spawn_tasks_while_the_scope_is_left() {
    on_both_kinds(|| {
        for _ in 0..50 {
            let outside = [1];
            task::scope(|s| {
                let outside = &outside;
                let _left = s.spawn(async move {
                    let inside = 1;
                    let _left = s.spawn(async move { assert_eq!(outside[0], inside) });
                });
            });
        }
    });
}

#[test]
fn a_task_has_no_scope() {
    let runtime = Shape::flat(2).runtime();
    let refused = runtime.spawn(async { catch_unwind(|| task::scope(|_| ())).is_err() });
    assert!(runtime.block_on(refused).unwrap());
}

/// Tasks that wait for ever, lent the stack of a user-level thread, of another one's scope, and of an ordinary thread.
#[test]
fn a_scope_outlasts_its_borrows_at_shutdown() {
    for_each_shape_if(
        |shape| shape.workers <= 16,
        |shape| {
            let runtime = shape.runtime();
            let (gate, drops) = (Gate::default(), Count::default());
            let scope = {
                let (gate, drops) = (gate.clone(), drops.clone());
                move || {
                    // Its own tasks: those of the other scopes may end at the same time.
                    let own = Count::default();
                    let lent = OnDrop::new({
                        let own = own.clone();
                        move || assert_eq!(own.get(), 10)
                    });
                    let lent = &lent;
                    task::scope(|s| {
                        for _ in 0..10 {
                            let (tokens, gate) = ((drops.token(), own.token()), gate.clone());
                            let _left = s.spawn(async move {
                                let _looks = OnDrop::new(move || assert!(lent.0.is_some()));
                                let _tokens = tokens;
                                gate.pass().await;
                            });
                        }
                    });
                }
            };
            let within = scope.clone();
            let direct = runtime.spawn_thread(scope.clone());
            let (handle, outside) = (runtime.handle().clone(), scope.clone());
            let foreign = std::thread::spawn(move || {
                let _current = handle.enter();
                catch_unwind(AssertUnwindSafe(outside))
            });
            eventually("all wait", || gate.waiting() == 20);
            let nested = runtime.spawn_thread(move || thread::scope(|s| s.spawn(within).join()));
            eventually("all wait", || gate.waiting() == 30);
            drop(runtime);
            assert_eq!(drops.get(), 30);
            assert!(direct.join().is_err() && nested.join().is_err());
            assert!(foreign.join().unwrap().is_err(), "it is told");
        },
    );
}
