//! Threads that may block, and the clock of their runtime, which tests may pause: whether they are at work, and whose
//! turn it is.
//!
//! What a thread has of both is its *presence*. It is one at a time for all that the thread does inside of each other:
//! a closure that may block, a task that blocks in place, a `block_on` in the poll of another. Who begins one of those
//! puts back what was there before when it ends (`Stay`), and who waits gives up both meanwhile. Who wakes it counts it
//! again, because it may come to it only later:
//!
//! | state of a `block_on` | since | counted as at work |
//! |---|---|---|
//! | `POLLS` | it has taken in what woke it, and is about to poll | by its thread |
//! | `NOTED` | it was woken while it polls | the same |
//! | `RESTS` | it waits for a wake-up | no |
//! | `WOKEN` | it was woken since, or before it could wait | yes, for its thread to take over |
//!
//! All of it is counted whether or not the clock stands, so that a pause finds it as it is; turns are taken while it
//! stands. A runtime with more than one worker has a clock that can't be paused, and its `block_on` counts nothing.

use std::cell::Cell;
use std::sync::{Arc, Weak};

use super::clock::Holder;
use crate::current;
use crate::primitives::{AtomicU8, Ordering};
use crate::sched::Shared;
use crate::sched::context::{Context, is_polling};

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
    /// The runtimes that the thread had entered when it last began to block in one.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The runtime whose task blocks in place on the thread, by its address; zero: none.
    static BLOCKS_IN: Cell<usize> = const { Cell::new(0) };
}

fn address(shared: &Shared) -> usize {
    std::ptr::from_ref(shared).addr()
}

/// That runtime, if its clock can be paused: it has one worker.
#[inline]
fn if_pausable(shared: Option<&Arc<Shared>>) -> Option<Arc<Shared>> {
    shared.filter(|shared| shared.worker_count() == 1).cloned()
}

impl Presence {
    const NONE: Self = Self {
        runtime: 0,
        counted: false,
        turn: 0,
    };

    /// What the calling thread has of that one.
    fn of(shared: &Shared) -> Self {
        let (presence, runtime) = (PRESENCE.get(), address(shared));
        if presence.runtime == runtime {
            presence
        } else {
            Self { runtime, ..Self::NONE }
        }
    }

