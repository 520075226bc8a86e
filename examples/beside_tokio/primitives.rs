//! What an operation costs that waits for nobody, here and in tokio: of locks, channels, timers, sets of tasks, and
//! macros. What futures-util and futures-lite have in place of those is in tokio's column, run by a task of tokio's.
//!
//! Watch: a line for each, in nanoseconds, medians of five runs in turn, each in a task of a runtime with one worker. A
//! run has a thousand operations, enough to see that it works. For figures build it with `--release`, and say how many:
//! `cargo run --release -p quadrille-beside-tokio --example primitives -- 1000000`.
#![expect(clippy::print_stdout, reason = "a program prints")]

use std::future::ready;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Runs of each.
const RUNS: usize = 5;

/// Much later than all ends.
const FAR: Duration = Duration::from_secs(1_000);

struct Both {
    ours: quadrille::Runtime,
    theirs: tokio::runtime::Runtime,
    /// Operations a run.
    count: u64,
}

impl Both {
    fn compare<F, G>(&self, name: &str, ours: impl Fn(u64) -> F, theirs: impl Fn(u64) -> G)
    where
        F: Future<Output = ()> + Send + 'static,
        G: Future<Output = ()> + Send + 'static,
    {
        let (mut here, mut there) = ([0.0; RUNS], [0.0; RUNS]);
        for (here, there) in here.iter_mut().zip(&mut there) {
            let task = self.ours.spawn(timed(self.count, ours(self.count)));
            *here = self.ours.block_on(task).expect("it does not panic");
            let task = self.theirs.spawn(timed(self.count, theirs(self.count)));
            *there = self.theirs.block_on(task).expect("it does not panic");
        }
        let [here, there] = [here, there].map(median);
        println!("{name:34} {here:8.1} {there:8.1} {:6.2}", here / there);
    }
}

/// Nanoseconds an operation.
async fn timed(count: u64, operations: impl Future<Output = ()>) -> f64 {
    let start = Instant::now();
    operations.await;
    start.elapsed().as_secs_f64() * 1e9 / count as f64
}

fn median(mut runs: [f64; RUNS]) -> f64 {
    runs.sort_by(f64::total_cmp);
    runs[RUNS / 2]
}

/// Rows whose text is the same for both: `sync` is quadrille's, and then tokio's.
macro_rules! rows {
    ($both:ident: $($name:literal: |$count:ident| $operations:block)*) => {$(
        $both.compare(
            $name,
            |$count| {
                use quadrille::sync;
                async move $operations
            },
            |$count| {
                use tokio::sync;
                async move $operations
            },
        );
    )*};
}

fn locks(both: &Both) {
    rows! { both:
        "Mutex::lock": |count| {
            let lock = sync::Mutex::new(0);
            for _ in 0..count {
                *black_box(&lock).lock().await += 1;
            }
            assert_eq!(lock.into_inner(), count);
        }
        "RwLock::read": |count| {
            let lock = sync::RwLock::new(0);
            for _ in 0..count {
                black_box(*black_box(&lock).read().await);
            }
        }
        "RwLock::write": |count| {
            let lock = sync::RwLock::new(0);
            for _ in 0..count {
                *black_box(&lock).write().await += 1;
            }
            assert_eq!(lock.into_inner(), count);
        }
        "Semaphore::acquire": |count| {
            let permits = sync::Semaphore::new(5);
            for _ in 0..count {
                drop(black_box(&permits).acquire().await);
            }
            assert_eq!(permits.available_permits(), 5);
        }
        "OnceCell::get_or_init, set": |count| {
            let cell = sync::OnceCell::from(1);
            let mut sum = 0;
            for _ in 0..count {
                sum += black_box(&cell).get_or_init(|| ready(0)).await;
            }
            assert_eq!(sum, count);
        }
        "Notify::notify_one, notified": |count| {
            let notify = sync::Notify::new();
            for _ in 0..count {
                notify.notify_one();
                notify.notified().await;
            }
        }
    }
}

fn channels(both: &Both) {
    rows! { both:
        "oneshot": |count| {
            for number in 0..count {
                let (sender, receiver) = sync::oneshot::channel();
                assert!(sender.send(number).is_ok());
                assert_eq!(receiver.await, Ok(number));
            }
        }
        "watch": |count| {
            let (sender, mut receiver) = sync::watch::channel(0);
            for number in 0..count {
                assert!(sender.send(number).is_ok() && receiver.changed().await.is_ok());
                assert_eq!(*receiver.borrow(), number);
            }
        }
        "broadcast": |count| {
            let (sender, mut receiver) = sync::broadcast::channel(16);
            for number in 0..count {
                assert!(sender.send(number).is_ok());
                assert_eq!(receiver.recv().await, Ok(number));
            }
        }
    }
    both.compare(
        "mpmc::bounded, mpsc::channel",
        |count| async move {
            let (sender, receiver) = quadrille::sync::mpmc::bounded(16);
            for number in 0..count {
                assert!(sender.send(number).await.is_ok());
                assert_eq!(receiver.recv().await, Ok(number));
            }
        },
        |count| async move {
            let (sender, mut receiver) = tokio::sync::mpsc::channel(16);
            for number in 0..count {
                assert!(sender.send(number).await.is_ok());
                assert_eq!(receiver.recv().await, Some(number));
            }
        },
    );
    both.compare(
        "the same, new each time",
        |count| async move {
            for number in 0..count {
                let (sender, receiver) = quadrille::sync::mpmc::bounded(16);
                assert!(sender.send(number).await.is_ok());
                assert_eq!(receiver.recv().await, Ok(number));
            }
        },
        |count| async move {
            for number in 0..count {
                let (sender, mut receiver) = tokio::sync::mpsc::channel(16);
                assert!(sender.send(number).await.is_ok());
                assert_eq!(receiver.recv().await, Some(number));
            }
        },
    );
}

