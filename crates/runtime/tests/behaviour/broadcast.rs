//! `broadcast`: messages of senders of all kinds, to receivers of all kinds that give up now and then, while others
//! come and go.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_lite::StreamExt as _;
use quadrille::sync::broadcast::{self, Lagged, Receiver, RecvError, Sender, TryRecvError};
use quadrille::task::yield_now;
use quadrille::{Runtime, Wait as _};

use crate::count::{Count, Token};
use crate::rng::Rng;
use crate::shape::{Shape, for_each_shape_if};

/// Each sender sends so many.
const EACH: u32 = 300;
const SENDERS: u32 = 3;

/// Who has sent it, its number, and what counts its drop.
type Message = (u32, u32, Arc<Token>);

/// Polls `future` so many times, and then gives it up.
async fn at_most<F: Future>(mut polls: u64, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if polls == 0 => Poll::Ready(None),
        Poll::Pending => {
            polls -= 1;
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

/// What a receiver has had: by position, who has sent it and its number.
#[derive(Default)]
struct Log {
    position: u64,
    had: BTreeMap<u64, (u32, u32)>,
}

impl Log {
    /// Whether more may come.
    fn note(&mut self, received: Result<Message, RecvError>) -> bool {
        match received {
            Ok((sender, number, _)) => {
                self.had.insert(self.position, (sender, number));
                self.position += 1;
            }
            Err(RecvError::Lagged(missed)) => self.position += missed,
            Err(RecvError::Closed) => return false,
        }
        true
    }
}

/// Receives until the channel is closed, and gives up every third time or so.
async fn receives(mut receiver: Receiver<Message>, mut rng: Rng) -> Log {
    let mut log = Log::default();
    loop {
        let received = match rng.below(6) {
            0 | 1 => match at_most(rng.below(3), receiver.recv()).await {
                Some(received) => received,
                None => continue,
            },
            2 => match receiver.try_recv() {
                Ok(message) => Ok(message),
                Err(TryRecvError::Lagged(missed)) => Err(RecvError::Lagged(missed)),
                Err(TryRecvError::Closed) => Err(RecvError::Closed),
                Err(TryRecvError::Empty) => {
                    yield_now().await;
                    continue;
                }
            },
            _ => receiver.recv().await,
        };
        if !log.note(received) {
            return log;
        }
    }
}

/// The same by a stream, which is a receiver again now and then, also while it is in the list of those who wait.
async fn receives_as_a_stream(receiver: Receiver<Message>, mut rng: Rng) -> Log {
    let mut log = Log::default();
    let mut stream = receiver.into_stream();
    loop {
        let received = match rng.below(4) {
            0 => {
                let Some(received) = at_most(rng.below(3), stream.next()).await else {
                    if rng.below(2) == 0 {
                        stream = stream.into_inner().into_stream();
                    }
                    continue;
                };
                received
            }
            _ => stream.next().await,
        };
        let received = match received {
            Some(Ok(message)) => Ok(message),
            Some(Err(Lagged(missed))) => Err(RecvError::Lagged(missed)),
            None => Err(RecvError::Closed),
        };
        if !log.note(received) {
            return log;
        }
    }
}

/// The same in blocking style.
fn receives_blocking(mut receiver: Receiver<Message>, mut rng: Rng) -> Log {
    let mut log = Log::default();
    loop {
        let received = match rng.below(3) {
            0 => receiver.recv_blocking(),
            1 => match receiver.recv().wait_timeout(Duration::from_micros(rng.below(50))) {
                Ok(received) => received,
                Err(_) => continue,
            },
            _ => receiver.recv().wait(),
        };
        if !log.note(received) {
            return log;
        }
    }
}

async fn sends(sender: Sender<Message>, name: u32, dropped: Count) {
    for number in 0..EACH {
        assert!(sender.send((name, number, Arc::new(dropped.token()))).is_ok());
        if number % 16 == 0 {
            yield_now().await;
        }
    }
}

/// Receivers that come, take a few, and go, until they are told to stop.
fn come_and_go(sender: &Sender<Message>, capacity: usize, stop: &AtomicBool, mut rng: Rng) {
    while !stop.load(Ordering::Relaxed) {
        let mut receiver = sender.subscribe();
        (0..rng.below(20)).for_each(|_| drop(receiver.try_recv()));
        let other = receiver.resubscribe();
        assert!(sender.len() <= capacity);
        drop(receiver);
        drop(other);
    }
}

/// All receive from the same channel: those that were there from the start.
fn logs(runtime: &Runtime, capacity: usize, seed: u64, dropped: &Count) -> Vec<Log> {
    let (sender, idle) = broadcast::channel(capacity);
    let mut seeds = seed..;
    let mut next = || (sender.subscribe(), Rng::new(seeds.next().unwrap()));
    let receiving: Vec<_> = (0..3)
        .map(|_| {
            let ((to_task, rng), (to_thread, other), (to_job, third)) = (next(), next(), next());
            let (to_stream, fourth) = next();
            let task = runtime.spawn(receives(to_task, rng));
            let stream = runtime.spawn(receives_as_a_stream(to_stream, fourth));
            let thread = runtime.spawn_thread(move || receives_blocking(to_thread, other));
            let job = runtime.spawn_blocking(move || receives_blocking(to_job, third));
            (task, stream, thread, job)
        })
        .collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| come_and_go(&sender, capacity, &stop, Rng::new(seed)));
        let [task, thread, outside] = [0, 1, 2].map(|name| sends(sender.clone(), name, dropped.clone()));
        let thread = runtime.spawn_thread(|| thread.wait());
        let task = runtime.spawn(task);
        outside.wait();
        thread.join().unwrap();
        task.wait().unwrap();
        stop.store(true, Ordering::Relaxed);
    });
    drop(sender);
    let logs = receiving.into_iter().flat_map(|(task, stream, thread, job)| {
        let thread = thread.join().unwrap();
        [
            task.wait().unwrap(),
            stream.wait().unwrap(),
            thread,
            job.wait().unwrap(),
        ]
    });
    let logs: Vec<Log> = logs.collect();
    let sent = usize::try_from(SENDERS * EACH).unwrap();
    assert_eq!((idle.len(), dropped.get()), (sent, sent - capacity.min(sent)));
    drop(idle);
    assert_eq!(dropped.get(), sent);
    logs
}

#[test]
fn receivers_of_all_kinds_agree_on_what_was_sent_where() {
    let small = |shape: &Shape| shape.workers <= 4;
    for_each_shape_if(small, |shape| {
        let runtime = shape.runtime();
        for (seed, capacity) in (1..).zip([1, 2, 7, 64, 65, 200, 2_000]) {
            let mut all = BTreeMap::new();
            for log in logs(&runtime, capacity, seed * 100, &Count::default()) {
                assert_eq!(log.position, u64::from(SENDERS * EACH), "had or lost, each once");
                let mut last = [None; SENDERS as usize];
                for (position, (sender, number)) in log.had {
                    let before = last[sender as usize].replace(number);
                    assert!(before < Some(number), "a sender's messages keep their order");
                    let other = all.entry(position).or_insert((sender, number));
                    assert_eq!(
                        *other,
                        (sender, number),
                        "the same message to all, at {position} of {capacity}"
                    );
                }
            }
        }
    });
}
