//! The matrix of a user-level thread's life: what happens to it × what its owner does with the handle, counting
//! everything.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use quadrille::task::JoinError;
use quadrille::thread::{self, AbortHandle, JoinHandle};
use quadrille::{Runtime, Wait as _};

use crate::count::{Count, OnDrop, Token};
use crate::gate::Gate;
use crate::shape::{Shape, for_each_shape_if, occupy};
use crate::wait::eventually;

/// What happens to the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    EndsAtOnce,
    EndsAfterWaiting,
    PanicsAtOnce,
    PanicsAfterWaiting,
    AbortedBeforeItStarts,
    AbortedWhileItWaits,
    /// And it then waits.
    AbortedWhileItRuns,
    /// And it then ends.
    AbortedWhileItEnds,
    RuntimeDroppedBeforeItStarts,
    RuntimeDroppedWhileItWaits,
    /// And it then waits.
    RuntimeDroppedWhileItRuns,
    /// And it then ends.
    RuntimeDroppedWhileItEnds,
}

use Event::{
    AbortedBeforeItStarts, AbortedWhileItEnds, AbortedWhileItRuns, AbortedWhileItWaits, EndsAfterWaiting, EndsAtOnce,
    PanicsAfterWaiting, PanicsAtOnce, RuntimeDroppedBeforeItStarts, RuntimeDroppedWhileItEnds,
    RuntimeDroppedWhileItRuns, RuntimeDroppedWhileItWaits,
};

const EVENTS: [Event; 12] = [
    EndsAtOnce,
    EndsAfterWaiting,
    PanicsAtOnce,
    PanicsAfterWaiting,
    AbortedBeforeItStarts,
    AbortedWhileItWaits,
    AbortedWhileItRuns,
    AbortedWhileItEnds,
    RuntimeDroppedBeforeItStarts,
    RuntimeDroppedWhileItWaits,
    RuntimeDroppedWhileItRuns,
    RuntimeDroppedWhileItEnds,
];

/// What the owner of the handle does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// Joins it on a thread of the operating system, from before the event on.
    Joins,
    /// The same on a user-level thread of another runtime.
    JoinsOnAnother,
    /// The same on one of the same runtime, which may end before it is told.
    JoinsBeside,
    /// Awaits it in a task of another runtime, from before the event on.
    Awaits,
    /// The same, and is aborted before the event.
    AwaitsAndIsAborted,
    /// Joins it after the event.
    Holds,
    /// Drops the handle before the event.
    Detaches,
}

const OWNERS: [Owner; 7] = [
    Owner::Joins,
    Owner::JoinsOnAnother,
    Owner::JoinsBeside,
    Owner::Awaits,
    Owner::AwaitsAndIsAborted,
    Owner::Holds,
    Owner::Detaches,
];

/// What a joiner gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Value,
    Panic,
    Cancelled,
}

const PAYLOAD: &str = "on purpose";

impl Event {
    fn ending(self) -> Ending {
        match self {
            EndsAtOnce | EndsAfterWaiting | AbortedWhileItEnds | RuntimeDroppedWhileItEnds => Ending::Value,
            PanicsAtOnce | PanicsAfterWaiting => Ending::Panic,
            AbortedBeforeItStarts | AbortedWhileItWaits | AbortedWhileItRuns => Ending::Cancelled,
            RuntimeDroppedBeforeItStarts | RuntimeDroppedWhileItWaits | RuntimeDroppedWhileItRuns => Ending::Cancelled,
        }
    }

    fn waits(self) -> bool {
        !matches!(
            self,
            EndsAtOnce | PanicsAtOnce | AbortedWhileItEnds | RuntimeDroppedWhileItEnds
        )
    }

    fn blocks_first(self) -> bool {
        matches!(
            self,
            AbortedWhileItRuns | AbortedWhileItEnds | RuntimeDroppedWhileItRuns | RuntimeDroppedWhileItEnds
        )
    }

