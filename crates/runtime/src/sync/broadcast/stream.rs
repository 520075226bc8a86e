//! A receiver as a stream.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use super::{Place, Receiver, RecvError, Shared, Shares};
use crate::coop;

/// The messages of a channel as a stream; from [`Receiver::into_stream`].
#[must_use = "streams do nothing unless polled"]
pub struct ReceiverStream<T> {
    place: Pin<Box<Place<Arc<Shared<T>>>>>,
    receiver: Receiver<T>,
}

/// So many messages were lost: more were sent than the channel keeps. The stream goes on behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lagged(pub u64);

impl fmt::Display for Lagged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        RecvError::Lagged(self.0).fmt(f)
    }
}

impl Error for Lagged {}

impl<T> Receiver<T> {
    /// The messages as a stream, which ends when all were received and no sender is left; to be selected from, merged,
    /// or sent on. It has one allocation, and needs no [`pin!`](std::pin::pin).
    ///
    /// ```
    /// use futures_lite::StreamExt as _;
    /// use quadrille::sync::broadcast::{self, Lagged};
    ///
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// let (sender, receiver) = broadcast::channel(2);
    /// for n in 1..=3 {
    ///     sender.send(n).unwrap();
    /// }
    /// drop(sender);
    /// let received: Vec<_> = receiver.into_stream().collect().await;
    /// assert_eq!(received, [Err(Lagged(1)), Ok(2), Ok(3)]);
    /// # });
    /// ```
    pub fn into_stream(self) -> ReceiverStream<T> {
        ReceiverStream {
            place: Box::pin(Place::new(Arc::clone(&self.shared))),
            receiver: self,
        }
    }
}

impl<T> ReceiverStream<T> {
    /// The receiver again, which goes on where the stream was.
    pub fn into_inner(self) -> Receiver<T> {
        self.receiver
    }
}

impl<T: Clone> Stream for ReceiverStream<T> {
    type Item = Result<T, Lagged>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { place, receiver } = &mut *self;
        let received = coop::poll_progress(cx, |cx| receiver.cursor.poll_at(place.as_mut(), cx));
        Poll::Ready(match ready!(received) {
            Ok(message) => Some(Ok(Shares::unwrap_or_clone(message))),
            Err(RecvError::Lagged(missed)) => Some(Err(Lagged(missed))),
            Err(RecvError::Closed) => None,
        })
    }
}

impl<T> fmt::Debug for ReceiverStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiverStream")
            .field("receiver", &self.receiver)
            .finish_non_exhaustive()
    }
}
