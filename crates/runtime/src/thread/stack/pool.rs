//! The stacks of a runtime: who may be promised one, where they lie between two uses, when they are unmapped.
//!
//! # Words
//!
//! A class has `mapped` stacks. Each is *free* (on a shelf), *out* (a thread has it), *kept* by a worker, or in the
//! hands of somebody who releases its pages. A *promise* is a reservation, or a stack that is out. *Credit* is a number
//! on a shelf: so many promises its LLC may still make. Credit and stacks are apart, because a thread is spawned in one
//! LLC and may run in another: credit is taken where it is spawned, the stack where it begins to run.
//!
//! | step | where | credit | free | reservations | out |
//! |---|---|--:|--:|--:|--:|
//! | reserve | spawner's LLC | -1 | | +1 | |
//! | a reservation is dropped | the first LLC | +1 | | -1 | |
//! | take | runner's LLC, or any other | | -1 | -1 | +1 |
//! | give back | runner's LLC, or the first | +1 | +1 | | -1 |
//! | a slab of n is mapped, for one reservation | spawner's LLC | +n-1 | +n | +1 | |
//! | k stacks are taken off to release their pages | one LLC | -k | -k | | |
//! | they are put back | the same | +k | +k | | |
//! | k credits move from one LLC to another | two | -k, +k | | | |
//! | k credits move to a worker of the LLC, or back | its own | -k, +k | | | |
//! | k stacks move from a worker of the LLC | its own | +k | +k | | |
//! | that worker reserves | | | | +1 | |
//! | takes | | | | -1 | +1 |
//! | gives back | | | | | -1 |
//!
//! Each row happens under the lock of one shelf; the one of two LLCs takes from one shelf before it adds to the other.
//! The last three need none: they change what the worker keeps (`kept`). To reserve takes one of its credit; to take,
//! one of its stacks, of which it keeps the credit; to give back adds a stack, with the credit of its promise.
//!
//! # N1: a promise is kept
//!
//! *Whoever has a reservation finds a free stack.* No row makes `free - credit - reservations` smaller, where kept
//! credit counts as credit, but for the second half of a move, whose first half made it larger by as much; and it
//! begins as 0. So there are never fewer free stacks than reservations. (Kept stacks are not free, and their credit is
//! not counted.) The taker, who has one of these, looks at one shelf after the other, and may miss its stack:
//!
//! ```text
//!   taker                       others
//!   shelf 0: empty
//!                               give back to shelf 0
//!                               take from shelf 1
//!   shelf 1: empty
//! ```
//!
//! A miss means that another took a stack meanwhile. So to look again is enough: somebody gets on each time, and a
//! taker misses only as often as others succeed.
//!
//! # N2: the last one out unmaps
//!
//! *The pool is freed once, after the handle and the last promise have ended, and not touched then.* A count of
//! references would be one more shared line at every spawn. The credit is that count: what `mapped` has more than all
//! credit is promised, or in the hands of somebody who has a promise beside. Only when the handle goes, somebody must
//! count:
//!
//! 1. The handle closes one shelf after the other: takes its credit away and sets `closed`. Nothing is reserved any
//!    more, which takes the handle. What ends on a shelf before it is closed is in its credit; what ends later
//!    subtracts 1 from `left` instead: step (N2 b).
//! 2. It adds what `mapped` has more than the credit that it found to `left`: step (N2 a).
//! 3. Whose operation leaves 0 frees the pool.
//!
//! Proof. (a) adds n, and n times 1 is subtracted, once for each stack of which no credit was found. Before (a), `left`
//! is 0 or has wrapped below it, so that no subtraction leaves 0; from (a) on it falls to 0 in one step, which is the
//! last. Each of these operations is the last touch of whoever does it, and the last one acquires what all have
//! released. What ended on an open shelf touched the pool last when it left the lock, by one store (not a wake-up),
//! which the handle's next enter of that lock acquired. Who has stacks in hand to release their pages subtracts for
//! these while it still has a promise, that of the stack it brought back, or the handle. What a worker keeps is back
//! before the handle goes: the worker has a reference to it.

use std::io;
use std::ptr::NonNull;

use crossbeam_utils::CachePadded;

use super::class::{Class, StackBounds};
use super::shelf::Shelf;
use super::slab::{Guarding, Slab};
use crate::primitives::{AtomicBool, AtomicUsize, Life, Ordering, relax};
use crate::stress::{self, Mutex};
use crate::sync::lock::Lock;
use crate::sys::{clock, memory};

/// Credit that moves between LLCs at a time, at most.
const CREDIT_BATCH: usize = 64;

