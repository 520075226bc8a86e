//! Machines from sysfs trees, whole and damaged.

use std::fmt::Write as _;

use quadrille_topology::{Topology, sysfs};

use crate::{machine::check_tables, tree::Tree};

/// What `Tree::machine` writes as sizes where the machine has none.
const SIZES: &str = " l2-size:1048576 llc-size:33554432";

/// Reads a tree; compares the machine and the warnings, each given as how it starts below the root.
#[track_caller]
fn check(tree: &Tree, machine: &str, warnings: &[&str]) {
    let (found, odd) = sysfs::read(tree.path()).unwrap();
    check_tables(&found);
    assert_eq!(found.to_string(), machine);
    let odd: Vec<String> = odd.iter().map(ToString::to_string).collect();
    assert_eq!(odd.len(), warnings.len(), "{odd:#?}");
    for (line, start) in odd.iter().zip(warnings) {
        let start = format!("{}/{start}", tree.path().display());
        assert!(line.starts_with(&start), "{line}\ndoes not start with\n{start}");
    }
}

fn written(machine: &str) -> Tree {
    Tree::new().machine("", &machine.parse().unwrap())
}

#[test]
fn captured_machines() {
    check(
        &Tree::captured(include_str!("../machines/epyc-vm-2.txt")),
        "l2:2 l2-size:1048576 llc-size:33554432",
        &[],
    );
}

#[test]
fn written_machines_read_back() {
    for machine in [
        // One CPU; two sockets with SMT; EPYC with 4 LLCs a node; E-core clusters of 4; P and E cores.
        "pu:1",
        "node:2 l2:4 pu:2 os:0,8,1,9,2,10,3,11,4,12,5,13,6,14,7,15 distance:10,21,21,10",
        "node:2 llc:4 l2:2 pu:2",
        "l2:4 core:4",
        "l2:[6*pu:2, 2*core:4]",
        // Holes in the numbers, of nodes too, and numbers beyond 1023.
        "l2:4 os:1,3,17,1030",
        "node:2 l2:2 os:0-1,8191,9000 node-os:0,8",
        "node:[llc:2 l2:2, l2:4 pu:2]",
        "llc:2 l2:2 llc-size:1048576,2097152",
    ] {
        let expected = if machine.contains("llc-size") {
            machine.replace(" llc-size", " l2-size:1048576 llc-size")
        } else {
            format!("{machine}{SIZES}")
        };
        check(&written(machine), &expected, &[]);
    }
}

#[test]
fn two_thousand_cpus() {
    let machine: Topology = "node:4 llc:8 l2:32 pu:2".parse().unwrap();
    let mut tree = Tree::new().file("cpu/online", "0-2047");
    for pu in machine.pus() {
        let cpus = |span| machine.os_set_of(span).to_string();
        let cpu = format!("cpu/cpu{}", pu.os_index);
        tree = tree
            .file(
                &format!("{cpu}/topology/core_cpus_list"),
                &cpus(machine.cores()[pu.core.index()].pus),
            )
            .file(&format!("{cpu}/cache/index0/level"), "3")
            .file(
                &format!("{cpu}/cache/index0/shared_cpu_list"),
                &cpus(machine.llcs()[pu.llc.index()].pus),
            );
    }
    for (node, cpus) in ["0-511", "512-1023", "1024-1535", "1536-2047"].iter().enumerate() {
        let folder = format!("node/node{node}");
        let mut row = ["20"; 4];
        row[node] = "10";
        tree = tree
            .file(&format!("{folder}/cpulist"), cpus)
            .file(&format!("{folder}/distance"), &row.join(" "));
    }
    check(&tree, "node:4 llc:8 l2:32 pu:2", &[]);
}

#[test]
fn offline_cpus_are_left_out() {
    let tree = written("l2:4 pu:2").file("cpu/online", "0,3-5");
    check(&tree, &format!("l2:[2*pu:1, pu:2] os:0,3-5{SIZES}"), &[]);
    // The numbers of an offline CPU's node, core and caches do not matter.
    let tree = written("node:2 l2:2")
        .file("cpu/online", "2-3")
        .without("cpu/cpu0")
        .without("cpu/cpu1/cache");
    check(&tree, &format!("l2:2 os:2-3 node-os:1{SIZES}"), &[]);
}

