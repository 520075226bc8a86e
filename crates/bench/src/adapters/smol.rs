//! smol: async-executor, leaked as its documentation recommends for executors that are never dropped, run by one thread
//! a worker; async-io for pipes and sockets.

use std::future::{self, Future};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::thread;
use std::time::Duration;

use async_executor::{Executor, StaticExecutor, Task};
use async_io::{Async, Timer};

use super::{Counts, Runtime, Streams, stream_failed};
use crate::outcome::Stop;
use crate::spec::Transport;

/// smol's executor.
#[derive(Clone, Copy, Debug)]
pub struct Smol(&'static StaticExecutor);

impl Smol {
    /// Starts `workers` threads that run one executor.
    ///
    /// # Errors
    /// [`Stop::Failed`] if a thread cannot be made.
    pub fn start(workers: usize) -> Result<Self, Stop> {
        Self::start_with(workers, |executor| {
            futures_lite::future::block_on(executor.run(future::pending()))
        })
    }

    /// The same for runs with pipes, sockets or timers: idle threads wait in the reactor, as those of the smol crate
    /// do.
    ///
    /// # Errors
    /// As [`Smol::start`].
    pub fn start_with_reactor(workers: usize) -> Result<Self, Stop> {
        Self::start_with(workers, |executor| async_io::block_on(executor.run(future::pending())))
    }

    fn start_with(workers: usize, run: fn(&'static StaticExecutor)) -> Result<Self, Stop> {
        let executor = Executor::new().leak();
        for index in 0..workers {
            thread::Builder::new()
                .name(format!("smol-{index}"))
                .spawn(move || run(executor))
                .map_err(|error| Stop::failed(format!("cannot start a thread for smol: {error}")))?;
        }
        Ok(Self(executor))
    }
}

impl Counts for Smol {}

impl Runtime for Smol {
    type Join<T: Send + 'static> = Task<T>;

    fn spawn<F>(self, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.0.spawn(future)
    }

    fn spawn_detached<F>(self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.0.spawn(future).detach();
    }

    fn spawn_outside<F>(self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.0.spawn(future).detach();
    }

    fn block_on<F: Future>(self, future: F) -> F::Output {
        futures_lite::future::block_on(future)
    }

    fn spawn_blocking<F, T>(self, job: F) -> impl Future<Output = T> + Send
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        blocking::unblock(job)
    }

    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send {
        Sleep(Timer::after(duration))
    }

    #[inline]
    fn yield_now() -> impl Future<Output = ()> + Send {
        futures_lite::future::yield_now()
    }
}

/// A timer of the reactor, whose instant nobody needs.
#[derive(Debug)]
struct Sleep(Timer);

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        ready!(Pin::new(&mut self.0).poll(cx));
        Poll::Ready(())
    }
}

/// The writing end of a pipe or socket.
#[derive(Debug)]
pub enum Writer {
    /// Of a pipe.
    Pipe(Async<PipeWriter>),
    /// One of two connected sockets.
    Socket(Async<UnixStream>),
}

/// The reading end of a pipe or socket.
#[derive(Debug)]
pub enum Reader {
    /// Of a pipe.
    Pipe(Async<PipeReader>),
    /// One of two connected sockets.
    Socket(Async<UnixStream>),
}

fn open(transport: Transport) -> io::Result<(Writer, Reader)> {
    if transport == Transport::Pipe {
        let (reader, writer) = io::pipe()?;
        Ok((Writer::Pipe(Async::new(writer)?), Reader::Pipe(Async::new(reader)?)))
    } else {
        let (writer, reader) = UnixStream::pair()?;
        Ok((Writer::Socket(Async::new(writer)?), Reader::Socket(Async::new(reader)?)))
    }
}

impl Streams for Smol {
    type Writer = Writer;
    type Reader = Reader;

    fn open(self, transport: Transport) -> Result<(Writer, Reader), Stop> {
        open(transport).map_err(|error| stream_failed(&error))
    }

    async fn write_all(writer: &Writer, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = match writer {
                Writer::Pipe(pipe) => pipe.write_with(|mut pipe| pipe.write(bytes)).await?,
                Writer::Socket(socket) => socket.write_with(|mut socket| socket.write(bytes)).await?,
            };
            bytes = &bytes[written..];
        }
        Ok(())
    }

    async fn read_exact(reader: &mut Reader, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let read = match reader {
                Reader::Pipe(pipe) => pipe.read_with(|mut pipe| pipe.read(bytes)).await?,
                Reader::Socket(socket) => socket.read_with(|mut socket| socket.read(bytes)).await?,
            };
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes = &mut bytes[read..];
        }
        Ok(())
    }
}
