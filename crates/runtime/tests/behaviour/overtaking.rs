//! Short tasks go before long ones that have waited for longer, and none of either is left out.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quadrille::sync::mpmc;
use quadrille::task::yield_now;
use quadrille::thread::Wait as _;
use quadrille::{Runtime, spawn, thread};

use crate::streaks::{compute, runtime};

/// What a long task computes between two turns.
const PIECE: Duration = Duration::from_millis(1);

/// Eight long tasks, and what they have done.
#[derive(Clone, Default)]
struct Long {
    pieces: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
}

impl Long {
    fn computes(&self) -> bool {
        compute(PIECE);
        // Ordering: Relaxed; one worker runs all of it.
        self.pieces.fetch_add(1, Ordering::Relaxed);
        !self.is_over.load(Ordering::Relaxed)
    }

    async fn gives_way(self) {
        while self.computes() {
            yield_now().await;
        }
    }

    /// One of two that wake one another.
    async fn exchanges(self, other: mpmc::Sender<()>, own: mpmc::Receiver<()>) {
        while self.computes() && other.send(()).await.is_ok() && own.recv().await.is_ok() {}
    }
}

/// How many pieces long tasks compute while a short one gives way 100 times.
fn pieces_meanwhile(config: &str, start: impl Fn(&Long) + Send + 'static) -> usize {
    let long = Long::default();
    runtime(config).block_on(async move {
        spawn(async move {
            start(&long);
            let done = || long.pieces.load(Ordering::Relaxed);
            // Each has had turns with the clock read before and after it.
            while done() < 64 {
                yield_now().await;
            }
            let before = done();
            for _ in 0..100 {
                yield_now().await;
            }
            let pieces = done() - before;
            long.is_over.store(true, Ordering::Relaxed);
            pieces
        })
        .await
        .unwrap()
    })
}

fn start_that_give_way(long: &Long) {
    for _ in 0..8 {
        drop(spawn(long.clone().gives_way()));
    }
}

fn start_that_wake_one_another(long: &Long) {
    for _ in 0..4 {
        let (there, there_end) = mpmc::bounded(1);
        let (back, back_end) = mpmc::bounded(1);
        drop(spawn(long.clone().exchanges(there, back_end)));
        drop(spawn(long.clone().exchanges(back, there_end)));
    }
}

fn start_threads(long: &Long) {
    for _ in 0..8 {
        let long = long.clone();
        drop(thread::spawn(move || {
            while long.computes() {
                thread::yield_now();
            }
        }));
    }
}

/// The same while a short thread gives way 100 times, beside eight long ones.
fn pieces_meanwhile_of_threads(config: &str) -> usize {
    let long = Long::default();
    runtime(config).block_on(async move {
        let short = thread::spawn(move || {
            start_threads(&long);
            let done = || long.pieces.load(Ordering::Relaxed);
            while done() < 64 {
                thread::yield_now();
            }
            let before = done();
            for _ in 0..100 {
                thread::yield_now();
            }
            let pieces = done() - before;
            long.is_over.store(true, Ordering::Relaxed);
            pieces
        });
        short.await.unwrap()
    })
}

#[test]
fn a_short_thread_waits_for_one_that_is_long_not_for_all() {
    let pieces = pieces_meanwhile_of_threads("default");
    assert!(pieces < 100, "{pieces} pieces of 1 ms");
    let pieces = pieces_meanwhile_of_threads("overtake=off");
    assert!(pieces > 700, "each has its turn in between: {pieces}");
}

/// Round trips of a pair beside a long one, until that has computed 100 pieces, for a thousand turns of one that gives
/// way.
async fn trips_beside(long: Long, turns: Arc<AtomicUsize>, there: mpmc::Sender<()>, back: mpmc::Receiver<()>) -> usize {
    let [pieces, from] = [&long.pieces, &turns].map(|count| count.load(Ordering::Relaxed));
    let mut trips = 0;
    while long.pieces.load(Ordering::Relaxed) - pieces < 100
        && there.send(()).await.is_ok()
        && back.recv().await.is_ok()
    {
        trips += 1;
    }
    long.is_over.store(true, Ordering::Relaxed);
    1_000 * trips / (turns.load(Ordering::Relaxed) - from)
}

/// Two tasks that wake one another, beside one that gives way at each turn, and a long thread.
fn trips_of_tasks() -> usize {
    runtime("slot-time=1s").block_on(async {
        let pair = spawn(async {
            let (long, turns) = (Long::default(), Arc::new(AtomicUsize::new(0)));
            let computing = long.clone();
            drop(thread::spawn(move || {
                while computing.computes() {
                    thread::yield_now();
                }
            }));
            let (is_over, counted) = (long.is_over.clone(), turns.clone());
            drop(spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    counted.fetch_add(1, Ordering::Relaxed);
                    yield_now().await;
                }
            }));
            let (there, there_end) = mpmc::bounded(1);
            let (back, back_end) = mpmc::bounded(1);
            drop(spawn(async move {
                while there_end.recv().await.is_ok() && back.send(()).await.is_ok() {}
            }));
            trips_beside(long, turns, there, back_end).await
        });
        pair.await.unwrap()
    })
}

