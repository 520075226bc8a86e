//! The list of all threads: who is in it, and what each is said to do.

use std::sync::Arc;

use quadrille::thread::{self, Builder, ThreadInfo, ThreadState, WaitsFor, sync};
use quadrille::time::Duration;
use quadrille::{Runtime, Wait as _};

use crate::gate::Gate;
use crate::shape::{Shape, for_each_shape_if, occupy};
use crate::wait::eventually;

/// Longer than any test.
const LONG: Duration = Duration::from_secs(1000);

fn named<T: Send + 'static>(
    runtime: &Runtime,
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    Builder::new()
        .name(name.to_owned())
        .spawn_on(f, runtime.handle())
        .unwrap()
}

fn state(runtime: &Runtime, name: &str) -> Option<ThreadState> {
    let threads = runtime.handle().threads();
    let found = threads.into_iter().find(|thread| thread.name.as_deref() == Some(name));
    found.map(|thread| thread.state)
}

/// What the thread of that name waits for, once it does.
fn waits_for(runtime: &Runtime, name: &str) -> WaitsFor {
    let mut found = None;
    eventually(&format!("{name} waits"), || {
        found = match state(runtime, name) {
            Some(ThreadState::Suspended { waits_for, .. }) => Some(waits_for),
            _ => None,
        };
        found.is_some()
    });
    found.expect("found just above")
}

fn address<T>(shared: &Arc<T>) -> usize {
    Arc::as_ptr(shared).addr()
}

/// Each runtime lists its own threads, and one that comes after another, in its place if the allocator has it so, none
/// of that. The gate is never opened.
#[test]
fn of_one_runtime_and_no_other() {
    let gate = Gate::default();
    let names = |runtime: &Runtime| {
        let threads = runtime.handle().threads();
        threads
            .into_iter()
            .map(|thread| thread.name.unwrap())
            .collect::<Vec<_>>()
    };
    let waiting = |name: &str| {
        let runtime = Shape::flat(2).runtime();
        let gate = gate.clone();
        drop(named(&runtime, name, move || gate.pass().wait()));
        runtime
    };
    let (first, second) = (waiting("first"), waiting("second"));
    assert_eq!(names(&first), ["first"]);
    assert_eq!(names(&second), ["second"]);
    for _ in 0..20 {
        let before = waiting("before");
        assert_eq!(names(&before), ["before"]);
        drop(before);
        let after = Shape::flat(2).runtime();
        assert_eq!(names(&after), [""; 0]);
    }
    assert_eq!(names(&first), ["first"]);
    drop(first);
    assert_eq!(names(&second), ["second"]);
}

/// What is told of a thread is why it was suspended last, not why it could not be.
#[test]
fn one_that_could_not_be_suspended_runs() {
    struct Parks;
    impl Drop for Parks {
        fn drop(&mut self) {
            assert!(std::panic::catch_unwind(thread::park).is_err(), "it panics");
        }
    }
    let runtime = Shape::flat(1).runtime();
    let holds = Gate::default();
    let hold = holds.clone();
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = named(&runtime, "it", move || {
        thread::yield_now();
        let panics = || {
            let _parks = Parks;
            panic!("for the test");
        };
        assert!(std::panic::catch_unwind(panics).is_err());
        sender.send(()).unwrap();
        hold.block();
    });
    receiver.recv().unwrap();
    assert!(matches!(state(&runtime, "it"), Some(ThreadState::Running { .. })));
    holds.open();
    thread.join().unwrap();
}

