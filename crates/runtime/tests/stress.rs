//! A soak: tasks, threads and channels at each other's throats, on few workers and on many, with exact counts.
//!
//! Takes about a second; `QUADRILLE_STRESS_SECONDS` sets another length. `cargo xtask stress` runs it on a build
//! (`--cfg quadrille_stress`) in which rare interleavings are common and lost wake-ups are counted: none may be. It
//! says so in `QUADRILLE_STRESS_BUILD`, and an ordinary build fails then. In such a one a lost wake-up is a hang, and
//! the watchdog's.
#![expect(clippy::print_stderr, reason = "seeds and rounds, to repeat a failure")]

mod wander;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use quadrille::net::UnixStream;
use quadrille::sync::{mpmc, oneshot};
use quadrille::thread as user;
use quadrille::topology::Topology;
use quadrille::{Handle, Locality, Pinning, Runtime, TaskGroup, spawn, task};

use self::wander::{Meeting, wander};

/// Numbers of workers and machines for them.
const SHAPES: [(usize, &str); 5] = [
    (1, "llc:1 core:1"),
    (2, "llc:1 core:2"),
    (4, "node:2 llc:1 core:2"),
    (16, "node:2 llc:2 core:4"),
    (16, "llc:1 core:16"),
];

/// The tests of this file, which share the time.
const TESTS: u32 = 9;

/// Longer than any round takes on a loaded machine under a sanitizer.
const ROUND_MAX: Duration = Duration::from_secs(120);

/// A small generator (xorshift).
#[derive(Clone, Debug)]
struct Rng(u64);

impl Rng {
    /// One with a seed of its own, which is printed.
    fn new(test: &str) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let seed = u64::from(now.subsec_nanos()) | 1;
        eprintln!("{test}: seed {seed}");
        Self(seed)
    }

    fn below(&mut self, limit: u64) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 16) % limit).unwrap()
    }

    /// Another generator, for another thread.
    fn fork(&mut self) -> Self {
        Self(u64::try_from(self.below(u64::from(u32::MAX))).unwrap() << 1 | 1)
    }
}

/// Counts drops.
#[derive(Clone, Debug, Default)]
struct Ledger {
    made: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
}

impl Ledger {
    fn token(&self) -> Token {
        self.made.fetch_add(1, Ordering::Relaxed);
        Token(self.dropped.clone())
    }

    /// Waits until every token is gone. Some go with the last worker, after the call that stopped it.
    fn settle(&self) {
        let begin = Instant::now();
        while self.dropped.load(Ordering::Acquire) < self.made.load(Ordering::Relaxed) {
            assert!(begin.elapsed() < ROUND_MAX, "futures that nobody drops: {self:?}");
            thread::yield_now();
        }
        let (made, dropped) = (self.made.load(Ordering::Relaxed), self.dropped.load(Ordering::Acquire));
        assert_eq!(dropped, made, "each future is dropped once");
    }
}

#[derive(Debug)]
struct Token(Arc<AtomicUsize>);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// Runs `round` on every shape again and again until this test's share of the time is over, at least once.
fn soak(test: &'static str, round: impl Fn(Runtime, &mut Rng) + Send + Sync + Clone + 'static) {
    let is_asked_for = std::env::var_os("QUADRILLE_STRESS_BUILD").is_some();
    assert!(
        cfg!(quadrille_stress) || !is_asked_for,
        "built without --cfg quadrille_stress: no lost wake-up would be counted"
    );
    let seconds = std::env::var("QUADRILLE_STRESS_SECONDS").map_or(1, |text| text.parse().unwrap());
    let share = Duration::from_secs(seconds) / TESTS;
    let (begin, mut rng) = (Instant::now(), Rng::new(test));
    let mut rounds = 0;
    while rounds == 0 || begin.elapsed() < share {
        for (workers, machine) in SHAPES {
            let (round, mut rng) = (round.clone(), rng.fork());
            watched(&format!("{test} on {workers} workers, {machine}"), move || {
                let topology: Topology = machine.parse().unwrap();
                let builder = Runtime::builder().worker_threads(workers).topology(topology);
                let runtime = builder.pinning(Pinning::None).build().unwrap();
                let handle = runtime.handle().clone();
                round(runtime, &mut rng);
                let lost = handle.metrics().total().rescued_by_timeout;
                assert_eq!(lost, 0, "lost wake-ups on {workers} workers, {machine}");
            });
        }
        rounds += 1;
    }
    eprintln!("{test}: {rounds} rounds");
}

