//! `quadrille compare`: repeats the rows of each workload, interleaved, in another order each time, and reduces them.

use std::io::{self, Write};
use std::slice;
use std::time::Duration;

use indicatif::ProgressBar;
use quadrille_topology::discover;

use super::Error;
use super::contenders::{contenders, settle};
use super::order::order;
use super::out_file::{OutFile, open_both, write_around};
use super::progress_bar::{OF_RUNS, progress_bar};
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
    let mut blocks = blocks(args, workers)?;
    let files = Files::open(args)?;
    writeln!(out, "{}", conditions(workers))?;
    let runs = blocks.iter().map(|block| block.rows.len() * block.reps).sum::<usize>();
    let bar = progress_bar(runs as u64, OF_RUNS);
    let environment = Environment::of_this_run(workers);
    if !environment.variables.is_empty() {
        writeln!(out, "environment: {}", environment.variables.join(", "))?;
    }
    let mut results = Results::new(environment, files);
    for block in &mut blocks {
        repeat(&mut block.rows, block.reps, &launcher, &bar);
        bar.suspend(|| results.add(block, out))?;
    }
    bar.finish_and_clear();
    results.finish(out)?;
    if blocks.iter().flat_map(|block| &block.rows).any(Row::has_failed) {
        Err(Error::Failed)
    } else {
        Ok(())
    }
}

/// What is to be run, all of which can be.
fn blocks(args: &CompareArgs, workers: usize) -> Result<Vec<Block>, Error> {
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
    for spec in blocks.iter().flat_map(|block| &block.rows).map(|row| &row.spec) {
        let name = spec.workload.name(spec.body);
        spec.check()
            .map_err(|message| Error::Usage(format!("{name}: {message}")))?;
    }
    Ok(blocks)
}

/// What has been found so far, and where it goes.
struct Results {
    report: Report,
    files: Files,
    /// How many of the sections have been printed.
    printed: usize,
}

impl Results {
    fn new(environment: Environment, files: Files) -> Self {
        let report = Report {
            environment,
            complete: false,
            sections: Vec::new(),
        };
        Self {
            report,
            files,
            printed: 0,
        }
    }

    /// Writes and prints a block that has been run. Files are rewritten each time, so that a comparison that is
    /// interrupted, or whose output nobody reads any more, leaves what it has.
    fn add(&mut self, block: &Block, out: &mut dyn Write) -> Result<(), Error> {
        for &metric in block.workload.metrics() {
            let section = Section::new(&block.workload, block.body, &block.rows, metric);
            self.report.sections.push(section);
        }
        let texts = self.files.texts(&self.report)?;
        write_around(texts, || {
            let sections = &self.report.sections;
            // A load curve is printed when it is complete.
            while let Some(before) = sections[self.printed..]
                .iter()
                .position(|section| section.load_percent.is_none())
            {
                let alone = self.printed + before;
                print(out, &sections[self.printed..alone])?;
                print(out, slice::from_ref(&sections[alone]))?;
                self.printed = alone + 1;
            }
            Ok(())
        })
    }

    /// Every run has been made.
    fn finish(&mut self, out: &mut dyn Write) -> Result<(), Error> {
        self.report.complete = true;
        let texts = self.files.texts(&self.report)?;
        write_around(texts, || Ok(print(out, &self.report.sections[self.printed..])?))
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

    /// What is to be written now. Into a pipe or a device goes the complete report alone.
    fn texts(&mut self, report: &Report) -> Result<Vec<(&mut OutFile, String)>, Error> {
        let is_wanted = |file: &&mut OutFile| report.complete || file.is_rewritable();
        let mut texts = Vec::new();
        if let Some(file) = self.json.as_mut().filter(is_wanted) {
            let json = serde_json::to_string_pretty(report).map_err(io::Error::from)?;
            texts.push((file, format!("{json}\n")));
        }
        if let Some(file) = self.html.as_mut().filter(is_wanted) {
            texts.push((file, page::render(report)));
        }
        Ok(texts)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::commands::unread::{FirstLine, assert_unread};

    #[test]
    fn what_was_measured_is_written_although_nobody_reads_what_is_printed() {
        let file = std::env::temp_dir().join(format!("quadrille-unread-{}.json", std::process::id()));
        let page = file.with_extension("html");
        let (json, html) = (file.to_str().unwrap(), page.to_str().unwrap());
        let args = ["quadrille", "compare", "spawn_join", "--json", json, "--html", html];
        let Command::Compare(args) = Cli::try_parse_from(args).unwrap().command else {
            panic!("{args:?}");
        };
        let blocks = blocks(&args, 1).unwrap();
        let mut results = Results::new(Environment::of_this_run(1), Files::open(&args).unwrap());
        let mut out = FirstLine::read();
        let printed = results.add(&blocks[0], &mut out);
        let written = [&file, &page].map(|file| std::fs::read_to_string(file).unwrap());
        for file in [file, page] {
            std::fs::remove_file(file).unwrap();
        }
        assert_unread(&printed);
        let report: serde_json::Value = serde_json::from_str(&written[0]).unwrap();
        assert_eq!(report["sections"].as_array().map(Vec::len), Some(1), "{report}");
        assert_eq!(report["complete"], false);
        assert!(written[1].contains("spawn_join: batches of"), "{}", written[1]);
    }
}
