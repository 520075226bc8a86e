//! A thread that waits within a poll of what it waits for: a nested wait, a lock, a turn that it gives up. Its waits
//! have one waker, and none uses up what another is owed.

use std::future::{Future as _, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use quadrille::sync::mpmc;
use quadrille::thread::{self, sync::Mutex};
use quadrille::time::sleep;
use quadrille::{Runtime, Wait as _, coop};

use crate::gate::Gate;
use crate::shape::{Shape, for_each_shape_if};
use crate::wait::{eventually, watched};

/// The message comes while the thread has given way, later in the same poll.
#[test]
fn a_wake_up_outlives_a_turn_that_a_poll_gives_up() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let thread = runtime.spawn_thread(|| {
                let (sender, receiver) = mpmc::bounded(4);
                thread::spawn(move || sender.try_send(7).unwrap());
                let receive = async { receiver.recv().await.unwrap() };
                async { quadrille::join!(receive, async { thread::yield_now() }).0 }.wait()
            });
            assert_eq!(thread.join().unwrap(), 7);
        },
    );
}

/// It comes while the thread waits for a lock, twice: the first time the lock is still held.
#[test]
fn a_wake_up_outlives_a_lock_that_a_poll_waits_for() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let lock = Arc::new(Mutex::new(()));
            let (sender, receiver) = mpmc::bounded(4);
            let (held, polled) = (Gate::default(), Gate::default());
            let (holds, is_polled, held_by) = (held.clone(), polled.clone(), Arc::clone(&lock));
            let holder = runtime.spawn_thread(move || {
                let guard = held_by.lock().unwrap();
                holds.open();
                is_polled.pass().wait();
                sender.try_send(7).unwrap();
                (0..3).for_each(|_| thread::yield_now());
                drop(guard);
            });
            let thread = runtime.spawn_thread(move || {
                held.pass().wait();
                let receive = async { receiver.recv().await.unwrap() };
                let locks = async {
                    polled.open();
                    drop(lock.lock().unwrap());
                };
                async { quadrille::join!(receive, locks).0 }.wait()
            });
            assert_eq!(thread.join().unwrap(), 7);
            holder.join().unwrap();
        },
    );
}

/// Waits for a number of each, one within the poll of the other; their sum. `all`: each has been asked.
fn receive_nested(receivers: &[mpmc::Receiver<u32>], all: &Gate) -> u32 {
    let [first, rest @ ..] = receivers else {
        all.open();
        return 0;
    };
    let mut received = pin!(first.recv());
    let mut within = None;
    poll_fn(|cx| {
        let polled = received.as_mut().poll(cx);
        let sum = *within.get_or_insert_with(|| receive_nested(rest, all));
        polled.map(|number| number.unwrap() + sum)
    })
    .wait()
}

/// They come for the outermost first, and wake the thread where it waits for the innermost.
#[test]
fn wake_ups_outlive_waits_within_waits() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let (senders, receivers): (Vec<_>, Vec<_>) = (0..4).map(|_| mpmc::bounded(4)).unzip();
            let asked = Gate::default();
            let all = asked.clone();
            let thread = runtime.spawn_thread(move || receive_nested(&receivers, &all));
            asked.block();
            for (sender, number) in senders.iter().zip(1..) {
                sender.try_send(number).unwrap();
            }
            assert_eq!(thread.join().unwrap(), 10);
        },
    );
}

/// A poll that gives way each time is not repeated for that: others have a hundred turns meanwhile.
#[test]
fn who_gives_way_in_each_poll_sleeps_between_them() {
    let runtime = Shape::flat(1).runtime();
    let (sender, receiver) = mpmc::bounded(1);
    let thread = runtime.spawn_thread(move || {
        let mut received = pin!(receiver.recv());
        let mut polls = 0;
        poll_fn(|cx| {
            polls += 1;
            thread::yield_now();
            received.as_mut().poll(cx).map(|number| number.unwrap())
        })
        .wait();
        polls
    });
    let sends = runtime.spawn_thread(move || {
        (0..100).for_each(|_| thread::yield_now());
        sender.try_send(7).unwrap();
    });
    sends.join().unwrap();
    let polls = thread.join().unwrap();
    assert!(polls <= 4, "{polls} polls");
}

/// It sleeps in the end, so that the clock goes on.
#[test]
fn a_paused_clock_goes_on_beside_who_gives_way_in_each_poll() {
    watched("the clock stands", || {
        let runtime = Runtime::builder().worker_threads(1).start_paused(true).build().unwrap();
        let thread = runtime.spawn_thread(|| {
            let mut sleeps = pin!(sleep(Duration::from_secs(5)));
            poll_fn(|cx| {
                thread::yield_now();
                sleeps.as_mut().poll(cx)
            })
            .wait();
        });
        thread.join().unwrap();
    });
}

/// It is told to end in the middle of a poll that catches that, and answers that it goes on to wait, woken as it is.
#[test]
fn who_catches_its_end_in_a_poll_ends_all_the_same() {
    let waits = || {
        poll_fn(|cx| -> Poll<()> {
            cx.waker().wake_by_ref();
            assert!(catch_unwind(AssertUnwindSafe(|| pending::<()>().wait())).is_err());
            Poll::Pending
        })
        .wait();
    };
    watched("an abort, or the end of the runtime", move || {
        let runtime = Shape::flat(1).runtime();
        let (aborted, left) = (runtime.spawn_thread(waits), runtime.spawn_thread(waits));
        eventually("both wait", || runtime.handle().threads().len() == 2);
        aborted.abort();
        assert!(aborted.join().is_err());
        drop(runtime);
        assert!(left.join().is_err());
    });
}

/// Who wakes itself for want of budget has it with its next turn, and not before.
#[test]
fn who_has_spent_its_budget_after_a_nested_turn_has_another() {
    watched("it is polled without a budget", || {
        let runtime = Shape::flat(1).runtime();
        let thread = runtime.spawn_thread(|| {
            let spends = async {
                thread::yield_now();
                quadrille::task::yield_now().await;
                for _ in 0..1000 {
                    coop::consume_budget().await;
                }
            };
            spends.wait();
        });
        thread.join().unwrap();
    });
}

/// What spends no budget spends none after a nested wait either.
#[test]
fn what_is_unconstrained_stays_so_after_a_turn_that_it_gives_up() {
    let runtime = Shape::flat(1).runtime();
    let refused = runtime.spawn_thread(|| {
        let poll = poll_fn(|cx| {
            thread::yield_now();
            let refused = (0..1000).filter(|_| pin!(coop::consume_budget()).poll(cx).is_pending());
            Poll::Ready(refused.count())
        });
        coop::unconstrained(poll).wait()
    });
    assert_eq!(refused.join().unwrap(), 0);
    // And the next turn has a budget again.
    let refused = runtime.spawn_thread(|| {
        coop::unconstrained(async { thread::yield_now() }).wait();
        thread::yield_now();
        let mut refused = 0;
        for _ in 0..1000 {
            let mut turn = pin!(coop::consume_budget());
            poll_fn(|cx| {
                let polled = turn.as_mut().poll(cx);
                refused += usize::from(polled.is_pending());
                polled
            })
            .wait();
        }
        refused
    });
    assert!(refused.join().unwrap() > 0);
}
