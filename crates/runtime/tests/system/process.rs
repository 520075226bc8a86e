//! Child processes.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::pin::pin;
use std::sync::mpsc;
use std::time::Duration;

#[cfg(feature = "bytes")]
use bytes::{Buf, Bytes, BytesMut};
use futures_lite::future::poll_once;
use futures_lite::{AsyncReadExt, AsyncWriteExt};
use quadrille::net::UnixStream;
use quadrille::process::{Child, Command, Stdio};
use quadrille::signal::ctrl_c;
use quadrille::time::timeout;
use quadrille::{JoinSet, Pinning, Runtime, Wait};
#[cfg(target_os = "linux")]
use quadrille::{
    net::{TcpListener, TcpStream, UnixDatagram, pipe},
    signal::unix::{SignalKind, signal},
};

use crate::child::{assert_passed, child, is_child, run_child};
use crate::skipped::skipped;
use crate::wait::eventually;

fn runtime() -> Runtime {
    Runtime::builder().worker_threads(2).build().unwrap()
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// `cat` with both ends piped: it runs until its input is closed.
fn cat() -> Command {
    let mut command = Command::new("cat");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Whether there is a process or a zombie by that id.
fn is_there(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[quadrille::test]
async fn output_is_all_that_a_child_writes_to_both_streams() {
    // Each stream alone would fill its pipe (64 KiB).
    let script = "i=0; while [ $i -lt 3000 ]; do echo out-0123456789012345678901234567890123456789; \
                  echo err-0123456789012345678901234567890123456789 >&2; i=$((i+1)); done; exit 9";
    let output = shell(script).output().await.unwrap();
    assert_eq!(output.status.code(), Some(9));
    for (stream, start) in [(output.stdout, b"out"), (output.stderr, b"err")] {
        assert_eq!(stream.len(), 3000 * 45);
        assert!(stream.starts_with(start));
    }
}

/// In a process whose standard input is a pipe: by `readlink`, what the child's is.
#[cfg(target_os = "linux")]
#[test]
fn who_only_gives_output_has_no_input() {
    let input_of = |command: &mut Command| {
        let output = runtime().block_on(async { command.output().await }).unwrap();
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    };
    let readlink = || {
        let mut command = Command::new("readlink");
        command.arg("/proc/self/fd/0");
        command
    };
    if is_child() {
        let mut command = readlink();
        for _ in 0..2 {
            assert_eq!(input_of(&mut command), "/dev/null");
        }
        // Started by `spawn` it has ours after that.
        let later = runtime().block_on(async {
            let child = command.stdout(Stdio::piped()).spawn().unwrap();
            child.wait_with_output().await.unwrap()
        });
        let ours = std::fs::read_link("/proc/self/fd/0").unwrap().into_os_string();
        let ours = ours.into_string().unwrap();
        assert!(ours.starts_with("pipe:"), "{ours}");
        assert_eq!(String::from_utf8(later.stdout).unwrap().trim_end(), ours);
        // What was asked for, or may have been behind our back, is left.
        assert_eq!(input_of(readlink().stdin(Stdio::inherit())), ours);
        assert_eq!(input_of(&mut readlink().into_std().into()), ours);
        let mut lent = readlink();
        lent.as_std_mut().stdin(Stdio::inherit());
        assert_eq!(input_of(&mut lent), ours);
        return;
    }
    let child = child(module_path!(), "who_only_gives_output_has_no_input", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    assert_passed(&child.unwrap().wait_with_output().unwrap());
}

#[quadrille::test]
async fn output_leaves_the_streams_of_later_starts_as_they_were() {
    let mut command = Command::new("true");
    assert!(command.output().await.unwrap().status.success());
    let mut child = command.spawn().unwrap();
    assert!(child.stdout.is_none() && child.stderr.is_none());
    assert!(child.wait().await.unwrap().success());
    command.stderr(Stdio::piped());
    assert!(command.output().await.unwrap().status.success());
    let mut child = command.spawn().unwrap();
    assert!(child.stdout.is_none() && child.stderr.is_some());
    assert!(child.wait().await.unwrap().success());
}

#[quadrille::test]
async fn settings_reach_the_child() {
    let output = shell("echo $0 $A $B $C; pwd")
        .arg("zero")
        .env("A", "1")
        .envs([("B", "2"), ("C", "3")])
        .env_remove("C")
        .current_dir("/")
        .stderr(Stdio::null())
        .process_group(0)
        .output()
        .await
        .unwrap();
    assert_eq!(output.stdout, b"zero 1 2\n/\n");
    let output = Command::new("env")
        .env_clear()
        .env("ONLY", "this")
        .output()
        .await
        .unwrap();
    assert_eq!(output.stdout, b"ONLY=this\n");
}

#[quadrille::test]
async fn a_program_that_is_not_there_is_std_s_error() {
    let error = Command::new("no-such-program-anywhere").spawn().map(drop).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    let error = Command::new("no-such-program-anywhere")
        .output()
        .await
        .map(drop)
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[quadrille::test]
async fn what_fails_before_exec_fails_the_start() {
    let mut command = Command::new("true");
    // SAFETY: it does nothing but make an error without allocating.
    unsafe { command.pre_exec(|| Err(io::Error::from_raw_os_error(5))) };
    assert_eq!(command.spawn().map(drop).unwrap_err().raw_os_error(), Some(5));
}

#[quadrille::test]
async fn a_child_answers_through_its_pipes() {
    let mut child = cat().spawn().unwrap();
    let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let sent: Vec<u8> = (0..500_000_u32).map(|number| number.to_le_bytes()[1]).collect();
    let expected = sent.clone();
    let writes = quadrille::spawn(async move { stdin.write_all(&sent).await });
    let mut received = Vec::new();
    assert_eq!(stdout.read_to_end(&mut received).await.unwrap(), expected.len());
    assert!(received == expected);
    writes.await.unwrap().unwrap();
    assert!(child.wait().await.unwrap().success());
}

#[cfg(feature = "bytes")]
#[quadrille::test]
async fn the_pipes_take_buffers_of_bytes() {
    let mut child = cat().spawn().unwrap();
    let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    assert_eq!(
        stdout.try_read_buf(&mut BytesMut::new()).unwrap_err().kind(),
        io::ErrorKind::WouldBlock
    );
    let mut words = Bytes::from("one ").chain(Bytes::from("two ")).chain(&b"three"[..]);
    assert_eq!(stdin.write_buf(&mut words).await.unwrap(), 13, "all pieces in one call");
    let mut word = Bytes::from(" four");
    stdin.write_all_buf(&mut word).await.unwrap();
    assert!(!words.has_remaining() && word.is_empty());
    drop(stdin);
    let mut heard = BytesMut::new();
    while stdout.read_buf(&mut heard).await.unwrap() > 0 {}
    assert_eq!(heard, "one two three four");
    assert!(child.wait().await.unwrap().success());
}

#[quadrille::test]
async fn the_pipes_have_the_traits_of_futures_io() {
    let mut child = cat().spawn().unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    AsyncWriteExt::write_all(&mut stdin, b"one two").await.unwrap();
    stdin.flush().await.unwrap();
    let mut bytes = [0; 3];
    AsyncReadExt::read_exact(&mut stdout, &mut bytes).await.unwrap();
    assert_eq!(&bytes, b"one");
    stdin.close().await.unwrap();
    assert_eq!(stdin.write(b"x").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    let mut rest = String::new();
    AsyncReadExt::read_to_string(&mut stdout, &mut rest).await.unwrap();
    assert_eq!(rest, " two");
    assert!(child.wait().await.unwrap().success());
}

#[quadrille::test]
async fn the_pipes_have_the_methods_of_pipes() {
    let mut child = cat().spawn().unwrap();
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let nothing_yet = stdout.try_read(&mut [0; 8]).unwrap_err();
    assert_eq!(nothing_yet.kind(), io::ErrorKind::WouldBlock);
    assert_eq!(stdin.as_fd().as_raw_fd(), stdin.as_raw_fd());
    stdin.writable().await.unwrap();
    let parts = [IoSlice::new(b"one "), IoSlice::new(b"two")];
    assert_eq!(stdin.write_vectored(&parts).await.unwrap(), 7);
    stdout.readable().await.unwrap();
    let (mut first, mut second) = ([0; 3], [0; 8]);
    let mut buffers = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
    // What was written at once, and is less than `PIPE_BUF`, is there at once.
    assert_eq!(stdout.read_vectored(&mut buffers).await.unwrap(), 7);
    assert_eq!((&first, &second[..4]), (b"one", b" two".as_slice()));
    stdin.close().await.unwrap();
    let after = [stdin.write(b"x").await, stdin.try_write(b"x")];
    for error in after
        .map(Result::unwrap_err)
        .into_iter()
        .chain(stdin.writable().await.err())
    {
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(error.to_string(), "the standard input of the child was closed here");
    }
    let never = stdout.read_exact(&mut [0]).await.unwrap_err();
    assert_eq!(never.kind(), io::ErrorKind::UnexpectedEof);
    assert!(child.wait().await.unwrap().success());
}

#[quadrille::test]
async fn one_child_s_output_is_another_s_input() {
    let mut first = shell("printf 'c\\na\\nb\\n'").stdout(Stdio::piped()).spawn().unwrap();
    let middle = Stdio::try_from(first.stdout.take().unwrap()).unwrap();
    let output = Command::new("sort").stdin(middle).output().await.unwrap();
    assert_eq!(output.stdout, b"a\nb\nc\n");
    assert!(first.wait().await.unwrap().success());
}

#[quadrille::test]
async fn waiting_can_time_out_and_go_on() {
    let mut child = cat().spawn().unwrap();
    let stdin = child.stdin.take();
    for _ in 0..3 {
        assert!(timeout(Duration::from_millis(1), child.wait()).await.is_err());
        assert!(child.try_wait().unwrap().is_none());
    }
    let pid = child.id().unwrap();
    assert!(is_there(pid));
    drop(stdin);
    assert!(child.wait().await.unwrap().success());
    assert_eq!(child.id(), None);
    assert!(child.try_wait().unwrap().unwrap().success());
    assert!(!is_there(pid), "it was waited for");
    child.start_kill().unwrap();
}

#[quadrille::test]
async fn wait_closes_the_input() {
    let mut child = cat().spawn().unwrap();
    assert!(child.wait().await.unwrap().success());
    assert!(child.stdin.is_none());
}

#[quadrille::test]
async fn a_kill_is_seen_in_the_status() {
    let mut child = cat().spawn().unwrap();
    child.kill().await.unwrap();
    assert_eq!(child.wait().await.unwrap().signal(), Some(9));
}

#[quadrille::test]
async fn a_child_that_is_dropped_runs_on_and_leaves_no_zombie() {
    let mut child = cat().spawn().unwrap();
    let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let pid = child.id().unwrap();
    drop(child);
    stdin.write_all(b"still here").await.unwrap();
    let mut bytes = [0; 10];
    stdout.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"still here");
    drop(stdin);
    assert_eq!(stdout.read(&mut bytes).await.unwrap(), 0);
    quadrille::spawn_blocking(move || eventually("it was waited for", || !is_there(pid)))
        .await
        .unwrap();
}

#[quadrille::test]
async fn kill_on_drop_kills_and_leaves_no_zombie() {
    let mut child = cat().kill_on_drop(true).spawn().unwrap();
    let (_stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let pid = child.id().unwrap();
    drop(child);
    assert_eq!(stdout.read(&mut [0; 8]).await.unwrap(), 0, "the other end is gone");
    quadrille::spawn_blocking(move || eventually("it was waited for", || !is_there(pid)))
        .await
        .unwrap();
}

#[test]
fn a_child_that_outlives_its_runtime_is_waited_for_by_another() {
    let (first, second) = (runtime(), runtime());
    // One is dropped before its runtime, the other after.
    let (mut before, mut after) = first.block_on(async { (cat().spawn().unwrap(), cat().spawn().unwrap()) });
    let pids = [&before, &after].map(|child| child.id().unwrap());
    let take_pipes = |child: &mut Child| (child.stdin.take(), child.stdout.take());
    let pipes = [take_pipes(&mut before), take_pipes(&mut after)];
    drop(before);
    drop(first);
    drop(after);
    assert!(pids.into_iter().all(is_there));
    drop(pipes);
    eventually("they were waited for", || {
        second.block_on(async { Command::new("true").status().await.unwrap() });
        !pids.into_iter().any(is_there)
    });
}

#[test]
fn threads_wait_for_children() {
    let runtime = runtime();
    let thread = runtime.spawn_thread(|| {
        let output = shell("echo from a thread").output().wait().unwrap();
        let mut child = cat().spawn().unwrap();
        child.stdin.as_ref().unwrap().write_all(b"x").wait().unwrap();
        let mut byte = [0];
        child.stdout.as_ref().unwrap().read_exact(&mut byte).wait().unwrap();
        assert_eq!(&byte, b"x");
        assert!(child.wait().wait().unwrap().success());
        output.stdout
    });
    assert_eq!(thread.join().unwrap(), b"from a thread\n");
}

#[quadrille::test]
async fn many_children_at_a_time() {
    let mut set = JoinSet::new();
    for code in 0..40 {
        set.spawn(async move { shell(&format!("exit {code}")).status().await.unwrap().code() == Some(code) });
    }
    assert!(set.join_all().await.into_iter().all(|right| right));
}

/// In a process that ignores `SIGCHLD`, so that nobody's child leaves a zombie. To listen to it would take that away
/// for good, and a child that is gone before it has a descriptor is no reason to.
#[cfg(target_os = "linux")]
#[test]
fn a_child_that_is_gone_at_once_leaves_the_signal_ignored() {
    if !is_child() {
        let name = "a_child_that_is_gone_at_once_leaves_the_signal_ignored";
        return assert_passed(&run_child(module_path!(), name));
    }
    let ignored = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
        u64::from_str_radix(ignored.trim(), 16).unwrap()
    };
    // SAFETY: no handler, and so no pointers; this process has the one test.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    let before = ignored();
    assert!(before & 1 << (libc::SIGCHLD - 1) != 0);
    runtime().block_on(async {
        for _ in 0..100 {
            let mut child = Command::new("true").spawn().unwrap();
            child.start_kill().unwrap();
            for _ in 0..2 {
                let error = child.wait().await.unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::ECHILD));
            }
        }
    });
    assert_eq!(ignored(), before);
}

/// The CPUs that a process may use, by what `/proc` says of it.
fn cpus(status: &str) -> String {
    let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list"));
    line.expect("Linux says it").to_owned()
}

#[test]
fn a_child_of_a_pinned_worker_is_not_pinned() {
    let ours = cpus(&std::fs::read_to_string("/proc/thread-self/status").unwrap());
    let runtime = match Runtime::builder().pinning(Pinning::Strict).build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let said = error.to_string();
            assert!(
                said.starts_with("strict pinning of ") && said.ends_with(" hardware threads, expected no more workers"),
                "{said}"
            );
            return skipped(&said);
        }
    };
    let (child, before, after) = runtime
        .block_on(runtime.spawn(async {
            let worker = || cpus(&std::fs::read_to_string("/proc/thread-self/status").unwrap());
            let before = worker();
            let command = Command::new("cat").arg("/proc/self/status").output();
            let after = worker();
            let output = command.await.unwrap();
            (cpus(&String::from_utf8(output.stdout).unwrap()), before, after)
        }))
        .unwrap();
    assert_eq!(child, ours);
    assert!(
        runtime.handle().worker_count() == 1 || before != ours,
        "the worker is pinned"
    );
    assert_eq!(before, after, "the worker is pinned as before");
}

/// The timer slack of the calling thread, by what `/proc` says of it.
fn timer_slack() -> u64 {
    let thread = std::fs::read_link("/proc/thread-self").unwrap();
    let path = Path::new("/proc")
        .join(thread.file_name().unwrap())
        .join("timerslack_ns");
    std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

/// A worker that has slept for a timer has the least there is.
#[test]
fn a_child_does_not_inherit_the_timer_slack_of_its_worker() {
    if !Path::new("/proc/self/timerslack_ns").exists() {
        return skipped("this kernel does not say what the timer slack of a thread is");
    }
    let ours = timer_slack();
    let runtime = Runtime::builder().worker_threads(1).build().unwrap();
    let (child, before, after) = runtime
        .block_on(runtime.spawn(async move {
            for _ in 0..1000 {
                if timer_slack() != ours {
                    break;
                }
                quadrille::time::sleep(Duration::from_millis(1)).await;
            }
            let before = timer_slack();
            let command = Command::new("cat").arg("/proc/self/timerslack_ns").output();
            let after = timer_slack();
            let output = command.await.unwrap();
            let child = String::from_utf8(output.stdout).unwrap();
            (child.trim().parse(), before, after)
        }))
        .unwrap();
    assert_eq!(child, Ok(ours));
    assert_eq!((before, after), (1, 1), "the worker wakes on time as before");
}

/// The runtime has descriptors of its own, and has made some for its users: sockets, pipes to other children, those by
/// which it hears of signals. A child of std's, of a thread that has nothing to do with it, has what this process was
/// started with.
#[cfg(target_os = "linux")]
#[test]
fn a_child_inherits_neither_descriptors_nor_signals() {
    const SCRIPT: &str = "ls /proc/self/fd; grep -E 'SigBlk|SigIgn' /proc/self/status";
    let printed = |output: std::process::Output| String::from_utf8(output.stdout).unwrap();
    let expected = printed(std::process::Command::new("sh").args(["-c", SCRIPT]).output().unwrap());
    assert!(expected.contains("SigBlk"), "{expected}");
    let found = runtime().block_on(async {
        quadrille::spawn(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let server = listener.accept().await.unwrap();
            let others = (UnixDatagram::pair().unwrap(), pipe().unwrap(), cat().spawn().unwrap());
            let window = signal(SignalKind::window_change()).unwrap();
            let output = shell(SCRIPT).output().await.unwrap();
            drop((listener, client, server, others, window));
            output
        })
        .await
        .unwrap()
    });
    assert_eq!(printed(found), expected);
}

/// As with sockets: who logs how its children ended, and goes on, would tell of an error each time its runtime ends.
#[test]
fn tasks_of_a_runtime_that_ends_are_not_told_that_nothing_can_be_started() {
    let runtime = Runtime::builder().worker_threads(1).build().unwrap();
    let (outside, _other) = runtime.block_on(async { UnixStream::pair().unwrap() });
    let (begins, begun) = mpsc::channel();
    let (closes, closed) = mpsc::channel();
    let (answers, answered) = mpsc::channel();
    drop(runtime.spawn(async move {
        begins.send(()).unwrap();
        // Holds up its worker meanwhile.
        closed.recv().unwrap();
        let _ = answers.send(poll_once(pin!(Command::new("true").status())).await.is_some());
        let _ = answers.send(poll_once(pin!(Command::new("true").output())).await.is_some());
        let _ = answers.send(poll_once(pin!(ctrl_c())).await.is_some());
    }));
    begun.recv().unwrap();
    // A thread that is none of the runtime's hears of the end, and so knows that it has come so far.
    let thread = std::thread::spawn(move || closes.send(outside.readable().wait().is_err()).unwrap());
    drop(runtime);
    thread.join().unwrap();
    assert_eq!(answered.iter().collect::<Vec<_>>(), [false; 3]);
}
