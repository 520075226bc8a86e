//! Threads and tasks side by side: neither keeps the other from its turn.

use std::future::Future as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use quadrille::Wait as _;
use quadrille::sync::mpmc;
use quadrille::task::yield_now;
use quadrille::thread;
use quadrille::thread::sync::mpsc;

use crate::count::Count;
use crate::shape::{Shape, for_each_shape_if};
use crate::wait::eventually;

/// Thousands that yield for ever, and one of the other kind that has to come through as often as asked.
#[test]
fn neither_starves_the_other() {
    const MANY: usize = 2000;
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let stop = Arc::new(AtomicBool::new(false));
            let (threads, tasks) = (Count::default(), Count::default());
            for _ in 0..MANY {
                let (stopped, turns) = (stop.clone(), threads.clone());
                runtime.spawn_thread(move || {
                    turns.add();
                    while !stopped.load(Ordering::Relaxed) {
                        thread::yield_now();
                        turns.add();
                    }
                });
                let (stopped, turns) = (stop.clone(), tasks.clone());
                runtime.spawn(async move {
                    turns.add();
                    while !stopped.load(Ordering::Relaxed) {
                        yield_now().await;
                        turns.add();
                    }
                });
            }
            let (before_threads, before_tasks) = (threads.get(), tasks.get());
            eventually("both go on", || {
                threads.get() > before_threads + 3 * MANY && tasks.get() > before_tasks + 3 * MANY
            });
            let task = runtime.spawn(async {
                for _ in 0..3 {
                    yield_now().await;
                }
            });
            let thread = runtime.spawn_thread(|| (0..3).for_each(|_| thread::yield_now()));
            runtime.block_on(task).unwrap();
            thread.join().unwrap();
            stop.store(true, Ordering::Relaxed);
        },
    );
}

/// With both kinds always ready on one worker they run in turn: by number, while no poll is known as long. One that the
/// machine interrupts would be.
#[test]
fn they_run_in_turn() {
    let by_number = "overtake=off".parse().unwrap();
    let runtime = Shape::flat(1).builder().config(by_number).build().unwrap();
    let (threads, tasks) = (Count::default(), Count::default());
    let (stop, yields) = (Arc::new(AtomicBool::new(false)), tasks.clone());
    let stopped = stop.clone();
    let yielding = runtime.spawn(async move {
        while !stopped.load(Ordering::Relaxed) {
            yields.add();
            yield_now().await;
        }
    });
    let (turns, seen) = (threads.clone(), tasks.clone());
    let thread = runtime.spawn_thread(move || {
        thread::yield_now();
        let before = seen.get();
        for _ in 0..1000 {
            turns.add();
            thread::yield_now();
        }
        seen.get() - before
    });
    let others = thread.join().unwrap();
    stop.store(true, Ordering::Relaxed);
    runtime.block_on(yielding).unwrap();
    assert_eq!(threads.get(), 1000);
    assert!(
        (990..=1010).contains(&others),
        "{others} turns of the task beside 1000 of the thread"
    );
}

/// A future that is always ready does not keep a thread from giving way: its budget ends.
#[test]
fn a_budget_ends_for_threads_too() {
    let runtime = Shape::flat(1).runtime();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let busy = runtime.spawn_thread(move || {
        while !stopped.load(Ordering::Relaxed) {
            quadrille::coop::consume_budget().wait();
        }
    });
    let stops = runtime.spawn_thread(move || stop.store(true, Ordering::Relaxed));
    stops.join().unwrap();
    busy.join().unwrap();
}

/// Nor does a channel of a thread's own: one whose messages are always there.
#[test]
fn a_busy_channel_lets_others_run() {
    fn lets_others_run(name: &str, mut exchange: impl FnMut() + Send + 'static) {
        let runtime = Shape::flat(1).runtime();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let busy = runtime.spawn_thread(move || {
            // By the same worker: however late, it is there before the first exchange.
            thread::spawn(move || stop.store(true, Ordering::Relaxed));
            (0..1_000_000).any(|_| {
                exchange();
                stopped.load(Ordering::Relaxed)
            })
        });
        assert!(busy.join().unwrap(), "{name}: nobody else ran before the end");
    }
    let (sender, receiver) = mpmc::bounded(1);
    lets_others_run("mpmc", move || {
        sender.send_blocking(1).unwrap();
        assert_eq!(receiver.recv_blocking(), Ok(1));
    });
    let (sender, receiver) = mpsc::sync_channel(1);
    lets_others_run("mpsc", move || {
        sender.send(1).unwrap();
        assert_eq!(receiver.recv(), Ok(1));
    });
    let (sender, receiver) = mpsc::channel();
    lets_others_run("mpsc, with a limit", move || {
        sender.send(1).unwrap();
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(1));
    });
}

