//! A deque: its owner pushes at the back and takes from either end, thieves take from the front (J).
//!
//! Two words and a ring. `tail` is the owner's alone. `head` is the index of the oldest item and one bit, [`BUSY`],
//! which says that a thief, or the owner at its back end, is about something that the other must not disturb. Nobody
//! waits for the bit for longer than a few looks: a thief that finds it set goes elsewhere, the owner does without what
//! it wanted it for. What the owner does all the time, pushing and taking from the front, asks nothing of it.
//!
//! The index in `head` never falls, and has 63 bits: an exchange that finds what it expects finds that nobody has taken
//! anything from the front.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use crossbeam_utils::CachePadded;

use super::Linked;
use crate::primitives::{AtomicPtr, AtomicU64, Ordering, UnsafeCell, spin_hint};
use crate::stress;

/// Who has set it, and nobody else, may take a batch of the oldest items, the newest one, or free rings.
const BUSY: u64 = 1;

/// One item, in `head`.
const ONE: u64 = 2;

/// Looks at the bit before who finds it set goes without: what it is set for takes as long, as a rule.
const LOOKS: u32 = if cfg!(quadrille_loom) { 1 } else { 32 };

/// Items that a new deque has room for.
const CAPACITY: usize = if cfg!(any(quadrille_loom, quadrille_stress)) {
    2
} else {
    256
};

/// Room for items: one at each index, modulo a power of two.
#[derive(Debug)]
struct Ring {
    slots: Box<[UnsafeCell<NonNull<()>>]>,
}

impl Ring {
    /// Makes one, whose owner frees it by `Box::from_raw`.
    fn allocate(capacity: usize) -> NonNull<Self> {
        debug_assert!(capacity.is_power_of_two(), "indices are taken modulo by a mask");
        let slots = (0..capacity).map(|_| UnsafeCell::new(NonNull::dangling())).collect();
        NonNull::from(Box::leak(Box::new(Self { slots })))
    }

    #[inline]
    fn slot(&self, index: u64) -> &UnsafeCell<NonNull<()>> {
        let mask = self.slots.len() - 1;
        let place = usize::try_from(index & mask as u64).unwrap_or(0);
        // SAFETY: masked by the length, a power of two, less one.
        unsafe { self.slots.get_unchecked(place) }
    }

    /// # Safety
    /// Nobody else reads or writes the slot meanwhile.
    #[inline]
    unsafe fn write(&self, index: u64, raw: NonNull<()>) {
        // SAFETY: nobody else is there, says the caller.
        self.slot(index).with_mut(|slot| unsafe { *slot = raw });
    }

    /// # Safety
    /// Nobody writes the slot meanwhile.
    #[inline]
    unsafe fn read(&self, index: u64) -> NonNull<()> {
        // SAFETY: nobody writes it, says the caller.
        self.slot(index).with(|slot| unsafe { *slot })
    }
}

/// Loom sees a slot that is read after its end.
#[cfg(quadrille_loom)]
impl Drop for Ring {
    fn drop(&mut self) {
        self.slots.iter().for_each(|slot| slot.with_mut(|_| ()));
    }
}

/// What owner and thieves share.
#[derive(Debug)]
struct Ends<T: Linked> {
    /// Index of the oldest item, times [`ONE`], and [`BUSY`].
    head: CachePadded<AtomicU64>,
    back: CachePadded<Back>,
    /// Rings that a thief may still read. The owner's alone.
    outgrown: UnsafeCell<Vec<NonNull<Ring>>>,
    holds: PhantomData<T>,
}

#[derive(Debug)]
struct Back {
    /// Index after that of the newest item. Written by the owner.
    tail: AtomicU64,
    /// Written by the owner.
    ring: AtomicPtr<Ring>,
}

// SAFETY: each T goes from the owner to one thread, by an atomic word.
unsafe impl<T: Linked + Send> Sync for Ends<T> {}
// SAFETY: as above.
unsafe impl<T: Linked + Send> Send for Ends<T> {}

impl<T: Linked> Ends<T> {
    /// # Safety
    /// The caller is the owner and has the bit, or nobody else refers to `self`.
    unsafe fn free_outgrown(&self) {
        // SAFETY: the list is the owner's, or ours alone.
        let rings = self.outgrown.with_mut(|rings| unsafe { std::mem::take(&mut *rings) });
        for ring in rings {
            // SAFETY: allocated by `Ring::allocate`; nobody reads it, because no thief has the bit, and the next one
            // sees a newer ring (J b).
            drop(unsafe { Box::from_raw(ring.as_ptr()) });
        }
    }
}

