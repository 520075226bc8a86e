//! Counters of a runtime, always on: [`Metrics`], and as a page for [`Prometheus`].

mod prometheus;

pub use self::prometheus::{PROMETHEUS_CONTENT_TYPE, Prometheus};
pub use crate::blocking::BlockingMetrics;
use crate::primitives::Ordering;
use crate::sched::Shared;
pub use crate::sched::load::LlcMetrics;
pub use crate::sched::stats::WorkerMetrics;

/// The counters of a runtime at one moment. Each worker's are single-writer and may be a few tasks apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// By worker.
    pub workers: Vec<WorkerMetrics>,
    /// By last-level cache; all zero unless policy 1 or 5 is on, so on machines of up to 4 workers unless
    /// asked for.
    pub llcs: Vec<LlcMetrics>,
    /// Workers that are idle: parked, or about to park, and claimed by nobody.
    pub idle_workers: u32,
    /// Wake-ups by threads that are no workers.
    pub foreign_wakes: u64,
    /// Workers that such threads woke.
    pub foreign_unparks: u64,
    /// Tasks that have been pending and are not finished; threads are counted below.
    pub pending_tasks: usize,
    /// User-level threads that have been suspended and have not ended.
    pub living_threads: usize,
    /// Tasks that are not gone yet, a little late: workers tell it before they park, and about once a millisecond.
    /// `None` unless policy 1 or 5 is on, for which they are counted: so on machines of up to 4 workers unless asked
    /// for. Those that wait are always in [`pending_tasks`](Self::pending_tasks).
    pub live_tasks: Option<u64>,
    /// The threads for work that blocks.
    pub blocking: BlockingMetrics,
    /// Measured cost of waking a parked worker, ns, moving average: the time that it takes, and what is lost where
    /// others want the CPUs.
    pub wake_cost_ns: u64,
    /// Workers that could not be pinned as planned.
    pub pin_failures: u32,
}

/// The sum over all caches; below zero only while it is told in parts.
fn live(llcs: &[LlcMetrics]) -> u64 {
    let sum: i64 = llcs.iter().map(|llc| llc.live).sum();
    u64::try_from(sum).unwrap_or(0)
}

impl Metrics {
    pub(crate) fn of(shared: &Shared) -> Self {
        let llcs = shared.loads.metrics();
        // Ordering: Relaxed; statistics.
        Self {
            workers: shared.workers.iter().map(|worker| worker.counters.snapshot()).collect(),
            idle_workers: shared.sleepers.idle.bits(),
            foreign_wakes: shared.foreign.wakes.load(Ordering::Relaxed),
            foreign_unparks: shared.foreign.unparks.load(Ordering::Relaxed),
            pending_tasks: shared.registry.len(),
            living_threads: shared.living_threads(),
            live_tasks: shared.loads.are_counted().then(|| live(&llcs)),
            llcs,
            blocking: shared.pool.load(),
            wake_cost_ns: shared.wake_cost().0,
            pin_failures: shared.pin_failures(),
        }
    }

    /// The sum over all workers.
    #[must_use]
    pub fn total(&self) -> WorkerMetrics {
        let mut total = WorkerMetrics::default();
        self.workers.iter().for_each(|worker| total.add(worker));
        total
    }
}
