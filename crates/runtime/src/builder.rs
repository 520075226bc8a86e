//! How a runtime is made: settings, what the environment overrides, and what they come to on this machine.

use std::env::VarError;
use std::error::Error;
use std::fmt::Write as _;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use quadrille_policy::{Config, Plan, PlanOptions, Policy, WorkerId};
use quadrille_topology::{Discovery, Topology, discover, set_current_affinity};

use crate::blocking::{Limits, Pool};
use crate::error::BuildError;
use crate::guarded::guarded;
use crate::pinning::{Binding, Pinning, Resolved, resolve};
use crate::reactor::ring::Rings;
use crate::runtime::Runtime;
use crate::sched::context::after_work;
use crate::sched::departure::Departs;
use crate::sched::worker::Worker;
use crate::sched::{Parts, Shared};
use crate::sys::thread::{Spawner, Threads, TimerSlack, current_cpu};
use crate::thread::stack::{DEFAULT_SIZE, check_size};
use crate::trace;
use crate::unpinned::{self, Unpinned};

/// Most workers of a runtime.
const WORKERS_MAX: usize = 4096;

/// Makes a [`Runtime`]. Every setting has a default that is right for a server on a machine of its own.
///
/// The environment overrides the *defaults*, never what a program sets: `QUADRILLE_WORKERS` (a number, or `auto`),
/// `QUADRILLE_PIN` (`auto`, `strict`, `llc`, `none`) and `QUADRILLE_POLICY` (see [`Config`]'s text form, for example
/// `group=4,wake-cost=off`), and with the feature `io-uring` `QUADRILLE_IO_URING` (`auto`, `off`). `QUADRILLE_TRACE=1s`
/// prints one line of counters a second, with the workers that are held up (`stuck=`). A clock that [starts
/// paused](Self::start_paused) sets the workers, too: there is one, and `QUADRILLE_WORKERS` is not read.
///
/// ```
/// let runtime = quadrille::Runtime::builder().worker_threads(2).thread_name("io").build()?;
/// assert_eq!(runtime.handle().worker_count(), 2);
/// # Ok::<(), quadrille::BuildError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    workers: Option<usize>,
    topology: Option<Topology>,
    pinning: Option<Pinning>,
    config: Option<Config>,
    seed: Option<u64>,
    name: String,
    limits: Limits,
    threads: Threads,
    timer_slack: Duration,
    /// Of user-level threads.
    stack_size: usize,
    start_paused: bool,
    /// Whether `uring` uses io_uring; `None`: where it can.
    #[cfg(all(feature = "io-uring", target_os = "linux", not(quadrille_loom)))]
    io_uring: Option<bool>,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

/// The machine to plan for.
struct Machine {
    topology: Topology,
    /// `None` for a machine that the caller made up: nothing is pinned there.
    found: Option<Discovery>,
}

impl Builder {
    /// A builder with the default settings.
    pub fn new() -> Self {
        Self {
            workers: None,
            topology: None,
            pinning: None,
            config: None,
            seed: None,
            name: "quadrille".to_owned(),
            limits: Limits::default(),
            threads: Threads::default(),
            timer_slack: crate::time::SLACK,
            stack_size: DEFAULT_SIZE,
            start_paused: false,
            #[cfg(all(feature = "io-uring", target_os = "linux", not(quadrille_loom)))]
            io_uring: None,
        }
    }

    /// Number of workers, `1..=4096`. Default: one a hardware thread that the affinity mask and the cpusets allow, no
    /// more than the CPU quota rounded up, but at least 2 of the allowed ones.
    pub fn worker_threads(mut self, count: usize) -> Self {
        self.workers = Some(count);
        self
    }

