//! Rows H, I, J, K.

use super::Simulated;
use super::lab::{Bench, Lab, LabError, Steady, workload};
use super::queues::{KERNEL, channels, hackbench, times};
use crate::reproduce::curve::Curve;
use crate::{Change, Model, OldSchbench};

/// The published machine and load, under the kernel's rules.
fn epyc(lab: &Lab) -> Bench<'_> {
    Bench {
        lab,
        machine: "epyc-9654-2s",
        model: KERNEL,
        millis: 40,
        seeds: 4,
    }
}

const EPYC_GROUPS: u32 = 32;

/// A sixth of that machine, in caches of the same size, for the runtime: on all of it no bit says idle for long.
fn sixth_of_an_epyc(lab: &Lab) -> Bench<'_> {
    Bench {
        lab,
        machine: "node:2 llc:2 l2:8 pu:2",
        model: Model::Shipped,
        millis: 40,
        seeds: 3,
    }
}

/// As many tasks as leave some workers idle, as in the source (253 of 384 are busy there).
const GROUPS: u32 = 2;

/// Times, and moves a message, relative to the first run.
fn curves(of: &str, runs: &[Steady], moves: impl Fn(&Steady) -> f64) -> Vec<Curve> {
    vec![
        times(&format!("{of}time"), runs),
        Curve::new(format!("{of}migrations"), runs.iter().map(moves)).relative_to_first(),
    ]
}

/// hackbench under each configuration of the runtime: times, and moves between groups a message.
fn ladder(bench: &Bench<'_>, of: &str, configs: &[&str]) -> Result<Vec<Curve>, LabError> {
    let workload = channels(GROUPS)?;
    let runs: Vec<Steady> = configs
        .iter()
        .map(|config| bench.run(&workload, config))
        .collect::<Result<_, _>>()?;
    Ok(curves(of, &runs, |run| run.group_changes_per_unit))
}

/// hackbench over pipes under the kernel's rules with each change: times, and moves between CPUs a message.
fn kernel_ladder(lab: &Lab, cases: &[(Model, &str)]) -> Result<Vec<Curve>, LabError> {
    let workload = hackbench(EPYC_GROUPS)?;
    let run = |(model, cap): &(Model, &str)| {
        let bench = Bench {
            model: *model,
            ..epyc(lab)
        };
        bench.run(&workload, &format!("{EPYC_BASE},{cap}"))
    };
    let runs: Vec<Steady> = cases.iter().map(run).collect::<Result<_, _>>()?;
    Ok(curves("", &runs, |run| run.moves_per_unit))
}

/// Wake-ups are direct inside an LLC of 16, counters shared, as in Linux 6.5.
const EPYC_BASE: &str = "group=16,filter=on,lazy=off";
const EPYC_LOAD: &str = "hackbench:g=32,f=20,via=pipe";

pub(super) fn h(lab: &Lab) -> Result<Simulated, LabError> {
    let changed = |change: Change| (Model::KernelChanged(change), "cap=off");
    let cases = [
        (KERNEL, "cap=off"),
        changed(Change::Fits),
        changed(Change::Previous),
        changed(Change::FitsAndPrevious),
    ];
    let shipped = sixth_of_an_epyc(lab);
    let configs = [
        "filter=off,cap=off",
        "filter=off,cap=fixed:255:1ms",
        "filter=off,cap=adaptive,cap-fits=0",
        "filter=off,cap=adaptive",
    ];
    let mut curves = kernel_ladder(lab, &cases)?;
    curves.extend(ladder(&shipped, "shipped model, ", &configs)?);
    Ok(Simulated::new(
        curves,
        vec![
            epyc(lab).condition(
                EPYC_LOAD,
                "models kernel, kernel-fits, kernel-previous, kernel-fits-previous; group=16,filter=on,lazy=off",
            ),
            shipped.condition(
                "hackbench:g=2,f=20,c=64",
                "cap=off; cap=fixed:255 (fits alone); cap-fits=0 (cap alone); cap=adaptive (both); filter=off",
            ),
        ],
        "in the kernel model a task that goes back to a busy previous CPU leaves the waker's idle, and nobody pulls it from there: \
         with the previous CPU first 44 % of the time is idle, where 28 % were published. The wake order of the runtime has the \
         previous worker first in every case, so that it has no counterpart of the base",
    ))
}

pub(super) fn i(lab: &Lab) -> Result<Simulated, LabError> {
    let bench = sixth_of_an_epyc(lab);
    let configs = ["filter=off,cap=off", "filter=off,cap=fixed:255:1ms,cap-fits=512"];
    Ok(Simulated::new(
        ladder(&bench, "", &configs)?,
        vec![bench.condition(
            "hackbench:g=2,f=20,c=64",
            "cap=off; cap=fixed:255,cap-fits=512 (a group of two whose queue is empty); filter=off",
        )],
        "",
    ))
}

pub(super) fn j(lab: &Lab) -> Result<Simulated, LabError> {
    let cases = ["cap=off", "cap=fixed:1:2ms", "cap=adaptive:10:2ms"].map(|cap| (KERNEL, cap));
    let shipped = sixth_of_an_epyc(lab);
    let configs = [
        "filter=off,cap=off",
        "filter=off,cap=fixed:1:2ms,cap-fits=0",
        "filter=off,cap=adaptive:10:2ms,cap-fits=0",
    ];
    let mut curves = kernel_ladder(lab, &cases)?;
    curves.extend(ladder(&shipped, "shipped model, ", &configs)?);
    Ok(Simulated::new(
        curves,
        vec![
            epyc(lab).condition(
                EPYC_LOAD,
                "cap=off, cap=fixed:1:2ms, cap=adaptive:10:2ms; group=16,filter=on,lazy=off",
            ),
            shipped.condition(
                "hackbench:g=2,f=20,c=64",
                "cap=off, cap=fixed:1:2ms, cap=adaptive:10:2ms; cap-fits=0,filter=off",
            ),
        ],
        "the wake order of the runtime has the previous worker first without the cap too, so that there is little for it to save",
    ))
}

pub(super) fn k(lab: &Lab) -> Result<Simulated, LabError> {
    let bench = Bench {
        lab,
        machine: "milan-2s",
        model: Model::Shipped,
        millis: 200,
        seeds: 5,
    };
    let ratio = |workers: u32| {
        let workload: OldSchbench = workload(&format!("t={workers}"))?;
        let off = bench.run(&workload, "cap=off")?;
        let on = bench.run(&workload, "cap=adaptive")?;
        Ok(on.p99 / off.p99)
    };
    Ok(Simulated::new(
        vec![Curve::new("shipped model, p99", [ratio(128)?, ratio(256)?])],
        vec![bench.condition(
            "old-schbench:m=2,spin=200000,sleep=200000",
            "cap=adaptive against cap=off",
        )],
        "",
    ))
}
