//! What is asked of every thread of a runtime: calls when it starts and stops, and the size of its stack.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Read};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use quadrille::{Handle, Runtime, time};

use crate::child::{assert_passed, child, is_child};
use crate::count::Count;
use crate::gate::Gate;
use crate::wait::watched;

quadrille::thread_local! {
    static NAME: Cell<&'static str> = const { Cell::new("runs") };
}

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

/// A worker's last call is an ordinary thread's: it sends what is left to send, by another runtime.
#[test]
fn what_is_called_when_a_thread_stops_may_block() {
    let other = Runtime::builder().worker_threads(1).build().unwrap();
    let (done, handle) = (Count::default(), other.handle().clone());
    let count = done.clone();
    let stops = move || {
        assert_eq!(
            handle.block_on(async { quadrille::spawn(async { 1 }).await.unwrap() }),
            1
        );
        handle.block_on(async { time::sleep(Duration::from_millis(1)).await });
        drop(quadrille::thread::sync::Mutex::new(()).lock().unwrap());
        quadrille::thread::park_timeout(Duration::from_millis(1));
        assert_eq!(NAME.with(|name| name.replace("stopped")), "runs");
        count.add();
    };
    let runtime = Runtime::builder()
        .worker_threads(2)
        .on_thread_stop(stops)
        .build()
        .unwrap();
    runtime.block_on(runtime.spawn_blocking(|| ())).unwrap();
    drop(runtime);
    assert_eq!(done.get(), 3, "two workers and a thread of the pool");
}

/// The thread of the trace is waited for before the limit of a shutdown begins: nothing of the user's runs on it. The
/// child goes when its input ends, after its first line.
#[test]
fn the_thread_of_the_trace_calls_no_hook() {
    if is_child() {
        let log = Log::default();
        let runtime = logged(&log);
        assert_eq!(io::stdin().read_to_end(&mut Vec::new()).unwrap(), 0);
        let left = runtime.shutdown_timeout(Duration::from_secs(600));
        assert!(left.is_empty(), "{left}");
        let names = ["hooked-0", "hooked-1", "hooked-2"];
        let expected = names.map(|name| (name.to_owned(), (1, 1)));
        assert_eq!(*log.lock().unwrap(), BTreeMap::from(expected));
        return;
    }
    let mut child = child(module_path!(), "the_thread_of_the_trace_calls_no_hook", "1")
        .env("QUADRILLE_TRACE", "10ms")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.as_mut().unwrap()).lines();
    let traced = lines.any(|line| line.unwrap().starts_with("hooked: "));
    drop(child.stdin.take());
    assert_passed(&child.wait_with_output().unwrap());
    assert!(traced, "the trace was on");
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
    let left = runtime.shutdown_timeout(Duration::from_secs(600));
    assert!(left.is_empty(), "{left}");
}

/// Whether the calling thread is one of the blocking pool.
fn is_in_pool() -> bool {
    thread::current().name().is_some_and(|name| name.contains("-blocking-"))
}

/// A runtime with one blocking thread that leaves as soon as it has no job; then it opens `stopping`, and stays until
/// `release` is open.
fn stops_slowly(stopping: &Gate, release: &Gate) -> Runtime {
    let (stopping, release) = (stopping.clone(), release.clone());
    Runtime::builder()
        .worker_threads(1)
        .max_blocking_threads(1)
        .thread_keep_alive(Duration::ZERO)
        .on_thread_stop(move || {
            if is_in_pool() {
                stopping.open();
                release.block();
            }
        })
        .build()
        .unwrap()
}

#[test]
fn a_thread_of_the_pool_counts_until_its_stop_has_returned() {
    let (stopping, release) = (Gate::default(), Gate::default());
    let runtime = stops_slowly(&stopping, &release);
    runtime.block_on(runtime.spawn_blocking(|| ())).unwrap();
    stopping.block();
    let before = runtime.metrics().blocking;
    let released = release.clone();
    let job = runtime.spawn_blocking(move || released.is_open());
    let after = runtime.metrics().blocking;
    release.open();
    assert_eq!((before.threads, before.idle_threads), (1, 0));
    assert_eq!((after.threads, after.queued, after.threads_started), (1, 1, 1));
    assert!(
        runtime.block_on(job).unwrap(),
        "a job ran beside the last act of a thread"
    );
}

