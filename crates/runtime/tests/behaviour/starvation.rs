//! W5: a task that never yields holds up its own worker alone. Every ready task runs while another worker is free.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use quadrille::{Handle, Runtime, spawn};

use crate::gate::Gate;
use crate::shape::{Shape, for_each_shape_if, occupy};
use crate::wait::patient;

/// Far above the bound that is promised, a millisecond; a machine with more to do than this takes a while to run a
/// thread at all.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Of several rounds at least some are much shorter, also where several threads take turns on each CPU. This notices a
/// sentinel that looks more seldom than each 100 ms, and none that looks more often.
const SHORT_WAIT_MAX: Duration = Duration::from_millis(100);

/// The spinning task gives up here, so that a failure is a failed assertion.
const SPIN_MAX: Duration = Duration::from_secs(3);

const ROUNDS: usize = 10;
const TASKS: usize = 20;

/// Tasks that a spinning task waits for without yielding.
#[derive(Clone, Debug, Default)]
struct Others {
    ran: Arc<AtomicUsize>,
    /// Tasks that wait for it run once it is open.
    gate: Gate,
    /// The spinning task spins.
    spins: Gate,
}

impl Others {
    fn count(&self) -> impl Future<Output = ()> + Send + 'static {
        let ran = self.ran.clone();
        async move {
            ran.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn count_behind_gate(&self) -> impl Future<Output = ()> + Send + 'static {
        let (pass, count) = (self.gate.pass(), self.count());
        async move {
            pass.await;
            count.await;
        }
    }

    /// Spins until `count` tasks have run. Returns how long it took, and how many ran.
    fn spin(&self, count: usize) -> (Duration, usize) {
        let (begin, limit) = (Instant::now(), patient(SPIN_MAX));
        self.spins.open();
        loop {
            let ran = self.ran.load(Ordering::SeqCst);
            if ran >= count || begin.elapsed() > limit {
                return (begin.elapsed(), ran);
            }
            std::hint::spin_loop();
        }
    }
}

/// Runs a round of each scenario on every shape with a second worker.
fn rounds(count: usize, round: impl Fn(&Runtime, &Others) -> (Duration, usize) + Send + Sync + 'static) {
    for_each_shape_if(
        |shape: &Shape| shape.workers > 1,
        move |shape| {
            let runtime = shape.runtime();
            let mut waits = Vec::new();
            for nth in 0..ROUNDS {
                let (wait, ran) = round(&runtime, &Others::default());
                waits.push(wait);
                assert_eq!(ran, count, "round {nth}: tasks that ran while another one spun");
                assert!(
                    wait < patient(WAIT_MAX),
                    "round {nth}: the last of {count} tasks waited {wait:?}"
                );
            }
            waits.sort_unstable();
            // One or two may be short by luck: somebody was awake.
            assert!(
                waits[2] < patient(SHORT_WAIT_MAX),
                "the last of {count} tasks waited {waits:?}"
            );
        },
    );
}

#[test]
fn tasks_in_the_deque_of_a_spinning_task() {
    rounds(TASKS, |runtime, others| {
        let others = others.clone();
        let spinner = runtime.spawn(async move {
            for _ in 0..TASKS {
                drop(spawn(others.count()));
            }
            others.spin(TASKS)
        });
        runtime.block_on(spinner).unwrap()
    });
}

#[test]
fn the_task_in_the_slot_of_a_spinning_task() {
    rounds(1, |runtime, others| {
        let others = others.clone();
        let spinner = runtime.spawn(async move {
            drop(spawn(others.count_behind_gate()));
            // Until it waits on this or another worker; then a wake-up puts it into our slot.
            while others.gate.waiting() == 0 {
                quadrille::task::yield_now().await;
            }
            others.gate.open();
            others.spin(1)
        });
        runtime.block_on(spinner).unwrap()
    });
}

/// The same beside tasks from outside, which come more often than the sentinel looks: they claim it before its interval
/// ends, and are always nearer.
#[test]
fn the_task_in_the_slot_of_a_spinning_task_beside_a_flow_from_outside() {
    rounds(1, |runtime, others| {
        let others = others.clone();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    drop(runtime.spawn(async {}));
                    std::thread::sleep(Duration::from_micros(100));
                }
            });
            let spinner = runtime.spawn(async move {
                drop(spawn(others.count_behind_gate()));
                while others.gate.waiting() == 0 {
                    quadrille::task::yield_now().await;
                }
                others.gate.open();
                others.spin(1)
            });
            let outcome = runtime.block_on(spinner).unwrap();
            over.store(true, Ordering::Relaxed);
            outcome
        })
    });
}

#[test]
fn tasks_that_a_spinning_task_woke_before() {
    rounds(TASKS, |runtime, others| {
        let others = others.clone();
        let spinner = runtime.spawn(async move {
            for _ in 0..TASKS {
                drop(spawn(others.count_behind_gate()));
            }
            while others.gate.waiting() < TASKS {
                quadrille::task::yield_now().await;
            }
            others.gate.open();
            others.spin(TASKS)
        });
        runtime.block_on(spinner).unwrap()
    });
}

#[test]
fn tasks_spawned_from_outside_beside_a_spinning_task() {
    rounds(TASKS, |runtime, others| {
        let spins = others.clone();
        let spinner = runtime.spawn(async move { spins.spin(TASKS) });
        others.spins.block();
        for _ in 0..TASKS {
            drop(runtime.spawn(others.count()));
        }
        runtime.block_on(spinner).unwrap()
    });
}

