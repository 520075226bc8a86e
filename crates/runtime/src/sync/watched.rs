//! A state that changes, and those who wait for it: whoever waits when it changes is told.
//!
//! What waits is a [`Place`], pinned: it looks at the state and takes its place in the list in one section of the lock,
//! and leaves the list when it has seen what it waits for, or is dropped. So no change is missed: it comes before the
//! look, or finds the place in the list.
//!
//! A change may be followed by the next one before all have been woken, in batches. In the list are those who entered
//! before the last change and are owed a wake-up, first, then those who came later: who was woken and goes on waiting
//! enters at the back. Therefore waking ends, however often they come back.

use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::lock::Lock;
use super::waiters::{Wait, Waiter, Waiters};
use super::wake_all::Batch;
use crate::panics::quietly;
use crate::primitives::const_fn;

/// See the module.
#[derive(Debug)]
pub(crate) struct Watched<S>(Lock<Crowd<S>>);

#[derive(Debug)]
struct Crowd<S> {
    state: S,
    waiters: Waiters,
    /// How many are in the list.
    len: usize,
    /// How many of them entered before the last change.
    owed: usize,
    /// Number of changes.
    epoch: u64,
}

/// A waiter, and the epoch in which it entered the list last.
#[derive(Debug)]
struct Seat {
    waiter: Waiter,
    epoch: u64,
}

impl<S> Crowd<S> {
    /// Takes a seat out of the list, if it is there. The waker is to be dropped outside of the lock.
    ///
    /// # Safety
    /// A1 and A3 of `waiters`.
    unsafe fn leave(&mut self, seat: &Seat) -> Option<Waker> {
        // SAFETY: the caller's.
        let waker = unsafe { self.waiters.leave(&seat.waiter) };
        // In the list, and there alone, it has a waker.
        if waker.is_some() {
            self.len -= 1;
            self.owed -= usize::from(seat.epoch != self.epoch);
        }
        waker
    }

    /// Takes out those who are owed a wake-up, as many as there is room for.
    fn fill(&mut self, batch: &mut Batch) {
        batch.fill_from(|| {
            self.owed = self.owed.checked_sub(1)?;
            self.len -= 1;
            // SAFETY: A1, the caller is inside the section: he has the crowd; A2, `Place` sees to it.
            unsafe { self.waiters.notify_first() }
        });
    }

    /// Puts a seat at the back of the list, or renews its waker there.
    ///
    /// # Safety
    /// A1, A2 and A3 of `waiters`.
    unsafe fn wait(&mut self, seat: &mut Seat, current: &Waker, fresh: &mut Option<Waker>, is_queued: bool) -> Wait {
        // SAFETY: the caller's.
        let wait = unsafe { self.waiters.wait(&seat.waiter, current, fresh) };
        if wait == Wait::Queued && !is_queued {
            self.len += 1;
            seat.epoch = self.epoch;
        }
        wait
    }
}

impl<S> Watched<S> {
    const_fn! {
        pub(crate) fn new(state: S) -> Self {
            Self(Lock::new(Crowd {
                state,
                waiters: Waiters::new(),
                len: 0,
                owed: 0,
                epoch: 0,
            }))
        }
    }

    /// Looks at the state, or changes it in a way that nobody waits for. No user code may run in `f`.
    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut S) -> R) -> R {
        self.0.with(|crowd| f(&mut crowd.state))
    }

    /// Changes the state, and wakes everybody who waits for it if `f` says so. No user code may run in `f`.
    ///
    /// Who raises `owed` fills a batch in the same section, and goes on while it was full. One that was not leaves
    /// nobody owed, of whichever change; so of two who change at once none stops before somebody has taken all.
    pub(crate) fn change<R>(&self, f: impl FnOnce(&mut S) -> (bool, R)) -> R {
        let mut batch = Batch::default();
        let result = Kept(Some(self.0.with(|crowd| {
            let (changed, result) = f(&mut crowd.state);
            if changed {
                crowd.owed = crowd.len;
                crowd.epoch += 1;
                crowd.fill(&mut batch);
            }
            result
        })));
        batch.wake_all(|batch| self.0.with(|crowd| crowd.fill(batch)));
        result.give()
    }
}

/// What a change has for who asked for it, such as a value of the user's that it replaced. If a waker panics meanwhile
/// it is dropped, whatever its destructor does.
struct Kept<R>(Option<R>);

impl<R> Kept<R> {
    fn give(mut self) -> R {
        self.0.take().expect("it is given once")
    }
}

impl<R> Drop for Kept<R> {
    #[inline]
    fn drop(&mut self) {
        if let Some(result) = self.0.take() {
            quietly(|| drop(result));
        }
    }
}

