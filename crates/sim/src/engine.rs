//! The order of events: by time, then by the order in which they were entered.
//!
//! There is no other order in a simulation, no clock and no hash table, so that the same input gives the same run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use quadrille_policy::Nanos;

use crate::outcome::QueueWork;
use crate::workload::TaskId;

/// What happens at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A worker goes on.
    Worker {
        /// Which.
        worker: u16,
        /// What [`EventQueue::push_worker`] returned: stale if the worker was given another event since.
        ticket: u64,
    },
    /// A task's sleep ends.
    Timer(TaskId),
}

/// Bits of an entry below the sequence number: one says timer, the others whose.
const WHOM_BITS: u32 = 28;
const TIMER: u64 = 1 << (WHOM_BITS - 1);

/// So many ns from now on have a list each: nearly all events lie there.
const NEAR: usize = 4096;

/// The end of a list.
const NIL: u32 = u32::MAX;

/// An event in a list: `sequence << 28 | timer? << 27 | whom`.
#[derive(Clone, Copy, Debug)]
struct Entry {
    what: u64,
    next: u32,
}

/// The events of one time, in the order in which they were entered.
#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
}

/// Events to come.
///
/// Those of the next [`NEAR`] ns are in a list for each time, with a bit for each list that is not empty and a bit for
/// each word of such bits. Later ones are in a heap, and move to their lists as soon as these are near, before anything
/// else could be entered there: so a list is in the order of the sequence numbers.
#[derive(Debug)]
pub(crate) struct EventQueue {
    lists: Box<[List]>,
    bits: [u64; NEAR / 64],
    words: u64,
    entries: Vec<Entry>,
    /// The first entry that is free; further ones follow.
    free: u32,
    /// `time << 64 | entry`.
    far: BinaryHeap<Reverse<u128>>,
    /// The time of the last event that was popped: nothing comes before it.
    now: u64,
    sequence: u64,
    /// Entries that went through the heap.
    deferred: u64,
}

impl Default for EventQueue {
    fn default() -> Self {
        Self {
            lists: vec![List { head: NIL, tail: NIL }; NEAR].into(),
            bits: [0; NEAR / 64],
            words: 0,
            entries: Vec::new(),
            free: NIL,
            far: BinaryHeap::new(),
            now: 0,
            sequence: 0,
            deferred: 0,
        }
    }
}

impl EventQueue {
    /// Enters an event for `worker` and returns its ticket. `at` is not before what was popped last.
    pub(crate) fn push_worker(&mut self, at: Nanos, worker: u16) -> u64 {
        self.push(at, u64::from(worker))
    }

    /// Enters the end of a task's sleep.
    pub(crate) fn push_timer(&mut self, at: Nanos, task: TaskId) {
        debug_assert!(u64::from(task.0) < TIMER, "task {}", task.0);
        self.push(at, TIMER | u64::from(task.0));
    }

    fn push(&mut self, at: Nanos, whom: u64) -> u64 {
        debug_assert!(at.0 >= self.now, "{at} is before {}", Nanos(self.now));
        self.sequence += 1;
        let what = self.sequence << WHOM_BITS | whom;
        if at.0 - self.now < NEAR as u64 {
            self.append(at.0, what);
        } else {
            self.deferred += 1;
            self.far.push(Reverse(u128::from(at.0) << 64 | u128::from(what)));
        }
        // As `pop` gives it back: of a number past 2^36 the lower bits.
        what >> WHOM_BITS
    }

    /// Whether `at` comes before every event, so that whoever goes on then need not enter an event for it.
    #[inline]
    pub(crate) fn is_before_all(&self, at: Nanos) -> bool {
        self.first().is_none_or(|first| at.0 < first)
    }

    /// What the queue has done so far.
    pub(crate) fn work(&self) -> QueueWork {
        QueueWork {
            entered: self.sequence,
            deferred: self.deferred,
            near_max: self.entries.len(),
        }
    }

    /// The next event and its time.
    pub(crate) fn pop(&mut self) -> Option<(Nanos, Event)> {
        let at = self.first()?;
        self.now = at;
        while let Some(&Reverse(key)) = self.far.peek()
            && (key >> 64) - u128::from(at) < NEAR as u128
        {
            self.far.pop();
            self.append(
                u64::try_from(key >> 64).unwrap_or(u64::MAX),
                u64::try_from(key & u128::from(u64::MAX)).unwrap_or_default(),
            );
        }
        let what = self.take(at);
        let whom = what & (TIMER - 1);
        let event = if what & TIMER == 0 {
            Event::Worker {
                worker: u16::try_from(whom).unwrap_or(u16::MAX),
                ticket: what >> WHOM_BITS,
            }
        } else {
            Event::Timer(TaskId(u32::try_from(whom).unwrap_or(u32::MAX)))
        };
        Some((Nanos(at), event))
    }

