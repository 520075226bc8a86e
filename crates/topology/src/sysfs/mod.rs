//! Reads a machine from Linux's sysfs: `cpu/` and `node/` below `/sys/devices/system` or a copy of it.
//!
//! What is read, and what is assumed where it is missing or odd (with one warning for each kind of oddity):
//!
//! | file | gives | otherwise |
//! |---|---|---|
//! | `cpu/online` | the CPUs | every folder `cpu/cpu*` whose `online` is not 0 |
//! | `cpu/cpu*/topology/core_cpus_list`, or `thread_siblings_list` | the core | `physical_package_id` and `core_id`, or a core for each CPU |
//! | `cpu/cpu*/cache/index*/{level,type,shared_cpu_list}` | L2 and LLC (the highest level from 2 up that it has, or that another CPU shares with it) | those of the core's other CPUs, or that others share with it; or the core is the L2, and the package, or else the node, the LLC |
//! | `cpu/cpu*/cache/index*/size` | cache sizes | unknown |
//! | `node/node*/cpulist` | the nodes; those without online CPUs are ignored | one node |
//! | `node/node*/distance` | node distances | 10 and 20 |
//!
//! Only a directory without any CPU is an error.

mod cpu;
pub(crate) mod known;
mod node;

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    str::FromStr,
};

use self::{
    cpu::{Cache, Cpu},
    node::Nodes,
};
use crate::{PuSet, Topology, TopologyError, Warning, topology::Place, warning::Warnings};

/// Where Linux shows its CPUs and nodes.
pub const DEFAULT_ROOT: &str = "/sys/devices/system";

/// Reads the online CPUs below `root`, which has the folders `cpu` and `node`. No affinity mask, cpuset or quota is
/// looked at: that is what [`Allowed`](crate::Allowed) is for.
///
/// ```
/// # #[cfg(target_os = "linux")] {
/// use quadrille_topology::sysfs;
///
/// if let Ok((machine, warnings)) = sysfs::read(sysfs::DEFAULT_ROOT.as_ref()) {
///     println!("{machine}");
///     for warning in warnings {
///         println!("warning: {warning}");
///     }
/// }
/// # }
/// ```
///
/// # Errors
/// [`TopologyError::is_io`] if there is no CPU below `root`. Anything else is a warning.
pub fn read(root: &Path) -> Result<(Topology, Vec<Warning>), TopologyError> {
    let mut tree = Tree::default();
    let online = online(&mut tree, &root.join("cpu"))?;
    let nodes = Nodes::read(&mut tree, &root.join("node"), &online);
    let mut cpus: Vec<Cpu> = online
        .iter()
        .map(|n| Cpu::read(&mut tree, &root.join("cpu"), n, &online))
        .collect();

    let cores = cores(&cpus);
    lend_higher_llcs(&mut cpus);
    lend_caches(&mut cpus, &cores, |cpu| &mut cpu.l2);
    lend_caches(&mut cpus, &cores, |cpu| &mut cpu.llc);
    let mut places = places(&cpus, &cores, &nodes);
    places.sort_by_key(|place| (place.node, place.os_index));
    let mut machine = Topology::build(places);
    let size = |os_index: u32, cache: fn(&Cpu) -> &Option<Cache>| {
        let i = cpus.binary_search_by_key(&os_index, |cpu| cpu.os_index).ok()?;
        cache(&cpus[i]).as_ref()?.size_bytes
    };
    machine.set_l2_sizes(|pu| size(pu.os_index, |cpu| &cpu.l2));
    machine.set_llc_sizes(|pu| size(pu.os_index, |cpu| &cpu.llc));
    let numbers: Vec<u32> = machine.nodes().iter().map(|node| node.os_index).collect();
    machine.set_distances(|from, to| nodes.distance(numbers[from.index()], numbers[to.index()]));
    Ok((machine, tree.warnings.into_vec()))
}

/// The online CPUs below `root` by themselves, if there are any. What is odd about them [`read`] says.
pub(crate) fn online_below(root: &Path) -> Option<PuSet> {
    online(&mut Tree::default(), &root.join("cpu")).ok()
}

/// The CPUs to describe: never none.
fn online(tree: &mut Tree, folder: &Path) -> Result<PuSet, TopologyError> {
    const EXPECTED: &str = "expected the list of online CPUs; every folder cpu* that is not offline is taken for one";
    let file = folder.join("online");
    let mut online = match tree.required::<PuSet>(&file, EXPECTED) {
        Some(online) if online.is_empty() => {
            tree.odd(&file, "", EXPECTED);
            online
        }
        online => online.unwrap_or_default(),
    };
    if online.is_empty() {
        // CPU 0 often cannot be taken offline, and then has no such file.
        let is_off =
            |n: &u32| fs::read(folder.join(format!("cpu{n}/online"))).is_ok_and(|state| state.starts_with(b"0"));
        online = numbered(folder, "cpu").filter(|n| !is_off(n)).collect();
    }
    if online.is_empty() {
        return Err(TopologyError::io(
            format!("{}: expected the CPUs of a machine", folder.display()),
            io::ErrorKind::NotFound.into(),
        ));
    }
    if online.len() > Topology::PU_COUNT_MAX {
        let found = format!("{} CPUs", online.len());
        tree.warnings
            .push(&file, &found, "expected at most 65535; the others are left out");
        online = online.iter().take(Topology::PU_COUNT_MAX).collect();
    }
    Ok(online)
}