/// Has a state that is watched: always the same one.
pub(crate) trait Watching {
    /// The state.
    type State;

    /// Where it is. Every call answers the same, also when `self` was moved.
    fn watched(&self) -> &Watched<Self::State>;
}

impl<S> Watching for Watched<S> {
    type State = S;

    fn watched(&self) -> &Self {
        self
    }
}

impl<W: Watching> Watching for &W {
    type State = W::State;

    fn watched(&self) -> &Watched<W::State> {
        (**self).watched()
    }
}

impl<W: Watching> Watching for std::sync::Arc<W> {
    type State = W::State;

    fn watched(&self) -> &Watched<W::State> {
        (**self).watched()
    }
}

/// Somebody who may wait for a change; part of a future.
#[derive(Debug)]
pub(crate) struct Place<W: Watching> {
    of: W,
    /// From the first poll that waits until one that does not.
    seat: Option<Seat>,
    /// Neighbours in the list point to the seat.
    _pinned: PhantomPinned,
}

/// What one section ended with.
enum Step<R> {
    Done(R),
    Wait(Wait),
}

impl<W: Watching> Place<W> {
    pub(crate) fn new(of: W) -> Self {
        Self {
            of,
            seat: None,
            _pinned: PhantomPinned,
        }
    }

    /// What it waits for.
    pub(crate) fn of(&self) -> &W {
        &self.of
    }

    /// Whether it has waited, so that it may be in the list.
    pub(crate) fn is_taken(&self) -> bool {
        self.seat.is_some()
    }

    /// Ready with what `look` finds; while it finds nothing, it is called again after each change. No user code may run
    /// in it.
    pub(crate) fn poll<R>(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut look: impl FnMut(&W, &mut W::State) -> Option<R>,
    ) -> Poll<R> {
        // SAFETY: the seat is not moved while it is in the list.
        let Self { of, seat, .. } = unsafe { self.get_unchecked_mut() };
        let mut fresh = None;
        loop {
            let (step, stale) = of.watched().0.with(|crowd| {
                if let Some(found) = look(of, &mut crowd.state) {
                    // SAFETY: A1, inside the section; A3, one `Watched` (`Watching`).
                    let stale = seat.as_ref().and_then(|seat| unsafe { crowd.leave(seat) });
                    return (Step::Done(found), stale);
                }
                let seat = seat.get_or_insert_with(|| Seat {
                    waiter: Waiter::weak(),
                    epoch: 0,
                });
                // SAFETY: as above.
                let is_queued = unsafe { crowd.waiters.is_queued(&seat.waiter) };
                if !is_queued {
                    // Who was notified enters at the back, like who comes first: it has no waker to be dropped.
                    // SAFETY: as above.
                    unsafe { crowd.waiters.leave(&seat.waiter) };
                }
                // SAFETY: as above; A2, pinned, and dropped in place.
                let wait = unsafe { crowd.wait(seat, cx.waker(), &mut fresh, is_queued) };
                (Step::Wait(wait), None)
            });
            match step {
                Step::Done(found) => {
                    *seat = None;
                    // While `found` is here to be dropped should that panic: on its way out it would be leaked.
                    drop((stale, fresh));
                    return Poll::Ready(found);
                }
                Step::Wait(Wait::Queued) => return Poll::Pending,
                Step::Wait(Wait::NeedsWaker) => fresh = Some(cx.waker().clone()),
            }
        }
    }
}

