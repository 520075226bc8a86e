//! The same for messages to all.

use std::sync::Arc;

use loom::thread::spawn;

use super::check;
use crate::primitives::{AtomicUsize, Ordering, UnsafeCell};
use crate::sync::block::block_on;
use crate::sync::broadcast::{self, RecvError};
use crate::sync::shares::Shares;

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
        let mut shares = Shares::new(Looked::new(&living)).multiplied(3);
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

/// (c): who goes takes its share of all that it was sent, and of no more.
#[test]
fn broadcast_who_goes_leaves_nothing() {
    check(3, || {
        let (sender, going) = broadcast::with_slots(2, 1);
        let mut stays = going.resubscribe();
        let thread = spawn(move || drop(going));
        assert!(sender.send(1).is_ok());
        assert!(sender.send(2).is_ok());
        thread.join().unwrap();
        assert_eq!((stays.try_recv(), sender.len()), (Ok(1), 1));
        assert_eq!((stays.try_recv(), sender.len()), (Ok(2), 0));
    });
}
