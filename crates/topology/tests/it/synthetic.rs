//! Machines as strings.

use quadrille_topology::Topology;

use crate::machine::check_tables;

/// Parses, compares the numbers of nodes, LLCs, L2s, cores and hardware threads, and the canonical string.
#[track_caller]
fn check(text: &str, counts: [usize; 5], canonical: &str) {
    let t: Topology = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    check_tables(&t);
    let found = [
        t.nodes().len(),
        t.llcs().len(),
        t.l2s().len(),
        t.cores().len(),
        t.pus().len(),
    ];
    assert_eq!(found, counts, "{text}");
    assert_eq!(t.to_string(), canonical);
    assert_eq!(canonical.parse::<Topology>().unwrap(), t, "{text}");
}

#[test]
fn regular_machines() {
    check(
        "node:2 llc:4 core:8 pu:2",
        [2, 8, 8, 64, 128],
        "node:2 llc:4 core:8 pu:2",
    );
    check("llc:4 l2:8 pu:2", [1, 4, 32, 32, 64], "llc:4 l2:8 pu:2");
    check("node:1 llc:1 l2:1 core:1 pu:1", [1, 1, 1, 1, 1], "pu:1");
    check("node:3", [3, 3, 3, 3, 3], "node:3");
    check("pu:8", [1, 1, 1, 1, 8], "pu:8");
    check("  node : 2\n core:2 ", [2, 2, 2, 4, 4], "node:2 core:2");
    check(
        "node:2 llc:12 l2:8 pu:2",
        [2, 24, 192, 192, 384],
        "node:2 llc:12 l2:8 pu:2",
    );
    check("core:65535", [1, 1, 1, 65_535, 65_535], "core:65535");
}

#[test]
fn irregular_machines() {
    check(
        "node:[llc:2 core:4, llc:1 core:8 pu:2]",
        [2, 3, 3, 16, 24],
        "node:[llc:2 core:4, core:8 pu:2]",
    );
    check("l2:[6*pu:2, 2*core:4]", [1, 1, 8, 14, 20], "l2:[6*pu:2, 2*core:4]");
    check("l2:[pu:2,pu:2]", [1, 1, 2, 2, 4], "l2:2 pu:2");
    check(
        "node:[core:4, core:4, core:2]",
        [3, 3, 3, 10, 10],
        "node:[2*core:4, core:2]",
    );
    check(
        "node:2 llc:[l2:[core:2 pu:2, core:4], 2*core:8]",
        [2, 6, 8, 44, 48],
        "node:2 llc:[l2:[core:2 pu:2, core:4], 2*core:8]",
    );
    check("core:[pu:2, pu:1]", [1, 1, 1, 2, 3], "core:[pu:2, pu:1]");
    check("node:[llc:[l2:[core:[pu:1]]]]", [1, 1, 1, 1, 1], "pu:1");
    check("llc:[core:3]", [1, 1, 1, 3, 3], "core:3");
}

#[test]
fn attributes() {
    check("core:2 pu:2 os:0,2,1,3", [1, 1, 1, 2, 4], "core:2 pu:2 os:0,2,1,3");
    check("core:4 os:0-3", [1, 1, 1, 4, 4], "core:4");
    check("core:4 os:4-5,8-9", [1, 1, 1, 4, 4], "core:4 os:4-5,8-9");
    check("core:2 os:9000,1048575", [1, 1, 1, 2, 2], "core:2 os:9000,1048575");
    check("node:2 node-os:0,8", [2, 2, 2, 2, 2], "node:2 node-os:0,8");
    check("node:2 distance:10,20,20,10", [2, 2, 2, 2, 2], "node:2");
    check(
        "node:2 distance:10,21,21,10",
        [2, 2, 2, 2, 2],
        "node:2 distance:10,21,21,10",
    );
    check(
        "llc:2 l2:2 llc-size:33554432 l2-size:1,0,0,1 os:3,2,1,0",
        [1, 2, 4, 4, 4],
        "llc:2 l2:2 os:3,2,1,0 l2-size:1,0,0,1 llc-size:33554432",
    );
    check("l2:2 l2-size:0", [1, 1, 2, 2, 2], "l2:2");
}

