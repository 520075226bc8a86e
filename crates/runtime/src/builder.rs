//! How a runtime is made.

use std::sync::Arc;

use quadrille_policy::{Config, Plan, PlanOptions, Policy, WorkerId};
use quadrille_topology::Topology;

use crate::blocking::{Limits, Pool};
use crate::error::BuildError;
use crate::runtime::Runtime;
use crate::sched::Shared;
use crate::sched::worker::Worker;
use crate::sys::thread::Spawner;

/// Makes a [`Runtime`]. Every setting has a default that is right for a server on a machine of its own.
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
    config: Config,
    name: String,
    limits: Limits,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// A builder with the default settings.
    pub fn new() -> Self {
        Self {
            workers: None,
            topology: None,
            config: Config::default(),
            name: "quadrille".to_owned(),
            limits: Limits::default(),
        }
    }

    /// Number of workers, `1..=4096`. Default: one a hardware thread that the process may use, no more than its CPU quota
    /// rounded up. `QUADRILLE_WORKERS` overrides the default, not this setting.
    pub fn worker_threads(mut self, count: usize) -> Self {
        self.workers = Some(count);
        self
    }

    /// The machine to plan for, in place of the one the process runs on. Workers are not pinned then.
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = Some(topology);
        self
    }

    /// The constants of the scheduling policies. Default: [`Config::default`].
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Prefix of the names of all threads. Default: `quadrille`.
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Most threads of the blocking pool at a time, at least 1. Default: 512.
    pub fn max_blocking_threads(mut self, count: usize) -> Self {
        self.limits.threads_max = count;
        self
    }

    /// How long an idle thread of the blocking pool stays. Default: 10 s.
    pub fn thread_keep_alive(mut self, limit: std::time::Duration) -> Self {
        self.limits.keep_alive = limit;
        self
    }

    /// Starts the workers.
    ///
    /// # Errors
    /// If a setting is out of range, a variable of the environment can't be read, or a thread can't be started.
    pub fn build(self) -> Result<Runtime, BuildError> {
        let workers = match self.workers {
            None => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            Some(count @ 1..=4096) => count,
            Some(count) => {
                return Err(BuildError::new(format!("worker_threads is {count}, expected 1 to 4096")));
            }
        };
        let count = u16::try_from(workers).expect("at most 4096");
        let hardware = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let topology = self.topology.unwrap_or_else(|| Topology::flat(u16::try_from(hardware).unwrap_or(u16::MAX)));
        let options = PlanOptions { workers: Some(count) };
        let plan = Plan::compile(&topology, &options)
            .map_err(|error| BuildError::with_source("can't plan the workers".to_owned(), error))?;
        let policy = Policy::new(self.config, plan);
        let pool = Pool::new(self.limits, format!("{}-blocking", self.name), Spawner::default());
        let (shared, locals) = Shared::new(policy, self.name, pool, workers <= hardware);
        let runtime = Runtime::from_shared(shared.clone());
        for (index, local) in locals.into_iter().enumerate() {
            let id = WorkerId(u16::try_from(index).expect("at most 4096"));
            let worker_shared: Arc<Shared> = shared.clone();
            let body = move || Worker::new(worker_shared, id, local).run();
            let thread = std::thread::Builder::new().name(format!("{}-{index}", shared.name)).spawn(body);
            match thread {
                Ok(thread) => shared.adopt(thread),
                Err(error) => {
                    shared.never_started(workers - index);
                    let message = format!("can't start worker {index} of {workers}");
                    return Err(BuildError::with_source(message, error));
                }
            }
        }
        Ok(runtime)
    }
}
