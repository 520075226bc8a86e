//! hackbench ends with every message counted, whatever the machine, the policy and the model.

use quadrille_sim::{Config, Cost, Hackbench, Model, Nanos, Simulation};

use crate::run;

const FOREVER: Nanos = Nanos::from_millis(10_000);

fn check(machine: &str, config: &str, model: Model, hackbench: &str) {
    let workload: Hackbench = hackbench.parse().unwrap();
    let messages = u64::from(workload.groups) * u64::from(workload.fds).pow(2) * workload.loops;
    let report = run(machine, config, model, workload, 7, FOREVER);
    let which = format!("{model}: {hackbench} on {machine} with {config}");
    assert!(
        report.finished && report.stalled == 0,
        "{which}: {} stalled",
        report.stalled
    );
    assert_eq!(report.done, messages, "{which}");
    let total = report.total();
    assert_eq!(report.ready_to_run.count(), total.polls, "{which}");
    let time = report.time.0 * report.workers.len() as u64;
    assert!(
        total.busy_ns <= time + 1_000,
        "{which}: {} busy of {time}",
        total.busy_ns
    );
}

#[test]
fn every_message_arrives_on_every_machine() {
    for machine in [
        "pu:1",
        "core:1 pu:2",
        "l2:4",
        "llc:2 l2:4 pu:2",
        "node:2 llc:2 l2:2 core:4",
        "node:[llc:2 l2:3, llc:1 core:5]",
    ] {
        check(machine, "default", Model::Shipped, "g=3,f=4,l=50");
        check(machine, "baseline", Model::Shipped, "g=3,f=4,l=50");
        check(machine, "filter=off", Model::ShippedScan, "g=3,f=4,l=50");
    }
}

/// The last tasks run on for long in the course of one event, since nothing else happens.
#[test]
fn a_run_lasts_until_its_last_task_has_ended() {
    for (machine, workload) in [
        ("core:1", "g=1,f=1,l=600"),
        ("core:1", "g=1,f=2,l=300"),
        ("core:2", "g=1,f=1,l=600"),
    ] {
        let run_for = |until| {
            let machine = machine.parse().unwrap();
            let workload: Hackbench = workload.parse().unwrap();
            Simulation::new(machine, Cost::default(), Config::default(), Model::Shipped, workload, 1)
                .unwrap()
                .with_trace()
                .run(until)
        };
        let report = run_for(FOREVER);
        assert!(report.finished, "{workload} on {machine}");
        let trace = report.trace.as_deref().unwrap();
        let exits = trace.lines().filter(|line| line.contains(" exit "));
        let times = exits.map(|line| line.split_whitespace().next().unwrap().parse::<u64>().unwrap());
        assert_eq!(times.max(), Some(report.time.0), "{workload} on {machine}");
        let limit = Nanos(report.time.0 - 1);
        let shorter = run_for(limit);
        assert_eq!(
            (shorter.time, shorter.finished),
            (limit, false),
            "{workload} on {machine}"
        );
    }
}

#[test]
fn costs_with_which_time_stands_still_are_refused_however_they_are_made() {
    let cost = Cost {
        poll: 0,
        ..Cost::default()
    };
    let workload = Hackbench::default();
    let machine = "core:1".parse().unwrap();
    let refused = Simulation::new(machine, cost, Config::default(), Model::Shipped, workload, 1);
    assert_eq!(refused.unwrap_err().to_string(), "poll=0: expected at least 1");
}

#[test]
fn every_message_arrives_under_every_policy() {
    for config in [
        "group=1",
        "group=16",
        "group=8,contention=spin",
        "filter=off",
        "cap=fixed:1:2ms",
        "lazy=off",
        "numa=off,gates=off",
        "wake-cost=off",
        "spin=0ns",
        "adversary=random",
        "adversary=zero",
        "adversary=farthest",
    ] {
        check("node:2 llc:2 l2:4 pu:2", config, Model::Shipped, "g=6,f=5,l=20");
        check("node:2 llc:2 l2:4 pu:2", config, Model::Shipped, "g=2,f=3,l=20,s=40000");
    }
}

#[test]
fn every_message_arrives_whoever_is_whose_kin() {
    for sets in ["program", "none", "groups", "declared"] {
        let hackbench = format!("g=6,f=5,l=60,sets={sets}");
        for config in [
            "default",
            "aggregation=off",
            "sets-guards=false,spread-wakes=0,epoch=1ms",
            "sets-steal-after=1s,numa=off",
            "numa-steal-after=1s,gates=off",
        ] {
            check("node:2 llc:2 l2:4 pu:2", config, Model::Shipped, &hackbench);
            check("llc:3 l2:4", config, Model::Shipped, &hackbench);
        }
    }
}

#[test]
fn every_message_arrives_in_the_kernel() {
    let kernel = Model::KernelFaithful { scattered: None };
    for machine in [
        "pu:1",
        "l2:4",
        "node:2 llc:2 l2:2 core:4",
        "node:[llc:2 l2:3, llc:1 core:5]",
    ] {
        check(machine, "default", kernel, "g=3,f=4,l=50,via=pipe");
        check(
            machine,
            "group=16,lazy=off,filter=off",
            kernel,
            "g=6,f=5,l=20,via=pipe,s=20000",
        );
        let scattered = Model::KernelFaithful { scattered: Some(3) };
        check(machine, "default", scattered, "g=3,f=4,l=50,via=channel");
    }
}

#[test]
fn full_channels_make_senders_wait() {
    check("l2:4", "default", Model::Shipped, "g=1,f=2,l=5000,s=4000");
    check("l2:4", "default", Model::Shipped, "g=1,f=2,l=5000,s=100,via=pipe");
}
