//! `block_on`: on which threads, with which futures, woken from where.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use quadrille::coop::{consume_budget, has_budget_remaining, unconstrained};
use quadrille::sync::{CancellationToken, mpmc};
use quadrille::task::block_in_place;
use quadrille::time::{sleep, timeout};
use quadrille::{Runtime, Wait as _, join, select, spawn};

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
        let all = runtime.block_on(poll_fn(|cx| {
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
        let caught = catch_unwind(AssertUnwindSafe(|| {
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

/// Never out of work, and never waiting: only the budget makes it give way.
async fn never_ends() {
    let (sender, receiver) = mpmc::bounded(4);
    loop {
        sender.send(1).await.unwrap();
        receiver.recv().await.unwrap();
    }
}

#[test]
fn a_future_that_is_always_ready_does_not_hold_off_what_is_due() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let limit = Duration::from_millis(2);
        assert!(runtime.block_on(async { timeout(limit, never_ends()).await }).is_err());
        // Told by the timer alone, which is a branch of its own.
        runtime.block_on(async {
            select! {
                () = never_ends() => unreachable!(),
                () = sleep(limit) => {}
            }
        });
        // Told by a task.
        runtime.block_on(async {
            let token = CancellationToken::new();
            let cancels = token.clone();
            drop(spawn(async move { cancels.cancel() }));
            assert!(token.run_until_cancelled(never_ends()).await.is_none());
        });
        // The same by an ordinary thread, in a runtime and without.
        assert!(never_ends().wait_timeout(limit).is_err());
        let entered = runtime.enter();
        assert!(never_ends().wait_timeout(limit).is_err());
        assert!(timeout(limit, never_ends()).wait().is_err());
        drop(entered);
        // Where no worker is left who could look at timers.
        let handle = runtime.handle().clone();
        drop(runtime);
        assert!(handle.block_on(async { timeout(limit, never_ends()).await }).is_err());
    });
}

/// One that waits for the other inside of one `block_on`.
#[test]
fn its_futures_take_turns() {
    for_each_shape(|shape| {
        shape.runtime().block_on(async {
            let is_done = Cell::new(false);
            let spins = async {
                while !is_done.get() {
                    consume_budget().await;
                }
            };
            join!(spins, async {
                quadrille::task::yield_now().await;
                is_done.set(true);
            });
        });
    });
}

/// How many polls `future` takes that spends ten thousand units.
async fn polls_of_ten_thousand() -> usize {
    let mut spends = Box::pin(async {
        for _ in 0..10_000 {
            consume_budget().await;
        }
    });
    let mut polls = 0;
    poll_fn(|cx| {
        polls += 1;
        spends.as_mut().poll(cx)
    })
    .await;
    polls
}

#[test]
fn it_has_the_budget_of_its_runtime() {
    const POLLS: usize = 10_000_usize.div_ceil(128);
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        assert_eq!(runtime.block_on(polls_of_ten_thousand()), POLLS);
        assert_eq!(runtime.block_on(unconstrained(polls_of_ten_thousand())), 1);
        assert_eq!(polls_of_ten_thousand().wait(), POLLS);
        let entered = runtime.enter();
        assert_eq!(polls_of_ten_thousand().wait(), POLLS);
        drop(entered);
        let handle = runtime.handle().clone();
        let in_pool = runtime.spawn_blocking(move || {
            let polls = handle.block_on(polls_of_ten_thousand());
            (polls, spends_without_limit())
        });
        assert_eq!(runtime.block_on(in_pool).unwrap(), (POLLS, true));
        assert!(spends_without_limit());
    });
    for (budget, polls) in [("budget=10", 1000), ("budget=255", 1)] {
        let runtime = Runtime::builder().config(budget.parse().unwrap()).build().unwrap();
        assert_eq!(runtime.block_on(polls_of_ten_thousand()), polls);
    }
}

/// Whether the calling code has no budget to mind: it polls once what spends a thousand units.
fn spends_without_limit() -> bool {
    let spends = async {
        for _ in 0..1000 {
            consume_budget().await;
        }
    };
    futures_lite::future::block_on(futures_lite::future::poll_once(spends)).is_some()
}

/// Whichever way the inner one ends, what is left of the outer one's budget is what was left.
#[test]
fn one_inside_of_another_has_a_budget_of_its_own() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let handle = runtime.handle().clone();
        let nested = || {
            assert_eq!(handle.block_on(polls_of_ten_thousand()), 10_000_usize.div_ceil(128));
            let panics = || {
                handle.block_on(async {
                    consume_budget().await;
                    std::panic::panic_any(3_u8)
                })
            };
            assert!(catch_unwind(AssertUnwindSafe(panics)).map(|(): ()| ()).is_err());
        };
        let left_around = |nested: &dyn Fn()| {
            let mut left = 0;
            runtime.block_on(async {
                // Begins with a budget that is full.
                quadrille::task::yield_now().await;
                for _ in 0..100 {
                    consume_budget().await;
                }
                nested();
                left = units_left().await;
            });
            left
        };
        assert_eq!(left_around(&|| ()), 28);
        assert_eq!(left_around(&nested), 28);
        // In a task that blocks in place: it has no limit, the poll inside has one, and the task what it had.
        let handle = runtime.handle().clone();
        let task = runtime.spawn(async move {
            quadrille::task::yield_now().await;
            for _ in 0..100 {
                consume_budget().await;
            }
            let inside = block_in_place(|| (handle.block_on(polls_of_ten_thousand()), spends_without_limit()));
            (inside, units_left().await)
        });
        let expected = ((10_000_usize.div_ceil(128), true), 28);
        assert_eq!(runtime.block_on(task).unwrap(), expected);
    });
}

/// Spends what is left of the poll's budget, and says how much that was.
async fn units_left() -> usize {
    let mut left = 0;
    while has_budget_remaining() {
        consume_budget().await;
        left += 1;
    }
    left
}