#[track_caller]
fn check_error(text: &str, message: &str) {
    let e = text.parse::<Topology>().unwrap_err();
    assert_eq!(e.to_string(), message, "{text}");
    assert!(e.is_syntax() && !e.is_too_large() && !e.is_invalid());
}

#[test]
fn errors_name_the_token_and_what_was_expected() {
    const COUNT: &str = "expected a count from 1 to 65535 or `[`";
    check_error("", "empty machine: expected levels such as `node:2 llc:4 core:8 pu:2`");
    check_error(
        "  ",
        "empty machine: expected levels such as `node:2 llc:4 core:8 pu:2`",
    );
    check_error(
        "socket:2",
        "`socket` at character 1: expected node, llc, l2, core or pu",
    );
    check_error("os:0", "`os` at character 1: expected node, llc, l2, core or pu");
    check_error("node", "end of the machine: expected `:`");
    check_error("node 2", "`2` at character 6: expected `:`");
    check_error("node:", &format!("end of the machine: {COUNT}"));
    check_error("node:two", &format!("`two` at character 6: {COUNT}"));
    check_error("node:0", &format!("`0` at character 6: {COUNT}"));
    check_error("node:-1", &format!("`-1` at character 6: {COUNT}"));
    check_error("node:65536", &format!("`65536` at character 6: {COUNT}"));
    check_error("pu:[pu:1]", "`[` at character 4: expected a count from 1 to 65535");
    check_error(
        "core:2 llc:2",
        "`llc` at character 8: expected pu, os, node-os, distance, l2-size, llc-size or the end",
    );
    check_error(
        "pu:2 pu:2",
        "`pu` at character 6: expected os, node-os, distance, l2-size, llc-size or the end",
    );
}

#[test]
fn errors_in_brackets_and_attributes() {
    check_error("core:[pu:1", "end of the machine: expected `,` or `]`");
    check_error("l2:[core:1 node:2]", "`node` at character 12: expected pu, `,` or `]`");
    check_error("l2:[l2:2]", "`l2` at character 5: expected core or pu");
    check_error("l2:[]", "`]` at character 5: expected core or pu");
    check_error("l2:[pu:2,]", "`]` at character 10: expected core or pu");
    check_error("l2:[0*pu:2]", "`0` at character 5: expected a count from 1 to 65535");
    check_error(
        "l2:[pu:2] pu:2",
        "`pu` at character 11: expected os, node-os, distance, l2-size, llc-size or the end",
    );
    check_error(
        "pu:2 os:0,a",
        "`a` at character 11: expected a number or an ascending range such as 0-3",
    );
    check_error(
        "pu:2 os:1-0",
        "`1-0` at character 9: expected a number or an ascending range such as 0-3",
    );
    check_error(
        "pu:2 os:0-99999999999",
        "`0-99999999999` at character 9: expected at most 1048576 values",
    );
    check_error(
        "pu:2 os:0-1 os:0-1",
        "`os` at character 13: expected node-os, distance, l2-size, llc-size or the end",
    );
    check_error(
        "knödel:2",
        "`knödel` at character 1: expected node, llc, l2, core or pu",
    );
}

#[test]
fn too_many_hardware_threads_are_refused_before_they_are_made() {
    for text in [
        "core:32768 pu:2",
        "node:65535 llc:65535 l2:65535 core:65535 pu:65535",
        "core:[65535*pu:1, pu:1]",
        "node:65535 llc:[65535*l2:65535 core:65535]",
    ] {
        let e = text.parse::<Topology>().unwrap_err();
        assert!(e.is_too_large() && e.to_string().contains("at most 65535"), "{e}");
        assert!(e.to_string().contains(text), "{e}");
    }
    assert!("core:[65534*pu:1, pu:1]".parse::<Topology>().is_ok());
}

