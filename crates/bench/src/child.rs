//! Runs a description in a fresh process and reads its answer.
//!
//! A process of its own for each run keeps processor time, context switches and allocator state apart, and lets runs of
//! different programs interleave. A run that hangs is killed after a time limit and reported like any failure, with the processes
//! that hackbench(8) has started: those of that row are a process group, so that an interrupt of the terminal does not reach them. Load
//! generators need none, for they end when the server's process is gone.

use std::cell::OnceCell;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::adapters::go;
use crate::outcome::Outcome;
use crate::peer::GENERATOR;
use crate::spec::{Family, Spec};

/// Starts the runs.
#[derive(Debug)]
pub struct Launcher {
    executable: PathBuf,
    go: OnceCell<Result<PathBuf, String>>,
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
            executable,
            go: OnceCell::new(),
            time_limit,
        }
    }

    /// Does one run. `on_progress` is told the fraction done, if the description asks for it.
    pub fn run(&self, spec: &Spec, on_progress: &mut dyn FnMut(f64)) -> Outcome {
        match self.command(spec) {
            Ok(command) => self
                .wait_for(command, is_group(spec), on_progress)
                .unwrap_or_else(Outcome::Failed),
            Err(reason) => Outcome::Unsupported(reason),
        }
    }

    fn command(&self, spec: &Spec) -> Result<Command, String> {
        let directory = self.executable.parent().unwrap_or(Path::new("."));
        let mut command = if spec.runtime.name.family() == Family::Go {
            let program = self.go.get_or_init(|| go::program(directory)).clone()?;
            let mut command = Command::new(program);
            command
                .env("GOMAXPROCS", spec.workers.to_string())
                .env(GENERATOR, &self.executable);
            command
        } else {
            let mut command = Command::new(if spec.runtime.name.uses_mimalloc() {
                program_with_mimalloc(directory)?
            } else {
                self.executable.clone()
            });
            command.arg("run-one");
            command
        };
        let json = serde_json::to_string(spec).map_err(|error| format!("cannot describe the run: {error}"))?;
        command
            .arg(json)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if is_group(spec) {
            command.process_group(0);
        }
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
        let deadline = self.time_limit.map(|limit| Instant::now() + limit);
        let events = listen(&mut child);
        let mut errors = String::new();
        let mut answer = String::new();
        loop {
            match next(&events, deadline) {
                Ok(Event::Progress(fraction)) => on_progress(fraction),
                Ok(Event::Error(line)) => errors = line,
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
                    return Err(format!(
                        "killed after {limit} s: it hangs, or is far slower than expected"
                    ));
                }
            }
        }
        let status = child
            .wait()
            .map_err(|error| format!("cannot wait for the run: {error}"))?;
        parse(&answer, status, &errors)
    }
}

/// Whether the run starts processes that would outlive it.
fn is_group(spec: &Spec) -> bool {
    spec.runtime.name.family() == Family::Hackbench
}

fn program_with_mimalloc(directory: &Path) -> Result<PathBuf, String> {
    let program = directory.join("quadrille-mimalloc");
    if program.is_file() {
        Ok(program)
    } else {
        Err("quadrille-mimalloc is not there; build quadrille-bench with `--features mimalloc`".to_owned())
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

fn parse(answer: &str, status: ExitStatus, errors: &str) -> Result<Outcome, String> {
    match serde_json::from_str(answer) {
        Ok(outcome) => Ok(outcome),
        Err(_) if errors.is_empty() => Err(format!("the run ended with {status} and no answer")),
        Err(_) => Err(format!("the run ended with {status}: {errors}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Body, ChannelKind, Contender, RuntimeName, Workload};

    #[test]
    fn progress_is_a_fraction() {
        assert_eq!(parse_progress("progress 3 4"), Some(0.75));
        assert_eq!(parse_progress("progress x 4"), None);
        assert_eq!(parse_progress("thread 'main' panicked"), None);
    }

    #[test]
    fn no_answer_is_a_failure_with_the_last_line_of_stderr() {
        let status = ExitStatus::default();
        assert!(
            parse("", status, "stack overflow")
                .unwrap_err()
                .contains("stack overflow")
        );
        assert!(parse("", status, "").unwrap_err().contains("no answer"));
        assert_eq!(
            parse(r#"{"failed":"sum"}"#, status, ""),
            Ok(Outcome::Failed("sum".to_owned()))
        );
    }

    /// A program that is a shell script. Another process writes it: had this one it open, so had what another test starts meanwhile, for a
    /// moment, and a file that is open for writing can't be run.
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
        let script = format!("exec 3>{}; sleep 1000 & wait", path.display());
        check_script(RuntimeName::Hackbench, SECOND, "starts", &script, "killed after 1 s");
        std::fs::remove_file(&path).unwrap();
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

    #[test]
    fn without_the_program_with_mimalloc_its_row_says_so() {
        let launcher = Launcher::new(PathBuf::from("/nonexistent/quadrille"), None);
        let spec = Spec {
            runtime: RuntimeName::TokioMimalloc.into(),
            ..SPEC
        };
        match launcher.run(&spec, &mut |_| {}) {
            Outcome::Unsupported(reason) => {
                assert!(reason.contains("--features mimalloc"), "{reason}")
            }
            other => panic!("{other:?}"),
        }
    }
}
