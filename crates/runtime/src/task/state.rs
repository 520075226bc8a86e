//! What a task's state word says, and what each event makes of it: pure, so that every sequence of events can be tried.
//!
//! | bit, from the lowest | says | set by | cleared by |
//! |---|---|---|---|
//! | `HELD` | a `Runnable` exists: it is in a queue, or its task runs | whoever wakes a task that is not held | the runner |
//! | `WOKEN` | woken while it was held | who wakes it | the runner, before it polls again |
//! | `DONE` | the future is gone | the runner | |
//! | `OUTCOME` | there is a result, for the joiner | the runner, with `DONE` | |
//! | `JOINER` | a `JoinHandle` exists | birth | its drop |
//! | `AWAITED` | the joiner has left a waker; the cell for it is the runner's from `DONE` on | the joiner | the joiner, before `DONE` |
//! | `WATCHED` | there are abort handles, to which a run looks for an abort (E e), and which the runner tells before `DONE` | the joiner, before `DONE` | |
//!
//! The rest of the word, from bit 7 on, counts wakers. A task lives as long as it is held, joined or referred to.
//!
//! A task that waits and that nobody can wake any more is ended, and its joiner told that it was cancelled. No task
//! comes to that as things are: until its end the registry has a waker of each that was pending, and a user-level
//! thread has its own.
//!
//! A task that gives way is woken by itself while it runs: its runner is told without the word (`running`), so that
//! `HELD` stays and nothing is written.

/// The word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct State(pub(super) usize);

const HELD: usize = 1;
const WOKEN: usize = 1 << 1;
const DONE: usize = 1 << 2;
const OUTCOME: usize = 1 << 3;
const JOINER: usize = 1 << 4;
const AWAITED: usize = 1 << 5;
const WATCHED: usize = 1 << 6;
/// One waker.
pub(super) const REFERENCE: usize = 1 << 7;

/// What whoever brought an event must do after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Nothing,
    /// Queue the runnable, which is the caller's now.
    Submit,
    /// Free the memory: nobody else refers to it.
    Free,
}

/// What becomes of a task whose future is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// It was woken meanwhile, and is still held: queue it.
    Again,
    /// Nobody is left who could wake it, and it is still held: end it.
    Abandoned,
    /// Let go, if the word can be made this.
    Released(State),
}

/// What becomes of a task that has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Nobody else refers to it: drop its result, and free it. The word stays.
    Unshared,
    /// Let go; the result is the joiner's.
    Released(State),
    /// Still held: drop the result, which nobody wants, then let go.
    Unwanted(State),
    /// Still held: take the joiner's waker, let go, then wake it.
    Notify(State),
}

impl State {
    /// What is left when the task is about to run: whatever woke it before has its effect.
    pub(super) const NOT_WOKEN: usize = !WOKEN;

    /// What is left when the joiner goes.
    pub(super) const NOT_JOINED: usize = !JOINER;

    /// A new task: in a queue, or about to be, and joined.
    pub(super) const NEW: Self = Self(HELD | JOINER);

    fn has(self, bit: usize) -> bool {
        self.0 & bit != 0
    }

    fn with(self, bits: usize) -> Self {
        Self(self.0 | bits)
    }

    fn without(self, bits: usize) -> Self {
        Self(self.0 & !bits)
    }

    fn has_references(self) -> bool {
        self.0 >= REFERENCE
    }

    /// Whether whoever gave something up to make it this was the last.
    fn is_unowned(self) -> bool {
        !self.has(HELD | JOINER) && !self.has_references()
    }

    fn then_free(self) -> (Self, Then) {
        (self, if self.is_unowned() { Then::Free } else { Then::Nothing })
    }

    pub(super) fn is_done(self) -> bool {
        self.has(DONE)
    }

    pub(super) fn has_outcome(self) -> bool {
        self.has(OUTCOME)
    }

    /// Whether the joiner has left a waker. Its own to ask, before `DONE`.
    pub(super) fn is_awaited(self) -> bool {
        self.has(AWAITED)
    }

    /// Whether somebody may ask for the result. Once nobody may, nobody ever will.
    pub(super) fn is_joined(self) -> bool {
        self.has(JOINER)
    }

    /// Whether there are abort handles.
    pub(super) fn is_watched(self) -> bool {
        self.has(WATCHED)
    }

    /// Whether it was woken since it was last about to run.
    pub(super) fn is_woken(self) -> bool {
        self.has(WOKEN)
    }

    /// Woken, by a waker that is given up with it if `gives`.
    pub(super) fn wake(self, gives: bool) -> (Self, Then) {
        let left = Self(self.0 - if gives { REFERENCE } else { 0 });
        match () {
            () if self.has(DONE) => left.then_free(),
            () if self.has(HELD) => (left.with(WOKEN), Then::Nothing),
            () => (left.with(HELD), Then::Submit),
        }
    }

    /// A waker is given up. The last one of a task that waits makes it run once more: what it does not find then it
    /// will never be told of.
    pub(super) fn drop_waker(self) -> (Self, Then) {
        let left = Self(self.0 - REFERENCE);
        if left.has(DONE | HELD) || left.has_references() {
            left.then_free()
        } else {
            (left.with(HELD), Then::Submit)
        }
    }

    /// The runner's future was not ready.
    pub(super) fn pause(self) -> Pause {
        match () {
            () if self.has(WOKEN) => Pause::Again,
            () if !self.has_references() => Pause::Abandoned,
            () => Pause::Released(self.without(HELD)),
        }
    }

    /// The runner's future is gone, and left a result if `outcome`.
    pub(super) fn end(self, outcome: bool) -> End {
        let done = self.with(DONE).without(WOKEN);
        match (self.has(JOINER), outcome) {
            (true, _) if self.has(AWAITED) => End::Notify(done.with(if outcome { OUTCOME } else { 0 })),
            (true, true) => End::Released(done.with(OUTCOME).without(HELD)),
            (false, _) if !self.has_references() => End::Unshared,
            (false, true) => End::Unwanted(done),
            (_, false) => End::Released(done.without(HELD)),
        }
    }

    /// The runner of a task that is done lets go.
    pub(super) fn release(self) -> (Self, Then) {
        self.without(HELD).then_free()
    }

    /// The joiner has put a waker into the cell. `None`: too late, the task is done.
    pub(super) fn register(self) -> Option<Self> {
        (!self.has(DONE)).then(|| self.with(AWAITED))
    }

    /// The joiner wants the cell back. `None`: too late, it is the runner's.
    pub(super) fn unregister(self) -> Option<Self> {
        (!self.has(DONE)).then(|| self.without(AWAITED))
    }

    /// The joiner has made an abort handle. `None`: too late, the task is done.
    pub(super) fn watch(self) -> Option<Self> {
        (!self.has(DONE)).then(|| self.with(WATCHED))
    }

    /// The joiner goes, and with it the waker that it left. `None`: the task is done, and its result to be dropped
    /// first.
    pub(super) fn detach(self) -> Option<Self> {
        (!self.has(DONE)).then(|| self.without(JOINER | AWAITED))
    }

    /// Whether the joiner of a task that is done has it for itself alone.
    pub(super) fn is_joiners_alone(self) -> bool {
        self.without(JOINER).is_unowned()
    }

    /// Whether a joiner that went from here was the last.
    pub(super) fn after_detach(self) -> Then {
        self.without(JOINER).then_free().1
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests;
