use std::fmt::Debug;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use futures_lite::future::{block_on, poll_once};

use super::*;
use crate::coop;
use crate::panics::tests::waker_that_panics;
use crate::sync::wake_all::tests::Wakes;

/// Somebody who waits for a lock, or has it.
struct Asks<'a> {
    /// Until it has ended.
    future: Option<Pin<Box<dyn Future<Output = AnyGuard<'a>> + 'a>>>,
    guard: Option<AnyGuard<'a>>,
    wakes: Arc<Wakes>,
}

/// Of a reader or of a writer.
type AnyGuard<'a> = Box<dyn Guard + 'a>;

trait Guard {}

impl<T> Guard for T {}

impl<'a> Asks<'a> {
    /// Polls once.
    fn begin<G: 'a>(future: impl Future<Output = G> + 'a) -> Self {
        let mut asks = Self {
            future: Some(Box::pin(async { Box::new(future.await) as AnyGuard<'_> })),
            guard: None,
            wakes: Arc::default(),
        };
        asks.poll();
        asks
    }

    fn poll(&mut self) {
        let waker = Waker::from(self.wakes.clone());
        let Some(future) = &mut self.future else { return };
        if let Poll::Ready(guard) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.future = None;
            self.guard = Some(guard);
        }
    }

    /// Polled only if it was woken, as by an executor.
    fn has_it(&mut self) -> bool {
        if self.wakes.count() > 0 {
            self.poll();
        }
        self.guard.is_some()
    }
}

/// Of a list of those who ask, who have the lock.
fn who_has<'a>(asks: &mut [Asks<'a>]) -> Vec<bool> {
    asks.iter_mut().map(Asks::has_it).collect()
}

#[test]
fn readers_are_together_and_a_writer_alone() {
    let lock = RwLock::new(1);
    let (one, other) = (lock.try_read().unwrap(), block_on(lock.read()));
    assert_eq!(*one + *other, 2);
    assert_eq!(lock.try_write().unwrap_err(), TryLockError);
    drop(one);
    assert!(lock.try_write().is_err());
    drop(other);
    let mut writer = lock.try_write().unwrap();
    *writer += 1;
    assert!(lock.try_read().is_err() && lock.try_write().is_err());
    drop(writer);
    assert_eq!(*lock.try_read().unwrap(), 2);
    assert_eq!(lock.into_inner(), 2);
}

/// Readers that follow one another have it together; nobody passes a writer, nor does one pass them.
#[test]
fn who_waits_is_served_in_order_of_arrival() {
    let lock = RwLock::new(());
    let holder = lock.try_write().unwrap();
    let mut asks = [
        Asks::begin(lock.read()),
        Asks::begin(lock.read()),
        Asks::begin(lock.write()),
        Asks::begin(lock.read()),
        Asks::begin(lock.write()),
    ];
    assert_eq!(who_has(&mut asks), [false; 5]);
    drop(holder);
    assert_eq!(who_has(&mut asks), [true, true, false, false, false]);
    assert!(lock.try_read().is_err(), "a writer waits");
    asks[1].guard = None;
    assert_eq!(who_has(&mut asks), [true, false, false, false, false]);
    asks[0].guard = None;
    assert_eq!(who_has(&mut asks), [false, false, true, false, false]);
    asks[2].guard = None;
    assert_eq!(who_has(&mut asks), [false, false, false, true, false]);
    asks[3].guard = None;
    assert_eq!(who_has(&mut asks), [false, false, false, false, true]);
    let wakes: Vec<_> = asks.iter().map(|asks| asks.wakes.count()).collect();
    assert_eq!(wakes, [1; 5], "each was woken once");
}