#[test]
fn a_shutdown_with_a_limit_does_not_wait_longer_for_a_stop() {
    watched("a shutdown without time, while a thread stops", || {
        let (stopping, release) = (Gate::default(), Gate::default());
        let runtime = stops_slowly(&stopping, &release);
        runtime.block_on(runtime.spawn_blocking(|| ())).unwrap();
        stopping.block();
        let left = runtime.shutdown_timeout(Duration::ZERO);
        release.open();
        assert_eq!(left.blocking_threads, 1, "{left}");
    });
}

/// How many threads of the pool are between their start and their stop, and the most that were.
#[derive(Debug, Default)]
struct Census {
    now: usize,
    most: usize,
    starts: usize,
}

#[test]
fn no_more_threads_than_allowed_are_between_their_hooks() {
    let census = Arc::new(Mutex::new(Census::default()));
    let (comes, goes) = (census.clone(), census.clone());
    let runtime = Runtime::builder()
        .worker_threads(1)
        .max_blocking_threads(2)
        .thread_keep_alive(Duration::ZERO)
        .on_thread_start(move || {
            if is_in_pool() {
                let mut census = comes.lock().unwrap();
                census.now += 1;
                census.most = census.most.max(census.now);
                census.starts += 1;
            }
        })
        .on_thread_stop(move || {
            if is_in_pool() {
                thread::yield_now();
                goes.lock().unwrap().now -= 1;
            }
        })
        .build()
        .unwrap();
    let jobs: Vec<_> = (0..500)
        .map(|number| {
            if number % 3 == 0 {
                thread::yield_now();
            }
            runtime.spawn_blocking(move || number)
        })
        .collect();
    for (number, job) in jobs.into_iter().enumerate() {
        assert_eq!(runtime.block_on(job).unwrap(), number);
    }
    drop(runtime);
    let census = census.lock().unwrap();
    assert_eq!(census.now, 0, "{census:?}");
    assert!((1..=2).contains(&census.most), "{census:?}");
    assert!(census.starts >= 1, "{census:?}");
}

#[test]
fn a_stop_that_panics_leaves_the_place_to_the_next_job() {
    let runtime = Runtime::builder()
        .worker_threads(1)
        .max_blocking_threads(1)
        .thread_keep_alive(Duration::ZERO)
        .on_thread_stop(|| panic!("a stop that fails, for the test"))
        .build()
        .unwrap();
    for number in 0..50 {
        let job = runtime.spawn_blocking(move || number);
        assert_eq!(runtime.block_on(job).unwrap(), number);
    }
    let left = runtime.shutdown_timeout(Duration::from_secs(600));
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

/// A stack of nothing would be one of the system's least, which the first poll overflows.
#[test]
fn a_stack_that_is_too_small_is_made_large_enough() {
    let runtime = Runtime::builder()
        .worker_threads(2)
        .thread_stack_size(0)
        .build()
        .unwrap();
    let panics = runtime.spawn(async { panic!("for the test, {}", std::backtrace::Backtrace::force_capture()) });
    assert!(runtime.block_on(panics).unwrap_err().is_panic());
    let job = runtime.spawn_blocking(|| std::backtrace::Backtrace::force_capture().to_string().len());
    assert!(runtime.block_on(job).unwrap() > 0);
}

#[test]
fn a_stack_that_no_system_has_is_an_error() {
    let error = Runtime::builder()
        .worker_threads(1)
        .thread_stack_size(usize::MAX)
        .build()
        .unwrap_err();
    assert!(
        error.to_string().starts_with("worker 0 of 1 can't be started"),
        "{error}"
    );
}
