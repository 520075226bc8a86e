//! Tests that end.

use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use quadrille::Runtime;

/// Much longer than any test here takes.
const LIMIT: Duration = Duration::from_secs(60);

/// Read-locked while a test runs, and write-locked while a program is started: from its fork to its exec a child has
/// copies of all descriptors, so that what a test has dropped is not closed yet.
static DESCRIPTORS: RwLock<()> = RwLock::new(());

/// Starts a program, while no test is [`watched`].
pub(crate) fn forking<R>(start: impl FnOnce() -> R) -> R {
    let _alone = DESCRIPTORS.write().unwrap_or_else(PoisonError::into_inner);
    start()
}

/// Runs `test` on a thread of its own.
///
/// # Panics
///
/// If it panics, or isn't done within [`LIMIT`].
pub(crate) fn watched<R: Send + 'static>(test: impl FnOnce() -> R + Send + 'static) -> R {
    // Here and not on the test's thread, so that one that is not done holds nobody up.
    let _not_copied = DESCRIPTORS.read().unwrap_or_else(PoisonError::into_inner);
    let (done, result) = channel();
    let test = thread::spawn(move || {
        let output = test();
        done.send(()).expect("the watchdog waits");
        output
    });
    if result.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
        panic!("not done after {LIMIT:?}: a wake-up was lost");
    }
    test.join().unwrap_or_else(|payload| resume_unwind(payload))
}

/// Runs what `test` makes on runtimes with one worker, and with several; gives it the number.
pub(crate) fn on_runtimes<F>(test: impl Fn() -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    watched(move || {
        for workers in [1, 3] {
            let runtime = Runtime::builder().worker_threads(workers).build().unwrap();
            runtime.block_on(async {
                // On a worker, where sockets of users live.
                quadrille::spawn(test()).await.unwrap();
            });
        }
    });
}
