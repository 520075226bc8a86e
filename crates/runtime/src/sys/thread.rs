//! The threads of a runtime: workers, the blocking pool, the trace; and that of timers which outlast it.

#[cfg(target_os = "linux")]
use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use crate::panics::quietly;

/// Least stack of a thread, bytes: what polls a task that panics and prints its backtrace stays well below it, also in
/// a build without optimisation.
const STACK_MIN: usize = 64 << 10;

/// Most: above it std fails to round up, and panics. No system has as much.
const STACK_MAX: usize = usize::MAX >> 2;

type Hook = Arc<dyn Fn() + Send + Sync>;

/// What users ask of every thread of a runtime.
#[derive(Clone, Default)]
pub(crate) struct Threads {
    /// Called on each before anything else.
    pub(crate) on_start: Option<Hook>,
    /// Called on each when it has nothing left to do.
    pub(crate) on_stop: Option<Hook>,
    /// Bytes; `None`: what std gives.
    pub(crate) stack_size: Option<usize>,
}

impl Threads {
    /// A thread that is to be started.
    pub(crate) fn builder(&self, name: String) -> Builder {
        let builder = Builder::new().name(name);
        match self.stack_size {
            Some(size) => builder.stack_size(size.clamp(STACK_MIN, STACK_MAX)),
            None => builder,
        }
    }

    /// Runs `body` on the calling thread, between the two hooks.
    pub(crate) fn around(&self, body: impl FnOnce()) {
        self.start();
        body();
        self.stop();
    }

    /// The call that comes before anything else.
    pub(crate) fn start(&self) {
        call(self.on_start.as_ref());
    }

    /// The call that comes when there is nothing left to do.
    pub(crate) fn stop(&self) {
        call(self.on_stop.as_ref());
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads")
            .field("on_start", &self.on_start.is_some())
            .field("on_stop", &self.on_stop.is_some())
            .field("stack_size", &self.stack_size)
            .finish()
    }
}

/// Others count on the thread, whatever the hook does.
fn call(hook: Option<&Hook>) {
    let Some(hook) = hook else { return };
    quietly(|| hook());
}

/// Starts the threads of a runtime that are no workers.
///
/// A thread inherits the CPU mask of the one that starts it, and its timer slack, and these start on demand: from a
/// worker that may be pinned to one hardware thread, and wakes on time. So each of them first gets the runtime's whole
/// mask, and is started with the slack that the worker had itself.
#[derive(Clone, Default)]
pub(crate) struct Spawner {
    widen: Option<Hook>,
    threads: Threads,
}

impl Spawner {
    /// A spawner whose threads call `widen`, which must not panic, before anything else.
    pub(crate) fn new(widen: impl Fn() + Send + Sync + 'static, threads: Threads) -> Self {
        Spawner {
            widen: Some(Arc::new(widen)),
            threads,
        }
    }

    /// One whose threads keep the mask of who starts them.
    pub(crate) fn without_mask(threads: Threads) -> Self {
        Spawner { widen: None, threads }
    }

    /// The same, for threads on which nothing of the user's is to run: those that are the process's and not the
    /// runtime's, and that of the trace, which a shutdown waits for before its limit begins.
    pub(crate) fn without_hooks(&self) -> Self {
        Spawner {
            widen: self.widen.clone(),
            threads: Threads::default(),
        }
    }

    /// Whether its threads call something of the user's before they end.
    pub(crate) fn has_stop_hook(&self) -> bool {
        self.threads.on_stop.is_some()
    }

    /// Gives the calling thread, or process, the mask of a new thread.
    pub(crate) fn prepare(&self) {
        if let Some(widen) = &self.widen {
            widen();
        }
    }

    /// Starts a thread.
    ///
    /// # Errors
    ///
    /// The system has no thread to give; `body` is dropped then.
    pub(crate) fn spawn(&self, name: String, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
        self.spawn_bare(name, move |threads| threads.around(body))
    }

    /// The same for a `body` that has something to do after its last hook: it sees to both itself, by
    /// [`Threads::start`] and [`Threads::stop`].
    ///
    /// # Errors
    ///
    /// As [`spawn`](Self::spawn).
    pub(crate) fn spawn_bare(
        &self,
        name: String,
        body: impl FnOnce(&Threads) + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let spawner = self.clone();
        let _slack = TimerSlack::lend();
        self.threads.builder(name).spawn(move || {
            spawner.prepare();
            let Spawner { widen, threads } = spawner;
            drop(widen);
            body(&threads);
        })
    }
}

#[cfg(target_os = "linux")]
thread_local! {
    /// The timer slack that the thread had before it was to wake on time, ns; zero: it has it still.
    static SLACK: Cell<u64> = const { Cell::new(0) };
}

/// Asks the kernel to end the waits of this thread when they are due, and not up to 50 us later to save power.
pub(crate) fn wake_on_time() {
    #[cfg(target_os = "linux")]
    if let Ok(before) = rustix::thread::current_timer_slack()
        && set_slack(1)
        && SLACK.get() == 0
    {
        SLACK.set(before);
    }
}

/// A kernel that refuses gives its default: late by microseconds, not wrong.
#[cfg(target_os = "linux")]
fn set_slack(ns: u64) -> bool {
    rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(ns)).is_ok()
}

