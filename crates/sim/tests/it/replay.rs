//! Decisions that the runtime made are made the same way by what the simulator asks.

use std::hint::black_box;

use quadrille::decisions::{self, Decision};
use quadrille::policy::{Placement, Policy, PullView, Search, SetPolicy, SetView};
use quadrille::{Builder, Pinning, Runtime};
use quadrille_sim::{Config, Cost, Counters, Hackbench, Machine, Model, Simulation};

/// What is run in the runtime, for its decisions.
type Work = fn(&Runtime);

/// Runs `work` on a machine that the runtime takes for the real one; returns what was decided.
fn decided(machine: &Machine, config: &Config, work: Work) -> Vec<Decision> {
    drop(decisions::take());
    let runtime = Builder::new()
        .topology(machine.topology().clone())
        .pinning(Pinning::None)
        .config(config.clone())
        .build()
        .unwrap();
    work(&runtime);
    drop(runtime);
    decisions::take()
}

/// A small hackbench: six receivers with three senders each, all of one root.
fn hackbench(runtime: &Runtime) {
    let work = async {
        let receivers: Vec<_> = (0..6_u64)
            .map(|_| {
                let (tx, rx) = quadrille::sync::mpmc::bounded(4);
                for _ in 0..3 {
                    let tx = tx.clone();
                    drop(quadrille::spawn(async move {
                        for i in 0..200_u64 {
                            tx.send(i).await.unwrap();
                        }
                    }));
                }
                quadrille::spawn(async move {
                    let mut sum = 0;
                    while let Ok(i) = rx.recv().await {
                        sum += i;
                    }
                    sum
                })
            })
            .collect();
        for receiver in receivers {
            assert_eq!(receiver.await.unwrap(), 3 * 199 * 100);
        }
    };
    runtime.block_on(runtime.spawn(work)).unwrap();
}

/// One task makes many that run for tens of microseconds, again and again: more than its worker runs next.
fn bursts(runtime: &Runtime) {
    let work = async {
        let task = |n: u64| async move {
            let mut sum = 0_u64;
            for round in 0..4 {
                sum = (0..2_000).fold(sum, |sum, i| black_box(sum.wrapping_add(i * n)));
                if round % 2 == 0 {
                    quadrille::task::yield_now().await;
                }
            }
            sum
        };
        let tasks: Vec<_> = (0..200).map(|n| quadrille::spawn(task(n))).collect();
        for task in tasks {
            black_box(task.await.unwrap());
        }
    };
    runtime.block_on(runtime.spawn(work)).unwrap();
}

/// The same of many small sets that are declared, which policy 6 keeps on a node.
fn small_sets(runtime: &Runtime) {
    let work = async {
        let task =
            |n: u64| async move { black_box((0..20_000).fold(0_u64, |sum, i| black_box(sum.wrapping_add(i * n)))) };
        let groups: Vec<_> = (0..50).map(|_| quadrille::TaskGroup::new()).collect();
        let tasks: Vec<_> = (0..150).map(|n| groups[n % 50].spawn(task(n as u64))).collect();
        for done in tasks {
            black_box(done.await.unwrap());
        }
    };
    runtime.block_on(runtime.spawn(work)).unwrap();
}

