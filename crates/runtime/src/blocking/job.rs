//! What a pool runs, and what becomes of it.

use std::{fmt, io};

use crate::reactor::stopped;

/// What the pool runs.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// What becomes of a job that has not begun when the pool stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtStop {
    /// It is dropped.
    Drop,
    /// It is run before the pool's last thread leaves.
    Run,
}

/// Whether a job waits for one of the places that the bound gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Bounded,
    Beyond,
}

/// A job that has not begun.
pub(super) struct Queued {
    pub(super) job: Job,
    pub(super) at_stop: AtStop,
    pub(super) place: Place,
}

/// A job that was not accepted. It comes back, so that the caller chooses where it is dropped.
pub(crate) struct Rejected {
    /// The job, untouched.
    pub(crate) job: Job,
    /// Why.
    pub(crate) reason: Reason,
}

/// Why a job was not accepted.
#[derive(Debug)]
pub(crate) enum Reason {
    /// The pool stops.
    Stopping,
    /// There is no thread, and the system refuses to start one.
    NoThread(io::Error),
}

/// What users are told. Not the system's error: for want of a thread that is of the kind `WouldBlock`, by which whoever
/// polls takes it for something to wait for (`futures-io`).
impl From<Reason> for io::Error {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Stopping => stopped(),
            Reason::NoThread(error) => {
                io::Error::other(format!("no thread for blocking work could be started: {error}"))
            }
        }
    }
}

impl fmt::Debug for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected")
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}
