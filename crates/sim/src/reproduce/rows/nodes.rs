//! Row Q.

use super::Simulated;
use super::lab::{Bench, Lab, LabError, workload};
use crate::reproduce::curve::Curve;
use crate::{Model, Sharing};

pub(super) fn q(lab: &Lab) -> Result<Simulated, LabError> {
    let shipped = Bench {
        lab,
        machine: "kunpeng-4n",
        model: Model::Shipped,
        millis: 1000,
        seeds: 10,
    };
    let kernel = Bench {
        model: Model::KernelFaithful { scattered: None },
        ..shipped
    };
    let time = |bench: &Bench<'_>, declared: bool, config: &str| {
        let workload: Sharing = workload(&format!("declared={}", u8::from(declared)))?;
        let run = bench.run(&workload, config)?;
        Ok(run.finished.then_some(run.time))
    };
    let spread = time(&kernel, false, "numa=off")?;
    let curve = |name: &str, packed: Option<f64>| Curve::with_gaps(name, vec![spread, packed]).relative_to_first();
    Ok(Simulated::new(
        vec![
            curve("kernel model, divisor 4", time(&kernel, false, "numa=on,numa-div=4")?),
            curve("kernel model, divisor 8", time(&kernel, false, "numa=on")?),
            curve("divisor 4", time(&shipped, false, "numa=on,numa-div=4")?),
            curve("divisor 8", time(&shipped, false, "numa=on")?),
            curve("off", time(&shipped, false, "numa=off")?),
            curve("declared set", time(&shipped, true, "numa=on")?),
        ],
        vec![
            kernel.condition(
                "sharing:t=4,rounds=20000",
                "numa=off, which puts new tasks where most CPUs are idle, is what all are relative to; numa=on,numa-div=4 and 8",
            ),
            shipped.condition("the same", "numa=on,numa-div=4; numa=on (divisor 8); numa=off; a declared set with numa=on"),
        ],
        "",
    ))
}
