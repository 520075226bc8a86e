//! Operating-system threads: a task is a thread, and waiting blocks it.
//!
//! The futures of the workload run under `block_on` on their thread; what std does blocking (join, its channel, pipes)
//! is a future that blocks in its first poll. That is sound here because nothing else shares the thread. Workloads of
//! threads are std's without that.

use std::future::{self, Future};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use futures_lite::future::block_on;

use super::blocking::{ThreadChannel, ThreadRuntime, ThreadStreams, ended, spawn_failed};
use super::{Channel, Counts, Received, Runtime, Sent, Streams, stream_failed};
use crate::outcome::Stop;
use crate::spec::Transport;

/// One operating-system thread a task.
#[derive(Clone, Copy, Debug)]
pub struct Threads;

/// A thread to be joined.
#[derive(Debug)]
pub struct Join<T>(Option<JoinHandle<T>>);

impl<T> Future for Join<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        let thread = self.0.take().expect("joined once");
        Poll::Ready(thread.join().expect("a thread of the workload panicked"))
    }
}

impl Counts for Threads {}

impl Runtime for Threads {
    /// The kernel may think that it is still the caller's turn.
    const YIELD_IS_A_SWITCH: bool = false;

    type Join<T: Send + 'static> = Join<T>;

    fn spawn<F>(self, future: F) -> Join<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Join(Some(thread::spawn(move || block_on(future))))
    }

    fn spawn_detached<F>(self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        drop(thread::spawn(move || block_on(future)));
    }

    fn spawn_outside<F>(self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        drop(thread::spawn(move || block_on(future)));
    }

    fn block_on<F: Future>(self, future: F) -> F::Output {
        block_on(future)
    }

    fn spawn_blocking<F, T>(self, job: F) -> impl Future<Output = T> + Send
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // Its task is a thread, which may block itself.
        future::ready(job())
    }

    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send {
        thread::sleep(duration);
        future::ready(())
    }

    #[inline]
    fn yield_now() -> impl Future<Output = ()> + Send {
        thread::yield_now();
        future::ready(())
    }
}

/// `std::sync::mpsc::sync_channel`.
#[derive(Debug)]
pub enum SyncChannel {}

impl Channel for SyncChannel {
    type Sender<T: Send + 'static> = mpsc::SyncSender<T>;
    type Receiver<T: Send + 'static> = mpsc::Receiver<T>;

    fn bounded<T: Send + 'static>(capacity: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        mpsc::sync_channel(capacity)
    }

    fn send<T: Send + 'static>(sender: &Self::Sender<T>, value: T) -> impl Future<Output: Sent> + Send {
        future::ready(sender.send(value))
    }

    fn recv<T: Send + 'static>(receiver: &mut Self::Receiver<T>) -> impl Future<Output: Received<T>> + Send {
        future::ready(receiver.recv())
    }
}

impl ThreadRuntime for Threads {
    const YIELD_IS_A_SWITCH: bool = false;

    type Join<T: Send + 'static> = JoinHandle<T>;
    type Thread = Thread;

    fn spawn<F, T>(self, body: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        thread::Builder::new().spawn(body)
    }

    fn join<T: Send + 'static>(join: JoinHandle<T>) -> T {
        join.join().expect("a thread of the workload panicked")
    }

    fn thread<T: Send + 'static>(join: &JoinHandle<T>) -> &Thread {
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
        let root = ThreadRuntime::spawn(self, body).map_err(|error| spawn_failed(&error))?;
        ended(root.join())
    }
}

impl ThreadChannel for SyncChannel {
    type Sender<T: Send + 'static> = mpsc::SyncSender<T>;
    type Receiver<T: Send + 'static> = mpsc::Receiver<T>;

    fn bounded<T: Send + 'static>(capacity: usize) -> (mpsc::SyncSender<T>, mpsc::Receiver<T>) {
        mpsc::sync_channel(capacity)
    }

    fn send<T: Send + 'static>(sender: &mpsc::SyncSender<T>, value: T) -> Result<(), Stop> {
        sender.send(value).sent()
    }

    fn recv<T: Send + 'static>(receiver: &mut mpsc::Receiver<T>) -> Option<T> {
        receiver.recv().value()
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

impl Streams for Threads {
    type Writer = Writer;
    type Reader = Reader;

    fn open(self, transport: Transport) -> Result<(Writer, Reader), Stop> {
        if transport == Transport::Pipe {
            io::pipe().map(|(reader, writer)| (Writer::Pipe(writer), Reader::Pipe(reader)))
        } else {
            UnixStream::pair().map(|(writer, reader)| (Writer::Socket(writer), Reader::Socket(reader)))
        }
        .map_err(|error| stream_failed(&error))
    }

    fn write_all(writer: &Writer, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send {
        future::ready(<Self as ThreadStreams>::write_all(writer, bytes))
    }

    fn read_exact(reader: &mut Reader, bytes: &mut [u8]) -> impl Future<Output = io::Result<()>> + Send {
        future::ready(<Self as ThreadStreams>::read_exact(reader, bytes))
    }
}

impl ThreadStreams for Threads {
    type Writer = Writer;
    type Reader = Reader;

    fn open(self, transport: Transport) -> Result<(Writer, Reader), Stop> {
        Streams::open(self, transport)
    }

    fn write_all(writer: &Writer, bytes: &[u8]) -> io::Result<()> {
        match writer {
            Writer::Pipe(pipe) => (&*pipe).write_all(bytes),
            Writer::Socket(socket) => (&*socket).write_all(bytes),
        }
    }

    fn read_exact(reader: &mut Reader, bytes: &mut [u8]) -> io::Result<()> {
        match reader {
            Reader::Pipe(pipe) => pipe.read_exact(bytes),
            Reader::Socket(socket) => socket.read_exact(bytes),
        }
    }
}
