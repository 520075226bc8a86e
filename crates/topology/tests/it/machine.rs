//! The tables, the distances and restriction.

use quadrille_topology::{Distance, NodeId, PuId, PuSet, Topology};

/// Checks what holds for every machine: dense ids, nesting, spans that tile.
#[track_caller]
pub(crate) fn check_tables(t: &Topology) {
    for (i, pu) in t.pus().iter().enumerate() {
        assert_eq!(pu.id.index(), i);
        let (core, l2, llc) = (
            t.cores()[pu.core.index()],
            t.l2s()[pu.l2.index()],
            t.llcs()[pu.llc.index()],
        );
        assert!(
            [core.pus, l2.pus, llc.pus, t.nodes()[pu.node.index()].pus]
                .iter()
                .all(|s| s.contains(pu.id))
        );
        assert_eq!((core.l2, core.llc, core.node), (pu.l2, pu.llc, pu.node));
        assert_eq!((l2.llc, l2.node, llc.node), (pu.llc, pu.node, pu.node));
        assert_eq!(t.pu_by_os_index(pu.os_index), Some(pu));
        assert!(t.siblings(pu.id).contains(pu));
    }
    let tiles = |spans: Vec<quadrille_topology::PuSpan>| {
        let all: Vec<PuId> = spans.iter().flat_map(|s| s.iter()).collect();
        assert_eq!(all, t.pus().iter().map(|pu| pu.id).collect::<Vec<_>>());
    };
    tiles(t.cores().iter().map(|x| x.pus).collect());
    tiles(t.l2s().iter().map(|x| x.pus).collect());
    tiles(t.llcs().iter().map(|x| x.pus).collect());
    tiles(t.nodes().iter().map(|x| x.pus).collect());
    assert_eq!(
        t.cores().len(),
        t.l2s().iter().map(|l2| t.cores_of(l2.id).len()).sum::<usize>()
    );
    assert_eq!(
        t.l2s().len(),
        t.llcs().iter().map(|llc| t.l2s_of(llc.id).len()).sum::<usize>()
    );
    assert_eq!(
        t.llcs().len(),
        t.nodes().iter().map(|node| t.llcs_of(node.id).len()).sum::<usize>()
    );
    for (i, core) in t.cores().iter().enumerate() {
        assert_eq!(core.id.index(), i);
    }
    for (i, l2) in t.l2s().iter().enumerate() {
        assert_eq!(l2.id.index(), i);
    }
    for (i, llc) in t.llcs().iter().enumerate() {
        assert_eq!(llc.id.index(), i);
    }
    assert_eq!(t.os_set().len(), t.pus().len(), "CPU numbers are unique");
}

#[test]
fn a_flat_machine_has_private_l2s_and_one_llc() {
    let t = Topology::flat(4);
    check_tables(&t);
    assert_eq!(
        (t.cores().len(), t.l2s().len(), t.llcs().len(), t.nodes().len()),
        (4, 4, 1, 1)
    );
    assert_eq!(t.distance(PuId(0), PuId(3)), Distance::Llc);
    assert!(Topology::flat(0).pus().is_empty());
    check_tables(&Topology::flat(0));
    check_tables(&Topology::flat(u16::MAX));
}

#[test]
fn a_flat_machine_keeps_cpu_numbers() {
    let t = Topology::flat_over(&"3,17,9000".parse().unwrap());
    check_tables(&t);
    assert_eq!(t.os_set().to_string(), "3,17,9000");
    assert_eq!(t.llcs().len(), 1);
}

#[test]
fn nodes_have_distances() {
    let t: Topology = "node:2 core:2".parse().unwrap();
    assert_eq!(t.node_distance(NodeId(0), NodeId(0)), Topology::LOCAL_DISTANCE);
    assert_eq!(t.node_distance(NodeId(0), NodeId(1)), Topology::REMOTE_DISTANCE);
    let t: Topology = "node:2 core:2 distance:10,32,31,11".parse().unwrap();
    assert_eq!(t.node_distance(NodeId(0), NodeId(1)), 32);
    assert_eq!(t.node_distance(NodeId(1), NodeId(0)), 31);
    assert_eq!(t.node_distance(NodeId(1), NodeId(1)), 11);
}

#[track_caller]
fn check_restrict(machine: &str, allowed: &str, left: &str) {
    let t: Topology = machine.parse().unwrap();
    let part = t.restrict(&allowed.parse().unwrap());
    check_tables(&part);
    assert_eq!(part.to_string(), left, "{machine} restricted to {allowed}");
    if !part.pus().is_empty() {
        assert_eq!(part, left.parse().unwrap());
    }
}

#[test]
fn restriction_keeps_ids_dense_and_the_tree() {
    check_restrict("node:2 llc:2 core:2 pu:2", "0-15", "node:2 llc:2 core:2 pu:2");
    check_restrict("node:2 llc:2 core:2 pu:2", "0-15,99", "node:2 llc:2 core:2 pu:2");
    check_restrict(
        "node:2 llc:2 core:2 pu:2",
        "8-15",
        "llc:2 core:2 pu:2 os:8-15 node-os:1",
    );
    check_restrict(
        "node:2 llc:2 core:2 pu:2",
        "0-1,3,9,13",
        "node:[core:[pu:2, pu:1], llc:2] os:0-1,3,9,13",
    );
    check_restrict(
        "l2:4 llc-size:1024 l2-size:1,2,3,4",
        "1,3",
        "l2:2 os:1,3 l2-size:2,4 llc-size:1024",
    );
    check_restrict(
        "node:3 distance:10,1,2,3,10,4,5,6,10",
        "0,2",
        "node:2 os:0,2 node-os:0,2 distance:10,2,5,10",
    );
    check_restrict("core:4", "77", "pu:0");
    check_restrict("core:4", "", "pu:0");
}

#[test]
fn restriction_in_two_steps_is_restriction_to_both() {
    let t: Topology = "node:2 llc:2 core:2 pu:2 distance:10,21,22,10 llc-size:1,2,3,4"
        .parse()
        .unwrap();
    let sets: Vec<PuSet> = ["0-15", "0,2,4,6,8,10,12,14", "4-11", "15", ""]
        .map(|s| s.parse().unwrap())
        .into();
    for a in &sets {
        for b in &sets {
            assert_eq!(t.restrict(a).restrict(b), t.restrict(&(a & b)));
        }
    }
}

#[test]
fn masks_of_parts() {
    let t: Topology = "llc:2 core:2 pu:2 os:0,4,1,5,2,6,3,7".parse().unwrap();
    check_tables(&t);
    assert_eq!(t.os_set_of(t.llcs()[1].pus).to_string(), "2-3,6-7");
    assert_eq!(t.os_set_of(t.cores()[0].pus).to_string(), "0,4");
    assert_eq!(
        t.siblings(PuId(1)).iter().map(|pu| pu.os_index).collect::<Vec<_>>(),
        [0, 4]
    );
    assert_eq!(t.pu_by_os_index(6).map(|pu| pu.id), Some(PuId(5)));
    assert_eq!(t.pu_by_os_index(8), None);
}
