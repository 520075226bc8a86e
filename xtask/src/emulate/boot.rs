//! Boots a machine, passes on what its command prints, and stops it when its time is over.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::guest::{STARTED, STATUS};
use super::machine::Machine;
use super::packages::cannot;
use crate::failure::{Failure, Outcome};

/// The emulator: an x86-64 machine, without the help of the host's processor.
const QEMU: &str = "qemu-system-x86_64";

/// Lines of the guest's console and of qemu's complaints that go into a failure.
const LAST_LINES: usize = 12;

/// How long a kernel may take until it runs the guest's script; 15 s are usual, and some multiples beside other work.
const BOOT_LIMIT: Duration = Duration::from_secs(100);

/// How often a machine is booted at most. With many processors qemu sometimes hangs before the kernel has written a
/// line, at full load and for ever; the next attempt comes up.
const BOOTS_MAX: u32 = 3;

/// What is booted, and where it leaves its logs.
#[derive(Debug)]
pub(crate) struct Boot<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) kernel: PathBuf,
    pub(crate) initrd: PathBuf,
    /// For the kernel's console and what qemu complains about.
    pub(crate) logs: &'a Path,
    pub(crate) limit: Duration,
}

/// Fails unless the emulator can be run here.
pub(crate) fn check_host() -> Outcome {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err(Failure::new(
            "the guest runs programs of the host and is an x86-64 Linux; this host is not",
        ));
    }
    let found = Command::new(QEMU).arg("--version").output();
    if found.is_ok_and(|output| output.status.success()) {
        Ok(())
    } else {
        Err(Failure::new(format!(
            "{QEMU} is not here; `apt-get install --no-install-recommends qemu-system-x86` installs it"
        )))
    }
}

impl Boot<'_> {
    /// Boots, and calls `on_line` with each line that the command prints. Returns the command's exit status.
    ///
    /// # Errors
    /// If the machine did not run the command to its end within the limit, or did not come up.
    pub(crate) fn run(&self, on_line: &mut dyn FnMut(&str)) -> Outcome<u8> {
        for boot in 1..=BOOTS_MAX {
            if let Some(status) = self.boot(on_line)? {
                return Ok(status);
            }
            eprintln!("{}: boot {boot} of {BOOTS_MAX} hangs", self.machine.name);
        }
        let seconds = self.boot_limit().as_secs();
        Err(self.explained(&format!("did not come up within {seconds} s, {BOOTS_MAX} times")))
    }

    fn boot_limit(&self) -> Duration {
        self.limit.min(BOOT_LIMIT)
    }

    /// Runs the command on a machine that is booted for it. `None`: that does not come up.
    fn boot(&self, on_line: &mut dyn FnMut(&str)) -> Outcome<Option<u8>> {
        let complaints = self.logs.join("qemu.log");
        let file = File::create(&complaints).map_err(|error| cannot("write", &complaints, &error))?;
        let mut child = self
            .qemu()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .map_err(|error| Failure::new(format!("cannot run {QEMU}: {error}")))?;
        let lines = listen(child.stdout.take());
        let start = Instant::now();
        let mut started = false;
        let mut status = None;
        // The emptiness before the status belongs to the status: it is there so that it begins a line.
        let mut empty = false;
        loop {
            let limit = if started { self.limit } else { self.boot_limit() };
            match lines.recv_timeout(limit.saturating_sub(start.elapsed())) {
                Ok(line) if line == STARTED => started = true,
                Ok(line) => {
                    if let Some(number) = line.strip_prefix(STATUS) {
                        status = number.parse().ok();
                        empty = false;
                        continue;
                    }
                    if std::mem::replace(&mut empty, line.is_empty()) {
                        on_line("");
                    }
                    if !line.is_empty() {
                        on_line(&line);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    stop(&mut child)?;
                    if !started {
                        return Ok(None);
                    }
                    return Err(self.explained(&format!("was stopped after {} s", self.limit.as_secs())));
                }
            }
        }
        stop(&mut child)?;
        let ended = status.ok_or_else(|| self.explained("ended before its command"));
        ended.map(Some)
    }

    fn qemu(&self) -> Command {
        // Out of the way of whoever else is at work here: emulation takes all the processors there are.
        let mut command = Command::new("nice");
        command
            .args([
                "-n",
                "15",
                QEMU,
                "-accel",
                "tcg,thread=multi",
                "-nodefaults",
                "-display",
                "none",
            ])
            .arg("-no-reboot")
            .args(self.machine.qemu_options())
            .arg("-kernel")
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(&self.initrd)
            .arg("-append")
            .arg(format!(
                "console=ttyS0 panic=-1 mitigations=off quiet {}",
                self.machine.kernel
            ))
            .arg("-serial")
            .arg(format!("file:{}", self.console().display()))
            .args(["-chardev", "stdio,id=command,signal=off", "-serial", "chardev:command"]);
        command
    }

    fn console(&self) -> PathBuf {
        self.logs.join("console.log")
    }

    fn explained(&self, what: &str) -> Failure {
        let mut message = format!("the machine {} {what}", self.machine.name);
        for log in [self.console(), self.logs.join("qemu.log")] {
            let bytes = fs::read(&log).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            let lines: Vec<_> = text
                .lines()
                .map(str::trim_end)
                .filter(|line| !line.is_empty())
                .collect();
            for line in &lines[lines.len().saturating_sub(LAST_LINES)..] {
                message.push_str("\n  ");
                message.push_str(line);
            }
        }
        Failure::new(message)
    }
}

/// Ends a machine that may have ended already.
fn stop(child: &mut Child) -> Outcome {
    let ended = child.try_wait().and_then(|status| match status {
        Some(_) => Ok(()),
        None => child.kill().and_then(|()| child.wait().map(drop)),
    });
    ended.map_err(|error| Failure::new(format!("cannot end {QEMU}: {error}")))
}

/// The lines of `output`, read by a thread, so that waiting for one can end.
fn listen(output: Option<ChildStdout>) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    if let Some(output) = output {
        thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
    }
    lines
}
