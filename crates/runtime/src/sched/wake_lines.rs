//! A wake-up touches as many shared cache lines on 256 workers as on 4, and so does a spawn: counted in the code path
//! (`lines`), on a scheduler whose workers are not started, so that each is what the test says it is.

use quadrille_policy::{Nanos, Plan, Rng, SetId, Share, TaskPolicy, WorkerId};

use super::context::Context;
use super::still::Still;
use super::{Shared, schedule};
use crate::lines;
use crate::primitives::Ordering;
use crate::task::Runnable;
use crate::task::meta::LastWorker;
use crate::task::spawn::{Options, allocate};

/// Whether a worker is idle.
type IsIdle = fn(&Plan, WorkerId) -> bool;

/// Who is what when the task of worker 0 is woken.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    config: &'static str,
    /// `None`: the last worker of all.
    waker: Option<u16>,
    /// Average run of worker 0's tasks, ns; zero: unknown.
    run: u64,
    /// Which workers are idle.
    idle: IsIdle,
}

fn nobody(_plan: &Plan, _worker: WorkerId) -> bool {
    false
}

fn other_groups(plan: &Plan, worker: WorkerId) -> bool {
    plan.workers[worker.index()].group.index() != 0
}

const CASES: [Case; 8] = [
    Case {
        name: "by its home worker",
        config: "groups=on",
        waker: Some(0),
        run: 0,
        idle: nobody,
    },
    Case {
        name: "by a member, home idle",
        config: "groups=on",
        waker: Some(1),
        run: 0,
        idle: |_, worker| worker == WorkerId(0),
    },
    Case {
        name: "by a member, nobody idle",
        config: "groups=on",
        waker: Some(1),
        run: 0,
        idle: nobody,
    },
    Case {
        name: "by another, home idle",
        config: "groups=on",
        waker: None,
        run: 0,
        idle: |_, worker| worker == WorkerId(0),
    },
    Case {
        name: "the same, but it runs for next to nothing",
        config: "groups=on",
        waker: None,
        run: 1,
        idle: |_, worker| worker == WorkerId(0),
    },
    Case {
        name: "by another, home busy and others idle",
        config: "groups=on,cap=off,filter=on",
        waker: None,
        run: 0,
        idle: other_groups,
    },
    Case {
        name: "the same, kept by the cap",
        config: "groups=on,cap=fixed,cap-light-load=0",
        waker: None,
        run: 0,
        idle: other_groups,
    },
    Case {
        name: "by another, nobody idle",
        config: "groups=on",
        waker: None,
        run: 0,
        idle: nobody,
    },
];

/// A task that has run on worker 0 and is ready again.
fn ready(shared: &Shared) -> Runnable {
    ready_again(shared, at_home(shared, SetId::NONE))
}

/// The policy fields of a task of a set that has run on worker 0.
fn at_home(shared: &Shared, set: SetId) -> TaskPolicy {
    let mut task = shared.new_policy(Some(WorkerId(0)), set);
    shared.policy.ran(&mut task, WorkerId(0));
    task
}

fn ready_again(shared: &Shared, task: TaskPolicy) -> Runnable {
    let (runnable, handle) = allocate(shared, None, task, Options::default(), async {});
    drop(handle);
    runnable.last_worker().set(LastWorker::ran_on(WorkerId(0)));
    runnable
}

/// Shared lines touched by a wake-up of worker 0's task.
fn lines_of(machine: &str, case: &Case) -> usize {
    let mut still = Still::new(machine, case.config);
    let shared = still.shared.clone();
    let workers = u16::try_from(shared.worker_count()).unwrap();
    shared.workers[0].told.average_run.store(case.run, Ordering::Relaxed);
    let waker = case.waker.unwrap_or(workers - 1);
    let others = (0..workers).filter(|worker| *worker != waker);
    others
        .filter(|worker| (case.idle)(&shared.policy.plan, WorkerId(*worker)))
        .for_each(|worker| still.announce(worker));
    lines_by(&mut still, waker, |context| {
        context.average_run.set(Nanos(case.run));
        schedule(ready(&shared));
    })
}

