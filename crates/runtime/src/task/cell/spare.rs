//! Memory of tasks that are gone, and of their rare fields, kept for those to come.
//!
//! A task is made and freed in less time than a general allocator takes to find and take back its memory, and often
//! freed by another thread than the one that made it. So there are *magazines* and a *depot*, after Bonwick and Adams,
//! "Magazines and Vmem" (USENIX 2001): a magazine is a chain of up to [`ROUNDS`] pieces of memory; each thread that
//! makes or frees tasks has two a class of sizes; what is more than that goes to the depot of the process, whole
//! magazines at a time, and comes from there. Two, so that a thread which makes and frees in turn does not go to the
//! depot each time.
//!
//! Classes are 16 bytes apart, up to 1 KiB. What is larger, or aligned to more than 16 bytes, comes from the allocator.
//! Wider ones would be shared by more kinds of tasks, and spread those that are there over more cache lines.
//!
//! The memory of a user-level thread has a place on the roll before it (`thread::roll`), which is made when the memory
//! comes from the allocator, and stays on the register until that has it back. So these have magazines of their own:
//! they are classes beyond those of tasks. What a magazine writes into a piece is behind its place.
//!
//! # Who owns what
//!
//! A piece of memory is a task's, or in one magazine. A magazine is a thread's, which alone sees it, or the depot's,
//! under its lock, which also makes what the one thread wrote visible to the other. A thread that ends frees its
//! magazines.
//!
//! # How much
//!
//! A thread keeps at most 2 x 32 pieces of a class, the depot at most 1 MiB of each. What the depot did not need for a
//! second is given back to the allocator while any worker runs tasks ([`trim`]); a process all of whose workers sleep
//! keeps what it has.
//!
//! Under AddressSanitizer (feature `sanitizer`) and in models nothing is kept: they are to see each end of a task.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::{NonNull, null_mut};
use std::sync::{MutexGuard, PoisonError};

use crate::primitives::{Ordering, StaticU64};
use crate::stress::StaticMutex;
use crate::sys::prefetch;
use crate::thread::roll::{self, Place};

/// Whether anything is kept.
const ON: bool = !cfg!(any(feature = "sanitizer", quadrille_loom));

/// Sizes of a class differ by less than that, bytes.
const UNIT: usize = 16;

/// What an allocator may keep beside each piece, bytes: a whole number of units with that, so that none is wasted.
const BESIDE: usize = 8;

/// What is larger than so many units is not kept.
const SIZES: usize = 64;

/// Those of what nobody lists, then those of threads.
const CLASSES: usize = 2 * SIZES;

/// What is aligned to more than that is not kept: the allocator would need to be told.
const ALIGN: usize = 16;

/// Pieces in a full magazine.
const ROUNDS: u32 = 32;

/// Most that the depot keeps of a class, bytes.
const DEPOT_BYTES: usize = 1 << 20;

/// Between two looks at what the depot did not need, ns.
const TRIM_EVERY_NS: u64 = 1_000_000_000;

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What nobody lists.
    Unlisted,
    /// A user-level thread: a place on the roll is before it.
    Listed,
}

/// Bytes before what is allocated, whose alignment they keep.
const fn before(kind: Kind, align: usize) -> usize {
    match kind {
        Kind::Unlisted => 0,
        Kind::Listed => size_of::<Place>().next_multiple_of(align),
    }
}

/// Where the place on the roll is before the memory of a thread.
///
/// # Safety
/// There is room for one before the memory, in the same allocation, which the pointer is of: as from [`allocate`], for
/// a thread.
#[inline]
pub(super) unsafe fn place_of(memory: NonNull<u8>) -> NonNull<Place> {
    // SAFETY: by our contract.
    unsafe { memory.byte_sub(size_of::<Place>()) }.cast()
}

/// The class of a layout; `None` if it is not kept.
const fn class_of(kind: Kind, layout: Layout) -> Option<usize> {
    let units = (before(kind, ALIGN) + layout.size() + BESIDE).div_ceil(UNIT);
    if !ON || units > SIZES || layout.align() > ALIGN {
        return None;
    }
    match kind {
        Kind::Unlisted => Some(units - 1),
        Kind::Listed => Some(SIZES + units - 1),
    }
}

const fn kind_of(class: usize) -> Kind {
    if class < SIZES { Kind::Unlisted } else { Kind::Listed }
}