/// While it lives, the calling thread has the timer slack that it had before [`wake_on_time`]. What is started
/// meanwhile, a thread or a process, inherits that, and keeps it.
#[must_use]
#[derive(Debug)]
pub(crate) struct TimerSlack {
    /// Whether the thread is to wake on time again.
    #[cfg(target_os = "linux")]
    is_lent: bool,
}

impl TimerSlack {
    #[cfg(target_os = "linux")]
    pub(crate) fn lend() -> Self {
        let before = SLACK.get();
        Self {
            is_lent: before != 0 && set_slack(before),
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn lend() -> Self {
        Self {}
    }
}

#[cfg(target_os = "linux")]
impl Drop for TimerSlack {
    fn drop(&mut self) {
        if self.is_lent {
            set_slack(1);
        }
    }
}

/// The kernel's count of how long a thread was ready to run and did not. It keeps a descriptor open, so that a look
/// takes one system call.
#[derive(Debug)]
pub(crate) struct DelayCount(File);

impl DelayCount {
    /// The calling thread's. `None`: this kernel doesn't count it, or does not say.
    pub(crate) fn of_this_thread() -> Option<Self> {
        let count = Self::open()?;
        count.read().is_some().then_some(count)
    }

    fn open() -> Option<Self> {
        File::open("/proc/thread-self/schedstat").ok().map(Self)
    }

    /// How long it has waited for a CPU since it began, ns. `None`: the kernel does not say.
    pub(crate) fn read(&self) -> Option<u64> {
        // Three numbers of 20 digits at most.
        let mut line = [0; 64];
        let length = self.0.read_at(&mut line, 0).ok()?;
        delay(str::from_utf8(&line[..length]).ok()?)
    }
}

/// Time run, time waited, time slices. A kernel that does not count says `0 0 0`, of a thread that runs.
fn delay(counts: &str) -> Option<u64> {
    let mut counts = counts.split_ascii_whitespace();
    let delay = counts.nth(1)?.parse().ok()?;
    (counts.next()? != "0").then_some(delay)
}

/// The calling thread's [`DelayCount::read`], for who asks seldom: no descriptor is kept.
pub(crate) fn run_delay() -> Option<u64> {
    DelayCount::open()?.read()
}

/// The CPU that the calling thread is on, until the kernel moves it. `None`: this system does not say.
pub(crate) fn current_cpu() -> Option<u32> {
    // Not rustix's: that reads the kernel's vDSO for it, which ends the program under valgrind.
    // SAFETY: takes nothing and touches no memory of ours.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return u32::try_from(unsafe { libc::sched_getcpu() }).ok();
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    return None;
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner")
            .field("widen", &self.widen.is_some())
            .field("threads", &self.threads)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn a_thread_is_on_a_cpu_that_it_may_run_on() {
        let allowed = quadrille_topology::current_affinity().unwrap();
        let cpu = current_cpu().expect("Linux says");
        assert!(allowed.contains(cpu), "{cpu} of {allowed}");
    }

    #[test]
    fn a_kernel_that_does_not_count_is_found_out() {
        assert_eq!(delay("7 12 3\n"), Some(12));
        assert_eq!(delay("7 0 3\n"), Some(0));
        for no in ["0 0 0\n", "", "7 12\n", "7 x 3\n"] {
            assert_eq!(delay(no), None, "{no}");
        }
    }

    #[test]
    fn a_body_runs_between_its_hooks_on_the_new_thread() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let note = |what| {
            let log = Arc::clone(&log);
            move || {
                let name = std::thread::current().name().map(str::to_owned);
                log.lock().unwrap().push((what, name));
            }
        };
        let threads = Threads {
            on_start: Some(Arc::new(note("start"))),
            on_stop: Some(Arc::new(note("stop"))),
            stack_size: None,
        };
        let spawner = Spawner::new(note("mask"), threads);
        let thread = spawner.spawn("service".to_owned(), note("body")).unwrap();
        thread.join().unwrap();
        let name = Some("service".to_owned());
        let expected = ["mask", "start", "body", "stop"].map(|what| (what, name.clone()));
        assert_eq!(*log.lock().unwrap(), expected);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_does_not_inherit_that_its_starter_wakes_on_time() {
        let slack = || rustix::thread::current_timer_slack().unwrap();
        let before = slack();
        wake_on_time();
        wake_on_time();
        let (sender, receiver) = std::sync::mpsc::channel();
        let body = move || sender.send(slack()).unwrap();
        let spawner = Spawner::default();
        let thread = spawner.spawn("service".to_owned(), body).unwrap();
        assert_eq!(receiver.recv().unwrap(), before);
        assert_eq!(slack(), 1, "and its starter does as before");
        thread.join().unwrap();
    }

    #[test]
    fn a_hook_that_panics_keeps_the_thread_from_nothing() {
        let fails: Hook = Arc::new(|| panic!("for the test"));
        let threads = Threads {
            on_start: Some(fails.clone()),
            on_stop: Some(fails),
            stack_size: None,
        };
        let (sender, receiver) = std::sync::mpsc::channel();
        let body = move || sender.send(()).unwrap();
        let thread = Spawner::without_mask(threads)
            .spawn("service".to_owned(), body)
            .unwrap();
        receiver.recv().unwrap();
        thread.join().unwrap();
    }
}
