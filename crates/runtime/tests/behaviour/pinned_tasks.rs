//! Tasks that stay with one worker: whatever ends them, and whenever, what they own is dropped there, once.

use std::rc::Rc;
use std::sync::mpsc;
use std::thread::ThreadId;

use quadrille::sync::mpmc;
use quadrille::task::{block_in_place, spawn_local, spawn_pinned, yield_now};
use quadrille::{JoinHandle, Runtime};

use crate::count::{Count, OnDrop};
use crate::gate::Gate;
use crate::shape::{Shape, for_each_shape, for_each_shape_if, occupy};
use crate::wait::eventually;

fn here() -> ThreadId {
    std::thread::current().id()
}

/// How the task comes to its worker.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Spawned there.
    Local,
    /// Where it runs first.
    Pinned,
    /// On the worker that is asked for.
    Named,
}

/// How far it has come when something happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Unstarted,
    Suspended,
    Running,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Finishes,
    Panics,
    Aborted,
    HandleDropped,
    RuntimeDropped,
}

/// What a task and its test share.
#[derive(Clone, Debug, Default)]
struct Script {
    drops: Count,
    elsewhere: Count,
    started: Gate,
    /// Blocks its worker.
    hold: Gate,
    /// Lets it wait.
    wait: Gate,
    panics: bool,
}

impl Script {
    /// Not `Send`: counts its drop, and whether that is elsewhere.
    fn witness(&self) -> impl Drop + use<> {
        let (born, token, elsewhere, rc) = (here(), self.drops.token(), self.elsewhere.clone(), Rc::new(()));
        OnDrop::new(move || {
            drop((token, rc));
            if here() != born {
                elsewhere.add();
            }
        })
    }

    async fn run(self, witness: impl Drop) {
        let _witness = witness;
        let (inside, born) = (self.witness(), here());
        self.started.open();
        self.hold.block();
        self.wait.pass().await;
        assert_eq!(here(), born);
        drop(inside);
        assert!(!self.panics, "as the script says");
    }
}

/// A task in its worker's hands that has not begun, and what lets it.
struct Ready {
    task: JoinHandle<()>,
    lets: Box<dyn FnOnce()>,
}

fn spawn(runtime: &Runtime, kind: Kind, script: Script) -> Ready {
    let make = {
        let script = script.clone();
        move || script.clone().run(script.witness())
    };
    match kind {
        Kind::Pinned | Kind::Named => {
            let occupied = occupy(runtime);
            let last = runtime.handle().worker_count() - 1;
            let task = match kind {
                Kind::Named => runtime.handle().spawn_pinned_on(last, make),
                _ => runtime.handle().spawn_pinned(make),
            };
            Ready {
                task,
                lets: Box::new(move || drop(occupied.release())),
            }
        }
        Kind::Local => {
            let (sender, receiver) = mpsc::channel();
            let gate = Gate::default();
            let held = gate.clone();
            drop(runtime.handle().spawn_pinned(move || async move {
                sender.send(spawn_local(make())).unwrap();
                held.block();
            }));
            Ready {
                task: receiver.recv().unwrap(),
                lets: Box::new(move || gate.open()),
            }
        }
    }
}

fn check(shape: &Shape, kind: Kind, stage: Stage, event: Event) {
    let what = format!("{kind:?} {stage:?} {event:?}");
    let mut runtime = Some(shape.runtime());
    let script = Script {
        panics: event == Event::Panics,
        ..Script::default()
    };
    let Ready { task, lets } = spawn(runtime.as_ref().unwrap(), kind, script.clone());
    let mut lets = Some(lets);
    if stage != Stage::Unstarted {
        if stage == Stage::Suspended {
            script.hold.open();
        }
        lets.take().unwrap()();
        eventually(&what, || script.started.is_open());
    }
    if stage == Stage::Suspended {
        eventually(&what, || script.wait.waiting() == 1);
    }
    let mut task = Some(task);
    match event {
        Event::Finishes | Event::Panics => script.wait.open(),
        Event::Aborted => task.as_ref().unwrap().abort(),
        Event::HandleDropped => {
            drop(task.take());
            script.wait.open();
        }
        Event::RuntimeDropped if stage == Stage::Suspended => drop(runtime.take()),
        Event::RuntimeDropped => runtime.take().unwrap().shutdown_background(),
    }
    script.hold.open();
    if let Some(lets) = lets {
        lets();
    }
    if let Some(task) = task {
        let result = futures_lite::future::block_on(task);
        match event {
            Event::Finishes => result.unwrap(),
            Event::Panics => assert!(result.unwrap_err().is_panic(), "{what}"),
            _ => assert!(result.unwrap_err().is_cancelled(), "{what}"),
        }
    }
    if event == Event::HandleDropped {
        eventually(&what, || script.started.is_open());
    }
    // One is made before the first run, where that is on the worker; the other in it.
    let started = script.started.is_open();
    let expected = usize::from(started) + usize::from(started || matches!(kind, Kind::Local));
    eventually(&what, || script.drops.get() == expected);
    drop(runtime);
    assert_eq!((script.drops.get(), script.elsewhere.get()), (expected, 0), "{what}");
}

