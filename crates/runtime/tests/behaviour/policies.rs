//! Policies at work on machines of 16, 64 and 256 workers: for each a scenario in which its counters move as it says,
//! and the same scenario with it switched off.

use std::error::Error;

use quadrille::metrics::WorkerMetrics;
use quadrille::policy::{Cause, Config, Level, Plan, Policy};
use quadrille::topology::Topology;
use quadrille::{Runtime, spawn};

use crate::stage::Stage;
use crate::wait::{eventually, watched};

/// A machine, with the workers of one of its last-level caches.
pub(crate) struct Machine {
    pub(crate) text: &'static str,
    /// Its workers.
    pub(crate) workers: usize,
    /// Those of its first cache.
    pub(crate) llc: usize,
}

/// Groups of 4 cores that share an L2.
pub(crate) const MACHINES: [Machine; 3] = [
    Machine {
        text: "llc:2 l2:2 core:4",
        workers: 16,
        llc: 8,
    },
    Machine {
        text: "node:2 llc:2 l2:4 core:4",
        workers: 64,
        llc: 16,
    },
    Machine {
        text: "node:4 llc:4 l2:4 core:4",
        workers: 256,
        llc: 16,
    },
];

/// How a scenario ended.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// As it should.
    Shown,
    /// A busy machine took so long to run the worker that was claimed that another came to the rescue: it has shown
    /// nothing.
    Overtaken,
}

/// Times that a scenario may be overtaken.
const OVERTAKEN_MAX: usize = 20;

/// Runs `scenario` with a stage until it has shown something.
fn until_shown(machine: &str, config: &str, scenario: impl Fn(Stage) -> End) {
    let shown = (0..OVERTAKEN_MAX).any(|_| scenario(Stage::new(machine, config)) == End::Shown);
    assert!(shown, "overtaken {OVERTAKEN_MAX} times");
}

/// Whether anybody came to the rescue so far.
fn is_overtaken(stage: &Stage) -> bool {
    let total = stage.total();
    moves(&total, Cause::Rescue) + moves(&total, Cause::Steal) > 0
}

/// Runs `scenario` on every machine, with each configuration: the first has the policy on, the second is the control.
/// Tasks run for next to nothing here; so that they go home, that is left out of account unless the configuration
/// speaks of it.
pub(crate) fn for_each_machine(on: &'static str, off: &'static str, scenario: fn(&Machine, Stage, bool) -> End) {
    for_each_of(&MACHINES, on, off, scenario);
}

/// As [`for_each_machine`], on other machines.
pub(crate) fn for_each_of(
    machines: &'static [Machine],
    on: &'static str,
    off: &'static str,
    scenario: fn(&Machine, Stage, bool) -> End,
) {
    for machine in machines {
        for (config, is_on) in [(on, true), (off, false)] {
            let name = format!("{}, {config}", machine.text);
            let account = if config.contains("short-runs") {
                ""
            } else {
                ",short-runs=0"
            };
            let config = format!("{config}{account}");
            watched(&name, move || {
                until_shown(machine.text, &config, |stage| scenario(machine, stage, is_on));
            });
        }
    }
}

pub(crate) fn moves(metrics: &WorkerMetrics, cause: Cause) -> u64 {
    [Level::Group, Level::Llc, Level::Node, Level::Machine]
        .into_iter()
        .map(|level| metrics.moves(cause, level))
        .sum()
}

/// Policy 1: a member queues in the group under its lock, others through its mailbox, and the task runs there. Without
/// it the task stays with its waker, and runs elsewhere.
#[test]
fn wakes_are_queued_in_groups() {
    for_each_machine("groups=on", "groups=off", |machine, mut stage, on| {
        // All are held. The second worker's task is woken from another cache, the fourth's by a member of its group.
        let far = machine.workers - 1;
        for (waker, home, direct) in [(far, 1, 0), (2, 3, 1)] {
            let wake = stage.wake(waker, home);
            assert_eq!(wake.counted(|c| c.wakes_direct), if on { direct } else { 0 });
            assert_eq!(wake.counted(|c| c.wakes_mailbox), if on { 1 - direct } else { 0 });
            assert_eq!(wake.counted(|c| c.wakes_self), u64::from(!on));
            assert_eq!(wake.counted(|c| c.unparks), 0, "nobody is idle");
        }
        if on {
            // A member that comes finds both.
            stage.let_go(&[1]);
            assert_eq!((stage.ran(1, 2), stage.ran(3, 2)), (1, 1));
            let total = stage.total();
            assert_eq!(total.moves(Cause::Wake, Level::Group), 1, "the fourth's to the second");
            assert_eq!(
                total.migrations_llc + total.migrations_node + total.migrations_machine,
                0
            );
        } else {
            stage.let_go(&[far]);
            assert_eq!(stage.ran(1, 2), far);
            stage.let_go(&[2]);
            stage.ran(3, 2);
            let total = stage.total();
            assert!(total.migrations_node + total.migrations_machine > 0, "to its waker");
        }
        End::Shown
    });
}