/// Nor a channel that holds nothing, where those on the other side wait already.
#[test]
fn a_busy_rendezvous_lets_others_run() {
    const MESSAGES: usize = 1000;
    fn lets_others_run(exchange: impl FnOnce() + Send) -> bool {
        let ran = Arc::new(AtomicBool::new(false));
        let runs = ran.clone();
        let other = thread::spawn(move || runs.store(true, Ordering::Relaxed));
        exchange();
        let ran = ran.load(Ordering::Relaxed);
        other.join().unwrap();
        ran
    }
    let runtime = Shape::flat(1).runtime();
    let sends = runtime.spawn_thread(|| {
        let (sender, receiver) = mpsc::sync_channel(0);
        let mut seats: Vec<_> = (0..MESSAGES).map(|_| Box::pin(receiver.recv_async())).collect();
        for some in seats.chunks_mut(10) {
            let mut cx = Context::from_waker(Waker::noop());
            some.iter_mut()
                .for_each(|seat| assert!(seat.as_mut().poll(&mut cx).is_pending()));
            thread::yield_now();
        }
        lets_others_run(|| (0..MESSAGES).for_each(|message| sender.send(message).unwrap()))
    });
    assert!(sends.join().unwrap(), "nobody else ran while it sent");
    let receives = runtime.spawn_thread(|| {
        let (sender, receiver) = mpsc::sync_channel(0);
        let begun = Count::default();
        let senders: Vec<_> = (0..MESSAGES)
            .map(|message| {
                let (sender, begins) = (sender.clone(), begun.clone());
                thread::spawn(move || {
                    begins.add();
                    sender.send(message)
                })
            })
            .collect();
        // Who has counted has its turn to the end, and waits.
        while begun.get() < MESSAGES {
            thread::yield_now();
        }
        let lets = lets_others_run(|| assert_eq!(receiver.iter().take(MESSAGES).count(), MESSAGES));
        senders.into_iter().for_each(|sender| sender.join().unwrap().unwrap());
        lets
    });
    assert!(receives.join().unwrap(), "nobody else ran while it received");
}

/// Nor does a thread that has panicked with its budget spent, and was not let go.
#[test]
fn a_caught_panic_leaves_the_budget_spent() {
    struct Sends(mpmc::Sender<u8>);
    impl Drop for Sends {
        fn drop(&mut self) {
            self.0.send_blocking(1).unwrap();
        }
    }
    let runtime = Shape::flat(1).runtime();
    let (sender, receiver) = mpmc::bounded(1);
    let left = runtime.spawn_thread(move || {
        let panics = || {
            let _last = Sends(sender);
            while quadrille::coop::has_budget_remaining() {
                quadrille::coop::consume_budget().wait();
            }
            panic!("as asked");
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        quadrille::coop::has_budget_remaining()
    });
    assert!(!left.join().unwrap());
    assert_eq!(receiver.try_recv(), Ok(1));
}

/// A destructor may send while its thread panics, also where the budget is spent: it can't give way then.
#[test]
fn a_spent_budget_does_not_keep_a_destructor_from_sending() {
    struct Sends<F: FnMut()>(F);
    impl<F: FnMut()> Drop for Sends<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    fn panics_with(last_act: impl FnMut() + Send + 'static) {
        let runtime = Shape::flat(1).runtime();
        let thread = runtime.spawn_thread(move || {
            let _last = Sends(last_act);
            while quadrille::coop::has_budget_remaining() {
                quadrille::coop::consume_budget().wait();
            }
            panic!("as asked");
        });
        assert!(thread.join().is_err());
    }
    let (sender, receiver) = mpmc::bounded(2);
    let other = sender.clone();
    panics_with(move || sender.send(1).wait().unwrap());
    panics_with(move || other.send_blocking(2).unwrap());
    assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok(1), Ok(2)));
}
