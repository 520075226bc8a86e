//! The lock below `Mutex` and `RwLock`: exclusive or shared, for threads and tasks.
//!
//! # The word
//!
//! | bit | means | set | cleared |
//! |---|---|---|---|
//! | `HELD` | somebody has it alone | by taking it | by its release |
//! | `QUEUED` | somebody is in the list; whoever releases the lock must look there | in a section, before the last attempt | in a section that finds the list empty |
//! | `RESERVED` | one waiter was passed too often: nobody else takes the lock | in its section | by its taking, or its leaving |
//! | the rest | how many share it, in steps of `READER` | by taking it | by its release |
//!
//! The list is guarded by a short lock; what runs under it is a *section*, and calls no user code. Only told waiters
//! and sections are needed where somebody waits: otherwise taking is one compare-exchange and releasing one
//! subtraction.
//!
//! # The protocol
//!
//! A waiter, in one section:
//!
//! 1. (M a) sets `QUEUED`;
//! 2. (M b) attempts to take the lock; if that succeeds it leaves the list, and settles;
//! 3. else enters the list: at the back, or at the front if it was told and came too late.
//!
//! Whoever releases the lock, or goes on as a reader: (M c) subtracts its part. If the lock may have become free and
//! `QUEUED` was set, it enters a section and *settles*: if the lock is free for the first in the list, and nobody who
//! was told is yet to come (there is one *token*, see `sync::waiters`), it tells the first. The lock is not handed
//! over: whoever runs may take it meanwhile. A reader that takes it settles too, and so tells the next reader.
//!
//! # Theorem M
//!
//! **M1, mutual exclusion.** While one holds the lock alone nobody else holds it. All changes of holders are
//! read-modify-writes of one word, and `taken` allows no other. (M d) The release is Release and the taking Acquire, so
//! who holds it sees what those before did.
//!
//! **M2, no lost wake-up.** Whenever no section runs and the first in the list could have the lock, a told waiter is
//! yet to come, or a releaser that saw `QUEUED` is yet to enter its section. Proof. What makes the lock free for the
//! first is a release, a change of who is first, or the end of a reservation. The last two happen in sections that
//! settle, but for step 3: there (b) has just failed for the one that becomes the first, because the lock is held, or
//! because it is reserved, and then who reserved it is the first already or told: it was put in front, and only who was
//! told is put in front. For a release: the waiter's (a) and the release (c) are read-modify-writes of one word. If (c)
//! comes first, (b), which is later than (a), sees it and succeeds. If (a) comes first, (c) sees `QUEUED`, which stays
//! until a section finds the list empty; the releaser's section comes after the waiter's and finds it in the list. The
//! losing interleaving, if (b) came before (a):
//!
//! ```text
//! waiter                          holder
//! (b) fails, the lock is held
//!                                 (c) QUEUED is not set: nothing to do
//! (a), enters the list            the lock is free and nobody will tell
//! ```
//!
//! A told waiter that is dropped settles, so the next is told (`Drop` of `Locking`).
//!
//! **M3, bounded passing.** A waiter that was told and came too late [`VAIN_MAX`] times reserves the lock: it is the
//! first, and nobody else takes the lock until it did or gave up. So a waiter is passed by whoever runs during four
//! wake-ups, and by those who came before it. Readers do not pass anybody in the list, so that those who overlap end.
//! No convoy: as long as waiters get the lock at all within that, a running thread takes a free lock at once, and the
//! lock is never kept for somebody who sleeps.
//!
//! # Rejected
//!
//! - *Handing the lock over at each release*: every release then costs a switch, and all that runs queues up (a
//!   convoy).
//! - *A limit in time* (parking_lot's 0.5 ms): a clock in the release, and another bound on each machine. Four wake-ups
//!   are counted by the waiter itself and can be model-checked.
//! - *Spinning before waiting*: the holder may be a suspended thread of this very worker.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::coop;
use crate::primitives::{AtomicUsize, Ordering, const_fn};
use crate::sync::lock::Lock as Guarded;
use crate::sync::waiters::{Wait, Waiter, Waiters};

const HELD: usize = 1;
const QUEUED: usize = 2;
const RESERVED: usize = 4;
const READER: usize = 8;

/// More would leak into nowhere: each is a guard somewhere in memory, or forgotten.
const READERS_MAX: usize = usize::MAX / 2;

/// How often a waiter comes too late before it reserves the lock.
const VAIN_MAX: u8 = if cfg!(quadrille_loom) { 1 } else { 4 };

/// How somebody wants the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Exclusive,
    Shared,
}

