//! `cargo xtask mutate`: a test that cannot fail proves nothing.
//!
//! Every file of `mutations/` breaks one line of the protocol and names the test that must notice, a model or a soak.
//! The workspace, as it is on disk, is copied below the target directory; there each mutation is applied alone, the
//! unit tests are built, and the named test is run. First the unchanged copy must pass all the named tests, or a
//! failure would mean nothing.
//!
//! | the mutated test | counts as |
//! |---|---|
//! | fails | caught, for the reason that stands beside |
//! | fails, since loom gives up an execution that is too long | no evidence: the mutation is to be repaired |
//! | is still running at the time limit | caught, and counted apart: the limit may have been too short for the test |
//! | passes | survived: the test is weak or the line needless; the command fails |
//! | does not build | no evidence, likewise; the command fails in both cases |

mod claim;
mod mutation;

pub(crate) use mutation::{Build, Mutation};

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::failure::{Failure, Outcome};
use crate::loom;
use crate::options::Options;
use crate::process::{self, Verdict};
use crate::stress;
use crate::workspace;
use claim::Claim;

/// Where mutations live, relative to the root.
pub(crate) const FOLDER: &str = "mutations/";
/// A loom test that a mutation turns into an endless search is caught after this long.
const SECONDS_DEFAULT: u64 = 300;
/// A soak that has not noticed by then is not going to; its tests share the time.
const SOAK_SECONDS: u64 = 120;

/// The name of the mutation in the file at `path`.
pub(crate) fn name_of(path: &str) -> &str {
    path.trim_start_matches(FOLDER).trim_end_matches(".mut")
}

/// Runs all mutations, or those that `--only` names.
pub(crate) fn run(options: &Options) -> Outcome {
    let list = options.flag("--list");
    let only = options.values::<String>("--only")?;
    let limit = Duration::from_secs(options.value("--seconds")?.unwrap_or(SECONDS_DEFAULT));
    options.finish()?;
    let mut mutations = read_all(&workspace::root())?;
    if let Some(unknown) = only.iter().find(|name| mutations.iter().all(|m| m.name != **name)) {
        return Err(Failure::usage(format!(
            "there is no mutation `{unknown}`; --list shows them"
        )));
    }
    mutations.retain(|mutation| only.is_empty() || only.contains(&mutation.name));
    if list {
        for mutation in &mutations {
            println!(
                "{}: {} must fail ({}); {}",
                mutation.name, mutation.test, mutation.theorem, mutation.why
            );
        }
        return Ok(());
    }
    let bench = Bench::prepare(limit)?;
    bench.check_unchanged(&mutations)?;
    let fates: Outcome<Vec<Fate>> = mutations.iter().map(|mutation| bench.fate_of(mutation)).collect();
    println!("mutate: {}", summary(&fates?)?);
    Ok(())
}

/// What has become of a mutation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Its test has failed.
    Caught,
    /// Its test was still running at the time limit.
    OutOfTime,
    /// Its test has passed, did not build, or came to no end.
    NotCaught,
}

/// How many were caught, and how.
///
/// # Errors
/// If one was not.
fn summary(fates: &[Fate]) -> Outcome<String> {
    let count = |fate| fates.iter().filter(|of_one| **of_one == fate).count();
    match (count(Fate::NotCaught), count(Fate::OutOfTime)) {
        (0, 0) => Ok(format!("all {} mutations were caught", fates.len())),
        (0, late) => Ok(format!(
            "all {} mutations were caught, {late} of them by the time limit alone",
            fates.len()
        )),
        (survivors, late) => Err(Failure::new(format!(
            "{survivors} of {} mutations were not caught, and {late} by the time limit alone",
            fates.len()
        ))),
    }
}

fn read_all(root: &Path) -> Outcome<Vec<Mutation>> {
    let mut mutations = Vec::new();
    for path in workspace::paths(root)?
        .iter()
        .filter(|path| path.starts_with(FOLDER) && path.ends_with(".mut"))
    {
        let text = read(root, path)?;
        let parsed = Mutation::parse(name_of(path), &text);
        mutations.push(parsed.map_err(|message| Failure::new(format!("{path}: {message}")))?);
    }
    Ok(mutations)
}

/// The copy of the workspace that is mutated.
struct Bench {
    root: PathBuf,
    limit: Duration,
    /// While it lasts the copy is ours.
    _claim: Claim,
}

