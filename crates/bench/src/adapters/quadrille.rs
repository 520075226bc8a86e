//! quadrille: the runtime of this workspace, its tasks and user-level threads, its channel, its pipes and sockets, its
//! counters.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use quadrille::net::{PipeReader, PipeWriter, UnixStream, pipe};
use quadrille::sync::mpmc;
use quadrille::thread::{self, Thread};
use quadrille::{JoinHandle, Wait as _};

use super::blocking::{ThreadChannel, ThreadRuntime, ThreadStreams, ended, spawn_failed};
use super::{Channel, Counts, Received, Runtime, Sent, Streams, stream_failed};
use crate::outcome::{Counters, Stop};
use crate::spec::{Contender, RuntimeName, Transport};

/// A quadrille runtime.
#[derive(Clone, Copy, Debug)]
pub struct Quadrille {
    runtime: &'static quadrille::Runtime,
    /// Whether its servers of TCP are to use io_uring.
    by_ring: bool,
}

impl Quadrille {
    /// Starts one with `workers` workers and the policies of `contender`, whatever `QUADRILLE_POLICY` says; if it has
    /// none, the library reads that. It never reads `QUADRILLE_WORKERS`, whose place `--workers` takes.
    ///
    /// # Errors
    /// [`Stop::Failed`] if the runtime cannot be built, or if `QUADRILLE_WORKERS` is set.
    pub fn start(workers: usize, contender: &Contender) -> Result<Self, Stop> {
        if let Some(value) = std::env::var_os("QUADRILLE_WORKERS").filter(|value| !value.is_empty()) {
            return Err(Stop::failed(format!(
                "QUADRILLE_WORKERS is {value:?}, expected it not to be set: here --workers says how many, for every runtime"
            )));
        }
        let builder = quadrille::Runtime::builder().worker_threads(workers);
        let builder = match contender.config() {
            Some(config) => builder.config(config),
            None => builder,
        };
        builder
            .build()
            .map(|runtime| Self {
                runtime: Box::leak(Box::new(runtime)),
                by_ring: contender.name == RuntimeName::QuadrilleUring,
            })
            .map_err(|error| Stop::failed(format!("quadrille does not start: {error}")))
    }
}

impl Quadrille {
    /// Whether its servers of TCP are to use io_uring.
    pub(super) fn is_by_ring(self) -> bool {
        self.by_ring
    }

    /// For what is made outside of a task, but belongs to the runtime.
    pub(super) fn inside(self) -> quadrille::EnterGuard {
        self.runtime.enter()
    }

    /// Tasks that have been pending and are not finished.
    pub(crate) fn pending_tasks(self) -> usize {
        self.runtime.metrics().pending_tasks
    }
}

/// A task of quadrille; a panic of the task goes on in the one that joins it.
#[derive(Debug)]
pub struct Join<T>(JoinHandle<T>);

impl<T> Future for Join<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0)
            .poll(cx)
            .map(|result| result.expect("a task of the workload panicked"))
    }
}

impl Counts for Quadrille {
    fn counters(&self) -> Counters {
        let metrics = self.runtime.metrics();
        let mut counters: Counters = metrics
            .total()
            .iter()
            .map(|(name, count)| (name.to_owned(), count))
            .collect();
        counters.insert("foreign_wakes".to_owned(), metrics.foreign_wakes);
        counters.insert("foreign_unparks".to_owned(), metrics.foreign_unparks);
        counters
    }
}

impl Runtime for Quadrille {
    type Join<T: Send + 'static> = Join<T>;

    fn spawn<F>(self, future: F) -> Join<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Join(quadrille::spawn(future))
    }

    fn spawn_detached<F>(self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        drop(quadrille::spawn(future));
    }

    fn spawn_outside<F>(self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        drop(self.runtime.spawn(future));
    }

    fn block_on<F: Future>(self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    fn spawn_blocking<F, T>(self, job: F) -> impl Future<Output = T> + Send
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        Join(quadrille::task::spawn_blocking(job))
    }

    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send {
        quadrille::time::sleep(duration)
    }

    #[inline]
    fn yield_now() -> impl Future<Output = ()> + Send {
        quadrille::task::yield_now()
    }
}

/// `quadrille::sync::mpmc`.
#[derive(Debug)]
pub enum Mpmc {}

impl Channel for Mpmc {
    type Sender<T: Send + 'static> = mpmc::Sender<T>;
    type Receiver<T: Send + 'static> = mpmc::Receiver<T>;

    fn bounded<T: Send + 'static>(capacity: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        mpmc::bounded(capacity)
    }

    fn send<T: Send + 'static>(sender: &Self::Sender<T>, value: T) -> impl Future<Output: Sent> + Send {
        sender.send(value)
    }

    fn recv<T: Send + 'static>(receiver: &mut Self::Receiver<T>) -> impl Future<Output: Received<T>> + Send {
        receiver.recv()
    }
}

