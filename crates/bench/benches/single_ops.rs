//! Single operations on quadrille and tokio, two workers each: `cargo bench -p quadrille-bench`.
//!
//! For whole workloads and the other peers see `quadrille compare`; these are for a quick look at one path while
//! working on it. All of them run inside a task and time themselves, so the way into the runtime is not part of them.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main, measurement::WallTime};
use quadrille_bench::adapters::async_channel::AsyncChannel;
use quadrille_bench::adapters::quadrille::{Mpmc, Quadrille};
use quadrille_bench::adapters::tokio::{Tokio, TokioMpsc};
use quadrille_bench::adapters::{Channel, Received, Runtime, Sent};
use quadrille_bench::outcome::Stop;
use quadrille_bench::spec::{Contender, RuntimeName};

const WORKERS: usize = 2;

fn bench(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, mut timed: impl FnMut(u64) -> Result<Duration, Stop>) {
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|count| timed(count).expect("the operation succeeds"));
    });
}

fn spawn_join<R: Runtime>(runtime: R, count: u64) -> Result<Duration, Stop> {
    runtime.run(async move {
        let start = Instant::now();
        for index in 0..count {
            if runtime.spawn(async move { index }).await != index {
                return Err(Stop::failed("a task returned something else"));
            }
        }
        Ok(start.elapsed())
    })
}

fn yield_now<R: Runtime>(runtime: R, count: u64) -> Result<Duration, Stop> {
    runtime.run(async move {
        let start = Instant::now();
        for _ in 0..count {
            R::yield_now().await;
        }
        Ok(start.elapsed())
    })
}

fn ping_pong<R: Runtime, C: Channel>(runtime: R, count: u64) -> Result<Duration, Stop> {
    runtime.run(async move {
        let (there, mut there_end) = C::bounded::<u64>(1);
        let (back, mut back_end) = C::bounded::<u64>(1);
        let partner = runtime.spawn(async move {
            while let Some(number) = C::recv(&mut there_end).await.value() {
                C::send(&back, number).await.sent()?;
            }
            Ok(())
        });
        let start = Instant::now();
        for index in 0..count {
            C::send(&there, index).await.sent()?;
            if C::recv(&mut back_end).await.value() != Some(index) {
                return Err(Stop::failed("the partner answered something else"));
            }
        }
        let elapsed = start.elapsed();
        drop(there);
        partner.await.map(|()| elapsed)
    })
}

fn detach<R: Runtime>(runtime: R, count: u64) -> Result<Duration, Stop> {
    runtime.run(async move {
        let (sender, receiver) = async_channel::bounded(1);
        let start = Instant::now();
        for index in 0..count {
            let sender = sender.clone();
            runtime.spawn_detached(async move {
                // An error would mean that nobody waits for it.
                let _ = sender.send(index).await;
            });
            if receiver.recv().await != Ok(index) {
                return Err(Stop::failed("a task sent something else"));
            }
        }
        Ok(start.elapsed())
    })
}

fn arm_and_drop<R: Runtime>(runtime: R, count: u64) -> Result<Duration, Stop> {
    runtime.run(async move {
        let start = Instant::now();
        for _ in 0..count {
            let mut timer = pin!(R::sleep(Duration::from_secs(10)));
            if poll_fn(|cx| Poll::Ready(timer.as_mut().poll(cx).is_ready())).await {
                return Err(Stop::failed("a timer fired ten seconds early"));
            }
        }
        Ok(start.elapsed())
    })
}

fn send_and_receive<R: Runtime, C: Channel>(runtime: R, count: u64) -> Result<Duration, Stop> {
    runtime.run(async move {
        let (sender, mut receiver) = C::bounded::<[u8; 100]>(1);
        let start = Instant::now();
        for _ in 0..count {
            C::send(&sender, [7; 100]).await.sent()?;
            if C::recv(&mut receiver).await.value().is_none() {
                return Err(Stop::failed("the message is gone"));
            }
        }
        Ok(start.elapsed())
    })
}

