//! Wakes of tasks that another cache fetches, or whose set prefers one (policy 3).

use super::*;

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
        check(NODES, "default", 9, view(Some(wakees)), "idle in llc 0 or group 2");
    }
    for wakees in [Some(5), Some(20), Some(64), None] {
        check(NODES, "default", 9, view(wakees), "group 2 (worker 9)");
    }
}

/// Short tasks stay with their waker, wherever that is, and long ones at home. Waking somebody takes 5 us in this view.
#[test]
fn a_waker_of_many_on_another_node_pulls_what_runs_for_neither_long_nor_short() {
    for (config, util, home_run, drawn_as) in [
        ("default", 768, Nanos::from_micros(50), "idle in llc 2 or group 2"),
        ("default", 769, Nanos::from_micros(50), "group 2 (worker 9)"),
        ("default", 768, Nanos::from_micros(20), "slot"),
        ("default", 768, Nanos::from_micros(1001), "group 2 (worker 9)"),
        ("sets-drift=0", 768, Nanos::from_micros(50), "group 2 (worker 9)"),
    ] {
        let policy = policy(NODES, config);
        let waker = LlcView {
            util,
            node_running: 16,
            ..roomy(2)
        };
        let view = WakeView {
            waker: Some(WorkerId(20)),
            home_run,
            home_idle: GroupMask(0b1111),
            ..coupled(CouplingView {
                waker: Some(waker),
                home_util: 768,
                wakees: Some(64),
                ..CouplingView::default()
            })
        };
        let mut task = task(&policy, 9);
        task.streak = 12;
        let (placement, _) = policy.place_wake(&view, &mut task, &mut Rng::new(1));
        assert_eq!(drawn(placement), drawn_as, "{config}, {util}, {home_run:?}");
    }
}

/// Thieves use the quota up, too: a cap that refused pulls left small sets scattered (row L of the report).
#[test]
fn the_cap_counts_pulls_and_refuses_none() {
    let policy = policy(NODES, "cap=fixed:1");
    let mut task = task(&policy, 9);
    let pulled_by = |llc| {
        coupled(CouplingView {
            waker: Some(roomy(llc)),
            wakees: Some(1),
            ..CouplingView::default()
        })
    };
    let mut rng = Rng::new(1);
    let (first, _) = policy.place_wake(&pulled_by(0), &mut task, &mut rng);
    assert_eq!(drawn(first), "idle in llc 0 or group 2");
    policy.moved(&mut task, WorkerId(0), VIEW.now);
    assert!(policy.is_capped(&task, VIEW.now));
    let (back, reason) = policy.place_wake(&pulled_by(1), &mut task, &mut rng);
    assert_eq!(
        (drawn(back).as_str(), reason),
        ("idle in llc 1 or group 0", Reason::Pulled)
    );
    // What is not fetched is kept at home, which has more than it can do.
    let searched = WakeView {
        home_queued: 6,
        llc_has_idle: true,
        ..VIEW
    };
    let (home, reason) = policy.place_wake(&searched, &mut task, &mut rng);
    assert_eq!((drawn(home).as_str(), reason), ("group 0", Reason::Capped));
}
