//! may: its stackful coroutines and its channel, for workloads of threads. It has no tasks.
//!
//! Set up as its documentation says: workers pinned, stacks of 4096 words (32 KiB with a guard page). The pool of
//! stacks is larger than the default of 1000, so that a batch of 1000 and its parent find theirs there.
//!
//! Its coroutines move between threads of the operating system while they are suspended, so to spawn one is unsafe
//! there (may issues 6, 109): what runs on it must not use the address of a thread-local across a wait.

use std::io;
use std::time::Duration;

use may::coroutine::{self, Coroutine, JoinHandle};
use may::sync::mpsc;

use super::blocking::{ThreadChannel, ThreadRuntime, ThreadStreams, ended, spawn_failed};
use super::{Counts, Received, Sent};
use crate::outcome::Stop;
use crate::spec::Transport;

/// Words of a stack: what its documentation calls the default.
const STACK_WORDS: usize = 0x1000;

/// Stacks that are kept.
const POOL_CAPACITY: usize = 2000;

/// may's scheduler, of which a process has one.
#[derive(Clone, Copy, Debug)]
pub struct May;

impl May {
    /// Sets it up with `workers` workers; it starts with the first coroutine.
    #[must_use]
    pub fn start(workers: usize) -> Self {
        may::config()
            .set_workers(workers)
            .set_stack_size(STACK_WORDS)
            .set_pool_capacity(POOL_CAPACITY);
        Self
    }
}

impl Counts for May {}

impl ThreadRuntime for May {
    type Join<T: Send + 'static> = JoinHandle<T>;
    type Thread = Coroutine;

    fn spawn<F, T>(self, body: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: may asks for two things, and the bodies of our workloads (`workloads::threads`) and servers
        // (`servers::blocking`) keep to both.
        // - No address of a thread-local is kept across a wait: they use none, but what they call does between two
        //   waits.
        // - The stack does not overflow: they call a handful of small functions, and what they keep is on the heap.
        unsafe { coroutine::Builder::new().spawn(body) }
    }

    fn join<T: Send + 'static>(join: JoinHandle<T>) -> T {
        join.join().expect("a thread of the workload panicked")
    }

    fn thread<T: Send + 'static>(join: &JoinHandle<T>) -> &Coroutine {
        join.coroutine()
    }

    #[inline]
    fn yield_now() {
        coroutine::yield_now();
    }

    fn sleep(duration: Duration) {
        coroutine::sleep(duration);
    }

    fn current() -> Coroutine {
        coroutine::current()
    }

    fn park() {
        coroutine::park();
    }

    fn unpark(thread: &Coroutine) {
        thread.unpark();
    }

    fn run<F, T>(self, body: F) -> Result<T, Stop>
    where
        F: FnOnce() -> Result<T, Stop> + Send + 'static,
        T: Send + 'static,
    {
        let root = self.spawn(body).map_err(|error| spawn_failed(&error))?;
        ended(root.join())
    }
}

/// `may::sync::mpsc`, which has no bound.
#[derive(Debug)]
pub enum MayMpsc {}

impl ThreadChannel for MayMpsc {
    type Sender<T: Send + 'static> = mpsc::Sender<T>;
    type Receiver<T: Send + 'static> = mpsc::Receiver<T>;

    const IS_BOUNDED: bool = false;

    fn bounded<T: Send + 'static>(_capacity: usize) -> (mpsc::Sender<T>, mpsc::Receiver<T>) {
        mpsc::channel()
    }

    fn send<T: Send + 'static>(sender: &mpsc::Sender<T>, value: T) -> Result<(), Stop> {
        sender.send(value).sent()
    }

    fn recv<T: Send + 'static>(receiver: &mut mpsc::Receiver<T>) -> Option<T> {
        receiver.recv().value()
    }
}

/// None: writing to its sockets takes them alone, and it has no pipes.
#[derive(Debug)]
pub enum NoStream {}

impl ThreadStreams for May {
    type Writer = NoStream;
    type Reader = NoStream;

    fn open(self, _: Transport) -> Result<(NoStream, NoStream), Stop> {
        Err(Stop::unsupported(
            "it has no pipes, and no sockets that several coroutines write to",
        ))
    }

    fn write_all(writer: &NoStream, _: &[u8]) -> io::Result<()> {
        match *writer {}
    }

    fn read_exact(reader: &mut NoStream, _: &mut [u8]) -> io::Result<()> {
        match *reader {}
    }
}