/// One stack is looked at for so many bytes of stacks that came back: every 254th of the default size, each of the
/// largest.
pub(super) const LOOK_BYTES: usize = 64 * 1024 * 1024;

/// So many batches of a class and LLC lose their pages in a row while there is other work: some 100 us each, if the
/// stacks have touched a page.
const TRIM_BATCHES: usize = 4;

/// What a stack that is looked at keeps, bytes below its top.
const DEPTH_KEPT: usize = 64 * 1024;

/// The shelves of an LLC: one a class, under one lock.
#[derive(Debug)]
struct Shelves {
    classes: [Shelf; Class::COUNT],
    /// The handle is gone: ends of promises are counted in `left` (N2).
    closed: bool,
    /// The deepest that any of the stacks looked at was used, bytes.
    depth_max: usize,
}

/// What the pool has in an LLC.
#[derive(Debug)]
struct OfLlc {
    shelves: Lock<Shelves>,
    /// A shelf may have more hot stacks than it is to keep: a hint. Set in the section that puts one too many there;
    /// who takes some out clears it before the section in which it looks, so that what comes later sets it again. Where
    /// all of a shelf is promised elsewhere nothing can be taken out, and the next stack that comes back sets it. On a
    /// line of its own: whoever is out of work reads it.
    crowded: CachePadded<AtomicBool>,
}

/// Every mapping of the pool.
#[derive(Debug)]
struct Slabs {
    slabs: Vec<Slab>,
    /// Number of stacks in them, by class.
    mapped: [usize; Class::COUNT],
}

/// See the module.
///
/// Aligned so that its address has room for a class (`Origin`).
#[derive(Debug)]
#[repr(align(32))]
pub(super) struct Pool {
    llcs: Box<[CachePadded<OfLlc>]>,
    /// Held while a slab is mapped. No shelf's lock is held when it is taken.
    slabs: Mutex<Slabs>,
    guarding: Guarding,
    /// N2: after the handle is gone, the number of promises that have not ended; before, minus those that ended early.
    left: AtomicUsize,
    /// For models: touched for each promise, and by the handle, ended before it is freed.
    life: Life,
    /// Tells a test when the pool is freed.
    #[cfg(test)]
    pub(super) witness: std::sync::Arc<()>,
}

impl Pool {
    pub(super) fn new(llcs: usize, guarding: Guarding) -> Self {
        let shelves = || Shelves {
            classes: std::array::from_fn(|_| Shelf::default()),
            closed: false,
            depth_max: 0,
        };
        Self {
            llcs: (0..llcs.max(1))
                .map(|_| {
                    CachePadded::new(OfLlc {
                        shelves: Lock::new(shelves()),
                        crowded: CachePadded::new(AtomicBool::new(false)),
                    })
                })
                .collect(),
            slabs: Mutex::new(Slabs {
                slabs: Vec::new(),
                mapped: [0; Class::COUNT],
            }),
            guarding,
            left: AtomicUsize::new(0),
            life: Life::new(),
            #[cfg(test)]
            witness: std::sync::Arc::default(),
        }
    }

    /// Runs `section` on the shelves of an LLC; a number beyond the last means one of those there are.
    #[inline]
    fn with<R>(&self, llc: usize, section: impl FnOnce(&mut Shelves) -> R) -> R {
        self.shelves_of(llc).with(section)
    }

    #[inline]
    fn shelves_of(&self, llc: usize) -> &Lock<Shelves> {
        &self.llcs[self.shelf_of(llc)].shelves
    }

    /// Makes a promise in `llc`.
    ///
    /// # Errors
    ///
    /// There is no free stack, and none can be mapped.
    #[inline]
    pub(super) fn reserve(&self, llc: usize, class: Class) -> io::Result<()> {
        if self.with(llc, |shelves| shelves.classes[class.index()].promise()) {
            return Ok(());
        }
        self.reserve_elsewhere(llc, class)
    }

    #[cold]
    fn reserve_elsewhere(&self, llc: usize, class: Class) -> io::Result<()> {
        if self.borrow_credit(llc, class) {
            return Ok(());
        }
        let mut slabs = self.slabs.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Whoever held the lock may have mapped enough for both.
        let promised = self.with(llc, |shelves| shelves.classes[class.index()].promise());
        if promised || self.borrow_credit(llc, class) {
            return Ok(());
        }
        let stacks = slabs.map(class, self.guarding)?;
        self.with(llc, |shelves| {
            let shelf = &mut shelves.classes[class.index()];
            shelf.put_cold(&stacks);
            shelf.add_credit(stacks.len() - 1);
        });
        Ok(())
    }