/// Policy 1: a task that runs for less than waking somebody is worth stays with its waker, wherever its home is.
#[test]
fn short_tasks_stay_with_their_waker() {
    for_each_machine("short-runs=1000", "short-runs=0", |machine, mut stage, on| {
        let far = machine.workers - 1;
        // So many that their runs are what is known of two workers, not how long they were held.
        let home = stage.settle(1, 100)[99];
        stage.settle(far, 100);
        let wake = stage.wake(far, home);
        assert_eq!(wake.counted(|c| c.wakes_self), u64::from(on));
        assert_eq!(wake.counted(|c| c.wakes_mailbox), u64::from(!on));
        let free = if on { far } else { 1 };
        stage.let_go(&[free]);
        assert_eq!(stage.ran(home, 2), free);
        End::Shown
    });
}

/// Policy 1: what a group can't take goes to the queue of its cache, where others take it without the group's lock.
#[test]
fn long_queues_overflow_into_the_cache() {
    for_each_machine(
        "groups=on,overflow=1",
        "groups=on,overflow=9",
        |machine, mut stage, on| {
            let far = machine.workers - 1;
            let overflow: Vec<u64> = stage
                .settle(2, 7)
                .iter()
                .map(|home| stage.wake(far, *home).counted(|c| c.wakes_overflow))
                .collect();
            // One task a member, and one more.
            assert_eq!(overflow, [0, 0, 0, 0, 0, u64::from(on), u64::from(on)]);
            End::Shown
        },
    );
}

/// Policy 1: nobody of a group comes, and the task runs all the same, at the rescue age.
#[test]
fn a_group_that_is_stuck_is_rescued() {
    for_each_machine(
        "groups=on,cap=fixed,cap-light-load=0",
        "groups=off",
        |machine, mut stage, on| {
            let (far, free) = (machine.workers - 1, machine.llc - 1);
            let held: Vec<usize> = (0..machine.workers).filter(|worker| *worker != free).collect();
            stage.let_go_but(&held);
            let wake = stage.wake(far, 1);
            assert_eq!(
                wake.counted(|c| c.wakes_fit),
                u64::from(on),
                "its queue is short, so it stays"
            );
            assert_eq!(stage.ran(1, 2), free);
            let total = stage.total();
            assert_eq!(total.moves(Cause::Rescue, Level::Llc), 1);
            assert_eq!(moves(&total, Cause::Wake), 0);
            End::Shown
        },
    );
}

/// Policy 2: a cache whose workers are all busy but one is not searched; without it a waker looks at two at random.
#[test]
fn a_busy_cache_is_not_searched() {
    for_each_machine("filter=on,cap=off", "filter=off,cap=off", |machine, mut stage, on| {
        let (far, free) = (machine.workers - 1, machine.llc - 1);
        stage.let_go(&[free]);
        stage.load(0, |load| load.utilisation >= 880);
        let wake = stage.wake(far, 1);
        assert_eq!(wake.counted(|c| c.wakes_cut), u64::from(on));
        assert_eq!(wake.counted(|c| c.wakes_searched), u64::from(!on));
        assert_eq!(wake.counted(|c| c.probes), u64::from(!on));
        assert_eq!(stage.ran(1, 2), free, "it is rescued, or the probe met the free worker");
        let total = stage.total();
        assert_eq!(total.moves(Cause::Rescue, Level::Llc) + total.wakes_found, 1);
        End::Shown
    });
}

