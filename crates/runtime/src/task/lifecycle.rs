//! A task's state word and the joiner's waker, shared by whoever holds, wakes or joins it.
//!
//! [`state`](super::state) says what each event makes of the word; this applies it. Nothing here knows of the future,
//! the result or the memory: what to do with those is the answer, and the caller's.
//!
//! # Theorem C
//!
//! (a) *What was written before a wake-up is seen by a run that begins after it.* If the wake-up makes the task held,
//! the runnable carries it through a queue. If the task is held already, the wake-up is a release of `WOKEN`; the
//! runner that sees the bit, before it polls or when it wants to let go, acquires it and polls after that. Therefore a
//! wake-up of a task that is `WOKEN` already writes the word all the same: were it to look only, the runner might have
//! cleared the bit before, and polled without it.
//!
//! (b) *What a runner leaves is seen by the next one.* It lets go by a release; whoever wakes the task acquires that,
//! and passes it on through a queue.
//!
//! (c) *The result is read once it is there, by one.* `DONE` is a release, after the result was written; the joiner
//! reads it after an acquire. Nobody wants it if there is no joiner when `DONE` is set: the runner drops it. Nor before
//! that, once there is none, as none comes again: then a thread drops it on its own stack.
//!
//! (d) *The joiner is told.* It sets `AWAITED`, by a release, after it wrote its waker, and fails if the task is done.
//! So the runner, whose `DONE` acquires, either sees the waker or comes first. Between `AWAITED` and `DONE` the cell is
//! only read, by the joiner; from `DONE` on it is the runner's, which reads it, too.
//!
//! (e) *The memory is freed once, by the last.* Holding, joining and each waker are parts of one word, given up by a
//! release that acquires what the others did before they gave up theirs. Who sees alone in the word what it holds
//! itself need not write it.

use std::mem::{ManuallyDrop, MaybeUninit};
use std::task::{Poll, Waker};

use super::state::{End, Pause, REFERENCE, State, Then};
use crate::primitives::{AtomicUsize, Ordering, UnsafeCell};
use crate::stress;

/// See the module.
///
/// All of it lies in cells: a method may give up the caller's part, and another thread free the memory, before it
/// returns. A reference to anything else must not be there then.
#[derive(Debug)]
pub(super) struct Lifecycle {
    state: AtomicUsize,
    /// The joiner's waker, there while `AWAITED` is set.
    awaiter: UnsafeCell<MaybeUninit<Waker>>,
}

/// What becomes of a task that has come to its end: what its runner must do.
#[derive(Debug)]
pub(super) enum Ended {
    /// Nothing: the task is the joiner's, or that of whoever has a waker.
    Released,
    /// Drop the result, if there is one, and free the task.
    Unshared,
    /// Drop the result, then [`let_go`](Lifecycle::let_go).
    Unwanted,
    /// [`let_go`](Lifecycle::let_go), then wake it.
    Notify(Waker),
}

/// What the joiner of a task has to do when it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detached {
    /// Nothing: the task runs on.
    Running,
    /// Drop the result if there is one and it was not taken, then [`detach_done`](Lifecycle::detach_done).
    Done { outcome: bool },
}

