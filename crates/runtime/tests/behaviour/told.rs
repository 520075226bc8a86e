//! Whoever can go on was told: futures of all locks and channels are made, polled by one task or another, dropped, and
//! given what they wait for, in random order. In the end all who were woken are polled, until nobody is woken any more;
//! then nobody else may be ready.
//!
//! A script that fails prints its steps.

use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_lite::StreamExt as _;
use quadrille::sync::{
    Barrier, CancellationToken, Mutex, Notify, OnceCell, RwLock, Semaphore, broadcast, mpmc, oneshot, watch,
};
use quadrille::task::TaskTracker;
use quadrille::thread::sync as blocking;

use crate::count::Count;
use crate::rng::Rng;

/// What a future has ended with: a guard or a permit, and whoever drops it gives it back.
type Held = Box<dyn Any>;
type Waits = Pin<Box<dyn Future<Output = Held>>>;

/// What scripts are about. It makes futures of some kinds, and has some ways to change without one.
struct World {
    kinds: usize,
    make: Box<dyn Fn(usize) -> Waits>,
    changes: usize,
    change: Box<dyn Fn(usize)>,
}

impl World {
    fn new(kinds: usize, make: impl Fn(usize) -> Waits + 'static) -> Self {
        Self {
            kinds,
            make: Box::new(make),
            changes: 0,
            change: Box::new(|_| ()),
        }
    }

    fn changing(self, changes: usize, change: impl Fn(usize) + 'static) -> Self {
        Self {
            changes,
            change: Box::new(change),
            ..self
        }
    }
}

/// What `future` ends with is kept.
fn keeping<T: 'static>(future: impl Future<Output = T> + 'static) -> Waits {
    Box::pin(async move { Box::new(future.await) as Held })
}

/// What `future` ends with is dropped at once.
fn dropping<T>(future: impl Future<Output = T> + 'static) -> Waits {
    keeping(async move { drop(future.await) })
}

/// A future with the two tasks that poll it.
struct Asked {
    kind: usize,
    future: Waits,
    tasks: [Count; 2],
    /// Which of them has polled it last, and how often that one had been woken by then.
    last: Option<(usize, usize)>,
}

impl Asked {
    fn new(kind: usize, future: Waits) -> Self {
        Self {
            kind,
            future,
            tasks: Default::default(),
            last: None,
        }
    }

    fn poll(&mut self, by: usize) -> Poll<Held> {
        let task = &self.tasks[by];
        self.last = Some((by, task.get()));
        self.future.as_mut().poll(&mut Context::from_waker(&task.waker()))
    }

    /// Whether its task polls it: for the first time, or since it was woken.
    fn is_due(&self) -> bool {
        self.last.is_none_or(|(by, wakes)| self.tasks[by].get() > wakes)
    }

    fn poll_again(&mut self) -> Poll<Held> {
        self.poll(self.last.map_or(0, |(by, _)| by))
    }
}

/// One script, on a fresh world.
#[derive(Default)]
struct Script {
    asked: Vec<Asked>,
    held: Vec<Held>,
    steps: Vec<String>,
}

impl Script {
    fn ended(&mut self, at: usize, poll: Poll<Held>) {
        if let Poll::Ready(held) = poll {
            self.steps.push(format!("{at} is ready"));
            self.held.push(held);
            self.asked.swap_remove(at);
        }
    }

    fn step(&mut self, world: &World, rng: &mut Rng) {
        match rng.index(10) {
            0..=2 if self.asked.len() < 8 => {
                let kind = rng.index(world.kinds);
                self.steps.push(format!("kind {kind} is made"));
                self.asked.push(Asked::new(kind, (world.make)(kind)));
            }
            3..=5 if !self.asked.is_empty() => {
                let (at, by) = (rng.index(self.asked.len()), rng.index(2));
                self.steps.push(format!("{at} is polled by task {by}"));
                let poll = self.asked[at].poll(by);
                self.ended(at, poll);
            }
            6 if !self.asked.is_empty() => {
                let at = rng.index(self.asked.len());
                self.steps.push(format!("{at} is dropped"));
                self.asked.swap_remove(at);
            }
            7..=8 if !self.held.is_empty() => {
                let at = rng.index(self.held.len());
                self.steps.push(format!("what was got as number {at} is given back"));
                self.held.swap_remove(at);
            }
            _ if world.changes > 0 => {
                let change = rng.index(world.changes);
                self.steps.push(format!("change {change}"));
                (world.change)(change);
            }
            _ => {}
        }
    }

