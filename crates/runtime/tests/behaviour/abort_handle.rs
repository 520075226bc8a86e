//! Abort handles that come late, outlive the task, or race with its end.

use std::future::pending;
use std::sync::Arc;

use quadrille::task::AbortOnDropHandle;

use crate::shape::{Shape, for_each_shape};
use crate::wait::{eventually, watched};

#[test]
fn an_abort_handle_made_after_the_end_knows_it() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let handle = runtime.spawn(async { 5 });
        eventually("the task is finished", || handle.is_finished());
        let abort = handle.abort_handle();
        assert!(abort.is_finished());
        abort.abort();
        assert_eq!(runtime.block_on(handle).unwrap(), 5);
    });
}

#[test]
fn an_abort_handle_made_at_the_end_knows_it_soon() {
    watched("two workers", || {
        let runtime = Shape::flat(2).runtime();
        for round in 0..20_000 {
            let handle = runtime.spawn(async {});
            // Long and short, so that the handle is made before, while and after the task ends.
            for _ in 0..round % 64 * 8 {
                std::hint::spin_loop();
            }
            let abort = handle.abort_handle();
            runtime.block_on(handle).unwrap();
            assert!(
                abort.is_finished(),
                "round {round}: the task was joined, the abort handle thinks it lives"
            );
        }
    });
}

/// So does one that nobody tells by way of the join handle: that is kept unasked, or dropped, and the memory is kept by
/// the abort handle itself.
#[test]
fn an_abort_handle_is_told_though_nobody_joins() {
    watched("two workers", || {
        let runtime = Shape::flat(2).runtime();
        for round in 0..10_000 {
            let (task, thread) = (runtime.spawn(async {}), runtime.spawn_thread(|| {}));
            for _ in 0..round % 64 * 8 {
                std::hint::spin_loop();
            }
            let aborts = (task.abort_handle(), thread.abort_handle());
            let kept = (round % 2 == 0).then_some((task, thread));
            eventually("the abort handles know", || {
                aborts.0.is_finished() && aborts.1.is_finished()
            });
            drop(kept);
        }
    });
}

#[test]
fn aborting_after_the_runtime_is_gone_does_nothing() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let handle = runtime.spawn(pending::<()>());
        let abort = handle.abort_handle();
        drop(runtime);
        assert!(abort.is_finished());
        abort.abort();
        abort.clone().abort();
        assert!(futures_lite::future::block_on(handle).unwrap_err().is_cancelled());
    });
}

#[test]
fn many_aborts_race_with_wakes() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let (mut cancelled, mut finished) = (0, 0);
        for _ in 0..50 {
            let gate = crate::gate::Gate::default();
            let handles: Vec<_> = (0..20).map(|_| runtime.spawn(gate.pass())).collect();
            let aborts: Vec<_> = handles.iter().map(quadrille::JoinHandle::abort_handle).collect();
            let aborter = std::thread::spawn(move || aborts.iter().for_each(|abort| abort.abort()));
            gate.open();
            for handle in handles {
                match runtime.block_on(handle) {
                    Ok(()) => finished += 1,
                    Err(error) => {
                        assert!(error.is_cancelled());
                        cancelled += 1;
                    }
                }
            }
            aborter.join().unwrap();
        }
        assert_eq!(cancelled + finished, 1000);
    });
}

#[test]
fn a_task_ends_with_its_handle_unless_that_lets_it_go() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let alive = Arc::new(());
        let spawn = || {
            let held = alive.clone();
            AbortOnDropHandle::new(runtime.spawn(async move {
                pending::<()>().await;
                drop(held);
            }))
        };
        let [dropped, aborted, detached] = [spawn(), spawn(), spawn()];
        drop(dropped);
        eventually("it is gone", || Arc::strong_count(&alive) == 3);
        aborted.abort();
        assert!(runtime.block_on(aborted).unwrap_err().is_cancelled());
        let detached = detached.detach();
        assert!(!detached.is_finished() && Arc::strong_count(&alive) == 2);
        detached.abort();
        assert!(runtime.block_on(detached).unwrap_err().is_cancelled());
        let finished = AbortOnDropHandle::from(runtime.spawn(async { 7 }));
        assert_eq!(runtime.block_on(finished).unwrap(), 7);
    });
}
