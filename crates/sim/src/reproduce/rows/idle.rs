//! Rows E and F.

use super::Simulated;
use super::lab::{Bench, Lab, LabError, Steady};
use super::queues::{KERNEL, channels, gains, hackbench, request_pairs};
use crate::reproduce::curve::Curve;
use crate::{Change, Model, Workload};

/// The kernel's search as it was before the cut-off by utilisation.
const PROPORTIONAL: Model = Model::KernelChanged(Change::Proportion);

/// What `ours` does beside `base`, each under its model and configuration.
fn pair<W: Workload + Clone + Sync>(
    bench: Bench<'_>,
    workload: &W,
    base: (Model, &str),
    ours: (Model, &str),
) -> Result<[Steady; 2], LabError> {
    let run = |(model, config)| Bench { model, ..bench }.run(workload, config);
    Ok([run(base)?, run(ours)?])
}

pub(super) fn e(lab: &Lab) -> Result<Simulated, LabError> {
    let heavy = Bench {
        lab,
        machine: "xeon-8260-2s",
        model: KERNEL,
        millis: 24,
        seeds: 2,
    };
    // With few groups a run is one of several kinds, which with one differ by four times.
    let light = Bench { seeds: 8, ..heavy };
    let lone = Bench { seeds: 64, ..heavy };
    let groups = [1, 4, 7, 12, 21, 30, 48, 79, 110];
    let bench = |groups: u32| match groups {
        1 => lone,
        2..=7 => light,
        _ => heavy,
    };
    let (off, on) = ("group=48,filter=off", "group=48,filter=on");
    let of_kernel = |base: Model| -> Result<Vec<[Steady; 2]>, LabError> {
        let one = |&count: &u32| pair(bench(count), &hackbench(count)?, (base, off), (KERNEL, on));
        groups.iter().map(one).collect()
    };
    let of_shipped = |&count: &u32| {
        let (base, ours) = ((Model::ShippedScan, "filter=off"), (Model::Shipped, "filter=on"));
        pair(bench(count), &channels(count)?, base, ours)
    };
    let of_shipped: Vec<[Steady; 2]> = groups.iter().map(of_shipped).collect::<Result<_, _>>()?;
    let shipped = Bench {
        model: Model::Shipped,
        ..light
    };
    Ok(Simulated::new(
        vec![
            gains("kernel model", &of_kernel(KERNEL)?),
            gains("kernel model, over SIS_PROP", &of_kernel(PROPORTIONAL)?),
            gains("shipped model", &of_shipped),
        ],
        vec![
            light.condition(
                "hackbench:f=20,via=pipe of 4 and 7 groups (of 1: seeds 1 to 64)",
                "search cut off by utilisation against one of the whole LLC, and against one that SIS_PROP limits (model kernel-prop)",
            ),
            shipped.condition(
                "hackbench:f=20,c=64 of 4 and 7 groups (of 1: seeds 1 to 64)",
                "filter=on against filter=off under the model shipped-scan, where a waker goes from worker to worker",
            ),
            heavy.condition("both, of 12 groups and more", "the same"),
        ],
        "CPUs are full with fewer groups than real ones, and the humps lie there: at 4 groups a scan finds more idle workers than the \
         policy wants woken, and from 12 on it finds none, which costs it 4 to 5 %. With one group a run passes 8 or 30 messages a us, \
         by seed, with either search; of those that pass 8, a scan's pass a tenth more, because it begins beside the task's home",
    ))
}

pub(super) fn f(lab: &Lab) -> Result<Simulated, LabError> {
    let bench = Bench {
        lab,
        machine: "spr-2s",
        model: KERNEL,
        millis: 12,
        seeds: 2,
    };
    let shares = [25, 50, 75, 100, 125, 150, 175, 200];
    let ratios = |name: &str, base: Model| -> Result<Curve, LabError> {
        let ratio = |&share: &u32| {
            // 224 CPUs; a pair is two tasks, and the figure counts pairs.
            let workload = request_pairs(224 * share / 100)?;
            let [off, on] = pair(
                bench,
                &workload,
                (base, "group=56,filter=off"),
                (KERNEL, "group=56,filter=on"),
            )?;
            Ok(on.rate / off.rate)
        };
        let ratios: Vec<f64> = shares.iter().map(ratio).collect::<Result<_, LabError>>()?;
        Ok(Curve::new(name, ratios))
    };
    Ok(Simulated::new(
        vec![
            ratios("throughput", KERNEL)?,
            ratios("throughput, over SIS_PROP", PROPORTIONAL)?,
        ],
        vec![bench.condition(
            "rpc:think=500,work=500,pipe=1",
            "filter=on against filter=off, which searches the whole LLC, and against kernel-prop with filter=off; group=56",
        )],
        "one task of a pair runs at a time, so CPUs are full from 100 % on, and never idle for a moment; SIS_PROP then searches \
         next to nothing here, while searches were measured to take 16 to 128 us under it",
    ))
}
