//! B: a thread that is pushed into its owner's mailbox is taken out by the owner, which is awake or unparked for it,
//! whatever others do.

use std::sync::Arc;

use loom::thread::spawn;

use super::{Item, Machine, check, one_group};
use crate::sched::publish;
use crate::sched::queue::bound::BoundFifo;
use crate::sched::queue::mailbox::Mailbox;

/// A machine one of whose workers has bound threads: the last, which is claimed after the others where anyone would do.
struct Owned {
    machine: Arc<Machine>,
    owner: usize,
    bound: Mailbox<Item>,
}

impl Owned {
    fn new(workers: u16, items: usize) -> Arc<Self> {
        Arc::new(Self {
            machine: Machine::new(&one_group(workers), items),
            owner: usize::from(workers) - 1,
            bound: Mailbox::new(),
        })
    }

    /// Pushes an item that the owner alone may take, as the scheduler does.
    fn push_to_owner(&self, index: usize) {
        let item = self.machine.arena.item(index);
        let sleepers = &self.machine.sleepers;
        if publish::to_owner(|| self.bound.push(item), sleepers, sleepers.seat(self.owner)) {
            sleepers.wake(self.owner);
        }
    }

    /// The owner: takes what is bound to it, searches when dry and sleeps when there is nothing, until the machine
    /// stops.
    fn work(&self) {
        let fifo = BoundFifo::new();
        let search = || {
            let bound = fifo.pop(&self.bound).map(|item| self.machine.finish(item));
            bound.is_some() || self.machine.search()
        };
        let look = |_| !self.bound.is_empty() || !self.machine.group.is_empty();
        self.machine.work_by(self.owner, false, search, look);
    }
}

#[test]
fn w1_bound_no_lost_wakeup() {
    check(3, || {
        let owned = Owned::new(1, 1);
        let pusher = owned.clone();
        let thread = spawn(move || pusher.push_to_owner(0));
        owned.work();
        thread.join().unwrap();
        assert_eq!(owned.machine.sleepers.idle.caches.total(), 0);
    });
}

#[test]
fn w1_bound_two_pushers() {
    check(2, || {
        let owned = Owned::new(1, 2);
        let threads = [0, 1].map(|index| {
            let pusher = owned.clone();
            spawn(move || pusher.push_to_owner(index))
        });
        owned.work();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(owned.machine.sleepers.idle.caches.total(), 0);
    });
}

/// Who finds the owner's bit gone relies on the token of whoever took it, for work of another kind.
#[test]
fn w1_bound_claimed_for_another_queue() {
    check(2, || {
        let owned = Owned::new(1, 2);
        let pusher = owned.clone();
        let thread = spawn(move || pusher.push_to_owner(0));
        let pusher = owned.machine.clone();
        let other = spawn(move || pusher.push_to_group(1, false));
        owned.work();
        thread.join().unwrap();
        other.join().unwrap();
        assert_eq!(owned.machine.sleepers.idle.caches.total(), 0);
    });
}

/// Another member searches, or sleeps in the same group: it may not take the thread, and does not count.
#[test]
fn w1_bound_a_searcher_is_no_witness() {
    check(2, || {
        let owned = Owned::new(2, 1);
        let owner = owned.clone();
        let thread = spawn(move || owner.work());
        let other = owned.machine.clone();
        let searcher = spawn(move || other.work(0));
        owned.push_to_owner(0);
        thread.join().unwrap();
        searcher.join().unwrap();
        assert_eq!(owned.machine.sleepers.idle.caches.total(), 0);
    });
}
