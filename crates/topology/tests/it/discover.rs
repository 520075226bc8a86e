//! Reading a machine and its limits together.

use quadrille_topology::{DiscoverOptions, Discovery, Source, discover, discover_with};

use crate::{machine::check_tables, tree::Tree};

const SYSFS: &str = "sys/devices/system/";

fn in_cgroup(tree: Tree, cpuset: &str) -> Tree {
    tree.file("proc/self/cgroup", "0::/a")
        .file(
            "proc/self/mountinfo",
            "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
        )
        .file("sys/fs/cgroup/a/cpuset.cpus.effective", cpuset)
        .file("sys/fs/cgroup/a/cpu.max", "150000 100000")
}

/// Discovers with an affinity mask; compares the machine and the starts of the warnings, files below the root.
#[track_caller]
fn check(tree: &Tree, affinity: &str, machine: &str, warnings: &[&str]) -> Discovery {
    let found = discover_with(&DiscoverOptions {
        roots: tree.roots(),
        affinity: Some(affinity.parse().unwrap()),
    });
    check_tables(&found.topology);
    assert_eq!(found.topology.to_string(), machine);
    assert_eq!(found.warnings.len(), warnings.len(), "{:#?}", found.warnings);
    for (warning, start) in found.warnings.iter().zip(warnings) {
        let start = format!("{}/{start}", tree.path().display());
        assert!(
            warning.to_string().starts_with(&start),
            "{warning}\ndoes not start with\n{start}"
        );
    }
    found
}

#[test]
fn machine_and_limits_are_intersected() {
    let machine = "node:2 l2:4 pu:2 l2-size:1048576 llc-size:33554432".parse().unwrap();
    let tree = in_cgroup(Tree::new().machine(SYSFS, &machine), "1-11");
    let sizes = "l2-size:1048576 llc-size:33554432";
    let found = check(
        &tree,
        "0-9,4000",
        &format!("node:[l2:[pu:1, 3*pu:2], pu:2] os:1-9 {sizes}"),
        &[],
    );
    assert_eq!(found.source, Source::Sysfs(tree.roots().sysfs));
    assert_eq!(found.allowed.pus.to_string(), "1-9");
    assert_eq!(found.allowed.quota.map(|q| q.millicpus), Some(1500));
    check(&tree, "11", &format!("pu:1 os:11 node-os:1 {sizes}"), &[]);
}

#[test]
fn no_sysfs_gives_a_flat_machine() {
    let tree = in_cgroup(Tree::new(), "0-3");
    let found = check(&tree, "2-7", "l2:2 os:2-3", &["sys/devices/system: "]);
    assert_eq!(found.source, Source::Flat);
    assert!(
        found.warnings[0].to_string().ends_with("the machine is taken for flat"),
        "{}",
        found.warnings[0]
    );
}

#[test]
fn nothing_at_all_gives_a_flat_machine() {
    let found = check(
        &Tree::new(),
        "0-1",
        "l2:2",
        &["sys/devices/system: ", "proc/self/cgroup: "],
    );
    assert_eq!((found.source, found.allowed.quota), (Source::Flat, None));
    check(
        &Tree::new(),
        "",
        "pu:1",
        &["sys/devices/system: ", "sys/devices/system: ", "proc/self/cgroup: "],
    );
}

#[test]
fn a_machine_without_an_allowed_cpu_is_taken_for_flat() {
    let machine = "l2:2".parse().unwrap();
    let tree = in_cgroup(Tree::new().machine(SYSFS, &machine), "0-9");
    let found = check(
        &tree,
        "5,7",
        "l2:2 os:5,7",
        &["sys/devices/system: CPUs 0-1: expected some of the allowed ones, 5,7"],
    );
    assert_eq!(found.source, Source::Flat);
}

#[test]
fn this_process() {
    let found = discover();
    check_tables(&found.topology);
    assert!(!found.topology.pus().is_empty());
    assert!(found.topology.os_set().is_subset(&found.allowed.pus));
    assert!(["sysfs /sys/devices/system", "hwloc", "flat"].contains(&found.source.to_string().as_str()));
}
