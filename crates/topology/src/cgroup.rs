//! The CPU limits of the cgroups of this process: the cpusets and the tightest quota of every visible ancestor.
//!
//! 1. `/proc/self/cgroup` names a group for each hierarchy: the one of cgroup v2 and any number of v1.
//! 2. `/proc/self/mountinfo` says where each hierarchy is mounted, and which of its groups is the root of the mount
//!    (in a container that is often its own group).
//! 3. From the group up to the mount point every folder is asked for its limits. A file that is not there is no limit;
//!    the root group has none, and not every controller is enabled everywhere. Of cpusets of version 2 the innermost
//!    counts alone: the kernel has restricted it by its ancestors, and what an ancestor says is no bound where one of
//!    its groups is a partition (`cpuset.cpus.partition`), whose CPUs the ancestor gives away.
//!
//! Both versions may be mounted at once (hybrid); all limits that are found hold.
//!
//! The kernel takes longer to list the mounts than to answer all else together. So where they are is remembered for as
//! long as this process is in the same groups and as many files say something there; what they say is read each time. A
//! mount that moves while the old one stays is not noticed.

use std::{
    fs::File,
    io::{self, Read},
    path::{Component, Path, PathBuf},
    sync::{Arc, Mutex},
};

use crate::remembered::at_once;
use crate::{CpuQuota, PuSet, Roots, sysfs::quoted, warning::Warnings};

/// What the cgroups allow.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// Every cpuset that counts, with its file.
    pub(crate) cpusets: Vec<(PathBuf, PuSet)>,
    pub(crate) quota: Option<CpuQuota>,
    /// How many files said something.
    files: usize,
}

/// A hierarchy, as both files in `/proc` name it.
#[derive(Debug, PartialEq, Eq)]
enum Hierarchy {
    V1(Vec<String>),
    V2,
}

impl Hierarchy {
    fn controls(&self, controller: &str) -> bool {
        match self {
            Self::V1(controllers) => controllers.iter().any(|c| c == controller),
            Self::V2 => true,
        }
    }
}

#[derive(Debug)]
struct Mount {
    hierarchy: Hierarchy,
    /// The group that the mount point shows.
    root: String,
    point: String,
}

/// Where the groups of one text of `/proc/self/cgroup` are.
#[derive(Debug)]
struct Places {
    groups: String,
    /// By hierarchy: the folders of the group and of its ancestors, innermost first.
    folders: Vec<(Hierarchy, Vec<PathBuf>)>,
    /// [`Limits::files`] when they were looked up.
    files: usize,
}

/// The places that were looked up last.
#[derive(Debug)]
pub(crate) struct KnownPlaces(Mutex<Option<Arc<Places>>>);

impl KnownPlaces {
    pub(crate) const fn none() -> Self {
        Self(Mutex::new(None))
    }

    /// Those of these groups.
    fn of(&self, groups: &str) -> Option<Arc<Places>> {
        let known = at_once(&self.0)?;
        known.as_ref().filter(|places| places.groups == groups).cloned()
    }

    fn remember(&self, places: Places) {
        if let Some(mut known) = at_once(&self.0) {
            *known = Some(Arc::new(places));
        }
    }
}

/// Reads all limits, of places that are known if the groups are the same.
pub(crate) fn read(roots: &Roots, known: &KnownPlaces, warnings: &mut Warnings) -> Limits {
    let Some(groups) = text(roots, "cgroup", warnings) else {
        return Limits::default();
    };
    if let Some(places) = known.of(&groups) {
        let mut odd = Warnings::default();
        let limits = places.limits(&mut odd);
        // Where there are others, something else may be mounted.
        if limits.files == places.files && places.files > 0 {
            warnings.extend(odd);
            return limits;
        }
    }
    let Some(mounts) = text(roots, "mountinfo", warnings) else {
        return Limits::default();
    };
    let mounts: Vec<Mount> = mounts.lines().filter_map(mount).collect();
    let folders = groups.lines().filter_map(membership).map(|(hierarchy, group)| {
        let folders = folders(&mounts, &hierarchy, &group, &roots.mounts);
        (hierarchy, folders)
    });
    let mut places = Places {
        folders: folders.collect(),
        groups,
        files: 0,
    };
    let limits = places.limits(warnings);
    places.files = limits.files;
    known.remember(places);
    limits
}

