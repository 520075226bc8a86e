//! Runs a description in a fresh process and reads its answer.
//!
//! A process of its own for each run keeps processor time, context switches and allocator state apart, and lets runs of
//! different programs interleave. A run that hangs is killed after a time limit and reported like any failure, with the
//! processes that hackbench(8) has started: those of that row are a process group, so that an interrupt of the terminal
//! does not reach them. Load generators need none, for they end when the server's process is gone. Nor does a run
//! outlive the command (`parent_death`). All runs are of the programs that were there when the launcher was made
//! (`executable`): after a rebuild they fail.

use std::cell::OnceCell;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::adapters::go;
use crate::executable::Executable;
use crate::last_words::LastWords;
use crate::outcome::{Outcome, Stop};
use crate::parent_death;
use crate::peer::GENERATOR;
use crate::spec::{Family, Spec};
use crate::stamp;

/// The program with the other allocator.
pub(crate) const WITH_MIMALLOC: &str = "quadrille-mimalloc";

/// Starts the runs.
#[derive(Debug)]
pub struct Launcher {
    executable: Executable,
    with_mimalloc: Executable,
    go: OnceCell<Result<PathBuf, Stop>>,
    mimalloc_is_of_this_build: OnceCell<Result<(), Stop>>,
    time_limit: Option<Duration>,
}

/// What a run has said so far.
enum Event {
    Progress(f64),
    Error(String),
    Answer(String),
}

impl Launcher {
    /// Runs `executable run-one …`; a run that takes longer than `time_limit` is killed.
    #[must_use]
    pub fn new(executable: PathBuf, time_limit: Option<Duration>) -> Self {
        Self {
            with_mimalloc: Executable::at(directory(&executable).join(WITH_MIMALLOC)),
            executable: Executable::at(executable),
            go: OnceCell::new(),
            mimalloc_is_of_this_build: OnceCell::new(),
            time_limit,
        }
    }

    /// Does one run. `on_progress` is told the fraction done, if the description asks for it.
    pub fn run(&self, spec: &Spec, on_progress: &mut dyn FnMut(f64)) -> Outcome {
        match self.command(spec) {
            Ok(command) => self
                .wait_for(command, parent_death::is_group(spec), on_progress)
                .unwrap_or_else(Outcome::Failed),
            Err(stop) => stop.into(),
        }
    }

    fn command(&self, spec: &Spec) -> Result<Command, Stop> {
        let mut command = if spec.runtime.name.family() == Family::Go {
            let executable = self.executable.unchanged()?;
            let program = self.go.get_or_init(|| go::program(directory(executable))).clone()?;
            let mut command = Command::new(program);
            command
                .env("GOMAXPROCS", spec.workers.to_string())
                .env(GENERATOR, executable);
            command
        } else {
            let mut command = Command::new(if spec.runtime.name.uses_mimalloc() {
                self.mimalloc_is_of_this_build
                    .get_or_init(|| check_mimalloc(self.with_mimalloc.path()))
                    .clone()?;
                self.with_mimalloc.unchanged()?
            } else {
                self.executable.unchanged()?
            });
            // The load generator is this program for every server, whatever its allocator.
            command.arg("run-one").env(GENERATOR, self.executable.unchanged()?);
            command
        };
        let json =
            serde_json::to_string(spec).map_err(|error| Stop::failed(format!("cannot describe the run: {error}")))?;
        command.arg(json).stdout(Stdio::piped()).stderr(Stdio::piped());
        parent_death::tie_to_this_process(&mut command, spec);
        Ok(command)
    }

    fn wait_for(
        &self,
        mut command: Command,
        is_group: bool,
        on_progress: &mut dyn FnMut(f64),
    ) -> Result<Outcome, String> {
        let mut child = command
            .spawn()
            .map_err(|error| format!("cannot start the run: {error}"))?;
        // To wait for a child closes it, which would end a run that is about to end by itself.
        let _open_until_it_has_ended = child.stdin.take();
        let deadline = self.time_limit.and_then(|limit| Instant::now().checked_add(limit));
        let events = listen(&mut child);
        let mut words = LastWords::default();
        let mut answer = String::new();
        loop {
            match next(&events, deadline) {
                Ok(Event::Progress(fraction)) => on_progress(fraction),
                Ok(Event::Error(line)) => words.hear(&line),
                Ok(Event::Answer(line)) => answer = line,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    // The run may have ended just now; then there is nothing to kill.
                    if is_group {
                        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                    }
                    let _ = child.kill();
                    let _ = child.wait();
                    let limit = self.time_limit.unwrap_or_default().as_secs();
                    let why = words
                        .panic()
                        .unwrap_or_else(|| "it hangs, or is far slower than expected".to_owned());
                    return Err(format!("killed after {limit} s: {why}"));
                }
            }
        }
        let status = child
            .wait()
            .map_err(|error| format!("cannot wait for the run: {error}"))?;
        parse(&answer, status, &words)
    }
}