/// The layout of all pieces of a class, with what is before them.
const fn layout_of(class: usize) -> Layout {
    match Layout::from_size_align((class % SIZES + 1) * UNIT - BESIDE, ALIGN) {
        Ok(layout) => layout,
        Err(_) => panic!("it is small, and the alignment a power of two"),
    }
}

/// The layout of what is not kept, with what is before it, whose size is the other number.
fn alone(kind: Kind, layout: Layout) -> (Layout, usize) {
    let before = before(kind, layout.align());
    let align = layout.align().max(if before > 0 { align_of::<Place>() } else { 1 });
    let whole = Layout::from_size_align(before + layout.size(), align);
    (whole.expect("a task is small beside the address space"), before)
}

/// Memory for a value of this layout, which is not zero-sized.
#[inline]
pub(crate) fn allocate(kind: Kind, layout: Layout) -> NonNull<u8> {
    debug_assert!(layout.size() > 0);
    let Some(class) = class_of(kind, layout) else {
        let (whole, before) = alone(kind, layout);
        return from_system(kind, whole, before);
    };
    // A thread that ends keeps nothing any more.
    let kept = KEPT.try_with(|kept| kept[class].take(class));
    let new = || from_system(kind, layout_of(class), before(kind, ALIGN));
    kept.ok().flatten().unwrap_or_else(new)
}

/// Takes it back.
///
/// # Safety
/// It came from [`allocate`] with this kind and layout, and nobody uses it any more, nor is a thread of it on the roll.
#[inline]
pub(crate) unsafe fn free(kind: Kind, memory: NonNull<u8>, layout: Layout) {
    let Some(class) = class_of(kind, layout) else {
        let (whole, before) = alone(kind, layout);
        // SAFETY: by our contract, and no layout that is not kept was ever another one.
        return unsafe { to_system(kind, memory, whole, before) };
    };
    // SAFETY: by our contract it is nobody's; `allocate` made it as large as its class.
    let kept = KEPT.try_with(|kept| unsafe { kept[class].put(memory.cast(), class) });
    if kept.is_err() {
        // SAFETY: as above.
        unsafe { to_system(kind, memory, layout_of(class), before(kind, ALIGN)) };
    }
}

/// Memory from the allocator, so many bytes behind the beginning of what has this layout.
#[cold]
fn from_system(kind: Kind, layout: Layout, before: usize) -> NonNull<u8> {
    grow(layout.size());
    // SAFETY: nothing that is kept here has no size.
    let begin = unsafe { alloc(layout) };
    let begin = NonNull::new(begin).unwrap_or_else(|| handle_alloc_error(layout));
    // SAFETY: within it.
    let memory = unsafe { begin.add(before) };
    if kind == Kind::Listed {
        // SAFETY: it is for one (`before`).
        let place = unsafe { place_of(memory) };
        // SAFETY: there is room for it, nobody else's, and stays until `to_system`.
        unsafe { roll::register(place) };
    }
    memory
}

/// Gives it back.
///
/// # Safety
/// It came from `from_system` with all this, nobody uses it, and no thread of it is on the roll.
unsafe fn to_system(kind: Kind, memory: NonNull<u8>, layout: Layout, before: usize) {
    if kind == Kind::Listed {
        // SAFETY: it was for one.
        let place = unsafe { place_of(memory) };
        // SAFETY: registered there; the rest is our contract.
        unsafe { roll::strike(std::iter::once(place)) };
    }
    // SAFETY: by our contract.
    unsafe { dealloc(memory.as_ptr().wrapping_sub(before), layout) };
}

/// What a heap is to grow by at a time, bytes.
const STEP: usize = 64 * 1024;

thread_local! {
    /// Bytes that this thread may still take from the allocator before its heap is to grow again.
    static ROOM: Cell<usize> = const { Cell::new(0) };
}