/// What a file says. The kernel doesn't know how long those here are, so it isn't asked, and most are shorter than a
/// read.
fn contents(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(READ);
    File::open(file)?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Bytes of a read.
const READ: usize = 1024;

fn text(roots: &Roots, name: &str, warnings: &mut Warnings) -> Option<String> {
    let file = roots.proc_self.join(name);
    match contents(&file) {
        Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Err(e) => {
            warnings.push(&file, &e.to_string(), "cgroup limits are unknown and not applied");
            None
        }
    }
}

impl Places {
    /// What the groups there allow.
    fn limits(&self, warnings: &mut Warnings) -> Limits {
        let mut limits = Limits::default();
        for (hierarchy, folders) in &self.folders {
            let mut files = Files { read: 0, warnings };
            if hierarchy.controls("cpu") {
                for folder in folders {
                    limits.tighten(quota(hierarchy, folder, &mut files));
                }
            }
            if hierarchy.controls("cpuset") {
                let of_groups = folders
                    .iter()
                    .filter_map(|folder| cpuset(hierarchy, folder, &mut files));
                let count = if *hierarchy == Hierarchy::V2 { 1 } else { usize::MAX };
                limits.cpusets.extend(of_groups.take(count));
            }
            limits.files += files.read;
        }
        limits
    }
}

impl Limits {
    fn tighten(&mut self, quota: Option<CpuQuota>) {
        if let Some(quota) = quota
            && self
                .quota
                .as_ref()
                .is_none_or(|tightest| quota.millicpus < tightest.millicpus)
        {
            self.quota = Some(quota);
        }
    }
}

/// A line of `/proc/self/cgroup`: `4:cpu,cpuacct:/user` or `0::/user`.
fn membership(line: &str) -> Option<(Hierarchy, String)> {
    let mut fields = line.splitn(3, ':');
    let (id, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
    let hierarchy = if id == "0" && controllers.is_empty() {
        Hierarchy::V2
    } else {
        Hierarchy::V1(controllers.split(',').map(str::to_owned).collect())
    };
    Some((hierarchy, group.to_owned()))
}

/// A line of `/proc/self/mountinfo`, if it mounts cgroups:
/// `33 31 0:30 /root /mount/point rw,relatime shared:1 - cgroup cgroup rw,cpu,cpuacct`.
fn mount(line: &str) -> Option<Mount> {
    let (own, of_system) = line.split_once(" - ")?;
    let mut own = own.split(' ').skip(3);
    let (root, point) = (unescape(own.next()?), unescape(own.next()?));
    let mut of_system = of_system.split(' ');
    let hierarchy = match of_system.next()? {
        "cgroup2" => Hierarchy::V2,
        "cgroup" => Hierarchy::V1(of_system.nth(1)?.split(',').map(str::to_owned).collect()),
        _ => return None,
    };
    Some(Mount { hierarchy, root, point })
}

/// The kernel writes a blank as `\040`, and tab, newline and backslash likewise.
fn unescape(text: &str) -> String {
    let mut rest = text.split('\\');
    let mut plain = rest.next().unwrap_or_default().to_owned();
    for part in rest {
        match part.get(..3).and_then(|octal| u8::from_str_radix(octal, 8).ok()) {
            Some(byte) => {
                plain.push(char::from(byte));
                plain += &part[3..];
            }
            None => {
                plain.push('\\');
                plain += part;
            }
        }
    }
    plain
}

/// The folders of a group and of its ancestors, innermost first, as far as a mount shows them.
fn folders(mounts: &[Mount], hierarchy: &Hierarchy, group: &str, prefix: &Path) -> Vec<PathBuf> {
    let is_of = |mount: &&Mount| match (&mount.hierarchy, hierarchy) {
        (Hierarchy::V2, Hierarchy::V2) => true,
        // The mount lists options too, such as `rw` and `name=systemd`.
        (Hierarchy::V1(options), Hierarchy::V1(controllers)) => controllers.iter().all(|c| options.contains(c)),
        _ => false,
    };
    // A mount of an outer group shows more ancestors.
    let of_hierarchy = || mounts.iter().filter(is_of);
    let inside = of_hierarchy().filter_map(|mount| Some((mount, below(group, &mount.root)?)));
    let best = inside.min_by_key(|(mount, _)| mount.root.len());
    // A group outside of every mount happens in containers without a cgroup namespace, where a mount shows the group
    // under another name: its root is the best guess for ours.
    let Some((mount, relative)) = best.or_else(|| Some((of_hierarchy().next()?, PathBuf::new()))) else {
        return Vec::new();
    };
    let point = prefix.join(mount.point.trim_start_matches('/'));
    let depth = relative.components().count();
    point
        .join(relative)
        .ancestors()
        .take(depth + 1)
        .map(Path::to_owned)
        .collect()
}

/// The path of a group below the root of a mount; nothing if it is not below it.
fn below(group: &str, root: &str) -> Option<PathBuf> {
    let relative = Path::new(group).strip_prefix(root).ok()?;
    // `/../x` is a group outside of the cgroup namespace.
    let normal = relative.components().all(|c| matches!(c, Component::Normal(_)));
    normal.then(|| relative.to_owned())
}

/// The quota of one group, if it has one.
fn quota(hierarchy: &Hierarchy, folder: &Path, files: &mut Files<'_>) -> Option<CpuQuota> {
    const MAX: &str = "expected `max` or a quota, and a period, in microseconds; no quota is applied";
    const CFS: &str = "expected a quota in microseconds or -1; no quota is applied";
    const PERIOD: &str = "expected a period in microseconds; 100000 is taken";
    let (file, quota_us, period_us) = if *hierarchy == Hierarchy::V2 {
        let file = folder.join("cpu.max");
        let text = files.contents(&file, MAX)?;
        let mut words = text.split_ascii_whitespace();
        let quota_us = words.next().unwrap_or_default();
        if quota_us == "max" {
            return None;
        }
        let numbers = quota_us
            .parse()
            .ok()
            .zip(words.next().map_or(Some(PERIOD_US), |w| w.parse().ok()));
        let Some((quota_us, period_us)) = numbers else {
            files.warnings.push(&file, &quoted(&text), MAX);
            return None;
        };
        (file, quota_us, period_us)
    } else {
        let file = folder.join("cpu.cfs_quota_us");
        let text = files.contents(&file, CFS)?;
        if text == "-1" {
            return None;
        }
        let Ok(quota_us) = text.parse() else {
            files.warnings.push(&file, &quoted(&text), CFS);
            return None;
        };
        let period_file = folder.join("cpu.cfs_period_us");
        let period = files.contents(&period_file, PERIOD);
        let period_us = period.as_ref().map_or(Some(PERIOD_US), |text| text.parse().ok());
        if period_us.is_none() {
            files
                .warnings
                .push(&period_file, &quoted(&period.unwrap_or_default()), PERIOD);
        }
        (file, quota_us, period_us.unwrap_or(PERIOD_US))
    };
    let quota = CpuQuota::new(quota_us, period_us, file.clone());
    if quota.is_none() {
        files.warnings.push(
            &file,
            &format!("`{quota_us}` in `{period_us}`"),
            "expected numbers above 0; no quota is applied",
        );
    }
    quota
}

/// The kernel's default period.
const PERIOD_US: u64 = 100_000;

/// The CPUs of one group, if it says so.
fn cpuset(hierarchy: &Hierarchy, folder: &Path, files: &mut Files<'_>) -> Option<(PathBuf, PuSet)> {
    const EXPECTED: &str = "expected a CPU list; this cpuset is not applied";
    let names: &[&str] = match hierarchy {
        Hierarchy::V2 => &["cpuset.cpus.effective"],
        // With the mount option `noprefix` (Android) the names are bare.
        Hierarchy::V1(_) => &["cpuset.effective_cpus", "cpuset.cpus", "effective_cpus", "cpus"],
    };
    for name in names {
        let file = folder.join(name);
        let Some(text) = files.contents(&file, EXPECTED) else {
            continue;
        };
        return match text.parse::<PuSet>() {
            Ok(cpus) if !cpus.is_empty() => Some((file, cpus)),
            _ => {
                files.warnings.push(&file, &quoted(&text), EXPECTED);
                None
            }
        };
    }
    None
}

/// Reads the files of groups.
struct Files<'a> {
    /// How many said something.
    read: usize,
    warnings: &'a mut Warnings,
}

impl Files<'_> {
    /// What a file says, without the newline; nothing if it is missing.
    fn contents(&mut self, file: &Path, expected: &'static str) -> Option<String> {
        match contents(file) {
            Ok(bytes) => {
                self.read += 1;
                Some(String::from_utf8_lossy(&bytes).trim().to_owned())
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => None,
            Err(e) => {
                self.warnings.push(file, &e.to_string(), expected);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn mount_at(root: &Scratch, point: &str) {
        root.write(
            "proc/self/mountinfo",
            &format!("9 8 0:7 / {point} rw - cgroup2 cgroup2 rw\n"),
        );
    }

    /// What the groups allow is asked each time; where they are once for the same groups, and again where nothing is
    /// any more.
    #[test]
    fn mounts_are_looked_up_once_for_the_same_groups() {
        let (root, known) = (Scratch::new(), KnownPlaces::none());
        let roots = Roots::under(root.path());
        let millicpus = || {
            let mut warnings = Warnings::default();
            let limits = read(&roots, &known, &mut warnings);
            assert_eq!(warnings.into_vec(), []);
            limits.quota.map(|quota| quota.millicpus)
        };
        root.write("proc/self/cgroup", "0::/a\n");
        mount_at(&root, "/groups");
        root.write("groups/a/cpu.max", "150000 100000");
        root.write("groups/b/cpu.max", "250000 100000");
        assert_eq!(millicpus(), Some(1500));
        mount_at(&root, "/nowhere");
        root.write("groups/a/cpu.max", "50000 100000");
        assert_eq!(millicpus(), Some(500), "as they are now");
        root.write("proc/self/cgroup", "0::/b\n");
        assert_eq!(millicpus(), None, "other groups");
        mount_at(&root, "/groups");
        assert_eq!(millicpus(), Some(2500), "nothing was found");
        mount_at(&root, "/moved");
        root.write("moved/b/cpu.max", "350000 100000");
        root.remove("groups");
        assert_eq!(millicpus(), Some(3500), "nothing is there any more");
        mount_at(&root, "/again");
        root.write("again/b/cpu.max", "450000 100000");
        root.write("moved/cpu.max", "max 100000");
        assert_eq!(millicpus(), Some(4500), "more is there than was");
        // What is odd is said again where nothing is looked up.
        root.write("again/b/cpu.max", "x");
        for _ in 0..2 {
            let mut warnings = Warnings::default();
            assert_eq!(read(&roots, &known, &mut warnings).quota, None);
            let warnings = warnings.into_vec();
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert!(warnings[0].file.ends_with("again/b/cpu.max"), "{warnings:?}");
        }
    }

    #[test]
    fn mount_points_are_unescaped() {
        for (text, plain) in [
            ("/sys/fs", "/sys/fs"),
            ("/a\\040b", "/a b"),
            ("\\134\\011x", "\\\tx"),
            ("/a\\", "/a\\"),
            ("/a\\9x", "/a\\9x"),
            ("/a\\04", "/a\\04"),
        ] {
            assert_eq!(unescape(text), plain);
        }
    }

    #[test]
    fn groups_lie_below_roots() {
        for (group, root, relative) in [
            ("/", "/", Some("")),
            ("/a/b", "/", Some("a/b")),
            ("/a/b", "/a", Some("b")),
            ("/a/b", "/a/b", Some("")),
            ("/ab", "/a", None),
            ("/", "/a", None),
            ("/../x", "/", None),
        ] {
            assert_eq!(below(group, root), relative.map(PathBuf::from), "{group} below {root}");
        }
    }
}
