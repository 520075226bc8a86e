//! The operations of one ring: who waits for them, and what is kept for the kernel. Moves nothing by itself; its owner
//! has a lock.
//!
//! ```text
//!          begin            taken by the kernel          result
//!   free ─────────► queued ─────────────────────► flying ────────► done ──► free
//!                     │                             │      wakes    (taken by the future)
//!                     │ future dropped              │ future dropped: keeps what the kernel uses, asks to cancel
//!                     ▼                             ▼      result
//!                 withdrawn ──────► free         orphan ─────────► free
//!                          (instead of handing over)     what was kept goes
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::task::Waker;

use crate::sys::ring::{CANCELLATION, CANCELLED, Entry, NOT_FOUND};
use crate::time::presence::AtWork;

/// What is kept of an operation whose future is gone.
pub(super) trait Keep: Send {
    /// The kernel is done with it; what it has made is closed.
    fn end(self: Box<Self>, result: i32);
}

/// The operations.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    queue: VecDeque<u32>,
    /// Operations that the kernel has.
    flying: u32,
}

#[derive(Debug)]
struct Slot {
    /// From the beginning to the result, of what ends by itself: a clock that stands does not jump over it.
    at_work: Option<AtWork>,
    /// How many operations had it before; in what the kernel carries, so that a late cancellation finds nobody.
    generation: u32,
    /// The kernel was asked to cancel it, and did not find it.
    is_missed: bool,
    state: State,
}

enum State {
    Free,
    Queued { entry: Entry, waker: Waker },
    Withdrawn,
    Flying { waker: Waker },
    Orphan { kept: Box<dyn Keep> },
    Done { result: i32 },
}

/// What a result brings.
#[must_use]
pub(super) enum Landed {
    /// Somebody is to be woken; afterwards the operation is at work no more: the second is to be dropped then.
    Wake(Waker, Option<AtWork>),
    /// What was kept may go.
    Orphan(Box<dyn Keep>, Option<AtWork>),
    /// It is the result of a cancellation.
    Nothing,
}

/// What its future finds of an operation.
#[must_use]
#[derive(Debug)]
pub(super) enum Answer {
    /// It is over, with this result.
    Done(i32),
    /// The waker that will be called is the one of now.
    Waits,
    /// Another waker would be called. One like that of now is to be given, made without the lock.
    NeedsWaker,
    /// That of now will be called. The other is to be dropped without the lock.
    Replaced(Waker),
}

/// What became of an operation that nobody waits for any more.
#[must_use]
pub(super) enum Left {
    /// The kernel never had it. Both are to be dropped without the lock.
    Withdrawn(Waker, Option<AtWork>),
    /// The kernel has it, and carries this number. The waker is to be dropped without the lock.
    Orphan(u64, Waker),
    /// It has ended, with this result.
    Done(i32),
}

