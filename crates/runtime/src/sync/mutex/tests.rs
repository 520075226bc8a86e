use std::fmt::Debug;
use std::future::Future;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_lite::future::{block_on, poll_once};

use super::*;
use crate::coop;

/// Counts calls.
#[derive(Default)]
struct Calls(AtomicUsize);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        // Ordering: Relaxed; read on the same thread.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// One that waits, and how often it was woken.
struct Asks<'a, T> {
    future: Pin<Box<Lock<'a, T>>>,
    calls: Arc<Calls>,
}

impl<'a, T> Asks<'a, T> {
    fn begin(mutex: &'a Mutex<T>) -> Self {
        let mut asks = Self {
            future: Box::pin(mutex.lock()),
            calls: Arc::default(),
        };
        assert!(asks.poll().is_pending(), "it is held");
        asks
    }

    fn poll(&mut self) -> Poll<MutexGuard<'a, T>> {
        let waker = Waker::from(self.calls.clone());
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn is_woken(&self) -> bool {
        // Ordering: Relaxed; called on the same thread.
        self.calls.0.load(Ordering::Relaxed) == 1
    }

    fn guard(&mut self) -> MutexGuard<'a, T> {
        let Poll::Ready(guard) = self.poll() else {
            panic!("it was served");
        };
        guard
    }
}

#[test]
fn who_waits_is_served_in_order_and_nobody_passes() {
    let mutex = Mutex::new(0);
    let guard = mutex.try_lock().unwrap();
    let mut waiting: Vec<_> = (0..3).map(|_| Asks::begin(&mutex)).collect();
    drop(guard);
    for turn in 0..3 {
        let woken: Vec<bool> = waiting.iter().map(Asks::is_woken).collect();
        assert_eq!(woken, [true, turn > 0, turn > 1], "the next, and no other");
        assert!(mutex.try_lock().is_err(), "it is kept for who was woken");
        let mut guard = waiting[turn].guard();
        assert_eq!(*guard, turn);
        *guard += 1;
    }
    assert_eq!(*mutex.try_lock().unwrap(), 3);
}

/// Whether it has been served or not: the next is.
#[test]
fn who_gives_up_lets_the_next_go_first() {
    for is_served in [false, true] {
        let mutex = Mutex::new(());
        let guard = mutex.try_lock().unwrap();
        let (first, mut second) = (Asks::begin(&mutex), Asks::begin(&mutex));
        let guard = if is_served {
            drop(guard);
            assert!(first.is_woken() && !second.is_woken());
            None
        } else {
            Some(guard)
        };
        drop(first);
        drop(guard);
        assert!(second.is_woken());
        drop(second.guard());
        assert!(mutex.try_lock().is_ok());
    }
}

#[test]
fn a_panic_poisons_nothing() {
    let mutex = Mutex::new(0);
    let panics = || {
        let mut guard = mutex.try_lock().unwrap();
        *guard += 1;
        panic!("while it is held");
    };
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert_eq!(*mutex.try_lock().unwrap(), 1);
}

#[test]
fn owned_guards_keep_the_mutex() {
    let mutex = Arc::new(Mutex::new(String::from("a")));
    let mut guard = block_on(mutex.clone().lock_owned());
    assert!(Arc::ptr_eq(OwnedMutexGuard::mutex(&guard), &mutex));
    assert!(mutex.clone().try_lock_owned().is_err());
    let mut waits = pin!(mutex.clone().lock_owned());
    assert!(block_on(poll_once(waits.as_mut())).is_none());
    guard.push('b');
    drop((mutex, guard));
    let guard = block_on(waits);
    let mutex = OwnedMutexGuard::mutex(&guard).clone();
    assert_eq!(*guard, "ab");
    drop(guard);
    assert_eq!(*mutex.clone().lock_owned_blocking(), "ab");
    assert_eq!(Arc::try_unwrap(mutex).unwrap().into_inner(), "ab");
}

#[test]
fn a_guard_of_a_part_holds_the_mutex() {
    let mutex = Mutex::new((1, [2, 3]));
    let whole = mutex.try_lock().unwrap();
    assert!(std::ptr::eq(MutexGuard::mutex(&whole), &raw const mutex));
    let whole = MutexGuard::try_map(whole, |value| value.1.get_mut(5)).unwrap_err();
    let second = MutexGuard::map(whole, |value| &mut value.1);
    let second = MappedMutexGuard::try_map(second, |value| value.get_mut(5)).unwrap_err();
    let mut second = MappedMutexGuard::map(second, |value| &mut value[1]);
    *second += 1;
    assert!(mutex.try_lock().is_err());
    assert_eq!(format!("{second:?} {second}"), "4 4");
    drop(second);
    assert_eq!(*mutex.try_lock().unwrap(), (1, [2, 4]));
}