#[test]
fn what_they_own_is_dropped_there_once() {
    use Event::{Aborted, Finishes, HandleDropped, Panics, RuntimeDropped};
    use Stage::{Running, Suspended, Unstarted};
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            for kind in [Kind::Local, Kind::Pinned, Kind::Named] {
                for stage in [Unstarted, Suspended, Running] {
                    for event in [Finishes, Panics, Aborted, HandleDropped, RuntimeDropped] {
                        check(shape, kind, stage, event);
                    }
                }
            }
        },
    );
}

/// Wakes from other workers, from foreign threads, and by giving way, all at once.
#[test]
fn they_stay_where_they_are() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let tasks: Vec<_> = (0..50)
            .map(|i| {
                let (sender, receiver) = mpmc::bounded(1);
                let feed = async move {
                    for n in 0..20 {
                        sender.send(n).await.unwrap();
                        yield_now().await;
                    }
                };
                if i % 2 == 0 {
                    drop(runtime.spawn(feed));
                } else {
                    drop(std::thread::spawn(move || futures_lite::future::block_on(feed)));
                }
                runtime.handle().spawn_pinned(move || async move {
                    let (born, sum) = (here(), Rc::new(std::cell::Cell::new(0)));
                    let local = spawn_local({
                        let sum = sum.clone();
                        async move {
                            while let Ok(n) = receiver.recv().await {
                                assert_eq!(here(), born);
                                sum.set(sum.get() + n);
                            }
                            // Not `Send`: its handle stays, too.
                            sum
                        }
                    });
                    let same = local.await.unwrap();
                    assert!(Rc::ptr_eq(&same, &sum) && here() == born);
                    sum.get()
                })
            })
            .collect();
        for task in tasks {
            assert_eq!(runtime.block_on(task).unwrap(), 190);
        }
        assert_eq!(runtime.metrics().living_threads, 0);
    });
}

#[test]
fn a_worker_is_named_from_anywhere() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let number = || async {
            let thread = std::thread::current();
            let name = thread.name().unwrap();
            name.rsplit('-').next().unwrap().parse::<usize>().unwrap()
        };
        let workers = shape.workers;
        let handle = runtime.handle().clone();
        let on = move |worker| handle.spawn_pinned_on(worker, number);
        let (from_task, from_thread) = (on.clone(), on.clone());
        for worker in 0..workers {
            assert_eq!(runtime.block_on(on(worker)).unwrap(), worker);
        }
        let in_task = runtime.spawn(async move {
            for worker in 0..workers {
                assert_eq!(from_task(worker).await.unwrap(), worker);
            }
        });
        let in_thread = runtime.spawn_thread(move || {
            for worker in 0..workers {
                assert_eq!(quadrille::Wait::wait(from_thread(worker)).unwrap(), worker);
            }
        });
        runtime.block_on(in_task).unwrap();
        in_thread.join().unwrap();
        let wrong = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| on(workers)));
        assert!(wrong.is_err(), "there is no worker {workers}");
    });
}

#[test]
fn a_local_task_needs_a_worker() {
    let runtime = Shape::flat(2).runtime();
    let refused = || std::panic::catch_unwind(|| drop(spawn_local(async {}))).is_err();
    assert!(refused());
    assert!(runtime.block_on(async { refused() }));
    assert!(runtime.block_on(runtime.spawn_blocking(refused)).unwrap());
    assert!(
        runtime
            .block_on(runtime.spawn(async move { block_in_place(refused) }))
            .unwrap()
    );
    assert!(!runtime.block_on(runtime.spawn(async move { refused() })).unwrap());
    assert!(!runtime.spawn_thread(refused).join().unwrap());
}

/// Whoever runs tasks in place of workers that block can't be an owner.
#[test]
fn they_begin_on_a_worker_though_all_block() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let (blocking, gate) = (Count::default(), Gate::default());
            for _ in 0..shape.workers {
                let (blocking, gate) = (blocking.clone(), gate.clone());
                drop(runtime.spawn(async move {
                    block_in_place(|| {
                        blocking.add();
                        gate.block();
                    });
                }));
            }
            eventually("all block", || blocking.get() == shape.workers);
            let _current = runtime.enter();
            let task = spawn_pinned(|| async {
                let rc = Rc::new(1);
                yield_now().await;
                *rc
            });
            // Others are run meanwhile.
            assert_eq!(runtime.block_on(runtime.spawn(async { 2 })).unwrap(), 2);
            gate.open();
            assert_eq!(runtime.block_on(task).unwrap(), 1);
        },
    );
}

/// A waker may be used and dropped long after the task, and its worker.
#[test]
fn their_wakers_outlive_them() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let (sender, wakers) = mpsc::channel();
        let task = runtime.handle().spawn_pinned(move || async move {
            let rc = Rc::new(());
            std::future::poll_fn(|cx| {
                sender.send(cx.waker().clone()).unwrap();
                if Rc::strong_count(&rc) == 1 {
                    return std::task::Poll::Ready(());
                }
                std::task::Poll::Pending
            })
            .await;
        });
        runtime.block_on(task).unwrap();
        let waker = wakers.recv().unwrap();
        waker.wake_by_ref();
        drop(runtime);
        waker.wake();
    });
}
