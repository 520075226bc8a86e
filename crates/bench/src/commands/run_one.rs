//! `quadrille run-one`: one run in this process, or of Go in that of its program; its outcome as one line of JSON.

use std::io::Write;

use super::{Allocator, Error};
use crate::child::{Launcher, WITH_MIMALLOC};
use crate::outcome::Outcome;
use crate::parent_death;
use crate::process::allow_files;
use crate::run_one;
use crate::spec::{Family, Spec, Transport, Workload};

/// Descriptors that a run needs besides those of its workload: the standard ones, epoll, eventfds.
const OTHER_FDS: u64 = 64;

/// Runs the description in `json`.
///
/// # Errors
/// [`Error::Usage`] if it is none, or asks for what cannot be run; [`Error::Failed`] if the result is wrong, or there
/// is none.
pub fn run(json: &str, allocator: Allocator, out: &mut dyn Write) -> Result<(), Error> {
    let spec: Spec =
        serde_json::from_str(json).map_err(|error| Error::Usage(format!("bad run description: {error}")))?;
    spec.check()
        .map_err(|message| Error::Usage(format!("bad run description: {message}")))?;
    check_allocator(&spec, allocator)?;
    let outcome = match spec.runtime.name.family() {
        Family::Go => Launcher::new(std::env::current_exe()?, None).run(&spec, &mut |_| {}),
        _ => run_here(&spec),
    };
    serde_json::to_writer(&mut *out, &outcome).map_err(std::io::Error::from)?;
    writeln!(out)?;
    match outcome {
        Outcome::Failed(_) => Err(Error::Failed),
        Outcome::Measured(_) | Outcome::Unsupported(_) => Ok(()),
    }
}

/// Whether the program allocates as the runtime's name says. Go's has an allocator, and a program, of its own.
fn check_allocator(spec: &Spec, allocator: Allocator) -> Result<(), Error> {
    let name = spec.runtime.name;
    let (expected, program) = if name.uses_mimalloc() {
        (Allocator::Mimalloc, WITH_MIMALLOC)
    } else {
        (Allocator::System, "quadrille")
    };
    if allocator == expected || name.family() == Family::Go {
        return Ok(());
    }
    let own = match allocator {
        Allocator::System => "the C library",
        Allocator::Mimalloc => "mimalloc",
    };
    Err(Error::Usage(format!(
        "the runtime is `{}`, and this program allocates from {own}; expected `{program} run-one`",
        spec.runtime
    )))
}

fn run_here(spec: &Spec) -> Outcome {
    match parent_death::end_with_parent(spec).and_then(|()| allow_descriptors(spec)) {
        Ok(()) => run_one::run(spec),
        Err(message) => Outcome::Failed(message),
    }
}

/// Raises the soft limit on open files if the workload needs it.
fn allow_descriptors(spec: &Spec) -> Result<(), String> {
    let own = match spec.workload {
        Workload::Hackbench(params) if params.transport != Transport::Channel => {
            2 * (params.groups * params.fds) as u64
        }
        Workload::Serve(serve) => serve.connections as u64,
        Workload::Idle { connections, .. } => connections as u64,
        _ => return Ok(()),
    };
    allow_files(own + OTHER_FDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_has_the_allocator_of_its_name() {
        let check = |runtime: &str, allocator| {
            let spec = serde_json::json!({
                "workload": { "name": "spawn_join", "tasks": 10, "batch": 10 },
                "runtime": runtime, "channel": "none", "workers": 1,
            });
            check_allocator(&serde_json::from_value(spec).unwrap(), allocator).is_ok()
        };
        for runtime in ["quadrille", "tokio", "none", "threads"] {
            assert!(check(runtime, Allocator::System), "{runtime}");
            assert!(!check(runtime, Allocator::Mimalloc), "{runtime}");
        }
        for runtime in ["quadrille-mimalloc", "tokio-mimalloc"] {
            assert!(!check(runtime, Allocator::System), "{runtime}");
            assert!(check(runtime, Allocator::Mimalloc), "{runtime}");
        }
        assert!(check("go", Allocator::System) && check("go", Allocator::Mimalloc));
    }
}
