//! User-level threads under gdb, where it is installed: a backtrace goes from the thread's own stack to the worker that
//! runs it.

use std::hint::black_box;
use std::io::ErrorKind;
use std::process::{Command, Output};

use quadrille::{Runtime, thread};

use crate::child::{child, is_child, stderr};
use crate::skipped::skipped;

/// What gdb says where it may not trace a process.
const REFUSED: [&str; 2] = ["ptrace", "Couldn't get registers"];

#[inline(never)]
fn innermost(depth: u32) -> u32 {
    if depth == 0 {
        thread::yield_now();
        std::process::abort();
    }
    black_box(innermost(depth - 1)) + 1
}

/// The child under gdb until it aborts, and where it is then, or why that can't be.
fn under_gdb(child: &Command) -> Result<Output, &'static str> {
    let mut command = Command::new("gdb");
    command.args(["--batch", "--nx", "-iex", "set debuginfod enabled off"]);
    // Whatever the shell of this user is. How the trace ends, beyond the worker, is the C library's affair.
    command.args(["-iex", "set startup-with-shell off"]);
    command.args(["-ex", "run", "-ex", "backtrace", "-ex", "kill", "--args"]);
    command.arg(child.get_program()).args(child.get_args());
    command.envs(child.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err("gdb is not installed"),
        Err(error) => panic!("gdb: {error}"),
    };
    let said = stderr(&output);
    if REFUSED.iter().any(|refused| said.contains(refused)) {
        return Err("gdb may not trace");
    }
    Ok(output)
}

#[test]
fn a_backtrace_in_gdb_goes_from_the_thread_to_its_worker() {
    const NAME: &str = "a_backtrace_in_gdb_goes_from_the_thread_to_its_worker";
    if is_child() {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        drop(runtime.spawn_thread(|| innermost(3)).join());
        unreachable!("it aborts");
    }
    let output = match under_gdb(&child(module_path!(), NAME, "1")) {
        Ok(output) => output,
        Err(why) => return skipped(why),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let frames: Vec<&str> = said.lines().filter(|line| line.starts_with('#')).collect();
    let of = |name: &str| frames.iter().filter(|frame| frame.contains(name)).count();
    assert_eq!(of("thread_gdb::innermost"), 4, "{said}\n{}", stderr(&output));
    let first = |name: &str| frames.iter().position(|frame| frame.contains(name));
    let (thread, worker) = (first("thread_gdb::innermost"), first("worker::Worker::run"));
    assert!(thread < worker, "{said}");
}
