//! Signals that other processes send.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use quadrille::signal::unix::{SignalKind, signal};
use quadrille::signal::{ctrl_c, termination};
use quadrille::{Runtime, Wait};

use crate::wait::eventually;

/// Set in a child, which is this test binary with one test.
const CHILD: &str = "QUADRILLE_TEST_SIGNAL_CHILD";

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Whether the child says `word` before it ends.
fn says(child: &mut Child, word: &str) -> bool {
    let stdout = BufReader::new(child.stdout.as_mut().unwrap());
    stdout.lines().any(|line| line.unwrap().contains(word))
}

/// Runs the test `name` of this module again in a child, and returns when it says that it listens.
fn child_that_listens(name: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([&format!("signal::{name}"), "--exact", "--nocapture"])
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(says(&mut child, "listens"), "the child ended before");
    child
}

fn send(kind: &str, to: &Child) {
    let script = format!("kill -{kind} {}", to.id());
    let status = Command::new("sh").args(["-c", &script]).status().unwrap();
    assert!(status.success());
}

/// Tells the parent.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn say(word: &str) {
    println!("{word}");
}

#[test]
fn ctrl_c_from_outside_ends_the_wait_and_not_the_process() {
    if is_child() {
        Runtime::new().unwrap().block_on(async {
            let mut interrupt = Box::pin(ctrl_c());
            assert!(futures_lite::future::poll_once(&mut interrupt).await.is_none());
            say("listens");
            interrupt.await.unwrap();
        });
        std::process::exit(3);
    }
    let mut child = child_that_listens("ctrl_c_from_outside_ends_the_wait_and_not_the_process");
    send("INT", &child);
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

#[test]
fn either_signal_asks_for_an_end_and_the_next_one_again() {
    if is_child() {
        Runtime::new().unwrap().block_on(async {
            let mut termination = termination().unwrap();
            say("listens");
            assert_eq!(termination.recv().await, Some(SignalKind::terminate()));
            say("terminated");
            (&mut termination).await;
            say("interrupted");
            assert!(futures_lite::future::poll_once(termination).await.is_none());
        });
        std::process::exit(5);
    }
    let mut child = child_that_listens("either_signal_asks_for_an_end_and_the_next_one_again");
    send("TERM", &child);
    assert!(says(&mut child, "terminated"));
    send("INT", &child);
    assert!(says(&mut child, "interrupted"));
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn a_thread_waits_for_the_request_to_end() {
    if is_child() {
        let runtime = Runtime::new().unwrap();
        let thread = runtime.spawn_thread(|| {
            let mut terminate = signal(SignalKind::terminate()).unwrap();
            say("listens");
            terminate.recv().wait().unwrap();
        });
        thread.join().unwrap();
        std::process::exit(4);
    }
    let mut child = child_that_listens("a_thread_waits_for_the_request_to_end");
    send("TERM", &child);
    assert_eq!(child.wait().unwrap().code(), Some(4));
}

/// A user-level thread computes on the smallest stack there is while signals arrive: no handler runs on that stack.
#[test]
fn a_handler_needs_no_room_on_a_small_stack() {
    const ARRIVALS: usize = 200;
    if is_child() {
        // One worker is busy for good, the other sees to readiness.
        let runtime = Runtime::builder().worker_threads(2).build().unwrap();
        let mut listener = {
            let _entered = runtime.enter();
            signal(SignalKind::user_defined1()).unwrap()
        };
        let busy = quadrille::thread::Builder::new().stack_size(16 * 1024);
        let handle = runtime.handle().clone();
        let told = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let until = told.clone();
        let _entered = handle.enter();
        let thread = busy
            .spawn(move || {
                while !until.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
            .unwrap();
        say("listens");
        runtime.block_on(async {
            for _ in 0..ARRIVALS {
                if listener.recv().await.is_none() {
                    break;
                }
            }
        });
        told.store(true, std::sync::atomic::Ordering::Relaxed);
        thread.join().unwrap();
        say("enough");
        // std's `exit` frees the alternate stack of the main thread, which may still be sent a signal: none may come
        // any more.
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        std::process::exit(5);
    }
    let mut child = child_that_listens("a_handler_needs_no_room_on_a_small_stack");
    // Arrivals that come together are told once, so it takes as many as it takes.
    let script = format!("while kill -USR1 {} 2>/dev/null; do :; done", child.id());
    let mut sender = Command::new("sh").args(["-c", &script]).spawn().unwrap();
    let enough = says(&mut child, "enough");
    sender.kill().unwrap();
    sender.wait().unwrap();
    // Closes its input.
    let status = child.wait().unwrap();
    assert!(enough && status.code() == Some(5), "{status:?}");
}

/// Kinds that a process may get from outside without harm once it listens.
#[cfg(target_os = "linux")]
fn many_kinds() -> Vec<SignalKind> {
    let named = [
        SignalKind::alarm(),
        SignalKind::child(),
        SignalKind::hangup(),
        SignalKind::interrupt(),
        SignalKind::io(),
        SignalKind::pipe(),
        SignalKind::quit(),
        SignalKind::terminate(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
        SignalKind::window_change(),
    ];
    // Real-time signals: those of the C library, and room for another's, come before.
    let real_time = (40..=63).map(SignalKind::from_raw);
    named.into_iter().chain(real_time).collect()
}

/// Whether every thread of the process has stopped, by what `/proc` says.
#[cfg(target_os = "linux")]
fn has_stopped(child: &Child) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    threads.into_iter().all(|thread| {
        // One that ends meanwhile was not stopped.
        let stat = thread.and_then(|thread| std::fs::read_to_string(thread.path().join("stat")));
        let stat = stat.unwrap_or_default();
        // The state comes after the name, which is in parentheses and may have some.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    })
}

/// What comes while a process is stopped is all pending for whichever thread goes on first. If each handler interrupted
/// the one before, their frames would need several times the stack.
#[cfg(target_os = "linux")]
#[test]
fn many_kinds_at_once_need_the_room_of_one() {
    if is_child() {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        let mut listeners: Vec<_> = {
            let _entered = runtime.enter();
            many_kinds().into_iter().map(|kind| signal(kind).unwrap()).collect()
        };
        say("listens");
        runtime.block_on(async {
            for listener in &mut listeners {
                listener.recv().await.unwrap();
            }
        });
        std::process::exit(6);
    }
    let mut child = child_that_listens("many_kinds_at_once_need_the_room_of_one");
    send("STOP", &child);
    eventually("it has stopped", || has_stopped(&child));
    let kills: Vec<_> = many_kinds()
        .into_iter()
        .map(|kind| format!("kill -{} {}", kind.as_raw_value(), child.id()))
        .collect();
    let status = Command::new("sh").args(["-c", &kills.join(" && ")]).status().unwrap();
    assert!(status.success());
    send("CONT", &child);
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(6), "{status:?}");
}
