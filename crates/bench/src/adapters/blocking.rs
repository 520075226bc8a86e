//! What a workload of threads needs of a runtime: what a program in blocking style has of the standard library.
//!
//! The same twice: [`ThreadRuntime`], [`ThreadChannel`] and [`ThreadStreams`] are for functions what
//! [`Runtime`](super::Runtime), [`Channel`](super::Channel) and [`Streams`](super::Streams) are for futures.

use std::fmt;
use std::io;
use std::time::Duration;

use super::Counts;
use crate::outcome::Stop;
use crate::spec::Transport;

/// A runtime that has been started and has threads, user-level or of the operating system.
pub trait ThreadRuntime: Counts + Copy + Send + Sync + 'static {
    /// Waits for a thread.
    type Join<T: Send + 'static>: Send + 'static;
    /// Unparks a thread.
    type Thread: fmt::Debug + Send + Sync + 'static;

    /// Spawns from inside a thread of the runtime.
    ///
    /// # Errors
    /// If there is no memory, or no thread of the operating system.
    fn spawn<F, T>(self, body: F) -> io::Result<Self::Join<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static;

    /// Waits for the thread to end. Its result.
    ///
    /// # Panics
    /// If it has panicked.
    fn join<T: Send + 'static>(join: Self::Join<T>) -> T;

    /// The thread behind a handle.
    fn thread<T: Send + 'static>(join: &Self::Join<T>) -> &Self::Thread;

    /// Whether another thread runs after a yield, if one is ready.
    const YIELD_IS_A_SWITCH: bool = true;

    /// Lets the other ready threads run first.
    fn yield_now();

    /// Waits for at least this long.
    fn sleep(duration: Duration);

    /// The calling thread.
    fn current() -> Self::Thread;

    /// Waits until the calling thread is unparked, or was since the last time; may return without a reason.
    fn park();

    /// Lets the thread's current or next `park` return.
    fn unpark(thread: &Self::Thread);

    /// Runs `body` as a thread and blocks the calling thread, which is none of the runtime's, until it is done.
    ///
    /// # Errors
    /// [`Stop::Failed`] if the thread could not be made, or panicked.
    fn run<F, T>(self, body: F) -> Result<T, Stop>
    where
        F: FnOnce() -> Result<T, Stop> + Send + 'static,
        T: Send + 'static;
}

/// A channel of many senders and one receiver, for threads.
pub trait ThreadChannel: Send + Sync + 'static {
    /// The sending end.
    type Sender<T: Send + 'static>: Clone + Send + 'static;
    /// The receiving end.
    type Receiver<T: Send + 'static>: Send + 'static;

    /// Whether senders wait while `capacity` values are in it.
    const IS_BOUNDED: bool = true;

    /// Makes a channel that holds `capacity` values.
    fn bounded<T: Send + 'static>(capacity: usize) -> (Self::Sender<T>, Self::Receiver<T>);

    /// Sends, waiting while the channel is full.
    ///
    /// # Errors
    /// [`Stop::Failed`] if the receiver is gone.
    fn send<T: Send + 'static>(sender: &Self::Sender<T>, value: T) -> Result<(), Stop>;

    /// Receives, waiting while the channel is empty; `None` once every sender is gone.
    fn recv<T: Send + 'static>(receiver: &mut Self::Receiver<T>) -> Option<T>;
}

/// Pipes and stream sockets, for threads: waiting for one suspends or blocks the calling thread.
pub trait ThreadStreams: ThreadRuntime {
    /// The writing end; several threads share it.
    type Writer: Send + Sync + 'static;
    /// The reading end.
    type Reader: Send + 'static;

    /// Opens a pipe or a pair of sockets; the workload never asks for [`Transport::Channel`].
    ///
    /// # Errors
    /// [`Stop::Unsupported`] if the runtime has none; [`Stop::Failed`] if the kernel refuses.
    fn open(self, transport: Transport) -> Result<(Self::Writer, Self::Reader), Stop>;

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// What the kernel says.
    fn write_all(writer: &Self::Writer, bytes: &[u8]) -> io::Result<()>;

    /// Fills `bytes`.
    ///
    /// # Errors
    /// What the kernel says, and the end of the stream before that.
    fn read_exact(reader: &mut Self::Reader, bytes: &mut [u8]) -> io::Result<()>;
}

/// The failure of making a thread.
pub(crate) fn spawn_failed(error: &io::Error) -> Stop {
    Stop::failed(format!("cannot make a thread: {error}"))
}

/// The handles of threads that were all to be made.
///
/// # Errors
/// [`Stop::Failed`] if one could not be.
pub(crate) fn all_made<J>(made: Vec<io::Result<J>>) -> Result<Vec<J>, Stop> {
    made.into_iter()
        .collect::<io::Result<_>>()
        .map_err(|error| spawn_failed(&error))
}

/// The result of a workload's thread, or the failure that it panicked.
pub(super) fn ended<T>(result: std::thread::Result<Result<T, Stop>>) -> Result<T, Stop> {
    result.unwrap_or_else(|_| Err(Stop::failed("the workload's thread panicked")))
}
