//! Ending a runtime from outside: every task is dropped exactly once, every handle learns of it, nothing hangs.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::{Duration, Instant};

use quadrille::sync::mpmc;
use quadrille::task::yield_now;
use quadrille::{JoinHandle, Runtime};

use crate::child::{assert_passed, child, is_child};
use crate::count::{Count, Token};
use crate::gate::Gate;
use crate::shape::{Shape, for_each_shape, occupy};
use crate::wait::{eventually, patient};

const TASKS: usize = 2000;

fn all_cancelled(handles: Vec<JoinHandle<()>>) {
    for handle in handles {
        assert!(handle.is_finished());
        assert!(futures_lite::future::block_on(handle).unwrap_err().is_cancelled());
    }
}

/// Spawns what `task` makes, ends the runtime, and counts.
fn all_dropped<F>(shape: &Shape, task: impl Fn(usize) -> F, ready: impl FnOnce())
where
    F: Future<Output = ()> + Send + 'static,
{
    let runtime = shape.runtime();
    let drops = Count::default();
    let handles: Vec<_> = (0..TASKS)
        .map(|index| {
            let (token, future) = (drops.token(), task(index));
            runtime.spawn(async move {
                let _token = token;
                future.await;
            })
        })
        .collect();
    ready();
    drop(runtime);
    assert_eq!(drops.get(), TASKS);
    all_cancelled(handles);
}

#[test]
fn of_pending_tasks() {
    for_each_shape(|shape| {
        let gate = Gate::default();
        let waits = gate.clone();
        all_dropped(
            shape,
            |_| gate.pass(),
            move || eventually("all wait", || waits.waiting() == TASKS),
        );
    });
}

#[test]
fn of_tasks_at_every_stage() {
    for_each_shape(|shape| all_dropped(shape, |_| std::future::pending(), || ()));
}

#[test]
fn of_tasks_that_are_always_ready() {
    for_each_shape(|shape| {
        all_dropped(
            shape,
            |_| async {
                loop {
                    yield_now().await;
                }
            },
            || (),
        );
    });
}

#[test]
fn of_tasks_that_wake_each_other() {
    for_each_shape(|shape| {
        let channels: Vec<_> = (0..TASKS).map(|_| mpmc::bounded::<usize>(1)).collect();
        all_dropped(
            shape,
            |index| {
                let receiver = channels[index].1.clone();
                let sender = channels[(index + 1) % TASKS].0.clone();
                async move {
                    if index % 8 == 0 {
                        sender.send(index).await.unwrap();
                    }
                    loop {
                        let message = receiver.recv().await.unwrap();
                        sender.send(message).await.unwrap();
                    }
                }
            },
            || (),
        );
    });
}

#[test]
fn of_tasks_that_are_queued() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let (drops, polls) = (Count::default(), Count::default());
        let occupied = occupy(&runtime);
        let handles: Vec<_> = (0..TASKS)
            .map(|_| {
                let (token, polls) = (drops.token(), polls.clone());
                runtime.spawn(async move {
                    let _token = token;
                    polls.add();
                })
            })
            .collect();
        runtime.shutdown_background();
        let blockers = occupied.release();
        eventually("all are dropped", || drops.get() == TASKS);
        eventually("all handles know", || handles.iter().all(JoinHandle::is_finished));
        assert_eq!(polls.get(), 0, "the runtime was stopped before");
        all_cancelled(handles);
        for blocker in blockers {
            futures_lite::future::block_on(blocker).unwrap();
        }
    });
}

#[test]
fn of_tasks_that_run() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let (finished, later) = (Count::default(), Count::default());
        let occupied = occupy(&runtime);
        let token = later.token();
        let queued = runtime.spawn(async move {
            let _token = token;
            std::future::pending::<()>().await;
        });
        let handle = runtime.handle().clone();
        let released = Arc::new(AtomicBool::new(false));
        let was_released = released.clone();
        let dropper = std::thread::spawn(move || {
            drop(runtime);
            was_released.load(Ordering::SeqCst)
        });
        // No worker is free to end it: it is refused.
        eventually("the runtime stops", || handle.spawn(async {}).is_finished());
        released.store(true, Ordering::SeqCst);
        for blocker in occupied.release() {
            futures_lite::future::block_on(blocker).unwrap();
            finished.add();
        }
        assert!(dropper.join().unwrap(), "running tasks finish their poll first");
        assert_eq!(finished.get(), shape.workers);
        assert_eq!(later.get(), 1);
        all_cancelled(vec![queued]);
    });
}