/// Makes room for `size` bytes, and for many more of them. glibc lets the heap of any thread but the first grow by the
/// page, with a system call (`mprotect`) for each that keeps the others of the process from the kernel's account of its
/// memory. Who makes a crowd of tasks does little else. But it keeps up to 128 KiB that come back; so a large piece is
/// taken and given back at once, for each half of it that is used: 100,000 threads are made in 0.9 of the time
/// (`quadrille compare thread_sleepers`). Other allocators take it from what they have.
fn grow(size: usize) {
    // What is larger makes its own step, and a sanitizer would keep what is given back from being used again.
    if !ON || size > STEP / 2 {
        return;
    }
    let enough = ROOM.try_with(|room| {
        let left = room.get().checked_sub(size);
        room.set(left.unwrap_or(STEP / 2));
        left.is_some()
    });
    if enough != Ok(false) {
        return;
    }
    const WHOLE: Layout = match Layout::from_size_align(STEP, ALIGN) {
        Ok(layout) => layout,
        Err(_) => panic!("the alignment is a power of two"),
    };
    // SAFETY: of some size.
    let place = std::hint::black_box(unsafe { alloc(WHOLE) });
    if !place.is_null() {
        // SAFETY: just taken, with this layout.
        unsafe { dealloc(place, WHOLE) };
    }
}

/// What a piece of memory that is kept begins with.
struct Link {
    next: *mut Link,
}

/// A chain of exactly [`ROUNDS`] pieces.
struct Full(NonNull<Link>);

// SAFETY: the memory is nobody's but the magazine's owner's, and any thread may give it back.
unsafe impl Send for Full {}

impl Full {
    /// Gives all of it back to the allocator.
    fn scrap(self, class: usize) {
        // SAFETY: the whole chain is ours.
        unsafe { scrap(self.0.as_ptr(), class) };
    }
}

/// Gives a chain back to the allocator.
///
/// # Safety
/// It is a chain of this class, and the caller's.
unsafe fn scrap(first: *mut Link, class: usize) {
    if first.is_null() {
        return;
    }
    let kind = kind_of(class);
    if kind == Kind::Listed {
        // All of them in one section.
        let chain = std::iter::successors(NonNull::new(first), |link| {
            // SAFETY: a piece of the chain.
            NonNull::new(unsafe { link.as_ref() }.next)
        });
        // SAFETY: it is for one.
        let places = chain.map(|link| unsafe { place_of(link.cast()) });
        // SAFETY: registered by `from_system`; whoever freed the memory says that no thread of it is on the roll, and
        // the chain is the caller's.
        unsafe { roll::strike(places) };
    }
    let mut first = first;
    while let Some(link) = NonNull::new(first) {
        // SAFETY: a piece of the chain.
        first = unsafe { link.as_ref() }.next;
        let begin = link.as_ptr().cast::<u8>().wrapping_sub(before(kind, ALIGN));
        // SAFETY: it came from `from_system` with this layout, so many bytes behind the beginning, and nobody uses it.
        unsafe { dealloc(begin, layout_of(class)) };
    }
}

/// What a thread keeps of one class.
struct Magazines {
    /// The magazine in use, and how many are in it.
    first: Cell<*mut Link>,
    len: Cell<u32>,
    /// The other one: full, or null if it is empty.
    other: Cell<*mut Link>,
}

impl Magazines {
    const fn new() -> Self {
        Self {
            first: Cell::new(null_mut()),
            len: Cell::new(0),
            other: Cell::new(null_mut()),
        }
    }

    #[inline]
    fn take(&self, class: usize) -> Option<NonNull<u8>> {
        let first = match NonNull::new(self.first.get()) {
            Some(first) => first,
            None => self.reload(class)?,
        };
        // SAFETY: a piece that is in our magazine.
        let next = unsafe { first.as_ref() }.next;
        // The next task finds it there, if it is not made at once.
        prefetch::bytes::<128>(next.cast());
        self.first.set(next);
        self.len.set(self.len.get() - 1);
        Some(first.cast())
    }

    /// Puts a full magazine in the place of the empty one, if there is any.
    #[cold]
    fn reload(&self, class: usize) -> Option<NonNull<Link>> {
        let full = NonNull::new(self.other.replace(null_mut())).or_else(|| Some(depot(class).take()?.0))?;
        self.first.set(full.as_ptr());
        self.len.set(ROUNDS);
        Some(full)
    }

    /// # Safety
    /// The memory is of this class, and the caller's to give.
    #[inline]
    unsafe fn put(&self, link: NonNull<Link>, class: usize) {
        if self.len.get() == ROUNDS {
            self.unload(class);
        }
        let next = self.first.replace(link.as_ptr());
        // SAFETY: large enough and aligned for it, and ours.
        unsafe { link.write(Link { next }) };
        self.len.set(self.len.get() + 1);
    }

