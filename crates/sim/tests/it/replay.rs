//! Decisions that the runtime made are made the same way by what the simulator asks.

use quadrille::decisions::{self, Decision};
use quadrille::policy::Policy;
use quadrille::{Builder, Pinning};
use quadrille_sim::{Config, Cost, Counters, Hackbench, Machine, Model, Simulation};

/// A small hackbench in the runtime, on a machine that it takes for the real one; returns what was decided.
fn decided(machine: &Machine, config: &Config) -> Vec<Decision> {
    drop(decisions::take());
    let runtime = Builder::new()
        .topology(machine.topology().clone())
        .pinning(Pinning::None)
        .config(config.clone())
        .build()
        .unwrap();
    runtime.block_on(async {
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
    });
    drop(runtime);
    decisions::take()
}

/// A machine that runs one worker at a time may wake none in a run.
const RUNS_MAX: usize = 50;

fn check_decision(policy: &Policy, decision: &Decision) -> &'static str {
    match *decision {
        Decision::Wake {
            view,
            mut task,
            mut rng,
            answer,
        } => {
            let placement = policy.place_wake(&view, &mut task, &mut rng);
            assert_eq!((placement, task, rng), answer, "{decision:?}");
            "wake"
        }
        Decision::Spawn {
            view,
            mut task,
            mut rng,
            answer,
        } => {
            let placement = policy.place_spawn(&view, &mut task, &mut rng);
            assert_eq!((placement, task, rng), answer, "{decision:?}");
            "spawn"
        }
        Decision::Unpark { view, answer } => {
            assert_eq!(policy.unpark(&view), answer, "{decision:?}");
            "unpark"
        }
        Decision::Search {
            mut rate,
            util,
            now,
            answer,
        } => {
            let how = policy.search(&mut rate, util, now);
            assert_eq!((how, rate), answer, "{decision:?}");
            "search"
        }
        Decision::Steal { view, answer } => {
            assert_eq!(policy.steal_remote(&view), answer, "{decision:?}");
            "steal"
        }
        Decision::Export { view, answer } => {
            assert_eq!(policy.exports(&view), answer, "{decision:?}");
            "export"
        }
        _ => panic!("a kind of decision that is not replayed: {decision:?}"),
    }
}

fn check(machine: &str, config: &str, kinds: &[&str]) {
    let machine: Machine = machine.parse().unwrap();
    let config: Config = config.parse().unwrap();
    let workload = Hackbench::default();
    let simulation = Simulation::new(
        machine.clone(),
        Cost::default(),
        config.clone(),
        Model::Shipped,
        workload,
        1,
    )
    .unwrap();
    let mut missing = kinds.to_vec();
    for _ in 0..RUNS_MAX {
        for decision in decided(&machine, &config) {
            let kind = check_decision(simulation.policy(), &decision);
            missing.retain(|other| *other != kind);
        }
        if missing.is_empty() {
            return;
        }
    }
    panic!("no {missing:?} in {RUNS_MAX} runs on {}", simulation.policy().config);
}

/// One test, because the log is the process's.
#[test]
fn the_runtimes_decisions_are_the_simulators() {
    let kinds = ["wake", "spawn", "unpark"];
    for machine in ["llc:2 l2:4", "node:2 llc:2 l2:2 core:4", "node:2 llc:1 l2:4 pu:2"] {
        check(machine, "default", &kinds);
        check(machine, "group=2,cap=fixed:1:2ms,filter-margin=400", &kinds);
    }
    check("node:2 llc:2 l2:4", "adversary=random", &kinds);
    // Tasks that go home, and workers that soon look far away.
    let far = "group=2,short-runs=0,cap=off,gates=off,filter-light-load=1024,sets-steal-after=0ns,numa-steal-after=0ns";
    for machine in ["llc:2 l2:4", "node:2 llc:2 l2:2 core:4"] {
        check(machine, far, &["wake", "spawn", "unpark", "search", "steal"]);
    }
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
