//! A queue whose values are handed out at their deadlines.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use futures_lite::StreamExt as _;
use quadrille::policy::Rng;
use quadrille::task::yield_now;
use quadrille::thread::Wait as _;
use quadrille::time::delay_queue::Key;
use quadrille::time::{DelayQueue, Duration, Instant, advance, sleep};
use quadrille::{Runtime, spawn, thread};

const MS: Duration = Duration::from_millis(1);

fn ms(count: u32) -> Duration {
    MS * count
}

/// How often it was called.
#[derive(Default)]
struct Calls(AtomicUsize);

impl Calls {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn calls() -> (Arc<Calls>, Waker) {
    let calls = Arc::new(Calls::default());
    (calls.clone(), Waker::from(calls))
}

/// What it hands out without a wait.
fn poll<T>(queue: &mut DelayQueue<T>, waker: &Waker) -> Poll<Option<T>> {
    let expired = queue.poll_expired(&mut Context::from_waker(waker));
    expired.map(|expired| expired.map(quadrille::time::delay_queue::Expired::into_inner))
}

#[quadrille::test(start_paused = true)]
async fn values_come_at_their_deadlines_and_in_their_order() {
    let start = Instant::now();
    let mut queue = DelayQueue::new();
    for (name, after) in [("d", 3), ("a", 1), ("b", 2), ("c", 2), ("now", 0)] {
        queue.insert(name, ms(after));
    }
    queue.insert_at("before", start - MS);
    let mut log = Vec::new();
    while let Some(expired) = queue.expired().await {
        assert_eq!(Instant::now().max(expired.deadline()), Instant::now(), "never early");
        log.push((expired.into_inner(), (Instant::now() - start).as_millis()));
    }
    assert_eq!(log, [("before", 0), ("now", 0), ("a", 1), ("b", 2), ("c", 2), ("d", 3)]);
}

#[quadrille::test(start_paused = true)]
async fn who_waits_is_woken_for_what_comes_sooner() {
    let mut queue = DelayQueue::new();
    let late = queue.insert("late", ms(100));
    let (calls, waker) = calls();
    assert!(poll(&mut queue, &waker).is_pending());
    queue.insert("soon", ms(10));
    advance(ms(10)).await;
    assert_eq!(calls.count(), 1);
    assert_eq!(poll(&mut queue, &waker), Poll::Ready(Some("soon")));
    assert!(poll(&mut queue, &waker).is_pending());
    queue.reset(&late, ms(5));
    advance(ms(4)).await;
    assert!(calls.count() == 1 && poll(&mut queue, &waker).is_pending());
    advance(ms(1)).await;
    assert_eq!(calls.count(), 2);
    assert_eq!(poll(&mut queue, &waker), Poll::Ready(Some("late")));
}

#[quadrille::test(start_paused = true)]
async fn who_found_nothing_is_woken_by_the_next_insert() {
    let mut queue = DelayQueue::new();
    let (calls, waker) = calls();
    for round in 1..=2 {
        assert_eq!(poll(&mut queue, &waker), Poll::Ready(None));
        queue.insert((), ms(1));
        assert_eq!(calls.count(), round);
        advance(ms(1)).await;
        assert_eq!(poll(&mut queue, &waker), Poll::Ready(Some(())));
    }
}

/// A poll by hand that inserts again what it was handed out, and answers that it waits.
#[quadrille::test(start_paused = true)]
async fn who_was_handed_out_one_is_woken_for_what_comes_next() {
    let ways: [fn(&mut DelayQueue<()>, Key); 2] = [
        |queue, _| _ = queue.insert((), ms(3)),
        |queue, late| queue.reset(&late, ms(3)),
    ];
    for way in ways {
        let mut queue = DelayQueue::new();
        let (calls, waker) = calls();
        let late = queue.insert((), ms(100));
        queue.insert((), ms(1));
        assert!(poll(&mut queue, &waker).is_pending());
        advance(ms(1)).await;
        assert_eq!(calls.count(), 1);
        assert_eq!(poll(&mut queue, &waker), Poll::Ready(Some(())));
        way(&mut queue, late);
        queue.insert((), ms(50));
        advance(ms(2)).await;
        assert_eq!(calls.count(), 1, "not before it is due");
        advance(ms(1)).await;
        assert_eq!(calls.count(), 2);
        assert_eq!(poll(&mut queue, &waker), Poll::Ready(Some(())));
    }
}

/// Two come at once, and each poll takes one and inserts another.
#[quadrille::test(start_paused = true)]
async fn who_takes_one_of_two_at_a_time_is_woken_for_all() {
    let mut queue = DelayQueue::new();
    let (calls, waker) = calls();
    for name in 0..2 {
        queue.insert(name, ms(1));
    }
    assert!(poll(&mut queue, &waker).is_pending());
    let (mut came, mut woken) = (Vec::new(), 0);
    for _ in 0..20 {
        advance(ms(1)).await;
        while calls.count() > woken {
            woken = calls.count();
            if let Poll::Ready(Some(name)) = poll(&mut queue, &waker) {
                came.push(name);
                queue.insert(name + 2, ms(3));
            }
        }
    }
    assert_eq!(came[..8], [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[quadrille::test(start_paused = true)]
async fn who_waits_is_told_that_nothing_is_left() {
    let ways: [fn(&mut DelayQueue<()>, Key); 2] = [|queue, key| _ = queue.remove(&key), |queue, _| queue.clear()];
    for way in ways {
        let mut queue = DelayQueue::new();
        let (calls, waker) = calls();
        let [first, last] = [queue.insert((), ms(1_000)), queue.insert((), ms(2_000))];
        assert!(poll(&mut queue, &waker).is_pending());
        queue.remove(&first);
        let before = Instant::now();
        way(&mut queue, last);
        while calls.count() == 0 {
            yield_now().await;
        }
        assert_eq!(Instant::now(), before);
        assert_eq!(poll(&mut queue, &waker), Poll::Ready(None));
        queue.insert((), ms(1));
        assert!(poll(&mut queue, &waker).is_pending());
        advance(ms(1)).await;
        assert_eq!(poll(&mut queue, &waker), Poll::Ready(Some(())));
    }
}

/// What was before the clock's origin, as far as there is something to measure it by, comes in its order, too.
#[quadrille::test(start_paused = true)]
async fn what_is_long_overdue_comes_in_its_order() {
    let mut queue = DelayQueue::new();
    let now = Instant::now();
    let past = [3_600, 1, 86_400, 60].map(|seconds| (seconds, now.checked_sub(ms(1_000) * seconds)));
    let mut expected: Vec<_> = past.iter().filter_map(|(seconds, at)| at.map(|_| *seconds)).collect();
    expected.sort_unstable_by_key(|seconds| std::cmp::Reverse(*seconds));
    for (seconds, at) in past {
        at.map(|at| queue.insert_at(seconds, at));
    }
    let mut came = Vec::new();
    while let Some(expired) = queue.expired().await {
        came.push(expired.into_inner());
    }
    assert_eq!(came, expected);
}

/// A clock that was advanced, and goes on as the system's when its runtime is gone.
#[test]
fn a_clock_that_goes_back_makes_nothing_early() {
    let runtime = Runtime::builder().worker_threads(1).start_paused(true).build().unwrap();
    let mut queue = runtime
        .block_on(runtime.spawn(async {
            let mut queue = DelayQueue::new();
            queue.insert(0, MS);
            advance(ms(3_600_000)).await;
            assert_eq!(queue.expired().await.unwrap().into_inner(), 0);
            queue
        }))
        .unwrap();
    drop(runtime);
    queue.insert(1, ms(20));
    let start = Instant::now();
    futures_lite::future::block_on(queue.expired()).unwrap();
    assert!(start.elapsed() >= ms(19));
}

#[quadrille::test(start_paused = true)]
async fn keys_name_what_is_there_and_nothing_else() {
    let mut queue = DelayQueue::new();
    let [one, two] = ["one", "two"].map(|name| queue.insert(name, ms(1)));
    assert_eq!((queue.len(), queue.peek()), (2, Some(one)));
    queue.reset(&one, ms(3));
    assert_eq!(queue.peek(), Some(two));
    assert_eq!(queue.deadline(&one) - Instant::now(), ms(3));
    assert_eq!(queue.expired().await.unwrap().key(), two);
    assert!(!queue.contains(&two) && queue.try_remove(&two).is_none());
    // In its place.
    let three = queue.insert("three", ms(1));
    assert!(!queue.contains(&two) && queue.contains(&three) && queue.contains(&one));
    let mut removed = queue.remove(&one);
    assert_eq!((removed.get_ref(), removed.key()), (&"one", one));
    *removed.get_mut() = "1";
    assert_eq!(removed.into_inner(), "1");
    queue.clear();
    assert!(queue.is_empty() && queue.peek().is_none() && !queue.contains(&three));
    assert!(queue.expired().await.is_none());
    type Asks = fn(&mut DelayQueue<&'static str>, Key);
    let asks: [Asks; 3] = [
        |queue, key| _ = queue.remove(&key),
        |queue, key| queue.reset(&key, MS),
        |queue, key| _ = queue.deadline(&key),
    ];
    for ask in asks {
        let panic = catch_unwind(AssertUnwindSafe(|| ask(&mut queue, three))).unwrap_err();
        let said = panic.downcast::<String>().unwrap();
        assert!(said.contains("names nothing that is in the queue"), "{said}");
    }
}

/// As a sorted map would, whatever is done in whatever order, and woken no later than the first is due.
#[quadrille::test(start_paused = true)]
async fn as_a_sorted_map_would() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let mut queue = DelayQueue::new();
        let mut oracle: BTreeMap<u64, (Instant, Key)> = BTreeMap::new();
        let (calls, waker) = calls();
        // Whether it has promised a call, and how many there were then.
        let mut waits = None;
        for number in 0..200 {
            let after = ms(rng.below(40));
            let index = rng.below(u32::try_from(oracle.len()).unwrap().max(1)) as usize;
            let any = oracle.iter().nth(index).map(|(number, (_, key))| (*number, *key));
            match (rng.below(6), any) {
                (0 | 1, _) => {
                    oracle.insert(number, (Instant::now() + after, queue.insert(number, after)));
                }
                (2, Some((number, key))) => {
                    queue.reset(&key, after);
                    oracle.insert(number, (Instant::now() + after, key));
                }
                (3, Some((number, key))) => {
                    assert_eq!(queue.remove(&key).into_inner(), number);
                    oracle.remove(&number);
                }
                (4, _) => {
                    advance(ms(rng.below(20))).await;
                    let is_due = oracle.values().any(|(at, _)| *at <= Instant::now());
                    assert!(
                        waits.is_none_or(|before| !is_due || calls.count() > before),
                        "seed {seed}"
                    );
                }
                _ => {
                    let polled = poll(&mut queue, &waker);
                    waits = polled.is_pending().then(|| calls.count());
                    let first = oracle.values().map(|(at, _)| *at).min();
                    match polled {
                        Poll::Pending => assert!(first.unwrap() > Instant::now(), "seed {seed}"),
                        Poll::Ready(None) => assert!(oracle.is_empty(), "seed {seed}"),
                        Poll::Ready(Some(number)) => {
                            let (at, _) = oracle.remove(&number).unwrap();
                            assert!(at <= Instant::now() && Some(at) == first, "seed {seed}");
                        }
                    }
                }
            }
            assert_eq!(queue.len(), oracle.len());
            assert!(
                oracle.values().all(|(at, key)| queue.deadline(key) == *at),
                "seed {seed}"
            );
            let peeked = queue.peek().map(|key| queue.deadline(&key));
            assert_eq!(peeked, oracle.values().map(|(at, _)| *at).min(), "seed {seed}");
        }
    }
}

#[test]
fn in_real_time_none_is_early_and_none_is_lost() {
    const TASKS: usize = 4;
    const VALUES: u32 = 200;
    let runtime = Runtime::builder().worker_threads(2).build().unwrap();
    let queue = Arc::new(Mutex::new(DelayQueue::new()));
    runtime.block_on(async {
        let inserts = (0..TASKS).map(|task| {
            let queue = queue.clone();
            spawn(async move {
                for number in 0..VALUES {
                    let after = Duration::from_micros(u64::from(number * 7919 % 5_000));
                    queue.lock().unwrap().insert((task, number), after);
                    yield_now().await;
                }
            })
        });
        let inserts: Vec<_> = inserts.collect();
        let took = queue.clone();
        let all = spawn(async move {
            let mut count = 0;
            while count < TASKS * VALUES as usize {
                // Nothing in it: the next insert wakes us.
                let expired = poll_fn(|cx| match took.lock().unwrap().poll_expired(cx) {
                    Poll::Ready(Some(expired)) => Poll::Ready(expired),
                    _ => Poll::Pending,
                });
                assert!(expired.await.deadline() <= Instant::now());
                count += 1;
            }
        });
        for insert in inserts {
            insert.await.unwrap();
        }
        all.await.unwrap();
    });
    assert!(queue.lock().unwrap().is_empty());
}

#[test]
fn it_is_a_stream_and_threads_wait_for_it() {
    let runtime = Runtime::builder().worker_threads(1).build().unwrap();
    runtime.block_on(async {
        let mut queue = DelayQueue::new();
        queue.insert(2, ms(2));
        queue.insert(1, ms(1));
        let values: Vec<_> = (&mut queue).map(|expired| expired.into_inner()).collect().await;
        assert_eq!(values, [1, 2]);
        queue.insert(3, ms(1));
        let by_a_thread = thread::spawn(move || queue.expired().wait().unwrap().into_inner());
        assert_eq!(by_a_thread.await.unwrap(), 3);
    });
}

#[test]
fn it_belongs_to_the_runtime_of_the_first_value() {
    let mut queue = DelayQueue::new();
    assert_eq!(poll(&mut queue, Waker::noop()), Poll::Ready(None));
    let panic = catch_unwind(AssertUnwindSafe(|| queue.insert(0, MS))).unwrap_err();
    let said = panic.downcast::<String>().map(|said| *said);
    let said = said.unwrap_or_else(|said| (*said.downcast::<&str>().unwrap()).to_owned());
    assert!(said.contains("no quadrille runtime here"), "{said}");
    assert!(queue.is_empty());

    let runtime = Runtime::builder().worker_threads(1).build().unwrap();
    runtime.block_on(async { queue.insert(1, MS) });
    // Elsewhere, too, and once it is gone.
    queue.insert(2, ms(2));
    futures_lite::future::block_on(async {
        assert_eq!(queue.expired().await.unwrap().into_inner(), 1);
        drop(runtime);
        assert_eq!(queue.expired().await.unwrap().into_inner(), 2);
    });
}

/// Whoever has more due than his budget gives way to others.
#[quadrille::test(start_paused = true, worker_threads = 1)]
async fn many_that_are_due_leave_others_their_turns() {
    let mut queue = DelayQueue::new();
    (0..10_000).for_each(|number| _ = queue.insert(number, MS));
    sleep(MS).await;
    let turns = Arc::new(AtomicUsize::new(0));
    let counted = turns.clone();
    let other = spawn(async move {
        loop {
            counted.fetch_add(1, Ordering::Relaxed);
            yield_now().await;
        }
    });
    let mut all = pin!(queue.fold(0, |count, _| count + 1));
    assert_eq!(all.as_mut().await, 10_000);
    assert!(turns.load(Ordering::Relaxed) > 5);
    other.abort();
}
