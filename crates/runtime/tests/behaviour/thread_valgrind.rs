//! User-level threads under valgrind, where it is installed: memcheck knows their stacks, and finds nothing.

use std::hint::black_box;
use std::io::ErrorKind;
use std::process::{Command, Output};

use quadrille::sync::mpmc;
use quadrille::thread::{self, Builder};
use quadrille::{Runtime, Wait};

use crate::child::{assert_passed, child, is_child, stderr};
use crate::skipped::skipped;

/// What valgrind exits with if it has found something.
const FOUND: &str = "--error-exitcode=99";

/// What it says if it takes a switch of stacks for an access far beyond the current one.
const UNKNOWN_STACK: &str = "client switching stacks";

/// What it says where the C library has no debug symbols, which memcheck needs.
const NO_SYMBOLS: &str = "function redirection";

/// The sum of the numbers up to `depth`, by recursion that waits at its end and writes to each frame on its way.
fn sum(depth: u64) -> u64 {
    let frame = black_box([depth; 32]);
    if depth == 0 {
        thread::yield_now();
        return 0;
    }
    sum(depth - 1) + frame[(depth % 32) as usize]
}

/// Threads with stacks of several sizes, many at a time and in rounds, so that stacks are mapped, used again and
/// unmapped; and those that are unwound: by a panic, by an abort, by the end of the runtime.
fn all_walks_of_life() {
    let runtime = Runtime::builder().worker_threads(2).build().unwrap();
    for depth in [5, 20, 50] {
        let (sender, receiver) = mpmc::bounded(2);
        let threads: Vec<_> = (0..40_u64)
            .map(|id| {
                let sender = sender.clone();
                let stack_size = (128 * 1024) << (id % 3);
                let body = move || sender.send(sum(depth)).wait().unwrap();
                Builder::new()
                    .stack_size(stack_size)
                    .spawn_on(body, runtime.handle())
                    .unwrap()
            })
            .collect();
        drop(sender);
        let got: Vec<u64> = std::iter::from_fn(|| receiver.recv_blocking().ok()).collect();
        assert_eq!(got, [depth * (depth + 1) / 2; 40]);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
    let panics = runtime.spawn_thread(|| {
        thread::yield_now();
        panic!("for the test");
    });
    assert!(panics.join().map(|(): ()| ()).is_err());
    let (begins, begun) = mpmc::bounded(2);
    let parked = [begins.clone(), begins].map(|begins| {
        runtime.spawn_thread(move || {
            begins.send(()).wait().unwrap();
            std::future::pending::<()>().wait();
        })
    });
    assert!((0..2).all(|_| begun.recv_blocking().is_ok()));
    let [first, second] = parked;
    first.abort();
    assert!(first.join().is_err());
    drop(runtime);
    assert!(second.join().is_err());
}

/// The child under valgrind, or why that can't be.
fn under_valgrind(child: &Command) -> Result<Output, &'static str> {
    let mut command = Command::new("valgrind");
    // Threads in turn: workers that search would keep the only processor there from who has something to do.
    command.args([FOUND, "--fair-sched=try"]);
    command.arg(child.get_program()).args(child.get_args());
    command.envs(child.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err("valgrind is not installed"),
        Err(error) => panic!("valgrind: {error}"),
    };
    if stderr(&output).contains(NO_SYMBOLS) {
        return Err("valgrind finds no debug symbols of the C library (libc6-dbg)");
    }
    Ok(output)
}

#[test]
fn valgrind_finds_nothing_in_threads() {
    if is_child() {
        return all_walks_of_life();
    }
    let child = child(module_path!(), "valgrind_finds_nothing_in_threads", "1");
    let output = match under_valgrind(&child) {
        Ok(output) => output,
        Err(why) => return skipped(why),
    };
    assert_passed(&output);
    let said = stderr(&output);
    assert!(said.contains("ERROR SUMMARY: 0 errors"), "{said}");
    assert!(!said.contains(UNKNOWN_STACK), "{said}");
}
