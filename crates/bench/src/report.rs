//! From outcomes to what is printed and written: summaries, the table of a workload, the JSON of a comparison.

use std::fs;

use quadrille_topology::{Grouping, discover};
use serde::Serialize;
use serde_json::Value;

use crate::outcome::{Counters, Measured, Outcome};
use crate::spec::{Family, Hackbench, Metric, RuntimeName, Spec, Transport, Workload};
use crate::stats::{Spread, median_ratio, spread};
use crate::table::{Table, figure};

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
    fn figures(&self) -> Vec<Option<f64>> {
        self.outcomes.iter().map(|outcome| self.figure(outcome)).collect()
    }

    fn figure(&self, outcome: &Outcome) -> Option<f64> {
        let Outcome::Measured(measured) = outcome else {
            return None;
        };
        match self.spec.workload.metric() {
            Metric::PerOperation => Some(measured.ns_per_op()),
            #[expect(clippy::cast_precision_loss, reason = "waits stay far below 2^53 ns")]
            Metric::LongestWait => measured.longest_wait_ns.map(|wait| wait as f64),
        }
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
    fn counters(&self) -> Counters {
        let mut by_figure: Vec<(f64, &Measured)> = self
            .outcomes
            .iter()
            .filter_map(|outcome| match outcome {
                Outcome::Measured(measured) => self.figure(outcome).map(|figure| (figure, measured)),
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
    /// What the figure is: `ns_per_op`, or `longest_wait_ns`, which then stands in the field `ns_per_op`.
    pub metric: &'static str,
    /// The figure over the repetitions; null without a right result.
    pub ns_per_op: Option<Spread>,
    /// Processor nanoseconds an operation, user and kernel of all threads, median.
    pub cpu_ns_per_op: Option<f64>,
    /// Voluntary context switches an operation, median.
    pub vcsw_per_op: Option<f64>,
    /// Median of the ratios to tokio's first row of this workload within each repetition.
    pub ratio_to_tokio: Option<f64>,
    /// Counters of the repetition with the median figure.
    pub counters: Counters,
    /// Repetitions with a right result.
    pub repetitions: usize,
    /// Why there are no figures, or what failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// Reduces the rows of one workload.
#[must_use]
pub fn summaries(rows: &[Row]) -> Vec<Summary> {
    let base = rows
        .iter()
        .find(|row| row.spec.runtime == RuntimeName::Tokio)
        .map(Row::figures);
    rows.iter().map(|row| summary(row, base.as_deref())).collect()
}

fn summary(row: &Row, base: Option<&[Option<f64>]>) -> Summary {
    let Spec {
        workload,
        runtime,
        channel,
        workers,
        ..
    } = row.spec;
    let figures = row.figures();
    let present: Vec<f64> = figures.iter().copied().flatten().collect();
    Summary {
        workload: workload.name(),
        params: workload.params(),
        runtime: runtime.name(),
        workers,
        channel: channel.name(runtime.family()),
        metric: match workload.metric() {
            Metric::PerOperation => "ns_per_op",
            Metric::LongestWait => "longest_wait_ns",
        },
        ns_per_op: spread(&present),
        cpu_ns_per_op: row.median(Measured::cpu_ns_per_op),
        vcsw_per_op: row.median(Measured::vcsw_per_op),
        ratio_to_tokio: base.and_then(|base| median_ratio(&figures, base)),
        counters: row.counters(),
        repetitions: present.len(),
        remark: row.remark(),
    }
}

/// The heading of a workload's table.
#[must_use]
pub fn title(workload: &Workload) -> String {
    match *workload {
        Workload::Hackbench(h) => hackbench_title(&h),
        Workload::SpawnJoin { batch, .. } => {
            format!("spawn_join: batches of {batch} from inside a task; ns a task")
        }
        Workload::SpawnRemote { batch: 1, .. } => {
            "spawn_remote1: one task at a time from outside, then wait for it; ns a task".to_owned()
        }
        Workload::SpawnRemote { batch, .. } => {
            format!("spawn_remote: batches of {batch} from outside; ns a task")
        }
        Workload::Yield { tasks, yields, .. } => {
            format!("yield: {tasks} tasks, {yields} yields each; ns a yield")
        }
        Workload::PingPong { pairs, .. } => {
            format!("ping_pong: pairs {pairs}, capacity 1; ns a round trip")
        }
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

fn hackbench_title(h: &Hackbench) -> String {
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
    format!("hackbench: groups {groups}, {fds} x {fds} tasks each, {size} bytes, {wire}; ns a message")
}

/// The table of one workload.
#[must_use]
pub fn table(summaries: &[Summary]) -> Table {
    let mut table = Table::new(
        &[
            "runtime",
            "channel",
            "median",
            "min",
            "max",
            "median ratio to tokio",
            "cpu ns/op",
            "vol. switches/op",
        ],
        2,
    );
    for row in summaries {
        let names = vec![row.runtime.to_owned(), row.channel.to_owned()];
        match (&row.remark, row.ns_per_op) {
            (None, Some(spread)) => {
                let rest = [Some(spread.median), Some(spread.min), Some(spread.max)];
                let mut cells = names;
                cells.extend(rest.map(cell));
                cells.push(
                    row.ratio_to_tokio
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
    use super::*;
    use crate::spec::ChannelKind;

    fn row(runtime: RuntimeName, ns_per_op: &[u64]) -> Row {
        let workload = Workload::SpawnJoin { tasks: 10, batch: 10 };
        let spec = Spec {
            workload,
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
        let summaries = summaries(&rows);
        assert_eq!(summaries[0].ratio_to_tokio, Some(0.5));
        assert_eq!(summaries[1].ratio_to_tokio, Some(1.0));
        assert_eq!(summaries[0].counters["polls"], 150);
        assert_eq!(summaries[0].vcsw_per_op, Some(0.5));
    }

    #[test]
    fn without_tokio_there_is_no_ratio() {
        assert_eq!(summaries(&[row(RuntimeName::Smol, &[1])])[0].ratio_to_tokio, None);
    }

    #[test]
    fn json_has_the_promised_fields() {
        let json = serde_json::to_value(summaries(&[row(RuntimeName::Tokio, &[3, 1, 2])])).unwrap();
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
        let text = table(&summaries(&[failed])).to_string();
        assert!(text.contains("FAILED: 3 messages received, 4 sent"), "{text}");
    }
}
