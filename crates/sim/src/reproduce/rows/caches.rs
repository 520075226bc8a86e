//! Rows L, M, N, O, P.

use super::Simulated;
use super::lab::{Bench, Lab, LabError, Steady, workload};
use super::queues::{gains, hackbench_pairs};
use crate::reproduce::curve::Curve;
use crate::{Hackbench, Model, OldSchbench, Stream};

const OFF: &str = "aggregation=off";
const ON: &str = "aggregation=on";
/// Whatever the size of the set and the load.
const UNGUARDED: &str = "aggregation=on,max-set=1024";

/// What is said if aggregation changed nothing at all: every run with it is to the last unit the run without it.
const NOTHING_ACTED: &str = "every run is the same with and without the policy: the model of the runtime does not act on \
                             coupling sets yet, so nothing was simulated";

/// The curves, unless they only compare runs with themselves.
fn unless_nothing_acted(curves: Vec<Curve>, neutral: f64, condition: String) -> Simulated {
    let is_neutral = |curve: &Curve| curve.values.iter().all(|value| *value == Some(neutral));
    if curves.iter().all(is_neutral) {
        return Simulated::new(Vec::new(), vec![condition], NOTHING_ACTED);
    }
    Simulated::new(curves, vec![condition], "")
}

pub(super) fn l(lab: &Lab) -> Result<Simulated, LabError> {
    let bench = Bench {
        lab,
        machine: "milan-ccx-4n",
        model: Model::Shipped,
        millis: 60,
        seeds: 5,
    };
    let run = |fds: u32| {
        let workload = workload::<Hackbench>(&format!("g=1,f={fds},c=64"))?;
        Ok([bench.run(&workload, OFF)?, bench.run(&workload, ON)?])
    };
    let pairs: Vec<[Steady; 2]> = (1..=6).map(run).collect::<Result<_, LabError>>()?;
    let condition = bench.condition("hackbench:g=1,c=64", "aggregation=on against off");
    Ok(unless_nothing_acted(vec![gains("gain", &pairs)], 0.0, condition))
}

pub(super) fn m(lab: &Lab) -> Result<Simulated, LabError> {
    let bench = Bench {
        lab,
        machine: "node:2 l2:30 pu:2 llc-size:62914560 l2-size:2097152",
        model: Model::Shipped,
        millis: 40,
        seeds: 2,
    };
    let pairs = hackbench_pairs(&bench, &[1, 3, 5, 7, 12, 16], [OFF, ON])?;
    let condition = bench.condition("hackbench:f=20,c=64", "aggregation=on against off");
    Ok(unless_nothing_acted(vec![gains("gain", &pairs)], 0.0, condition))
}

pub(super) fn n(lab: &Lab) -> Result<Simulated, LabError> {
    let bench = Bench {
        lab,
        machine: "milan-2s",
        model: Model::Shipped,
        millis: 200,
        seeds: 3,
    };
    let mut curves = [Vec::new(), Vec::new()];
    for workers in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512] {
        let workload: OldSchbench = workload(&format!("t={workers}"))?;
        let base = bench.run(&workload, OFF)?.p99;
        for (curve, config) in curves.iter_mut().zip([UNGUARDED, ON]) {
            curve.push(bench.run(&workload, config)?.p99 / base);
        }
    }
    let [unguarded, guarded] = curves;
    let condition = bench.condition(
        "old-schbench:m=2,spin=200000,sleep=200000",
        "aggregation=on against off; max-set=1024 without guards",
    );
    let curves = vec![
        Curve::new("without guards", unguarded),
        Curve::new("with guards", guarded),
    ];
    Ok(unless_nothing_acted(curves, 1.0, condition))
}

pub(super) fn o(lab: &Lab) -> Result<Simulated, LabError> {
    let bench = Bench {
        lab,
        machine: "milan-2s",
        model: Model::Shipped,
        millis: 100,
        seeds: 3,
    };
    let mut curves = [Vec::new(), Vec::new()];
    for reads in [1, 1, 2, 2] {
        let workload: Stream = workload(&format!("t=16,reads={reads}"))?;
        let base = bench.run(&workload, OFF)?.rate;
        for (curve, config) in curves.iter_mut().zip([UNGUARDED, ON]) {
            curve.push(bench.run(&workload, config)?.rate / base);
        }
    }
    let [unguarded, guarded] = curves;
    let condition = bench.condition("stream:t=16", "aggregation=on against off; max-set=1024 without guards");
    let curves = vec![
        Curve::new("without guards", unguarded),
        Curve::new("with guards", guarded),
    ];
    Ok(unless_nothing_acted(curves, 1.0, condition))
}

pub(super) fn p(_: &Lab) -> Result<Simulated, LabError> {
    Ok(Simulated::new(
        Vec::new(),
        vec!["not simulated".to_owned()],
        "the program simulates a circuit: threads that share all of it and meet at a barrier every few microseconds, which no \
         workload here stands for",
    ))
}
