//! Reading a machine and its limits together.

use quadrille_topology::{DiscoverOptions, Discovery, PuSet, Source, discover, discover_with};

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
    check_found(tree, Some(affinity.parse().unwrap()), machine, warnings)
}

/// As `check`, without a mask of the caller's.
#[track_caller]
fn check_copy(tree: &Tree, machine: &str, allowed: &str, warnings: &[&str]) {
    let found = check_found(tree, None, machine, warnings);
    assert_eq!(found.allowed.pus.to_string(), allowed);
}

#[track_caller]
fn check_found(tree: &Tree, affinity: Option<PuSet>, machine: &str, warnings: &[&str]) -> Discovery {
    let roots = tree.roots();
    let found = discover_with(&DiscoverOptions { roots, affinity });
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

/// A copy of four CPUs that no machine which runs this lets a process use, and of one whose first few it may.
const COPIES: [(&str, &str); 2] = [("l2:4 os:5000-5003", "5000-5003"), ("l2:4 pu:2", "0-7")];
const SIZES: &str = " l2-size:1048576 llc-size:33554432";
const NO_MASK: &str = "proc/self/status: missing: expected the affinity mask; the CPUs that are online are taken";

#[test]
fn a_copy_has_its_own_mask() {
    let status =
        |cpus: &str| format!("Name:\tcat\nCpus_allowed:\tf\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0");
    for (machine, cpus) in COPIES {
        let tree = in_cgroup(Tree::new().machine(SYSFS, &machine.parse().unwrap()), "0-9999");
        let tree = tree.file("proc/self/status", &status("0-8191"));
        check_copy(&tree, &format!("{machine}{SIZES}"), cpus, &[]);
    }
    let tree = in_cgroup(Tree::new().machine(SYSFS, &COPIES[0].0.parse().unwrap()), "5002-5003");
    let tree = tree.file("proc/self/status", &status("0,5001-5002"));
    check_copy(&tree, &format!("pu:1 os:5002{SIZES}"), "5002", &[]);
    let warning = "sys/devices/system: CPUs 5000-5003: expected some of the allowed ones, 1-2; the machine is";
    let tree = tree.without("sys/fs/cgroup").file("proc/self/status", &status("1-2"));
    check_copy(&tree, "l2:2 os:1-2", "1-2", &[warning]);
}

#[test]
fn a_copy_without_a_mask_has_all_cpus_that_are_online() {
    for (machine, cpus) in COPIES {
        let tree = in_cgroup(Tree::new().machine(SYSFS, &machine.parse().unwrap()), "0-9999");
        check_copy(&tree, &format!("{machine}{SIZES}"), cpus, &[NO_MASK]);
        for (list, shown) in [
            ("Cpus_allowed:\tf", "no Cpus_allowed_list"),
            ("Cpus_allowed_list:\t", "``"),
            ("Cpus_allowed_list:\tf,3-1", "`f,3-1`"),
        ] {
            let tree = in_cgroup(Tree::new().machine(SYSFS, &machine.parse().unwrap()), "0-9999");
            let tree = tree.file("proc/self/status", &format!("Name:\tcat\n{list}"));
            let warning = format!("proc/self/status: {shown}: expected the affinity mask; the CPUs that are online");
            check_copy(&tree, &format!("{machine}{SIZES}"), cpus, &[&warning]);
        }
    }
    // Without the files of a process nothing limits it.
    let tree = Tree::new().machine(SYSFS, &"l2:4 os:5000-5003".parse().unwrap());
    let machine = format!("l2:4 os:5000-5003{SIZES}");
    check_copy(&tree, &machine, "5000-5003", &[NO_MASK, "proc/self/cgroup: "]);
    check_copy(
        &tree.without("sys/devices/system/cpu/online"),
        &machine,
        "5000-5003",
        &["sys/devices/system/cpu/online: missing", NO_MASK, "proc/self/cgroup: "],
    );
}

#[test]
fn a_copy_without_cpus_has_those_of_its_cpuset_or_one() {
    let sysfs = "sys/devices/system: ";
    check_copy(
        &in_cgroup(Tree::new(), "5000-5001"),
        "l2:2 os:5000-5001",
        "5000-5001",
        &[sysfs, NO_MASK],
    );
    let warning = "sys/devices/system: no CPU is known: CPU 0 is taken";
    check_copy(
        &Tree::new(),
        "pu:1",
        "0",
        &[sysfs, NO_MASK, "proc/self/cgroup: ", warning],
    );
}

#[test]
fn this_process() {
    let found = discover();
    check_tables(&found.topology);
    assert!(!found.topology.pus().is_empty());
    assert!(found.topology.os_set().is_subset(&found.allowed.pus));
    assert!(["sysfs /sys/devices/system", "hwloc", "flat"].contains(&found.source.to_string().as_str()));
}