#[test]
fn a_writer_that_gives_up_lets_in_the_readers_behind_it() {
    let lock = Arc::new(RwLock::new(()));
    for owned in [false, true] {
        let _holder = lock.try_read().unwrap();
        let writer = if owned {
            Asks::begin(lock.clone().write_owned())
        } else {
            Asks::begin(lock.write())
        };
        let mut readers = [Asks::begin(lock.read()), Asks::begin(lock.clone().read_owned())];
        assert_eq!(who_has(&mut readers), [false; 2]);
        drop(writer);
        assert_eq!(who_has(&mut readers), [true; 2]);
    }
    assert!(lock.try_write().is_ok());
    assert_eq!(Arc::strong_count(&lock), 1);
}

/// It was served, and nobody has polled it since.
#[test]
fn a_writer_that_gives_up_when_it_was_served_lets_others_in() {
    let lock = RwLock::new(());
    let holder = lock.try_read().unwrap();
    let (writer, mut reader) = (Asks::begin(lock.write()), Asks::begin(lock.read()));
    drop(holder);
    assert!(writer.wakes.count() == 1 && !reader.has_it());
    drop(writer);
    assert!(reader.has_it());
}

/// Whoever comes to wait while nothing is polled has taken nothing.
#[test]
fn a_future_that_was_not_polled_has_no_place() {
    let lock = RwLock::new(());
    let _unpolled = (lock.read(), lock.write());
    assert!(lock.try_write().is_ok());
}

#[test]
fn one_that_becomes_a_reader_lets_in_readers_up_to_the_first_writer() {
    let lock = Arc::new(RwLock::new(0));
    let mut holder = lock.try_write().unwrap();
    *holder = 1;
    let mut asks = [
        Asks::begin(lock.read()),
        Asks::begin(lock.read()),
        Asks::begin(lock.write()),
        Asks::begin(lock.read()),
    ];
    let holder = holder.downgrade();
    assert_eq!(who_has(&mut asks), [true, true, false, false]);
    asks[0].guard = None;
    asks[1].guard = None;
    assert_eq!(who_has(&mut asks), [false; 4], "the one that was a writer reads yet");
    assert_eq!(*holder, 1);
    drop(holder);
    assert_eq!(who_has(&mut asks), [false, false, true, false]);
}

#[test]
fn one_that_becomes_a_reader_lets_no_writer_in() {
    let lock = Arc::new(RwLock::new(0));
    for owned in [false, true] {
        let mut writer = lock.clone().try_write_owned().unwrap();
        *writer += 1;
        let (mut next, mut behind) = if owned {
            (Asks::begin(lock.clone().write_owned()), Asks::begin(lock.read()))
        } else {
            (Asks::begin(lock.write()), Asks::begin(lock.read()))
        };
        let reader = writer.downgrade();
        assert!(!next.has_it() && !behind.has_it() && lock.try_read().is_err());
        drop(reader);
        assert!(next.has_it() && !behind.has_it());
    }
}

#[test]
fn one_that_becomes_a_reader_while_a_waker_panics_gives_all_back() {
    let lock = RwLock::new(());
    let holder = lock.try_write().unwrap();
    let mut reader = Box::pin(lock.read());
    let poll = reader.as_mut().poll(&mut Context::from_waker(&waker_that_panics()));
    assert!(poll.is_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| holder.downgrade())).is_err());
    drop(block_on(reader));
    assert!(lock.try_write().is_ok());
}

#[test]
fn a_panic_poisons_nothing() {
    let lock = RwLock::new(0);
    let panics = || {
        *lock.try_write().unwrap() = 1;
        let mut guard = lock.try_write().unwrap();
        *guard += 1;
        panic!("while it is held");
    };
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert_eq!(*lock.try_write().unwrap(), 2);
    let panics = || {
        let _guard = lock.try_read().unwrap();
        panic!("while it is held");
    };
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert_eq!(*lock.try_write().unwrap(), 2);
}

