use super::*;
use crate::{
    LlcView, Nanos, NodeId, Plan, PlanOptions, SetId, Tick,
    testing::{LARGE, NODES, ONE, PAIR, SIBLINGS, UNEVEN, VIEW, drawn, policy, random_view, task},
};
use alloc::{format, string::String};

fn check(machine: &str, config: &str, home_worker: u16, view: WakeView, expected: &str) {
    let policy = policy(machine, config);
    let mut task = task(&policy, home_worker);
    let answer = policy.place_wake(&view, &mut task, &mut Rng::new(1));
    assert_eq!(
        drawn(answer),
        expected,
        "{machine}, {config}, home {home_worker}, {view:?}"
    );
}

#[test]
fn small_machines_have_no_groups() {
    let inside = WakeView {
        waker: Some(WorkerId(0)),
        ..VIEW
    };
    for machine in [ONE, PAIR, "l2:4"] {
        check(machine, "default", 0, inside, "slot");
        check(
            machine,
            "default",
            0,
            WakeView {
                slot_empty: false,
                ..inside
            },
            "slot",
        );
        check(
            machine,
            "default",
            0,
            WakeView {
                yielded: true,
                ..inside
            },
            "deque",
        );
        check(machine, "default", 0, WakeView { waker: None, ..inside }, "injector 0");
    }
    // The same on a large one with the policy off.
    check(NODES, "baseline", 13, VIEW, "slot");
    check(NODES, "baseline", 13, WakeView { waker: None, ..VIEW }, "injector 0");
    check(PAIR, "groups=on", 1, inside, "group 0");
}

#[test]
fn a_wake_by_the_home_worker_stays_with_it() {
    check(NODES, "default", 9, VIEW, "slot");
    let full = WakeView {
        slot_empty: false,
        ..VIEW
    };
    check(NODES, "default", 9, full, "deque");
    check(
        NODES,
        "default",
        9,
        WakeView {
            llc_has_idle: true,
            ..full
        },
        "deque",
    );
    // With a mate idle, a second task is worth handing over.
    check(
        NODES,
        "default",
        9,
        WakeView {
            home_idle: GroupMask(0b0100),
            ..full
        },
        "group 2 (worker 10)",
    );
    check(
        NODES,
        "default",
        9,
        WakeView {
            home_idle: GroupMask(0b0100),
            ..VIEW
        },
        "slot",
    );
    check(NODES, "default", 30, WakeView { yielded: true, ..VIEW }, "deque");
}

#[test]
fn an_idle_home_is_claimed_the_home_worker_first() {
    for waker in [Some(WorkerId(9)), None] {
        for util in [0, 900] {
            let view = WakeView {
                waker,
                llc_util: util,
                llc_has_idle: true,
                ..VIEW
            };
            let idle = |mask| WakeView {
                home_idle: GroupMask(mask),
                ..view
            };
            check(NODES, "default", 13, idle(0b0010), "group 3 (worker 13)");
            check(NODES, "default", 13, idle(0b1111), "group 3 (worker 13)");
            check(NODES, "default", 13, idle(0b1100), "group 3 (worker 14)");
            check(NODES, "default", 13, idle(0b1000), "group 3 (worker 15)");
        }
    }
    // A bit without a member: the mechanism looks for itself.
    check(
        NODES,
        "default",
        13,
        WakeView {
            home_idle: GroupMask(1 << 40),
            ..VIEW
        },
        "group 3",
    );
}

#[test]
fn an_idle_core_goes_before_an_idle_sibling() {
    let idle = |mask| WakeView {
        waker: Some(WorkerId(7)),
        home_idle: GroupMask(mask),
        ..VIEW
    };
    check(SIBLINGS, "default", 0, idle(0b1110), "group 0 (worker 2)");
    check(SIBLINGS, "default", 0, idle(0b1010), "group 0");
    check(SIBLINGS, "default", 1, idle(0b1010), "group 0 (worker 1)");
}

