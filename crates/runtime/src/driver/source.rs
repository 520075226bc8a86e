//! A descriptor that is watched: which side is ready, and who waits for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Reading or writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Read,
    Write,
}

/// How many events a side had when somebody was told that it is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tick(u64);

/// Names a waiter of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaiterId(u64);

impl WaiterId {
    /// The one waiter of those who poll without a future of their own.
    pub(super) const SHARED: WaiterId = WaiterId(0);
}

/// The source was closed by the shutdown of its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed;

/// One source.
#[derive(Debug, Default)]
pub(super) struct Source {
    state: Mutex<SourceState>,
}

/// What the lock of a source protects.
#[derive(Debug, Default)]
struct SourceState {
    read: SideState,
    write: SideState,
    closed: bool,
    /// The waiter that came last.
    last: u64,
}

/// One side.
#[derive(Debug, Default)]
struct SideState {
    readiness: Readiness,
    tick: Tick,
    waiters: Vec<(WaiterId, Waker)>,
}

/// What is known of a side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Readiness {
    /// Nothing: no event came, and nobody has tried.
    #[default]
    Unknown,
    /// An event came since somebody found that nothing can be done.
    Ready,
    /// Somebody found that nothing can be done, and no event came since.
    NotReady,
}

impl Source {
    fn lock(&self) -> MutexGuard<'_, SourceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name for one more waiter.
    pub(super) fn new_waiter(&self) -> WaiterId {
        let mut state = self.lock();
        state.last += 1;
        WaiterId(state.last)
    }

    /// Is `side` ready? If not, the waker of `cx` will be called at its next event.
    ///
    /// `eager` accepts a side of which nothing is known, for those who try in any case.
    pub(super) fn poll(
        &self,
        side: Side,
        waiter: WaiterId,
        eager: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Tick, Closed>> {
        if let Some(answer) = self.lock().answer(side, waiter, eager, cx.waker()) {
            return answer;
        }
        // Cloned without the lock; that's why there is a second look.
        let waker = cx.waker().clone();
        let (answer, unused) = self.lock().answer_or_add(side, waiter, eager, waker);
        drop(unused);
        answer
    }

    /// Forgets that `side` is ready, unless it had an event since `tick`.
    pub(super) fn clear(&self, side: Side, tick: Tick) {
        let mut state = self.lock();
        let side = state.side(side);
        if side.tick == tick {
            side.readiness = Readiness::NotReady;
        }
    }

    /// The current tick of `side`, for an attempt without a wait.
    pub(super) fn tick(&self, side: Side) -> Tick {
        self.lock().side(side).tick
    }

    /// Forgets a waiter.
    pub(super) fn remove_waiter(&self, side: Side, waiter: WaiterId) {
        let removed = self.lock().side(side).take(waiter);
        drop(removed);
    }

    /// An event came. Moves those who wait for it to `wakers`.
    pub(super) fn set_ready(&self, readable: bool, writable: bool, wakers: &mut Vec<Waker>) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        for (side, ready) in [(Side::Read, readable), (Side::Write, writable)] {
            if ready {
                let side = state.side(side);
                side.readiness = Readiness::Ready;
                side.tick.0 = side.tick.0.wrapping_add(1);
                wakers.extend(side.waiters.drain(..).map(|(_, waker)| waker));
            }
        }
    }

    /// The driver is gone: answers with an error from now on, and moves those who wait to `wakers`, so that they hear it.
    pub(super) fn close(&self, wakers: &mut Vec<Waker>) {
        let mut state = self.lock();
        state.closed = true;
        for side in [Side::Read, Side::Write] {
            wakers.extend(state.side(side).waiters.drain(..).map(|(_, waker)| waker));
        }
    }
}

impl SourceState {
    fn side(&mut self, side: Side) -> &mut SideState {
        match side {
            Side::Read => &mut self.read,
            Side::Write => &mut self.write,
        }
    }

    /// The answer to a poll, if it doesn't need a waiter to be added.
    fn answer(
        &mut self,
        side: Side,
        waiter: WaiterId,
        eager: bool,
        waker: &Waker,
    ) -> Option<Poll<Result<Tick, Closed>>> {
        if self.closed {
            return Some(Poll::Ready(Err(Closed)));
        }
        let side = self.side(side);
        match side.readiness {
            Readiness::Ready => return Some(Poll::Ready(Ok(side.tick))),
            Readiness::Unknown if eager => return Some(Poll::Ready(Ok(side.tick))),
            Readiness::Unknown | Readiness::NotReady => {}
        }
        let waits = side
            .waiters
            .iter()
            .any(|(id, known)| *id == waiter && known.will_wake(waker));
        waits.then_some(Poll::Pending)
    }

    /// The answer to a poll, after a waiter was added if it needs one; and a waker to be dropped without the lock.
    fn answer_or_add(
        &mut self,
        side: Side,
        waiter: WaiterId,
        eager: bool,
        waker: Waker,
    ) -> (Poll<Result<Tick, Closed>>, Option<Waker>) {
        if let Some(answer) = self.answer(side, waiter, eager, &waker) {
            return (answer, Some(waker));
        }
        let side = self.side(side);
        let replaced = side.take(waiter);
        side.waiters.push((waiter, waker));
        (Poll::Pending, replaced)
    }
}

