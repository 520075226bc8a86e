//! A channel and a runtime that break what is promised: the workloads' own verification finds it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use quadrille_bench::adapters::async_channel::AsyncChannel;
use quadrille_bench::adapters::tokio::Tokio;
use quadrille_bench::adapters::{Channel, Counts, Received, Runtime, Sent};
use quadrille_bench::outcome::{Measured, Stop};
use quadrille_bench::spec::Transport;
use quadrille_bench::workloads::wire::ChannelWire;
use quadrille_bench::workloads::{hackbench, mixed};

/// A channel that loses its seventh message.
enum Lossy {}

struct LossySender<T> {
    inner: async_channel::Sender<T>,
}

impl<T> Clone for LossySender<T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

static SENT: AtomicU64 = AtomicU64::new(0);

impl Channel for Lossy {
    type Sender<T: Send + 'static> = LossySender<T>;
    type Receiver<T: Send + 'static> = async_channel::Receiver<T>;

    fn bounded<T: Send + 'static>(capacity: usize) -> (LossySender<T>, Self::Receiver<T>) {
        let (inner, receiver) = AsyncChannel::bounded(capacity);
        (LossySender { inner }, receiver)
    }

    fn send<T: Send + 'static>(sender: &LossySender<T>, value: T) -> impl Future<Output: Sent> + Send {
        async move {
            if SENT.fetch_add(1, Ordering::Relaxed) == 6 {
                return Ok(());
            }
            AsyncChannel::send(&sender.inner, value)
                .await
                .sent()
                .map_err(|_| "closed")
        }
    }

    fn recv<T: Send + 'static>(receiver: &mut Self::Receiver<T>) -> impl Future<Output: Received<T>> + Send {
        AsyncChannel::recv(receiver)
    }
}

/// A channel that takes 60 ms at least for a message, however fast the machine is.
enum Slow {}

impl Channel for Slow {
    type Sender<T: Send + 'static> = async_channel::Sender<T>;
    type Receiver<T: Send + 'static> = async_channel::Receiver<T>;

    fn bounded<T: Send + 'static>(capacity: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        AsyncChannel::bounded(capacity)
    }

    fn send<T: Send + 'static>(sender: &Self::Sender<T>, value: T) -> impl Future<Output: Sent> + Send {
        async move {
            Tokio::sleep(Duration::from_millis(60)).await;
            AsyncChannel::send(sender, value).await.sent().map_err(|_| "closed")
        }
    }

    fn recv<T: Send + 'static>(receiver: &mut Self::Receiver<T>) -> impl Future<Output: Received<T>> + Send {
        AsyncChannel::recv(receiver)
    }
}

#[test]
fn a_lost_message_fails_the_run() {
    let runtime = Tokio::start(2).unwrap();
    let params = crate::hackbench(Transport::Channel, 8, 100);
    let wire = ChannelWire::<Lossy, 100>::new(params.capacity);
    let result: Result<Measured, Stop> = runtime.run(hackbench::run(runtime, wire, params, false));
    match result {
        Err(Stop::Failed(message)) => {
            assert!(message.contains("before the last message"), "{message}")
        }
        other => panic!("{other:?}"),
    }
}

/// tokio, but the third task that is spawned comes to the start and is then passed over until somebody waits for its
/// end.
#[derive(Clone, Copy, Debug)]
struct Unfair(Tokio);

static SPAWNED: AtomicUsize = AtomicUsize::new(0);

/// A task of it.
struct Awaited<T: Send + 'static> {
    join: <Tokio as Runtime>::Join<T>,
    is_awaited: Arc<AtomicBool>,
}

impl<T: Send + 'static> Future for Awaited<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        self.is_awaited.store(true, Ordering::Relaxed);
        Pin::new(&mut self.join).poll(cx)
    }
}

impl Counts for Unfair {}

impl Runtime for Unfair {
    type Join<T: Send + 'static> = Awaited<T>;

    fn spawn<F>(self, future: F) -> Awaited<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let mut future = Box::pin(future);
        let is_awaited = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_awaited);
        let is_third = SPAWNED.fetch_add(1, Ordering::Relaxed) == 2;
        // It comes to the start here, where who spawns it can't have opened the gate yet.
        let came = is_third
            && future
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending();
        let join = self.0.spawn(std::future::poll_fn(move |cx| {
            if came && !seen.load(Ordering::Relaxed) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            future.as_mut().poll(cx)
        }));
        Awaited { join, is_awaited }
    }

    fn spawn_detached<F>(self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.0.spawn_detached(future);
    }

    fn spawn_outside<F>(self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.0.spawn_outside(future);
    }

    fn block_on<F: Future>(self, future: F) -> F::Output {
        self.0.block_on(future)
    }

    fn spawn_blocking<F, T>(self, job: F) -> impl Future<Output = T> + Send
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.0.spawn_blocking(job)
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        Tokio::yield_now()
    }

    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send {
        Tokio::sleep(duration)
    }
}

#[test]
fn a_heavy_task_that_is_passed_over_fails_the_run() {
    let runtime = Unfair(Tokio::start(2).unwrap());
    let piece = Duration::from_micros(1);
    // Longer than a worker may be off its CPU: each of ten round trips is two messages, which is 1.2 s at least.
    let result = runtime.run(mixed::run::<_, Slow>(runtime, (1, 10), (1, piece)));
    match result {
        Err(Stop::Failed(message)) => assert!(
            message.starts_with("heavy task 1 of 1 computed nothing in "),
            "{message}"
        ),
        other => panic!("{other:?}"),
    }
}
