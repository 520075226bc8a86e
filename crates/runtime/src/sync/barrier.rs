//! A place where a number of tasks and threads meet, round after round.
//!
//! A watched state has the number of the *round*, from zero, and how many have *arrived* in it, always fewer than the
//! barrier's size. A future is
//!
//! | a future is | it counts | left by |
//! |---|---|---|
//! | new | no | its poll with budget: it arrives, and waits, or ended the round, which ends it; its drop |
//! | waiting, in the round in which it arrived | yes, for ever | its poll once that round is over: ended; its drop |
//! | ended | yes | |
//!
//! # Theorem Round: who has arrived goes on
//!
//! *(a) The arrivals are cut into rounds of `size`, in their order; the last of a round leads it, and nobody else does.
//! (b) Who waits goes on once its round is over, whatever happens in later ones. (c) A call arrives once.*
//!
//! (a) An arrival is counted in one section, which also learns whether it is the last; if so, that section begins the
//! next round, with nobody. No other step changes the count. (b) A future that waits knows its round, and compares:
//! numbers do not come back. It looks, and takes its place among those who are told of changes, in one section, and the
//! end of a round is such a change (`watched`). (c) The section that counts a future also notes in it that it has
//! arrived, before any waker is called that may panic.
//!
//! Who is dropped while it waits leaves the list and nothing else: the rest is fewer by one, and meets.
//!
//! A poll without budget does not arrive, nor does it end a wait: the task is woken, and has budget at its next turn.
//! To the others that is one who came a turn later.
//!
//! Rejected: to arrive without budget. Who is the last would end at a later poll, and if it is dropped before that the
//! round has nobody who leads it. Rejected: to take back the arrival of who is dropped, as
//! [`thread::sync::Barrier`](crate::thread::sync::Barrier) does. The rest would wait for one who has given up.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::block::block_on;
use super::watched::{Place, Watched};
use crate::coop;
use crate::primitives::const_fn;

/// Lets a number of tasks and threads wait until all of them have come; like tokio's. It can be used again at once.
///
/// Usable in tasks of any runtime, in user-level threads (`barrier.wait().wait()`), and on plain threads. One at which
/// who gives up has not come is in [`thread::sync`](crate::thread::sync::Barrier).
///
/// ```
/// use std::sync::Arc;
/// use quadrille::sync::Barrier;
///
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// let barrier = Arc::new(Barrier::new(10));
/// let mut tasks = Vec::new();
/// for _ in 0..10 {
///     let barrier = barrier.clone();
///     tasks.push(quadrille::spawn(async move { barrier.wait().await.is_leader() }));
/// }
/// let mut leaders = 0;
/// for task in tasks {
///     leaders += usize::from(task.await.unwrap());
/// }
/// assert_eq!(leaders, 1);
/// # });
/// ```
pub struct Barrier {
    state: Watched<State>,
    size: usize,
}

/// See the module.
#[derive(Debug)]
struct State {
    arrived: usize,
    round: u64,
}

impl Barrier {
    const_fn! {
        /// A barrier at which `size` meet; zero is taken for one.
        #[must_use]
        pub fn new(size: usize) -> Self {
            Self {
                state: Watched::new(State { arrived: 0, round: 0 }),
                size,
            }
        }
    }

    /// Waits until all have come. The last one does not wait, and leads the round.
    ///
    /// It has come when it is polled first, in a task that has [budget](crate::coop) left.
    ///
    /// # Panics
    /// If a waker of another who waits does; all were woken, and the round is over.
    /// # Cancel safety
    /// Not safe: one that has come stays counted when it is dropped, so that the others go on, and to call again counts
    /// again. One that has not been polled does not count.
    pub fn wait(&self) -> BarrierWait<'_> {
        BarrierWait {
            place: Place::new(&self.state),
            size: self.size,
            stage: Stage::New,
        }
    }

    /// As [`wait`](Self::wait), for threads. A user-level thread that is unwound from here, as at shutdown, stays
    /// counted.
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
    /// # Blocking
    /// Suspends a user-level thread, and blocks an ordinary one. In a task it holds up its worker.
    ///
    /// ```
    /// let barrier = quadrille::sync::Barrier::new(2);
    /// let wait = || barrier.wait_blocking().is_leader();
    /// std::thread::scope(|scope| {
    ///     let other = scope.spawn(wait);
    ///     assert_ne!(wait(), other.join().unwrap());
    /// });
    /// ```
    pub fn wait_blocking(&self) -> BarrierWaitResult {
        block_on(self.wait())
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrived = self.state.with(|state| state.arrived);
        f.debug_struct("Barrier")
            .field("size", &self.size)
            .field("arrived", &arrived)
            .finish_non_exhaustive()
    }
}

/// What [`Barrier::wait`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult {
    is_leader: bool,
}

impl BarrierWaitResult {
    /// True for one of those who have met: the one that came last.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.is_leader
    }
}

pin_project! {
    /// The future of [`Barrier::wait`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct BarrierWait<'a> {
        #[pin]
        place: Place<&'a Watched<State>>,
        size: usize,
        stage: Stage,
    }
}

/// See the table of the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    New,
    Waits { round: u64 },
    Ended,
}

/// Counts one that has come, which is new.
fn arrive(state: &Watched<State>, size: usize, stage: &mut Stage) {
    state.change(|state| {
        state.arrived += 1;
        let is_last = state.arrived >= size;
        if is_last {
            state.arrived = 0;
            state.round += 1;
            *stage = Stage::Ended;
        } else {
            *stage = Stage::Waits { round: state.round };
        }
        (is_last, ())
    });
}

impl Future for BarrierWait<'_> {
    type Output = BarrierWaitResult;

    /// # Panics
    /// If polled after it was ready, and as [`Barrier::wait`].
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<BarrierWaitResult> {
        let this = self.project();
        let stage = this.stage;
        assert!(
            *stage != Stage::Ended,
            "the future of a wait at a barrier was polled after it had ended"
        );
        coop::poll_progress(cx, |cx| {
            if *stage == Stage::New {
                arrive(this.place.of(), *this.size, stage);
            }
            let Stage::Waits { round } = *stage else {
                return Poll::Ready(BarrierWaitResult { is_leader: true });
            };
            let is_over = this.place.poll(cx, |_, state| (state.round != round).then_some(()));
            is_over.map(|()| {
                *stage = Stage::Ended;
                BarrierWaitResult { is_leader: false }
            })
        })
    }
}

impl fmt::Debug for BarrierWait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BarrierWait").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests;
