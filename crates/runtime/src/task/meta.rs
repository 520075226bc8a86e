//! What a task carries besides its body.

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use quadrille_policy::{TaskPolicy, WorkerId};

use super::abort::AbortCell;
use super::cell::spare::{self, Kind};
use super::spawn::Options;
use crate::primitives::{AtomicPtr, AtomicU8, AtomicU32, Life, Ordering, StaticU64, fence};
use crate::sched::Shared;
use crate::thread::Thread;

/// Identifies a task within its process; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u64);

impl Id {
    /// A new id, from this thread's block of 64.
    pub(crate) fn next() -> Self {
        const BLOCK: u64 = 64;
        thread_local! {
            static NEXT: Cell<u64> = const { Cell::new(0) };
        }
        static BLOCKS: StaticU64 = StaticU64::new(BLOCK);
        NEXT.with(|next| {
            let mut id = next.get();
            if id.is_multiple_of(BLOCK) {
                // Ordering: Relaxed; only uniqueness is asked of it.
                id = BLOCKS.fetch_add(BLOCK, Ordering::Relaxed);
            }
            next.set(id + 1);
            Self(id)
        })
    }
}

impl Id {
    /// The number.
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// The id with this number.
    pub(crate) fn from_number(number: u64) -> Self {
        Self(number)
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What few tasks have.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    /// The name given by `task::Builder`.
    pub(crate) name: Option<Box<str>>,
    /// The worker that a task which is bound by its first run was asked to be bound to.
    pub(crate) worker: Option<WorkerId>,
    /// What abort handles refer to, once there is one.
    pub(crate) abort: OnceLock<Arc<AbortCell>>,
    /// The handle to the user-level thread that the task is, once somebody asked for it.
    pub(crate) thread: OnceLock<Thread>,
    /// For models: from when they are made until they are freed.
    pub(crate) life: Life,
}

impl Extras {
    /// Puts them into memory of their own, where tasks' memory comes from: threads that park have them.
    fn place(self) -> NonNull<Self> {
        let place = spare::allocate(Kind::Unlisted, Layout::new::<Self>()).cast();
        // SAFETY: as large and as aligned, and ours.
        unsafe { place.write(self) };
        place
    }

    /// # Safety
    /// They came from `place`, and nobody uses them any more.
    // Out of line: in the end of each task it costs those that have none 5 instructions.
    #[inline(never)]
    unsafe fn free(place: NonNull<Self>) {
        // SAFETY: by our contract.
        if !unsafe { place.as_ref() }.life.end() {
            return;
        }
        // SAFETY: by our contract.
        unsafe { place.drop_in_place() };
        // SAFETY: from `place`, with this layout.
        unsafe { spare::free(Kind::Unlisted, place.cast(), Layout::new::<Self>()) };
    }
}

/// Metadata of a task: 56 bytes, so that a small task stays within 120 bytes, which glibc frees without a lock.
pub(crate) struct Meta {
    /// Next task in a mailbox or a bound FIFO; belongs to whoever holds the runnable, then to that.
    pub(crate) link: AtomicPtr<()>,
    /// The scheduler; alive as long as the body (rule 4).
    scheduler: *const Shared,
    /// This task's id.
    pub(crate) id: Id,
    extras: AtomicPtr<Extras>,
    policy: Cell<TaskPolicy>,
    /// Key in the registry, which is never zero; zero before the task was first pending, and of a user-level thread,
    /// which never enters the registry.
    pub(crate) key: AtomicU32,
    flags: AtomicU8,
    /// Where the task was last. Touched by the holder of the runnable alone.
    last_worker: Cell<LastWorker>,
}

/// The worker that ran a task last; before its first run the one that spawned it, if one did. With it, what has become
/// of the task since: the next run makes a new word of it. One word, because it is compared whenever a task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastWorker(u16);

impl LastWorker {
    /// The worker: there are at most 4096.
    const WORKER: u16 = (1 << 12) - 1;
    /// Of a task that has not run yet: no worker spawned it. Of any other: a wake has placed it with a worker since.
    const LOOSE: u16 = 1 << 12;
    /// It was put up for other caches.
    const EXPORTED: u16 = 1 << 13;
    /// Another cache fetched it.
    const PULLED: u16 = 1 << 14;
    /// It has not run yet.
    const SPAWNED: u16 = 1 << 15;
    /// It has not run yet, and no worker spawned it.
    pub(crate) const NONE: Self = Self(Self::SPAWNED | Self::LOOSE);

    /// It ran on `worker`.
    #[inline]
    pub(crate) fn ran_on(worker: WorkerId) -> Self {
        Self(worker.0)
    }

