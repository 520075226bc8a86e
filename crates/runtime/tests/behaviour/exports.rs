//! What workers take from behind other caches, and what is put up for them there, on machines that are made up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use quadrille::metrics::WorkerMetrics;
use quadrille::{TaskGroup, spawn};

use crate::count::Count;
use crate::gate::Gate;
use crate::sets::{PATIENT, runtime, worker};
use crate::skipped::skipped;
use crate::wait::{eventually, watched};

#[test]
fn what_is_queued_behind_a_stuck_cache_is_taken_by_another() {
    watched("stuck", || {
        let runtime = runtime("llc:4 core:4", "groups=on");
        let gate = Gate::default();
        let ran = Count::default();
        let spawner = {
            let (gate, ran) = (gate.clone(), ran.clone());
            runtime.spawn(async move {
                let group = TaskGroup::new();
                let tasks: Vec<_> = (0..500)
                    .map(|_| {
                        let ran = ran.clone();
                        group.spawn(async move {
                            ran.add();
                        })
                    })
                    .collect();
                // All of them are in the deque of this worker, which does not go on.
                gate.block();
                tasks
            })
        };
        eventually("others run them all", || ran.get() == 500);
        gate.open();
        for task in runtime.block_on(spawner).unwrap() {
            runtime.block_on(task).unwrap();
        }
    });
}

/// A task behind the first cache that again and again spawns a few short ones, which its worker runs one after the
/// other, while a worker behind the second is woken for something of its own and runs dry.
fn blink(machine: &str, config: &str) -> WorkerMetrics {
    let runtime = runtime(machine, config);
    let workers = runtime.handle().worker_count();
    let (begun, gate, stop) = (Count::default(), Gate::default(), Gate::default());
    let (asked, answered) = (Arc::new(Bell::default()), Count::default());
    let group = TaskGroup::new();
    let tasks: Vec<_> = (0..workers)
        .map(|_| {
            let (begun, gate, stop, group) = (begun.clone(), gate.clone(), stop.clone(), group.clone());
            let (asked, answered) = (asked.clone(), answered.clone());
            runtime.spawn(async move {
                begun.add();
                gate.block();
                match worker() {
                    0 => group.spawn(spawner(group.clone(), stop)).await.unwrap(),
                    8 => answer(&asked, &answered).await,
                    _ => {}
                }
            })
        })
        .collect();
    eventually("every worker is held up", || begun.get() == workers);
    gate.open();
    for question in 1..=QUESTIONS {
        asked.ring();
        eventually("an answer", || answered.get() == question);
    }
    stop.open();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    runtime.metrics().total()
}

/// How often something was taken out of a deque behind another cache: not what its owner has put up for others.
fn taken(total: &WorkerMetrics) -> u64 {
    total.steals_node + total.steals_machine
}

/// How often the worker behind the second cache is woken.
const QUESTIONS: usize = 100;

async fn spawner(group: TaskGroup, stop: Gate) {
    while !stop.is_open() {
        let part = || async {
            for _ in 0..20 {
                quadrille::task::yield_now().await;
            }
        };
        let parts: Vec<_> = (0..8).map(|_| group.spawn(part())).collect();
        for part in parts {
            part.await.unwrap();
        }
    }
}

/// Answers every ring of `asked`.
async fn answer(asked: &Bell, answered: &Count) {
    for question in 1..=QUESTIONS {
        asked.heard(question).await;
        answered.add();
    }
}

/// Rings, from any thread, and how many there were.
#[derive(Debug, Default)]
struct Bell {
    rings: AtomicUsize,
    waiting: std::sync::Mutex<Option<std::task::Waker>>,
}

impl Bell {
    fn ring(&self) {
        self.rings.fetch_add(1, Ordering::SeqCst);
        let waker = self.waiting.lock().unwrap().take();
        waker.into_iter().for_each(std::task::Waker::wake);
    }

