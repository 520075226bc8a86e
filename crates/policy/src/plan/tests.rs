use alloc::{string::ToString, vec::Vec};
use core::fmt::Write;

use super::*;

fn machine(text: &str) -> Topology {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn compile(text: &str, workers: Option<u16>, size: GroupSize) -> Plan {
    let options = PlanOptions {
        workers,
        grouping: Grouping {
            size,
            merge_small_l2: false,
        },
        map: None,
        near: None,
    };
    let plan = Plan::compile(&machine(text), &options).unwrap();
    check_tables(&plan);
    plan
}

/// The invariants between the tables of any plan.
fn check_tables(plan: &Plan) {
    for (i, worker) in plan.workers.iter().enumerate() {
        let group = &plan.groups[worker.group.index()];
        assert_eq!(group.members[usize::from(worker.member)].index(), i);
        assert!(worker.siblings.has(worker.member));
        assert_eq!((group.llc, group.node), (worker.llc, worker.node));
        assert_eq!(plan.llcs[worker.llc.index()].node, worker.node);
    }
    for (i, group) in plan.groups.iter().enumerate() {
        let groups = &plan.llcs[group.llc.index()].groups;
        assert_eq!(groups[usize::from(group.index_in_llc)].index(), i);
        assert!(group.members.is_sorted() && !group.members.is_empty());
    }
    for (i, llc) in plan.llcs.iter().enumerate() {
        let mut all: Vec<usize> = llc.others.iter().map(|llc| llc.index()).collect();
        all.push(i);
        all.sort_unstable();
        assert!(all.iter().copied().eq(0..plan.llcs.len()));
        let (near, far) = llc.others.split_at(llc.others_on_node);
        assert!(near.iter().all(|o| plan.llcs[o.index()].node == llc.node));
        assert!(far.iter().all(|o| plan.llcs[o.index()].node != llc.node));
        assert!(llc.workers.is_sorted() && llc.groups.is_sorted());
    }
    let on_nodes: usize = plan.nodes.iter().map(|node| node.workers.len()).sum();
    let on_llcs: usize = plan.llcs.iter().map(|llc| llc.workers.len()).sum();
    assert_eq!((on_nodes, on_llcs), (plan.workers.len(), plan.workers.len()));
}

/// Groups as `cpu cpu | cpu …`, LLCs separated by `;`, nodes by `/`.
fn drawn(plan: &Plan) -> String {
    let mut text = String::new();
    let mut last: Option<&GroupPlan> = None;
    for group in &plan.groups {
        text.push_str(match last {
            None => "",
            Some(last) if last.node != group.node => " / ",
            Some(last) if last.llc != group.llc => " ; ",
            Some(_) => " | ",
        });
        for (i, worker) in group.members.iter().enumerate() {
            let space = if i == 0 { "" } else { " " };
            write!(text, "{space}{}", plan.workers[worker.index()].os_cpu).unwrap();
        }
        last = Some(group);
    }
    text
}

fn check(text: &str, workers: Option<u16>, size: GroupSize, expected: &str) {
    assert_eq!(
        drawn(&compile(text, workers, size)),
        expected,
        "{text} {workers:?} {size:?}"
    );
}

#[test]
fn one_worker_a_hardware_thread() {
    check("pu:1", None, GroupSize::L2, "0");
    check("core:1 pu:2", None, GroupSize::L2, "0 1");
    check("l2:4", None, GroupSize::L2, "0 1 2 3");
    check("l2:5", None, GroupSize::L2, "0 | 1 | 2 | 3 | 4");
    check("core:4", None, GroupSize::Fixed(4), "0 1 2 3");
    check("l2:1 core:6", None, GroupSize::L2, "0 1 2 | 3 4 5");
    check(
        "node:2 llc:2 core:2",
        None,
        GroupSize::Fixed(2),
        "0 1 ; 2 3 / 4 5 ; 6 7",
    );
}

#[test]
fn fewer_workers_use_the_fewest_caches() {
    let uneven = "node:[llc:2 core:2, llc:1 core:4 pu:2]";
    check("node:2 llc:2 core:4", Some(4), GroupSize::Fixed(4), "0 1 2 3");
    check("node:2 llc:2 core:4", Some(6), GroupSize::Fixed(4), "0 1 2 3 ; 4 5");
    check(
        "node:2 llc:2 core:4",
        Some(9),
        GroupSize::Fixed(4),
        "0 1 2 3 ; 4 5 6 7 / 8",
    );
    check(uneven, None, GroupSize::Fixed(4), "0 1 ; 2 3 / 4 5 6 7 | 8 9 10 11");
    check(uneven, Some(2), GroupSize::Fixed(4), "0 1");
    check(uneven, Some(3), GroupSize::Fixed(4), "4 6 8");
    check(uneven, Some(9), GroupSize::Fixed(4), "0 / 4 5 6 7 | 8 9 10 11");
}

#[test]
fn fewer_workers_begin_in_the_cache_that_is_asked_for() {
    let check = |text: &str, workers, near, expected: &str| {
        let options = PlanOptions {
            workers: Some(workers),
            near: Some(near),
            ..PlanOptions::default()
        };
        let plan = Plan::compile(&machine(text), &options).unwrap();
        check_tables(&plan);
        assert_eq!(drawn(&plan), expected, "{workers} workers of {text} near {near}");
    };
    check("llc:4 core:4", 2, 0, "0 1");
    check("llc:4 core:4", 2, 9, "8 9");
    check("llc:4 core:4", 4, 15, "12 13 14 15");
    // Those that follow are near, the foremost last.
    check("llc:4 core:4", 6, 15, "0 1 ; 12 13 14 15");
    check("node:2 llc:2 core:2", 3, 7, "4 ; 6 7");
    // The size goes first: eight do not fit the small ones.
    check("node:[llc:2 core:2, llc:1 core:4 pu:2]", 8, 1, "4 5 6 7 | 8 9 10 11");
    check("node:[llc:2 core:2, llc:1 core:4 pu:2]", 2, 3, "2 3");
    // A hardware thread that the machine does not have.
    check("llc:4 core:4", 2, 99, "0 1");
    // All of them are the same from everywhere.
    check("llc:2 core:2", 4, 3, "0 1 ; 2 3");
}

#[test]
fn fewer_workers_take_cores_before_siblings() {
    let smt = "l2:4 pu:2";
    check(smt, Some(2), GroupSize::L2, "0 2");
    check(smt, Some(4), GroupSize::L2, "0 2 4 6");
    check(smt, Some(5), GroupSize::L2, "0 1 | 2 | 4 | 6");
    check("l2:2 core:2 pu:2", Some(5), GroupSize::L2, "0 1 2 | 4 6");
}

#[test]
fn more_workers_wrap_around() {
    check("l2:2", Some(4), GroupSize::L2, "0 0 1 1");
    check("l2:2", Some(16), GroupSize::L2, "0 0 0 0 | 0 0 0 0 | 1 1 1 1 | 1 1 1 1");
    check("core:1 pu:2", Some(5), GroupSize::L2, "0 0 0 | 1 1");
    check("pu:1", Some(9), GroupSize::Fixed(16), "0 0 0 0 0 0 0 0 0");
}

#[test]
fn holes_keep_their_numbers() {
    let part = machine("node:2 llc:2 l2:4").restrict(&"1-2,7,13".parse().unwrap());
    let plan = Plan::compile(&part, &PlanOptions::default()).unwrap();
    check_tables(&plan);
    assert_eq!(drawn(&plan), "1 2 ; 7 / 13");
    assert_eq!(plan.workers[3].pu, PuId(3));
    assert_eq!(plan.nodes.len(), 2);
}

#[test]
fn workers_name_the_hardware_thread_of_the_whole_machine() {
    let whole = machine("node:[llc:1 core:2, llc:1 core:4]");
    let options = PlanOptions {
        workers: Some(3),
        ..PlanOptions::default()
    };
    let plan = Plan::compile(&whole, &options).unwrap();
    assert_eq!(plan.workers[0].pu, PuId(2));
    assert_eq!((plan.workers[0].llc, plan.workers[0].node), (LlcId(0), NodeId(0)));
}

#[test]
fn siblings_are_the_members_on_the_same_core() {
    let plan = compile("core:4 pu:2", None, GroupSize::Fixed(4));
    let masks: Vec<u64> = plan.workers.iter().map(|worker| worker.siblings.0).collect();
    assert_eq!(masks, [0b0011, 0b0011, 0b1100, 0b1100, 0b0011, 0b0011, 0b1100, 0b1100]);
}

#[test]
fn other_caches_come_nearest_first_and_rotate() {
    let plan = compile("node:2 llc:3 core:1", None, GroupSize::L2);
    let others = |llc: usize| plan.llcs[llc].others.iter().map(|o| o.0).collect::<Vec<_>>();
    assert_eq!(others(0), [1, 2, 3, 4, 5]);
    assert_eq!(others(1), [2, 0, 4, 5, 3]);
    assert_eq!(others(5), [3, 4, 2, 0, 1]);
}

#[test]
fn tolerance_follows_the_tree() {
    let tolerance = |text: &str| compile(text, None, GroupSize::L2).nodes[0].tolerance;
    assert_eq!(tolerance("node:2 llc:1 core:24"), 3);
    assert_eq!(tolerance("node:2 llc:1 core:4"), 1);
    assert_eq!(tolerance("node:2 llc:8 core:8"), 8);
}

#[test]
fn large_machines() {
    let plan = compile("node:8 llc:8 l2:4 pu:2", None, GroupSize::L2);
    assert_eq!((plan.workers.len(), plan.groups.len()), (512, 256));
    let plan = compile("node:16 llc:16 l2:8 pu:2", None, GroupSize::L2);
    assert_eq!(
        (plan.workers.len(), plan.groups.len(), plan.llcs.len()),
        (4096, 2048, 256)
    );
    let plan = compile("l2:2", Some(4096), GroupSize::L2);
    assert_eq!((plan.workers.len(), plan.groups.len()), (4096, 1024));
}

fn check_error(workers: u16, size: GroupSize, expected: &str) {
    let grouping = Grouping {
        size,
        merge_small_l2: false,
    };
    let options = PlanOptions {
        workers: Some(workers),
        grouping,
        map: None,
        near: None,
    };
    let error = Plan::compile(&machine("core:2"), &options).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn plans_that_cannot_be_made() {
    check_error(
        0,
        GroupSize::L2,
        "0 workers on 2 hardware threads: expected at least one of each",
    );
    check_error(2, GroupSize::Fixed(0), "groups of 0 workers: expected 1 to 64");
    check_error(2, GroupSize::Fixed(65), "groups of 65 workers: expected 1 to 64");
}

#[test]
fn groups_of_a_number_cut_each_cache() {
    for (size, groups) in [(1, 64), (2, 32), (4, 16), (8, 8), (16, 4)] {
        let plan = compile("node:2 llc:2 l2:8 pu:2", None, GroupSize::Fixed(size));
        assert_eq!(plan.groups.len(), groups);
        assert!(plan.groups.iter().all(|group| group.members.len() == usize::from(size)));
    }
}

fn mapped(text: &str, map: &str) -> Result<Plan, PlanError> {
    let options = PlanOptions {
        map: Some(map.parse().unwrap()),
        ..PlanOptions::default()
    };
    Plan::compile(&machine(text), &options)
}

#[test]
fn groups_as_listed_may_be_scattered() {
    // Groups of three over caches and nodes, and what is left.
    let plan = mapped("node:2 llc:2 core:4", "0+4+8/1+5+12/2+9+13/3+6-7+10-11+14-15").unwrap();
    assert_eq!(plan.groups.len(), 4);
    for (index, worker) in plan.workers.iter().enumerate() {
        let group = &plan.groups[worker.group.index()];
        assert_eq!(group.members[usize::from(worker.member)].index(), index);
        // Where the worker sits is the machine's business.
        assert_eq!(worker.llc.index(), index / 4);
    }
    for group in &plan.groups {
        assert_eq!(group.llc, plan.workers[group.members[0].index()].llc);
        let listed = plan.llcs[group.llc.index()].groups[usize::from(group.index_in_llc)];
        assert_eq!(plan.groups[listed.index()], *group);
    }
    assert_eq!(plan.level(WorkerId(0), WorkerId(4)), crate::Level::Node);
    assert_eq!(plan.level(WorkerId(0), WorkerId(8)), crate::Level::Machine);
    let error = mapped("core:4", "0-2").expect_err("worker 3").to_string();
    assert_eq!(error, "worker 3 is in no group: expected all 4");
}

#[test]
fn four_caches_stand_for_a_node_the_spawners_first() {
    let plan = compile("node:2 llc:6 core:2", None, GroupSize::L2);
    let check = |node, first: Option<u16>, expected: [u16; 4]| {
        let found: Vec<u16> = plan
            .stand_ins(NodeId(node), first.map(LlcId))
            .map(|llc| llc.0)
            .collect();
        assert_eq!(found, expected, "node {node}, {first:?} first");
    };
    check(0, None, [0, 1, 2, 3]);
    check(0, Some(4), [4, 5, 0, 1]);
    check(1, Some(11), [11, 6, 7, 8]);
    check(1, Some(4), [6, 7, 8, 9]);
    let small = compile("node:2 llc:2 core:2", None, GroupSize::L2);
    assert_eq!(small.stand_ins(NodeId(1), None).count(), 2);
    assert_eq!(plan.stand_ins(NodeId(9), None).count(), 0);
    for (config, count) in [("default", 4), ("numa-looks=2", 2), ("numa-looks=9", 6)] {
        let policy = crate::testing::policy("node:2 llc:6 core:2", config);
        assert_eq!(policy.plan.stand_ins(NodeId(1), None).count(), count, "{config}");
    }
}
