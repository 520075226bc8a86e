//! Rows H, I, J, K.

use super::Simulated;
use super::lab::{Bench, Lab, LabError, Steady, workload};
use super::queues::{channels, times};
use crate::reproduce::curve::Curve;
use crate::{Model, OldSchbench};

/// A sixth of the published machine, in caches of the same size: on all of it no bit says idle for long.
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

/// hackbench under each configuration: times, and moves between groups a message.
fn ladder(bench: &Bench<'_>, configs: &[&str]) -> Result<Vec<Curve>, LabError> {
    let workload = channels(GROUPS)?;
    let runs: Vec<Steady> = configs
        .iter()
        .map(|config| bench.run(&workload, config))
        .collect::<Result<_, _>>()?;
    let moves = runs.iter().map(|run| run.group_changes_per_unit);
    Ok(vec![
        times("time", &runs),
        Curve::new("migrations", moves).relative_to_first(),
    ])
}

pub(super) fn h(lab: &Lab) -> Result<Simulated, LabError> {
    let bench = sixth_of_an_epyc(lab);
    let configs = [
        "filter=off,cap=off",
        "filter=off,cap=fixed:255:1ms",
        "filter=off,cap=adaptive,cap-fits=0",
        "filter=off,cap=adaptive",
    ];
    Ok(Simulated::new(
        ladder(&bench, &configs)?,
        vec![bench.condition(
            "hackbench:g=2,f=20,c=64",
            "cap=off; cap=fixed:255 (fits alone); cap-fits=0 (cap alone); cap=adaptive (both); filter=off",
        )],
        "the wake order of the runtime has the previous worker first in every case, and the cap alone keeps tasks at home; so \
         there is no case that stands for the published third",
    ))
}

pub(super) fn i(lab: &Lab) -> Result<Simulated, LabError> {
    let bench = sixth_of_an_epyc(lab);
    let configs = ["filter=off,cap=off", "filter=off,cap=fixed:255:1ms,cap-fits=512"];
    Ok(Simulated::new(
        ladder(&bench, &configs)?,
        vec![bench.condition(
            "hackbench:g=2,f=20,c=64",
            "cap=off; cap=fixed:255,cap-fits=512 (a group of two whose queue is empty); filter=off",
        )],
        "",
    ))
}

pub(super) fn j(lab: &Lab) -> Result<Simulated, LabError> {
    let bench = sixth_of_an_epyc(lab);
    let configs = [
        "filter=off,cap=off",
        "filter=off,cap=fixed:1:2ms,cap-fits=0",
        "filter=off,cap=adaptive:10:2ms,cap-fits=0",
    ];
    Ok(Simulated::new(
        ladder(&bench, &configs)?,
        vec![bench.condition(
            "hackbench:g=2,f=20,c=64",
            "cap=off, cap=fixed:1:2ms, cap=adaptive:10:2ms; cap-fits=0,filter=off",
        )],
        "",
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
