//! Wakes that stay with their waker or find somebody idle at home.

use super::*;

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
    // It comes before what is there: its data is warm.
    check(NODES, "default", 9, full, "slot");
    check(
        NODES,
        "default",
        9,
        WakeView {
            llc_has_idle: true,
            ..full
        },
        "slot",
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
    let (answer, _) = policy.place_wake(&view, &mut task, &mut Rng::new(1));
    assert_eq!(drawn(answer), "group 1 (worker 5)");
}

#[test]
fn a_task_whose_home_runs_short_ones_stays_with_its_waker() {
    let idle = WakeView {
        home_idle: GroupMask(0b0010),
        ..VIEW
    };
    let runs = |waker, home| WakeView {
        waker_run: Nanos::from_micros(waker),
        home_run: Nanos::from_micros(home),
        ..idle
    };
    let run = |home| runs(30, home);
    let home = "group 3 (worker 13)";
    for (view, expected) in [
        (run(30), "slot"),
        (run(31), home),
        (run(0), home),
        (runs(1, 1), "slot"),
        (runs(120, 1), "slot"),
        (runs(124, 1), home),
        (runs(0, 1), "slot"),
        (
            WakeView {
                slot_empty: false,
                ..run(30)
            },
            "slot",
        ),
        (
            WakeView {
                wake_cost: Nanos(0),
                ..run(1)
            },
            home,
        ),
        (WakeView { waker: None, ..run(30) }, home),
    ] {
        check(NODES, "default", 13, view, expected);
        check(NODES, "short-runs=0", 13, WakeView { waker: None, ..view }, home);
    }
    check(NODES, "short-waker=1", 13, runs(31, 1), home);
    check(NODES, "short-waker=5", 13, runs(150, 1), "slot");
    check(NODES, "short-runs=0", 13, run(1), home);
    check(NODES, "short-runs=7", 13, run(35), "slot");
}

/// It would wait at home as well. The mutation: let it go home, and simulated hackbench of four groups passes half of
/// the messages.
#[test]
fn a_task_stays_with_its_waker_where_nobody_at_home_is_idle() {
    let runs = |waker, home| WakeView {
        waker_run: Nanos::from_micros(waker),
        home_run: Nanos::from_micros(home),
        ..VIEW
    };
    for (view, expected) in [
        (runs(100, 1000), "slot"),
        (runs(100, 1001), "group 3"),
        (runs(4000, 1000), "slot"),
        (runs(4005, 1000), "group 3"),
        // Nothing is known of them.
        (runs(100, 0), "group 3"),
        // A waker without a slot, and somebody who is idle at home, or behind its cache.
        (
            WakeView {
                waker: None,
                ..runs(100, 1000)
            },
            "group 3",
        ),
        (
            WakeView {
                home_idle: GroupMask(0b0010),
                ..runs(100, 1000)
            },
            "group 3 (worker 13)",
        ),
        (
            WakeView {
                llc_has_idle: true,
                ..runs(100, 1000)
            },
            "group 3",
        ),
    ] {
        check(NODES, "default", 13, view, expected);
    }
    check(NODES, "short-busy=0ns", 13, runs(100, 1000), "group 3");
    check(NODES, "short-runs=0", 13, runs(100, 1000), "group 3");
    check(NODES, "short-busy=300us", 13, runs(100, 300), "slot");
    check(NODES, "short-busy=300us", 13, runs(100, 301), "group 3");
}

#[test]
fn what_home_is_like_matters_only_where_it_is_asked_for() {
    let mut rng = Rng::new(11);
    let mut unasked = 0;
    for machine in [NODES, LARGE, SIBLINGS] {
        let policy = policy(machine, "default");
        let workers = u32::try_from(policy.plan.workers.len()).unwrap();
        for _ in 0..20_000 {
            let mut task = task(&policy, u16::try_from(rng.below(workers)).unwrap());
            let (view, other) = (random_view(&mut rng, workers), random_view(&mut rng, workers));
            if policy.needs_home(&view, &task) {
                continue;
            }
            unasked += 1;
            let other_home = WakeView {
                home_idle: other.home_idle,
                home_queued: other.home_queued,
                home_oldest: other.home_oldest,
                llc_util: other.llc_util,
                llc_has_idle: other.llc_has_idle,
                ..view
            };
            let answer = |view: &WakeView, task: &mut TaskPolicy| policy.place_wake(view, task, &mut Rng::new(3));
            let expected = answer(&view, &mut task.clone());
            assert_eq!(answer(&other_home, &mut task), expected, "{view:?}");
        }
    }
    assert!(unasked > 10_000, "{unasked}");
}

