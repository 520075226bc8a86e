//! Parking: a token a thread, made by unparking, used up by parking.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use quadrille::Wait as _;
use quadrille::thread::{self, Thread};

use crate::gate::Gate;
use crate::shape::{Shape, for_each_shape_if};

/// Later than any test ends.
const NEVER: Duration = Duration::from_secs(1000);

#[test]
fn a_token_that_is_there_ends_the_park_at_once() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let thread = runtime.spawn_thread(|| {
                let me = thread::current();
                me.unpark();
                me.unpark();
                thread::park();
                // Two that come before it are one, and it is used up.
                let (begin, limit) = (Instant::now(), Duration::from_millis(1));
                thread::park_timeout(limit);
                assert!(begin.elapsed() >= limit, "{:?}", begin.elapsed());
                me.unpark();
                thread::park_timeout(NEVER);
            });
            thread.join().unwrap();
        },
    );
}

#[test]
fn a_park_without_a_token_ends_with_its_time() {
    let runtime = Shape::flat(1).runtime();
    let (begin, limit) = (Instant::now(), Duration::from_millis(3));
    runtime
        .spawn_thread(move || thread::park_timeout(limit))
        .join()
        .unwrap();
    assert!(begin.elapsed() >= limit);
    runtime.spawn_thread(move || thread::sleep(limit)).join().unwrap();
    assert!(begin.elapsed() >= 2 * limit);
}

/// Two threads hand a turn to and fro, from each kind of thread to each.
#[test]
fn to_and_fro() {
    const ROUNDS: usize = 2000;
    fn turns(turn: &AtomicUsize, mine: usize, other: &Thread) {
        for round in 0..ROUNDS {
            while turn.load(Ordering::SeqCst) != 2 * round + mine {
                thread::park();
            }
            turn.fetch_add(1, Ordering::SeqCst);
            other.unpark();
        }
    }
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let turn = Arc::new(AtomicUsize::new(0));
            let (ours, here) = (turn.clone(), thread::current());
            let other = runtime.spawn_thread(move || turns(&ours, 1, &here));
            turns(&turn, 0, other.thread());
            other.join().unwrap();

            let turn = Arc::new(AtomicUsize::new(0));
            let (first, second) = (turn.clone(), turn.clone());
            let handle = runtime.handle().clone();
            let both = runtime.spawn_thread(move || {
                let me = thread::current();
                let other = handle.spawn_thread(move || turns(&second, 1, &me));
                turns(&first, 0, other.thread());
                other.join().unwrap();
            });
            both.join().unwrap();
            assert_eq!(turn.load(Ordering::SeqCst), 2 * ROUNDS);
        },
    );
}

#[test]
fn a_wait_with_a_limit() {
    let runtime = Shape::flat(1).runtime();
    let waits = || {
        let gate = Gate::default();
        assert!(gate.pass().wait_timeout(Duration::from_millis(1)).is_err());
        assert!(gate.pass().wait_timeout(Duration::ZERO).is_err());
        assert_eq!(std::future::ready(5).wait_timeout(Duration::ZERO), Ok(5));
        gate.open();
        assert_eq!(gate.pass().wait_timeout(NEVER), Ok(()));
    };
    runtime.spawn_thread(waits).join().unwrap();
    // On an ordinary thread, outside of any runtime.
    waits();
}
