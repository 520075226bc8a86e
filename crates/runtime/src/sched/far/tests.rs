//! The export queues of a real runtime, filled by hand.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use quadrille_policy::{Config, LlcId, SetId};

use crate::Runtime;
use crate::sched::Shared;
use crate::task::Runnable;
use crate::task::spawn::{Options, allocate};

/// Two nodes of two caches of two workers, so that some thief is on the same node and some is not.
fn runtime(config: &str) -> Runtime {
    let config: Config = config.parse().unwrap();
    let builder = Runtime::builder().worker_threads(8);
    let builder = builder.topology("node:2 llc:2 core:2".parse().unwrap());
    builder.config(config).build().unwrap()
}

/// Adds one when it is dropped.
struct Token(Arc<AtomicUsize>);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Detached tasks that nobody has queued yet; each counts its end in `ran` and in `dropped`.
fn tasks(shared: &Shared, count: usize, ran: &Arc<AtomicUsize>, dropped: &Arc<AtomicUsize>) -> Vec<Runnable> {
    let task = |_| {
        let (ran, token) = (ran.clone(), Token(dropped.clone()));
        let policy = shared.new_policy(None, SetId::declared(1));
        let (runnable, _detached) = allocate(shared, policy, Options::default(), async move {
            let _token = token;
            ran.fetch_add(1, Ordering::SeqCst);
        });
        runnable
    };
    (0..count).map(task).collect()
}

#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(20), "not after 20 s: {what}");
        std::thread::park_timeout(Duration::from_micros(200));
    }
}

#[test]
fn what_is_exported_wakes_somebody_and_is_run() {
    for config in [
        "groups=on",
        "groups=on,numa=off",
        "groups=on,skip-count=255",
        "adversary=random",
    ] {
        let runtime = runtime(config);
        let shared = &runtime.handle().shared;
        let (ran, dropped) = (Arc::default(), Arc::default());
        let mut queued = 0;
        for round in 0..200_u16 {
            let (from, to) = (LlcId(round % 4), LlcId(round / 4 % 4));
            let count = 1 + usize::from(round) % 5;
            shared.publish_exports(tasks(shared, count, &ran, &dropped), from, to, None);
            queued += count;
            if round % 3 == 0 {
                // Now with everybody asleep, or nearly so.
                eventually(config, || ran.load(Ordering::SeqCst) == queued);
            }
        }
        eventually(config, || ran.load(Ordering::SeqCst) == queued);
        eventually(config, || dropped.load(Ordering::SeqCst) == queued);
        let total = runtime.metrics().total();
        assert!(total.export_pops + total.exports_taken_back > 0);
        assert_eq!(total.rescued_by_timeout, 0);
    }
}

#[test]
fn what_is_exported_is_dropped_when_the_runtime_stops() {
    let runtime = runtime("groups=on");
    let shared = runtime.handle().shared.clone();
    let (ran, dropped) = (Arc::default(), Arc::default());
    // Everybody is in a task, so that nobody takes anything before the end.
    let (begun, end) = (Arc::new(Barrier::new(9)), Arc::new(Barrier::new(9)));
    for _ in 0..8 {
        let (begun, end) = (begun.clone(), end.clone());
        drop(runtime.spawn(async move {
            begun.wait();
            end.wait();
        }));
    }
    begun.wait();
    for llc in 0..4 {
        shared.publish_exports(tasks(&shared, 10, &ran, &dropped), LlcId(llc), LlcId(0), None);
    }
    runtime.shutdown_background();
    end.wait();
    eventually("every task is dropped", || dropped.load(Ordering::SeqCst) == 40);
    assert!(shared.exports.iter().all(|queue| queue.is_empty()));
}
