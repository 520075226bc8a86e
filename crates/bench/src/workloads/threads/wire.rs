//! What hackbench --threads sends a message through: the wires of [`workloads::wire`](crate::workloads::wire), with
//! functions that wait.

use std::hint::black_box;
use std::sync::Arc;

use crate::adapters::Sent as _;
use crate::adapters::blocking::{ThreadChannel, ThreadStreams};
use crate::outcome::Stop;
use crate::workloads::wire::{ChannelWire, StreamReceiver, StreamWire};

/// Carries messages of one size from many senders to one receiver.
pub trait ThreadWire: Send + 'static {
    /// A sender's own copy of the message.
    type Message: AsMut<[u8]> + Send + 'static;
    /// The sending end.
    type Sender: Clone + Send + 'static;
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
    ///
    /// # Errors
    /// [`Stop::Failed`] if the receiver is gone.
    fn send(sender: &Self::Sender, message: &Self::Message) -> Result<(), Stop>;

    /// Copies one message out of the wire, waiting while it is empty, and returns its first byte.
    ///
    /// # Errors
    /// [`Stop::Failed`] if the senders are gone.
    fn receive(receiver: &mut Self::Receiver) -> Result<u8, Stop>;
}

impl<C: ThreadChannel, const SIZE: usize> ThreadWire for ChannelWire<C, SIZE> {
    type Message = [u8; SIZE];
    type Sender = C::Sender<[u8; SIZE]>;
    type Receiver = C::Receiver<[u8; SIZE]>;

    fn message(&self) -> [u8; SIZE] {
        [0; SIZE]
    }

    fn connect(&self) -> Result<(Self::Sender, Self::Receiver), Stop> {
        Ok(C::bounded(self.capacity()))
    }

    fn send(sender: &Self::Sender, message: &[u8; SIZE]) -> Result<(), Stop> {
        // The caller may change its message at once, so this copies all of it.
        C::send(sender, *black_box(message))
    }

    fn receive(receiver: &mut Self::Receiver) -> Result<u8, Stop> {
        match C::recv(receiver) {
            Some(message) => Ok(black_box(&message)[0]),
            None => Err(Stop::failed("the senders were gone before the last message")),
        }
    }
}

impl<R: ThreadStreams> ThreadWire for StreamWire<R> {
    type Message = Vec<u8>;
    type Sender = Arc<R::Writer>;
    type Receiver = StreamReceiver<R::Reader>;

    fn message(&self) -> Vec<u8> {
        self.zeros()
    }

    fn connect(&self) -> Result<(Self::Sender, Self::Receiver), Stop> {
        let (writer, reader) = self.runtime().open(self.transport())?;
        Ok((Arc::new(writer), StreamReceiver::new(reader, self.zeros())))
    }

    fn send(sender: &Self::Sender, message: &Vec<u8>) -> Result<(), Stop> {
        R::write_all(sender, message).sent()
    }

    fn receive(receiver: &mut Self::Receiver) -> Result<u8, Stop> {
        let (reader, buffer) = receiver.parts();
        match R::read_exact(reader, buffer) {
            Ok(()) => Ok(buffer[0]),
            Err(error) => Err(Stop::failed(format!("a receiver cannot read: {error}"))),
        }
    }
}
