use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use futures_lite::future::{block_on, poll_once};

use super::*;
use crate::panics::tests::waker_that_panics;
use crate::sync::wake_all::tests::Wakes;

/// Somebody who has come to a barrier, or is about to.
struct Comes<'a> {
    wait: Pin<Box<BarrierWait<'a>>>,
    wakes: Arc<Wakes>,
}

impl<'a> Comes<'a> {
    fn to(barrier: &'a Barrier) -> Self {
        let wait = Box::pin(barrier.wait());
        let wakes = Arc::default();
        Self { wait, wakes }
    }

    /// Whether it leads, once its wait is over.
    fn poll(&mut self) -> Option<bool> {
        let waker = Waker::from(self.wakes.clone());
        match self.wait.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => Some(result.is_leader()),
            Poll::Pending => None,
        }
    }
}

/// How many have arrived in which round.
fn counts(barrier: &Barrier) -> (usize, u64) {
    barrier.state.with(|state| (state.arrived, state.round))
}

#[test]
fn the_last_leads_and_the_others_go_on() {
    let barrier = Barrier::new(3);
    for round in 0..3 {
        let mut come = [Comes::to(&barrier), Comes::to(&barrier), Comes::to(&barrier)];
        assert_eq!(come[0].poll(), None);
        assert_eq!(come[0].poll(), None, "it is counted once");
        assert_eq!(come[1].poll(), None);
        assert_eq!(counts(&barrier), (2, round));
        assert_eq!(come[2].poll(), Some(true));
        assert_eq!((come[0].wakes.count(), come[1].wakes.count()), (1, 1));
        assert_eq!((come[0].poll(), come[1].poll()), (Some(false), Some(false)));
        assert_eq!(counts(&barrier), (0, round + 1));
    }
}

/// It waits for none but itself.
#[test]
fn one_or_none_goes_on_at_once() {
    for size in [0, 1] {
        let barrier = Barrier::new(size);
        assert!(block_on(barrier.wait()).is_leader());
        assert!(barrier.wait_blocking().is_leader());
    }
}

/// A round is over for those who waited in it, also when many others have been since, and one is under way.
#[test]
fn who_is_late_to_go_on_is_not_taken_for_one_of_a_later_round() {
    let barrier = Barrier::new(2);
    let mut late = Comes::to(&barrier);
    assert_eq!(late.poll(), None);
    assert!(block_on(barrier.wait()).is_leader());
    for _ in 0..2 {
        let mut first = Comes::to(&barrier);
        assert_eq!(first.poll(), None);
        assert_eq!(Comes::to(&barrier).poll(), Some(true));
        assert_eq!(first.poll(), Some(false));
    }
    let mut next = Comes::to(&barrier);
    assert_eq!(next.poll(), None);
    assert_eq!(late.poll(), Some(false));
    assert_eq!(counts(&barrier), (1, 3));
    assert_eq!((late.wakes.count(), next.wakes.count()), (1, 0));
}

/// At each point: not polled, waiting, its round over, ended.
#[test]
fn who_is_dropped_stays_counted_if_it_has_come() {
    let barrier = Barrier::new(2);
    drop(Comes::to(&barrier));
    assert_eq!(counts(&barrier), (0, 0));

    let mut gives_up = Comes::to(&barrier);
    assert_eq!(gives_up.poll(), None);
    let wakes = gives_up.wakes.clone();
    drop(gives_up);
    assert_eq!(counts(&barrier), (1, 0));
    assert_eq!(Comes::to(&barrier).poll(), Some(true), "the other goes on");
    assert_eq!((wakes.count(), Arc::strong_count(&wakes)), (0, 1));

    let (mut first, mut last) = (Comes::to(&barrier), Comes::to(&barrier));
    assert_eq!((first.poll(), last.poll()), (None, Some(true)));
    drop(first);
    drop(last);
    assert_eq!(counts(&barrier), (0, 2));
}

/// All of a round but the last.
#[test]
fn a_round_ends_though_nobody_waits_any_more() {
    let barrier = Barrier::new(3);
    for _ in 0..2 {
        assert_eq!(Comes::to(&barrier).poll(), None);
    }
    assert!(block_on(barrier.wait()).is_leader());
    let mut waits = Comes::to(&barrier);
    assert_eq!(waits.poll(), None);
    assert_eq!(Comes::to(&barrier).poll(), None);
    assert_eq!(waits.poll(), None);
    assert_eq!(Comes::to(&barrier).poll(), Some(true));
    assert_eq!(waits.poll(), Some(false));
}

