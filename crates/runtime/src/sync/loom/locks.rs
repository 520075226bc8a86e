//! The same for locks, a barrier and a cell.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use loom::thread::spawn;

use super::{check, poll_and_drop};
use crate::primitives::UnsafeCell;
use crate::sync::block::block_on;
use crate::sync::{Barrier, Mutex, OnceCell, RwLock, Semaphore};

#[test]
fn semaphore_permits_that_are_given_back_reach_who_waits() {
    check(4, || {
        let semaphore = Arc::new(Semaphore::new(1));
        let threads = [(); 2].map(|()| {
            let semaphore = semaphore.clone();
            spawn(move || drop(block_on(semaphore.acquire()).unwrap()))
        });
        drop(block_on(semaphore.acquire()).unwrap());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(semaphore.available_permits(), 1);
    });
}

/// Who gives up may have been served, or be the first: then the other, who wants less, is.
#[test]
fn semaphore_a_dropped_future_lets_others_go_first() {
    check(3, || {
        let semaphore = Arc::new(Semaphore::new(1));
        let (impatient, patient) = (semaphore.clone(), semaphore.clone());
        let impatient = spawn(move || drop(poll_and_drop(impatient.acquire_many(2))));
        let patient = spawn(move || drop(block_on(patient.acquire()).unwrap()));
        semaphore.add_permits(1);
        impatient.join().unwrap();
        patient.join().unwrap();
        assert_eq!(semaphore.available_permits(), 2);
    });
}

/// Served before it is closed, or refused: nobody waits for ever.
#[test]
fn semaphore_closing_refuses_who_waits() {
    check(3, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let threads = [(); 2].map(|()| {
            let semaphore = semaphore.clone();
            spawn(move || block_on(semaphore.acquire()).map(|permit| permit.forget()).is_ok())
        });
        let other = semaphore.clone();
        let adds = spawn(move || other.add_permits(1));
        semaphore.close();
        adds.join().unwrap();
        let served = threads.into_iter().map(|thread| usize::from(thread.join().unwrap()));
        assert_eq!(served.sum::<usize>() + semaphore.available_permits(), 1);
    });
}

/// A writer that goes on as a reader, beside another of each. loom's cell fails the test if a writer is inside with
/// anybody.
#[test]
fn rwlock_no_writer_comes_before_one_that_becomes_a_reader() {
    check(3, || {
        let lock = Arc::new(RwLock::with_max_readers(UnsafeCell::new(0), 2));
        let (reading, writing) = (lock.clone(), lock.clone());
        // SAFETY: nobody writes while there is a guard of a reader, which is what this test is about.
        let read = |cell: &UnsafeCell<i32>| cell.with(|n| unsafe { *n });
        // SAFETY: nobody else is inside while there is a guard of a writer, as above.
        let write = |cell: &UnsafeCell<i32>, value| cell.with_mut(|n| unsafe { *n = value });
        let reader = spawn(move || read(&block_on(reading.read())));
        let writer = spawn(move || write(&block_on(writing.write()), 2));
        let guard = block_on(lock.write());
        write(&guard, 1);
        let guard = guard.downgrade();
        assert_eq!(read(&guard), 1);
        drop(guard);
        assert!((0..=2).contains(&reader.join().unwrap()));
        writer.join().unwrap();
    });
}

/// Two that have it in turn, beside one that gives up. loom's cell fails the test if two are inside.
#[test]
fn mutex_one_is_inside() {
    check(3, || {
        let mutex = Arc::new(Mutex::new(UnsafeCell::new(0)));
        let visit = |mutex: &Mutex<UnsafeCell<i32>>| {
            let guard = block_on(mutex.lock());
            // SAFETY: nobody else is inside while there is a guard, which is what this test is about.
            guard.with_mut(|n| unsafe { *n += 1 });
        };
        let (other, impatient) = (mutex.clone(), mutex.clone());
        let other = spawn(move || visit(&other));
        let impatient = spawn(move || drop(poll_and_drop(impatient.lock())));
        visit(&mutex);
        other.join().unwrap();
        impatient.join().unwrap();
        let guard = mutex.try_lock().unwrap();
        // SAFETY: as above.
        assert_eq!(guard.with(|n| unsafe { *n }), 2);
    });
}

