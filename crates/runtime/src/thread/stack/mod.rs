//! The stacks of user-level threads.
//!
//! | module | is |
//! |---|---|
//! | `class` | sizes, and where guard, stack and colour lie |
//! | `origin` | which pool and class a stack is of |
//! | `slab` | many stacks in one mapping, each above its guard |
//! | `shelf` | idle stacks of a class in an LLC: which goes out next, which lose their pages |
//! | `pool` | shelves under locks: promises (N1), and when all is unmapped (N2) |
//! | `kept` | what a worker keeps off its shelf, so that it need not lock it each time |
//! | `overflow` | the report when a thread runs into its guard |
//!
//! # The life of a stack
//!
//! ```text
//!             reserve                    take                       give_back
//!   spawn ───────────────► Reservation ─────────► Stack (a thread's) ───────────► idle, in its LLC
//!      │  Err: no memory        │    first run                                      │
//!      ▼                        └──── dropped: another may have it ◄───────────────┘ newest first
//!   Builder::spawn fails
//! ```
//!
//! Spawning only reserves: a number goes down, and if there are not enough stacks for all threads, a slab is mapped,
//! which may fail. The stack itself is taken at the first run, so that it is one that this LLC used last, and a million
//! threads that have not begun to run need no memory for stacks. Taking never fails.
//!
//! # What it costs
//!
//! On a worker mostly a few loads and stores: it keeps up to 32 idle stacks of the default size, and as much credit
//! (`kept`). Elsewhere, and for other sizes, an enter and a leave of the LLC's lock each for reserve, take and give
//! back: one read-modify-write and one store, on a line that stays in the LLC. Nothing is counted across LLCs. A new
//! slab costs the spawn that needs it a system call for all of its up to 256 guards (one each before Linux 6.13), some
//! 120 us, while other spawns that need one wait. The first touch of a page is a fault.
//!
//! # What stays in memory
//!
//! A stack takes up the pages that it touched, at least one. Metadata is elsewhere: 8 bytes a stack, and 16 to 32 more
//! while it is idle. Page tables, which RSS does not count, take about 530 bytes for a stack of 256 KiB.
//!
//! An idle stack keeps its pages for the next thread: all of them, for most threads of a program go equally deep. They
//! go back to the system when it has been idle for a period of 1 s or more, which is looked at when stacks of 64 MiB in
//! all have come back to a worker, or to a shelf, and once a second by a worker; each look also measures the stack that
//! came back, and leaves it the topmost 64 KiB. Those beyond 16,384 idle ones of an LLC and class, and a batch, lose
//! them as soon as a worker of the LLC is out of work: 256 at a time, or 64 MiB, after which it looks for work again.
//! So a crowd of threads that ends holds up nobody, and a process that is idle keeps at most so many. A worker that
//! sleeps keeps none, one that is busy none that it did not use for a second. Address space stays until the runtime has
//! ended.
//!
//! # Tools
//!
//! - valgrind knows each stack (`VALGRIND_STACK_REGISTER`), for as long as it is mapped.
//! - AddressSanitizer is told of every switch with the feature `sanitizer` (corosensei's hooks). Its own handler of
//!   faults stays behind ours, and an overflow is reported by ours.
//! - gdb's backtraces go from a thread's stack to the worker that runs it (corosensei's unwind tables).
//! - Miri can't switch stacks; what it can run of this module is `class` and `shelf`.
//!
//! **Boundary:** no module beside this one maps, guards or unmaps stacks.

mod class;
mod kept;
#[cfg(all(test, quadrille_loom))]
mod loom;
mod origin;
mod overflow;
mod pool;
mod shelf;
mod slab;
#[cfg(all(test, not(quadrille_loom)))]
mod tests;

use std::fmt;
use std::io;
use std::ptr::NonNull;

use corosensei::stack::StackPointer;

pub(crate) use class::{DEFAULT_SIZE, StackBounds};
pub(crate) use kept::Kept;
pub(crate) use overflow::{Occupant, enter, leave};

use crate::primitives::{AtomicU64, Ordering};
use class::Class;
use origin::Origin;
use pool::Pool;
use slab::Guarding;

/// The stacks of a runtime.
///
/// Dropping it unmaps them as soon as none is in use or reserved: those that are outlive it.
pub(crate) struct Stacks {
    /// From a box; freed by N2. This is the handle, of which there is one.
    pool: NonNull<Pool>,
    /// The size of a stack whose thread asks for none, bytes. Has a class.
    default_size: usize,
    /// When the next `trim` is due, ns.
    trim_at: AtomicU64,
}

/// Whether there are stacks of `size` bytes.
///
/// # Errors
///
/// `InvalidInput` if there are none, and what the largest is.
pub(crate) fn check_size(size: usize) -> io::Result<()> {
    Class::of(size).map(drop)
}

