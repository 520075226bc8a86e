use std::cell::Cell;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_lite::future::{block_on, poll_once, yield_now};

use super::*;
use crate::panics::tests::waker_that_panics;
use crate::primitives::AtomicUsize;
use crate::sync::wake_all::tests::Wakes;

/// A call that waits, or has ended.
struct Call<'a, R> {
    future: Pin<Box<dyn Future<Output = R> + 'a>>,
    wakes: Arc<Wakes>,
}

impl<'a, R> Call<'a, R> {
    /// Polled once, which does not end it.
    fn begin(future: impl Future<Output = R> + 'a) -> Self {
        let mut call = Self {
            future: Box::pin(future),
            wakes: Arc::default(),
        };
        assert!(call.poll().is_none());
        call
    }

    fn poll(&mut self) -> Option<R> {
        let waker = Waker::from(self.wakes.clone());
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }
}

/// Counts how often it is dropped.
#[derive(Debug)]
struct Dropped<'a>(&'a Cell<usize>);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

/// Makes `value` at the second poll.
async fn slowly<T>(value: T) -> T {
    yield_now().await;
    value
}

#[test]
fn the_first_value_stays() {
    let cell = OnceCell::new();
    assert!(!cell.is_initialized() && cell.get().is_none());
    assert_eq!(block_on(cell.get_or_init(async || 1)), &1);
    assert_eq!(block_on(cell.get_or_init(async || 2)), &1);
    assert_eq!(block_on(cell.get_or_try_init(async || Err::<i32, _>(()))), Ok(&1));
    assert_eq!(cell.get_or_init_blocking(|| 2), &1);
    assert_eq!(cell.get_or_try_init_blocking(|| Err::<i32, _>(())), Ok(&1));
    assert_eq!(
        (block_on(cell.set(2)), cell.set_blocking(3), cell.try_set(4)),
        (Err(2), Err(3), Err(4))
    );
    assert_eq!((block_on(cell.wait()), cell.wait_blocking()), (&1, &1));
    assert!(cell.is_initialized() && cell.get() == Some(&1));
    // SAFETY: it is there.
    assert_eq!(unsafe { cell.get_unchecked() }, &1);
}

#[test]
fn each_way_to_set_it_does() {
    assert_eq!(block_on(OnceCell::new().set(1)), Ok(&1));
    assert_eq!(OnceCell::new().set_blocking(1), Ok(&1));
    assert_eq!(OnceCell::new().get_or_init_blocking(|| 1), &1);
    assert_eq!(OnceCell::new().get_or_try_init_blocking(|| Ok::<_, ()>(1)), Ok(&1));
    let cell = OnceCell::new();
    assert_eq!(cell.try_set(1), Ok(()));
    assert_eq!(cell.get(), Some(&1));
}

#[test]
fn a_cell_that_is_made_with_its_value_keeps_it() {
    for cell in [
        OnceCell::from(1),
        OnceCell::new_with(Some(1)),
        OnceCell::from(1).clone(),
    ] {
        assert_eq!(
            (cell.get(), cell.try_set(2), cell.set_blocking(3)),
            (Some(&1), Err(2), Err(3))
        );
        assert_eq!(block_on(cell.get_or_init(async || 4)), &1);
        assert_eq!(block_on(cell.wait()), &1);
        assert_eq!(cell.into_inner(), Some(1));
    }
    let cell = OnceCell::new_with(None);
    assert_eq!((cell.get(), cell.try_set(2)), (None, Ok(())));
}

