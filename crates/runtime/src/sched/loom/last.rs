//! (D a): whoever is the last to leave finds what all the others have handed over.

use std::sync::Arc;

use loom::thread::spawn;

use super::{Arena, Item, check};
use crate::sched::queue::mailbox::Mailbox;
use crate::sched::shutdown::Running;

/// Workers that leave, and a queue of each, where it puts what it has: mailboxes in place of injectors.
struct Leaving {
    arena: Arena,
    running: Running,
    queues: [Mailbox<Item>; 3],
}

impl Leaving {
    fn hand_over(&self, worker: usize) {
        self.queues[worker].push(self.arena.item(worker));
    }

    /// What the worker finds if it is the last.
    fn leave(&self, worker: usize) -> usize {
        self.hand_over(worker);
        self.leave_with_nothing()
    }

    fn leave_with_nothing(&self) -> usize {
        if !self.running.leave(1) {
            return 0;
        }
        let found = self.queues.iter().flat_map(Mailbox::drain);
        found.map(Item::finish).count()
    }
}

/// Two workers leave; in place of both somebody else has run tasks, who leaves before the second.
#[test]
fn d_the_last_one_finds_all() {
    check(3, || {
        let leaving = Arc::new(Leaving {
            arena: Arena::new(3),
            running: Running::new(2),
            queues: std::array::from_fn(|_| Mailbox::new()),
        });
        let (other, reliever) = (leaving.clone(), leaving.clone());
        leaving.running.count_in();
        let relieves = spawn(move || {
            reliever.hand_over(2);
            assert!(!reliever.running.leave(1), "a worker is there");
        });
        let leaves = spawn(move || other.leave(1));
        leaving.hand_over(0);
        relieves.join().unwrap();
        let found = leaving.leave_with_nothing() + leaves.join().unwrap();
        assert_eq!(found, 3);
    });
}
