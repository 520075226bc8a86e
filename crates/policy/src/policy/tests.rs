//! What a policy answers by its configuration and its machine.

use super::*;
use crate::testing::policy;
use alloc::{format, vec::Vec};

/// `expected` has one character a policy in the order of [`Active`]'s fields: `+` on, `-` off.
fn check_active(machine: &str, text: &str, expected: &str) {
    let active = policy(machine, text).active();
    let on = [
        active.wake_groups,
        active.idle_filter,
        active.aggregation,
        active.migration_cap,
        active.lazy_counters,
        active.numa,
        active.gates,
        active.wake_cost,
        active.solo,
        active.overtake,
    ];
    let expected: Vec<bool> = expected.chars().map(|c| c == '+').collect();
    assert_eq!(on[..], expected, "{machine} {text}");
}

#[test]
fn auto_is_on_where_it_pays() {
    check_active("pu:1", "default", "-------+-+");
    check_active("l2:2", "default", "-------+++");
    check_active("l2:4", "default", "-------+++");
    check_active("core:5", "group=8", "----+-++-+");
    check_active("core:5", "default", "++-++-++-+");
    check_active("node:2 llc:1 core:1", "default", "-----+-+-+");
    // Nobody shares a cache with anybody.
    check_active("llc:8 core:1", "default", "----++++-+");
    check_active("llc:8 core:1 pu:2", "default", "++++++++-+");
    // A group of one has mates behind its cache.
    check_active("llc:2 l2:8", "default", "++++++++-+");
    check_active("node:2 llc:2 core:8", "default", "++++++++-+");
}

#[test]
fn modes_override_auto() {
    check_active("node:2 llc:2 core:8", "baseline", "----------");
    let all = "groups=on,filter=on,aggregation=on,cap=fixed,lazy=on,numa=on,gates=on,wake-cost=on";
    check_active("node:2 llc:2 core:8", all, "++++++++-+");
    // Never a policy about caches, or nodes, where there is one.
    check_active("pu:1", all, "++-++-++-+");
    check_active("node:2 llc:2 core:8", "groups=off", "----++++-+");
    assert!(policy("pu:1", "adversary=zero").groups_on());
    assert!(!policy("pu:1", "default").groups_on());
}

#[test]
fn what_needs_groups_is_off_without_them() {
    for machine in ["node:2 core:2", "node:2 core:4", "core:8"] {
        for text in ["default", "groups=on", "groups=off", "adversary=zero"] {
            for aggregation in ["on", "off", "auto"] {
                let policy = policy(machine, &format!("{text},aggregation={aggregation}"));
                assert_eq!(
                    policy.active().aggregation,
                    policy.aggregates(),
                    "{machine} {text} {aggregation}"
                );
                assert!(
                    policy.groups_on() || !policy.aggregates(),
                    "{machine} {text} {aggregation}"
                );
            }
        }
    }
    let check = |text: &str, expected: &[&str]| {
        assert_eq!(policy("node:2 core:2", text).asked_in_vain(), expected, "{text}");
    };
    check("default", &[]);
    check(
        "cap=adaptive,aggregation=on,filter=on",
        &["filter", "aggregation", "cap"],
    );
    check("groups=on,cap=adaptive,aggregation=on,filter=on", &[]);
    check("filter=off,cap=off", &[]);
}

/// Two groups a cache, two caches a node, two nodes: groups of 4, workers 4g to 4g + 3.
const MACHINE: &str = "node:2 llc:2 l2:2 core:4";

fn task(policy: &Policy, home_worker: u16) -> TaskPolicy {
    let mut task = policy.new_task(Some(WorkerId(0)), SetId::NONE);
    policy.ran(&mut task, WorkerId(home_worker));
    task
}

#[test]
fn the_first_run_gives_a_task_its_home() {
    let policy = policy(MACHINE, "default");
    let set = SetId::declared(7);
    let mut task = policy.new_task(Some(WorkerId(5)), set);
    assert_eq!((task.home, task.home_worker, task.set), (GroupId(1), WorkerId(5), set));
    policy.stolen(&mut task, WorkerId(31), Nanos(0));
    policy.ran(&mut task, WorkerId(31));
    assert_eq!((task.home, task.home_worker), (GroupId(7), WorkerId(31)));
    assert_eq!((task.used, task.quota), (0, 10));
    // Later runs elsewhere are borrowed; inside the group the worker follows.
    policy.ran(&mut task, WorkerId(2));
    assert_eq!((task.home, task.home_worker), (GroupId(7), WorkerId(31)));
    policy.ran(&mut task, WorkerId(29));
    assert_eq!((task.home, task.home_worker), (GroupId(7), WorkerId(29)));
}