impl Slots {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            queue: VecDeque::new(),
            flying: 0,
        }
    }

    /// How many wait to be handed to the kernel.
    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// How many the kernel has.
    pub(super) fn flying(&self) -> u32 {
        self.flying
    }

    /// Queues an operation; its number.
    pub(super) fn begin(&mut self, entry: Entry, waker: Waker, at_work: Option<AtWork>) -> u32 {
        let index = self.place(State::Queued { entry, waker }, at_work);
        self.queue.push_back(index);
        index
    }

    /// Calls `push` with what the result of a new operation is to carry, which the kernel has then; its number.
    ///
    /// # Panics
    ///
    /// If `push` answers false.
    pub(super) fn begin_now(&mut self, waker: Waker, at_work: Option<AtWork>, push: impl FnOnce(u64) -> bool) -> u32 {
        let index = self.place(State::Flying { waker }, at_work);
        let is_pushed = push(data(index, self.slots[index as usize].generation));
        assert!(is_pushed, "whoever has pushed before has handed all of it over");
        self.flying += 1;
        index
    }

    fn place(&mut self, state: State, at_work: Option<AtWork>) -> u32 {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.state = state;
            slot.at_work = at_work;
            return index;
        }
        self.slots.push(Slot {
            at_work,
            generation: 0,
            is_missed: false,
            state,
        });
        u32::try_from(self.slots.len() - 1).expect("memory is full before there are 2^32 operations")
    }

    /// Calls `push` with each operation that is queued, in order, and what its result is to carry, until it answers
    /// false. True if some are left.
    pub(super) fn hand_over(&mut self, mut push: impl FnMut(&Entry, u64) -> bool) -> bool {
        while let Some(&index) = self.queue.front() {
            let slot = &mut self.slots[index as usize];
            let data = data(index, slot.generation);
            match std::mem::replace(&mut slot.state, State::Free) {
                State::Queued { entry, waker } if push(&entry, data) => {
                    slot.state = State::Flying { waker };
                    self.flying += 1;
                }
                State::Withdrawn => self.release(index),
                state => {
                    self.slots[index as usize].state = state;
                    return true;
                }
            }
            self.queue.pop_front();
        }
        false
    }

    /// A result has come.
    pub(super) fn land(&mut self, data: u64, result: i32) -> Landed {
        if data & CANCELLATION != 0 {
            self.note_cancellation(data & !CANCELLATION, result);
            return Landed::Nothing;
        }
        let index = index(data);
        let slot = &mut self.slots[index as usize];
        assert_eq!(slot.generation, generation(data), "one result an operation");
        self.flying -= 1;
        let at_work = slot.at_work.take();
        match std::mem::replace(&mut slot.state, State::Done { result }) {
            State::Flying { waker } => Landed::Wake(waker, at_work),
            State::Orphan { kept } => {
                self.release(index);
                Landed::Orphan(kept, at_work)
            }
            state => unreachable!("a result for what is {state:?}"),
        }
    }

    fn note_cancellation(&mut self, data: u64, result: i32) {
        let slot = &mut self.slots[index(data) as usize];
        if slot.generation == generation(data) {
            slot.is_missed = result == NOT_FOUND;
        }
    }

    /// Whether the kernel has what carries `data`, and has not found it when it was last asked to cancel it. Told once.
    pub(super) fn take_missed(&mut self, data: u64) -> bool {
        let slot = &mut self.slots[index(data) as usize];
        slot.generation == generation(data)
            && matches!(slot.state, State::Flying { .. } | State::Orphan { .. })
            && std::mem::take(&mut slot.is_missed)
    }

    /// The result, if it is there; the operation is over then. If not, whether `waker` will be called; from now on, if
    /// `clone` is one like it, which is taken then.
    pub(super) fn poll(&mut self, index: u32, waker: &Waker, clone: &mut Option<Waker>) -> Answer {
        match &mut self.slots[index as usize].state {
            State::Queued { waker: current, .. } | State::Flying { waker: current } => {
                if current.will_wake(waker) {
                    return Answer::Waits;
                }
                match clone.take() {
                    Some(clone) => Answer::Replaced(std::mem::replace(current, clone)),
                    None => Answer::NeedsWaker,
                }
            }
            State::Done { result } => {
                let result = *result;
                self.release(index);
                Answer::Done(result)
            }
            state => unreachable!("its future polls what is {state:?}"),
        }
    }

    /// Nobody waits for it any more. `keep` makes what the kernel uses into what is kept, if the kernel has it.
    pub(super) fn leave(&mut self, index: u32, keep: impl FnOnce() -> Box<dyn Keep>) -> Left {
        let slot = &mut self.slots[index as usize];
        let data = data(index, slot.generation);
        match std::mem::replace(&mut slot.state, State::Withdrawn) {
            // The queue still names it.
            State::Queued { waker, .. } => Left::Withdrawn(waker, slot.at_work.take()),
            State::Flying { waker } => {
                slot.state = State::Orphan { kept: keep() };
                Left::Orphan(data, waker)
            }
            State::Done { result } => {
                self.release(index);
                Left::Done(result)
            }
            state => unreachable!("its future leaves what is {state:?}"),
        }
    }

    /// Ends all that the kernel has not got, as cancelled. `each` gets who is to be woken; afterwards the operation is
    /// at work no more: the second is to be dropped then.
    pub(super) fn cancel_queued(&mut self, mut each: impl FnMut(Waker, Option<AtWork>)) {
        for index in std::mem::take(&mut self.queue) {
            let slot = &mut self.slots[index as usize];
            match std::mem::replace(&mut slot.state, State::Done { result: CANCELLED }) {
                State::Queued { waker, .. } => each(waker, slot.at_work.take()),
                State::Withdrawn => self.release(index),
                state => unreachable!("queued is what is {state:?}"),
            }
        }
    }

    /// Those who wait for what the kernel has go to `wakers`, and may poll it again.
    pub(super) fn wake_flying(&mut self, wakers: &mut Vec<Waker>) {
        for slot in &mut self.slots {
            if let State::Flying { waker } = &mut slot.state {
                wakers.push(std::mem::replace(waker, Waker::noop().clone()));
            }
        }
    }

    /// What the results of those carry that the kernel has.
    pub(super) fn all_flying(&self) -> Vec<u64> {
        let slots = (0..).zip(&self.slots);
        slots
            .filter(|(_, slot)| matches!(slot.state, State::Flying { .. } | State::Orphan { .. }))
            .map(|(index, slot)| data(index, slot.generation))
            .collect()
    }

    fn release(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.state = State::Free;
        slot.is_missed = false;
        slot.generation = next(slot.generation);
        self.free.push(index);
    }
}