    /// The machine to plan for, in place of the one that the process runs on. Workers are not pinned then, so that a
    /// machine of any shape can be tried on any other.
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = Some(topology);
        self
    }

    /// How workers are bound to hardware threads. Default: [`Pinning::Auto`].
    pub fn pinning(mut self, pinning: Pinning) -> Self {
        self.pinning = Some(pinning);
        self
    }

    /// The constants of the scheduling policies. Default: [`Config::default`].
    pub fn config(mut self, config: Config) -> Self {
        self.config = Some(config);
        self
    }

    /// Seed of every choice that is made by chance, in place of [`Config::seed`], wherever the other constants come
    /// from: what `select!` polls first, and what the scheduler tries at random. Default: that of the configuration,
    /// 0x5EED.
    ///
    /// A test with one worker and a [paused clock](Self::start_paused) takes the same course each time, and another one
    /// with another seed. With several workers, or while the clock goes, the threads' own speed decides as well; so it
    /// does on when and where that runs which is spawned or woken from outside of the workers, and on what runs on a
    /// blocking thread while all workers are in [`block_in_place`](crate::task::block_in_place).
    ///
    /// ```
    /// use std::future::ready;
    ///
    /// let course = |seed| {
    ///     let runtime = quadrille::Runtime::builder().start_paused(true).seed(seed).build().unwrap();
    ///     runtime.block_on(async {
    ///         let mut course = String::new();
    ///         for _ in 0..64 {
    ///             course += quadrille::select! { side = ready("l") => side, side = ready("r") => side };
    ///         }
    ///         course
    ///     })
    /// };
    /// assert_eq!(course(1), course(1));
    /// assert_ne!(course(1), course(2));
    /// ```
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Prefix of the names of all threads but that of `QUADRILLE_TRACE`, without a zero byte. Default: `quadrille`.
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Most threads of the blocking pool at a time, for closures and files; 0 counts as 1. Those that run tasks while
    /// all workers are in [`block_in_place`](crate::task::block_in_place) are not counted; there are as many of them at
    /// most. Default: 512.
    pub fn max_blocking_threads(mut self, count: usize) -> Self {
        self.limits.threads_max = count;
        self
    }

    /// How long an idle thread of the blocking pool stays. Default: 10 s.
    pub fn thread_keep_alive(mut self, limit: Duration) -> Self {
        self.limits.keep_alive = limit;
        self
    }

    /// Calls `f` on each thread of the runtime that starts, workers and those of the blocking pool (not that of
    /// `QUADRILLE_TRACE`), before it runs anything else, on the CPUs that it is bound to: to register it with a
    /// profiler, to set its priority. Default: nothing. The last one given counts.
    ///
    /// No runtime is current in there. A panic is reported, and ends the call alone. A worker that it keeps for long
    /// begins late, and what is bound to that worker with it.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let threads = Arc::new(AtomicUsize::new(0));
    /// let (more, less) = (threads.clone(), threads.clone());
    /// let runtime = quadrille::Runtime::builder()
    ///     .worker_threads(2)
    ///     .on_thread_start(move || _ = more.fetch_add(1, Ordering::Relaxed))
    ///     .on_thread_stop(move || _ = less.fetch_sub(1, Ordering::Relaxed))
    ///     .build()?;
    /// runtime.block_on(quadrille::task::yield_now());
    /// drop(runtime);
    /// assert_eq!(threads.load(Ordering::Relaxed), 0, "as many have stopped as have started");
    /// # Ok::<(), quadrille::BuildError>(())
    /// ```
    pub fn on_thread_start(mut self, f: impl Fn() + Send + Sync + 'static) -> Self {
        self.threads.on_start = Some(Arc::new(f));
        self
    }

    /// Calls `f` on each thread of the runtime that stops, when it runs nothing any more; see
    /// [`on_thread_start`](Self::on_thread_start). Default: nothing.
    ///
    /// It may block, by [`Handle::block_on`](crate::Handle::block_on) of another runtime as well. A runtime that is
    /// dropped in there, on a thread that was a worker, does not wait for its own threads.
    ///
    /// The runtime's shutdown waits for it, within the limit of [`Runtime::shutdown_timeout`], and counts who is in it
    /// among the stragglers. Until it returns, a thread of the blocking pool takes one of the places of
    /// [`max_blocking_threads`](Self::max_blocking_threads). If there is a job for that thread then, it does not end:
    /// it begins anew, with the call of `on_thread_start`. A thread that never ends, because a closure on it doesn't,
    /// never calls it. Where all places are taken, an `f` that waits for a [`spawn_blocking`](crate::spawn_blocking)
    /// job may wait for itself: the job waits for its place.
    ///
    /// ```
    /// use std::cell::Cell;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// thread_local!(static OPEN: Cell<usize> = const { Cell::new(0) });
    /// // A panic in a hook would not end the program.
    /// static WRONG: AtomicUsize = AtomicUsize::new(0);
    /// let runtime = quadrille::Runtime::builder()
    ///     .max_blocking_threads(1)
    ///     .thread_keep_alive(std::time::Duration::ZERO)
    ///     .on_thread_start(|| drop(WRONG.fetch_add(OPEN.replace(1), Ordering::SeqCst)))
    ///     .on_thread_stop(|| drop(WRONG.fetch_add(1 - OPEN.replace(0), Ordering::SeqCst)))
    ///     .build()?;
    /// for _ in 0..10 {
    ///     assert_eq!(runtime.block_on(runtime.spawn_blocking(|| OPEN.get())).unwrap(), 1, "between the two");
    /// }
    /// drop(runtime);
    /// assert_eq!(WRONG.load(Ordering::SeqCst), 0, "started twice, or stopped twice");
    /// # Ok::<(), quadrille::BuildError>(())
    /// ```
    pub fn on_thread_stop(mut self, f: impl Fn() + Send + Sync + 'static) -> Self {
        self.threads.on_stop = Some(Arc::new(f));
        self
    }

    /// Bytes of stack of each thread of the runtime, workers and those of the blocking pool, 64 KiB (65536) at least;
    /// the system rounds up. Default: std's, 2 MiB or `RUST_MIN_STACK`. Tasks run on the stacks of workers; user-level
    /// threads have their own ([`user_thread_stack_size`](Self::user_thread_stack_size)).
    ///
    /// ```
    /// let runtime = quadrille::Runtime::builder().worker_threads(1).thread_stack_size(16 << 20).build()?;
    /// let sum = runtime.spawn(async {
    ///     let deep = [1_u8; 8 << 20];
    ///     std::hint::black_box(&deep).iter().map(|n| u64::from(*n)).sum::<u64>()
    /// });
    /// assert_eq!(runtime.block_on(sum).unwrap(), 8 << 20);
    /// # Ok::<(), quadrille::BuildError>(())
    /// ```
    pub fn thread_stack_size(mut self, bytes: usize) -> Self {
        self.threads.stack_size = Some(bytes);
        self
    }

    /// Bytes of stack of each user-level thread that asks for no other size
    /// ([`thread::Builder::stack_size`](crate::thread::Builder::stack_size)), rounded up to a power of two, 16 KiB to 1
    /// GiB. Default: 256 KiB. Memory is used only as far as a stack is. For libraries that go deep: one whose limit of
    /// depth is made for the 2 MiB of std's threads needs as much here, too.
    ///
    /// ```
    /// let runtime = quadrille::Runtime::builder().user_thread_stack_size(2 << 20).build()?;
    /// let sum = runtime.spawn_thread(|| {
    ///     let deep = [1_u8; 1 << 20];
    ///     std::hint::black_box(&deep).iter().map(|n| u64::from(*n)).sum::<u64>()
    /// });
    /// assert_eq!(sum.join().unwrap(), 1 << 20);
    /// # Ok::<(), quadrille::BuildError>(())
    /// ```
    pub fn user_thread_stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// How late a timer may be so that a worker which sleeps gets up once for several: those that expire within so long
    /// of the first fire with the last of them. Where a cache has several workers one of them fires for all, unless the
    /// policy has that off (`timer-looks=0`); then it is less by as much as a worker's own sleeps end late, down to
    /// half of it ([`Timers::slack_div`](crate::policy::Timers::slack_div)). A timer with none near it is not delayed,
    /// unless the first worker of the cache is about to get up anyway, and would fire it along: then by 100 us at most.
    /// Default: 90 us, with which 1,000 tasks that sleep 1 to 10 ms are late by 46 us at the median on a virtual
    /// machine whose sleeps end on time; zero wakes for each.
    pub fn timer_slack(mut self, slack: Duration) -> Self {
        self.timer_slack = slack;
        self
    }

    /// Whether the clock is paused from the start, for tests; see [`time::pause`](crate::time::pause). Default: false.
    ///
    /// A paused clock means one worker, whatever the environment says: `QUADRILLE_WORKERS` is not read then, even if
    /// its value is wrong. [`worker_threads`](Self::worker_threads) may say 1 as well; with any other number
    /// [`build`](Self::build) fails.
    pub fn start_paused(mut self, paused: bool) -> Self {
        self.start_paused = paused;
        self
    }

    /// Whether [`uring`](crate::uring) uses io_uring where the kernel allows it. Default: true. Without it the same
    /// operations wait for readiness, or run on threads that may block.
    #[cfg(all(feature = "io-uring", target_os = "linux", not(quadrille_loom)))]
    pub fn io_uring(mut self, allowed: bool) -> Self {
        self.io_uring = Some(allowed);
        self
    }

    /// Starts the workers.
    ///
    /// # Errors
    /// If the clock is to start paused and there is to be more than one worker, or a setting is out of range, a
    /// variable of the environment can't be read, or a thread can't be started.
    pub fn build(self) -> Result<Runtime, BuildError> {
        let name = &self.name;
        if name.contains('\0') {
            return Err(BuildError::new(format!(
                "the name of threads is {name:?}, expected no zero byte"
            )));
        }
        check_size(self.stack_size)
            .map_err(|error| BuildError::new(format!("no user-level thread could be spawned: {error}")))?;
        // A worker of another runtime may be who builds this one, for which its own CPU is not all there is.
        let _unpinned = Unpinned::new();
        let machine = match self.topology.clone() {
            Some(topology) => Machine { topology, found: None },
            None => {
                let found = discover();
                Machine {
                    topology: found.topology.clone(),
                    found: Some(found),
                }
            }
        };
        let workers = self.worker_count(&machine)?;
        if self.start_paused && workers != 1 {
            return Err(BuildError::new(format!(
                "the clock is to start paused with {workers} workers, expected 1"
            )));
        }
        let policy = self.policy(&machine, workers)?;
        let pinned = self.pin(&machine, &policy)?;
        let spawner = spawner(&pinned, &machine, self.threads.clone());
        let cpus = cpus(&machine);
        let mut report = String::new();
        let _ = write!(report, "{workers} workers on {} ({})", machine.topology, pinned.reason);
        for warning in machine.found.iter().flat_map(|found| &found.warnings) {
            let _ = write!(report, "; {warning}");
        }
        let idle = policy.asked_in_vain();
        if !idle.is_empty() {
            let _ = write!(report, "; without groups nothing asks for {}", idle.join(", "));
        }
        let parts = Parts {
            rings: self.rings(workers)?,
            pool: Pool::new(
                self.limits,
                format!("{}-blocking", self.name),
                spawner.clone(),
                policy.config.clone(),
            ),
            policy,
            start_paused: self.start_paused,
            stack_size: self.stack_size,
            timer_slack: self.timer_slack.into(),
            // On the only CPU nobody can bring what one waits for.
            spins: cpus > 1 && workers <= cpus,
            spare: u32::try_from(cpus.saturating_sub(workers)).unwrap_or(u32::MAX),
            report,
            name: self.name,
        };
        let mut runtime = start(parts, pinned.bindings, &self.threads)?;
        runtime.trace = start_trace(&runtime, &spawner);
        Ok(runtime)
    }

    fn worker_count(&self, machine: &Machine) -> Result<usize, BuildError> {
        if self.start_paused && self.workers.is_none() {
            return Ok(1);
        }
        let allowed = 1..=WORKERS_MAX;
        if let Some(count) = self.workers {
            return Some(count).filter(|count| allowed.contains(count)).ok_or_else(|| {
                BuildError::new(format!("the number of workers is {count}, expected 1 to {WORKERS_MAX}"))
            });
        }
        match from_env("QUADRILLE_WORKERS")? {
            Some(text) if !text.trim().eq_ignore_ascii_case("auto") => {
                let count = text.trim().parse().ok().filter(|count| allowed.contains(count));
                count.ok_or_else(|| {
                    BuildError::new(format!(
                        "QUADRILLE_WORKERS is {text:?}, expected auto or 1 to {WORKERS_MAX}"
                    ))
                })
            }
            _ => {
                let pus = machine.topology.pus().len();
                let quota = machine.found.as_ref().and_then(|found| found.allowed.quota.as_ref());
                let by_quota = quota.map_or(usize::MAX, |q| usize::try_from(q.cpus_ceil()).unwrap_or(usize::MAX));
                Ok(pus.min(by_quota.max(2)).clamp(1, WORKERS_MAX))
            }
        }
    }

    /// Rings for io_uring, or why there are none.
    #[cfg(all(feature = "io-uring", target_os = "linux", not(quadrille_loom)))]
    fn rings(&self, workers: usize) -> Result<Result<Arc<Rings>, String>, BuildError> {
        let text = match self.io_uring {
            Some(_) => None,
            None => from_env("QUADRILLE_IO_URING")?,
        };
        let text = text.unwrap_or_else(|| "auto".to_owned());
        let allowed = match (self.io_uring, text.trim()) {
            (Some(true), _) | (None, "auto") => Ok(()),
            (Some(false), _) => Err("the builder says no".to_owned()),
            (None, "off") => Err("QUADRILLE_IO_URING is off".to_owned()),
            (None, other) => {
                let message = format!("QUADRILLE_IO_URING is {other:?}, expected auto or off");
                return Err(BuildError::new(message));
            }
        };
        Ok(allowed.and_then(|()| Rings::new(workers).map(Arc::new).map_err(|error| error.to_string())))
    }

    /// Without the feature there are none.
    #[cfg(not(all(feature = "io-uring", target_os = "linux", not(quadrille_loom))))]
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "the other one may fail")]
    fn rings(&self, _workers: usize) -> Result<Result<Arc<Rings>, String>, BuildError> {
        Ok(Err("built without the feature io-uring".to_owned()))
    }

    fn policy(&self, machine: &Machine, workers: usize) -> Result<Policy, BuildError> {
        let mut config = match &self.config {
            Some(config) => config.clone(),
            None => parsed_from_env("QUADRILLE_POLICY")?.unwrap_or_default(),
        };
        config.seed = self.seed.unwrap_or(config.seed);
        config
            .validate()
            .map_err(|error| BuildError::with_source("the policies can't be used".to_owned(), error))?;
        let count = u16::try_from(workers).expect("at most WORKERS_MAX");
        let options = PlanOptions {
            // A machine that the caller made up has nothing to do with where it runs.
            near: machine.found.as_ref().and_then(|_| current_cpu()),
            ..config.plan_options(Some(count))
        };
        let plan = Plan::compile(&machine.topology, &options)
            .map_err(|error| BuildError::with_source("the workers can't be planned".to_owned(), error))?;
        Ok(Policy::new(config, plan))
    }

    fn pin(&self, machine: &Machine, policy: &Policy) -> Result<Resolved, BuildError> {
        let pinning = match self.pinning {
            Some(pinning) => pinning,
            None => parsed_from_env("QUADRILLE_PIN")?.unwrap_or(Pinning::Auto),
        };
        let Some(found) = &machine.found else {
            let reason = "not pinned: the machine is synthetic".to_owned();
            return Ok(Resolved {
                bindings: vec![Binding::default(); policy.plan.workers.len()],
                reason,
            });
        };
        let quota = found.allowed.quota.as_ref().map(|quota| quota.millicpus);
        resolve(pinning, &found.topology, policy, quota).map_err(BuildError::new)
    }
}

