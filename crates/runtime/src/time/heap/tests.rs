//! That the heap is one at any time, and does as a sorted map would.

use std::collections::BTreeMap;

use quadrille_policy::Rng;

use super::*;

/// What must be true of every heap, at any time.
fn check(timers: &Timers<u64>) {
    let heap = &timers.heap;
    for index in 1..heap.len() {
        assert!(heap[(index - 1) / ARITY].key() <= heap[index].key(), "a heap");
    }
    assert!(
        heap.first().is_none_or(|first| !timers.is_cancelled(*first)),
        "invariant 2"
    );
    let mut nodes = vec![0; timers.slots.len()];
    for node in heap.iter().filter(|node| !timers.is_cancelled(**node)) {
        nodes[node.slot as usize] += 1;
        assert!(node.at <= timers.slots[node.slot as usize].at, "invariant 1");
    }
    let set: Vec<usize> = timers.slots.iter().map(|slot| usize::from(slot.id != 0)).collect();
    assert_eq!(nodes, set, "invariant 1");
    assert_eq!(timers.len(), set.iter().sum::<usize>());
    assert!(heap.len() <= 2 * timers.len() + SPARE);
}

/// What expires at `now`.
fn expire(timers: &mut Timers<u64>, now: u64) -> Vec<u64> {
    std::iter::from_fn(|| timers.expire(now)).collect()
}

#[test]
fn timers_expire_at_their_deadline_and_not_before() {
    let mut timers = Timers::default();
    for deadline in [5, 1, 3, 3, 9] {
        timers.insert(deadline, deadline);
    }
    let fired: Vec<usize> = (0..=10).map(|now| expire(&mut timers, now).len()).collect();
    assert_eq!(fired, [0, 1, 0, 2, 0, 1, 0, 0, 0, 1, 0]);
    assert_eq!((timers.len(), timers.first()), (0, u64::MAX));
}