impl ThreadRuntime for Quadrille {
    type Join<T: Send + 'static> = thread::JoinHandle<T>;
    type Thread = Thread;

    fn spawn<F, T>(self, body: F) -> io::Result<thread::JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        thread::Builder::new().spawn(body)
    }

    fn join<T: Send + 'static>(join: thread::JoinHandle<T>) -> T {
        join.join().expect("a thread of the workload panicked")
    }

    fn thread<T: Send + 'static>(join: &thread::JoinHandle<T>) -> &Thread {
        join.thread()
    }

    #[inline]
    fn yield_now() {
        thread::yield_now();
    }

    fn sleep(duration: Duration) {
        thread::sleep(duration);
    }

    fn current() -> Thread {
        thread::current()
    }

    fn park() {
        thread::park();
    }

    fn unpark(thread: &Thread) {
        thread.unpark();
    }

    fn run<F, T>(self, body: F) -> Result<T, Stop>
    where
        F: FnOnce() -> Result<T, Stop> + Send + 'static,
        T: Send + 'static,
    {
        let root = thread::Builder::new().spawn_on(body, self.runtime.handle());
        ended(root.map_err(|error| spawn_failed(&error))?.join())
    }
}

impl ThreadChannel for Mpmc {
    type Sender<T: Send + 'static> = mpmc::Sender<T>;
    type Receiver<T: Send + 'static> = mpmc::Receiver<T>;

    fn bounded<T: Send + 'static>(capacity: usize) -> (mpmc::Sender<T>, mpmc::Receiver<T>) {
        mpmc::bounded(capacity)
    }

    #[inline(always)]
    fn send<T: Send + 'static>(sender: &mpmc::Sender<T>, value: T) -> Result<(), Stop> {
        sender.send_blocking(value).sent()
    }

    #[inline(always)]
    fn recv<T: Send + 'static>(receiver: &mut mpmc::Receiver<T>) -> Option<T> {
        receiver.recv_blocking().value()
    }
}

/// The writing end of a pipe or socket.
#[derive(Debug)]
pub enum Writer {
    /// Of a pipe.
    Pipe(PipeWriter),
    /// One of two connected sockets.
    Socket(UnixStream),
}

/// The reading end of a pipe or socket.
#[derive(Debug)]
pub enum Reader {
    /// Of a pipe.
    Pipe(PipeReader),
    /// One of two connected sockets.
    Socket(UnixStream),
}

impl Streams for Quadrille {
    type Writer = Writer;
    type Reader = Reader;

    fn open(self, transport: Transport) -> Result<(Writer, Reader), Stop> {
        let _inside = self.runtime.enter();
        if transport == Transport::Pipe {
            pipe().map(|(reader, writer)| (Writer::Pipe(writer), Reader::Pipe(reader)))
        } else {
            UnixStream::pair().map(|(writer, reader)| (Writer::Socket(writer), Reader::Socket(reader)))
        }
        .map_err(|error| stream_failed(&error))
    }

    async fn write_all(writer: &Writer, bytes: &[u8]) -> io::Result<()> {
        match writer {
            Writer::Pipe(pipe) => pipe.write_all(bytes).await,
            Writer::Socket(socket) => socket.write_all(bytes).await,
        }
    }

    async fn read_exact(reader: &mut Reader, bytes: &mut [u8]) -> io::Result<()> {
        match reader {
            Reader::Pipe(pipe) => pipe.read_exact(bytes).await,
            Reader::Socket(socket) => socket.read_exact(bytes).await,
        }
    }
}

impl ThreadStreams for Quadrille {
    type Writer = Writer;
    type Reader = Reader;

    fn open(self, transport: Transport) -> Result<(Writer, Reader), Stop> {
        Streams::open(self, transport)
    }

    fn write_all(writer: &Writer, bytes: &[u8]) -> io::Result<()> {
        match writer {
            Writer::Pipe(pipe) => pipe.write_all(bytes).wait(),
            Writer::Socket(socket) => socket.write_all(bytes).wait(),
        }
    }

    fn read_exact(reader: &mut Reader, bytes: &mut [u8]) -> io::Result<()> {
        match reader {
            Reader::Pipe(pipe) => pipe.read_exact(bytes).wait(),
            Reader::Socket(socket) => socket.read_exact(bytes).wait(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_has_the_policies_of_its_contender() {
        for text in [
            "quadrille:budget=7,groups=off",
            "quadrille-1w:baseline",
            "quadrille-baseline",
        ] {
            let contender: Contender = text.parse().unwrap();
            let started = Quadrille::start(1, &contender).unwrap();
            let found = started.runtime.handle().config().clone();
            assert_eq!(Some(found), contender.config(), "{text}");
        }
    }
}