    /// Polls those who are due until nobody is, and then the others.
    fn end(mut self, rng: &mut Rng, case: &str) {
        self.steps.push("all who are woken are polled".to_owned());
        while let Some(at) = self.asked.iter().position(Asked::is_due) {
            let poll = self.asked[at].poll_again();
            self.ended(at, poll);
            if rng.index(2) == 0 {
                self.held.pop();
            }
        }
        for (at, asked) in self.asked.iter_mut().enumerate() {
            let (kind, steps) = (asked.kind, &self.steps);
            assert!(
                asked.poll_again().is_pending(),
                "{case}: {at}, of kind {kind}, could go on and was not told: {steps:#?}"
            );
        }
    }
}

fn check(name: &str, world: impl Fn() -> World) {
    for seed in 1..=2_000_u64 {
        let (mut rng, mut script, world) = (Rng::new(seed), Script::default(), world());
        for _ in 0..5 + rng.index(30) {
            script.step(&world, &mut rng);
        }
        script.end(&mut rng, &format!("{name}, seed {seed}"));
    }
}

#[test]
fn by_locks() {
    check("Mutex", || {
        let mutex = Arc::new(Mutex::new(()));
        World::new(1, move |_| keeping(mutex.clone().lock_owned()))
    });
    check("RwLock", || {
        let lock = Arc::new(RwLock::new(()));
        World::new(2, move |kind| match kind {
            0 => keeping(lock.clone().read_owned()),
            _ => keeping(lock.clone().write_owned()),
        })
    });
    check("Semaphore", || {
        let semaphore = Arc::new(Semaphore::new(2));
        let same = semaphore.clone();
        let acquire = move |kind| keeping(semaphore.clone().acquire_many_owned(u32::try_from(kind).unwrap()));
        World::new(5, acquire).changing(4, move |change| match change {
            0 => same.add_permits(1),
            1 => same.add_permits(2),
            2 => _ = same.forget_permits(2),
            _ => drop(same.try_acquire()),
        })
    });
}

/// Guards borrow, so each lock is left there: some bytes a script.
#[test]
fn by_locks_of_threads() {
    check("thread::sync::Mutex", || {
        let mutex: &'static blocking::Mutex<()> = Box::leak(Box::default());
        World::new(1, move |_| keeping(mutex.lock_async())).changing(1, move |_| drop(mutex.try_lock()))
    });
    check("thread::sync::RwLock", || {
        let lock: &'static blocking::RwLock<()> = Box::leak(Box::default());
        let ask = move |kind| match kind {
            0 => keeping(lock.read_async()),
            _ => keeping(lock.write_async()),
        };
        World::new(2, ask).changing(2, move |change| match change {
            0 => drop(lock.try_read()),
            _ => drop(lock.try_write().map(blocking::RwLockWriteGuard::downgrade)),
        })
    });
    check("thread::sync::Condvar", || {
        let pair: &'static (blocking::Mutex<()>, blocking::Condvar) = Box::leak(Box::default());
        let (mutex, condvar) = pair;
        let ask = move |kind| match kind {
            0 => keeping(mutex.lock_async()),
            _ => dropping(async { drop(condvar.wait_async(mutex.lock_async().await.unwrap()).await) }),
        };
        World::new(2, ask).changing(2, move |change| match change {
            0 => condvar.notify_one(),
            _ => condvar.notify_all(),
        })
    });
}

