//! A wake-up touches as many shared cache lines on 256 workers as on 4: counted in the code path (`lines`), on a scheduler
//! whose workers are not started, so that each is what the test says it is.

use std::cell::{Cell, RefCell};

use quadrille_policy::{Nanos, Plan, ProbeRate, Rng, SetId, WorkerId};

use super::bound::Living;
use super::context::Context;
use super::load::OwnLoad;
use super::queue::bound::BoundFifo;
use super::still::Still;
use super::{Shared, schedule};
use crate::lines;
use crate::primitives::Ordering;
use crate::task::Runnable;
use crate::task::meta::LastWorker;
use crate::task::spawn::{Options, allocate};
use crate::thread::roll::Places;

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
    idle: fn(&Plan, WorkerId) -> bool,
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
    let mut task = shared.new_policy(Some(WorkerId(0)), SetId::NONE);
    shared.policy.ran(&mut task, WorkerId(0));
    let (runnable, handle) = allocate(shared, task, Options::default(), async {});
    drop(handle);
    // SAFETY: we hold the runnable (rule 1 of `task`).
    unsafe { runnable.meta().last_worker() }.set(LastWorker::ran_on(WorkerId(0)));
    runnable
}

/// Shared lines touched by a wake-up of worker 0's task.
fn lines_of(machine: &str, case: &Case) -> usize {
    let mut still = Still::new(machine, case.config);
    let shared = still.shared.clone();
    let workers = u16::try_from(shared.worker_count()).unwrap();
    shared.workers[0].average_run.store(case.run, Ordering::Relaxed);
    let waker = case.waker.unwrap_or(workers - 1);
    let context = Context {
        shared: shared.clone(),
        id: WorkerId(waker),
        local: still.local(waker),
        rng: Cell::new(Rng::new(7)),
        now: Cell::new(Nanos::from_millis(5)),
        load: OwnLoad::default(),
        probe_rate: Cell::new(ProbeRate::default()),
        average_run: Cell::new(Nanos(case.run)),
        set: Cell::new(SetId::NONE),
        task: Cell::new(0),
        wakees: RefCell::default(),
        bound: BoundFifo::new(),
        living: Living::default(),
        bound_last: Cell::new(None),
        left_alone: Cell::new(None),
        places: Places::default(),
        unwinding: Cell::new(false),
    };
    let others = (0..workers).filter(|worker| *worker != waker);
    others
        .filter(|worker| (case.idle)(&shared.policy.plan, WorkerId(*worker)))
        .for_each(|worker| still.announce(worker));
    let entered = context.enter();
    let lines = lines::count(|| schedule(ready(&shared), false));
    drop(entered);
    drop((context.me().slot.take(), context.local.pop()));
    lines
}

#[test]
fn a_wakeup_touches_no_more_lines_on_a_larger_machine() {
    for case in CASES {
        let config = case.config;
        // Two groups of 2 in each cache, then 4 of 4. Several caches share one word more than one.
        for (smallest, larger) in [
            ("l2:2 core:2", ["l2:4 core:4", "llc:1 l2:64 core:4"]),
            (
                "llc:2 l2:2 core:2",
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
