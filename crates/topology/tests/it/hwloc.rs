//! hwloc as a source, and as the judge of the sysfs reader.

use quadrille_topology::{Topology, hwloc, sysfs};

use crate::{machine::check_tables, tree::Tree};

/// Sizes that hwloc gives to synthetic caches.
fn shape(machine: &Topology) -> String {
    let text = machine.to_string();
    let end = [" l2-size", " llc-size"].iter().filter_map(|a| text.find(a)).min();
    text[..end.unwrap_or(text.len())].to_owned()
}

#[track_caller]
fn check(description: &str, machine: &str) {
    let found = hwloc::from_synthetic(description).unwrap();
    check_tables(&found);
    assert_eq!(shape(&found), machine, "{description}");
}

#[test]
fn synthetic_machines() {
    check("pack:2 l3:2 l2:4 core:1 pu:2", "llc:4 l2:4 pu:2");
    check("pack:2 numa:1 l3:2 l2:4 core:1 pu:2", "node:2 llc:2 l2:4 pu:2");
    check("numa:2 l3:1 l2:1 core:8 pu:1", "node:2 core:8");
    check("pack:2 core:4 pu:2", "llc:2 l2:4 pu:2");
    check("l2:3 core:2 pu:1", "llc:3 core:2");
    check("pu:3", "l2:3");
    check(
        "numa:2 core:2 pu:2(indexes=0,4,1,5,2,6,3,7)",
        "node:2 l2:2 pu:2 os:0,4,1,5,2,6,3,7",
    );
}

#[test]
fn wrong_machines_are_named() {
    for description in ["nonsense:2", "pack:0", "\0"] {
        let e = hwloc::from_synthetic(description).unwrap_err();
        assert!(
            e.is_hwloc() && e.to_string().contains(&format!("`{description}`")),
            "{e}"
        );
        assert!(std::error::Error::source(&e).is_some());
    }
}

#[test]
fn xml_files() {
    let tree = Tree::new()
        .file("wrong.xml", "not XML")
        .file("empty.xml", "")
        .file("small.xml", include_str!("../machines/hwloc-4.xml"));
    let found = hwloc::from_xml_file(&tree.path().join("small.xml")).unwrap();
    check_tables(&found);
    assert_eq!(
        found.to_string(),
        "node:2 l2:2 os:0,2,1,3 distance:10,21,21,10 l2-size:1048576 llc-size:33554432"
    );
    for (name, is_io) in [("wrong.xml", false), ("empty.xml", false), ("gone.xml", true)] {
        let e = hwloc::from_xml_file(&tree.path().join(name)).unwrap_err();
        assert_eq!((e.is_io(), e.is_hwloc()), (is_io, !is_io), "{e}");
        assert!(
            e.to_string()
                .contains(&format!("{name}: expected an XML file of hwloc: ")),
            "{e}"
        );
    }
}

/// hwloc leaves out what the cpuset forbids, so both are compared on what hwloc sees.
#[cfg(target_os = "linux")]
#[test]
fn sysfs_and_hwloc_agree_on_this_machine() {
    let theirs = hwloc::this_machine().unwrap();
    let (ours, _) = sysfs::read(sysfs::DEFAULT_ROOT.as_ref()).unwrap();
    assert_eq!(ours.restrict(&theirs.os_set()).to_string(), theirs.to_string());
}
