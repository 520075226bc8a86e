//! B d: a thread that a worker binds to another in its last task is found by that one, who waits for the latch and then
//! looks.

use std::sync::Arc;

use loom::thread::spawn;

use super::{Arena, Item, check};
use crate::sched::latch::Latch;
use crate::sched::queue::bound::BoundFifo;
use crate::sched::queue::mailbox::Mailbox;

struct Leaving {
    arena: Arena,
    looping: Latch,
    bound: Mailbox<Item>,
}

impl Leaving {
    fn new(others: u32) -> Arc<Self> {
        let items = usize::try_from(others).unwrap();
        Arc::new(Self {
            arena: Arena::new(items),
            looping: Latch::new(others + 1),
            bound: Mailbox::new(),
        })
    }

    /// Another worker: its last task binds a thread to the owner.
    fn end_by_binding(&self, index: usize) {
        self.bound.push(self.arena.item(index));
        self.looping.count_down(1);
    }

    /// What the owner finds when all have ended.
    fn end(&self) -> usize {
        self.looping.count_down(1);
        self.looping.wait();
        let fifo = BoundFifo::new();
        let found = std::iter::from_fn(|| fifo.pop(&self.bound));
        found.map(Item::finish).count()
    }
}

#[test]
fn b_nothing_is_bound_to_who_has_left() {
    for others in [1, 2] {
        check(3, move || {
            let leaving = Leaving::new(others);
            let threads: Vec<_> = (0..usize::try_from(others).unwrap())
                .map(|index| {
                    let other = leaving.clone();
                    spawn(move || other.end_by_binding(index))
                })
                .collect();
            assert_eq!(leaving.end(), threads.len());
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}
