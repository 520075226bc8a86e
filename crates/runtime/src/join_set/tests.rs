//! The set with real tasks.

use std::future::pending;
use std::sync::Arc;

use futures_lite::future::poll_once;

use super::*;
use crate::Runtime;

/// Runs a test on two workers.
fn run(test: impl Future<Output = ()>) {
    Runtime::builder().worker_threads(2).build().unwrap().block_on(test);
}

#[test]
fn every_result_comes_once() {
    run(async {
        let mut set = JoinSet::new();
        assert!(set.is_empty());
        assert!(set.join_next().await.is_none());
        for number in 0..1000 {
            set.spawn(async move { number });
        }
        assert_eq!(set.len(), 1000);
        let mut results = Vec::new();
        while let Some(result) = set.join_next().await {
            results.push(result.unwrap());
        }
        results.sort_unstable();
        assert_eq!(results, (0..1000).collect::<Vec<_>>());
        assert!(set.is_empty());
    });
}

/// Waits until so many have told the set.
async fn stand_in_line<T>(set: &JoinSet<T>, count: usize) {
    let begin = std::time::Instant::now();
    while set.members.in_line() < count {
        assert!(begin.elapsed().as_secs() < 60, "{} of {count}", set.members.in_line());
        task::yield_now().await;
    }
}

/// Also of tasks that finish before anybody waits for the set.
#[test]
fn results_come_in_the_order_of_finishing() {
    run(async {
        let (sender, receiver) = crate::sync::oneshot::channel();
        let mut set = JoinSet::new();
        let waits = set.spawn(async { receiver.await.unwrap() });
        let early = crate::spawn(async { 2 });
        let early_abort = early.abort_handle();
        set.insert(early);
        // Told a moment before the set is.
        stand_in_line(&set, 1).await;
        assert!(early_abort.is_finished());
        sender.send(1).unwrap();
        stand_in_line(&set, 2).await;
        assert!(waits.is_finished());
        assert_eq!(set.join_all().await, [2, 1]);
    });
}

#[test]
fn a_set_can_be_collected_and_joined_as_a_whole() {
    run(async {
        let set: JoinSet<usize> = (0..20).map(|number| async move { number }).collect();
        let mut outputs = set.join_all().await;
        outputs.sort_unstable();
        assert_eq!(outputs, (0..20).collect::<Vec<_>>());
    });
}

#[test]
fn a_set_can_be_extended() {
    run(async {
        let mut set = JoinSet::new();
        set.spawn(async { 0 });
        set.extend((1..10).map(|number| async move { number }));
        set.extend((10..20).map(std::future::ready));
        let mut outputs = set.join_all().await;
        outputs.sort_unstable();
        assert_eq!(outputs, (0..20).collect::<Vec<_>>());
    });
}

#[test]
fn blocking_jobs_and_other_runtimes_take_part() {
    let other = Runtime::builder().worker_threads(1).build().unwrap();
    run(async {
        let mut set = JoinSet::new();
        set.spawn_blocking(|| 1);
        set.spawn_on(async { 10 }, other.handle());
        set.spawn_blocking_on(|| 100, other.handle());
        assert_eq!(set.join_all().await.into_iter().sum::<i32>(), 111);
    });
}

#[test]
fn a_panic_and_an_abort_are_results() {
    run(async {
        let mut set = JoinSet::new();
        set.spawn(async { panic!("for the test") });
        assert!(set.join_next().await.unwrap().unwrap_err().is_panic());
        let abort = set.spawn(pending::<()>());
        abort.abort();
        assert!(set.join_next().await.unwrap().unwrap_err().is_cancelled());
        assert!(set.join_next().await.is_none());
    });
}

#[test]
#[should_panic(expected = "for the test")]
fn join_all_passes_a_panic_on() {
    run(async {
        let mut set = JoinSet::new();
        set.spawn(pending::<()>());
        set.spawn(async { panic!("for the test") });
        set.join_all().await;
    });
}