#[test]
fn no_list_of_online_cpus() {
    let warning = [
        "cpu/online: missing: expected the list of online CPUs; every folder cpu* that is not offline is taken for one",
    ];
    let tree = written("l2:2 pu:2")
        .without("cpu/online")
        .file("cpu/cpufreq/x", "1")
        .file("cpu/cpu_x/y", "1");
    check(&tree, &format!("l2:2 pu:2{SIZES}"), &warning);
    for (garbage, shown) in [
        ("none", "`none`"),
        ("0-", "`0-`"),
        ("", "``"),
        ("0-4294967295", "`0-4294967295`"),
    ] {
        let start = format!("cpu/online: {shown}: expected the list of online CPUs");
        check(
            &written("l2:2 pu:2").file("cpu/online", garbage),
            &format!("l2:2 pu:2{SIZES}"),
            &[&start],
        );
    }
}

#[test]
fn no_cpu_is_an_error() {
    for tree in [Tree::new(), Tree::new().file("cpu/online", "garbage")] {
        let e = sysfs::read(tree.path()).unwrap_err();
        assert!(
            e.is_io() && e.to_string().contains("/cpu: expected the CPUs of a machine"),
            "{e}"
        );
        assert!(std::error::Error::source(&e).is_some());
    }
}

#[test]
fn no_cache_information() {
    let mut tree = written("node:2 l2:2 pu:2");
    for cpu in 0..8 {
        tree = tree.without(&format!("cpu/cpu{cpu}/cache"));
    }
    check(
        &tree,
        "node:2 l2:2 pu:2",
        &[
            "cpu/cpu0/cache: missing: expected a cache from level 2 up; others say which, or the core is taken for an L2, the package for an LLC (and 7 more",
        ],
    );
    // Nothing but the numbers of the CPUs.
    let tree = Tree::new().file("cpu/online", "0-3");
    check(
        &tree,
        "l2:4",
        &[
            "node: missing: expected nodes with CPUs; the machine is taken for one node",
            "cpu/cpu0/topology/core_cpus_list: missing: expected the CPUs of a core; core_id decides, or each CPU is a core (and 3",
            "cpu/cpu0/cache: missing",
        ],
    );
}

#[test]
fn a_cpu_without_caches_has_those_of_its_core_or_that_list_it() {
    let machine = "llc:2 l2:2 pu:2";
    for cpu in 0..8 {
        let cache = format!("cpu/cpu{cpu}/cache");
        let warning = format!("{cache}: missing: expected a cache from level 2 up");
        let tree = written(machine).without(&cache);
        check(&tree, &format!("{machine}{SIZES}"), &[&warning]);
    }
    // The other CPU of its core does not list it.
    let mut tree = written(machine).without("cpu/cpu7/cache");
    for index in 2..4 {
        tree = tree.file(&format!("cpu/cpu6/cache/index{index}/shared_cpu_list"), "6");
    }
    check(
        &tree.file("cpu/cpu5/cache/index3/shared_cpu_list", "4-6"),
        &format!("llc:[l2:2 pu:2, 2*pu:2]{SIZES}"),
        &["cpu/cpu7/cache: missing"],
    );
    // A core has no other.
    let tree = written("llc:2 l2:2").without("cpu/cpu3/cache");
    let sizes = "l2-size:1048576,1048576,1048576,0 llc-size:33554432";
    check(&tree, &format!("llc:2 l2:2 {sizes}"), &["cpu/cpu3/cache: missing"]);
    let tree = written("l2:2 core:2").without("cpu/cpu3/cache");
    check(&tree, &format!("l2:2 core:2{SIZES}"), &["cpu/cpu3/cache: missing"]);
}

/// Whichever CPU it is: its L2 is not taken for its last level.
#[test]
fn a_cpu_whose_last_level_cannot_be_read_has_one_that_lists_it() {
    for (machine, count) in [
        ("l2:2", 2),
        ("core:2", 2),
        ("llc:2 l2:2 pu:2", 8),
        ("node:2 llc:2 core:2", 8),
    ] {
        for cpu in 0..count {
            let list = format!("cpu/cpu{cpu}/cache/index3/shared_cpu_list");
            let warning = format!("{list}: missing: expected the CPUs of a cache; the cache is ignored");
            let tree = written(machine).without(&list);
            check(&tree, &format!("{machine}{SIZES}"), &[&warning]);
            let tree = written(machine).without(&format!("cpu/cpu{cpu}/cache/index3"));
            check(&tree, &format!("{machine}{SIZES}"), &[]);
        }
    }
    // What it has then it lends to its core.
    let tree = written("llc:2 l2:2 pu:2")
        .without("cpu/cpu4/cache/index3")
        .without("cpu/cpu5/cache");
    check(&tree, &format!("llc:2 l2:2 pu:2{SIZES}"), &["cpu/cpu5/cache: missing"]);
}

