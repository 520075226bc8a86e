//! One CPU: its core, package and caches.

use std::{path::Path, str::FromStr};

use super::{Tree, numbered};
use crate::PuSet;

/// What sysfs says about one online CPU.
#[derive(Debug)]
pub(super) struct Cpu {
    pub(super) os_index: u32,
    /// The lowest online CPU of its core.
    pub(super) core: Option<u32>,
    /// The number of its core within the package.
    pub(super) core_id: Option<i64>,
    pub(super) package: Option<i64>,
    pub(super) l2: Option<Cache>,
    pub(super) llc: Option<Cache>,
}

/// A cache, as one of its CPUs sees it.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    /// From 2 up.
    pub(super) level: u32,
    /// The lowest online CPU that shares it.
    pub(super) key: u32,
    /// All of them.
    pub(super) cpus: PuSet,
    pub(super) size_bytes: Option<u64>,
}

impl Cpu {
    /// Reads `cpuN` in the folder `cpu`.
    pub(super) fn read(tree: &mut Tree, folder: &Path, os_index: u32, online: &PuSet) -> Self {
        let folder = folder.join(format!("cpu{os_index}"));
        let topology = folder.join("topology");
        let core = core(tree, &topology, os_index, online);
        // Linux writes -1 where the firmware does not say.
        let mut id = |name: &str| {
            let number = tree.optional::<i64>(&topology.join(name), "expected a number; taken for unknown");
            number.filter(|id| *id >= 0)
        };
        let (package, core_id) = (id("physical_package_id"), id("core_id"));
        let (l2, llc) = caches(tree, &folder.join("cache"), os_index, online);
        Self {
            os_index,
            core,
            core_id,
            package,
            l2,
            llc,
        }
    }
}

fn core(tree: &mut Tree, folder: &Path, os_index: u32, online: &PuSet) -> Option<u32> {
    const EXPECTED: &str = "expected the CPUs of a core; core_id decides, or each CPU is a core";
    // What kernels before 5.4 call it.
    let old = folder.join("thread_siblings_list");
    let file = folder.join("core_cpus_list");
    let file = if !file.exists() && old.exists() { old } else { file };
    sharers(tree, &file, os_index, online, EXPECTED)?.first()
}

/// The online CPUs in a list that must have this CPU.
fn sharers(tree: &mut Tree, file: &Path, os_index: u32, online: &PuSet, expected: &'static str) -> Option<PuSet> {
    let list = tree.required::<PuSet>(file, expected)?;
    if !list.contains(os_index) {
        tree.odd(file, &list.to_string(), expected);
        return None;
    }
    Some(&list & online)
}

/// The level-2 and the last-level cache, which may be the same.
fn caches(tree: &mut Tree, folder: &Path, os_index: u32, online: &PuSet) -> (Option<Cache>, Option<Cache>) {
    const EXPECTED: &str =
        "expected a cache from level 2 up; others say which, or the core is taken for an L2, the package for an LLC";
    let mut l2 = None;
    let mut llc: Option<Cache> = None;
    let mut indices: Vec<u32> = numbered(folder, "index").collect();
    indices.sort_unstable();
    for index in indices {
        let Some(cache) = cache(tree, &folder.join(format!("index{index}")), os_index, online) else {
            continue;
        };
        if cache.level == 2 {
            l2 = Some(cache.clone());
        }
        if llc.as_ref().is_none_or(|highest| cache.level > highest.level) {
            llc = Some(cache);
        }
    }
    if llc.is_none() {
        let found = if folder.is_dir() { "none found" } else { "missing" };
        tree.warnings.push(folder, found, EXPECTED);
    }
    (l2, llc)
}

/// One cache; nothing for level 1, for instructions, and where the files do not say enough.
fn cache(tree: &mut Tree, folder: &Path, os_index: u32, online: &PuSet) -> Option<Cache> {
    const LEVEL: &str = "expected the level of a cache; the cache is ignored";
    const SHARED: &str = "expected the CPUs of a cache; the cache is ignored";
    const SIZE: &str = "expected a size such as 32768K; taken for unknown";
    let level: u32 = tree.required(&folder.join("level"), LEVEL)?;
    let kind: Option<String> = tree.optional(&folder.join("type"), "expected the type of a cache");
    if level < 2 || kind.as_deref() == Some("Instruction") {
        return None;
    }
    let cpus = sharers(tree, &folder.join("shared_cpu_list"), os_index, online, SHARED)?;
    let key = cpus.first()?;
    let size_bytes = tree.optional::<Size>(&folder.join("size"), SIZE).map(|size| size.0);
    Some(Cache {
        level,
        key,
        cpus,
        size_bytes,
    })
}

/// Bytes, written as `512K`.
struct Size(u64);

impl FromStr for Size {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (digits, shift) = match text.as_bytes().last() {
            Some(b'K') => (&text[..text.len() - 1], 10),
            Some(b'M') => (&text[..text.len() - 1], 20),
            Some(b'G') => (&text[..text.len() - 1], 30),
            _ => (text, 0),
        };
        let number: u64 = digits.parse().map_err(|_| ())?;
        number
            .checked_mul(1 << shift)
            .filter(|bytes| *bytes > 0)
            .map(Self)
            .ok_or(())
    }
}
