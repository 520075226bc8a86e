//! `Condvar`, `Barrier` and `mpsc` of threads: among threads, tasks and ordinary threads; futures that are dropped
//! while they wait; and the end of a runtime with threads that wait for, or hold, each of them.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use quadrille::thread::sync::mpsc::{self, RecvTimeoutError, TryRecvError, TrySendError};
use quadrille::thread::sync::{Barrier, Condvar, Mutex, RwLock};
use quadrille::{Wait as _, thread};

use crate::count::Count;
use crate::gate::Gate;
use crate::shape::{Shape, for_each_shape_if};
use crate::wait::eventually;

const MESSAGES: usize = 300;

const LONG: Duration = Duration::from_secs(1000);

/// Polls with a waker that counts.
fn poll<F: Future>(future: Pin<&mut F>, wakes: &Count) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&wakes.waker()))
}

/// A bounded queue in the textbook's way.
#[derive(Default)]
struct Queue {
    messages: Mutex<VecDeque<usize>>,
    changed: Condvar,
}

impl Queue {
    const ROOM: usize = 3;

    fn put(&self, message: usize) {
        let messages = self.messages.lock().unwrap();
        let mut messages = self.changed.wait_while(messages, |m| m.len() == Self::ROOM).unwrap();
        messages.push_back(message);
        self.changed.notify_all();
    }

    fn take(&self) -> usize {
        let mut messages = self.messages.lock().unwrap();
        loop {
            if let Some(message) = messages.pop_front() {
                self.changed.notify_all();
                return message;
            }
            messages = self.changed.wait_timeout(messages, LONG).unwrap().0;
        }
    }

    async fn take_async(&self) -> usize {
        let messages = self.messages.lock_async().await.unwrap();
        let mut messages = self.changed.wait_while_async(messages, |m| m.is_empty()).await.unwrap();
        self.changed.notify_all();
        messages.pop_front().unwrap()
    }
}

#[test]
fn a_condition_is_met_by_all_kinds() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let (runtime, queue) = (shape.runtime(), Arc::new(Queue::default()));
            let puts = |queue: &Arc<Queue>| {
                let queue = Arc::clone(queue);
                move || (0..MESSAGES).for_each(|message| queue.put(message))
            };
            let takes = |queue: &Arc<Queue>| {
                let queue = Arc::clone(queue);
                move || (0..MESSAGES).map(|_| queue.take()).sum::<usize>()
            };
            let ordinary = (std::thread::spawn(puts(&queue)), std::thread::spawn(takes(&queue)));
            let threads = [(); 2].map(|()| runtime.spawn_thread(puts(&queue)));
            let taker = runtime.spawn_thread(takes(&queue));
            let task = runtime.spawn(async move {
                let mut sum = 0;
                for _ in 0..MESSAGES {
                    sum += queue.take_async().await;
                }
                sum
            });
            ordinary.0.join().unwrap();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            let sum = ordinary.1.join().unwrap() + taker.join().unwrap() + runtime.block_on(task).unwrap();
            assert_eq!(sum, 3 * MESSAGES * (MESSAGES - 1) / 2);
        },
    );
}

/// Two wait; the first is dropped: while it waits, when it was notified, while it locks again.
#[test]
fn a_dropped_waiter_loses_no_notification() {
    for (notified, locks) in [(false, false), (true, false), (true, true)] {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        let (first_wakes, second_wakes) = (Count::default(), Count::default());
        let mut first = Box::pin(condvar.wait_async(mutex.lock().unwrap()));
        assert!(poll(first.as_mut(), &first_wakes).is_pending());
        let mut second = pin!(condvar.wait_async(mutex.lock().expect("the first has unlocked")));
        assert!(poll(second.as_mut(), &second_wakes).is_pending());
        if notified {
            condvar.notify_one();
            assert_eq!((first_wakes.get(), second_wakes.get()), (1, 0));
        }
        let holder = mutex.lock().unwrap();
        if locks {
            assert!(poll(first.as_mut(), &first_wakes).is_pending());
        }
        drop(first);
        drop(holder);
        if !notified {
            condvar.notify_one();
        }
        assert_eq!(second_wakes.get(), 1, "notified: {notified}, locks: {locks}");
        assert!(poll(second, &second_wakes).is_ready());
        assert!(mutex.try_lock().is_ok());
    }
}

