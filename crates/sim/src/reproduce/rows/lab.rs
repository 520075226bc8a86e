//! Runs for the rows: one machine, one workload, several configurations.

use std::fmt;
use std::str::FromStr;

use quadrille_policy::Config;

use crate::metrics::Counters;
use crate::{Cost, Histogram, Machine, Model, Nanos, Report, Simulation, Workload};

/// The seed of every run.
pub(super) const SEED: u64 = 1;

/// How long is simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// What the published report uses.
    #[default]
    Full,
    /// An eighth of it, for a first look. Rows may come out differently.
    Quick,
}

/// Where rows are simulated: the costs, and how much is run.
#[derive(Clone, Debug, Default)]
pub struct Lab {
    /// The costs of every run.
    pub cost: Cost,
    /// How long runs are.
    pub effort: Effort,
}

/// A row that cannot be simulated as it is written; names the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabError(String);

impl LabError {
    pub(super) fn new(message: String) -> Self {
        Self(message)
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LabError {}

/// A machine and a model to run on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bench<'a> {
    pub(super) lab: &'a Lab,
    pub(super) machine: &'static str,
    pub(super) model: Model,
    /// Simulated time of a full run, ms.
    pub(super) millis: u64,
}

/// What a run did after its first quarter, in which tasks find their places.
#[derive(Clone, Debug)]
pub(super) struct Steady {
    /// Units of work a simulated second.
    pub(super) rate: f64,
    /// What the counters gained.
    pub(super) counters: Counters,
    /// Migrations of any distance for each unit of work.
    pub(super) migrations_per_unit: f64,
    /// Share of worker time without anything to do.
    pub(super) idle_share: f64,
    /// Times of the workload's own, of the whole run.
    pub(super) samples: Histogram,
    /// When the workload ended.
    pub(super) time: Nanos,
    /// Whether it did.
    pub(super) finished: bool,
}

impl Steady {
    /// The 99th percentile of the workload's own times, ns.
    pub(super) fn p99(&self) -> f64 {
        self.samples.quantile(0.99).0 as f64
    }
}

/// The workload that a text describes.
///
/// # Errors
/// If it describes none.
pub(super) fn workload<W: FromStr<Err = String>>(text: &str) -> Result<W, LabError> {
    text.parse().map_err(LabError::new)
}

impl Bench<'_> {
    /// Runs `workload` under the policies that `config` says, in the form of `QUADRILLE_POLICY`.
    ///
    /// The same run is simulated twice, to the end of its first quarter and to its end; the same seed makes the shorter one
    /// the beginning of the longer.
    ///
    /// # Errors
    /// If machine or configuration cannot be read, or do not go together.
    pub(super) fn run<W: Workload + Clone>(&self, workload: &W, config: &str) -> Result<Steady, LabError> {
        let until = match self.lab.effort {
            Effort::Full => Nanos::from_millis(self.millis),
            Effort::Quick => Nanos(Nanos::from_millis(self.millis).0 / 8),
        };
        let whole = self.simulate(workload, config, until)?;
        let start = self.simulate(workload, config, Nanos(whole.time.0 / 4))?;
        let span = whole.time.0.saturating_sub(start.time.0).max(1) as f64;
        let counters = difference(&whole.total(), &start.total());
        let done = (whole.done - start.done) as f64;
        let moved = migrations(&counters) as f64;
        let worked = (counters.busy_ns + counters.overhead_ns) as f64;
        Ok(Steady {
            rate: done * 1e9 / span,
            migrations_per_unit: moved / done.max(1.0),
            idle_share: (1.0 - worked / (span * whole.workers.len() as f64)).max(0.0),
            counters,
            samples: whole.samples,
            time: whole.time,
            finished: whole.finished,
        })
    }

    fn simulate<W: Workload + Clone>(&self, workload: &W, config: &str, until: Nanos) -> Result<Report, LabError> {
        let failed = |error: &dyn fmt::Display| {
            LabError::new(format!(
                "{} on {} with {config}: {error}",
                workload.name(),
                self.machine
            ))
        };
        let machine: Machine = self.machine.parse().map_err(|error| failed(&error))?;
        let parsed: Config = config.parse().map_err(|error| failed(&error))?;
        let cost = self.lab.cost.clone();
        let simulation = Simulation::new(machine, cost, parsed, self.model, workload.clone(), SEED);
        Ok(simulation.map_err(|error| failed(&error))?.run(until))
    }

    /// The line about the conditions of a row.
    pub(super) fn condition(&self, workload: &str, configs: &str) -> String {
        let millis = match self.lab.effort {
            Effort::Full => self.millis,
            Effort::Quick => self.millis.div_ceil(8),
        };
        format!(
            "{} model on {}, {workload}, {configs}; {millis} simulated ms, the first quarter not counted, seed {SEED}",
            self.model, self.machine
        )
    }
}

/// Tasks that ran elsewhere than before, at any distance.
pub(super) fn migrations(counters: &Counters) -> u64 {
    counters.migrations_group + counters.migrations_llc + counters.migrations_node + counters.migrations_machine
}

fn difference(whole: &Counters, start: &Counters) -> Counters {
    let mut difference = *whole;
    difference.subtract(start);
    difference
}
