//! From outcomes to what is printed and written: summaries, tables, the JSON of a comparison, its page.
//!
//! Every form shows the same [`Section`]s: one for each workload and figure, with a [`Summary`] a row.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::environment::Environment;
use crate::moves;
use crate::outcome::{Counters, Measured, Outcome};
use crate::spec::{Body, ChannelKind, Contender, Family, Metric, RuntimeName, Spec, Workload};
use crate::stats::{Ratios, Spread, ratios, spread};
use crate::table::{Table, figure, thousands};

mod chart;
mod curve;
pub mod page;
mod title;

pub use curve::curve_tables;
pub use title::title;

/// A row and how each of its repetitions ended.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was run.
    pub spec: Spec,
    /// One outcome a repetition, in order.
    pub outcomes: Vec<Outcome>,
}

impl Row {
    /// The figures of each repetition; `None` where there are none.
    fn figures(&self, metric: Metric) -> Vec<Option<f64>> {
        self.outcomes.iter().map(|outcome| figure_of(outcome, metric)).collect()
    }

    fn measured(&self) -> impl Iterator<Item = &Measured> {
        self.outcomes.iter().filter_map(|outcome| match outcome {
            Outcome::Measured(measured) => Some(measured),
            _ => None,
        })
    }

    /// The median over the repetitions of something measured.
    fn median(&self, of: fn(&Measured) -> f64) -> Option<f64> {
        let values: Vec<f64> = self.measured().map(of).collect();
        spread(&values).map(|spread| spread.median)
    }

    /// Why there are no figures, or why they are not to be trusted.
    fn remark(&self) -> Option<String> {
        self.outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Measured(_) => None,
            Outcome::Unsupported(reason) => Some(format!("not run: {reason}")),
            Outcome::Failed(message) => Some(format!("FAILED: {message}")),
        })
    }

    /// Whether a repetition failed; a row that the runtime does not support has not.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.outcomes
            .iter()
            .any(|outcome| matches!(outcome, Outcome::Failed(_)))
    }

    /// The counters of the repetition with the median figure, of all repetitions the most typical.
    fn counters(&self, metric: Metric) -> Counters {
        let mut by_figure: Vec<(f64, &Measured)> = self
            .outcomes
            .iter()
            .filter_map(|outcome| match outcome {
                Outcome::Measured(measured) => figure_of(outcome, metric).map(|figure| (figure, measured)),
                _ => None,
            })
            .collect();
        by_figure.sort_by(|a, b| a.0.total_cmp(&b.0));
        by_figure
            .get(by_figure.len() / 2)
            .map(|(_, measured)| measured.counters.clone())
            .unwrap_or_default()
    }
}

fn figure_of(outcome: &Outcome, metric: Metric) -> Option<f64> {
    let Outcome::Measured(measured) = outcome else {
        return None;
    };
    #[expect(
        clippy::cast_precision_loss,
        reason = "nanoseconds and counts of a run stay far below 2^53"
    )]
    let a_second = |count: u64| count as f64 * 1e9 / measured.wall_ns.max(1) as f64;
    match metric {
        Metric::Throughput => Some(a_second(measured.ops)),
        Metric::Moves(distance) => moves::by_distance(&measured.counters, distance).map(a_second),
        Metric::PerOperation => Some(measured.ns_per_op()),
        Metric::Cpu => Some(measured.cpu_ns_per_op()),
        #[expect(clippy::cast_precision_loss, reason = "waits stay far below 2^53 ns")]
        Metric::LongestWait => measured.longest_wait_ns.map(|wait| wait as f64),
        #[expect(clippy::cast_precision_loss, reason = "latencies stay far below 2^53 ns")]
        Metric::P50
        | Metric::P99
        | Metric::P999
        | Metric::DueP50
        | Metric::DueP99
        | Metric::RequestP50
        | Metric::RequestP99 => measured.counters.get(metric.name()).map(|&latency| latency as f64),
        Metric::CreateEach | Metric::MemoryEach | Metric::WakeJoinEach => measured.counter_per_op(metric.name()),
        #[expect(clippy::cast_precision_loss, reason = "wake-ups stay far below 2^53")]
        Metric::WakeUps => measured.counters.get(metric.name()).map(|&count| count as f64),
    }
}

/// What a comparison has found: what `--json` writes and the page shows.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where, when and by which command.
    pub environment: Environment,
    /// Whether every run has been made; a report is written after each workload.
    pub complete: bool,
    /// The tables, in the order in which they are printed.
    pub sections: Vec<Section>,
}

