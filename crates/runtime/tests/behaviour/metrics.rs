//! Counters: consistent with what was done, and at rest when nothing is.

use quadrille::metrics::Metrics;
use quadrille::policy::{Cause, Level};
use quadrille::{Handle, Runtime, spawn, spawn_blocking, task, thread};

use crate::gate::Gate;
use crate::shape::{come_to_rest, for_each_shape, occupy, runtimes};
use crate::wait::{eventually, watched};

const LEVELS: [Level; 4] = [Level::Group, Level::Llc, Level::Node, Level::Machine];

/// Counters of what a worker does without being asked.
fn restlessness(runtime: &Runtime) -> (u64, u64, u64) {
    let total = runtime.metrics().total();
    (total.parks, total.sentinel_looks, total.searches)
}

#[test]
fn an_idle_runtime_does_nothing() {
    watched("every shape comes to rest", || {
        let runtimes = runtimes();
        // Never used, and used by all workers.
        come_to_rest(&runtimes, restlessness);
        for (_, runtime) in &runtimes {
            for task in occupy(runtime).release() {
                runtime.block_on(task).unwrap();
            }
        }
        come_to_rest(&runtimes, restlessness);
    });
}

#[test]
fn a_runtime_whose_tasks_all_wait_does_nothing() {
    watched("every shape comes to rest", || {
        let runtimes = runtimes();
        let gate = Gate::default();
        let tasks = |runtime: &Runtime| (0..100).map(|_| runtime.spawn(gate.pass())).collect();
        let tasks: Vec<Vec<_>> = runtimes.iter().map(|(_, runtime)| tasks(runtime)).collect();
        eventually("all wait", || gate.waiting() == 100 * runtimes.len());
        come_to_rest(&runtimes, restlessness);
        gate.open();
        for ((_, runtime), tasks) in runtimes.iter().zip(tasks) {
            for task in tasks {
                runtime.block_on(task).unwrap();
            }
            assert!(restlessness(runtime).2 > 0);
        }
    });
}

fn sum(metrics: &Metrics, field: impl Fn(&quadrille::metrics::WorkerMetrics) -> u64) -> u64 {
    metrics.workers.iter().map(field).sum()
}

#[test]
fn counters_are_consistent() {
    for_each_shape(|shape| {
        const TASKS: u64 = 2000;
        let runtime = shape.runtime();
        runtime
            .block_on(runtime.spawn(async {
                let tasks: Vec<_> = (0..TASKS).map(|_| spawn(task::yield_now())).collect();
                for task in tasks {
                    task.await.unwrap();
                }
            }))
            .unwrap();
        // All have been joined: what is still on its way is a worker's last store.
        eventually("every poll is counted", || runtime.metrics().total().polls > 2 * TASKS);
        eventually("none is pending", || runtime.metrics().pending_tasks == 0);
        let metrics = runtime.metrics();
        let total = metrics.total();
        assert_eq!(metrics.workers.len(), shape.workers);
        for (index, (name, value)) in total.iter().enumerate() {
            let by_worker: u64 = metrics
                .workers
                .iter()
                .map(|worker| worker.iter().nth(index).unwrap().1)
                .sum();
            assert_eq!(value, by_worker, "{name}");
        }
        assert_eq!(total.polls, sum(&metrics, |worker| worker.polls));
        assert!(total.searches_failed <= total.searches);
        assert!(total.unparks_futex <= total.unparks);
        let migrations =
            total.migrations_group + total.migrations_llc + total.migrations_node + total.migrations_machine;
        assert!(migrations <= total.polls);
        let moves = |cause| -> u64 { LEVELS.iter().map(|level| total.moves(cause, *level)).sum() };
        let causes = [Cause::Wake, Cause::Steal, Cause::Pull, Cause::Rescue];
        assert_eq!(migrations, causes.into_iter().map(moves).sum::<u64>());
        for level in LEVELS {
            let by_cause: u64 = causes.iter().map(|cause| total.moves(*cause, level)).sum();
            let by_level = match level {
                Level::Group => total.migrations_group,
                Level::Llc => total.migrations_llc,
                Level::Node => total.migrations_node,
                Level::Machine => total.migrations_machine,
            };
            assert_eq!(by_level, by_cause, "{level:?}");
        }
        if shape.workers == 1 {
            let steals = total.steals_group + total.steals_llc + total.steals_node + total.steals_machine;
            assert_eq!((migrations, steals, total.unparks), (0, 0, 0));
            assert_eq!(moves(Cause::Spawn), 0);
        }
        assert!(metrics.wake_cost_ns > 0);
    });
}