/// How often pages of idle stacks are looked for, ns: 1 s.
const TRIM_EVERY_NS: u64 = 1_000_000_000;

/// The same while there are more, ns: 2 ms.
const TRIM_AGAIN_NS: u64 = 2_000_000;

// SAFETY: a `Pool` is `Send` and `Sync` (asserted below); N2 says which thread frees it, and that others are done then.
unsafe impl Send for Stacks {}
// SAFETY: as above; `&Stacks` gives `&Pool`.
unsafe impl Sync for Stacks {}

const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Pool>();
};

impl Stacks {
    /// No stacks yet, for a runtime on `llcs` last-level caches whose threads have `default_size` bytes unless they ask
    /// for others.
    ///
    /// # Panics
    ///
    /// If no class has that size ([`check_size`]).
    pub(crate) fn with_default(llcs: usize, default_size: usize) -> Self {
        check_size(default_size).expect("the size was checked");
        let mut stacks = Self::with_guarding(llcs, Guarding::default());
        stacks.default_size = default_size;
        stacks
    }

    #[cfg(test)]
    fn new(llcs: usize) -> Self {
        Self::with_guarding(llcs, Guarding::default())
    }

    fn with_guarding(llcs: usize, guarding: Guarding) -> Self {
        let pool = Box::leak(Box::new(Pool::new(llcs, guarding)));
        Self {
            pool: NonNull::from(pool),
            default_size: DEFAULT_SIZE,
            trim_at: AtomicU64::new(0),
        }
    }

    /// The size of a stack whose thread asks for none, bytes.
    #[inline]
    pub(crate) fn default_size(&self) -> usize {
        self.default_size
    }

    fn pool(&self) -> &Pool {
        // SAFETY: the handle keeps the pool until it is dropped (N2); it is never borrowed mutably before its end.
        unsafe { self.pool.as_ref() }
    }

    /// Makes sure that there will be a stack of at least `size` bytes (0: the smallest, 16 KiB) for a thread that is
    /// spawned in `llc`.
    ///
    /// # Errors
    ///
    /// - `InvalidInput`: `size` is larger than the largest class, 1 GiB.
    /// - `OutOfMemory`, or what the system says (what other workers keep, up to 64 stacks each while they are awake,
    ///   does not help): no memory, no address space, or, where guards need mappings of their own, more of those than
    ///   `vm.max_map_count` allows for.
    pub(crate) fn reserve(&self, llc: usize, size: usize) -> io::Result<Reservation> {
        let class = Class::of(size)?;
        let pool = self.pool();
        pool.reserve(pool.shelf_of(llc), class)?;
        Ok(Reservation(Origin::new(self.pool, class)))
    }

    /// For workers that look up: once a second, for whoever comes first, [`trim`](Self::trim). `now_ns` is the time of
    /// the clock. Otherwise a load of a line that is written once a second, or each 2 ms while there is more to do.
    #[inline]
    pub(crate) fn tick(&self, now_ns: u64) {
        // Ordering: Relaxed; nothing is handed over, and the exchange decides who trims.
        let due = self.trim_at.load(Ordering::Relaxed);
        if now_ns < due {
            return;
        }
        let next = now_ns.saturating_add(TRIM_EVERY_NS);
        // Ordering: Relaxed; as above.
        let ours = self
            .trim_at
            .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed);
        if ours.is_ok() && self.trim(now_ns) {
            // Ordering: Relaxed; as above.
            self.trim_at
                .store(now_ns.saturating_add(TRIM_AGAIN_NS), Ordering::Relaxed);
        }
    }

    /// Gives the pages of stacks back to the system that have been idle for a period: a second, or since the last call,
    /// if that is longer; of at most 1,024 a class and LLC. True: there are more. A call costs a lock an LLC and class.
    fn trim(&self, now_ns: u64) -> bool {
        self.pool().trim(now_ns)
    }

    /// Gives the pages of all idle stacks back to the system: no worker is left to do it, and the address space stays
    /// for as long as somebody has a `Handle`.
    pub(crate) fn release_idle(&self) {
        self.pool().release_idle();
    }

    /// How deep stacks are used, bytes: the maximum over those that were measured, of 256 KiB every 254th. 0: none
    /// was, or the system can't tell.
    pub(crate) fn depth_max(&self) -> usize {
        self.pool().depth_max()
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        // SAFETY: this is the handle, and it is dropped once.
        unsafe { pool::close(self.pool) };
    }
}

impl fmt::Debug for Stacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stacks")
            .field("depth_max", &self.depth_max())
            .finish_non_exhaustive()
    }
}