/// What goes with its thread, last of all, and takes a while.
struct GoesSlowly(#[expect(dead_code, reason = "its drop is counted")] Token);

impl Drop for GoesSlowly {
    fn drop(&mut self) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn workers_are_joined() {
    thread_local!(static LAST: RefCell<Option<GoesSlowly>> = const { RefCell::new(None) });
    for_each_shape(|shape| {
        let ended = Count::default();
        let count = ended.clone();
        let builder = shape
            .builder()
            .on_thread_start(move || LAST.set(Some(GoesSlowly(count.token()))));
        drop(builder.build().unwrap());
        assert_eq!(ended.get(), shape.workers, "threads that have ended");
    });
}

#[test]
fn of_a_runtime_with_nothing_to_do() {
    for_each_shape(|shape| {
        drop(shape.runtime());
        let runtime = shape.runtime();
        assert_eq!(runtime.block_on(async { 1 }), 1);
        drop(runtime);
    });
}

#[test]
fn what_is_spawned_later_is_cancelled() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let handle = runtime.handle().clone();
        drop(runtime);
        let drops = Count::default();
        for _ in 0..10 {
            let token = drops.token();
            let late = handle.spawn(async move { drop(token) });
            assert!(late.is_finished());
            assert!(futures_lite::future::block_on(late).unwrap_err().is_cancelled());
        }
        assert_eq!(drops.get(), 10);
        assert_eq!(handle.worker_count(), shape.workers);
        assert_eq!(handle.metrics().pending_tasks, 0);
    });
}

#[test]
fn a_job_that_is_spawned_later_is_cancelled() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let handle = runtime.handle().clone();
        drop(runtime);
        let (drops, calls) = (Count::default(), Count::default());
        let (token, called) = (drops.token(), calls.clone());
        let late = handle.spawn_blocking(move || {
            let _token = token;
            called.add();
        });
        assert!(futures_lite::future::block_on(late).unwrap_err().is_cancelled());
        assert_eq!((drops.get(), calls.get()), (1, 0));
    });
}

#[test]
fn in_the_background_it_waits_for_nothing() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let drops = Count::default();
        let token = drops.token();
        let waiting = runtime.spawn(async move {
            let _token = token;
            std::future::pending::<()>().await;
        });
        let occupied = occupy(&runtime);
        let job = Gate::default();
        let blocked = job.clone();
        let job_task = runtime.spawn_blocking(move || blocked.block());
        runtime.shutdown_background();
        // All of this would hang if it had waited.
        assert!(!waiting.is_finished());
        drop(occupied.release());
        eventually("the task is dropped", || drops.get() == 1);
        assert!(futures_lite::future::block_on(waiting).unwrap_err().is_cancelled());
        job.open();
        // It had begun or it had not; its handle knows in either case.
        let _ = futures_lite::future::block_on(job_task);
    });
}

#[test]
fn a_job_is_waited_for_up_to_the_limit() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let (started, release) = (Gate::default(), Gate::default());
        let (starts, released) = (started.clone(), release.clone());
        let job = runtime.spawn_blocking(move || {
            starts.open();
            released.block();
            5
        });
        let late = runtime.spawn(std::future::pending::<()>());
        started.block();
        let begin = Instant::now();
        let left = runtime.shutdown_timeout(Duration::from_millis(20));
        // On a loaded machine a worker may not have left in time.
        assert_eq!((left.blocking_threads, left.threads.len()), (1, 0));
        assert!(begin.elapsed() >= Duration::from_millis(20));
        eventually("the task is dropped", || late.is_finished());
        all_cancelled(vec![late]);
        release.open();
        assert_eq!(futures_lite::future::block_on(job).unwrap(), 5);
    });
}

