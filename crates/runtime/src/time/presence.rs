//! Threads that may block, and the paused clock of their runtime: whether they are at work, and whose turn it is.
//!
//! What a thread has of both is its *presence*. It is one at a time for all that the thread does inside of each other: a closure that may block, a task
//! that blocks in place, a `block_on` in the poll of another. Who begins one of those puts back what was there before when it ends (`Stay`), and
//! who waits gives up both meanwhile. Who wakes it counts it again, because it may come to it only later:
//!
//! | state of a `block_on` | since | counted as at work |
//! |---|---|---|
//! | `POLLS` | it has taken in what woke it, and is about to poll | by its thread, if the clock stood then |
//! | `NOTED` | it was woken while it polls | the same |
//! | `RESTS` | it waits for a wake-up | no |
//! | `WOKEN` | it was woken since, or before it could wait | yes, for its thread to take over |
//!
//! Nobody looks at any of it in a process that has never paused a clock.

use std::cell::Cell;
use std::sync::{Arc, OnceLock, Weak};

use super::clock::{Holder, any_paused};
use crate::current;
use crate::primitives::{AtomicU8, Ordering};
use crate::sched::Shared;
use crate::sched::context::{Context, is_away, is_polling};

/// What a thread has of the clock of one runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Presence {
    /// The address of the runtime; zero: of none.
    runtime: usize,
    /// It counts as at work.
    counted: bool,
    /// The pause in which it has the turn; zero: in none.
    turn: usize,
}

thread_local! {
    static PRESENCE: Cell<Presence> = const { Cell::new(Presence::NONE) };
}

impl Presence {
    const NONE: Self = Self {
        runtime: 0,
        counted: false,
        turn: 0,
    };

    /// What the calling thread has of that one.
    fn of(shared: &Arc<Shared>) -> Self {
        let presence = PRESENCE.get();
        let runtime = Arc::as_ptr(shared).addr();
        if presence.runtime == runtime {
            presence
        } else {
            Self { runtime, ..Self::NONE }
        }
    }

    /// Gives up what the thread has, but for what it is to `keep`, and takes what it has not.
    fn becomes(self, keep: Self, shared: &Shared) {
        PRESENCE.set(keep);
        if self.turn != 0 && keep.turn == 0 {
            shared.clock.end_guests_turn(self.turn);
        }
        match (self.counted, keep.counted) {
            (true, false) => shared.ceases_to_work(),
            (false, true) => shared.clock.works(),
            (true, true) | (false, false) => {}
        }
        if keep.turn != 0 && self.turn == 0 {
            let turn = take_turn(shared);
            PRESENCE.set(Self { turn, ..keep });
        }
    }
}

/// Waits for the turn of the calling thread; see `Clock::take_guests_turn`.
fn take_turn(shared: &Shared) -> usize {
    let sleepers = &shared.sleepers;
    let rests = || sleepers.is_idle(0) || shared.is_worker_away();
    shared.clock.take_guests_turn(rests, || sleepers.is_stopping())
}

/// What a thread does that may block. When it goes the thread has what it had before, also if a panic ends it.
#[derive(Debug)]
pub(crate) struct Stay {
    before: Presence,
    /// In which runtime, where that need not be the current one at the end.
    shared: Option<Arc<Shared>>,
}

impl Stay {
    /// Nothing changes as yet.
    #[inline]
    pub(crate) fn begin() -> Self {
        Self {
            before: PRESENCE.get(),
            shared: None,
        }
    }

    /// The same in `shared`.
    fn begin_in(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Some(shared.clone()),
            ..Self::begin()
        }
    }

    /// The thread is at work in `shared`, if the clock of that stands.
    pub(crate) fn at_work(shared: &Arc<Shared>) -> Self {
        let stay = Self::begin_in(shared);
        if shared.clock.is_paused() {
            let presence = Presence::of(shared);
            let counted = Presence {
                counted: true,
                turn: 0,
                ..presence
            };
            presence.becomes(counted, shared);
        }
        stay
    }
}

impl Drop for Stay {
    #[inline]
    fn drop(&mut self) {
        if PRESENCE.get() != self.before {
            restore(self.before, self.shared.take());
        }
    }
}

#[cold]
fn restore(before: Presence, shared: Option<Arc<Shared>>) {
    let now = PRESENCE.get();
    let shared = shared.or_else(|| current::current().map(|handle| handle.shared));
    let Some(shared) = shared.filter(|shared| Arc::as_ptr(shared).addr() == now.runtime) else {
        return PRESENCE.set(before);
    };
    if before.runtime == now.runtime {
        now.becomes(before, &shared);
    } else {
        now.becomes(Presence::NONE, &shared);
        PRESENCE.set(before);
    }
}

/// Something that may block is at work, or waits to be. `None` once a thread counts for it.
#[derive(Debug)]
pub(crate) struct AtWork(Option<Arc<Shared>>);

impl AtWork {
    pub(crate) fn begin(shared: Arc<Shared>) -> Self {
        shared.clock.works();
        Self(Some(shared))
    }

