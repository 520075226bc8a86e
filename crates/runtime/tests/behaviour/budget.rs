//! The budget in channels and locks: who never has to wait gives way all the same, and who has no budget left is not
//! forgotten.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_lite::future::poll_once;
use quadrille::sync::{
    Barrier, CancellationToken, Mutex, Notify, OnceCell, Semaphore, broadcast, mpmc, oneshot, watch,
};
use quadrille::task::{self, TaskTracker};
use quadrille::thread::sync as threads;
use quadrille::{Runtime, Wait as _, coop, thread};

use crate::greedy::{all_give_way, none_is_greedy};
use crate::shape::Shape;

/// Several budgets.
const ROUNDS: usize = 1000;

fn one_worker() -> Runtime {
    Shape::flat(1).runtime()
}

#[test]
fn what_a_task_never_waits_for_gives_way() {
    let runtime = one_worker();
    // Not all of the futures are `Send`.
    let task = runtime.handle().spawn_pinned(|| async {
            let full = mpmc::bounded(1);
            full.0.try_send(1_u8).unwrap();
            let closed = Semaphore::new(0);
            closed.close();
            let cancelled = CancellationToken::new();
            cancelled.cancel();
            let over = TaskTracker::new();
            over.close();
            all_give_way! {
                "mpmc send": mpmc::unbounded::<u8>() => |s| s.0.send(1).await;
                "mpmc send, closed": mpmc::unbounded::<u8>().0 => |s| s.send(1).await;
                "mpmc recv, closed": mpmc::unbounded::<u8>().1 => |s| s.recv().await;
                "mpmc recv_many of none": mpmc::unbounded::<u8>() => |s| s.1.recv_many(&mut Vec::new(), 0).await;
                "mpmc recv_many, closed": mpmc::unbounded::<u8>().1 => |s| s.recv_many(&mut Vec::new(), 2).await;
                "mpmc poll_recv_many of none": mpmc::unbounded::<u8>() => |s| std::future::poll_fn(|cx| s.1.poll_recv_many(cx, &mut Vec::new(), 0)).await;
                "mpmc poll_recv_many, closed": mpmc::unbounded::<u8>().1 => |s| std::future::poll_fn(|cx| s.poll_recv_many(cx, &mut Vec::new(), 2)).await;
                "mpmc reserve": mpmc::bounded::<u8>(1) => |s| s.0.reserve().await;
                "mpmc closed": mpmc::unbounded::<u8>().0 => |s| s.closed().await;
                "mpmc send_timeout, full": full => |s| s.0.send_timeout(1, std::time::Duration::ZERO).await;
                "oneshot recv, closed": oneshot::channel::<u8>().1 => |s| s.await;
                "oneshot closed": oneshot::channel::<u8>().0 => |s| s.closed().await;
                "watch changed": watch::channel(0) => |s| (s.0.send_replace(1), s.1.changed().await);
                "watch changed, closed": watch::channel(0).1 => |s| s.changed().await;
                "watch wait_for": watch::channel(0) => |s| s.1.wait_for(|_| true).await.map(|_| ());
                "watch wait_for, new": watch::channel(0) => |s| (s.0.send_replace(1), s.1.wait_for(|n| *n == 1).await.map(|_| ()));
                "watch wait_for, closed": watch::channel(0).1 => |s| s.wait_for(|n| *n == 1).await.map(|_| ());
                "watch closed": watch::channel(0).0 => |s| s.closed().await;
                "broadcast recv": broadcast::channel(2) => |s| (s.0.send(1), s.1.recv().await);
                "broadcast recv, closed": broadcast::channel::<u8>(2).1 => |s| s.recv().await;
                "broadcast closed": broadcast::channel::<u8>(2).0 => |s| s.closed().await;
                "notify": Notify::new() => |s| (s.notify_one(), s.notified().await);
                "mutex": Mutex::new(()) => |s| drop(s.lock().await);
                "semaphore": Semaphore::new(1) => |s| s.acquire().await.map(drop);
                "semaphore, none": Semaphore::new(0) => |s| s.acquire_many(0).await.map(drop);
                "semaphore, closed": closed => |s| s.acquire().await.map(drop);
                "barrier": Barrier::new(1) => |s| s.wait().await;
                "cell get_or_init": OnceCell::from(1) => |s| s.get_or_init(async || 2).await;
                "cell get_or_try_init, fails": OnceCell::<u8>::new() => |s| s.get_or_try_init(async || Err(())).await.map(|_| ());
                "cell wait": OnceCell::from(1) => |s| s.wait().await;
                "cell set": OnceCell::from(1) => |s| s.set(2).await.map(|_| ());
                "cancelled": cancelled => |s| s.cancelled().await;
                "tracker wait": over => |s| s.wait().await;
                "thread Mutex": threads::Mutex::new(()) => |s| s.lock_async().await.map(drop);
                "thread RwLock, read": threads::RwLock::new(()) => |s| s.read_async().await.map(drop);
                "thread RwLock, write": threads::RwLock::new(()) => |s| s.write_async().await.map(drop);
                "thread Barrier": threads::Barrier::new(1) => |s| s.wait_async().await;
            }
    });
    runtime.block_on(task).unwrap();
}