#[test]
fn one_at_a_time_makes_it() {
    let cell = OnceCell::new();
    let mut makes = Call::begin(cell.get_or_init(|| slowly(1)));
    let mut others = [
        Call::begin(cell.get_or_init(async || panic!("another makes it"))),
        Call::begin(cell.wait()),
    ];
    let mut sets = Call::begin(cell.set(2));
    assert_eq!(cell.try_set(3), Err(3), "somebody makes it");
    assert!(cell.get().is_none());
    assert_eq!(makes.poll(), Some(&1));
    assert!(others.iter().all(|call| call.wakes.count() == 1) && sets.wakes.count() == 1);
    assert!(others.iter_mut().all(|call| call.poll() == Some(&1)));
    assert_eq!(sets.poll(), Some(Err(2)));
}

/// Who waits longest makes it next; who waits for the value alone goes on waiting.
#[test]
fn who_fails_leaves_it_to_the_next() {
    let cell = OnceCell::new();
    let mut fails = Call::begin(cell.get_or_try_init(|| slowly(Err("no"))));
    let mut waits = Call::begin(cell.wait());
    let mut next = Call::begin(cell.get_or_init(async || 1));
    let mut last = Call::begin(cell.get_or_init(async || 2));
    assert_eq!(fails.poll(), Some(Err("no")));
    assert_eq!((next.wakes.count(), last.wakes.count(), waits.wakes.count()), (1, 0, 0));
    assert!(cell.get().is_none() && waits.poll().is_none() && last.poll().is_none());
    assert_eq!(cell.try_set(3), Err(3), "it is the turn of the next");
    assert_eq!(next.poll(), Some(&1));
    assert_eq!((last.poll(), waits.poll()), (Some(&1), Some(&1)));
    assert_eq!(OnceCell::<i32>::new().get_or_try_init_blocking(|| Err("no")), Err("no"));
}

/// At each point: not polled, waiting, told that it has the turn, making it.
#[test]
fn who_is_dropped_leaves_it_to_the_next() {
    let cell = OnceCell::new();
    drop(cell.get_or_init(|| slowly(0)));
    let makes = Call::begin(cell.get_or_init(|| slowly(1)));
    let waits = Call::begin(cell.get_or_init(|| slowly(2)));
    let told = Call::begin(cell.get_or_init(|| slowly(3)));
    let mut next = Call::begin(cell.get_or_init(|| slowly(4)));
    drop(waits);
    drop(makes);
    assert_eq!((told.wakes.count(), next.wakes.count()), (1, 0));
    drop(told);
    assert_eq!(next.wakes.count(), 1);
    assert!(next.poll().is_none() && cell.get().is_none());
    drop(next);
    assert_eq!(cell.try_set(5), Ok(()));
}

/// Not polled, waiting, told, told and ended.
#[test]
fn who_waits_for_the_value_may_be_dropped() {
    let cell = OnceCell::new();
    let (gives_up, told) = (Call::begin(cell.wait()), Call::begin(cell.wait()));
    let (unpolled, mut stays) = (cell.wait(), Call::begin(cell.wait()));
    let wakes = gives_up.wakes.clone();
    drop(gives_up);
    assert_eq!(Arc::strong_count(&wakes), 1);
    assert_eq!(cell.try_set(1), Ok(()));
    assert_eq!((wakes.count(), told.wakes.count()), (0, 1));
    drop((unpolled, told));
    assert_eq!(stays.poll(), Some(&1));
}

#[test]
fn who_panics_leaves_it_to_the_next() {
    let cell = OnceCell::new();
    let mut panics = Call::begin(cell.get_or_init(async || {
        yield_now().await;
        panic!("while it makes the value")
    }));
    let mut next = Call::begin(cell.get_or_init(async || 1));
    assert!(catch_unwind(AssertUnwindSafe(|| panics.poll())).is_err());
    drop(panics);
    assert_eq!(next.wakes.count(), 1);
    assert_eq!(next.poll(), Some(&1));

    let cell = OnceCell::new();
    let begins = || cell.get_or_init_blocking(|| panic!("before there is a future"));
    assert!(catch_unwind(AssertUnwindSafe(begins)).is_err());
    assert_eq!(cell.try_set(1), Ok(()));
}

