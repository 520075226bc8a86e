//! Streams and time: a limit on the wait for each item, a pause between items, and batches that are not waited for.
//!
//! [`StreamExt`] has methods for any [`Stream`], by the names of `tokio_stream`, that neither `futures_lite` nor
//! `futures-util` has; one `use` of each trait does not disturb the other.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use pin_project_lite::pin_project;

use super::limit::Limit;
use super::{Elapsed, Sleep, sleep};
use crate::coop;

/// What a [`Stream`] can be asked for with a clock.
///
/// Timers are made when the stream is polled, so by the clock of the runtime that polls.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use futures_lite::StreamExt as _;
/// use quadrille::sync::mpmc;
/// use quadrille::time::Duration;
/// use quadrille::time::stream::StreamExt as _;
///
/// // What comes is written in batches: of 100 lines, or of those that have come within 5 ms after the first.
/// let (lines, received) = mpmc::unbounded();
/// for line in 0..250 {
///     lines.try_send(line).unwrap();
/// }
/// drop(lines);
/// let batches = received.chunks_timeout(100, Duration::from_millis(5));
/// let sizes: Vec<usize> = batches.map(|batch| batch.len()).collect().await;
/// assert_eq!(sizes, [100, 100, 50]);
/// # });
/// ```
pub trait StreamExt: Stream {
    /// Yields each item as `Ok`, and [`Elapsed`] whenever an item has been waited for as long as `duration`. The stream
    /// goes on then: the item comes as late as it does, and there is no second error for it.
    ///
    /// A wait begins with the first poll that has to wait: what is done between two items is not counted, as it is by
    /// `tokio_stream`. To come short of the task's [budget](crate::coop) is to wait; who does so twice in a row may
    /// elapse, as a [`timeout`](super::timeout()).
    ///
    /// ```
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// use futures_lite::StreamExt as _;
    /// use quadrille::sync::mpmc;
    /// use quadrille::time::Duration;
    /// use quadrille::time::stream::StreamExt as _;
    ///
    /// let (sender, receiver) = mpmc::unbounded();
    /// let mut messages = receiver.timeout(Duration::from_millis(1));
    /// sender.try_send("at once").unwrap();
    /// assert_eq!(messages.next().await, Some(Ok("at once")));
    /// assert!(messages.next().await.is_some_and(|outcome| outcome.is_err()));
    /// sender.try_send("late").unwrap();
    /// assert_eq!(messages.next().await, Some(Ok("late")));
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// When it has to wait, or comes short of the budget, outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// That of the stream. A wait that is taken up again goes on.
    fn timeout(self, duration: Duration) -> Timeout<Self>
    where
        Self: Sized,
    {
        Timeout {
            stream: self,
            duration,
            wait: Wait::None,
        }
    }

    /// Asks for an item at the earliest `duration` after the one before it was yielded. The first one comes at once.
    ///
    /// ```
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// use futures_lite::{StreamExt as _, stream};
    /// use quadrille::time::stream::StreamExt as _;
    /// use quadrille::time::{Duration, Instant};
    ///
    /// let start = Instant::now();
    /// let items = stream::iter(["one", "two", "three"]).throttle(Duration::from_millis(1));
    /// assert_eq!(items.count().await, 3);
    /// assert!(start.elapsed() >= Duration::from_millis(3), "also before the end");
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// When it yields an item outside of a runtime; the item is lost.
    ///
    /// # Cancel safety
    ///
    /// That of the stream. A pause that is taken up again goes on.
    fn throttle(self, duration: Duration) -> Throttle<Self>
    where
        Self: Sized,
    {
        Throttle {
            stream: self,
            duration,
            pause: None,
        }
    }

    /// Yields items in batches: of `size_max`, or as soon as the stream makes wait, of those that have come until
    /// `duration` after the first of them; so it does where the stream takes all of the task's [budget](crate::coop)
    /// in poll after poll. At the end it yields what is left.
    ///
    /// # Panics
    ///
    /// If `size_max` is zero; and when it gets an item outside of a runtime, which is lost.
    ///
    /// # Cancel safety
    ///
    /// That of the stream: items of a batch that is not complete are kept.
    #[track_caller]
    fn chunks_timeout(self, size_max: usize, duration: Duration) -> ChunksTimeout<Self>
    where
        Self: Sized,
    {
        assert!(size_max > 0, "batches of 0 items, expected 1 or more");
        ChunksTimeout {
            stream: self,
            size_max,
            duration,
            batch: Vec::new(),
            wait: None,
            has_ended: false,
        }
    }
}

impl<S: Stream + ?Sized> StreamExt for S {}

pin_project! {
    /// The stream of [`StreamExt::timeout`].
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct Timeout<S> {
        #[pin]
        stream: S,
        duration: Duration,
        wait: Wait,
    }
}

/// For the next item.
#[derive(Debug)]
enum Wait {
    None,
    Until(Limit),
    /// That has been told.
    Elapsed,
    /// None will come.
    Ended,
}