/// Polled without budget at first, beside who gives it a permit: it has a place by then, or is woken for its next turn.
#[test]
fn semaphore_who_asks_without_budget_is_served() {
    check(3, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let other = semaphore.clone();
        let adds = spawn(move || other.add_permits(1));
        let mut acquire = pin!(semaphore.acquire());
        let mut is_spent = true;
        let permit = block_on(poll_fn(|cx| {
            if std::mem::take(&mut is_spent) {
                acquire.as_mut().poll_spent(cx.waker());
                return Poll::Pending;
            }
            acquire.as_mut().poll(cx)
        }));
        drop(permit.unwrap());
        adds.join().unwrap();
        assert_eq!(semaphore.available_permits(), 1);
    });
}

#[test]
fn round_is_over_for_all_who_came_and_one_leads() {
    check(3, || {
        let barrier = Arc::new(Barrier::new(2));
        let other = barrier.clone();
        let meets = |barrier: &Barrier| [(); 2].map(|()| block_on(barrier.wait()).is_leader());
        let thread = spawn(move || meets(&other));
        let mine = meets(&barrier);
        let theirs = thread.join().unwrap();
        assert!(mine.iter().zip(&theirs).all(|(mine, theirs)| mine != theirs));
    });
}

/// One of three gives up, having come, or having led.
#[test]
fn round_ends_without_who_gave_up() {
    check(3, || {
        let barrier = Arc::new(Barrier::new(3));
        let (hasty, patient) = (barrier.clone(), barrier.clone());
        let hasty = spawn(move || poll_and_drop(hasty.wait()).is_some_and(|result| result.is_leader()));
        let patient = spawn(move || block_on(patient.wait()).is_leader());
        let leads = [
            block_on(barrier.wait()).is_leader(),
            hasty.join().unwrap(),
            patient.join().unwrap(),
        ];
        assert_eq!(leads.iter().filter(|leads| **leads).count(), 1);
    });
}

/// loom's cell fails the test if somebody sees the cell set, and not what was written into it before.
#[test]
fn once_there_is_one_value_that_all_see() {
    check(3, || {
        let cell = Arc::new(OnceCell::new());
        // SAFETY: nobody changes a value that is there, which is what this test is about.
        let read = |value: &UnsafeCell<i32>| value.with(|n| unsafe { *n });
        let threads = [1, 2].map(|value| {
            let cell = cell.clone();
            spawn(move || read(block_on(cell.get_or_init(async || UnsafeCell::new(value)))))
        });
        let early = cell.get().map(read);
        let values = threads.map(|thread| thread.join().unwrap());
        assert_eq!(values[0], values[1]);
        assert!(early.is_none_or(|early| early == values[0]));
    });
}

#[test]
fn once_set_it_is_told_to_who_waits() {
    check(3, || {
        let cell = Arc::new(OnceCell::new());
        let (waits, asks) = (cell.clone(), cell.clone());
        let waits = spawn(move || *block_on(waits.wait()));
        let asks = spawn(move || *block_on(asks.get_or_init(async || 2)));
        let set = block_on(cell.set(1)).is_ok();
        let value = if set { 1 } else { 2 };
        assert_eq!((waits.join().unwrap(), asks.join().unwrap()), (value, value));
    });
}

/// Who gives up may have the turn by then, or be told that it has it: then the other makes the value.
#[test]
fn once_given_up_it_is_made_by_the_next() {
    check(3, || {
        let cell = Arc::new(OnceCell::new());
        let other = cell.clone();
        let hasty = spawn(move || {
            assert!(poll_and_drop(other.get_or_init(std::future::pending)).is_none_or(|value| *value == 1));
        });
        assert_eq!(block_on(cell.get_or_init(async || 1)), &1);
        hasty.join().unwrap();
    });
}