#[test]
fn one_or_all_are_notified() {
    let (mutex, condvar, wakes) = (Mutex::new(()), Condvar::new(), Count::default());
    let mut only = Box::pin(condvar.wait_async(mutex.lock().unwrap()));
    condvar.notify_all();
    assert_eq!(wakes.get(), 0, "nobody waits before the first poll");
    assert!(poll(only.as_mut(), &wakes).is_pending());
    condvar.notify_one();
    condvar.notify_one();
    assert_eq!(wakes.get(), 1);
    assert!(poll(only.as_mut(), &wakes).is_ready());
    let mut waits: Vec<_> = Vec::new();
    for _ in 0..100 {
        let mut wait = Box::pin(condvar.wait_async(mutex.lock().unwrap()));
        assert!(poll(wait.as_mut(), &wakes).is_pending());
        waits.push(wait);
    }
    condvar.notify_all();
    assert_eq!(wakes.get(), 101);
    for wait in &mut waits {
        assert!(poll(wait.as_mut(), &wakes).is_ready());
    }
}

#[test]
fn a_wait_ends_in_time() {
    let runtime = Shape::flat(2).runtime();
    let both = || {
        let (mutex, condvar) = (Mutex::new(0), Condvar::new());
        let (mut guard, outcome) = condvar
            .wait_timeout(mutex.lock().unwrap(), Duration::from_millis(1))
            .unwrap();
        assert!(outcome.timed_out());
        *guard += 1;
        let (mut guard, outcome) = condvar
            .wait_timeout_while(guard, Duration::from_millis(1), |n| *n < 2)
            .unwrap();
        assert!(outcome.timed_out());
        *guard += 1;
        let (guard, outcome) = condvar.wait_timeout_while(guard, LONG, |n| *n < 2).unwrap();
        assert!(!outcome.timed_out());
        drop(guard);
        let (_sender, receiver) = mpsc::channel::<()>();
        assert_eq!(
            receiver.recv_timeout(Duration::from_millis(1)),
            Err(RecvTimeoutError::Timeout)
        );
    };
    both();
    runtime.spawn_thread(both).join().unwrap();
    runtime.block_on(async {
        let (mutex, condvar) = (Mutex::new(0), Condvar::new());
        let guard = mutex.lock_async().await.unwrap();
        let (_guard, outcome) = condvar
            .wait_timeout_async(guard, Duration::from_millis(1))
            .await
            .unwrap();
        assert!(outcome.timed_out() && mutex.try_lock().is_err());
    });
}

#[test]
fn of_those_who_meet_one_leads() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            const ROUNDS: usize = 50;
            let (runtime, leaders) = (shape.runtime(), Count::default());
            let barrier = Arc::new(Barrier::new(9));
            let meets = || {
                let (barrier, leaders) = (Arc::clone(&barrier), leaders.clone());
                move || {
                    for round in 0..ROUNDS {
                        if barrier.wait().is_leader() {
                            leaders.add();
                        }
                        assert!((round..=round + 2).contains(&leaders.get()));
                    }
                }
            };
            let ordinary = std::thread::spawn(meets());
            let threads = [(); 4].map(|()| runtime.spawn_thread(meets()));
            let tasks = [(); 4].map(|()| {
                let (barrier, leaders) = (Arc::clone(&barrier), leaders.clone());
                runtime.spawn(async move {
                    for _ in 0..ROUNDS {
                        if barrier.wait_async().await.is_leader() {
                            leaders.add();
                        }
                    }
                })
            });
            ordinary.join().unwrap();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
            assert_eq!(leaders.get(), ROUNDS);
        },
    );
}

#[test]
fn who_leaves_a_meeting_has_not_come() {
    let (barrier, wakes) = (Barrier::new(2), Count::default());
    let mut first = Box::pin(barrier.wait_async());
    assert!(poll(first.as_mut(), &wakes).is_pending());
    drop(first);
    let mut second = Box::pin(barrier.wait_async());
    assert!(poll(second.as_mut(), &wakes).is_pending());
    assert!(barrier.wait().is_leader());
    // All have come; who goes now has no duty left, and the next meeting begins from zero.
    drop(second);
    let mut third = pin!(barrier.wait_async());
    assert!(poll(third.as_mut(), &wakes).is_pending());
    assert!(barrier.wait().is_leader());
    assert!(matches!(poll(third, &wakes), Poll::Ready(result) if !result.is_leader()));
    assert!(Barrier::new(0).wait().is_leader());
}