#[test]
fn a_waker_that_panics_keeps_nobody_from_seeing_the_value() {
    let cell = OnceCell::new();
    let mut makes = Call::begin(cell.get_or_init(|| slowly(1)));
    let mut all = Vec::new();
    let mut panics: [Pin<Box<dyn Future<Output = &i32> + '_>>; 2] =
        [Box::pin(cell.get_or_init(async || 2)), Box::pin(cell.wait())];
    for future in &mut panics {
        let poll = future.as_mut().poll(&mut Context::from_waker(&waker_that_panics()));
        assert!(poll.is_pending());
    }
    for _ in 0..40 {
        all.push(Call::begin(cell.get_or_init(async || 3)));
        all.push(Call::begin(cell.wait()));
    }
    assert!(catch_unwind(AssertUnwindSafe(|| makes.poll())).is_err());
    assert_eq!(cell.get(), Some(&1));
    assert!(all.iter().all(|call| call.wakes.count() == 1));
    assert!(all.iter_mut().all(|call| call.poll() == Some(&1)));
    assert!(panics.into_iter().all(|future| block_on(future) == &1));
}

#[test]
fn the_value_is_dropped_once() {
    let drops = Cell::new(0);
    drop(OnceCell::<Dropped<'_>>::new());
    drop(OnceCell::from(Dropped(&drops)));
    assert_eq!(drops.get(), 1);
    let mut cell = OnceCell::new();
    assert!(cell.try_set(Dropped(&drops)).is_ok());
    assert!(cell.get_mut().is_some());
    let taken = cell.take();
    assert_eq!(drops.get(), 1);
    drop(taken);
    assert_eq!(drops.get(), 2);
    assert!(cell.get().is_none() && cell.get_mut().is_none() && cell.take().is_none());
    assert!(cell.set_blocking(Dropped(&drops)).is_ok());
    drop(cell.set_blocking(Dropped(&drops)));
    assert_eq!(drops.get(), 3, "the one that was given back");
    drop(cell.into_inner());
    assert_eq!(drops.get(), 4);
    let never_set = OnceCell::new();
    let _makes = Call::begin(never_set.get_or_init(|| slowly(())));
    drop(Call::begin(never_set.set(())));
}

/// Of a call to `set` that is dropped.
#[test]
fn a_value_that_was_not_set_is_dropped_with_the_call() {
    let drops = Cell::new(0);
    let cell = OnceCell::new();
    let makes = Call::begin(cell.get_or_init(pending));
    let sets = Call::begin(cell.set(Dropped(&drops)));
    drop(sets);
    assert_eq!(drops.get(), 1);
    drop(makes);
    assert!(cell.get().is_none());
}

/// Also if a call that had the turn was forgotten.
#[test]
fn a_cell_whose_value_was_taken_is_as_new() {
    let mut cell = OnceCell::from(1);
    *cell.get_mut().unwrap() += 1;
    assert_eq!(cell.take(), Some(2));
    assert_eq!(cell.set_blocking(3), Ok(&3));
    assert_eq!(cell.take(), Some(3));
    mem::forget(Call::begin(cell.get_or_init(pending)));
    mem::forget(Call::begin(cell.get_or_init(pending)));
    mem::forget(Call::begin(cell.wait()));
    assert_eq!(cell.try_set(4), Err(4));
    assert_eq!(cell.take(), None);
    assert_eq!(block_on(cell.get_or_init(async || 5)), &5);
}

/// Also one that finds it there, so that a loop gives way.
#[test]
fn each_call_spends_budget() {
    let (cell, empty) = (OnceCell::new(), OnceCell::<i32>::new());
    let mut waits = Call::begin(cell.wait());
    coop::start(6);
    let sets = block_on(poll_once(cell.get_or_init(async || 1)));
    let others = (
        block_on(poll_once(cell.wait())),
        waits.poll(),
        block_on(poll_once(cell.set(2))),
    );
    assert!(coop::has_budget_remaining());
    let try_sets = OnceCell::new().try_set(1);
    let fails = block_on(poll_once(empty.get_or_try_init(async || Err(()))));
    let is_spent = !coop::has_budget_remaining();
    let without = (
        block_on(poll_once(cell.get_or_init(async || 3))),
        block_on(poll_once(cell.wait())),
        block_on(poll_once(cell.set(4))),
    );
    let looks = cell.get();
    coop::stop();
    assert_eq!((sets, others), (Some(&1), (Some(&1), Some(&1), Some(Err(2)))));
    assert_eq!((try_sets, fails), (Ok(()), Some(Err(()))));
    assert!(is_spent);
    assert_eq!((without, looks), ((None, None, None), Some(&1)));
}

#[test]
fn who_asks_without_budget_is_woken_and_takes_nothing() {
    let cell = OnceCell::new();
    coop::start(0);
    let (mut makes, mut waits) = (Call::begin(cell.get_or_init(async || 1)), Call::begin(cell.wait()));
    coop::stop();
    assert_eq!((makes.wakes.count(), waits.wakes.count()), (1, 1));
    assert_eq!(cell.try_set(2), Ok(()), "nobody has the turn");
    assert_eq!((makes.poll(), waits.poll()), (Some(&2), Some(&2)));
}

/// Behind one that makes the value, and gives up: the turn is its own, though others ask with budget.
#[test]
fn who_asks_without_budget_has_a_place_behind_who_makes_the_value() {
    let cell = OnceCell::new();
    let makes = Call::begin(cell.get_or_init(pending::<i32>));
    coop::start(0);
    let mut waits = Call::begin(cell.get_or_init(async || 1));
    coop::stop();
    let mut last = Call::begin(cell.get_or_init(async || 2));
    assert_eq!((waits.wakes.count(), last.wakes.count()), (0, 0));
    drop(makes);
    assert_eq!((waits.wakes.count(), last.wakes.count()), (1, 0));
    assert_eq!(cell.try_set(3), Err(3), "it has the turn");
    assert_eq!((waits.poll(), last.poll()), (Some(&1), Some(&1)));
}

#[test]
fn it_is_shown_with_its_value_and_compared_by_it() {
    let cell = OnceCell::new();
    assert_eq!(format!("{cell:?}"), "OnceCell(<uninitialized>)");
    assert!(cell == OnceCell::default() && cell != OnceCell::from(5));
    assert_eq!(cell.try_set(5), Ok(()));
    assert_eq!(format!("{cell:?}"), "OnceCell(5)");
    assert_eq!(cell.clone(), OnceCell::from(5));
}

#[test]
fn it_may_be_carried_through_a_panic_as_the_cell_of_std() {
    fn is_safe<C: UnwindSafe + RefUnwindSafe>(_: &C) {}
    is_safe(&OnceCell::from(1));
    is_safe(&std::sync::OnceLock::from(1));
}

#[test]
fn threads_see_one_value() {
    for _ in 0..200 {
        let (cell, made) = (OnceCell::new(), AtomicUsize::new(0));
        let make = |id: usize| {
            // Ordering: Relaxed; read when the threads have ended.
            made.fetch_add(1, Ordering::Relaxed);
            vec![id; 10]
        };
        let asks = |id: usize| {
            let value: &Vec<usize> = match id % 3 {
                0 => cell.get_or_init_blocking(|| make(id)),
                1 => block_on(cell.get_or_init(async || slowly(make(id)).await)),
                _ => cell.wait_blocking(),
            };
            assert!(value.len() == 10 && cell.get() == Some(value));
            value[0]
        };
        let values: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..6)
                .map(|id| {
                    let asks = &asks;
                    scope.spawn(move || asks(id))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(values.iter().all(|value| *value == values[0]));
        assert_eq!(made.into_inner(), 1);
    }
}
