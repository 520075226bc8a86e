//! What a worker keeps of its LLC's stacks for itself, so that most threads begin and end without the shelf's lock.
//!
//! Two things, and both are parts of the account in `pool`. *Kept credit* is credit that has moved from the shelf to
//! the worker: it makes promises of it. A *kept stack* is one that has come back, with the credit that its promise had:
//! neither is on the shelf. Who begins a thread on a kept stack keeps that credit, and leaves the one that the
//! reservation stood for on the shelf.
//!
//! A worker has at most [`MAX`] of each. Credit comes [`BATCH`] at a time, stacks as threads of this worker end; what
//! is too much goes back [`BATCH`] at a time, what was of no use for a period of the pool's at its end, and all of it
//! before the worker sleeps. So a thread that is spawned, runs and ends on one worker takes no lock of the pool's, but
//! for one in 254 of which the stack is looked at, and has the stack that this very worker used last.

use std::cell::{Cell, RefCell};
use std::io;

use super::class::{Class, StackBounds};
use super::origin::Origin;
use super::pool::{LOOK_BYTES, Pool};
use super::{Reservation, Stack, Stacks, TRIM_EVERY_NS};

/// Most stacks, and most credit, that a worker keeps: of 256 KiB 8 MiB of address space each.
const MAX: usize = if cfg!(quadrille_loom) { 2 } else { 32 };

/// How many move between a worker and its shelf at a time.
const BATCH: usize = MAX / 2;

/// See the module. Of one class, that of the default size.
#[derive(Debug)]
pub(crate) struct Kept {
    /// What it keeps is of this one.
    origin: Origin,
    llc: usize,
    credit: Cell<usize>,
    stacks: RefCell<Vec<StackBounds>>,
    /// The oldest so many stacks have not been used since the period began.
    quiet: Cell<usize>,
    /// When the period ends, ns.
    tick_at: Cell<u64>,
    /// Bytes of stacks that came back since one was looked at.
    unseen: Cell<usize>,
}

impl Kept {
    /// Nothing yet, for a worker of `llc`.
    ///
    /// # Safety
    /// It is dropped before `stacks`.
    pub(crate) unsafe fn new(stacks: &Stacks, llc: usize) -> Self {
        // SAFETY: passed on.
        unsafe { Self::of(stacks, llc, stacks.default_size()) }
    }

    /// The same for stacks of another size.
    ///
    /// # Safety
    /// As for `new`.
    pub(super) unsafe fn of(stacks: &Stacks, llc: usize, size: usize) -> Self {
        let class = Class::of(size).expect("a size that has a class");
        Self {
            origin: Origin::new(stacks.pool, class),
            llc: stacks.pool().shelf_of(llc),
            credit: Cell::new(0),
            stacks: RefCell::new(Vec::new()),
            quiet: Cell::new(0),
            tick_at: Cell::new(0),
            unseen: Cell::new(0),
        }
    }

    fn pool(&self) -> &Pool {
        // SAFETY: the handle is there as long as we are (`new`), and keeps the pool (N2).
        unsafe { self.origin.pool().as_ref() }
    }

    /// As [`Stacks::reserve`], for a thread that is spawned by this worker.
    ///
    /// Inlined, as `take` is: an `io::Result` and a stack are some words, which the caller would copy in other pieces
    /// than they are returned in.
    ///
    /// # Errors
    /// As that.
    #[inline(always)]
    pub(crate) fn reserve(&self, size: usize) -> io::Result<Reservation> {
        let class = Class::of(size)?;
        if class != self.origin.class() {
            self.pool().reserve(self.llc, class)?;
            return Ok(Reservation(Origin::new(self.origin.pool(), class)));
        }
        if !self.spend() {
            self.pool().reserve(self.llc, class)?;
        }
        Ok(Reservation(self.origin))
    }

    /// Makes a promise of kept credit, or of some that comes from the shelf. False if there is none.
    #[inline]
    fn spend(&self) -> bool {
        if self.credit.get() == 0 {
            self.fetch_credit();
        }
        let any = self.credit.get() > 0;
        self.credit.set(self.credit.get() - usize::from(any));
        any
    }

