//! NUMA nodes: which CPUs they have and how far they are from each other.

use std::{collections::BTreeMap, path::Path, str::FromStr};

use super::{Tree, numbered};
use crate::{PuSet, Topology};

/// The nodes that have online CPUs.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    of_cpu: BTreeMap<u32, u32>,
    /// For CPUs that no node lists.
    first: u32,
    distances: BTreeMap<(u32, u32), u16>,
}

impl Nodes {
    /// Reads the folder `node`.
    pub(super) fn read(tree: &mut Tree, folder: &Path, online: &PuSet) -> Self {
        const NO_NODE: &str = "expected nodes with CPUs; the machine is taken for one node";
        const HOMELESS: &str = "expected every online CPU in a node; they are put in the first one";
        let mut nodes = Self::default();
        let numbers = nodes_in(tree, folder);
        for &number in &numbers {
            let file = folder.join(format!("node{number}")).join("cpulist");
            let expected = "expected the CPUs of a node; the node is taken for memory only";
            let cpus: Option<PuSet> = tree.required(&file, expected);
            for cpu in (&cpus.unwrap_or_default() & online).iter() {
                nodes.of_cpu.entry(cpu).or_insert(number);
            }
        }
        nodes.first = nodes.of_cpu.values().min().copied().unwrap_or_default();
        if nodes.of_cpu.is_empty() {
            let found = if folder.is_dir() { "none found" } else { "missing" };
            tree.warnings.push(folder, found, NO_NODE);
        } else if nodes.of_cpu.len() < online.len() {
            let homeless = online
                .iter()
                .filter(|cpu| !nodes.of_cpu.contains_key(cpu))
                .collect::<PuSet>();
            tree.warnings
                .push(folder, &format!("no node has CPU {homeless}"), HOMELESS);
        }
        nodes.read_distances(tree, folder, &numbers);
        nodes
    }

    pub(super) fn of(&self, cpu: u32) -> u32 {
        self.of_cpu.get(&cpu).copied().unwrap_or(self.first)
    }

    pub(super) fn distance(&self, from: u32, to: u32) -> u16 {
        let usual = if from == to {
            Topology::LOCAL_DISTANCE
        } else {
            Topology::REMOTE_DISTANCE
        };
        self.distances.get(&(from, to)).copied().unwrap_or(usual)
    }

    /// A row has a number for every node, memory-only ones included, in ascending order.
    fn read_distances(&mut self, tree: &mut Tree, folder: &Path, numbers: &[u32]) {
        const EXPECTED: &str = "expected a distance above 0 for each node; taken for 10 and 20";
        let mut with_cpus: Vec<u32> = self.of_cpu.values().copied().collect();
        with_cpus.sort_unstable();
        with_cpus.dedup();
        for from in with_cpus {
            let file = folder.join(format!("node{from}")).join("distance");
            match tree.required::<Row>(&file, EXPECTED) {
                Some(Row(row)) if row.len() == numbers.len() => {
                    self.distances.extend(numbers.iter().map(|to| (from, *to)).zip(row));
                }
                Some(Row(row)) => tree.warnings.push(&file, &format!("{} numbers", row.len()), EXPECTED),
                None => {}
            }
        }
    }
}

/// The numbers of all nodes, ascending.
fn nodes_in(tree: &mut Tree, folder: &Path) -> Vec<u32> {
    let listed: Option<PuSet> = tree.optional(&folder.join("online"), "expected the list of online nodes");
    match listed {
        Some(list) if !list.is_empty() => list.iter().collect(),
        _ => numbered(folder, "node").collect::<PuSet>().iter().collect(),
    }
}

/// Numbers separated by blanks.
struct Row(Vec<u16>);

impl FromStr for Row {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number = |word: &str| word.parse::<u16>().ok().filter(|n| *n > 0).ok_or(());
        text.split_ascii_whitespace()
            .map(number)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}