/// The promise of a stack. Dropping it gives the promise back.
///
/// The pool is kept by this promise (N2).
#[derive(Debug)]
pub(crate) struct Reservation(Origin);

// SAFETY: as `Stacks`; a promise may end on any thread.
unsafe impl Send for Reservation {}
// SAFETY: `&Reservation` gives a number.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Bytes of the stack that there will be.
    #[cfg(all(test, not(quadrille_loom)))]
    pub(crate) fn size(&self) -> usize {
        self.0.class().size()
    }

    /// Takes a stack, for a thread that begins to run in `llc`. Never fails (N1).
    #[inline(always)]
    pub(crate) fn take(self, llc: usize) -> Stack {
        let origin = self.0;
        Stack {
            origin,
            bounds: self.take_bounds(llc),
        }
    }

    /// Where that is: the promise is that of the `Stack` which the caller makes of it.
    #[inline(never)]
    fn take_bounds(self, llc: usize) -> StackBounds {
        let Self(origin) = *std::mem::ManuallyDrop::new(self);
        // SAFETY: the promise keeps the pool.
        let pool = unsafe { origin.pool().as_ref() };
        pool.take(pool.shelf_of(llc), origin.class())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: the promise is ours and ends here; `take_bounds` does not come here.
        unsafe { pool::cancel(self.0.pool(), self.0.class()) };
    }
}

/// A stack in use. Dropping it gives it back, to the first LLC.
#[derive(Debug)]
pub(crate) struct Stack {
    /// The pool is kept by this stack's promise (N2).
    origin: Origin,
    bounds: StackBounds,
}

// SAFETY: as `Stacks`. The memory belongs to whoever has the `Stack`; what lies on it is the coroutine's affair.
unsafe impl Send for Stack {}
// SAFETY: `&Stack` gives numbers.
unsafe impl Sync for Stack {}

impl Stack {
    /// Gives the stack back, to `llc`: where its thread ran last.
    pub(crate) fn give_back(self, llc: usize) {
        let (origin, bounds) = self.into_parts();
        // SAFETY: the promise of this stack keeps the pool.
        let llc = unsafe { origin.pool().as_ref() }.shelf_of(llc);
        // SAFETY: as in `drop`, which does not follow.
        unsafe { pool::give_back(origin.pool(), llc, origin.class(), bounds) };
    }

    /// Where it is.
    pub(crate) fn bounds(&self) -> StackBounds {
        self.bounds
    }

    /// The stack for a coroutine to run on. A coroutine that had the stack itself would have to be moved at its end, to
    /// give it back.
    ///
    /// # Safety
    /// - At most one coroutine is on the stack at a time;
    /// - it, and what is returned here, is dropped before the stack is dropped or given back.
    pub(crate) unsafe fn lend(&self) -> Lent {
        Lent(self.bounds)
    }

    /// Gives it back as [`give_back`](Self::give_back) does, and looks how deep it was used.
    fn look_and_give_back(self, llc: usize) {
        let (origin, bounds) = self.into_parts();
        // SAFETY: the promise of this stack keeps the pool.
        let llc = unsafe { origin.pool().as_ref() }.shelf_of(llc);
        // SAFETY: as in `drop`, which does not follow.
        unsafe { pool::look_and_give_back(origin.pool(), llc, origin.class(), bounds) };
    }

    /// What it was; its promise is the caller's.
    fn into_parts(self) -> (Origin, StackBounds) {
        let this = std::mem::ManuallyDrop::new(self);
        (this.origin, this.bounds)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: `bounds` came from `take` with this class, and is given back once, here. Nothing on the stack is used
        // any more: the coroutine was dropped before (`lend`), when it had ended or by being unwound (corosensei).
        unsafe { pool::give_back(self.origin.pool(), 0, self.origin.class(), self.bounds) };
    }
}

/// What a coroutine knows of its stack: where it is.
#[derive(Debug)]
pub(crate) struct Lent(StackBounds);

// SAFETY: `Stack` wants a guard page and `MIN_STACK_SIZE` (4 KiB) of memory: every stack of a slab lies above its
// guard, or the slab would not have been made (`Slab::map`), and the smallest class has 16 KiB. The memory stays at its
// address, and mapped and nobody else's, until the stack is dropped or given back (N2), which is after this has been
// dropped (`lend`). `base` is a multiple of 64, `lowest` of the page size.
unsafe impl corosensei::stack::Stack for Lent {
    #[inline]
    fn base(&self) -> StackPointer {
        StackPointer::new(self.0.base()).expect("above its guard")
    }

    /// Includes the guard, as the trait asks.
    #[inline]
    fn limit(&self) -> StackPointer {
        StackPointer::new(self.0.lowest()).expect("nothing is mapped at address 0")
    }
}