/// The key of each CPU's core: the lowest CPU.
fn cores(cpus: &[Cpu]) -> Vec<u32> {
    // Who has no list may have the number of a core that others list.
    let mut numbered = BTreeMap::new();
    let core = |cpu: &Cpu| {
        let own = cpu.core.unwrap_or(cpu.os_index);
        let by_number = cpu.core_id.map(|id| *numbered.entry((cpu.package, id)).or_insert(own));
        cpu.core.or(by_number).unwrap_or(own)
    };
    cpus.iter().map(core).collect()
}

/// Gives each CPU the highest last-level cache that lists it: its own may be one that could not be read, and what is
/// left of its caches then is an L2. A cluster without an L3 is listed by nobody's.
fn lend_higher_llcs(cpus: &mut [Cpu]) {
    let mut all = BTreeMap::new();
    for llc in cpus.iter().filter_map(|cpu| cpu.llc.as_ref()) {
        all.entry((llc.level, llc.key)).or_insert_with(|| llc.clone());
    }
    for cpu in cpus {
        let Some(own) = &mut cpu.llc else { continue };
        let level = own.level;
        let mut higher = all.values().rev().take_while(|other| other.level > level);
        if let Some(other) = higher.find(|other| other.cpus.contains(cpu.os_index)) {
            *own = other.clone();
        }
    }
}

/// Gives each CPU without such a cache that of another CPU of its core, or else one that others share with it.
fn lend_caches(cpus: &mut [Cpu], cores: &[u32], cache: fn(&mut Cpu) -> &mut Option<Cache>) {
    let (mut of_core, mut all) = (BTreeMap::new(), BTreeMap::new());
    for (cpu, core) in cpus.iter_mut().zip(cores) {
        if let Some(cache) = cache(cpu) {
            of_core.entry(*core).or_insert_with(|| cache.clone());
            all.entry(cache.key).or_insert_with(|| cache.clone());
        }
    }
    for (cpu, core) in cpus.iter_mut().zip(cores) {
        let os_index = cpu.os_index;
        let shared = || all.values().find(|other| other.cpus.contains(os_index));
        let own = cache(cpu);
        if own.is_none() {
            *own = of_core.get(core).or_else(shared).cloned();
        }
    }
}

/// Gives each CPU its keys: the lowest CPU of the core, L2 and LLC.
fn places(cpus: &[Cpu], cores: &[u32], nodes: &Nodes) -> Vec<Place> {
    let mut packages = BTreeMap::new();
    let place = |(cpu, core): (&Cpu, &u32)| {
        let package = *packages.entry(cpu.package).or_insert(cpu.os_index);
        Place {
            os_index: cpu.os_index,
            node: nodes.of(cpu.os_index),
            // No CPU has that number, so no cache has that key: the package's lowest CPU may be the key of one.
            llc: cpu.llc.as_ref().map_or(PuSet::LIMIT + package, |llc| llc.key),
            l2: cpu.l2.as_ref().map_or(*core, |l2| l2.key),
            core: *core,
        }
    };
    cpus.iter().zip(cores).map(place).collect()
}

/// Reads small files and remembers what was odd.
#[derive(Debug, Default)]
struct Tree {
    warnings: Warnings,
}

impl Tree {
    /// The value in a file; nothing, with a warning, if the file is missing or has anything else in it.
    fn required<T: FromStr>(&mut self, file: &Path, expected: &'static str) -> Option<T> {
        if !file.exists() {
            self.warnings.push(file, "missing", expected);
            return None;
        }
        self.optional(file, expected)
    }

    /// As `required`, but a file may be missing.
    fn optional<T: FromStr>(&mut self, file: &Path, expected: &'static str) -> Option<T> {
        let bytes = match fs::read(file) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
            Err(e) => {
                self.warnings.push(file, &e.to_string(), expected);
                return None;
            }
        };
        let text = String::from_utf8_lossy(&bytes);
        let value = text.trim().parse().ok();
        if value.is_none() {
            self.odd(file, &text, expected);
        }
        value
    }

    /// The contents of a file make no sense.
    fn odd(&mut self, file: &Path, contents: &str, expected: &'static str) {
        self.warnings.push(file, &quoted(contents), expected);
    }
}

/// The numbers of the folders `cpu0`, `cpu1` or `node0`, `node1` and so on.
fn numbered(folder: &Path, prefix: &str) -> impl Iterator<Item = u32> {
    let number = move |name: &str| -> Option<u32> {
        let digits = name.strip_prefix(prefix)?;
        let is_number = digits.bytes().all(|b| b.is_ascii_digit());
        digits.parse().ok().filter(|n| is_number && *n < PuSet::LIMIT)
    };
    let entries: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    let names = entries
        .into_iter()
        .filter_map(move |path| number(path.file_name()?.to_str()?));
    names.collect::<Vec<_>>().into_iter()
}

/// The start of a text, which may be long or have several lines, in backticks.
pub(crate) fn quoted(text: &str) -> String {
    const LEN_MAX: usize = 40;
    let text = text.trim();
    let start: String = text
        .chars()
        .take(LEN_MAX)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().count() > LEN_MAX {
        format!("`{start}...`")
    } else {
        format!("`{start}`")
    }
}