#[test]
fn a_stuck_worker_is_waited_for_up_to_the_limit() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let drops = Count::default();
        let token = drops.token();
        let (started, release) = (Gate::default(), Gate::default());
        let (starts, released) = (started.clone(), release.clone());
        let stuck = quadrille::thread::Builder::new().name("stuck".to_owned());
        let stuck = stuck.spawn_on(
            move || {
                let _token = token;
                starts.open();
                released.block();
            },
            runtime.handle(),
        );
        started.block();
        let begin = Instant::now();
        let left = runtime.shutdown_timeout(Duration::from_millis(20));
        assert!(begin.elapsed() >= Duration::from_millis(20));
        // The others wait for the one that is stuck, to unwind together.
        assert_eq!((left.workers, left.blocking_threads), (shape.workers, 0));
        assert_eq!(left.threads.len(), 1);
        assert_eq!(left.threads[0].name.as_deref(), Some("stuck"));
        assert!(!left.is_empty() && left.to_string().contains("stuck"), "{left}");
        assert_eq!(drops.get(), 0);
        release.open();
        stuck.unwrap().join().unwrap();
        eventually("it is dropped", || drops.get() == 1);
    });
}

/// Blocks when dropped, until its gate is open.
struct Blocking(Gate);

impl Drop for Blocking {
    fn drop(&mut self) {
        self.0.block();
    }
}

thread_local!(static HELD_UP_BY: RefCell<Option<Blocking>> = const { RefCell::new(None) });

/// Workers and a thread of the pool have gone, but for a destructor of a thread-local that takes its time: it is not
/// theirs.
#[test]
fn thread_locals_are_not_waited_for_with_a_limit() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let release = Gate::default();
        let blocking = || Blocking(release.clone());
        let (on_worker, in_pool) = (blocking(), blocking());
        let task = runtime.spawn(async move { HELD_UP_BY.set(Some(on_worker)) });
        let job = runtime.spawn_blocking(move || HELD_UP_BY.set(Some(in_pool)));
        futures_lite::future::block_on(task).unwrap();
        futures_lite::future::block_on(job).unwrap();
        // This would hang if it had joined them.
        let left = runtime.shutdown_timeout(Duration::from_secs(600));
        assert!(left.is_empty(), "{left}");
        release.open();
    });
}

#[test]
fn a_job_that_ends_in_time_is_joined() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let drops = Count::default();
        let (started, token) = (Gate::default(), drops.token());
        let starts = started.clone();
        let job = runtime.spawn_blocking(move || {
            let _token = token;
            starts.open();
        });
        started.block();
        assert!(runtime.shutdown_timeout(Duration::from_secs(60)).is_empty());
        assert_eq!(drops.get(), 1);
        futures_lite::future::block_on(job).unwrap();
    });
}

#[test]
fn a_blocked_thread_learns_of_the_end() {
    for_each_shape(|shape| {
        let runtime: Runtime = shape.runtime();
        let handle = runtime.handle().clone();
        let waiting = runtime.spawn(std::future::pending::<()>());
        let polled = Gate::default();
        let begun = polled.clone();
        let blocked = std::thread::spawn(move || {
            let mut waiting = waiting;
            handle.block_on(std::future::poll_fn(move |cx| {
                let result = std::pin::Pin::new(&mut waiting).poll(cx);
                begun.open();
                match result {
                    Poll::Ready(result) => Poll::Ready(result),
                    Poll::Pending => Poll::Pending,
                }
            }))
        });
        polled.block();
        drop(runtime);
        assert!(blocked.join().unwrap().unwrap_err().is_cancelled());
    });
}

/// Standard error is locked for so long that the thread of the trace comes to its line, and can't print it.
#[test]
fn no_end_waits_for_a_line_of_the_trace() {
    const NAME: &str = "no_end_waits_for_a_line_of_the_trace";
    if !is_child() {
        let output = child(module_path!(), NAME, "1").env("QUADRILLE_TRACE", "1ms").output();
        return assert_passed(&output.unwrap());
    }
    let ends: [fn(Runtime); 3] = [
        |runtime| drop(runtime.shutdown_timeout(Duration::ZERO)),
        Runtime::shutdown_background,
        drop,
    ];
    let errors = std::io::stderr().lock();
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        for round in 0..10 {
            for (way, end) in ends.into_iter().enumerate() {
                let runtime = Runtime::builder().worker_threads(1).build().unwrap();
                // If the line comes later all the same, the round shows less.
                runtime.block_on(async { quadrille::time::sleep(Duration::from_millis(5)).await });
                end(runtime);
                sender.send((round, way)).unwrap();
            }
        }
    });
    let limit = patient(Duration::from_secs(30));
    let mut ended = Vec::new();
    while ended.len() < 30 {
        let end = receiver.recv_timeout(limit);
        ended.push(end.unwrap_or_else(|error| panic!("{error} after {:?}", ended.last())));
    }
    drop(errors);
    thread.join().unwrap();
}