#[test]
fn group_changes_count_and_rehome() {
    let policy = policy(MACHINE, "default");
    let now = Nanos::from_millis(9);
    let mut task = task(&policy, 1);
    policy.moved(&mut task, WorkerId(3), now);
    assert_eq!((task.home, task.home_worker, task.used), (GroupId(0), WorkerId(3), 0));
    for (worker, group, used) in [(4, 1, 1), (0, 0, 2), (30, 7, 3)] {
        policy.moved(&mut task, WorkerId(worker), now);
        assert_eq!((task.home, task.home_worker), (GroupId(group), WorkerId(worker)));
        assert_eq!(task.used, used);
    }
}

#[test]
fn steals_count_across_caches_and_keep_the_home() {
    let policy = policy(MACHINE, "default");
    let now = Nanos::from_millis(9);
    let mut task = task(&policy, 1);
    for (thief, used) in [(0, 0), (4, 0), (7, 0), (8, 1), (31, 2)] {
        policy.stolen(&mut task, WorkerId(thief), now);
        assert_eq!(
            (task.home, task.home_worker, task.used),
            (GroupId(0), WorkerId(1), used)
        );
    }
}

#[test]
fn strange_tasks_and_workers_do_no_harm() {
    let policy = policy(MACHINE, "default");
    let strange = TaskPolicy {
        home: GroupId(999),
        home_worker: WorkerId(999),
        ..task(&policy, 0)
    };
    let mut task = strange;
    policy.ran(&mut task, WorkerId(999));
    policy.moved(&mut task, WorkerId(999), Nanos(0));
    policy.stolen(&mut task, WorkerId(0), Nanos(0));
    assert_eq!(task, strange);
    assert_eq!(policy.new_task(Some(WorkerId(999)), SetId::NONE).home, GroupId(0));
}

#[test]
fn without_groups_nothing_is_noted() {
    let policy = policy("l2:2", "default");
    let made = policy.new_task(None, SetId::NONE);
    let mut task = made;
    policy.ran(&mut task, WorkerId(1));
    policy.moved(&mut task, WorkerId(1), Nanos(5));
    policy.stolen(&mut task, WorkerId(1), Nanos(5));
    assert_eq!(task, made);
}

#[test]
fn what_workers_get_follows_the_modes() {
    let mut rng = crate::Rng::new(1);
    let mut looks = |policy: &Policy| {
        let attempts = (0..100).map(|_| policy.new_gates().attempt(crate::Level::Node, &mut rng));
        attempts.filter(|&attempt| attempt).count()
    };
    let baseline = policy(MACHINE, "baseline");
    assert_eq!(baseline.lazy_rule(), LazyRule::EAGER);
    assert_eq!(looks(&baseline), 100);
    let gated = policy(MACHINE, "gate-start=0");
    assert_ne!(gated.lazy_rule(), LazyRule::EAGER);
    assert!(looks(&gated) < 50);
}

#[test]
fn without_policy_6_thieves_take_what_they_find() {
    let view = RemoteStealView {
        node: NodeId(1),
        llc: LlcId(2),
        dry_for: Nanos(0),
        skips: 0,
        running: 0,
        idle: 0,
        idle_here: 16,
        queued: 9,
        oldest: Nanos(0),
    };
    assert_eq!(policy(MACHINE, "default").steal_remote(&view), 0);
    assert_eq!(policy(MACHINE, "baseline").steal_remote(&view), 9);
    assert_eq!(policy("pu:1", "numa=on").steal_remote(&view), 9);
}

#[test]
fn a_search_is_spoiled_by_what_is_left_not_by_nothing_or_by_time() {
    let policy = policy(MACHINE, "default");
    let check = |dry_us, queued, idle_here, spoiled| {
        let view = RemoteStealView {
            node: NodeId(1),
            llc: LlcId(2),
            dry_for: Nanos::from_micros(dry_us),
            skips: 0,
            running: 16,
            idle: 0,
            idle_here,
            queued,
            oldest: Nanos(0),
        };
        assert_eq!(policy.spoils(&view, policy.steal_remote(&view)), spoiled, "{view:?}");
    };
    check(50, 1, 2, true);
    check(50, 0, 2, false);
    check(49, 1, 2, false);
    // It may have it.
    check(50, 1, 3, false);
}

