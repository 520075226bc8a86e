//! What a run has come to.

use quadrille_policy::Nanos;

use crate::histogram::Histogram;
use crate::metrics::Counters;

/// What the simulator itself has done to put events in order: counts, which say on a busy machine too whether its work
/// grows with the events alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueWork {
    /// Events that were entered: those that were simulated, those that had become stale, and those still to come.
    pub entered: u64,
    /// Those among them that were entered more than 4096 ns ahead, and so went through a heap.
    pub deferred: u64,
    /// The most that ever waited outside that heap at a time.
    pub near_max: usize,
}

/// The result of a [`Simulation`](crate::Simulation).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// The workload, with its parameters.
    pub workload: String,
    /// The machine.
    pub machine: String,
    /// The model.
    pub model: String,
    /// The configuration in its text form.
    pub config: String,
    /// The costs that are not the default ones.
    pub cost: String,
    /// The seed.
    pub seed: u64,
    /// Units of work done.
    pub done: u64,
    /// What a unit is.
    pub unit: &'static str,
    /// Simulated time: until the last task ended, or until the limit.
    pub time: Nanos,
    /// Whether all tasks ended within the limit.
    pub finished: bool,
    /// Tasks that wait for each other for ever. Must stay 0 in a workload that ends.
    pub stalled: u64,
    /// Events that were simulated.
    pub events: u64,
    /// What it took to put them in order.
    pub queue: QueueWork,
    /// How long tasks were ready before they ran.
    pub ready_to_run: Histogram,
    /// Times of the workload's own.
    pub samples: Histogram,
    /// By worker.
    pub workers: Vec<Counters>,
    /// A hash of everything that happened, in order: the same for the same machine, workload, configuration and seed.
    pub trace_hash: u64,
    /// The text of the same, if it was asked for.
    pub trace: Option<String>,
}

impl Report {
    /// Units of work a simulated second.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        if self.time.0 == 0 {
            return 0.0;
        }
        self.done as f64 * 1e9 / self.time.0 as f64
    }

    /// The counters of all workers.
    #[must_use]
    pub fn total(&self) -> Counters {
        let mut total = Counters::default();
        self.workers.iter().for_each(|worker| total.add(worker));
        total
    }

    /// The share of all worker time that was neither spent on tasks nor on looking for some.
    #[must_use]
    pub fn idle_share(&self) -> f64 {
        let all = self.time.0 as f64 * self.workers.len() as f64;
        let total = self.total();
        if all == 0.0 {
            return 0.0;
        }
        (1.0 - (total.busy_ns + total.overhead_ns) as f64 / all).max(0.0)
    }
}
