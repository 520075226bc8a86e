//! From outcomes to what is printed and written: summaries, the table of a workload, the JSON of a comparison.

use std::fs;

use quadrille_topology::{Grouping, discover};
use serde::Serialize;
use serde_json::Value;

use crate::outcome::{Counters, Measured, Outcome};
use crate::spec::{Body, Family, Hackbench, Metric, RuntimeName, Spec, Transport, Workload};
use crate::stats::{Spread, median_ratio, spread};
use crate::table::{Table, figure, thousands};

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
    match metric {
        Metric::PerOperation => Some(measured.ns_per_op()),
        #[expect(clippy::cast_precision_loss, reason = "waits stay far below 2^53 ns")]
        Metric::LongestWait => measured.longest_wait_ns.map(|wait| wait as f64),
        Metric::CreateEach | Metric::MemoryEach | Metric::WakeJoinEach => measured.counter_per_op(metric.name()),
    }
}

/// The element of the JSON array that `compare --json` writes.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The workload.
    pub workload: &'static str,
    /// Its parameters, as this row ran it.
    pub params: Value,
    /// The runtime.
    pub runtime: &'static str,
    /// Worker threads; for threads without meaning.
    pub workers: usize,
    /// The channel.
    pub channel: &'static str,
    /// What the figure in the field `ns_per_op` is: that; or `longest_wait_ns`; or of each thread that sleeps `create_ns`,
    /// `rss_bytes` or `wake_join_ns`.
    pub metric: &'static str,
    /// The figure over the repetitions; null without a right result.
    pub ns_per_op: Option<Spread>,
    /// Processor nanoseconds an operation, user and kernel of all threads, median.
    pub cpu_ns_per_op: Option<f64>,
    /// Voluntary context switches an operation, median.
    pub vcsw_per_op: Option<f64>,
    /// Median of the ratios to tokio's first row of this workload within each repetition.
    pub ratio_to_tokio: Option<f64>,
    /// The same to Go's first row.
    pub ratio_to_go: Option<f64>,
    /// Counters of the repetition with the median figure.
    pub counters: Counters,
    /// Repetitions with a right result.
    pub repetitions: usize,
    /// How many there were of what the workload is about, if not as many as its name promises.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<String>,
    /// Why there are no figures, or what failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

impl Summary {
    /// The ratio that the tables of its body show.
    fn ratio(&self, body: Body) -> Option<f64> {
        match body.base().family() {
            Family::Go => self.ratio_to_go,
            _ => self.ratio_to_tokio,
        }
    }
}

/// Reduces the rows of `workload` to one of its figures.
#[must_use]
pub fn summaries(workload: &Workload, rows: &[Row], metric: Metric) -> Vec<Summary> {
    let figures_of = |runtime| {
        let row = rows.iter().find(|row| row.spec.runtime == runtime);
        row.map(|row| row.figures(metric))
    };
    let bases = Bases {
        tokio: figures_of(RuntimeName::Tokio),
        go: figures_of(RuntimeName::Go),
    };
    rows.iter()
        .map(|row| Summary {
            scale: other_scale(&row.spec.workload, workload),
            ..summary(row, metric, &bases)
        })
        .collect()
}

/// The figures that ratios are to, one a repetition.
struct Bases {
    tokio: Option<Vec<Option<f64>>>,
    go: Option<Vec<Option<f64>>>,
}

fn other_scale(row: &Workload, workload: &Workload) -> Option<String> {
    let (count, what) = row.scale().filter(|scale| Some(*scale) != workload.scale())?;
    Some(format!("{} {what}", thousands(&count.to_string())))
}

fn summary(row: &Row, metric: Metric, bases: &Bases) -> Summary {
    let Spec {
        workload,
        body,
        runtime,
        channel,
        workers,
        ..
    } = row.spec;
    let figures = row.figures(metric);
    let present: Vec<f64> = figures.iter().copied().flatten().collect();
    let ratio_to = |base: &Option<Vec<_>>| base.as_deref().and_then(|base| median_ratio(&figures, base));
    Summary {
        workload: workload.name(body),
        params: workload.params(),
        runtime: runtime.name(),
        workers,
        channel: channel.name(runtime.family()),
        metric: metric.name(),
        ns_per_op: spread(&present),
        cpu_ns_per_op: row.median(Measured::cpu_ns_per_op),
        vcsw_per_op: row.median(Measured::vcsw_per_op),
        ratio_to_tokio: ratio_to(&bases.tokio),
        ratio_to_go: ratio_to(&bases.go),
        counters: row.counters(metric),
        repetitions: present.len(),
        scale: None,
        remark: row.remark(),
    }
}

