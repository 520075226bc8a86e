//! tokio with one fault at a time: the workloads' own verification finds each.

use std::any::Any;
use std::fmt::Debug;
use std::future::{Future, ready};
use std::io;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use quadrille_bench::adapters::async_channel::AsyncChannel;
use quadrille_bench::adapters::tokio::Tokio;
use quadrille_bench::adapters::{Channel, Counts, Received, Runtime, Sent, Streams};
use quadrille_bench::outcome::{Measured, Stop};
use quadrille_bench::spec::{Schbench, Transport};
use quadrille_bench::workloads::{
    block_on, blocking, fib, load, ping_pong, pipe, schbench, skynet, spawn_join, timers,
};

/// What is wrong; the rest is as tokio does it.
trait Fault: Copy + Debug + Send + Sync + 'static {
    /// Whether it sleeps at all.
    const SLEEPS: bool = true;

    /// What a task or a job is said to have returned, which was `value`.
    fn result<T: 'static>(value: T) -> T {
        value
    }

    /// What happens before a task is spawned from a thread that is no worker.
    fn before_spawn_outside(_: Tokio) {}

    /// What is written in place of `bytes`.
    fn written(bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }
}

/// tokio with a fault.
#[derive(Clone, Copy, Debug)]
struct Faulty<F> {
    tokio: Tokio,
    fault: PhantomData<F>,
}

impl<F: Fault> Faulty<F> {
    fn start(workers: usize) -> Self {
        Self {
            tokio: Tokio::start(workers).unwrap(),
            fault: PhantomData,
        }
    }
}

impl<F: Fault> Counts for Faulty<F> {}

impl<F: Fault> Runtime for Faulty<F> {
    type Join<T: Send + 'static> = <Tokio as Runtime>::Join<T>;

    fn spawn<B>(self, future: B) -> Self::Join<B::Output>
    where
        B: Future + Send + 'static,
        B::Output: Send + 'static,
    {
        self.tokio.spawn(async move { F::result(future.await) })
    }

    fn spawn_detached<B>(self, future: B)
    where
        B: Future<Output = ()> + Send + 'static,
    {
        self.tokio.spawn_detached(future);
    }

    fn spawn_outside<B>(self, future: B)
    where
        B: Future<Output = ()> + Send + 'static,
    {
        F::before_spawn_outside(self.tokio);
        self.tokio.spawn_outside(future);
    }

    fn block_on<B: Future>(self, future: B) -> B::Output {
        self.tokio.block_on(future)
    }

    fn spawn_blocking<J, T>(self, job: J) -> impl Future<Output = T> + Send
    where
        J: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.tokio.spawn_blocking(move || F::result(job()))
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        Tokio::yield_now()
    }

    async fn sleep(duration: Duration) {
        if F::SLEEPS {
            Tokio::sleep(duration).await;
        }
    }
}

impl<F: Fault> Streams for Faulty<F> {
    type Writer = <Tokio as Streams>::Writer;
    type Reader = <Tokio as Streams>::Reader;

    fn open(self, transport: Transport) -> Result<(Self::Writer, Self::Reader), Stop> {
        self.tokio.open(transport)
    }

    async fn write_all(writer: &Self::Writer, bytes: &[u8]) -> io::Result<()> {
        Tokio::write_all(writer, &F::written(bytes)).await
    }

    fn read_exact(reader: &mut Self::Reader, bytes: &mut [u8]) -> impl Future<Output = io::Result<()>> + Send {
        Tokio::read_exact(reader, bytes)
    }
}

/// `value`, or the next one if it is a number.
fn next<T: 'static>(mut value: T) -> T {
    if let Some(number) = (&mut value as &mut dyn Any).downcast_mut::<u64>() {
        *number += 1;
    }
    value
}

/// Nothing is wrong.
#[derive(Clone, Copy, Debug)]
struct Faultless;

impl Fault for Faultless {}

