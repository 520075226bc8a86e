//! Pinning: on which CPUs the calling thread may run. Linux and Android; elsewhere every call is refused.

use std::format;

use crate::{PuSet, TopologyError, sys};

/// The CPUs that the calling thread may run on.
///
/// # Errors
/// [`TopologyError::is_unsupported`] where the system has no CPU masks, [`TopologyError::is_io`] if it refuses.
pub fn current_affinity() -> Result<PuSet, TopologyError> {
    sys::affinity().map_err(|e| TopologyError::io(format!("reading the affinity mask of this thread: {e}"), e))
}

/// Allows the calling thread these CPUs and no other. Threads that it starts later inherit that.
///
/// ```no_run
/// use quadrille_topology::{discover, set_current_affinity};
///
/// let machine = discover().topology;
/// set_current_affinity(&machine.os_set_of(machine.llcs()[0].pus))?;
/// # Ok::<(), quadrille_topology::TopologyError>(())
/// ```
///
/// # Errors
/// [`TopologyError::is_invalid`] if the set is empty, [`TopologyError::is_unsupported`] where the system has no CPU
/// masks, [`TopologyError::is_io`] if it refuses, which it does if none of the CPUs is online and allowed by the
/// cgroup's cpuset. The message names the CPUs.
pub fn set_current_affinity(cpus: &PuSet) -> Result<(), TopologyError> {
    if cpus.is_empty() {
        return Err(TopologyError::invalid("empty affinity mask: expected at least one CPU"));
    }
    sys::set_affinity(cpus).map_err(|e| {
        let many = if cpus.len() == 1 { "" } else { "s" };
        TopologyError::io(
            format!("pinning this thread to CPU{many} {cpus}: {e}; expected an online CPU that the cpuset allows"),
            e,
        )
    })
}

/// Allows the calling thread one CPU, by its number of the operating system ([`Pu::os_index`](crate::Pu::os_index)).
/// Threads that it starts later inherit that.
///
/// # Errors
/// [`TopologyError::is_too_large`] if there cannot be such a CPU, and as [`set_current_affinity`].
pub fn pin_current_thread(os_cpu: u32) -> Result<(), TopologyError> {
    if os_cpu >= PuSet::LIMIT {
        return Err(TopologyError::too_large(format!(
            "pinning this thread to CPU {os_cpu}: expected a CPU number below {}",
            PuSet::LIMIT
        )));
    }
    set_current_affinity(&[os_cpu].into_iter().collect())
}