#[test]
fn owned_guards_keep_the_lock() {
    let lock = Arc::new(RwLock::new(String::from("a")));
    let mut writer = block_on(lock.clone().write_owned());
    assert!(Arc::ptr_eq(OwnedRwLockWriteGuard::rwlock(&writer), &lock));
    assert!(lock.clone().try_read_owned().is_err() && lock.clone().try_write_owned().is_err());
    drop(lock);
    writer.push('b');
    let reader = writer.downgrade();
    let lock = OwnedRwLockReadGuard::rwlock(&reader).clone();
    let other = block_on(lock.clone().read_owned());
    assert_eq!((reader.as_str(), other.as_str()), ("ab", "ab"));
    assert_eq!(Arc::strong_count(&lock), 3);
    drop((reader, other));
    assert_eq!(Arc::try_unwrap(lock).unwrap().into_inner(), "ab");
}

#[test]
fn a_guard_of_a_part_holds_the_lock() {
    let lock = RwLock::new((1, [2, 3]));
    let second = RwLockReadGuard::map(lock.try_read().unwrap(), |value| &value.1);
    let second = RwLockReadGuard::try_map(second, |value| value.get(5)).unwrap_err();
    let second = RwLockReadGuard::try_map(second, |value| value.get(1)).unwrap();
    assert_eq!(*second, 3);
    assert!(lock.try_write().is_err() && lock.try_read().is_ok());
    drop(second);

    let whole = RwLockWriteGuard::try_map(lock.try_write().unwrap(), |value| value.1.get_mut(5)).unwrap_err();
    let second = RwLockWriteGuard::map(whole, |value| &mut value.1);
    let second = RwLockMappedWriteGuard::try_map(second, |value| value.get_mut(5)).unwrap_err();
    let mut second = RwLockMappedWriteGuard::map(second, |value| &mut value[1]);
    *second += 1;
    assert!(lock.try_read().is_err());
    drop(second);
    assert_eq!(*lock.try_write().unwrap(), (1, [2, 4]));
}

#[test]
fn an_owned_guard_of_a_part_holds_the_lock() {
    let lock = Arc::new(RwLock::new((1, [2, 3])));
    let second = OwnedRwLockReadGuard::map(lock.clone().try_read_owned().unwrap(), |value| &value.1);
    let second = OwnedRwLockReadGuard::try_map(second, |value| value.get(5)).unwrap_err();
    let second = OwnedRwLockReadGuard::try_map(second, |value| value.get(1)).unwrap();
    assert!(lock.try_write().is_err() && Arc::ptr_eq(OwnedRwLockReadGuard::rwlock(&second), &lock));
    assert_eq!(*second, 3);
    drop(second);

    let whole = lock.clone().try_write_owned().unwrap();
    let whole = OwnedRwLockWriteGuard::try_map(whole, |value| value.1.get_mut(5)).unwrap_err();
    let second = OwnedRwLockWriteGuard::map(whole, |value| &mut value.1);
    let second = OwnedRwLockMappedWriteGuard::try_map(second, |value| value.get_mut(5)).unwrap_err();
    let mut second = OwnedRwLockMappedWriteGuard::map(second, |value| &mut value[1]);
    *second += 1;
    assert!(lock.try_read().is_err() && Arc::ptr_eq(OwnedRwLockMappedWriteGuard::rwlock(&second), &lock));
    drop(second);
    assert_eq!(*lock.try_write().unwrap(), (1, [2, 4]));
}

#[test]
fn a_choice_of_a_part_that_panics_gives_the_lock_back() {
    let lock = RwLock::new(1);
    let reads = || RwLockReadGuard::map(lock.try_read().unwrap(), |_| -> &i32 { panic!("no part") });
    assert!(catch_unwind(AssertUnwindSafe(reads)).is_err());
    let writes = || RwLockWriteGuard::map(lock.try_write().unwrap(), |_| -> &mut i32 { panic!("no part") });
    assert!(catch_unwind(AssertUnwindSafe(writes)).is_err());
    assert!(lock.try_write().is_ok());
}