    /// Puts an empty magazine in the place of the full one.
    #[cold]
    fn unload(&self, class: usize) {
        let full = self.first.replace(null_mut());
        self.len.set(0);
        if let Some(other) = NonNull::new(self.other.replace(full)) {
            let unwanted = depot(class).put(Full(other), class);
            if let Some(full) = unwanted {
                full.scrap(class);
            }
        }
    }
}

/// What one thread keeps, by class.
struct Kept([Magazines; CLASSES]);

impl std::ops::Deref for Kept {
    type Target = [Magazines; CLASSES];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        for (class, magazines) in self.iter().enumerate() {
            // SAFETY: this thread's, which is the last to use them here.
            unsafe { scrap(magazines.first.get(), class) };
            // SAFETY: as above.
            unsafe { scrap(magazines.other.get(), class) };
        }
    }
}

thread_local! {
    static KEPT: Kept = const { Kept([const { Magazines::new() }; CLASSES]) };
}

/// What the process keeps of one class.
struct Depot {
    full: Vec<Full>,
    /// The fewest that were there since the last look.
    fewest: usize,
}

impl Depot {
    const fn new() -> Self {
        Self {
            full: Vec::new(),
            fewest: 0,
        }
    }

    fn take(&mut self) -> Option<Full> {
        let full = self.full.pop();
        self.fewest = self.fewest.min(self.full.len());
        full
    }

    /// The magazine again, if there are enough.
    fn put(&mut self, full: Full, class: usize) -> Option<Full> {
        if self.full.len() >= most(class) {
            return Some(full);
        }
        self.full.push(full);
        None
    }

    /// What was not needed since the last call.
    fn unneeded(&mut self) -> Vec<Full> {
        let unneeded = self.full.drain(..self.fewest).collect();
        self.fewest = self.full.len();
        unneeded
    }
}

/// Most magazines of a class in the depot.
fn most(class: usize) -> usize {
    DEPOT_BYTES / (layout_of(class).size() * ROUNDS as usize)
}

static DEPOTS: [StaticMutex<Depot>; CLASSES] = [const { StaticMutex::new(Depot::new()) }; CLASSES];

/// When somebody looks next at what the depot did not need; by the clock.
static TRIM_AT: StaticU64 = StaticU64::new(0);

fn depot(class: usize) -> MutexGuard<'static, Depot> {
    // No foreign code runs under the lock; what it guards is whole at any time.
    DEPOTS[class].lock().unwrap_or_else(PoisonError::into_inner)
}

/// A worker that runs tasks looks once a second for what the depot did not need meanwhile.
#[inline]
pub(crate) fn trim(now: u64) {
    // Ordering: Relaxed; a hint, the exchange decides who does it.
    let at = TRIM_AT.load(Ordering::Relaxed);
    if now >= at {
        trim_at(now, at);
    }
}

#[cold]
fn trim_at(now: u64, at: u64) {
    let next = now.saturating_add(TRIM_EVERY_NS);
    // Ordering: Relaxed; the depots have locks of their own.
    if TRIM_AT
        .compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed)
        .is_err()
    {
        return;
    }
    for class in 0..CLASSES {
        let unneeded = depot(class).unneeded();
        for full in unneeded {
            full.scrap(class);
        }
    }
}

#[cfg(all(test, not(any(quadrille_loom, feature = "sanitizer"))))]
mod tests {
    use super::*;
    use crate::task::Id;

    use Kind::{Listed, Unlisted};

    /// Classes that no task of these tests has.
    fn layout(class: usize) -> Layout {
        let size = layout_of(class).size() - before(kind_of(class), ALIGN) - 4;
        Layout::from_size_align(size, 4).unwrap()
    }

    /// Workers of other tests shall not tidy up while we look.
    fn nobody_trims() {
        // Ordering: Relaxed; who has looked at it before has one more turn, and what is new outlives that.
        TRIM_AT.store(u64::MAX, Ordering::Relaxed);
    }

    /// Addresses of so many pieces, which are freed again.
    fn made_and_freed(kind: Kind, count: usize, layout: Layout) -> Vec<usize> {
        let places: Vec<_> = (0..count).map(|_| allocate(kind, layout)).collect();
        for place in &places {
            // SAFETY: as large as the layout says.
            unsafe { place.write_bytes(0xA5, layout.size()) };
        }
        let addresses = places.iter().map(|place| place.addr().get()).collect();
        for place in places {
            // SAFETY: allocated above, and used by nobody.
            unsafe { free(kind, place, layout) };
        }
        addresses
    }

