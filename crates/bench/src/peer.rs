//! The process on the other side of a server's connections: the same program, told by a JSON argument what to do.
//!
//! The two talk in lines, over the other one's standard input and output.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::outcome::{Outcome, Stop};

/// Names the program to start, for servers that are not that program.
pub const GENERATOR: &str = "QUADRILLE_GENERATOR";

/// The other process; it ends with this.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts `quadrille COMMAND ORDER`.
    ///
    /// # Errors
    /// [`Stop::Failed`] if it cannot be started.
    pub fn start(command: &str, order: &impl Serialize) -> Result<Self, Stop> {
        let failed = |error: std::io::Error| Stop::failed(format!("cannot start the load generator: {error}"));
        let program = match std::env::var_os(GENERATOR) {
            Some(program) => PathBuf::from(program),
            None => std::env::current_exe().map_err(failed)?,
        };
        let json = serde_json::to_string(order).map_err(|error| failed(error.into()))?;
        let mut child = Command::new(program)
            .arg(command)
            .arg(json)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        match child.stdout.take() {
            Some(stdout) => Ok(Self {
                child,
                lines: BufReader::new(stdout),
            }),
            None => Err(Stop::failed("the load generator has no output")),
        }
    }

    /// Waits for its next line.
    ///
    /// # Errors
    /// [`Stop::Failed`] if its output cannot be read.
    pub fn line(&mut self) -> Result<String, Stop> {
        let mut line = String::new();
        self.lines
            .read_line(&mut line)
            .map_err(|error| Stop::failed(format!("cannot hear the load generator: {error}")))?;
        Ok(line.trim().to_owned())
    }

    /// Waits for its next line, which must be `expected`.
    ///
    /// # Errors
    /// Why it has stopped, if it says that; [`Stop::Failed`] if it says something else, or nothing.
    pub fn expect(&mut self, expected: &str) -> Result<(), Stop> {
        let line = self.line()?;
        if line == expected { Ok(()) } else { Err(failure(&line)) }
    }

    /// What it tells with `line`, which it said last.
    ///
    /// # Errors
    /// As [`Peer::expect`].
    pub fn parse<T: DeserializeOwned>(&self, line: &str) -> Result<T, Stop> {
        serde_json::from_str(line).map_err(|_| failure(line))
    }

    /// Lets it do what counts.
    ///
    /// # Errors
    /// [`Stop::Failed`] if it is gone.
    pub fn go(&mut self) -> Result<(), Stop> {
        let told = self.child.stdin.as_mut().map(|input| writeln!(input, "go"));
        match told {
            Some(Ok(())) => Ok(()),
            _ => Err(Stop::failed("the load generator does not listen")),
        }
    }
}

/// Why it has stopped, if `line` says so as an [`Outcome`].
fn failure(line: &str) -> Stop {
    match serde_json::from_str(line) {
        Ok(Outcome::Unsupported(reason)) => Stop::Unsupported(reason),
        Ok(Outcome::Failed(message)) => Stop::failed(format!("the load generator: {message}")),
        _ if line.is_empty() => Stop::failed("the load generator said nothing; stderr has the reason"),
        _ => Stop::failed(format!("the load generator said {line}")),
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended; a process that lives on would disturb the next run.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
