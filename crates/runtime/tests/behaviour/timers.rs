//! Timers of workers: never early, and not held up by a worker that is.

use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use quadrille::Runtime;
use quadrille::task::yield_now;
use quadrille::time::{Instant, sleep, sleep_until, timeout};

use crate::count::Count;
use crate::gate::Gate;
use crate::shape::{Shape, for_each_shape, for_each_shape_if};
use crate::wait::eventually;

/// Late enough never to come within a test.
const LONG: Duration = Duration::from_secs(1000);

/// Tasks that sleep set their timers on some worker, which is held up before they have expired, and until they have.
fn held_up(shape: &Shape, sleepers: usize, others: impl Fn(&Runtime, &Gate)) -> Runtime {
    let runtime = shape.runtime();
    let (gate, set, fired) = (Gate::default(), Count::default(), Count::default());
    others(&runtime, &gate);
    let (block, inner) = (gate.clone(), fired.clone());
    let counted = set.clone();
    let holder = runtime.spawn(async move {
        for _ in 0..sleepers {
            let (set, fired) = (counted.clone(), inner.clone());
            drop(quadrille::spawn(async move {
                set.add();
                sleep(Duration::from_millis(3)).await;
                fired.add();
            }));
        }
        while counted.get() < sleepers {
            yield_now().await;
        }
        block.block();
    });
    eventually("all timers fire beside the one that is stuck", || {
        fired.get() == sleepers
    });
    assert!(!holder.is_finished());
    gate.open();
    runtime.block_on(holder).unwrap();
    runtime
}

#[test]
fn a_stuck_worker_does_not_hold_up_its_timers() {
    for_each_shape_if(
        |shape| shape.workers > 1,
        |shape| {
            for _ in 0..10 {
                held_up(shape, 5, |_, _| ());
            }
        },
    );
}

/// The others are busy with short tasks, and so never sleep.
#[test]
fn busy_workers_look_after_the_timers_of_a_stuck_one() {
    for_each_shape_if(
        |shape| (2..=16).contains(&shape.workers),
        |shape| {
            held_up(shape, 20, |runtime, gate| {
                for _ in 0..2 * runtime.handle().worker_count() {
                    let gate = gate.clone();
                    drop(runtime.spawn(async move {
                        while !gate.is_open() {
                            yield_now().await;
                        }
                    }));
                }
            });
        },
    );
}

/// Nobody but those who set timers is there; each of them gets up for its own.
#[test]
fn no_timer_is_early() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let tasks: Vec<_> = (0..200_u64)
            .map(|number| {
                runtime.spawn(async move {
                    for round in 0..10 {
                        let deadline = Instant::now() + Duration::from_micros((number * 31 + round * 101) % 3000);
                        sleep_until(deadline).await;
                        assert!(Instant::now() >= deadline);
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
        let total = runtime.metrics().total();
        let fired = total.timers + total.timers_pulled + total.timers_overdue;
        // All but those that came before they were set.
        assert!((200..=200 * 10).contains(&fired), "{fired} of 2000");
    });
}

/// Nobody else has anything to do: one worker gets up for the timer, and wakes nobody, where a poll is not worth it.
#[test]
fn a_task_that_sleeps_again_and_again_wakes_one_worker() {
    const SLEEPS: u64 = 50;
    let unparks = || {
        let never_pays = "wake-cost-first=1s,wake-cost-least=1s,wake-cost-most=1s"
            .parse()
            .unwrap();
        let builder = Runtime::builder().worker_threads(2).config(never_pays);
        let runtime = builder.build().unwrap();
        let task = runtime.spawn(async {
            for _ in 0..SLEEPS {
                sleep(Duration::from_millis(2)).await;
            }
        });
        runtime.block_on(task).unwrap();
        runtime.metrics().total().unparks
    };
    // Where the machine has no time for a worker, another one may look after it; that is not always so.
    let counts: Vec<u64> = (0..5).map(|_| unparks()).collect();
    assert!(counts.iter().any(|count| *count < SLEEPS / 5), "{counts:?}");
}

/// A timer from outside the runtime, whatever its workers do.
#[test]
fn threads_outside_have_timers_too() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        thread::scope(|scope| {
            for thread in 0..3_u64 {
                let runtime = &runtime;
                scope.spawn(move || {
                    for round in 0..20 {
                        let start = Instant::now();
                        let duration = Duration::from_micros((thread * 7 + round * 53) % 700);
                        runtime.block_on(async { sleep(duration).await });
                        assert!(start.elapsed() >= duration);
                    }
                });
            }
        });
    });
}

