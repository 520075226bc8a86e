//! `cargo xtask counts`: instructions an operation, held against a file; a rise of more than 3 % fails, and so does a
//! fall to less than half: a row that does nothing any more would else go unnoticed.
//!
//! Times are noise on a shared machine, instructions are not: callgrind counts them, so this check can stand in CI. It
//! runs single-threaded rows of `quadrille run-one` under callgrind, each at two lengths; the difference of the two, by
//! the operations between them, has no start, no warm-up and no end in it. Only the busiest thread counts, which is the
//! one worker: what other threads of the runtime do depends on how long a run takes. Where tasks are spawned from
//! outside all threads count, since a task takes two.
//!
//! `--runtime NAME --program FILE` counts another runtime of that program, such as tokio, and holds it against nothing.
//!
//! Events of the simulator are counted in the same way: the difference of two simulated times, early in a run and
//! later, because what an event takes must not grow with those before it.
//!
//! callgrind is driven directly. gungraun (iai-callgrind) would do the same through a runner that must be installed in
//! the version of the library, and its functions would have to start a runtime each; here the rows are those that
//! `compare` times.
//!
//! Counts depend on the compiler and on the C library (memcpy and malloc). The file names the compiler it was made
//! with; with another one there is nothing to compare, which is said, and is no failure. To renew it:
//! `cargo xtask counts --renew`, and say in the commit what has changed.

mod rows;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::iter;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::failure::{Failure, Outcome};
use crate::options::Options;
use crate::process;
use crate::workspace;
use rows::{
    Body, ROWS,
    Row::{self, Events, Operations},
};

/// Where the expected counts are.
const FILE: &str = "crates/bench/counts.txt";

/// By how much a count may be above the expected one, in thousandths.
const RISE_PERMILLE: u64 = 30;

impl Row {
    /// Instructions each time, on `runtime`.
    fn count(self, program: &Path, runtime: &str, name: &str) -> Outcome<u64> {
        match self {
            Operations(body, workload) => Counter {
                program,
                runtime,
                name,
                body,
            }
            .count(workload),
            Events(times) => count_events(program, name, times),
        }
    }

    /// What is counted.
    fn counted(self) -> &'static str {
        match self {
            Operations(..) => "operation",
            Events(_) => "event",
        }
    }

    /// Whether another runtime has it, too.
    fn is_elsewhere(self) -> bool {
        matches!(self, Operations(Body::Tasks | Body::Shared | Body::Outside, _))
    }
}

/// One worker. Under callgrind everything takes some fifty times as long, and how long depends on the machine: a streak
/// of short tasks would be measured as a long one, and a worker would look up after a few tasks in place of 61.
const RUNTIME: &str = "quadrille-1w:slot-time=1s,look-up=1s";

/// What is simulated for events: the machine and the workload of the figures in `docs/policies.md`.
const SIMULATED: [&str; 4] = ["--machine", "epyc-9654-2s", "--workload", "hackbench:g=32"];

/// The two lengths; multiples of eight, so that the warm-up, an eighth, is whole.
const LENGTHS: [u64; 2] = [16, 80];

/// Runs of each length. The least counts: what a run does more often, such as to find nobody ready, depends on time.
const RUNS: usize = 3;