/// A job of the blocking pool that returns what it is given.
type Job = fn(u64) -> Pin<Box<dyn Future<Output = u64> + Send>>;

/// Jobs of `callers` tasks, each of which waits for one at a time.
fn blocking<R: Runtime>(runtime: R, count: u64, callers: u32, job: Job) -> Result<Duration, Stop> {
    runtime.run(async move {
        let start = Instant::now();
        let caller = |first: u32| {
            runtime.spawn(async move {
                for index in (u64::from(first)..count).step_by(callers as usize) {
                    if job(index).await != index {
                        return Err(Stop::failed("a job returned something else"));
                    }
                }
                Ok(())
            })
        };
        for caller in (0..callers).map(caller).collect::<Vec<_>>() {
            caller.await?;
        }
        Ok(start.elapsed())
    })
}

/// A runtime with its own mutex.
trait Locks: Runtime {
    type Mutex: Default + Send + Sync + 'static;

    /// Adds one inside, before or after having given way there; what it is then.
    fn add(mutex: &Self::Mutex, is_held_across: bool) -> impl Future<Output = u64> + Send;
}

/// The same for a mutex whose `lock` is a future.
macro_rules! locks {
    ($runtime:ty, $mutex:ty) => {
        impl Locks for $runtime {
            type Mutex = $mutex;

            async fn add(mutex: &$mutex, is_held_across: bool) -> u64 {
                let mut number = mutex.lock().await;
                *number += 1;
                if is_held_across {
                    <$runtime as Runtime>::yield_now().await;
                }
                *number
            }
        }
    };
}
locks!(Quadrille, quadrille::sync::Mutex<u64>);
locks!(Tokio, tokio::sync::Mutex<u64>);

/// So many tasks that take one mutex again and again.
fn lock<R: Locks>(runtime: R, count: u64, tasks: u32, is_held_across: bool) -> Result<Duration, Stop> {
    runtime.run(async move {
        let mutex = Arc::new(R::Mutex::default());
        let start = Instant::now();
        let visit = |first: u32| {
            let mutex = Arc::clone(&mutex);
            runtime.spawn(async move {
                for _ in (u64::from(first)..count).step_by(tasks as usize) {
                    R::add(&mutex, is_held_across).await;
                }
            })
        };
        for visitor in (0..tasks).map(visit).collect::<Vec<_>>() {
            visitor.await;
        }
        let elapsed = start.elapsed();
        if R::add(&mutex, false).await != count + 1 {
            return Err(Stop::failed("two were inside"));
        }
        Ok(elapsed)
    })
}

fn locks(criterion: &mut Criterion, quadrille: Quadrille, tokio: Tokio) {
    for (tasks, is_held_across) in [(1, false), (16, false), (16, true)] {
        let how = if is_held_across { ", held across a yield" } else { "" };
        let mut group = criterion.benchmark_group(format!("lock, {tasks} tasks{how}"));
        bench(&mut group, "quadrille", |count| {
            lock(quadrille, count, tasks, is_held_across)
        });
        bench(&mut group, "tokio", |count| lock(tokio, count, tasks, is_held_across));
        group.finish();
    }
}

fn pools(criterion: &mut Criterion, quadrille: Quadrille, tokio: Tokio) {
    let ours: Job = |index| Box::pin(async move { quadrille::spawn_blocking(move || index).await.unwrap_or(u64::MAX) });
    let theirs: Job =
        |index| Box::pin(async move { tokio::task::spawn_blocking(move || index).await.unwrap_or(u64::MAX) });
    for callers in [1, 8] {
        let mut group = criterion.benchmark_group(format!("spawn_blocking, {callers} at a time"));
        bench(&mut group, "quadrille", |count| {
            blocking(quadrille, count, callers, ours)
        });
        bench(&mut group, "tokio", |count| blocking(tokio, count, callers, theirs));
        group.finish();
    }
}