#[test]
fn shutdown_waits_until_all_tasks_are_gone() {
    run(async {
        let alive = Arc::new(());
        let mut set = JoinSet::new();
        for _ in 0..50 {
            let alive = Arc::clone(&alive);
            set.spawn(async move {
                pending::<()>().await;
                drop(alive);
            });
        }
        set.shutdown().await;
        assert!(set.is_empty());
        assert_eq!(Arc::strong_count(&alive), 1);
    });
}

/// Resolves when the last clone of the sender is dropped.
async fn closed(receiver: async_channel::Receiver<()>) {
    assert!(receiver.recv().await.is_err());
}

#[test]
fn dropping_the_set_aborts_its_tasks() {
    run(async {
        let (sender, receiver) = async_channel::bounded::<()>(1);
        let mut set = JoinSet::new();
        for _ in 0..10 {
            let sender = sender.clone();
            set.spawn(async move {
                pending::<()>().await;
                drop(sender);
            });
        }
        drop((set, sender));
        closed(receiver).await;
    });
}

#[test]
fn detached_tasks_run_on() {
    run(async {
        let (sender, receiver) = async_channel::bounded(1);
        let (go, wait) = async_channel::bounded::<()>(1);
        let mut set = JoinSet::new();
        set.spawn(async move {
            wait.recv().await.unwrap();
            sender.send(42).await.unwrap();
        });
        set.detach_all();
        assert!(set.is_empty());
        drop(set);
        go.send(()).await.unwrap();
        assert_eq!(receiver.recv().await, Ok(42));
    });
}

#[test]
fn trying_never_waits() {
    run(async {
        let mut set = JoinSet::new();
        assert!(set.try_join_next().is_none());
        let (go, wait) = async_channel::bounded::<()>(1);
        set.spawn(async move { wait.recv().await.unwrap() });
        assert!(set.try_join_next().is_none());
        assert!(poll_once(set.join_next()).await.is_none());
        assert_eq!(set.len(), 1, "a wait that was dropped takes nothing");
        go.send(()).await.unwrap();
        set.join_next().await.unwrap().unwrap();
    });
}

#[test]
fn each_result_comes_with_the_id_of_its_task() {
    run(async {
        let mut set = JoinSet::new();
        let value = set.spawn(async { 1 }).id();
        assert_eq!(set.join_next_with_id().await.unwrap().unwrap(), (value, 1));
        let panics = set.spawn(async { panic!("for the test") }).id();
        assert_eq!(set.join_next_with_id().await.unwrap().unwrap_err().id(), panics);
        let (go, wait) = async_channel::bounded::<()>(1);
        let later = set
            .spawn(async move {
                wait.recv().await.unwrap();
                2
            })
            .id();
        assert!(set.try_join_next_with_id().is_none());
        go.send(()).await.unwrap();
        let ready = poll_fn(|cx| set.poll_join_next_with_id(cx)).await;
        assert_eq!(ready.unwrap().unwrap(), (later, 2));
        assert!(set.join_next_with_id().await.is_none());
    });
}

#[test]
fn threads_are_members_as_tasks_are() {
    run(async {
        let mut set = JoinSet::new();
        let parked = set.spawn_thread(|| {
            thread::park();
            1
        });
        set.spawn(async { 2 });
        assert_eq!(set.join_next().await.unwrap().unwrap(), 2);
        assert!(poll_once(set.join_next()).await.is_none());
        parked.thread().unpark();
        let (id, number) = set.join_next_with_id().await.unwrap().unwrap();
        assert_eq!(number, 1);
        set.spawn_thread_on(|| panic!("on purpose"), &Handle::current());
        let error = set.join_next().await.unwrap().unwrap_err();
        assert!(error.is_panic() && error.id() != id);
        let aborted = set.spawn_thread(|| {
            thread::park();
            3
        });
        aborted.abort();
        assert!(set.join_next().await.unwrap().unwrap_err().is_cancelled());
    });
}

/// Also those that have not begun.
#[test]
fn threads_end_with_their_set() {
    run(async {
        let alive = Arc::new(());
        let mut set = JoinSet::new();
        for _ in 0..10 {
            let alive = alive.clone();
            set.spawn_thread(move || {
                thread::park();
                drop(alive);
            });
        }
        set.shutdown().await;
        assert_eq!((set.len(), Arc::strong_count(&alive)), (0, 1));
    });
}
