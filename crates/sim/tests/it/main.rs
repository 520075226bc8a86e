//! The simulator as its users see it.

mod determinism;
mod growth;
mod hackbench;
mod replay;
mod sets;

use quadrille_sim::{Config, Cost, Machine, Model, Nanos, Report, Simulation, Workload};

/// A run of `workload` on `machine` under `config`, both as text.
fn run(machine: &str, config: &str, model: Model, workload: impl Workload, seed: u64, until: Nanos) -> Report {
    let machine: Machine = machine.parse().unwrap();
    let config: Config = config.parse().unwrap();
    Simulation::new(machine, Cost::default(), config, model, workload, seed)
        .unwrap()
        .run(until)
}