impl<T: Linked> Drop for Ends<T> {
    fn drop(&mut self) {
        // Ordering: Relaxed; nobody else refers to it any more.
        let ring = self.back.ring.load(Ordering::Relaxed);
        // SAFETY: as was said.
        unsafe { self.free_outgrown() };
        // SAFETY: allocated by `Ring::allocate`, and not among the outgrown ones.
        drop(unsafe { Box::from_raw(ring) });
    }
}

/// The bit, set by the owner; cleared when it is dropped.
#[must_use]
struct Bit<'a> {
    head: &'a AtomicU64,
    /// What `head` was before.
    before: u64,
}

impl Bit<'_> {
    /// Index of the oldest item. No thief changes it.
    fn oldest(&self) -> u64 {
        self.before / ONE
    }
}

impl Drop for Bit<'_> {
    fn drop(&mut self) {
        // Ordering: Release; pairs with the Acquire of the next thief that sets the bit: it sees our `tail` and our
        // ring (J c). A store: nobody changes the word while we have the bit.
        self.head.store(self.before, Ordering::Release);
    }
}

/// The owner's end. Not `Sync`: one thread has it.
#[derive(Debug)]
pub(crate) struct Deque<T: Linked> {
    ends: Arc<Ends<T>>,
    /// As in `ends`.
    tail: Cell<u64>,
    /// Up to here there is room, for all that the owner knows (J b).
    full_at: Cell<u64>,
    /// As in `ends`.
    ring: Cell<NonNull<Ring>>,
}

// SAFETY: it is the only one of its deque, and holds items that are Send.
unsafe impl<T: Linked + Send> Send for Deque<T> {}

impl<T: Linked> Deque<T> {
    pub(crate) fn new() -> Self {
        let ring = Ring::allocate(CAPACITY);
        Self {
            ends: Arc::new(Ends {
                head: CachePadded::new(AtomicU64::new(0)),
                back: CachePadded::new(Back {
                    tail: AtomicU64::new(0),
                    ring: AtomicPtr::new(ring.as_ptr()),
                }),
                outgrown: UnsafeCell::new(Vec::new()),
                holds: PhantomData,
            }),
            tail: Cell::new(0),
            full_at: Cell::new(CAPACITY as u64),
            ring: Cell::new(ring),
        }
    }

    /// The thieves' end.
    pub(crate) fn stealer(&self) -> Stealer<T> {
        Stealer(self.ends.clone())
    }

    /// Pushes at the back.
    #[inline]
    pub(crate) fn push(&self, item: T) {
        // SAFETY: just turned into a word, and given up.
        unsafe { self.push_raw(item.into_raw()) };
    }

    /// # Safety
    /// `raw` comes from `T::into_raw`, and the caller gives up what is behind it.
    #[inline]
    unsafe fn push_raw(&self, raw: NonNull<()>) {
        let tail = self.tail.get();
        if tail == self.full_at.get() {
            self.make_room();
        }
        // SAFETY: there is room at `tail` (J b): no item is there, and no thief reads what was.
        unsafe { self.ring().write(tail, raw) };
        self.tail.set(tail + 1);
        // Ordering: Release; pairs with the thief's Acquire in `steal` (J a; W1 a): it sees the slot, and the task.
        self.ends.back.tail.store(tail + 1, Ordering::Release);
    }

    /// Takes the oldest. What comes after it is fetched into the cache meanwhile.
    #[inline]
    pub(crate) fn pop(&self) -> Option<T> {
        let tail = self.tail.get();
        // Ordering: Relaxed, here and in the exchange; the slots are the owner's writing, and whether an item is there
        // is decided by this word alone (J a).
        let mut head = self.ends.head.load(Ordering::Relaxed);
        loop {
            let index = head / ONE;
            if index == tail {
                return None;
            }
            let taken = self
                .ends
                .head
                .compare_exchange_weak(head, head + ONE, Ordering::Relaxed, Ordering::Relaxed);
            if let Err(now) = taken {
                head = now;
                continue;
            }
            if index + 1 < tail {
                // SAFETY: it is there, or was, and the owner alone writes slots. A thief may have it by now.
                T::fetch(unsafe { self.ring().read(index + 1) });
            }
            // SAFETY: the exchange has made the item ours.
            return Some(unsafe { self.item(index) });
        }
    }