    /// Gives up what the thread has, but for what it is to `keep`, and takes what it has not.
    fn becomes(self, keep: Self, shared: &Shared) {
        let turn = if self.turn != 0 && keep.turn != 0 {
            self.turn
        } else {
            keep.turn
        };
        PRESENCE.set(Self { turn, ..keep });
        if self.turn != 0 && turn == 0 {
            shared.clock.end_guests_turn(self.turn);
        }
        match (self.counted, keep.counted) {
            (true, false) => shared.ceases_to_work(),
            (false, true) => shared.clock.works(),
            (true, true) | (false, false) => {}
        }
        if self.turn == 0 && turn != 0 {
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

/// Whether the calling thread is the worker of `shared`, or its reliever, and blocks in place: nobody waits for that to
/// have a turn.
fn blocks_in_place(shared: &Shared) -> bool {
    BLOCKS_IN.get() == address(shared)
}

/// What a thread does that may block. When it goes the thread has what it had before, also if a panic ends it.
#[derive(Debug)]
pub(crate) struct Stay {
    before: Presence,
    depth: usize,
    blocks_in: usize,
    /// Where it counts; `None` where its end says that, and for a `block_on` whose clock can't be paused.
    shared: Option<Arc<Shared>>,
}

impl Stay {
    /// A `block_on`, where that is the current runtime, if there is one.
    #[inline]
    pub(crate) fn begin(current: Option<&Arc<Shared>>) -> Self {
        Self::begin_in(if_pausable(current))
    }

    fn begin_in(shared: Option<Arc<Shared>>) -> Self {
        Self {
            before: PRESENCE.get(),
            depth: DEPTH.replace(current::depth()),
            blocks_in: BLOCKS_IN.get(),
            shared,
        }
    }

    /// A task that blocks in place. To be ended by [`ends_in`](Self::ends_in).
    pub(crate) fn in_place(shared: &Shared) -> Self {
        let stay = Self::at_work(shared);
        BLOCKS_IN.set(address(shared));
        stay
    }

    /// A thread that runs tasks in place of a worker. To be ended by [`ends_in`](Self::ends_in).
    pub(crate) fn at_work(shared: &Shared) -> Self {
        let stay = Self::begin_in(None);
        let presence = Presence::of(shared);
        let counted = Presence {
            counted: true,
            turn: 0,
            ..presence
        };
        presence.becomes(counted, shared);
        stay
    }

    /// The same runtime.
    pub(crate) fn ends_in(self, shared: &Shared) {
        restore(self.before, shared);
    }
}

impl Drop for Stay {
    #[inline]
    fn drop(&mut self) {
        DEPTH.set(self.depth);
        BLOCKS_IN.set(self.blocks_in);
        if let Some(shared) = &self.shared
            && PRESENCE.get() != self.before
        {
            restore(self.before, shared);
        }
    }
}

/// The thread was in `shared`; from now on it is where it was before, and as it was.
fn restore(before: Presence, shared: &Shared) {
    let now = Presence::of(shared);
    if before.runtime == now.runtime {
        now.becomes(before, shared);
    } else {
        now.becomes(Presence::NONE, shared);
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

    /// Something in the current runtime that no thread of ours does. `None` if nobody can pause its clock.
    #[cfg(all(feature = "io-uring", target_os = "linux", not(quadrille_loom)))]
    pub(crate) fn in_current() -> Option<Self> {
        current::with(if_pausable).map(Self::begin)
    }

    /// The calling thread, one of the pool, does it, and counts for it.
    pub(crate) fn here(mut self) -> Stay {
        let stay = Stay::begin_in(self.0.take());
        if let Some(shared) = &stay.shared {
            PRESENCE.set(Presence {
                counted: true,
                ..Presence::of(shared)
            });
        }
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

/// A `block_on`, and the clock of its runtime.
#[derive(Debug)]
pub(crate) struct Guest {
    state: AtomicU8,
    /// As the `Stay`'s, for wakers that outlive it.
    shared: Option<Weak<Shared>>,
}

const POLLS: u8 = 0;
const NOTED: u8 = 1;
const RESTS: u8 = 2;
const WOKEN: u8 = 3;

impl Guest {
    pub(crate) fn new(stay: &Stay) -> Self {
        Self {
            state: AtomicU8::new(POLLS),
            shared: stay.shared.as_ref().map(Arc::downgrade),
        }
    }

    /// Before a poll: counts as at work, and takes the turn.
    #[inline]
    pub(crate) fn polls(&self, stay: &Stay) {
        if let Some(shared) = &stay.shared {
            self.takes_part(shared);
        }
    }

    fn takes_part(&self, shared: &Shared) {
        // Ordering: AcqRel; who woke us has done what he did before.
        let was_counted = self.state.swap(POLLS, Ordering::AcqRel) == WOKEN;
        let mut presence = Presence::of(shared);
        match (presence.counted, was_counted) {
            (false, false) => shared.clock.works(),
            (true, true) => shared.clock.ceases(),
            (false, true) | (true, false) => {}
        }
        let blocks = blocks_in_place(shared);
        presence.counted = true;
        PRESENCE.set(presence);
        if shared.clock.is_paused() && !blocks && presence.turn != shared.clock.pause_number() {
            presence.turn = take_turn(shared);
            PRESENCE.set(presence);
        }
    }

    /// Before it waits for a wake-up: gives the turn back, and is not at work.
    #[inline]
    pub(crate) fn rests(&self, stay: &Stay) {
        if let Some(shared) = &stay.shared {
            self.takes_no_part(shared);
        }
    }

    fn takes_no_part(&self, shared: &Shared) {
        let presence = Presence::of(shared);
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
        let own = Presence {
            counted: presence.counted && rests,
            ..presence
        };
        let absent = Presence {
            counted: false,
            turn: 0,
            ..presence
        };
        own.becomes(absent, shared);
    }

    /// Somebody wakes it. Before the token.
    #[inline]
    pub(crate) fn is_woken(&self) {
        if let Some(shared) = &self.shared {
            self.is_noted(shared);
        }
    }

    fn is_noted(&self, shared: &Weak<Shared>) {
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
                    let Some(shared) = shared.upgrade() else {
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

/// The calling thread pauses the clock of `shared`, by `pause`: to that it says whose turn it is then, and what comes
/// before.
pub(super) fn pauses(shared: &Arc<Shared>, pause: impl FnOnce(Option<Holder>, &dyn Fn()) -> bool) -> bool {
    if current::is_worker() {
        let takes_turn = || Context::with(|context| context.into_iter().for_each(Context::has_turn_now));
        return pause(Some(Holder::Worker), &takes_turn);
    }
    // Not who has entered another runtime in the poll, to pause that.
    if !is_polling() || current::depth() != DEPTH.get() || blocks_in_place(shared) {
        return pause(None, &|| ());
    }
    let takes_part = || {
        let turn = shared.clock.pause_number();
        PRESENCE.set(Presence {
            turn,
            ..Presence::of(shared)
        });
    };
    pause(Some(Holder::Guest), &takes_part)
}

/// Whether the clock of the current runtime stands, and that runtime goes on.
pub(crate) fn stands_here() -> bool {
    current::with(|shared| shared.is_some_and(|shared| shared.clock.is_paused() && !shared.sleepers.is_stopping()))
}