#[test]
fn a_cluster_that_no_higher_cache_lists_has_its_l2_alone() {
    for (machine, count) in [("llc:[l2:2 pu:2, core:4]", 4..8), ("llc:[core:4, l2:2 pu:2]", 0..4)] {
        let tree = count.fold(written(machine), |tree, cpu| {
            tree.without(&format!("cpu/cpu{cpu}/cache/index3"))
        });
        let sizes = if machine.starts_with("llc:[c") {
            "1048576,33554432"
        } else {
            "33554432,1048576"
        };
        check(&tree, &format!("{machine} l2-size:1048576 llc-size:{sizes}"), &[]);
    }
}

#[test]
fn cpus_whose_cache_nobody_knows_have_nobodys() {
    let tree = written("llc:2 l2:2")
        .without("cpu/cpu2/cache")
        .without("cpu/cpu3/cache");
    let sizes = "l2-size:1048576,1048576,0,0 llc-size:33554432,0";
    check(
        &tree,
        &format!("llc:2 l2:2 {sizes}"),
        &["cpu/cpu2/cache: missing: expected a cache from level 2 up"],
    );
}

#[test]
fn packages_stand_in_for_llcs() {
    let mut tree = Tree::new()
        .file("cpu/online", "0-3")
        .file("node/node0/cpulist", "0-3")
        .file("node/node0/distance", "10");
    for cpu in 0..4 {
        let topology = format!("cpu/cpu{cpu}/topology");
        tree = tree
            .file(&format!("{topology}/core_id"), &(cpu % 2).to_string())
            .file(&format!("{topology}/physical_package_id"), &(cpu / 2).to_string())
            .file(&format!("{topology}/core_cpus_list"), &cpu.to_string())
            .file(&format!("cpu/cpu{cpu}/cache/index0/level"), "1")
            .file(&format!("cpu/cpu{cpu}/cache/index0/shared_cpu_list"), &cpu.to_string());
    }
    check(
        &tree,
        "llc:2 l2:2",
        &["cpu/cpu0/cache: none found: expected a cache from level 2 up"],
    );
}

#[test]
fn an_l2_may_be_the_last_level() {
    let mut tree = written("llc:2 core:4");
    for cpu in 0..8 {
        tree = tree.without(&format!("cpu/cpu{cpu}/cache/index3"));
    }
    check(&tree, "llc:2 core:4 l2-size:1048576 llc-size:1048576", &[]);
}

#[test]
fn an_llc_without_l2() {
    let mut tree = written("llc:2 l2:2 pu:2");
    for cpu in 0..8 {
        tree = tree.without(&format!("cpu/cpu{cpu}/cache/index2"));
    }
    check(&tree, "llc:2 l2:2 pu:2 llc-size:33554432", &[]);
}

#[test]
fn cores_by_their_old_name_and_by_their_number() {
    let (mut old, mut number) = (written("l2:2 pu:2"), written("llc:2 l2:2 pu:2"));
    for cpu in 0..4 {
        old = old.without(&format!("cpu/cpu{cpu}/topology/core_cpus_list"));
    }
    check(&old, &format!("l2:2 pu:2{SIZES}"), &[]);
    for cpu in 0..8 {
        number = number
            .without(&format!("cpu/cpu{cpu}/topology/core_cpus_list"))
            .without(&format!("cpu/cpu{cpu}/topology/thread_siblings_list"));
    }
    check(
        &number,
        &format!("llc:2 l2:2 pu:2{SIZES}"),
        &["cpu/cpu0/topology/core_cpus_list: missing: expected the CPUs of a core"],
    );
}

#[test]
fn nodes_without_cpus_are_ignored() {
    let tree = written("node:2 l2:2")
        .file("node/online", "0-2")
        .file("node/node0/distance", "10 17 21")
        .file("node/node1/cpulist", "")
        .file("node/node1/distance", "17 10 28")
        .file("node/node2/cpulist", "2-3")
        .file("node/node2/distance", "22 28 10");
    check(
        &tree,
        &format!("node:2 l2:2 node-os:0,2 distance:10,21,22,10{SIZES}"),
        &[],
    );
}

#[test]
fn missing_and_odd_nodes() {
    check(
        &written("node:2 l2:2").without("node"),
        &format!("llc:2 l2:2{SIZES}"),
        &["node: missing: expected nodes with CPUs"],
    );
    check(
        &written("node:2 l2:2").without("node/online"),
        &format!("node:2 l2:2{SIZES}"),
        &[],
    );
    check(
        &written("node:2 l2:2").file("node/node1/cpulist", "??"),
        &format!("llc:2 l2:2{SIZES}"),
        &[
            "node/node1/cpulist: `??`: expected the CPUs of a node",
            "node: no node has CPU 2-3: expected every online CPU in a node",
        ],
    );
    check(
        &written("node:2 l2:2")
            .file("node/node0/distance", "10")
            .file("node/node1/distance", "x 10"),
        &format!("node:2 l2:2{SIZES}"),
        &["node/node0/distance: 1 numbers: expected a distance above 0 for each node; taken for 10 and 20 (and 1 more"],
    );
}

