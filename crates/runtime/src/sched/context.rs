//! The worker that the calling thread is, if it is one.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use quadrille_policy::{Backlog, Nanos, ProbeRate, Rng, SetId, Wakees, WorkerId};

use super::bind::Robbed;
use super::bound::Living;
use super::load::OwnLoad;
use super::queue::bound::BoundFifo;
use super::queue::local::Local;
use super::streaks::Streak;
use super::{Shared, WorkerShared};
use crate::branches::chance;
use crate::task::Runnable;
use crate::thread::stack::Kept;

/// What a worker's thread keeps for itself. Plain cells: no other thread sees it.
#[derive(Debug)]
pub(crate) struct Context {
    /// This worker's part of `shared`; see [`me`](Self::me).
    me: NonNull<WorkerShared>,
    pub(crate) id: WorkerId,
    pub(crate) local: Local,
    pub(crate) rng: Cell<Rng>,
    /// For `select!` alone: how often the scheduler draws is another matter in each run.
    pub(crate) choices: Cell<Rng>,
    /// The clock as last read.
    pub(crate) now: Cell<Nanos>,
    /// What it counts for itself (policy 5).
    pub(super) load: OwnLoad,
    /// How often random probes meet an idle worker (policy 2).
    pub(crate) probe_rate: Cell<ProbeRate>,
    /// Average run of a task here, ns, moving average; zero: unknown.
    pub(crate) average_run: Cell<Nanos>,
    /// New tasks that went into our deque.
    pub(super) started: Cell<u64>,
    /// How long what is spawned next is expected to wait, for all that follows it. Zero: nothing is known, or somebody
    /// was woken for it.
    pub(super) burst: Cell<Nanos>,
    /// Whether streaks are measured here, being long.
    pub(super) measures_streaks: Cell<bool>,
    /// How many woken tasks join one for each look at the clock.
    pub(super) joins_a_look: Cell<u32>,
    /// The streak of the slot, which begins when a task comes out of the deque.
    pub(super) slot_streak: Streak,
    /// The same of the place before the bound FIFO, when a thread comes out of that.
    pub(super) bound_streak: Streak,
    /// Whether something that ran here has waited for a task to end since the deque's front had its turn.
    pub(super) is_joining: Cell<bool>,
    /// Where the deque ended when the streak began.
    pub(super) streak_end: Cell<u64>,
    /// The coupling set of the task that runs, or ran last; none while policy 3 is off.
    pub(crate) set: Cell<SetId>,
    /// The id of that task; zero while policy 3 is off.
    pub(super) task: Cell<u64>,
    /// How many different tasks the last wakers here have woken.
    pub(super) wakees: RefCell<Wakees>,
    /// The user-level threads that may run here alone and are ready (B).
    pub(super) bound: BoundFifo<Runnable>,
    /// Whether a timer was set since somebody was last seen to watch for those of this worker (F c).
    pub(super) sets_timers: Cell<bool>,
    /// Those that were ever suspended and have not ended (B c).
    pub(crate) living: Living,
    /// The worker that the last thread which was about to start here was left to, if it was.
    pub(super) bound_last: Cell<Option<WorkerId>>,
    /// Whom it robbed of threads last.
    pub(super) robbed: Cell<Option<Robbed>>,
    /// Whose threads it left to that one, and for how long.
    pub(super) backlog: Cell<Option<Backlog>>,
    /// Whether the worker leaves: what is resumed from now on unwinds, what is spawned is dropped (B c).
    pub(crate) unwinding: Cell<bool>,
    /// Whether what is woken now is one of many: they go to the end of the deque, and somebody is woken for all of
    /// them.
    pub(super) in_batch: Cell<bool>,
    /// Where the next look at timers of others begins.
    pub(super) pulls_from: Cell<usize>,
    /// How late its sleeps have ended lately that ended by themselves.
    pub(super) late: Cell<Nanos>,
    /// Whether the kernel ends the waits of this thread when they are due: once it has slept for a timer.
    pub(super) wakes_on_time: Cell<bool>,
    /// The pause of the clock in which the worker has the turn, while it does not sleep; zero: in none.
    pub(super) has_turn: Cell<usize>,
    /// Its polls when it took or lent the turn.
    pub(super) turn_since: Cell<u64>,
    /// Stacks of the LLC that it keeps for itself.
    pub(crate) stacks: Kept,
    /// Last, so dropped last: the queues above hold tasks of it, and `stacks` has some of its stacks. Nobody replaces
    /// it.
    pub(crate) shared: Arc<Shared>,
}

