//! Rows L, M, N, O, P.

use super::Simulated;
use super::lab::{Bench, Lab, LabError, Steady, workload};
use super::queues::gains;
use crate::reproduce::curve::Curve;
use crate::{Hackbench, Model, OldSchbench, Stream};

const OFF: &str = "aggregation=off";
const ON: &str = "aggregation=on";
/// Whatever the size of the set, the load of its cache, and what its tasks seem to be.
const UNGUARDED: &str = "aggregation=on,sets-guards=false,spread-wakes=0";

/// What the policy gains for each of these workloads, on their benches.
fn gain<'a>(name: &str, runs: impl Iterator<Item = (Bench<'a>, String)>) -> Result<Curve, LabError> {
    let pair = |(bench, text): (Bench<'_>, String)| {
        let workload: Hackbench = workload(&text)?;
        Ok([bench.run(&workload, OFF)?, bench.run(&workload, ON)?])
    };
    let pairs: Vec<[Steady; 2]> = runs.map(pair).collect::<Result<_, LabError>>()?;
    Ok(gains(name, &pairs))
}

pub(super) fn l(lab: &Lab) -> Result<Simulated, LabError> {
    let bench = Bench {
        lab,
        machine: "milan-ccx-4n",
        model: Model::Shipped,
        millis: 60,
        seeds: 5,
    };
    let runs = |sets: &'static str| (1..=6).map(move |fds| (bench, format!("g=1,f={fds},c=64,sets={sets}")));
    Ok(Simulated::new(
        vec![
            gain("gain, declared", runs("declared"))?,
            gain("gain, undeclared", runs("program"))?,
        ],
        vec![bench.condition(
            "hackbench:g=1,c=64",
            "aggregation=on against off; sets=declared (a task group), sets=program (what one spawn root has led to)",
        )],
        "first tasks come from outside and start behind caches of several nodes; what is declared begins behind one, which is \
         most of its gain. Nothing gathers a pair that never waits, because nothing is ever woken; it begins farther apart in \
         two of five runs, because thieves leave other caches alone for 20 us (with sets-steal-after=5us nothing is lost). From \
         five descriptors on as many run as the guard allows when most have come, so that the others stay far away",
    ))
}

pub(super) fn m(lab: &Lab) -> Result<Simulated, LabError> {
    let heavy = Bench {
        lab,
        machine: "node:2 l2:30 pu:2 llc-size:62914560 l2-size:2097152",
        model: Model::Shipped,
        millis: 40,
        seeds: 3,
    };
    // With few groups a run is one of several kinds.
    let light = Bench { seeds: 12, ..heavy };
    let lone = Bench { seeds: 144, ..heavy };
    let runs = |sets: &'static str| {
        let bench = move |groups: u32| match groups {
            1 => lone,
            2..=7 => light,
            _ => heavy,
        };
        let text = move |groups: u32| format!("g={groups},f=20,c=64,sets={sets}");
        [1, 3, 5, 7, 12, 16]
            .map(|groups| (bench(groups), text(groups)))
            .into_iter()
    };
    let configs =
        "aggregation=on against off; sets=program (one program, as published), sets=groups (a task group for each)";
    Ok(Simulated::new(
        vec![
            gain("gain", runs("program"))?,
            gain("gain, groups declared", runs("groups"))?,
        ],
        vec![
            lone.condition("hackbench:f=20,c=64 of 1 group", configs),
            light.condition("of 3 to 7 groups", "the same"),
            heavy.condition("of 12 groups and more", "the same"),
        ],
        "with one group the gain is that of the runs in which all of it comes together, and small in the others",
    ))
}

pub(super) fn n(lab: &Lab) -> Result<Simulated, LabError> {
    let bench = Bench {
        lab,
        machine: "milan-2s",
        model: Model::Shipped,
        millis: 200,
        seeds: 5,
    };
    // With few workers a run is one of several kinds, by where its first tasks begin.
    let light = Bench { seeds: 160, ..bench };
    let mut curves = [Vec::new(), Vec::new()];
    for workers in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512] {
        let workload: OldSchbench = workload(&format!("t={workers}"))?;
        let bench = if workers <= 32 { light } else { bench };
        let base = bench.run(&workload, OFF)?.p99;
        for (curve, config) in curves.iter_mut().zip([UNGUARDED, ON]) {
            curve.push(bench.run(&workload, config)?.p99 / base);
        }
    }
    let [unguarded, guarded] = curves;
    Ok(Simulated::new(
        vec![
            Curve::new("without guards", unguarded),
            Curve::new("with guards", guarded),
        ],
        vec![
            light.condition(
                "old-schbench:m=2,spin=200000,sleep=200000 of 1 to 32 workers",
                "aggregation=on against off; without guards: sets-guards=false,spread-wakes=0",
            ),
            bench.condition("of 64 workers and more", "the same"),
        ],
        "sixteen workers and two messengers are more than a cache has threads, so the loss begins there, in some of the runs. \
         With guards nothing is gathered, but thieves still leave other caches alone for 20 us, which is the loss at 32: with \
         sets-steal-after=5us p99 is 1.02 times there, with 0ns 1.00",
    ))
}

pub(super) fn o(lab: &Lab) -> Result<Simulated, LabError> {
    let bench = Bench {
        lab,
        machine: "milan-2s",
        model: Model::Shipped,
        millis: 100,
        seeds: 10,
    };
    let mut curves = [Vec::new(), Vec::new(), Vec::new()];
    for reads in [1, 1, 2, 2] {
        let text = |spread: u8| format!("t=16,reads={reads},pass=32,spread={spread}");
        let (workload, spread): (Stream, Stream) = (workload(&text(0))?, workload(&text(1))?);
        let base = bench.run(&workload, OFF)?.rate;
        let cases = [(&workload, UNGUARDED), (&workload, ON), (&spread, ON)];
        for (curve, (workload, config)) in curves.iter_mut().zip(cases) {
            curve.push(bench.run(workload, config)?.rate / base);
        }
    }
    let names = ["without guards", "with guards", "declared spread"];
    let curves = names
        .into_iter()
        .zip(curves)
        .map(|(name, values)| Curve::new(name, values));
    Ok(Simulated::new(
        curves.collect(),
        vec![bench.condition(
            "stream:t=16,pass=32",
            "aggregation=on against off; without guards: sets-guards=false,spread-wakes=0; declared: spread=1",
        )],
        "without the policy two threads share a core in most runs, and all wait for them at the barrier: it has about 0.65 of the \
         bandwidth of threads that are spread. Gathered behind one cache they have 0.49 of that, which is what siblings cost each \
         other; a cache has no bandwidth of its own here, as a real one has",
    ))
}

pub(super) fn p(_: &Lab) -> Result<Simulated, LabError> {
    Ok(Simulated::new(
        Vec::new(),
        vec!["not simulated".to_owned()],
        "the program simulates a circuit: threads that share all of it and spin at a barrier every few microseconds. The \
         runtime moves tasks that are woken or queued, and those are neither; with barriers that sleep, waking would be all \
         there is to see",
    ))
}
