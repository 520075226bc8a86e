//! The machine that this process runs on, as far as it may use it.

use std::{fmt, path::PathBuf};

use crate::sysfs::known::Known;
use crate::{Allowed, PuSet, Roots, Topology, TopologyError, Warning, sysfs};

/// What to look at; the default is this process on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoverOptions {
    /// Where to look.
    pub roots: Roots,
    /// The affinity mask to start from. `None` asks for the calling thread's; with any roots but the default ones for
    /// that of the copy, or else takes all of its CPUs, see [`Allowed::read`].
    pub affinity: Option<PuSet>,
}

/// Where a machine was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// Linux's sysfs, below this folder.
    Sysfs(PathBuf),
    /// The hwloc library, where there is no sysfs; feature `hwloc`.
    Hwloc,
    /// Nothing could be read: as many hardware threads as allowed, without structure.
    Flat,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sysfs(root) => write!(f, "sysfs {}", root.display()),
            Self::Hwloc => f.write_str("hwloc"),
            Self::Flat => f.write_str("flat"),
        }
    }
}

/// A machine, restricted to what this process may use, and how that was found out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Discovery {
    /// The allowed part of the machine; it has at least one hardware thread.
    pub topology: Topology,
    /// What restricts it. The quota is not applied to the topology: which hardware threads to leave idle is a decision.
    pub allowed: Allowed,
    /// Everything that was missing or odd, that of `allowed` included.
    pub warnings: Vec<Warning>,
    /// Where the machine was read from.
    pub source: Source,
}

static THIS_MACHINE: Known = Known::nothing();

/// Reads this machine and restricts it to the affinity mask and the cpusets of this process.
///
/// The machine itself is read once by a program, and again when the thread's mask has CPUs that it did not have or, for
/// a mask of the caller's, when others are online; what restricts it each time.
///
/// It never fails: whatever cannot be read is a warning, and at worst the machine is flat. It is flat, too, where the
/// kernel's mask has CPUs that sysfs does not have: in a container that numbers its CPUs anew (LXC with lxcfs) what
/// sysfs says is of others.
///
/// ```
/// use quadrille_topology::{Grouping, discover};
///
/// let found = discover();
/// let groups = found.topology.groups(Grouping::default());
/// println!("{} ({}): {} groups", found.topology, found.source, groups.len());
/// assert!(!found.topology.pus().is_empty());
/// ```
#[must_use]
pub fn discover() -> Discovery {
    discover_with(&DiscoverOptions::default())
}

/// As [`discover`], with options: another root directory, another affinity mask.
#[must_use]
pub fn discover_with(options: &DiscoverOptions) -> Discovery {
    let root = &options.roots.sysfs;
    let (allowed, active) = Allowed::read_active(&options.roots, options.affinity.as_ref());
    let mut warnings = Vec::new();
    let is_here = *root == Roots::default().sysfs;
    let read = if is_here {
        THIS_MACHINE.read(root, active.then_some(&allowed.pus))
    } else {
        sysfs::read(root)
    };
    let (machine, source) = match read {
        Ok((machine, odd)) => {
            warnings.extend(odd);
            (machine, Source::Sysfs(root.clone()))
        }
        Err(e) => without_sysfs(options, &allowed, &e, &mut warnings),
    };
    let mismatch = mismatch(&machine.os_set(), &allowed.pus, active);
    let (mut topology, source) = match mismatch {
        None => (machine.restrict(&allowed.pus), source),
        Some(problem) => {
            let file = root.clone();
            warnings.push(Warning { file, problem });
            (Topology::flat_over(&allowed.pus), Source::Flat)
        }
    };
    if topology.pus().is_empty() {
        // An affinity mask that a caller made up may be empty.
        topology = Topology::flat(1);
    }
    warnings.extend(allowed.warnings.iter().cloned());
    Discovery {
        topology,
        allowed,
        warnings,
        source,
    }
}

/// Why a machine with the CPUs `online` is not the one whose CPUs are allowed; `active` if the kernel says of all of
/// these that they are online.
///
/// A part of such a mask is no smaller machine but a sign of other numbers: who is restricted to it loses CPUs, and
/// those that are left may have the caches of others.
fn mismatch(online: &PuSet, allowed: &PuSet, active: bool) -> Option<String> {
    let share = if active && !allowed.is_subset(online) {
        "all"
    } else if (online & allowed).is_empty() {
        "some"
    } else {
        return None;
    };
    Some(format!(
        "CPUs {online}: expected {share} of the allowed ones, {allowed}; the machine is taken for flat"
    ))
}

#[cfg(not(feature = "hwloc"))]
fn without_sysfs(
    options: &DiscoverOptions,
    allowed: &Allowed,
    error: &TopologyError,
    warnings: &mut Vec<Warning>,
) -> (Topology, Source) {
    flat(options, allowed, error, warnings)
}

/// Asks hwloc about this machine, but not if a copy of another one was asked for.
#[cfg(feature = "hwloc")]
fn without_sysfs(
    options: &DiscoverOptions,
    allowed: &Allowed,
    error: &TopologyError,
    warnings: &mut Vec<Warning>,
) -> (Topology, Source) {
    if options.roots == Roots::default()
        && let Ok(machine) = crate::hwloc::this_machine()
    {
        return (machine, Source::Hwloc);
    }
    flat(options, allowed, error, warnings)
}

fn flat(
    options: &DiscoverOptions,
    allowed: &Allowed,
    error: &TopologyError,
    warnings: &mut Vec<Warning>,
) -> (Topology, Source) {
    let file = options.roots.sysfs.clone();
    let problem = format!("{error}; the machine is taken for flat");
    warnings.push(Warning { file, problem });
    (Topology::flat_over(&allowed.pus), Source::Flat)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_cpu_of_the_kernels_mask_is_another() {
        #[track_caller]
        fn check(online: &str, allowed: &str, active: bool, share: Option<&str>) {
            let problem = mismatch(&online.parse().unwrap(), &allowed.parse().unwrap(), active);
            let expected = share.map(|share| {
                format!("CPUs {online}: expected {share} of the allowed ones, {allowed}; the machine is taken for flat")
            });
            assert_eq!(problem, expected, "{online} {allowed} {active}");
        }
        // As lxcfs shows them.
        check("0-3", "2,5-7", true, Some("all"));
        check("0-3", "5-7", true, Some("all"));
        check("0-3", "2-3", true, None);
        // Any other mask may have CPUs that are offline, or that there are not.
        check("0-3", "2,5-7", false, None);
        check("0-3", "5-7", false, Some("some"));
    }
}
