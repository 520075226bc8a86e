//! Tasks that wake one another beside tasks that compute: who goes first is decided by time once that can be told.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quadrille::sync::mpmc;
use quadrille::task::yield_now;
use quadrille::{Runtime, spawn};

use crate::gate::Gate;

/// One of one worker.
pub(crate) fn runtime(config: &str) -> Runtime {
    Runtime::builder()
        .worker_threads(1)
        .config(config.parse().unwrap())
        .build()
        .unwrap()
}

/// Computes for so long, at least.
pub(crate) fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {}
}

/// Round trips of a pair for each piece of two tasks that compute for 5 ms at a time.
fn round_trips_a_piece(config: &str) -> usize {
    const PIECES: usize = 20;
    let trips = runtime(config).block_on(async {
        spawn(async {
            let stop = Arc::new(AtomicBool::new(false));
            let (there, there_end) = mpmc::bounded(1);
            let (back, back_end) = mpmc::bounded(1);
            drop(spawn(async move {
                while there_end.recv().await.is_ok() && back.send(()).await.is_ok() {}
            }));
            let stops = stop.clone();
            let pair = spawn(async move {
                let mut trips = 0;
                // Ordering: Relaxed; it is to end some time.
                while !stops.load(Ordering::Relaxed) {
                    there.send(()).await.unwrap();
                    back_end.recv().await.unwrap();
                    trips += 1;
                }
                trips
            });
            let computing = [(); 2].map(|()| {
                spawn(async {
                    for _ in 0..PIECES {
                        compute(Duration::from_millis(5));
                        yield_now().await;
                    }
                })
            });
            for task in computing {
                task.await.unwrap();
            }
            // Ordering: Relaxed; see above.
            stop.store(true, Ordering::Relaxed);
            pair.await.unwrap()
        })
        .await
        .unwrap()
    });
    trips / (2 * PIECES)
}

#[test]
fn those_that_exchange_messages_go_on_beside_those_that_compute() {
    let measured = round_trips_a_piece("slot-time=2ms,overtake=off");
    assert!(measured > 4, "{measured} round trips a piece of 5 ms");
    // Three polls out of the slot, and the one before.
    let counted = round_trips_a_piece("slot-time=1s,overtake=off");
    assert!(counted <= 2, "{counted} round trips a piece");
}

/// In which order two tasks run that are ready, and a third that is woken afterwards by one that has computed for long.
fn order(config: &str) -> Vec<&'static str> {
    let ran = Arc::new(Mutex::new(Vec::new()));
    let log = ran.clone();
    runtime(config).block_on(async move {
        let all = spawn(async move {
            let gate = Gate::default();
            let passes = gate.pass();
            let note = |name| {
                let log = log.clone();
                move || log.lock().unwrap().push(name)
            };
            let woken = note("woken");
            let woken = spawn(async move {
                passes.await;
                woken();
            });
            while gate.waiting() == 0 {
                yield_now().await;
            }
            // Until the worker knows how long they take.
            for _ in 0..40 {
                compute(Duration::from_millis(1));
                yield_now().await;
            }
            let [first, second] = ["first", "second"].map(|name| {
                let note = note(name);
                spawn(async move { note() })
            });
            compute(Duration::from_millis(1));
            gate.open();
            for task in [first, second, woken] {
                task.await.unwrap();
            }
        });
        all.await.unwrap();
    });
    let ran = ran.lock().unwrap();
    ran.clone()
}

#[test]
fn what_a_long_task_wakes_goes_behind_those_that_wait() {
    assert_eq!(order("slot-time=100us"), ["first", "second", "woken"]);
    assert_eq!(order("slot-time=1s,join-polls=0"), ["woken", "first", "second"]);
}