#[test]
fn tasks_woken_from_outside_beside_a_spinning_task() {
    rounds(TASKS, |runtime, others| {
        for _ in 0..TASKS {
            drop(runtime.spawn(others.count_behind_gate()));
        }
        crate::wait::eventually("all tasks wait", || others.gate.waiting() == TASKS);
        let spins = others.clone();
        let spinner = runtime.spawn(async move { spins.spin(TASKS) });
        others.spins.block();
        others.gate.open();
        runtime.block_on(spinner).unwrap()
    });
}

#[test]
fn tasks_woken_by_a_task_beside_a_spinning_task() {
    rounds(TASKS, |runtime, others| {
        for _ in 0..TASKS {
            drop(runtime.spawn(others.count_behind_gate()));
        }
        crate::wait::eventually("all tasks wait", || others.gate.waiting() == TASKS);
        let spins = others.clone();
        let spinner = runtime.spawn(async move { spins.spin(TASKS) });
        others.spins.block();
        let opens = others.clone();
        drop(runtime.spawn(async move { opens.gate.open() }));
        runtime.block_on(spinner).unwrap()
    });
}

#[test]
fn all_workers_but_one_spin() {
    for_each_shape_if(
        |shape| shape.workers > 1 && shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            for nth in 0..ROUNDS {
                let others = Others::default();
                // They block, which is the same to the scheduler, and leaves the machine to the last worker.
                let (met, release) = (Arc::new(std::sync::Barrier::new(shape.workers)), Gate::default());
                for _ in 1..shape.workers {
                    let (met, release, others) = (met.clone(), release.clone(), others.clone());
                    drop(runtime.spawn(async move {
                        for _ in 0..TASKS {
                            drop(spawn(others.count()));
                        }
                        met.wait();
                        release.block();
                    }));
                }
                met.wait();
                let (wait, ran) = others.spin(TASKS * (shape.workers - 1));
                release.open();
                assert_eq!(
                    ran,
                    TASKS * (shape.workers - 1),
                    "round {nth}: tasks that ran while others were stuck"
                );
                assert!(wait < patient(WAIT_MAX), "round {nth}: the last task waited {wait:?}");
            }
        },
    );
}

#[test]
fn every_worker_may_be_held_up_by_a_task_of_its_own() {
    for_each_shape_if(
        |_| true,
        |shape| {
            let runtime = shape.runtime();
            for _ in 0..ROUNDS {
                let tasks = occupy(&runtime).release();
                assert_eq!(tasks.len(), shape.workers);
                for task in tasks {
                    runtime.block_on(task).unwrap();
                }
            }
        },
    );
}

/// A slow task that sees to it, from a thread that is no worker, that there is another one when it ends.
fn slow(handle: Handle, ran: Arc<AtomicUsize>, over: Gate) {
    let next = handle.clone();
    drop(handle.spawn(async move {
        ran.fetch_add(1, Ordering::SeqCst);
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_micros(200) {
            std::hint::spin_loop();
        }
        if !over.is_open() {
            std::thread::spawn(move || slow(next, ran, over)).join().unwrap();
        }
    }));
}

/// A worker whose tasks are slow looks up between any two of them, and here always finds one from outside.
#[test]
fn a_task_that_yields_beside_a_flow_of_slow_tasks_from_outside() {
    for_each_shape_if(
        |shape| shape.workers == 1,
        |shape| {
            let runtime = shape.runtime();
            let (ran, over) = (Arc::new(AtomicUsize::new(0)), Gate::default());
            slow(runtime.handle().clone(), ran.clone(), over.clone());
            // It knows how slow they are once it has looked up.
            crate::wait::eventually("slow tasks run", || ran.load(Ordering::SeqCst) > 200);
            let yielder = runtime.spawn(async {
                for _ in 0..ROUNDS {
                    quadrille::task::yield_now().await;
                }
            });
            let (begin, limit) = (Instant::now(), patient(SPIN_MAX));
            while !yielder.is_finished() && begin.elapsed() < limit {
                std::thread::park_timeout(Duration::from_micros(200));
            }
            let finished = yielder.is_finished();
            over.open();
            let slow = ran.load(Ordering::SeqCst);
            assert!(
                finished,
                "{slow} tasks from outside ran and one of {ROUNDS} turns did not"
            );
        },
    );
}

/// A worker with tasks of its own takes from a long backlog no more than it runs: what it takes goes behind them, and
/// those that come after go behind that.
#[test]
fn a_task_that_yields_beside_a_backlog_from_outside() {
    const BACKLOG: usize = 10_000;
    let runtime = Shape::flat(1).runtime();
    let others = Others::default();
    let begin = Gate::default();
    let yields = runtime.spawn({
        let (others, begin) = (others.clone(), begin.clone());
        async move {
            others.spins.open();
            begin.block();
            let mut yields = 0;
            while others.ran.load(Ordering::SeqCst) < BACKLOG {
                yields += 1;
                quadrille::task::yield_now().await;
            }
            yields
        }
    });
    others.spins.block();
    for _ in 0..BACKLOG {
        drop(runtime.spawn(others.count()));
    }
    begin.open();
    let yields: usize = runtime.block_on(yields).unwrap();
    assert!(
        yields >= BACKLOG / 4,
        "it ran {yields} times while {BACKLOG} others ran"
    );
}