/// Policies 2 and 4 lose nothing at light load: whoever is woken, and has no idle worker at home, gets one elsewhere.
#[test]
fn light_load_finds_every_idle_worker() {
    // As above: the claimed worker is to come first.
    const ON: &str = "group=2,sentinel=30ms,rescue-any=30ms,rescue-llc=30ms";
    for_each_machine(ON, "groups=off", |machine, mut stage, on| {
        let far = machine.workers - 1;
        stage.let_go_but(&[0, 1, far]);
        if on {
            stage.load(0, |load| load.utilisation < 300);
        }
        for home in [0, 1] {
            let wake = stage.wake(far, home);
            assert_eq!(wake.counted(|c| c.wakes_searched), u64::from(on));
            assert_eq!(wake.counted(|c| c.wakes_found), u64::from(on));
            assert_eq!(wake.counted(|c| c.wakes_cut + c.wakes_capped + c.wakes_fit), 0);
            let ran_on = stage.ran(home, 2);
            if on && is_overtaken(&stage) {
                return End::Overtaken;
            }
            assert!(!on || ran_on < machine.llc, "in the home cache: {ran_on}");
        }
        let total = stage.total();
        assert_eq!(total.moves(Cause::Wake, Level::Llc), if on { 2 } else { 0 });
        End::Shown
    });
}

/// Policy 4: a task that was moved as often as it may stays where it is until it has waited for too long.
#[test]
fn a_task_moves_no_more_often_than_the_cap_says() {
    // Rescues come late enough not to overtake a worker that was claimed.
    const ON: &str = "group=2,cap=fixed:1:1s,cap-light-load=0,cap-fits=0,filter-light-load=1024,\
                      sentinel=30ms,rescue-any=30ms,rescue-llc=30ms";
    const OFF: &str = "group=2,cap=off,cap-light-load=0,cap-fits=0,filter-light-load=1024,\
                       sentinel=30ms,rescue-any=30ms,rescue-llc=30ms";
    for_each_machine(ON, OFF, |machine, mut stage, on| {
        // The waker is held all the time, so that its clock stands still: one window.
        let far = machine.workers - 1;
        stage.let_go_but(&[0, 1, far]);
        stage.load(0, |load| load.utilisation < 1000);
        let wake = stage.wake(far, 0);
        assert_eq!(wake.counted(|c| c.wakes_found), 1, "the first move is free");
        let moved_to = stage.ran(0, 2);
        if is_overtaken(&stage) {
            return End::Overtaken;
        }
        assert!((2..machine.llc).contains(&moved_to));
        let home = [moved_to & !1, moved_to | 1];
        stage.hold(&home);
        let wake = stage.wake(far, 0);
        assert_eq!(wake.counted(|c| c.wakes_capped), u64::from(on));
        assert_eq!(wake.counted(|c| c.wakes_found), u64::from(!on));
        // The cap delays, it does not hold: home is stuck all the time.
        assert!(!home.contains(&stage.ran(0, 3)));
        if !on && is_overtaken(&stage) {
            return End::Overtaken;
        }
        let total = stage.total();
        assert_eq!(moves(&total, Cause::Wake), if on { 1 } else { 2 });
        assert_eq!(is_overtaken(&stage), on);
        End::Shown
    });
}

/// Policy 7: who is idle is left asleep if the work would wait for less time than waking takes.
#[test]
fn wakes_that_do_not_pay_are_left_out() {
    // The sentinel finds what is left, but not before it has been counted. Waking costs so much that on a busy machine,
    // too, tasks run for less.
    const ON: &str =
        "wake-cost=on,wake-cost-most=1ms,wake-cost-least=1ms,cap=off,aggregation=off,numa=off,sentinel=30ms";
    const OFF: &str =
        "wake-cost=off,wake-cost-most=1ms,wake-cost-least=1ms,cap=off,aggregation=off,numa=off,sentinel=30ms";
    for_each_machine(ON, OFF, |machine, mut stage, on| {
        let (home, free) = (1, machine.workers - 1);
        let next = stage.settle(home, 1)[0];
        stage.work(home, 2000);
        stage.let_go(&[free]);
        let rescues = stage.total().rescues;
        // The first is what the home worker runs next, the second is more than that.
        let first = stage.wake(home, home);
        let wake = stage.wake(home, next);
        if first.counted(|c| c.unparks) > 0 || wake.counted(|c| c.unparks + c.unparks_suppressed) != 1 {
            // The idle worker had not gone to sleep yet, or was just having a look, or slept again before it was
            // counted.
            return End::Overtaken;
        }
        assert_eq!(wake.counted(|c| c.unparks), u64::from(!on));
        assert_eq!(wake.counted(|c| c.unparks_suppressed), u64::from(on));
        assert_eq!(stage.ran(next, 2), free);
        assert!(!on || stage.total().rescues > rescues, "the sentinel came");
        End::Shown
    });
}

