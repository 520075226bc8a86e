//! What runs on a thread's own stack: which thread that is, how it is suspended, how it is told to unwind.

use std::any::Any;
use std::cell::{Cell, OnceCell};
use std::future::Future;
use std::mem::needs_drop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Instant;

use corosensei::Yielder;

use super::handle::Thread;
use super::local::Locals;
use super::note::{Note, Reason};
use super::woken::Woken;
use crate::coop;
use crate::panics::quietly;
use crate::primitives::relax;
use crate::sched::context::Context;
use crate::sync::lock;
use crate::sys::clock;
use crate::task::body::is_aborted;
use crate::task::join::Cancelled;
use crate::task::{Meta, is_detached};

/// With what a coroutine is resumed: the first time the waker of its task, which is valid until the coroutine is
/// suspended, later something that says nothing; or nothing, and then it shall unwind.
pub(super) type Input = Option<NonNull<Waker>>;

/// Why a coroutine is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// It waits for something, and unwinds if it is told to.
    Waits,
    /// It waits for its next turn, for which nobody wakes it; else as the former.
    GivesWay,
    /// It waits for threads that borrow from its stack, and does not unwind before they have ended.
    Outlasts,
}

/// What a coroutine says when it is suspended: down to where its stack is used, about, and why.
///
/// One word: a byte beside it would be copied together with what is around it, and such a read of what has just been
/// written in smaller pieces waits until that is in the cache, which took 2 to 3 ns of a turn's 20 to 27.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suspension(*const u8);

impl Suspension {
    /// Set in the word of [`Pause::Outlasts`].
    const OUTLASTS: usize = 1;
    /// Set in the word of [`Pause::GivesWay`].
    const GIVES_WAY: usize = 2;

    /// Of a stack that is used down to about `stack_pointer`.
    #[inline(always)]
    fn new(stack_pointer: *const u64, pause: Pause) -> Self {
        let flag = match pause {
            Pause::Waits => 0,
            Pause::Outlasts => Self::OUTLASTS,
            Pause::GivesWay => Self::GIVES_WAY,
        };
        Self(stack_pointer.cast::<u8>().wrapping_add(flag))
    }

    #[inline]
    pub(super) fn pause(self) -> Pause {
        let word = self.0.addr();
        if word & Self::GIVES_WAY != 0 {
            Pause::GivesWay
        } else if word & Self::OUTLASTS != 0 {
            Pause::Outlasts
        } else {
            Pause::Waits
        }
    }

    /// For who fetches the stack ahead: near enough.
    #[inline]
    pub(super) fn stack_pointer(self) -> *const u8 {
        self.0
    }
}

/// A thread that has started, as seen from its own stack, where this lives.
#[derive(Debug)]
pub(super) struct Frame {
    yielder: NonNull<Yielder<Input, Suspension>>,
    /// The waker of the first resumption. Dangling once the thread was suspended.
    first_waker: NonNull<Waker>,
    /// The same, as our own: futures keep a reference to it while they are polled, and may be suspended in the middle
    /// of that.
    waker: OnceCell<Waker>,
    /// On the list of the worker, once the thread was suspended.
    key: Cell<Option<usize>>,
    /// It was told to unwind while it had to outlast that.
    owes_unwinding: Cell<bool>,
    /// Its closure has ended, and what is left runs destructors, which are not unwound before they had some time.
    ends: Cell<bool>,
    /// It was told to unwind since then.
    told: Cell<bool>,
    /// How often it has gone on after a suspension; wraps.
    turns: Cell<usize>,
    /// What the thread waits for, for others.
    note: Note,
    locals: Locals,
    meta: NonNull<Meta>,
}

/// How often a thread that can't give way looks whether it need wait no more, where it waits without a limit: nearly
/// each time after a nap of 800 us (`relax`).
const STEPS_MAX: u32 = 1_250;

thread_local! {
    /// The thread whose stack is in use on this OS thread, if one is.
    static CURRENT: Cell<*const Frame> = const { Cell::new(ptr::null()) };
}

/// Where the calling user-level thread has what is its own, if it is one: no other has it there as long as this one
/// lives.
#[inline]
pub(crate) fn place() -> Option<usize> {
    let current = CURRENT.get();
    (!current.is_null()).then(|| current.addr())
}

