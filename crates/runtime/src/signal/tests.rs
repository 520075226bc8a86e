//! Listeners on real runtimes; signals are raised on the thread of the test. Each test has a signal of its own.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::thread;

use futures_lite::future::{block_on, poll_once};

use super::unix::{Signal, SignalKind, signal};
use crate::sync::Barrier;
use crate::sys::signal::raise;
use crate::thread::Wait as _;
use crate::{Runtime, spawn};

fn runtime() -> Runtime {
    Runtime::builder().worker_threads(2).build().unwrap()
}

/// A listener of that runtime.
fn listen(runtime: &Runtime, kind: SignalKind) -> Signal {
    let _entered = runtime.enter();
    signal(kind).unwrap()
}

#[test]
fn arrivals_before_a_look_are_told_once_and_none_is_lost() {
    let kind = SignalKind::user_defined1();
    let runtime = runtime();
    let mut listener = listen(&runtime, kind);
    for arrivals in [1, 2, 70] {
        assert!(block_on(poll_once(listener.recv())).is_none());
        (0..arrivals).for_each(|_| raise(kind.as_raw_value()));
        assert_eq!(block_on(listener.recv()), Some(()));
    }
    assert!(block_on(poll_once(listener.recv())).is_none());
}

#[test]
fn a_wait_that_is_dropped_takes_nothing_with_it() {
    let kind = SignalKind::user_defined2();
    let runtime = runtime();
    let mut listener = listen(&runtime, kind);
    for _ in 0..20 {
        let mut wait = Box::pin(listener.recv());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(wait.as_mut().poll(&mut cx).is_pending());
        raise(kind.as_raw_value());
        drop(wait);
        assert_eq!(block_on(listener.recv()), Some(()));
    }
}

/// Mixed with waits, too, and told once whichever of the two comes first.
#[test]
fn polling_is_waiting() {
    let kind = SignalKind::window_change();
    let runtime = runtime();
    let mut listener = listen(&runtime, kind);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..20 {
        assert!(listener.poll_recv(&mut cx).is_pending());
        raise(kind.as_raw_value());
        assert_eq!(block_on(poll_fn(|cx| listener.poll_recv(cx))), Some(()));
        assert!(listener.poll_recv(&mut cx).is_pending());
        raise(kind.as_raw_value());
        assert_eq!(block_on(listener.recv()), Some(()));
        assert!(listener.poll_recv(&mut cx).is_pending(), "it was told");
    }
    thread::scope(|scope| {
        let (begins, begun) = std::sync::mpsc::channel();
        let listener = &mut listener;
        let waits = scope.spawn(move || {
            block_on(poll_fn(|cx| {
                let poll = listener.poll_recv(cx);
                let _ = begins.send(());
                poll
            }))
        });
        begun.recv().unwrap();
        raise(kind.as_raw_value());
        assert_eq!(waits.join().unwrap(), Some(()));
    });
    drop(runtime);
    assert_eq!(block_on(poll_fn(|cx| listener.poll_recv(cx))), None);
}

#[test]
fn a_listener_sees_what_arrives_after_it_was_made() {
    let kind = SignalKind::hangup();
    let runtime = runtime();
    let mut first = listen(&runtime, kind);
    raise(kind.as_raw_value());
    let mut second = listen(&runtime, kind);
    assert_eq!(block_on(first.recv()), Some(()));
    assert!(block_on(poll_once(second.recv())).is_none());
    raise(kind.as_raw_value());
    assert_eq!(block_on(second.recv()), Some(()));
    assert_eq!(block_on(first.recv()), Some(()));
}

/// Tasks and threads of two runtimes, told a thousand times: one lost wake-up and the barrier is never passed.
#[test]
fn every_listener_of_every_runtime_is_told_each_time() {
    const ROUNDS: usize = 1000;
    let kind = SignalKind::alarm();
    let runtimes = [runtime(), runtime()];
    let all = Arc::new(Barrier::new(5));
    let mut tasks = Vec::new();
    let mut threads = Vec::new();
    for runtime in &runtimes {
        let (all_tasks, all_threads) = (Arc::clone(&all), Arc::clone(&all));
        let mut listener = listen(runtime, kind);
        tasks.push(runtime.spawn(async move {
            for _ in 0..ROUNDS {
                listener.recv().await.unwrap();
                all_tasks.wait().await;
            }
        }));
        let mut listener = listen(runtime, kind);
        threads.push(runtime.spawn_thread(move || {
            for _ in 0..ROUNDS {
                listener.recv().wait().unwrap();
                all_threads.wait().wait();
            }
        }));
    }
    for _ in 0..ROUNDS {
        raise(kind.as_raw_value());
        block_on(all.wait());
    }
    for task in tasks {
        block_on(task).unwrap();
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn listeners_that_go_leave_the_others_alone() {
    let kind = SignalKind::quit();
    let runtime = runtime();
    let mut stays = listen(&runtime, kind);
    for _ in 0..20 {
        let mut goes = listen(&runtime, kind);
        assert!(block_on(poll_once(goes.recv())).is_none());
        drop(goes);
        raise(kind.as_raw_value());
        assert_eq!(block_on(stays.recv()), Some(()));
    }
    drop(stays);
    // Nobody listens, and the process goes on.
    raise(kind.as_raw_value());
    let mut again = listen(&runtime, kind);
    assert!(block_on(poll_once(again.recv())).is_none());
    raise(kind.as_raw_value());
    assert_eq!(block_on(again.recv()), Some(()));
}

#[test]
fn the_end_of_a_runtime_is_the_end_of_its_listeners_only() {
    let kind = SignalKind::terminate();
    let (ends, goes_on) = (runtime(), runtime());
    let mut of_ended = listen(&ends, kind);
    let mut of_other = listen(&goes_on, kind);
    thread::scope(|scope| {
        let waits = scope.spawn(|| block_on(of_ended.recv()));
        drop(ends);
        assert_eq!(waits.join().unwrap(), None);
    });
    raise(kind.as_raw_value());
    assert_eq!(block_on(of_other.recv()), Some(()));
    drop(of_ended);
    raise(kind.as_raw_value());
    assert_eq!(block_on(of_other.recv()), Some(()));
}

#[test]
fn ctrl_c_is_the_interrupt() {
    let runtime = runtime();
    let waits = runtime.block_on(async {
        let mut waits = Box::pin(super::ctrl_c());
        assert!(poll_once(&mut waits).await.is_none());
        raise(SignalKind::interrupt().as_raw_value());
        waits.await
    });
    waits.unwrap();
}

#[test]
fn a_task_that_waits_is_aborted_like_any_other() {
    let kind = SignalKind::io();
    runtime().block_on(async {
        let task = spawn(async move { signal(kind).unwrap().recv().await });
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    });
}

#[test]
fn what_cannot_be_listened_to_says_so() {
    let runtime = runtime();
    let _entered = runtime.enter();
    for number in [9, 11, -1, 4000] {
        let error = signal(SignalKind::from_raw(number)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains(&number.to_string()), "{error}");
    }
}

#[test]
#[should_panic(expected = "no quadrille runtime here")]
fn outside_of_a_runtime_it_panics() {
    drop(signal(SignalKind::child()));
}
