//! Runs for the rows: one machine, one workload, several configurations; those of one configuration side by side on all
//! CPUs, a seed each.

use std::fmt;
use std::panic::resume_unwind;
use std::str::FromStr;
use std::thread;

use quadrille_policy::Config;

use crate::metrics::Counters;
use crate::{Cost, Machine, Model, Nanos, Report, Simulation, Workload};

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
    /// Runs whose mean counts, with the seeds 1, 2 and so on: several where the first placement decides much.
    pub(super) seeds: u32,
}

/// What a run did after its first quarter, in which tasks find their places; the mean over all seeds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Steady {
    /// Units of work a simulated second.
    pub(super) rate: f64,
    /// What the counters gained, summed over all seeds.
    pub(super) counters: Counters,
    /// Moves between groups for each unit of work; those inside a group share a level-2 cache and cost next to nothing.
    pub(super) group_changes_per_unit: f64,
    /// Moves between workers for each unit of work, however near.
    pub(super) moves_per_unit: f64,
    /// Share of worker time without anything to do.
    pub(super) idle_share: f64,
    /// The 99th percentile of the workload's own times, ns, of the whole run.
    pub(super) p99: f64,
    /// When the workload ended, ns.
    pub(super) time: f64,
    /// Whether it did, with every seed.
    pub(super) finished: bool,
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
    /// # Errors
    /// If machine or configuration cannot be read, or do not go together.
    pub(super) fn run<W>(&self, workload: &W, config: &str) -> Result<Steady, LabError>
    where
        W: Workload + Clone + Sync,
    {
        let seeds = match self.lab.effort {
            Effort::Full => self.seeds,
            Effort::Quick => 1,
        };
        let mut mean = Steady {
            finished: true,
            ..Steady::default()
        };
        for one in self.run_seeds(workload, config, seeds) {
            let (one, share) = (one?, 1.0 / f64::from(seeds));
            mean.rate += one.rate * share;
            mean.group_changes_per_unit += one.group_changes_per_unit * share;
            mean.moves_per_unit += one.moves_per_unit * share;
            mean.idle_share += one.idle_share * share;
            mean.p99 += one.p99 * share;
            mean.time += one.time * share;
            mean.finished &= one.finished;
            mean.counters.add(&one.counters);
        }
        Ok(mean)
    }

    /// A run for each seed, in their order whoever ends first: on all CPUs, since no run knows of another.
    fn run_seeds<W>(&self, workload: &W, config: &str, seeds: u32) -> Vec<Result<Steady, LabError>>
    where
        W: Workload + Clone + Sync,
    {
        let cpus = thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX));
        let runners = cpus.min(seeds);
        let share = |first: u32| (first..=seeds).step_by(runners as usize);
        let run = |seed: u32| (seed, self.run_once(workload, config, u64::from(seed)));
        let mut runs: Vec<_> = thread::scope(|scope| {
            let runners: Vec<_> = (1..=runners)
                .map(|first| scope.spawn(move || share(first).map(run).collect::<Vec<_>>()))
                .collect();
            let joined = runners.into_iter().map(|runner| runner.join());
            joined
                .flat_map(|runs| runs.unwrap_or_else(|payload| resume_unwind(payload)))
                .collect()
        });
        runs.sort_by_key(|(seed, _)| *seed);
        runs.into_iter().map(|(_, run)| run).collect()
    }

    /// The same run is simulated twice, to the end of its first quarter and to its end; the same seed makes the shorter
    /// one the beginning of the longer.
    fn run_once<W: Workload + Clone>(&self, workload: &W, config: &str, seed: u64) -> Result<Steady, LabError> {
        let until = match self.lab.effort {
            Effort::Full => Nanos::from_millis(self.millis),
            Effort::Quick => Nanos(Nanos::from_millis(self.millis).0 / 8),
        };
        let whole = self.simulate(workload, config, seed, until)?;
        let start = self.simulate(workload, config, seed, Nanos(whole.time.0 / 4))?;
        let span = whole.time.0.saturating_sub(start.time.0).max(1) as f64;
        let mut counters = whole.total();
        counters.subtract(&start.total());
        let done = whole.done.saturating_sub(start.done) as f64;
        let worked = (counters.busy_ns + counters.overhead_ns) as f64;
        Ok(Steady {
            rate: done * 1e9 / span,
            group_changes_per_unit: group_changes(&counters) as f64 / done.max(1.0),
            moves_per_unit: (group_changes(&counters) + counters.migrations_group) as f64 / done.max(1.0),
            idle_share: (1.0 - worked / (span * whole.workers.len() as f64)).max(0.0),
            counters,
            p99: whole.samples.quantile(0.99).0 as f64,
            time: whole.time.0 as f64,
            finished: whole.finished,
        })
    }

    fn simulate<W>(&self, workload: &W, config: &str, seed: u64, until: Nanos) -> Result<Report, LabError>
    where
        W: Workload + Clone,
    {
        let failed = |error: &dyn fmt::Display| {
            LabError::new(format!(
                "{} on {} with {config}: {error}",
                workload.name(),
                self.machine
            ))
        };
        let machine: Machine = self.machine.parse().map_err(|error| failed(&error))?;
        let mut parsed: Config = config.parse().map_err(|error| failed(&error))?;
        // The rows are about wake-ups that leave the waker. By default those of short tasks don't.
        parsed.wake_groups.short_runs = 0;
        let cost = self.lab.cost.clone();
        let simulation = Simulation::new(machine, cost, parsed, self.model, workload.clone(), seed);
        Ok(simulation.map_err(|error| failed(&error))?.run(until))
    }

    /// The line about the conditions of a row.
    pub(super) fn condition(&self, workload: &str, configs: &str) -> String {
        let (millis, seeds) = match self.lab.effort {
            Effort::Full => (self.millis, self.seeds),
            Effort::Quick => (self.millis.div_ceil(8), 1),
        };
        let seeds = if seeds == 1 {
            "seed 1".to_owned()
        } else {
            format!("mean of seeds 1 to {seeds}")
        };
        let fixed = if matches!(self.model, Model::Shipped | Model::ShippedScan) {
            ", short-runs=0"
        } else {
            ""
        };
        format!(
            "{} model on {}, {workload}, {configs}{fixed}; {millis} simulated ms, the first quarter not counted, {seeds}",
            self.model, self.machine
        )
    }
}

/// Tasks that ran in another group than before, at any distance.
fn group_changes(counters: &Counters) -> u64 {
    counters.migrations_llc + counters.migrations_node + counters.migrations_machine
}