/// Two threads that wake one another, beside one that gives way at each turn, and a long task.
fn trips_of_threads() -> usize {
    runtime("slot-time=1s").block_on(async {
        let pair = thread::spawn(|| {
            let (long, turns) = (Long::default(), Arc::new(AtomicUsize::new(0)));
            drop(spawn(long.clone().gives_way()));
            let (is_over, counted) = (long.is_over.clone(), turns.clone());
            drop(thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    counted.fetch_add(1, Ordering::Relaxed);
                    thread::yield_now();
                }
            }));
            let (there, there_end) = mpmc::bounded(1);
            let (back, back_end) = mpmc::bounded(1);
            drop(thread::spawn(move || {
                while there_end.recv().wait().is_ok() && back.send(()).wait().is_ok() {}
            }));
            trips_beside(long, turns, there, back_end).wait()
        });
        pair.await.unwrap()
    })
}

/// Each turn of the one that gives way is followed by three of the pair's, but where the system takes the CPU for so
/// long that short ones are taken for long ones.
fn has_more_than_half(trips: impl Fn() -> usize) -> bool {
    (0..50).any(|_| trips() > 500)
}

#[test]
fn what_is_in_the_slot_does_not_wait_for_a_long_thread() {
    assert!(has_more_than_half(trips_of_tasks));
}

#[test]
fn what_follows_its_waker_does_not_wait_for_a_long_task() {
    assert!(has_more_than_half(trips_of_threads));
}

/// What is bound and what is not have turns by number, one of each.
#[test]
fn a_short_task_goes_before_long_threads() {
    let pieces = pieces_meanwhile("default", start_threads);
    assert!(pieces < 20, "{pieces} pieces of 1 ms");
    let pieces = pieces_meanwhile("overtake=off", start_threads);
    assert!(pieces > 90, "one for each: {pieces}");
}

#[test]
fn a_short_task_waits_for_one_that_is_long_not_for_all() {
    let pieces = pieces_meanwhile("default", start_that_give_way);
    assert!(pieces < 100, "{pieces} pieces of 1 ms");
    let pieces = pieces_meanwhile("overtake=off", start_that_give_way);
    assert!(pieces > 700, "each has its turn in between: {pieces}");
}

#[test]
fn so_it_does_beside_long_tasks_that_wake_one_another() {
    let pieces = pieces_meanwhile("default", start_that_wake_one_another);
    assert!(pieces < 100, "{pieces} pieces of 1 ms");
    let pieces = pieces_meanwhile("overtake=off", start_that_wake_one_another);
    assert!(pieces > 300, "each has its turn in between: {pieces}");
}

/// Whatever is always ready beside them, whatever a policy answers, and whether all are tasks or every second one is a
/// thread.
#[test]
fn long_ones_have_their_turns_one_after_the_other() {
    const LONG: usize = 4;
    const PIECES: usize = 30;
    // Until it is known who is long, two threads have as many turns as two long tasks and two short ones.
    let cases = [
        ("default", 2, false),
        ("default", 4, true),
        ("adversary=random", PIECES, false),
        ("adversary=random", PIECES, true),
    ];
    for (config, apart, has_threads) in cases {
        let log = Arc::new(Mutex::new(Vec::new()));
        let logged = log.clone();
        // From one task, so that all are in one deque from the beginning.
        let runtime = runtime(config);
        let all = runtime.spawn(async move {
            let is_over = Arc::new(AtomicBool::new(false));
            let short = [(); 2].map(|()| {
                let is_over = is_over.clone();
                spawn(async move {
                    // Ordering: Relaxed; it is to end some time.
                    while !is_over.load(Ordering::Relaxed) {
                        yield_now().await;
                    }
                })
            });
            let mut tasks = Vec::new();
            let mut threads = Vec::new();
            for number in 0..LONG {
                let log = logged.clone();
                let piece = move || {
                    compute(PIECE);
                    log.lock().unwrap().push(number);
                };
                if has_threads && number % 2 == 1 {
                    threads.push(thread::spawn(move || {
                        for _ in 0..PIECES {
                            piece();
                            thread::yield_now();
                        }
                    }));
                } else {
                    tasks.push(spawn(async move {
                        for _ in 0..PIECES {
                            piece();
                            yield_now().await;
                        }
                    }));
                }
            }
            for task in tasks {
                task.await.unwrap();
            }
            for thread in threads {
                thread.await.unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
            for task in short {
                task.await.unwrap();
            }
        });
        runtime.block_on(all).unwrap();
        let mut done = [0; LONG];
        for &number in log.lock().unwrap().iter() {
            done[number] += 1;
            let behind = done[number] - done.iter().min().unwrap();
            assert!(behind <= apart, "{config}, threads {has_threads}: {done:?}");
        }
        assert_eq!(done, [PIECES; LONG], "{config}");
    }
}

/// The order in which three tasks that compute and one that does not have their turns while the clock stands.
fn order_without_time(config: &str) -> String {
    let runtime = Runtime::builder()
        .worker_threads(1)
        .config(config.parse().unwrap())
        .start_paused(true)
        .build()
        .unwrap();
    let log = Arc::new(Mutex::new(String::new()));
    let logged = log.clone();
    runtime.block_on(async move {
        let tasks = ["a", "b", "c", "."].map(|name| {
            let log = logged.clone();
            spawn(async move {
                for _ in 0..30 {
                    if name != "." {
                        compute(PIECE);
                    }
                    log.lock().unwrap().push_str(name);
                    yield_now().await;
                }
            })
        });
        for task in tasks {
            task.await.unwrap();
        }
    });
    log.lock().unwrap().clone()
}

#[test]
fn a_clock_that_stands_makes_no_task_long() {
    assert_eq!(order_without_time("default"), order_without_time("overtake=off"));
}