#[test]
fn messages_come_from_all_kinds() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let (sender, receiver) = mpsc::sync_channel(2);
            let sends = || {
                let sender = sender.clone();
                move || (0..MESSAGES).for_each(|message| sender.send(message).unwrap())
            };
            std::thread::spawn(sends());
            let threads = [(); 3].map(|()| runtime.spawn_thread(sends()));
            let tasked = sender.clone();
            let task = runtime.spawn(async move {
                for message in 0..MESSAGES {
                    tasked.send_async(message).await.unwrap();
                }
            });
            drop(sender);
            let receives = runtime.spawn_thread(move || receiver.into_iter().sum::<usize>());
            assert_eq!(receives.join().unwrap(), 5 * MESSAGES * (MESSAGES - 1) / 2);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            runtime.block_on(task).unwrap();
        },
    );
}

#[test]
fn a_channel_says_when_a_side_is_gone() {
    let (sender, receiver) = mpsc::sync_channel(1);
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    sender.send(1).unwrap();
    assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1]);
    let other = sender.clone();
    sender.send(3).unwrap();
    drop((sender, other));
    assert_eq!(receiver.recv_timeout(LONG), Ok(3));
    assert_eq!(receiver.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
    assert!(receiver.recv().is_err());
    let (sender, receiver) = mpsc::channel();
    drop(receiver);
    assert_eq!(sender.send(4).unwrap_err().0, 4);
    let (sender, receiver) = mpsc::sync_channel(1);
    sender.send(5).unwrap();
    let waits = std::thread::spawn(move || sender.send(6));
    drop(receiver);
    assert_eq!(waits.join().unwrap().unwrap_err().0, 6);
}

/// What a thread does when its runtime shuts down.
type Stuck = fn(&Stage);

/// What the threads of the shutdown meet at.
struct Stage {
    held: Mutex<()>,
    read: RwLock<()>,
    free: Mutex<()>,
    condvar: Condvar,
    barrier: Barrier,
    full: mpsc::SyncSender<()>,
    receiver: Mutex<mpsc::Receiver<()>>,
    empty: Mutex<mpsc::Receiver<()>>,
    gate: Gate,
}

/// Each waits for something else, or holds something while it waits.
const STUCK: [Stuck; 9] = [
    |stage| drop(stage.held.lock()),
    |stage| drop(stage.read.write()),
    |stage| {
        let _reader = stage.read.read();
        stage.gate.pass().wait();
    },
    |stage| drop(stage.condvar.wait(stage.free.lock().unwrap_or_else(|e| e.into_inner()))),
    |stage| {
        let guard = stage.free.lock().unwrap_or_else(|e| e.into_inner());
        drop(stage.condvar.wait_timeout(guard, LONG));
    },
    |stage| assert!(!stage.barrier.wait().is_leader()),
    |stage| stage.full.send(()).unwrap(),
    |stage| stage.empty.lock().unwrap_or_else(|e| e.into_inner()).recv().unwrap(),
    |stage| {
        let _guard = stage.free.lock();
        thread::yield_now();
        stage.gate.pass().wait();
    },
];

#[test]
fn threads_that_wait_or_hold_are_unwound() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let (full, receiver) = mpsc::sync_channel(1);
            let (_sender, empty) = mpsc::channel();
            full.send(()).unwrap();
            let stage = Arc::new(Stage {
                held: Mutex::new(()),
                read: RwLock::new(()),
                free: Mutex::new(()),
                condvar: Condvar::new(),
                barrier: Barrier::new(1000),
                full,
                receiver: Mutex::new(receiver),
                empty: Mutex::new(empty),
                gate: Gate::default(),
            });
            let held = stage.held.lock().unwrap();
            let read = stage.read.read().unwrap();
            let (begun, dropped) = (Count::default(), Count::default());
            let threads: Vec<_> = (0..20 * STUCK.len())
                .map(|index| {
                    let (stage, begun, token) = (Arc::clone(&stage), begun.clone(), dropped.token());
                    runtime.spawn_thread(move || {
                        let _token = token;
                        begun.add();
                        STUCK[index % STUCK.len()](&stage);
                    })
                })
                .collect();
            eventually("all have begun", || begun.get() == threads.len());
            drop(runtime);
            assert_eq!(dropped.get(), threads.len());
            threads.into_iter().for_each(|thread| assert!(thread.join().is_err()));
            drop((held, read));
            // Whoever held something was unwound with it; nobody waits or holds any more.
            assert!(!stage.held.is_poisoned());
            assert!(stage.held.try_lock().is_ok());
            assert!(stage.read.try_write().is_ok());
            assert!(!matches!(
                stage.free.try_lock(),
                Err(std::sync::TryLockError::WouldBlock)
            ));
            stage.condvar.notify_all();
            assert!(stage.receiver.lock().unwrap().try_recv().is_ok());
        },
    );
}
