//! Who gets how many turns: counted, never timed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use quadrille::sync::mpmc;
use quadrille::task::yield_now;
use quadrille::{Runtime, Wait as _, select, spawn, thread};
use std::future::Future;

use crate::shape::{for_each_shape, for_each_shape_if};
use crate::streaks::compute;

/// A task that takes this many turns while another gets none is starving it: more than it gets in seconds, for which
/// the system may keep the other one's worker from a CPU.
const TURNS_MAX: usize = 20_000_000;

/// Turns that the victim needs.
const VICTIM_TURNS: usize = 50;

/// Runs `greedy` tasks, each until the flag that it is given is set, beside a victim that yields; the victim sets the
/// flag. They are spawned in one task, so that all start on one worker.
fn victim_survives(runtime: &Runtime, greedy: impl FnOnce(Arc<AtomicBool>) + Send + 'static) {
    let done = Arc::new(AtomicBool::new(false));
    let all = runtime.spawn(async move {
        greedy(done.clone());
        let victim = spawn(async move {
            for _ in 0..VICTIM_TURNS {
                yield_now().await;
            }
            done.store(true, Ordering::SeqCst);
        });
        victim.await.unwrap();
    });
    runtime.block_on(all).unwrap();
}

#[test]
fn tasks_that_yield_take_turns() {
    for_each_shape_if(
        |shape| shape.workers == 1,
        |shape| {
            let runtime = shape.runtime();
            let turns: Arc<Vec<AtomicUsize>> = Arc::new((0..10).map(|_| AtomicUsize::new(0)).collect());
            let stop = Arc::new(AtomicBool::new(false));
            let spread = runtime.block_on(runtime.spawn(async move {
                let tasks: Vec<_> = (0..turns.len())
                    .map(|me| {
                        let (turns, stop) = (turns.clone(), stop.clone());
                        spawn(async move {
                            while !stop.load(Ordering::SeqCst) {
                                turns[me].fetch_add(1, Ordering::SeqCst);
                                yield_now().await;
                            }
                        })
                    })
                    .collect();
                while turns.iter().all(|turns| turns.load(Ordering::SeqCst) < 1000) {
                    yield_now().await;
                }
                stop.store(true, Ordering::SeqCst);
                let taken = turns.iter().map(|turns| turns.load(Ordering::SeqCst));
                let spread = (taken.clone().min().unwrap(), taken.max().unwrap());
                for task in tasks {
                    task.await.unwrap();
                }
                spread
            }));
            let (least, most) = spread.unwrap();
            assert!(most <= least * 2, "one task took {most} turns, another {least}");
        },
    );
}

#[test]
fn a_pair_in_the_lifo_slot_starves_nobody() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let turns = Arc::new(AtomicUsize::new(0));
        let counted = turns.clone();
        victim_survives(&runtime, move |done| {
            let (ping, pinged) = mpmc::bounded::<usize>(1);
            let (pong, ponged) = mpmc::bounded::<usize>(1);
            drop(spawn(async move {
                while !done.load(Ordering::SeqCst) && counted.fetch_add(1, Ordering::SeqCst) < TURNS_MAX {
                    ping.send(0).await.unwrap();
                    ponged.recv().await.unwrap();
                }
            }));
            drop(spawn(async move {
                while let Ok(turn) = pinged.recv().await {
                    if pong.send(turn).await.is_err() {
                        return;
                    }
                }
            }));
        });
        assert!(turns.load(Ordering::SeqCst) < TURNS_MAX, "the pair went on and on");
    });
}

#[test]
fn a_pair_of_threads_starves_nobody() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let turns = Arc::new(AtomicUsize::new(0));
        let (counted, done) = (turns.clone(), Arc::new(AtomicBool::new(false)));
        let all = runtime.spawn(async move {
            let (ping, pinged) = mpmc::bounded::<usize>(1);
            let (pong, ponged) = mpmc::bounded::<usize>(1);
            let stop = done.clone();
            let first = thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) && counted.fetch_add(1, Ordering::SeqCst) < TURNS_MAX {
                    ping.send(0).wait().unwrap();
                    ponged.recv().wait().unwrap();
                }
            });
            let second =
                thread::spawn(move || while pinged.recv().wait().is_ok_and(|turn| pong.send(turn).wait().is_ok()) {});
            let victim = thread::spawn(move || {
                (0..VICTIM_TURNS).for_each(|_| thread::yield_now());
                done.store(true, Ordering::SeqCst);
            });
            for thread in [victim, first, second] {
                thread.await.unwrap();
            }
        });
        runtime.block_on(all).unwrap();
        assert!(turns.load(Ordering::SeqCst) < TURNS_MAX, "the pair went on and on");
    });
}

