//! `Barrier` and `OnceCell` of `quadrille::sync`: tasks, user-level threads and ordinary threads at one of them.

use std::pin::pin;
use std::sync::Arc;

use quadrille::sync::{Barrier, OnceCell};
use quadrille::{Runtime, Wait as _, task, thread};

use crate::count::Count;
use crate::gate::Gate;
use crate::shape::for_each_shape_if;
use crate::wait::{eventually, watched};

const ROUNDS: usize = 40;

/// Of each kind.
const COME: usize = 2;

/// A barrier, and how often somebody has come to it, and led.
#[derive(Debug)]
struct Place {
    barrier: Barrier,
    come: Count,
    leads: Count,
}

impl Place {
    fn new(size: usize) -> Arc<Self> {
        Arc::new(Self {
            barrier: Barrier::new(size),
            come: Count::default(),
            leads: Count::default(),
        })
    }

    /// All have come as often as this one, at least, and at most once more.
    fn check(&self, size: usize, round: usize, leads: bool) {
        let come = self.come.get();
        assert!(
            (round * size..=(round + 1) * size).contains(&come),
            "{come} in round {round}"
        );
        if leads {
            self.leads.add();
        }
    }

    async fn tasked(self: Arc<Self>, size: usize) {
        for round in 1..=ROUNDS {
            task::yield_now().await;
            self.come.add();
            let result = self.barrier.wait().await;
            self.check(size, round, result.is_leader());
        }
    }

    fn threaded(&self, size: usize, gives_way: fn()) {
        for round in 1..=ROUNDS {
            gives_way();
            self.come.add();
            let result = if round % 2 == 0 {
                self.barrier.wait_blocking()
            } else {
                self.barrier.wait().wait()
            };
            self.check(size, round, result.is_leader());
        }
    }
}

#[test]
fn all_kinds_meet_round_after_round() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let size = 3 * COME;
            let place = Place::new(size);
            let ordinary = [(); COME].map(|()| {
                let place = place.clone();
                std::thread::spawn(move || place.threaded(size, std::thread::yield_now))
            });
            let threads = [(); COME].map(|()| {
                let place = place.clone();
                runtime.spawn_thread(move || place.threaded(size, thread::yield_now))
            });
            let tasks = [(); COME].map(|()| runtime.spawn(place.clone().tasked(size)));
            ordinary.into_iter().for_each(|thread| thread.join().unwrap());
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
            assert_eq!(place.leads.get(), ROUNDS);
        },
    );
}

/// Both are bound to the only worker.
#[test]
fn waiting_in_blocking_style_at_a_barrier_suspends_a_user_level_thread() {
    watched("barrier, blocking style", || {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        let barrier = Arc::new(Barrier::new(2));
        let threads = [(); 2].map(|()| {
            let barrier = barrier.clone();
            runtime.spawn_thread(move || barrier.wait_blocking().is_leader())
        });
        let leads = threads.map(|thread| thread.join().unwrap());
        assert_ne!(leads[0], leads[1]);
    });
}

/// It stays counted, as a task that is dropped does.
#[test]
fn who_is_aborted_at_a_barrier_lets_the_others_go_on() {
    watched("aborted", || {
        let runtime = Runtime::builder().worker_threads(2).build().unwrap();
        let barrier = Arc::new(Barrier::new(3));
        let (at_thread, at_task) = (barrier.clone(), barrier.clone());
        let thread = runtime.spawn_thread(move || at_thread.wait_blocking());
        let task = runtime.spawn(async move { at_task.wait().await });
        eventually("both have come", || format!("{barrier:?}").contains("arrived: 2"));
        thread.abort();
        task.abort();
        assert!(thread.join().is_err() && runtime.block_on(task).is_err());
        assert!(barrier.wait_blocking().is_leader());
    });
}