impl Bench {
    /// Claims the copy and brings it up to date. Files that have not changed keep their time stamps, so cargo builds
    /// only what differs.
    fn prepare(limit: Duration) -> Outcome<Self> {
        let source = workspace::root();
        let root = workspace::target_dir("mutate");
        fs::create_dir_all(&root).map_err(|error| Failure::new(format!("cannot make {}: {error}", root.display())))?;
        let claim = Claim::of(&root)?;
        let of_log = workspace::target_dir("loom");
        fs::create_dir_all(&of_log)
            .map_err(|error| Failure::new(format!("cannot make {}: {error}", of_log.display())))?;
        let wanted = workspace::paths(&source)?;
        for path in &wanted {
            copy_if_changed(&source.join(path), &root.join(path))?;
        }
        for path in workspace::paths(&root)?.iter().filter(|path| !wanted.contains(path)) {
            fs::remove_file(root.join(path)).map_err(|error| Failure::new(format!("cannot remove {path}: {error}")))?;
        }
        Ok(Self {
            root,
            limit,
            _claim: claim,
        })
    }

    /// All tests that the mutations name pass without them.
    fn check_unchanged(&self, mutations: &[Mutation]) -> Outcome {
        for build in [Build::Loom, Build::Stress] {
            let of_build = mutations.iter().filter(|mutation| mutation.build == build);
            let mut tests: Vec<&str> = of_build.map(|mutation| mutation.test.as_str()).collect();
            tests.sort_unstable();
            tests.dedup();
            if !tests.is_empty() {
                self.check_tests(build, &tests)?;
            }
        }
        Ok(())
    }

    fn check_tests(&self, build: Build, tests: &[&str]) -> Outcome {
        let program = Self::program(build, &self.root)?;
        for test in tests {
            let start = Instant::now();
            let verdict = self.run_test(&program, build, test)?;
            println!(
                "unchanged: {test}: {verdict:?} ({:.1} s)",
                start.elapsed().as_secs_f64()
            );
            if verdict != Verdict::Passed {
                let log = fs::read_to_string(self.log()).unwrap_or_default();
                return Err(Failure::new(format!("`{test}` must pass before it is mutated\n{log}")));
            }
        }
        Ok(())
    }

    /// Applies `mutation`, runs its test, and restores the files.
    fn fate_of(&self, mutation: &Mutation) -> Outcome<Fate> {
        let start = Instant::now();
        let source = workspace::root();
        let changes = mutation.apply(|path| read(&source, path).ok());
        let changes = changes.map_err(|message| Failure::new(format!("{}: {message}", mutation.path())))?;
        for (path, text) in &changes {
            write(&self.root.join(path), text.as_bytes())?;
        }
        let result = Self::program(mutation.build, &self.root)
            .and_then(|program| self.run_test(&program, mutation.build, &mutation.test));
        for (path, _) in &changes {
            copy_if_changed(&source.join(path), &self.root.join(path))?;
        }
        let seconds = start.elapsed().as_secs_f64();
        let (fate, verdict) = match result {
            Ok(Verdict::Failed) => {
                // A test prints what it likes.
                let log = fs::read(self.log()).unwrap_or_default();
                fate_of_failed(&String::from_utf8_lossy(&log))
            }
            Ok(Verdict::TimedOut) => (Fate::OutOfTime, "caught (time limit)".to_owned()),
            Ok(Verdict::Passed) => (Fate::NotCaught, "SURVIVED".to_owned()),
            Err(failure) => (Fate::NotCaught, format!("NO EVIDENCE: {failure}")),
        };
        println!("{}: {}: {verdict} ({seconds:.1} s)", mutation.name, mutation.test);
        Ok(fate)
    }

    /// Builds the tests of the copy at `root`.
    fn program(build: Build, root: &Path) -> Outcome<PathBuf> {
        let mut command = match build {
            Build::Loom => loom::tests(),
            Build::Stress => stress::tests(),
        };
        command
            .current_dir(root)
            .env("CARGO_PROFILE_RELEASE_INCREMENTAL", "true");
        process::build_unit_tests(command)
    }

    /// Runs the one test function called `name`, whatever module it is in.
    fn run_test(&self, program: &Path, build: Build, name: &str) -> Outcome<Verdict> {
        let output = Command::new(program).args([name, "--list"]).output();
        let output = output.map_err(|error| Failure::new(format!("cannot run {}: {error}", program.display())))?;
        let listed = String::from_utf8_lossy(&output.stdout);
        let Some(path) = test_path(&listed, name) else {
            return Err(Failure::new(format!("there is not exactly one test called `{name}`")));
        };
        let mut command = Command::new(program);
        match build {
            Build::Loom => loom::set_bound(&mut command),
            Build::Stress => {
                command
                    .env(stress::SECONDS_VARIABLE, SOAK_SECONDS.to_string())
                    .env(stress::BUILD_VARIABLE, "1");
            }
        }
        process::run_limited(command.args([path, "--exact"]), &self.log(), self.limit)
    }

    fn log(&self) -> PathBuf {
        workspace::target_dir("loom").join("mutate.log")
    }
}

/// What loom says of an execution with more branches than it has room for, as where threads spin: it has not looked at
/// the end.
const GAVE_UP: &str = "exceeded maximum number of branches";

