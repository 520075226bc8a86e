//! `mpsc::sync_channel(0)`: a sender waits until its message is received.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::mpsc as std_mpsc;
use std::task::{Context, Poll};
use std::time::Duration;

use quadrille::thread::sync::mpsc::{
    self, Receiver, RecvError, RecvTimeoutError, SyncSender, TryRecvError, TrySendError,
};
use quadrille::thread::{ThreadState, WaitsFor};
use quadrille::{Runtime, Wait as _};

use crate::count::{Count, Token};
use crate::shape::{Shape, for_each_shape_if};
use crate::wait::eventually;

const LONG: Duration = Duration::from_secs(1000);

/// Polls with a waker that counts.
fn poll<F: Future>(future: Pin<&mut F>, wakes: &Count) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&wakes.waker()))
}

/// So many threads wait for a channel.
fn eventually_waiting(runtime: &Runtime, count: usize) {
    eventually("they wait at the channel", || {
        let waits = |state| {
            matches!(
                state,
                ThreadState::Suspended {
                    waits_for: WaitsFor::Channel(_),
                    ..
                }
            )
        };
        let threads = runtime.handle().threads();
        threads.iter().filter(|thread| waits(thread.state)).count() == count
    });
}

/// What does not wait does what std's does.
#[test]
fn the_answers_are_those_of_std() {
    let (sender, receiver) = mpsc::sync_channel(0);
    let (std_sender, std_receiver) = std_mpsc::sync_channel(0);
    assert_eq!(sender.try_send(1), std_sender.try_send(1));
    assert_eq!(receiver.try_recv(), std_receiver.try_recv());
    let short = Duration::from_millis(1);
    assert_eq!(receiver.recv_timeout(short), std_receiver.recv_timeout(short));
    drop((sender, std_sender));
    assert_eq!(receiver.try_recv(), std_receiver.try_recv());
    assert_eq!(receiver.recv(), std_receiver.recv());
    assert_eq!(receiver.recv_timeout(LONG), std_receiver.recv_timeout(LONG));
    let (sender, receiver) = mpsc::sync_channel(0);
    let (std_sender, std_receiver) = std_mpsc::sync_channel(0);
    drop((receiver, std_receiver));
    assert_eq!(sender.try_send(2), std_sender.try_send(2));
    assert_eq!(sender.send(3), std_sender.send(3));
}

#[test]
fn a_sender_waits_until_its_message_is_received() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let (sender, receiver) = mpsc::sync_channel(0);
            let other = sender.clone();
            let first = runtime.spawn_thread(move || sender.send(1));
            eventually_waiting(&runtime, 1);
            let second = runtime.spawn_thread(move || other.send(2));
            eventually_waiting(&runtime, 2);
            assert!(!first.is_finished() && !second.is_finished());
            assert_eq!(receiver.try_recv(), Ok(1), "of a sender that waits");
            first.join().unwrap().unwrap();
            assert!(!second.is_finished());
            assert_eq!(receiver.recv(), Ok(2));
            second.join().unwrap().unwrap();
            assert_eq!(receiver.recv(), Err(RecvError));
        },
    );
}

#[test]
fn a_receiver_that_waits_is_served_at_once() {
    let runtime = Shape::flat(2).runtime();
    let (sender, receiver) = mpsc::sync_channel(0);
    let receives = runtime.spawn_thread(move || (receiver.recv(), receiver));
    eventually_waiting(&runtime, 1);
    assert_eq!(sender.try_send(1), Ok(()));
    let (received, receiver) = receives.join().unwrap();
    assert_eq!(received, Ok(1));
    assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)), "nobody waits any more");
    let receives = runtime.spawn_thread(move || receiver.recv_timeout(LONG));
    eventually_waiting(&runtime, 1);
    sender.send(3).unwrap();
    assert_eq!(receives.join().unwrap(), Ok(3));
}

#[test]
fn a_side_that_goes_tells_those_who_wait() {
    let runtime = Shape::flat(2).runtime();
    let (sender, receiver) = mpsc::sync_channel(0);
    let senders: Vec<_> = (0..100)
        .map(|message| {
            let sender = sender.clone();
            runtime.spawn_thread(move || sender.send(message))
        })
        .collect();
    eventually_waiting(&runtime, 100);
    drop(receiver);
    for (message, sender) in senders.into_iter().enumerate() {
        assert_eq!(sender.join().unwrap().unwrap_err().0, message);
    }
    let (sender, receiver) = mpsc::sync_channel::<()>(0);
    let other = sender.clone();
    let receives = runtime.spawn_thread(move || receiver.recv_timeout(LONG));
    eventually_waiting(&runtime, 1);
    drop(sender);
    assert!(!receives.is_finished());
    drop(other);
    assert_eq!(receives.join().unwrap(), Err(RecvTimeoutError::Disconnected));
}

