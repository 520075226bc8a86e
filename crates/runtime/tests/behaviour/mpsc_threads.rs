//! The channel by tokio's names, in what this crate adds: user-level threads, streams, a clock that stands still.

use std::pin::pin;
use std::time::Duration;

use futures_core::FusedStream;
use futures_lite::StreamExt;
use futures_lite::future::{block_on, poll_once};
use quadrille::sync::mpsc::error::{SendTimeoutError, TryRecvError};
use quadrille::sync::mpsc::{self, Receiver, Sender, UnboundedReceiver, WeakUnboundedSender};
use quadrille::sync::{mpmc, oneshot};
use quadrille::time::{self, Instant};
use quadrille::{spawn, thread};

use crate::shape::{Shape, for_each_shape};
use crate::wait::watched;

const HOUR: Duration = Duration::from_secs(3600);

/// Senders, and messages of each.
const SENDERS: u32 = 5;
const MESSAGES: u32 = 40;

/// With one worker nobody would go on if one of them held it up.
#[test]
fn threads_are_suspended_while_they_wait() {
    watched("threads of one worker", || {
        let runtime = Shape::flat(1).runtime();
        let (sender, mut receiver) = mpsc::channel(1);
        let (answers, mut answered) = mpsc::unbounded_channel();
        let takes = runtime.spawn_thread(move || {
            let mut batch = Vec::new();
            while let Some(first) = receiver.blocking_recv() {
                answers.send(first).unwrap();
                while receiver.blocking_recv_many(&mut batch, 2) > 0 && batch.len() < 4 {}
                batch.drain(..).for_each(|number| answers.send(number).unwrap());
            }
        });
        let sends = runtime.spawn_thread(move || (0..100).for_each(|number| sender.blocking_send(number).unwrap()));
        let reads = runtime.spawn_thread(move || {
            let mut all = Vec::new();
            while answered.blocking_recv_many(&mut all, 8) > 0 {
                all.extend(answered.blocking_recv());
            }
            all
        });
        assert!(reads.join().unwrap().into_iter().eq(0..100));
        sends.join().unwrap();
        takes.join().unwrap();
    });
}

/// By number, each in another way.
async fn send(mut sender: Sender<u32>, first: u32) {
    for number in first..first + MESSAGES {
        match number % 4 {
            0 => sender.send(number).await.unwrap(),
            1 => sender.reserve().await.unwrap().send(number),
            2 => sender = sender.reserve_owned().await.unwrap().send(number),
            _ => {
                drop(sender.reserve().await.unwrap());
                sender.send_timeout(number, HOUR).await.unwrap();
            }
        }
    }
}

async fn receive(mut receiver: Receiver<u32>) -> Vec<u32> {
    let mut got = Vec::new();
    loop {
        let count = receiver.recv_many(&mut got, 3).await;
        match receiver.recv().await {
            Some(number) => got.push(number),
            None => return got,
        }
        assert!((1..=3).contains(&count));
    }
}

#[test]
fn tasks_and_threads_send_in_every_way() {
    for_each_shape(|shape| {
        for capacity in [1, 3, 100] {
            let runtime = shape.runtime();
            let (sender, receiver) = mpsc::channel(capacity);
            let mut tasks = Vec::new();
            let mut threads = Vec::new();
            for id in 0..SENDERS {
                tasks.push(runtime.spawn(send(sender.clone(), 2 * id * MESSAGES)));
                let (sender, first) = (sender.clone(), (2 * id + 1) * MESSAGES);
                threads.push(runtime.spawn_thread(move || {
                    (first..first + MESSAGES).for_each(|number| sender.blocking_send(number).unwrap());
                }));
            }
            drop(sender);
            let mut got = runtime.block_on(runtime.spawn(receive(receiver))).unwrap();
            got.sort_unstable();
            assert!(got.into_iter().eq(0..2 * SENDERS * MESSAGES));
            tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
    });
}

/// Answers, and sends itself one message for each that came from outside; it ends with the others.
async fn actor(
    mut inbox: UnboundedReceiver<Option<oneshot::Sender<u32>>>,
    own: WeakUnboundedSender<Option<oneshot::Sender<u32>>>,
) -> u32 {
    let mut count = 0;
    while let Some(question) = inbox.recv().await {
        let Some(answer) = question else { continue };
        count += 1;
        answer.send(count).unwrap();
        if let Some(own) = own.upgrade() {
            own.send(None).unwrap();
        }
    }
    count
}

#[test]
fn an_actor_ends_with_those_who_ask_it() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let (sender, inbox) = mpsc::unbounded_channel();
        let task = runtime.spawn(actor(inbox, sender.downgrade()));
        let asks: Vec<_> = (0..SENDERS)
            .map(|_| {
                let sender = sender.clone();
                runtime.spawn(async move {
                    let (answer, question) = oneshot::channel();
                    sender.send(Some(answer)).unwrap();
                    question.await.unwrap()
                })
            })
            .collect();
        drop(sender);
        let mut answers: Vec<_> = asks.into_iter().map(|task| runtime.block_on(task).unwrap()).collect();
        answers.sort_unstable();
        assert!(answers.into_iter().eq(1..=SENDERS));
        assert_eq!(runtime.block_on(task).unwrap(), SENDERS);
    });
}

