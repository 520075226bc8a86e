//! Rows E and F.

use super::Simulated;
use super::lab::{Bench, Lab, LabError, Steady};
use super::queues::{gains, hackbench_pairs, request_pairs};
use crate::Model;
use crate::reproduce::curve::Curve;

pub(super) fn e(lab: &Lab) -> Result<Simulated, LabError> {
    let kernel = Bench {
        lab,
        machine: "xeon-8260-2s",
        model: Model::KernelFaithful { scattered: None },
        millis: 24,
        seeds: 1,
    };
    let shipped = Bench {
        model: Model::Shipped,
        ..kernel
    };
    let groups = [1, 4, 7, 12, 21, 30, 48, 79, 110];
    let of_kernel = hackbench_pairs(&kernel, &groups, ["group=48,filter=off", "group=48,filter=on"])?;
    let of_shipped = hackbench_pairs(&shipped, &groups, ["filter=off", "filter=on"])?;
    Ok(Simulated::new(
        vec![gains("kernel model", &of_kernel), gains("shipped model", &of_shipped)],
        vec![
            kernel.condition(
                "hackbench:f=20,via=pipe",
                "search cut off by utilisation against a scan of the whole LLC",
            ),
            shipped.condition("hackbench:f=20,c=64", "filter=on against filter=off"),
        ],
        "the kernel model has its hump at 4 to 7 groups: simulated CPUs are full with fewer groups than real ones. The shipped \
         model finds idle workers by a mask either way, so there is no scan to save",
    ))
}

pub(super) fn f(lab: &Lab) -> Result<Simulated, LabError> {
    let bench = Bench {
        lab,
        machine: "spr-2s",
        model: Model::KernelFaithful { scattered: None },
        millis: 12,
        seeds: 2,
    };
    let shares = [25, 50, 75, 100, 125, 150, 175, 200];
    let run = |&share: &u32| {
        // 224 CPUs; a pair is two tasks, and the figure counts pairs.
        let workload = request_pairs(224 * share / 100)?;
        Ok([
            bench.run(&workload, "group=56,filter=off")?,
            bench.run(&workload, "group=56,filter=on")?,
        ])
    };
    let pairs: Vec<[Steady; 2]> = shares.iter().map(run).collect::<Result<_, LabError>>()?;
    let ratio = |[off, on]: &[Steady; 2]| on.rate / off.rate;
    Ok(Simulated::new(
        vec![Curve::new("throughput", pairs.iter().map(ratio))],
        vec![bench.condition(
            "rpc:think=500,work=500,pipe=1",
            "filter=on against filter=off, group=56",
        )],
        "one task of a pair runs at a time, so CPUs are full from 100 % on; and a look at a CPU costs no line here, while on the \
         real machine all searchers fetch the same ones",
    ))
}