impl Frame {
    /// The frame of the thread that begins to run on the calling stack.
    ///
    /// # Safety
    /// - `yielder` belongs to the coroutine that the caller runs in, and `input` is what it was resumed with first;
    /// - `meta` is that of the task whose body the coroutine is.
    pub(super) unsafe fn new(yielder: &Yielder<Input, Suspension>, input: Input, meta: NonNull<Meta>) -> Self {
        Self {
            yielder: NonNull::from(yielder),
            first_waker: input.expect("a thread that has not started is dropped, not unwound"),
            waker: OnceCell::new(),
            key: Cell::new(None),
            owes_unwinding: Cell::new(false),
            ends: Cell::new(false),
            told: Cell::new(false),
            turns: Cell::new(0),
            note: Note::new(meta),
            locals: Locals::new(),
            meta,
        }
    }

    /// Runs `f` as the thread behind this frame, to its end. Whoever resumed the coroutine says that its stack is left
    /// (`Resumption`).
    pub(super) fn run<T>(&self, f: impl FnOnce() -> T) -> std::thread::Result<T> {
        CURRENT.set(self);
        let mut result = catch_unwind(AssertUnwindSafe(f));
        self.ends.set(true);
        let was_dropped = self.drops_unwanted(&mut result);
        self.locals.end();
        // What has ended may have waited. Who gives the result up from now on leaves that to the worker (C c).
        if !was_dropped && self.drops_unwanted(&mut result) {
            self.locals.end();
        }
        result
    }

    /// Drops a result for which nobody can ask any more: here, where a destructor may wait, as std's threads do. False
    /// if it is left to whoever asks, or nobody notices.
    #[inline]
    fn drops_unwanted<T>(&self, result: &mut std::thread::Result<T>) -> bool {
        let is_noticed = needs_drop::<T>() || result.is_err();
        let drops = is_noticed && is_detached(self.meta());
        if drops {
            drop_unwanted(result);
        }
        drops
    }

    /// Whether a wait for this can't suspend the thread: it would unwind from there, and a destructor runs. Either the
    /// stack is unwound already, or the closure has ended. A scope is not unwound while it waits.
    #[inline(always)]
    fn stays(&self, pause: Pause) -> bool {
        std::thread::panicking() || self.ends.get() && pause != Pause::Outlasts && self.is_told()
    }

    /// Whether the thread would be told to unwind if it were suspended.
    #[cold]
    fn is_told(&self) -> bool {
        self.told.get()
            || is_aborted(self.meta())
            || Context::with(|context| context.is_some_and(|context| context.unwinding.get()))
    }

    /// What the thread has of its own.
    pub(super) fn locals(&self) -> &Locals {
        &self.locals
    }

    /// Calls `f` with the calling thread, if it is a user-level one.
    #[inline(always)]
    pub(super) fn with<R>(f: impl FnOnce(Option<&Self>) -> R) -> R {
        // SAFETY: `f` runs on the stack that is in use now, and can't keep the reference.
        f(unsafe { Self::current() })
    }

    /// The calling thread, if it is a user-level one.
    ///
    /// # Safety
    /// The caller does not keep it for longer than its own frame on this stack.
    #[inline(always)]
    pub(super) unsafe fn current<'stack>() -> Option<&'stack Self> {
        let current = CURRENT.get();
        // SAFETY: not null only while the frame's own stack is in use, which it lives on: `run` and `suspend` set it,
        // and `Resumption` takes it away as soon as the stack is left. The caller's frame lies above it on that stack.
        unsafe { current.as_ref() }
    }

    /// The metadata of the thread's task.
    pub(super) fn meta(&self) -> &Meta {
        // SAFETY: `new`'s contract: the task outlives its body, and this is part of the body.
        unsafe { self.meta.as_ref() }
    }

    /// The handle to this thread.
    pub(super) fn thread(&self) -> &Thread {
        Thread::of(self.meta())
    }

    /// The waker of the thread's task.
    #[inline]
    fn waker(&self) -> &Waker {
        // SAFETY: before the first suspension, which calls this, the first waker is valid.
        self.waker.get_or_init(|| unsafe { self.first_waker.as_ref() }.clone())
    }

    /// Waits for `future` by suspending the thread, and notes why. The answer is ready: it is the poll's own, so that
    /// it need not be copied.
    ///
    /// A poll may suspend the thread itself: it waits for another future, locks, or gives way. Both waits have the
    /// waker of the thread's task, so it may go on then by a wake-up for something that the poll had asked before, and
    /// that wake-up is used up. See [`wait_nested`](Self::wait_nested).
    #[track_caller]
    #[inline(always)]
    pub(super) fn wait<F: Future>(&self, future: F, pause: Pause, reason: Reason) -> Poll<F::Output> {
        // One place for all that is answered: a large output is not copied from one to another. It outlives the future,
        // whose destructor may panic: the value of the block would be leaked then (rust-lang/rust#47949).
        let mut polled;
        {
            let mut future = pin!(future);
            let mut turns = self.turns.get();
            polled = future.as_mut().poll(&mut TaskContext::from_waker(self.waker()));
            while polled.is_pending() {
                if self.stays(pause) {
                    polled = self.wait_or_give_up(future.as_mut());
                    break;
                }
                if turns != self.turns.get() {
                    polled = self.wait_nested(future.as_mut(), pause, reason);
                    break;
                }
                self.suspend::<F>(pause, reason);
                turns = self.turns.get();
                polled = future.as_mut().poll(&mut TaskContext::from_waker(self.waker()));
            }
        }
        polled
    }