    #[test]
    fn what_was_freed_last_comes_first() {
        let layout = layout(60);
        let place = allocate(Unlisted, layout);
        // SAFETY: allocated above, and used by nobody.
        unsafe { free(Unlisted, place, layout) };
        assert_eq!(made_and_freed(Unlisted, 1, layout), [place.addr().get()]);
    }

    #[test]
    fn pieces_in_use_are_distinct_whatever_came_before() {
        for (kind, layout) in [(Unlisted, layout(61)), (Listed, layout(SIZES + 61))] {
            for count in [1, 31, 32, 33, 64, 65, 97, 500, 3] {
                let mut addresses = made_and_freed(kind, count, layout);
                assert!(addresses.iter().all(|address| address % ALIGN == 0));
                addresses.sort_unstable();
                addresses.dedup();
                assert_eq!(addresses.len(), count);
            }
        }
    }

    #[test]
    fn what_one_thread_frees_another_uses() {
        nobody_trims();
        let layout = layout(62);
        let freed = std::thread::spawn(move || made_and_freed(Unlisted, 200, layout))
            .join()
            .unwrap();
        // That thread has given its two magazines back to the allocator, and the others to the depot.
        let mut used = made_and_freed(Unlisted, 100, layout);
        used.retain(|address| freed.contains(address));
        assert!(used.len() >= 96, "{} of 100", used.len());
    }

    #[test]
    fn the_depot_has_an_end_and_forgets_what_it_does_not_need() {
        nobody_trims();
        let layout = layout(63);
        let pieces = DEPOT_BYTES / layout_of(63).size() * 2;
        made_and_freed(Unlisted, pieces, layout);
        assert_eq!(depot(63).full.len(), most(63));
        // The first look begins a period, the second ends one in which nothing was needed.
        depot(63).unneeded().into_iter().for_each(|full| full.scrap(63));
        depot(63).unneeded().into_iter().for_each(|full| full.scrap(63));
        assert_eq!(depot(63).full.len(), 0);
        made_and_freed(Unlisted, 1, layout);
    }

    #[test]
    fn large_ones_and_aligned_ones_are_not_kept() {
        for (kind, size, align) in [
            (Unlisted, 1017, 8),
            (Unlisted, 256, 32),
            (Listed, 985, 8),
            (Listed, 256, 64),
        ] {
            let layout = Layout::from_size_align(size, align).unwrap();
            assert_eq!(class_of(kind, layout), None);
            let addresses = made_and_freed(kind, 3, layout);
            assert!(addresses.iter().all(|address| address % align == 0));
        }
        let class = |kind, size, align| class_of(kind, Layout::from_size_align(size, align).unwrap());
        assert_eq!(class(Unlisted, 1016, 16), Some(63));
        assert_eq!(class(Unlisted, 8, 8), Some(0));
        assert_eq!(class(Listed, 984, 16), Some(SIZES + 63));
        assert_eq!(class(Listed, 8, 8), Some(SIZES + 2));
    }

    /// Each thread's memory has a place of its own before it, from whichever side it comes.
    #[test]
    fn what_is_listed_has_a_place() {
        for (size, align) in [(8, 8), (240, 8), (984, 16), (5000, 8), (100, 64)] {
            let layout = Layout::from_size_align(size, align).unwrap();
            for _ in 0..2 {
                let memory = allocate(Listed, layout);
                // SAFETY: as large as the layout says.
                unsafe { memory.write_bytes(0xA5, size) };
                // SAFETY: allocated so.
                let place = unsafe { place_of(memory) };
                // SAFETY: as above.
                let place = unsafe { place.as_ref() };
                let (scheduler, id) = (std::ptr::without_provenance(size), Id::next());
                let seen = || {
                    let mut seen = 0;
                    roll::read(scheduler, |other, _| seen += usize::from(other == id.number()));
                    seen
                };
                place.enter(scheduler, id);
                assert_eq!(seen(), 1, "{layout:?}");
                place.leave();
                assert_eq!(seen(), 0, "{layout:?}");
                // SAFETY: allocated above, and used by nobody.
                unsafe { free(Listed, memory, layout) };
            }
        }
    }
}