/// Shared lines touched by what worker `number` does; it keeps nothing of it.
fn lines_by(still: &mut Still, number: u16, act: impl FnOnce(&Context)) -> usize {
    let now = Nanos::from_millis(5);
    let context = Context::new(
        still.shared.clone(),
        WorkerId(number),
        still.local(number),
        Rng::new(7),
        now,
    );
    let entered = context.enter();
    let lines = lines::count(|| act(&context));
    drop(entered);
    drop((context.me().slot.take(), context.local.pop()));
    lines
}

/// Which workers are idle while something is pushed into the injector of the first cache.
const IDLE: [(&str, IsIdle); 4] = [
    ("nobody", nobody),
    ("all but a few", |_, worker| worker.index() > 1),
    ("all of other caches", |plan, worker| {
        plan.workers[worker.index()].llc.index() != 0
    }),
    ("the last", |plan, worker| worker.index() + 1 == plan.workers.len()),
];

/// A scheduler of which these are idle.
fn still(machine: &str, config: &str, idle: IsIdle) -> Still {
    let still = Still::new(machine, config);
    let workers = u16::try_from(still.shared.worker_count()).unwrap();
    (0..workers)
        .filter(|worker| idle(&still.shared.policy.plan, WorkerId(*worker)))
        .for_each(|worker| still.announce(worker));
    still
}

/// Shared lines touched by a push into the injector of the first cache: a wake-up from outside, without groups.
fn lines_of_injector(machine: &str, idle: IsIdle) -> usize {
    let still = still(machine, "groups=off", idle);
    lines::count(|| schedule(ready(&still.shared)))
}

/// Shared lines touched by a spawn from outside.
fn lines_of_root(machine: &str, config: &str, idle: IsIdle) -> usize {
    let still = still(machine, config, idle);
    let task = still.task(0, SetId::NONE);
    lines::count(|| still.shared.spawn_foreign(task, None))
}

/// Shared lines touched by a spawn of worker 0.
fn lines_of_spawn(machine: &str, config: &str, idle: IsIdle) -> usize {
    let mut still = still(machine, config, idle);
    let task = still.task(0, SetId::NONE);
    lines_by(&mut still, 0, |context| context.spawn(task, None))
}

/// Of 4 workers, of 64 and of 256.
const SEVERAL_CACHES: [&str; 3] = [
    "node:2 llc:1 core:2",
    "node:2 llc:4 l2:2 core:4",
    "node:4 llc:8 l2:2 core:4",
];

#[test]
fn a_push_for_anyone_touches_no_more_lines_on_a_larger_machine() {
    for (name, idle) in IDLE {
        let injector = SEVERAL_CACHES.map(|machine| lines_of_injector(machine, idle));
        assert!(
            injector[1..].iter().all(|lines| *lines <= injector[0]),
            "{name} idle: {injector:?}"
        );
        for config in ["default", "numa=off", "groups=on,aggregation=off"] {
            let root = SEVERAL_CACHES.map(|machine| lines_of_root(machine, config, idle));
            // Two caches are looked at, which may be one of the small machine's.
            let most = root[0] + 2;
            assert!(
                root[1..].iter().all(|lines| *lines <= most),
                "{name} idle, {config}: {root:?}"
            );
        }
    }
}

#[test]
fn a_spawn_touches_no_more_lines_on_a_larger_machine() {
    for (name, idle) in IDLE {
        for config in ["default", "numa=off", "groups=on,aggregation=off"] {
            // Four caches a node are as many as are looked at; who is claimed may be behind another one.
            let machines = ["node:2 llc:4 core:2", "node:2 llc:4 core:8", "node:4 llc:16 core:4"];
            let lines = machines.map(|machine| lines_of_spawn(machine, config, idle));
            let most = lines[0] + 1;
            assert!(lines.iter().all(|n| *n <= most), "{name} idle, {config}: {lines:?}");
        }
    }
}