/// What has become of a mutation whose test has failed with this output, and what to say of it.
fn fate_of_failed(log: &str) -> (Fate, String) {
    if log.contains(GAVE_UP) {
        return (Fate::NotCaught, format!("NO EVIDENCE: the model {GAVE_UP}"));
    }
    let reason = last_panic(log).unwrap_or("without a panic");
    (Fate::Caught, format!("caught: {reason}"))
}

/// The first line of what the last panic has said, but for those that end a program because of an earlier one.
fn last_panic(log: &str) -> Option<&str> {
    let panics = log.rmatch_indices(" panicked at ");
    let mut said = panics.filter_map(|(start, _)| log[start..].lines().nth(1));
    said.find(|line| !line.starts_with("panic in a ")).map(str::trim)
}

/// The path of the only test in the harness's list whose last part is `name`.
fn test_path<'a>(listed: &'a str, name: &str) -> Option<&'a str> {
    let paths = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    let mut matching = paths.filter(|path| path.rsplit("::").next() == Some(name));
    let only = matching.next()?;
    matching.next().is_none().then_some(only)
}

fn read(root: &Path, path: &str) -> Outcome<String> {
    fs::read_to_string(root.join(path)).map_err(|error| Failure::new(format!("cannot read {path}: {error}")))
}

fn write(path: &Path, bytes: &[u8]) -> Outcome {
    let folder = path.parent().unwrap_or(path);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, bytes));
    written.map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
}

fn copy_if_changed(from: &Path, to: &Path) -> Outcome {
    let wanted = fs::read(from).map_err(|error| Failure::new(format!("cannot read {}: {error}", from.display())))?;
    if fs::read(to).is_ok_and(|present| present == wanted) {
        return Ok(());
    }
    write(to, &wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_the_time_limit_has_caught_is_counted_apart() {
        use Fate::{Caught, NotCaught, OutOfTime};

        let said = |fates: &[Fate]| summary(fates).map_err(|failure| failure.to_string());
        assert_eq!(said(&[Caught; 3]), Ok("all 3 mutations were caught".to_owned()));
        let late = said(&[Caught, OutOfTime, OutOfTime]).expect("caught");
        assert!(late.ends_with(", 2 of them by the time limit alone"), "{late}");
        let survived = said(&[NotCaught, OutOfTime, Caught]).expect_err("one was not");
        assert!(
            survived.starts_with("1 of 3 mutations were not caught, and 1 by"),
            "{survived}"
        );
    }

    #[test]
    fn a_failure_counts_for_its_reason() {
        let panics = |message: &str| format!("thread 'w1' (7) panicked at a.rs:1:2:\n{message}\nnote: a note\n");
        let check = |log: &str, expected: Fate, said: &str| {
            assert_eq!(fate_of_failed(log), (expected, said.to_owned()), "{log}");
        };
        let deadlock = panics("deadlock; threads = [(Id(0), Blocked)]");
        let said = "caught: deadlock; threads = [(Id(0), Blocked)]";
        check(&format!("{}{deadlock}", panics("on purpose")), Fate::Caught, said);
        let second = panics("panic in a destructor during cleanup");
        check(&format!("{deadlock}{second}"), Fate::Caught, said);
        check("running 1 test\n", Fate::Caught, "caught: without a panic");
        let gave_up = panics("Model exceeded maximum number of branches. This is often caused by");
        let said = "NO EVIDENCE: the model exceeded maximum number of branches";
        check(&format!("{gave_up}{second}"), Fate::NotCaught, said);
    }

    #[test]
    fn finds_the_one_test_of_a_name() {
        let listed = "loom::w1: test\nloom::w1_more: test\nsched::loom::w2: test\nother::w2: test\n\n4 tests\n";
        assert_eq!(test_path(listed, "w1"), Some("loom::w1"));
        assert_eq!(test_path(listed, "w2"), None, "two of that name");
        assert_eq!(test_path(listed, "w3"), None);
    }

    #[test]
    fn names_are_paths_without_folder_and_extension() {
        assert_eq!(name_of("mutations/w1-drop-fence.mut"), "w1-drop-fence");
    }

    #[test]
    fn unchanged_files_keep_their_time_stamp() {
        let folder = std::env::temp_dir().join(format!("xtask-copy-{}", std::process::id()));
        let (from, to) = (folder.join("from"), folder.join("to/deep"));
        write(&from, b"one").expect("writable");
        copy_if_changed(&from, &to).expect("copied");
        let stamp = || {
            fs::metadata(&to)
                .and_then(|data| data.modified())
                .expect("has a time stamp")
        };
        let first = stamp();
        copy_if_changed(&from, &to).expect("nothing to do");
        assert_eq!(stamp(), first);
        write(&from, b"two").expect("writable");
        copy_if_changed(&from, &to).expect("copied");
        assert_eq!(fs::read(&to).expect("readable"), b"two");
        fs::remove_dir_all(&folder).expect("removable");
    }
}
