//! Many tasks: at once, one after another, one inside another.

use std::pin::Pin;

use quadrille::{JoinHandle, spawn};

use crate::count::Count;
use crate::gate::Gate;
use crate::shape::{for_each_shape, for_each_shape_if};
use crate::wait::eventually;

#[test]
fn a_hundred_thousand_wait_at_once() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            const TASKS: usize = 100_000;
            let runtime = shape.runtime();
            let (gate, ran) = (Gate::default(), Count::default());
            let (closed, counted) = (gate.clone(), ran.clone());
            let tasks = runtime.spawn(async move {
                let task = |_| {
                    let (passed, counted) = (closed.pass(), counted.clone());
                    spawn(async move {
                        passed.await;
                        counted.add();
                    })
                };
                (0..TASKS).map(task).collect::<Vec<_>>()
            });
            let tasks = runtime.block_on(tasks).unwrap();
            eventually("all wait", || runtime.metrics().pending_tasks == TASKS);
            assert_eq!(ran.get(), 0);
            gate.open();
            runtime.block_on(async {
                for task in tasks {
                    task.await.unwrap();
                }
            });
            assert_eq!(ran.get(), TASKS);
            eventually("none is left", || runtime.metrics().pending_tasks == 0);
        },
    );
}

#[test]
fn a_million_come_and_go() {
    for_each_shape_if(
        |shape| shape.workers == 2 && shape.name == "2 workers",
        |shape| {
            let runtime = shape.runtime();
            let sum = runtime.spawn(async {
                let mut sum = 0_u64;
                for batch in 0..1000_u64 {
                    let tasks: Vec<_> = (0..1000_u64).map(|i| spawn(async move { batch * 1000 + i })).collect();
                    for task in tasks {
                        sum += task.await.unwrap();
                    }
                }
                sum
            });
            assert_eq!(runtime.block_on(sum).unwrap(), 499_999_500_000);
        },
    );
}

/// A task that spawns the next and awaits it, `depth` times.
fn chain(depth: usize) -> Pin<Box<dyn Future<Output = usize> + Send>> {
    Box::pin(async move {
        match depth {
            0 => 0,
            _ => 1 + spawn(chain(depth - 1)).await.unwrap(),
        }
    })
}

#[test]
fn a_deep_chain_of_tasks_that_wait_for_each_other() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        assert_eq!(runtime.block_on(runtime.spawn(chain(5000))).unwrap(), 5000);
    });
}

#[test]
fn a_deep_chain_is_dropped_without_deep_recursion() {
    for_each_shape(|shape| {
        const DEPTH: usize = 20_000;
        let runtime = shape.runtime();
        let drops = Count::default();
        // Each waits for the one before it; only the first has nothing to wait for, and never ends.
        let mut last: JoinHandle<()> = runtime.spawn(std::future::pending());
        for _ in 0..DEPTH {
            let (before, token) = (last, drops.token());
            last = runtime.spawn(async move {
                let _token = token;
                let _ = before.await;
            });
        }
        drop(runtime);
        assert_eq!(drops.get(), DEPTH);
        assert!(last.is_finished());
    });
}

#[test]
fn a_long_line_of_detached_tasks() {
    fn next(left: usize, gate: Gate) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            match left {
                0 => gate.open(),
                _ => drop(spawn(next(left - 1, gate))),
            }
        })
    }
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let gate = Gate::default();
        drop(runtime.spawn(next(5000, gate.clone())));
        runtime.block_on(gate.pass());
        assert!(gate.is_open());
    });
}
