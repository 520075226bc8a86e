//! The places of a shard's sources: taken and given back without a lock, and never freed before the shard.
//!
//! Pages of 64, 128, 256... places are made as they are needed. Free places form a stack, linked by index; its head
//! carries a number that each push and pop raises, so that a head which was read long ago is not taken for the one that
//! is there.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crossbeam_utils::CachePadded;

use super::source::Source;
use crate::primitives::{AtomicU32, AtomicU64, Ordering};

/// Places on the first page; in a model no more than it needs.
const FIRST: u32 = if cfg!(quadrille_loom) { 1 } else { 64 };
/// All pages together have 2^26 places, less 64.
const PAGES: usize = 20;

type Page = Arc<[CachePadded<Source>]>;

#[derive(Debug)]
pub(super) struct Slab {
    pages: [OnceLock<Page>; PAGES],
    /// Places that were ever used.
    used: AtomicU32,
    /// Bits 0..32: the first free place, plus one; zero: none. Bits 32..64: the number.
    free: CachePadded<AtomicU64>,
}

impl Slab {
    pub(super) fn new() -> Self {
        Self {
            pages: [const { OnceLock::new() }; PAGES],
            used: AtomicU32::new(0),
            free: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// Takes a place. `None`: all are taken.
    pub(super) fn take(&self) -> Option<u32> {
        if let Some(index) = self.pop() {
            return Some(index);
        }
        // Ordering: Relaxed; only that no two are equal matters here; what `for_each` sees of it is L (f)'s.
        let index = self.used.fetch_add(1, Ordering::Relaxed);
        let (page, _) = locate(index);
        if page >= PAGES {
            // Ordering: Relaxed; as above.
            self.used.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let places = || (0..FIRST << page).map(|_| CachePadded::new(Source::new())).collect();
        self.pages[page].get_or_init(places);
        Some(index)
    }

    /// Gives a place back.
    pub(super) fn put_back(&self, index: u32) {
        let place = self.get(index).expect("it was taken");
        // Ordering: Relaxed; the exchange decides.
        let mut head = self.free.load(Ordering::Relaxed);
        loop {
            // Ordering: Relaxed; published by the exchange.
            place.next.store(first(head), Ordering::Relaxed);
            // Ordering: Release; with the Acquire in `pop`: link and word of the place.
            match self.free.compare_exchange_weak(
                head,
                successor(head, index + 1),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(found) => head = found,
            }
        }
    }

    fn pop(&self) -> Option<u32> {
        // Ordering: Acquire; with the Release in `put_back`, here and below.
        let mut head = self.free.load(Ordering::Acquire);
        loop {
            let index = first(head).checked_sub(1)?;
            // Ordering: Relaxed; may be another's by now, and then the exchange fails by the number.
            let next = self.get(index).expect("it was taken once").next.load(Ordering::Relaxed);
            // Ordering: Acquire; as above. The store continues the release sequences of those who put back what is
            // below.
            match self
                .free
                .compare_exchange_weak(head, successor(head, next), Ordering::Acquire, Ordering::Acquire)
            {
                Ok(_) => return Some(index),
                Err(found) => head = found,
            }
        }
    }

    /// The place with this index, if its page was made.
    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&Source> {
        let (page, position) = locate(index);
        let place = self.pages.get(page)?.get()?.get(position)?;
        Some(place)
    }

    /// The place with this index, which is taken, for its owner.
    pub(super) fn place(&self, index: u32) -> Place {
        let (page, position) = locate(index);
        let page = Arc::clone(self.pages[page].get().expect("its page was made"));
        Place { page, position }
    }

    /// Calls `f` with every place that was ever taken, whoever has it now.
    pub(super) fn for_each(&self, mut f: impl FnMut(&Source)) {
        // Ordering: Relaxed; after the fence (L f).
        for index in 0..self.used.load(Ordering::Relaxed) {
            if let Some(source) = self.get(index) {
                f(source);
            }
        }
    }
}

/// A place as its owner keeps it at hand: its page need not be looked up each time.
pub(super) struct Place {
    page: Page,
    position: usize,
}

impl Deref for Place {
    type Target = Source;

    #[inline]
    fn deref(&self) -> &Source {
        &self.page[self.position]
    }
}

/// Page and position of a place.
#[inline]
fn locate(index: u32) -> (usize, usize) {
    let page = (index / FIRST + 1).ilog2();
    let position = index - FIRST * ((1 << page) - 1);
    (page as usize, position as usize)
}

/// The first free place of a head, plus one.
fn first(head: u64) -> u32 {
    u32::try_from(head & u64::from(u32::MAX)).expect("32 bits")
}

/// The head after `head`.
fn successor(head: u64, first: u32) -> u64 {
    ((head >> 32).wrapping_add(1) << 32) | u64::from(first)
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn every_index_has_a_place_of_its_own() {
        let mut expected = (0_usize, 0_usize);
        for index in 0..10_000 {
            assert_eq!(locate(index), expected);
            expected.1 += 1;
            if expected.1 == (FIRST as usize) << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
    }

    #[test]
    fn what_was_put_back_is_taken_again() {
        let slab = Slab::new();
        let taken: Vec<_> = (0..200).map(|_| slab.take().unwrap()).collect();
        assert_eq!(taken, (0..200).collect::<Vec<_>>());
        taken.iter().for_each(|index| slab.put_back(*index));
        let again: BTreeSet<_> = (0..200).map(|_| slab.take().unwrap()).collect();
        assert_eq!(again, (0..200).collect());
        assert_eq!(slab.take(), Some(200));
        let mut places = 0;
        slab.for_each(|_| places += 1);
        assert_eq!(places, 201);
    }

    /// Threads that take and put back never have the same place.
    #[test]
    fn nobody_shares_a_place() {
        const THREADS: usize = 4;
        let slab = Slab::new();
        let owners: Vec<AtomicU32> = (0..64).map(|_| AtomicU32::new(0)).collect();
        let start = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    for round in 0..5_000 {
                        let mine: Vec<_> = (0..round % 5).map(|_| slab.take().unwrap()).collect();
                        for index in &mine {
                            assert_eq!(owners[*index as usize].fetch_add(1, Ordering::Relaxed), 0);
                        }
                        for index in mine {
                            owners[index as usize].fetch_sub(1, Ordering::Relaxed);
                            slab.put_back(index);
                        }
                    }
                });
            }
        });
    }
}