/// The command.
pub(crate) fn run(options: &Options) -> Outcome {
    let renew = options.flag("--renew");
    let only: Option<String> = options.value("--only")?;
    let program: Option<PathBuf> = options.value("--program")?;
    let other: Option<String> = options.value("--runtime")?;
    options.finish()?;
    let rows = ROWS.iter().filter(|(name, row)| {
        only.as_deref().is_none_or(|only| only == *name) && (other.is_none() || row.is_elsewhere())
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() || (renew && (only.is_some() || other.is_some())) {
        return Err(Failure::usage(
            "--only names one row, of those that a run without it prints, and --runtime another runtime; both exclude --renew",
        ));
    }
    if let Some(other) = other {
        return count_other(&rows, &other, program);
    }
    let compiler = compiler()?;
    let expected = fs::read_to_string(workspace::root().join(FILE)).unwrap_or_default();
    let expected = Expected::parse(&expected);
    if !renew && expected.compiler != compiler {
        println!(
            "skipped: {FILE} was made with {}, this is {compiler}; --renew makes it anew",
            expected.compiler
        );
        return Ok(());
    }
    if !renew && only.is_none() {
        expected.names_rows()?;
    }
    let program = match program {
        Some(program) => program,
        None => build()?,
    };
    let mut found = BTreeMap::new();
    for ((name, row), count) in rows.iter().copied().zip(count_all(&program, RUNTIME, &rows)?) {
        println!(
            "{name}: {count} instructions an {}{}",
            row.counted(),
            expected.told(name)
        );
        found.insert((*name).to_owned(), count);
    }
    if renew {
        let text = Expected {
            compiler,
            counts: found,
        }
        .to_text();
        return fs::write(workspace::root().join(FILE), text)
            .map_err(|error| Failure::new(format!("cannot write {FILE}: {error}")));
    }
    expected.compare(&found)
}

/// What another runtime takes, which is held against nothing. The program must have been built with it.
fn count_other(rows: &[&(&str, Row)], runtime: &str, program: Option<PathBuf>) -> Outcome {
    let Some(program) = program else {
        return Err(Failure::usage(
            "--runtime needs --program, a `quadrille` that was built with the other runtimes",
        ));
    };
    for ((name, row), count) in rows.iter().copied().zip(count_all(&program, runtime, rows)?) {
        println!("{name}: {count} instructions an {}", row.counted());
    }
    Ok(())
}

/// What the file says.
#[derive(Debug, Default, PartialEq)]
struct Expected {
    compiler: String,
    counts: BTreeMap<String, u64>,
}

impl Expected {
    fn parse(text: &str) -> Self {
        let mut expected = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            if let Some(compiler) = line.strip_prefix("compiler ") {
                compiler.clone_into(&mut expected.compiler);
            } else if let Some((name, count)) = line.split_once(' ')
                && let Ok(count) = count.trim().parse()
            {
                expected.counts.insert(name.to_owned(), count);
            }
        }
        expected
    }

    fn to_text(&self) -> String {
        let mut text =
            "# Instructions an operation of quadrille with one worker, or an event of its simulator, by callgrind;\n\
                        # `cargo xtask counts --renew` writes this.\n"
                .to_owned();
        let _ = writeln!(text, "compiler {}", self.compiler);
        for (name, count) in &self.counts {
            let _ = writeln!(text, "{name} {count}");
        }
        text
    }

    fn told(&self, name: &str) -> String {
        self.counts
            .get(name)
            .map_or_else(String::new, |count| format!(", expected {count}"))
    }

    /// Fails if a name is that of no row: what it counted is counted no more.
    fn names_rows(&self) -> Outcome {
        let is_row = |name: &str| ROWS.iter().any(|(row, _)| *row == name);
        match self.counts.keys().find(|name| !is_row(name)) {
            None => Ok(()),
            Some(name) => Err(Failure::new(format!(
                "{FILE} has {name}, which is no row; `cargo xtask counts --renew` leaves it out"
            ))),
        }
    }

    /// Fails if one has risen, or fallen by more than half; says if one has fallen by less, so that the file is renewed
    /// while it is known why.
    fn compare(&self, found: &BTreeMap<String, u64>) -> Outcome {
        let mut wrong = Vec::new();
        for (name, &count) in found {
            let Some(&expected) = self.counts.get(name) else {
                wrong.push(format!("{name} is not in {FILE}"));
                continue;
            };
            if count * 1000 > expected * (1000 + RISE_PERMILLE) {
                wrong.push(format!("{name} has risen from {expected} to {count}"));
            } else if count * 2 < expected {
                wrong.push(format!("{name} has fallen from {expected} to {count}"));
            } else if count * (1000 + RISE_PERMILLE) < expected * 1000 {
                println!("note: {name} has fallen from {expected} to {count}; `cargo xtask counts --renew` keeps that");
            }
        }
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(Failure::new(format!(
                "{}; more than 3 %, or less than half, needs a reason, and then `cargo xtask counts --renew`",
                wrong.join(", ")
            )))
        }
    }
}

/// Version and target of the compiler, in a word each.
fn compiler() -> Outcome<String> {
    let output = Command::new("rustc").args(["--version", "--verbose"]).output();
    let text = output
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let value = |name| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    match (value("release:"), value("host:")) {
        (Some(release), Some(host)) => Ok(format!("{release} {host}")),
        _ => Err(Failure::new("rustc does not say which one it is")),
    }
}

fn build() -> Outcome<PathBuf> {
    let status = process::cargo([
        "build",
        "--release",
        "--package",
        "quadrille-bench",
        "--no-default-features",
        "--bin",
        "quadrille",
    ])
    .status();
    if status.is_ok_and(|status| status.success()) {
        Ok(workspace::target_dir("release").join("quadrille"))
    } else {
        Err(Failure::new("the benchmarks do not build"))
    }
}

