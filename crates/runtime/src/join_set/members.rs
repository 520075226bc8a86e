//! Futures in slots, of which only those are polled whose own waker was called.
//!
//! # Who owns what
//!
//! The set owns the *slots*: a member or none, and a waker that belongs to the slot for ever. Slots are used again, so
//! a waker of a former member may still be called; the member of now is polled once too often then, or has a place in
//! line before it is ready: nothing is lost, and it may come out before one that was ready first. The set and the
//! wakers share [`State`], under a lock: the line of slots to be polled, and the *parent*, the waker of whoever waits
//! for the set. No member is polled, and no waker is cloned, called or dropped, while the lock is held.
//!
//! # No wake-up is lost
//!
//! - A new member takes its slot's waker, or is ready and its slot goes into the line. So members that finish before
//!   anybody waits for the set stand in line in that order as well, and not in that of their coming.
//! - A slot leaves the line *before* its member is polled: the set takes the whole line for itself, and polls those in
//!   it one after the other. A waker that is called meanwhile puts its slot into the line again.
//! - The set waits only after it has polled all that it took, found the line empty and left the parent, in one critical
//!   section. A slot that joins the line later finds the parent and calls it; one that joined before makes the line not
//!   empty.
//! - A poll goes through those that were taken before and those that stand in line when they are through. If others
//!   have joined meanwhile it calls the parent itself, so that members that wake themselves can't hold the worker.
//!
//! # What a burst needed is given back
//!
//! A *round* ends when the set is empty, or as many members have left it as it has slots. If at no time in it there
//! were members for a quarter of the slots, and those are more than [`KEPT`], the members move: to slots, wakers and a
//! [`State`] of their own, which replace all that was there. So a set that lives for ever, and is never empty, doesn't
//! keep what it needed once, while one whose rounds are of about the same size allocates nothing in them: to give back
//! whenever it is empty would cost each task of such a round a waker. To move takes time by the number of slots: it
//! comes once for as many results, or for as many members as came to need the slots.
//!
//! Nothing is lost on the way: those that were taken, or stood in line, are polled next, in that order, and by those
//! polls take their new wakers. The others take them at once, or turn out to be ready and stand in line, as new members
//! do. Who calls a former waker meets a [`State`] that nobody looks at; if he does so while members move, before the
//! member has its new waker, that finds it ready. Two that become ready in that moment may change places. The parent
//! moves before all.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// So many slots are never given back: about 100 kB.
const KEPT: usize = 1024;

/// A set of futures.
pub(super) struct Members<F> {
    /// Has a member take the waker that it is given, unless it is ready: `false`.
    takes: fn(&mut F, &Waker) -> bool,
    slots: Vec<Slot<F>>,
    /// Slots without a member.
    free: Vec<usize>,
    /// Slots that were taken out of the line and not polled yet, oldest first.
    taken: VecDeque<usize>,
    shared: Arc<Shared>,
    /// Most members at the same time in this round.
    most: usize,
    /// Members that have left in this round.
    left: usize,
}

/// A place for a member.
struct Slot<F> {
    member: Option<F>,
    /// Puts this slot into the line.
    waker: Waker,
}

impl<F> Members<F> {
    /// An empty set. `takes` gives a member the waker of its slot, or says that it did not, as one that is ready.
    pub(super) fn new(takes: fn(&mut F, &Waker) -> bool) -> Self {
        Members {
            takes,
            slots: Vec::new(),
            free: Vec::new(),
            taken: VecDeque::new(),
            shared: Arc::default(),
            most: 0,
            left: 0,
        }
    }

    /// How many members there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// How many slots there are, or would be if there were fewer: nobody should keep less for the members.
    pub(super) fn slots_kept(&self) -> usize {
        self.slots.len().max(KEPT)
    }

    /// The members.
    pub(super) fn iter(&self) -> impl Iterator<Item = &F> {
        self.slots.iter().filter_map(|slot| slot.member.as_ref())
    }

    /// Adds a member. One that is ready is polled next.
    pub(super) fn insert(&mut self, member: F) {
        let index = self.put(member);
        let Slot { member, waker } = &mut self.slots[index];
        let takes = member.as_mut().is_some_and(|member| (self.takes)(member, waker));
        if !takes {
            self.shared.join_line(index);
        }
    }

    /// Puts a member into a slot, whose waker it has yet to take.
    fn put(&mut self, member: F) -> usize {
        let index = self.free.pop().unwrap_or_else(|| self.new_slot());
        self.slots[index].member = Some(member);
        self.most = self.most.max(self.len());
        index
    }

    /// A slot without a member, which is not among those that are free.
    fn new_slot(&mut self) -> usize {
        let index = self.slots.len();
        if index == self.slots.capacity() {
            self.slots.reserve(1);
            self.shared.lock().in_line.resize(self.slots.capacity(), false);
        }
        debug_assert!(
            self.shared.lock().in_line.len() > index,
            "nobody else makes room for slots"
        );
        let waker = Waker::from(Arc::new(SlotWaker {
            index,
            shared: Arc::clone(&self.shared),
        }));
        self.slots.push(Slot { member: None, waker });
        index
    }

