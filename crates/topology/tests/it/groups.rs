//! How machines are cut into groups.

use quadrille_topology::{Distance, GroupSize, Grouping, Groups, PuId, Topology, TopologyError};

const L2: Grouping = Grouping {
    size: GroupSize::L2,
    merge_small_l2: false,
};
const MERGED: Grouping = Grouping {
    size: GroupSize::L2,
    merge_small_l2: true,
};

const fn fixed(len: u16) -> Grouping {
    Grouping {
        size: GroupSize::Fixed(len),
        merge_small_l2: false,
    }
}

/// Compares the sizes of the groups, and checks what holds for every grouping.
#[track_caller]
fn check(machine: &str, grouping: Grouping, sizes: &[usize]) -> (Topology, Groups) {
    let topology: Topology = machine.parse().unwrap();
    let groups = topology.groups(grouping);
    let found: Vec<usize> = groups.members().iter().map(Vec::len).collect();
    assert_eq!(found, sizes, "{machine} {grouping:?}");
    check_partition(&topology, &groups);
    (topology, groups)
}

/// Every hardware thread is in exactly one group, and the look-up agrees.
#[track_caller]
fn check_partition(topology: &Topology, groups: &Groups) {
    let mut seen = vec![0; topology.pus().len()];
    for (g, members) in groups.members().iter().enumerate() {
        assert!(!members.is_empty() && members.is_sorted());
        for pu in members {
            seen[pu.index()] += 1;
            assert_eq!(groups.group_of(*pu).index(), g);
        }
    }
    assert!(seen.iter().all(|n| *n == 1));
    assert_eq!(groups.len(), groups.members().len());
    assert_eq!(groups.is_empty(), topology.pus().is_empty());
}

#[test]
fn an_l2_is_a_group() {
    check("l2:4 pu:2", L2, &[2, 2, 2, 2]);
    check("node:2 llc:2 core:4", L2, &[4, 4, 4, 4]);
    check("l2:5", L2, &[1, 1, 1, 1, 1]);
    check("pu:1", L2, &[1]);
}

#[test]
fn an_llc_of_at_most_four_is_a_group() {
    check("l2:2", L2, &[2]);
    check("l2:4", L2, &[4]);
    check("l2:2 pu:2", L2, &[4]);
    check("l2:[core:2, core:1]", L2, &[3]);
    check("llc:2 l2:3", L2, &[3, 3]);
    check("llc:[l2:2, l2:5]", L2, &[2, 1, 1, 1, 1, 1]);
    check("l2:2", fixed(1), &[1, 1]);
}

#[test]
fn a_large_l2_is_split_evenly() {
    check("core:5", L2, &[3, 2]);
    check("core:6", L2, &[3, 3]);
    check("core:7", L2, &[4, 3]);
    check("core:9", L2, &[3, 3, 3]);
    check("core:10", L2, &[4, 3, 3]);
    check("core:8 pu:2", L2, &[4, 4, 4, 4]);
    check("l2:[core:5, core:2]", L2, &[3, 2, 2]);
}

#[test]
fn siblings_stay_together_even_at_the_price_of_evenness() {
    check("core:3 pu:2", L2, &[4, 2]);
    check("core:5 pu:2", L2, &[4, 4, 2]);
    check("core:4 pu:3", L2, &[3, 3, 3, 3]);
    check("core:3 pu:4", L2, &[4, 4, 4]);
    check("core:[pu:1, pu:2, pu:2, pu:1, pu:2]", L2, &[4, 4]);
    check("core:[2*pu:3, pu:2]", L2, &[3, 3, 2]);
}

#[test]
fn a_core_of_more_than_four_is_cut_evenly() {
    check("core:2 pu:8", L2, &[4, 4, 4, 4]);
    check("core:1 pu:6", L2, &[3, 3]);
    check("core:[pu:6, pu:1]", L2, &[4, 3]);
}

/// Every L2 of up to 6 cores with 1 to 4 hardware threads each.
#[test]
fn every_small_l2_is_cut_by_the_rules() {
    for cores in 1_u32..=6 {
        for code in 0..4_u32.pow(cores) {
            let pus: Vec<u32> = (0..cores).map(|i| code / 4_u32.pow(i) % 4 + 1).collect();
            let list: Vec<String> = pus.iter().map(|n| format!("pu:{n}")).collect();
            let topology: Topology = format!("core:[{}]", list.join(", ")).parse().unwrap();
            let groups = topology.groups(L2);
            check_partition(&topology, &groups);
            let sizes: Vec<usize> = groups.members().iter().map(Vec::len).collect();
            assert!(sizes.iter().all(|n| *n <= 4), "{pus:?}: {sizes:?}");
            for core in topology.cores() {
                let group = groups.group_of(core.pus.first());
                assert!(core.pus.iter().all(|pu| groups.group_of(pu) == group), "{pus:?}");
            }
            if pus.iter().all(|n| *n <= 2) {
                assert_eq!(sizes.len(), topology.pus().len().div_ceil(4), "{pus:?}: {sizes:?}");
            }
            if pus.iter().all(|n| *n == 1) {
                assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
            }
        }
    }
}