    /// Whether the runtime ends with the thread.
    fn ends_all(self) -> bool {
        matches!(
            self,
            RuntimeDroppedBeforeItStarts
                | RuntimeDroppedWhileItWaits
                | RuntimeDroppedWhileItRuns
                | RuntimeDroppedWhileItEnds
        )
    }

    /// Whether it happens before the thread starts.
    fn comes_first(self) -> bool {
        matches!(self, AbortedBeforeItStarts | RuntimeDroppedBeforeItStarts)
    }
}

/// What is counted, and where it happened.
#[derive(Clone, Default)]
struct Witness {
    captured: Count,
    on_stack: Count,
    results: Count,
    started: Count,
    /// Joiners on the same runtime that were told.
    told: Count,
    /// The OS threads on which the thread began, and on which what was on its stack was dropped.
    places: Arc<Mutex<Vec<ThreadId>>>,
}

impl Witness {
    fn here(&self) {
        self.places.lock().unwrap().push(std::thread::current().id());
    }

    /// The body of a thread to which `event` happens.
    fn body(&self, event: Event, gate: Gate, holds: Gate) -> impl FnOnce() -> Token + Send + 'static {
        let (witness, captured) = (self.clone(), self.captured.token());
        move || {
            let _captured = captured;
            witness.here();
            let dropped = witness.clone();
            let _on_stack = (witness.on_stack.token(), OnDrop::new(move || dropped.here()));
            witness.started.add();
            if event.blocks_first() {
                holds.block();
            }
            if event.waits() {
                gate.pass().wait();
            }
            if event.ending() == Ending::Panic {
                panic_any(PAYLOAD);
            }
            witness.results.token()
        }
    }
}

fn check_ending(result: std::thread::Result<Token>, expected: Ending) {
    match (result, expected) {
        (Ok(_), Ending::Value) => {}
        (Err(payload), Ending::Panic) => assert_eq!(payload.downcast_ref::<&str>(), Some(&PAYLOAD)),
        (Err(payload), Ending::Cancelled) => {
            assert!(payload.downcast_ref::<JoinError>().is_some_and(JoinError::is_cancelled));
        }
        (result, expected) => panic!("{expected:?} was expected, not {:?}", result.map(|_| "a value")),
    }
}

/// Lets the event happen. All that is left to do afterwards is to look.
fn happen(
    event: Event,
    runtime: Runtime,
    witness: &Witness,
    gate: &Gate,
    holds: &Gate,
    (handle, abort, occupied): (Option<&JoinHandle<Token>>, &AbortHandle, Option<impl Sized>),
    beside: usize,
) {
    match event {
        EndsAtOnce | PanicsAtOnce => {}
        AbortedBeforeItStarts => {
            abort.abort();
            drop(occupied);
            eventually("it is dropped", || witness.captured.get() == 1);
            assert_eq!(witness.started.get(), 0);
        }
        AbortedWhileItWaits => {
            eventually("it waits", || gate.waiting() > 0);
            abort.abort();
        }
        AbortedWhileItRuns | AbortedWhileItEnds => {
            eventually("it runs", || witness.started.get() == 1);
            abort.abort();
            holds.open();
        }
        EndsAfterWaiting | PanicsAfterWaiting => {
            eventually("it waits", || gate.waiting() > 0);
            gate.open();
        }
        // A worker that is let go may start it before it sees that it shall leave: then it waits, and comes to the same
        // end.
        RuntimeDroppedBeforeItStarts => return runtime.shutdown_background(),
        RuntimeDroppedWhileItWaits => {
            eventually("it waits", || gate.waiting() > 0);
            return drop(runtime);
        }
        RuntimeDroppedWhileItRuns | RuntimeDroppedWhileItEnds => {
            eventually("it runs", || witness.started.get() == 1);
            runtime.shutdown_background();
            return holds.open();
        }
    }
    eventually("it has ended", || {
        let ended = handle.is_none_or(JoinHandle::is_finished) && witness.captured.get() == 1;
        ended && witness.told.get() == beside
    });
    drop(runtime);
}

