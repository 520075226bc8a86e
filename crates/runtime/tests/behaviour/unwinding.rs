//! Panics: what may be used after one, and where one of ours is said to come from.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, Location, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Once;

use quadrille::sync::{
    Barrier, CancellationToken, Notify, OnceCell, OwnedSemaphorePermit, Semaphore, SemaphorePermit, broadcast, mpmc,
    oneshot, watch,
};
use quadrille::task::{AbortHandle, TaskTracker};
use quadrille::{Handle, JoinHandle, JoinSet, Runtime, TaskGroup, net, spawn, thread, time};

/// Not safe by itself, as most of what a program sends.
type Message = Rc<Cell<u8>>;

#[test]
fn what_is_whole_after_a_panic_may_be_used_after_it() {
    fn check<T: UnwindSafe + RefUnwindSafe>() {}
    check::<Runtime>();
    check::<Handle>();
    check::<JoinHandle<Message>>();
    check::<AbortHandle>();
    check::<JoinSet<Message>>();
    check::<TaskTracker>();
    check::<Barrier>();
    check::<OnceCell<u8>>();
    check::<TaskGroup>();
    check::<thread::JoinHandle<Message>>();
    check::<Notify>();
    check::<Semaphore>();
    check::<SemaphorePermit<'_>>();
    check::<OwnedSemaphorePermit>();
    check::<CancellationToken>();
    check::<mpmc::Sender<Message>>();
    check::<mpmc::WeakSender<Message>>();
    check::<mpmc::Receiver<Message>>();
    check::<oneshot::Sender<Message>>();
    check::<oneshot::Receiver<Message>>();
    check::<broadcast::Sender<Message>>();
    check::<broadcast::Receiver<Message>>();
    check::<watch::Sender<u8>>();
    check::<watch::Receiver<u8>>();
    check::<net::TcpListener>();
    check::<net::TcpStream>();
    check::<net::UdpSocket>();
    check::<net::UnixListener>();
    check::<net::UnixStream>();
    check::<net::UnixDatagram>();
    check::<time::Sleep>();
}

/// Where the panic of `f` is said to come from.
fn location_of(f: impl FnOnce()) -> (String, u32) {
    thread_local! {
        static LAST: Cell<Option<(String, u32)>> = const { Cell::new(None) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            LAST.set(info.location().map(|at| (at.file().to_owned(), at.line())));
            before(info);
        }));
    });
    assert!(catch_unwind(AssertUnwindSafe(f)).is_err(), "it does not panic");
    LAST.take().expect("the hook has run")
}

/// Of the line after this.
#[track_caller]
fn next_line() -> (String, u32) {
    let here = Location::caller();
    (here.file().to_owned(), here.line() + 1)
}

#[test]
fn a_panic_for_what_the_caller_did_is_reported_there() {
    let runtime = Runtime::builder().worker_threads(2).build().unwrap();
    let aborted = runtime.spawn(std::future::pending::<()>());
    aborted.abort();
    let error = runtime.block_on(aborted).unwrap_err();
    let mut expected = Vec::new();
    let mut found = Vec::new();
    found.push(location_of(|| {
        expected.push(next_line());
        drop(error.into_panic());
    }));
    let entered = runtime.enter();
    found.push(location_of(|| {
        expected.push(next_line());
        time::pause();
    }));
    drop(entered);
    let small = Runtime::builder().worker_threads(1).start_paused(true).build().unwrap();
    let entered = small.enter();
    found.push(location_of(|| {
        expected.push(next_line());
        time::pause();
    }));
    drop(entered);
    found.push(location_of(|| {
        expected.push(next_line());
        drop(spawn(async {}));
    }));
    found.push(location_of(|| {
        expected.push(next_line());
        drop(Handle::current());
    }));
    let entered = runtime.enter();
    let mut queue = time::DelayQueue::new();
    let key = queue.insert((), time::Duration::ZERO);
    queue.clear();
    found.push(location_of(|| {
        expected.push(next_line());
        queue.remove(&key);
    }));
    found.push(location_of(|| {
        expected.push(next_line());
        queue.reset(&key, time::Duration::ZERO);
    }));
    found.push(location_of(|| {
        expected.push(next_line());
        _ = queue.deadline(&key);
    }));
    drop(entered);
    found.push(location_of(|| {
        expected.push(next_line());
        time::DelayQueue::new().insert((), time::Duration::ZERO);
    }));
    assert_eq!(found, expected);
}
