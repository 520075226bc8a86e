use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::sched::queue::item::Item;

fn filled(count: usize) -> Deque<Item<usize>> {
    let deque = Deque::new();
    (0..count).for_each(|number| deque.push(Item::new(number)));
    deque
}

fn rest(deque: &Deque<Item<usize>>) -> Vec<usize> {
    std::iter::from_fn(|| deque.pop()).map(|item| *item.value()).collect()
}

#[test]
fn the_oldest_comes_out_first_however_many_there_are() {
    for count in [0, 1, CAPACITY - 1, CAPACITY, CAPACITY + 1, 10 * CAPACITY] {
        let deque = filled(count);
        assert_eq!(deque.len(), count);
        assert_eq!(rest(&deque), (0..count).collect::<Vec<_>>());
        assert_eq!(deque.len(), 0);
    }
}

#[test]
fn a_ring_is_used_again_and_does_not_grow() {
    let deque = filled(0);
    let ring = deque.ring.get();
    for number in 0..10 * CAPACITY {
        deque.push(Item::new(number));
        assert_eq!(deque.pop().map(|item| *item.value()), Some(number));
    }
    assert_eq!(deque.ring.get(), ring);
}

#[test]
fn the_newest_is_taken_if_it_is_wanted_and_not_too_old() {
    let deque = filled(4);
    let newest = |from, wanted| deque.pop_newest(from, |_| wanted).map(|item| *item.value());
    assert_eq!(newest(4, true), None);
    assert_eq!(newest(0, false), None);
    assert_eq!(newest(3, true), Some(3));
    assert_eq!(deque.end(), 3);
    deque.push(Item::new(7));
    assert_eq!(newest(0, true), Some(7));
    assert_eq!(rest(&deque), [0, 1, 2]);
    assert_eq!(newest(0, true), None);
}

#[test]
fn a_thief_has_the_oldest_half_and_no_more_than_it_may() {
    for (count, limit, stolen) in [
        (0, 8, 0),
        (1, 8, 1),
        (2, 8, 1),
        (5, 8, 3),
        (40, 8, 8),
        (5, 1, 1),
        (5, 0, 1),
    ] {
        let (deque, thief) = (filled(count), Deque::new());
        let first = deque.stealer().steal(&thief, limit).map(|item| *item.value());
        let all: Vec<_> = first.into_iter().chain(rest(&thief)).collect();
        assert_eq!(all, (0..stolen).collect::<Vec<_>>(), "{count}, {limit}");
        assert_eq!(rest(&deque), (stolen..count).collect::<Vec<_>>());
    }
}

/// While a thief has the bit the owner pushes and pops, and leaves the back alone; another thief goes elsewhere.
#[test]
fn nobody_waits_for_a_thief() {
    let deque = filled(CAPACITY);
    // Ordering: Relaxed; one thread.
    deque.ends.head.fetch_or(BUSY, Ordering::Relaxed);
    assert!(deque.pop_newest(0, |_| true).is_none());
    assert!(deque.stealer().steal(&Deque::new(), 1).is_none());
    deque.push(Item::new(CAPACITY));
    assert_eq!(rest(&deque), (0..=CAPACITY).collect::<Vec<_>>());
    (0..10 * CAPACITY).for_each(|_| deque.push(Item::new(0)));
    let stealer = deque.stealer();
    assert!(!stealer.is_empty() && !stealer.is_open());
    deque.ends.head.fetch_and(!BUSY, Ordering::Relaxed);
    assert!(stealer.is_open());
    assert!(deque.pop_newest(0, |_| true).is_some());
    assert_eq!(rest(&deque).len(), 10 * CAPACITY - 1);
}

/// What thousands have needed is given back when the ring comes round.
#[test]
fn a_ring_shrinks() {
    let deque = filled(100 * CAPACITY);
    let large = deque.ring().slots.len();
    assert_eq!(rest(&deque).len(), 100 * CAPACITY);
    for number in 0..2 * large {
        deque.push(Item::new(number));
        assert!(deque.pop().is_some());
    }
    assert_eq!(deque.ring().slots.len(), CAPACITY);
}

#[test]
fn what_is_left_is_dropped_with_the_owner() {
    let counted = Rc::new(());
    let deque = Deque::new();
    (0..3).for_each(|_| deque.push(Item::new(counted.clone())));
    let stealer = deque.stealer();
    drop(deque);
    assert_eq!(Rc::strong_count(&counted), 1);
    assert!(stealer.is_empty());
}

#[test]
fn each_comes_out_once() {
    const COUNT: usize = 100_000;
    let deque = filled(0);
    let seen: Vec<_> = (0..COUNT).map(|_| AtomicUsize::new(0)).collect();
    let left = AtomicUsize::new(COUNT);
    let see = |item: Item<usize>| {
        seen[*item.value()].fetch_add(1, Ordering::Relaxed);
        left.fetch_sub(1, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (stealer, left, see) = (deque.stealer(), &left, &see);
            scope.spawn(move || {
                let own = Deque::new();
                while left.load(Ordering::Relaxed) > 0 {
                    stealer.steal(&own, 8).into_iter().for_each(see);
                    std::iter::from_fn(|| own.pop()).for_each(see);
                }
            });
        }
        for number in 0..COUNT {
            deque.push(Item::new(number));
            match number % 7 {
                0..3 => deque.pop_newest(0, |_| true).into_iter().for_each(see),
                3..5 => deque.pop().into_iter().for_each(see),
                _ => {}
            }
        }
        std::iter::from_fn(|| deque.pop()).for_each(see);
    });
    assert!(seen.iter().all(|times| times.load(Ordering::Relaxed) == 1));
}