/// One thread spawns many without a pause.
fn threads(runtime: &Runtime) {
    let work = async {
        let spawner = quadrille::thread::spawn(|| {
            let threads: Vec<_> = (0..300_u32)
                .map(|n| {
                    quadrille::thread::spawn(move || {
                        quadrille::thread::yield_now();
                        n
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u32>()
        });
        spawner.await.unwrap()
    };
    assert_eq!(runtime.block_on(runtime.spawn(work)).unwrap(), 150 * 299);
}

/// A machine that runs one worker at a time may wake none in a run.
const RUNS_MAX: usize = 500;

/// The kind of a decision, and whether the policy decides the same, asked a second time.
fn replay(policy: &Policy, decision: &Decision) -> (&'static str, bool) {
    match *decision {
        Decision::Wake {
            view,
            mut task,
            mut rng,
            answer,
        } => {
            let (placement, _) = policy.place_wake(&view, &mut task, &mut rng);
            ("wake", (placement, task, rng) == answer)
        }
        Decision::Spawn {
            view,
            mut task,
            mut rng,
            answer,
        } => {
            let placement = policy.place_spawn(&view, &mut task, &mut rng);
            ("spawn", (placement, task, rng) == answer)
        }
        Decision::Unpark { view, answer } => ("unpark", policy.unpark(&view) == answer),
        Decision::Search {
            mut rate,
            util,
            now,
            answer,
        } => {
            let how = policy.search(&mut rate, util, now);
            ("search", (how, rate) == answer)
        }
        Decision::Steal { view, answer } => ("steal", policy.steal_remote(&view) == answer),
        Decision::Export { view, answer } => ("export", policy.exports(&view) == answer),
        Decision::GiveBack { task, thief, answer } => {
            let kind = if answer { "give back" } else { "keep" };
            (kind, policy.gives_back(&task, thief) == answer)
        }
        Decision::Couple {
            mut task,
            waker,
            answer,
        } => {
            let couples = policy.couple(&mut task, waker);
            ("couple", (couples, task) == answer)
        }
        Decision::Bind {
            own,
            other,
            went,
            answer,
        } => ("bind", policy.binds_elsewhere(own, other, went) == answer),
        Decision::StealThreads {
            own,
            there,
            waited,
            answer,
        } => ("steal threads", policy.threads_to_steal(own, there, waited) == answer),
        _ => replay_epoch(policy, decision),
    }
}

/// As [`replay`], for what is asked with more than plain words.
fn replay_epoch(policy: &Policy, decision: &Decision) -> (&'static str, bool) {
    match decision {
        Decision::Prefer {
            set,
            view,
            occupancy,
            answer,
        } => {
            let mut set = *set;
            let view = SetView { occupancy, ..*view };
            set.update(&policy.config.aggregation, &view);
            ("prefer", set == *answer)
        }
        Decision::Pull {
            view,
            occupancy,
            answer,
        } => {
            let view = PullView { occupancy, ..*view };
            ("pull", policy.pull(&view) == *answer)
        }
        Decision::Gate {
            gates,
            level,
            rng,
            answer,
        } => {
            let (mut gates, mut rng) = (gates.clone(), *rng);
            let looks = gates.attempt(*level, &mut rng);
            ("gate", (looks, gates, rng) == *answer)
        }
        _ => panic!("a kind of decision that is not replayed: {decision:?}"),
    }
}

/// The same question with another answer.
fn altered(decision: &Decision) -> Decision {
    let mut decision = decision.clone();
    let other = |placement| match placement {
        Placement::Slot => Placement::Deque,
        _ => Placement::Slot,
    };
    match &mut decision {
        Decision::Wake { answer, .. } | Decision::Spawn { answer, .. } => answer.0 = other(answer.0),
        Decision::Unpark { answer, .. }
        | Decision::Export { answer, .. }
        | Decision::GiveBack { answer, .. }
        | Decision::Bind { answer, .. } => *answer = !*answer,
        Decision::Search { answer, .. } => {
            answer.0 = match answer.0 {
                Search::Probe => Search::Mask,
                _ => Search::Probe,
            }
        }
        Decision::Steal { answer, .. } | Decision::StealThreads { answer, .. } => *answer ^= 1,
        Decision::Prefer { answer, .. } => {
            *answer = SetPolicy {
                spread: !answer.spread,
                ..*answer
            }
        }
        Decision::Pull { answer, .. } => *answer ^= 1,
        Decision::Gate { answer, .. } => answer.0 = !answer.0,
        Decision::Couple { answer, .. } => answer.0 = !answer.0,
        _ => panic!("a kind of decision that is not replayed: {decision:?}"),
    }
    decision
}

/// Runs `work` until every one of `kinds` was decided. All decisions are made the same way again, and the last of each
/// kind would be missed if it were another.
fn check(machine: &str, config: &str, work: Work, kinds: &[&str]) {
    let machine: Machine = machine.parse().unwrap();
    let config: Config = config.parse().unwrap();
    let simulation = Simulation::new(
        machine.clone(),
        Cost::default(),
        config.clone(),
        Model::Shipped,
        Hackbench::default(),
        1,
    )
    .unwrap();
    let mut missing = kinds.to_vec();
    for _ in 0..RUNS_MAX {
        for decision in decided(&machine, &config, work) {
            let (kind, same) = replay(simulation.policy(), &decision);
            assert!(same, "{decision:?}");
            if missing.contains(&kind) {
                let (_, same) = replay(simulation.policy(), &altered(&decision));
                assert!(!same, "another answer is not noticed: {decision:?}");
                missing.retain(|other| *other != kind);
            }
        }
        if missing.is_empty() {
            return;
        }
    }
    panic!("no {missing:?} in {RUNS_MAX} runs on {}", simulation.policy().config);
}

/// Whether a policy with the configuration `other` would have decided all that one with `config` has.
fn is_the_same(machine: &str, config: &str, other: &str, work: Work) -> bool {
    let machine: Machine = machine.parse().unwrap();
    let other: Config = other.parse().unwrap();
    let workload = Hackbench::default();
    let simulation = Simulation::new(machine.clone(), Cost::default(), other, Model::Shipped, workload, 1).unwrap();
    let decisions = decided(&machine, &config.parse().unwrap(), work);
    decisions.iter().all(|decision| replay(simulation.policy(), decision).1)
}

/// One test, because the log is the process's.
#[test]
fn the_runtimes_decisions_are_the_simulators() {
    let kinds = ["wake", "spawn", "unpark", "couple"];
    for machine in ["llc:2 l2:4", "node:2 llc:2 l2:2 core:4", "node:2 llc:1 l2:4 pu:2"] {
        check(machine, "default", hackbench, &kinds);
        check(machine, "group=2,cap=fixed:1:2ms,filter-margin=400", hackbench, &kinds);
    }
    check("node:2 llc:2 l2:4", "adversary=random", hackbench, &kinds);
    // Tasks that go home, and workers that soon look far away.
    let far = "group=2,short-runs=0,cap=off,gates=off,filter-light-load=1024,sets-steal-after=0ns,numa-steal-after=0ns";
    // Closed gates, and epochs that end soon.
    let gated = "gate-start=0,epoch=1ms,ttl=5ms,short-runs=0,filter-sample=100us";
    for machine in ["llc:2 l2:4", "node:2 llc:2 l2:2 core:4"] {
        check(machine, far, hackbench, &["wake", "spawn", "unpark", "search", "steal"]);
        check(machine, gated, bursts, &["gate", "prefer", "pull", "export", "keep"]);
        check(machine, "default", threads, &["bind", "steal threads"]);
        check(
            machine,
            "bind-slack=0,bind-div=1000",
            threads,
            &["bind", "steal threads"],
        );
        // One run, on a busy machine, may have asked nothing that the two answer in different ways.
        assert!(
            (0..RUNS_MAX).any(|_| !is_the_same(machine, "default", "baseline", hackbench)),
            "another configuration is not noticed"
        );
    }
    // Small sets that would leave their node.
    let eager = format!("{gated},numa-steal-after=0ns,groups=on");
    check("node:2 llc:1 l2:2 core:2", &eager, small_sets, &["give back", "keep"]);
}

#[test]
fn the_simulator_counts_under_the_runtimes_names() {
    let ours = Counters::default();
    let counters: Vec<_> = ours.iter().map(|(name, _)| name).collect();
    let runtime = quadrille::metrics::WorkerMetrics::default();
    for (name, _) in runtime.iter() {
        assert!(counters.contains(&name), "{name} is missing in {counters:?}");
    }
}