/// The counts of all rows, in their order, up to the first that fails: then no further one is begun. As many at a time
/// as there are CPUs: callgrind runs one thread of a program at a time, so that it uses no more.
fn count_all(program: &Path, runtime: &str, rows: &[&(&str, Row)]) -> Outcome<Vec<u64>> {
    let next = AtomicUsize::new(0);
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let lane = || {
        let counts = iter::from_fn(|| {
            // Ordering: Relaxed; what was counted is handed over by the join.
            let index = next.fetch_add(1, Ordering::Relaxed);
            let (name, row) = rows.get(index)?;
            let count = row.count(program, runtime, name);
            if count.is_err() {
                // Ordering: Relaxed; who has begun another one goes on with it.
                next.store(rows.len(), Ordering::Relaxed);
            }
            Some((index, count))
        });
        counts.collect::<Vec<_>>()
    };
    let mut counts = thread::scope(|scope| {
        let lanes: Vec<_> = (0..cpus).map(|_| scope.spawn(lane)).collect();
        let counts = lanes
            .into_iter()
            .flat_map(|lane| lane.join().unwrap_or_else(|panic| resume_unwind(panic)));
        counts.collect::<Vec<_>>()
    });
    counts.sort_unstable_by_key(|(index, _)| *index);
    counts.into_iter().map(|(_, count)| count).collect()
}

/// Counts the operations of one row.
struct Counter<'a> {
    program: &'a Path,
    runtime: &'a str,
    name: &'a str,
    body: Body,
}

impl Counter<'_> {
    /// Instructions an operation.
    fn count(&self, workload: &str) -> Outcome<u64> {
        let [short, long] = LENGTHS.map(|length| self.least(&workload.replace('#', &length.to_string())));
        let ((short, fewer), (long, more)) = (short?, long?);
        // An eighth more of each was done before, as the warm-up.
        let operations = more.saturating_sub(fewer) * 9 / 8;
        if operations == 0 || long < short {
            return Err(Failure::new(format!(
                "{}: {fewer} operations took {short} instructions, {more} took {long}",
                self.name
            )));
        }
        Ok((long - short) / operations)
    }

    /// The run with the fewest instructions.
    fn least(&self, workload: &str) -> Outcome<(u64, u64)> {
        let mut least = self.measure(workload)?;
        for _ in 1..RUNS {
            least = least.min(self.measure(workload)?);
        }
        Ok(least)
    }

    /// Instructions, and operations, of one run.
    fn measure(&self, workload: &str) -> Outcome<(u64, u64)> {
        let Self {
            runtime, name, body, ..
        } = self;
        let channel = if *body == Body::Shared { "shared" } else { "own" };
        let kind = if *body == Body::Threads { "threads" } else { "tasks" };
        let spec = format!(
            r#"{{"workload":{workload},"runtime":"{runtime}","channel":"{channel}","workers":1,"body":"{kind}"}}"#
        );
        let run = callgrind(self.program, name, &["run-one", &spec])?;
        let instructions = if *body == Body::Outside {
            run.instructions_of_all
        } else {
            run.instructions
        };
        match number_after(&run.said, "\"ops\":") {
            Some(operations) => Ok((instructions, operations)),
            None => Err(Failure::new(format!("{name}: {}", run.said))),
        }
    }
}

/// Instructions an event of the simulator. One run of each length is enough: a simulation is the same every time.
fn count_events(program: &Path, name: &str, times_us: [u64; 2]) -> Outcome<u64> {
    let [short, long] = times_us.map(|us| measure_events(program, name, us));
    let ((short, fewer), (long, more)) = (short?, long?);
    if more <= fewer || long < short {
        return Err(Failure::new(format!(
            "{name}: {fewer} events took {short} instructions, {more} took {long}"
        )));
    }
    Ok((long - short) / (more - fewer))
}

/// Instructions, and events, of a simulation of so many us.
fn measure_events(program: &Path, name: &str, us: u64) -> Outcome<(u64, u64)> {
    let json = folder(name).join("report.json");
    let (time, file) = (format!("{us}us"), json.display().to_string());
    let mut arguments = vec!["sim"];
    arguments.extend(SIMULATED);
    arguments.extend(["--for", &time, "--json", &file]);
    let run = callgrind(program, name, &arguments)?;
    let report = fs::read_to_string(&json).unwrap_or_default();
    match number_after(&report, "\"events\":") {
        Some(events) => Ok((run.instructions, events)),
        None => Err(Failure::new(format!("{name}: {}", run.said))),
    }
}

/// A run under callgrind.
struct Run {
    /// Instructions of the busiest thread.
    instructions: u64,
    /// Those of all threads together.
    instructions_of_all: u64,
    /// What it has written, to stdout and then to stderr.
    said: String,
}