    /// Moves credit from the next LLC that has some to `llc` and makes a promise of it. False if there is none.
    fn borrow_credit(&self, llc: usize, class: Class) -> bool {
        for other in 1..self.llcs.len() {
            let share = self.with(llc + other, |shelves| {
                shelves.classes[class.index()].share_credit(CREDIT_BATCH)
            });
            if share > 0 {
                stress::delay();
                self.with(llc, |shelves| shelves.classes[class.index()].add_credit(share - 1));
                return true;
            }
        }
        false
    }

    /// Takes the stack of a reservation: the newest of `llc`, else one of the next LLC that has one.
    #[inline]
    pub(super) fn take(&self, llc: usize, class: Class) -> StackBounds {
        match self.with(llc, |shelves| shelves.classes[class.index()].take()) {
            Some(stack) => stack,
            None => self.take_elsewhere(llc, class),
        }
    }

    #[cold]
    fn take_elsewhere(&self, llc: usize, class: Class) -> StackBounds {
        let mut step = 0;
        loop {
            for other in 1..=self.llcs.len() {
                let stack = self.with(llc + other, |shelves| shelves.classes[class.index()].take());
                if let Some(stack) = stack {
                    return stack;
                }
            }
            // N1: another thread took what we missed.
            relax(step);
            step = u32::saturating_add(step, 1);
        }
    }

    /// The deepest use seen, bytes; 0 if no stack was looked at or the system doesn't tell.
    pub(super) fn depth_max(&self) -> usize {
        let depths = (0..self.llcs.len()).map(|llc| self.with(llc, |shelves| shelves.depth_max));
        depths.max().unwrap_or(0)
    }

    /// Releases the pages of stacks that have been idle for a period, of at most some batches a class and LLC. True:
    /// there are more.
    pub(super) fn trim(&self, now_ns: u64) -> bool {
        let mut more = false;
        for llc in 0..self.llcs.len() {
            for class in Class::all() {
                more |= (0..TRIM_BATCHES).all(|_| self.release_some(llc, class, |shelf| shelf.take_stale(now_ns)));
            }
        }
        more
    }

    /// Releases the pages of all stacks that are not promised.
    pub(super) fn release_idle(&self) {
        for llc in 0..self.llcs.len() {
            for class in Class::all() {
                while self.release_some(llc, class, Shelf::take_hot) {}
            }
        }
    }

    /// Whether an LLC may have too many hot stacks.
    #[inline]
    pub(super) fn is_crowded(&self, llc: usize) -> bool {
        // Ordering: Relaxed; a hint: who misses it leaves it to the next who is out of work.
        self.llcs[self.shelf_of(llc)].crowded.load(Ordering::Relaxed)
    }

    fn set_crowded(&self, llc: usize, yes: bool) {
        // Read before: it stays set while stacks come back, and others have the line.
        if self.is_crowded(llc) != yes {
            // Ordering: Relaxed; as above.
            self.llcs[self.shelf_of(llc)].crowded.store(yes, Ordering::Relaxed);
        }
    }

    /// Releases the pages of a batch of what an LLC has too much.
    #[cold]
    pub(super) fn release_crowd(&self, llc: usize) {
        // Who adds more from now on sets it again.
        self.set_crowded(llc, false);
        if Class::all().any(|class| self.release_some(llc, class, Shelf::take_surplus)) {
            self.set_crowded(llc, true);
        }
    }

    /// Releases the pages of those stacks that `take` takes, at most a batch. False if there were none, or the shelf
    /// was closed.
    fn release_some(&self, llc: usize, class: Class, take: impl FnOnce(&mut Shelf) -> Vec<StackBounds>) -> bool {
        let mut taken = self.with(llc, |shelves| take(&mut shelves.classes[class.index()]));
        if taken.is_empty() {
            return false;
        }
        release(&mut taken);
        stress::delay();
        self.with(llc, |shelves| {
            if shelves.closed {
                // Never the last: the caller has a promise or the handle.
                // Ordering: AcqRel (N2 b); pairs with the others' and with (N2 a).
                self.left.fetch_sub(taken.len(), Ordering::AcqRel);
                return false;
            }
            let shelf = &mut shelves.classes[class.index()];
            shelf.put_cold(&taken);
            shelf.add_credit(taken.len());
            true
        })
    }

    /// Puts stacks that came back on their shelf, with their credit; for whoever has the handle, so that it is not
    /// closed.
    pub(super) fn put(&self, llc: usize, class: Class, stacks: impl Iterator<Item = StackBounds>) {
        self.with_shelf(llc, class, |shelf| {
            self.shelve(llc, shelf, stacks);
        });
    }

