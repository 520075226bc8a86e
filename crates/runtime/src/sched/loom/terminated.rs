//! (T): what is pushed after the last worker has gone is dropped by its pusher, or by the last look before that.

use std::sync::Arc;

use loom::thread::spawn;
use quadrille_policy::OnContention;

use super::{Arena, Item, check};
use crate::primitives::{AtomicUsize, Ordering};
use crate::sched::queue::group::GroupQueue;
use crate::sched::shutdown::Terminated;

struct Ended {
    arena: Arena,
    queue: GroupQueue<Item>,
    terminated: Terminated,
    dropped: AtomicUsize,
}

impl Ended {
    fn empty(&self) {
        let count = self.queue.take_all().into_iter().map(Item::finish).count();
        self.dropped.fetch_add(count, Ordering::Relaxed);
    }

    fn push(&self, index: usize) {
        self.queue.push(self.arena.item(index), false, || 0);
        self.terminated.refuse(|| self.empty());
    }
}

#[test]
fn t_nothing_stays_behind() {
    check(3, || {
        let ended = Arc::new(Ended {
            arena: Arena::new(2),
            queue: GroupQueue::new(OnContention::Mailbox),
            terminated: Terminated::new(),
            dropped: AtomicUsize::new(0),
        });
        let threads = [0, 1].map(|index| {
            let foreign = ended.clone();
            spawn(move || foreign.push(index))
        });
        ended.terminated.set(|| ended.empty());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(ended.dropped.load(Ordering::Relaxed), 2);
    });
}