/// Set on a worker, polled with another waker and dropped on ordinary threads.
#[test]
fn timers_are_dropped_anywhere() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let alive = Arc::new(());
            for _ in 0..50 {
                let inner = alive.clone();
                let task = runtime.spawn(async move {
                    let mut timer = Box::pin(async move {
                        sleep(LONG).await;
                        drop(inner);
                    });
                    assert!(timeout(Duration::ZERO, &mut timer).await.is_err());
                    (timer,)
                });
                let (mut timer,) = runtime.block_on(task).unwrap();
                let outcome = runtime.block_on(async { timeout(Duration::from_micros(10), &mut timer).await });
                assert!(outcome.is_err());
                thread::spawn(move || drop(timer)).join().unwrap();
            }
            assert_eq!(Arc::strong_count(&alive), 1);
        },
    );
}

#[test]
fn the_longest_duration_is_waited_for() {
    let runtime = Shape::flat(1).runtime();
    let task = runtime.spawn(async {
        assert!(timeout(Duration::from_millis(1), sleep(Duration::MAX)).await.is_err());
        assert_eq!(timeout(Duration::MAX, async { 42 }).await, Ok(42));
    });
    runtime.block_on(task).unwrap();
}

/// A worker that sleeps gets up once for timers that are near together.
#[test]
fn timers_within_the_slack_fire_together() {
    let sleeps = |slack: Duration| {
        let runtime = Shape::flat(1).builder().timer_slack(slack).build().unwrap();
        let task = runtime.spawn(async {
            let start = Instant::now();
            let sleeper = |ms: u64| async move { sleep_until(start + Duration::from_millis(10 + ms)).await };
            let tasks: Vec<_> = (1..=20).map(|ms| quadrille::spawn(sleeper(ms))).collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        runtime.block_on(task).unwrap();
        runtime.metrics().total().parks
    };
    // All of them within one sleep, which may be interrupted a few times for other reasons.
    assert!(sleeps(LONG) < 10);
    // Without slack in about as many as there are timers, unless the machine has no time for the worker.
    eventually("one sleep a timer without slack", || sleeps(Duration::ZERO) >= 15);
}

/// A `poll` by hand that moves a timer which was ready, and waits to be called, as some of those written for tokio do.
#[test]
fn a_timer_that_was_ready_calls_who_was_told_once_it_is_moved() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let tasks: Vec<_> = (0..10).map(|_| runtime.spawn(three_periods())).collect();
        for task in tasks {
            assert!(runtime.block_on(task).unwrap() >= 2 * PERIOD);
        }
        assert!(runtime.block_on(three_periods()) >= 2 * PERIOD);
    });
}

/// Long enough for the timer to be set before it comes.
const PERIOD: Duration = Duration::from_millis(2);

/// Polls a timer once each time that it is called. How long it took to be called for the third time.
async fn three_periods() -> Duration {
    let start = Instant::now();
    let mut timer = sleep_until(start);
    let mut left = 3;
    poll_fn(|cx| {
        if Pin::new(&mut timer).poll(cx).is_ready() {
            left -= 1;
            timer.reset(Instant::now() + PERIOD);
        }
        if left == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    start.elapsed()
}
