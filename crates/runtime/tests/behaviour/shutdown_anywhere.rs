//! Ending a runtime from every kind of code, in every way: it neither panics nor waits where it must not, and all is dropped.

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
    DestructorAtShutdown,
}

const PLACES: [Code; 9] = [
    Code::Task,
    Code::UserLevelThread,
    Code::InPlace,
    Code::BlockOn,
    Code::WaitOnForeignThread,
    Code::BlockingJob,
    Code::ForeignThread,
    Code::DestructorOfThreadLocal,
    Code::DestructorAtShutdown,
];

impl Code {
    /// Asynchronous code, or a thread that others need: to wait there would hold up what the end waits for.
    fn must_not_wait(self) -> bool {
        !matches!(
            self,
            Self::BlockingJob | Self::ForeignThread | Self::DestructorOfThreadLocal
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
    let (runtime, other) = (shape.runtime(), Shape::flat(2).runtime());
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
