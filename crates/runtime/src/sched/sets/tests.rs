use super::*;

const TTL: Nanos = Nanos::from_millis(50);
const EPOCH: Nanos = Nanos::from_millis(10);
const LLCS: usize = 3;

fn table() -> Sets {
    Sets::new(LLCS, TTL)
}

fn share(number: u32, ns: u64) -> Share {
    Share { number, ns, polls: 2 }
}

fn known(preferred: Option<u16>, spread: bool, pulls: u8) -> Known {
    Known {
        policy: SetPolicy {
            preferred: preferred.map(LlcId),
            spread,
        },
        pulls,
    }
}

/// Ends an epoch with the decision `decided`; returns what it saw.
fn end(slot: Slot<'_>, now: Nanos, decided: Known) -> Option<(Vec<u64>, u64)> {
    let mut seen = None;
    slot.end_epoch(LLCS, now, EPOCH, |_, epoch| {
        seen = Some((epoch.occupancy.clone(), epoch.polls / SetView::POLL));
        decided
    });
    seen
}

#[test]
fn the_word_holds_everything() {
    for number in [1, 77, (1 << 28) - 1] {
        for preferred in [None, Some(0), Some(5), Some(u16::MAX - 1), Some(u16::MAX)] {
            for (spread, pulls) in [(false, 0), (true, 0), (false, 255), (true, 7)] {
                let known = known(preferred, spread, pulls);
                let head = Head::new(number, known);
                assert_eq!((head.number(), head.known()), (number, known));
            }
        }
    }
    assert_eq!((Head(0).number(), Head(0).known()), (0, Known::default()));
}

#[test]
fn sums_are_kept_by_cache_and_halved_each_epoch() {
    let sets = table();
    let at = Nanos::from_millis;
    let (slot, _) = sets.add(share(9, 100), 0, at(100)).unwrap();
    sets.add(share(9, 30), 2, at(101)).unwrap();
    assert_eq!(end(slot, at(101), Known::default()), Some((vec![100, 0, 30], 4)));
    assert_eq!(end(slot, at(110), Known::default()), None, "not due");
    assert_eq!(end(slot, at(111), Known::default()), Some((vec![50, 0, 15], 2)));
}

#[test]
fn a_preference_is_seen_by_those_that_may_have_one() {
    let sets = table();
    let at = Nanos::from_millis;
    let (slot, _) = sets.add(share(9, 100), 0, at(100)).unwrap();
    let decided = known(Some(2), false, 2);
    assert!(end(slot, at(100), decided).is_some());
    let set = SetId::declared(9);
    assert_eq!(sets.look(set), decided);
    assert_eq!(sets.look(SetId::root(9)), decided);
    for other in [SetId::NONE, SetId::root(8), set.spread(), set.unfit()] {
        assert_eq!(sets.look(other), Known::default(), "{other:?}");
    }
    assert!(sets.take_pull(set) && sets.take_pull(set) && !sets.take_pull(set));
    assert_eq!(sets.look(set), known(Some(2), false, 0));
    assert!(!sets.take_pull(SetId::root(8)));
}

#[test]
fn after_a_pause_a_set_begins_anew() {
    let sets = table();
    let at = Nanos::from_millis;
    let (slot, _) = sets.add(share(9, 100), 0, at(100)).unwrap();
    assert!(end(slot, at(100), known(Some(0), false, 1)).is_some());
    let (_, before) = sets.add(share(9, 10), 1, at(149)).unwrap();
    assert_eq!(before, Some(at(100)));
    assert_ne!(sets.look(SetId::declared(9)), Known::default());
    // Who looks compares no times: 10 s later the first wakes go where the set was, until somebody tells that it runs.
    assert_eq!(sets.look(SetId::declared(9)), known(Some(0), false, 1));
    sets.add(share(9, 7), 1, at(10_149)).unwrap();
    assert_eq!(sets.look(SetId::declared(9)), Known::default());
    assert_eq!(end(slot, at(10_300), Known::default()), Some((vec![0, 7, 0], 2)));
}

#[test]
fn a_set_that_is_new_has_not_run_before() {
    let sets = table();
    let at = Nanos::from_millis;
    let number = |way: usize| 9 + u32::try_from(way * SLOTS).unwrap();
    for way in 0..WAYS {
        let (_, before) = sets.add(share(number(way), 100), 0, at(100)).unwrap();
        assert_eq!(before, None);
        let (_, before) = sets.add(share(number(way), 100), 1, at(101)).unwrap();
        assert_eq!(before, Some(at(100)));
    }
    // Neither has one that takes the place of another.
    let (_, before) = sets.add(share(number(WAYS), 40), 1, at(151)).unwrap();
    assert_eq!(before, None);
}

#[test]
fn slots_change_hands_only_after_a_pause() {
    let sets = table();
    let at = Nanos::from_millis;
    let number = |way: usize| 9 + u32::try_from(way * SLOTS).unwrap();
    for way in 0..WAYS {
        assert!(sets.add(share(number(way), 100), 0, at(100)).is_some());
    }
    assert!(
        sets.add(share(number(WAYS), 100), 0, at(149)).is_none(),
        "all are in use"
    );
    // The others run on; the first does not.
    for way in 1..WAYS {
        assert!(sets.add(share(number(way), 100), 0, at(149)).is_some());
    }
    let (slot, _) = sets.add(share(number(WAYS), 40), 1, at(150)).unwrap();
    assert_eq!(slot.head().number(), number(WAYS));
    assert_eq!(end(slot, at(150), Known::default()), Some((vec![0, 40, 0], 2)));
    assert!(sets.find(number(0)).is_none());
}

#[test]
fn without_caches_there_is_nothing() {
    let sets = Sets::new(0, TTL);
    assert_eq!(sets.look(SetId::declared(9)), Known::default());
    assert!(sets.add(share(9, 1), 0, Nanos(5)).is_none());
    assert!(!sets.take_pull(SetId::declared(9)));
}