#[test]
fn on_one_node_caches_tolerate_two() {
    let check_with = |config, dry_us, running, queued, taken| {
        let policy = policy("llc:4 core:8", config);
        let view = RemoteStealView {
            node: NodeId(0),
            llc: LlcId(1),
            dry_for: Nanos::from_micros(dry_us),
            skips: 0,
            running,
            idle: 8 - running,
            idle_here: 8,
            queued,
            oldest: Nanos(0),
        };
        assert_eq!(policy.steal_remote(&view), taken, "{config}: {view:?}");
    };
    let check = |dry_us, running, queued, taken| check_with("default", dry_us, running, queued, taken);
    check(20, 2, 1, 0);
    check(20, 3, 1, 1);
    check(20, 3, 9, 5);
    check(19, 8, 9, 0);
    check(20, 2, 16, 8);
    check_with("numa-llc=5", 20, 5, 1, 0);
    check_with("numa-llc=5", 20, 6, 1, 1);
    check_with("numa-queues-up=3", 20, 2, 16, 0);
    check_with("numa-queues-up=3", 20, 2, 24, 12);
    let policy = policy("llc:4 core:8", "default");
    assert!(policy.limits_steals(LlcId(0), LlcId(1)));
    assert_eq!(policy.remote_steal_delay(), Nanos::from_micros(20));
}

/// Else one that waits behind the only worker of a cache stays there while all others idle: so on virtual machines each
/// of whose CPUs is said to have a cache of its own. And the only worker of a cache would be told to leave whatever
/// waits elsewhere.
#[test]
fn what_waits_in_a_small_place_or_beside_one_is_anybodys() {
    let check_with = |plan: Plan, config: &str, said| {
        let policy = Policy::new(config.parse().unwrap(), plan);
        let last = LlcId(u16::try_from(policy.plan.llcs.len() - 1).unwrap());
        assert_eq!(
            policy.limits_steals(LlcId(0), last),
            said,
            "{config}: {:?}",
            policy.plan.llcs
        );
        assert_eq!(
            policy.limits_steals(last, LlcId(0)),
            said,
            "{config}: {:?}",
            policy.plan.llcs
        );
    };
    let check = |machine: &str, config: &str, said| {
        let plan = Plan::compile(&machine.parse().unwrap(), &crate::PlanOptions::default()).unwrap();
        check_with(plan, config, said);
    };
    check("llc:8 core:1", "default", false);
    check("llc:8 core:2", "default", false);
    check("llc:8 core:3", "default", true);
    // It asks for more to be tolerated, not for less.
    check("llc:8 core:3", "numa-imbalance=30", true);
    check("llc:8 core:2", "numa-imbalance=0", true);
    check("llc:8 core:1", "numa-imbalance=0", false);
    check("node:2 core:2", "default", false);
    check("node:2 core:3", "default", true);
    // By the node's workers, not by each cache's.
    check("node:2 llc:4 core:1", "default", true);
    // One CPU of the first cache, seven of the second.
    let machine: quadrille_topology::Topology = "llc:2 core:8".parse().unwrap();
    let part = machine.restrict(&"0,8-14".parse().unwrap());
    check_with(
        Plan::compile(&part, &crate::PlanOptions::default()).unwrap(),
        "default",
        false,
    );
}

#[test]
fn policy_6_has_a_say_between_nodes() {
    let nodes = policy(MACHINE, "default");
    assert!(!nodes.limits_steals(LlcId(0), LlcId(1)));
    assert!(nodes.limits_steals(LlcId(0), LlcId(2)));
    assert_eq!(nodes.remote_steal_delay(), Nanos::from_micros(50));
    assert!(!policy(MACHINE, "numa=off").limits_steals(LlcId(0), LlcId(2)));
}

#[test]
fn few_that_belong_together_are_given_back_between_nodes() {
    let check = |config, set: SetId, thief, given_back| {
        let policy = policy(MACHINE, config);
        let task = policy.new_task(Some(WorkerId(0)), set);
        assert_eq!(
            policy.gives_back(&task, WorkerId(thief)),
            given_back,
            "{config} {set:?} {thief}"
        );
    };
    let set = SetId::declared(1);
    check("default", set.packed(), 16, true);
    check("default", set.packed(), 15, false);
    check("default", set, 16, false);
    check("numa=off", set.packed(), 16, false);
}

#[test]
fn tolerance_is_what_the_configuration_says() {
    let tolerance = |text| policy("node:2 llc:1 core:24", text).plan.nodes[1].tolerance;
    assert_eq!(tolerance("default"), 3);
    assert_eq!(tolerance("numa-div=4"), 6);
}