#[test]
fn a_task_that_wakes_itself_starves_nobody() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let turns = Arc::new(AtomicUsize::new(0));
        let counted = turns.clone();
        victim_survives(&runtime, move |done| {
            for by_value in [false, true] {
                let (done, counted) = (done.clone(), counted.clone());
                drop(spawn(std::future::poll_fn(move |cx| {
                    if done.load(Ordering::SeqCst) || counted.fetch_add(1, Ordering::SeqCst) >= TURNS_MAX {
                        return Poll::Ready(());
                    }
                    let waker = cx.waker().clone();
                    if by_value {
                        waker.wake();
                    } else {
                        waker.wake_by_ref();
                    }
                    Poll::Pending
                })));
            }
        });
        assert!(turns.load(Ordering::SeqCst) < TURNS_MAX, "the tasks went on and on");
    });
}

#[test]
fn a_channel_that_is_never_empty_starves_nobody() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let turns = Arc::new(AtomicUsize::new(0));
        let counted = turns.clone();
        victim_survives(&runtime, move |done| {
            drop(spawn(async move {
                let (sender, receiver) = mpmc::bounded::<usize>(4);
                while !done.load(Ordering::SeqCst) && counted.fetch_add(1, Ordering::SeqCst) < TURNS_MAX {
                    sender.try_send(0).unwrap();
                    // Ready, always: only the budget makes this wait.
                    receiver.recv().await.unwrap();
                }
            }));
        });
        assert!(turns.load(Ordering::SeqCst) < TURNS_MAX, "the receiver went on and on");
    });
}

#[test]
fn a_channel_that_is_never_full_starves_nobody() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let turns = Arc::new(AtomicUsize::new(0));
        let counted = turns.clone();
        victim_survives(&runtime, move |done| {
            drop(spawn(async move {
                let (sender, receiver) = mpmc::unbounded::<usize>();
                while !done.load(Ordering::SeqCst) && counted.fetch_add(1, Ordering::SeqCst) < TURNS_MAX {
                    sender.send(0).await.unwrap();
                    receiver.try_recv().unwrap();
                }
            }));
        });
        assert!(turns.load(Ordering::SeqCst) < TURNS_MAX, "the sender went on and on");
    });
}

#[test]
fn the_budget_is_one_polls() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let polls = crate::count::Count::default();
        let counted = polls.clone();
        let task = runtime.spawn(async move {
            let mut spends = Box::pin(async {
                for _ in 0..10_000 {
                    quadrille::coop::consume_budget().await;
                }
            });
            std::future::poll_fn(move |cx| {
                counted.add();
                spends.as_mut().poll(cx)
            })
            .await;
            quadrille::coop::has_budget_remaining()
        });
        assert!(runtime.block_on(task).unwrap());
        // 10,000 units, 128 a poll.
        assert_eq!(polls.get(), 10_000_usize.div_ceil(128));
    });
}

/// A thousand messages, by a `select!` beside a branch that is always ready and spends nothing. How often that was
/// taken.
async fn receive_beside_ready(biased: bool) -> usize {
    let (sender, receiver) = mpmc::bounded::<usize>(1000);
    (0..1000).for_each(|n| sender.try_send(n).unwrap());
    let (mut received, mut others) = (0, 0);
    while received < 1000 && others < TURNS_MAX {
        let is_message = if biased {
            select! {
                biased;
                message = receiver.recv() => message.is_ok(),
                () = std::future::ready(()) => false,
            }
        } else {
            select! {
                message = receiver.recv() => message.is_ok(),
                () = std::future::ready(()) => false,
            }
        };
        *(if is_message { &mut received } else { &mut others }) += 1;
    }
    others
}

/// Else the receiver, once the budget is spent, is refused each time, and the `select!` ready each time, by the other
/// branch.
#[test]
fn a_select_gives_way_where_one_branch_spends_the_budget_and_the_other_none() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        for biased in [true, false] {
            let check = |others: usize| {
                // By chance it may be the first a thousand times over, and some.
                assert!(if biased { others == 0 } else { others < 20_000 }, "{others}");
            };
            check(runtime.block_on(runtime.spawn(receive_beside_ready(biased))).unwrap());
            let thread = runtime.spawn_thread(move || receive_beside_ready(biased).wait());
            check(thread.join().unwrap());
            check(runtime.block_on(receive_beside_ready(biased)));
            check(receive_beside_ready(biased).wait());
            let unlimited = runtime.spawn(quadrille::coop::unconstrained(receive_beside_ready(biased)));
            check(runtime.block_on(unlimited).unwrap());
        }
    });
}

/// How long the favoured compute in each turn: four times the `slot-time` below.
const PIECE: Duration = Duration::from_micros(200);

