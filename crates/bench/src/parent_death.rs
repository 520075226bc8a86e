//! A run ends with the command that has started it, its parent, however that ends: by Ctrl-C, a SIGTERM, a SIGKILL.
//!
//! The command handles no signal, so that it ends as each of them says. A run asks the kernel to kill it when its
//! parent ends (PR_SET_PDEATHSIG). That is too little for one of hackbench(8), whose processes would go on: its
//! standard input is a pipe that the command holds open, and at the end of that the run kills its process group, itself
//! included.
//!
//! A run by hand is tied to nothing. The Go program does the same as this one (`go/parent_death.go`).

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, getppid, kill_current_process_group, set_parent_process_death_signal};

use crate::spec::{Family, Spec};

/// Names, to a run that is to end with it, the process that has started it.
const PARENT_PID: &str = "QUADRILLE_PARENT_PID";

/// Whether the run starts processes that would outlive it.
pub(crate) fn is_group(spec: &Spec) -> bool {
    spec.runtime.name.family() == Family::Hackbench
}

/// Makes the command of a run one that ends with this process. The thread that spawns it must wait for it: its end
/// counts as that of the process.
pub(crate) fn tie_to_this_process(command: &mut Command, spec: &Spec) {
    command.env(PARENT_PID, std::process::id().to_string());
    if is_group(spec) {
        command.process_group(0).stdin(Stdio::piped());
    } else {
        command.stdin(Stdio::null());
    }
}

/// Ends this process, which is to run `spec`, with its parent, if that has asked for it. To be called by the first
/// thread.
///
/// # Errors
/// One line: the other one has ended already, or the kernel refuses.
pub(crate) fn end_with_parent(spec: &Spec) -> Result<(), String> {
    let Some(expected) = std::env::var_os(PARENT_PID) else {
        return Ok(());
    };
    let tied = if is_group(spec) {
        thread::Builder::new()
            .name("parent-death".to_owned())
            .spawn(kill_group_at_end_of_input)
            .map(drop)
    } else {
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from)
    };
    tied.map_err(|error| format!("cannot tie the run to its command: {error}"))?;
    // It may have ended before.
    let parent = getppid().map_or(0, Pid::as_raw_pid);
    if expected.to_str() == Some(&parent.to_string()) {
        Ok(())
    } else {
        Err(format!(
            "the command that started the run, process {expected:?}, has ended"
        ))
    }
}

fn kill_group_at_end_of_input() {
    // An error is an end, too.
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    // Nothing is left to tell of an error.
    let _ = kill_current_process_group(Signal::KILL);
}