/// A variable of the environment; empty is as good as absent.
fn from_env(name: &str) -> Result<Option<String>, BuildError> {
    match std::env::var(name) {
        Ok(text) => Ok(Some(text).filter(|text| !text.trim().is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(bytes)) => Err(BuildError::new(format!("{name} is {bytes:?}, expected UTF-8"))),
    }
}

/// What a variable of the environment says, if it is set.
fn parsed_from_env<T>(name: &str) -> Result<Option<T>, BuildError>
where
    T: FromStr<Err: Error + Send + Sync + 'static>,
{
    let parsed = from_env(name)?.map(|text| text.parse()).transpose();
    parsed.map_err(|error| BuildError::with_source(format!("{name} can't be read"), error))
}

fn hardware_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// CPUs that threads can fill all the time: who spins spends the quota, too.
fn cpus(machine: &Machine) -> usize {
    let Some(found) = &machine.found else {
        return hardware_threads();
    };
    let quota = found
        .allowed
        .quota
        .as_ref()
        .map_or(u64::MAX, |quota| quota.millicpus / 1000);
    found
        .topology
        .pus()
        .len()
        .min(usize::try_from(quota).unwrap_or(usize::MAX))
}

/// Threads that are no workers get the whole mask of the runtime: they are started by pinned workers.
fn spawner(pinned: &Resolved, machine: &Machine, threads: Threads) -> Spawner {
    match &machine.found {
        Some(found) if pinned.bindings.iter().any(|binding| binding.mask.is_some()) => {
            let all = found.topology.os_set();
            let widen = move || {
                // A mask that has become invalid since leaves the thread where it is.
                let _ = set_current_affinity(&all);
            };
            Spawner::new(widen, threads)
        }
        _ => Spawner::without_mask(threads),
    }
}

fn start(parts: Parts, bindings: Vec<Binding>, threads: &Threads) -> Result<Runtime, BuildError> {
    let (shared, locals) = Shared::new(parts);
    let workers = locals.len();
    let runtime = Runtime::from_shared(shared.clone());
    // A worker of another runtime may be who builds this one.
    let _slack = TimerSlack::lend();
    for (index, (local, binding)) in locals.into_iter().zip(bindings).enumerate() {
        let id = WorkerId(u16::try_from(index).expect("at most WORKERS_MAX"));
        let its_shared = shared.clone();
        let departs = Departs(shared.departures.clone());
        let around = threads.clone();
        let body = move || {
            // A hardware thread that went away between discovery and here leaves the worker unpinned: slower, not
            // wrong.
            if binding.mask.is_some_and(|mask| unpinned::pin(&mask).is_err()) {
                its_shared.pin_failed();
            }
            around.start();
            Worker::new(its_shared, id, local, binding.fallback).run();
            after_work(|| around.stop());
        };
        let thread = threads.builder(format!("{}-{index}", shared.name));
        // After the clones of the user's hooks.
        match thread.spawn(guarded(body, departs)) {
            Ok(thread) => shared.adopt(thread),
            Err(error) => {
                // Of this one itself `departs` has told.
                shared.never_started(workers - index);
                return Err(BuildError::with_source(
                    format!("worker {index} of {workers} can't be started"),
                    error,
                ));
            }
        }
    }
    Ok(runtime)
}

/// The trace that `QUADRILLE_TRACE` asks for; without a thread for it there is a warning and no trace.
fn start_trace(runtime: &Runtime, spawner: &Spawner) -> Option<trace::Trace> {
    let period = trace::period_from_env()?;
    let shared = Arc::downgrade(&runtime.handle().shared);
    let report = runtime.handle().shared.report.clone();
    let lines = trace::Lines::new(shared, report.to_string());
    // Its thread is joined before the limit of a shutdown begins, unless it prints: a hook that blocks would hold that
    // up.
    let spawner = spawner.without_hooks();
    trace::start(period, runtime.handle().shared.name.clone(), &spawner, lines).ok()
}