#[test]
fn a_waker_that_panics_keeps_nobody_from_going_on() {
    let barrier = Barrier::new(40);
    let mut before = Comes::to(&barrier);
    assert_eq!(before.poll(), None);
    let mut panics = Comes::to(&barrier);
    let poll = panics
        .wait
        .as_mut()
        .poll(&mut Context::from_waker(&waker_that_panics()));
    assert!(poll.is_pending());
    let mut behind: Vec<_> = (0..37).map(|_| Comes::to(&barrier)).collect();
    assert!(behind.iter_mut().all(|comes| comes.poll().is_none()));
    let mut last = Comes::to(&barrier);
    assert!(catch_unwind(AssertUnwindSafe(|| last.poll())).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| last.poll())).is_err(), "it has ended");
    assert_eq!(counts(&barrier), (0, 1), "it is counted once");
    behind.extend([before, panics]);
    assert!(behind.iter_mut().all(|comes| comes.poll() == Some(false)));
    assert!(behind.iter().take(38).all(|comes| comes.wakes.count() == 1));
}

#[test]
fn a_future_that_has_ended_does_not_come_again() {
    let barrier = Barrier::new(2);
    let (mut first, mut last) = (Comes::to(&barrier), Comes::to(&barrier));
    assert_eq!((first.poll(), last.poll()), (None, Some(true)));
    assert_eq!(first.poll(), Some(false));
    for mut ended in [first, last] {
        assert!(catch_unwind(AssertUnwindSafe(|| ended.poll())).is_err());
    }
    assert_eq!(counts(&barrier), (0, 1));
}

#[test]
fn each_wait_that_ends_spends_budget() {
    let barrier = Barrier::new(2);
    let (mut first, mut last) = (Comes::to(&barrier), Comes::to(&barrier));
    coop::start(2);
    let waits = first.poll();
    let leads = last.poll();
    let one_is_left = coop::has_budget_remaining();
    let goes_on = first.poll();
    let is_spent = !coop::has_budget_remaining();
    coop::stop();
    assert_eq!((waits, leads, goes_on), (None, Some(true), Some(false)));
    assert!(one_is_left && is_spent);
}

#[test]
fn who_comes_without_budget_has_not_come_and_is_woken() {
    let barrier = Barrier::new(2);
    let (mut first, mut last) = (Comes::to(&barrier), Comes::to(&barrier));
    coop::start(0);
    let polls = (first.poll(), first.poll());
    coop::stop();
    assert_eq!(polls, (None, None));
    assert_eq!((first.wakes.count(), counts(&barrier)), (2, (0, 0)));
    assert_eq!(first.poll(), None);
    coop::start(0);
    let polls = (first.poll(), last.poll());
    coop::stop();
    assert_eq!(polls, (None, None));
    assert_eq!((last.wakes.count(), counts(&barrier)), (1, (1, 0)));
    assert_eq!((last.poll(), first.poll()), (Some(true), Some(false)));
}

#[test]
fn who_comes_without_budget_and_is_dropped_has_not_come() {
    let barrier = Barrier::new(1);
    coop::start(0);
    let poll = block_on(poll_once(barrier.wait()));
    coop::stop();
    assert!(poll.is_none());
    assert_eq!(counts(&barrier), (0, 0));
}

#[test]
fn it_is_shown_with_who_has_come() {
    let barrier = Barrier::new(2);
    let mut first = Comes::to(&barrier);
    assert_eq!(first.poll(), None);
    assert_eq!(format!("{barrier:?}"), "Barrier { size: 2, arrived: 1, .. }");
    assert_eq!(format!("{:?}", first.wait), "BarrierWait { .. }");
    let result = barrier.wait_blocking();
    assert_eq!(format!("{result:?}"), "BarrierWaitResult { is_leader: true }");
}

/// Nobody is in another round than the others.
#[test]
fn threads_meet_round_after_round() {
    const ROUNDS: u64 = 500;
    let barrier = Barrier::new(4);
    let comes = || {
        let mut leads = 0;
        for round in 0..ROUNDS {
            assert_eq!(counts(&barrier).1, round);
            leads += usize::from(barrier.wait_blocking().is_leader());
        }
        leads
    };
    let leads = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(comes)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
    });
    assert_eq!((leads, counts(&barrier)), (500, (0, ROUNDS)));
}
