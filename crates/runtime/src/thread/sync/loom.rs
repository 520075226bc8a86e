//! Every interleaving (up to a number of preemptions) of small uses of the locks; a lost wake-up shows as a deadlock.
//!
//! Under loom one wake-up in vain reserves the lock, so that every path is taken.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::{Condvar as Changed, Mutex as Word};
use loom::thread::spawn;

use super::raw::{Access, RawLock};
use super::{Barrier, Condvar, Mutex};
use crate::primitives::UnsafeCell;

/// Runs `f` in all interleavings with at most `preemptions_max` switches away from a thread that could go on.
fn check(preemptions_max: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions_max);
    builder.check(f);
}

/// Wakes the thread that waits. Not by loom's `unpark`, which also lets a thread go on that is blocked by a mutex, and
/// is forgotten then: here a thread may be told while it is in a section.
struct Parker {
    told: Word<bool>,
    changed: Changed,
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        *self.told.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

pub(in crate::thread) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let parker = Arc::new(Parker {
        told: Word::new(false),
        changed: Changed::new(),
    });
    let waker = Waker::from(Arc::clone(&parker));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let mut told = parker.told.lock().unwrap();
        while !*told {
            told = parker.changed.wait(told).unwrap();
        }
        *told = false;
    }
}

/// Polls `future` once and drops it. Whether it was ready.
fn poll_and_drop<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    block_on(poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    }))
}

/// A lock, and a number behind it: loom's cell fails the test if a writer is not alone, or does not see what was done
/// before.
struct Guarded {
    lock: RawLock,
    number: UnsafeCell<usize>,
}

impl Guarded {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            lock: RawLock::new(),
            number: UnsafeCell::new(0),
        })
    }

    fn add(&self) {
        block_on(self.lock.acquire(Access::Exclusive));
        self.add_locked();
    }

    fn add_locked(&self) {
        // SAFETY: the caller has the lock alone, which is what these tests are about.
        self.number.with_mut(|number| unsafe { *number += 1 });
        self.lock.release(Access::Exclusive);
    }

    fn read(&self) -> usize {
        block_on(self.lock.acquire(Access::Shared));
        // SAFETY: the lock is shared with readers only, which is what these tests are about.
        let number = self.number.with(|number| unsafe { *number });
        self.lock.release(Access::Shared);
        number
    }
}

/// M1 and M2, of exclusive holders.
#[test]
fn m_two_writers() {
    check(4, || {
        let guarded = Guarded::new();
        let other = Arc::clone(&guarded);
        let thread = spawn(move || other.add());
        guarded.add();
        thread.join().unwrap();
        assert_eq!(guarded.read(), 2);
    });
}

/// M2 and M3: one of three is told and comes too late.
#[test]
fn m_three_writers() {
    check(3, || {
        let guarded = Guarded::new();
        let threads = [Arc::clone(&guarded), Arc::clone(&guarded)].map(|other| spawn(move || other.add()));
        guarded.add();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(guarded.read(), 3);
    });
}

/// M1 and M2, of readers: one tells the next, the last tells the writer.
#[test]
fn m_readers_and_a_writer() {
    check(3, || {
        let guarded = Guarded::new();
        let (writer, reader) = (Arc::clone(&guarded), Arc::clone(&guarded));
        let threads = [spawn(move || writer.add()), spawn(move || assert!(reader.read() < 2))];
        assert!(guarded.read() < 2);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(guarded.read(), 1);
    });
}

/// M2: two readers wait behind a writer, and the first must tell the second while it reads.
#[test]
fn m_readers_tell_readers() {
    check(3, || {
        let (guarded, both_read) = (Guarded::new(), Arc::new(Barrier::new(2)));
        assert!(guarded.lock.try_acquire(Access::Exclusive));
        let threads = [(); 2].map(|()| {
            let (guarded, both_read) = (Arc::clone(&guarded), Arc::clone(&both_read));
            spawn(move || {
                block_on(guarded.lock.acquire(Access::Shared));
                block_on(both_read.wait_async());
                guarded.lock.release(Access::Shared);
            })
        });
        guarded.add_locked();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(guarded.read(), 1);
    });
}

/// M1 and M2: a writer goes on as a reader, and lets a reader in that waits; it sees what was written.
#[test]
fn m_writer_goes_on_as_a_reader() {
    check(3, || {
        let (guarded, both_read) = (Guarded::new(), Arc::new(Barrier::new(2)));
        assert!(guarded.lock.try_acquire(Access::Exclusive));
        let (other, both) = (Arc::clone(&guarded), Arc::clone(&both_read));
        let thread = spawn(move || {
            block_on(other.lock.acquire(Access::Shared));
            // SAFETY: the lock is shared with readers only. Before they meet, which would order it too.
            assert_eq!(other.number.with(|number| unsafe { *number }), 1);
            block_on(both.wait_async());
            other.lock.release(Access::Shared);
        });
        // SAFETY: the lock is held alone.
        guarded.number.with_mut(|number| unsafe { *number += 1 });
        guarded.lock.downgrade();
        block_on(both_read.wait_async());
        guarded.lock.release(Access::Shared);
        thread.join().unwrap();
        guarded.add();
    });
}