/// Who fills no view with groups off is told what [`Policy::place_wake`] and [`Policy::place_spawn`] would answer.
#[test]
fn without_groups_every_view_has_the_same_answer() {
    for (machine, workers) in [(ONE, 1), (NODES, 32), (LARGE, 512)] {
        let policy = policy(machine, "groups=off");
        let mut rng = Rng::new(19);
        for _ in 0..2_000 {
            let view = random_view(&mut rng, workers);
            let before = task(&policy, u16::try_from(rng.below(workers)).unwrap());
            let (mut after, mut drawn_from) = (before, rng);
            let (woken, _) = policy.place_wake(&view, &mut after, &mut drawn_from);
            assert_eq!(
                woken,
                Policy::wake_without_groups(view.waker, view.yielded),
                "{machine} {view:?}"
            );
            let spawn = SpawnView {
                node_running: rng.below(9),
                most_idle: (NodeId(1), rng.below(9)),
                idle_llc: (rng.below(2) == 0).then_some(LlcId(1)),
                ..SpawnView::new(view.waker)
            };
            drawn_from = rng;
            let spawned = policy.place_spawn(&spawn, &mut after, &mut drawn_from);
            assert_eq!(spawned, Policy::spawn_without_groups(view.waker), "{machine} {spawn:?}");
            assert_eq!((after, drawn_from), (before, rng));
        }
    }
}

/// What is said to stay without a view stays with every view, for the same reason, and leaves everything else as it is.
#[test]
fn what_stays_with_its_waker_does_so_whatever_there_is_to_see() {
    for (machine, workers, config) in [
        (NODES, 32, "default"),
        (NODES, 32, "short-runs=0"),
        (NODES, 32, "aggregation=off"),
        (PAIR, 2, "groups=on"),
        (NODES, 32, "adversary=random"),
    ] {
        let policy = policy(machine, config);
        let mut rng = Rng::new(13);
        let mut seen = [0, 0, 0];
        for _ in 0..20_000 {
            let view = random_view(&mut rng, workers);
            let before = task(&policy, u16::try_from(rng.below(workers)).unwrap());
            let Some(waker) = view.waker else { continue };
            let slot_is_free = || view.slot_empty || view.home_idle.is_empty();
            let stays = if view.yielded {
                policy.yields_stay()
            } else {
                policy.stays_with_waker(waker, &before, slot_is_free)
            };
            if !stays {
                continue;
            }
            let expected = if view.yielded {
                Placement::Deque
            } else {
                Placement::Slot
            };
            let (mut after, mut drawn_from) = (before, rng);
            let answer = policy.place_wake(&view, &mut after, &mut drawn_from);
            assert_eq!(answer, (expected, Reason::Waker), "{config} {view:?}");
            assert_eq!((after, drawn_from), (before, rng));
            let kind = match (view.yielded, view.slot_empty) {
                (false, true) => 0,
                (true, _) => 1,
                (false, false) => 2,
            };
            seen[kind] += 1;
        }
        let random = config.starts_with("adversary");
        assert_eq!(seen[1] > 1000, !random, "{config}");
        assert_eq!(seen[0] > 50, !random && !policy.aggregates(), "{config}");
        assert_eq!(seen[2] > 5, !random && !policy.aggregates(), "{config}");
    }
}

#[test]
fn what_stays_because_it_is_short_does_so_whatever_there_is_to_see() {
    let mut rng = Rng::new(17);
    for (machine, workers, config) in [(NODES, 32, "aggregation=off"), (PAIR, 2, "groups=on")] {
        let policy = policy(machine, config);
        let mut seen = 0;
        for _ in 0..5000 {
            let view = random_view(&mut rng, workers);
            let mut task = task(&policy, u16::try_from(rng.below(workers)).unwrap());
            if view.waker.is_some()
                && !view.yielded
                && policy.stays_as_short(view.waker_run, view.home_run, view.wake_cost)
            {
                let answer = policy.place_wake(&view, &mut task, &mut Rng::new(1));
                assert_eq!(answer, (Placement::Slot, Reason::Waker), "{config} {view:?}");
                seen += 1;
            }
        }
        assert!(seen > 50, "{config}: {seen}");
    }
    let sets = policy(NODES, "aggregation=on");
    assert!(
        !sets.stays_as_short(Nanos(1), Nanos(1), Nanos(5000)),
        "a set may pull it"
    );
}