/// Policy 5: workers add to the sums of their cache before they park and once an interval, not at each change.
#[test]
fn counts_are_published_lazily() {
    for machine in &MACHINES {
        for lazy in [true, false] {
            let config = if lazy { "lazy=on,lazy-interval=1s" } else { "lazy=off" };
            watched(&format!("{}, {config}", machine.text), move || {
                let runtime = Runtime::builder()
                    .worker_threads(machine.workers)
                    .topology(machine.text.parse().unwrap())
                    .config(config.parse().unwrap())
                    .build()
                    .unwrap();
                drop(runtime.spawn(std::future::pending::<()>()));
                spawn_often(&runtime);
                eventually("all have parked, and said what they did", || {
                    let metrics = runtime.metrics();
                    let rest = metrics.llcs.iter().all(|llc| llc.running == 0) && metrics.live_tasks == Some(1);
                    metrics.idle_workers as usize == machine.workers && rest
                });
                let metrics = runtime.metrics();
                assert!(metrics.llcs.iter().any(|llc| llc.busy_ns > 0));
                let total = metrics.total();
                // Tasks and busy time when a worker parks, which it does after a search that failed, and that it is
                // busy when it goes back to work.
                let parks = 3 * (total.searches_failed + 2 * machine.workers as u64);
                assert_eq!(total.publications <= parks, lazy, "{total:?}");
            });
        }
    }
}