fn timers(both: &Both) {
    both.compare(
        "timeout of what is ready",
        |count| async move {
            for number in 0..count {
                assert_eq!(quadrille::time::timeout(FAR, ready(number)).await.ok(), Some(number));
            }
        },
        |count| async move {
            for number in 0..count {
                assert_eq!(tokio::time::timeout(FAR, ready(number)).await.ok(), Some(number));
            }
        },
    );
    both.compare(
        "DelayQueue::insert, remove",
        |count| async move {
            let mut queue = quadrille::time::DelayQueue::new();
            for number in 0..count {
                let key = queue.insert(number, FAR);
                assert_eq!(queue.remove(&key).into_inner(), number);
            }
        },
        |count| async move {
            let mut queue = tokio_util::time::DelayQueue::new();
            for number in 0..count {
                let key = queue.insert(number, FAR);
                assert_eq!(queue.remove(&key).into_inner(), number);
            }
        },
    );
    both.compare(
        "DelayQueue::reset of the first of 100",
        |count| async move {
            let mut queue = quadrille::time::DelayQueue::new();
            let keys = [(); 100].map(|()| queue.insert((), FAR));
            for (_, key) in (0..count).zip(keys.iter().cycle()) {
                queue.reset(key, FAR);
            }
        },
        |count| async move {
            let mut queue = tokio_util::time::DelayQueue::new();
            let keys = [(); 100].map(|()| queue.insert((), FAR));
            for (_, key) in (0..count).zip(keys.iter().cycle()) {
                queue.reset(key, FAR);
            }
        },
    );
}

fn tasks(both: &Both) {
    both.compare(
        "JoinMap::spawn, join_next",
        |count| async move {
            let mut map = quadrille::JoinMap::new();
            for number in 0..count {
                map.spawn(number, ready(number));
                assert!(map.join_next().await.is_some_and(|(key, _)| key == number));
            }
        },
        |count| async move {
            let mut map = tokio_util::task::JoinMap::new();
            for number in 0..count {
                map.spawn(number, ready(number));
                assert!(map.join_next().await.is_some_and(|(key, _)| key == number));
            }
        },
    );
    both.compare(
        "CancellationToken::child_token",
        |count| async move {
            let token = quadrille::sync::CancellationToken::new();
            (0..count).for_each(|_| drop(black_box(&token).child_token()));
        },
        |count| async move {
            let token = tokio_util::sync::CancellationToken::new();
            (0..count).for_each(|_| drop(black_box(&token).child_token()));
        },
    );
    both.compare(
        "select! of two that are ready",
        |count| async move {
            let mut first = 0;
            for _ in 0..count {
                first += quadrille::select! { one = ready(1) => one, two = ready(0) => two };
            }
            assert!(first > 0 && first < count);
        },
        |count| async move {
            let mut first = 0;
            for _ in 0..count {
                first += tokio::select! { one = ready(1) => one, two = ready(0) => two };
            }
            assert!(first > 0 && first < count);
        },
    );
}

/// Rows of expressions, each of which is the number that it is given.
macro_rules! numbers {
    ($both:ident: $($name:literal: |$number:ident| $ours:expr, $theirs:expr;)*) => {$(
        $both.compare(
            $name,
            |count| async move {
                for $number in (0..count).map(black_box) {
                    assert_eq!($ours, $number);
                }
            },
            |count| async move {
                for $number in (0..count).map(black_box) {
                    assert_eq!($theirs, $number);
                }
            },
        );
    )*};
}

fn selects(both: &Both) {
    use futures_lite::future;
    use futures_util::future::ready as fused;
    numbers! { both:
        "the same, futures_util::select!": |number|
            quadrille::select! { one = ready(number) => one, two = ready(number) => two },
            futures_util::select! { one = fused(number) => one, two = fused(number) => two };
        "select! biased": |number|
            quadrille::select! { biased; one = ready(number) => one, two = ready(0) => two },
            tokio::select! { biased; one = ready(number) => one, two = ready(0) => two };
        "the same, futures_util's": |number|
            quadrille::select! { biased; one = ready(number) => one, two = ready(0) => two },
            futures_util::select_biased! { one = fused(number) => one, two = fused(0) => two };
        "the same, futures_lite's or": |number|
            quadrille::select! { biased; one = ready(number) => one, two = ready(0) => two },
            future::or(ready(number), ready(0)).await;
    }
}

fn joins(both: &Both) {
    use futures_lite::future;
    numbers! { both:
        "join! of two that are ready": |number|
            sum(quadrille::join!(ready(number), ready(0))),
            sum(tokio::join!(ready(number), ready(0)));
        "the same, futures_util::join!": |number|
            sum(quadrille::join!(ready(number), ready(0))),
            sum(futures_util::join!(ready(number), ready(0)));
        "the same, futures_lite's zip": |number|
            sum(quadrille::join!(ready(number), ready(0))),
            sum(future::zip(ready(number), ready(0)).await);
    }
}

fn sum((one, two): (u64, u64)) -> u64 {
    one + two
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = std::env::args().nth(1).map_or(Ok(1_000), |count| count.parse())?;
    let theirs = tokio::runtime::Builder::new_multi_thread();
    let both = Both {
        ours: quadrille::Runtime::builder().worker_threads(1).build()?,
        theirs: { theirs }.worker_threads(1).enable_all().build()?,
        count,
    };
    println!("{:34} quadrille    tokio  ratio", "");
    locks(&both);
    channels(&both);
    timers(&both);
    tasks(&both);
    selects(&both);
    joins(&both);
    Ok(())
}
