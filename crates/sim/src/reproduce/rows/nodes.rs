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
    let time = |bench: &Bench<'_>, how: &str, config: &str| {
        let workload: Sharing = workload(how)?;
        let run = bench.run(&workload, config)?;
        Ok(run.finished.then_some(run.time))
    };
    let spread = time(&kernel, "", "numa=off")?;
    let curve = |name: &str, packed: Option<f64>| Curve::with_gaps(name, vec![spread, packed]).relative_to_first();
    let apart = "gap=20000";
    let also = [
        ("made at once with divisor 8", time(&shipped, "", "numa=on")?),
        (
            "made apart with divisor 4",
            time(&shipped, apart, "numa=on,numa-div=4")?,
        ),
        (
            "made apart as a declared set",
            time(&shipped, "declared=1,gap=20000", "numa=on")?,
        ),
    ];
    let also = also.map(|(what, packed)| match (spread, packed) {
        (Some(spread), Some(packed)) => format!("{what} {:.2}", packed / spread),
        _ => format!("{what}: not finished"),
    });
    Ok(Simulated::new(
        vec![
            curve("kernel model, divisor 4", time(&kernel, "", "numa=on,numa-div=4")?),
            curve("kernel model, divisor 8", time(&kernel, "", "numa=on")?),
            curve("divisor 4", time(&shipped, "", "numa=on,numa-div=4")?),
            curve("declared set", time(&shipped, "declared=1", "numa=on")?),
            curve("off", time(&shipped, "", "numa=off")?),
            curve("divisor 8, made apart", time(&shipped, apart, "numa=on")?),
        ],
        vec![
            kernel.condition(
                "sharing:t=4,rounds=20000",
                "numa=off, which puts new tasks where most CPUs are idle, is what all are relative to; numa=on,numa-div=4 and 8",
            ),
            shipped.condition(
                "the same",
                "numa=on,numa-div=4; numa=on with a declared set; numa=off; numa=on (divisor 8) with gap=20000 (ns)",
            ),
            format!("also, shipped: {}", also.join(", ")),
        ],
        "with divisor 8 three run where the tasks are made, the maker included: two of four leave, and all is lost. The runtime keeps \
         tasks that are made at once with any setting, because waking somebody takes longer than making four; if they are made \
         20 us apart, divisor 8 lets some leave, and divisor 4 or a declared set none",
    ))
}