impl<W: Watching> Drop for Place<W> {
    fn drop(&mut self) {
        let Some(seat) = &self.seat else { return };
        // SAFETY: A1, inside the section; A3, one `Watched` (`Watching`).
        let stale = self.of.watched().0.with(|crowd| unsafe { crowd.leave(seat) });
        drop(stale);
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;
    use crate::primitives::{AtomicUsize, Ordering};
    use crate::sync::wake_all::BATCH_MAX;
    use crate::sync::wake_all::tests::Wakes;

    /// Every order in which three places wait (again), leave, and are told, seven steps deep.
    #[test]
    fn who_waits_is_told_once_a_change() {
        // A step: place / 2 waits or leaves; 6 changes the state.
        for script in 0..7_usize.pow(6) {
            let steps: Vec<usize> = (0..6).map(|i| script / 7_usize.pow(i) % 7).collect();
            let watched = Watched::new(());
            let wakes: Vec<Arc<Wakes>> = (0..3).map(|_| Arc::default()).collect();
            let mut places: [Option<Pin<Box<Place<_>>>>; 3] = [const { None }; 3];
            let mut waits = [false; 3];
            let mut expected = [0; 3];
            for step in &steps {
                if *step == 6 {
                    watched.change(|()| (true, ()));
                    for (waits, expected) in waits.iter_mut().zip(&mut expected) {
                        *expected += usize::from(std::mem::take(waits));
                    }
                } else if step % 2 == 0 {
                    let waker = Waker::from(wakes[step / 2].clone());
                    let place = places[step / 2].get_or_insert_with(|| Box::pin(Place::new(&watched)));
                    let poll = place
                        .as_mut()
                        .poll(&mut Context::from_waker(&waker), |_, ()| None::<()>);
                    assert!(poll.is_pending());
                    waits[step / 2] = true;
                } else {
                    places[step / 2] = None;
                    waits[step / 2] = false;
                }
                let told: Vec<usize> = wakes.iter().map(|wakes| wakes.count()).collect();
                assert_eq!(told, expected, "{steps:?}");
            }
            drop(places);
            assert_eq!(watched.0.with(|crowd| (crowd.len, crowd.owed)), (0, 0), "{steps:?}");
        }
    }

    /// As many as fit into a batch, one less, one more, and twice as many; the first that is woken changes the state
    /// once more.
    #[test]
    fn many_are_told_in_batches() {
        struct Changes(Arc<Watched<()>>, Arc<Wakes>);
        impl Wake for Changes {
            fn wake(self: Arc<Self>) {
                let is_first = self.1.count() == 0;
                Arc::clone(&self.1).wake();
                if is_first {
                    self.0.change(|()| (true, ()));
                }
            }
        }
        for waiters in [
            BATCH_MAX - 1,
            BATCH_MAX,
            BATCH_MAX + 1,
            2 * BATCH_MAX,
            2 * BATCH_MAX + 1,
        ] {
            let watched = Arc::new(Watched::new(()));
            let changes = Arc::new(Changes(watched.clone(), Arc::default()));
            let wakes: Vec<Arc<Wakes>> = (1..waiters).map(|_| Arc::default()).collect();
            let wakers = [Waker::from(changes.clone())].into_iter();
            let wakers = wakers.chain(wakes.iter().map(|wakes| Waker::from(wakes.clone())));
            let places: Vec<_> = wakers
                .map(|waker| {
                    let mut place = Box::pin(Place::new(watched.clone()));
                    let poll = place
                        .as_mut()
                        .poll(&mut Context::from_waker(&waker), |_, ()| None::<()>);
                    assert!(poll.is_pending());
                    place
                })
                .collect();
            watched.change(|()| (true, ()));
            assert_eq!(changes.1.count(), 1, "{waiters}");
            assert!(wakes.iter().all(|wakes| wakes.count() == 1), "{waiters}");
            drop(places);
        }
    }

    /// Who is woken and waits again in the middle of waking is not woken again by the same change.
    #[test]
    fn waking_ends_though_all_wait_again() {
        struct Again(Arc<Watched<u32>>, AtomicUsize);
        impl Wake for Again {
            fn wake(self: Arc<Self>) {
                // Ordering: Relaxed; one thread.
                self.1.fetch_add(1, Ordering::Relaxed);
                assert!(self.1.load(Ordering::Relaxed) <= 1);
                // Somebody new each time: it stays until the end of the test.
                let waker = Waker::from(self.clone());
                let mut place = Box::pin(Place::new(self.0.clone()));
                let poll = place.as_mut().poll(&mut Context::from_waker(&waker), |_, _| None::<()>);
                assert!(poll.is_pending());
                std::mem::forget(place);
            }
        }
        let watched = Arc::new(Watched::new(0));
        let again: Vec<_> = (0..100)
            .map(|_| Arc::new(Again(watched.clone(), AtomicUsize::new(0))))
            .collect();
        let places: Vec<_> = again
            .iter()
            .map(|again| {
                let mut place = Box::pin(Place::new(watched.clone()));
                let waker = Waker::from(again.clone());
                let poll = place.as_mut().poll(&mut Context::from_waker(&waker), |_, _| None::<()>);
                assert!(poll.is_pending());
                place
            })
            .collect();
        watched.change(|state| (true, *state += 1));
        assert!(again.iter().all(|again| again.1.load(Ordering::Relaxed) == 1));
        drop(places);
    }

    #[test]
    fn the_look_ends_the_wait() {
        let watched = Watched::new(1);
        let mut place = pin!(Place::new(&watched));
        let mut cx = Context::from_waker(Waker::noop());
        let look = |_: &&Watched<i32>, state: &mut i32| (*state == 2).then_some(*state);
        assert!(place.as_mut().poll(&mut cx, look).is_pending());
        watched.change(|state| (true, *state = 2));
        assert_eq!(place.as_mut().poll(&mut cx, look), Poll::Ready(2));
        assert_eq!(place.poll(&mut cx, look), Poll::Ready(2), "it can be asked again");
    }
}
