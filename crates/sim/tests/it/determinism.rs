//! The same input gives the same run, to the last event.

use quadrille_sim::{Change, Config, Cost, Hackbench, Machine, Model, Nanos, Report, Simulation};

fn traced(seed: u64, config: &str, model: Model) -> Report {
    let machine: Machine = "node:2 llc:2 l2:4 pu:2".parse().unwrap();
    let config: Config = config.parse().unwrap();
    let workload: Hackbench = "g=4,f=5".parse().unwrap();
    Simulation::new(machine, Cost::default(), config, model, workload, seed)
        .unwrap()
        .with_trace()
        .run(Nanos::from_millis(5))
}

fn check(model: Model) {
    let report = traced(1, "default", model);
    let text = report.trace.as_ref().unwrap();
    assert!(text.lines().count() > 1_000, "{} lines", text.lines().count());
    assert_eq!(report, traced(1, "default", model));
    let other = traced(2, "default", model);
    assert_ne!(report.trace_hash, other.trace_hash);
    assert_ne!(report.trace, other.trace);
    assert_ne!(report.trace_hash, traced(1, "group=8", model).trace_hash);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    check(Model::Shipped);
    check(Model::ShippedScan);
    check(Model::KernelFaithful { scattered: None });
    check(Model::KernelChanged(Change::FitsAndPrevious));
    check(Model::KernelChanged(Change::Proportion));
}