    /// In the section of a shelf: puts stacks there.
    #[inline]
    fn shelve(&self, llc: usize, shelf: &mut Shelf, stacks: impl IntoIterator<Item = StackBounds>) {
        stacks.into_iter().for_each(|stack| shelf.put(stack));
        if shelf.is_crowded() {
            self.set_crowded(llc, true);
        }
    }

    /// The number of a shelf for an LLC: its own, or one of those there are.
    #[inline]
    pub(super) fn shelf_of(&self, llc: usize) -> usize {
        if llc < self.llcs.len() {
            llc
        } else {
            llc % self.llcs.len()
        }
    }

    /// Runs `f` on the shelf of a class in an LLC, for whoever has the handle, so that it is not closed.
    #[inline]
    pub(super) fn with_shelf<R>(&self, llc: usize, class: Class, f: impl FnOnce(&mut Shelf) -> R) -> R {
        self.with(llc, |shelves| f(&mut shelves.classes[class.index()]))
    }
}

impl Slabs {
    /// Maps one more slab of `class`; fewer stacks if there is not enough memory for many.
    fn map(&mut self, class: Class, guarding: Guarding) -> io::Result<Vec<StackBounds>> {
        let mapped = self.mapped[class.index()];
        let mut count = class.slab_stacks(mapped);
        loop {
            match Slab::map(class, count, mapped, guarding) {
                Ok(slab) => {
                    let stacks = slab.stacks().collect();
                    self.mapped[class.index()] += count;
                    self.slabs.push(slab);
                    return Ok(stacks);
                }
                Err(error) if count == 1 => return Err(error),
                Err(_) => count /= 2,
            }
        }
    }
}

/// Releases all pages of `stacks`, neighbours as one range.
fn release(stacks: &mut [StackBounds]) {
    stacks.sort_unstable_by_key(StackBounds::limit);
    let runs = stacks.chunk_by(|low, high| low.top() == high.lowest());
    let runs: Vec<_> = runs.map(|run| run[0].limit()..run[run.len() - 1].top()).collect();
    // SAFETY: whole pages of one or more slabs, which are mapped as long as the pool lives, and the shelf gave
    // these stacks to this thread alone. What is between them are their guards, which stay.
    unsafe { memory::release_all(&runs) };
}

/// How deep an idle stack was used, bytes; what is deeper than it may keep is released.
///
/// # Safety
///
/// The stack is the caller's, and nothing on it is used any more.
unsafe fn measure(stack: &StackBounds) -> usize {
    let Some(lowest) = memory::lowest_resident(stack.limit()..stack.top()) else {
        return 0;
    };
    let kept = stack.top().saturating_sub(DEPTH_KEPT).max(stack.limit());
    if lowest < kept {
        // SAFETY: whole pages, as `DEPTH_KEPT` and the bounds are multiples of the page size; the caller's contract.
        unsafe { memory::release(stack.limit()..kept) };
    }
    stack.base().saturating_sub(lowest)
}

/// Ends the promise of a stack that is out, and shelves it in `llc`.
///
/// # Safety
///
/// `stack` came from `take` of this pool and class, nothing on it is used any more, and this is done once.
#[inline]
pub(super) unsafe fn give_back(pool: NonNull<Pool>, llc: usize, class: Class, stack: StackBounds) {
    let section = |shelves: &mut Shelves| {
        let shelf = &mut shelves.classes[class.index()];
        if shelves.closed {
            End::Closed
        } else if shelf.is_due(&stack, LOOK_BYTES) {
            End::Due
        } else {
            // SAFETY: until the section is over, the promise of this stack keeps the pool (N2).
            unsafe { pool.as_ref() }.shelve(llc, shelf, [stack]);
            End::Done
        }
    };
    // SAFETY: as above.
    match unsafe { with_last(pool, llc, section) } {
        End::Done => {}
        // SAFETY: the promise has not ended, and is handed on.
        End::Closed => unsafe { end_closed(pool) },
        // SAFETY: the same, with the caller's contract.
        End::Due => unsafe { look_and_give_back(pool, llc, class, stack) },
    }
}

/// As [`Pool::with`], for a section that may end a promise. As soon as it is over another thread may free the pool:
/// until then there is no reference to it that outlasts the section but one to the lock, all of which lies in cells.
///
/// # Safety
///
/// The promise is the caller's, or ends in the section.
#[inline]
unsafe fn with_last<R>(pool: NonNull<Pool>, llc: usize, section: impl FnOnce(&mut Shelves) -> R) -> R {
    // SAFETY: the promise keeps the pool (N2).
    let this = unsafe { pool.as_ref() };
    this.life.touch();
    let lock = &raw const *this.shelves_of(llc);
    // SAFETY: as above, until the section has ended it.
    unsafe { &*lock }.with(section)
}