#[test]
fn a_wakeup_touches_no_more_lines_on_a_larger_machine() {
    for case in CASES {
        let config = case.config;
        // Two groups of 3 in each cache, then 4 of 4. Several caches share one word more than one.
        for (smallest, larger) in [
            ("l2:2 core:3", ["l2:4 core:4", "llc:1 l2:64 core:4"]),
            (
                "llc:2 l2:2 core:3",
                ["node:2 llc:2 l2:4 core:4", "node:4 llc:4 l2:4 core:4"],
            ),
        ] {
            let small = lines_of(smallest, &case);
            assert!((1..=20).contains(&small), "{}, {config}: {small} lines", case.name);
            for machine in larger {
                let lines = lines_of(machine, &case);
                assert!(
                    lines <= small,
                    "{} ({config}): {lines} lines on {machine}, {small} on {smallest}",
                    case.name
                );
            }
        }
    }
}

/// Shared lines touched by a wake-up of worker 0's task by the last worker, behind whose cache the task's set prefers
/// to be, or which has woken the task again and again.
fn lines_of_coupled(machine: &str, prefers: bool, idle: IsIdle) -> usize {
    // Whoever wakes for the first time is known here.
    let mut still = still(machine, "groups=on,sets-known-after=1", idle);
    let shared = still.shared.clone();
    let last = u16::try_from(shared.worker_count() - 1).unwrap();
    let llc = shared.policy.plan.workers[usize::from(last)].llc;
    let set = SetId::declared(5);
    let mut task = at_home(&shared, set);
    if prefers {
        let share = Share {
            number: set.number(),
            ns: 1_000,
            polls: 1,
        };
        let now = Nanos::from_millis(5);
        let (slot, _) = shared.sets.add(share, llc.index(), now).unwrap();
        slot.end_epoch(shared.llc_groups.len(), now, now, |mut known, _| {
            (known.policy.preferred, known.pulls) = (Some(llc), 9);
            known
        });
        assert_eq!(shared.sets.look(set).policy.preferred, Some(llc));
    } else {
        let wakes = shared.policy.config.aggregation.pull_after;
        let coupled = (0..=wakes)
            .filter(|_| shared.policy.couple(&mut task, WorkerId(last)))
            .count();
        assert!(coupled > 0);
    }
    let waker = if prefers { 1 } else { last };
    lines_by(&mut still, waker, |_| schedule(ready_again(&shared, task)))
}

/// A wake-up that might move to another cache looks at that one's count, and at those of the four that stand for its
/// node.
#[test]
fn a_wakeup_that_might_move_touches_no_more_lines_on_a_larger_machine() {
    for (name, idle) in IDLE {
        for prefers in [true, false] {
            // Of 16 workers, of 64 and of 256; the last has caches of two groups.
            let machines = ["node:2 llc:4 core:2", "node:2 llc:4 core:8", "node:4 llc:8 l2:2 core:4"];
            let lines = machines.map(|machine| lines_of_coupled(machine, prefers, idle));
            let most = lines[0] + 1;
            assert!(
                lines.iter().all(|n| *n <= most),
                "{name} idle, prefers {prefers}: {lines:?}"
            );
        }
    }
}

/// What the count is worth: a wake-up that claims touches more than one that does not.
#[test]
fn lines_are_counted() {
    let count = |name: &str| {
        let case = CASES.iter().find(|case| case.name == name).unwrap();
        lines_of("node:2 llc:2 l2:4 core:4", case)
    };
    assert!(count("by its home worker") < count("by a member, nobody idle"));
    assert!(count("by another, nobody idle") < count("by another, home idle"));
    assert!(count("the same, but it runs for next to nothing") < count("by another, nobody idle"));
}
