//! Destructors that panic, spawn, wake and send: none of them may harm a worker or another task.

use std::future::{Future, pending, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Poll};
use std::time::Duration;

use quadrille::sync::mpmc;
use quadrille::task::{TaskTracker, yield_now};
use quadrille::time::sleep;
use quadrille::{Runtime, TaskGroup, Wait as _, select, spawn, thread, try_join};

use crate::blocking::running;
use crate::count::{Count, OnDrop, Token};
use crate::gate::Gate;
use crate::shape::{for_each_shape, for_each_shape_if, occupy};
use crate::wait::eventually;

/// Panics when dropped, if it is armed.
struct Bomb {
    armed: bool,
    _counted: Token,
}

impl Bomb {
    fn new(armed: bool, drops: &Count) -> Self {
        Self {
            armed,
            _counted: drops.token(),
        }
    }

    fn armed(drops: &Count) -> Self {
        Self::new(true, drops)
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(!self.armed, "a destructor panics");
    }
}

/// Every worker is alive and takes tasks.
fn assert_all_workers_alive(runtime: &Runtime) {
    for task in occupy(runtime).release() {
        runtime.block_on(task).unwrap();
    }
}

#[test]
fn a_future_whose_destructor_panics_after_its_end() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let drops = Count::default();
        for _ in 0..shape.workers * 2 {
            let bomb = Bomb::armed(&drops);
            let handle = runtime.spawn(async move {
                let _bomb = &bomb;
            });
            assert!(runtime.block_on(handle).unwrap_err().is_panic());
        }
        assert_eq!(drops.get(), shape.workers * 2);
        assert_all_workers_alive(&runtime);
    });
}

#[test]
fn a_future_whose_destructor_panics_when_aborted() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let drops = Count::default();
        for _ in 0..shape.workers * 2 {
            let bomb = Bomb::armed(&drops);
            let gate = Gate::default();
            let closed = gate.clone();
            let handle = runtime.spawn(async move {
                let _bomb = bomb;
                closed.pass().await;
            });
            eventually("the task is pending", || gate.waiting() == 1);
            handle.abort();
            assert!(runtime.block_on(handle).is_err());
        }
        assert_eq!(drops.get(), shape.workers * 2);
        assert_all_workers_alive(&runtime);
    });
}

#[test]
fn futures_whose_destructors_panic_at_shutdown() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let drops = Count::default();
        let handles: Vec<_> = (0..100)
            .map(|i| {
                let bomb = Bomb::new(i % 2 == 0, &drops);
                runtime.spawn(async move {
                    let _bomb = bomb;
                    pending::<()>().await;
                })
            })
            .collect();
        drop(runtime);
        assert_eq!(drops.get(), 100);
        for handle in handles {
            assert!(handle.is_finished());
            assert!(futures_lite::future::block_on(handle).is_err());
        }
    });
}

#[test]
fn an_output_whose_destructor_panics_in_a_detached_task() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let drops = Count::default();
        for _ in 0..shape.workers * 2 {
            let bomb = Bomb::armed(&drops);
            drop(runtime.spawn(async move { bomb }));
        }
        eventually("the outputs are dropped", || drops.get() == shape.workers * 2);
        assert_all_workers_alive(&runtime);
    });
}

#[test]
fn an_output_whose_destructor_panics_with_its_handle() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let drops = Count::default();
        let bomb = Bomb::armed(&drops);
        let handle = runtime.spawn(async move { bomb });
        eventually("the task is finished", || handle.is_finished());
        // Whose panic this is: the owner's of the handle, whether it sees it or not.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(handle)));
        assert_eq!(drops.get(), 1);
        assert_all_workers_alive(&runtime);
    });
}

#[test]
fn a_payload_whose_destructor_panics_in_a_detached_task() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let drops = Count::default();
        for _ in 0..shape.workers * 2 {
            let bomb = Bomb::armed(&drops);
            drop(runtime.spawn(async move { std::panic::panic_any(bomb) }));
        }
        eventually("the payloads are dropped", || drops.get() == shape.workers * 2);
        assert_all_workers_alive(&runtime);
    });
}

/// Of what a thread's closure has, at each end that does not unwind its stack; one that does aborts at a second panic,
/// as std's.
#[test]
fn what_threads_have_panics_when_it_is_dropped() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let (drops, count) = (Count::default(), shape.workers * 2);
            for _ in 0..count {
                let bomb = Bomb::armed(&drops);
                let ends = runtime.spawn_thread(move || {
                    let _bomb = &bomb;
                    thread::yield_now();
                });
                assert!(ends.join().is_err());
            }
            assert_eq!(drops.get(), count);
            for _ in 0..count {
                let [result, payload] = [(); 2].map(|()| Bomb::armed(&drops));
                drop(runtime.spawn_thread(|| result));
                drop(runtime.spawn_thread(|| std::panic::panic_any(payload)));
            }
            eventually("results and payloads are dropped", || drops.get() == 3 * count);
            let occupied = occupy(&runtime);
            let unstarted: Vec<_> = (0..count)
                .map(|_| {
                    let bomb = Bomb::armed(&drops);
                    runtime.spawn_thread(move || drop(bomb))
                })
                .collect();
            unstarted.iter().for_each(thread::JoinHandle::abort);
            drop(occupied);
            assert!(unstarted.into_iter().all(|thread| thread.join().is_err()));
            assert_eq!(drops.get(), 4 * count);
            assert_all_workers_alive(&runtime);
        },
    );
}