/// Futures of both sides, polled by hand: whom each step wakes.
#[test]
fn who_is_woken() {
    let (sender, receiver) = mpsc::sync_channel(0);
    let (sends, receives) = (Count::default(), Count::default());
    let mut send = pin!(sender.send_async(1));
    assert!(poll(send.as_mut(), &sends).is_pending());
    assert!(poll(send.as_mut(), &sends).is_pending(), "again, without a reason");
    let mut recv = pin!(receiver.recv_async());
    assert_eq!(poll(recv.as_mut(), &receives), Poll::Ready(Ok(1)));
    assert_eq!((sends.get(), receives.get()), (1, 0));
    assert_eq!(poll(send.as_mut(), &sends), Poll::Ready(Ok(())));

    let mut recv = pin!(receiver.recv_async());
    assert!(poll(recv.as_mut(), &receives).is_pending());
    assert!(poll(recv.as_mut(), &receives).is_pending(), "again, without a reason");
    let mut send = pin!(sender.send_async(2));
    assert_eq!(poll(send.as_mut(), &sends), Poll::Ready(Ok(())));
    assert_eq!((sends.get(), receives.get()), (1, 1));
    assert_eq!(poll(recv.as_mut(), &receives), Poll::Ready(Ok(2)));
}

/// A send that is dropped takes its message with it. A message that was handed over is not lost with its receiver's
/// future.
#[test]
fn who_gives_up() {
    let dropped = Count::default();
    let (sender, receiver): (SyncSender<(u32, Token)>, Receiver<_>) = mpsc::sync_channel(0);
    let message = |number| (number, dropped.token());
    let wakes = Count::default();
    {
        let mut send = pin!(sender.send_async(message(1)));
        assert!(poll(send.as_mut(), &wakes).is_pending());
    }
    assert_eq!(dropped.get(), 1);
    assert!(matches!(receiver.try_recv(), Err(TryRecvError::Empty)));

    let mut second = Box::pin(receiver.recv_async());
    {
        let mut first = pin!(receiver.recv_async());
        assert!(poll(first.as_mut(), &wakes).is_pending());
        assert!(poll(second.as_mut(), &wakes).is_pending());
        sender.try_send(message(2)).unwrap();
        assert_eq!(wakes.get(), 1);
    }
    assert_eq!(wakes.get(), 2, "the other one that waits has it");
    drop(second);
    sender.try_send(message(3)).unwrap_err();
    assert_eq!(dropped.get(), 2, "the third");
    assert_eq!(receiver.try_recv().unwrap().0, 2, "kept for whoever receives next");

    let mut third = Box::pin(receiver.recv_async());
    assert!(poll(third.as_mut(), &wakes).is_pending());
    sender.try_send(message(4)).unwrap();
    drop(third);
    drop(receiver);
    assert_eq!(dropped.get(), 4, "nobody can receive it any more");
}

/// Those whose receives were given up go with the receiver, each, and a panic of one of them is told when all have
/// gone.
#[test]
fn messages_that_panic_when_they_are_dropped_keep_no_other() {
    struct Bomb {
        _counted: Token,
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("for the test, from a destructor");
        }
    }
    let (sender, receiver) = mpsc::sync_channel(0);
    let (wakes, drops) = (Count::default(), Count::default());
    let mut receives: Vec<_> = (0..3).map(|_| Box::pin(receiver.recv_async())).collect();
    for receive in &mut receives {
        assert!(poll(receive.as_mut(), &wakes).is_pending());
        let _counted = drops.token();
        assert!(sender.try_send(Bomb { _counted }).is_ok());
    }
    drop(receives);
    assert_eq!(drops.get(), 0);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(receiver))).is_err());
    assert_eq!(drops.get(), 3);
}

/// However their receivers give up, messages that were handed over come in the order in which they were sent.
#[test]
fn messages_of_receives_that_are_dropped_keep_their_order() {
    // Three digits in base 3 are an order of drops; who is named again has gone already.
    for order in 0..27 {
        let order = [order / 9, order / 3 % 3, order % 3];
        let (sender, receiver) = mpsc::sync_channel(0);
        let wakes = Count::default();
        let mut receives: Vec<_> = (0..3).map(|_| Some(Box::pin(receiver.recv_async()))).collect();
        for receive in receives.iter_mut().flatten() {
            assert!(poll(receive.as_mut(), &wakes).is_pending());
        }
        (1..=3).for_each(|message| sender.try_send(message).unwrap());
        let mut send = pin!(sender.send_async(4));
        assert!(poll(send.as_mut(), &wakes).is_pending());
        for index in order {
            drop(receives[index].take());
        }
        let mut dropped: Vec<_> = (0..3)
            .filter(|index| receives[*index].is_none())
            .map(|index| index + 1)
            .collect();
        dropped.push(4);
        for message in dropped {
            assert_eq!(receiver.try_recv(), Ok(message), "dropped in the order {order:?}");
        }
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty), "the others have theirs");
        for (index, receive) in receives.iter_mut().enumerate() {
            if let Some(receive) = receive {
                assert_eq!(poll(receive.as_mut(), &wakes), Poll::Ready(Ok(index + 1)));
            }
        }
    }
}