/// Runs `round` on a thread of its own; fails if it panics or hangs.
fn watched(what: &str, round: impl FnOnce() + Send + 'static) {
    let begin = Instant::now();
    let thread = thread::spawn(round);
    while !thread.is_finished() {
        assert!(begin.elapsed() < ROUND_MAX, "hangs: {what}");
        thread::park_timeout(Duration::from_micros(100));
    }
    thread
        .join()
        .unwrap_or_else(|payload| std::panic::resume_unwind(payload));
}

/// A tree of tasks: some are joined, some detached; all are counted.
fn grow(depth: usize, count: Arc<AtomicUsize>) -> impl Future<Output = usize> + Send {
    let inner = async move {
        count.fetch_add(1, Ordering::Relaxed);
        if depth == 0 {
            return 1;
        }
        let children: Vec<_> = (0..3)
            .map(|_| spawn(Box::pin(grow(depth - 1, count.clone()))))
            .collect();
        let mut sum = 1;
        for (child, index) in children.into_iter().zip(0_usize..) {
            if index == depth % 3 {
                task::yield_now().await;
            }
            sum += child.await.unwrap();
        }
        sum
    };
    Box::pin(inner) as std::pin::Pin<Box<dyn Future<Output = usize> + Send>>
}

/// Connections that come and go, some with events under way, beside tasks that keep their worker for a while: what L is
/// about.
#[test]
fn connections() {
    soak("connections", |runtime, rng| {
        let tasks: Vec<_> = (0..6)
            .map(|_| {
                let rng = rng.fork();
                runtime.spawn(connect(rng))
            })
            .collect();
        let sum: usize = tasks.into_iter().map(|task| runtime.block_on(task).unwrap()).sum();
        assert_eq!(sum, 6 * 40);
    });
}

async fn connect(mut rng: Rng) -> usize {
    let mut answers = 0;
    for number in 0..40_u8 {
        let (left, right) = UnixStream::pair().unwrap();
        let echo = spawn(async move {
            let mut byte = [0];
            loop {
                // The other side does not wait for the answer to its last byte where it aborts us: it may be gone, or
                // go with that unread.
                match right.read(&mut byte).await {
                    Ok(0) => return,
                    Ok(_) if right.write_all(&byte).await.is_err() => return,
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return,
                    Err(error) => panic!("{error}"),
                }
            }
        });
        for _ in 0..=rng.below(3) {
            left.write_all(&[number]).await.unwrap();
            let mut byte = [0];
            left.read_exact(&mut byte).await.unwrap();
            assert_eq!(byte, [number]);
        }
        answers += 1;
        match rng.below(8) {
            0 => (0..rng.below(100_000)).for_each(|_| std::hint::spin_loop()),
            1 => {
                left.write_all(&[number]).await.unwrap();
                echo.abort();
                continue;
            }
            2 => task::yield_now().await,
            _ => {}
        }
        drop(left);
        echo.await.unwrap();
    }
    answers
}

#[test]
fn spawns() {
    soak("spawns", |runtime, rng| {
        let count = Arc::new(AtomicUsize::new(0));
        let depth = 2 + rng.below(4);
        let expected = (3_usize.pow(u32::try_from(depth).unwrap() + 1) - 1) / 2;
        let trees: Vec<_> = (0..3).map(|_| runtime.spawn(grow(depth, count.clone()))).collect();
        for tree in trees {
            assert_eq!(runtime.block_on(tree).unwrap(), expected);
        }
        assert_eq!(count.load(Ordering::Relaxed), 3 * expected);
    });
}

/// Groups of both kinds, whose tasks spawn and wait for each other: work is put up for other caches, taken, given back.
#[test]
fn task_groups() {
    soak("groups", |runtime, rng| {
        let count = Arc::new(AtomicUsize::new(0));
        let depth = 2 + rng.below(3);
        let expected = (3_usize.pow(u32::try_from(depth).unwrap() + 1) - 1) / 2;
        let groups = [Locality::Together, Locality::Spread].map(|locality| TaskGroup::new().locality(locality));
        let trees: Vec<_> = groups
            .iter()
            .cycle()
            .take(6)
            .map(|group| group.spawn_on(grow(depth, count.clone()), runtime.handle()))
            .collect();
        for tree in trees {
            assert_eq!(runtime.block_on(tree).unwrap(), expected);
        }
        assert_eq!(count.load(Ordering::Relaxed), 6 * expected);
        // A future is dropped before its result is handed over.
        assert!(groups.iter().all(TaskGroup::is_empty));
    });
}

/// One wake-up at a time into a runtime that sleeps, or is about to: what W1 is about. The sentinel has resigned after
/// some of the pauses, and not after others.
#[test]
fn foreign_spawns_into_a_sleeping_house() {
    soak("foreign spawns", |runtime, rng| {
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (handle, mut rng) = (runtime.handle().clone(), rng.fork());
                thread::spawn(move || foreign_calls(&handle, &mut rng))
            })
            .collect();
        let sum: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(sum, 2 * 60);
    });
}