/// Those that have not started when the runtime goes.
#[test]
fn what_unstarted_threads_have_panics_at_shutdown() {
    let runtime = Runtime::builder().worker_threads(1).build().unwrap();
    let drops = Count::default();
    let occupied = occupy(&runtime);
    let threads: Vec<_> = (0..100)
        .map(|i| {
            let bomb = Bomb::new(i % 2 == 0, &drops);
            runtime.spawn_thread(move || drop(bomb))
        })
        .collect();
    runtime.shutdown_background();
    drop(occupied);
    eventually("all are dropped", || drops.get() == 100);
    // Who has begun before the worker saw that it shall leave has panicked, or ended.
    for (i, thread) in threads.into_iter().enumerate() {
        let ended = thread.join();
        assert!(ended.is_err() || i % 2 == 1, "{i}");
    }
}

#[test]
fn destructors_spawn_at_shutdown() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let (futures, refused) = (Count::default(), Count::default());
        for _ in 0..100 {
            let handle = runtime.handle().clone();
            let (second, third) = (futures.token(), futures.token());
            let refused = refused.clone();
            let guard = OnDrop::new(move || {
                let later = handle.spawn(async move {
                    let _second = second;
                    pending::<()>().await;
                });
                let _third = third;
                drop(later);
                refused.add();
            });
            drop(runtime.spawn(async move {
                let _guard = guard;
                pending::<()>().await;
            }));
        }
        drop(runtime);
        assert_eq!(refused.get(), 100);
        assert_eq!(futures.get(), 200);
    });
}

#[test]
fn destructors_find_their_runtime_at_shutdown() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let (dropped, spawned, futures) = (Count::default(), Count::default(), Count::default());
        for _ in 0..100 {
            let (dropped, spawned, token) = (dropped.clone(), spawned.clone(), futures.token());
            let guard = OnDrop::new(move || {
                dropped.add();
                drop(spawn(async move {
                    let _token = token;
                }));
                spawned.add();
            });
            drop(runtime.spawn(async move {
                let _guard = guard;
                pending::<()>().await;
            }));
        }
        drop(runtime);
        assert_eq!(dropped.get(), 100);
        assert_eq!(futures.get(), 100);
        assert_eq!(
            spawned.get(),
            100,
            "`spawn` panicked in a destructor: two of them in a task end the process"
        );
    });
}

#[test]
fn destructors_wake_and_send_at_shutdown() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let (sender, receiver) = mpmc::unbounded::<Token>();
        let (gate, drops, sent) = (Gate::default(), Count::default(), Count::default());
        for i in 0..100 {
            let (gate, sender, sent, token, message) =
                (gate.clone(), sender.clone(), sent.clone(), drops.token(), drops.token());
            let opens = gate.clone();
            let guard = OnDrop::new(move || {
                opens.open();
                // Refused once the receivers are gone; the message is dropped in either case.
                let _ = sender.try_send(message);
                sent.add();
            });
            let receiver = receiver.clone();
            drop(runtime.spawn(async move {
                let (_token, _guard) = (token, guard);
                if i % 2 == 0 {
                    gate.pass().await;
                } else {
                    let _message = receiver.recv().await;
                }
                pending::<()>().await;
            }));
        }
        drop((sender, receiver));
        drop(runtime);
        assert_eq!(sent.get(), 100);
        assert_eq!(drops.get(), 200);
    });
}

/// What sees, when it is dropped, how many are counted, and where it leaves that.
fn seeing(len: impl Fn() -> usize + Send + 'static) -> (impl Send + 'static, Receiver<usize>) {
    let (sender, seen) = channel();
    (OnDrop::new(move || sender.send(len()).unwrap()), seen)
}

#[test]
fn a_closure_that_never_runs_is_tracked_until_all_it_has_captured_is_dropped() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.builder().max_blocking_threads(1).build().unwrap();
            let (job, release) = running(&runtime);
            let tracker = TaskTracker::new();
            let counts = tracker.clone();
            let (sees, seen) = seeing(move || counts.len());
            drop(tracker.spawn_blocking_on(move || drop(sees), runtime.handle()));
            runtime.shutdown_background();
            assert_eq!(seen.recv(), Ok(1), "dropped, and still counted");
            assert!(tracker.is_empty());
            release.open();
            futures_lite::future::block_on(job).unwrap();
        },
    );
}