/// Numbers that tasks and jobs return are one too high.
#[derive(Clone, Copy, Debug)]
struct HighResults;

impl Fault for HighResults {
    fn result<T: 'static>(value: T) -> T {
        next(value)
    }
}

/// A sleep is over at once.
#[derive(Clone, Copy, Debug)]
struct Sleepless;

impl Fault for Sleepless {
    const SLEEPS: bool = false;
}

/// Bytes are written backwards.
#[derive(Clone, Copy, Debug)]
struct Backwards;

impl Fault for Backwards {
    fn written(bytes: &[u8]) -> Vec<u8> {
        bytes.iter().rev().copied().collect()
    }
}

/// How long the load's worker, or the thread that spawns its requests, is kept from what it does.
const STALL: Duration = Duration::from_millis(50);

/// Before which request that is: half of some 450 in [`a_stall_of_a_load`].
const STALL_BEFORE: usize = 225;

fn stall() {
    let start = Instant::now();
    while start.elapsed() < STALL {
        std::hint::spin_loop();
    }
}

/// Counts a request, and says whether the stall comes before it.
fn is_time(spawned: &AtomicUsize) -> bool {
    // Ordering: Relaxed; one thread counts.
    spawned.fetch_add(1, Ordering::Relaxed) == STALL_BEFORE
}

/// Once a task does not let others run for long.
#[derive(Clone, Copy, Debug)]
struct StalledWorker;

impl Fault for StalledWorker {
    fn before_spawn_outside(tokio: Tokio) {
        static SPAWNED: AtomicUsize = AtomicUsize::new(0);
        if is_time(&SPAWNED) {
            tokio.spawn_outside(async { stall() });
        }
    }
}

/// Once it takes long to spawn a task.
#[derive(Clone, Copy, Debug)]
struct StalledSpawn;

impl Fault for StalledSpawn {
    fn before_spawn_outside(_: Tokio) {
        static SPAWNED: AtomicUsize = AtomicUsize::new(0);
        if is_time(&SPAWNED) {
            stall();
        }
    }
}

/// A channel whose numbers arrive one too high.
enum High {}

impl Channel for High {
    type Sender<T: Send + 'static> = async_channel::Sender<T>;
    type Receiver<T: Send + 'static> = async_channel::Receiver<T>;

    fn bounded<T: Send + 'static>(capacity: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        AsyncChannel::bounded(capacity)
    }

    fn send<T: Send + 'static>(sender: &Self::Sender<T>, value: T) -> impl Future<Output: Sent> + Send {
        AsyncChannel::send(sender, next(value))
    }

    fn recv<T: Send + 'static>(receiver: &mut Self::Receiver<T>) -> impl Future<Output: Received<T>> + Send {
        AsyncChannel::recv(receiver)
    }
}

/// A channel that says of all messages that there will be none.
enum Deaf {}

impl Channel for Deaf {
    type Sender<T: Send + 'static> = async_channel::Sender<T>;
    type Receiver<T: Send + 'static> = async_channel::Receiver<T>;

    fn bounded<T: Send + 'static>(capacity: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        AsyncChannel::bounded(capacity)
    }

    fn send<T: Send + 'static>(sender: &Self::Sender<T>, value: T) -> impl Future<Output: Sent> + Send {
        AsyncChannel::send(sender, value)
    }

    fn recv<T: Send + 'static>(_: &mut Self::Receiver<T>) -> impl Future<Output: Received<T>> + Send {
        ready(None::<T>)
    }
}

fn check_failed(result: Result<Measured, Stop>, expected: &str) {
    match result {
        Err(Stop::Failed(message)) => assert!(message.contains(expected), "{expected}: {message}"),
        other => panic!("{expected}: {other:?}"),
    }
}

