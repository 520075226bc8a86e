//! The same for messages to all.

use std::num::NonZeroUsize;
use std::sync::Arc;

use loom::thread::spawn;

use super::check;
use crate::primitives::{AtomicUsize, Ordering, UnsafeCell};
use crate::sync::block::block_on;
use crate::sync::broadcast::{self, RecvError, TryRecvError};
use crate::sync::shares::Alone;

/// Its destructor writes what its clones read; loom's cell fails the test if that is unordered.
struct Looked {
    cell: UnsafeCell<usize>,
    living: Arc<AtomicUsize>,
}

impl Looked {
    fn new(living: &Arc<AtomicUsize>) -> Self {
        // Ordering: Relaxed; read when all have been joined.
        living.fetch_add(1, Ordering::Relaxed);
        Self {
            cell: UnsafeCell::new(7),
            living: living.clone(),
        }
    }
}

// SAFETY: the cell is written by the destructor alone, which is what these tests are about.
unsafe impl Sync for Looked {}

impl Clone for Looked {
    fn clone(&self) -> Self {
        // SAFETY: as above.
        assert_eq!(self.cell.with(|cell| unsafe { *cell }), 7);
        Self::new(&self.living)
    }
}

impl Drop for Looked {
    fn drop(&mut self) {
        // SAFETY: as above.
        self.cell.with_mut(|cell| unsafe { *cell = 0 });
        // Ordering: Relaxed, as above.
        self.living.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Of three owners one goes, and two have the value or a clone of it.
#[test]
fn broadcast_who_has_the_last_share_is_alone() {
    check(4, || {
        let living = Arc::new(AtomicUsize::new(0));
        let owners = NonZeroUsize::new(3).expect("three");
        let mut shares = Alone::new(Looked::new(&living)).shared_by(owners);
        let [clones, goes] = [(); 2].map(|()| shares.split().unwrap());
        let threads = [spawn(move || drop(clones.unwrap_or_clone())), spawn(move || drop(goes))];
        drop(shares.unwrap_or_clone());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // Ordering: Relaxed; the threads have been joined.
        assert_eq!(living.load(Ordering::Relaxed), 0);
    });
}

/// (a), (b): nothing passes by a receiver, whether it waits or looks, and its messages move meanwhile.
#[test]
fn broadcast_every_receiver_has_every_message() {
    check(3, || {
        let (sender, mut receiver) = broadcast::with_slots(2, 1);
        let mut other = receiver.resubscribe();
        let thread = spawn(move || {
            let first = block_on(other.recv());
            (first, block_on(other.recv()))
        });
        assert_eq!(sender.send(1), Ok(2));
        assert_eq!(sender.send(2), Ok(2));
        assert_eq!(thread.join().unwrap(), (Ok(1), Ok(2)));
        assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok(1), Ok(2)));
        assert!(sender.is_empty());
    });
}

/// (a): who is late has what is kept, in order, and is told of the rest.
#[test]
fn broadcast_what_is_lost_is_told() {
    for (capacity, slots) in [(1, 1), (1, 2)] {
        check(3, move || {
            let (sender, mut receiver) = broadcast::with_slots(capacity, slots);
            let thread = spawn(move || (0..3).for_each(|n| assert_eq!(sender.send(n), Ok(1))));
            let mut next = 0;
            loop {
                match block_on(receiver.recv()) {
                    Ok(n) => {
                        assert_eq!(n, next);
                        next += 1;
                    }
                    Err(RecvError::Lagged(missed)) => next += missed,
                    Err(RecvError::Closed) => break,
                }
            }
            assert_eq!(next, 3);
            thread.join().unwrap();
        });
    }
}

/// (b): of two who send at once one finds too few slots, or both.
#[test]
fn broadcast_two_may_need_slots() {
    check(3, || {
        let (sender, mut receiver) = broadcast::with_slots(4, 1);
        assert_eq!(sender.send(0), Ok(1));
        let other = sender.clone();
        let thread = spawn(move || assert_eq!(other.send(1), Ok(1)));
        assert_eq!(sender.send(1), Ok(1));
        thread.join().unwrap();
        assert_eq!([(); 3].map(|()| receiver.try_recv()), [Ok(0), Ok(1), Ok(1)]);
    });
}

/// (c): who is a message behind does not get it any more once another has the next one.
#[test]
fn broadcast_what_is_lost_is_lost_to_all() {
    for slots in [1, 2] {
        check(4, move || {
            let (sender, mut behind) = broadcast::with_slots(1, slots);
            assert_eq!(sender.send(0), Ok(1));
            let mut ahead = sender.subscribe();
            let thread = spawn(move || assert_eq!(sender.send(1), Ok(2)));
            if ahead.try_recv() == Ok(1) {
                assert_eq!(behind.try_recv(), Err(TryRecvError::Lagged(1)));
            }
            thread.join().unwrap();
        });
    }
}

/// (d): who goes takes its share of all that it was sent, and of no more; what is lost meanwhile it passes by.
#[test]
fn broadcast_who_goes_leaves_nothing() {
    for (capacity, kept) in [(2, 2), (1, 1)] {
        check(3, move || {
            let (sender, going) = broadcast::with_slots(capacity, 1);
            let mut stays = going.resubscribe();
            let thread = spawn(move || drop(going));
            assert!(sender.send(1).is_ok());
            assert!(sender.send(2).is_ok());
            thread.join().unwrap();
            assert_eq!((stays.len(), sender.len()), (2, kept));
            while stays.try_recv() != Err(TryRecvError::Empty) {}
            assert_eq!((sender.len(), sender.receiver_count()), (0, 1));
        });
    }
}

/// (d): two go at once, and who waits for that finds nothing.
#[test]
fn broadcast_the_end_of_all_finds_it_empty() {
    check(3, || {
        let living = Arc::new(AtomicUsize::new(0));
        let (sender, going) = broadcast::with_slots(1, 1);
        let other = going.resubscribe();
        assert_eq!(sender.send(Arc::new(Looked::new(&living))).ok(), Some(2));
        let threads = [spawn(move || drop(going)), spawn(move || drop(other))];
        block_on(sender.closed());
        // Ordering: Relaxed; whoever tells has dropped it, or comes after him who has.
        assert_eq!((sender.len(), living.load(Ordering::Relaxed)), (0, 0));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