/// How far the end of a promise has come.
#[must_use]
enum End {
    /// Its credit is back; the pool may be gone.
    Done,
    /// Its shelf is closed: it is to be counted.
    Closed,
    /// Nothing has happened yet: it is time to look at what is idle.
    Due,
}

/// Looks at a stack that came back, how deep it was used, and for others that have been idle for long; then shelves it.
///
/// # Safety
///
/// That of [`give_back`].
#[cold]
pub(super) unsafe fn look_and_give_back(pool: NonNull<Pool>, llc: usize, class: Class, stack: StackBounds) {
    // SAFETY: the caller's contract.
    let depth = unsafe { measure(&stack) };
    let now = clock::nanos();
    // SAFETY: as in `give_back`; the promise ends in the section below.
    unsafe { pool.as_ref() }.release_some(llc, class, |shelf| shelf.take_stale(now));
    let section = |shelves: &mut Shelves| {
        shelves.depth_max = shelves.depth_max.max(depth);
        if shelves.closed {
            return End::Closed;
        }
        // SAFETY: as above; the section is not over.
        unsafe { pool.as_ref() }.shelve(llc, &mut shelves.classes[class.index()], [stack]);
        End::Done
    };
    // SAFETY: as above.
    if let End::Closed = unsafe { with_last(pool, llc, section) } {
        // SAFETY: the promise has not ended, and is handed on.
        unsafe { end_closed(pool) };
    }
}

/// Ends the promise of a reservation that was not used. Its credit goes to the first LLC, from which others borrow.
///
/// # Safety
///
/// The promise is the caller's, and this is done once.
pub(super) unsafe fn cancel(pool: NonNull<Pool>, class: Class) {
    let section = |shelves: &mut Shelves| {
        if !shelves.closed {
            shelves.classes[class.index()].add_credit(1);
        }
        shelves.closed
    };
    // SAFETY: until it has ended, the promise keeps the pool (N2).
    if unsafe { with_last(pool, 0, section) } {
        // SAFETY: the promise has not ended, and is handed on.
        unsafe { end_closed(pool) };
    }
}

/// Ends a promise whose shelf is closed: step (b) of N2.
///
/// # Safety
///
/// The promise is the caller's, and this is done once.
#[cold]
unsafe fn end_closed(pool: NonNull<Pool>) {
    // SAFETY: the promise keeps the pool until this operation.
    let Pool { left, life, .. } = unsafe { pool.as_ref() };
    life.touch();
    stress::delay();
    // Ordering: AcqRel (N2 b); Release: what this thread did comes before the end of the pool, Acquire: if it is this
    // thread that ends it, it sees what the others did. Pairs with itself and with (N2 a).
    if left.fetch_sub(1, Ordering::AcqRel) == 1 {
        // SAFETY: this was the last promise, and the handle is gone, or `left` would have wrapped below 0 (N2).
        unsafe { free(pool) };
    }
}

/// The handle is gone: the pool ends when every promise has ended, perhaps now.
///
/// # Safety
///
/// The handle is the caller's, and this is done once.
pub(super) unsafe fn close(pool: NonNull<Pool>) {
    let is_last = {
        // SAFETY: until step (a), the handle keeps the pool: `left` can't be 1 before.
        let pool = unsafe { pool.as_ref() };
        let slabs = pool.slabs.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut promises: usize = slabs.mapped.iter().sum();
        drop(slabs);
        for llc in 0..pool.llcs.len() {
            pool.with(llc, |shelves| {
                shelves.closed = true;
                for shelf in &mut shelves.classes {
                    promises -= shelf.take_credit();
                }
            });
            stress::delay();
        }
        pool.life.touch();
        // Ordering: AcqRel (N2 a), as (N2 b) with which it pairs.
        let left = pool.left.fetch_add(promises, Ordering::AcqRel);
        left.wrapping_add(promises) == 0
    };
    if is_last {
        // SAFETY: every promise has ended, and the handle with this call.
        unsafe { free(pool) };
    }
}

/// Unmaps every stack.
///
/// # Safety
///
/// No promise is left, nor the handle; the pool came from a box.
unsafe fn free(pool: NonNull<Pool>) {
    // SAFETY: the caller's contract. A model's pool is freed as well: its stacks are real ones.
    let _may_be_freed = unsafe { pool.as_ref() }.life.end();
    // SAFETY: the caller's contract: nobody else has it any more.
    drop(unsafe { Box::from_raw(pool.as_ptr()) });
}
