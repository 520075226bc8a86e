//! A command that is ended by a signal: it takes its runs with it.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{program, quadrille};

/// Ends `command` by `signal`, which it must end by. Not SIGINT: a shell without job control has what it starts ignore
/// that.
fn end(command: &mut Child, signal: Signal) {
    kill_process(Pid::from_child(command), signal).unwrap();
    let status = wait_for("the command goes on", || command.try_wait().unwrap());
    assert_eq!(status.signal(), Some(signal.as_raw()));
}

/// Yields until there is what `look` looks for.
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}");
        thread::yield_now();
    }
}

#[test]
fn processes_of_hackbench_end_with_the_command() {
    for (command, signal) in [
        (
            &["compare", "hackbench_pipe", "--runtimes", "hackbench", "--quick"][..],
            Signal::TERM,
        ),
        (&["hackbench", "--pipe", "--runtime", "hackbench"], Signal::KILL),
    ] {
        // Both it and what it starts hold the pipe open. The command also asks for its version.
        let directory = program(
            "hackbench",
            "test \"$1\" = --help && exit\nexec 3>\"$HELD\"\necho x >&3\nsleep 1000 &\nwait",
        );
        let path = directory.join("held");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let mut held = fs::OpenOptions::new()
            .read(true)
            .custom_flags(nix::libc::O_NONBLOCK)
            .open(&path)
            .unwrap();
        let mut read = move || held.read(&mut [0; 8]).map_err(|error| error.kind());
        let system = std::env::var("PATH").unwrap();
        let mut running = quadrille(command)
            .env("PATH", format!("{}:{system}", directory.display()))
            .env("HELD", &path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        wait_for("hackbench does not begin", || {
            read().is_ok_and(|length| length > 0).then_some(())
        });
        end(&mut running, signal);
        wait_for("hackbench goes on", || (read() == Ok(0)).then_some(()));
        fs::remove_dir_all(&directory).unwrap();
    }
}

/// The run that `command` has started, once it has threads beside its first one.
fn run_of(command: &Child) -> Option<u32> {
    let children = format!("/proc/{0}/task/{0}/children", command.id());
    let children = fs::read_to_string(children).unwrap();
    let is_run = |child: &u32| {
        let words = fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == b"run-one")
    };
    let threads = |child: &u32| fs::read_dir(format!("/proc/{child}/task")).map_or(0, Iterator::count);
    let mut children = children.split_whitespace().filter_map(|child| child.parse().ok());
    children.find(|child| is_run(child) && threads(child) > 1)
}

/// Whether a process runs or could run.
fn lives(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/status"))
        .is_ok_and(|status| !status.lines().any(|line| line.starts_with("State:\tZ")))
}

#[test]
fn a_run_ends_with_the_command() {
    let args = ["compare", "load", "--runtimes", "quadrille", "--reps", "1"];
    let mut command = quadrille(&args).stdout(Stdio::null()).spawn().unwrap();
    let run = wait_for("no run begins", || run_of(&command));
    let pid = Pid::from_raw(run.try_into().unwrap()).unwrap();
    // It could not end by itself.
    kill_process(pid, Signal::STOP).unwrap();
    end(&mut command, Signal::TERM);
    wait_for("the run goes on", || (!lives(run)).then_some(()));
}