/// Where the programs beside `executable` are.
fn directory(executable: &Path) -> &Path {
    executable.parent().unwrap_or(Path::new("."))
}

/// Checks that the program with the other allocator is there, and of the same build as this one: what it measures
/// stands beside what this one does.
fn check_mimalloc(program: &Path) -> Result<(), Stop> {
    let refused = |what: &str| {
        let release = if cfg!(debug_assertions) { "" } else { " --release" };
        Err(Stop::unsupported(format!(
            "{WITH_MIMALLOC} {what}; build it with `cargo build{release} -p quadrille-bench --features mimalloc`"
        )))
    };
    if !program.is_file() {
        return refused("is not there");
    }
    // One that is older than the question does not answer it.
    let answer = Command::new(program).arg("build-stamp").stdin(Stdio::null()).output();
    match answer {
        Ok(output) if String::from_utf8_lossy(&output.stdout).trim() == stamp::BUILD => Ok(()),
        _ => refused("is of another build than this program"),
    }
}

fn next(events: &Receiver<Event>, deadline: Option<Instant>) -> Result<Event, RecvTimeoutError> {
    match deadline {
        Some(deadline) => events.recv_timeout(deadline.saturating_duration_since(Instant::now())),
        None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
    }
}

/// Reads both of the child's streams; the channel closes when both have ended.
fn listen(child: &mut Child) -> Receiver<Event> {
    let (sender, events) = mpsc::channel();
    if let Some(stderr) = child.stderr.take() {
        read_lines(stderr, sender.clone(), |line| match parse_progress(&line) {
            Some(fraction) => Event::Progress(fraction),
            None => Event::Error(line),
        });
    }
    if let Some(stdout) = child.stdout.take() {
        read_lines(stdout, sender, Event::Answer);
    }
    events
}

fn read_lines(stream: impl Read + Send + 'static, sender: Sender<Event>, event: fn(String) -> Event) {
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(event(line)).is_err() {
                return;
            }
        }
    });
}

/// Reads `progress 3 4` as 0.75.
fn parse_progress(line: &str) -> Option<f64> {
    let (done, all) = line.strip_prefix("progress ")?.split_once(' ')?;
    Some(done.parse::<f64>().ok()? / all.parse::<f64>().ok()?)
}