/// Locks, conditions, meetings and channels are shown with their address.
#[test]
fn what_each_waits_for_at_an_object() {
    let runtime = Shape::flat(2).runtime();
    let mutex = Arc::new(sync::Mutex::new(()));
    let rwlock = Arc::new(sync::RwLock::new(()));
    let pair = Arc::new((sync::Condvar::new(), sync::Mutex::new(false)));
    let barrier = Arc::new(sync::Barrier::new(2));
    let (locked, written) = (mutex.lock().unwrap(), rwlock.write().unwrap());

    let mut threads = Vec::new();
    let mut spawn = |name: &str, f: Box<dyn FnOnce() + Send>| threads.push(named(&runtime, name, f));
    let lock = Arc::clone(&mutex);
    spawn("mutex", Box::new(move || drop(lock.lock().unwrap())));
    let lock = Arc::clone(&rwlock);
    spawn("reader", Box::new(move || drop(lock.read().unwrap())));
    let lock = Arc::clone(&rwlock);
    spawn("writer", Box::new(move || drop(lock.write().unwrap())));
    let wait = Arc::clone(&pair);
    let condition = move || drop(wait.0.wait_while(wait.1.lock().unwrap(), |ready| !*ready).unwrap());
    spawn("condvar", Box::new(condition));
    let meet = Arc::clone(&barrier);
    spawn("barrier", Box::new(move || _ = meet.wait()));

    assert_eq!(waits_for(&runtime, "mutex"), WaitsFor::Lock(address(&mutex)));
    assert_eq!(waits_for(&runtime, "reader"), WaitsFor::Lock(address(&rwlock)));
    assert_eq!(waits_for(&runtime, "writer"), WaitsFor::Lock(address(&rwlock)));
    let condvar = std::ptr::from_ref(&pair.0).addr();
    assert_eq!(waits_for(&runtime, "condvar"), WaitsFor::Condvar(condvar));
    assert_eq!(waits_for(&runtime, "barrier"), WaitsFor::Barrier(address(&barrier)));

    drop((locked, written));
    *pair.1.lock().unwrap() = true;
    pair.0.notify_all();
    barrier.wait();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(runtime.handle().threads().is_empty());
}

/// All else is shown by its kind, with the id of a thread and the type of a future.
#[test]
fn what_each_waits_for_otherwise() {
    let runtime = Shape::flat(2).runtime();
    let gate = Gate::default();
    let mut threads = Vec::new();
    let mut spawn = |name: &str, f: Box<dyn FnOnce() + Send>| threads.push(named(&runtime, name, f));
    spawn("park", Box::new(thread::park));
    spawn("park_timeout", Box::new(|| thread::park_timeout(LONG)));
    let pass = gate.pass();
    spawn("future", Box::new(move || pass.wait()));
    let pass = gate.pass();
    spawn("future_timeout", Box::new(move || pass.wait_timeout(LONG).unwrap()));
    let pass = gate.pass();
    let scope = move || thread::scope(|scope| drop(scope.spawn(|| pass.wait())));
    spawn("scope", Box::new(scope));
    let joined = runtime.spawn_thread(thread::park);
    let (unpark, id) = (joined.thread().clone(), joined.thread().id());
    spawn("join", Box::new(move || joined.join().unwrap()));
    let sleeper = named(&runtime, "sleep", || thread::sleep(LONG));

    let is_future = |waits: WaitsFor| matches!(waits, WaitsFor::Future(name) if name.contains("PollFn"));
    assert_eq!(waits_for(&runtime, "park"), WaitsFor::Unpark);
    assert_eq!(waits_for(&runtime, "park_timeout"), WaitsFor::Unpark);
    assert!(is_future(waits_for(&runtime, "future")));
    assert!(is_future(waits_for(&runtime, "future_timeout")));
    assert_eq!(waits_for(&runtime, "scope"), WaitsFor::Scope);
    assert_eq!(waits_for(&runtime, "join"), WaitsFor::Thread(id));
    assert_eq!(waits_for(&runtime, "sleep"), WaitsFor::Time);

    for thread in &threads {
        thread.thread().unpark();
    }
    gate.open();
    unpark.unpark();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(runtime.handle().threads().len(), 1, "the sleeper");
    let handle = runtime.handle().clone();
    drop(runtime);
    assert!(sleeper.join().is_err());
    assert!(handle.threads().is_empty());
}

/// Both ends of a channel show the same address.
#[test]
fn the_ends_of_a_channel_agree() {
    let runtime = Shape::flat(2).runtime();
    let (sender, receiver) = sync::mpsc::sync_channel::<u8>(1);
    let receives = named(&runtime, "receiver", move || receiver.recv().map(|_| receiver));
    let WaitsFor::Channel(receiver_waits) = waits_for(&runtime, "receiver") else {
        panic!("{:?}", waits_for(&runtime, "receiver"))
    };
    sender.send(1).unwrap();
    let receiver = receives.join().unwrap().unwrap();
    sender.send(2).unwrap();
    let sends = named(&runtime, "sender", move || sender.send(3).is_ok());
    assert_eq!(waits_for(&runtime, "sender"), WaitsFor::Channel(receiver_waits));
    assert_eq!(receiver.recv(), Ok(2));
    assert!(sends.join().unwrap());
}

