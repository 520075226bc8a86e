//! Where new tasks begin.

use super::*;

fn check_spawn(machine: &str, config: &str, view: SpawnView, expected: &str) {
    let policy = policy(machine, config);
    let mut task = policy.new_task(view.spawner, SetId::NONE);
    let answer = policy.place_spawn(&view, &mut task, &mut Rng::new(1));
    assert_eq!(drawn(answer), expected, "{machine}, {config}, {view:?}");
}

#[test]
fn spawns_stay_until_another_node_is_much_idler() {
    let crowded = SpawnView {
        node_running: 16,
        node_idle: 0,
        most_idle: (NodeId(1), 3),
        ..SpawnView::new(Some(WorkerId(0)))
    };
    let one_cache = "node:2 llc:1 l2:4 core:4";
    for machine in [ONE, PAIR, SIBLINGS, "llc:2 core:8"] {
        check_spawn(machine, "default", crowded, "deque");
    }
    check_spawn(one_cache, "default", crowded, "injector 1");
    check_spawn(one_cache, "numa=off", crowded, "deque");
    check_spawn(one_cache, "groups=off", crowded, "deque");
    check_spawn(one_cache, "numa-imbalance=3", crowded, "deque");
    check_spawn(
        one_cache,
        "default",
        SpawnView {
            node_running: 1,
            ..crowded
        },
        "deque",
    );
    check_spawn(
        one_cache,
        "default",
        SpawnView {
            most_idle: (NodeId(9), 3),
            ..crowded
        },
        "deque",
    );
    check_spawn(
        one_cache,
        "default",
        SpawnView {
            spawner: Some(WorkerId(99)),
            ..crowded
        },
        "deque",
    );
}

#[test]
fn spawns_from_outside_go_where_workers_are_idle() {
    let view = SpawnView {
        idle_llc: Some(LlcId(1)),
        ..SpawnView::new(None)
    };
    check_spawn(PAIR, "default", SpawnView::new(None), "injector 0");
    check_spawn("node:2 llc:1 core:16", "groups=off", view, "injector 0");
    check_spawn("node:2 llc:1 core:16", "default", view, "injector 1");
    let policy = policy(NODES, "default");
    let mut rng = Rng::new(1);
    let mut seen = [0_u32; 4];
    for view in [view, SpawnView::new(None)] {
        for _ in 0..1_000 {
            let mut task = policy.new_task(None, SetId::NONE);
            let Placement::Injector { llc } = policy.place_spawn(&view, &mut task, &mut rng) else {
                panic!("only injectors");
            };
            seen[llc.index()] += 1;
        }
    }
    // The idle cache, and then every one.
    assert!(seen[1] > 1_000, "{seen:?}");
    assert!(seen.iter().all(|count| (count % 1_000).abs_diff(250) < 60), "{seen:?}");
}

#[test]
fn what_is_not_needed_of_idle_workers_is_not_asked_for() {
    let check = |machine, config, set: SetId, nodes, llc| {
        let policy = policy(machine, config);
        let task = policy.new_task(Some(WorkerId(0)), set);
        assert_eq!(policy.needs_idle_nodes(&task), nodes, "{machine} {config}");
        assert_eq!(policy.needs_idle_llc(), llc, "{machine} {config}");
    };
    let set = SetId::declared(6);
    check(NODES, "default", set, true, true);
    check(NODES, "default", set.packed(), false, true);
    check(NODES, "numa=off", set, false, false);
    check("llc:2 core:8", "default", set, false, true);
    check(ONE, "default", set, false, false);
}

/// Where a task of `set` from outside or, if `spawner`, from worker 0 begins.
fn spawned(config: &str, set: SetId, spawner: Option<u16>, spread: Option<u32>, preferred: Option<u16>) -> String {
    let policy = policy(NODES, config);
    let view = SpawnView {
        node_running: 16,
        node_idle: 0,
        most_idle: (NodeId(1), 16),
        spread,
        preferred: preferred.map(LlcId),
        ..SpawnView::new(spawner.map(WorkerId))
    };
    let mut task = policy.new_task(view.spawner, set);
    drawn(policy.place_spawn(&view, &mut task, &mut Rng::new(1)))
}