/// A message that goes to another seat, and is given back from there too, still comes before what was sent after it.
#[test]
fn a_message_keeps_its_turn_from_seat_to_seat() {
    let (sender, receiver) = mpsc::sync_channel(0);
    let wakes = Count::default();
    let mut first = Box::pin(receiver.recv_async());
    let mut second = Box::pin(receiver.recv_async());
    let mut third = Box::pin(receiver.recv_async());
    for receive in [&mut first, &mut second, &mut third] {
        assert!(poll(receive.as_mut(), &wakes).is_pending());
    }
    sender.try_send(1).unwrap();
    sender.try_send(2).unwrap();
    drop(first); // 1 goes to the third.
    drop(second);
    drop(third);
    assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok(1), Ok(2)));
}

/// More than fit into a batch, so that the lock is left in between, of either side. Some leave before.
#[test]
fn a_side_that_goes_tells_many() {
    let (sender, receiver) = mpsc::sync_channel(0);
    let wakes = Count::default();
    let mut sends: Vec<_> = (0..10_000)
        .map(|message| Some(Box::pin(sender.send_async(message))))
        .collect();
    for send in sends.iter_mut().flatten() {
        assert!(poll(send.as_mut(), &wakes).is_pending());
    }
    sends.iter_mut().step_by(7).for_each(|send| *send = None);
    let waits = sends.iter().flatten().count();
    drop(receiver);
    assert_eq!(wakes.get(), waits, "each one once");
    for (message, send) in sends.iter_mut().enumerate() {
        if let Some(send) = send {
            let Poll::Ready(Err(refused)) = poll(send.as_mut(), &wakes) else {
                panic!("the receiver has gone")
            };
            assert_eq!(refused.0, message);
        }
    }

    let (sender, receiver) = mpsc::sync_channel::<()>(0);
    let wakes = Count::default();
    let mut receives: Vec<_> = (0..10_000).map(|_| Box::pin(receiver.recv_async())).collect();
    for receive in &mut receives {
        assert!(poll(receive.as_mut(), &wakes).is_pending());
    }
    sender.try_send(()).unwrap();
    drop(sender);
    assert_eq!(wakes.get(), receives.len(), "each one once");
    let answers: Vec<_> = receives
        .iter_mut()
        .map(|receive| poll(receive.as_mut(), &wakes))
        .collect();
    assert_eq!(answers[0], Poll::Ready(Ok(())));
    assert!(answers[1..].iter().all(|answer| *answer == Poll::Ready(Err(RecvError))));
}

/// Threads, tasks and ordinary threads meet at one channel; each message is received once, in the order of its sender.
#[test]
fn all_kinds_meet() {
    const MESSAGES: usize = 200;
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let (sender, receiver) = mpsc::sync_channel(0);
            let sends = |from: usize| {
                let sender = sender.clone();
                move || (0..MESSAGES).for_each(|message| sender.send((from, message)).unwrap())
            };
            std::thread::spawn(sends(0));
            drop((runtime.spawn_thread(sends(1)), runtime.spawn_thread(sends(2))));
            let tasked = sender.clone();
            drop(runtime.spawn(async move {
                for message in 0..MESSAGES {
                    tasked.send_async((3, message)).await.unwrap();
                }
            }));
            let tries = sender.clone();
            drop(runtime.spawn_thread(move || {
                let mut message = 0;
                while message < MESSAGES {
                    match tries.try_send((4, message)) {
                        Ok(()) => message += 1,
                        Err(_) => quadrille::thread::yield_now(),
                    }
                }
            }));
            drop(sender);
            let receives = runtime.spawn(async move {
                let mut next = [0; 5];
                while let Ok((from, message)) = receiver.recv_async().await {
                    assert_eq!(next[from], message);
                    next[from] += 1;
                }
                next
            });
            assert_eq!(receives.wait().unwrap(), [MESSAGES; 5]);
        },
    );
}

/// Threads that wait at a rendezvous are unwound with their runtime, and leave nothing behind.
#[test]
fn the_runtime_ends_meanwhile() {
    let runtime = Shape::flat(2).runtime();
    let dropped = Count::default();
    let (sender, receiver) = mpsc::sync_channel(0);
    for _ in 0..10 {
        let (sender, token) = (sender.clone(), dropped.token());
        drop(runtime.spawn_thread(move || sender.send(token).is_ok()));
    }
    eventually_waiting(&runtime, 10);
    drop(runtime);
    assert_eq!(dropped.get(), 10);
    assert!(matches!(receiver.try_recv(), Err(TryRecvError::Empty)));
}
