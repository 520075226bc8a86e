//! Tasks by key.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, pending, poll_fn};
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Poll;

use quadrille::policy::Rng;
use quadrille::sync::oneshot;
use quadrille::task::yield_now;
use quadrille::{JoinMap, Runtime, spawn};

use crate::wait::watched;

/// In a task, on the worker of all others: they run when it gives way.
fn on_one_worker(future: impl Future<Output = ()> + Send + 'static) {
    let runtime = Runtime::builder().worker_threads(1).build().unwrap();
    runtime.block_on(runtime.spawn(future)).unwrap();
}

#[quadrille::test]
async fn results_come_with_their_keys_in_the_order_in_which_tasks_finish() {
    let mut map = JoinMap::new();
    let (first, second) = (oneshot::channel(), oneshot::channel());
    let [(tell_first, first), (tell_second, second)] = [first, second];
    map.spawn("one", async move { first.await.unwrap() });
    map.spawn("two", async move { second.await.unwrap() });
    map.spawn_blocking("blocking", || 0);
    assert_eq!(
        map.join_next().await.map(|(key, result)| (key, result.unwrap())),
        Some(("blocking", 0))
    );
    assert_eq!(map.keys().collect::<BTreeSet<_>>(), [&"one", &"two"].into());
    tell_second.send(2).unwrap();
    assert_eq!(
        map.join_next().await.map(|(key, result)| (key, result.unwrap())),
        Some(("two", 2))
    );
    assert!(map.contains_key("one") && !map.contains_key("two"));
    tell_first.send(1).unwrap();
    assert_eq!(
        map.join_next().await.map(|(key, result)| (key, result.unwrap())),
        Some(("one", 1))
    );
    assert!(map.is_empty() && map.join_next().await.is_none());
}

#[quadrille::test]
async fn a_task_that_panics_is_returned_with_its_key() {
    let mut map = JoinMap::new();
    map.spawn(7, async { panic!("as it should") });
    let (key, result): (_, Result<(), _>) = map.join_next().await.unwrap();
    assert!(key == 7 && result.unwrap_err().is_panic());
}