#[test]
fn a_busy_home_lets_idle_workers_of_its_cache_be_searched() {
    let idle = WakeView {
        llc_has_idle: true,
        llc_util: 0,
        ..VIEW
    };
    check(NODES, "default", 13, idle, "idle in llc 1 or group 3");
    check(NODES, "default", 30, idle, "idle in llc 3 or group 7");
    check(
        NODES,
        "default",
        13,
        WakeView { waker: None, ..idle },
        "idle in llc 1 or group 3",
    );
    check(
        NODES,
        "default",
        13,
        WakeView {
            llc_has_idle: false,
            ..idle
        },
        "group 3",
    );
    check(UNEVEN, "default", 5, idle, "idle in llc 2 or group 2");
    check(LARGE, "default", 511, idle, "idle in llc 63 or group 127");
}

#[test]
fn a_busy_cache_is_not_searched() {
    let idle = WakeView {
        llc_has_idle: true,
        ..VIEW
    };
    let at = |util| WakeView { llc_util: util, ..idle };
    check(NODES, "default", 13, at(876), "group 3");
    check(NODES, "filter=off", 13, at(1024), "idle in llc 1 or group 3");
    check(NODES, "filter-margin=100", 13, at(1024), "group 3");
    // Unless somebody has waited for too long.
    let aged = WakeView {
        home_oldest: Nanos::from_micros(200),
        ..at(1024)
    };
    check(NODES, "default", 13, aged, "idle in llc 1 or group 3");
    check(NODES, "default", 13, WakeView { home_queued: 0, ..aged }, "group 3");
}

#[test]
fn a_short_queue_at_home_is_good_enough() {
    let idle = WakeView {
        llc_has_idle: true,
        llc_util: 512,
        ..VIEW
    };
    let queued = |home_queued| WakeView { home_queued, ..idle };
    let config = "filter=off";
    check(NODES, config, 13, queued(0), "group 3");
    check(NODES, config, 13, queued(2), "group 3");
    check(NODES, config, 13, queued(3), "idle in llc 1 or group 3");
    check(
        NODES,
        "filter=off,cap-fits=0",
        13,
        queued(0),
        "idle in llc 1 or group 3",
    );
    check(NODES, "filter=off,cap=off", 13, queued(0), "idle in llc 1 or group 3");
    check(
        NODES,
        config,
        13,
        WakeView {
            llc_util: 511,
            ..queued(0)
        },
        "idle in llc 1 or group 3",
    );
}

#[test]
fn what_a_group_cannot_take_goes_to_the_cache() {
    let queued = |home_queued| WakeView { home_queued, ..VIEW };
    check(NODES, "default", 13, queued(8), "group 3");
    check(NODES, "default", 13, queued(9), "injector 1");
    check(NODES, "overflow=1", 13, queued(5), "injector 1");
    check(UNEVEN, "default", 1, queued(5), "injector 0");
}

/// As [`check`], for a task that has used up its quota in this window, without the filter.
fn check_capped(config: &str, view: WakeView, expected: &str) {
    let policy = policy(NODES, &format!("filter=off,{config}"));
    let mut task = task(&policy, 13);
    (task.used, task.window) = (10, Tick(5));
    let answer = policy.place_wake(&view, &mut task, &mut Rng::new(1));
    assert_eq!(drawn(answer), expected, "{config}, {view:?}");
}

#[test]
fn the_cap_sends_home_unless_home_is_stuck() {
    let idle = WakeView {
        llc_has_idle: true,
        home_queued: 4,
        ..VIEW
    };
    let away = "idle in llc 1 or group 3";
    check_capped("cap=adaptive", idle, "group 3");
    check_capped("cap=fixed", idle, "group 3");
    check_capped("cap=auto", idle, "group 3");
    check_capped("cap=off", idle, away);
    check_capped("cap=fixed:11", idle, away);
    check_capped(
        "cap=adaptive",
        WakeView {
            now: Nanos::from_millis(6),
            ..idle
        },
        away,
    );
    check_capped(
        "cap=adaptive",
        WakeView {
            home_oldest: Nanos::from_micros(100),
            ..idle
        },
        away,
    );
    check_capped("cap=adaptive", WakeView { home_queued: 9, ..idle }, away);
    check_capped("cap=adaptive", WakeView { llc_util: 511, ..idle }, away);
}

