//! What policies say to workers without work, on machines of 16, 64 and 256 workers: for each a scenario in which its
//! counters move as it says, and the same scenario with it switched off.

use quadrille::metrics::WorkerMetrics;
use quadrille::policy::{Cause, Level};

use crate::policies::{End, Machine, for_each_machine, for_each_of, moves};
use crate::stage::Stage;

/// Machines of several nodes with one cache each: how many tasks a node tolerates is a share of its workers.
const NODES: [Machine; 3] = [
    Machine {
        text: "node:2 llc:1 l2:2 core:4",
        workers: 16,
        llc: 8,
    },
    Machine {
        text: "node:2 llc:1 l2:8 core:4",
        workers: 64,
        llc: 32,
    },
    Machine {
        text: "node:4 llc:1 l2:16 core:4",
        workers: 256,
        llc: 64,
    },
];

/// How far the last worker of a machine is from the first.
fn far(machine: &Machine) -> Level {
    if machine.text.contains("node") {
        Level::Machine
    } else {
        Level::Node
    }
}

/// Policy 7: a worker that has found little behind other caches does not look there in its first search, whatever it
/// was woken for; one that has found much does, as without the policy. Before it sleeps it looks everywhere all the
/// same, and the search after that asks no gate.
#[test]
fn caches_where_little_was_found_are_looked_at_seldom() {
    const LITTLE: &str = "gates=on,gate-start=0,skip-count=10,aggregation=off,numa=off,wake-cost=off,sentinel=100ms";
    const MUCH: &str = "gates=on,gate-start=1023,skip-count=10,aggregation=off,numa=off,wake-cost=off,sentinel=100ms";
    const OFF: &str = "gates=off,gate-start=0,skip-count=10,aggregation=off,numa=off,wake-cost=off,sentinel=100ms";
    for_each_machine(LITTLE, OFF, check_gates);
    for_each_machine(LITTLE, MUCH, check_gates);
}

/// The last worker has one task to spare after the other, and the first is woken for it, while all others are busy.
fn check_gates(machine: &Machine, mut stage: Stage, closed: bool) -> End {
    const ROUNDS: u64 = 8;
    stage.let_go(&[0]);
    let before = stage.total();
    for _ in 0..ROUNDS {
        stage.make(machine.workers - 1, 1).all_ended();
        stage.settled();
    }
    let after = stage.total();
    if moves(&after, Cause::Rescue) > moves(&before, Cause::Rescue) {
        return End::Overtaken;
    }
    // One search fails before the worker sleeps again, whatever the gates say, and one at a closed gate: unless it had
    // yet to look before it sleeps when the task was made.
    let failed = after.searches_failed - before.searches_failed;
    assert_eq!(failed >= ROUNDS + ROUNDS / 2, closed, "{failed} searches");
    assert!(failed <= 2 * ROUNDS + ROUNDS / 2, "{failed} searches");
    let useless = after.useless_unparks - before.useless_unparks;
    assert_eq!(useless >= ROUNDS / 2, closed, "{useless}");
    let stolen = |total: &WorkerMetrics| total.moves(Cause::Steal, far(machine));
    assert_eq!(stolen(&after) - stolen(&before), ROUNDS);
    End::Shown
}

/// Searches of a thief that was told to leave what it found, at least: each is a skip, however many caches there are,
/// and so many make it take the task.
const SKIPPED_MIN: u64 = 240;

/// The last worker has a task to spare and so many on the first node are idle, all others busy; one is woken for it.
/// Checks whether it is told to leave the task.
fn check_left(machine: &Machine, mut stage: Stage, idle: usize, left: bool) -> End {
    let last = machine.workers - 1;
    let spare = stage.settle(last, 1)[0];
    let thieves: Vec<usize> = (0..idle).collect();
    stage.let_go(&thieves);
    let before = stage.total();
    let first = stage.wake(last, spare);
    assert_eq!(first.counted(|c| c.wakes_self), 1);
    let wake = stage.wake(last, last);
    assert_eq!(
        wake.counted(|c| c.wakes_self),
        1,
        "it runs next, and the other is to spare"
    );
    let ran_on = stage.ran(spare, 2);
    stage.settled();
    let after = stage.total();
    if first.counted(|c| c.unparks) > 0 || wake.counted(|c| c.unparks) == 0 || moves(&after, Cause::Rescue) > 0 {
        // They had not gone to sleep yet, or the sentinel was just having a look.
        return End::Overtaken;
    }
    assert!(thieves.contains(&ran_on), "{ran_on}");
    assert_eq!(after.moves(Cause::Steal, far(machine)), 1);
    let failed = after.searches_failed - before.searches_failed;
    assert_eq!(failed >= SKIPPED_MIN, left, "{failed} searches");
    End::Shown
}

/// Policy 6: of two places the one with up to two idle workers more is no better, and what waits in the other is left
/// there. Past that are three, the thief included.
#[test]
fn small_imbalances_are_not_stolen() {
    const ON: &str = "numa=on,numa-steal-after=0ns,sets-steal-after=0ns,skip-count=240,aggregation=off,gates=off,\
                      wake-cost=off,cap=off,sentinel=1s,skip-age=1s";
    const OFF: &str = "numa=off,numa-steal-after=0ns,sets-steal-after=0ns,skip-count=240,aggregation=off,gates=off,\
                       wake-cost=off,cap=off,sentinel=1s,skip-age=1s";
    for_each_machine(ON, OFF, |machine, stage, on| check_left(machine, stage, 2, on));
    for_each_machine(ON, OFF, |machine, stage, _| check_left(machine, stage, 3, false));
}

/// Policy 6: a node keeps as many tasks as it tolerates, here as many as it has workers, or an eighth of them.
#[test]
fn nodes_keep_what_they_tolerate() {
    const ON: &str = "numa=on,numa-div=1,numa-steal-after=0ns,skip-count=240,aggregation=off,gates=off,\
                      wake-cost=off,cap=off,sentinel=1s,skip-age=1s";
    const OFF: &str = "numa=off,numa-div=1,numa-steal-after=0ns,skip-count=240,aggregation=off,gates=off,\
                       wake-cost=off,cap=off,sentinel=1s,skip-age=1s";
    const PAST: &str = "numa=on,numa-div=8,numa-steal-after=0ns,skip-count=240,aggregation=off,gates=off,\
                        wake-cost=off,cap=off,sentinel=1s,skip-age=1s";
    for_each_of(&NODES, ON, OFF, |machine, stage, on| check_left(machine, stage, 4, on));
    for_each_of(&NODES, ON, PAST, |machine, stage, tolerated| {
        check_left(machine, stage, 4, tolerated)
    });
}