/// Turns of those that `favour` starts, which compute in each, until a victim has had 30, which only gives way: one
/// worker, whose streaks are measured from the start.
fn turns_beside_a_victim(
    victim_is_a_thread: bool,
    favour: impl FnOnce(Arc<AtomicBool>, Arc<AtomicUsize>) + Send + 'static,
) -> usize {
    const TURNS: usize = 30;
    let config = "slot-time=50us".parse().unwrap();
    let runtime = Runtime::builder().worker_threads(1).config(config).build().unwrap();
    let (done, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let counted = turns.clone();
    let all = runtime.spawn(async move {
        for _ in 0..40 {
            compute(PIECE);
            yield_now().await;
        }
        favour(done.clone(), counted);
        if victim_is_a_thread {
            let yields = || (0..TURNS).for_each(|_| thread::yield_now());
            thread::spawn(yields).await.unwrap();
        } else {
            let yields = async {
                for _ in 0..TURNS {
                    yield_now().await;
                }
            };
            spawn(yields).await.unwrap();
        }
        done.store(true, Ordering::SeqCst);
    });
    runtime.block_on(all).unwrap();
    turns.load(Ordering::SeqCst) / TURNS
}

/// Most turns of the favoured for one of the victim: one each of two, three polls out of the slot or its like, and some
/// to begin with.
const TURNS_EACH: usize = 12;

/// Tells the others when it is its turn; ends after very many, so that one who starves is seen.
fn goes_on(done: &AtomicBool, turns: &AtomicUsize) -> bool {
    turns.fetch_add(1, Ordering::SeqCst) < 30 * 1_000 && !done.load(Ordering::SeqCst)
}

#[test]
fn a_thread_that_a_task_wakes_again_and_again_starves_no_thread() {
    let turns = turns_beside_a_victim(true, |done, turns| {
        let stop = done.clone();
        let woken = thread::spawn(move || {
            while goes_on(&stop, &turns) {
                thread::park();
                compute(PIECE);
            }
        });
        drop(spawn(async move {
            while !woken.is_finished() {
                woken.thread().unpark();
                yield_now().await;
            }
        }));
    });
    assert!(turns <= TURNS_EACH, "{turns} turns for one of the victim");
}

#[test]
fn threads_that_answer_before_they_compute_starve_no_thread() {
    let turns = turns_beside_a_victim(true, |done, turns| {
        let (ping, pinged) = mpmc::bounded::<()>(4);
        let (pong, ponged) = mpmc::bounded::<()>(4);
        ping.try_send(()).unwrap();
        for (receiver, sender) in [(pinged, pong), (ponged, ping)] {
            let (done, turns) = (done.clone(), turns.clone());
            drop(thread::spawn(move || {
                while goes_on(&done, &turns) && receiver.recv().wait().is_ok() && sender.send(()).wait().is_ok() {
                    compute(PIECE);
                }
            }));
        }
        drop(spawn(async move {
            while !done.load(Ordering::SeqCst) {
                yield_now().await;
            }
        }));
    });
    assert!(turns <= TURNS_EACH, "{turns} turns for one of the victim");
}

/// Beside a thread that gives way, and so comes between any two tasks.
#[test]
fn tasks_that_answer_before_they_compute_starve_no_task() {
    let turns = turns_beside_a_victim(false, |done, turns| {
        let (ping, pinged) = mpmc::bounded::<()>(4);
        let (pong, ponged) = mpmc::bounded::<()>(4);
        ping.try_send(()).unwrap();
        for (receiver, sender) in [(pinged, pong), (ponged, ping)] {
            let (done, turns) = (done.clone(), turns.clone());
            drop(spawn(async move {
                while goes_on(&done, &turns) && receiver.recv().await.is_ok() && sender.send(()).await.is_ok() {
                    compute(PIECE);
                }
            }));
        }
        drop(thread::spawn(move || {
            while !done.load(Ordering::SeqCst) {
                thread::yield_now();
            }
        }));
    });
    assert!(turns <= TURNS_EACH, "{turns} turns for one of the victim");
}

/// Tasks from outside that have little to do.
const SHORT: usize = 50;

/// Pieces of tasks that compute for 1 ms at a time, on one worker, while short tasks from outside have their turns.
fn pieces_beside_short_tasks() -> usize {
    let runtime = Runtime::builder().worker_threads(1).build().unwrap();
    let (stop, pieces) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    for _ in 0..2 {
        let (stop, pieces) = (stop.clone(), pieces.clone());
        drop(runtime.spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                compute(Duration::from_millis(1));
                pieces.fetch_add(1, Ordering::SeqCst);
                yield_now().await;
            }
        }));
    }
    // Until it is known how long they take.
    while pieces.load(Ordering::SeqCst) < 20 {
        std::thread::yield_now();
    }
    let before = pieces.load(Ordering::SeqCst);
    let short: Vec<_> = (0..SHORT).map(|_| runtime.spawn(async {})).collect();
    runtime.block_on(async {
        for task in short {
            task.await.unwrap();
        }
    });
    stop.store(true, Ordering::SeqCst);
    pieces.load(Ordering::SeqCst) - before
}

/// But where the system takes the CPU from this thread while it spawns them, or before it counts: then there are more
/// pieces, never fewer.
#[test]
fn short_tasks_from_outside_do_not_wait_for_a_long_one_each() {
    let mut pieces = Vec::new();
    let is_few = (0..20).any(|_| {
        pieces.push(pieces_beside_short_tasks());
        pieces.last() <= Some(&(SHORT / 3))
    });
    assert!(is_few, "{pieces:?} pieces beside {SHORT} tasks");
}
