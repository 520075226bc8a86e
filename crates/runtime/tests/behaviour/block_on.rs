//! `block_on`: on which threads, with which futures, woken from where.

use std::cell::Cell;
use std::rc::Rc;

use quadrille::spawn;

use crate::gate::Gate;
use crate::shape::{for_each_shape, occupy};
use crate::wait::eventually;

#[test]
fn inside_a_task_it_panics_and_says_why() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let handle = runtime.handle().clone();
        let refused = runtime.spawn(async move { handle.block_on(async { 1 }) });
        let payload = runtime.block_on(refused).unwrap_err().into_panic();
        let message = payload.downcast_ref::<&str>().unwrap();
        assert_eq!(
            *message,
            "`block_on` would block a worker of a quadrille runtime: inside a task use `.await`, on a user-level thread `.wait()`"
        );
        // Of another runtime, too: it would block this one's worker.
        let other = crate::shape::Shape::flat(1).runtime();
        let refused = runtime.spawn(async move { other.block_on(async { 1 }) });
        assert!(runtime.block_on(refused).unwrap_err().is_panic());
        for task in occupy(&runtime).release() {
            runtime.block_on(task).unwrap();
        }
    });
}

#[test]
fn its_future_need_not_be_send_nor_static() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let calls = Rc::new(Cell::new(0));
        let borrowed = &calls;
        let answer = runtime.block_on(async move {
            for _ in 0..10 {
                spawn(async {}).await.unwrap();
                borrowed.set(borrowed.get() + 1);
            }
            borrowed.clone()
        });
        assert_eq!(answer.get(), 10);
        assert!(Rc::ptr_eq(&answer, &calls));
    });
}

#[test]
fn it_is_woken_from_anywhere() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        for _ in 0..20 {
            // By another thread.
            let gate = Gate::default();
            let opens = gate.clone();
            let opener = std::thread::spawn(move || {
                eventually("the future is pending", || opens.waiting() == 1);
                opens.open();
            });
            runtime.block_on(gate.pass());
            opener.join().unwrap();
            assert!(gate.is_open());
            // By a task.
            let gate = Gate::default();
            let opens = gate.clone();
            let opener = runtime.spawn(async move {
                while opens.waiting() == 0 {
                    quadrille::task::yield_now().await;
                }
                opens.open();
            });
            runtime.block_on(gate.pass());
            runtime.block_on(opener).unwrap();
            assert!(gate.is_open());
        }
    });
}

#[test]
fn it_wakes_itself() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        runtime.block_on(async {
            for _ in 0..1000 {
                quadrille::task::yield_now().await;
            }
        });
        let mut turns = 0;
        let all = runtime.block_on(std::future::poll_fn(|cx| {
            turns += 1;
            if turns == 1000 {
                return std::task::Poll::Ready(turns);
            }
            // Twice in one poll is once.
            let waker = cx.waker().clone();
            waker.wake_by_ref();
            waker.wake();
            std::task::Poll::Pending
        }));
        assert_eq!(all, 1000);
    });
}

#[test]
fn many_threads_at_once() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let runtime = &runtime;
                scope.spawn(move || {
                    for i in 0..50 {
                        let got = runtime.block_on(async move { spawn(async move { thread * i }).await.unwrap() });
                        assert_eq!(got, thread * i);
                    }
                });
            }
        });
    });
}

#[test]
fn a_panic_goes_through_to_the_caller() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.block_on(async { std::panic::panic_any(3_u8) })
        }));
        let payload = caught.map(|(): ()| ()).unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&3_u8));
        assert!(quadrille::Handle::try_current().is_none());
        assert_eq!(runtime.block_on(async { spawn(async { 4 }).await.unwrap() }), 4);
    });
}

#[test]
fn it_works_on_a_runtime_that_has_ended() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let handle = runtime.handle().clone();
        drop(runtime);
        assert_eq!(handle.block_on(async { 5 }), 5);
        assert!(
            handle
                .block_on(async { spawn(async { 6 }).await })
                .unwrap_err()
                .is_cancelled()
        );
    });
}
