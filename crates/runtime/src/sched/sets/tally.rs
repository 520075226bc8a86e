//! Sums that many add to and one at a time halves.

use crate::primitives::{AtomicU64, Ordering};

/// The turn is somebody's.
const TAKEN: u64 = u64::MAX;

/// Sums that anyone adds to at any time, and that are halved once an epoch by whoever gets the turn.
///
/// A sum never loses an addition and never falls below zero: what is subtracted is at most what the subtractor has
/// read, and nobody else subtracts meanwhile (H a).
#[derive(Debug)]
pub(crate) struct Tally {
    sums: Box<[AtomicU64]>,
    /// When the next turn is due, ns; `TAKEN` while it is somebody's.
    due: AtomicU64,
}

impl Tally {
    pub(crate) fn new(sums: usize) -> Self {
        Self {
            sums: (0..sums).map(|_| AtomicU64::new(0)).collect(),
            due: AtomicU64::new(0),
        }
    }

    /// Adds `n` to a sum.
    pub(crate) fn add(&self, sum: usize, n: u64) {
        // Ordering: Relaxed; a read-modify-write loses nothing, and nothing is published by it.
        self.sums[sum].fetch_add(n, Ordering::Relaxed);
    }

    /// Takes the turn if it is due at `now_ns`; the next one is due at `next_ns`.
    pub(crate) fn turn(&self, now_ns: u64, next_ns: u64) -> Option<Turn<'_>> {
        // Ordering: Relaxed; a hint, the exchange decides.
        let due = self.due.load(Ordering::Relaxed);
        if due > now_ns {
            return None;
        }
        self.take(due, next_ns)
    }

    /// Takes the turn though it may not be due, unless somebody has it.
    pub(crate) fn turn_early(&self, next_ns: u64) -> Option<Turn<'_>> {
        // Ordering: Relaxed; a hint, the exchange decides.
        match self.due.load(Ordering::Relaxed) {
            TAKEN => None,
            due => self.take(due, next_ns),
        }
    }

    fn take(&self, due: u64, next_ns: u64) -> Option<Turn<'_>> {
        // Ordering: Acquire; (H a) what the last turn has subtracted is not read again. Relaxed on failure; no turn.
        self.due
            .compare_exchange(due, TAKEN, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        Some(Turn { tally: self, next_ns })
    }
}

/// The right to subtract; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    tally: &'a Tally,
    next_ns: u64,
}

impl Turn<'_> {
    /// Halves a sum, so that what is left of nothing more is nothing in the end; returns what it was.
    pub(crate) fn halve(&self, sum: usize) -> u64 {
        let cell = &self.tally.sums[sum];
        // Ordering: Relaxed; (H a) the turn orders subtractions, additions need no order.
        let value = cell.load(Ordering::Relaxed);
        cell.fetch_sub(value.div_ceil(2), Ordering::Relaxed);
        value
    }

    /// Empties every sum.
    pub(crate) fn clear(&self) {
        for cell in &self.tally.sums {
            // Ordering: Relaxed; as in `halve`.
            cell.fetch_sub(cell.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Ordering: Release; (H a) pairs with the Acquire in `take`.
        self.tally.due.store(self.next_ns, Ordering::Release);
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::thread;

    fn value(tally: &Tally, sum: usize) -> u64 {
        tally.sums[sum].load(Ordering::Relaxed)
    }

    #[test]
    fn a_turn_halves_and_is_due_again_later() {
        let tally = Tally::new(2);
        tally.add(0, 9);
        let turn = tally.turn(5, 15).unwrap();
        assert!(tally.turn(5, 15).is_none() && tally.turn_early(15).is_none());
        assert_eq!((turn.halve(0), turn.halve(1)), (9, 0));
        drop(turn);
        assert_eq!((value(&tally, 0), value(&tally, 1)), (4, 0));
        assert!(tally.turn(14, 24).is_none());
        tally.turn(15, 25).unwrap().clear();
        assert_eq!(value(&tally, 0), 0);
        assert!(tally.turn_early(30).is_some());
    }

    /// Adders and halvers at once: the sum is what remains of all additions, whatever their order.
    #[test]
    fn no_addition_is_lost_to_halving() {
        const ADDERS: u64 = 3;
        const ADDITIONS: u64 = 20_000;
        let tally = Tally::new(1);
        let barrier = Barrier::new(usize::try_from(ADDERS).unwrap() + 2);
        let halved = thread::scope(|scope| {
            for _ in 0..ADDERS {
                scope.spawn(|| {
                    barrier.wait();
                    (0..ADDITIONS).for_each(|_| tally.add(0, 3));
                });
            }
            let halvers = [0, 1].map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    let turns = (0..10_000).filter_map(|_| tally.turn(0, 0));
                    turns.map(|turn| turn.halve(0).div_ceil(2)).sum::<u64>()
                })
            });
            halvers.map(|halver| halver.join().unwrap()).into_iter().sum::<u64>()
        });
        assert_eq!(value(&tally, 0), ADDERS * ADDITIONS * 3 - halved);
    }
}
