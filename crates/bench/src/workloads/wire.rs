//! What hackbench sends a message through: a channel of arrays, or a stream of bytes.

use std::future::Future;
use std::hint::black_box;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::adapters::{Channel, Received, Sent, Streams};
use crate::outcome::Stop;
use crate::spec::{Hackbench, Transport};

/// Carries messages of one size from many senders to one receiver.
pub trait Wire: Send + 'static {
    /// A sender's own copy of the message.
    type Message: AsMut<[u8]> + Clone + Send + Sync + 'static;
    /// The sending end.
    type Sender: Clone + Send + Sync + 'static;
    /// The receiving end.
    type Receiver: Send + 'static;

    /// A message of zeros.
    fn message(&self) -> Self::Message;

    /// Makes the connection of one receiver.
    ///
    /// # Errors
    /// What the runtime or the kernel refuses.
    fn connect(&self) -> Result<(Self::Sender, Self::Receiver), Stop>;

    /// Copies `message` into the wire, waiting while it is full.
    fn send(sender: &Self::Sender, message: &Self::Message) -> impl Future<Output: Sent> + Send;

    /// Copies one message out of the wire, waiting while it is empty, and returns its first byte.
    fn receive(receiver: &mut Self::Receiver) -> impl Future<Output = Result<u8, Stop>> + Send;
}

/// A bounded channel of `[u8; SIZE]`.
#[derive(Debug)]
pub struct ChannelWire<C, const SIZE: usize> {
    capacity: usize,
    channel: PhantomData<fn() -> C>,
}

impl<C, const SIZE: usize> ChannelWire<C, SIZE> {
    /// Channels of `capacity` messages each.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            channel: PhantomData,
        }
    }

    /// Messages that each of them holds.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }
}

impl<C: Channel, const SIZE: usize> Wire for ChannelWire<C, SIZE> {
    type Message = [u8; SIZE];
    type Sender = C::Sender<[u8; SIZE]>;
    type Receiver = C::Receiver<[u8; SIZE]>;

    fn message(&self) -> [u8; SIZE] {
        [0; SIZE]
    }

    fn connect(&self) -> Result<(Self::Sender, Self::Receiver), Stop> {
        Ok(C::bounded(self.capacity))
    }

    fn send(sender: &Self::Sender, message: &[u8; SIZE]) -> impl Future<Output: Sent> + Send {
        // The caller may change its message at once, so this copies all of it.
        C::send(sender, *black_box(message))
    }

    async fn receive(receiver: &mut Self::Receiver) -> Result<u8, Stop> {
        match C::recv(receiver).await.value() {
            Some(message) => Ok(black_box(&message)[0]),
            None => Err(Stop::failed("the senders were gone before the last message")),
        }
    }
}

/// A pipe or a pair of sockets.
#[derive(Debug)]
pub struct StreamWire<R> {
    runtime: R,
    params: Hackbench,
}

impl<R> StreamWire<R> {
    /// Streams of the runtime, for messages of the size in `params`.
    #[must_use]
    pub fn new(runtime: R, params: Hackbench) -> Self {
        Self { runtime, params }
    }

    /// A message of zeros.
    pub(super) fn zeros(&self) -> Vec<u8> {
        vec![0; self.params.size]
    }

    /// What carries the messages.
    pub(super) fn transport(&self) -> Transport {
        self.params.transport
    }
}

impl<R: Copy> StreamWire<R> {
    /// Whose streams they are.
    pub(super) fn runtime(&self) -> R {
        self.runtime
    }
}

/// The reading end and the buffer that it reads into.
#[derive(Debug)]
pub struct StreamReceiver<T> {
    reader: T,
    buffer: Vec<u8>,
}

impl<T> StreamReceiver<T> {
    pub(super) fn new(reader: T, buffer: Vec<u8>) -> Self {
        Self { reader, buffer }
    }

    /// The reading end, and the buffer.
    pub(super) fn parts(&mut self) -> (&mut T, &mut [u8]) {
        (&mut self.reader, &mut self.buffer)
    }
}

impl<R: Streams> Wire for StreamWire<R> {
    type Message = Vec<u8>;
    type Sender = Arc<R::Writer>;
    type Receiver = StreamReceiver<R::Reader>;

    fn message(&self) -> Vec<u8> {
        self.zeros()
    }

    fn connect(&self) -> Result<(Self::Sender, Self::Receiver), Stop> {
        let (writer, reader) = self.runtime.open(self.params.transport)?;
        Ok((Arc::new(writer), StreamReceiver::new(reader, self.zeros())))
    }

    fn send(sender: &Self::Sender, message: &Vec<u8>) -> impl Future<Output: Sent> + Send {
        R::write_all(sender, message)
    }

    async fn receive(receiver: &mut Self::Receiver) -> Result<u8, Stop> {
        let (reader, buffer) = receiver.parts();
        match R::read_exact(reader, buffer).await {
            Ok(()) => Ok(buffer[0]),
            Err(error) => Err(Stop::failed(format!("a receiver cannot read: {error}"))),
        }
    }
}