    /// The calling thread does it, and counts for it.
    pub(crate) fn here(mut self) -> Stay {
        let Some(shared) = self.0.take() else {
            return Stay::begin();
        };
        let stay = Stay::begin_in(&shared);
        let presence = Presence::of(&shared);
        if presence.counted {
            // Who stops the runtime may do it in the middle of something else, and counts once.
            shared.clock.ceases();
        }
        PRESENCE.set(Presence {
            counted: true,
            ..presence
        });
        stay
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.ceases_to_work();
        }
    }
}

/// A `block_on`, and the paused clock of its runtime.
#[derive(Debug)]
pub(crate) struct Guest {
    state: AtomicU8,
    /// The runtime in which it waited first, when some clock of the process was paused.
    shared: OnceLock<Weak<Shared>>,
}

const POLLS: u8 = 0;
const NOTED: u8 = 1;
const RESTS: u8 = 2;
const WOKEN: u8 = 3;

impl Guest {
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU8::new(POLLS),
            shared: OnceLock::new(),
        }
    }

    /// Before a poll: counts as at work, and takes the turn.
    #[inline]
    pub(crate) fn polls(&self) {
        if any_paused() {
            self.takes_part();
        }
    }

    #[cold]
    fn takes_part(&self) {
        // Ordering: AcqRel; who woke us has done what he did before.
        let was_counted = self.state.swap(POLLS, Ordering::AcqRel) == WOKEN;
        let Some(shared) = current::current().map(|handle| handle.shared) else {
            return;
        };
        let mut presence = Presence::of(&shared);
        if !shared.clock.is_paused() {
            if was_counted {
                shared.ceases_to_work();
            }
            return;
        }
        match (presence.counted, was_counted) {
            (false, false) => shared.clock.works(),
            (true, true) => shared.clock.ceases(),
            (false, true) | (true, false) => {}
        }
        presence.counted = true;
        PRESENCE.set(presence);
        if !is_away() && presence.turn != shared.clock.pause_number() {
            presence.turn = take_turn(&shared);
            PRESENCE.set(presence);
        }
    }

    /// Before it waits for a wake-up: gives the turn back, and is not at work.
    #[inline]
    pub(crate) fn rests(&self) {
        if any_paused() {
            self.takes_no_part();
        }
    }

    #[cold]
    fn takes_no_part(&self) {
        let Some(shared) = current::current().map(|handle| handle.shared) else {
            return;
        };
        let _ = self.shared.set(Arc::downgrade(&shared));
        let presence = Presence::of(&shared);
        // Ordering: AcqRel; who wakes us from now on comes after what we did.
        let rests = self
            .state
            .compare_exchange(POLLS, RESTS, Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if !rests {
            // Woken meanwhile: it will poll again, and is at work until then.
            if !presence.counted {
                shared.clock.works();
            }
            // Ordering: Release; as above. Nobody else leaves `NOTED`.
            self.state.store(WOKEN, Ordering::Release);
        }
        let counted = Presence {
            counted: presence.counted && rests,
            ..presence
        };
        let absent = Presence {
            counted: false,
            turn: 0,
            ..presence
        };
        counted.becomes(absent, &shared);
    }

    /// Somebody wakes it. Before the token.
    #[inline]
    pub(crate) fn is_woken(&self) {
        if any_paused() {
            self.is_noted();
        }
    }

    #[cold]
    fn is_noted(&self) {
        let change = |from, to| {
            self.state
                // Ordering: AcqRel; gives the thread what was done before the wake-up. Acquire: looks again.
                .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
        };
        loop {
            // Ordering: Acquire; as there.
            match self.state.load(Ordering::Acquire) {
                POLLS if change(POLLS, NOTED) => return,
                RESTS => {
                    let Some(shared) = self.shared.get().and_then(Weak::upgrade) else {
                        return;
                    };
                    // Before it is seen to be counted, and takes that over.
                    shared.clock.works();
                    if change(RESTS, WOKEN) {
                        return;
                    }
                    shared.ceases_to_work();
                }
                NOTED | WOKEN => return,
                _ => {}
            }
        }
    }
}

/// The calling thread pauses the clock of `shared`, by `pause`: to that it says whose turn it is then, and what comes before.
pub(super) fn pauses(shared: &Arc<Shared>, pause: impl FnOnce(Option<Holder>, &dyn Fn()) -> bool) -> bool {
    if current::is_worker() {
        let takes_turn = || Context::with(|context| context.into_iter().for_each(Context::has_turn_now));
        return pause(Some(Holder::Worker), &takes_turn);
    }
    if !is_polling() || is_away() {
        return pause(None, &|| ());
    }
    // It polls, so nobody else has a turn before it waits.
    let takes_part = || {
        let presence = Presence::of(shared);
        if !presence.counted {
            shared.clock.works();
        }
        PRESENCE.set(Presence {
            counted: true,
            turn: shared.clock.pause_number(),
            ..presence
        });
    };
    pause(Some(Holder::Guest), &takes_part)
}

/// The current runtime of a thread that is no worker, if its clock is paused.
pub(crate) fn stands_here() -> bool {
    any_paused() && current::current().is_some_and(|handle| handle.shared.clock.is_paused())
}