#[test]
fn a_handover_takes_the_wakers_place_in_the_same_cache() {
    let policy = policy(NODES, "default");
    let ask = |home_worker, view: WakeView| {
        let mut task = task(&policy, home_worker);
        drawn(policy.place_handover(&view, &mut task, &mut Rng::new(1)))
    };
    assert_eq!(ask(13, VIEW), "slot");
    assert_eq!(
        ask(
            13,
            WakeView {
                home_idle: GroupMask(0b10),
                ..VIEW
            }
        ),
        "slot"
    );
    assert_eq!(
        ask(
            13,
            WakeView {
                slot_empty: false,
                ..VIEW
            }
        ),
        "group 3"
    );
    assert_eq!(ask(13, WakeView { yielded: true, ..VIEW }), "deque");
    assert_eq!(ask(13, WakeView { waker: None, ..VIEW }), "group 3");
    assert_eq!(ask(0, VIEW), "group 0"); // another cache
}

fn check_spawn(machine: &str, config: &str, view: SpawnView, expected: &str) {
    let policy = policy(machine, config);
    let mut task = policy.new_task(view.spawner, SetId::NONE);
    let answer = policy.place_spawn(&view, &mut task, &mut Rng::new(1));
    assert_eq!(drawn(answer), expected, "{machine}, {config}, {view:?}");
}

#[test]
fn spawns_stay_until_another_node_is_much_idler() {
    let crowded = SpawnView {
        spawner: Some(WorkerId(0)),
        node_running: 16,
        node_idle: 0,
        most_idle: (NodeId(1), 3),
        spread: None,
        preferred: None,
    };
    let one_cache = "node:2 llc:1 l2:4 core:4";
    for machine in [ONE, PAIR, SIBLINGS, "llc:2 core:8"] {
        check_spawn(machine, "default", crowded, "deque");
    }
    check_spawn(one_cache, "default", crowded, "injector 1");
    check_spawn(one_cache, "numa=off", crowded, "deque");
    check_spawn(one_cache, "groups=off", crowded, "injector 1");
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
        spawner: None,
        node_running: 0,
        node_idle: 0,
        most_idle: (NodeId(1), 5),
        spread: None,
        preferred: None,
    };
    check_spawn(PAIR, "default", view, "injector 0");
    check_spawn("node:2 llc:1 core:16", "default", view, "injector 1");
    let policy = policy(NODES, "default");
    let mut rng = Rng::new(1);
    let mut seen = [0_u32; 4];
    for most_idle in [5, 0] {
        for _ in 0..1_000 {
            let view = SpawnView {
                most_idle: (NodeId(1), most_idle),
                ..view
            };
            let mut task = policy.new_task(None, SetId::NONE);
            let Placement::Injector { llc } = policy.place_spawn(&view, &mut task, &mut rng) else {
                panic!("only injectors");
            };
            seen[llc.index()] += 1;
        }
    }
    // Both caches of the idle node, and then every one.
    assert!(seen[0].abs_diff(250) < 60 && seen[1].abs_diff(250) < 60, "{seen:?}");
    assert!(seen[2].abs_diff(750) < 60 && seen[3].abs_diff(750) < 60, "{seen:?}");
}

#[test]
fn a_machine_with_holes() {
    let machine: quadrille_topology::Topology = NODES.parse().unwrap();
    let part = machine.restrict(&"1-2,12-15,30".parse().unwrap());
    let plan = Plan::compile(&part, &PlanOptions::default()).unwrap();
    let policy = Policy::new(crate::Config::default(), plan);
    let mut task = task(&policy, 4);
    let view = WakeView {
        waker: Some(WorkerId(6)),
        home_idle: GroupMask(0b1000),
        ..VIEW
    };
    let answer = policy.place_wake(&view, &mut task, &mut Rng::new(1));
    assert_eq!(drawn(answer), "group 1 (worker 5)");
}