thread_local! {
    static CURRENT: Cell<*const Context> = const { Cell::new(ptr::null()) };
    /// Whether the thread is or was a worker, of whichever runtime. Cleared only where somebody else's thread has run
    /// tasks in its place (`in_place`): destructors that run while a worker leaves may not block either.
    static IS_WORKER_THREAD: Cell<bool> = const { Cell::new(false) };
    /// Whether the task that the thread runs blocks in place, or the thread makes its last call after its work.
    static IS_AWAY: Cell<bool> = const { Cell::new(false) };
    /// Whether who runs on the thread has its worker exclusively.
    #[cfg(debug_assertions)]
    static IS_EXCLUSIVE: Cell<bool> = const { Cell::new(false) };
    /// Whether the thread, which is no worker, polls a future in `block_on`.
    static IS_POLLING: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread may wait for others: it is no worker, and was none; or it is away
/// ([`is_away`]).
#[inline]
pub(crate) fn may_block() -> bool {
    is_away() || !IS_WORKER_THREAD.with(Cell::get)
}

/// Whether the calling thread may wait for workers to leave: it is no worker, and was none; nor does it poll a future,
/// which would hold up what else that future does.
pub(crate) fn may_join() -> bool {
    !IS_WORKER_THREAD.with(Cell::get) && !IS_POLLING.with(Cell::get)
}

/// Whether the calling thread polls a future in `block_on`.
pub(crate) fn is_polling() -> bool {
    IS_POLLING.with(Cell::get)
}

/// Calls `poll`, which polls a future on a thread that is no worker.
#[inline]
pub(crate) fn polling<R>(poll: impl FnOnce() -> R) -> R {
    /// Puts it back, also when `poll` panics.
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IS_POLLING.set(self.0);
        }
    }
    let _restore = Restore(IS_POLLING.replace(true));
    poll()
}

/// Whether the task that the calling thread runs blocks in place, or the thread makes its last call after its work.
#[inline]
pub(crate) fn is_away() -> bool {
    IS_AWAY.with(Cell::get)
}

impl Context {
    /// That of a worker that has not begun.
    pub(super) fn new(shared: Arc<Shared>, id: WorkerId, local: Local, rng: Rng, now: Nanos) -> Self {
        let llc = shared.policy.plan.workers[id.index()].llc.index();
        Self {
            // SAFETY: it is dropped before `shared`, by the order of the fields.
            stacks: unsafe { Kept::new(&shared.stacks, llc) },
            me: NonNull::from(&*shared.workers[id.index()]),
            id,
            local,
            rng: Cell::new(rng),
            choices: Cell::new(chance::of_worker(shared.policy.config.seed, id)),
            now: Cell::new(now),
            load: OwnLoad::default(),
            probe_rate: Cell::new(ProbeRate::default()),
            average_run: Cell::new(Nanos(0)),
            started: Cell::new(0),
            burst: Cell::new(Nanos(0)),
            measures_streaks: Cell::new(false),
            joins_a_look: Cell::new(1),
            slot_streak: Streak::default(),
            bound_streak: Streak::default(),
            is_joining: Cell::new(false),
            streak_end: Cell::new(0),
            set: Cell::new(SetId::NONE),
            task: Cell::new(0),
            wakees: RefCell::new(shared.policy.new_wakees()),
            bound: BoundFifo::new(),
            sets_timers: Cell::new(false),
            living: Living::default(),
            bound_last: Cell::new(None),
            robbed: Cell::new(None),
            backlog: Cell::new(None),
            unwinding: Cell::new(false),
            in_batch: Cell::new(false),
            has_turn: Cell::new(0),
            turn_since: Cell::new(0),
            pulls_from: Cell::new(0),
            late: Cell::new(Nanos(0)),
            wakes_on_time: Cell::new(false),
            shared,
        }
    }

    /// Calls `f` with the calling thread's worker, whichever runtime it belongs to.
    #[inline]
    pub(crate) fn with<R>(f: impl FnOnce(Option<&Self>) -> R) -> R {
        let current = CURRENT.with(Cell::get);
        #[cfg(debug_assertions)]
        debug_assert!(
            current.is_null() || !IS_EXCLUSIVE.get(),
            "the worker's own code calls nothing that looks for its context"
        );
        // SAFETY: not null only between `enter` and the drop of its guard, which borrows the context; `f` can't keep
        // the reference. Nobody has the worker exclusively meanwhile (`Worker::run`).
        f(unsafe { current.as_ref() })
    }

