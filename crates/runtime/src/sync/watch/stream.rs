//! A receiver as a stream.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use super::{Place, Receiver, Shared};
use crate::coop;

/// The values of a channel as a stream; from [`Receiver::into_stream`].
#[must_use = "streams do nothing unless polled"]
pub struct ReceiverStream<T> {
    place: Pin<Box<Place<Arc<Shared<T>>>>>,
    receiver: Receiver<T>,
}

impl<T> Receiver<T> {
    /// The values that it has not seen as a stream, which ends when there is no sender any more: each time the last
    /// one, however many were sent. That of now comes first if it has not seen it: call
    /// [`mark_changed`](Self::mark_changed) before, and it hasn't. It has one allocation, and needs no
    /// [`pin!`](std::pin::pin).
    ///
    /// ```
    /// use futures_lite::StreamExt as _;
    /// use quadrille::sync::watch;
    ///
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// let (sender, mut receiver) = watch::channel("starting");
    /// receiver.mark_changed();
    /// let mut states = receiver.into_stream();
    /// assert_eq!(states.next().await, Some("starting"));
    /// sender.send("up").unwrap();
    /// sender.send("going down").unwrap();
    /// drop(sender);
    /// assert_eq!(states.next().await, Some("going down"));
    /// assert_eq!(states.next().await, None);
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
    /// The receiver again, which has seen what the stream has given.
    pub fn into_inner(self) -> Receiver<T> {
        self.receiver
    }
}

impl<T: Clone> Stream for ReceiverStream<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let Self { place, receiver } = &mut *self;
        let changed = coop::poll_progress(cx, |cx| Shared::<T>::poll_changed(place.as_mut(), cx, receiver.seen));
        Poll::Ready(match ready!(changed) {
            // That of now, which may be a later one.
            Ok(_) => Some(receiver.borrow_and_update().clone()),
            Err(_) => None,
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