/// Few tasks that make very many: each that is made or ends is a change.
fn spawn_often(runtime: &Runtime) {
    runtime
        .block_on(runtime.spawn(async {
            let tasks: Vec<_> = (0..4)
                .map(|_| {
                    spawn(async {
                        for _ in 0..2_500 {
                            drop(spawn(async {}));
                            quadrille::task::yield_now().await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        }))
        .unwrap();
}

/// A worker whose sibling is idle too goes before one whose core is half busy, wherever the search begins.
#[test]
fn whole_idle_cores_go_first() {
    for machine in [
        "llc:1 l2:4 core:2 pu:2",
        "node:2 llc:2 l2:4 core:2 pu:2",
        "node:4 llc:4 l2:4 core:2 pu:2",
    ] {
        for whole in [true, false] {
            watched(machine, move || {
                let config =
                    "short-runs=0,cap=off,filter-light-load=1024,sentinel=30ms,rescue-any=30ms,rescue-llc=30ms";
                until_shown(machine, config, |mut stage| {
                    // The fifth worker's sibling is held; the eleventh's is not, or is in the control.
                    stage.let_go(if whole { &[4, 10, 11] } else { &[4, 10] });
                    stage.load(0, |load| load.utilisation < 1000);
                    let wake = stage.wake(15, 1);
                    assert_eq!(wake.counted(|c| c.wakes_found), 1);
                    let ran_on = stage.ran(1, 2);
                    if is_overtaken(&stage) {
                        return End::Overtaken;
                    }
                    let expected: &[usize] = if whole { &[10, 11] } else { &[4, 10] };
                    assert!(expected.contains(&ran_on), "{ran_on}");
                    End::Shown
                });
            });
        }
    }
}

/// The table in docs/policies.md has every constant.
#[test]
fn every_constant_has_its_place_in_the_documentation() {
    let table: Vec<&str> = include_str!("../../../../docs/policies.md")
        .lines()
        .filter(|line| line.starts_with('|'))
        .collect();
    let error = "no-name=1".parse::<Config>().expect_err("a wrong name").to_string();
    let (_, names) = error.split_once("expected one of ").expect("a list of names");
    let missing = |name: &&str| !table.iter().any(|line| line.contains(&format!("`{name}`")));
    let missing: Vec<&str> = names.split(", ").filter(missing).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Whether a policy is on by itself, by what its row in docs/policies.md says.
fn says_on(condition: &str, plan: &Plan, groups: bool) -> bool {
    let (several_workers, several_llcs) = (plan.workers.len() > 4, plan.llcs.len() > 1);
    match condition {
        "more than 4 workers in more than one group, two of them behind one LLC" => {
            let shared = plan.llcs.iter().any(|llc| llc.workers.len() > 1);
            several_workers && plan.groups.len() > 1 && shared
        }
        "policy 1" => groups,
        "policy 1, with more than one LLC" => groups && several_llcs,
        "more than 4 workers" => several_workers,
        "more than one LLC" => several_llcs,
        "2 to 4 workers, with one LLC" => (2..=4).contains(&plan.workers.len()) && !several_llcs,
        "always" => true,
        _ => panic!("{condition:?} in docs/policies.md, expected a condition that this test knows"),
    }
}

#[test]
fn the_documentation_says_which_policies_are_on_by_themselves() {
    let table = include_str!("../../../../docs/policies.md");
    for (machine, config) in [
        ("pu:1", "default"),
        ("core:4", "default"),
        ("node:2 core:2", "default"),
        ("llc:2 core:2", "default"),
        ("core:5", "default"),
        ("core:5", "group=8"),
        ("l2:2 core:4", "default"),
        ("llc:2 core:4", "default"),
        ("llc:8 core:1", "default"),
        ("llc:8 core:1 pu:2", "default"),
        ("llc:2 l2:8", "default"),
        ("node:2 llc:2 core:4", "default"),
    ] {
        let config: Config = config.parse().unwrap();
        let plan = Plan::compile(&machine.parse().unwrap(), &config.plan_options(None)).unwrap();
        let active = Policy::new(config, plan.clone()).active();
        for (row, on) in [
            ("1 grouped wake queues", active.wake_groups),
            ("2 idle filter", active.idle_filter),
            ("3 aggregation", active.aggregation),
            ("4 migration cap", active.migration_cap),
            ("5 lazy counters", active.lazy_counters),
            ("6 NUMA tolerance", active.numa),
            ("search gates", active.gates),
            ("cost-aware wake", active.wake_cost),
            ("[one worker alone](#one-worker-alone)", active.solo),
        ] {
            let mut rows = table.lines().filter(|line| line.starts_with(&format!("| {row} |")));
            let line = rows.next().expect(row);
            let condition = line.trim_end_matches([' ', '|']).rsplit('|').next().expect(row).trim();
            assert_eq!(
                says_on(condition, &plan, active.wake_groups),
                on,
                "{row} on {machine}: {condition}"
            );
        }
    }
}

#[test]
fn the_report_names_policies_that_need_groups_and_have_none() {
    let report = |config: &str| {
        let runtime = Runtime::builder()
            .worker_threads(2)
            .topology("core:2".parse().unwrap())
            .config(config.parse().unwrap())
            .build()
            .unwrap();
        runtime.handle().report().to_owned()
    };
    let without = report("filter=on,cap=fixed");
    assert!(
        without.ends_with("; without groups nothing asks for filter, cap"),
        "{without}"
    );
    let with = report("groups=on,filter=on,cap=fixed");
    assert!(!with.contains("groups"), "{with}");
}

/// Wrong constants are one clear error when the runtime is built.
#[test]
fn wrong_constants_are_refused() {
    let refused = |config: Config| {
        let machine: Topology = MACHINES[0].text.parse().unwrap();
        let built = Runtime::builder()
            .worker_threads(16)
            .topology(machine)
            .config(config)
            .build();
        let error = built.expect_err("a wrong constant");
        let cause = error.source().map(ToString::to_string).unwrap_or_default();
        format!("{error}: {cause}")
    };
    let mut config = Config::default();
    config.wake_groups.map = Some("0-3/4-7".parse().unwrap());
    let message = refused(config);
    assert!(
        message.contains("worker 8 is in no group: expected all 16"),
        "{message}"
    );
    let mut config = Config::default();
    config.idle_filter.mask_below = 2000;
    let message = refused(config);
    assert!(
        message.contains("idle_filter.mask_below is 2000, expected 0 to 512"),
        "{message}"
    );
}
