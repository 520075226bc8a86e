//! hackbench(8), the program of rt-tests: the kernel's scheduler, whose senders and receivers are processes or threads.
//!
//! It is started with the parameters of the row, and the time is the one that it prints, from its start signal until
//! all have ended. Processor time and switches are those of the program and all its processes, from their start on. It
//! checks no message; checked is that it ended well and that it has done what was asked for, as far as it says so.

use std::io;
use std::process::{Command, Output, Stdio};

use super::Counts;
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::spec::{Body, Hackbench, Spec, Transport, Workload};

/// Its name, in PATH.
const PROGRAM: &str = "hackbench";

/// It counts nothing.
struct Program;

impl Counts for Program {}

/// Runs `spec` by the program, and waits for it.
///
/// # Errors
/// [`Stop::Unsupported`] if it is not installed or has no such thing; [`Stop::Failed`] if it failed or has done
/// something else.
pub fn run(spec: &Spec) -> Result<Measured, Stop> {
    let Workload::Hackbench(params) = spec.workload else {
        return Err(Stop::unsupported("hackbench(8) is this one workload alone"));
    };
    // Short flags: version 2.4 takes `--pipe` for a `--datasize` without a number.
    let mut command = Command::new(PROGRAM);
    command.arg(match spec.body {
        Body::Tasks => "-P",
        Body::Threads => "-T",
    });
    match params.transport {
        Transport::Channel => {
            return Err(Stop::unsupported("hackbench(8) has pipes and sockets, no channels"));
        }
        Transport::Pipe => {
            command.arg("-p");
        }
        // What it takes unless told otherwise.
        Transport::Socket => {}
    }
    for (flag, number) in [
        ("-g", params.groups),
        ("-f", params.fds),
        ("-l", params.loops),
        ("-s", params.size),
    ] {
        command.arg(flag).arg(number.to_string());
    }
    let meter = Meter::start_of_children(&Program);
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| cannot_start(&error))?;
    let mut measured = meter.stop(&Program, params.messages());
    measured.wall_ns = time(&output, &params)?;
    Ok(measured)
}

fn cannot_start(error: &io::Error) -> Stop {
    match error.kind() {
        io::ErrorKind::NotFound => Stop::unsupported(
            "hackbench(8) is not installed: apt-get install rt-tests (Debian), or another way into PATH",
        ),
        _ => Stop::failed(format!("{PROGRAM} cannot be started: {error}")),
    }
}

/// The time that it prints, in nanoseconds, if it did what `params` say.
fn time(output: &Output, params: &Hackbench) -> Result<u64, Stop> {
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        let reason = reason.lines().next().unwrap_or("no message");
        return Err(Stop::failed(format!(
            "{PROGRAM} ended with {}: {reason}",
            output.status
        )));
    }
    let Hackbench {
        groups,
        fds,
        loops,
        size,
        ..
    } = *params;
    for (line, expected) in [
        ("Running in ", &[groups, 2 * fds, 2 * fds * groups][..]),
        ("Each sender ", &[loops, size]),
    ] {
        let found = line_of(&text, line)?;
        if numbers(found) != expected {
            return Err(Stop::failed(format!(
                "{PROGRAM} said `{found}`, {expected:?} were asked for"
            )));
        }
    }
    let line = line_of(&text, "Time: ")?;
    nanos(line.trim()).ok_or_else(|| Stop::failed(format!("{PROGRAM} said `Time: {line}`; expected seconds above 0")))
}

/// What follows `begin` on the line that begins so.
fn line_of<'a>(text: &'a str, begin: &str) -> Result<&'a str, Stop> {
    text.lines()
        .find_map(|line| line.strip_prefix(begin))
        .ok_or_else(|| Stop::failed(format!("{PROGRAM} printed no line `{begin}…`")))
}

/// The whole numbers in a line.
fn numbers(line: &str) -> Vec<usize> {
    line.split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
        .collect()
}

/// Seconds with a decimal point, in nanoseconds; `None` if they are none, or no time at all.
fn nanos(seconds: &str) -> Option<u64> {
    let (whole, part) = seconds.split_once('.').unwrap_or((seconds, ""));
    let part = part.get(..part.len().min(9))?;
    let nanos = format!("{whole}{part:0<9}").parse().ok()?;
    (nanos > 0).then_some(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_nanoseconds() {
        for (seconds, expected) in [
            ("0.123", Some(123_000_000)),
            ("12.5", Some(12_500_000_000)),
            ("3", Some(3_000_000_000)),
            ("1.0000000019", Some(1_000_000_001)),
            ("0.000", None),
            ("-1.0", None),
            ("", None),
            ("soon", None),
        ] {
            assert_eq!(nanos(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn numbers_are_found_between_words() {
        let line = "process mode with 10 groups using 40 file descriptors each (== 400 tasks)";
        assert_eq!(numbers(line), [10, 40, 400]);
    }
}
