//! tokio: the multi-threaded runtime, its mpsc channel, its pipes and sockets.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::{Channel, Counts, Received, Runtime, Sent, Streams, stream_failed};
use crate::outcome::Stop;
use crate::spec::Transport;

/// A multi-threaded tokio runtime.
#[derive(Clone, Copy, Debug)]
pub struct Tokio(&'static tokio::runtime::Runtime);

impl Tokio {
    /// Starts one with `workers` worker threads and the I/O driver, as `#[tokio::main]` does.
    ///
    /// # Errors
    /// [`Stop::Failed`] if the threads or the driver cannot be made.
    pub fn start(workers: usize) -> Result<Self, Stop> {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(workers)
            .enable_all()
            .build()
            .map(|runtime| Self(Box::leak(Box::new(runtime))))
            .map_err(|error| Stop::failed(format!("tokio does not start: {error}")))
    }
}

impl Tokio {
    /// For what is made outside of a task, but belongs to the runtime.
    pub(super) fn inside(self) -> tokio::runtime::EnterGuard<'static> {
        self.0.enter()
    }
}

/// A task of tokio; a panic of the task goes on in the one that joins it.
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

impl Counts for Tokio {}

impl Runtime for Tokio {
    type Join<T: Send + 'static> = Join<T>;

    fn spawn<F>(self, future: F) -> Join<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Join(tokio::spawn(future))
    }

    fn spawn_detached<F>(self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        drop(tokio::spawn(future));
    }

    fn spawn_outside<F>(self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        drop(self.0.spawn(future));
    }

    fn block_on<F: Future>(self, future: F) -> F::Output {
        self.0.block_on(future)
    }

    fn spawn_blocking<F, T>(self, job: F) -> impl Future<Output = T> + Send
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        Join(tokio::task::spawn_blocking(job))
    }

    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(duration)
    }

    #[inline]
    fn yield_now() -> impl Future<Output = ()> + Send {
        tokio::task::yield_now()
    }
}

/// `tokio::sync::mpsc`.
#[derive(Debug)]
pub enum TokioMpsc {}

impl Channel for TokioMpsc {
    type Sender<T: Send + 'static> = mpsc::Sender<T>;
    type Receiver<T: Send + 'static> = mpsc::Receiver<T>;

    fn bounded<T: Send + 'static>(capacity: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        mpsc::channel(capacity)
    }

    fn send<T: Send + 'static>(sender: &Self::Sender<T>, value: T) -> impl Future<Output: Sent> + Send {
        sender.send(value)
    }

    fn recv<T: Send + 'static>(receiver: &mut Self::Receiver<T>) -> impl Future<Output: Received<T>> + Send {
        receiver.recv()
    }
}

/// The writing end of a pipe or socket.
#[derive(Debug)]
pub enum Writer {
    /// Of a pipe.
    Pipe(pipe::Sender),
    /// One of two connected sockets.
    Socket(UnixStream),
}

impl Writer {
    async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Pipe(pipe) => pipe.writable().await,
            Self::Socket(socket) => socket.writable().await,
        }
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Pipe(pipe) => pipe.try_write(bytes),
            Self::Socket(socket) => socket.try_write(bytes),
        }
    }
}

/// The reading end of a pipe or socket.
#[derive(Debug)]
pub enum Reader {
    /// Of a pipe.
    Pipe(pipe::Receiver),
    /// One of two connected sockets.
    Socket(UnixStream),
}

impl Streams for Tokio {
    type Writer = Writer;
    type Reader = Reader;

    fn open(self, transport: Transport) -> Result<(Writer, Reader), Stop> {
        let _inside = self.0.enter();
        if transport == Transport::Pipe {
            pipe::pipe().map(|(writer, reader)| (Writer::Pipe(writer), Reader::Pipe(reader)))
        } else {
            UnixStream::pair().map(|(writer, reader)| (Writer::Socket(writer), Reader::Socket(reader)))
        }
        .map_err(|error| stream_failed(&error))
    }

    async fn write_all(writer: &Writer, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match writer.try_write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => writer.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn read_exact(reader: &mut Reader, bytes: &mut [u8]) -> io::Result<()> {
        match reader {
            Reader::Pipe(pipe) => pipe.read_exact(bytes).await.map(drop),
            Reader::Socket(socket) => socket.read_exact(bytes).await.map(drop),
        }
    }
}
