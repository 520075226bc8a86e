//! Bounded waiting: what must happen happens before a generous limit, or the test fails and says what did not.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Longer than any single event takes on a loaded machine.
const EVENT_MAX: Duration = Duration::from_secs(10);

/// Longer than any scenario takes, and than an event that does not come, which says more.
const SCENARIO_MAX: Duration = Duration::from_secs(30);

/// Looks at `holds` again and again until it does.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < EVENT_MAX, "not after {EVENT_MAX:?}: {what}");
        thread::park_timeout(Duration::from_micros(200));
    }
}

/// Runs `scenario` on a thread of its own; fails if it panics, or is not done after `SCENARIO_MAX`.
pub(crate) fn watched(what: &str, scenario: impl FnOnce() + Send + 'static) {
    let (done, finished) = mpsc::channel();
    let thread = thread::Builder::new()
        .name("scenario".to_owned())
        .spawn(move || {
            scenario();
            // The receiver is there unless the limit has passed, and then nobody asks any more.
            let _ = done.send(());
        })
        .unwrap();
    match finished.recv_timeout(SCENARIO_MAX) {
        Ok(()) => thread.join().unwrap(),
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("hangs: {what}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            let payload = thread.join().unwrap_err();
            let message = payload
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| payload.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            panic!("{what}: {message}");
        }
    }
}