#[quadrille::test(start_paused = true)]
async fn a_message_that_finds_no_room_in_time_comes_back() {
    let (sender, mut receiver) = mpsc::channel(1);
    let start = Instant::now();
    assert_eq!(sender.send_timeout(1, Duration::ZERO).await, Ok(()), "there is room");
    assert_eq!(sender.send_timeout(2, HOUR).await, Err(SendTimeoutError::Timeout(2)));
    assert_eq!(start.elapsed(), HOUR);
    let other = sender.clone();
    let waits = spawn(async move { other.send_timeout(3, HOUR).await });
    time::sleep(HOUR / 2).await;
    assert_eq!(receiver.recv().await, Some(1));
    assert_eq!(waits.await.unwrap(), Ok(()));
    assert_eq!(start.elapsed(), HOUR + HOUR / 2);
    let other = sender.clone();
    let waits = spawn(async move { other.send_timeout(4, HOUR).await });
    time::sleep(HOUR / 2).await;
    receiver.close();
    assert_eq!(waits.await.unwrap(), Err(SendTimeoutError::Closed(4)));
    assert_eq!(start.elapsed(), 2 * HOUR);
    assert_eq!(receiver.recv().await, Some(3));
    assert_eq!(receiver.recv().await, None);
}

#[test]
fn a_receiver_is_a_stream() {
    block_on(async {
        let (sender, mut receiver) = mpsc::channel(3);
        (1..=3).for_each(|number| sender.try_send(number).unwrap());
        drop(sender);
        assert_eq!(receiver.next().await, Some(1));
        assert!(!receiver.is_terminated());
        assert_eq!((&mut receiver).collect::<Vec<_>>().await, [2, 3]);
        assert!(receiver.is_terminated());

        let (sender, mut receiver) = mpsc::unbounded_channel();
        sender.send(1).unwrap();
        assert_eq!(receiver.next().await, Some(1));
        assert!(poll_once(receiver.next()).await.is_none());
        sender.send(2).unwrap();
        assert_eq!(receiver.try_recv(), Ok(2), "whoever asks, though the stream waits");
        drop(sender);
        assert!(!receiver.is_terminated());
        assert_eq!(receiver.next().await, None);
        assert!(receiver.is_terminated());
    });
}

#[test]
fn a_send_that_waits_gives_its_message_back() {
    let (sender, mut receiver) = mpsc::channel(1);
    block_on(async {
        let mut sends = pin!(sender.send(1));
        assert_eq!(sends.as_mut().await, Ok(()));
        assert_eq!(sends.cancel(), None, "it was sent");
        let mut sends = pin!(sender.send(2));
        assert!(poll_once(sends.as_mut()).await.is_none());
        assert_eq!(sends.cancel(), Some(2));
    });
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
}

/// A program's error, made of those of either channel by `?`.
#[derive(Debug)]
enum Failure {
    One(mpsc::error::SendError<u8>),
    Several(mpmc::SendError<u8>),
}

impl From<mpsc::error::SendError<u8>> for Failure {
    fn from(error: mpsc::error::SendError<u8>) -> Self {
        Self::One(error)
    }
}

impl From<mpmc::SendError<u8>> for Failure {
    fn from(error: mpmc::SendError<u8>) -> Self {
        Self::Several(error)
    }
}

#[test]
fn errors_of_several_channels_go_into_one() {
    let send = |first: bool| -> Result<(), Failure> {
        let (one, _) = mpsc::unbounded_channel();
        let (several, _) = mpmc::unbounded();
        if first {
            one.send(1)?;
        }
        Ok(several.send_blocking(2)?)
    };
    assert!(matches!(send(true), Err(Failure::One(error)) if error.into_inner() == 1));
    assert!(matches!(send(false), Err(Failure::Several(error)) if error.into_inner() == 2));
}

/// Handles and futures are those of `mpmc`, and nothing beside.
#[test]
fn it_takes_no_more_memory_than_what_it_is_made_of() {
    type Message = [u64; 5];
    assert_eq!(size_of::<Sender<Message>>(), size_of::<mpmc::Sender<Message>>());
    assert_eq!(size_of::<Receiver<Message>>(), size_of::<mpmc::Receiver<Message>>());
    assert_eq!(
        size_of::<mpsc::Sending<'_, Message>>(),
        size_of::<mpmc::Send<'_, Message>>()
    );
    assert_eq!(
        size_of::<mpsc::Recv<'_, Message>>(),
        size_of::<mpmc::Recv<'_, Message>>()
    );
    assert_eq!(
        size_of::<mpsc::RecvMany<'_, Message>>(),
        size_of::<mpmc::RecvMany<'_, Message>>()
    );
    assert_eq!(
        size_of::<mpsc::Reserve<'_, Message>>(),
        size_of::<mpmc::Reserve<'_, Message>>()
    );
    assert_eq!(
        size_of::<mpsc::ReserveOwned<Message>>(),
        size_of::<mpmc::ReserveOwned<Message>>()
    );
    assert_eq!(
        size_of::<mpsc::OwnedPermit<Message>>(),
        size_of::<mpmc::OwnedPermit<Message>>()
    );
    assert_eq!(
        size_of::<mpsc::Permit<'_, Message>>(),
        size_of::<mpmc::Permit<'_, Message>>()
    );
}

/// As in tokio: a glob of the module hides nothing that programs use.
#[test]
fn a_glob_leaves_the_trait_send_alone() {
    use quadrille::sync::mpsc::*;
    fn sent<T: Send>(value: T) -> T {
        value
    }
    let (sender, mut receiver) = channel(1);
    let sender = sent(sender);
    thread::scope(|_| sender.try_send(1).unwrap());
    assert_eq!(receiver.try_recv(), Ok(1));
}