    /// Calls `f` as if the calling thread were no worker.
    pub(super) fn hidden<R>(f: impl FnOnce() -> R) -> R {
        /// Puts it back, also when `f` panics.
        struct Restore(*const Context);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.with(|current| current.set(self.0));
            }
        }
        let _restore = Restore(CURRENT.with(|current| current.replace(ptr::null())));
        f()
    }

    /// Makes `self` the calling thread's worker until the guard is dropped.
    pub(crate) fn enter(&self) -> Entered<'_> {
        CURRENT.with(|current| {
            debug_assert!(current.get().is_null(), "a thread is one worker at most");
            current.set(self);
        });
        IS_WORKER_THREAD.with(|is| is.set(true));
        Entered(self)
    }

    /// Until the guard is dropped the calling thread, whose worker this is, reaches it by `self`: for who has the
    /// worker exclusively and calls what may look for it.
    pub(super) fn enter_again(&self) -> Again<'_> {
        let before = CURRENT.with(|current| current.replace(self));
        debug_assert!(before.is_null() || ptr::eq(before, self), "it is this worker's thread");
        Again {
            #[cfg(debug_assertions)]
            was_exclusive: IS_EXCLUSIVE.replace(false),
            before,
            _context: PhantomData,
        }
    }

    /// This worker as others see it.
    #[inline]
    pub(crate) fn me(&self) -> &WorkerShared {
        // SAFETY: it is part of `shared`, which stays where it is as long as we refer to it, and nobody replaces that.
        unsafe { self.me.as_ref() }
    }

    /// No task runs, and none wakes what the worker wakes from now on.
    pub(super) fn leaves_task(&self) {
        self.set.set(SetId::NONE);
        self.task.set(0);
    }

    /// The worker's last-level cache.
    pub(crate) fn llc(&self) -> usize {
        self.shared.policy.plan.workers[self.id.index()].llc.index()
    }

    /// A pseudo-random number below `bound`.
    pub(crate) fn random_below(&self, bound: usize) -> usize {
        let mut rng = self.rng.get();
        let n = rng.below(u32::try_from(bound).unwrap_or(u32::MAX));
        self.rng.set(rng);
        n as usize
    }
}

/// While it lives, the thread is a worker.
#[derive(Debug)]
pub(crate) struct Entered<'a>(#[expect(dead_code, reason = "the borrow is what keeps the pointer valid")] &'a Context);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        CURRENT.with(|current| current.set(ptr::null()));
    }
}

/// See [`Context::enter_again`].
#[derive(Debug)]
pub(super) struct Again<'a> {
    #[cfg(debug_assertions)]
    was_exclusive: bool,
    before: *const Context,
    /// The borrow is what keeps the pointer valid.
    _context: PhantomData<&'a Context>,
}

impl Drop for Again<'_> {
    fn drop(&mut self) {
        CURRENT.with(|current| current.set(self.before));
        #[cfg(debug_assertions)]
        IS_EXCLUSIVE.set(self.was_exclusive);
    }
}

/// While it lives, who runs on the thread has its worker exclusively: nothing else reaches the context by the thread's
/// pointer, which builds with debug assertions refuse, unless it is lent ([`Context::enter_again`]).
#[derive(Debug)]
pub(super) struct Exclusive(());

impl Exclusive {
    #[inline(always)]
    pub(super) fn begin() -> Self {
        #[cfg(debug_assertions)]
        IS_EXCLUSIVE.set(true);
        Self(())
    }
}

#[cfg(debug_assertions)]
impl Drop for Exclusive {
    fn drop(&mut self) {
        IS_EXCLUSIVE.set(false);
    }
}

/// Calls `f` on a thread that was a worker: it runs nothing any more, so that `f` may block. It waits for no worker to
/// leave, as [`may_join`] says, since it might be one of those.
pub(crate) fn after_work(f: impl FnOnce()) {
    let _away = Away::begin();
    f();
}

/// While it lives, the thread is no worker, and may block.
#[derive(Debug)]
pub(super) struct Away(*const Context);

impl Away {
    pub(super) fn begin() -> Self {
        IS_AWAY.with(|away| {
            debug_assert!(!away.get(), "who is away is no worker");
            away.set(true);
        });
        Self(CURRENT.with(|current| current.replace(ptr::null())))
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        IS_AWAY.with(|away| away.set(false));
        // The worker, if there was one, is in the middle of a task, this one, and so where it was.
        CURRENT.with(|current| current.set(self.0));
    }
}

/// While it lives, the thread, which is no worker, runs tasks like one: it may not block.
#[derive(Debug)]
pub(super) struct Relieving(());

impl Relieving {
    pub(super) fn begin() -> Self {
        IS_WORKER_THREAD.with(|is| is.set(true));
        Self(())
    }
}

impl Drop for Relieving {
    fn drop(&mut self) {
        IS_WORKER_THREAD.with(|is| is.set(false));
    }
}
