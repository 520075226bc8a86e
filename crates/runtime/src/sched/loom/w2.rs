//! W2: a word that enters a queue leaves it exactly once, and a claim has one owner.

use std::sync::Arc;

use loom::thread::spawn;
use quadrille_policy::OnContention;

use super::{Arena, Item, Machine, check, one_group, seat};
use crate::sched::idle::Withdrawn;
use crate::sched::queue::group::GroupQueue;
use crate::sched::queue::slot::Slot;

fn numbers(items: impl IntoIterator<Item = Item>) -> Vec<usize> {
    items.into_iter().map(Item::finish).collect()
}

/// The owner fills and empties its slot while a rescuer empties it.
#[test]
fn w2_one_runnable_slot() {
    check(3, || {
        let shared = Arc::new((Arena::new(2), Slot::new()));
        let other = shared.clone();
        let thread = spawn(move || numbers(other.1.take()));
        let (arena, slot) = &*shared;
        let mut got = numbers(slot.replace(arena.item(0)));
        got.extend(numbers(slot.replace(arena.item(1))));
        got.extend(numbers(slot.take()));
        got.extend(thread.join().unwrap());
        got.extend(numbers(slot.take()));
        got.sort_unstable();
        assert_eq!(got, [0, 1]);
    });
}

/// Two members drain the mailbox while somebody pushes.
#[test]
fn w2_one_runnable_mailbox() {
    check(3, || {
        let shared = Arc::new((Arena::new(2), crate::sched::queue::mailbox::Mailbox::new()));
        shared.1.push(shared.0.item(0));
        let (pusher, drainer) = (shared.clone(), shared.clone());
        let pushing = spawn(move || pusher.1.push(pusher.0.item(1)));
        let draining = spawn(move || numbers(drainer.1.drain()));
        let mut got = numbers(shared.1.drain());
        pushing.join().unwrap();
        got.extend(draining.join().unwrap());
        got.extend(numbers(shared.1.drain()));
        got.sort_unstable();
        assert_eq!(got, [0, 1]);
    });
}

/// Pushes through the mailbox, one directly if the lock is free, and two members that pop in batches.
#[test]
fn w2_one_runnable_group() {
    check(2, || {
        let shared = Arc::new((Arena::new(3), GroupQueue::new(OnContention::Mailbox)));
        let pop_all = |queue: &GroupQueue<Item>| {
            let mut got = Vec::new();
            let first = queue.pop(1, || 0, |item| got.push(item.finish()));
            got.extend(numbers(first));
            got
        };
        shared.1.push(shared.0.item(0), false, || 0);
        let (pusher, popper) = (shared.clone(), shared.clone());
        let pushing = spawn(move || {
            pusher.1.push(pusher.0.item(1), false, || 0);
            pusher.1.push(pusher.0.item(2), true, || 0);
        });
        let popping = spawn(move || pop_all(&popper.1));
        let mut got = pop_all(&shared.1);
        pushing.join().unwrap();
        got.extend(popping.join().unwrap());
        got.extend(numbers(shared.1.take_all()));
        got.sort_unstable();
        assert_eq!(got, [0, 1, 2]);
    });
}

/// Of two pushers and the worker itself, one clears the bit.
#[test]
fn w2_one_claim() {
    let plan = one_group(1);
    check(3, move || {
        let machine = Machine::new(&plan, 0);
        machine.sleepers.idle.announce(seat(0));
        let threads = [0, 1].map(|_| {
            let claimer = machine.clone();
            spawn(move || claimer.sleepers.idle.claim_in_group(0, None, None).is_some())
        });
        let free = machine.sleepers.idle.withdraw(seat(0)) == Withdrawn::Free;
        let claims = threads.map(|thread| usize::from(thread.join().unwrap()));
        assert_eq!(claims.iter().sum::<usize>() + usize::from(free), 1);
        assert_eq!(machine.sleepers.idle.caches.total(), 0);
    });
}