impl<S: Stream> Stream for Timeout<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if let Wait::Ended = this.wait {
            return coop::poll_spend(cx).map(|()| None);
        }
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            *this.wait = if item.is_some() { Wait::None } else { Wait::Ended };
            return Poll::Ready(item.map(Ok));
        }
        if let Wait::None = this.wait {
            *this.wait = Wait::Until(Limit::after(*this.duration));
        }
        let Wait::Until(limit) = this.wait else {
            return Poll::Pending;
        };
        ready!(limit.poll(had_budget, cx));
        *this.wait = Wait::Elapsed;
        Poll::Ready(Some(Err(Elapsed::new())))
    }
}

pin_project! {
    /// The stream of [`StreamExt::throttle`].
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct Throttle<S> {
        #[pin]
        stream: S,
        duration: Duration,
        pause: Option<Sleep>,
    }
}

impl<S: Stream> Stream for Throttle<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if let Some(pause) = this.pause {
            ready!(Pin::new(pause).poll(cx));
            *this.pause = None;
        }
        let item = ready!(this.stream.poll_next(cx));
        if item.is_some() {
            *this.pause = Some(sleep(*this.duration));
        }
        Poll::Ready(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.size_hint()
    }
}

macro_rules! impl_inner {
    ($($type:ident),+) => {$(
        impl<S> $type<S> {
            /// The stream.
            pub fn get_ref(&self) -> &S {
                &self.stream
            }

            /// The stream.
            pub fn get_mut(&mut self) -> &mut S {
                &mut self.stream
            }

            /// The stream; nothing of it is lost.
            pub fn into_inner(self) -> S {
                self.stream
            }
        }
    )+};
}

impl_inner!(Timeout, Throttle);

pin_project! {
    /// The stream of [`StreamExt::chunks_timeout`].
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct ChunksTimeout<S: Stream> {
        #[pin]
        stream: S,
        size_max: usize,
        duration: Duration,
        batch: Vec<S::Item>,
        // Set while something is in the batch.
        wait: Option<Limit>,
        has_ended: bool,
    }
}

impl<S: Stream> ChunksTimeout<S> {
    /// The items of a batch that is not complete.
    pub fn into_remainder(self) -> Vec<S::Item> {
        self.batch
    }
}

impl<S: Stream> Stream for ChunksTimeout<S> {
    type Item = Vec<S::Item>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        if *this.has_ended {
            return coop::poll_spend(cx).map(|()| None);
        }
        let had_budget = coop::has_budget_remaining();
        while !*this.has_ended && this.batch.len() < *this.size_max {
            // Paid for each, also where the stream isn't ours: one that never waits gives way.
            match coop::poll_paid(cx, |cx| this.stream.as_mut().poll_next(cx)) {
                Poll::Ready(Some(item)) => {
                    this.wait.get_or_insert_with(|| Limit::after(*this.duration));
                    this.batch.push(item);
                }
                Poll::Ready(None) => *this.has_ended = true,
                Poll::Pending => {
                    let Some(limit) = this.wait else {
                        return Poll::Pending;
                    };
                    ready!(limit.poll(had_budget, cx));
                    break;
                }
            }
        }
        *this.wait = None;
        let batch = mem::take(this.batch);
        Poll::Ready((!batch.is_empty()).then_some(batch))
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::{StreamExt as _, future, stream};

    use super::super::{Instant, interval_at};
    use super::*;
    use crate::sync::mpmc;
    use crate::{Runtime, coop};

    const MS: Duration = Duration::from_millis(1);

    /// By a clock that goes on when everybody waits.
    fn paused<T>(future: impl Future<Output = T>) -> T {
        let runtime = Runtime::builder().worker_threads(1).start_paused(true).build().unwrap();
        runtime.block_on(future)
    }

    #[test]
    fn an_item_that_is_late_is_told_once_and_comes() {
        paused(async {
            let start = Instant::now();
            let ticks = interval_at(start + 10 * MS, 10 * MS).take(2);
            let mut ticks = ticks.timeout(3 * MS);
            let mut seen = Vec::new();
            while let Some(outcome) = ticks.next().await {
                seen.push((outcome.is_ok(), start.elapsed().as_millis()));
            }
            assert_eq!(seen, [(false, 3), (true, 10), (false, 13), (true, 20)]);
        });
    }

    #[test]
    fn what_is_done_between_two_items_is_not_waited_for() {
        paused(async {
            let (sender, receiver) = mpmc::unbounded();
            let mut messages = receiver.timeout(3 * MS);
            for _ in 0..3 {
                sleep(5 * MS).await;
                assert!(future::poll_once(messages.next()).await.is_none());
                sender.try_send(()).unwrap();
                assert_eq!(messages.next().await, Some(Ok(())));
            }
            // A wait that is given up and taken up again is one.
            let start = Instant::now();
            assert!(future::poll_once(messages.next()).await.is_none());
            sleep(2 * MS).await;
            assert!(messages.next().await.unwrap().is_err());
            assert_eq!(start.elapsed(), 3 * MS);
            drop(sender);
            assert_eq!(messages.next().await, None);
            assert_eq!(messages.into_inner().len(), 0);
        });
    }

