//! A channel whose every message reaches every receiver: the runtime's own, or the one that its users take.

use std::future::Future;

use super::Runtime;
use super::quadrille::Quadrille;
use super::smol::Smol;
use super::threads::Threads;
use super::tokio::Tokio;
use crate::outcome::Stop;

/// A runtime with such a channel, of numbers.
pub trait Broadcast: Runtime {
    /// The sending end.
    type ToAll: Send + Sync + 'static;
    /// A receiving end.
    type FromOne: Send + 'static;

    /// A channel that keeps `capacity` messages for those who are late, and so many receivers.
    fn broadcast(capacity: usize, receivers: usize) -> (Self::ToAll, Vec<Self::FromOne>);

    /// Sends a message, without waiting.
    ///
    /// # Errors
    /// [`Stop::Failed`] if that is not possible.
    fn send_all(sender: &Self::ToAll, message: u64) -> Result<(), Stop>;

    /// How many messages not all have received.
    fn behind(sender: &Self::ToAll) -> usize;

    /// The next message, or `None` once the sender is gone. A message that was lost counts as an error.
    fn recv(receiver: &mut Self::FromOne) -> impl Future<Output = Result<Option<u64>, Stop>> + Send;
}

/// A runtime's own channel, by the names that tokio gave it.
macro_rules! own_broadcast {
    ($runtime:ty, $($module:ident)::+) => {
        impl Broadcast for $runtime {
            type ToAll = $($module)::+::Sender<u64>;
            type FromOne = $($module)::+::Receiver<u64>;

            fn broadcast(capacity: usize, receivers: usize) -> (Self::ToAll, Vec<Self::FromOne>) {
                let sender = Self::ToAll::new(capacity);
                let receivers = (0..receivers).map(|_| sender.subscribe()).collect();
                (sender, receivers)
            }

            fn send_all(sender: &Self::ToAll, message: u64) -> Result<(), Stop> {
                sender.send(message).map(drop).map_err(|error| refused(&error))
            }

            fn behind(sender: &Self::ToAll) -> usize {
                sender.len()
            }

            async fn recv(receiver: &mut Self::FromOne) -> Result<Option<u64>, Stop> {
                use $($module)::+::error::RecvError;
                match receiver.recv().await {
                    Ok(message) => Ok(Some(message)),
                    Err(RecvError::Closed) => Ok(None),
                    Err(RecvError::Lagged(missed)) => Err(lost(missed)),
                }
            }
        }
    };
}

own_broadcast!(Quadrille, quadrille::sync::broadcast);
own_broadcast!(Tokio, tokio::sync::broadcast);

/// The `async-broadcast` crate, for runtimes that have no such channel.
macro_rules! async_broadcast {
    ($runtime:ty) => {
        impl Broadcast for $runtime {
            type ToAll = async_broadcast::Sender<u64>;
            type FromOne = async_broadcast::Receiver<u64>;

            fn broadcast(capacity: usize, receivers: usize) -> (Self::ToAll, Vec<Self::FromOne>) {
                let (sender, receiver) = async_broadcast::broadcast(capacity);
                let receivers = vec![receiver; receivers];
                (sender, receivers)
            }

            fn send_all(sender: &Self::ToAll, message: u64) -> Result<(), Stop> {
                sender
                    .try_broadcast(message)
                    .map(drop)
                    .map_err(|error| refused(&error))
            }

            fn behind(sender: &Self::ToAll) -> usize {
                sender.len()
            }

            async fn recv(receiver: &mut Self::FromOne) -> Result<Option<u64>, Stop> {
                use async_broadcast::RecvError;
                match receiver.recv_direct().await {
                    Ok(message) => Ok(Some(message)),
                    Err(RecvError::Closed) => Ok(None),
                    Err(RecvError::Overflowed(missed)) => Err(lost(missed)),
                }
            }
        }
    };
}

async_broadcast!(Smol);
async_broadcast!(Threads);

fn refused(error: &impl std::fmt::Display) -> Stop {
    Stop::failed(format!("a sender cannot send: {error}"))
}

fn lost(messages: u64) -> Stop {
    Stop::failed(format!("{messages} messages were lost, though there was room"))
}