#[test]
fn a_value_is_made_once_for_all_kinds() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            for _ in 0..20 {
                let (cell, made) = (Arc::new(OnceCell::new()), Count::default());
                let mut tasks = Vec::new();
                let mut threads = Vec::new();
                let mut ordinary = Vec::new();
                for id in 0..4_usize {
                    let (tasked, counts) = (cell.clone(), made.clone());
                    tasks.push(runtime.spawn(async move {
                        let make = async || {
                            task::yield_now().await;
                            // The first turn of each kind fails.
                            if counts.add() < 2 { Err(()) } else { Ok(id) }
                        };
                        match id {
                            0 => *tasked.wait().await,
                            _ => loop {
                                if let Ok(value) = tasked.get_or_try_init(&make).await {
                                    break *value;
                                }
                            },
                        }
                    }));
                    let (threaded, counts) = (cell.clone(), made.clone());
                    let thread = move || match id {
                        0 => *threaded.wait_blocking(),
                        1 => *pin!(threaded.wait()).wait(),
                        _ => *threaded.get_or_init_blocking(|| {
                            thread::yield_now();
                            counts.add();
                            10 + id
                        }),
                    };
                    threads.push(runtime.spawn_thread(thread.clone()));
                    ordinary.push(std::thread::spawn(thread));
                }
                let mut values: Vec<usize> = ordinary.into_iter().map(|thread| thread.join().unwrap()).collect();
                values.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
                values.extend(tasks.into_iter().map(|task| runtime.block_on(task).unwrap()));
                assert!(values.iter().all(|value| Some(value) == cell.get()), "{values:?}");
                assert!(made.get() <= 3, "two have failed, and one has not");
            }
        },
    );
}

/// Who makes the value, who would make it and who waits for it are bound to the only worker. The first one is suspended
/// while it makes it.
#[test]
fn waiting_in_blocking_style_for_a_value_suspends_a_user_level_thread() {
    watched("value, blocking style", || {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        let (cell, gate, begun) = (Arc::new(OnceCell::new()), Gate::default(), Count::default());
        let makes = {
            let (cell, gate) = (cell.clone(), gate.clone());
            runtime.spawn_thread(move || {
                *cell.get_or_init_blocking(|| {
                    gate.pass().wait();
                    1
                })
            })
        };
        eventually("it is being made", || gate.waiting() > 0);
        let others = [false, true].map(|waits| {
            let (cell, begun) = (cell.clone(), begun.clone());
            runtime.spawn_thread(move || {
                begun.add();
                if waits {
                    *cell.wait_blocking()
                } else {
                    cell.set_blocking(2).unwrap_err()
                }
            })
        });
        eventually("the others wait", || begun.get() == 2);
        gate.open();
        assert_eq!(makes.join().unwrap(), 1);
        let mut got = others.map(|thread| thread.join().unwrap());
        got.sort_unstable();
        assert_eq!(got, [1, 2]);
    });
}

#[test]
fn who_is_aborted_while_it_makes_the_value_leaves_it_to_the_next() {
    watched("aborted maker", || {
        let runtime = Runtime::builder().worker_threads(2).build().unwrap();
        let (cell, gate) = (Arc::new(OnceCell::new()), Gate::default());
        let (at_thread, passes) = (cell.clone(), gate.clone());
        let makes = runtime.spawn_thread(move || {
            at_thread.get_or_init_blocking(|| {
                passes.pass().wait();
                1
            });
        });
        eventually("a thread makes it", || gate.waiting() > 0);
        let (at_task, begun) = (cell.clone(), Gate::default());
        let begins = begun.clone();
        let next = runtime.spawn(async move {
            at_task
                .get_or_init(async || {
                    begins.open();
                    std::future::pending().await
                })
                .await;
        });
        makes.abort();
        assert!(makes.join().is_err());
        begun.block();
        assert_eq!(cell.try_set(2), Err(2), "a task makes it");
        next.abort();
        assert!(runtime.block_on(next).is_err());
        assert_eq!(cell.set_blocking(3), Ok(&3));
    });
}