    /// When the next event is.
    #[inline]
    fn first(&self) -> Option<u64> {
        if self.words == 0 {
            let Reverse(key) = self.far.peek()?;
            return u64::try_from(key >> 64).ok();
        }
        let start = place(self.now);
        let (word, bit) = (start / 64, start % 64);
        let here = self.bits[word] >> bit << bit;
        // Else the next word after it that has a bit, around to this one, whose lower bits are the latest.
        let (word, bits) = if here != 0 {
            (word, here)
        } else {
            let turn = u32::try_from(word).unwrap_or(0) + 1;
            let steps = self.words.rotate_right(turn).trailing_zeros();
            let word = (turn + steps) as usize % (NEAR / 64);
            (word, self.bits[word])
        };
        let place = word * 64 + bits.trailing_zeros() as usize;
        Some(self.now + (place.wrapping_sub(start) % NEAR) as u64)
    }

    /// Puts an entry at the end of the list of `at`, which is near.
    fn append(&mut self, at: u64, what: u64) {
        let entry = Entry { what, next: NIL };
        let index = self.free;
        let index = if let Some(free) = self.entries.get_mut(index as usize) {
            self.free = free.next;
            *free = entry;
            index
        } else {
            self.entries.push(entry);
            u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 events at a time")
        };
        let place = place(at);
        let list = &mut self.lists[place];
        if list.head == NIL {
            list.head = index;
            self.bits[place / 64] |= 1 << (place % 64);
            self.words |= 1 << (place / 64);
        } else {
            self.entries[list.tail as usize].next = index;
        }
        list.tail = index;
    }

    /// Takes the first entry of the list of `at`, which is not empty.
    fn take(&mut self, at: u64) -> u64 {
        let place = place(at);
        let list = &mut self.lists[place];
        let index = list.head;
        let entry = &mut self.entries[index as usize];
        let what = entry.what;
        list.head = std::mem::replace(&mut entry.next, self.free);
        self.free = index;
        if list.head == NIL {
            self.bits[place / 64] &= !(1 << (place % 64));
            if self.bits[place / 64] == 0 {
                self.words &= !(1 << (place / 64));
            }
        }
        what
    }
}

/// The list of a time that is near.
fn place(at: u64) -> usize {
    usize::try_from(at % NEAR as u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a number that has no room in an entry.
    #[test]
    fn a_ticket_comes_back_as_it_was_given() {
        let mut queue = EventQueue {
            sequence: (1 << 36) - 2,
            ..EventQueue::default()
        };
        for at in [1, 2, 3] {
            let ticket = queue.push_worker(Nanos(at), 7);
            let expected = Event::Worker { worker: 7, ticket };
            assert_eq!(queue.pop(), Some((Nanos(at), expected)));
        }
    }

    /// Against a sorted list, with pushes of any number between pops.
    #[test]
    fn the_order_is_that_of_a_sorted_list() {
        let mut rng = quadrille_policy::Rng::new(5);
        let (mut queue, mut list) = (EventQueue::default(), Vec::new());
        let mut now = 0;
        for _ in 0..3_000 {
            for _ in 0..rng.below(3) {
                // Mostly near, some at the same time; a few so far that they pass through the heap.
                let ahead = if rng.below(4) == 0 {
                    rng.below(3 * 4096)
                } else {
                    rng.below(50)
                };
                let (at, worker) = (now + u64::from(ahead), u16::try_from(rng.below(9)).unwrap());
                list.push((at, queue.push_worker(Nanos(at), worker), worker));
            }
            list.sort_unstable();
            let before = list.first().is_none_or(|(at, ..)| now + 20 < *at);
            assert_eq!(queue.is_before_all(Nanos(now + 20)), before);
            if rng.below(2) == 0 {
                let expected = (!list.is_empty()).then(|| list.remove(0));
                let got = queue.pop().map(|(at, event)| match event {
                    Event::Worker { worker, ticket } => (at.0, ticket, worker),
                    Event::Timer(task) => panic!("timer of {task:?}"),
                });
                assert_eq!(got, expected);
                now = expected.map_or(now, |(at, ..)| at);
            }
        }
    }

    #[test]
    fn events_come_by_time_and_then_as_they_were_entered() {
        let mut queue = EventQueue::default();
        let late = queue.push_worker(Nanos(9), 1);
        queue.push_timer(Nanos(5), TaskId(7));
        let first = queue.push_worker(Nanos(5), 65_535);
        let second = queue.push_worker(Nanos(5), 0);
        let worker = |worker, ticket| Event::Worker { worker, ticket };
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(
            order,
            [
                (Nanos(5), Event::Timer(TaskId(7))),
                (Nanos(5), worker(65_535, first)),
                (Nanos(5), worker(0, second)),
                (Nanos(9), worker(1, late)),
            ]
        );
    }
}
