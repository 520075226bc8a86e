//! A descriptor that is watched: which side is ready, and who waits for it. L (e) in `sched/README.md`.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

use super::readiness::{Readiness, Side, Tick, Word};
use crate::primitives::{AtomicU32, AtomicU64, Ordering};
use crate::stress::{self, Mutex};
use crate::sys::poller::Event;

/// Names a waiter of a side: a number of that source's, zero, or the place of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WaiterId(u64);

impl WaiterId {
    /// The one waiter of those who poll without a future of their own.
    pub(super) const SHARED: WaiterId = WaiterId(0);

    /// What tells places from numbers, which never come so far.
    const PLACE: u64 = 1 << 63;

    /// A thread that has something at this address for as long as it lives.
    pub(super) fn at(place: usize) -> WaiterId {
        WaiterId(place as u64 | Self::PLACE)
    }
}

/// The source was closed by the shutdown of its reactor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed;

/// One source: a place in a slab, that may have had other owners.
#[derive(Debug)]
pub(super) struct Source {
    word: AtomicU64,
    /// The next free place, while this one is. See `slab`.
    pub(super) next: AtomicU32,
    waiters: Mutex<Waiters>,
}

/// Who waits for a source.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    read: SideWaiters,
    write: SideWaiters,
    /// The waiter that came last. Never used again: of two with one name who polls again, or gives up, takes the other
    /// out, who then waits for ever.
    last: u64,
}

/// Who waits for one side: most often one.
#[derive(Debug, Default)]
struct SideWaiters {
    first: Option<(WaiterId, Waker)>,
    /// By their names: each goes away, or is looked for again after an event, by its own.
    #[expect(clippy::box_collection, reason = "rare, and a source is to be small")]
    more: Option<Box<BTreeMap<WaiterId, Waker>>>,
}