impl Lifecycle {
    /// That of a new task, which is held and joined.
    pub(super) fn new() -> Self {
        Self {
            state: AtomicUsize::new(State::NEW.0),
            awaiter: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// The word as it is.
    #[cfg(all(test, not(quadrille_loom)))]
    pub(super) fn word(&self) -> State {
        // Ordering: Relaxed; a test's, for the word alone.
        self.load(Ordering::Relaxed)
    }

    fn load(&self, ordering: Ordering) -> State {
        State(self.state.load(ordering))
    }

    /// Changes the word to what `next` makes of it; `None` leaves it: what that rests on must be final, or the caller's
    /// own to change.
    fn update<R>(&self, next: impl Fn(State) -> (Option<State>, R)) -> R {
        // Ordering: Relaxed; nothing is read on the strength of this look: where something is, the caller looks again.
        let mut state = self.load(Ordering::Relaxed);
        loop {
            let (new, result) = next(state);
            let Some(new) = new else {
                return result;
            };
            stress::delay();
            // Ordering: AcqRel; (C a, b, d, e) each event gives what was done before it to the next one that matters,
            // and takes in what was given.
            match self
                .state
                .compare_exchange_weak(state.0, new.0, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return result,
                Err(now) => state = State(now),
            }
        }
    }

    /// A waker was used; `gives`: and given up.
    #[inline]
    pub(super) fn wake(&self, gives: bool) -> Then {
        self.update(|state| {
            // Which is final.
            if state.is_done() && !gives {
                return (None, Then::Nothing);
            }
            let (new, then) = state.wake(gives);
            (Some(new), then)
        })
    }

    /// A waker is made from another one, or by the runner.
    #[inline]
    pub(super) fn add_waker(&self) {
        // Ordering: Relaxed; whoever adds one has one, or holds or joins the task.
        let state = self.state.fetch_add(REFERENCE, Ordering::Relaxed);
        if state > usize::MAX / 2 {
            // Somebody forgets wakers in a loop: before the count overflows into a use after free.
            std::process::abort();
        }
    }

    /// A waker is dropped.
    #[inline]
    pub(super) fn drop_waker(&self) -> Then {
        self.update(|state| {
            let (new, then) = state.drop_waker();
            (Some(new), then)
        })
    }

    /// The holder is about to poll. Whether there are abort handles, so that an abort may be what it was woken for
    /// (E e).
    #[inline]
    pub(super) fn begin(&self) -> bool {
        // Ordering: Relaxed; what woke it before it was held came through the queue. What wakes it meanwhile is seen by
        // `pause`.
        let mut state = self.load(Ordering::Relaxed);
        if state.is_woken() {
            // Ordering: Acquire; (C a) pairs with the release in `wake`. Who made the first abort handle may have woken
            // it since the look.
            state = State(self.state.fetch_and(State::NOT_WOKEN, Ordering::Acquire));
        }
        state.is_watched()
    }

    /// The holder's future is not ready. What is left to do: nothing after [`Pause::Released`].
    ///
    /// The other two answers write nothing, and are right however old the look is. `WOKEN` is cleared by the holder
    /// alone; `begin` sees it, too, and acquires. Without a waker, and not woken, the task stays so: a waker that was
    /// lent, used or cloned elsewhere during the poll was so before the poll ended, and one that is used and given up
    /// sets `WOKEN` by the same write. A joiner makes wakers of threads alone, which are never without one of their
    /// own.
    #[inline]
    pub(super) fn pause(&self) -> Pause {
        self.update(|state| {
            let pause = state.pause();
            let new = if let Pause::Released(new) = pause {
                Some(new)
            } else {
                None
            };
            (new, pause)
        })
    }

    /// The holder's future is gone; if `outcome`, its result is in place. `tell` tells the abort handles, if there are
    /// any, while the task is held; more than once where the word changes meanwhile.
    #[inline]
    pub(super) fn end(&self, outcome: bool, tell: impl Fn()) -> Ended {
        let end = self.update(|state| {
            if state.is_watched() {
                // Before `DONE`: after it the memory may be freed. Who watches from now on makes the change fail, or is
                // told that it is too late.
                // Ordering: Acquire; (E d) pairs with the release in `watch`.
                self.load(Ordering::Acquire);
                tell();
            }
            let end = state.end(outcome);
            let new = match end {
                End::Unshared => None,
                End::Released(new) | End::Unwanted(new) | End::Notify(new) => Some(new),
            };
            (new, end)
        });
        match end {
            End::Unshared => {
                // Ordering: Acquire; (C e) pairs with the release of whoever gave up the last reference, or the
                // joining.
                self.load(Ordering::Acquire);
                Ended::Unshared
            }
            End::Released(_) => Ended::Released,
            End::Unwanted(_) => Ended::Unwanted,
            // SAFETY: (C d) `AWAITED` was set in the word that got `DONE`: the waker is there, and ours alone; nobody
            // takes it twice, because a task ends once.
            End::Notify(_) => Ended::Notify(unsafe { self.copy_waker() }),
        }
    }

    /// The holder of a task that is done lets go of it.
    #[inline]
    pub(super) fn let_go(&self) -> Then {
        self.update(|state| {
            let (new, then) = state.release();
            (Some(new), then)
        })
    }

    /// Whether somebody may ask for the result. If nobody may, (C c) is decided: the joiner never comes back.
    #[inline]
    pub(super) fn is_joined(&self) -> bool {
        // Ordering: Relaxed; the bit alone matters. What the joiner did is none of the result's concern.
        self.load(Ordering::Relaxed).is_joined()
    }

    /// Whether the task is done.
    #[inline]
    pub(super) fn is_done(&self) -> bool {
        // Ordering: Acquire; (C c) pairs with the release of `DONE`.
        self.load(Ordering::Acquire).is_done()
    }

    /// The joiner asks whether the task is done, and if so whether there is a result; else `waker` will be told.
    #[inline]
    pub(super) fn poll_done(&self, waker: &Waker) -> Poll<bool> {
        // Ordering: Acquire; (C c) pairs with the release of `DONE`.
        let mut state = self.load(Ordering::Acquire);
        if !state.is_done() && state.is_awaited() {
            // SAFETY: (C d) while it is awaited the waker is there, and nobody writes it but us, below. It is not
            // dropped: it stays.
            let left = ManuallyDrop::new(unsafe { self.copy_waker() });
            if left.will_wake(waker) {
                return Poll::Pending;
            }
            state = self.take_back(state);
        }
        if !state.is_done() {
            state = self.register(state, waker);
        }
        if state.is_done() {
            Poll::Ready(state.has_outcome())
        } else {
            Poll::Pending
        }
    }

    /// Leaves a waker for the runner, unless the task is done meanwhile.
    fn register(&self, state: State, waker: &Waker) -> State {
        // Cloned before: a panic leaves nothing behind.
        let waker = waker.clone();
        // SAFETY: (C d) while it is not awaited and we have not seen that it is done, the cell is the joiner's alone,
        // which we are.
        self.awaiter
            .with_mut(|cell| unsafe { cell.write(MaybeUninit::new(waker)) });
        let state = self.change(state, State::register);
        if state.is_done() {
            // SAFETY: written above, and nobody was told.
            drop(unsafe { self.copy_waker() });
        }
        state
    }

    /// Takes the joiner's waker back and drops it, unless the task is done meanwhile: then it is the runner's.
    fn take_back(&self, state: State) -> State {
        let state = self.change(state, State::unregister);
        if !state.is_done() {
            // SAFETY: (C d) it was awaited, so the waker is there; it is not any more, so it is ours.
            drop(unsafe { self.copy_waker() });
        }
        state
    }

    /// A copy, bit by bit, of the waker in the cell.
    ///
    /// # Safety
    /// It is there, nobody writes the cell meanwhile, and of all that this answers one is used or dropped, the others
    /// forgotten.
    unsafe fn copy_waker(&self) -> Waker {
        // SAFETY: by our contract.
        let waker = self.awaiter.with(|cell| unsafe { cell.read() });
        // SAFETY: by our contract.
        unsafe { waker.assume_init() }
    }

    /// Changes the word for the joiner, unless the task is done. The word as it is then.
    fn change(&self, mut state: State, next: impl Fn(State) -> Option<State>) -> State {
        while let Some(new) = next(state) {
            stress::delay();
            // Ordering: Release, Acquire; (C d) gives the waker to the runner, (E d) what abort handles share; (C c)
            // takes in what `DONE` gives.
            match self
                .state
                .compare_exchange_weak(state.0, new.0, Ordering::Release, Ordering::Acquire)
            {
                Ok(_) => return new,
                Err(now) => state = State(now),
            }
        }
        state
    }

    /// The joiner has made what abort handles share. True: too late for the runner to tell them, the task is done.
    #[must_use = "if it is too late nobody else tells them"]
    pub(super) fn watch(&self) -> bool {
        // Ordering: Acquire; (E d) pairs with the release of `DONE`. With the bit set, whoever set it has given the
        // runner what we have found.
        let state = self.load(Ordering::Acquire);
        !state.is_watched() && self.change(state, State::watch).is_done()
    }

    /// The joiner goes.
    #[inline]
    pub(super) fn detach(&self) -> Detached {
        // Ordering: Acquire; (C c) pairs with the release of `DONE`.
        let state = self.load(Ordering::Acquire);
        let left = (!state.is_done() && state.is_awaited()).then(|| {
            // SAFETY: (C d) while it is awaited the waker is there, and nobody writes it. It is dropped only if it
            // turns out to be ours.
            ManuallyDrop::new(unsafe { self.copy_waker() })
        });
        let state = self.change(state, State::detach);
        if state.is_done() {
            return Detached::Done {
                outcome: state.has_outcome(),
            };
        }
        // The task may be gone; the waker was ours until then, and is not in its cell any more.
        drop(left.map(ManuallyDrop::into_inner));
        Detached::Running
    }

    /// The joiner of a task that is done goes.
    #[inline]
    pub(super) fn detach_done(&self) -> Then {
        // Ordering: Acquire; (C e) pairs with the release of whoever gave up its part before.
        if self.load(Ordering::Acquire).is_joiners_alone() {
            return Then::Free;
        }
        // Ordering: AcqRel; (C e).
        let state = State(self.state.fetch_and(State::NOT_JOINED, Ordering::AcqRel));
        state.after_detach()
    }
}

#[cfg(all(test, quadrille_loom))]
mod loom;
