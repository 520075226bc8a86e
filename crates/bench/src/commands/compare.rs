//! `quadrille compare`: repeats the rows of each workload, interleaved, in another order each time, and reduces them.

use std::io::{self, Write};
use std::slice;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use quadrille_topology::discover;

use super::Error;
use super::contenders::{contenders, settle};
use super::order::order;
use super::out_file::{OutFile, open_both};
use crate::catalogue::{self, WorkloadName, rows};
use crate::child::Launcher;
use crate::cli::{CompareArgs, default_workers};
use crate::environment::{Environment, conditions};
use crate::outcome::Outcome;
use crate::report::{Report, Row, Section, channel_name, curve_tables, page, table};
use crate::spec::{Body, Contender, Metric, Workload};

/// Repetitions unless told otherwise, of figures that are medians.
const REPS: usize = 7;

/// Repetitions unless told otherwise, of longest waits: no run may be an exception.
const REPS_LONGEST_WAIT: usize = 10;

/// A workload, and who runs it how often.
struct Block {
    workload: Workload,
    body: Body,
    rows: Vec<Row>,
    reps: usize,
}

impl Block {
    fn new(workload: Workload, body: Body, args: &CompareArgs, workers: usize) -> Self {
        let reps = args.reps.unwrap_or(match workload.metrics() {
            [Metric::LongestWait] => REPS_LONGEST_WAIT,
            _ => REPS,
        });
        let workload = catalogue::beyond_caches(workload, workers, &discover().topology);
        let mut runtimes = contenders(&args.runtimes);
        if runtimes.is_empty() {
            runtimes.extend(catalogue::runtimes(&workload, body).into_iter().map(Contender::new));
        }
        let rows = rows(workload, body, &runtimes, workers, args.quick)
            .into_iter()
            .map(|spec| Row {
                spec,
                outcomes: Vec::new(),
            })
            .collect();
        Self {
            workload,
            body,
            rows,
            reps,
        }
    }
}

/// Runs the comparison and prints each table as soon as it is complete.
///
/// # Errors
/// [`Error::Failed`] if a run failed; [`Error::Usage`] if a policy or so many workers cannot be used; that or
/// [`Error::Output`] if a file cannot be written.
pub fn run(args: &CompareArgs, out: &mut dyn Write) -> Result<(), Error> {
    let workers = args.workers.unwrap_or_else(default_workers);
    let time_limit = Duration::from_secs(args.time_limit as u64);
    let launcher = Launcher::new(std::env::current_exe()?, Some(time_limit));
    let names = if args.workloads.is_empty() {
        &WorkloadName::DEFAULT[..]
    } else {
        &args.workloads
    };
    let mut blocks: Vec<Block> = names
        .iter()
        .flat_map(|name| name.workloads().into_iter().map(|workload| (workload, name.body())))
        .map(|(workload, body)| Block::new(workload, body, args, workers))
        .collect();

    settle(
        blocks
            .iter_mut()
            .flat_map(|block| &mut block.rows)
            .map(|row| &mut row.spec),
    )?;
    let specs = blocks.iter().flat_map(|block| &block.rows).map(|row| &row.spec);
    for spec in specs {
        let name = spec.workload.name(spec.body);
        spec.check()
            .map_err(|message| Error::Usage(format!("{name}: {message}")))?;
    }
    let mut files = Files::open(args)?;
    writeln!(out, "{}", conditions(workers))?;
    let runs = blocks.iter().map(|block| block.rows.len() * block.reps).sum::<usize>();
    let bar = progress_bar(runs as u64);
    let environment = Environment::of_this_run(workers);
    if !environment.variables.is_empty() {
        writeln!(out, "environment: {}", environment.variables.join(", "))?;
    }
    let mut report = Report {
        environment,
        complete: false,
        sections: Vec::new(),
    };
    let mut printed = 0;
    for block in &mut blocks {
        repeat(&mut block.rows, block.reps, &launcher, &bar);
        for &metric in block.workload.metrics() {
            let section = Section::new(&block.workload, block.body, &block.rows, metric);
            // A load curve is printed when it is complete.
            if section.load_percent.is_none() {
                bar.suspend(|| {
                    print(out, &report.sections[printed..]).and_then(|()| print(out, slice::from_ref(&section)))
                })?;
                printed = report.sections.len() + 1;
            }
            report.sections.push(section);
        }
        // Rewritten after each block, so that an interrupted comparison leaves what it has.
        files.write(&report)?;
    }
    bar.finish_and_clear();
    print(out, &report.sections[printed..])?;
    report.complete = true;
    files.write(&report)?;
    if blocks.iter().flat_map(|block| &block.rows).any(Row::has_failed) {
        Err(Error::Failed)
    } else {
        Ok(())
    }
}

/// Prints a section, or all of a load curve.
fn print(out: &mut dyn Write, sections: &[Section]) -> io::Result<()> {
    let tables = match sections {
        [section] if section.load_percent.is_none() => vec![(section.title.clone(), table(section))],
        curve => curve_tables(curve),
    };
    for (title, table) in tables {
        let repetitions = sections.iter().map(|section| section.repetitions).max().unwrap_or(0);
        write!(out, "\n{title} ({repetitions} runs each, interleaved)\n{table}")?;
    }
    // Ratios of a curve are those at its highest load.
    let compared = sections.iter().rfind(|section| section.is_compared);
    if let Some(note) = compared.and_then(Section::note) {
        writeln!(out, "{note}")?;
    }
    out.flush()
}

fn repeat(rows: &mut [Row], reps: usize, launcher: &Launcher, bar: &ProgressBar) {
    for repetition in 0..reps {
        for index in order(rows.len(), repetition) {
            let row = &mut rows[index];
            let spec = &row.spec;
            bar.set_message(format!(
                "{} {} {}",
                spec.workload.name(spec.body),
                spec.runtime,
                channel_name(spec)
            ));
            // A runtime that cannot do it will not learn it by the next repetition.
            let outcome = match row.outcomes.last() {
                Some(unsupported @ Outcome::Unsupported(_)) => unsupported.clone(),
                _ => launcher.run(spec, &mut |_| {}),
            };
            row.outcomes.push(outcome);
            bar.inc(1);
        }
    }
}

/// A bar on stderr; invisible if that is not a terminal.
fn progress_bar(runs: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {eta} left: {msg}");
    let bar = ProgressBar::new(runs);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// The files that a report is written to.
struct Files {
    json: Option<OutFile>,
    html: Option<OutFile>,
}

impl Files {
    /// Opened before the first run.
    fn open(args: &CompareArgs) -> Result<Self, Error> {
        let [json, html] = open_both(["--json", "--html"], [args.json.as_deref(), args.html.as_deref()])?;
        Ok(Self { json, html })
    }

    /// Into a pipe or a device goes the complete report alone.
    fn write(&mut self, report: &Report) -> Result<(), Error> {
        let is_wanted = |file: &&mut OutFile| report.complete || file.is_rewritable();
        if let Some(file) = self.json.as_mut().filter(is_wanted) {
            let json = serde_json::to_string_pretty(report).map_err(io::Error::from)?;
            file.write(&format!("{json}\n"))?;
        }
        if let Some(file) = self.html.as_mut().filter(is_wanted) {
            file.write(&page::render(report))?;
        }
        Ok(())
    }
}