#[test]
fn by_channels() {
    for capacity in [None, Some(1), Some(2), Some(3)] {
        check(&format!("mpmc, {capacity:?}"), || {
            let (sender, receiver) = capacity.map_or_else(mpmc::unbounded, mpmc::bounded);
            let (same_sender, same_receiver) = (sender.clone(), receiver.clone());
            let ask = move |kind| {
                let (sender, mut receiver) = (sender.clone(), receiver.clone());
                match kind {
                    0 | 1 => dropping(async move { sender.send(()).await }),
                    2 => dropping(async move { receiver.recv().await }),
                    3 => dropping(async move { receiver.recv_many(&mut Vec::new(), 3).await }),
                    4 => dropping(async move { receiver.next().await }),
                    _ => keeping(sender.reserve_owned()),
                }
            };
            World::new(6, ask).changing(3, move |change| match change {
                0 => _ = same_sender.try_send(()),
                1 => _ = same_receiver.try_recv(),
                _ => drop(same_sender.try_reserve()),
            })
        });
    }
    for bound in 0..3 {
        check(&format!("sync_channel, {bound}"), || {
            let (sender, receiver) = blocking::mpsc::sync_channel(bound);
            let (same, receiver) = (sender.clone(), Rc::new(receiver));
            // `Receiver` is not `Sync`, and all is done by this thread.
            let same_receiver = receiver.clone();
            let ask = move |kind| {
                let (sender, receiver) = (sender.clone(), receiver.clone());
                match kind {
                    0 => dropping(async move { sender.send_async(()).await }),
                    _ => dropping(async move { receiver.recv_async().await }),
                }
            };
            World::new(2, ask).changing(2, move |change| match change {
                0 => _ = same.try_send(()),
                _ => _ = same_receiver.try_recv(),
            })
        });
    }
    check("oneshot", || {
        let senders = Rc::new(RefCell::new(VecDeque::new()));
        let receivers = Rc::new(RefCell::new(VecDeque::new()));
        let (same_senders, same_receivers) = (senders.clone(), receivers.clone());
        let ask = move |kind| {
            let (mut sender, receiver) = oneshot::channel();
            if kind == 0 {
                senders.borrow_mut().push_back(sender);
                return dropping(receiver);
            }
            receivers.borrow_mut().push_back(receiver);
            dropping(async move { sender.closed().await })
        };
        World::new(2, ask).changing(3, move |change| match change {
            0 => _ = same_senders.borrow_mut().pop_front().map(|sender| sender.send(())),
            1 => drop(same_senders.borrow_mut().pop_front()),
            _ => drop(same_receivers.borrow_mut().pop_front()),
        })
    });
}

#[test]
fn by_channels_to_all() {
    check("watch", || {
        let sender = Arc::new(watch::Sender::new(0));
        let same = sender.clone();
        let ask = move |kind| {
            let (sender, mut receiver) = (sender.clone(), sender.subscribe());
            match kind {
                0 => dropping(async move { receiver.changed().await }),
                1 => dropping(async move { drop(receiver.wait_for(|value| value % 5 == 4).await) }),
                2 => keeping(async move { receiver.changed().await.map(|()| receiver) }),
                _ => {
                    drop(receiver);
                    dropping(async move { sender.closed().await })
                }
            }
        };
        World::new(4, ask).changing(3, move |change| match change {
            0 => _ = same.send(4),
            1 => same.send_modify(|value| *value += 1),
            _ => _ = same.send_if_modified(|_| false),
        })
    });
    for capacity in [1, 3, 65] {
        check(&format!("broadcast, {capacity}"), || {
            // `None` once it is closed.
            let sender = Rc::new(RefCell::new(Some(broadcast::Sender::new(capacity))));
            let (same, spare) = (sender.clone(), broadcast::channel::<()>(1).1);
            let ask = move |kind| {
                let sender = sender.borrow();
                let receiver = || {
                    sender
                        .as_ref()
                        .map_or_else(|| spare.resubscribe(), broadcast::Sender::subscribe)
                };
                let mut receiver = receiver();
                match kind {
                    0 => dropping(async move { receiver.recv().await }),
                    1 => keeping(async move { receiver.recv().await.map(|()| receiver) }),
                    _ => dropping(async move { while receiver.recv().await != Err(broadcast::RecvError::Closed) {} }),
                }
            };
            World::new(3, ask).changing(8, move |change| match change {
                0 => drop(same.borrow_mut().take()),
                _ => _ = same.borrow().as_ref().map(|sender| sender.send(())),
            })
        });
    }
    check("the end of a broadcast", || {
        let sender = broadcast::Sender::<()>::new(2);
        let same = sender.clone();
        let ask = move |kind| {
            let sender = sender.clone();
            match kind {
                0 => dropping(async move { sender.closed().await }),
                // A receiver, until it is given back.
                _ => keeping(async move { sender.subscribe() }),
            }
        };
        World::new(2, ask).changing(2, move |change| match change {
            0 => drop(same.subscribe()),
            _ => _ = same.send(()),
        })
    });
}

