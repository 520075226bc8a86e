//! Ending a runtime from inside a task: of the same runtime, of another one, of one that is ending itself.

use std::time::Duration;

use quadrille::{Handle, Runtime, spawn};

use crate::count::Count;
use crate::gate::Gate;
use crate::shape::{Shape, for_each_shape};
use crate::wait::eventually;

/// Tasks that wait for ever, counted when dropped.
fn waiting_tasks(runtime: &Runtime, drops: &Count, count: usize) {
    let gate = Gate::default();
    for _ in 0..count {
        let (token, passed) = (drops.token(), gate.pass());
        drop(runtime.spawn(async move {
            let _token = token;
            passed.await;
        }));
    }
    eventually("all tasks wait", || gate.waiting() == count);
}

#[test]
fn by_dropping_the_own_runtime() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let drops = Count::default();
        waiting_tasks(&runtime, &drops, 500);
        let handle = runtime.handle().clone();
        let token = drops.token();
        let ender = handle.spawn(async move {
            let _token = token;
            drop(runtime);
            // It goes on to its next suspension point, on a runtime that is ending.
            let late = spawn(std::future::pending::<()>());
            (late, Handle::current().worker_count())
        });
        let (late, workers) = futures_lite::future::block_on(ender).unwrap();
        assert_eq!(workers, shape.workers);
        eventually("all tasks are dropped", || drops.get() == 501);
        assert!(futures_lite::future::block_on(late).unwrap_err().is_cancelled());
        assert!(
            futures_lite::future::block_on(handle.spawn(async {}))
                .unwrap_err()
                .is_cancelled()
        );
    });
}

#[test]
fn by_dropping_the_own_runtime_and_waiting() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let drops = Count::default();
        let handle = runtime.handle().clone();
        let token = drops.token();
        let ender = handle.spawn(async move {
            let _token = token;
            drop(runtime);
            std::future::pending::<()>().await;
        });
        assert!(futures_lite::future::block_on(ender).unwrap_err().is_cancelled());
        eventually("the task is dropped", || drops.get() == 1);
    });
}

#[test]
fn by_a_panic_that_drops_the_own_runtime() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let drops = Count::default();
        waiting_tasks(&runtime, &drops, 20);
        let handle = runtime.handle().clone();
        let ender = handle.spawn(async move {
            let _runtime = runtime;
            panic!("with the runtime in hand");
        });
        let error = futures_lite::future::block_on(ender).map(|(): ()| ()).unwrap_err();
        assert!(error.is_panic());
        eventually("all tasks are dropped", || drops.get() == 20);
    });
}

#[test]
fn by_dropping_another_runtime() {
    for_each_shape(|shape| {
        let (runtime, other) = (shape.runtime(), Shape::flat(2).runtime());
        let drops = Count::default();
        waiting_tasks(&other, &drops, 200);
        let ender = runtime.spawn(async move {
            drop(other);
            spawn(async { 5 }).await.unwrap()
        });
        assert_eq!(runtime.block_on(ender).unwrap(), 5);
        eventually("all tasks are dropped", || drops.get() == 200);
    });
}

#[test]
fn by_two_runtimes_that_drop_each_other() {
    for_each_shape(|shape| {
        let (a, b) = (shape.runtime(), Shape::flat(2).runtime());
        let drops = Count::default();
        waiting_tasks(&a, &drops, 50);
        waiting_tasks(&b, &drops, 50);
        let (of_a, of_b) = (a.handle().clone(), b.handle().clone());
        let gate = Gate::default();
        let (first, second) = (gate.pass(), gate.pass());
        let ends_b = of_a.spawn(async move {
            first.await;
            drop(b);
        });
        let ends_a = of_b.spawn(async move {
            second.await;
            drop(a);
        });
        eventually("both wait", || gate.waiting() == 2);
        gate.open();
        // Either may have come first and cancelled the other before it ran.
        let ended = [
            futures_lite::future::block_on(ends_b),
            futures_lite::future::block_on(ends_a),
        ];
        assert!(ended.iter().any(Result::is_ok));
        eventually("all tasks are dropped", || drops.get() == 100);
    });
}

#[test]
fn by_dropping_another_runtime_in_a_destructor() {
    for_each_shape(|shape| {
        let (runtime, other) = (shape.runtime(), Shape::flat(2).runtime());
        let drops = Count::default();
        waiting_tasks(&other, &drops, 100);
        // The pending task owns the other runtime; ending the first drops the task, and with it the second.
        let gate = Gate::default();
        let closed = gate.pass();
        drop(runtime.spawn(async move {
            let _other = other;
            closed.await;
        }));
        eventually("the task waits", || gate.waiting() == 1);
        drop(runtime);
        eventually("all tasks are dropped", || drops.get() == 100);
    });
}

#[test]
fn by_a_job_that_may_block() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let drops = Count::default();
        waiting_tasks(&runtime, &drops, 50);
        let handle = runtime.handle().clone();
        let job = handle.spawn_blocking(move || drop(runtime));
        futures_lite::future::block_on(job).unwrap();
        eventually("all tasks are dropped", || drops.get() == 50);
    });
}

#[test]
fn in_the_background_and_with_a_limit() {
    for_each_shape(|shape| {
        for background in [false, true] {
            let runtime = shape.runtime();
            let drops = Count::default();
            waiting_tasks(&runtime, &drops, 50);
            let handle = runtime.handle().clone();
            let ender = handle.spawn(async move {
                if background {
                    runtime.shutdown_background();
                } else {
                    let left = runtime.shutdown_timeout(Duration::from_secs(60));
                    assert!(left.workers > 0, "it does not wait, not for itself either");
                }
            });
            futures_lite::future::block_on(ender).unwrap();
            eventually("all tasks are dropped", || drops.get() == 50);
        }
    });
}

#[test]
fn the_last_handle_goes_inside_a_task() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let drops = Count::default();
        let gate = Gate::default();
        let (handle, token, passed) = (runtime.handle().clone(), drops.token(), gate.pass());
        drop(runtime.spawn(async move {
            let (_handle, _token) = (handle, token);
            passed.await;
        }));
        eventually("the task waits", || gate.waiting() == 1);
        drop(runtime);
        assert_eq!(drops.get(), 1);
    });
}
