//! `Mutex` and `RwLock` of threads: threads, tasks and ordinary threads at one lock; who is next; what a panic leaves
//! behind.

use std::future::Future;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::TryLockError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_lite::future::poll_once;
use quadrille::thread::sync::{Barrier, Condvar, Mutex, MutexGuard, RwLock, RwLockWriteGuard, mpsc};
use quadrille::{task, thread};

use crate::count::{Count, OnDrop};
use crate::gate::Gate;
use crate::shape::{Shape, for_each_shape_if};
use crate::wait::eventually;

const ROUNDS: usize = 100;

/// Polls with a waker that counts.
fn poll<F: Future>(future: Pin<&mut F>, wakes: &Count) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&wakes.waker()))
}

/// Two ordinary threads run `plain`, six user-level ones `threaded`, six tasks what `tasked` makes, all at once.
fn at_once<F>(
    shape: &Shape,
    plain: impl Fn() + Clone + Send + 'static,
    threaded: impl Fn() + Clone + Send + 'static,
    tasked: impl Fn() -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let runtime = shape.runtime();
    let ordinary: Vec<_> = (0..2).map(|_| std::thread::spawn(plain.clone())).collect();
    let threads: Vec<_> = (0..6).map(|_| runtime.spawn_thread(threaded.clone())).collect();
    let tasks: Vec<_> = (0..6).map(|_| runtime.spawn(tasked())).collect();
    ordinary.into_iter().for_each(|thread| thread.join().unwrap());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
}

#[test]
fn of_a_mutex_there_is_one_holder() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let count = Arc::new(Mutex::new((false, 0)));
            fn enter(mut guard: MutexGuard<'_, (bool, usize)>) -> MutexGuard<'_, (bool, usize)> {
                assert!(!guard.0, "nobody else is inside");
                guard.0 = true;
                guard
            }
            fn leave(mut guard: MutexGuard<'_, (bool, usize)>) {
                *guard = (false, guard.1 + 1);
            }
            let (plain, threaded, tasked) = (Arc::clone(&count), Arc::clone(&count), Arc::clone(&count));
            at_once(
                shape,
                move || {
                    for _ in 0..ROUNDS {
                        let guard = enter(plain.lock().unwrap());
                        std::thread::yield_now();
                        leave(guard);
                    }
                },
                move || {
                    for round in 0..ROUNDS {
                        let guard = enter(threaded.lock().unwrap());
                        if round % 3 == 0 {
                            thread::yield_now();
                        }
                        leave(guard);
                    }
                },
                || {
                    let tasked = Arc::clone(&tasked);
                    async move {
                        for round in 0..ROUNDS {
                            let guard = enter(tasked.lock_async().await.unwrap());
                            if round % 3 == 0 {
                                task::yield_now().await;
                            }
                            leave(guard);
                        }
                    }
                },
            );
            assert_eq!(*count.lock().unwrap(), (false, 14 * ROUNDS));
        },
    );
}