/// By which right somebody takes the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It has just come, or was not told: a reader does not pass those who wait.
    Passing,
    /// It was told, or nobody is in the list.
    Told,
    /// It has reserved the lock.
    Reserving,
}

/// The word after the lock was taken, if it may be.
fn taken(word: usize, access: Access, standing: Standing) -> Option<usize> {
    let barred = match standing {
        Standing::Reserving => 0,
        Standing::Told => RESERVED,
        Standing::Passing if access == Access::Shared => RESERVED | QUEUED,
        Standing::Passing => RESERVED,
    };
    if word & barred != 0 || !is_free(word, access) {
        return None;
    }
    let cleared = match standing {
        Standing::Reserving => word & !RESERVED,
        Standing::Told | Standing::Passing => word,
    };
    Some(match access {
        Access::Exclusive => cleared | HELD,
        Access::Shared => cleared + READER,
    })
}

/// Whether nobody has the lock who excludes `access`.
fn is_free(word: usize, access: Access) -> bool {
    match access {
        Access::Exclusive => word & HELD == 0 && word < READER,
        Access::Shared => word & HELD == 0,
    }
}

#[derive(Debug)]
pub(super) struct RawLock {
    /// Labels M a to M d.
    word: AtomicUsize,
    waiters: Guarded<Waiters>,
}

impl RawLock {
    const_fn! {
        pub(super) fn new() -> Self {
            Self {
                word: AtomicUsize::new(0),
                waiters: Guarded::new(Waiters::new()),
            }
        }
    }

    /// Takes the lock if that is possible at once.
    #[inline]
    pub(super) fn try_acquire(&self, access: Access) -> bool {
        let first = match access {
            Access::Exclusive => HELD,
            Access::Shared => READER,
        };
        // Ordering: Acquire (M d); what earlier holders did happens before. Relaxed on failure, which reads nothing.
        let fast = self
            .word
            .compare_exchange(0, first, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        fast || self.take(access, Standing::Passing)
    }

    /// Waits for the lock. Whoever gets it owes a [`release`](Self::release).
    pub(super) fn acquire(&self, access: Access) -> Locking<'_> {
        Locking {
            lock: self,
            access,
            waiter: None,
            vain_count: 0,
            reserves: false,
        }
    }

    /// Gives the lock back. For its holder, once.
    #[inline]
    pub(super) fn release(&self, access: Access) {
        // Ordering: Release (M d); pairs with the Acquire of whoever takes it next. (M c)
        let looks = match access {
            Access::Exclusive => self.word.fetch_sub(HELD, Ordering::Release) & QUEUED != 0,
            Access::Shared => {
                // Ordering: as above.
                let before = self.word.fetch_sub(READER, Ordering::Release);
                before & QUEUED != 0 && before < 2 * READER
            }
        };
        if looks {
            self.tell();
        }
    }

    /// Keeps sharing the lock, which its caller has alone.
    pub(super) fn downgrade(&self) {
        // Ordering: Release (M d), as in `release`: readers that come now see what the writer did. (M c)
        let before = self.word.fetch_add(READER - HELD, Ordering::Release);
        if before & QUEUED != 0 {
            self.tell();
        }
    }

    #[cold]
    fn tell(&self) {
        // SAFETY: A1, inside the section; A2, `Locking` sees to it.
        let told = self.waiters.with(|waiters| unsafe { self.settle(waiters) });
        if let Some(waker) = told {
            waker.wake();
        }
    }

