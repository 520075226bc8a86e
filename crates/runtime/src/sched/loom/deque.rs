//! J: what is pushed into a deque comes out once, at whichever end.

use loom::thread::spawn;

use super::{Arena, Item, check};
use crate::sched::queue::deque::{Deque, Stealer};

/// Everything that comes out of it, by number.
fn all(deque: &Deque<Item>) -> Vec<usize> {
    std::iter::from_fn(|| deque.pop()).map(Item::finish).collect()
}

/// A thread that steals once, at most `limit`: what it got.
fn thief(stealer: Stealer<Item>, limit: usize) -> loom::thread::JoinHandle<Vec<usize>> {
    spawn(move || {
        let own = Deque::new();
        let mut got: Vec<_> = stealer.steal(&own, limit).map(Item::finish).into_iter().collect();
        got.extend(all(&own));
        got
    })
}

/// A deque with the first two items of an arena, which fill its ring.
fn two(arena: &Arena) -> Deque<Item> {
    let deque = Deque::new();
    (0..2).for_each(|index| deque.push(arena.item(index)));
    deque
}

/// Of `count` items each came out once: by `got`, to `thieves`, or is still there.
fn each_once<const N: usize>(
    mut got: Vec<usize>,
    thieves: [loom::thread::JoinHandle<Vec<usize>>; N],
    deque: &Deque<Item>,
    count: usize,
) {
    thieves.into_iter().for_each(|thief| got.extend(thief.join().unwrap()));
    got.extend(all(deque));
    got.sort_unstable();
    assert_eq!(got, (0..count).collect::<Vec<_>>());
}

fn oldest(deque: &Deque<Item>) -> Vec<usize> {
    deque.pop().map(Item::finish).into_iter().collect()
}

fn newest(deque: &Deque<Item>) -> Vec<usize> {
    deque.pop_newest(0, |_| true).map(Item::finish).into_iter().collect()
}

/// Owner and thief at the front.
#[test]
fn j_one_thief() {
    check(3, || {
        let arena = Arena::new(2);
        let deque = Deque::new();
        deque.push(arena.item(0));
        let thief = thief(deque.stealer(), 2);
        deque.push(arena.item(1));
        each_once(oldest(&deque), [thief], &deque, 2);
    });
}

/// The owner at its back end beside two thieves.
#[test]
fn j_the_newest_beside_thieves() {
    check(2, || {
        let arena = Arena::new(2);
        let deque = two(&arena);
        let thieves = [thief(deque.stealer(), 1), thief(deque.stealer(), 1)];
        each_once(newest(&deque), thieves, &deque, 2);
    });
}

/// The owner takes the newest, and puts another in its place, while a thief has looked how much is there.
#[test]
fn j_the_newest_is_replaced() {
    check(3, || {
        let arena = Arena::new(2);
        let deque = Deque::new();
        deque.push(arena.item(0));
        let thief = thief(deque.stealer(), 1);
        let mut got = newest(&deque);
        deque.push(arena.item(1));
        got.extend(newest(&deque));
        each_once(got, [thief], &deque, 2);
    });
}

/// The owner outgrows its ring, of two, while a thief takes a batch out of it.
#[test]
fn j_the_ring_grows_beside_a_thief() {
    check(3, || {
        let arena = Arena::new(3);
        let deque = two(&arena);
        let thief = thief(deque.stealer(), 2);
        deque.push(arena.item(2));
        each_once(oldest(&deque), [thief], &deque, 3);
    });
}

/// It comes round in its ring, and frees an outgrown one, while a thief takes a batch.
#[test]
fn j_slots_are_used_again() {
    check(2, || {
        let arena = Arena::new(6);
        let deque = two(&arena);
        let thief = thief(deque.stealer(), 2);
        let got = oldest(&deque);
        (2..6).for_each(|index| deque.push(arena.item(index)));
        each_once(got, [thief], &deque, 6);
    });
}

/// The owner goes, and what it has outgrown with it, while a thief takes a batch.
#[test]
fn j_the_owner_goes_beside_a_thief() {
    check(3, || {
        let arena = Arena::new(3);
        let deque = two(&arena);
        let thief = thief(deque.stealer(), 2);
        deque.push(arena.item(2));
        let mut got = all(&deque);
        // What they share goes with the last of the two by an `Arc`, of which loom knows nothing: here after both.
        let _shared = deque.stealer();
        drop(deque);
        got.extend(thief.join().unwrap());
        got.sort_unstable();
        assert_eq!(got, [0, 1, 2]);
    });
}