#[test]
fn an_owned_guard_of_a_part_holds_the_mutex() {
    let mutex = Arc::new(Mutex::new((1, [2, 3])));
    let whole = mutex.clone().try_lock_owned().unwrap();
    let whole = OwnedMutexGuard::try_map(whole, |value| value.1.get_mut(5)).unwrap_err();
    let second = OwnedMutexGuard::map(whole, |value| &mut value.1);
    let second = OwnedMappedMutexGuard::try_map(second, |value| value.get_mut(5)).unwrap_err();
    let mut second = OwnedMappedMutexGuard::map(second, |value| &mut value[1]);
    *second += 1;
    assert!(mutex.try_lock().is_err() && Arc::ptr_eq(OwnedMappedMutexGuard::mutex(&second), &mutex));
    drop(second);
    assert_eq!(*mutex.try_lock().unwrap(), (1, [2, 4]));
}

#[test]
fn a_choice_of_a_part_that_panics_gives_the_mutex_back() {
    let mutex = Mutex::new(1);
    let panics = || MutexGuard::map(mutex.try_lock().unwrap(), |_| -> &mut i32 { panic!("no part") });
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert!(mutex.try_lock().is_ok());
}

#[test]
fn a_value_need_not_be_sized() {
    let mutex: Arc<Mutex<[i32]>> = Arc::new(Mutex::new([1, 2]));
    mutex.clone().try_lock_owned().unwrap()[0] = 3;
    assert_eq!(*mutex.try_lock().unwrap(), [3, 2]);
    let shown: &Mutex<dyn Debug> = &Mutex::new(5);
    assert_eq!(format!("{:?}", shown.try_lock().unwrap()), "5");
}

#[test]
fn it_is_shown_with_its_value_unless_that_is_held() {
    let mut mutex = Mutex::from(5);
    assert_eq!(format!("{mutex:?}"), "Mutex { data: 5, .. }");
    let guard = mutex.try_lock().unwrap();
    assert_eq!(format!("{mutex:?} {guard}"), "Mutex { data: <locked>, .. } 5");
    drop(guard);
    *mutex.get_mut() = 6;
    assert_eq!((mutex.into_inner(), Mutex::<u8>::default().into_inner()), (6, 0));
    assert_eq!(format!("{:?}", Mutex::new(()).lock()), "Lock { .. }");
    assert_eq!(
        format!("{:?}", Arc::new(Mutex::new(())).lock_owned()),
        "LockOwned { .. }"
    );
}

#[test]
fn to_show_it_spends_no_budget() {
    let mutex = Mutex::new(5);
    coop::start(1);
    let shown = format!("{mutex:?}");
    let has_budget = coop::has_budget_remaining();
    coop::stop();
    assert!(has_budget && shown.contains('5'));
}

#[test]
fn a_guard_that_is_forgotten_keeps_the_mutex() {
    let mut mutex = Mutex::new(1);
    mem::forget(mutex.try_lock().unwrap());
    assert!(mutex.try_lock().is_err());
    *mutex.get_mut() = 2;
    assert_eq!(mutex.into_inner(), 2);
}

/// Also one that finds it free, so that a loop gives way; and who has no budget holds up nobody.
#[test]
fn each_turn_spends_budget() {
    let mutex = Mutex::new(());
    coop::start(2);
    assert!(block_on(poll_once(mutex.lock())).is_some());
    drop(mutex.try_lock());
    assert!(!coop::has_budget_remaining());
    let mut without = pin!(mutex.lock());
    assert!(block_on(poll_once(without.as_mut())).is_none());
    assert!(mutex.try_lock().is_ok(), "it is had by who runs");
    coop::start(1);
    let guard = block_on(poll_once(without));
    coop::stop();
    assert!(guard.is_some());
}

#[test]
fn threads_have_it_one_at_a_time() {
    const TURNS: u64 = 2000;
    let mutex = Mutex::new((0_u64, 0_u64));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..TURNS {
                    let mut guard = mutex.lock_blocking();
                    guard.0 += 1;
                    assert_eq!(guard.0, guard.1 + 1);
                    guard.1 += 1;
                }
            });
        }
    });
    assert_eq!(mutex.into_inner(), (4 * TURNS, 4 * TURNS));
}