    /// It was spawned by `worker`, and has not run yet.
    #[inline]
    pub(crate) fn spawned_by(worker: WorkerId) -> Self {
        Self(worker.0 | Self::SPAWNED)
    }

    /// The same, and it was put up for other caches since.
    pub(crate) fn exported(self) -> Self {
        Self(self.0 | Self::EXPORTED)
    }

    /// The same, and another cache fetches it, or does not after all.
    pub(crate) fn pulled(self, yes: bool) -> Self {
        let without = self.0 & !Self::PULLED;
        Self(if yes { without | Self::PULLED } else { without })
    }

    /// The same, and a wake has placed it with a worker since: the policy is to be told where it runs. One that has not
    /// run yet is told of in any case.
    pub(crate) fn placed(self) -> Self {
        let ran = self.0 & Self::SPAWNED == 0;
        Self(if ran { self.0 | Self::LOOSE } else { self.0 })
    }

    /// Whether it was with another worker than `worker`; false for [`NONE`](Self::NONE).
    #[inline]
    pub(crate) fn is_another(self, worker: WorkerId) -> bool {
        self.0 & Self::WORKER != worker.0 && self.0 & Self::NONE.0 != Self::NONE.0
    }

    /// Whether it was put up for other caches since it last ran.
    pub(crate) fn was_exported(self) -> bool {
        self.0 & Self::EXPORTED != 0
    }

    /// Whether another cache has fetched it since it last ran.
    pub(crate) fn was_pulled(self) -> bool {
        self.0 & Self::PULLED != 0
    }

    /// The worker, and whether it is the one that spawned the task. Not for [`NONE`](Self::NONE).
    pub(crate) fn worker(self) -> (WorkerId, bool) {
        (WorkerId(self.0 & Self::WORKER), self.0 & Self::SPAWNED != 0)
    }
}

/// The body runs on the blocking pool, not on a worker.
pub(crate) const BLOCKING: u8 = 1;
/// Its last poll and one of the two before are known to have been long
/// ([`Overtaking::meets`](quadrille_policy::Overtaking::meets)); written by the holder of the runnable. A hint.
pub(crate) const LONG: u8 = 2;
/// The body is a coroutine, which is bound by its first run.
pub(crate) const THREAD: u8 = 4;
/// The worker in `last_worker` has begun to run the body, and no other may run or drop it (B a); written by the runner
/// only, before the first run, or by who spawns the task, for its own worker.
pub(crate) const BOUND: u8 = 8;
/// A worker that might have run the body first has left it to another, which nobody does twice; written by the runner
/// only.
pub(crate) const LEFT: u8 = 16;
/// A bound thread is in a queue, or on its way there. For those who make a list of threads; nothing else rests on it.
pub(crate) const READY: u8 = 32;
/// The body is a closure that makes a future, which is bound by its first run.
pub(crate) const PINNED: u8 = 64;
/// The body begins with an address (`Body`), right behind the header.
pub(crate) const AHEAD: u8 = 128;
/// The first run binds the body.
pub(crate) const BINDS: u8 = THREAD | PINNED;

// SAFETY: `scheduler` points to a `Shared`, which is Sync; `policy` and `last_worker` are touched by the holder of the
// runnable alone (rule 1), and a runnable has one holder at a time (W2).
unsafe impl Send for Meta {}
// SAFETY: as above.
unsafe impl Sync for Meta {}

impl Meta {
    pub(crate) fn new(scheduler: *const Shared, policy: TaskPolicy, options: Options) -> Self {
        let Options {
            name, flags, worker, ..
        } = options;
        let extras = if name.is_none() && worker.is_none() {
            std::ptr::null_mut()
        } else {
            let extras = Extras {
                name,
                worker,
                ..Extras::default()
            };
            extras.place().as_ptr()
        };
        Self {
            link: AtomicPtr::new(std::ptr::null_mut()),
            scheduler,
            id: Id::next(),
            extras: AtomicPtr::new(extras),
            policy: Cell::new(policy),
            key: AtomicU32::new(0),
            flags: AtomicU8::new(flags),
            last_worker: Cell::new(LastWorker::NONE),
        }
    }

    /// The scheduler that the task belongs to. Dereferencing it needs a reason to believe that it is alive (rule 4).
    #[inline]
    pub(crate) fn scheduler(&self) -> *const Shared {
        self.scheduler
    }

    /// Whether the flag, or one of several, is set.
    #[inline]
    pub(crate) fn has(&self, flag: u8) -> bool {
        // Ordering: Relaxed; flags are set before the task is published, or by the runner for itself and for whoever
        // gets the runnable later (B a).
        self.flags.load(Ordering::Relaxed) & flag != 0
    }

