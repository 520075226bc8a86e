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

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A set of futures.
pub(super) struct Members<F> {
    slots: Vec<Slot<F>>,
    /// Slots without a member.
    free: Vec<usize>,
    /// Slots that were taken out of the line and not polled yet, oldest first.
    taken: VecDeque<usize>,
    shared: Arc<Shared>,
}

/// A place for a member.
struct Slot<F> {
    member: Option<F>,
    /// Puts this slot into the line.
    waker: Waker,
}

impl<F> Members<F> {
    pub(super) fn new() -> Self {
        Members {
            slots: Vec::new(),
            free: Vec::new(),
            taken: VecDeque::new(),
            shared: Arc::default(),
        }
    }

    /// How many members there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The members.
    pub(super) fn iter(&self) -> impl Iterator<Item = &F> {
        self.slots.iter().filter_map(|slot| slot.member.as_ref())
    }

    /// Adds a member, which `takes` the waker that it is given, or says that it did not, as one that is ready: it is
    /// polled next.
    pub(super) fn insert(&mut self, member: F, takes: impl FnOnce(&mut F, &Waker) -> bool) {
        let index = self.free.pop().unwrap_or_else(|| self.new_slot());
        let Slot { member: place, waker } = &mut self.slots[index];
        if !takes(place.insert(member), waker) {
            self.shared.join_line(index);
        }
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
                self.free.push(index);
                return slot.member.take().map(|member| (member, output));
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
mod tests {
    use std::future::poll_fn;
    use std::thread;

    use futures_lite::future::{block_on, poll_once};

    use super::*;

    /// A member that is finished from outside, and counts its polls.
    #[derive(Clone, Default)]
    struct Member(Arc<Mutex<MemberState>>);

    #[derive(Default)]
    struct MemberState {
        output: Option<usize>,
        waker: Option<Waker>,
        polls: usize,
    }

    impl Member {
        fn finish(&self, output: usize) {
            let waker = {
                let mut state = self.0.lock().unwrap();
                state.output = Some(output);
                state.waker.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        }

        fn polls(&self) -> usize {
            self.0.lock().unwrap().polls
        }
    }

    impl Future for Member {
        type Output = usize;

        fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<usize> {
            let mut state = self.0.lock().unwrap();
            state.polls += 1;
            match state.output.take() {
                Some(output) => Poll::Ready(output),
                None => {
                    state.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        }
    }

    /// Adds a member that takes the waker unless it is finished.
    fn add(set: &mut Members<Member>, member: &Member) {
        set.insert(member.clone(), |member, waker| {
            let mut state = member.0.lock().unwrap();
            let waits = state.output.is_none();
            if waits {
                state.waker = Some(waker.clone());
            }
            waits
        });
    }

    fn output<F, T>(ready: Option<(F, T)>) -> Option<T> {
        ready.map(|(_, output)| output)
    }

    /// Waits for an output.
    fn next(set: &mut Members<Member>) -> Option<usize> {
        output(block_on(poll_fn(|cx| set.poll_next(cx))))
    }

    /// A set of `count` members that wait.
    fn set_of(count: usize) -> (Members<Member>, Vec<Member>) {
        let members: Vec<Member> = (0..count).map(|_| Member::default()).collect();
        let mut set = Members::new();
        members.iter().for_each(|member| add(&mut set, member));
        assert_eq!(set.len(), count);
        assert!(output(set.try_next()).is_none());
        (set, members)
    }

    /// Counts its calls.
    #[derive(Default)]
    struct Count(Mutex<usize>);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            *self.0.lock().unwrap() += 1;
        }
    }

    #[test]
    fn an_empty_set_has_nothing_to_wait_for() {
        let mut set = Members::<Member>::new();
        assert_eq!(next(&mut set), None);
        assert_eq!(output(set.try_next()), None);
    }

    #[test]
    fn outputs_come_in_the_order_of_finishing() {
        let (mut set, members) = set_of(4);
        for index in [2, 0, 3, 1] {
            members[index].finish(index);
        }
        let outputs: Vec<_> = (0..5).map(|_| next(&mut set)).collect();
        assert_eq!(outputs, [Some(2), Some(0), Some(3), Some(1), None]);
    }

    #[test]
    fn who_finishes_before_anybody_waits_comes_in_that_order_too() {
        let members: Vec<Member> = (0..3).map(|_| Member::default()).collect();
        let mut set = Members::new();
        add(&mut set, &members[0]);
        members[1].finish(1);
        add(&mut set, &members[1]);
        add(&mut set, &members[2]);
        members[2].finish(2);
        members[0].finish(0);
        let outputs: Vec<_> = (0..4).map(|_| next(&mut set)).collect();
        assert_eq!(outputs, [Some(1), Some(2), Some(0), None]);
        assert_eq!(members.iter().map(Member::polls).collect::<Vec<_>>(), [1; 3]);
    }

    #[test]
    fn only_members_that_were_woken_are_polled() {
        let (mut set, members) = set_of(1000);
        members[700].finish(700);
        assert_eq!(output(set.try_next()), Some(700));
        assert_eq!(output(set.try_next()), None);
        for (index, member) in members.iter().enumerate() {
            assert_eq!(member.polls(), usize::from(index == 700));
        }
    }

    #[test]
    fn the_parent_is_called_once_for_each_time_that_it_waits() {
        let (mut set, members) = set_of(3);
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut cx = Context::from_waker(&waker);
        assert!(set.poll_next(&mut cx).is_pending());
        members[0].finish(0);
        members[1].finish(1);
        assert_eq!(*count.0.lock().unwrap(), 1);
        assert_eq!(set.poll_next(&mut cx).map(output), Poll::Ready(Some(0)));
        assert_eq!(set.poll_next(&mut cx).map(output), Poll::Ready(Some(1)));
        assert!(set.poll_next(&mut cx).is_pending());
        members[2].finish(2);
        assert_eq!(*count.0.lock().unwrap(), 2);
    }

    #[test]
    fn the_last_parent_is_called() {
        let (mut set, members) = set_of(1);
        let (first, last) = (Arc::new(Count::default()), Arc::new(Count::default()));
        for count in [&first, &last] {
            let waker = Waker::from(Arc::clone(count));
            assert!(set.poll_next(&mut Context::from_waker(&waker)).is_pending());
        }
        members[0].finish(0);
        assert_eq!((*first.0.lock().unwrap(), *last.0.lock().unwrap()), (0, 1));
    }

    #[test]
    fn a_member_that_wakes_itself_does_not_hold_the_worker() {
        let mut polls = 0;
        let mut set = Members::new();
        let member = poll_fn(|cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        set.insert(member, |_, _| false);
        assert!(block_on(poll_once(poll_fn(|cx| set.poll_next(cx)))).is_none());
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        assert!(set.poll_next(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(*count.0.lock().unwrap(), 1, "it asks for another turn");
        drop(set);
        assert_eq!(polls, 2);
    }

    #[test]
    fn a_slot_is_used_again_and_an_old_waker_does_no_harm() {
        let (mut set, members) = set_of(2);
        let old = members[0].0.lock().unwrap().waker.clone().unwrap();
        members[0].finish(0);
        assert_eq!(output(set.try_next()), Some(0));
        old.wake_by_ref();
        assert_eq!(output(set.try_next()), None, "the slot is empty");
        let new = Member::default();
        add(&mut set, &new);
        assert_eq!(set.slots.len(), 2);
        assert_eq!(output(set.try_next()), None);
        old.wake();
        assert_eq!(output(set.try_next()), None);
        assert_eq!(new.polls(), 1, "once too often");
        new.finish(7);
        assert_eq!(output(set.try_next()), Some(7));
        assert_eq!(set.len(), 1);
    }

    #[test]
    fn clearing_drops_the_members_and_keeps_the_set_usable() {
        let (mut set, members) = set_of(5);
        members[3].finish(3);
        set.clear();
        assert_eq!((set.len(), set.iter().count()), (0, 0));
        assert_eq!(Arc::strong_count(&members[3].0), 1);
        assert_eq!(next(&mut set), None);
        let new = Member::default();
        new.finish(1);
        add(&mut set, &new);
        assert_eq!(next(&mut set), Some(1));
    }

    #[test]
    fn those_who_finish_while_others_are_taken_come_after_them() {
        let (mut set, members) = set_of(6);
        [4, 2, 5].iter().for_each(|&index| members[index].finish(index));
        assert_eq!(output(set.try_next()), Some(4));
        [3, 0].iter().for_each(|&index| members[index].finish(index));
        let outputs: Vec<_> = (0..5).map(|_| output(set.try_next())).collect();
        assert_eq!(outputs, [Some(2), Some(5), Some(3), Some(0), None]);
    }

    #[test]
    fn who_waits_for_a_set_that_is_cleared_is_called() {
        let (mut set, _members) = set_of(2);
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut cx = Context::from_waker(&waker);
        assert!(set.poll_next(&mut cx).is_pending());
        set.clear();
        assert_eq!(*count.0.lock().unwrap(), 1);
        assert_eq!(set.poll_next(&mut cx).map(output), Poll::Ready(None));
    }

    #[test]
    fn those_who_come_after_a_clearing_have_their_own_order() {
        for order in [[0, 1], [1, 0]] {
            // One is taken out of the line already, and one has come later.
            let (mut set, members) = set_of(4);
            (0..3).for_each(|index| members[index].finish(index));
            assert_eq!(output(set.try_next()), Some(0));
            members[3].finish(3);
            let later: Vec<Member> = (0..2).map(|_| Member::default()).collect();
            set.clear();
            later.iter().for_each(|member| add(&mut set, member));
            order.iter().for_each(|&index| later[index].finish(index));
            assert_eq!(order.map(|_| next(&mut set).unwrap()), order);
        }
    }

    #[test]
    fn a_dropped_set_lets_its_parent_go() {
        let (mut set, members) = set_of(1);
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        assert!(set.poll_next(&mut Context::from_waker(&waker)).is_pending());
        drop((set, waker));
        assert_eq!(
            Arc::strong_count(&count),
            1,
            "though the member lives on with a waker of the set"
        );
        members[0].finish(0);
        assert_eq!(*count.0.lock().unwrap(), 0);
    }

    #[test]
    fn stress_every_output_arrives() {
        const MEMBERS: usize = 50;
        for _ in 0..100 {
            let members: Vec<Member> = (0..MEMBERS).map(|_| Member::default()).collect();
            let mut set = Members::new();
            members.iter().for_each(|member| add(&mut set, member));
            let mut outputs = Vec::new();
            thread::scope(|scope| {
                for half in members.chunks(MEMBERS / 2).enumerate() {
                    let (number, half) = half;
                    scope.spawn(move || {
                        for (index, member) in half.iter().enumerate() {
                            member.finish(number * (MEMBERS / 2) + index);
                        }
                    });
                }
                // A lost wake-up would hang here.
                while let Some(output) = next(&mut set) {
                    outputs.push(output);
                }
            });
            outputs.sort_unstable();
            assert_eq!(outputs, (0..MEMBERS).collect::<Vec<_>>());
        }
    }
}