/// One figure of one workload, on all runtimes.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// The workload.
    pub workload: &'static str,
    /// What the workload is written with.
    pub body: Body,
    /// What the figures are: `ns_per_op`, `longest_wait_ns`, `p99_ns`, ...
    pub metric: &'static str,
    /// Whether less of it is better; if not there are no ratios.
    #[serde(skip)]
    pub is_compared: bool,
    /// The point of a load curve that it is, in hundredths of full load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_percent: Option<u32>,
    /// Repetitions of each row, interleaved.
    pub repetitions: usize,
    /// A row for each runtime and channel.
    pub rows: Vec<Summary>,
}

/// A row of a [`Section`].
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// What was run; `quadrille run-one '<spec>'` repeats it.
    pub spec: Spec,
    /// The runtime as it is typed: `quadrille:groups=off`.
    pub runtime: String,
    /// The channel.
    pub channel: &'static str,
    /// Its parameters, as this row ran it.
    pub params: Value,
    /// The figure over the repetitions; null without a right result.
    pub figure: Option<Spread>,
    /// The figure of each repetition.
    pub samples: Vec<Option<f64>>,
    /// Processor nanoseconds an operation, user and kernel of all threads, median.
    pub cpu_ns_per_op: Option<f64>,
    /// Voluntary context switches an operation, median.
    pub vcsw_per_op: Option<f64>,
    /// By name of the base: the median of the ratios to its first row within each repetition. Bases are tokio (of
    /// threads: Go), or if that has no figure the first runtime that has one, and tokio with mimalloc if that has one.
    pub ratios: BTreeMap<String, f64>,
    /// The same with their extremes, and of how many repetitions they are.
    pub ratio_spreads: BTreeMap<String, Ratios>,
    /// Counters of the repetition with the median figure.
    pub counters: Counters,
    /// How many there were of what the workload is about, if not as many as its name promises.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<String>,
    /// Why there are no figures, or what failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

impl Summary {
    /// Repetitions with a right result.
    #[must_use]
    pub fn repetitions(&self) -> usize {
        self.samples.iter().flatten().count()
    }

    /// The runtime, and how much less it had to do.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.scale {
            Some(scale) => format!("{} ({scale})", self.runtime),
            None => self.runtime.clone(),
        }
    }
}

impl Section {
    /// Reduces the rows of `workload` to one of its figures.
    #[must_use]
    pub fn new(workload: &Workload, body: Body, rows: &[Row], metric: Metric) -> Self {
        let with_figure = rows
            .iter()
            .filter(|row| row.figures(metric).iter().any(Option::is_some));
        let bases: Vec<Base> = bases_of(with_figure.map(|row| &row.spec), body)
            .into_iter()
            .filter(|_| metric.is_compared())
            .filter_map(|runtime| Base::find(rows, &runtime, metric))
            .collect();
        Self {
            title: title(workload, body, metric),
            workload: workload.name(body),
            body,
            metric: metric.name(),
            is_compared: metric.is_compared(),
            load_percent: match *workload {
                Workload::Load { percent, .. } => Some(percent),
                _ => None,
            },
            repetitions: rows.iter().map(|row| row.outcomes.len()).max().unwrap_or(0),
            rows: rows
                .iter()
                .map(|row| Summary {
                    scale: other_scale(&row.spec.workload, workload),
                    ..summary(row, metric, &bases)
                })
                .collect(),
        }
    }

    /// The names of the runtimes that ratios are to; the first is that of the plots. None if the figure is not
    /// compared.
    #[must_use]
    pub fn bases(&self) -> Vec<String> {
        if !self.is_compared {
            return Vec::new();
        }
        let with_figure = self.rows.iter().filter(|row| row.figure.is_some());
        let bases = bases_of(with_figure.map(|row| &row.spec), self.body);
        bases.iter().map(Contender::to_string).collect()
    }

    /// What a reader must know of whom ratios are to, in a sentence each.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let notes: Vec<String> = self.note_on_channels().into_iter().chain(self.failed_bases()).collect();
        (!notes.is_empty()).then(|| notes.join(" "))
    }

    /// The row that ratios to `base` are to.
    fn row_of(&self, base: &str) -> Option<&Summary> {
        self.rows.iter().find(|row| row.runtime == base && row.figure.is_some())
    }

    /// Whom ratios are to, where a reader may take them to be to the same runtime with the channel of the row.
    fn note_on_channels(&self) -> Option<String> {
        let base = self.row_of(self.bases().first()?)?;
        let is_mixed = self.rows.iter().any(|row| row.spec.channel == ChannelKind::Shared)
            && self.rows.iter().any(|row| row.spec.channel == ChannelKind::Own);
        is_mixed.then(|| {
            format!(
                "Ratios are to {} over {}, those of rows with another channel, too.",
                base.runtime, base.channel
            )
        })
    }

    /// Bases whose figures are not those of all runs.
    fn failed_bases(&self) -> Vec<String> {
        let bases = self.bases();
        let failed = bases
            .iter()
            .filter_map(|base| self.row_of(base))
            .filter(|row| row.remark.is_some());
        failed
            .map(|row| {
                let runs = row.samples.len();
                format!(
                    "{} failed in {} of {runs} runs, ratios to it are those within the others.",
                    row.runtime,
                    runs - row.repetitions()
                )
            })
            .collect()
    }
}