#[test]
fn as_many_readers_as_are_allowed() {
    let lock = RwLock::with_max_readers((), 2);
    let (one, other) = (lock.try_read().unwrap(), lock.try_read().unwrap());
    let mut third = Asks::begin(lock.read());
    assert!(!third.has_it());
    drop(one);
    assert!(third.has_it() && lock.try_write().is_err());
    drop((other, third));
    drop(lock.try_write().unwrap().downgrade());

    let alone = RwLock::with_max_readers((), 1);
    let reader = alone.try_write().unwrap().downgrade();
    assert!(alone.try_read().is_err());
    drop(reader);

    for readers in [0, READERS_MAX + 1] {
        assert!(catch_unwind(|| RwLock::with_max_readers((), readers)).is_err());
    }
}

#[test]
fn a_value_need_not_be_sized() {
    let lock: Arc<RwLock<[i32]>> = Arc::new(RwLock::new([1, 2]));
    lock.clone().try_write_owned().unwrap()[0] = 3;
    assert_eq!(*lock.try_read().unwrap(), [3, 2]);
    let shown: &RwLock<dyn Debug> = &RwLock::new(5);
    assert_eq!(format!("{:?}", shown.try_read().unwrap()), "5");
}

#[test]
fn it_is_shown_with_its_value_unless_that_is_being_changed() {
    let mut lock = RwLock::from(5);
    assert_eq!(format!("{lock:?}"), "RwLock { data: 5, .. }");
    let writer = lock.try_write().unwrap();
    assert_eq!(
        format!("{lock:?} {writer:?} {writer}"),
        "RwLock { data: <locked>, .. } 5 5"
    );
    drop(writer);
    *lock.get_mut() = 6;
    let reader = lock.try_read().unwrap();
    assert_eq!(format!("{reader:?} {reader}"), "6 6");
    assert_eq!(RwLock::<u8>::default().into_inner(), 0);
    assert_eq!(TryLockError.to_string(), "the lock is held, or others wait for it");
}

#[test]
fn to_show_it_spends_no_budget() {
    let lock = RwLock::new(5);
    coop::start(1);
    let shown = format!("{lock:?}");
    let has_budget = coop::has_budget_remaining();
    coop::stop();
    assert!(has_budget && shown.contains('5'));
}

#[test]
fn a_guard_that_is_forgotten_keeps_the_lock() {
    let mut lock = RwLock::new(1);
    mem::forget(lock.try_read().unwrap());
    assert!(lock.try_write().is_err() && lock.try_read().is_ok());
    *lock.get_mut() = 2;
    assert_eq!(lock.into_inner(), 2);
}

/// Also one that finds it free, so that a loop gives way.
#[test]
fn each_turn_spends_budget() {
    let lock = RwLock::new(());
    coop::start(5);
    assert!(block_on(poll_once(lock.read())).is_some());
    assert!(block_on(poll_once(lock.write())).is_some());
    drop(lock.try_read());
    drop(lock.try_write());
    assert!(coop::has_budget_remaining());
    drop(lock.try_read());
    let is_spent = !coop::has_budget_remaining();
    let without = (block_on(poll_once(lock.read())), block_on(poll_once(lock.write())));
    coop::stop();
    assert!(is_spent && without.0.is_none() && without.1.is_none());
    assert!(lock.try_write().is_ok());
}

/// Half of the turns write both numbers, and half read them, a quarter after having written.
#[test]
fn threads_read_together_and_write_alone() {
    const TURNS: u64 = 2000;
    let lock = RwLock::with_max_readers((0_u64, 0_u64), 3);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for turn in 0..TURNS {
                    if turn % 2 == 0 {
                        let read = lock.read_blocking();
                        assert_eq!(read.0, read.1);
                        continue;
                    }
                    let mut write = lock.write_blocking();
                    write.0 += 1;
                    let written = write.0;
                    write.1 += 1;
                    if turn % 4 == 1 {
                        assert_eq!(*write.downgrade(), (written, written));
                    }
                }
            });
        }
    });
    assert_eq!(lock.into_inner(), (2 * TURNS, 2 * TURNS));
}
