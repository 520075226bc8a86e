//! Wake-ups of bound threads: from other OS threads while workers park, and from other workers (theorem B).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quadrille::Wait as _;
use quadrille::sync::mpmc;
use quadrille::thread;

use crate::shape::{Shape, for_each_shape, for_each_shape_if};
use crate::wait::eventually;

/// An OS thread wakes one thread at a time, so that each time every worker has nothing else and goes to sleep.
#[test]
fn from_outside_while_workers_park() {
    const ROUNDS: usize = 1000;
    for_each_shape_if(
        |shape| shape.workers <= 16,
        |shape| {
            let runtime = shape.runtime();
            let turns: Arc<Vec<AtomicUsize>> = Arc::new((0..8).map(|_| AtomicUsize::new(0)).collect());
            let threads: Vec<_> = (0..turns.len())
                .map(|me| {
                    let turns = turns.clone();
                    runtime.spawn_thread(move || {
                        for _ in 0..ROUNDS {
                            thread::park();
                            turns[me].fetch_add(1, Ordering::SeqCst);
                        }
                    })
                })
                .collect();
            for round in 1..=ROUNDS {
                for (turn, thread) in turns.iter().zip(&threads) {
                    thread.thread().unpark();
                    eventually("it runs", || spins(|| turn.load(Ordering::SeqCst) == round));
                }
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        },
    );
}

/// Looks often before it is looked at again much later.
fn spins(holds: impl Fn() -> bool) -> bool {
    (0..100_000).any(|look| {
        if look % 1000 == 999 {
            std::thread::yield_now();
        }
        holds()
    })
}

/// Rings of threads over all workers pass tokens: each wake-up is to whoever owns the next.
#[test]
fn around_rings() {
    const ROUNDS: usize = 300;
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let rings: Vec<_> = (0..4)
            .map(|_| {
                let (senders, receivers): (Vec<_>, Vec<_>) = (0..8).map(|_| mpmc::bounded::<usize>(1)).unzip();
                let first = senders[0].clone();
                let members: Vec<_> = receivers
                    .into_iter()
                    .enumerate()
                    .map(|(index, receiver)| {
                        let next = senders[(index + 1) % senders.len()].clone();
                        runtime.spawn_thread(move || {
                            for round in 0..ROUNDS {
                                let token = receiver.recv().wait().unwrap();
                                assert_eq!(token, round * 8 + index, "nobody is passed over or called twice");
                                // The last one has nobody left to hand it to.
                                let _sent = next.send(token + 1).wait();
                            }
                        })
                    })
                    .collect();
                first.send(0).wait().unwrap();
                members
            })
            .collect();
        rings.into_iter().flatten().for_each(|member| member.join().unwrap());
    });
}

/// Tasks wake threads and threads wake tasks, from everywhere to everywhere.
#[test]
fn between_tasks_and_threads() {
    const PAIRS: usize = 50;
    const ROUNDS: usize = 100;
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let ended: Vec<_> = (0..PAIRS)
            .map(|_| {
                let (to_thread, at_thread) = mpmc::bounded::<usize>(1);
                let (to_task, at_task) = mpmc::bounded::<usize>(1);
                let thread = runtime.spawn_thread(move || {
                    while let Ok(message) = at_thread.recv().wait() {
                        if to_task.send(message + 1).wait().is_err() {
                            break;
                        }
                    }
                });
                let task = runtime.spawn(async move {
                    let mut message = 0;
                    for _ in 0..ROUNDS {
                        to_thread.send(message).await.unwrap();
                        message = at_task.recv().await.unwrap();
                    }
                    message
                });
                (thread, task)
            })
            .collect();
        for (thread, task) in ended {
            assert_eq!(runtime.block_on(task).unwrap(), ROUNDS);
            thread.join().unwrap();
        }
    });
}

/// A thread that is woken while its owner is busy elsewhere waits for it, and is counted.
#[test]
fn wakes_and_pops_are_counted() {
    let runtime = Shape::flat(2).runtime();
    let threads: Vec<_> = (0..10)
        .map(|_| runtime.spawn_thread(|| (0..10).for_each(|_| thread::park())))
        .collect();
    let unparked = || threads.iter().for_each(|thread| thread.thread().unpark());
    eventually("all have ended", || {
        unparked();
        threads.iter().all(thread::JoinHandle::is_finished)
    });
    let total = runtime.metrics().total();
    // A poll that took long, because the system had the CPU, makes a thread long.
    let run = total.bound_pops.saturating_sub(total.passed_over);
    assert!(run > 0 && run <= 100, "{total:?}");
    assert!(total.polls >= run + 10);
    assert_eq!(runtime.metrics().living_threads, 0);
}