/// Whom ratios are to, among those with a figure: the peer that a user would otherwise take, or else the first; and
/// tokio with mimalloc.
fn bases_of<'a>(specs: impl Iterator<Item = &'a Spec>, body: Body) -> Vec<Contender> {
    let runtimes: Vec<&Contender> = specs.map(|spec| &spec.runtime).collect();
    let named = |name| runtimes.iter().copied().find(|runtime| runtime.name == name);
    let first = named(body.base()).or(runtimes.first().copied());
    let second = named(RuntimeName::TokioMimalloc).filter(|second| first != Some(second));
    first.into_iter().chain(second).cloned().collect()
}

/// Whom ratios are to, with the figure of each repetition.
struct Base {
    name: String,
    figures: Vec<Option<f64>>,
}

impl Base {
    /// The first row of `runtime` that has a figure.
    fn find(rows: &[Row], runtime: &Contender, metric: Metric) -> Option<Self> {
        rows.iter()
            .filter(|row| row.spec.runtime == *runtime)
            .map(|row| row.figures(metric))
            .find(|figures| figures.iter().any(Option::is_some))
            .map(|figures| Self {
                name: runtime.to_string(),
                figures,
            })
    }
}

fn other_scale(row: &Workload, workload: &Workload) -> Option<String> {
    let (count, what) = row.scale().filter(|scale| Some(*scale) != workload.scale())?;
    Some(format!("{} {what}", thousands(&count.to_string())))
}

fn summary(row: &Row, metric: Metric, bases: &[Base]) -> Summary {
    let spec = &row.spec;
    let samples = row.figures(metric);
    let present: Vec<f64> = samples.iter().copied().flatten().collect();
    let ratio_spreads: BTreeMap<String, Ratios> = bases
        .iter()
        .filter_map(|base| Some((base.name.clone(), ratios(&samples, &base.figures)?)))
        .collect();
    Summary {
        spec: spec.clone(),
        runtime: spec.runtime.to_string(),
        channel: spec.channel.name(spec.runtime.name.family()),
        params: spec.workload.params(),
        figure: spread(&present),
        samples,
        cpu_ns_per_op: row.median(Measured::cpu_ns_per_op),
        vcsw_per_op: row.median(Measured::vcsw_per_op),
        ratios: ratio_spreads
            .iter()
            .map(|(base, ratios)| (base.clone(), ratios.spread.median))
            .collect(),
        ratio_spreads,
        counters: row.counters(metric),
        scale: None,
        remark: row.remark(),
    }
}

/// The table of one workload and figure.
#[must_use]
pub fn table(section: &Section) -> Table {
    let bases = section.bases();
    let ratios = bases.iter().map(|base| format!("median ratio to {base}"));
    let header: Vec<String> = ["runtime", "channel", "median", "min", "max"]
        .map(str::to_owned)
        .into_iter()
        .chain(ratios)
        .chain(["cpu ns/op", "vol. switches/op"].map(str::to_owned))
        .collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = Table::new(&header, 2);
    for row in &section.rows {
        let names = vec![row.label(), row.channel.to_owned()];
        match (&row.remark, row.figure) {
            (None, Some(spread)) => {
                let rest = [Some(spread.median), Some(spread.min), Some(spread.max)];
                let mut cells = names;
                cells.extend(rest.map(cell));
                cells.extend(bases.iter().map(|base| ratio(row, base)));
                cells.push(cell(row.cpu_ns_per_op));
                cells.push(switches(row));
                table.push(cells);
            }
            (remark, _) => table.push_remark(names, remark.clone().unwrap_or_else(|| "no figures".to_owned())),
        }
    }
    table
}

fn ratio(row: &Summary, base: &str) -> String {
    row.ratios
        .get(base)
        .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
}

fn switches(row: &Summary) -> String {
    row.vcsw_per_op
        .map_or_else(|| "-".to_owned(), |count| format!("{count:.4}"))
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), figure)
}

/// The name of a channel in a line of its own, empty if there is none to name.
#[must_use]
pub fn channel_name(spec: &Spec) -> &'static str {
    let family: Family = spec.runtime.name.family();
    spec.channel.name(family)
}

#[cfg(test)]
mod tests;
