//! What a workload needs of a runtime, and who provides it.
//!
//! A workload is one generic function over [`Runtime`] and [`Channel`], so every Rust runtime does identical work. The
//! traits ask for what a user of the runtime would write by hand: each adapter spawns, joins and yields in its
//! runtime's natural way. Operating-system threads fit too: their tasks are threads, and waiting blocks them.
//!
//! Workloads of threads ask for [`blocking::ThreadRuntime`], [`blocking::ThreadChannel`] and
//! [`blocking::ThreadStreams`] instead.
//!
//! Go cannot be linked in; [`go`] builds and runs a program that does the same workloads. hackbench(8) is one that does
//! a single one ([`program`]).
//!
//! Runtimes are leaked on purpose: a run has its own process, and tearing a runtime down is no part of any workload.

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::mpsc;
use std::time::Duration;

use crate::outcome::{Counters, Stop};
use crate::spec::Transport;

pub mod async_channel;
pub mod blocking;
pub mod broadcast;
pub mod go;
pub mod may;
pub mod program;
pub mod quadrille;
pub mod servers;
pub mod smol;
pub mod threads;
pub mod tokio;

/// A runtime that may count what it does.
pub trait Counts {
    /// What it has counted so far; empty if it counts nothing.
    fn counters(&self) -> Counters {
        Counters::new()
    }
}

/// A runtime that has been started.
pub trait Runtime: Counts + Copy + Send + Sync + 'static {
    /// Resolves to what the task returned; dropping it need not leave the task running.
    type Join<T: Send + 'static>: Future<Output = T> + Send + 'static;

    /// Spawns from inside a task.
    fn spawn<F>(self, future: F) -> Self::Join<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static;

    /// Spawns from inside a task, and lets the new one run on its own.
    fn spawn_detached<F>(self, future: F)
    where
        F: Future<Output = ()> + Send + 'static;

    /// Spawns from a thread that is no worker, and lets the task run on its own.
    fn spawn_outside<F>(self, future: F)
    where
        F: Future<Output = ()> + Send + 'static;

    /// Blocks the calling thread, which is no worker, until `future` is done; tasks can be spawned in it.
    fn block_on<F: Future>(self, future: F) -> F::Output;

    /// Has a thread that may block run `job`; to be called and awaited inside a task.
    fn spawn_blocking<F, T>(self, job: F) -> impl Future<Output = T> + Send
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static;

    /// Whether another task runs after a yield, if one is ready.
    const YIELD_IS_A_SWITCH: bool = true;

    /// Lets the other ready tasks run first.
    fn yield_now() -> impl Future<Output = ()> + Send;

    /// Waits for at least this long; to be made and awaited inside a task.
    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send;

    /// Runs `future` as a task and blocks the calling thread, which is no worker, until it is done.
    ///
    /// # Errors
    /// [`Stop::Failed`] if the task panicked.
    fn run<F, T>(self, future: F) -> Result<T, Stop>
    where
        F: Future<Output = Result<T, Stop>> + Send + 'static,
        T: Send + 'static,
    {
        let (answer, result) = mpsc::channel();
        self.spawn_outside(async move {
            // The receiver waits below until this is sent.
            let _ = answer.send(future.await);
        });
        result
            .recv()
            .unwrap_or_else(|_| Err(Stop::failed("the workload's task panicked")))
    }
}

/// What a future of [`Channel::send`] or of a stream resolves to.
pub trait Sent {
    /// An error as a failure of the run.
    ///
    /// # Errors
    /// [`Stop::Failed`] if nothing was sent.
    fn sent(self) -> Result<(), Stop>;
}

impl<E: fmt::Display> Sent for Result<(), E> {
    fn sent(self) -> Result<(), Stop> {
        self.map_err(|error| Stop::failed(format!("a sender cannot send: {error}")))
    }
}

/// What a future of [`Channel::recv`] resolves to.
pub trait Received<T> {
    /// The value, or `None` once every sender is gone.
    fn value(self) -> Option<T>;
}

impl<T> Received<T> for Option<T> {
    fn value(self) -> Self {
        self
    }
}

impl<T, E> Received<T> for Result<T, E> {
    fn value(self) -> Option<T> {
        self.ok()
    }
}

/// A bounded channel of many senders and one receiver.
///
/// The futures are the channel's own, not wrapped into further ones: each layer of `async` around a value costs a copy
/// of it, which would be measured as if it were the channel's.
pub trait Channel: Send + Sync + 'static {
    /// The sending end.
    type Sender<T: Send + 'static>: Clone + Send + Sync + 'static;
    /// The receiving end.
    type Receiver<T: Send + 'static>: Send + 'static;

    /// Makes a channel that holds `capacity` values.
    fn bounded<T: Send + 'static>(capacity: usize) -> (Self::Sender<T>, Self::Receiver<T>);

    /// Sends, waiting while the channel is full; fails if the receiver is gone.
    fn send<T: Send + 'static>(sender: &Self::Sender<T>, value: T) -> impl Future<Output: Sent> + Send;

    /// Receives, waiting while the channel is empty.
    fn recv<T: Send + 'static>(receiver: &mut Self::Receiver<T>) -> impl Future<Output: Received<T>> + Send;
}

/// Pipes and stream sockets through the runtime's own input and output.
pub trait Streams: Runtime {
    /// The writing end; several tasks share it.
    type Writer: Send + Sync + 'static;
    /// The reading end.
    type Reader: Send + 'static;

    /// Opens a pipe or a pair of sockets; the workload never asks for [`Transport::Channel`].
    ///
    /// # Errors
    /// [`Stop::Unsupported`] if the runtime has none; [`Stop::Failed`] if the kernel refuses.
    fn open(self, transport: Transport) -> Result<(Self::Writer, Self::Reader), Stop>;

    /// Writes all of `bytes`.
    fn write_all(writer: &Self::Writer, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// Fills `bytes`; the end of the stream before that is an error.
    fn read_exact(reader: &mut Self::Reader, bytes: &mut [u8]) -> impl Future<Output = io::Result<()>> + Send;
}

/// The failure of opening or using a stream.
pub(crate) fn stream_failed(error: &io::Error) -> Stop {
    Stop::failed(format!("cannot open a pipe or socket: {error}"))
}