/// Who joins, from before the event on: waiting for it gives what it was told.
type Joiner = Box<dyn FnOnce() -> std::thread::Result<Token>>;

/// Lets the owner do what it does before the event. The handle is taken unless the owner holds it.
fn begin(
    owner: Owner,
    handle: &mut Option<JoinHandle<Token>>,
    [here, elsewhere]: [&Runtime; 2],
    told: &Count,
) -> Option<Joiner> {
    let mut take = || handle.take().expect("it is taken once");
    match owner {
        Owner::Joins => {
            let handle = take();
            let joins = std::thread::spawn(move || handle.join());
            Some(Box::new(move || joins.join().unwrap()))
        }
        Owner::JoinsOnAnother => {
            let handle = take();
            let joins = elsewhere.spawn_thread(move || handle.join());
            Some(Box::new(move || joins.join().unwrap()))
        }
        Owner::JoinsBeside => {
            let handle = take();
            let was_told = told.clone();
            let joins = here.spawn_thread(move || {
                let ending = handle.join();
                was_told.add();
                ending
            });
            Some(Box::new(move || joins.join().unwrap_or_else(Err)))
        }
        Owner::Awaits => {
            let awaits = elsewhere.spawn(take());
            let as_panic = |error: JoinError| error.try_into_panic().unwrap_or_else(|error| Box::new(error));
            Some(Box::new(move || awaits.wait().unwrap().map_err(as_panic)))
        }
        Owner::AwaitsAndIsAborted => {
            let awaits = elsewhere.spawn(take());
            awaits.abort();
            // It may have been told already.
            drop(awaits.wait());
            None
        }
        Owner::Holds => None,
        Owner::Detaches => {
            drop(take());
            None
        }
    }
}

fn check(shape: &Shape, event: Event, owner: Owner) {
    let (runtime, elsewhere) = (shape.runtime(), Shape::flat(1).runtime());
    let (witness, gate, holds) = (Witness::default(), Gate::default(), Gate::default());
    let occupied = event.comes_first().then(|| occupy(&runtime));
    let mut handle = Some(runtime.spawn_thread(witness.body(event, gate.clone(), holds.clone())));
    let abort = handle.as_ref().unwrap().abort_handle();
    let joiner = begin(owner, &mut handle, [&runtime, &elsewhere], &witness.told);
    happen(
        event,
        runtime,
        &witness,
        &gate,
        &holds,
        (handle.as_ref(), &abort, occupied),
        usize::from(owner == Owner::JoinsBeside),
    );
    eventually("all is dropped", || witness.captured.get() == 1);
    if let Some(joiner) = joiner {
        let told = joiner();
        // A joiner that ends with the runtime may be told of its own end alone.
        let is_its_own = owner == Owner::JoinsBeside && event.ends_all() && told.is_err();
        check_ending(told, if is_its_own { Ending::Cancelled } else { event.ending() });
    }
    if let Some(handle) = handle {
        eventually("it has ended", || handle.is_finished());
        check_ending(handle.join(), event.ending());
    }
    let started = witness.started.get();
    assert_eq!(witness.on_stack.get(), started);
    eventually("results are dropped", || {
        witness.results.get() == usize::from(event.ending() == Ending::Value)
    });
    let places = witness.places.lock().unwrap();
    assert_eq!(places.len(), 2 * started);
    assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
    assert!(!places.contains(&std::thread::current().id()));
    // Too late for all of them. They are told a moment before the thread has ended.
    eventually("the abort handle knows", || abort.is_finished());
    abort.abort();
}

#[test]
fn every_event_with_every_owner() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            for event in EVENTS {
                for owner in OWNERS {
                    check(shape, event, owner);
                }
            }
        },
    );
}

