//! Running cargo and the programs it builds.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::{Failure, Outcome};
use crate::workspace;

/// `cargo` at the root of the workspace, with nothing on standard input.
pub(crate) fn cargo<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(workspace::root()).stdin(Stdio::null()).args(args);
    // Set by the cargo that runs this program; a nested cargo has to choose its own (it may be another toolchain).
    for variable in ["CARGO", "RUSTC", "RUSTDOC", "CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH"] {
        command.env_remove(variable);
    }
    command
}

/// Adds `flags` to `RUSTFLAGS` instead of replacing what the caller has set.
pub(crate) fn add_rustflags(command: &mut Command, flags: &str) {
    let inherited = std::env::var("RUSTFLAGS").unwrap_or_default();
    command.env("RUSTFLAGS", format!("{inherited} {flags}").trim());
}

/// Optimises like `--release` but builds quickly: what is checked is behaviour, so link-time optimisation would only
/// cost minutes, and debug assertions are worth having.
pub(crate) fn use_checking_profile(command: &mut Command) {
    command
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true");
}

/// Numbers of the `test result:` lines of a test run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TestCounts {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
}

impl TestCounts {
    /// Adds what `line` says if it is a summary line of the test harness.
    pub(crate) fn add_line(&mut self, line: &str) {
        let Some((_, numbers)) = line.split_once("test result: ") else {
            return;
        };
        // The first part also holds the verdict: `ok. 3 passed`.
        let count = |name: &str| -> u32 {
            let part = numbers.split(';').find_map(|part| part.trim().strip_suffix(name));
            part.and_then(|part| part.trim().rsplit(' ').next())
                .and_then(|number| number.parse().ok())
                .unwrap_or(0)
        };
        self.passed += count("passed");
        self.failed += count("failed");
    }
}

/// Runs `command`, shows its output as it comes, and counts the tests.
///
/// # Errors
/// If the command cannot be started, reports failure, or ran no test at all.
pub(crate) fn run_tests(mut command: Command) -> Outcome<TestCounts> {
    println!("{}", describe(&command));
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| cannot_start(&command, &error))?;
    let mut counts = TestCounts::default();
    let output = child.stdout.take().expect("stdout was requested as a pipe");
    for line in BufReader::new(output).split(b'\n') {
        let line = line.map_err(|error| Failure::new(format!("cannot read the output of the tests: {error}")))?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        counts.add_line(&line);
    }
    let status = child.wait().map_err(|error| cannot_start(&command, &error))?;
    if !status.success() || counts.failed > 0 {
        return Err(Failure::new(format!("the tests failed ({status})")));
    }
    if counts.passed == 0 {
        return Err(Failure::new("no test ran: the filter or a cfg is wrong"));
    }
    Ok(counts)
}

/// Builds the unit tests of `package` and returns the program that holds them.
///
/// # Errors
/// If the build fails; its messages are then part of the failure.
pub(crate) fn build_unit_tests(mut command: Command) -> Outcome<PathBuf> {
    command.arg("--no-run");
    let output = command.output().map_err(|error| cannot_start(&command, &error))?;
    let messages = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(Failure::new(format!("does not build:\n{messages}")));
    }
    let folder = command.get_current_dir().unwrap_or(Path::new("."));
    match test_program(&messages) {
        Some(path) => Ok(folder.join(path)),
        None => Err(Failure::new(format!("cargo named no test program:\n{messages}"))),
    }
}

/// The path in cargo's line `Executable unittests src/lib.rs (target/release/deps/name-hash)`.
fn test_program(messages: &str) -> Option<PathBuf> {
    let line = messages
        .lines()
        .find(|line| line.trim_start().starts_with("Executable"))?;
    let (_, path) = line.rsplit_once('(')?;
    Some(PathBuf::from(path.trim_end().strip_suffix(')')?))
}

/// How a program with a time limit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Exit status 0.
    Passed,
    /// Any other exit status, or a signal.
    Failed,
    /// Still running at the limit, and killed.
    TimedOut,
}

/// Runs `command` for at most `limit`; its output goes to the file `log`.
///
/// # Errors
/// If the log cannot be written or the program cannot be started.
pub(crate) fn run_limited(command: &mut Command, log: &Path, limit: Duration) -> Outcome<Verdict> {
    let file = File::create(log).map_err(|error| Failure::new(format!("cannot write {}: {error}", log.display())))?;
    let copy = file
        .try_clone()
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", log.display())))?;
    command.stdin(Stdio::null()).stdout(file).stderr(copy);
    let child = command.spawn().map_err(|error| cannot_start(command, &error))?;
    wait_limited(child, limit).map_err(|error| cannot_start(command, &error))
}

/// Asks every few milliseconds, so that the process is killed through its handle and never through a number that may
/// have been reused.
fn wait_limited(mut child: Child, limit: Duration) -> std::io::Result<Verdict> {
    let start = Instant::now();
    while start.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(if status.success() {
                Verdict::Passed
            } else {
                Verdict::Failed
            });
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.kill()?;
    child.wait()?;
    Ok(Verdict::TimedOut)
}

/// The command as one would type it, with the variables that were set for it.
pub(crate) fn describe(command: &Command) -> String {
    let mut text = String::from("$");
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            let _ = write!(text, " {}={:?}", name.to_string_lossy(), value.to_string_lossy());
        }
    }
    let _ = write!(text, " {}", command.get_program().to_string_lossy());
    for arg in command.get_args() {
        let _ = write!(text, " {}", arg.to_string_lossy());
    }
    text
}

fn cannot_start(command: &Command, error: &std::io::Error) -> Failure {
    Failure::new(format!(
        "cannot run {}: {error}",
        command.get_program().to_string_lossy()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_the_summary_lines() {
        let mut counts = TestCounts::default();
        counts.add_line("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.1s");
        counts.add_line("test loom::w1 ... ok");
        counts.add_line("test result: FAILED. 12 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out");
        assert_eq!(counts, TestCounts { passed: 15, failed: 2 });
    }

    #[test]
    fn finds_the_test_program() {
        let messages =
            "    Finished `release` profile in 1s\n  Executable unittests src/lib.rs (target/x/deps/q-12ab)\n";
        assert_eq!(test_program(messages), Some(PathBuf::from("target/x/deps/q-12ab")));
        assert_eq!(test_program("    Finished\n"), None);
    }

    #[test]
    fn tells_success_failure_and_timeout_apart() {
        let log = std::env::temp_dir().join(format!("xtask-verdict-{}", std::process::id()));
        let verdict = |program: &str, limit: Duration| {
            let mut command = Command::new("sh");
            run_limited(command.args(["-c", program]), &log, limit).expect("sh can be started")
        };
        let long = Duration::from_secs(60);
        assert_eq!(verdict("true", long), Verdict::Passed);
        assert_eq!(verdict("exit 3", long), Verdict::Failed);
        assert_eq!(verdict("kill -SEGV $$", long), Verdict::Failed);
        assert_eq!(
            verdict("read line < /dev/zero", Duration::from_millis(20)),
            Verdict::TimedOut
        );
        assert_eq!(verdict("echo said", long), Verdict::Passed);
        assert_eq!(std::fs::read_to_string(&log).expect("the log was written"), "said\n");
        std::fs::remove_file(&log).expect("the log can be removed");
    }
}