    /// The rest of [`wait`](Self::wait) once a poll has suspended the thread: the future is polled again, by a waker of
    /// its own that remembers. Where the thread was suspended in the course of a poll, and the future woken, that
    /// wake-up may be used up: the thread is woken once more, and has its next turn as by any other.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn wait_nested<F: Future>(&self, mut future: Pin<&mut F>, pause: Pause, reason: Reason) -> Poll<F::Output> {
        let woken = Woken::new(self.waker().clone());
        let waker = Waker::from(Arc::clone(&woken));
        loop {
            let turns = self.turns.get();
            // What came until here is found by the poll.
            woken.take();
            let polled = future.as_mut().poll(&mut TaskContext::from_waker(&waker));
            if polled.is_ready() {
                return polled;
            }
            if self.stays(pause) {
                return self.wait_or_give_up(future);
            }
            if turns != self.turns.get() && woken.take() {
                self.waker().wake_by_ref();
            }
            self.suspend::<F>(pause, reason);
        }
    }

    /// Waits for `future` in place, for about a second. The answer is ready.
    ///
    /// # Panics
    /// If it isn't by then: which ends the process where the thread panics, and else, quietly, the destructor that
    /// waits.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn wait_or_give_up<F: Future>(&self, future: Pin<&mut F>) -> Poll<F::Output> {
        let polled = self.wait_in_place(future, None);
        if polled.is_pending() {
            assert!(
                !std::thread::panicking(),
                "a user-level thread can't be suspended while it panics: a destructor waits for something that is not ready"
            );
            unwind();
        }
        polled
    }

    /// Waits for `future` until then, by default for about a second, on a thread that can't give way (`stays`): its
    /// worker is blocked. What a destructor waits for often comes from elsewhere and soon, as a lock that is held for a
    /// moment, and else the process would end. Nor is it refused for lack of budget.
    #[cold]
    #[inline(never)]
    pub(super) fn wait_in_place<F: Future>(&self, mut future: Pin<&mut F>, until: Option<Instant>) -> Poll<F::Output> {
        let mut step = 0_u32;
        loop {
            let polled = coop::without_limit(|| future.as_mut().poll(&mut TaskContext::from_waker(self.waker())));
            let is_over = || match until {
                Some(until) => clock::now() >= until,
                None => step >= STEPS_MAX,
            };
            if polled.is_ready() || is_over() {
                return polled;
            }
            relax(step);
            step = step.saturating_add(1);
        }
    }

    /// Lets others run until the thread has its turn again.
    #[track_caller]
    #[inline(always)]
    pub(super) fn give_way(&self) {
        // One whose closure has ended comes back, told to end or not.
        if std::thread::panicking() {
            return std::thread::yield_now();
        }
        self.suspend::<()>(Pause::GivesWay, Reason::TURN);
    }

    /// Suspends the thread until its task runs again, and notes why. Unwinds if the thread is told to and does not
    /// outlast that; one whose closure has ended comes back, and then stays. For a thread that doesn't already.
    ///
    /// Inlined, as all that calls it and all that resumes it, as far as that can be had: the processor predicts where a
    /// function returns to by the calls before it, of which a switch makes those of another stack. Each frame that is
    /// entered before a switch and left after it costs two such mistakes, together as much as all the rest.
    #[track_caller]
    #[inline(always)]
    fn suspend<F>(&self, pause: Pause, reason: Reason) {
        debug_assert!(!std::thread::panicking(), "the callers look");
        assert!(
            !lock::is_in_section(),
            "a user-level thread can't be suspended inside of a critical section of the runtime: others would wait for it"
        );
        // Not before: a thread that can't be suspended goes on.
        self.note.waits::<F>(reason);
        if self.key.get().is_none() {
            self.enter_list();
        }
        // SAFETY: `new`'s contract: the yielder of this coroutine, which is running.
        let yielder = unsafe { self.yielder.as_ref() };
        let here = 0;
        let is_unlimited = coop::is_unlimited();
        let input = yielder.suspend(Suspension::new(&raw const here, pause));
        CURRENT.set(self);
        self.turns.set(self.turns.get().wrapping_add(1));
        // In the middle of a poll that spends none: the worker has given the thread a budget with its turn.
        if is_unlimited {
            coop::stop();
        }
        self.note.goes_on();
        match (input, pause) {
            (Some(_), _) => {}
            (None, _) if self.ends.get() => self.told.set(true),
            (None, Pause::Waits | Pause::GivesWay) => unwind(),
            (None, Pause::Outlasts) => self.owes_unwinding.set(true),
        }
    }

    /// Whether the calling thread, a user-level one, can't be suspended by a wait, and so blocks its worker for it.
    pub(super) fn waits_in_place() -> bool {
        Self::with(|frame| frame.is_some_and(|frame| frame.stays(Pause::Waits)))
    }

    /// Whether the calling thread runs a destructor, out of which nothing may unwind before its time.
    pub(super) fn is_in_destructor() -> bool {
        std::thread::panicking() || Self::with(|frame| frame.is_some_and(|frame| frame.ends.get()))
    }

    /// After a wait with [`Pause::Outlasts`]: whether the thread was told to unwind meanwhile, and now may.
    pub(super) fn takes_up_unwinding() -> bool {
        Self::with(|frame| frame.is_some_and(|frame| frame.owes_unwinding.replace(false)))
    }

    /// Before the first suspension: the worker must find the thread when it leaves (B c).
    #[cold]
    fn enter_list(&self) {
        let (waker, note) = (NonNull::from(self.waker()), NonNull::from(&self.note));
        Context::with(|context| {
            let context = context.expect("a started thread runs on its worker");
            // SAFETY: waker and note are part of `self`, on the thread's stack, which is neither moved nor dropped
            // before `drop` below, on this OS thread (B).
            self.key.set(Some(unsafe { context.will_suspend(waker, note) }));
        });
    }
}