#[test]
fn too_many_nodes_and_caches_are_refused_before_there_are_tables_of_their_pairs() {
    for (text, message) in [
        (
            "node:65535",
            "machine `node:65535` has 65535 nodes: expected at most 1024",
        ),
        (
            "node:[1024*core:1, core:2]",
            "machine `node:[1024*core:1, core:2]` has 1025 nodes: expected at most 1024",
        ),
        ("llc:65535", "machine `llc:65535` has 65535 LLCs: expected at most 4096"),
        (
            "node:2 llc:2049",
            "machine `node:2 llc:2049` has 4098 LLCs: expected at most 4096",
        ),
    ] {
        let e = text.parse::<Topology>().unwrap_err();
        assert!(e.is_too_large() && e.to_string() == message, "{e}");
    }
    let largest: Topology = "node:1024 llc:4".parse().unwrap();
    assert_eq!((largest.nodes().len(), largest.llcs().len()), (1024, 4096));
}

#[test]
fn attributes_must_fit() {
    for (text, message) in [
        ("pu:2 os:0", "os has 1 values: expected 2"),
        ("pu:2 os:0,0", "os 0: expected each CPU number once"),
        ("pu:2 os:0,1048576", "os 1048576: expected a number from 0 to 1048575"),
        ("node:2 node-os:1,1", "node-os 1: expected each node number once"),
        (
            "node:2 node-os:1,4294967296",
            "node-os 4294967296: expected a number from 0 to 4294967295",
        ),
        ("node:2 distance:10,20", "distance has 2 values: expected 4"),
        ("node:1 distance:0", "distance 0: expected a number from 1 to 65535"),
        (
            "node:1 distance:65536",
            "distance 65536: expected a number from 1 to 65535",
        ),
        ("l2:3 l2-size:1,2", "l2-size has 2 values: expected 3"),
        ("llc:3 llc-size:1,2", "llc-size has 2 values: expected 3"),
    ] {
        let e = text.parse::<Topology>().unwrap_err();
        assert!(e.is_invalid() && e.to_string() == message, "{text}: {e}");
    }
}

/// Every machine with up to 2 members at each level, each member different or not: 5-bit choices, exhaustively.
#[test]
fn every_small_machine_round_trips() {
    /// All insides of a part above `levels`, as strings.
    fn insides(levels: &[&str]) -> Vec<String> {
        let Some((level, below)) = levels.split_first() else {
            return vec![String::new()];
        };
        let members = insides(below);
        let named = |m: &String| {
            if m.is_empty() { "pu:1".to_owned() } else { m.clone() }
        };
        let mut all = members.clone();
        if *level == "pu" {
            all.push("pu:2".into());
            return all;
        }
        for a in &members {
            for b in &members {
                all.push(format!("{level}:[{}, {}]", named(a), named(b)));
            }
        }
        all
    }
    let machines = insides(&["llc", "l2", "core", "pu"]);
    assert_eq!(machines.len(), 1806);
    for text in machines.iter().filter(|text| !text.is_empty()) {
        let t: Topology = text.parse().unwrap();
        check_tables(&t);
        let printed = t.to_string();
        assert_eq!(printed.parse::<Topology>().unwrap(), t, "{text} printed as {printed}");
        assert_eq!(printed.parse::<Topology>().unwrap().to_string(), printed);
    }
}

/// Random restrictions of a machine make random irregular machines with odd CPU numbers.
#[test]
fn random_machines_round_trip() {
    const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
    let whole: Topology = "node:3 llc:2 l2:3 core:2 pu:2 distance:10,12,32,12,10,32,31,31,10 llc-size:1,2,3,4,5,6"
        .parse()
        .unwrap();
    let mut random = SEED;
    for round in 0..500 {
        let kept = whole.pus().iter().filter(|_| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % 4 > round % 4
        });
        let part = whole.restrict(&kept.map(|pu| pu.os_index).collect());
        if !part.pus().is_empty() {
            assert_eq!(
                part.to_string().parse::<Topology>().unwrap(),
                part,
                "seed {SEED:#x} round {round}"
            );
        }
    }
}