/// Threads join tasks and threads, tasks await threads and tasks.
#[test]
fn all_join_all() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let thread = runtime.spawn_thread(|| {
                let task = quadrille::spawn(async {
                    let thread = thread::spawn(|| 1);
                    thread.await.unwrap() + 1
                });
                let thread = thread::spawn(|| thread::spawn(|| 10).join().unwrap() + 10);
                task.wait().unwrap() + thread.wait().unwrap()
            });
            assert_eq!(thread.join().unwrap(), 22);
            assert_eq!(runtime.block_on(async { thread::spawn(|| 5).await.unwrap() }), 5);
        },
    );
}

/// What is on a stack need not be `Send`, and thread-locals of the worker keep their address.
#[test]
fn a_thread_stays_on_its_os_thread() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let threads: Vec<_> = (0..100)
                .map(|_| {
                    runtime.spawn_thread(|| {
                        let place = std::rc::Rc::new(std::thread::current().id());
                        for _ in 0..50 {
                            thread::yield_now();
                            assert_eq!(*place, std::thread::current().id());
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        },
    );
}

#[test]
fn a_panic_while_others_wait_is_its_own() {
    let runtime = Shape::flat(1).runtime();
    let gate = Gate::default();
    let waits = gate.clone();
    let waiting = runtime.spawn_thread(move || waits.pass().wait());
    let panicking = runtime.spawn_thread(|| {
        thread::yield_now();
        assert!(!thread::panicking());
        panic_any(PAYLOAD);
    });
    assert!(panicking.join().is_err());
    let after = runtime.spawn_thread(thread::panicking);
    assert!(!after.join().unwrap());
    gate.open();
    waiting.join().unwrap();
}

#[test]
fn names_ids_and_the_current_thread() {
    let runtime = Shape::flat(2).runtime();
    let _guard = runtime.enter();
    let gate = Gate::default();
    let waits = gate.clone();
    let named = thread::Builder::new()
        .name("cook".to_owned())
        .stack_size(64 * 1024)
        .spawn(move || {
            waits.pass().wait();
            let me = thread::current();
            assert_eq!(me.name(), Some("cook"));
            me.id()
        })
        .unwrap();
    let id = named.thread().id();
    assert_eq!(named.thread().name(), Some("cook"));
    gate.open();
    assert_eq!(named.join().unwrap(), id);
    assert_ne!(thread::current().id(), id);
    assert_eq!(thread::available_parallelism().unwrap().get(), 2);
    let nameless = thread::spawn(|| thread::current().name().map(str::to_owned));
    assert_eq!(nameless.join().unwrap(), None);
}

/// A runtime that is entered by a thread is its own affair, also while it is suspended.
#[test]
fn a_guard_stays_with_its_thread() {
    let (outer, inner) = (Shape::flat(1).runtime(), Shape::flat(2).runtime());
    let handle = inner.handle().clone();
    let (begun, seen) = (Gate::default(), Gate::default());
    let (at_begun, at_seen) = (begun.clone(), seen.clone());
    let guarded = outer.spawn_thread(move || {
        let guard = handle.enter();
        assert_eq!(thread::available_parallelism().unwrap().get(), 2);
        at_begun.open();
        at_seen.pass().wait();
        assert_eq!(thread::available_parallelism().unwrap().get(), 2);
        drop(guard);
        assert_eq!(thread::available_parallelism().unwrap().get(), 1);
    });
    let other = outer.spawn_thread(move || {
        begun.pass().wait();
        let workers = thread::available_parallelism().unwrap().get();
        seen.open();
        workers
    });
    assert_eq!(other.join().unwrap(), 1);
    guarded.join().unwrap();
}

/// What a thread comes to when nobody can ask for it is dropped by the thread itself, as by std's: on its stack, where
/// a destructor may wait.
#[test]
fn the_result_of_a_detached_thread_waits_when_it_is_dropped() {
    let (runtime, gate, dropped) = (Shape::flat(1).runtime(), Gate::default(), Count::default());
    let detach = |panics: bool| {
        let (waits, counts, detached) = (gate.clone(), dropped.clone(), Gate::default());
        let is_detached = detached.clone();
        let thread = runtime.spawn_thread(move || {
            is_detached.pass().wait();
            let this = thread::current().id();
            let result = OnDrop::new(move || {
                waits.pass().wait();
                assert_eq!(thread::current().id(), this);
                counts.add();
            });
            if panics {
                panic_any(result);
            }
            result
        });
        drop(thread);
        detached.open();
    };
    detach(false);
    detach(true);
    eventually("both wait", || gate.waiting() == 2);
    let task = runtime.spawn(async { 1 });
    assert_eq!(runtime.block_on(task).unwrap(), 1, "their worker runs others");
    gate.open();
    eventually("both are dropped", || dropped.get() == 2);
}

quadrille::thread_local! {
    static FAREWELL: RefCell<Option<OnDrop<Box<dyn FnOnce()>>>> = const { RefCell::new(None) };
}

/// The thread is at its end, but what it has of its own takes a while.
#[test]
fn a_result_that_is_given_up_while_a_thread_local_ends_waits_when_it_is_dropped() {
    let (runtime, ends, waits, dropped) = (
        Shape::flat(1).runtime(),
        Gate::default(),
        Gate::default(),
        Count::default(),
    );
    let (may_end, may_go, counts) = (ends.clone(), waits.clone(), dropped.clone());
    let thread = runtime.spawn_thread(move || {
        let farewell: Box<dyn FnOnce()> = Box::new(move || may_end.pass().wait());
        FAREWELL.set(Some(OnDrop::new(farewell)));
        OnDrop::new(move || {
            may_go.pass().wait();
            counts.add();
        })
    });
    eventually("its own is dropped", || ends.waiting() == 1);
    drop(thread);
    ends.open();
    eventually("its result is, too", || waits.waiting() == 1);
    waits.open();
    eventually("to its end", || dropped.get() == 1);
}

/// Then it can't be suspended, and the destructor waits in place, as any that runs when the thread is told to end.
#[test]
fn the_result_of_a_detached_thread_that_is_told_to_end_waits_in_place() {
    let (runtime, gate, dropped) = (Shape::flat(1).runtime(), Gate::default(), Count::default());
    let (waits, counts) = (gate.clone(), dropped.clone());
    let thread = runtime.spawn_thread(move || {
        assert!(catch_unwind(AssertUnwindSafe(|| waits.pass().wait())).is_err());
        OnDrop::new(move || {
            thread::sleep(Duration::from_millis(1));
            counts.add();
        })
    });
    eventually("it waits", || gate.waiting() == 1);
    let abort = thread.abort_handle();
    drop(thread);
    abort.abort();
    eventually("it has ended", || abort.is_finished());
    assert_eq!(dropped.get(), 1);
}

/// A closure and a result that are larger than the stack that was asked for.
#[test]
fn large_closures_and_results() {
    let runtime = Shape::flat(1).runtime();
    let large = [7_u8; 20_000];
    let small = thread::Builder::new().stack_size(16 * 1024);
    let thread = small.spawn_on(move || large, runtime.handle()).unwrap();
    assert!(thread.join().unwrap().iter().all(|byte| *byte == 7));
    // Which drops it itself.
    let (dropped, detached) = (Count::default(), Gate::default());
    let (token, is_detached) = (dropped.token(), detached.clone());
    let small = thread::Builder::new().stack_size(16 * 1024);
    let ends = move || {
        is_detached.pass().wait();
        (large, token)
    };
    drop(small.spawn_on(ends, runtime.handle()).unwrap());
    detached.open();
    eventually("its result is dropped", || dropped.get() == 1);
}

/// To wait in a task is refused, and leaves the worker as it was.
#[test]
fn a_task_may_not_wait() {
    let runtime = Shape::flat(1).runtime();
    let task = runtime.spawn(async { std::future::ready(1).wait() });
    let error = runtime.block_on(task).unwrap_err();
    assert!(error.to_string().contains("use `.await`"), "{error}");
    assert_eq!(runtime.spawn_thread(|| std::future::ready(1).wait()).join().unwrap(), 1);
}
