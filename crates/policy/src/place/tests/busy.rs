//! Wakes of tasks whose home is busy: who else is looked for, and what policies 2 and 4 say to that.

use super::*;

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
    let (answer, _) = policy.place_wake(&view, &mut task, &mut Rng::new(1));
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
fn nobody_waits_for_long_beside_an_idle_worker() {
    let policy = policy(NODES, "cap=fixed:1");
    let mut rng = Rng::new(7);
    let mut seen = 0;
    for _ in 0..50_000 {
        // A task that does not wait at home at all is not what this is about.
        let view = WakeView {
            waker_run: Nanos(0),
            home_run: Nanos(0),
            ..random_view(&mut rng, 32)
        };
        let mut task = task(&policy, 13);
        (task.used, task.window) = (200, policy.new_task(None, SetId::NONE).window);
        let waits = view.home_queued > 0 && view.home_oldest >= policy.config.skip.max_age;
        let stays = view.yielded && view.waker.is_some() || view.waker == Some(task.home_worker);
        if waits && view.llc_has_idle && view.home_idle.is_empty() && !stays {
            let (answer, _) = policy.place_wake(&view, &mut task, &mut rng);
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
            waker_run: Nanos(0),
            home_run: Nanos(0),
            home_idle: GroupMask(0),
            yielded: false,
            coupling: CouplingView::default(),
            ..random_view(&mut rng, 512)
        };
        let mut task = task(&policy, 13);
        (task.used, task.window) = (200, Tick(u32::try_from(view.now.0 / 1_000_000).unwrap()));
        let (answer, reason) = policy.place_wake(&view, &mut task, &mut rng);
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
        policy.place_wake(&view, &mut task, &mut Rng::new(1)).1
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
