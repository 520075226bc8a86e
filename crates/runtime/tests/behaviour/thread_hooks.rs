//! What is asked of every thread of a runtime: calls when it starts and stops, and the size of its stack.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::thread;

use quadrille::{Handle, Runtime};

/// By the name of a thread: how often it has started and stopped.
type Log = Arc<Mutex<BTreeMap<String, (u32, u32)>>>;

/// A runtime whose threads enter themselves into the log.
fn logged(log: &Log) -> Runtime {
    let note = |stops: bool| {
        let log = log.clone();
        move || {
            assert!(Handle::try_current().is_none(), "no runtime is current");
            let name = thread::current().name().unwrap().to_owned();
            let mut log = log.lock().unwrap();
            let (started, stopped) = log.entry(name).or_default();
            if stops {
                *stopped += 1;
            } else {
                *started += 1;
            }
        }
    };
    Runtime::builder()
        .worker_threads(3)
        .thread_name("hooked")
        .on_thread_start(note(false))
        .on_thread_stop(note(true))
        .build()
        .unwrap()
}

#[test]
fn each_thread_starts_and_stops_once() {
    let log = Log::default();
    let runtime = logged(&log);
    let seen = log.clone();
    // On a thread of the pool, whose start is over then.
    let in_pool = runtime.block_on(runtime.spawn_blocking(move || seen.lock().unwrap()["hooked-blocking-0"]));
    assert_eq!(in_pool.unwrap(), (1, 0));
    for worker in 0..3 {
        let seen = log.clone();
        let look = move || async move { seen.lock().unwrap()[thread::current().name().unwrap()] };
        let on_worker = runtime.block_on(runtime.handle().spawn_pinned_on(worker, look));
        assert_eq!(on_worker.unwrap(), (1, 0));
    }
    drop(runtime);
    let names = ["hooked-0", "hooked-1", "hooked-2", "hooked-blocking-0"];
    let expected = names.map(|name| (name.to_owned(), (1, 1)));
    assert_eq!(*log.lock().unwrap(), BTreeMap::from(expected));
}

#[test]
fn hooks_that_panic_hold_up_nothing() {
    let runtime = Runtime::builder()
        .worker_threads(2)
        .on_thread_start(|| panic!("a start that fails, for the test"))
        .on_thread_stop(|| panic!("a stop that fails, for the test"))
        .build()
        .unwrap();
    let task = runtime.spawn(async { quadrille::spawn_blocking(|| 1).await.unwrap() });
    assert_eq!(runtime.block_on(task).unwrap(), 1);
    let left = runtime.shutdown_timeout(std::time::Duration::from_secs(600));
    assert!(left.is_empty(), "{left}");
}

/// More than the 2 MiB that std gives.
fn needs_a_large_stack() -> u64 {
    black_box(&[1_u8; 6 << 20]).iter().map(|byte| u64::from(*byte)).sum()
}

#[test]
fn stacks_are_as_large_as_asked_for() {
    let runtime = Runtime::builder()
        .worker_threads(2)
        .thread_stack_size(16 << 20)
        .build()
        .unwrap();
    for worker in 0..2 {
        let deep = runtime
            .handle()
            .spawn_pinned_on(worker, || async { needs_a_large_stack() });
        assert_eq!(runtime.block_on(deep).unwrap(), 6 << 20);
    }
    let deep = runtime.spawn_blocking(needs_a_large_stack);
    assert_eq!(runtime.block_on(deep).unwrap(), 6 << 20);
}
