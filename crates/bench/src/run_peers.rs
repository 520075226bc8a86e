//! The other runtimes, as this program runs them: all of them, or none in a build without the feature `peers`.
//!
//! Every workload is compiled once for each runtime, which takes most of the time of an optimized build. Who only wants
//! quadrille's own figures, as the check of counted instructions does, builds with `--no-default-features`.

use crate::outcome::{Measured, Stop};
use crate::spec::Spec;

#[cfg(feature = "peers")]
pub(crate) use self::there::{tasks, threads};

/// Says that a build has no peers.
///
/// # Errors
/// Always.
#[cfg(not(feature = "peers"))]
pub(crate) fn tasks(spec: &Spec) -> Result<Measured, Stop> {
    Err(Stop::unsupported(format!(
        "{} is not part of this build, which is without the feature `peers`",
        spec.runtime
    )))
}

#[cfg(not(feature = "peers"))]
pub(crate) use self::tasks as threads;

#[cfg(feature = "peers")]
mod there {
    use super::{Measured, Spec, Stop};
    use crate::adapters::async_channel::AsyncChannel;
    use crate::adapters::may::{May, MayMpsc};
    use crate::adapters::smol::Smol;
    use crate::adapters::threads::{SyncChannel, Threads};
    use crate::adapters::tokio::{Tokio, TokioMpsc};
    use crate::spec::{Family, Transport, Workload};
    use crate::{run_one, run_threads};

    /// Runs `spec`, whose body is tasks, on a peer.
    ///
    /// # Errors
    /// Why there are no figures.
    pub(crate) fn tasks(spec: &Spec) -> Result<Measured, Stop> {
        match spec.runtime.name.family() {
            Family::Tokio => run_one::on::<_, TokioMpsc>(Tokio::start(spec.workers)?, spec),
            Family::Smol if uses_reactor(spec) => {
                run_one::on::<_, AsyncChannel>(Smol::start_with_reactor(spec.workers)?, spec)
            }
            Family::Smol => run_one::on::<_, AsyncChannel>(Smol::start(spec.workers)?, spec),
            Family::Threads if matches!(spec.workload, Workload::TimeoutDrop { .. }) => {
                Err(Stop::unsupported("a thread that sleeps cannot think better of it"))
            }
            Family::Threads => run_one::on::<_, SyncChannel>(Threads, spec),
            _ => Err(Stop::failed("no peer that runs tasks")),
        }
    }

    /// Runs `spec`, whose body is threads, on a peer.
    ///
    /// # Errors
    /// Why there are no figures.
    pub(crate) fn threads(spec: &Spec) -> Result<Measured, Stop> {
        match spec.runtime.name.family() {
            Family::May => run_threads::on::<_, MayMpsc>(May::start(spec.workers), spec),
            Family::Threads => run_threads::on::<_, SyncChannel>(Threads, spec),
            _ => Err(Stop::failed("no peer that runs threads")),
        }
    }

    /// Whether there are pipes, sockets or timers.
    fn uses_reactor(spec: &Spec) -> bool {
        match spec.workload {
            Workload::Hackbench(h) => h.transport != Transport::Channel,
            Workload::Timers { .. }
            | Workload::TimeoutDrop { .. }
            | Workload::Schbench(_)
            | Workload::SchbenchRequests(_)
            | Workload::Pipe { .. }
            | Workload::Serve(_)
            | Workload::Idle { .. } => true,
            _ => false,
        }
    }
}
