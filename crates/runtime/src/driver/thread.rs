//! The turns of the driver thread; the module above numbers their steps.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;
use std::time::Duration;

use super::{Phase, Shared};
use crate::sys::poller::{Events, Poller};
use crate::sys::{clock, thread};

/// The life of the thread.
pub(super) fn run(shared: &Shared) {
    thread::wake_on_time();
    let mut events = Poller::events();
    let mut wakers = Vec::new();
    while expire(shared, &mut wakers) {
        wake(&mut wakers);
        let Some(timeout) = begin_wait(shared) else {
            break;
        };
        if let Err(error) = shared.poller().wait(&mut events, timeout) {
            fail(&error);
        }
        dispatch(shared, &events, &mut wakers);
    }
    // What was collected after the order to stop is dropped like everything that is pending then.
    drop_quietly(&mut wakers);
}

/// Step 1; `false` if the thread shall stop.
fn expire(shared: &Shared, wakers: &mut Vec<Waker>) -> bool {
    let mut state = shared.lock();
    state.timers.expire(clock::now(), wakers);
    state.phase == Phase::Running
}

/// Step 2. A waker that panics has been reported by the panic hook; the others are none the worse.
pub(super) fn wake(wakers: &mut Vec<Waker>) {
    for waker in wakers.drain(..) {
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}

/// Drops wakers without calling them.
fn drop_quietly(wakers: &mut Vec<Waker>) {
    for waker in wakers.drain(..) {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(waker)));
    }
}

/// Step 3; `None` if the thread shall stop, else how long it may wait.
fn begin_wait(shared: &Shared) -> Option<Option<Duration>> {
    let mut state = shared.lock();
    (state.phase == Phase::Running).then(|| state.timers.begin_wait(clock::now()))
}

/// After step 4: notes the events and collects who waits for them.
fn dispatch(shared: &Shared, events: &Events, wakers: &mut Vec<Waker>) {
    for event in events.iter() {
        let source = shared.sources().get(event.key);
        if let Some(source) = source {
            source.set_ready(event.readable, event.writable, wakers);
        }
    }
}

/// Waiting has failed in a way that no later attempt mends. Everybody who waits would wait for ever, in silence.
#[cold]
fn fail(error: &io::Error) -> ! {
    let _ = writeln!(
        io::stderr(),
        "quadrille: the driver thread can't wait for events: {error}"
    );
    std::process::abort();
}
