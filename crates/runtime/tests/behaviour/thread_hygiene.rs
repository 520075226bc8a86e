//! After a runtime has gone, none of its threads is left.

use std::fs;
use std::time::Duration;

use quadrille::Runtime;

use crate::gate::Gate;
use crate::shape::{Shape, for_each_shape, occupy};
use crate::wait::eventually;

/// Threads of this process whose name begins with `prefix`. The kernel keeps 15 bytes of a name.
fn threads(prefix: &str) -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.starts_with(prefix))
        .count()
}

/// A runtime whose workers have all run something, and whose pool has a thread.
fn busy_runtime(shape: &Shape, prefix: &str) -> Runtime {
    let runtime = shape.builder().thread_name(prefix).build().unwrap();
    drop(occupy(&runtime).release());
    runtime.block_on(runtime.spawn_blocking(|| ())).unwrap();
    // Not at once: a listing of /proc that threads of other tests leave meanwhile may miss some of ours.
    eventually("the workers and a thread of the pool", || {
        threads(prefix) > shape.workers
    });
    runtime
}

#[test]
fn when_it_is_dropped() {
    for_each_shape(|shape| {
        drop(busy_runtime(shape, "hyg-drop"));
        eventually("no thread is left", || threads("hyg-drop") == 0);
    });
}

#[test]
fn when_it_is_dropped_while_a_handle_lives() {
    for_each_shape(|shape| {
        let runtime = busy_runtime(shape, "hyg-held");
        let handle = runtime.handle().clone();
        drop(runtime);
        eventually("no thread is left", || threads("hyg-held") == 0);
        assert_eq!(handle.worker_count(), shape.workers);
    });
}

#[test]
fn when_it_is_dropped_inside_a_task() {
    for_each_shape(|shape| {
        let runtime = busy_runtime(shape, "hyg-own");
        let handle = runtime.handle().clone();
        let ender = handle.spawn(async move { drop(runtime) });
        futures_lite::future::block_on(ender).unwrap();
        eventually("no thread is left", || threads("hyg-own") == 0);
    });
}

#[test]
fn when_it_ends_in_the_background() {
    for_each_shape(|shape| {
        let runtime = busy_runtime(shape, "hyg-back");
        let handle = runtime.handle().clone();
        runtime.shutdown_background();
        eventually("no thread is left", || threads("hyg-back") == 0);
        drop(handle);
    });
}

#[test]
fn when_it_ends_with_a_limit() {
    for_each_shape(|shape| {
        let runtime = shape.builder().thread_name("hyg-limit").build().unwrap();
        let (started, release) = (Gate::default(), Gate::default());
        let (starts, released) = (started.clone(), release.clone());
        drop(runtime.spawn_blocking(move || {
            starts.open();
            released.block();
        }));
        started.block();
        assert_eq!(runtime.shutdown_timeout(Duration::ZERO).blocking_threads, 1);
        eventually("the job's thread alone is left", || threads("hyg-limit") == 1);
        release.open();
        eventually("no thread is left", || threads("hyg-limit") == 0);
    });
}

#[test]
fn when_it_could_not_be_built() {
    let error = Runtime::builder()
        .worker_threads(0)
        .thread_name("hyg-none")
        .build()
        .unwrap_err();
    assert_eq!(error.to_string(), "the number of workers is 0, expected 1 to 4096");
    let error = Runtime::builder()
        .worker_threads(5000)
        .thread_name("hyg-none")
        .build()
        .unwrap_err();
    assert_eq!(error.to_string(), "the number of workers is 5000, expected 1 to 4096");
    let error = Runtime::builder()
        .user_thread_stack_size((1 << 30) + 1)
        .thread_name("hyg-none")
        .build()
        .unwrap_err();
    let expected = "no user-level thread could be spawned: a stack of 1073741825 bytes is larger than the maximum, 1073741824 bytes";
    assert_eq!(error.to_string(), expected);
    assert_eq!(threads("hyg-none"), 0);
}

#[test]
fn a_name_that_threads_cannot_have_is_one_clear_error() {
    let error = Runtime::builder().thread_name("a\0b").build().unwrap_err();
    assert!(error.to_string().contains(r#""a\0b""#), "{error}");
}