fn foreign_calls(handle: &Handle, rng: &mut Rng) -> usize {
    let mut answers = 0;
    for number in 0..60 {
        let (answer, received) = oneshot::channel();
        drop(handle.spawn(async move { answer.send(number).unwrap() }));
        assert_eq!(received.recv_blocking(), Ok(number));
        answers += 1;
        match rng.below(8) {
            0 => thread::park_timeout(Duration::from_micros(1200)),
            1..4 => (0..rng.below(4000)).for_each(|_| std::hint::spin_loop()),
            _ => {}
        }
    }
    answers
}

/// Tasks that other threads and other tasks answer, one question after the other.
#[test]
fn wakes_across_threads() {
    soak("wakes", |runtime, _| {
        const TASKS: usize = 12;
        const QUESTIONS: usize = 40;
        let (ask, questions) = mpmc::unbounded::<oneshot::Sender<usize>>();
        let asking = |_| {
            let ask = ask.clone();
            runtime.spawn(async move {
                let mut sum = 0;
                for _ in 0..QUESTIONS {
                    let (reply, answer) = oneshot::channel();
                    ask.send(reply).await.unwrap();
                    sum += answer.await.unwrap();
                }
                sum
            })
        };
        let tasks: Vec<_> = (0..TASKS).map(asking).collect();
        drop(ask);
        let foreign = questions.clone();
        let thread = thread::spawn(move || {
            let mut answered = 0;
            while let Ok(reply) = foreign.recv_blocking() {
                reply.send(1).unwrap();
                answered += 1;
            }
            answered
        });
        let inside = runtime.spawn(async move {
            let mut answered = 0;
            while let Ok(reply) = questions.recv().await {
                reply.send(1).unwrap();
                answered += 1;
            }
            answered
        });
        for task in tasks {
            assert_eq!(runtime.block_on(task).unwrap(), QUESTIONS);
        }
        let answered = thread.join().unwrap() + runtime.block_on(inside).unwrap();
        assert_eq!(answered, TASKS * QUESTIONS);
    });
}

#[test]
fn channel_storm() {
    soak("channels", |runtime, rng| {
        let (senders, receivers) = (1 + rng.below(6), 1 + rng.below(6));
        let messages = 20 + rng.below(100);
        let (send, receive) = mpmc::bounded::<usize>(1 + rng.below(4));
        let sending = |_| {
            let send = send.clone();
            runtime.spawn(async move {
                for number in 0..messages {
                    send.send(number).await.unwrap();
                }
            })
        };
        let senders: Vec<_> = (0..senders).map(sending).collect();
        drop(send);
        let receiving = |_| {
            let receive = receive.clone();
            runtime.spawn(async move {
                let (mut count, mut sum) = (0, 0);
                while let Ok(number) = receive.recv().await {
                    count += 1;
                    sum += number;
                }
                (count, sum)
            })
        };
        let receivers: Vec<_> = (0..receivers).map(receiving).collect();
        drop(receive);
        let expected = (senders.len() * messages, senders.len() * messages * (messages - 1) / 2);
        senders.into_iter().for_each(|task| runtime.block_on(task).unwrap());
        let got = receivers.into_iter().fold((0, 0), |total, task| {
            let (count, sum) = runtime.block_on(task).unwrap();
            (total.0 + count, total.1 + sum)
        });
        assert_eq!(got, expected);
    });
}

/// A task that gives its waker away and stays pending until it is aborted, or has been woken `wakes` times.
async fn restless(wakers: mpmc::Sender<Waker>, wakes: usize, token: Token) -> usize {
    let _token = token;
    let mut polls = 0;
    poll_fn(|cx| {
        polls += 1;
        // The receiver may have gone.
        let _ = wakers.try_send(cx.waker().clone());
        if polls > wakes {
            Poll::Ready(polls)
        } else {
            Poll::Pending
        }
    })
    .await
}

/// Wakes all that comes, until nobody is left to send. The number of wakers.
fn wake_all(wakers: &mpmc::Receiver<Waker>) -> usize {
    let mut count = 0;
    while let Ok(waker) = wakers.recv_blocking() {
        waker.wake();
        count += 1;
    }
    count
}