#[test]
fn nobody_waits_for_long_beside_an_idle_worker() {
    let policy = policy(NODES, "cap=fixed:1");
    let mut rng = Rng::new(7);
    let mut seen = 0;
    for _ in 0..50_000 {
        let view = random_view(&mut rng, 32);
        let mut task = task(&policy, 13);
        (task.used, task.window) = (200, policy.new_task(None, SetId::NONE).window);
        let waits = view.home_queued > 0 && view.home_oldest >= policy.config.skip.max_age;
        let stays = view.yielded && view.waker.is_some() || view.waker == Some(task.home_worker);
        if waits && view.llc_has_idle && view.home_idle.is_empty() && !stays {
            let answer = policy.place_wake(&view, &mut task, &mut rng);
            let to_idle = |llc| matches!(answer, Placement::IdleInLlc { llc: to, fallback } if to == llc && fallback == task.home);
            let coupled = [view.coupling.waker, view.coupling.preferred].into_iter().flatten();
            let elsewhere = coupled.filter(|llc| llc.has_idle).any(|llc| to_idle(llc.llc));
            assert!(to_idle(LlcId(1)) || elsewhere, "{} {view:?}", drawn(answer));
            seen += 1;
        }
    }
    assert!(seen > 1_000);
}

#[test]
fn light_load_always_searches() {
    let policy = policy(LARGE, "default");
    let mut rng = Rng::new(11);
    for _ in 0..20_000 {
        let view = WakeView {
            waker: Some(WorkerId(300)),
            llc_util: u16::try_from(rng.below(512)).unwrap(),
            llc_has_idle: true,
            home_idle: GroupMask(0),
            yielded: false,
            coupling: CouplingView::default(),
            ..random_view(&mut rng, 512)
        };
        let mut task = task(&policy, 13);
        (task.used, task.window) = (200, Tick(u32::try_from(view.now.0 / 1_000_000).unwrap()));
        let (answer, reason) = policy.place_wake_because(&view, &mut task, &mut rng);
        assert_eq!(drawn(answer), "idle in llc 1 or group 3", "{view:?}");
        assert_eq!(reason, Reason::Searched);
    }
}

#[test]
fn reasons_say_which_policy_kept_a_task_at_home() {
    let idle = WakeView {
        llc_has_idle: true,
        home_queued: 4,
        ..VIEW
    };
    let reason = |config: &str, view: WakeView| {
        let policy = policy(NODES, config);
        let mut task = task(&policy, 13);
        (task.used, task.window) = (10, Tick(5));
        policy.place_wake_because(&view, &mut task, &mut Rng::new(1)).1
    };
    let busy = WakeView { llc_util: 1024, ..idle };
    assert_eq!(reason("cap=fixed", idle), Reason::Capped);
    assert_eq!(reason("cap=fixed", WakeView { home_queued: 0, ..idle }), Reason::Fits);
    assert_eq!(reason("cap=off", busy), Reason::CutOff);
    assert_eq!(reason("cap=off,filter=off", busy), Reason::Searched);
    let nobody = WakeView {
        llc_has_idle: false,
        ..idle
    };
    assert_eq!(reason("default", nobody), Reason::NobodyIdle);
    let home = WakeView {
        home_idle: GroupMask(1),
        ..idle
    };
    assert_eq!(reason("default", home), Reason::IdleHome);
    assert_eq!(reason("default", WakeView { yielded: true, ..idle }), Reason::Waker);
    assert_eq!(reason("baseline", idle), Reason::Other);
    assert_eq!(reason("adversary=zero", idle), Reason::Other);
}

/// The caches of `NODES` beside home's (0), with room.
fn roomy(llc: u16) -> LlcView {
    LlcView {
        llc: LlcId(llc),
        util: 100,
        has_idle: true,
        node_running: 0,
    }
}

fn coupled(coupling: CouplingView) -> WakeView {
    WakeView { coupling, ..VIEW }
}

