//! Jobs that may block, seen through the runtime.

use std::time::Duration;

use quadrille::{Handle, JoinHandle, Runtime, spawn, spawn_blocking};

use crate::count::{Count, OnDrop};
use crate::gate::Gate;
use crate::shape::for_each_shape;
use crate::wait::eventually;

/// A job that runs; opening the gate ends it, with the result 5.
pub(crate) fn running(runtime: &Runtime) -> (JoinHandle<u8>, Gate) {
    let (started, release) = (Gate::default(), Gate::default());
    let (starts, released) = (started.clone(), release.clone());
    let job = runtime.spawn_blocking(move || {
        starts.open();
        released.block();
        5
    });
    started.block();
    (job, release)
}

#[test]
fn a_job_gives_its_result() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        assert_eq!(runtime.block_on(runtime.spawn_blocking(|| 1)).unwrap(), 1);
        let sum = runtime.block_on(async {
            let jobs: Vec<_> = (0..100).map(|i| spawn_blocking(move || i)).collect();
            let mut sum = 0;
            for job in jobs {
                sum += job.await.unwrap();
            }
            sum + spawn(async { spawn_blocking(|| 50).await.unwrap() }).await.unwrap()
        });
        assert_eq!(sum, 5000);
    });
}

#[test]
fn a_job_blocks_no_worker() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let gate = Gate::default();
        let jobs: Vec<_> = (0..shape.workers + 1)
            .map(|_| {
                let gate = gate.clone();
                runtime.spawn_blocking(move || gate.block())
            })
            .collect();
        let opens = gate.clone();
        runtime.block_on(runtime.spawn(async move { opens.open() })).unwrap();
        for job in jobs {
            runtime.block_on(job).unwrap();
        }
        assert!(gate.is_open());
    });
}

#[test]
fn a_job_that_panics_tells_its_joiner() {
    for_each_shape(|shape| {
        let runtime = shape.builder().max_blocking_threads(1).build().unwrap();
        for _ in 0..3 {
            let job = runtime.spawn_blocking(|| std::panic::panic_any(9_u8));
            let error = runtime.block_on(job).map(|(): ()| ()).unwrap_err();
            assert_eq!(error.into_panic().downcast_ref(), Some(&9_u8));
        }
        assert_eq!(runtime.block_on(runtime.spawn_blocking(|| 2)).unwrap(), 2);
    });
}

#[test]
fn jobs_that_have_not_begun_are_cancelled_by_the_end() {
    for_each_shape(|shape| {
        let runtime = shape.builder().max_blocking_threads(1).build().unwrap();
        let (first, release) = running(&runtime);
        let (drops, calls) = (Count::default(), Count::default());
        let queued: Vec<_> = (0..20)
            .map(|_| {
                let (token, calls) = (drops.token(), calls.clone());
                runtime.spawn_blocking(move || {
                    let _token = token;
                    calls.add();
                })
            })
            .collect();
        assert_eq!(runtime.shutdown_timeout(Duration::ZERO).blocking_threads, 1);
        for job in queued {
            assert!(futures_lite::future::block_on(job).unwrap_err().is_cancelled());
        }
        assert_eq!((drops.get(), calls.get()), (20, 0));
        release.open();
        assert_eq!(futures_lite::future::block_on(first).unwrap(), 5);
    });
}

#[test]
fn a_job_is_aborted_only_before_it_begins() {
    for_each_shape(|shape| {
        let runtime = shape.builder().max_blocking_threads(1).build().unwrap();
        let (first, release) = running(&runtime);
        let calls = Count::default();
        let called = calls.clone();
        let second = runtime.spawn_blocking(move || called.add());
        first.abort();
        second.abort();
        release.open();
        assert_eq!(runtime.block_on(first).unwrap(), 5);
        assert!(runtime.block_on(second).unwrap_err().is_cancelled());
        assert_eq!(calls.get(), 0);
    });
}

#[test]
fn a_job_spawns_tasks_and_jobs() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let handle = runtime.handle().clone();
        let job = runtime.spawn_blocking(move || {
            let task = handle.spawn(async { 1 });
            let inner = handle.clone();
            let job = handle.spawn_blocking(move || inner.block_on(inner.spawn(async { 2 })).unwrap());
            handle.block_on(async { task.await.unwrap() + job.await.unwrap() })
        });
        assert_eq!(runtime.block_on(job).unwrap(), 3);
    });
}

#[test]
fn a_job_knows_its_runtime() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let job = runtime.spawn_blocking(|| {
            let task = spawn(async { 1 });
            (
                Handle::current().worker_count(),
                Handle::current().block_on(task).unwrap(),
            )
        });
        assert_eq!(runtime.block_on(job).unwrap(), (shape.workers, 1));
    });
}

#[test]
fn a_jobs_captures_are_dropped_once_whatever_their_destructors_do() {
    for_each_shape(|shape| {
        let runtime = shape.builder().max_blocking_threads(1).build().unwrap();
        let drops = Count::default();
        for _ in 0..5 {
            let token = drops.token();
            let guard = OnDrop::new(move || {
                let _token = token;
                panic!("a destructor panics");
            });
            let job = runtime.spawn_blocking(move || {
                let _guard = &guard;
            });
            assert!(runtime.block_on(job).unwrap_err().is_panic());
        }
        eventually("all are dropped", || drops.get() == 5);
        assert_eq!(runtime.block_on(runtime.spawn_blocking(|| 2)).unwrap(), 2);
    });
}

#[test]
fn the_pool_is_counted() {
    let runtime = Runtime::builder()
        .worker_threads(1)
        .max_blocking_threads(1)
        .build()
        .unwrap();
    let count = || runtime.metrics().blocking;
    assert_eq!((count().threads, count().jobs), (0, 0));
    let (started, release) = (Gate::default(), Gate::default());
    let (starts, released) = (started.clone(), release.clone());
    let first = runtime.spawn_blocking(move || {
        starts.open();
        released.block();
    });
    started.block();
    let second = runtime.spawn_blocking(|| ());
    let full = count();
    assert_eq!((full.threads, full.idle_threads, full.queued), (1, 0, 1));
    assert_eq!((full.threads_started, full.jobs), (1, 2));
    release.open();
    runtime.block_on(async { (first.await.unwrap(), second.await.unwrap()) });
    eventually("the thread is idle", || count().idle_threads == 1);
    assert_eq!((count().threads, count().queued, count().jobs), (1, 0, 2));
}