/// Ends when it is dropped.
struct Alive(#[expect(dead_code, reason = "is dropped")] Arc<()>);

#[test]
fn keys_are_aborted_one_by_one_by_a_rule_or_with_the_map() {
    on_one_worker(async {
        let alive = Arc::new(());
        let mut map = JoinMap::new();
        for number in 0..10 {
            let held = Alive(alive.clone());
            map.spawn(number.to_string(), async move {
                pending::<()>().await;
                drop(held);
            });
        }
        assert!(map.abort("3") && !map.abort("30"));
        let (key, result) = map.join_next().await.unwrap();
        assert!(key == "3" && result.unwrap_err().is_cancelled() && !map.abort("3"));
        map.abort_matching(|key| key.as_str() > "7");
        let [one, two] = [map.join_next().await.unwrap(), map.join_next().await.unwrap()].map(|(key, _)| key);
        assert_eq!(BTreeSet::from([one.as_str(), two.as_str()]), ["8", "9"].into());
        assert_eq!((map.len(), Arc::strong_count(&alive)), (7, 8));
        drop(map);
        while Arc::strong_count(&alive) > 1 {
            yield_now().await;
        }
    });
}

#[test]
fn the_one_before_is_aborted_and_its_result_dropped_even_if_it_is_there() {
    on_one_worker(async {
        let mut map = JoinMap::new();
        map.spawn("key", async { 1 });
        map.spawn("other", async { 10 });
        // Both have ended.
        for _ in 0..10 {
            yield_now().await;
        }
        map.spawn("key", async { 2 });
        map.spawn("key", async { 3 });
        assert_eq!(map.len(), 2);
        let mut results = BTreeMap::new();
        while let Some((key, result)) = map.join_next().await {
            results.insert(key, result.unwrap());
        }
        assert_eq!(results, [("key", 3), ("other", 10)].into());
    });
}

#[test]
fn nobody_waits_for_one_that_was_replaced_but_who_ends_all() {
    watched("replaced", || {
        on_one_worker(async {
            let (go, wait) = mpsc::channel::<()>();
            let (started, has_started) = oneshot::channel();
            let has_ended = Arc::new(AtomicBool::new(false));
            let ends = has_ended.clone();
            let mut map = JoinMap::new();
            map.spawn_blocking("key", move || {
                started.send(()).unwrap();
                wait.recv().unwrap();
                ends.store(true, Ordering::SeqCst);
                1
            });
            has_started.await.unwrap();
            map.spawn("key", async { 2 });
            assert_eq!(map.join_next().await.unwrap().1.unwrap(), 2);
            assert!(map.join_next().await.is_none(), "the first one goes on");
            let mut shutdown = Box::pin(map.shutdown());
            let poll = poll_fn(|cx| Poll::Ready(shutdown.as_mut().poll(cx)));
            assert!(poll.await.is_pending());
            go.send(()).unwrap();
            shutdown.await;
            assert!(has_ended.load(Ordering::SeqCst));
        });
    });
}

#[test]
fn what_one_left_that_was_replaced_is_dropped_when_the_map_is_asked() {
    watched("dropped", || {
        on_one_worker(async {
            let left = Arc::new(());
            let mut map = JoinMap::new();
            let (first, second) = (left.clone(), left.clone());
            map.spawn("key", async move { first });
            yield_now().await;
            map.spawn("key", async move { second });
            drop(map.join_next().await.unwrap());
            while Arc::strong_count(&left) > 1 {
                assert!(map.join_next().await.is_none());
            }
        });
    });
}

#[test]
fn who_asks_an_empty_map_leaves_others_their_turns() {
    watched("others", || {
        on_one_worker(async {
            let is_over = Arc::new(AtomicBool::new(false));
            let ends = is_over.clone();
            let other = spawn(async move { ends.store(true, Ordering::SeqCst) });
            let mut map = JoinMap::<(), ()>::new();
            while !is_over.load(Ordering::SeqCst) {
                assert!(map.join_next().await.is_none());
            }
            other.await.unwrap();
        });
    });
}

#[test]
fn tasks_that_are_detached_run_on() {
    on_one_worker(async {
        let mut map = JoinMap::new();
        let (sender, receiver) = oneshot::channel();
        map.spawn("key", async move {
            yield_now().await;
            sender.send(7).unwrap();
        });
        map.detach_all();
        assert!(map.is_empty() && map.join_next().await.is_none());
        drop(map);
        assert_eq!(receiver.await.unwrap(), 7);
    });
}

/// What a task of the model does.
enum Fate {
    Waits(oneshot::Sender<u32>),
    Ends,
    IsAborted,
    /// It was to end, and was aborted after that: whichever it comes to first.
    Either,
}

/// As a map of what was spawned last would, whatever is done in whatever order.
#[test]
fn as_a_map_of_the_latest_would() {
    on_one_worker(async {
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            let mut map = JoinMap::new();
            let mut oracle: BTreeMap<u32, (u32, Fate)> = BTreeMap::new();
            for number in 0..100 {
                let key = rng.below(6);
                let there = oracle.remove(&key);
                let fate = match (rng.below(5), there) {
                    (0 | 1, _) => {
                        let (sender, receiver) = oneshot::channel();
                        map.spawn(key, async move { receiver.await.unwrap() });
                        Some((number, Fate::Waits(sender)))
                    }
                    (2, Some((number, Fate::Waits(end)))) => {
                        end.send(number).unwrap();
                        Some((number, Fate::Ends))
                    }
                    (3, there) => {
                        assert_eq!(map.abort(&key), there.is_some(), "seed {seed}");
                        there.map(|(number, fate)| match fate {
                            Fate::Waits(_) | Fate::IsAborted => (number, Fate::IsAborted),
                            Fate::Ends | Fate::Either => (number, Fate::Either),
                        })
                    }
                    (_, there) => there,
                };
                oracle.extend(fate.map(|fate| (key, fate)));
                if rng.below(4) == 0 {
                    for _ in 0..8 {
                        yield_now().await;
                    }
                    let next = map.try_join_next();
                    let is_over = |(_, fate): &(u32, Fate)| !matches!(fate, Fate::Waits(_));
                    assert_eq!(next.is_some(), oracle.values().any(is_over), "seed {seed}");
                    if let Some((key, result)) = next {
                        let (number, fate) = oracle.remove(&key).unwrap();
                        let expected = match fate {
                            Fate::Waits(_) => false,
                            Fate::Ends => result.is_ok_and(|got| got == number),
                            Fate::IsAborted => result.is_err_and(|error| error.is_cancelled()),
                            Fate::Either => result.map_or_else(|error| error.is_cancelled(), |got| got == number),
                        };
                        assert!(expected, "seed {seed}: {key}");
                    }
                }
                assert_eq!(
                    map.keys().copied().collect::<BTreeSet<_>>(),
                    oracle.keys().copied().collect()
                );
            }
        }
    });
}

/// A key whose comparison, or whose end, panics if it is told to.
struct Touchy(u32, Arc<AtomicBool>);

impl Touchy {
    fn may_panic(&self) {
        assert!(!self.1.swap(false, Ordering::SeqCst), "as it was told");
    }
}

impl Hash for Touchy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl PartialEq for Touchy {
    fn eq(&self, other: &Self) -> bool {
        other.may_panic();
        self.0 == other.0
    }
}

impl Eq for Touchy {}

impl Drop for Touchy {
    fn drop(&mut self) {
        self.may_panic();
    }
}

/// It keeps the task that has the key, whichever that is.
#[test]
fn a_key_that_panics_leaves_the_map_in_order() {
    on_one_worker(async {
        for at_its_end in [false, true] {
            let [calm, told] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
            let mut map = JoinMap::new();
            let before = if at_its_end { &told } else { &calm };
            let other = if at_its_end { &calm } else { &told };
            map.spawn(Touchy(7, before.clone()), async { 1 });
            let key = Touchy(7, other.clone());
            told.store(true, Ordering::SeqCst);
            let spawns = catch_unwind(AssertUnwindSafe(|| map.spawn(key, async { 2 })));
            assert!(spawns.is_err());
            told.store(false, Ordering::SeqCst);
            assert_eq!(map.len(), 1);
            let (key, result) = map.join_next().await.unwrap();
            assert_eq!((key.0, result.unwrap()), (7, if at_its_end { 2 } else { 1 }));
            assert!(map.is_empty() && map.join_next().await.is_none());
        }
    });
}