#[test]
fn foreign_wakes_are_counted() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let gate = Gate::default();
        let tasks: Vec<_> = (0..100).map(|_| runtime.spawn(gate.pass())).collect();
        eventually("all wait", || gate.waiting() == 100);
        // A task is pending once its poll has ended, and one that is woken before is queued by its worker.
        eventually("all workers sleep", || {
            runtime.metrics().idle_workers as usize == runtime.metrics().workers.len()
        });
        assert_eq!(runtime.metrics().pending_tasks, 100);
        let before = runtime.metrics().foreign_wakes;
        gate.open();
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
        assert_eq!(runtime.metrics().foreign_wakes, before + 100);
        // Not for these, perhaps: workers that were still searching found them by themselves.
        eventually("somebody is woken by a spawning from outside", || {
            runtime.block_on(runtime.spawn(async {})).unwrap();
            runtime.metrics().foreign_unparks > 0
        });
    });
}

/// A cache without workers keeps its place.
#[test]
fn workers_and_counters_of_caches_are_in_one_order() {
    for workers in 1..=6 {
        let machine = "node:1 llc:3 core:2".parse().unwrap();
        let runtime = Runtime::builder()
            .topology(machine)
            .worker_threads(workers)
            .build()
            .unwrap();
        let caches = runtime.handle().workers_by_llc();
        assert_eq!(caches.len(), runtime.metrics().llcs.len(), "{caches:?}");
        let mut all = caches.concat();
        all.sort_unstable();
        assert_eq!(all, (0..workers).collect::<Vec<_>>(), "{caches:?}");
    }
}

/// Whatever its end is and whoever sees it, a task that was counted when it was made is counted when it ends.
#[test]
fn every_task_is_counted_in_and_out() {
    for config in ["lazy=on", "groups=on,lazy=off", "groups=on,lazy=on"] {
        let runtime = Runtime::builder()
            .worker_threads(2)
            .config(config.parse().unwrap())
            .build()
            .unwrap();
        let waits = || std::future::pending::<()>();
        let from_outside = runtime.spawn(waits());
        let counted = runtime.block_on(runtime.spawn(async move {
            let before = Handle::current().metrics().total().spawned;
            spawn(async {}).await.unwrap();
            spawn(async { panic!("as it should") }).await.unwrap_err();
            let suspended = spawn(waits());
            task::yield_now().await;
            suspended.abort();
            suspended.await.unwrap_err();
            let never_run = spawn(waits());
            never_run.abort();
            never_run.await.unwrap_err();
            task::spawn_local(async {}).await.unwrap();
            thread::spawn(|| thread::spawn(|| ()).join().unwrap()).await.unwrap();
            // Made by a thread that is no worker.
            spawn_blocking(|| ()).await.unwrap();
            let elsewhere = spawn_blocking(|| spawn(async {})).await.unwrap();
            elsewhere.await.unwrap();
            Handle::current().metrics().total().spawned - before
        }));
        assert_eq!(counted.unwrap(), 7, "{config}");
        from_outside.abort();
        runtime.block_on(from_outside).unwrap_err();
        // All but what the pool ran has ended on a worker: those, and three that were spawned outside. They are counted
        // after their joiners know.
        eventually("all are counted", || {
            let total = runtime.metrics().total();
            (total.spawned, total.finished) == (7, 10)
        });
        eventually("nothing is left", || runtime.metrics().live_tasks == Some(0));
    }
}
