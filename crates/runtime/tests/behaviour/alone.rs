//! One worker goes on alone, and the others come back, again and again: nothing is lost on the way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quadrille::policy::Config;
use quadrille::sync::mpmc;
use quadrille::{Runtime, spawn};

use crate::shape::Shape;
use crate::wait::eventually;

/// A trial as soon as the one before has ended, whatever came of it.
const ALL_THE_TIME: &str =
    "solo=on,solo-window=4ms,solo-gain=0,solo-hold=0ns,solo-pause=0ns,solo-moves=4294967295,solo-run=1s";
/// For so long that who goes on alone is disturbed, and doubted, now and then.
const FOR_LONGER: &str =
    "solo=on,solo-window=1ms,solo-gain=0,solo-hold=10ms,solo-pause=0ns,solo-moves=4294967295,solo-run=1s";
const MEMBERS: usize = 20;
const MESSAGES: u64 = 200;

/// So many senders, each of which sends to all of so many receivers. Returns the sum of what has come.
fn all_talk_to_each_other(runtime: &Runtime) -> u64 {
    let sum = Arc::new(AtomicU64::new(0));
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..MEMBERS).map(|_| mpmc::bounded(64)).unzip();
    let received = receivers.into_iter().map(|receiver| {
        let sum = sum.clone();
        runtime.spawn(async move {
            while let Ok(message) = receiver.recv().await {
                sum.fetch_add(message, Ordering::Relaxed);
            }
        })
    });
    let received: Vec<_> = received.collect();
    for _ in 0..MEMBERS {
        let senders = senders.clone();
        runtime.spawn(async move {
            for message in 1..=MESSAGES {
                for sender in &senders {
                    sender.send(message).await.unwrap();
                }
                // A task of its own now and then.
                if message % 50 == 0 {
                    spawn(async {}).await.unwrap();
                }
            }
        });
    }
    drop(senders);
    runtime.block_on(async {
        for task in received {
            task.await.unwrap();
        }
    });
    sum.load(Ordering::Relaxed)
}

#[test]
fn trials_all_the_time_lose_nothing() {
    for (workers, config) in [(2, ALL_THE_TIME), (4, ALL_THE_TIME), (2, FOR_LONGER), (4, FOR_LONGER)] {
        let config: Config = config.parse().unwrap();
        let runtime = Shape::flat(workers).builder().config(config).build().unwrap();
        let expected = (MEMBERS * MEMBERS) as u64 * (1..=MESSAGES).sum::<u64>();
        eventually("trials, and windows alone", || {
            assert_eq!(all_talk_to_each_other(&runtime), expected);
            let total = runtime.metrics().total();
            total.solo_trials > 3 && total.solo_windows > 3
        });
    }
}

/// What is counted where one may go on alone: a unit for a message, and a yield for a task that goes on by itself; not
/// where it waits.
#[test]
fn what_tasks_do_is_counted() {
    let config: Config = "solo=on".parse().unwrap();
    let runtime = Shape::flat(2).builder().config(config).build().unwrap();
    let (sender, receiver) = mpmc::bounded(1);
    runtime.block_on(async {
        let sends = spawn(async move {
            for _ in 0..10 {
                quadrille::task::yield_now().await;
            }
            sender.send(()).await.unwrap();
            quadrille::task::yield_now().await;
        });
        sends.await.unwrap();
        spawn(async move { receiver.recv().await }).await.unwrap().unwrap();
    });
    let total = runtime.metrics().total();
    // The message was received in the last poll of its task, which counts as its end.
    assert_eq!((total.yields, total.units), (11, 1));
}
