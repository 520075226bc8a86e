use std::sync::{Arc, mpsc};
use std::task::Wake;
use std::time::Instant;

use super::*;

/// Tells its number when it is called.
struct Tell(u32, mpsc::Sender<(u32, u64)>);

impl Wake for Tell {
    fn wake(self: Arc<Self>) {
        self.1.send((self.0, clock::nanos())).unwrap();
        assert!(self.0 != 0, "for the test");
    }
}

#[test]
fn they_fire_in_their_order_and_none_is_early() {
    let (sender, calls) = mpsc::channel();
    let now = clock::nanos();
    let due = |number: u32| now + 2_000_000 * u64::from(number + 1);
    for number in [2, 0, 3, 1] {
        assert!(set(due(number), Waker::from(Arc::new(Tell(number, sender.clone())))).is_some());
    }
    for number in 0..4 {
        let (called, time) = calls.recv().unwrap();
        assert_eq!(called, number, "also after a waker that panics");
        assert!(time >= due(number));
    }
}

#[test]
fn one_that_was_unset_is_not_fired() {
    let (sender, calls) = mpsc::channel();
    let due = clock::nanos() + 1_000_000_000_000;
    let key = set(due, Waker::from(Arc::new(Tell(1, sender)))).unwrap();
    assert!(calls.try_recv().is_err());
    drop(unset(key));
    assert!(unset(key).is_none());
    assert!(calls.recv().is_err(), "its waker is gone");
}

/// Other tests may set some beside this one, for a moment.
#[test]
fn the_thread_leaves_when_nothing_is_set() {
    let key = set(clock::nanos() + 1_000_000_000_000, Waker::noop().clone()).unwrap();
    assert!(*lock());
    drop(unset(key));
    let begin = Instant::now();
    while *lock() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it stays");
        std::thread::yield_now();
    }
}