/// From not started by way of running, suspended and ready to gone.
#[test]
fn the_states_of_a_thread() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let (gate, holds, waits) = (Gate::default(), Gate::default(), Gate::default());
            let occupied = occupy(&runtime);
            let (pass, hold, wait) = (gate.pass(), holds.clone(), waits.clone());
            let thread = named(&runtime, "it", move || {
                hold.block();
                pass.wait();
                wait.block();
            });
            assert_eq!(state(&runtime, "it"), Some(ThreadState::NotStarted));
            drop(occupied);
            eventually("it runs for the first time", || {
                matches!(state(&runtime, "it"), Some(ThreadState::Running { .. }))
            });
            holds.open();
            assert!(matches!(waits_for(&runtime, "it"), WaitsFor::Future(_)));
            // Whoever it is bound to is held up, so it is ready and can't run.
            let occupied = occupy(&runtime);
            gate.open();
            eventually("it is ready", || {
                matches!(state(&runtime, "it"), Some(ThreadState::Ready { .. }))
            });
            drop(occupied);
            eventually("it runs again", || {
                matches!(state(&runtime, "it"), Some(ThreadState::Running { .. }))
            });
            waits.open();
            thread.join().unwrap();
            assert_eq!(state(&runtime, "it"), None);
        },
    );
}

/// A thread that is ended before it starts ends by its closure's destructor: until then it is listed.
#[test]
fn what_never_starts_is_there_while_its_closure_is_dropped() {
    /// How many threads there are when it is dropped.
    struct Counts(quadrille::Handle, std::sync::mpsc::Sender<usize>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.1.send(self.0.threads().len()).unwrap();
        }
    }
    let runtime = Shape::flat(1).runtime();
    let handle = runtime.handle().clone();
    let (sender, counted) = std::sync::mpsc::channel();
    let counts = Counts(handle.clone(), sender);
    let occupied = occupy(&runtime);
    let thread = runtime.spawn_thread(move || drop(counts));
    thread.abort();
    drop(occupied);
    assert!(thread.join().is_err());
    assert_eq!(counted.recv(), Ok(1));
    assert_eq!(handle.threads().len(), 0);
}

/// A thread that is dropped before it starts is not listed any more.
#[test]
fn what_never_starts_is_struck_off() {
    let runtime = Shape::flat(1).runtime();
    let handle = runtime.handle().clone();
    let occupied = occupy(&runtime);
    let thread = named(&runtime, "never", || ());
    assert_eq!(handle.threads().len(), 1);
    runtime.shutdown_background();
    drop(occupied);
    let ended = thread.join();
    eventually("nobody is left", || handle.threads().is_empty());
    // The worker may have begun it before it saw that it shall leave.
    drop(ended);
}

/// Lists are made while threads come and go: those that stay are in each of them, once.
#[test]
fn threads_that_stay_are_always_there() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let gate = Gate::default();
            let stay: Vec<_> = (0..200)
                .map(|_| {
                    let pass = gate.pass();
                    runtime.spawn_thread(move || pass.wait())
                })
                .collect();
            let ids: Vec<_> = stay.iter().map(|thread| thread.thread().id()).collect();
            let churn = runtime.spawn_thread(|| {
                for _ in 0..50 {
                    let yields = |_| thread::spawn(thread::yield_now);
                    let short: Vec<_> = (0..20).map(yields).collect();
                    short.into_iter().for_each(|thread| thread.join().unwrap());
                }
            });
            while !churn.is_finished() {
                let threads = runtime.handle().threads();
                assert!(
                    ids.iter()
                        .all(|id| threads.iter().filter(|thread| thread.id == *id).count() == 1)
                );
            }
            churn.join().unwrap();
            gate.open();
            stay.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(runtime.handle().threads().is_empty());
        },
    );
}

#[test]
fn the_lines_of_the_table() {
    let runtime = Shape::flat(1).runtime();
    let cook = named(&runtime, "cook", thread::park);
    assert_eq!(waits_for(&runtime, "cook"), WaitsFor::Unpark);
    let line = runtime.handle().threads()[0].to_string();
    let expected = format!(
        "{:>8}  cook              suspended         0  unpark",
        cook.thread().id()
    );
    assert_eq!(line, expected);
    assert_eq!(ThreadInfo::HEADER.find("waits for"), line.find("unpark"));
    assert_eq!(ThreadInfo::HEADER.find("state"), line.find("suspended"));
    assert_eq!(ThreadInfo::HEADER.find("name"), line.find("cook"));
    cook.thread().unpark();
    cook.join().unwrap();
}