    #[cold]
    fn fetch_credit(&self) {
        let share = || {
            self.pool()
                .with_shelf(self.llc, self.origin.class(), |shelf| shelf.share_credit(BATCH))
        };
        self.credit.set(share());
        if self.credit.get() == 0 && !self.stacks.borrow().is_empty() {
            // Rather than have more mapped: what is kept here has credit, too, but only together with its stack.
            self.put_back();
            self.credit.set(share());
        }
    }

    /// Takes the stack of a reservation, for a thread that begins to run on this worker. Never fails (N1).
    ///
    /// Where it is comes in two registers either way: a stack that a call returned would lie in memory, and be copied
    /// from there.
    #[inline(always)]
    pub(crate) fn take(&self, reservation: Reservation) -> Stack {
        let kept = if reservation.0 == self.origin { self.pop() } else { None };
        let Some(bounds) = kept else {
            return reservation.take(self.llc);
        };
        // It has the promise of the kept stack, whose credit we keep; the reservation's own is left where its stack is.
        std::mem::forget(reservation);
        self.keep_credit();
        Stack {
            origin: self.origin,
            bounds,
        }
    }

    /// The stack that was kept last.
    #[inline(always)]
    fn pop(&self) -> Option<StackBounds> {
        let mut stacks = self.stacks.borrow_mut();
        let bounds = stacks.pop()?;
        self.quiet.set(self.quiet.get().min(stacks.len()));
        Some(bounds)
    }

    /// Keeps the promise of a stack that took another one's.
    #[inline(always)]
    fn keep_credit(&self) {
        self.credit.set(self.credit.get() + 1);
        if self.credit.get() > MAX {
            self.return_credit(BATCH);
        }
    }

    /// Takes a stack back from a thread that ran on this worker last.
    #[inline]
    pub(crate) fn give_back(&self, stack: Stack) {
        if stack.origin != self.origin {
            return stack.give_back(self.llc);
        }
        let unseen = self.unseen.get() + stack.bounds.size();
        self.unseen.set(unseen);
        if unseen >= LOOK_BYTES {
            self.unseen.set(0);
            return stack.look_and_give_back(self.llc);
        }
        let (_, bounds) = stack.into_parts();
        let mut stacks = self.stacks.borrow_mut();
        stacks.push(bounds);
        if stacks.len() > MAX {
            // The oldest.
            self.put(stacks.drain(..BATCH));
            self.quiet.set(self.quiet.get().saturating_sub(BATCH));
        }
    }

    /// For a worker that looks up: once a second, what was of no use since then goes back to the shelf, and half of the
    /// credit. `now_ns` is the time of the clock.
    #[inline]
    pub(crate) fn tick(&self, now_ns: u64) {
        if now_ns >= self.tick_at.get() {
            self.tick_at.set(now_ns.saturating_add(TRIM_EVERY_NS));
            self.put_quiet();
        }
    }

    #[cold]
    fn put_quiet(&self) {
        let mut stacks = self.stacks.borrow_mut();
        let quiet = self.quiet.get().min(stacks.len());
        self.put(stacks.drain(..quiet));
        self.quiet.set(stacks.len());
        drop(stacks);
        self.return_credit(self.credit.get() / 2);
    }

    /// Everything goes back to the shelf.
    #[inline]
    pub(crate) fn put_back(&self) {
        if self.credit.get() > 0 {
            self.return_credit(self.credit.get());
        }
        let mut stacks = self.stacks.borrow_mut();
        if !stacks.is_empty() {
            self.put(stacks.drain(..));
            self.quiet.set(0);
        }
    }

    fn return_credit(&self, count: usize) {
        self.credit.set(self.credit.get() - count);
        self.pool()
            .with_shelf(self.llc, self.origin.class(), |shelf| shelf.add_credit(count));
    }

    /// Puts stacks on the shelf, with their credit.
    fn put(&self, stacks: impl Iterator<Item = StackBounds>) {
        self.pool().put(self.llc, self.origin.class(), stacks);
    }

    /// Whether its LLC may have too many idle stacks that take up memory.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.pool().is_crowded(self.llc)
    }

    /// For a worker that is out of work: gives the pages of at most 256 of those back to the system, which takes some
    /// 100 us if they have touched a page each.
    pub(crate) fn release_crowd(&self) {
        self.pool().release_crowd(self.llc);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.put_back();
    }
}
