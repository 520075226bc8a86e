//! Timers whose runtime stops while somebody waits for them who is no task of it: they end at their deadlines all the
//! same.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::thread;
use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use quadrille::task::block_in_place;
use quadrille::time::{self, interval, sleep, timeout};
use quadrille::{Handle, Runtime};

use crate::count::Count;
use crate::gate::Gate;
use crate::shape::{Shape, for_each_shape_if};
use crate::wait::watched;

/// Long enough for a runtime to stop before it is over.
const SHORT: Duration = Duration::from_millis(50);

/// Late enough never to come within a test.
const LONG: Duration = Duration::from_secs(1000);

/// Waits for `future`, and opens the gate once that was polled: on a machine that stalls it may be ready by then.
async fn telling<F: Future>(waits: Gate, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let polled = future.as_mut().poll(cx);
        waits.open();
        polled
    })
    .await
}

/// Runs `scenario` on small shapes.
fn for_small_shapes(scenario: impl Fn(&Shape) + Send + Sync + 'static) {
    for_each_shape_if(|shape| shape.workers <= 4, scenario);
}

/// One of each kind, one after the other. How long it took.
async fn timers_of_all_kinds() -> Duration {
    let start = Instant::now();
    sleep(SHORT / 5).await;
    assert!(timeout(SHORT / 5, pending::<()>()).await.is_err());
    let mut ticks = interval(SHORT / 5);
    for _ in 0..4 {
        ticks.tick().await;
    }
    start.elapsed()
}

#[test]
fn a_closure_that_may_block_waits_to_its_end() {
    for_small_shapes(|shape| {
        let runtime = shape.runtime();
        let waits = Gate::default();
        let tell = waits.clone();
        let job = runtime
            .spawn_blocking(move || Handle::current().block_on(async { telling(tell, timers_of_all_kinds()).await }));
        waits.block();
        drop(runtime);
        assert!(job.is_finished(), "the runtime has waited for it");
        assert!(block_on(job).unwrap() >= SHORT);
    });
}

/// What it polls it polls on a worker, whose store is closed when it is woken for the stop.
#[test]
fn an_executor_of_another_library_inside_of_a_task_waits_to_its_end() {
    for_small_shapes(|shape| {
        let runtime = shape.runtime();
        let (waits, ended) = (Gate::default(), Count::default());
        let (tell, counted) = (waits.clone(), ended.clone());
        drop(runtime.spawn(async move {
            let start = Instant::now();
            block_on(telling(tell, sleep(SHORT)));
            assert!(start.elapsed() >= SHORT);
            counted.add();
        }));
        waits.block();
        drop(runtime);
        assert_eq!(ended.get(), 1);
    });
}

#[test]
fn timers_that_are_made_after_the_stop_end_too() {
    for_small_shapes(|shape| {
        let runtime = shape.runtime();
        let (begun, gate) = (Gate::default(), Gate::default());
        let (tell, stopped) = (begun.clone(), gate.clone());
        let job = runtime.spawn_blocking(move || {
            tell.open();
            stopped.block();
            Handle::current().block_on(timers_of_all_kinds())
        });
        begun.block();
        runtime.shutdown_background();
        gate.open();
        assert!(block_on(job).unwrap() >= SHORT);
    });
}

#[test]
fn a_task_that_blocks_in_place_waits_to_its_end() {
    for_small_shapes(|shape| {
        let runtime = shape.runtime();
        let (waits, ended) = (Gate::default(), Count::default());
        let (tell, counted) = (waits.clone(), ended.clone());
        drop(runtime.spawn(async move {
            block_in_place(|| {
                Handle::current().block_on(async { telling(tell, timers_of_all_kinds()).await });
                counted.add();
            });
        }));
        waits.block();
        drop(runtime);
        assert_eq!(ended.get(), 1);
    });
}

#[test]
fn a_bound_holds_on_a_thread_in_block_on() {
    for_small_shapes(|shape| {
        let runtime = shape.runtime();
        let waits = Gate::default();
        let (tell, handle) = (waits.clone(), runtime.handle().clone());
        let thread =
            thread::spawn(move || handle.block_on(async { telling(tell, timeout(SHORT, pending::<()>())).await }));
        waits.block();
        drop(runtime);
        assert!(thread.join().unwrap().is_err());
    });
}

