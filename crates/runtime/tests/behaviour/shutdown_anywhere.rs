//! Ending a runtime from every kind of code, in every way: it neither panics nor waits where it must not, and all is
//! dropped.

use std::cell::RefCell;
use std::time::Duration;

use quadrille::{Handle, Runtime, Wait as _};

use crate::count::{Count, OnDrop};
use crate::gate::Gate;
use crate::shape::{Shape, for_each_shape_if};
use crate::wait::eventually;

/// In which code the runtime ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    Task,
    UserLevelThread,
    InPlace,
    BlockOn,
    WaitOnForeignThread,
    BlockingJob,
    ForeignThread,
    DestructorOfThreadLocal,
    DestructorOfThreadLocalOfThePool,
    DestructorAtShutdown,
}

const PLACES: [Code; 10] = [
    Code::Task,
    Code::UserLevelThread,
    Code::InPlace,
    Code::BlockOn,
    Code::WaitOnForeignThread,
    Code::BlockingJob,
    Code::ForeignThread,
    Code::DestructorOfThreadLocal,
    Code::DestructorOfThreadLocalOfThePool,
    Code::DestructorAtShutdown,
];

impl Code {
    /// Asynchronous code, or a thread that others need: to wait there would hold up what the end waits for.
    fn must_not_wait(self) -> bool {
        !matches!(
            self,
            Self::BlockingJob
                | Self::ForeignThread
                | Self::DestructorOfThreadLocal
                | Self::DestructorOfThreadLocalOfThePool
        )
    }
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Drop,
    Timeout,
    Background,
}

fn end(runtime: Runtime, way: Way) {
    match way {
        Way::Drop => drop(runtime),
        Way::Timeout => _ = runtime.shutdown_timeout(Duration::from_secs(600)),
        Way::Background => runtime.shutdown_background(),
    }
}

/// What a thread does when it ends.
type LastAct = OnDrop<Box<dyn FnOnce()>>;

thread_local! {
    static AT_THE_END: RefCell<Option<LastAct>> = const { RefCell::new(None) };
}

/// Calls `f` in code of that kind, on the runtime behind `on` where it takes one. `ended`: it has returned.
fn run(place: Code, on: &Handle, f: impl FnOnce() + Send + 'static, ended: &Gate) {
    let ended = ended.clone();
    let f = move || {
        f();
        ended.open();
    };
    match place {
        Code::Task => drop(on.spawn(async move { f() })),
        Code::UserLevelThread => drop(on.spawn_thread(f)),
        Code::InPlace => drop(on.spawn(async move { quadrille::task::block_in_place(f) })),
        Code::BlockOn => on.block_on(async move { f() }),
        Code::WaitOnForeignThread => async move { f() }.wait(),
        Code::BlockingJob => drop(on.spawn_blocking(f)),
        Code::ForeignThread => drop(std::thread::spawn(f)),
        Code::DestructorOfThreadLocal => drop(std::thread::spawn(move || {
            AT_THE_END.with(|at_the_end| *at_the_end.borrow_mut() = Some(OnDrop::new(Box::new(f))));
        })),
        Code::DestructorOfThreadLocalOfThePool => drop(on.spawn_blocking(move || {
            AT_THE_END.with(|at_the_end| *at_the_end.borrow_mut() = Some(OnDrop::new(Box::new(f))));
        })),
        Code::DestructorAtShutdown => {
            let last = Shape::flat(2).runtime();
            let polled = Gate::default();
            let opens = polled.clone();
            let dropped = OnDrop::new(f);
            drop(last.spawn(async move {
                let _dropped = dropped;
                opens.open();
                std::future::pending::<()>().await;
            }));
            polled.block();
            last.shutdown_background();
        }
    }
}

fn check(shape: &Shape, place: Code, way: Way, own: bool) {
    // Threads of the pool that are idle leave soon.
    let built = |shape: &Shape| {
        shape
            .builder()
            .thread_keep_alive(Duration::from_millis(1))
            .build()
            .unwrap()
    };
    let (runtime, other) = (built(shape), built(&Shape::flat(2)));
    let (drops, waiting, job, released) = (Count::default(), Count::default(), Gate::default(), Count::default());
    for _ in 0..10 {
        let (tokens, waits) = ((drops.token(), drops.token()), (waiting.clone(), waiting.clone()));
        let (task, thread) = (tokens.0, tokens.1);
        drop(runtime.spawn(async move {
            let _token = task;
            waits.0.add();
            std::future::pending::<()>().await;
        }));
        drop(runtime.spawn_thread(move || {
            let _token = thread;
            waits.1.add();
            std::future::pending::<()>().wait();
        }));
    }
    eventually("all wait", || waiting.get() == 20);
    if place.must_not_wait() {
        // To wait would be to wait for ever: it is let go after the end.
        let (job, released, started) = (job.clone(), released.clone(), Gate::default());
        let starts = started.clone();
        drop(runtime.spawn_blocking(move || {
            starts.open();
            job.block();
            released.add();
        }));
        started.block();
    }
    let handle = if own {
        runtime.handle().clone()
    } else {
        other.handle().clone()
    };
    let ended = Gate::default();
    run(place, &handle, move || end(runtime, way), &ended);
    eventually("the end has returned", || ended.is_open());
    job.open();
    eventually("all are dropped", || drops.get() == 20);
    eventually("the job has ended", || {
        released.get() == usize::from(place.must_not_wait())
    });
    // The other one is none the worse.
    assert_eq!(other.block_on(async { 5 }), 5);
}

#[test]
fn in_every_place_and_way() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            for place in PLACES {
                for way in [Way::Drop, Way::Timeout, Way::Background] {
                    for own in [false, true] {
                        check(shape, place, way, own);
                    }
                }
            }
        },
    );
}

/// A thread of the pool that has left drops the runtime, and waits for the last job: whose thread leaves after it.
#[test]
fn by_a_thread_of_the_pool_that_has_left_while_another_has_a_job() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape
                .builder()
                .thread_keep_alive(Duration::from_millis(1))
                .build()
                .unwrap();
            let handle = runtime.handle().clone();
            let (started, ends, ended) = (Gate::default(), Gate::default(), Gate::default());
            let (starts, is_ending, asks) = (started.clone(), ends.clone(), handle.clone());
            let job = handle.spawn_blocking(move || {
                starts.open();
                is_ending.block();
                // Until the pool stops, which refuses it.
                eventually("the end waits for this job", || {
                    asks.spawn_blocking(|| ()).wait().is_err()
                });
            });
            started.block();
            run(
                Code::DestructorOfThreadLocalOfThePool,
                &handle,
                move || {
                    ends.open();
                    drop(runtime);
                },
                &ended,
            );
            eventually("the end has returned", || ended.is_open());
            job.wait().unwrap();
        },
    );
}