    fn take(&self, access: Access, standing: Standing) -> bool {
        // Ordering: Relaxed; a guess, which the exchange checks. In a section it is later than (M a), on the same word.
        let mut word = self.word.load(Ordering::Relaxed);
        while let Some(next) = taken(word, access, standing) {
            assert!(next < READERS_MAX, "too many readers of one lock");
            // Ordering: Acquire (M d), as in `try_acquire`.
            match self
                .word
                .compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Restores M2. The waker is to be called outside of the section.
    ///
    /// # Safety
    /// A1 and A2 of `waiters`.
    unsafe fn settle(&self, waiters: &mut Waiters) -> Option<Waker> {
        let mut told = None;
        if waiters.needs_notice() {
            // SAFETY: the caller's.
            let access = if unsafe { waiters.first_shares() } {
                Access::Shared
            } else {
                Access::Exclusive
            };
            // Ordering: Relaxed; not older than the caller's own release. Somebody who holds it now will see `QUEUED`
            // (M2).
            if is_free(self.word.load(Ordering::Relaxed), access) {
                // SAFETY: the caller's.
                told = unsafe { waiters.notify_first() };
            }
        }
        if waiters.is_empty() {
            // Ordering: Relaxed; sections order it with (M a).
            self.word.fetch_and(!QUEUED, Ordering::Relaxed);
        }
        told
    }
}

/// The future of a lock. Ready once; then the lock is the caller's.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub(super) struct Locking<'a> {
    lock: &'a RawLock,
    access: Access,
    /// From the first poll that must wait until the lock is taken.
    waiter: Option<Waiter>,
    /// How often it was told and came too late.
    vain_count: u8,
    /// It has set `RESERVED`, and nobody has cleared it.
    reserves: bool,
}

/// What one section ended with.
enum Step {
    /// The lock is ours; whom to wake, and a waker that is no longer needed.
    Taken(Option<Waker>, Option<Waker>),
    Waits(Wait),
}

impl Locking<'_> {
    /// One section. Waits with `current`, or takes the lock.
    ///
    /// # Safety
    /// A2 of `waiters`: once this has waited, `self` stays in place until it is dropped or the lock is taken.
    unsafe fn step(&mut self, current: &Waker, fresh: &mut Option<Waker>) -> Step {
        let (lock, access) = (self.lock, self.access);
        let waiter = &*self.waiter.get_or_insert_with(|| match access {
            Access::Exclusive => Waiter::new(),
            Access::Shared => Waiter::sharing(),
        });
        let (vain_count, reserves) = (&mut self.vain_count, &mut self.reserves);
        lock.waiters.with(|waiters| {
            // Ordering: Relaxed; (M a) before (M b), on one word.
            lock.word.fetch_or(QUEUED, Ordering::Relaxed);
            // SAFETY: A1, inside the section; A3, each waiter is used with its lock only.
            let was_told = unsafe { waiters.is_notified(waiter) };
            let standing = match *reserves {
                true => Standing::Reserving,
                false if was_told || waiters.is_empty() => Standing::Told,
                false => Standing::Passing,
            };
            if lock.take(access, standing) {
                *reserves = false;
                // SAFETY: A1 and A3, as above.
                let stale = unsafe { waiters.leave(waiter) };
                // SAFETY: A1, inside the section; A2, every caller's.
                return Step::Taken(unsafe { lock.settle(waiters) }, stale);
            }
            // SAFETY: A1 and A3, as above; A2, the caller's.
            let wait = unsafe { waiters.wait(waiter, current, fresh) };
            if was_told && wait == Wait::Queued {
                *vain_count = vain_count.saturating_add(1);
                if *vain_count >= VAIN_MAX && !*reserves {
                    *reserves = true;
                    // Ordering: Relaxed; read and written with the rest of the word.
                    lock.word.fetch_or(RESERVED, Ordering::Relaxed);
                }
            }
            Step::Waits(wait)
        })
    }
}

/// Releases a lock if a waker panics before its holder knows that it has it.
struct ReleaseOnDrop<'a>(&'a RawLock, Access);

impl Drop for ReleaseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.release(self.1);
    }
}

impl Future for Locking<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the waiter is not moved while it is in a list.
        let this = unsafe { self.get_unchecked_mut() };
        coop::poll_progress(cx, |cx| {
            let mut fresh = None;
            if this.waiter.is_none() {
                if this.lock.try_acquire(this.access) {
                    return Poll::Ready(());
                }
                fresh = Some(cx.waker().clone());
            }
            loop {
                // SAFETY: pinned, and dropped in place.
                match unsafe { this.step(cx.waker(), &mut fresh) } {
                    Step::Taken(told, stale) => {
                        this.waiter = None;
                        let held = ReleaseOnDrop(this.lock, this.access);
                        if let Some(waker) = told {
                            waker.wake();
                        }
                        drop((stale, fresh));
                        mem::forget(held);
                        return Poll::Ready(());
                    }
                    Step::Waits(Wait::Queued) => return Poll::Pending,
                    Step::Waits(Wait::NeedsWaker) => fresh = Some(cx.waker().clone()),
                }
            }
        })
    }
}

impl Drop for Locking<'_> {
    fn drop(&mut self) {
        let Some(waiter) = &self.waiter else { return };
        let (lock, reserves) = (self.lock, self.reserves);
        let (told, _stale) = lock.waiters.with(|waiters| {
            // SAFETY: A1, inside the section; A3, as in `step`.
            let stale = unsafe { waiters.leave(waiter) };
            if reserves {
                // Ordering: Relaxed; read and written with the rest of the word.
                lock.word.fetch_and(!RESERVED, Ordering::Relaxed);
            }
            // SAFETY: A1, inside the section; A2, every `Locking` sees to it.
            (unsafe { lock.settle(waiters) }, stale)
        });
        if let Some(waker) = told {
            waker.wake();
        }
    }
}