    #[test]
    fn without_budget_nothing_elapses() {
        paused(async {
            let (sender, receiver) = mpmc::unbounded();
            let mut messages = receiver.timeout(Duration::ZERO);
            sender.try_send(()).unwrap();
            while coop::has_budget_remaining() {
                coop::consume_budget().await;
            }
            assert!(future::poll_once(messages.next()).await.is_none(), "no unit is left");
            assert_eq!(messages.next().await, Some(Ok(())));
        });
    }

    /// Its timer would find no unit left in any poll.
    #[test]
    fn a_stream_that_spends_the_budget_each_time_elapses() {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        runtime.block_on(async {
            let none = stream::repeat(0)
                .then(async |_| coop::consume_budget().await)
                .filter(|_| false);
            let start = Instant::now();
            let mut none = std::pin::pin!(none.timeout(5 * MS));
            assert_eq!(none.next().await, Some(Err(Elapsed::new())));
            assert!(start.elapsed() >= 5 * MS);
            let mut batches = stream::repeat(1).chunks_timeout(usize::MAX, 5 * MS);
            let batch = batches.next().await.unwrap();
            assert!(batch.len() > 128 && start.elapsed() >= 10 * MS);
        });
    }

    #[test]
    fn a_stream_that_has_ended_is_not_polled() {
        let mut items = vec![Some(1), None].into_iter();
        let mut stream = stream::poll_fn(move |_| Poll::Ready(items.next().expect("it has ended"))).timeout(MS);
        future::block_on(async {
            assert_eq!(stream.next().await, Some(Ok(1)));
            assert_eq!((stream.next().await, stream.next().await), (None, None));
        });
    }

    #[test]
    fn who_asks_again_behind_the_end_gives_way() {
        paused(async {
            let mut ended = stream::empty::<()>().timeout(MS);
            let mut batches = stream::empty::<()>().chunks_timeout(1, MS);
            assert_eq!((ended.next().await, batches.next().await), (None, None));
            for _ in 0..=coop::DEFAULT {
                if !coop::has_budget_remaining() {
                    return;
                }
                assert_eq!(future::poll_once(ended.next()).await, Some(None));
                assert!(future::poll_once(batches.next()).await.is_none_or(|end| end.is_none()));
            }
            panic!("the budget is not spent");
        });
    }

    #[test]
    fn items_are_so_far_apart() {
        paused(async {
            let start = Instant::now();
            let mut at = stream::iter(0..4).throttle(2 * MS);
            assert_eq!(at.size_hint(), (4, Some(4)));
            let mut seen = Vec::new();
            while let Some(item) = at.next().await {
                seen.push((item, start.elapsed().as_millis()));
                if item == 1 {
                    sleep(5 * MS).await;
                }
            }
            assert_eq!(seen, [(0, 0), (1, 2), (2, 7), (3, 9)]);
        });
    }

    #[test]
    fn batches_are_as_large_as_said_or_as_time_allows() {
        paused(async {
            let start = Instant::now();
            let (sender, receiver) = mpmc::unbounded();
            let mut batches = receiver.chunks_timeout(3, 10 * MS);
            crate::spawn(async move {
                for (pause, item) in [(0, 0), (1, 1), (1, 2), (4, 3), (1, 4), (20, 5), (2, 6)] {
                    sleep(pause * MS).await;
                    sender.try_send(item).unwrap();
                }
            });
            let mut seen = Vec::new();
            while let Some(batch) = batches.next().await {
                seen.push((batch, start.elapsed().as_millis()));
            }
            let expected = [(vec![0, 1, 2], 2), (vec![3, 4], 16), (vec![5, 6], 29)];
            assert_eq!(seen, expected);
            assert_eq!(batches.next().await, None);
        });
    }

    #[test]
    fn a_batch_that_is_not_waited_for_is_kept() {
        paused(async {
            let (sender, receiver) = mpmc::unbounded();
            let mut batches = receiver.chunks_timeout(3, 10 * MS);
            sender.try_send(1).unwrap();
            assert!(future::poll_once(batches.next()).await.is_none());
            sender.try_send(2).unwrap();
            assert!(future::poll_once(batches.next()).await.is_none());
            assert_eq!(batches.into_remainder(), [1, 2]);
        });
    }

    #[test]
    fn who_batches_what_never_waits_gives_way() {
        paused(async {
            let mut batches = stream::repeat(1).chunks_timeout(1_000_000, MS);
            assert!(future::poll_once(batches.next()).await.is_none());
            assert!((1..1_000).contains(&batches.into_remainder().len()));
        });
    }

    #[test]
    #[should_panic(expected = "batches of 0 items, expected 1 or more")]
    fn batches_of_nothing_are_refused() {
        drop(stream::empty::<()>().chunks_timeout(0, MS));
    }
}
