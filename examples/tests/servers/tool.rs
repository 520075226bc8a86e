//! Clients that others have written. Where one isn't installed a test asks by itself, and says so.

use std::collections::BTreeSet;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::server::read_line;
use crate::skipped::skipped;

/// Longer than any program takes, those included that are told to give up after 5 minutes.
const LIMIT: Duration = Duration::from_secs(400);

/// Those that have been said to be missing.
static MISSING: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Says once that this program isn't installed.
fn say_missing(program: &str) {
    let mut said = MISSING.lock().unwrap_or_else(PoisonError::into_inner);
    if said.insert(program.to_owned()) {
        // `.ci/run` refuses these words of a program that it has installed.
        skipped(&format!(
            "{program} is not installed, its servers are asked by other means"
        ));
    }
}

/// Starts the program with pipes. `None`, and said, where it isn't installed.
fn start(program: &str, arguments: &[&str]) -> Option<Child> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    match command.spawn() {
        Ok(child) => Some(child),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            say_missing(program);
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

/// What the program says with these arguments; it must succeed. `None` where it isn't installed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Option<String> {
    run_with(program, arguments, b"").map(|said| String::from_utf8_lossy(&said).into_owned())
}

/// The same with this as its input.
fn run_with(program: &str, arguments: &[&str], input: &[u8]) -> Option<Vec<u8>> {
    let mut child = start(program, arguments)?;
    let mut stdin = child.stdin.take().expect("piped above");
    let mut stdout = child.stdout.take().expect("piped above");
    let mut stderr = child.stderr.take().expect("piped above");
    let (mut said, mut errors) = (Vec::new(), Vec::new());
    let (done, is_done) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // It need not read all of it.
            let _ = stdin.write_all(input);
        });
        scope.spawn(|| stderr.read_to_end(&mut errors).unwrap());
        scope.spawn(|| {
            stdout.read_to_end(&mut said).unwrap();
            done.send(()).unwrap();
        });
        if is_done.recv_timeout(LIMIT).is_err() {
            child.kill().unwrap();
        }
    });
    let status = child.wait().unwrap();
    assert!(
        status.success(),
        "{program} {arguments:?}: {status}\n{}{}",
        String::from_utf8_lossy(&said),
        String::from_utf8_lossy(&errors)
    );
    Some(said)
}

/// The same of curl, which says nothing but what it is answered, and gives up after 5 minutes.
pub(crate) fn curl(arguments: &[&str]) -> Option<String> {
    let all = [&["--silent", "--show-error", "--max-time", "300"], arguments].concat();
    run("curl", &all)
}

/// What socat gets back from this address, such as `TCP:127.0.0.1:7007`, for this. When it has sent all it says so
/// where it can, and waits so many seconds for the rest.
pub(crate) fn socat(address: &str, sent: &[u8], seconds: u32) -> Option<Vec<u8>> {
    let seconds = seconds.to_string();
    run_with("socat", &["-t", &seconds, "-T", "300", "-", address], sent)
}

/// A conversation over TCP that socat holds. It gives up after 5 minutes of silence.
pub(crate) struct Socat {
    child: Child,
    /// `None` when all is said.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Socat {
    /// `None` where it isn't installed.
    pub(crate) fn connect(address: &str) -> Option<Self> {
        let mut child = start("socat", &["-t", "300", "-T", "300", "-", &format!("TCP:{address}")])?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("piped above"));
        Some(Socat { child, input, output })
    }

    pub(crate) fn say(&mut self, text: &str) {
        let input = self.input.as_mut().expect("not all is said");
        input.write_all(text.as_bytes()).unwrap();
    }

    /// The next line without its end.
    pub(crate) fn hear(&mut self) -> String {
        read_line(&mut self.output)
    }

    /// Says that this was all; what it hears until the server has hung up.
    pub(crate) fn end(mut self) -> String {
        self.input = None;
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "socat: {status}, after {rest:?}");
        rest
    }
}

impl Drop for Socat {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