/// Where a row's run leaves its files; emptied before each.
fn folder(name: &str) -> PathBuf {
    workspace::target_dir("counts").join(name)
}

fn callgrind(program: &Path, name: &str, arguments: &[&str]) -> Outcome<Run> {
    let folder = folder(name);
    // The last run's files would be taken for this one's.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| Failure::new(format!("cannot make {}: {error}", folder.display())))?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--separate-threads=yes"])
        .arg(format!("--callgrind-out-file={}", folder.join("out").display()))
        .arg(program)
        .args(arguments)
        .output()
        .map_err(|error| Failure::new(format!("valgrind cannot be started: {error}")))?;
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let said = said.concat();
    if !output.status.success() {
        return Err(Failure::new(format!("{name}: {}: {said}", output.status)));
    }
    let files = fs::read_dir(&folder).map_err(|error| Failure::new(format!("{}: {error}", folder.display())))?;
    let totals = files.filter_map(|file| total(&fs::read_to_string(file.ok()?.path()).ok()?));
    let totals: Vec<u64> = totals.collect();
    match totals.iter().max() {
        Some(&instructions) => Ok(Run {
            instructions,
            instructions_of_all: totals.iter().sum(),
            said,
        }),
        None => Err(Failure::new(format!("{name}: callgrind has counted nothing: {said}"))),
    }
}

/// The sum that callgrind writes at the end of a thread's file.
fn total(profile: &str) -> Option<u64> {
    let line = profile.lines().rev().find(|line| line.starts_with("totals:"))?;
    number_after(line, "totals:")
}

/// The number that follows `key`.
fn number_after(text: &str, key: &str) -> Option<u64> {
    let (_, rest) = text.split_once(key)?;
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> Expected {
        Expected::parse(text)
    }

    #[test]
    fn a_file_reads_back_as_it_was_written() {
        let expected = counts("# a comment\ncompiler 1.95.0 x\nspawn 600\nyield 150\n");
        assert_eq!(expected.compiler, "1.95.0 x");
        assert_eq!(expected.counts["spawn"], 600);
        assert_eq!(counts(&expected.to_text()), expected);
    }

    #[test]
    fn a_rise_above_three_hundredths_fails() {
        let expected = counts("compiler c\nspawn 1000\n");
        let compare = |count| expected.compare(&BTreeMap::from([("spawn".to_owned(), count)]));
        assert!(compare(1030).is_ok() && compare(500).is_ok());
        let failure = compare(1031).expect_err("a rise").to_string();
        assert!(failure.contains("spawn has risen from 1000 to 1031"), "{failure}");
        assert!(expected.compare(&BTreeMap::from([("new".to_owned(), 1)])).is_err());
    }

    #[test]
    fn a_fall_to_less_than_half_fails() {
        let expected = counts("compiler c\nspawn 1000\n");
        let compare = |count| expected.compare(&BTreeMap::from([("spawn".to_owned(), count)]));
        for count in [499, 0] {
            let failure = compare(count).expect_err("a fall").to_string();
            assert!(
                failure.contains(&format!("spawn has fallen from 1000 to {count}")),
                "{failure}"
            );
        }
    }

    #[test]
    fn a_name_that_is_no_row_fails() {
        assert!(counts("compiler c\nspawn_join 1\nyield 1\n").names_rows().is_ok());
        let failure = counts("compiler c\nspawn_join 1\nspawn 1\n").names_rows();
        let failure = failure.expect_err("there is no `spawn`").to_string();
        assert!(failure.contains(" spawn, which is no row"), "{failure}");
    }

    #[test]
    fn numbers_are_found_in_answers_and_profiles() {
        assert_eq!(
            number_after(r#"{"measured":{"ops":66,"wall_ns":1}}"#, "\"ops\":"),
            Some(66)
        );
        assert_eq!(number_after("nothing", "\"ops\":"), None);
        assert_eq!(total("events: Ir\nfn=(1)\n1 5\n\ntotals: 1234\n"), Some(1234));
    }

    #[test]
    fn the_file_has_every_row_no_other_and_a_compiler() {
        let text = fs::read_to_string(workspace::root().join(FILE)).expect("the file is there");
        let expected = counts(&text);
        assert!(!expected.compiler.is_empty());
        assert!(expected.names_rows().is_ok());
        for (name, row) in ROWS {
            assert!(expected.counts.contains_key(name), "{name}");
            match row {
                Operations(_, workload) => {
                    assert!(workload.contains('#'), "{name} has a length");
                }
                Events([short, long]) => assert!(short < long, "{name}"),
            }
        }
    }
}