/// By hand, as an operation of another crate would.
#[test]
fn who_proceeds_pays_for_progress_alone() {
    let runtime = one_worker();
    let task = runtime.handle().spawn_pinned(|| async {
        for _ in 0..ROUNDS {
            let idle = std::future::poll_fn(|cx| coop::poll_proceed(cx).map(drop));
            assert!(poll_once(idle).await.is_some(), "nothing was done, nothing is paid");
        }
        all_give_way! {
            "poll_proceed": () => |_s| std::future::poll_fn(|cx| coop::poll_proceed(cx).map(|unit| unit.made_progress())).await;
        }
    });
    runtime.block_on(task).unwrap();
}

/// How many turns another thread has while one does `round` so many times.
fn turns_of_another<S: Send + 'static>(mut state: S, round: fn(&mut S)) -> usize {
    let runtime = one_worker();
    let main = runtime.spawn_thread(move || {
        let (turns, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, stop) = (turns.clone(), over.clone());
        let other = thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                counted.fetch_add(1, Ordering::SeqCst);
                thread::yield_now();
            }
        });
        thread::yield_now();
        let before = turns.load(Ordering::SeqCst);
        (0..ROUNDS).for_each(|_| round(&mut state));
        let turns = turns.load(Ordering::SeqCst) - before;
        over.store(true, Ordering::SeqCst);
        other.join().unwrap();
        turns
    });
    main.join().unwrap()
}

/// Names those during which nobody else had a turn.
macro_rules! all_threads_give_way {
    ($($name:literal: $state:expr => |$s:ident| $round:expr;)*) => {{
        let turns = [$({
            let state = $state;
            ($name, turns_of_another(state, |$s| _ = $round))
        }),*];
        none_is_greedy(&turns);
    }};
}

#[test]
fn what_a_thread_never_waits_for_gives_way() {
    all_threads_give_way! {
        "mpmc send_blocking": mpmc::unbounded::<u8>() => |s| s.0.send_blocking(1);
        "mpmc recv_blocking, closed": mpmc::unbounded::<u8>().1 => |s| s.recv_blocking();
        "mpmc recv_many_blocking, closed": mpmc::unbounded::<u8>().1 => |s| s.recv_many_blocking(&mut Vec::new(), 2);
        "mpsc send": threads::mpsc::channel::<u8>() => |s| s.0.send(1);
        "mpsc send, closed": threads::mpsc::channel::<u8>().0 => |s| s.send(1);
        "mpsc send and recv": threads::mpsc::sync_channel::<u8>(1) => |s| (s.0.send(1), s.1.recv());
        "mpsc recv, closed": threads::mpsc::channel::<u8>().1 => |s| s.recv();
        "Barrier": threads::Barrier::new(1) => |s| s.wait();
        "park": () => |_s| (thread::current().unpark(), thread::park());
        "park_timeout": () => |_s| (thread::current().unpark(), thread::park_timeout(std::time::Duration::MAX));
        "broadcast": broadcast::channel(2) => |s| (s.0.send(1), s.1.blocking_recv());
        "semaphore": Semaphore::new(1) => |s| s.acquire_blocking().map(drop);
        "barrier": Barrier::new(1) => |s| s.wait_blocking();
        "notify": Notify::new() => |s| (s.notify_one(), s.notified().wait());
        "watch wait_for": watch::channel(1) => |s| s.1.wait_for(|_| true).wait().map(|_| ());
        "scope of threads": () => |_s| thread::scope(|_| ());
        "scope of tasks": () => |_s| task::scope(|_| ());
    }
}

/// Polls `first` without budget, then `second` with, both of which must wait; then `event`, which is for one. Whether
/// it was for the first.
async fn is_first_served<F: Future>(first: F, second: F, event: impl FnOnce()) -> bool {
    let (mut first, mut second) = (pin!(first), pin!(second));
    while coop::has_budget_remaining() {
        coop::consume_budget().await;
    }
    assert!(poll_once(first.as_mut()).await.is_none());
    coop::unconstrained(async {
        assert!(poll_once(second.as_mut()).await.is_none());
        event();
        let is_second = poll_once(second).await.is_some();
        is_second != poll_once(first).await.is_some() && !is_second
    })
    .await
}

#[test]
fn who_asks_a_semaphore_without_budget_has_a_place() {
    let runtime = one_worker();
    let task = runtime.spawn(async {
        let semaphore = Semaphore::new(0);
        is_first_served(semaphore.acquire(), semaphore.acquire(), || semaphore.add_permits(1)).await
    });
    assert!(runtime.block_on(task).unwrap());
}