    async fn heard(&self, rings: usize) {
        std::future::poll_fn(|cx| {
            *self.waiting.lock().unwrap() = Some(cx.waker().clone());
            match self.rings.load(Ordering::SeqCst) >= rings {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        })
        .await;
    }
}

/// How often something is taken with one policy and without it, everything else being the same and no other policy in
/// the way, so that what it saves is its own. How much there is when a thief comes by is chance, and on a busy machine
/// it is the machine's: so there are rounds until so many were taken without the policy. If even all of them bring next
/// to nothing there is nothing to compare.
fn compare(machine: &'static str, policy: &'static str, enough: u64, taken: fn(&WorkerMetrics) -> u64) {
    watched(&format!("{policy} on {machine}"), move || {
        let alone = "aggregation=off,numa=off,gates=off,move-cost=0ns,sets-steal-after=1s";
        let round = |mode| taken(&blink(machine, &format!("{PATIENT},{alone},{policy}={mode}")));
        let (mut with, mut without, mut rounds) = (0, 0, 0);
        while without < enough && rounds < 40 {
            with += round("on");
            without += round("off");
            rounds += 1;
        }
        let found = format!("{with} with {policy}, {without} without, in {rounds} rounds on {machine}");
        if without < enough / 10 {
            return skipped(&format!("the machine has no time for thieves: {found}"));
        }
        assert!(with * 2 < without, "{found}");
    });
}

#[test]
fn deques_behind_other_caches_are_left_alone_with_aggregation_alone() {
    for machine in [
        "node:1 llc:2 l2:2 core:4",
        "node:1 llc:4 l2:2 core:4",
        "node:2 llc:4 l2:2 core:4",
        "node:4 llc:8 l2:2 core:4",
    ] {
        compare(machine, "aggregation", 100, taken);
    }
}

#[test]
fn fewer_tasks_are_taken_from_other_nodes_with_numa_tolerance_alone() {
    // On a machine of one node a cache is treated as one.
    compare("node:1 llc:2 l2:2 core:4", "numa", 100, taken);
    compare("node:1 llc:4 l2:2 core:4", "numa", 100, taken);
    let from_nodes = |total: &WorkerMetrics| total.steals_machine;
    compare("node:2 llc:4 l2:2 core:4", "numa", 20, from_nodes);
    compare("node:4 llc:8 l2:2 core:4", "numa", 20, from_nodes);
}

#[test]
fn a_saturated_cache_puts_work_up_for_others() {
    watched("saturated", || {
        // Every load is saturation, and who comes by from elsewhere looks at what is put up first.
        let (mut exports, mut taken_up, mut rounds) = (0, 0, 0);
        let config = format!("{PATIENT},sets-fit=0,numa=off,move-cost=0ns");
        while (exports == 0 || taken_up == 0) && rounds < 20 {
            let total = blink("node:1 llc:2 l2:2 core:4", &config);
            exports += total.exports;
            taken_up += total.export_pops;
            rounds += 1;
        }
        assert!(
            exports > 0 && taken_up > 0,
            "{exports} put up, {taken_up} times taken in {rounds} rounds"
        );
    });
}

#[test]
fn work_is_put_up_for_idle_caches_and_no_task_is_lost() {
    for config in ["default", "adversary=random", "adversary=farthest", "sets-fit=0"] {
        watched(config, move || {
            const TASKS: u64 = 20_000;
            let runtime = runtime("node:2 llc:2 core:4", &format!("{config},groups=on,seed=7"));
            let sum = Arc::new(AtomicU64::new(0));
            let added = sum.clone();
            let spawner = runtime.spawn(async move {
                let add = |i| {
                    let added = added.clone();
                    spawn(async move {
                        quadrille::task::yield_now().await;
                        // As long as a worker needs to be woken, so that there is something to share.
                        (0..2_000).for_each(|_| std::hint::spin_loop());
                        added.fetch_add(i, Ordering::SeqCst);
                    })
                };
                let tasks: Vec<_> = (0..TASKS).map(add).collect();
                for task in tasks {
                    task.await.unwrap();
                }
            });
            runtime.block_on(spawner).unwrap();
            assert_eq!(sum.load(Ordering::SeqCst), TASKS * (TASKS - 1) / 2);
            let total = runtime.metrics().total();
            assert!(total.export_pops <= total.exports, "{total:?}");
        });
    }
}
