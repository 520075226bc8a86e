//! The standard input and outputs, of children that are this program again.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write, pipe};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::process::{Child, Command, Stdio};

use futures_lite::future::{block_on, poll_once};
use quadrille::io::{stderr, stdin, stdout};
use quadrille::{Runtime, Wait};

/// Set in children.
const CHILD: &str = "QUADRILLE_TEST_STDIO";

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// The test `name` again, in a child with pipes.
fn child(name: &str) -> Child {
    child_with(name, Stdio::piped(), Stdio::piped())
}

/// The same, with this input and output.
fn child_with(name: &str, input: impl Into<Stdio>, output: impl Into<Stdio>) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([&format!("stdio::{name}"), "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .stdin(input)
        .stdout(output)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn runtime() -> Runtime {
    Runtime::builder().worker_threads(2).build().unwrap()
}

/// The rest of the line that has `word` before it, among what the test harness writes.
fn after(output: &mut impl BufRead, word: &str) -> String {
    for line in output.lines().map(Result::unwrap) {
        if let Some((_, rest)) = line.split_once(word) {
            return rest.to_owned();
        }
    }
    panic!("the child has ended before it wrote {word:?}");
}

fn assert_passed(mut child: Child, mut output: impl Read) {
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    let status = child.wait().unwrap();
    assert!(status.success() && rest.contains("1 passed"), "{status}: {rest}");
}

/// Tells the parent.
async fn tell(text: &str) {
    let mut output = stdout();
    output.write_all(format!("tell:{text}\n").as_bytes()).await.unwrap();
    output.flush().await.unwrap();
}

#[test]
fn handles_lend_the_descriptors_of_the_process() {
    fn both(handle: &(impl AsFd + AsRawFd)) -> [RawFd; 2] {
        [handle.as_fd().as_raw_fd(), handle.as_raw_fd()]
    }
    assert_eq!(
        [both(&stdin()), both(&stdout()), both(&stderr())],
        [[0; 2], [1; 2], [2; 2]]
    );
}

#[test]
fn input_comes_as_it_is_written_up_to_its_end() {
    if is_child() {
        let runtime = runtime();
        let task = runtime.spawn(async {
            let (mut input, mut buffer) = (stdin(), [0; 64]);
            assert_eq!(input.read(&mut []).await.unwrap(), 0);
            loop {
                match input.read(&mut buffer).await.unwrap() {
                    0 => return tell("end").await,
                    length => tell(std::str::from_utf8(&buffer[..length]).unwrap().trim()).await,
                }
            }
        });
        runtime.block_on(task).unwrap();
        // The same on a user-level thread, to which the end is told again.
        let thread = runtime.spawn_thread(|| stdin().read(&mut [0; 8]).wait().unwrap());
        assert_eq!(thread.join().unwrap(), 0);
        return;
    }
    let mut child = child("input_comes_as_it_is_written_up_to_its_end");
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for round in 0..20 {
        // The next comes only after the answer.
        input.write_all(format!("line {round}\n").as_bytes()).unwrap();
        assert_eq!(after(&mut output, "tell:"), format!("line {round}"));
    }
    drop(input);
    assert_eq!(after(&mut output, "tell:"), "end");
    assert_passed(child, output);
}

#[test]
fn a_pending_read_holds_up_no_shutdown_and_loses_nothing() {
    if is_child() {
        let first = runtime();
        let mut buffer = [0; 64];
        first.block_on(async {
            // One that is given up, and one that is pending when the runtime goes.
            let mut input = stdin();
            assert!(poll_once(input.read(&mut buffer)).await.is_none());
            let (begins, begun) = quadrille::sync::oneshot::channel();
            let pending = quadrille::spawn(async move {
                let (mut input, mut buffer) = (stdin(), [0; 64]);
                let mut read = std::pin::pin!(input.read(&mut buffer));
                assert!(poll_once(read.as_mut()).await.is_none());
                begins.send(()).unwrap();
                read.await.unwrap()
            });
            begun.await.unwrap();
            drop(pending);
        });
        let user_thread = first.spawn_thread(|| stdin().read(&mut [0; 64]).wait().unwrap());
        drop(user_thread);
        drop(first);
        let second = runtime();
        second.block_on(async {
            tell("first is down").await;
            let length = stdin().read(&mut buffer).await.unwrap();
            tell(std::str::from_utf8(&buffer[..length]).unwrap().trim()).await;
        });
        return;
    }
    let mut child = child("a_pending_read_holds_up_no_shutdown_and_loses_nothing");
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    // Nothing was written until here.
    assert_eq!(after(&mut output, "tell:"), "first is down");
    input.write_all(b"late\n").unwrap();
    assert_eq!(after(&mut output, "tell:"), "late");
    assert_passed(child, output);
}

/// More than a pipe holds, dropped before it is written.
#[test]
fn what_was_accepted_is_written_whatever_goes() {
    const LENGTH: usize = 3 << 20;
    if is_child() {
        let runtime = runtime();
        runtime.block_on(async {
            let (mut output, mut error) = (stdout(), stderr());
            for (byte, to_error) in [(b'o', false), (b'e', true)] {
                let mut bytes = vec![byte; LENGTH];
                // What the test harness writes next is another line.
                bytes.push(b'\n');
                let written = if to_error {
                    error.write_all(&bytes).await
                } else {
                    output.write_all(&bytes).await
                };
                written.unwrap();
            }
        });
        drop(runtime);
        return;
    }
    let mut child = child("what_was_accepted_is_written_whatever_goes");
    let count = |bytes: &[u8], byte| bytes.split(|b| *b != byte).map(<[u8]>::len).max().unwrap();
    let mut errors = child.stderr.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        errors.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let mut bytes = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(count(&bytes, b'o'), LENGTH);
    assert_eq!(count(&reader.join().unwrap(), b'e'), LENGTH);
}

#[test]
fn an_error_is_told_by_the_next_write_or_flush() {
    if is_child() {
        block_on(async {
            let runtime = runtime();
            let _entered = runtime.enter();
            let mut error = stderr();
            error.write_all(b"tell:begins\n").await.unwrap();
            error.flush().await.unwrap();
            // When this ends, the parent has closed the output.
            assert_eq!(stdin().read(&mut [0]).await.unwrap(), 0);
            let mut output = stdout();
            let kind = |outcome: std::io::Result<()>| outcome.unwrap_err().kind();
            output.write_all(b"for nobody").await.unwrap();
            assert_eq!(kind(output.flush().await), ErrorKind::BrokenPipe);
            output.write_all(b"nor this\n").await.unwrap();
            assert_eq!(kind(output.write(b"more").await.map(drop)), ErrorKind::BrokenPipe);
            // It was told.
            output.flush().await.unwrap();
            error.write_all(b"tell:told\n").await.unwrap();
            error.flush().await.unwrap();
        });
        // The harness could not say how the test has ended.
        std::process::exit(7);
    }
    let mut child = child("an_error_is_told_by_the_next_write_or_flush");
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    assert_eq!(after(&mut errors, "tell:"), "begins");
    drop(child.stdout.take());
    drop(child.stdin.take());
    assert_eq!(after(&mut errors, "tell:"), "told");
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

/// A parent may have made non-blocking what the child inherits.
#[test]
fn pipes_that_do_not_block_are_waited_for() {
    let numbers: String = (0..400_000).map(|n| format!("{n};")).collect();
    if is_child() {
        runtime().block_on(async {
            let (mut input, mut buffer) = (stdin(), [0; 64]);
            for round in 0..20 {
                tell(&format!("reads {round}")).await;
                let length = input.read(&mut buffer).await.unwrap();
                assert_eq!(buffer[..length], *b"on\n");
            }
            // Longer than any pipe: it is full many times.
            tell(&numbers).await;
            assert_eq!(input.read(&mut buffer).await.unwrap(), 0);
        });
        return;
    }
    let (its_input, mut input) = pipe().unwrap();
    let (output, its_output) = pipe().unwrap();
    rustix::io::ioctl_fionbio(&its_input, true).unwrap();
    rustix::io::ioctl_fionbio(&its_output, true).unwrap();
    let child = child_with("pipes_that_do_not_block_are_waited_for", its_input, its_output);
    let mut output = BufReader::new(output);
    for round in 0..20 {
        assert_eq!(after(&mut output, "tell:"), format!("reads {round}"));
        input.write_all(b"on\n").unwrap();
    }
    assert!(
        after(&mut output, "tell:") == numbers,
        "something is lost, or twice there"
    );
    drop(input);
    assert_passed(child, output);
}
