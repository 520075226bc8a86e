//! Threads beside the workers: the blocking pool, the trace.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// Starts the threads of a runtime that are no workers.
///
/// A thread inherits the CPU mask of the one that starts it, and these start on demand: from a worker that may be pinned
/// to one hardware thread. So each of them first runs a hook, in which the runtime restores its whole mask.
#[derive(Clone, Default)]
pub(crate) struct Spawner {
    on_start: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Spawner {
    /// A spawner whose threads call `on_start` before anything else. The hook must not panic.
    pub(crate) fn new(on_start: impl Fn() + Send + Sync + 'static) -> Self {
        Spawner {
            on_start: Some(Arc::new(on_start)),
        }
    }

    /// Whether its threads have a mask of CPUs that is not that of who starts them.
    pub(crate) fn has_mask(&self) -> bool {
        self.on_start.is_some()
    }

    /// Does to the calling thread what is done to a new one.
    pub(crate) fn prepare(&self) {
        if let Some(on_start) = &self.on_start {
            on_start();
        }
    }

    /// Starts a thread.
    ///
    /// # Errors
    ///
    /// The system has no thread to give; `body` is dropped then.
    pub(crate) fn spawn(&self, name: String, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
        let spawner = self.clone();
        Builder::new().name(name).spawn(move || {
            spawner.prepare();
            drop(spawner);
            body();
        })
    }
}

/// Asks the kernel to end the waits of this thread when they are due, and not up to 50 us later to save power.
pub(crate) fn wake_on_time() {
    #[cfg(target_os = "linux")]
    {
        // A kernel that refuses gives its default: late by microseconds, not wrong.
        let _ = rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(1));
    }
}

/// How long the calling thread was ready to run and did not, ns since its start. `None`: this kernel doesn't count it.
pub(crate) fn run_delay() -> Option<u64> {
    // Three numbers: time run, time waited, time slices.
    let counts = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    counts.split_ascii_whitespace().nth(1)?.parse().ok()
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner")
            .field("on_start", &self.on_start.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn the_hook_runs_first_and_on_the_new_thread() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let hook = Arc::clone(&log);
        let note = |what| (what, std::thread::current().name().map(str::to_owned));
        let spawner = Spawner::new(move || hook.lock().unwrap().push(note("hook")));
        let body = Arc::clone(&log);
        let thread = spawner
            .spawn("service".to_owned(), move || body.lock().unwrap().push(note("body")))
            .unwrap();
        thread.join().unwrap();
        let name = Some("service".to_owned());
        assert_eq!(*log.lock().unwrap(), [("hook", name.clone()), ("body", name)]);
    }
}
