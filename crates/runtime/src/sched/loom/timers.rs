//! F: a timer is fired or unset, once; one that is set from outside gets its worker up; and while a worker that is
//! awake has timers, somebody looks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use loom::thread::spawn;

use super::{Machine, Sleeper, beside_a_cache, check, one_group, seat};
use crate::sched::alarms::Alarm;
use crate::sched::park::ParkWord;
use crate::sched::publish;
use crate::time::store::{Change, Store};

/// The one value that expires at `now`, if any.
fn expire(store: &Store<u32>, now: u64) -> Option<u32> {
    let mut batch = [None];
    store.expire(now, &mut batch);
    batch[0]
}

/// Somebody unsets a timer while its worker fires, and sets another one that takes its place.
#[test]
fn f_fired_or_unset_once() {
    check(3, || {
        let store = Arc::new(Store::new());
        let (first, _) = store.insert(1, 1).unwrap();
        let other = store.clone();
        let thread = spawn(move || other.remove(first));
        let fired = expire(&store, 1);
        let (second, _) = store.insert(2, 2).unwrap();
        let unset = thread.join().unwrap();
        assert_eq!((fired, unset).0.or(unset), Some(1));
        assert!(fired.is_none() || unset.is_none(), "once");
        assert_eq!(store.remove(second), Some(2), "the other timer is where it was");
    });
}

/// A task moves on and gives its timer another waker while it fires: the one that was there is called, or the new one.
#[test]
fn f_the_last_waker_is_called() {
    check(3, || {
        let store = Arc::new(Store::new());
        let (key, _) = store.insert(1, 1).unwrap();
        let other = store.clone();
        let thread = spawn(move || other.replace(key, 2).0);
        let fired = expire(&store, 1);
        match thread.join().unwrap() {
            Change::Done(old) => assert_eq!((old, fired), (1, Some(2))),
            Change::Expired => assert_eq!(fired, Some(1), "who polls learns that it has expired"),
            Change::Closed => panic!("nobody has closed it"),
        }
    });
}

/// A task postpones its timer while it fires: it is fired before, or not at all until then.
#[test]
fn f_postponed_or_fired() {
    check(3, || {
        let store = Arc::new(Store::new());
        let (key, _) = store.insert(1, 1).unwrap();
        let other = store.clone();
        let thread = spawn(move || other.postpone(key, 3));
        let fired = expire(&store, 2);
        assert_eq!(thread.join().unwrap(), fired.is_none());
        assert_eq!(expire(&store, 3).or(fired), Some(1));
    });
}

/// The runtime stops while somebody sets a timer: its waker is dropped by one of the two.
#[test]
fn f_nothing_stays_in_a_closed_store() {
    check(3, || {
        let store = Arc::new(Store::new());
        let other = store.clone();
        let thread = spawn(move || other.insert(1, 1).err());
        let taken = store.close();
        let refused = thread.join().unwrap();
        assert_eq!(taken.into_iter().chain(refused).collect::<Vec<_>>(), [1]);
        assert_eq!((expire(&store, 9), store.first()), (None, u64::MAX));
    });
}

/// A worker with timers: in a model all that are set have expired.
struct Sleeps<'a> {
    store: &'a Store<u32>,
}

impl Sleeper for Sleeps<'_> {
    fn alarm(&mut self, _may_jump: bool) -> Alarm {
        if self.store.first() == u64::MAX {
            Alarm::Never
        } else {
            Alarm::Now
        }
    }
}

/// A thread that is no worker sets timers with one that goes to sleep meanwhile: it does not sleep beyond them.
fn set_from_outside(threads: u32) {
    check(3, move || {
        let machine = Machine::new(&one_group(1), 0);
        let store = Arc::new(Store::new());
        let setters: Vec<_> = (0..threads)
            .map(|value| {
                let (machine, store) = (machine.clone(), store.clone());
                spawn(move || {
                    let insert = || store.insert(u64::from(value), value).map(drop).unwrap();
                    if publish::to_owner(insert, &machine.sleepers, seat(0)) {
                        machine.sleepers.wake(0);
                    }
                })
            })
            .collect();
        let (mut fired, mut claimed) = (0, false);
        loop {
            if !claimed {
                machine.sleepers.start_search(0);
            }
            while expire(&store, u64::MAX - 1).is_some() {
                fired += 1;
            }
            if fired == threads {
                break;
            }
            claimed = machine.sleepers.sleep(0, &mut Sleeps { store: &store }).claimed;
        }
        setters.into_iter().for_each(|setter| setter.join().unwrap());
    });
}

#[test]
fn f_set_from_outside_is_noticed() {
    set_from_outside(1);
}

#[test]
fn f_two_set_from_outside_are_noticed() {
    set_from_outside(2);
}

/// The first sleep of this worker ends by an alarm of its own, the second by a token alone.
struct Rests<'a> {
    machine: &'a Machine,
    /// Whether it sleeps for the first time.
    first: bool,
    /// Whether it was sentinel when it slept for the second time.
    watched: &'a AtomicBool,
    slept: &'a AtomicBool,
}

/// When its first sleep would have ended.
const SOON: u64 = 7;

impl Sleeper for Rests<'_> {
    fn spin(&mut self, word: &ParkWord) {
        if self.first {
            // A token that comes before its time.
            let _found = word.unpark();
            self.machine.sleepers.alarms.set(1, SOON);
        } else {
            let duty = self.machine.sleepers.take_duty(1);
            self.watched.store(duty, Ordering::SeqCst);
            self.slept.store(true, Ordering::SeqCst);
        }
    }
}

/// The sentinel goes to work and has timers. Another worker got up before its alarm and sleeps again, without one:
/// either it is sentinel now, or who goes to work knows that nobody watches.
#[test]
fn f_who_gets_up_by_himself_watches() {
    let plan = beside_a_cache(2);
    check(3, move || {
        let machine = Machine::new(&plan, 0);
        machine.sleepers.idle.announce(seat(0));
        assert!(machine.sleepers.take_duty(0));
        let other = machine.clone();
        let thread = spawn(move || {
            let (watched, slept) = (AtomicBool::new(false), AtomicBool::new(false));
            for first in [true, false] {
                let mut host = Rests {
                    machine: &other,
                    first,
                    watched: &watched,
                    slept: &slept,
                };
                other.sleepers.start_search(1);
                let _awake = other.sleepers.sleep(1, &mut host);
            }
            slept.into_inner().then_some(watched.into_inner())
        });
        machine.sleepers.resign(0);
        let _ = machine.sleepers.idle.withdraw(seat(0));
        let noticed = machine.sleepers.is_unwatched() && !machine.sleepers.someone_gets_up(&(SOON..=SOON));
        machine.sleepers.stop();
        assert!(
            noticed || thread.join().unwrap() != Some(false),
            "nobody watches, nobody knows"
        );
    });
}
