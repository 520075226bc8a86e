//! What this process may use of the machine: affinity mask, cpuset and CPU quota.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::cgroup::{self, KnownPlaces};
use crate::{PuSet, Warning, sys, sysfs, warning::Warnings};

/// Where the cgroups of this process are.
static THIS_PROCESS: KnownPlaces = KnownPlaces::none();

/// Where to look; the defaults are this machine, anything else a copy of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// The folder with `cpu` and `node`. Default: `/sys/devices/system`.
    pub sysfs: PathBuf,
    /// The folder with `cgroup`, `mountinfo` and `status`. Default: `/proc/self`.
    pub proc_self: PathBuf,
    /// What the mount points in `mountinfo` are relative to. Default: `/`.
    pub mounts: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self::under(Path::new("/"))
    }
}

impl Roots {
    /// The usual paths below a copy of the root directory.
    ///
    /// ```
    /// use quadrille_topology::Roots;
    ///
    /// let roots = Roots::under("/captured/epyc".as_ref());
    /// assert_eq!(roots.sysfs.to_str(), Some("/captured/epyc/sys/devices/system"));
    /// ```
    #[must_use]
    pub fn under(root: &Path) -> Self {
        Self {
            sysfs: root.join(sysfs::DEFAULT_ROOT.trim_start_matches('/')),
            proc_self: root.join("proc/self"),
            mounts: root.to_owned(),
        }
    }
}

/// A limit on CPU time: the process may use this much of a CPU for each second that passes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuQuota {
    /// Thousandths of a CPU, at least 1: 2500 is two and a half CPUs.
    pub millicpus: u64,
    /// The file that sets it.
    pub source: PathBuf,
}

impl CpuQuota {
    /// So many microseconds of CPU time in each period; nothing if either is 0.
    pub(crate) fn new(quota_us: u64, period_us: u64, source: PathBuf) -> Option<Self> {
        if quota_us == 0 || period_us == 0 {
            return None;
        }
        let millicpus = u128::from(quota_us) * 1000 / u128::from(period_us);
        let millicpus = u64::try_from(millicpus).unwrap_or(u64::MAX).max(1);
        Some(Self { millicpus, source })
    }

    /// How many hardware threads it takes to use the quota up: 2.5 CPUs are 3.
    #[must_use]
    pub fn cpus_ceil(&self) -> u64 {
        self.millicpus.div_ceil(1000)
    }
}

/// What this process may use of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Allowed {
    /// The affinity mask and every cpuset intersected. CPUs that the machine does not have may be among them.
    pub pus: PuSet,
    /// The tightest CPU quota of any ancestor cgroup.
    pub quota: Option<CpuQuota>,
    /// What was missing or odd, and is therefore not applied.
    pub warnings: Vec<Warning>,
}

impl Allowed {
    /// Asks for the limits as they are now; they may change while the process runs, so long-lived programs ask again.
    ///
    /// Where the cgroups are mounted is asked once, and again when the process is in others, or more or fewer files say
    /// something there.
    ///
    /// `affinity` is the mask to start from. `None` asks for the mask of the *calling thread*, which is what was given
    /// to the process (`taskset`) only until the thread is pinned; a program that pins its threads remembers its first
    /// mask, or asks from a thread that is not pinned. Where the system has no masks, `None` starts from as many CPUs
    /// as [`std::thread::available_parallelism`] counts.
    ///
    /// With any roots but the default ones `None` asks nothing of this process. It starts from what `Cpus_allowed_list`
    /// in `status` there has of the CPUs that are online there; where that cannot be read from all of these, with a
    /// warning; where none is known, from the cpusets.
    ///
    /// ```
    /// use quadrille_topology::{Allowed, Roots};
    ///
    /// let allowed = Allowed::read(&Roots::default(), None);
    /// assert!(!allowed.pus.is_empty());
    /// ```
    #[must_use]
    pub fn read(roots: &Roots, affinity: Option<&PuSet>) -> Self {
        Self::read_active(roots, affinity).0
    }