#[test]
fn spread_tasks_get_a_cache_each_then_other_groups_of_them() {
    let set = SetId::declared(1).spread();
    let begin = |turn| spawned("default", set, Some(0), Some(turn), None);
    let expected = [
        "idle in llc 0 or group 0",
        "idle in llc 2 or group 4",
        "idle in llc 1 or group 2",
        "idle in llc 3 or group 6",
        "idle in llc 0 or group 1",
        "idle in llc 2 or group 5",
    ];
    for (turn, place) in (0..).zip(expected) {
        assert_eq!(begin(turn), place, "turn {turn}");
    }
    assert_eq!(spawned("default", set, None, Some(3), None), "idle in llc 3 or group 6");
    assert_eq!(
        spawned("aggregation=off,numa=off", set, Some(0), Some(1), None),
        "deque"
    );
}

#[test]
fn few_that_belong_together_begin_on_one_node() {
    let set = SetId::declared(6);
    assert_eq!(spawned("default", set.packed(), Some(0), None, None), "deque");
    assert!(spawned("default", set, Some(0), None, None).starts_with("injector "));
}

#[test]
fn what_belongs_together_begins_in_one_cache_from_outside_too() {
    let set = SetId::declared(6);
    assert_eq!(spawned("default", set, None, None, None), "injector 2");
    assert_eq!(spawned("default", set, None, None, Some(1)), "injector 1");
}

#[test]
fn what_need_not_be_asked_would_be_answered_the_same() {
    for (machine, config, stays) in [
        (PAIR, "groups=on", true),
        (SIBLINGS, "groups=on,numa=on,aggregation=on", true),
        ("llc:2 core:8", "groups=on,aggregation=off", true),
        ("llc:2 core:8", "groups=on,aggregation=on", false),
        ("node:2 llc:1 l2:4 core:4", "aggregation=off", false),
        ("node:2 llc:1 l2:4 core:4", "aggregation=off,numa=off", true),
        (PAIR, "groups=on,adversary=random", false),
    ] {
        let policy = policy(machine, config);
        assert_eq!(policy.spawns_stay(), stays, "{machine}, {config}");
        let mut rng = Rng::new(5);
        for _ in 0..if stays { 1000 } else { 0 } {
            let view = SpawnView {
                node_running: rng.below(9),
                node_idle: rng.below(9),
                // On one node nobody looks for another.
                most_idle: (NodeId(1), if policy.active().numa { 0 } else { rng.below(9) }),
                spread: (rng.below(2) == 0).then(|| rng.below(9)),
                ..SpawnView::new(Some(WorkerId(u16::try_from(rng.below(20)).unwrap())))
            };
            let mut task = policy.new_task(view.spawner, SetId::NONE);
            let before = (task, rng);
            let answer = policy.place_spawn(&view, &mut task, &mut rng);
            assert_eq!(answer, Placement::Deque, "{machine}, {config}, {view:?}");
            assert_eq!((task, rng), before);
        }
    }
    assert!(policy(ONE, "groups=off").spawns_stay(), "nobody asks");
}

#[test]
fn what_comes_from_outside_by_the_only_way_need_not_be_asked() {
    for (machine, config, one_way) in [
        (PAIR, "groups=on", true),
        (SIBLINGS, "groups=on,numa=on,aggregation=on", true),
        ("llc:2 core:8", "groups=on,aggregation=off", false),
        (PAIR, "groups=on,adversary=random", false),
    ] {
        let policy = policy(machine, config);
        assert_eq!(policy.has_one_way_in(), one_way, "{machine}, {config}");
        let (view, mut rng) = (SpawnView::new(None), Rng::new(5));
        for set in [SetId::NONE, SetId::declared(6), SetId::root(3)] {
            let mut task = policy.new_task(None, set);
            let before = (task, rng);
            let answer = policy.place_spawn(&view, &mut task, &mut rng);
            let stays = answer == Placement::Injector { llc: LlcId(0) } && (task, rng) == before;
            assert!(stays || !one_way, "{machine}, {config}: {answer:?}");
        }
    }
    assert!(policy(ONE, "groups=off").has_one_way_in(), "nobody asks");
}
