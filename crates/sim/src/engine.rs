//! The order of events: by time, then by the order in which they were entered.
//!
//! There is no other order in a simulation, no clock and no hash table, so that the same input gives the same run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use quadrille_policy::Nanos;

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

/// Bits of a key below the sequence number: one says timer, the others whose.
const WHOM_BITS: u32 = 28;
const TIMER: u64 = 1 << (WHOM_BITS - 1);

/// Events to come. A key is `time << 64 | sequence << 28 | timer? << 27 | whom`, so that comparing keys is comparing
/// (time, sequence).
///
/// Whoever is popped nearly always enters its next event at once. So the popped one stays in place until then, and is
/// replaced: one walk through the heap instead of two.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    heap: BinaryHeap<Reverse<u128>>,
    sequence: u64,
    /// The top has been popped.
    has_hole: bool,
}

impl EventQueue {
    /// Enters an event for `worker` and returns its ticket.
    pub(crate) fn push_worker(&mut self, at: Nanos, worker: u16) -> u64 {
        self.push(at, u64::from(worker))
    }

    /// Enters the end of a task's sleep.
    pub(crate) fn push_timer(&mut self, at: Nanos, task: TaskId) {
        debug_assert!(u64::from(task.0) < TIMER, "task {}", task.0);
        self.push(at, TIMER | u64::from(task.0));
    }

    fn push(&mut self, at: Nanos, whom: u64) -> u64 {
        self.sequence += 1;
        let low = self.sequence << WHOM_BITS | whom;
        let key = Reverse(u128::from(at.0) << 64 | u128::from(low));
        if std::mem::take(&mut self.has_hole)
            && let Some(mut top) = self.heap.peek_mut()
        {
            *top = key;
        } else {
            self.heap.push(key);
        }
        self.sequence
    }

    /// Whether `at` comes before every event, so that whoever goes on then need not enter an event for it.
    #[inline]
    pub(crate) fn is_before_all(&self, at: Nanos) -> bool {
        // The least of a binary heap is its first element, and the least of the others one of the two that follow.
        let least = if self.has_hole { 1..3 } else { 0..1 };
        let mut first = self.heap.as_slice().iter().take(least.end).skip(least.start);
        first.all(|Reverse(key)| u128::from(at.0) < key >> 64)
    }

    /// The next event and its time.
    pub(crate) fn pop(&mut self) -> Option<(Nanos, Event)> {
        if self.has_hole {
            self.heap.pop();
        }
        let Some(&Reverse(key)) = self.heap.peek() else {
            self.has_hole = false;
            return None;
        };
        self.has_hole = true;
        let low = u64::try_from(key & u128::from(u64::MAX)).unwrap_or_default();
        let at = Nanos(u64::try_from(key >> 64).unwrap_or(u64::MAX));
        let whom = low & (TIMER - 1);
        let event = if low & TIMER == 0 {
            Event::Worker {
                worker: u16::try_from(whom).unwrap_or(u16::MAX),
                ticket: low >> WHOM_BITS,
            }
        } else {
            Event::Timer(TaskId(u32::try_from(whom).unwrap_or(u32::MAX)))
        };
        Some((at, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a sorted list, with pushes of any number between pops.
    #[test]
    fn the_order_is_that_of_a_sorted_list() {
        let mut rng = quadrille_policy::Rng::new(5);
        let (mut queue, mut list) = (EventQueue::default(), Vec::new());
        let mut now = 0;
        for _ in 0..1_000 {
            for _ in 0..rng.below(3) {
                let (at, worker) = (now + u64::from(rng.below(50)), u16::try_from(rng.below(9)).unwrap());
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
