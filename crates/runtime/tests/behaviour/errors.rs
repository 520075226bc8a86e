//! The errors of the channels, where tokio has them, and each module's its own.

use quadrille::sync::{broadcast, mpmc, oneshot, watch};

/// An error of a program, made by `?` of each of those of channels. The implementations of `From` would conflict if two
/// of them were one type.
#[derive(Debug)]
enum Failure {
    MpmcSend(mpmc::error::SendError<u8>),
    MpmcTrySend(mpmc::error::TrySendError<u8>),
    MpmcSendTimeout(mpmc::error::SendTimeoutError<u8>),
    MpmcRecv(mpmc::error::RecvError),
    MpmcTryRecv(mpmc::error::TryRecvError),
    OneshotSend(oneshot::error::SendError<u8>),
    OneshotRecv(oneshot::error::RecvError),
    OneshotTryRecv(oneshot::error::TryRecvError),
    WatchSend(watch::error::SendError<u8>),
    WatchRecv(watch::error::RecvError),
    BroadcastSend(broadcast::error::SendError<u8>),
    BroadcastRecv(broadcast::error::RecvError),
    BroadcastTryRecv(broadcast::error::TryRecvError),
}

macro_rules! from {
    ($($variant:ident: $error:ty,)*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        })*

        impl Failure {
            fn text(&self) -> String {
                match self {
                    $(Self::$variant(error) => error.to_string(),)*
                }
            }
        }
    };
}

// By the names of the modules themselves, which are the same types.
from! {
    MpmcSend: mpmc::SendError<u8>,
    MpmcTrySend: mpmc::TrySendError<u8>,
    MpmcSendTimeout: mpmc::SendTimeoutError<u8>,
    MpmcRecv: mpmc::RecvError,
    MpmcTryRecv: mpmc::TryRecvError,
    OneshotSend: oneshot::SendError<u8>,
    OneshotRecv: oneshot::RecvError,
    OneshotTryRecv: oneshot::TryRecvError,
    WatchSend: watch::SendError<u8>,
    WatchRecv: watch::RecvError,
    BroadcastSend: broadcast::SendError<u8>,
    BroadcastRecv: broadcast::RecvError,
    BroadcastTryRecv: broadcast::TryRecvError,
}

/// A sender whose receiver is gone.
fn sender<S, R>((sender, _receiver): (S, R)) -> S {
    sender
}

/// A receiver whose sender is gone.
fn receiver<S, R>((_sender, receiver): (S, R)) -> R {
    receiver
}

/// What came of an operation is an error of this kind, and says this.
fn check<T, E: Into<Failure>>(outcome: Result<T, E>, kind: &str, text: &str) {
    let failure = outcome.map(drop).map_err(Into::into).expect_err("it fails");
    let shown = format!("{failure:?}");
    assert_eq!((shown.split('(').next(), &*failure.text()), (Some(kind), text));
}

#[test]
fn an_error_of_mpmc_says_so_by_its_type() {
    let closed = "sending into a closed channel";
    check(sender(mpmc::bounded(1)).send_blocking(1), "MpmcSend", closed);
    check(sender(mpmc::bounded(1)).try_send(1), "MpmcTrySend", closed);
    let sent = sender(mpmc::bounded(1)).send_blocking(1);
    check(sent.map_err(mpmc::TrySendError::from), "MpmcTrySend", closed);
    let late: Result<(), _> = Err(mpmc::SendTimeoutError::Closed(1));
    check(late, "MpmcSendTimeout", closed);
    let empty = "receiving from an empty and closed channel";
    check(receiver(mpmc::bounded::<u8>(1)).recv_blocking(), "MpmcRecv", empty);
    check(receiver(mpmc::bounded::<u8>(1)).try_recv(), "MpmcTryRecv", empty);
}

#[test]
fn an_error_of_a_oneshot_says_so() {
    let sent = sender(oneshot::channel()).send(1);
    check(sent, "OneshotSend", "sending into a closed oneshot channel");
    let closed = "receiving from a closed oneshot channel without a message";
    let channel = oneshot::channel::<u8>;
    check(receiver(channel()).recv_blocking(), "OneshotRecv", closed);
    check(receiver(channel()).try_recv(), "OneshotTryRecv", closed);
    let (_sender, mut receiver) = channel();
    let empty = "receiving from an empty oneshot channel";
    check(receiver.try_recv(), "OneshotTryRecv", empty);
}

#[test]
fn an_error_of_a_watch_says_so() {
    let sent = sender(watch::channel(0)).send(1);
    check(sent, "WatchSend", "sending into a watch channel without a receiver");
    let seen = receiver(watch::channel(0)).has_changed();
    check(seen, "WatchRecv", "receiving from a watch channel without a sender");
}

#[test]
fn an_error_of_a_broadcast_says_so() {
    let alone = "sending into a broadcast channel without a receiver";
    check(sender(broadcast::channel(1)).send(1), "BroadcastSend", alone);
    let closed = "receiving from an empty and closed broadcast channel";
    let channel = || broadcast::channel::<u8>(1);
    check(receiver(channel()).recv_blocking(), "BroadcastRecv", closed);
    check(receiver(channel()).try_recv(), "BroadcastTryRecv", closed);
    let (_sender, mut receiver) = channel();
    let empty = "receiving from an empty broadcast channel";
    check(receiver.try_recv(), "BroadcastTryRecv", empty);
}