impl Source {
    pub(super) fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            next: AtomicU32::new(0),
            waiters: Mutex::new(Waiters::default()),
        }
    }

    /// What its events must carry; for the owner of the place.
    pub(super) fn generation(&self) -> u32 {
        // Ordering: Relaxed; only the owner changes it, or who had the place before and has handed it over.
        Word(self.word.load(Ordering::Relaxed)).generation()
    }

    /// Is `side` ready? If not, the waker of `cx` will be called at its next event, under the name `waiter`, which is
    /// given if there is none.
    ///
    /// `eager` accepts a side of which nothing is known, for those who try in any case.
    pub(super) fn poll(
        &self,
        side: Side,
        waiter: &mut Option<WaiterId>,
        eager: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Tick, Closed>> {
        // Ordering: Acquire; with the Release of an event, so that who acts on one sees what its poller saw.
        let word = Word(self.word.load(Ordering::Acquire));
        if let Some(answer) = answer(word, side, eager) {
            return Poll::Ready(answer);
        }
        // Cloned without the lock.
        self.enlist(side, waiter, eager, cx.waker().clone())
    }

    /// The tick of a `side` for which who tries in any case need not wait.
    #[inline]
    pub(super) fn tick_at_once(&self, side: Side) -> Option<Tick> {
        // Ordering: Acquire; as in `poll`.
        let word = Word(self.word.load(Ordering::Acquire));
        answer(word, side, true)?.ok()
    }

    /// The part of [`poll`](Self::poll) for who has to wait, as far as it knows: a waiter until an event, or the answer
    /// after all.
    fn enlist(
        &self,
        side: Side,
        waiter: &mut Option<WaiterId>,
        eager: bool,
        waker: Waker,
    ) -> Poll<Result<Tick, Closed>> {
        let mut waiters = self.lock();
        let replaced = waiters.put(side, waiter, waker);
        stress::delay();
        // Ordering: AcqRel; (L e) the waiter is there before the bit. Acquire as in `poll`.
        let word = Word(self.word.fetch_or(Word::waits_bit(side), Ordering::AcqRel));
        let answer = answer(word, side, eager);
        let taken_back = answer.and_then(|_| waiters.take(side, *waiter));
        drop(waiters);
        // To drop a waker may be to drop a task, which may come back here.
        drop((replaced, taken_back));
        answer.map_or(Poll::Pending, Poll::Ready)
    }

    /// Forgets that `side` is ready, unless it had an event since `tick`: for who met `WouldBlock`.
    pub(super) fn clear(&self, side: Side, tick: Tick) {
        self.update(|word| word.cleared(side, tick));
    }

    /// Makes of `side` one of which nothing is known if it is ready, unless it had an event since `tick`: who tries
    /// does so, who waits is told of the next event.
    pub(super) fn forget(&self, side: Side, tick: Tick) {
        self.update(|word| word.forgotten(side, tick));
    }

    /// As [`clear`](Self::clear), for who had a part of what was asked for, and so has found the end of it, unless the
    /// other end is closed.
    pub(super) fn clear_exhausted(&self, side: Side, tick: Tick) {
        self.update(|word| word.exhausted(side, tick));
    }

    /// The current tick of `side`, for an attempt without a wait.
    pub(super) fn tick(&self, side: Side) -> Tick {
        // Ordering: Acquire; as in `poll`.
        Word(self.word.load(Ordering::Acquire)).tick(side)
    }

    /// Whether it was closed by the shutdown of its reactor.
    pub(super) fn is_closed(&self) -> bool {
        // Ordering: Acquire; as in `poll`.
        Word(self.word.load(Ordering::Acquire)).is_closed()
    }

    /// Whether any event of `side` was of an end, an error or urgent data.
    pub(super) fn has_ended(&self, side: Side) -> bool {
        // Ordering: Acquire; as in `poll`.
        Word(self.word.load(Ordering::Acquire)).has_ended(side)
    }

    /// Forgets a waiter.
    pub(super) fn remove_waiter(&self, side: Side, waiter: WaiterId) {
        let removed = self.lock().take(side, Some(waiter));
        drop(removed);
    }

    /// An event came for the owner of this generation. Moves those who wait for it to `wakers`. False if that owner is
    /// gone.
    pub(super) fn set_ready(&self, generation: u32, event: &Event, wakers: &mut Vec<Waker>) -> bool {
        let is_of = |side| match side {
            Side::Read => event.readable,
            Side::Write => event.writable,
        };
        let told = |word: Word, side| {
            if is_of(side) {
                word.with_event(side, event.ended)
            } else {
                word
            }
        };
        let before = self.update(|word| {
            let is_its_owners = word.generation() == generation && !word.is_closed();
            is_its_owners.then(|| told(told(word, Side::Read), Side::Write))
        });
        let Some(before) = before else {
            return false;
        };
        let wakes = |side| is_of(side) && before.waits(side);
        if !wakes(Side::Read) && !wakes(Side::Write) {
            return true;
        }
        stress::delay();
        let mut waiters = self.lock();
        // Ordering: Relaxed; the lock orders it after the release of the owner before.
        if Word(self.word.load(Ordering::Relaxed)).generation() != generation {
            return false;
        }
        for side in Side::BOTH {
            if is_of(side) {
                self.hand_over(&mut waiters, side, wakers);
            }
        }
        true
    }

    /// The reactor is gone: answers with an error from now on, and moves those who wait to `wakers`, so that they hear
    /// it.
    pub(super) fn close(&self, wakers: &mut Vec<Waker>) {
        // Ordering: AcqRel; (L f) as an event.
        self.word.fetch_or(Word::CLOSED, Ordering::AcqRel);
        let mut waiters = self.lock();
        for side in Side::BOTH {
            self.hand_over(&mut waiters, side, wakers);
        }
    }

    /// The owner gives the place back. Late events of its generation change nothing from now on. Returns who has
    /// waited, to be dropped when all else is done: the wakers are others', and may panic.
    #[must_use = "dropping them runs code of others"]
    pub(super) fn release(&self) -> Waiters {
        let mut waiters = self.lock();
        let _before = self.update(|word| Some(word.reborn()));
        std::mem::take(&mut *waiters)
    }

    /// Takes all waiters of `side`, and the bit that there are some, under the lock that the guard stands for.
    fn hand_over(&self, waiters: &mut Waiters, side: Side, wakers: &mut Vec<Waker>) {
        // Ordering: Relaxed; the lock orders it against those who set the bit.
        self.word.fetch_and(!Word::waits_bit(side), Ordering::Relaxed);
        let waiters = waiters.side(side);
        wakers.extend(waiters.first.take().map(|(_, waker)| waker));
        if let Some(more) = waiters.more.take() {
            wakers.extend(more.into_values());
        }
    }

    /// Changes the word to what `change` makes of it; returns what it was, unless that is nothing.
    fn update(&self, change: impl Fn(Word) -> Option<Word>) -> Option<Word> {
        // Ordering: Relaxed; the exchange decides.
        let mut current = self.word.load(Ordering::Relaxed);
        loop {
            let next = change(Word(current))?;
            // Ordering: AcqRel; (L e) an event's Release pairs with the Acquire of who finds it; its own Acquire with
            // the bit of a waiter. A release of the place hands over to who takes it next by way of the slab.
            match self
                .word
                .compare_exchange_weak(current, next.0, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return Some(Word(current)),
                Err(found) => current = found,
            }
        }
    }

    fn lock(&self) -> impl std::ops::DerefMut<Target = Waiters> + '_ {
        // No foreign code runs under the lock, so nothing is half done in a poisoned one.
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a poll answers without a wait.
#[inline]
fn answer(word: Word, side: Side, eager: bool) -> Option<Result<Tick, Closed>> {
    if word.is_closed() {
        return Some(Err(Closed));
    }
    match word.readiness(side) {
        Readiness::Ready => Some(Ok(word.tick(side))),
        Readiness::Unknown if eager => Some(Ok(word.tick(side))),
        Readiness::Unknown | Readiness::NotReady => None,
    }
}

impl Waiters {
    fn side(&mut self, side: Side) -> &mut SideWaiters {
        match side {
            Side::Read => &mut self.read,
            Side::Write => &mut self.write,
        }
    }

    /// Adds a waiter, or gives the one of that name another waker. Returns a waker to be dropped without the lock.
    fn put(&mut self, side: Side, waiter: &mut Option<WaiterId>, waker: Waker) -> Option<Waker> {
        let replaced = self.take(side, *waiter);
        let id = *waiter.get_or_insert_with(|| {
            // Zero is everyone's.
            self.last += 1;
            WaiterId(self.last)
        });
        let waiters = self.side(side);
        if waiters.first.is_none() {
            waiters.first = Some((id, waker));
        } else {
            waiters.more.get_or_insert_default().insert(id, waker);
        }
        replaced
    }

    /// Takes a waiter out, if it is there.
    fn take(&mut self, side: Side, waiter: Option<WaiterId>) -> Option<Waker> {
        let waiter = waiter?;
        let waiters = self.side(side);
        if waiters.first.as_ref().is_some_and(|(id, _)| *id == waiter) {
            return waiters.first.take().map(|(_, waker)| waker);
        }
        waiters.more.as_mut()?.remove(&waiter)
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    /// A day of waits that were given up, 50,000 a second, come to more than 32 bits.
    #[test]
    fn a_name_is_not_given_again_while_its_waiter_waits() {
        let source = Source::new();
        let (mut long, mut brief) = (None, None);
        assert!(poll(&source, Side::Read, &mut long, false).is_pending());
        source.lock().last += u64::from(u32::MAX);
        assert!(poll(&source, Side::Read, &mut brief, false).is_pending());
        assert_ne!(long, brief);
        source.remove_waiter(Side::Read, brief.unwrap());
        assert_eq!(event(&source, true, false), 1, "who has waited for long is told");
    }

    /// Polls with a waker that does nothing.
    fn poll(source: &Source, side: Side, waiter: &mut Option<WaiterId>, eager: bool) -> Poll<Result<Tick, Closed>> {
        source.poll(side, waiter, eager, &mut Context::from_waker(Waker::noop()))
    }

    fn poll_shared(source: &Source, side: Side, eager: bool) -> Poll<Result<Tick, Closed>> {
        poll(source, side, &mut Some(WaiterId::SHARED), eager)
    }

    /// How many wakers an event calls; `None`: it is nobody's.
    fn event_of(source: &Source, generation: u32, readable: bool, writable: bool) -> Option<usize> {
        let event = Event {
            key: 0,
            readable,
            writable,
            ended: false,
        };
        let mut wakers = Vec::new();
        source
            .set_ready(generation, &event, &mut wakers)
            .then_some(wakers.len())
    }

    fn event(source: &Source, readable: bool, writable: bool) -> usize {
        event_of(source, source.generation(), readable, writable).unwrap()
    }

    /// The tick of a side that is ready.
    fn ready(source: &Source, side: Side) -> Tick {
        match poll_shared(source, side, false) {
            Poll::Ready(Ok(tick)) => tick,
            other => panic!("{side:?} should be ready, is {other:?}"),
        }
    }

    #[test]
    fn nothing_is_ready_at_first_but_may_be_tried() {
        for side in Side::BOTH {
            let source = Source::new();
            assert!(poll_shared(&source, side, true).is_ready());
            assert!(poll_shared(&source, side, false).is_pending());
            source.clear(side, Tick::default());
            assert!(poll_shared(&source, side, true).is_pending(), "it was tried");
        }
    }

    #[test]
    fn an_event_makes_its_sides_ready_and_no_other() {
        for (readable, writable) in [(false, false), (false, true), (true, false), (true, true)] {
            let source = Source::new();
            for side in Side::BOTH {
                assert!(poll_shared(&source, side, false).is_pending());
            }
            let woken = event(&source, readable, writable);
            assert_eq!(woken, usize::from(readable) + usize::from(writable));
            assert_eq!(poll_shared(&source, Side::Read, false).is_ready(), readable);
            assert_eq!(poll_shared(&source, Side::Write, false).is_ready(), writable);
        }
    }

    #[test]
    fn clearing_an_old_tick_keeps_a_newer_event() {
        for side in Side::BOTH {
            let source = Source::new();
            event(&source, true, true);
            let old = ready(&source, side);
            event(&source, true, true);
            source.clear(side, old);
            let new = ready(&source, side);
            assert_ne!(old, new);
            source.clear(side, new);
            assert!(poll_shared(&source, side, false).is_pending());
        }
    }

    #[test]
    fn every_waiter_is_woken_once_and_a_removed_one_never() {
        let source = Source::new();
        let mut waiters = [None; 3];
        for _ in 0..2 {
            for waiter in &mut waiters {
                assert!(poll(&source, Side::Read, waiter, false).is_pending());
            }
        }
        assert!(waiters.iter().all(|waiter| *waiter != Some(WaiterId::SHARED)));
        source.remove_waiter(Side::Read, waiters[1].unwrap());
        assert_eq!(event(&source, false, true), 0);
        assert_eq!(event(&source, true, false), 2);
        assert_eq!(event(&source, true, false), 0);
    }

    #[test]
    fn a_closed_source_answers_with_an_error_and_forgets_its_waiters() {
        let source = Source::new();
        assert!(poll_shared(&source, Side::Read, false).is_pending());
        let mut wakers = Vec::new();
        source.close(&mut wakers);
        assert_eq!(wakers.len(), 1, "whoever waits hears of it");
        assert_eq!(event_of(&source, source.generation(), true, true), None);
        for side in Side::BOTH {
            assert_eq!(poll_shared(&source, side, true), Poll::Ready(Err(Closed)));
        }
    }

    /// Says when it is dropped whether the lock of its source was free.
    struct Dropped {
        source: Arc<Source>,
        was_free: Arc<Mutex<Vec<bool>>>,
    }

    impl Wake for Dropped {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Dropped {
        fn drop(&mut self) {
            let is_free = self.source.waiters.try_lock().is_ok();
            self.was_free.lock().unwrap().push(is_free);
        }
    }

    /// Who waits already polls with another waker, and the event comes between the look and the lock: its poller has
    /// changed the word, and has yet to take the waiters.
    #[test]
    fn no_waker_is_dropped_under_the_lock() {
        let source = Arc::new(Source::new());
        let was_free = Arc::new(Mutex::new(Vec::new()));
        let waker = || {
            let (source, was_free) = (Arc::clone(&source), Arc::clone(&was_free));
            Waker::from(Arc::new(Dropped { source, was_free }))
        };
        let mut waiter = None;
        assert!(source.enlist(Side::Read, &mut waiter, false, waker()).is_pending());
        assert!(source.enlist(Side::Read, &mut waiter, false, waker()).is_pending());
        source.update(|word| Some(word.with_event(Side::Read, false)));
        assert!(source.enlist(Side::Read, &mut waiter, false, waker()).is_ready());
        assert_eq!(*was_free.lock().unwrap(), [true; 3]);
    }

    #[test]
    fn an_event_of_an_owner_that_is_gone_changes_nothing() {
        let source = Source::new();
        let old = source.generation();
        assert!(poll_shared(&source, Side::Read, false).is_pending());
        drop(source.release());
        assert_ne!(source.generation(), old);
        assert!(poll_shared(&source, Side::Read, false).is_pending());
        assert_eq!(event_of(&source, old, true, true), None);
        assert!(poll_shared(&source, Side::Read, false).is_pending(), "it is not ready");
        assert_eq!(event(&source, true, false), 1, "and who waits is there");
    }
}
