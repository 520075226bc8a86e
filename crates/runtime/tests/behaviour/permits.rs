//! Channels by permits, weak senders and time-outs, for tasks and user-level threads side by side.

use std::time::Duration;

use quadrille::sync::mpmc::{self, Receiver, SendTimeoutError, Sender, TrySendError, WeakSender};
use quadrille::{Runtime, Wait, thread};

use crate::shape::for_each_shape;

/// Senders of each kind, and messages of each.
const SENDERS: u32 = 4;
const MESSAGES: u32 = 20;

/// By number: every third place is given back at first.
fn gives_back(number: u32) -> bool {
    number % 3 == 1
}

async fn send_by_permit(sender: Sender<u32>, first: u32) {
    for number in first..first + MESSAGES {
        if gives_back(number) {
            drop(sender.reserve().await.unwrap());
        }
        sender.reserve().await.unwrap().send(number);
    }
}

fn send_by_owned_permit(mut sender: Sender<u32>, first: u32) {
    for number in first..first + MESSAGES {
        if gives_back(number) {
            sender = sender.reserve_owned().wait().unwrap().release();
        }
        sender = sender.reserve_owned().wait().unwrap().send(number);
    }
}

async fn receive_all(receiver: Receiver<u32>) -> Vec<u32> {
    let mut got = Vec::new();
    while let Ok(number) = receiver.recv().await {
        got.push(number);
    }
    got
}

#[test]
fn tasks_and_threads_send_by_permits_through_few_places() {
    for_each_shape(|shape| {
        for capacity in [1, 3] {
            let runtime = shape.runtime();
            let (sender, receiver) = mpmc::bounded(capacity);
            let mut tasks = Vec::new();
            let mut threads = Vec::new();
            for id in 0..SENDERS {
                tasks.push(runtime.spawn(send_by_permit(sender.clone(), 2 * id * MESSAGES)));
                let sender = sender.clone();
                threads.push(runtime.spawn_thread(move || send_by_owned_permit(sender, (2 * id + 1) * MESSAGES)));
            }
            drop(sender);
            let mut got = runtime.block_on(receive_all(receiver));
            got.sort_unstable();
            assert!(got.into_iter().eq(0..2 * SENDERS * MESSAGES));
            tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
    });
}

/// It is unwound: by a panic, by an abort, by the end of the runtime.
#[test]
fn who_ends_with_a_permit_gives_its_place_back() {
    for_each_shape(|shape| {
        let (sender, receiver) = mpmc::bounded(1);
        let runtime = shape.runtime();
        let holder = sender.clone();
        let panics = runtime.spawn_thread(move || {
            let _permit = holder.reserve().wait().unwrap();
            panic!("with a permit, for the test");
        });
        assert!(panics.join().map(|(): ()| ()).is_err());
        let holder = sender.clone();
        let (holds, held) = mpmc::bounded::<()>(1);
        let waits = runtime.spawn_thread(move || {
            let _permit = holder.reserve_owned().wait().unwrap();
            drop(holds);
            std::future::pending::<()>().wait();
        });
        assert!(held.recv_blocking().is_err());
        assert_eq!(sender.try_send(0), Err(TrySendError::Full(0)), "the place is taken");
        waits.abort();
        assert!(waits.join().map(|(): ()| ()).is_err());
        let holder = sender.clone();
        let (holds, held) = mpmc::bounded::<()>(1);
        drop(runtime.spawn(async move {
            let _permit = holder.reserve().await.unwrap();
            drop(holds);
            std::future::pending::<()>().await;
        }));
        assert!(held.recv_blocking().is_err());
        assert!(sender.try_reserve().unwrap_err().is_full());
        drop(runtime);
        sender.try_send(1).unwrap();
        assert_eq!(receiver.try_recv(), Ok(1));
    });
}

/// Counts what it is sent, and sends itself a last message for each that came from outside; it ends with the others.
async fn actor(inbox: Receiver<bool>, own: WeakSender<bool>) -> (u32, u32) {
    let (mut from_others, mut from_self) = (0, 0);
    while let Ok(is_own) = inbox.recv().await {
        if is_own {
            from_self += 1;
            continue;
        }
        from_others += 1;
        if let Some(sender) = own.upgrade() {
            sender.try_send(true).unwrap();
        }
    }
    (from_others, from_self)
}

#[test]
fn a_task_with_a_weak_sender_to_itself_ends_with_the_others() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let (sender, inbox) = mpmc::unbounded();
        let task = runtime.spawn(actor(inbox, sender.downgrade()));
        let threads: Vec<_> = (0..SENDERS)
            .map(|_| {
                let sender = sender.clone();
                runtime.spawn_thread(move || {
                    for _ in 0..MESSAGES {
                        sender.send(false).wait().unwrap();
                        thread::yield_now();
                    }
                })
            })
            .collect();
        drop(sender);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let (from_others, from_self) = runtime.block_on(task).unwrap();
        assert_eq!(from_others, SENDERS * MESSAGES);
        assert!(from_self <= from_others, "{from_self}");
    });
}

#[test]
fn a_message_that_is_not_taken_in_time_comes_back() {
    let hour = Duration::from_secs(3600);
    let runtime = Runtime::builder().start_paused(true).build().unwrap();
    let (sender, receiver) = mpmc::bounded(1);
    let handle = runtime.handle().clone();
    runtime.block_on(async move {
        assert_eq!(sender.send_timeout(1, Duration::ZERO).await, Ok(()), "there is room");
        assert_eq!(sender.send_timeout(2, hour).await, Err(SendTimeoutError::Timeout(2)));
        let (other, late) = (sender.clone(), receiver.clone());
        let waits = handle.spawn_thread(move || other.send_timeout(3, hour).wait());
        let takes = handle.spawn(async move {
            quadrille::time::sleep(hour / 2).await;
            late.recv().await
        });
        assert_eq!(takes.await.unwrap(), Ok(1));
        assert_eq!(waits.await.unwrap(), Ok(()));
        let mut waits = std::pin::pin!(sender.send_timeout(4, hour));
        assert!(futures_lite::future::poll_once(waits.as_mut()).await.is_none());
        receiver.close();
        assert_eq!(waits.await, Err(SendTimeoutError::Closed(4)));
        assert_eq!(receiver.recv().await, Ok(3));
        assert!(receiver.recv().await.is_err());
    });
}