    /// How many stand in line.
    #[cfg(test)]
    pub(super) fn in_line(&self) -> usize {
        self.shared.lock().line.len()
    }

    /// Removes all members.
    pub(super) fn clear(&mut self) {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if slot.member.is_some() {
                self.free.push(index);
                slot.member = None;
            }
        }
        // Who comes into these slots stands in line by what it does itself.
        self.taken.clear();
        let parent = {
            let mut state = self.shared.lock();
            state.line.clear();
            state.in_line.fill(false);
            state.parent.take()
        };
        // There is nobody to wait for.
        if let Some(parent) = parent {
            parent.wake();
        }
        self.end_round();
    }

    /// The next round begins; before, slots may be given back.
    fn end_round(&mut self) {
        let most = self.most;
        (self.most, self.left) = (self.len(), 0);
        if self.slots.len() > KEPT && most < self.slots.len() / 4 {
            self.shrink();
        }
    }

    /// Gives the members other slots, and those that there are back.
    #[cold]
    fn shrink(&mut self) {
        let mut old = mem::replace(self, Self::new(self.takes));
        // Nobody, most often: whoever was ready has called the parent.
        let parent = old.shared.lock().parent.take();
        self.shared.lock().parent = parent;
        let mut line = VecDeque::new();
        old.shared.take_line(&mut line);
        for index in old.taken.drain(..).chain(line) {
            if let Some(member) = old.slots[index].member.take() {
                let index = self.put(member);
                self.taken.push_back(index);
            }
        }
        let others = old.slots.iter_mut().filter_map(|slot| slot.member.take());
        others.for_each(|member| self.insert(member));
    }
}

impl<F: Future + Unpin> Members<F> {
    /// A member that is ready, which leaves the set, and its output; `Ready(None)` if there is no member.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(F, F::Output)>> {
        if self.len() == 0 {
            return Poll::Ready(None);
        }
        if let Some(ready) = self.try_next() {
            return Poll::Ready(Some(ready));
        }
        let parent = cx.waker().clone();
        let (parked, dropped) = self.shared.park(parent);
        drop(dropped);
        if !parked {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Polls those who were taken, then those who stand in line, until one is ready.
    pub(super) fn try_next(&mut self) -> Option<(F, F::Output)> {
        let ready = self.try_taken();
        if ready.is_some() {
            return ready;
        }
        self.shared.take_line(&mut self.taken);
        self.try_taken()
    }

    /// Polls those who were taken out of the line, until one is ready.
    fn try_taken(&mut self) -> Option<(F, F::Output)> {
        while let Some(index) = self.taken.pop_front() {
            let slot = &mut self.slots[index];
            let Some(member) = &mut slot.member else {
                continue;
            };
            if let Poll::Ready(output) = Pin::new(member).poll(&mut Context::from_waker(&slot.waker)) {
                let member = slot.member.take();
                self.free.push(index);
                self.left += 1;
                if self.len() == 0 || self.left >= self.slots.len() {
                    self.end_round();
                }
                return member.map(|member| (member, output));
            }
        }
        None
    }
}

impl<F> Drop for Members<F> {
    fn drop(&mut self) {
        // A member that lives on elsewhere has a slot's waker: it must not keep the parent.
        let parent = self.shared.lock().parent.take();
        drop(parent);
    }
}

impl<F> fmt::Debug for Members<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Members")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// What the set and its wakers share.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
}

/// What the lock protects.
#[derive(Debug, Default)]
struct State {
    /// Slots to be polled, oldest first, each at most once.
    line: VecDeque<usize>,
    /// By slot: does it stand in line?
    in_line: Vec<bool>,
    /// The waker of whoever waits for the set.
    parent: Option<Waker>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No foreign code runs under the lock, so nothing is half done in a poisoned one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a slot into the line and calls the parent, unless it stands there already.
    fn join_line(&self, index: usize) {
        let parent = {
            let mut state = self.lock();
            if mem::replace(&mut state.in_line[index], true) {
                return;
            }
            state.line.push_back(index);
            state.parent.take()
        };
        if let Some(parent) = parent {
            parent.wake();
        }
    }

    /// Takes the line, in exchange for an empty one.
    fn take_line(&self, empty: &mut VecDeque<usize>) {
        debug_assert!(empty.is_empty());
        let state = &mut *self.lock();
        mem::swap(&mut state.line, empty);
        for &index in &*empty {
            state.in_line[index] = false;
        }
    }

    /// Leaves `parent` to be called, if the line is empty (`true`); and a waker to be dropped without the lock.
    fn park(&self, parent: Waker) -> (bool, Option<Waker>) {
        let mut state = self.lock();
        if state.line.is_empty() {
            (true, state.parent.replace(parent))
        } else {
            (false, Some(parent))
        }
    }
}

/// The waker of one slot.
struct SlotWaker {
    index: usize,
    shared: Arc<Shared>,
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.shared.join_line(self.index);
    }
}

#[cfg(test)]
mod tests;