#[test]
fn a_thread_that_polls_by_another_library_is_woken() {
    for_small_shapes(|shape| {
        let runtime = shape.runtime();
        let timer = runtime.block_on(async { (sleep(SHORT),) }).0;
        let deadline = timer.deadline();
        let waits = Gate::default();
        let tell = waits.clone();
        let thread = thread::spawn(move || block_on(telling(tell, timer)));
        waits.block();
        drop(runtime);
        thread.join().unwrap();
        assert!(time::Instant::now() >= deadline);
    });
}

#[test]
fn a_task_of_another_runtime_is_woken() {
    for_small_shapes(|shape| {
        let (runtime, other) = (shape.runtime(), shape.runtime());
        let (early, late) = runtime.block_on(async { (sleep(SHORT), sleep(SHORT)) });
        let deadline = late.deadline();
        let waits = Gate::default();
        let task = other.spawn(telling(waits.clone(), early));
        waits.block();
        drop(runtime);
        let late = other.spawn(late);
        other.block_on(async {
            task.await.unwrap();
            late.await.unwrap();
        });
        assert!(time::Instant::now() >= deadline);
    });
}

/// Neither one that has been polled by then nor one that has not.
#[test]
fn a_timer_is_moved_after_its_runtime_has_stopped() {
    for_small_shapes(|shape| {
        let runtime = shape.runtime();
        let handle = runtime.handle().clone();
        let mut timer = handle.block_on(async { (sleep(LONG),) }).0;
        let once = |timer: &mut time::Sleep| block_on(poll_fn(|cx| std::task::Poll::Ready(pin!(&mut *timer).poll(cx))));
        assert!(once(&mut timer).is_pending());
        drop(runtime);
        assert!(once(&mut timer).is_pending());
        timer.reset(time::Instant::now() + SHORT);
        block_on(&mut timer);
        timer.reset(time::Instant::now() + LONG);
        assert!(once(&mut timer).is_pending());
        drop(handle);
        timer.reset(time::Instant::now() + SHORT);
        block_on(&mut timer);
        assert!(timer.is_elapsed());
    });
}

/// Its own tasks are dropped; to wake them first would be for nothing.
#[test]
fn a_task_is_not_woken_because_its_runtime_stops() {
    for_small_shapes(|shape| {
        let runtime = shape.runtime();
        let (polls, waits, drops) = (Count::default(), Gate::default(), Count::default());
        let (counted, tell, token) = (polls.clone(), waits.clone(), drops.token());
        drop(runtime.spawn(async move {
            let _token = token;
            let mut timer = pin!(sleep(LONG));
            telling(
                tell,
                poll_fn(|cx| {
                    counted.add();
                    timer.as_mut().poll(cx)
                }),
            )
            .await;
        }));
        waits.block();
        drop(runtime);
        assert_eq!((polls.get(), drops.get()), (1, 1));
    });
}

/// What is left by it is waited for in real time.
#[test]
fn a_paused_clock_goes_on_when_its_runtime_stops() {
    watched("paused", || {
        let runtime = Runtime::builder().start_paused(true).build().unwrap();
        let (begun, waits, gate) = (Gate::default(), Gate::default(), Gate::default());
        let (at_work, stopped) = (begun.clone(), gate.clone());
        // While this one is at work the clock stands.
        let loops = runtime.spawn_blocking(move || {
            Handle::current().block_on(time::advance(LONG));
            at_work.open();
            stopped.block();
            let start = time::Instant::now();
            while start.elapsed() < SHORT {
                Handle::current().block_on(sleep(Duration::from_millis(1)));
            }
            Handle::current().block_on(timers_of_all_kinds())
        });
        begun.block();
        let tell = waits.clone();
        let sleeps = runtime.spawn_blocking(move || {
            let start = Instant::now();
            Handle::current().block_on(async { telling(tell, sleep(SHORT)).await });
            start.elapsed()
        });
        waits.block();
        assert!(!sleeps.is_finished());
        let stops = thread::spawn(move || drop(runtime));
        assert!(block_on(sleeps).unwrap() >= SHORT);
        gate.open();
        assert!(block_on(loops).unwrap() >= SHORT / 5);
        stops.join().unwrap();
    });
}