/// Aborts from two threads at once, while others wake: each task ends once, in one of two ways.
#[test]
fn aborts() {
    soak("aborts", |runtime, rng| {
        let ledger = Ledger::default();
        let (wakers, woken) = mpmc::unbounded();
        let waking = thread::spawn(move || wake_all(&woken));
        let tasks: Vec<_> = (0..100)
            .map(|_| runtime.spawn(restless(wakers.clone(), rng.below(4), ledger.token())))
            .collect();
        drop(wakers);
        let handles: Vec<_> = tasks.iter().map(quadrille::JoinHandle::abort_handle).collect();
        let aborting = thread::spawn(move || {
            handles.iter().rev().step_by(2).for_each(task::AbortHandle::abort);
            handles
        });
        for task in tasks.iter().step_by(3) {
            task.abort();
        }
        let handles = aborting.join().unwrap();
        let (mut finished, mut cancelled) = (0, 0);
        for task in tasks {
            match runtime.block_on(task) {
                Ok(polls) => {
                    assert!((1..=4).contains(&polls));
                    finished += 1;
                }
                Err(error) => {
                    assert!(error.is_cancelled());
                    cancelled += 1;
                }
            }
        }
        assert_eq!(finished + cancelled, 100);
        assert!(handles.iter().all(task::AbortHandle::is_finished));
        assert!(waking.join().unwrap() >= finished);
        ledger.settle();
    });
}

/// Spawns, wakes and aborts go on while the runtime ends at a random moment, from outside, from inside, or by itself.
#[test]
fn shutdown_at_a_random_moment() {
    soak("shutdown", |runtime, rng| {
        let ledger = Ledger::default();
        let storms: Vec<_> = (0..2)
            .map(|_| {
                let (handle, ledger, mut rng) = (runtime.handle().clone(), ledger.clone(), rng.fork());
                thread::spawn(move || storm(&handle, &ledger, &mut rng))
            })
            .collect();
        let moment = rng.below(300);
        while ledger.made.load(Ordering::Relaxed) < moment {
            thread::yield_now();
        }
        match rng.below(3) {
            0 => drop(runtime),
            1 => runtime.shutdown_background(),
            _ => {
                let handle = runtime.handle().clone();
                let ender = handle.spawn(async move { drop(runtime) });
                // Finished, or stopped by what it did itself: either is an end.
                let _ = futures_lite::future::block_on(pin!(ender));
            }
        }
        storms.into_iter().for_each(|thread| thread.join().unwrap());
        ledger.settle();
    });
}

fn storm(handle: &Handle, ledger: &Ledger, rng: &mut Rng) {
    let (wakers, woken) = mpmc::unbounded::<Waker>();
    for _ in 0..150 {
        let task = handle.spawn(restless(wakers.clone(), rng.below(5), ledger.token()));
        match rng.below(4) {
            0 => task.abort(),
            1 => drop(handle.spawn(async move { drop(task.await) })),
            _ => {}
        }
        while let Ok(waker) = woken.try_recv() {
            waker.wake();
        }
    }
    // Wakers that outlive it all.
    drop(wakers);
    wake_all(&woken);
}

/// User-level threads that are woken from everywhere, and listed meanwhile, and in two thirds of the rounds ended
/// half-way, with their runtime or one by one: each is dropped once, on the OS thread that it began on. Not for
/// ThreadSanitizer, which does not see stacks switched.
#[test]
fn bound_threads() {
    soak("bound_threads", |runtime, rng| {
        let (ledger, meeting, ending) = (Ledger::default(), Meeting::new(), rng.below(3));
        let threads: Vec<_> = (0..24)
            .map(|_| {
                let (ledger, meeting, mut rng) = (ledger.clone(), meeting.clone(), rng.fork());
                runtime.spawn_thread(move || wander(&ledger, &meeting, &mut rng))
            })
            .collect();
        drop(meeting);
        let moment = rng.below(20_000);
        let done = Arc::new(AtomicUsize::new(0));
        let wakers: Vec<_> = (0..2)
            .map(|_| {
                let parked: Vec<_> = threads.iter().map(|thread| thread.thread().clone()).collect();
                let (done, mut rng) = (done.clone(), rng.fork());
                let handle = runtime.handle().clone();
                // They go on while the runtime ends, if it ends half-way.
                thread::spawn(move || {
                    while done.load(Ordering::Relaxed) == 0 {
                        parked[rng.below(24)].unpark();
                        if rng.below(64) == 0 {
                            // Their memory comes and goes meanwhile.
                            drop(handle.threads());
                        }
                    }
                })
            })
            .collect();
        (0..moment).for_each(|_| std::hint::spin_loop());
        match ending {
            0 => drop(runtime),
            1 => threads
                .iter()
                .filter(|_| rng.below(2) == 0)
                .for_each(user::JoinHandle::abort),
            _ => {}
        }
        for thread in threads {
            if let Err(payload) = thread.join() {
                assert!(ending < 2 && payload.is::<task::JoinError>(), "it panicked");
            }
        }
        done.store(1, Ordering::Relaxed);
        wakers.into_iter().for_each(|waker| waker.join().unwrap());
        ledger.settle();
    });
}