impl Drop for Frame {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(key) = self.key.get() {
            leave_list(key);
        }
    }
}

/// Drops a result for which nobody will ask, quietly.
#[cold]
fn drop_unwanted<T>(result: &mut std::thread::Result<T>) {
    // In its place: it may be large, and the stack small.
    quietly(|| *result = Err(Box::new(Cancelled)));
}

/// At the end of a thread that was ever suspended.
#[cold]
fn leave_list(key: usize) {
    Context::with(|context| context.expect("a started thread ends on its worker").has_ended(key));
}

/// Unwinds the calling thread's stack, quietly: no panic hook runs.
#[cold]
pub(super) fn unwind() -> ! {
    resume_unwind(Box::new(Cancelled))
}

/// Whether a payload is what [`unwind`] unwinds with.
pub(super) fn is_cancelled(payload: &(dyn Any + Send)) -> bool {
    payload.is::<Cancelled>()
}

/// While it lives, a coroutine may run, resumed on the OS thread's own stack: when it is dropped that is in use again,
/// and no thread's.
#[derive(Debug)]
pub(super) struct Resumption;

impl Resumption {
    #[inline]
    pub(super) fn new() -> Self {
        debug_assert!(CURRENT.get().is_null(), "no thread's stack is in use");
        Self
    }
}

impl Drop for Resumption {
    #[inline]
    fn drop(&mut self) {
        CURRENT.set(ptr::null());
    }
}

/// While it lives, the stack in use passes for the OS thread's own. Dropped, it puts back whose it is.
#[derive(Debug)]
pub(super) struct Aside(*const Frame);

impl Aside {
    pub(super) fn new() -> Self {
        Self(CURRENT.replace(ptr::null()))
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::super::yield_now;
    use super::*;
    use crate::Runtime;
    use crate::sync::lock::Lock;

    #[test]
    fn a_suspension_says_why_and_about_where() {
        let here = 0;
        for pause in [Pause::Waits, Pause::GivesWay, Pause::Outlasts] {
            let suspension = Suspension::new(&raw const here, pause);
            assert_eq!(suspension.pause(), pause);
            assert!(suspension.stack_pointer().addr() - (&raw const here).addr() <= 2);
        }
    }

    /// In builds that look: the section ends, and its thread goes on, and into the lock again.
    #[test]
    fn a_suspension_inside_of_a_section_is_refused() {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        let ended = runtime.spawn_thread(|| {
            let lock = Lock::new(1);
            let refused = catch_unwind(AssertUnwindSafe(|| lock.with(|_| yield_now())));
            yield_now();
            (refused, lock.with(|n| *n))
        });
        let (refused, inside) = ended.join().unwrap();
        assert_eq!(inside, 1);
        if cfg!(debug_assertions) {
            let payload = refused.unwrap_err();
            let message = payload.downcast_ref::<&str>().unwrap();
            assert!(
                message.contains("inside of a critical section of the runtime"),
                "{message}"
            );
        }
    }
}
