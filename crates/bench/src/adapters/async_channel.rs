//! async-channel: the channel that every Rust runtime shares in the same-channel rows.

use std::future::Future;

use super::{Channel, Received, Sent};

/// async-channel's bounded channel.
#[derive(Debug)]
pub enum AsyncChannel {}

impl Channel for AsyncChannel {
    type Sender<T: Send + 'static> = async_channel::Sender<T>;
    type Receiver<T: Send + 'static> = async_channel::Receiver<T>;

    fn bounded<T: Send + 'static>(capacity: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        async_channel::bounded(capacity)
    }

    fn send<T: Send + 'static>(sender: &Self::Sender<T>, value: T) -> impl Future<Output: Sent> + Send {
        sender.send(value)
    }

    fn recv<T: Send + 'static>(receiver: &mut Self::Receiver<T>) -> impl Future<Output: Received<T>> + Send {
        receiver.recv()
    }
}