/// M2: a waiter that gives up when it was told tells the next.
#[test]
fn m_dropped_waiter_tells_the_next() {
    check(3, || {
        let guarded = Guarded::new();
        assert!(guarded.lock.try_acquire(Access::Exclusive));
        let (impatient, patient) = (Arc::clone(&guarded), Arc::clone(&guarded));
        let impatient = spawn(move || {
            if poll_and_drop(impatient.lock.acquire(Access::Exclusive)).is_some() {
                impatient.lock.release(Access::Exclusive);
            }
        });
        let patient = spawn(move || patient.add());
        guarded.add_locked();
        impatient.join().unwrap();
        patient.join().unwrap();
        assert_eq!(guarded.read(), 2);
    });
}

/// M3: a waiter that reserves the lock and gives up leaves it to others.
#[test]
fn m_dropped_reservation_ends() {
    check(3, || {
        let guarded = Guarded::new();
        assert!(guarded.lock.try_acquire(Access::Exclusive));
        let (impatient, rival) = (Arc::clone(&guarded), Arc::clone(&guarded));
        let impatient = spawn(move || {
            let mut polls = 0;
            let mut acquire = pin!(impatient.lock.acquire(Access::Exclusive));
            let taken = block_on(poll_fn(|cx| {
                polls += 1;
                match acquire.as_mut().poll(cx) {
                    Poll::Ready(()) => Poll::Ready(true),
                    Poll::Pending if polls == 2 => Poll::Ready(false),
                    Poll::Pending => Poll::Pending,
                }
            }));
            if taken {
                impatient.lock.release(Access::Exclusive);
            }
        });
        let rival = spawn(move || rival.add());
        guarded.add_locked();
        impatient.join().unwrap();
        rival.join().unwrap();
        guarded.add();
        assert_eq!(guarded.read(), 3);
    });
}

#[test]
fn v_no_lost_notification() {
    check(4, || {
        let pair = Arc::new((Mutex::new(false), Condvar::new()));
        let other = Arc::clone(&pair);
        let thread = spawn(move || {
            *block_on(other.0.lock_async()).unwrap() = true;
            other.1.notify_one();
        });
        block_on(async {
            let guard = pair.0.lock_async().await.unwrap();
            assert!(*pair.1.wait_while_async(guard, |ready| !*ready).await.unwrap());
        });
        thread.join().unwrap();
    });
}

/// One of two that wait gives up; the other gets the one notification, unless the one that gave up came too late to
/// wait.
#[test]
fn v_dropped_waiter_hands_its_notification_on() {
    check(3, || {
        let pair = Arc::new((Mutex::new(false), Condvar::new()));
        let (impatient, patient) = (Arc::clone(&pair), Arc::clone(&pair));
        let impatient = spawn(move || {
            let guard = block_on(impatient.0.lock_async()).unwrap();
            poll_and_drop(impatient.1.wait_async(guard)).is_some()
        });
        let patient = spawn(move || {
            block_on(async {
                let guard = patient.0.lock_async().await.unwrap();
                drop(patient.1.wait_while_async(guard, |ready| !*ready).await.unwrap());
            });
        });
        *block_on(pair.0.lock_async()).unwrap() = true;
        pair.1.notify_one();
        assert!(!impatient.join().unwrap(), "a first poll always waits");
        patient.join().unwrap();
    });
}

#[test]
fn v_all_are_notified() {
    check(3, || {
        let pair = Arc::new((Mutex::new(false), Condvar::new()));
        let threads = [Arc::clone(&pair), Arc::clone(&pair)].map(|pair| {
            spawn(move || {
                block_on(async {
                    let guard = pair.0.lock_async().await.unwrap();
                    drop(pair.1.wait_while_async(guard, |ready| !*ready).await.unwrap());
                });
            })
        });
        *block_on(pair.0.lock_async()).unwrap() = true;
        pair.1.notify_all();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn barrier_lets_all_go_on() {
    check(3, || {
        let barrier = Arc::new(Barrier::new(2));
        let other = Arc::clone(&barrier);
        let thread = spawn(move || (0..2).map(|_| block_on(other.wait_async()).is_leader()).collect());
        let mine: Vec<bool> = (0..2).map(|_| block_on(barrier.wait_async()).is_leader()).collect();
        let theirs: Vec<bool> = thread.join().unwrap();
        assert!(mine.iter().zip(&theirs).all(|(mine, theirs)| mine != theirs));
    });
}