fn parse(answer: &str, status: ExitStatus, words: &LastWords) -> Result<Outcome, String> {
    match (serde_json::from_str(answer), words.reason()) {
        // Who misses a result need not be who panicked.
        (Ok(Outcome::Failed(message)), _) => Err(match words.panic() {
            Some(panic) => format!("{message}: {panic}"),
            None => message,
        }),
        // A result counts from who came to a good end: who crashed or panicked may have measured anything.
        (Ok(outcome), _) if status.success() && words.panic().is_none() => Ok(outcome),
        (Ok(_), None) => Err(format!("the run answered, but ended with {status}")),
        (Ok(_), Some(reason)) => Err(format!("the run answered, but ended with {status}: {reason}")),
        (Err(_), None) => Err(format!("the run ended with {status} and no answer")),
        (Err(_), Some(reason)) => Err(format!("the run ended with {status}: {reason}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Measured;
    use crate::spec::{Body, ChannelKind, Contender, RuntimeName, Workload};

    #[test]
    fn progress_is_a_fraction() {
        assert_eq!(parse_progress("progress 3 4"), Some(0.75));
        assert_eq!(parse_progress("progress x 4"), None);
        assert_eq!(parse_progress("thread 'main' panicked"), None);
    }

    fn check_failure(answer: &str, stderr: &str, expected: &str) {
        let mut words = LastWords::default();
        stderr.lines().for_each(|line| words.hear(line));
        let message = parse(answer, ExitStatus::default(), &words).unwrap_err();
        assert!(message.ends_with(expected), "{message}");
    }

    #[test]
    fn a_failure_has_the_reason_that_stderr_gives() {
        let panic = "thread 'main' panicked at a.rs:1:2:\nno memory\nnote: run with `RUST_BACKTRACE=1`";
        check_failure("", "stack overflow", ": stack overflow");
        check_failure("", "", " and no answer");
        check_failure("", panic, ": thread 'main' panicked at a.rs:1:2: no memory");
        check_failure(r#"{"failed":"sum"}"#, "some note", "sum");
        check_failure(
            r#"{"failed":"sum"}"#,
            panic,
            "sum: thread 'main' panicked at a.rs:1:2: no memory",
        );
    }

    /// A program that is a shell script. Another process writes it: had this one it open, so had what another test
    /// starts meanwhile, for a moment, and a file that is open for writing can't be run.
    fn write_script(path: &Path, script: &str) {
        let written = Command::new("sh")
            .args(["-c", r#"printf '%s\n' '#!/bin/sh' "$1" >"$0" && chmod 755 "$0""#])
            .arg(path)
            .arg(script)
            .status()
            .unwrap();
        assert!(written.success());
    }

    /// Runs a shell script in place of a run of `runtime`, for at most `limit`.
    fn check_script(runtime: RuntimeName, limit: Duration, name: &str, script: &str, expected: &str) {
        let path = std::env::temp_dir().join(format!("quadrille-{name}-{}", std::process::id()));
        write_script(&path, script);
        let launcher = Launcher::new(path.clone(), Some(limit));
        let spec = Spec {
            runtime: runtime.into(),
            ..SPEC
        };
        let outcome = launcher.run(&spec, &mut |_| {});
        std::fs::remove_file(&path).unwrap();
        match outcome {
            Outcome::Failed(message) => assert!(message.contains(expected), "{message}"),
            other => panic!("{other:?}"),
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    /// What a script that hangs may take until it does.
    const LONG: Duration = Duration::from_secs(5);

    const SPEC: Spec = Spec {
        workload: Workload::SpawnJoin { tasks: 1, batch: 1 },
        body: Body::Tasks,
        runtime: Contender::new(RuntimeName::Tokio),
        channel: ChannelKind::None,
        workers: 1,
        progress: false,
    };

    #[test]
    fn a_run_that_hangs_is_killed() {
        check_script(
            RuntimeName::Tokio,
            SECOND,
            "hangs",
            "exec sleep 1000",
            "killed after 1 s",
        );
    }

    #[test]
    fn with_a_run_that_hangs_what_it_has_started_is_killed() {
        use std::os::unix::fs::OpenOptionsExt as _;

        let path = std::env::temp_dir().join(format!("quadrille-held-{}", std::process::id()));
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        // At its end while nobody has it open for writing.
        let mut held = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(nix::libc::O_NONBLOCK)
            .open(&path)
            .unwrap();
        let script = format!("exec 3>{}; printf x >&3; sleep 1000 & wait", path.display());
        check_script(RuntimeName::Hackbench, LONG, "starts", &script, "killed after 5 s");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(held.read(&mut [0]).unwrap(), 1, "it had it open");
        let deadline = Instant::now() + Duration::from_secs(60);
        while held.read(&mut [0]).map_err(|error| error.kind()) != Ok(0) {
            assert!(Instant::now() < deadline, "what the run started goes on");
            thread::yield_now();
        }
    }

    #[test]
    fn a_run_that_dies_is_a_failure_with_its_last_words() {
        let script = "echo stack overflow >&2; kill -9 $$";
        check_script(RuntimeName::Tokio, 60 * SECOND, "dies", script, "stack overflow");
    }

    /// A run that answers with figures, and then does `end`, is a failure with both.
    fn check_bad_end(name: &str, end: &str, expected: &str) {
        let answer = serde_json::to_string(&Outcome::Measured(Measured::default())).unwrap();
        let script = format!("echo '{answer}'; {end}");
        check_script(RuntimeName::Tokio, 60 * SECOND, name, &script, expected);
    }

    #[test]
    fn a_run_that_crashes_after_its_answer_is_a_failure() {
        check_bad_end(
            "crashes",
            "kill -9 $$",
            "the run answered, but ended with signal: 9 (SIGKILL)",
        );
        check_bad_end(
            "exits",
            "echo no memory >&2; exit 3",
            "the run answered, but ended with exit status: 3: no memory",
        );
    }

    #[test]
    fn a_run_in_which_a_thread_panicked_is_a_failure_whatever_it_answered() {
        let end = "echo \"thread 'a' panicked at a.rs:1:2:\" >&2; echo 'no memory' >&2";
        let expected = "but ended with exit status: 0: thread 'a' panicked at a.rs:1:2: no memory";
        check_bad_end("panics-beside", end, expected);
    }

    #[test]
    fn a_run_may_say_what_is_no_panic() {
        let answer = Outcome::Measured(Measured::default());
        let mut words = LastWords::default();
        words.hear("warning: one CPU is slower");
        let parsed = parse(&serde_json::to_string(&answer).unwrap(), ExitStatus::default(), &words);
        assert_eq!(parsed, Ok(answer));
    }

    /// What a launcher in `directory` does with a run that asks for mimalloc.
    fn with_mimalloc(directory: &Path) -> Outcome {
        let launcher = Launcher::new(directory.join("quadrille"), None);
        let spec = Spec {
            runtime: RuntimeName::TokioMimalloc.into(),
            ..SPEC
        };
        launcher.run(&spec, &mut |_| {})
    }

    #[test]
    fn without_the_program_with_mimalloc_its_row_says_so() {
        match with_mimalloc(Path::new("/nonexistent")) {
            Outcome::Unsupported(reason) => {
                assert!(reason.contains("is not there; build it with"), "{reason}");
                assert!(reason.contains("--features mimalloc"), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_program_with_mimalloc_is_run_only_if_it_is_of_the_same_build() {
        let directory = std::env::temp_dir().join(format!("quadrille-build-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let outcomes = [stamp::BUILD, "of-another"].map(|build| {
            let script =
                format!(r#"if [ "$1" = build-stamp ]; then echo {build}; else echo "{{\"failed\":\"$QUADRILLE_GENERATOR\"}}"; fi"#);
            write_script(&directory.join("quadrille-mimalloc"), &script);
            with_mimalloc(&directory)
        });
        std::fs::remove_dir_all(&directory).unwrap();
        let loaded_by = directory.join("quadrille").display().to_string();
        assert_eq!(
            outcomes[0],
            Outcome::Failed(loaded_by),
            "what has its own allocator loads no server"
        );
        match &outcomes[1] {
            Outcome::Unsupported(reason) => assert!(reason.contains("is of another build"), "{reason}"),
            other => panic!("{other:?}"),
        }
    }

    /// A program that is replaced after its first run, as cargo does it: by another file, which is there before the old
    /// one is gone.
    fn check_rebuilt(runtime: RuntimeName) {
        let directory = std::env::temp_dir().join(format!("quadrille-rebuilt-{runtime:?}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let program = directory.join(if runtime.uses_mimalloc() {
            WITH_MIMALLOC
        } else {
            "quadrille"
        });
        let script = |answer: &str| {
            let build = stamp::BUILD;
            format!(r#"if [ "$1" = build-stamp ]; then echo {build}; else echo '{{"failed":"{answer}"}}'; fi"#)
        };
        write_script(&program, &script("the first"));
        let launcher = Launcher::new(directory.join("quadrille"), None);
        let spec = Spec {
            runtime: runtime.into(),
            ..SPEC
        };
        let first = launcher.run(&spec, &mut |_| {});
        write_script(&directory.join("new"), &script("the second"));
        std::fs::rename(directory.join("new"), &program).unwrap();
        let second = launcher.run(&spec, &mut |_| {});
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(first, Outcome::Failed("the first".to_owned()));
        let expected = format!(
            "{} was built, replaced or removed since this command began",
            program.display()
        );
        assert_eq!(second, Outcome::Failed(expected));
    }

    #[test]
    fn a_program_that_is_rebuilt_fails_the_runs_after_it() {
        check_rebuilt(RuntimeName::Tokio);
        check_rebuilt(RuntimeName::TokioMimalloc);
    }

    #[test]
    fn a_run_that_hangs_after_a_panic_is_said_to_have_panicked() {
        let script = "echo \"thread 'a' panicked at a.rs:1:2:\" >&2; echo 'no memory' >&2; exec sleep 1000";
        let expected = "killed after 5 s: thread 'a' panicked at a.rs:1:2: no memory";
        check_script(RuntimeName::Tokio, LONG, "panics", script, expected);
    }

    #[test]
    fn a_limit_beyond_all_time_is_none() {
        let limit = Duration::from_secs(u64::MAX);
        check_script(RuntimeName::Tokio, limit, "ends", "echo the end >&2", "the end");
    }
}
