//! Directory trees that look like `/sys` and `/proc`, written into a temporary directory and removed when dropped.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use quadrille_topology::{PuSet, Roots, Topology};

pub(crate) struct Tree {
    root: PathBuf,
}

impl Drop for Tree {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.root).unwrap();
    }
}

impl Tree {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // Ordering: Relaxed; only the number matters.
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("quadrille-topology-{}-{n}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        Self { root }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.root
    }

    pub(crate) fn roots(&self) -> Roots {
        Roots::under(&self.root)
    }

    /// Writes a file as the kernel does, with a newline.
    pub(crate) fn file(self, path: &str, contents: &str) -> Self {
        let file = self.root.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("{contents}\n")).unwrap();
        self
    }

    pub(crate) fn without(self, path: &str) -> Self {
        let path = self.root.join(path);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
        self
    }

    /// Unpacks a capture: `path:value` lines.
    pub(crate) fn captured(capture: &str) -> Self {
        capture.lines().fold(Self::new(), |tree, line| {
            let (path, value) = line.split_once(':').unwrap();
            tree.file(path, value)
        })
    }

    /// Writes a machine below `prefix` as Linux would show it: every node a package, L1 and L2 and L3 with the sizes of
    /// the machine or 32K, 1024K and 32768K.
    pub(crate) fn machine(mut self, prefix: &str, machine: &Topology) -> Self {
        let online = machine.os_set().to_string();
        self = self.file(&format!("{prefix}cpu/online"), &online);
        for pu in machine.pus() {
            let core = machine.os_set_of(machine.cores()[pu.core.index()].pus);
            let l2 = &machine.l2s()[pu.l2.index()];
            let llc = &machine.llcs()[pu.llc.index()];
            let cpu = format!("{prefix}cpu/cpu{}", pu.os_index);
            let topology = format!("{cpu}/topology");
            self = self
                .file(&format!("{topology}/core_id"), &pu.core.0.to_string())
                .file(&format!("{topology}/physical_package_id"), &pu.node.0.to_string())
                .file(&format!("{topology}/core_cpus_list"), &core.to_string())
                .file(&format!("{topology}/thread_siblings_list"), &core.to_string())
                .cache(&cpu, 0, (1, "Data", "32K".into()), &core)
                .cache(&cpu, 1, (1, "Instruction", "32K".into()), &core)
                .cache(
                    &cpu,
                    2,
                    (2, "Unified", size(l2.size_bytes, 1024)),
                    &machine.os_set_of(l2.pus),
                )
                .cache(
                    &cpu,
                    3,
                    (3, "Unified", size(llc.size_bytes, 32_768)),
                    &machine.os_set_of(llc.pus),
                );
        }
        let nodes: PuSet = machine.nodes().iter().map(|node| node.os_index).collect();
        self = self.file(&format!("{prefix}node/online"), &nodes.to_string());
        for from in machine.nodes() {
            let row: Vec<String> = machine
                .nodes()
                .iter()
                .map(|to| machine.node_distance(from.id, to.id).to_string())
                .collect();
            let folder = format!("{prefix}node/node{}", from.os_index);
            self = self
                .file(&format!("{folder}/cpulist"), &machine.os_set_of(from.pus).to_string())
                .file(&format!("{folder}/distance"), &row.join(" "));
        }
        self
    }

    fn cache(self, cpu: &str, index: u32, (level, kind, size): (u32, &str, String), cpus: &PuSet) -> Self {
        let folder = format!("{cpu}/cache/index{index}");
        self.file(&format!("{folder}/level"), &level.to_string())
            .file(&format!("{folder}/type"), kind)
            .file(&format!("{folder}/size"), &size)
            .file(&format!("{folder}/shared_cpu_list"), &cpus.to_string())
    }
}

fn size(bytes: Option<u64>, default_kib: u64) -> String {
    format!("{}K", bytes.map_or(default_kib, |bytes| bytes / 1024))
}
