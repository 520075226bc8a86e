//! `quadrille run-one`: one run in this process, its outcome as one line of JSON.

use std::io::Write;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::Error;
use crate::outcome::Outcome;
use crate::run_one;
use crate::spec::{Spec, Transport, Workload};

/// Descriptors that a run needs besides those of its workload: the standard ones, epoll, eventfds.
const OTHER_FDS: u64 = 64;

/// Runs the description in `json`.
///
/// # Errors
/// [`Error::Usage`] if it is none.
pub fn run(json: &str, out: &mut dyn Write) -> Result<(), Error> {
    let spec: Spec =
        serde_json::from_str(json).map_err(|error| Error::Usage(format!("bad run description: {error}")))?;
    let outcome = match allow_descriptors(&spec) {
        Ok(()) => run_one::run(&spec),
        Err(message) => Outcome::Failed(message),
    };
    serde_json::to_writer(&mut *out, &outcome).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// Raises the soft limit on open files if the workload needs it.
fn allow_descriptors(spec: &Spec) -> Result<(), String> {
    let own = match spec.workload {
        Workload::Hackbench(params) if params.transport != Transport::Channel => {
            2 * (params.groups * params.fds) as u64
        }
        Workload::Serve(serve) => serve.connections as u64,
        _ => return Ok(()),
    };
    allow_files(own + OTHER_FDS)
}

/// Raises the soft limit on open files to `needed`.
pub(super) fn allow_files(needed: u64) -> Result<(), String> {
    let (soft, hard) =
        getrlimit(Resource::RLIMIT_NOFILE).map_err(|error| format!("cannot read the limit on open files: {error}"))?;
    if needed <= soft {
        return Ok(());
    }
    if needed > hard {
        return Err(format!(
            "{needed} open files are needed, the limit is {hard} (ulimit -Hn)"
        ));
    }
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard)
        .map_err(|error| format!("cannot allow {needed} open files: {error}"))
}
