//! Bounded waiting: what must happen happens before a generous limit, or the test fails and says what did not.
//!
//! Where threads do not run for seconds, as on an emulated machine, `QUADRILLE_TEST_PATIENCE` multiplies every limit.

use std::fmt::Debug;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Longer than any single event takes on a machine that is loaded ten times over.
const EVENT_MAX: Duration = Duration::from_secs(60);

/// Longer than any scenario takes, and than an event that does not come, which says more.
const SCENARIO_MAX: Duration = Duration::from_secs(240);

/// How many times longer than usual is waited.
const PATIENCE: &str = "QUADRILLE_TEST_PATIENCE";

/// A limit for this machine.
///
/// # Panics
/// If the variable is set and holds no number.
pub(crate) fn patient(limit: Duration) -> Duration {
    match std::env::var(PATIENCE) {
        Ok(times) => limit * times.parse::<u32>().expect("QUADRILLE_TEST_PATIENCE is a number"),
        Err(_) => limit,
    }
}

/// Looks at `holds` again and again until it does.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let (begin, limit) = (Instant::now(), patient(EVENT_MAX));
    while !holds() {
        assert!(begin.elapsed() < limit, "not after {limit:?}: {what}");
        thread::park_timeout(Duration::from_micros(200));
    }
}

/// Waits until `counts`, a name and what is counted of it each, stay as they are for a second: long enough to meet what
/// comes some times a second. Those who settle late, on a busy machine, are looked at again.
#[track_caller]
pub(crate) fn comes_to_rest<T: PartialEq + Debug>(counts: impl Fn() -> Vec<(String, T)>) {
    let (begin, limit) = (Instant::now(), patient(EVENT_MAX));
    loop {
        let before = counts();
        thread::sleep(Duration::from_secs(1));
        let changed: Vec<_> = before
            .into_iter()
            .zip(counts())
            .filter(|(before, after)| before != after)
            .collect();
        if changed.is_empty() {
            return;
        }
        assert!(
            begin.elapsed() < limit,
            "no second of rest in {limit:?}, in the last one {changed:?}"
        );
    }
}

/// Runs `scenario` on a thread of its own; fails if it panics, or is not done after `SCENARIO_MAX`, with patience.
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
    match finished.recv_timeout(patient(SCENARIO_MAX)) {
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