#[test]
fn small_l2s_of_one_llc_merge_while_four_suffice() {
    check("l2:4 pu:2", MERGED, &[4, 4]);
    check("l2:3 pu:2", MERGED, &[4, 2]);
    check("l2:6", MERGED, &[4, 2]);
    check("llc:2 l2:3", MERGED, &[3, 3]);
    check("node:2 llc:2 l2:2 pu:2", MERGED, &[4, 4, 4, 4]);
    check("l2:2 core:4", MERGED, &[4, 4]);
    check("l2:[core:3, core:2, core:1, core:5, core:1]", MERGED, &[3, 3, 3, 3]);
}

#[test]
fn a_fixed_size_ignores_l2_but_not_llc() {
    check("l2:8 pu:2", fixed(1), &[1; 16]);
    check("l2:8 pu:2", fixed(2), &[2; 8]);
    check("l2:8 pu:2", fixed(4), &[4; 4]);
    check("node:2 llc:2 l2:8 pu:2", fixed(8), &[8; 8]);
    check("node:2 llc:2 l2:8 pu:2", fixed(16), &[16; 4]);
    check("node:2 llc:2 l2:8 pu:2", fixed(65_535), &[16; 4]);
    check("llc:2 core:7", fixed(3), &[3, 3, 1, 3, 3, 1]);
}

#[test]
#[should_panic(expected = "groups of 0")]
fn a_fixed_size_of_zero_is_refused() {
    let _ = Topology::flat(2).groups(fixed(0));
}

#[test]
fn explicit_groups_may_be_scattered() {
    let topology: Topology = "node:2 llc:2 core:2".parse().unwrap();
    let ids = |list: &[u16]| list.iter().copied().map(PuId).collect::<Vec<_>>();
    let groups = Groups::explicit(&topology, vec![ids(&[6, 0, 2]), ids(&[1, 3, 4]), ids(&[5, 7])]).unwrap();
    check_partition(&topology, &groups);
    assert_eq!(groups.members()[0], ids(&[0, 2, 6]));
    assert_eq!(groups.distance(&topology, PuId(0), PuId(6)), Distance::Remote);
    assert_eq!(groups.distance(&topology, PuId(0), PuId(2)), Distance::Node);
}

#[test]
fn explicit_groups_must_be_a_partition() {
    #[track_caller]
    fn check(lists: &[&[u16]], message: &str) {
        let topology = Topology::flat(3);
        let members = lists
            .iter()
            .map(|list| list.iter().copied().map(PuId).collect())
            .collect();
        let e = Groups::explicit(&topology, members).unwrap_err();
        assert!(e.is_invalid() && !e.is_syntax());
        assert!(e.to_string().contains(message), "{e}");
    }
    check(&[&[0, 1, 2], &[]], "group 1 is empty");
    check(&[&[0, 1], &[1, 2]], "hardware thread 1 in group 1");
    check(&[&[0, 1, 2, 3]], "hardware thread 3 in group 0: expected one of the 3");
    check(&[&[0], &[2]], "hardware thread 1 is in no group");
}

#[test]
fn distances_see_groups() {
    let (topology, groups) = check("llc:2 l2:2 core:2 pu:2", L2, &[4, 4, 4, 4]);
    for (other, distance) in [
        (0, Distance::Same),
        (1, Distance::Core),
        (2, Distance::Group),
        (4, Distance::Llc),
        (8, Distance::Node),
    ] {
        assert_eq!(groups.distance(&topology, PuId(0), PuId(other)), distance);
        assert_eq!(groups.distance(&topology, PuId(other), PuId(0)), distance);
    }
}

#[test]
fn group_sizes_round_trip() {
    for size in [
        GroupSize::L2,
        GroupSize::Fixed(1),
        GroupSize::Fixed(16),
        GroupSize::Fixed(65_535),
    ] {
        assert_eq!(size.to_string().parse::<GroupSize>().unwrap(), size);
    }
    for wrong in ["", "0", "L3", "-1", "+4", "65536", "4 "] {
        let e: TopologyError = wrong.parse::<GroupSize>().unwrap_err();
        assert!(e.is_syntax() && e.to_string().contains(&format!("`{wrong}`")), "{e}");
    }
}