impl SideState {
    /// Takes a waiter out of the list.
    fn take(&mut self, waiter: WaiterId) -> Option<Waker> {
        let position = self.waiters.iter().position(|(id, _)| *id == waiter)?;
        Some(self.waiters.swap_remove(position).1)
    }
}

/// The sources of a driver, by key.
#[derive(Debug, Default)]
pub(super) struct Sources {
    by_key: HashMap<usize, Arc<Source>>,
    next: usize,
    closed: bool,
}

impl Sources {
    /// Adds a source; its key is used for no other.
    pub(super) fn add(&mut self, source: Arc<Source>) -> Result<usize, Closed> {
        if self.closed {
            return Err(Closed);
        }
        let key = self.next;
        self.next += 1;
        self.by_key.insert(key, source);
        Ok(key)
    }

    /// The source of an event; `None` if it was removed since.
    pub(super) fn get(&self, key: usize) -> Option<Arc<Source>> {
        self.by_key.get(&key).map(Arc::clone)
    }

    /// Removes a source, to be dropped without the lock.
    pub(super) fn remove(&mut self, key: usize) -> Option<Arc<Source>> {
        self.by_key.remove(&key)
    }

    /// Removes all sources, and takes no more.
    pub(super) fn close(&mut self) -> Vec<Arc<Source>> {
        self.closed = true;
        self.by_key.drain().map(|(_, source)| source).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls with a waker that does nothing.
    fn poll(source: &Source, side: Side, waiter: WaiterId, eager: bool) -> Poll<Result<Tick, Closed>> {
        source.poll(side, waiter, eager, &mut Context::from_waker(Waker::noop()))
    }

    /// How many wakers an event calls.
    fn event(source: &Source, readable: bool, writable: bool) -> usize {
        let mut wakers = Vec::new();
        source.set_ready(readable, writable, &mut wakers);
        wakers.len()
    }

    /// The tick of a side that is ready.
    fn ready(source: &Source, side: Side) -> Tick {
        match poll(source, side, WaiterId::SHARED, false) {
            Poll::Ready(Ok(tick)) => tick,
            other => panic!("{side:?} should be ready, is {other:?}"),
        }
    }

    const BOTH: [Side; 2] = [Side::Read, Side::Write];

    #[test]
    fn nothing_is_ready_at_first_but_may_be_tried() {
        for side in BOTH {
            let source = Source::default();
            assert!(poll(&source, side, WaiterId::SHARED, true).is_ready());
            assert!(poll(&source, side, WaiterId::SHARED, false).is_pending());
            source.clear(side, Tick::default());
            assert!(poll(&source, side, WaiterId::SHARED, true).is_pending(), "it was tried");
        }
    }

    #[test]
    fn an_event_makes_its_sides_ready_and_no_other() {
        for (readable, writable) in [(false, false), (false, true), (true, false), (true, true)] {
            let source = Source::default();
            for side in BOTH {
                assert!(poll(&source, side, WaiterId::SHARED, false).is_pending());
            }
            assert_eq!(
                event(&source, readable, writable),
                usize::from(readable) + usize::from(writable)
            );
            assert_eq!(poll(&source, Side::Read, WaiterId::SHARED, false).is_ready(), readable);
            assert_eq!(poll(&source, Side::Write, WaiterId::SHARED, false).is_ready(), writable);
        }
    }

    #[test]
    fn clearing_an_old_tick_keeps_a_newer_event() {
        for side in BOTH {
            let source = Source::default();
            event(&source, true, true);
            let old = ready(&source, side);
            event(&source, true, true);
            source.clear(side, old);
            let new = ready(&source, side);
            assert_ne!(old, new);
            source.clear(side, new);
            assert!(poll(&source, side, WaiterId::SHARED, false).is_pending());
        }
    }

    #[test]
    fn every_waiter_is_woken_once_and_a_removed_one_never() {
        let source = Source::default();
        let waiters = [source.new_waiter(), source.new_waiter(), source.new_waiter()];
        for waiter in waiters {
            for _ in 0..2 {
                assert!(poll(&source, Side::Read, waiter, false).is_pending());
            }
        }
        source.remove_waiter(Side::Read, waiters[1]);
        assert_eq!(event(&source, false, true), 0);
        assert_eq!(event(&source, true, false), 2);
        assert_eq!(event(&source, true, false), 0);
    }

    #[test]
    fn a_closed_source_answers_with_an_error_and_forgets_its_waiters() {
        let source = Source::default();
        assert!(poll(&source, Side::Read, WaiterId::SHARED, false).is_pending());
        let mut wakers = Vec::new();
        source.close(&mut wakers);
        assert_eq!(wakers.len(), 1, "whoever waits hears of it");
        assert_eq!(event(&source, true, true), 0);
        for side in BOTH {
            assert_eq!(poll(&source, side, WaiterId::SHARED, true), Poll::Ready(Err(Closed)));
        }
    }

    #[test]
    fn a_key_is_not_used_twice() {
        let mut sources = Sources::default();
        let first = sources.add(Arc::default()).unwrap();
        assert!(sources.remove(first).is_some());
        let second = sources.add(Arc::default()).unwrap();
        assert_ne!(first, second);
        assert!(sources.get(first).is_none() && sources.get(second).is_some());
        assert_eq!(sources.close().len(), 1);
        assert_eq!(sources.add(Arc::default()), Err(Closed));
    }
}