#[test]
fn a_wake_leaves_home_for_the_preferred_cache_only_if_it_has_to_leave() {
    let preferred = CouplingView {
        preferred: Some(roomy(0)),
        ..CouplingView::default()
    };
    let view = WakeView {
        waker: Some(WorkerId(14)),
        llc_util: 0,
        ..coupled(preferred)
    };
    // Home is group 2 (workers 8 to 11), in cache 1.
    check(NODES, "default", 9, view, "idle in llc 0 or group 2");
    check(
        NODES,
        "default",
        9,
        WakeView {
            llc_has_idle: true,
            ..view
        },
        "idle in llc 0 or group 2",
    );
    let idle_home = WakeView {
        home_idle: GroupMask(1),
        ..view
    };
    check(NODES, "default", 9, idle_home, "group 2 (worker 8)");
    let busy = CouplingView {
        preferred: Some(LlcView { util: 512, ..roomy(0) }),
        ..preferred
    };
    check(NODES, "default", 9, WakeView { coupling: busy, ..view }, "group 2");
    // Home's cache is too busy to search, whichever cache it would be.
    check(NODES, "default", 9, WakeView { llc_util: 1024, ..view }, "group 2");
    check(NODES, "default", 14, view, "slot");
}

#[test]
fn a_pull_takes_a_task_from_an_idle_home() {
    let pull = CouplingView {
        preferred: Some(roomy(0)),
        pulls: true,
        ..CouplingView::default()
    };
    let view = WakeView {
        home_idle: GroupMask(0b1111),
        ..coupled(pull)
    };
    check(NODES, "default", 9, view, "idle in llc 0 or group 2");
    check(NODES, "default", 9, WakeView { yielded: true, ..view }, "deque");
    check(NODES, "groups=off", 9, view, "slot");
    let far = CouplingView {
        preferred: Some(roomy(2)),
        ..pull
    };
    check(
        NODES,
        "default",
        9,
        WakeView { coupling: far, ..view },
        "idle in llc 2 or group 2",
    );
    let crowded = CouplingView {
        preferred: Some(LlcView {
            node_running: 2,
            ..roomy(2)
        }),
        ..pull
    };
    check(
        NODES,
        "default",
        9,
        WakeView {
            coupling: crowded,
            ..view
        },
        "slot",
    );
}

#[test]
fn a_waker_of_few_pulls_and_one_of_many_does_not() {
    let view = |wakees| WakeView {
        waker: Some(WorkerId(0)),
        home_idle: GroupMask(0b1111),
        ..coupled(CouplingView {
            waker: Some(roomy(0)),
            wakees,
            ..CouplingView::default()
        })
    };
    for wakees in 0..=4 {
        check(NODES, "default", 9, view(wakees), "idle in llc 0 or group 2");
    }
    for wakees in [5, 20, 64] {
        check(NODES, "default", 9, view(wakees), "group 2 (worker 9)");
    }
}

#[test]
fn pulls_count_for_the_cap() {
    let policy = policy(NODES, "cap=fixed:1");
    let mut task = task(&policy, 9);
    let view = coupled(CouplingView {
        waker: Some(roomy(0)),
        ..CouplingView::default()
    });
    let mut rng = Rng::new(1);
    let first = policy.place_wake(&view, &mut task, &mut rng);
    assert_eq!(drawn(first), "idle in llc 0 or group 2");
    policy.moved(&mut task, WorkerId(0), view.now);
    let back = coupled(CouplingView {
        waker: Some(roomy(1)),
        ..CouplingView::default()
    });
    assert_eq!(drawn(policy.place_wake(&back, &mut task, &mut rng)), "group 0");
    let later = WakeView {
        now: Nanos::from_millis(50),
        ..back
    };
    assert_eq!(
        drawn(policy.place_wake(&later, &mut task, &mut rng)),
        "idle in llc 1 or group 0"
    );
}

/// Where a task of `set` from outside or, if `spawner`, from worker 0 begins.
fn spawned(config: &str, set: SetId, spawner: Option<u16>, spread: Option<u32>, preferred: Option<u16>) -> String {
    let policy = policy(NODES, config);
    let view = SpawnView {
        spawner: spawner.map(WorkerId),
        node_running: 16,
        node_idle: 0,
        most_idle: (NodeId(1), 16),
        spread,
        preferred: preferred.map(LlcId),
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
