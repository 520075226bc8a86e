//! Row Q.

use super::Simulated;
use super::lab::{Bench, Lab, LabError, workload};
use crate::reproduce::curve::Curve;
use crate::{Model, Sharing};

pub(super) fn q(lab: &Lab) -> Result<Simulated, LabError> {
    let bench = Bench {
        lab,
        machine: "kunpeng-4n",
        model: Model::Shipped,
        millis: 1000,
        seeds: 10,
    };
    let time = |declared: bool, config: &str| {
        let workload: Sharing = workload(&format!("declared={}", u8::from(declared)))?;
        let run = bench.run(&workload, config)?;
        Ok(run.finished.then_some(run.time))
    };
    let spread = time(false, "numa=off")?;
    let curve = |name: &str, packed: Option<f64>| Curve::with_gaps(name, vec![spread, packed]).relative_to_first();
    Ok(Simulated::new(
        vec![
            curve("divisor 4", time(false, "numa=on,numa-div=4")?),
            curve("divisor 8", time(false, "numa=on")?),
            curve("declared set", time(true, "numa=on")?),
        ],
        vec![bench.condition(
            "sharing:t=4,rounds=20000",
            "numa=off against numa=on with divisors 4 and 8; with one declared set",
        )],
        "",
    ))
}