#[test]
fn equal_deadlines_come_in_the_order_in_which_they_were_set() {
    let mut timers = Timers::default();
    for number in 0..100 {
        timers.insert(7, number);
    }
    assert_eq!(expire(&mut timers, 7), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_key_names_one_timer_for_ever() {
    let mut timers = Timers::default();
    let first = timers.insert(1, 10);
    assert_eq!(timers.remove(first), Some(10));
    let second = timers.insert(1, 20);
    assert_eq!(first.slot, second.slot, "the slot is used again");
    assert_eq!(timers.remove(first), None);
    assert!(!timers.postpone(first, 5));
    assert_eq!(timers.value(first), None);
    assert_eq!(timers.value(second), Some(&mut 20));
    assert_eq!(expire(&mut timers, 1), [20]);
    assert_eq!(timers.remove(second), None);
}

#[test]
fn a_postponed_timer_expires_late() {
    let mut timers = Timers::default();
    let key = timers.insert(5, 1);
    timers.insert(6, 2);
    assert!(timers.postpone(key, 8));
    assert!(!timers.postpone(key, 7), "not back");
    assert!(timers.first() <= 6);
    assert_eq!(expire(&mut timers, 7), [2]);
    assert_eq!(timers.first(), 8, "the node is where it belongs");
    assert_eq!(expire(&mut timers, 8), [1]);
}

/// Every order of up to seven insertions, with every one of them cancelled in turn.
#[test]
fn every_order_of_few() {
    fn orders(left: &mut Vec<u64>, order: &mut Vec<u64>, each: &mut impl FnMut(&[u64])) {
        if left.is_empty() {
            return each(order);
        }
        for index in 0..left.len() {
            let number = left.remove(index);
            order.push(number);
            orders(left, order, each);
            order.pop();
            left.insert(index, number);
        }
    }
    for count in 1..=6 {
        orders(&mut (0..count).collect(), &mut Vec::new(), &mut |order| {
            for cancelled in 0..order.len() {
                let mut timers = Timers::default();
                let keys: Vec<Key> = order.iter().map(|at| timers.insert(*at, *at)).collect();
                assert_eq!(timers.remove(keys[cancelled]), Some(order[cancelled]));
                check(&timers);
                let left: Vec<u64> = (0..count).filter(|at| *at != order[cancelled]).collect();
                assert_eq!(expire(&mut timers, count), left);
            }
        });
    }
}

/// The same as a sorted map, whatever is done in whatever order.
#[test]
fn as_a_sorted_map_would() {
    for seed in 0..400 {
        let moves_all = seed % 2 == 0;
        let mut rng = Rng::new(seed);
        let mut timers = Timers::default();
        // By deadline and number; and the key of each.
        let mut oracle: BTreeMap<(u64, u64), Key> = BTreeMap::new();
        let mut now = 0;
        for number in 0..400 {
            let any = |rng: &mut Rng, oracle: &BTreeMap<(u64, u64), Key>| {
                let index = rng.below(u32::try_from(oracle.len()).unwrap().max(1)) as usize;
                oracle.iter().nth(index).map(|(at, key)| (*at, *key))
            };
            match rng.below(8) {
                0..=3 => {
                    let deadline = now + u64::from(rng.below(100));
                    oracle.insert((deadline, number), timers.insert(deadline, number));
                }
                4 | 5 => {
                    if let Some((at, key)) = any(&mut rng, &oracle) {
                        oracle.remove(&at);
                        assert_eq!(timers.remove(key), Some(at.1), "seed {seed}");
                    }
                }
                6 if moves_all => {
                    if let Some((at, key)) = any(&mut rng, &oracle) {
                        let to = now + u64::from(rng.below(100));
                        oracle.remove(&at);
                        let moved = timers.reset(key, to).unwrap();
                        oracle.insert((to, at.1), moved);
                        assert!(moved == key || timers.value(key).is_none() && timers.reset(key, to).is_none());
                    }
                }
                6 => {
                    if let Some((at, key)) = any(&mut rng, &oracle) {
                        let later = at.0 + u64::from(rng.below(50));
                        oracle.remove(&at);
                        oracle.insert((later, at.1), key);
                        assert!(timers.postpone(key, later), "seed {seed}");
                    }
                }
                _ => {
                    now += u64::from(rng.below(30));
                    let mut due: Vec<u64> = Vec::new();
                    while let Some(first) = oracle.first_entry()
                        && first.key().0 <= now
                    {
                        due.push(first.remove_entry().0.1);
                    }
                    let mut fired = expire(&mut timers, now);
                    // By deadline and then in the order of setting, which a postponed one may lose to those set later.
                    due.sort_unstable();
                    fired.sort_unstable();
                    assert_eq!(fired, due, "seed {seed}");
                }
            }
            check(&timers);
            let first = oracle.first_key_value().map_or(u64::MAX, |(at, _)| at.0);
            assert!(timers.first() <= first, "seed {seed}");
            if moves_all {
                timers.settle();
                check(&timers);
                assert_eq!(timers.first(), first, "seed {seed}");
                let peeked = timers.peek().copied();
                assert!(peeked.map_or(oracle.is_empty(), |number| oracle.contains_key(&(first, number))));
            }
        }
        assert_eq!(timers.take_all().len(), oracle.len());
    }
}

#[test]
fn thousands_set_and_cancelled_leave_no_memory() {
    let mut timers = Timers::default();
    let keep = timers.insert(0, 0);
    let mut last = None;
    for number in 0..100_000_u64 {
        // The newest but one is cancelled, so that it is in the middle of the heap.
        let key = timers.insert(1_000_000 - number % 1000, number);
        if let Some(before) = last.replace(key) {
            timers.remove(before);
        }
        assert!(timers.heap.len() <= 2 * timers.len() + SPARE);
    }
    assert!(timers.slots.len() <= 3);
    let many: Vec<Key> = (0..100_000).map(|at| timers.insert(at, at)).collect();
    many.into_iter().for_each(|key| _ = timers.remove(key));
    assert!(
        timers.heap.capacity() <= KEPT.max(SPARE * 4),
        "{}",
        timers.heap.capacity()
    );
    timers.remove(keep);
    timers.remove(last.unwrap());
    assert!(timers.slots.capacity() <= KEPT && timers.heap.capacity() <= KEPT);
}

#[test]
fn a_batch_ends_with_the_last_that_is_near() {
    for (deadlines, slack, end) in [
        (&[][..], 5, u64::MAX),
        (&[10], 5, 10),
        (&[10, 12, 15, 16], 5, 15),
        (&[16, 15, 12, 10], 5, 15),
        (&[10, 12, 15, 16], 0, 10),
        (&[10, 16, 17], 5, 10),
        (&[u64::MAX - 2, u64::MAX - 1], 50, u64::MAX - 1),
    ] {
        let mut timers = Timers::default();
        for deadline in deadlines {
            timers.insert(*deadline, 0);
        }
        assert_eq!(timers.end_of_batch(slack), end, "{deadlines:?} within {slack}");
    }
}

/// However many there are, the end lies in the window, and the looks are few.
#[test]
fn the_end_of_a_large_batch_is_near() {
    let mut timers = Timers::default();
    for number in 0..10_000 {
        timers.insert(100 + number % 60, number);
    }
    let end = timers.end_of_batch(50);
    assert!((100..=150).contains(&end));
}

/// Also where one is always set, first or last of them; and one that stays where it is holds up nothing for long.
#[test]
fn after_very_many_memory_is_given_back() {
    const MANY: u64 = 100_000;
    let mut timers = Timers::default();
    let capacities = |timers: &Timers<u64>| timers.slots.capacity().max(timers.heap.capacity());
    let first = timers.insert(3, 0);
    (0..MANY).for_each(|number| _ = timers.insert(1, number));
    let last = timers.insert(2, 0);
    assert_eq!(expire(&mut timers, 1).len() as u64, MANY);
    check(&timers);
    assert!(timers.heap.capacity() as u64 <= MANY / 2, "{}", timers.heap.capacity());
    // The last one keeps the slots before it.
    assert!(timers.slots.len() as u64 > MANY && timers.len() == 2);
    let come_and_go = |timers: &mut Timers<u64>| {
        for number in 0..MANY {
            let key = timers.insert(5, number);
            assert_eq!(timers.remove(key), Some(number));
        }
        check(timers);
    };
    come_and_go(&mut timers);
    let again = timers.insert(4, 0);
    assert!(again.slot() < 10, "it is among the first: {again:?}");
    assert_eq!(timers.remove(last), Some(0));
    come_and_go(&mut timers);
    assert!(capacities(&timers) <= 8 * KEPT, "{}", capacities(&timers));
    assert_eq!([timers.remove(first), timers.remove(again)], [Some(0); 2]);
}