impl Drop for Slots {
    /// What the kernel may still use is never freed. After [`drain`](super::Rings::drain) there is nothing.
    fn drop(&mut self) {
        for slot in &mut self.slots {
            if let State::Orphan { kept } = std::mem::replace(&mut slot.state, State::Free) {
                std::mem::forget(kept);
            }
        }
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Free => "free",
            State::Queued { .. } => "queued",
            State::Withdrawn => "withdrawn",
            State::Flying { .. } => "flying",
            State::Orphan { .. } => "an orphan",
            State::Done { .. } => "done",
        })
    }
}

/// 31 bits, so that no operation carries what cancellations do.
fn next(generation: u32) -> u32 {
    generation.wrapping_add(1) & (u32::MAX >> 1)
}

fn data(index: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(index)
}

fn index(data: u64) -> u32 {
    u32::try_from(data & u64::from(u32::MAX)).expect("32 bits")
}

fn generation(data: u64) -> u32 {
    u32::try_from(data >> 32).expect("32 bits")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    /// Counts its wakes, and the results of those that were kept.
    #[derive(Default)]
    struct Seen {
        wakes: AtomicU32,
        ends: AtomicU32,
    }

    impl Wake for Seen {
        fn wake(self: Arc<Self>) {
            self.wakes.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Keep for Arc<Seen> {
        fn end(self: Box<Self>, _result: i32) {
            self.ends.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct Test {
        slots: Slots,
        seen: Arc<Seen>,
    }

    impl Test {
        fn new() -> Self {
            Self {
                slots: Slots::new(),
                seen: Arc::new(Seen::default()),
            }
        }

        fn begin(&mut self) -> u32 {
            self.slots
                .begin(Entry::nothing(), Waker::from(Arc::clone(&self.seen)), None)
        }

        /// Hands over at most `room`; what the kernel has got.
        fn hand_over(&mut self, room: usize) -> Vec<u64> {
            let mut taken = Vec::new();
            let are_left = self.slots.hand_over(|_, data| {
                let fits = taken.len() < room;
                if fits {
                    taken.push(data);
                }
                fits
            });
            assert_eq!(are_left, self.slots.queued() > 0);
            taken
        }

        fn land(&mut self, data: u64, result: i32) {
            match self.slots.land(data, result) {
                Landed::Wake(waker, _) => waker.wake(),
                Landed::Orphan(kept, _) => kept.end(result),
                Landed::Nothing => {}
            }
        }

        /// The result, if it is there.
        fn poll(&mut self, slot: u32) -> Option<i32> {
            match self.slots.poll(slot, &Waker::from(Arc::clone(&self.seen)), &mut None) {
                Answer::Done(result) => Some(result),
                Answer::Waits => None,
                other => panic!("there is no other waker: {other:?}"),
            }
        }

        fn leave(&mut self, slot: u32) -> Left {
            let seen = Arc::clone(&self.seen);
            self.slots.leave(slot, || Box::new(seen))
        }

        /// Wakes and ends so far.
        fn seen(&self) -> (u32, u32) {
            let count = |counter: &AtomicU32| counter.load(Ordering::Relaxed);
            (count(&self.seen.wakes), count(&self.seen.ends))
        }
    }

    #[test]
    fn a_result_wakes_and_is_told_once() {
        let mut test = Test::new();
        let slot = test.begin();
        assert_eq!(test.poll(slot), None);
        let flying = test.hand_over(9);
        assert_eq!((flying.len(), test.slots.flying()), (1, 1));
        assert_eq!(test.poll(slot), None);
        test.land(flying[0], 7);
        assert_eq!((test.seen(), test.slots.flying()), ((1, 0), 0));
        assert_eq!(test.poll(slot), Some(7));
        let next = test.begin();
        assert_eq!(next, slot, "the place is free");
        assert_ne!(test.hand_over(9), flying, "but what the kernel carries is another's");
    }

    #[test]
    fn what_has_no_room_stays_in_order() {
        let mut test = Test::new();
        let slots: Vec<u32> = (0..10).map(|_| test.begin()).collect();
        let mut taken = test.hand_over(4);
        assert_eq!(test.slots.queued(), 6);
        taken.extend(test.hand_over(4));
        taken.extend(test.hand_over(4));
        assert_eq!(taken.iter().map(|data| index(*data)).collect::<Vec<_>>(), slots);
    }

    #[test]
    fn what_is_left_before_it_is_handed_over_never_is() {
        let mut test = Test::new();
        let slots = [test.begin(), test.begin(), test.begin()];
        assert!(matches!(test.leave(slots[1]), Left::Withdrawn(..)));
        let taken: Vec<u32> = test.hand_over(9).into_iter().map(index).collect();
        assert_eq!(taken, [slots[0], slots[2]]);
        assert_eq!(test.begin(), slots[1], "the place is free");
    }

    #[test]
    fn what_is_left_in_flight_is_kept_until_its_result() {
        let mut test = Test::new();
        let slot = test.begin();
        let flying = test.hand_over(9);
        assert!(matches!(test.leave(slot), Left::Orphan(data, _) if data == flying[0]));
        assert_eq!(test.slots.all_flying(), flying);
        test.land(flying[0] | CANCELLATION, 0);
        assert_eq!((test.seen(), test.slots.flying()), ((0, 0), 1));
        test.land(flying[0], CANCELLED);
        assert_eq!((test.seen(), test.slots.flying()), ((0, 1), 0));
        assert!(test.slots.all_flying().is_empty());
    }

    #[test]
    fn what_no_cancellation_has_found_is_told_once_and_as_long_as_the_kernel_has_it() {
        let mut test = Test::new();
        let slot = test.begin();
        let flying = test.hand_over(9)[0];
        assert!(matches!(test.leave(slot), Left::Orphan(..)));
        test.land(flying | CANCELLATION, NOT_FOUND);
        assert!(test.slots.take_missed(flying));
        assert!(!test.slots.take_missed(flying));
        test.land(flying | CANCELLATION, NOT_FOUND);
        test.land(flying, CANCELLED);
        assert!(!test.slots.take_missed(flying), "it has ended");
        assert_eq!(test.begin(), slot);
        let later = test.hand_over(9)[0];
        test.land(flying | CANCELLATION, NOT_FOUND);
        assert!(!test.slots.take_missed(later), "it was another's");
    }

    #[test]
    fn what_is_left_when_it_is_done_is_told() {
        let mut test = Test::new();
        let slot = test.begin();
        let flying = test.hand_over(9);
        test.land(flying[0], 5);
        assert!(matches!(test.leave(slot), Left::Done(5)));
        assert_eq!(test.seen(), (1, 0), "nothing was kept");
    }

    #[test]
    fn what_is_queued_at_the_end_is_cancelled() {
        let mut test = Test::new();
        let slots = [test.begin(), test.begin()];
        assert!(matches!(test.leave(slots[0]), Left::Withdrawn(..)));
        let mut wakers = Vec::new();
        test.slots.cancel_queued(|waker, _| wakers.push(waker));
        assert_eq!((wakers.len(), test.slots.queued()), (1, 0));
        assert_eq!(test.poll(slots[1]), Some(CANCELLED));
    }

    /// What the kernel may still write to is not freed with the ring.
    #[test]
    fn what_is_kept_outlives_the_ring() {
        let mut test = Test::new();
        let slot = test.begin();
        test.hand_over(9);
        let _left = test.leave(slot);
        let Test { slots, seen } = test;
        drop(slots);
        drop(_left);
        assert_eq!(Arc::strong_count(&seen), 2, "ours and the one that is kept");
    }
}