    /// Sets a flag. Only the holder of the runnable may, which the runner is.
    #[inline]
    pub(crate) fn set(&self, flag: u8) {
        // Ordering: Relaxed; see `has`.
        self.flags
            .store(self.flags.load(Ordering::Relaxed) | flag, Ordering::Relaxed);
    }

    /// Clears a flag. Only the holder of the runnable may.
    #[inline]
    pub(crate) fn clear(&self, flag: u8) {
        // Ordering: Relaxed; see `has`.
        self.flags
            .store(self.flags.load(Ordering::Relaxed) & !flag, Ordering::Relaxed);
    }

    /// The rare fields, if the task has any.
    #[inline]
    pub(crate) fn extras(&self) -> Option<&Extras> {
        // Ordering: Acquire; pairs with the Release in `extras_or_new` (E a).
        let extras = self.extras.load(Ordering::Acquire);
        // SAFETY: null or from `Extras::place`, never replaced, freed in `drop` only.
        unsafe { extras.as_ref() }
    }

    /// The rare fields, made if need be.
    pub(crate) fn extras_or_new(&self) -> &Extras {
        if let Some(extras) = self.extras() {
            return extras;
        }
        let new = Extras::default().place();
        // Ordering: AcqRel; (E a) publishes what is in it, or takes in the one that came first.
        match self
            .extras
            .compare_exchange(std::ptr::null_mut(), new.as_ptr(), Ordering::AcqRel, Ordering::Acquire)
        {
            // SAFETY: `new` was just made and is owned by `self` now.
            Ok(_) => unsafe { new.as_ref() },
            Err(other) => {
                // SAFETY: `new` was just made and nobody else has seen it.
                unsafe { Extras::free(new) };
                // SAFETY: not null, published by another caller of this function.
                unsafe { &*other }
            }
        }
    }

    /// The task has entered the registry under `key`. True if it was aborted before.
    pub(crate) fn registered(&self, key: u32) -> bool {
        // Ordering: Relaxed; the fences here and in `abort_cell` decide who sees whose store.
        self.key.store(key, Ordering::Relaxed);
        // Ordering: SeqCst; (E b) key before cell, against cell before key in `abort_cell`.
        fence(Ordering::SeqCst);
        self.extras()
            .and_then(|extras| extras.abort.get())
            .is_some_and(|cell| cell.registered(key))
    }

    /// What abort handles refer to, made if need be.
    pub(crate) fn abort_cell(&self) -> Arc<AbortCell> {
        let new = || Arc::new(AbortCell::new(self.id, self.scheduler));
        let cell = self.extras_or_new().abort.get_or_init(new);
        // Ordering: SeqCst; (E b) cell before key, against key before cell in `registered`.
        fence(Ordering::SeqCst);
        // Ordering: Relaxed; the fence decides.
        let key = self.key.load(Ordering::Relaxed);
        if key != 0 {
            cell.set_key(key);
        }
        cell.clone()
    }

    /// The policy fields.
    ///
    /// # Safety
    /// The caller holds the task's runnable.
    #[inline]
    pub(super) unsafe fn policy(&self) -> &Cell<TaskPolicy> {
        &self.policy
    }

    /// The worker that ran the task last, or spawned it.
    ///
    /// # Safety
    /// The caller holds the task's runnable.
    #[inline]
    pub(super) unsafe fn last_worker(&self) -> &Cell<LastWorker> {
        &self.last_worker
    }
}

impl Drop for Meta {
    fn drop(&mut self) {
        // Ordering: Acquire; pairs with (E a).
        if let Some(extras) = NonNull::new(self.extras.load(Ordering::Acquire)) {
            // SAFETY: from `place`, and this is the only place that frees it once it is here.
            unsafe { Extras::free(extras) };
        }
    }
}

impl std::fmt::Debug for Meta {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meta").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_worker_is_told_from_what_became_of_the_task() {
        for worker in [0, 1, 4095].map(WorkerId) {
            for (last, first_run) in [
                (LastWorker::ran_on(worker), false),
                (LastWorker::spawned_by(worker), true),
            ] {
                for last in [last, last.exported(), last.pulled(true), last.exported().pulled(true)] {
                    assert_eq!(last.worker(), (worker, first_run));
                    assert!(!last.is_another(worker) && last.is_another(WorkerId(worker.0 ^ 1)));
                }
                assert!(last.exported().was_exported() && !last.pulled(true).was_exported());
                assert!(last.pulled(true).was_pulled() && !last.exported().was_pulled());
                assert_eq!(last.pulled(true).pulled(false), last);
            }
            assert!(!LastWorker::NONE.is_another(worker));
            assert!(!LastWorker::NONE.exported().is_another(worker));
        }
        assert!(!LastWorker::NONE.was_exported() && !LastWorker::NONE.was_pulled());
    }
}