    /// Where the next item will be: a number that grows by one with each push, and falls by one with each item taken
    /// from the back.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.tail.get()
    }

    /// Takes the newest if it was pushed at `from` or behind it, and is `wanted`. `None`, too, while a thief is at the
    /// front.
    pub(crate) fn pop_newest(&self, from: u64, wanted: impl FnOnce(&T) -> bool) -> Option<T> {
        let newest = self.tail.get().checked_sub(1)?;
        if newest < from {
            return None;
        }
        let bit = self.set_bit()?;
        if bit.oldest() > newest {
            return None;
        }
        // SAFETY: it is there, no thief claims it while we have the bit, and the owner is here (J c).
        let item = unsafe { self.item(newest) };
        if !wanted(&item) {
            // It stays where it is, as the word that it was.
            _ = item.into_raw();
            return None;
        }
        self.tail.set(newest);
        // Ordering: Relaxed; the store to `head` when `bit` goes publishes it.
        self.ends.back.tail.store(newest, Ordering::Relaxed);
        Some(item)
    }

    /// Where the oldest item is, or was before thieves took it: a number as [`end`](Self::end). What was put before
    /// that is not there any more.
    #[inline]
    pub(crate) fn front(&self) -> u64 {
        // Ordering: Relaxed; a hint while thieves are about.
        self.ends.head.load(Ordering::Relaxed) / ONE
    }

    /// Number of items in it.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.tail.get() - self.front()).unwrap_or(usize::MAX)
    }

    #[inline]
    fn ring(&self) -> &Ring {
        // SAFETY: the current ring lives as long as `ends`; the owner alone replaces it.
        unsafe { self.ring.get().as_ref() }
    }

    /// # Safety
    /// The item at `index` is the caller's, who takes it out or turns it into a word again.
    #[inline]
    unsafe fn item(&self, index: u64) -> T {
        // SAFETY: it is there, says the caller, so it was written, by this thread.
        let raw = unsafe { self.ring().read(index) };
        // SAFETY: pushed as a word; the caller answers for once.
        unsafe { T::from_raw(raw) }
    }

    /// Sets the bit, unless a thief has it for long.
    fn set_bit(&self) -> Option<Bit<'_>> {
        let head = &*self.ends.head;
        for look in 0..LOOKS {
            if look > 0 {
                spin_hint();
            }
            // Ordering: Relaxed; the exchange decides.
            let before = head.load(Ordering::Relaxed);
            // Ordering: Acquire; pairs with the Release of a thief that clears the bit (J b): it has read its slots.
            let set = before & BUSY == 0
                && head
                    .compare_exchange(before, before | BUSY, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok();
            if set {
                return Some(Bit { head, before });
            }
        }
        None
    }

    /// Looks how much room there is, and makes more if there is little (J b).
    #[cold]
    fn make_room(&self) {
        let Some(bit) = self.set_bit() else {
            // Where the thief is reading is not known. It reads on in the ring that it has.
            return self.renew();
        };
        let capacity = self.ring().slots.len();
        self.full_at.set(bit.oldest() + capacity as u64);
        let count = self.len();
        // With some left, so that a deque that is nearly full does not come here with each push; nor does one that is
        // nearly empty keep what thousands have needed.
        if count >= capacity - capacity / 4 || (count < capacity / 8 && capacity > CAPACITY) {
            self.renew();
        }
        // SAFETY: we are the owner, and have the bit.
        unsafe { self.ends.free_outgrown() };
    }

    /// Makes a ring with room for twice as many as there are.
    fn renew(&self) {
        // Once: thieves change it meanwhile, and a ring that is as large as was copied into it by another look would
        // hold one item at the place of another.
        // Ordering: Relaxed; a thief may only claim more than that.
        let oldest = self.ends.head.load(Ordering::Relaxed) / ONE;
        let items = oldest..self.tail.get();
        let count = usize::try_from(items.end - oldest).unwrap_or(usize::MAX / 4);
        let capacity = (2 * count).next_power_of_two().max(CAPACITY);
        let (old, new) = (self.ring.get(), Ring::allocate(capacity));
        // SAFETY: just made.
        let ring = unsafe { new.as_ref() };
        for index in items {
            // SAFETY: the owner alone writes slots.
            let raw = unsafe { self.ring().read(index) };
            // SAFETY: nobody else has it yet.
            unsafe { ring.write(index, raw) };
        }
        self.full_at.set(oldest + capacity as u64);
        self.ring.set(new);
        // Ordering: Release; pairs with the thief's Acquire in `steal` (J b): it sees the slots.
        self.ends.back.ring.store(new.as_ptr(), Ordering::Release);
        // SAFETY: the list is the owner's alone.
        self.ends.outgrown.with_mut(|rings| unsafe { (*rings).push(old) });
    }
}

