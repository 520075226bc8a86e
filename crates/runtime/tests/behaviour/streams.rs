//! What is a stream besides: who waits for the next is told, whatever became of the `next` by which he asked.

use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::{FusedStream as _, Stream};
use futures_lite::StreamExt as _;
use futures_lite::future::block_on;
use quadrille::Runtime;
use quadrille::signal::unix::Signal;
use quadrille::sync::{broadcast, mpmc, watch};
use quadrille::time::{Instant, Interval, interval};

use crate::count::Count;

/// Polls once; how often its waker is called from then on.
fn waits<S: Stream + Unpin>(stream: &mut S) -> Count {
    let wakes = Count::default();
    let next = pin!(stream.next());
    assert!(next.poll(&mut Context::from_waker(&wakes.waker())).is_pending());
    wakes
}

#[test]
fn a_stream_of_a_broadcast_is_told_though_its_next_is_gone() {
    let (sender, receiver) = broadcast::channel(2);
    let mut stream = receiver.into_stream();
    let wakes = waits(&mut stream);
    sender.send(1).unwrap();
    assert_eq!(wakes.get(), 1);
    assert_eq!(block_on(stream.next()), Some(Ok(1)));
    let wakes = waits(&mut stream);
    drop(sender);
    assert_eq!((wakes.get(), block_on(stream.next())), (1, None));
    assert_eq!(block_on(stream.next()), None, "and again");
}

#[test]
fn a_receiver_goes_on_where_its_stream_was() {
    let (sender, receiver) = broadcast::channel(2);
    let mut stream = receiver.into_stream();
    let wakes = waits(&mut stream);
    let mut receiver = stream.into_inner();
    (1..=3).for_each(|n| assert_eq!(sender.send(n), Ok(1)));
    assert_eq!(wakes.get(), 0, "nobody waits");
    assert_eq!(receiver.try_recv(), Err(broadcast::TryRecvError::Lagged(1)));
    let mut stream = receiver.into_stream();
    assert_eq!(block_on(stream.next()), Some(Ok(2)));
    assert_eq!(stream.into_inner().try_recv(), Ok(3));
}

#[test]
fn a_stream_of_a_watch_gives_the_last_value_once() {
    let (sender, receiver) = watch::channel(0);
    let mut stream = receiver.clone().into_stream();
    let wakes = waits(&mut stream);
    sender.send(1).unwrap();
    sender.send(2).unwrap();
    assert_eq!(wakes.get(), 1, "and is in no list any more");
    assert_eq!(block_on(stream.next()), Some(2));
    let wakes = waits(&mut stream);
    let seen = stream.into_inner();
    assert_eq!((seen.has_changed(), receiver.has_changed()), (Ok(false), Ok(true)));
    sender.send(3).unwrap();
    assert_eq!(wakes.get(), 0);
    drop(sender);
    let rest: Vec<i32> = block_on(seen.into_stream().collect());
    assert_eq!(rest, [3]);
}

#[test]
fn many_messages_are_polled_for_where_one_is() {
    let (sender, mut receiver) = mpmc::unbounded();
    let (wakes, mut got) = (Count::default(), Vec::new());
    let waker = wakes.waker();
    let mut cx = Context::from_waker(&waker);
    assert!(receiver.poll_recv_many(&mut cx, &mut got, 2).is_pending());
    (1..=3).for_each(|n| sender.try_send(n).unwrap());
    assert_eq!(wakes.get(), 1);
    assert_eq!(receiver.poll_recv_many(&mut cx, &mut got, 2), Poll::Ready(Ok(2)));
    assert_eq!(receiver.poll_recv(&mut cx), Poll::Ready(Ok(3)));
    assert_eq!(receiver.poll_recv_many(&mut cx, &mut got, 0), Poll::Ready(Ok(0)));
    assert!(receiver.poll_recv(&mut cx).is_pending());
    assert!(receiver.poll_recv_many(&mut cx, &mut got, 2).is_pending());
    // Who is behind it is told at once, too, and may have what comes.
    let other = receiver.clone();
    let mut behind = pin!(other.recv());
    let told = Count::default();
    assert!(
        behind
            .as_mut()
            .poll(&mut Context::from_waker(&told.waker()))
            .is_pending()
    );
    sender.try_send(4).unwrap();
    assert_eq!((wakes.get(), told.get()), (2, 1));
    assert_eq!(block_on(behind), Ok(4));
    assert!(receiver.poll_recv_many(&mut cx, &mut got, 2).is_pending() && !receiver.is_terminated());
    drop(sender);
    assert_eq!(wakes.get(), 3);
    assert_eq!(
        receiver.poll_recv_many(&mut cx, &mut got, 2),
        Poll::Ready(Err(mpmc::RecvError))
    );
    assert!(receiver.is_terminated() && got == [1, 2]);
}

/// Else a task that reads one stream would keep its worker as long as others send.
#[test]
fn a_stream_that_always_has_something_gives_way() {
    async fn is_refused(mut stream: impl Stream + Unpin) -> bool {
        for _ in 0..1_000 {
            let next = std::future::poll_fn(|cx| Poll::Ready(stream.poll_next(cx).is_pending()));
            if next.await {
                return true;
            }
        }
        false
    }
    let runtime = Runtime::builder().worker_threads(1).build().unwrap();
    let (sender, receiver) = broadcast::channel(2_000);
    (0..1_000).for_each(|n| assert_eq!(sender.send(n), Ok(1)));
    assert!(
        runtime
            .block_on(runtime.spawn(is_refused(receiver.into_stream())))
            .unwrap()
    );
    let (sender, receiver) = watch::channel(0);
    drop(sender);
    assert!(
        runtime
            .block_on(runtime.spawn(is_refused(receiver.into_stream())))
            .unwrap()
    );
    let ticks = runtime.spawn(async { is_refused(interval(Duration::from_nanos(1))).await });
    assert!(runtime.block_on(ticks).unwrap());
}

#[quadrille::test(start_paused = true)]
async fn ticks_are_a_stream_without_end() {
    const PERIOD: Duration = Duration::from_secs(1);
    let start = Instant::now();
    let ticks: Vec<Duration> = interval(PERIOD).take(3).map(|tick| tick - start).collect().await;
    assert_eq!(ticks, [Duration::ZERO, PERIOD, 2 * PERIOD]);
}

/// `select!` of the crate futures leaves out who is at the end: not before it has told of that.
#[test]
fn a_channel_has_ended_once_its_stream_has_said_so() {
    let (sender, mut receiver) = mpmc::bounded(2);
    sender.try_send(1).unwrap();
    drop(sender);
    assert_eq!(block_on(receiver.next()), Some(1));
    assert!(!receiver.is_terminated());
    assert_eq!(block_on(receiver.next()), None);
    assert!(receiver.is_terminated() && !receiver.clone().is_terminated());
}

#[test]
fn streams_may_be_sent_and_moved() {
    const fn is<T: Send + Sync + Unpin>() {}
    is::<broadcast::ReceiverStream<u8>>();
    is::<watch::ReceiverStream<u8>>();
    const fn moves<T: Send + Unpin + Stream>() {}
    moves::<Interval>();
    moves::<Signal>();
}