#[test]
fn of_a_rwlock_there_are_readers_or_one_writer() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let lock = Arc::new(RwLock::new((0, 0)));
            let readers = Arc::new(AtomicUsize::new(0));
            let threaded = {
                let (lock, readers) = (Arc::clone(&lock), Arc::clone(&readers));
                move || {
                    for round in 0..ROUNDS {
                        if round % 4 == 0 {
                            let mut guard = lock.write().unwrap();
                            assert_eq!(readers.load(Ordering::SeqCst), 0);
                            guard.0 += 1;
                            thread::yield_now();
                            guard.1 += 1;
                        } else {
                            let guard = lock.read().unwrap();
                            readers.fetch_add(1, Ordering::SeqCst);
                            thread::yield_now();
                            assert_eq!(guard.0, guard.1);
                            readers.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                }
            };
            let tasked = || {
                let (lock, readers) = (Arc::clone(&lock), Arc::clone(&readers));
                async move {
                    for round in 0..ROUNDS {
                        if round % 4 == 0 {
                            let mut guard = lock.write_async().await.unwrap();
                            assert_eq!(readers.load(Ordering::SeqCst), 0);
                            guard.0 += 1;
                            task::yield_now().await;
                            guard.1 += 1;
                        } else {
                            let guard = lock.read_async().await.unwrap();
                            readers.fetch_add(1, Ordering::SeqCst);
                            assert_eq!(guard.0, guard.1);
                            readers.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                }
            };
            at_once(shape, threaded.clone(), threaded, tasked);
            assert_eq!(*lock.read().unwrap(), (14 * ROUNDS / 4, 14 * ROUNDS / 4));
        },
    );
}

/// M3, with exact numbers: four times somebody else takes the lock although a waiter was told.
#[test]
fn who_was_passed_four_times_is_next() {
    let (mutex, wakes) = (Mutex::new(()), Count::default());
    let mut holder = mutex.lock().unwrap();
    let mut waits = pin!(mutex.lock_async());
    assert!(poll(waits.as_mut(), &wakes).is_pending());
    for passed in 0..4 {
        drop(holder);
        assert_eq!(wakes.get(), passed + 1, "told each time");
        holder = mutex.try_lock().expect("whoever runs may take it");
        assert!(poll(waits.as_mut(), &wakes).is_pending());
    }
    drop(holder);
    assert!(matches!(mutex.try_lock(), Err(TryLockError::WouldBlock)), "reserved");
    let mut late = pin!(mutex.lock_async());
    assert!(poll(late.as_mut(), &Count::default()).is_pending());
    assert!(poll(waits, &wakes).is_ready());
    assert!(poll(late, &Count::default()).is_ready(), "the guard is gone");
}

/// Two wait; the first gives up: while it is in the list, after it was told, after it has reserved the lock.
#[test]
fn who_gives_up_does_not_take_the_turn_along() {
    for passed in [None, Some(0), Some(1), Some(4)] {
        let mutex = Mutex::new(());
        let (first_wakes, second_wakes) = (Count::default(), Count::default());
        let mut holder = mutex.lock().unwrap();
        let mut first = Box::pin(mutex.lock_async());
        let mut second = pin!(mutex.lock_async());
        assert!(poll(first.as_mut(), &first_wakes).is_pending());
        assert!(poll(second.as_mut(), &second_wakes).is_pending());
        for _ in 0..passed.unwrap_or(0) {
            drop(holder);
            holder = mutex.try_lock().unwrap();
            assert!(poll(first.as_mut(), &first_wakes).is_pending());
        }
        if passed.is_some() {
            drop(holder);
            assert_eq!(second_wakes.get(), 0);
            drop(first);
        } else {
            drop(first);
            drop(holder);
        }
        assert_eq!(second_wakes.get(), 1, "after {passed:?}");
        assert!(poll(second, &second_wakes).is_ready());
        assert!(mutex.try_lock().is_ok(), "nothing is left behind");
    }
}

#[test]
fn readers_are_told_one_by_the_other_and_pass_no_writer() {
    let lock = RwLock::new(());
    let wakes: [Count; 4] = Default::default();
    let holder = lock.write().unwrap();
    let (mut one, mut two) = (pin!(lock.read_async()), pin!(lock.read_async()));
    let (mut writer, mut three) = (Box::pin(lock.write_async()), pin!(lock.read_async()));
    assert!(poll(one.as_mut(), &wakes[0]).is_pending());
    assert!(poll(two.as_mut(), &wakes[1]).is_pending());
    assert!(poll(writer.as_mut(), &wakes[2]).is_pending());
    assert!(poll(three.as_mut(), &wakes[3]).is_pending());
    let told = || wakes.each_ref().map(Count::get);
    drop(holder);
    assert_eq!(told(), [1, 0, 0, 0]);
    let Poll::Ready(first) = poll(one, &wakes[0]) else {
        panic!("it is free")
    };
    assert_eq!(told(), [1, 1, 0, 0]);
    let Poll::Ready(second) = poll(two, &wakes[1]) else {
        panic!("readers share")
    };
    assert_eq!(told(), [1, 1, 0, 0], "the writer is next");
    assert!(lock.try_read().is_err(), "a writer waits");
    drop(first);
    assert_eq!(told(), [1, 1, 0, 0]);
    drop(second);
    assert_eq!(told(), [1, 1, 1, 0]);
    drop(writer);
    assert_eq!(told(), [1, 1, 1, 1]);
    assert!(poll(three, &wakes[3]).is_ready());
    assert!(lock.try_write().is_ok());
}

#[test]
fn a_writer_that_goes_on_as_a_reader_tells_readers_only() {
    let lock = RwLock::new(1);
    let (reader_wakes, writer_wakes) = (Count::default(), Count::default());
    let mut holder = lock.write().unwrap();
    let (mut reader, mut writer) = (pin!(lock.read_async()), pin!(lock.write_async()));
    assert!(poll(reader.as_mut(), &reader_wakes).is_pending());
    assert!(poll(writer.as_mut(), &writer_wakes).is_pending());
    *holder += 1;
    let holder = RwLockWriteGuard::downgrade(holder);
    assert_eq!((reader_wakes.get(), writer_wakes.get()), (1, 0));
    assert!(matches!(poll(reader, &reader_wakes), Poll::Ready(Ok(guard)) if *guard == 2));
    assert!(poll(writer.as_mut(), &writer_wakes).is_pending());
    drop(holder);
    assert_eq!(writer_wakes.get(), 1);
    assert!(poll(writer, &writer_wakes).is_ready());
}

/// Half of the attempts are given up after one poll; nobody is forgotten, whatever their state was.
#[test]
fn among_the_impatient_all_get_their_turn() {
    static TOTAL: Mutex<usize> = Mutex::new(0);

    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let (runtime, lock) = (shape.runtime(), Arc::new(RwLock::new(0)));
            *TOTAL.lock().unwrap() = 0;
            let tasks: Vec<_> = (0..12)
                .map(|index| {
                    let lock = Arc::clone(&lock);
                    runtime.spawn(async move {
                        for round in 0..ROUNDS {
                            let reads = (index + round) % 3 == 0;
                            // Dropped, whether it was queued or had the lock.
                            if reads {
                                drop(poll_once(lock.read_async()).await);
                            } else {
                                drop(poll_once(TOTAL.lock_async()).await);
                                drop(poll_once(lock.write_async()).await);
                            }
                            *TOTAL.lock_async().await.unwrap() += 1;
                            if reads {
                                let guard = lock.read_async().await.unwrap();
                                task::yield_now().await;
                                assert!(*guard <= 12 * ROUNDS);
                            } else {
                                *lock.write_async().await.unwrap() += 1;
                            }
                        }
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
            assert_eq!(*TOTAL.lock().unwrap(), 12 * ROUNDS);
            assert_eq!(*lock.read().unwrap(), 12 * ROUNDS * 2 / 3);
        },
    );
}

/// In each kind of code: a panic with a guard poisons, but for a reader's; the data is there for who asks.
#[test]
fn a_panic_poisons() {
    let runtime = Shape::flat(2).runtime();
    let locks = Arc::new((Mutex::new(1), RwLock::new(1)));
    let other = Arc::clone(&locks);
    let panics: [Box<dyn Fn()>; 3] = [
        Box::new(|| {
            let locks = Arc::clone(&other);
            let holds = move || {
                let _guards = (locks.0.lock(), locks.1.write());
                panic!("on an ordinary thread");
            };
            assert!(std::thread::spawn(holds).join().is_err());
        }),
        Box::new(|| {
            let locks = Arc::clone(&other);
            let holds = move || {
                let _guards = (locks.0.lock(), locks.1.write());
                thread::yield_now();
                panic!("on a thread");
            };
            assert!(runtime.spawn_thread(holds).join().is_err());
        }),
        Box::new(|| {
            let locks = Arc::clone(&other);
            let holds = async move {
                let _guards = (locks.0.lock_async().await, locks.1.write_async().await);
                task::yield_now().await;
                panic!("in a task");
            };
            assert!(runtime.block_on(runtime.spawn(holds)).is_err());
        }),
    ];
    for panics in panics {
        panics();
        let (mutex, rwlock) = (&locks.0, &locks.1);
        assert!(mutex.is_poisoned() && rwlock.is_poisoned());
        *mutex.lock().unwrap_err().into_inner() += 1;
        assert!(matches!(mutex.try_lock(), Err(TryLockError::Poisoned(_))));
        assert!(rwlock.read().is_err() && rwlock.write().is_err());
        assert!(runtime.block_on(mutex.lock_async()).is_err());
        mutex.clear_poison();
        rwlock.clear_poison();
        assert!(mutex.lock().is_ok() && rwlock.read().is_ok());
    }
    drop(other);
    let mut locks = Arc::into_inner(locks).expect("all closures are gone");
    assert_eq!(locks.0.get_mut().copied().unwrap(), 4);
    assert_eq!(locks.1.into_inner().unwrap(), 1);
}

#[test]
fn what_does_not_poison() {
    let runtime = Shape::flat(2).runtime();
    let (mutex, rwlock) = (Arc::new(Mutex::new(())), Arc::new(RwLock::new(())));
    // A reader that panics.
    let read = Arc::clone(&rwlock);
    let reader = runtime.spawn_thread(move || {
        let _guard = read.read();
        panic!("a reader");
    });
    assert!(reader.join().is_err());
    // A guard that is taken and dropped while the thread panics already.
    let late = Arc::clone(&mutex);
    let destructor = runtime.spawn_thread(move || {
        let _locks = OnDrop::new(move || drop(late.lock()));
        panic!("before it locks");
    });
    assert!(destructor.join().is_err());
    // A task that is aborted while it holds the lock.
    let (held, gate) = (Arc::clone(&mutex), Gate::default());
    let waits = gate.pass();
    let task = runtime.spawn(async move {
        let _guard = held.lock_async().await;
        waits.await;
    });
    eventually("the task waits", || gate.waiting() == 1);
    assert!(mutex.try_lock().is_err());
    task.abort();
    assert!(runtime.block_on(task).is_err());
    assert!(!mutex.is_poisoned() && !rwlock.is_poisoned());
    assert!(mutex.lock().is_ok() && rwlock.write().is_ok());
}

/// In a task, whether or not there is anything to wait for.
#[test]
fn what_would_block_a_worker_is_refused() {
    let runtime = Shape::flat(1).runtime();
    let refused = runtime.spawn(async {
        let (mutex, rwlock, condvar, barrier) = (Mutex::new(()), RwLock::new(()), Condvar::new(), Barrier::new(1));
        let (sender, receiver) = mpsc::sync_channel(1);
        let guard = mutex.try_lock().unwrap();
        let calls: [Box<dyn FnOnce()>; 8] = [
            Box::new(|| drop(rwlock.read())),
            Box::new(|| drop(rwlock.write())),
            Box::new(|| drop(condvar.wait(guard))),
            Box::new(|| drop(mutex.lock())),
            Box::new(|| assert!(barrier.wait().is_leader())),
            Box::new(|| sender.send(1).unwrap()),
            Box::new(|| assert_eq!(receiver.recv(), Ok(1))),
            Box::new(|| assert!(receiver.recv_timeout(std::time::Duration::ZERO).is_err())),
        ];
        let messages = calls.map(|call| {
            let payload = catch_unwind(AssertUnwindSafe(call)).expect_err("it panics");
            payload.downcast_ref::<&str>().copied().unwrap_or_default()
        });
        messages.map(|message| message.contains("inside a task use `.await`"))
    });
    assert_eq!(runtime.block_on(refused).unwrap(), [true; 8]);
}

/// As std's: nothing of theirs is half done after a panic.
#[test]
fn what_is_caught_may_have_used_conditions_barriers_and_channels() {
    fn is_unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}
    type Unsafe = &'static mut std::cell::Cell<u8>;
    is_unwind_safe::<(std::sync::Condvar, std::sync::Barrier)>();
    is_unwind_safe::<(std::sync::mpsc::Sender<Unsafe>, std::sync::mpsc::SyncSender<Unsafe>)>();
    is_unwind_safe::<std::sync::mpsc::Receiver<Unsafe>>();
    is_unwind_safe::<(Condvar, Barrier)>();
    is_unwind_safe::<(mpsc::Sender<Unsafe>, mpsc::SyncSender<Unsafe>)>();
    is_unwind_safe::<mpsc::Receiver<Unsafe>>();
}
