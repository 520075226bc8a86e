//! quadrille: the runtime of this workspace, its channel, its counters.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use quadrille::JoinHandle;
use quadrille::policy::Config;
use quadrille::sync::mpmc;

use super::{Channel, Received, Runtime, Sent, Streams};
use crate::outcome::{Counters, Stop};
use crate::spec::{RuntimeName, Transport};

/// A quadrille runtime.
#[derive(Clone, Copy, Debug)]
pub struct Quadrille(&'static quadrille::Runtime);

impl Quadrille {
    /// Starts one with `workers` workers; `name` chooses the policies.
    ///
    /// # Errors
    /// [`Stop::Failed`] if the runtime cannot be built.
    pub fn start(workers: usize, name: RuntimeName) -> Result<Self, Stop> {
        let config = if name == RuntimeName::QuadrilleBaseline {
            Config::baseline()
        } else {
            Config::default()
        };
        quadrille::Runtime::builder()
            .worker_threads(workers)
            .config(config)
            .build()
            .map(|runtime| Self(Box::leak(Box::new(runtime))))
            .map_err(|error| Stop::failed(format!("quadrille does not start: {error}")))
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

impl Runtime for Quadrille {
    type Join<T: Send + 'static> = Join<T>;

    fn spawn<F>(self, future: F) -> Join<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Join(quadrille::spawn(future))
    }

    fn spawn_outside<F>(self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        drop(self.0.spawn(future));
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        quadrille::task::yield_now()
    }

    fn counters(self) -> Counters {
        let metrics = self.0.metrics();
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

/// `quadrille::sync::mpmc`.
#[derive(Debug)]
pub enum Mpmc {}

impl Channel for Mpmc {
    type Sender<T: Send + 'static> = mpmc::Sender<T>;
    type Receiver<T: Send + 'static> = mpmc::Receiver<T>;

    fn bounded<T: Send + 'static>(capacity: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        mpmc::bounded(capacity)
    }

    fn send<T: Send + 'static>(
        sender: &Self::Sender<T>,
        value: T,
    ) -> impl Future<Output: Sent> + Send {
        sender.send(value)
    }

    fn recv<T: Send + 'static>(
        receiver: &mut Self::Receiver<T>,
    ) -> impl Future<Output: Received<T>> + Send {
        receiver.recv()
    }
}

/// There are no streams yet, so there is no end of one.
#[derive(Debug)]
pub enum NoStream {}

impl Streams for Quadrille {
    type Writer = NoStream;
    type Reader = NoStream;

    fn open(self, _: Transport) -> Result<(NoStream, NoStream), Stop> {
        Err(Stop::unsupported(
            "pipes and sockets are not supported by this runtime yet",
        ))
    }

    async fn write_all(writer: &NoStream, _: &[u8]) -> io::Result<()> {
        match *writer {}
    }

    async fn read_exact(reader: &mut NoStream, _: &mut [u8]) -> io::Result<()> {
        match *reader {}
    }
}