#[test]
fn without_a_fault_nothing_is_found() {
    let runtime = Faulty::<Faultless>::start(2);
    assert_eq!(runtime.run(spawn_join::run(runtime, 20, 10)).unwrap().ops, 20);
    assert_eq!(runtime.run(blocking::run(runtime, 2, 10)).unwrap().ops, 20);
    assert_eq!(runtime.run(timers::run(runtime, 2, 2, (1, 9))).unwrap().ops, 4);
    assert_eq!(runtime.run(pipe::run(runtime, 20)).unwrap().ops, 20);
}

#[test]
fn a_result_that_is_too_high_fails_the_run() {
    let runtime = Faulty::<HighResults>::start(2);
    // Each of the results is one too high, in a tree on each level.
    check_failed(
        runtime.run(spawn_join::run(runtime, 20, 10)),
        "results sum up to 110, not 90",
    );
    check_failed(block_on::run(runtime, 10), "results sum up to 55, not 45");
    check_failed(
        runtime.run(blocking::run(runtime, 2, 10)),
        "results sum up to 112, not 90",
    );
    check_failed(runtime.run(fib::run(runtime, 3, 2)), "numbers sum up to 8, not 4");
    check_failed(runtime.run(skynet::run(runtime, 10)), "leaves sum up to 56, not 45");
}

#[test]
fn a_sleep_that_is_too_short_fails_the_run() {
    let runtime = Faulty::<Sleepless>::start(2);
    let second = 1_000_000;
    check_failed(
        runtime.run(timers::run(runtime, 5, 4, (second, second))),
        "20 sleeps of 20, 20 of them early",
    );
    check_failed(
        runtime.run(timers::arm_and_drop(runtime, 7)),
        "7 of 7 timers fired ten seconds early",
    );
}

#[test]
fn a_number_that_arrives_as_another_fails_the_run() {
    let runtime = Faulty::<Faultless>::start(2);
    check_failed(
        runtime.run(ping_pong::run::<_, High>(runtime, 2, 5)),
        "round trip 0 answered Some(3)",
    );
    let runtime = Faulty::<Backwards>::start(2);
    // The first number is 0, either way; the answer is 1, and its low byte becomes the high one or the other way round.
    let (result, low) = (runtime.run(pipe::run(runtime, 5)), 1u32.swap_bytes());
    check_failed(result, &format!("round trip 0 answered Some({low})"));
}

#[test]
fn wake_ups_that_are_missing_fail_the_run() {
    let runtime = Faulty::<Faultless>::start(2);
    for tick_us in [0, 100] {
        let params = Schbench {
            messengers: 2,
            workers: 3,
            work_us: 1,
            tick_us,
            rounds: 10,
        };
        let result = runtime.run(schbench::run::<_, Deaf>(runtime, params));
        check_failed(result, "0 wake-ups, 60 expected");
    }
}

/// A load of a single worker at 30 %, with a stall of 50 ms in its middle. Requests are due 0.7 ms apart, so some 75
/// are while it lasts, and 15 of them at least 40 ms before its end: more than one in a hundred of all.
fn a_stall_of_a_load<F: Fault>() -> Measured {
    let runtime = Faulty::<F>::start(1);
    let times = (Duration::from_micros(200), Duration::from_millis(300));
    let measured = load::run(runtime, 1, 30, times).unwrap();
    assert!((400..500).contains(&measured.ops), "{measured:?}");
    measured
}

/// Else who is slow would be asked less, and the slowness not be seen (coordinated omission).
#[test]
fn a_request_is_late_from_when_it_was_due() {
    let least = 40_000_000;
    let worker = a_stall_of_a_load::<StalledWorker>();
    assert!(worker.counters["p99_ns"] >= least, "behind the worker: {worker:?}");
    let spawn = a_stall_of_a_load::<StalledSpawn>();
    assert!(spawn.counters["p99_ns"] >= least, "not yet spawned: {spawn:?}");
    assert!(spawn.counters["generator_late_max_ns"] >= least, "{spawn:?}");
}