/// The heading of a workload's table of one figure.
#[must_use]
pub fn title(workload: &Workload, body: Body, metric: Metric) -> String {
    let (name, bodies) = (workload.name(body), body.name());
    let one = bodies.trim_end_matches('s');
    match *workload {
        Workload::Hackbench(h) => hackbench_title(&h, body),
        Workload::SpawnJoin { batch, .. } => {
            format!("{name}: batches of {batch} from inside a {one}; ns a {one}")
        }
        Workload::SpawnRemote { batch: 1, .. } => {
            "spawn_remote1: one task at a time from outside, then wait for it; ns a task".to_owned()
        }
        Workload::SpawnRemote { batch, .. } => {
            format!("spawn_remote: batches of {batch} from outside; ns a task")
        }
        Workload::Yield { tasks, yields, .. } => {
            format!("{name}: {tasks} {bodies}, {yields} yields each; ns a yield")
        }
        Workload::PingPong { pairs, .. } => {
            format!("{name}: pairs {pairs}, capacity 1; ns a round trip")
        }
        Workload::Skynet { leaves } => format!(
            "{name}: a tree of {bodies} with {} leaves, 10 children each; ns a {one}",
            thousands(&leaves.to_string())
        ),
        Workload::Sleepers { threads } => format!(
            "{name}: {} threads sleep; {}",
            thousands(&threads.to_string()),
            match metric {
                Metric::MemoryEach => "resident bytes each",
                Metric::WakeJoinEach => "ns to wake and join each",
                _ => "ns to create each",
            }
        ),
        Workload::Spin {
            spin_us,
            woken,
            yielders,
        } => format!(
            "fairness, spin: a task spins {} ms; the longest wait of {woken} it woke and {yielders} that yield, in ns",
            spin_us / 1000
        ),
        Workload::Closed {
            tasks,
            work_us,
            via_channel,
            ..
        } => format!(
            "fairness, closed: {tasks} tasks, {work_us} us of work, then {}; the longest wait, in ns",
            if via_channel { "ask a messenger" } else { "yield" }
        ),
    }
}

fn hackbench_title(h: &Hackbench, body: Body) -> String {
    let Hackbench {
        groups,
        fds,
        size,
        capacity,
        ..
    } = h;
    let wire = match h.transport {
        Transport::Channel => format!("channels of {capacity}"),
        Transport::Pipe => "pipes".to_owned(),
        Transport::Socket => "AF_UNIX sockets".to_owned(),
    };
    let (command, bodies) = match body {
        Body::Tasks => ("hackbench", "tasks"),
        Body::Threads => ("hackbench --threads", "threads"),
    };
    format!("{command}: groups {groups}, {fds} x {fds} {bodies} each, {size} bytes, {wire}; ns a message")
}

/// The table of one workload and figure.
#[must_use]
pub fn table(summaries: &[Summary], body: Body) -> Table {
    let ratio = format!("median ratio to {}", body.base().name());
    let mut table = Table::new(
        &[
            "runtime",
            "channel",
            "median",
            "min",
            "max",
            &ratio,
            "cpu ns/op",
            "vol. switches/op",
        ],
        2,
    );
    for row in summaries {
        let runtime = match &row.scale {
            Some(scale) => format!("{} ({scale})", row.runtime),
            None => row.runtime.to_owned(),
        };
        let names = vec![runtime, row.channel.to_owned()];
        match (&row.remark, row.ns_per_op) {
            (None, Some(spread)) => {
                let rest = [Some(spread.median), Some(spread.min), Some(spread.max)];
                let mut cells = names;
                cells.extend(rest.map(cell));
                cells.push(
                    row.ratio(body)
                        .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
                );
                cells.push(cell(row.cpu_ns_per_op));
                cells.push(
                    row.vcsw_per_op
                        .map_or_else(|| "-".to_owned(), |count| format!("{count:.4}")),
                );
                table.push(cells);
            }
            (remark, _) => table.push_remark(names, remark.clone().unwrap_or_else(|| "no figures".to_owned())),
        }
    }
    table
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), figure)
}

/// What a reader must know about the machine and the build beside every table.
#[must_use]
pub fn conditions(workers: usize) -> String {
    let found = discover();
    let groups = found.topology.groups(Grouping::default()).len();
    let quota = found.allowed.quota.map_or_else(String::new, |quota| {
        format!(
            ", quota of {}.{:03} CPUs",
            quota.millicpus / 1000,
            quota.millicpus % 1000
        )
    });
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let build = if cfg!(debug_assertions) {
        "; DEBUG BUILD: figures mean nothing"
    } else {
        ""
    };
    format!(
        "{workers} workers on {} ({}, {groups} groups{quota}), kernel {}{build}",
        found.topology,
        found.source,
        kernel.trim()
    )
}

