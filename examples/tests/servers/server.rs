//! An example that serves, as a process.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

/// Where cargo puts the program of an example.
pub(crate) fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let build = test.ancestors().nth(2).expect("a test is in a folder of the build's");
    build.join("examples").join(name)
}

/// A running example; it is ended when this is dropped.
pub(crate) struct Server {
    child: Child,
    /// `None` if nobody reads it any more.
    output: Option<BufReader<ChildStdout>>,
    pub(crate) address: String,
}

impl Server {
    /// Starts the example on a port of its own and waits until it listens.
    pub(crate) fn start(name: &str) -> Self {
        Server::start_with(name, &[])
    }

    /// The same with these arguments behind the address.
    pub(crate) fn start_with(name: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program(name));
        command.arg("127.0.0.1:0").args(arguments);
        Server::from_command(name, &mut command)
    }

    /// The same with at most so many descriptors, and what it says on standard error.
    pub(crate) fn start_limited(name: &str, descriptors: usize) -> (Self, BufReader<ChildStderr>) {
        let mut command = Command::new("sh");
        let limit = format!("ulimit -n {descriptors} && exec \"$0\" 127.0.0.1:0");
        command.args(["-c", &limit]).arg(program(name)).stderr(Stdio::piped());
        // The runtime itself takes some.
        let mut server = Server::from_command(name, command.env("QUADRILLE_WORKERS", "2"));
        let errors = server.child.stderr.take().expect("piped above");
        (server, BufReader::new(errors))
    }

    fn from_command(name: &str, command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("example {name}: {error}"));
        let mut output = BufReader::new(child.stdout.take().expect("piped above"));
        let line = read_line(&mut output);
        let address = line
            .strip_prefix("listening on ")
            .unwrap_or_else(|| panic!("example {name}: expected \"listening on ADDRESS\", got {line:?}"))
            .to_owned();
        let output = Some(output);
        Server { child, output, address }
    }

    pub(crate) fn port(&self) -> &str {
        self.address.rsplit_once(':').expect("an address has a port").1
    }

    /// Sends it this signal.
    pub(crate) fn signal(&self, signal: &str) {
        let process = self.child.id().to_string();
        let status = Command::new("kill").args([signal, &process]).status().unwrap();
        assert!(status.success(), "kill {signal} {process}: {status}");
    }

    /// A line of what Linux tells of the process, such as `VmRSS`, in bytes.
    #[cfg(target_os = "linux")]
    pub(crate) fn memory(&self, line: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let value = status
            .lines()
            .find_map(|text| text.strip_prefix(line)?.strip_prefix(':'));
        let kilobytes = value.and_then(|value| value.trim().strip_suffix(" kB")).expect(line);
        kilobytes.parse::<usize>().unwrap() << 10
    }

    /// What it says next.
    pub(crate) fn line(&mut self) -> String {
        read_line(self.output.as_mut().expect("somebody reads"))
    }

    /// From now on nobody reads what it says: to write it is an error.
    pub(crate) fn hear_no_more(&mut self) {
        self.output = None;
    }

    /// Lets it end by itself; what it says last.
    pub(crate) fn end(mut self) -> String {
        let mut rest = String::new();
        if let Some(output) = &mut self.output {
            output.read_to_string(&mut rest).unwrap();
        }
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}, after {rest:?}");
        rest
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The next line without its end.
pub(crate) fn read_line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}