    /// The same, and whether the kernel gave the mask: then all of its CPUs are online.
    pub(crate) fn read_active(roots: &Roots, affinity: Option<&PuSet>) -> (Self, bool) {
        let mut warnings = Warnings::default();
        let is_here = *roots == Roots::default();
        let (mut pus, active) = match affinity {
            Some(affinity) => (Some(affinity.clone()), false),
            None if is_here => own_affinity(&mut warnings),
            None => (affinity_of_a_copy(roots, &mut warnings), false),
        };
        let of_a_copy = KnownPlaces::none();
        let known = if is_here { &THIS_PROCESS } else { &of_a_copy };
        let limits = cgroup::read(roots, known, &mut warnings);
        for (file, cpus) in &limits.cpusets {
            let both = pus.as_ref().map_or_else(|| cpus.clone(), |pus| pus & cpus);
            if both.is_empty() {
                let found = format!("CPUs {cpus}");
                warnings.push(
                    file,
                    &found,
                    "expected some of the affinity mask; this cpuset is not applied",
                );
            } else {
                pus = Some(both);
            }
        }
        let pus = pus.unwrap_or_else(|| {
            warnings.push(&roots.sysfs, "no CPU is known", "CPU 0 is taken");
            PuSet::from_iter([0])
        });
        let allowed = Self {
            pus,
            quota: limits.quota,
            warnings: warnings.into_vec(),
        };
        (allowed, active)
    }
}

/// The calling thread's mask, and whether the kernel gave it.
fn own_affinity(warnings: &mut Warnings) -> (Option<PuSet>, bool) {
    sys::affinity().map(|mask| (Some(mask), true)).unwrap_or_else(|e| {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let expected = "expected an affinity mask; the CPUs from 0 on are taken";
        warnings.push(Path::new("sched_getaffinity"), &e.to_string(), expected);
        (Some((0..PuSet::LIMIT).take(count).collect()), false)
    })
}

/// The mask of the process whose files were copied, without CPUs that are offline as the kernel gives it; all CPUs that
/// are online if it is not known, and nothing if these aren't either.
fn affinity_of_a_copy(roots: &Roots, warnings: &mut Warnings) -> Option<PuSet> {
    let mask = copied_mask(&roots.proc_self.join("status"), warnings);
    let Some(online) = sysfs::online_below(&roots.sysfs) else {
        return mask;
    };
    match mask {
        // Of another machine: whoever compares the two says so.
        Some(mask) if (&mask & &online).is_empty() => Some(mask),
        Some(mask) => Some(&mask & &online),
        None => Some(online),
    }
}

/// The mask in a file such as `/proc/self/status`.
fn copied_mask(file: &Path, warnings: &mut Warnings) -> Option<PuSet> {
    const NAME: &str = "Cpus_allowed_list:";
    const EXPECTED: &str = "expected the affinity mask; the CPUs that are online are taken";
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            warnings.push(file, "missing", EXPECTED);
            return None;
        }
        Err(e) => {
            warnings.push(file, &e.to_string(), EXPECTED);
            return None;
        }
    };
    let text = String::from_utf8_lossy(&bytes);
    let Some(list) = text.lines().find_map(|line| line.strip_prefix(NAME)) else {
        warnings.push(file, "no Cpus_allowed_list", EXPECTED);
        return None;
    };
    let mask: Option<PuSet> = list.trim().parse().ok();
    let mask = mask.filter(|mask| !mask.is_empty());
    if mask.is_none() {
        warnings.push(file, &sysfs::quoted(list), EXPECTED);
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_in_thousandths() {
        #[track_caller]
        fn check(quota_us: u64, period_us: u64, millicpus: Option<u64>, cpus: u64) {
            let quota = CpuQuota::new(quota_us, period_us, PathBuf::new());
            assert_eq!(quota.as_ref().map(|q| q.millicpus), millicpus);
            assert_eq!(quota.map_or(0, |q| q.cpus_ceil()), cpus);
        }
        check(50_000, 100_000, Some(500), 1);
        check(250_000, 100_000, Some(2500), 3);
        check(200_000, 100_000, Some(2000), 2);
        check(1000, 1_000_000, Some(1), 1);
        check(1, 1_000_000, Some(1), 1);
        check(u64::MAX, 1, Some(u64::MAX), u64::MAX.div_ceil(1000));
        check(0, 100_000, None, 0);
        check(100_000, 0, None, 0);
    }
}