#[test]
fn odd_core_and_cache_files() {
    check(
        &written("l2:2 pu:2")
            .file("cpu/cpu2/topology/core_cpus_list", "7-9")
            .file("cpu/cpu3/topology/core_cpus_list", "\u{7}\u{7}"),
        &format!("l2:2 pu:2{SIZES}"),
        &[
            "cpu/cpu2/topology/core_cpus_list: `7-9`: expected the CPUs of a core; core_id decides, or each CPU is a core (and 1 more",
        ],
    );
    for cpu in 0..4 {
        let list = format!("cpu/cpu{cpu}/topology/core_cpus_list");
        let warning = format!("{list}: `7-9`: expected the CPUs of a core");
        let tree = written("l2:2 pu:2").file(&list, "7-9");
        check(&tree, &format!("l2:2 pu:2{SIZES}"), &[&warning]);
    }
    check(
        &written("l2:2")
            .file("cpu/cpu0/topology/core_id", "one")
            .file("cpu/cpu0/topology/physical_package_id", "-1"),
        &format!("l2:2{SIZES}"),
        &["cpu/cpu0/topology/core_id: `one`: expected a number; taken for unknown"],
    );
    check(
        &written("l2:2")
            .file("cpu/cpu0/cache/index2/level", "two")
            .without("cpu/cpu1/cache/index2/level"),
        "l2:2 llc-size:33554432",
        &["cpu/cpu0/cache/index2/level: `two`: expected the level of a cache; the cache is ignored (and 1 more"],
    );
    check(
        &written("l2:2")
            .without("cpu/cpu0/cache/index2/shared_cpu_list")
            .file("cpu/cpu1/cache/index2/size", "much"),
        "l2:2 llc-size:33554432",
        &[
            "cpu/cpu0/cache/index2/shared_cpu_list: missing: expected the CPUs of a cache; the cache is ignored",
            "cpu/cpu1/cache/index2/size: `much`: expected a size such as 32768K",
        ],
    );
    check(
        &written("l2:2")
            .file("cpu/cpu0/cache/index2/size", "2M")
            .file("cpu/cpu1/cache/index2/size", "0K"),
        "l2:2 l2-size:2097152,0 llc-size:33554432",
        &["cpu/cpu1/cache/index2/size: `0K`: expected a size"],
    );
}

/// Replaces every file of a small machine by each of several kinds of garbage: always a machine with all CPUs.
#[test]
fn garbage_anywhere_is_survived() {
    let (two, long) = ("node:2 pu:2", "9,".repeat(3000));
    let tree = written(two);
    let mut files = Vec::new();
    let mut folders = vec![tree.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path)
            } else {
                files.push(path)
            }
        }
    }
    assert_eq!(files.len(), 1 + 4 * (4 + 16) + 1 + 2 * 2);
    for file in files {
        let good = std::fs::read(&file).unwrap();
        for garbage in [
            &b""[..],
            b"\xff\xfe\0",
            b"-1",
            b"0",
            b"99999999999999999999",
            b"1048575",
            long.as_bytes(),
        ] {
            std::fs::write(&file, garbage).unwrap();
            let (machine, _) = sysfs::read(tree.path()).unwrap();
            check_tables(&machine);
            if !file.ends_with("cpu/online") {
                assert_eq!(machine.os_set().to_string(), "0-3", "{} {garbage:?}", file.display());
            }
        }
        std::fs::write(&file, good).unwrap();
    }
    check(&tree, &format!("{two}{SIZES}"), &[]);
}

#[test]
fn more_cpus_than_ids_are_cut() {
    let tree = Tree::new().file("cpu/online", "0-70000");
    let (machine, warnings) = sysfs::read(tree.path()).unwrap();
    assert_eq!(machine.pus().len(), Topology::PU_COUNT_MAX);
    let mut lines = String::new();
    for warning in &warnings {
        writeln!(lines, "{warning}").unwrap();
    }
    assert!(
        lines.contains("cpu/online: 70001 CPUs: expected at most 65535"),
        "{lines}"
    );
    assert_eq!(warnings.len(), 4);
}

#[cfg(target_os = "linux")]
#[test]
fn this_machine_is_read_without_error() {
    let (machine, _) = sysfs::read(sysfs::DEFAULT_ROOT.as_ref()).unwrap();
    check_tables(&machine);
    assert!(!machine.pus().is_empty());
}