#[test]
fn a_thread_that_never_runs_is_in_its_group_until_all_it_has_captured_is_dropped() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let group = TaskGroup::new();
            let builder = || thread::Builder::new().group(&group);
            let seeing_group = || {
                let counts = group.clone();
                seeing(move || counts.len())
            };
            let runtime = shape.runtime();
            let occupied = occupy(&runtime);
            let (sees, seen) = seeing_group();
            let thread = builder().spawn_on(move || drop(sees), runtime.handle()).unwrap();
            runtime.shutdown_background();
            drop(occupied);
            assert!(thread.join().is_err());
            assert_eq!((seen.recv(), group.len()), (Ok(1), 0));

            let runtime = shape.runtime();
            let occupied = occupy(&runtime);
            let _entered = runtime.enter();
            let (sees, seen) = seeing_group();
            thread::scope(|scope| {
                let thread = builder().spawn_scoped(scope, move || drop(sees)).unwrap();
                runtime.shutdown_background();
                drop(occupied);
                assert!(thread.join().is_err());
            });
            assert_eq!((seen.recv(), group.len()), (Ok(1), 0));
        },
    );
}

/// A thread drops a result whose destructor waits, and wakes the thread when it goes on: that ends one run of the
/// thread, and another has begun.
#[test]
fn a_destructor_that_waits_hides_no_wake_up_of_its_thread() {
    let runtime = Runtime::builder().worker_threads(1).build().unwrap();
    let waits = runtime.spawn_thread(|| {
        let (tx, rx) = mpmc::bounded(1);
        let result = spawn(async move {
            OnDrop::new(move || {
                sleep(Duration::from_millis(1)).wait();
                tx.send(7).wait().unwrap();
            })
        });
        while !result.is_finished() {
            yield_now().wait();
        }
        let drops = async move { drop(result) };
        let (received, ()) = futures_lite::future::zip(rx.recv(), drops).wait();
        received.unwrap()
    });
    assert_eq!(runtime.block_on(waits).unwrap(), 7);
}

/// Ready with what it has; panics when it is dropped.
struct ReadyBomb {
    value: Option<Token>,
    _bomb: Bomb,
}

impl Future for ReadyBomb {
    type Output = Token;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Token> {
        Poll::Ready(self.value.take().unwrap())
    }
}

/// A way to have what it has.
type Ask = fn(&Runtime, ReadyBomb);

quadrille::task_local! {
    static SCOPED: Bomb;
}

/// What there was to be given is dropped once, by whatever it was asked for.
#[test]
fn what_was_ready_is_dropped_though_a_future_panics_as_it_is_dropped() {
    let runtime = Runtime::builder().worker_threads(1).build().unwrap();
    let bombs = Count::default();
    let pends = |bomb: Bomb| async move {
        let _bomb = bomb;
        pending::<Result<(), Token>>().await
    };
    let asks: [(&str, Ask); 4] = [
        ("block_on", |runtime, future| drop(runtime.block_on(future))),
        ("wait", |_, future| drop(future.wait())),
        ("wait_timeout", |_, future| {
            drop(future.wait_timeout(Duration::from_secs(1000)));
        }),
        ("wait on a user-level thread", |runtime, future| {
            let ended = runtime.spawn_thread(move || drop(future.wait())).join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }),
    ];
    for (what, ask) in asks {
        let values = Count::default();
        let future = ReadyBomb {
            value: Some(values.token()),
            _bomb: Bomb::armed(&bombs),
        };
        let asked = catch_unwind(AssertUnwindSafe(|| ask(&runtime, future)));
        assert_eq!((asked.is_err(), values.get()), (true, 1), "{what}");
    }

    let values = Count::default();
    let (value, bomb) = (values.token(), Bomb::armed(&bombs));
    let selects = async move {
        select! {
            biased;
            value = ready(value) => drop(value),
            _ = pends(bomb) => {}
        }
    };
    assert!(catch_unwind(AssertUnwindSafe(|| runtime.block_on(selects))).is_err());
    assert_eq!(values.get(), 1, "select!");

    let values = Count::default();
    let (value, bomb) = (values.token(), Bomb::armed(&bombs));
    let joins = async move {
        drop(try_join!(biased; pends(bomb), ready(Err::<(), Token>(value))));
    };
    assert!(catch_unwind(AssertUnwindSafe(|| runtime.block_on(joins))).is_err());
    assert_eq!(values.get(), 1, "try_join!");

    let values = Count::default();
    let (value, bomb) = (values.token(), Bomb::armed(&bombs));
    let scopes = || drop(SCOPED.sync_scope(bomb, || value));
    assert!(catch_unwind(AssertUnwindSafe(scopes)).is_err());
    assert_eq!(values.get(), 1, "sync_scope");
    assert_eq!(bombs.get(), 7);
}
