//! One operation on a thread that may block, as a future.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::blocking::{AtStop, Reason};
use crate::coop;
use crate::reactor::stopped;
use crate::runtime::with_current;
use crate::sync::oneshot;
use crate::time::presence::AtWork;

/// An operation of the current runtime's pool. Dropped before a thread has taken it, it isn't begun.
#[derive(Debug)]
#[must_use = "its result"]
pub(crate) struct Job<T>(oneshot::Receiver<T>);

impl<T: Send + 'static> Job<T> {
    /// Hands `operation` to the pool.
    ///
    /// # Errors
    ///
    /// The runtime shuts down, or there is no thread and the system has none to give.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    pub(super) fn new(operation: impl FnOnce() -> T + Send + 'static) -> io::Result<Self> {
        Self::submit(AtStop::Drop, |sender| {
            move || {
                if !sender.is_closed() {
                    // Who waited may go meanwhile; the result is dropped then.
                    let _ = sender.send(operation());
                }
            }
        })
        .map_err(|(_, reason)| reason.into())
    }

    /// The same, but `operation` is carried out whoever goes or shuts down.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new); then it isn't.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    pub(crate) fn certain(operation: impl FnOnce() -> T + Send + 'static) -> io::Result<Self> {
        Self::submit(AtStop::Run, |sender| {
            move || {
                let _ = sender.send(operation());
            }
        })
        .map_err(|(_, reason)| reason.into())
    }

    /// Hands the closure that `job` makes to the pool. If the pool refuses it, the closure has been dropped when this
    /// returns, and the receiver has whatever its drop has sent.
    pub(super) fn submit<J>(
        at_stop: AtStop,
        job: impl FnOnce(oneshot::Sender<T>) -> J,
    ) -> Result<Self, (oneshot::Receiver<T>, Reason)>
    where
        J: FnOnce() + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let job = job(sender);
        let submitted = with_current(|shared| {
            let at_work = AtWork::begin(shared.clone());
            let job = move || {
                let _at_work = at_work;
                job();
            };
            shared.submit(Box::new(job), at_stop)
        });
        match submitted {
            Ok(()) => Ok(Job(receiver)),
            Err(rejected) => {
                drop(rejected.job);
                Err((receiver, rejected.reason))
            }
        }
    }
}

impl<T> Future for Job<T> {
    /// The result, or that the runtime has shut down before the job began.
    type Output = io::Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        let received = ready!(Pin::new(&mut self.0).poll(cx));
        Poll::Ready(received.map_err(|_| stopped()))
    }
}

/// Runs an operation on the current runtime's pool.
pub(crate) async fn run<T: Send + 'static>(
    operation: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match Job::new(operation) {
        Ok(job) => job.await?,
        Err(error) => {
            // Who tries again after each error gives way.
            coop::consume_budget().await;
            Err(error)
        }
    }
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::Runtime;
    use crate::child::{assert_passed, is_child, run_child};
    use crate::fs::File;
    use crate::io::{stdin, stdout};
    use crate::net::lookup_host;
    use crate::sys::process::forbid_threads;

    /// Not by the kind of the system's error, which `futures-io` keeps for what waits: who takes it for that waits for
    /// ever.
    #[test]
    fn that_there_is_no_thread_is_told() {
        if !is_child() {
            assert_passed(&run_child(module_path!(), "that_there_is_no_thread_is_told"));
            return;
        }
        let told = |outcome: io::Result<usize>| {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Other, "{error}");
            assert!(error.to_string().starts_with("no thread"), "{error}");
        };
        let mut file = File::from_std(std::fs::File::open("/dev/zero").unwrap());
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        forbid_threads();
        runtime.block_on(async {
            told(run(|| Ok(0)).await);
            told(file.read(&mut [0; 4]).await);
            told(file.write(b"a").await);
            told(stdout().write(b"a").await);
            told(stdin().read(&mut [0; 4]).await);
            told(lookup_host("localhost:80").await.map(Iterator::count));
        });
    }
}