impl<T: Linked> Drop for Deque<T> {
    fn drop(&mut self) {
        while let Some(item) = self.pop() {
            drop(item);
        }
    }
}

/// The thieves' end.
#[derive(Debug)]
pub(crate) struct Stealer<T: Linked>(Arc<Ends<T>>);

impl<T: Linked> Stealer<T> {
    /// Moves up to half of the items, at most `limit`, the oldest, to `thief`, and takes the first of them. `None`,
    /// too, if another thief is about it, or the owner at its back end, for long.
    pub(crate) fn steal(&self, thief: &Deque<T>, limit: usize) -> Option<T> {
        let ends = &*self.0;
        if !self.is_open() {
            return None;
        }
        // Ordering: Relaxed; the exchange decides.
        let mut head = ends.head.load(Ordering::Relaxed);
        loop {
            if head & BUSY != 0 {
                return None;
            }
            // Ordering: Acquire; pairs with the owner's Release when its `Bit` goes (J c). Not an `or`: who finds the
            // bit set writes nothing.
            match ends
                .head
                .compare_exchange_weak(head, head | BUSY, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        stress::delay();
        // Ordering: Acquire; pairs with the Release in `push` (J a): the slots before it, the tasks, and the ring that
        // they are in.
        let tail = ends.back.tail.load(Ordering::Acquire);
        // Before the claim: an owner that makes a new ring later copies what nobody has claimed (J b).
        // Ordering: Acquire; pairs with the Release in `renew`.
        let ring = ends.back.ring.load(Ordering::Acquire);
        // SAFETY: it is not freed while we have the bit.
        let ring = unsafe { &*ring };
        let claimed = loop {
            let oldest = head / ONE;
            let there = tail.saturating_sub(oldest);
            if there == 0 {
                break oldest..oldest;
            }
            let count = there.div_ceil(2).min(limit.max(1) as u64);
            let (from, to) = ((oldest * ONE) | BUSY, ((oldest + count) * ONE) | BUSY);
            // Ordering: Relaxed; it decides whose the items are, and hands nothing over.
            match ends
                .head
                .compare_exchange_weak(from, to, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => break oldest..oldest + count,
                Err(now) => head = now,
            }
        };
        stress::delay();
        let mut first = None;
        for index in claimed {
            // SAFETY: the claim has made it ours; the owner does not write the slot before we have cleared the bit
            // (J b).
            let raw = unsafe { ring.read(index) };
            if first.is_none() {
                // SAFETY: pushed as a word, and taken out once.
                first = Some(unsafe { T::from_raw(raw) });
            } else {
                // SAFETY: as above.
                unsafe { thief.push_raw(raw) };
            }
        }
        // Ordering: Release; pairs with the owner's Acquire in `set_bit` (J b): we have read the slots.
        ends.head.fetch_and(!BUSY, Ordering::Release);
        first
    }

    /// Whether the deque looks empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is something, and nobody is about it for long: else a thief need not come.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        for look in 0..LOOKS {
            if look > 0 {
                spin_hint();
            }
            if self.is_empty() {
                return false;
            }
            // Ordering: Relaxed; a hint.
            if self.0.head.load(Ordering::Relaxed) & BUSY == 0 {
                return true;
            }
        }
        false
    }

    /// Number of items in the deque, roughly.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        // Ordering: Relaxed; hints, which need not fit each other.
        let head = self.0.head.load(Ordering::Relaxed);
        let tail = self.0.back.tail.load(Ordering::Relaxed);
        usize::try_from(tail.saturating_sub(head / ONE)).unwrap_or(usize::MAX)
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests;