/// The name of a channel in a line of its own, empty if there is none to name.
#[must_use]
pub fn channel_name(spec: &Spec) -> &'static str {
    let family: Family = spec.runtime.family();
    spec.channel.name(family)
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;
    use crate::spec::ChannelKind;

    fn row(runtime: RuntimeName, ns_per_op: &[u64]) -> Row {
        let workload = Workload::SpawnJoin { tasks: 10, batch: 10 };
        let spec = Spec {
            workload,
            body: Body::Tasks,
            runtime,
            channel: ChannelKind::None,
            workers: 2,
            progress: false,
        };
        let outcomes = ns_per_op
            .iter()
            .map(|&ns| {
                let counters = Counters::from([("polls".to_owned(), ns)]);
                Outcome::Measured(Measured {
                    ops: 10,
                    wall_ns: ns * 10,
                    user_ns: 20,
                    vcsw: 5,
                    counters,
                    ..Measured::default()
                })
            })
            .collect();
        Row { spec, outcomes }
    }

    #[test]
    fn ratios_are_to_tokio_of_the_same_repetition() {
        let rows = [
            row(RuntimeName::Quadrille, &[50, 150, 160]),
            row(RuntimeName::Tokio, &[100, 300, 100]),
        ];
        let summaries = summaries(&rows[0].spec.workload, &rows, Metric::PerOperation);
        assert_eq!(summaries[0].ratio_to_tokio, Some(0.5));
        assert_eq!(summaries[1].ratio_to_tokio, Some(1.0));
        assert_eq!(summaries[0].counters["polls"], 150);
        assert_eq!(summaries[0].vcsw_per_op, Some(0.5));
    }

    #[test]
    fn without_tokio_there_is_no_ratio() {
        let rows = [row(RuntimeName::Smol, &[1])];
        let summaries = summaries(&rows[0].spec.workload, &rows, Metric::PerOperation);
        assert_eq!((summaries[0].ratio_to_tokio, summaries[0].ratio_to_go), (None, None));
    }

    #[test]
    fn json_has_the_promised_fields() {
        let rows = [row(RuntimeName::Tokio, &[3, 1, 2])];
        let json = serde_json::to_value(summaries(&rows[0].spec.workload, &rows, Metric::PerOperation)).unwrap();
        let expected = serde_json::json!([{
            "workload": "spawn_join",
            "params": {"tasks": 10, "batch": 10},
            "runtime": "tokio",
            "workers": 2,
            "channel": "-",
            "metric": "ns_per_op",
            "ns_per_op": {"median": 2.0, "min": 1.0, "max": 3.0},
            "cpu_ns_per_op": 2.0,
            "vcsw_per_op": 0.5,
            "ratio_to_tokio": 1.0,
            "ratio_to_go": null,
            "counters": {"polls": 2},
            "repetitions": 3,
        }]);
        assert_eq!(json, expected);
    }

    #[test]
    fn a_row_that_failed_shows_why_instead_of_figures() {
        let mut failed = row(RuntimeName::Tokio, &[1, 2]);
        failed
            .outcomes
            .push(Outcome::Failed("3 messages received, 4 sent".to_owned()));
        assert!(failed.has_failed());
        let text = table(
            &summaries(&failed.spec.workload, slice::from_ref(&failed), Metric::PerOperation),
            Body::Tasks,
        )
        .to_string();
        assert!(text.contains("FAILED: 3 messages received, 4 sent"), "{text}");
    }

    fn sleepers(runtime: RuntimeName, threads: usize, figures: [u64; 3]) -> Row {
        let names = ["create_ns", "rss_bytes", "wake_join_ns"].map(str::to_owned);
        let mut row = row(runtime, &[]);
        row.spec.workload = Workload::Sleepers { threads };
        row.spec.body = Body::Threads;
        row.outcomes.push(Outcome::Measured(Measured {
            ops: threads as u64,
            counters: names.into_iter().zip(figures).collect(),
            ..Measured::default()
        }));
        row
    }

    #[test]
    fn sleepers_have_three_figures_each_with_its_ratio_to_go() {
        let rows = [
            sleepers(RuntimeName::Quadrille, 100, [1000, 400_000, 700]),
            sleepers(RuntimeName::Go, 100, [4000, 200_000, 1000]),
            sleepers(RuntimeName::Threads, 10, [90, 80, 70]),
        ];
        let expected = [(10.0, 0.25, 9.0), (4000.0, 2.0, 8.0), (7.0, 0.7, 7.0)];
        let metrics = rows[0].spec.workload.metrics();
        assert_eq!(metrics.len(), expected.len());
        for (&metric, (ours, ratio, threads)) in metrics.iter().zip(expected) {
            let summaries = summaries(&Workload::Sleepers { threads: 100 }, &rows, metric);
            let medians: Vec<f64> = summaries.iter().map(|row| row.ns_per_op.unwrap().median).collect();
            assert_eq!((medians[0], medians[2]), (ours, threads), "{metric:?}");
            assert_eq!(summaries[0].ratio_to_go, Some(ratio), "{metric:?}");
            let text = table(&summaries, Body::Threads).to_string();
            assert!(text.contains("median ratio to go"), "{text}");
            assert!(text.contains("threads (10 threads)"), "{text}");
            assert!(!text.contains("go ("), "{text}");
        }
    }
}
