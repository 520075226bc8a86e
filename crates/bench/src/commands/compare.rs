//! `quadrille compare`: repeats the rows of each workload, interleaved A B C A B C, and reduces them.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::Error;
use crate::catalogue::{WorkloadName, rows};
use crate::child::Launcher;
use crate::cli::{CompareArgs, default_workers};
use crate::outcome::Outcome;
use crate::report::{Row, Summary, channel_name, conditions, summaries, table, title};
use crate::spec::Workload;

/// Runs the comparison and prints each table as soon as it is complete.
///
/// # Errors
/// [`Error::Failed`] if a run failed; [`Error::Usage`] or [`Error::Output`] if the JSON file cannot be written.
pub fn run(args: &CompareArgs, out: &mut dyn Write) -> Result<(), Error> {
    // Opened first: an hour of runs is a high price for a path that cannot be written.
    let json = args.json.as_deref().map(create).transpose()?;
    let workers = args.workers.unwrap_or_else(default_workers);
    let launcher = Launcher::new(
        std::env::current_exe()?,
        Some(Duration::from_secs(args.time_limit as u64)),
    );
    let names = if args.workloads.is_empty() {
        &WorkloadName::DEFAULT[..]
    } else {
        &args.workloads
    };
    let blocks: Vec<(Workload, Vec<Row>)> = names
        .iter()
        .flat_map(|name| name.workloads())
        .map(|workload| (workload, empty_rows(workload, args, workers)))
        .collect();

    writeln!(
        out,
        "{}; {} repetitions, interleaved",
        conditions(workers),
        args.reps
    )?;
    let runs = blocks
        .iter()
        .map(|(_, rows)| rows.len() * args.reps)
        .sum::<usize>();
    let bar = progress_bar(runs as u64);
    let mut all: Vec<Summary> = Vec::new();
    let mut failed = false;
    for (workload, mut rows) in blocks {
        repeat(&mut rows, args.reps, &launcher, &bar);
        failed |= rows.iter().any(Row::has_failed);
        let reduced = summaries(&rows);
        bar.suspend(|| {
            write!(out, "\n{}\n{}", title(&workload), table(&reduced)).and_then(|()| out.flush())
        })?;
        all.extend(reduced);
    }
    bar.finish_and_clear();
    if let Some(file) = json {
        write_json(file, &all)?;
    }
    if failed { Err(Error::Failed) } else { Ok(()) }
}

fn empty_rows(workload: Workload, args: &CompareArgs, workers: usize) -> Vec<Row> {
    rows(workload, &args.runtimes, workers, args.quick)
        .into_iter()
        .map(|spec| Row {
            spec,
            outcomes: Vec::new(),
        })
        .collect()
}

fn repeat(rows: &mut [Row], reps: usize, launcher: &Launcher, bar: &ProgressBar) {
    for _ in 0..reps {
        for row in &mut *rows {
            let spec = row.spec;
            bar.set_message(format!(
                "{} {} {}",
                spec.workload.name(),
                spec.runtime.name(),
                channel_name(&spec)
            ));
            // A runtime that cannot do it will not learn it by the next repetition.
            let outcome = match row.outcomes.last() {
                Some(unsupported @ Outcome::Unsupported(_)) => unsupported.clone(),
                _ => launcher.run(&spec, &mut |_| {}),
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

fn create(path: &Path) -> Result<File, Error> {
    File::create(path)
        .map_err(|error| Error::Usage(format!("cannot write {}: {error}", path.display())))
}

fn write_json(mut file: File, all: &[Summary]) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut file, all)?;
    writeln!(file)
}