fn tasks(criterion: &mut Criterion, quadrille: Quadrille, tokio: Tokio) {
    let mut group = criterion.benchmark_group("spawn_join");
    bench(&mut group, "quadrille", |count| spawn_join(quadrille, count));
    bench(&mut group, "tokio", |count| spawn_join(tokio, count));
    group.finish();

    let mut group = criterion.benchmark_group("yield");
    bench(&mut group, "quadrille", |count| yield_now(quadrille, count));
    bench(&mut group, "tokio", |count| yield_now(tokio, count));
    group.finish();
}

/// A runtime is built, has one task, and is dropped.
fn lives(criterion: &mut Criterion) {
    for workers in [1, WORKERS] {
        let mut group = criterion.benchmark_group(format!("a runtime's life, {workers} workers"));
        bench(&mut group, "quadrille", |count| {
            let start = Instant::now();
            for _ in 0..count {
                let builder = quadrille::Runtime::builder().worker_threads(workers);
                let runtime = builder.build().map_err(|error| Stop::failed(error.to_string()))?;
                // It ends as it should, or the join panics.
                runtime.block_on(async { quadrille::spawn(async {}).await.expect("it ends") });
            }
            Ok(start.elapsed())
        });
        bench(&mut group, "tokio", |count| {
            let start = Instant::now();
            for _ in 0..count {
                let mut builder = tokio::runtime::Builder::new_multi_thread();
                let runtime = builder.worker_threads(workers).enable_all().build();
                let runtime = runtime.map_err(|error| Stop::failed(error.to_string()))?;
                runtime.block_on(async { tokio::spawn(async {}).await.expect("it ends") });
            }
            Ok(start.elapsed())
        });
        group.finish();
    }
}

fn detached_and_timers(criterion: &mut Criterion, quadrille: Quadrille, tokio: Tokio) {
    let mut group = criterion.benchmark_group("spawn_detached");
    bench(&mut group, "quadrille", |count| detach(quadrille, count));
    bench(&mut group, "tokio", |count| detach(tokio, count));
    group.finish();

    let mut group = criterion.benchmark_group("timer_set_and_cancel");
    bench(&mut group, "quadrille", |count| arm_and_drop(quadrille, count));
    bench(&mut group, "tokio", |count| arm_and_drop(tokio, count));
    group.finish();
}

fn channels(criterion: &mut Criterion, quadrille: Quadrille, tokio: Tokio) {
    let mut group = criterion.benchmark_group("ping_pong");
    bench(&mut group, "quadrille", |count| {
        ping_pong::<_, AsyncChannel>(quadrille, count)
    });
    bench(&mut group, "quadrille, own channel", |count| {
        ping_pong::<_, Mpmc>(quadrille, count)
    });
    bench(&mut group, "tokio", |count| ping_pong::<_, AsyncChannel>(tokio, count));
    bench(&mut group, "tokio, own channel", |count| {
        ping_pong::<_, TokioMpsc>(tokio, count)
    });
    group.finish();

    let mut group = criterion.benchmark_group("send_and_receive");
    bench(&mut group, "async-channel", |count| {
        send_and_receive::<_, AsyncChannel>(quadrille, count)
    });
    bench(&mut group, "quadrille::sync::mpmc", |count| {
        send_and_receive::<_, Mpmc>(quadrille, count)
    });
    bench(&mut group, "tokio::sync::mpsc", |count| {
        send_and_receive::<_, TokioMpsc>(tokio, count)
    });
    group.finish();
}

fn single_ops(criterion: &mut Criterion) {
    // Before there are others, which last.
    lives(criterion);
    let quadrille = Quadrille::start(WORKERS, &Contender::new(RuntimeName::Quadrille)).expect("quadrille starts");
    let tokio = Tokio::start(WORKERS).expect("tokio starts");
    tasks(criterion, quadrille, tokio);
    detached_and_timers(criterion, quadrille, tokio);
    channels(criterion, quadrille, tokio);
    locks(criterion, quadrille, tokio);
    pools(criterion, quadrille, tokio);
}

criterion_group!(benches, single_ops);
criterion_main!(benches);