#[test]
fn by_events() {
    check("Notify", || {
        let notify = Arc::new(Notify::new());
        let same = notify.clone();
        let ask = move |kind| {
            let notify = notify.clone();
            match kind {
                0 => dropping(notify.notified_owned()),
                1 => dropping(async move { notify.notified().await }),
                _ => {
                    let mut notified = Box::pin(notify.notified_owned());
                    notified.as_mut().enable();
                    dropping(notified)
                }
            }
        };
        World::new(3, ask).changing(3, move |change| match change {
            0 => same.notify_one(),
            1 => same.notify_last(),
            _ => same.notify_waiters(),
        })
    });
    check("CancellationToken", || {
        let root = CancellationToken::new();
        let (child, same) = (root.child_token(), root.clone());
        let same_child = child.clone();
        let ask = move |kind| match kind {
            0 => dropping(root.clone().cancelled_owned()),
            1 => dropping(child.child_token().cancelled_owned()),
            _ => dropping(child.clone().run_until_cancelled_owned(std::future::pending::<()>())),
        };
        World::new(3, ask).changing(8, move |change| match change {
            0 => same.cancel(),
            1 => same_child.cancel(),
            _ => drop(same.child_token()),
        })
    });
    check("TaskTracker", || {
        let tracker = TaskTracker::new();
        let same = tracker.clone();
        let ask = move |kind| {
            let tracker = tracker.clone();
            match kind {
                0 => dropping(async move { tracker.wait().await }),
                _ => keeping(std::future::ready(tracker.token())),
            }
        };
        World::new(2, ask).changing(2, move |change| match change {
            0 => _ = same.close(),
            _ => _ = same.reopen(),
        })
    });
    check("Barrier", || {
        let (barrier, other) = (Arc::new(Barrier::new(3)), Arc::new(blocking::Barrier::new(3)));
        World::new(2, move |kind| {
            let (barrier, other) = (barrier.clone(), other.clone());
            match kind {
                0 => dropping(async move { barrier.wait().await }),
                _ => dropping(async move { other.wait_async().await }),
            }
        })
    });
}

#[test]
fn by_a_value_that_is_made() {
    check("OnceCell", || {
        let (cell, made) = (Arc::new(OnceCell::new()), Arc::new(Notify::new()));
        let same = made.clone();
        let ask = move |kind| {
            let (cell, made) = (cell.clone(), made.clone());
            dropping(async move {
                let made = async || made.notified().await;
                match kind {
                    0 => _ = cell.get_or_init(made).await,
                    1 => {
                        let fails = async || {
                            made().await;
                            Err::<(), _>(())
                        };
                        _ = cell.get_or_try_init(fails).await;
                    }
                    2 => _ = cell.get_or_try_init(async || Err::<(), _>(())).await,
                    3 => _ = cell.wait().await,
                    _ => {
                        made().await;
                        _ = cell.set(()).await;
                    }
                }
            })
        };
        World::new(5, ask).changing(2, move |change| match change {
            0 => same.notify_one(),
            _ => same.notify_waiters(),
        })
    });
}
