//! Rows A, A', B, C, D, G, R, S, T.

use super::Simulated;
use super::lab::{Bench, Lab, LabError, Steady, workload};
use crate::reproduce::curve::{Curve, gained_percent};
use crate::{Change, Hackbench, Model, Rpc, Schbench};

pub(super) const KERNEL: Model = Model::KernelFaithful { scattered: None };

/// As many groups of 20 senders and 20 receivers over pipes.
pub(super) fn hackbench(groups: u32) -> Result<Hackbench, LabError> {
    workload(&format!("g={groups},via=pipe"))
}

/// The same between tasks of the runtime, whose channels hold 64 messages: with as many as a pipe holds, hundreds pass
/// between two switches, where the published runs switch every fourteen.
pub(super) fn channels(groups: u32) -> Result<Hackbench, LabError> {
    workload(&format!("g={groups},c=64"))
}

/// Times relative to the first run, from rates.
pub(super) fn times(name: &str, runs: &[Steady]) -> Curve {
    Curve::new(name, runs.iter().map(|run| 1.0 / run.rate)).relative_to_first()
}

/// What each pair of runs gains: the rate of the second over that of the first, in percent.
pub(super) fn gains(name: &str, pairs: &[[Steady; 2]]) -> Curve {
    Curve::new(
        name,
        pairs.iter().map(|[base, ours]| gained_percent(base.rate, ours.rate)),
    )
}

/// With up to so many groups of hackbench a run is one of several kinds, by how soon it leaves the contention that it
/// begins in.
const FEW_GROUPS: u32 = 4;

/// The same bench, for few groups.
fn light<'a>(bench: &Bench<'a>) -> Bench<'a> {
    Bench { seeds: 64, ..*bench }
}

/// Runs hackbench over pipes with so many groups under both configurations.
fn hackbench_pairs(bench: &Bench<'_>, groups: &[u32], configs: [&str; 2]) -> Result<Vec<[Steady; 2]>, LabError> {
    let pair = |&groups: &u32| {
        let workload = hackbench(groups)?;
        let bench = if groups <= FEW_GROUPS { light(bench) } else { *bench };
        Ok([bench.run(&workload, configs[0])?, bench.run(&workload, configs[1])?])
    };
    groups.iter().map(pair).collect()
}

const SIZES: [&str; 5] = ["group=1", "group=2", "group=4", "group=8", "group=16"];

pub(super) fn a(lab: &Lab) -> Result<Simulated, LabError> {
    let kernel = Bench {
        lab,
        machine: "epyc-9654-2s",
        model: KERNEL,
        millis: 40,
        seeds: 4,
    };
    let shipped = Bench {
        model: Model::Shipped,
        ..kernel
    };
    let (workload, between_tasks) = (hackbench(32)?, channels(32)?);
    let kernel_config = |size: &str| format!("{size},filter=on,lazy=off");
    let spinning = |size: &str| format!("{size},groups=on,contention=spin");
    let of_kernel: Vec<Steady> = SIZES
        .iter()
        .map(|size| kernel.run(&workload, &kernel_config(size)))
        .collect::<Result<_, _>>()?;
    let of_shipped: Vec<Steady> = SIZES
        .iter()
        .map(|size| shipped.run(&between_tasks, &spinning(size)))
        .collect::<Result<_, _>>()?;
    Ok(Simulated::new(
        vec![times("kernel model", &of_kernel), times("shipped model", &of_shipped)],
        vec![
            kernel.condition("hackbench:g=32,f=20,via=pipe", "group=N,filter=on,lazy=off"),
            shipped.condition("hackbench:g=32,f=20,c=64", "group=N,groups=on,contention=spin"),
        ],
        "the shipped model holds a group's lock for two pointers, not for load tracking, so large groups cost little",
    ))
}

pub(super) fn a_prime(lab: &Lab) -> Result<Simulated, LabError> {
    let ones = Bench {
        lab,
        machine: "epyc-9654-2s",
        model: KERNEL,
        millis: 40,
        seeds: 4,
    };
    let threes = Bench {
        model: Model::KernelFaithful { scattered: Some(3) },
        ..ones
    };
    let (workload, config) = (hackbench(32)?, "group=1,filter=on,lazy=off");
    let runs = [ones.run(&workload, config)?, threes.run(&workload, config)?];
    Ok(Simulated::new(
        vec![times("kernel model", &runs)],
        vec![
            ones.condition("hackbench:g=32,f=20,via=pipe", config),
            threes.condition("hackbench:g=32,f=20,via=pipe", "the same"),
        ],
        "",
    ))
}

/// The LLC of this machine has 112 threads and a group at most 64: two groups an LLC stand for the LLC.
const LLC_UNIT: &str = "group=56,filter=on";
const L2_UNIT: &str = "group=2,filter=on";

fn sapphire_rapids(lab: &Lab) -> Bench<'_> {
    Bench {
        lab,
        machine: "spr-2s",
        model: KERNEL,
        millis: 40,
        seeds: 16,
    }
}

/// The gain of the L2 unit at each number of groups.
fn unit_gain(bench: &Bench<'_>, name: &str, groups: &[u32], lazy: &str) -> Result<Curve, LabError> {
    let configs = [format!("{LLC_UNIT},lazy={lazy}"), format!("{L2_UNIT},lazy={lazy}")];
    let pairs = hackbench_pairs(bench, groups, [&configs[0], &configs[1]])?;
    Ok(gains(name, &pairs))
}

pub(super) fn b(lab: &Lab) -> Result<Simulated, LabError> {
    let bench = sapphire_rapids(lab);
    let gain = unit_gain(&bench, "gain, shared counters", &[1, 4, 10, 20, 32], "off")?;
    Ok(Simulated::new(
        vec![gain],
        vec![
            light(&bench).condition(
                "hackbench:f=20,via=pipe of 1 and 4 groups",
                "group=2 against group=56, filter=on,lazy=off",
            ),
            bench.condition("of 10 groups and more", "the same"),
        ],
        "runs begin in contention and get out of it; how soon differs by seed, and it shows at 4 to 20 groups. With 32 no simulated \
         CPU is idle any more, and without idle CPUs nothing is moved or contended for",
    ))
}

pub(super) fn c(lab: &Lab) -> Result<Simulated, LabError> {
    let bench = sapphire_rapids(lab);
    let groups = [10, 20, 32];
    Ok(Simulated::new(
        vec![
            unit_gain(&bench, "gain, shared counters", &groups, "off")?,
            unit_gain(&bench, "gain, lazy counters", &groups, "on")?,
        ],
        vec![bench.condition(
            "hackbench:f=20,via=pipe",
            "group=2 against group=56, filter=on, lazy=off and lazy=on",
        )],
        "as row B: a gain of 3 or 4 % is less than what seeds differ by",
    ))
}

pub(super) fn d(lab: &Lab) -> Result<Simulated, LabError> {
    let bench = sapphire_rapids(lab);
    let configs = [format!("{LLC_UNIT},lazy=off"), format!("{LLC_UNIT},lazy=on")];
    let pairs = hackbench_pairs(&bench, &[1, 4, 8, 16], [&configs[0], &configs[1]])?;
    Ok(Simulated::new(
        vec![gains("gain", &pairs)],
        vec![
            light(&bench).condition(
                "hackbench:f=20,via=pipe of 1 and 4 groups",
                "lazy=on against lazy=off, group=56,filter=on",
            ),
            bench.condition("of 8 groups and more", "the same"),
        ],
        "at 4 groups seeds pass 40 or 70 messages a us with any setting; only the load of one task group is simulated, where the \
         kernel updates one for each level and reads it at every enqueue and dequeue",
    ))
}

pub(super) fn g(lab: &Lab) -> Result<Simulated, LabError> {
    let bench = sapphire_rapids(lab);
    let configs = [format!("{LLC_UNIT},lazy=off"), format!("{L2_UNIT},lazy=off")];
    let pairs = hackbench_pairs(&bench, &[20], [&configs[0], &configs[1]])?;
    let [llc, l2] = &pairs[0];
    // Per message, because the same time has room for more of them with the L2 unit.
    let ratio = |count: fn(&Steady) -> f64| count(l2) / count(llc);
    let change = Curve::with_gaps(
        "change",
        [
            ratio(|run| run.counters.wakes_found as f64),
            ratio(|run| run.counters.wakes_cut as f64),
            ratio(|run| run.idle_share),
        ]
        .map(|ratio| ratio.is_finite().then_some(ratio))
        .to_vec(),
    );
    let count = |run: &Steady| {
        format!(
            "{} moves to a found idle CPU, {} searches, {} cut, {:.1} % idle",
            run.counters.wakes_found,
            run.counters.wakes_searched,
            run.counters.wakes_cut,
            run.idle_share * 100.0
        )
    };
    Ok(Simulated::new(
        vec![change],
        vec![
            bench.condition(
                "hackbench:g=20,f=20,via=pipe",
                "group=2 against group=56, filter=on,lazy=off",
            ),
            format!("LLC unit: {}", count(llc)),
            format!("L2 unit: {}", count(l2)),
        ],
        "",
    ))
}

pub(super) fn r(lab: &Lab) -> Result<Simulated, LabError> {
    let shipped = Bench {
        lab,
        machine: "ecore",
        model: Model::Shipped,
        millis: 20,
        seeds: 8,
    };
    let plain = Bench {
        model: KERNEL,
        ..shipped
    };
    let clusters = Bench {
        model: Model::KernelChanged(Change::Clusters),
        ..shipped
    };
    let gain = |name: &str, cases: [(&Bench<'_>, &str); 2]| {
        let run = |&pairs: &u32| {
            let workload = request_pairs(pairs)?;
            let [base, ours] = cases.map(|(bench, config)| bench.run(&workload, config));
            Ok([base?, ours?])
        };
        let pairs: Result<Vec<[Steady; 2]>, LabError> = [1, 4, 8, 16, 32, 64, 128].iter().map(run).collect();
        Ok(gains(name, &pairs?))
    };
    let whole = "group=32,filter=on,lazy=off";
    let configs = ["group=1,groups=on", "group=l2,groups=on"];
    Ok(Simulated::new(
        vec![
            gain("kernel model, gain", [(&plain, whole), (&clusters, whole)])?,
            gain("gain", configs.map(|config| (&shipped, config)))?,
        ],
        vec![
            plain.condition(
                REQUESTS,
                "model kernel-clusters (clusters of 4 cores searched first) against kernel, group=32,filter=on,lazy=off",
            ),
            shipped.condition(REQUESTS, "group=l2 (clusters of 4 cores) against group=1, groups=on"),
        ],
        "in the kernel model a pair finds neighbouring CPUs without clusters too, unless a cluster ends between them, and a pipe \
         has two lines to bring nearer; a socket has more. In the runtime a woken task goes to its own worker with either \
         grouping, and the cluster only says who is looked for next",
    ))
}

const REQUESTS: &str = "rpc:think=500,work=500,pipe=1";

/// Request-response pairs over pipes, which cost what a loopback socket costs at least.
pub(super) fn request_pairs(pairs: u32) -> Result<Rpc, LabError> {
    workload(&format!("pairs={pairs},think=500,work=500,pipe=1"))
}

pub(super) fn s(lab: &Lab) -> Result<Simulated, LabError> {
    let bench = Bench {
        lab,
        machine: "milan-2s",
        model: Model::Shipped,
        millis: 20,
        seeds: 5,
    };
    let configs = ["group=l2,groups=on", "group=16,groups=on,contention=spin"];
    let run = |&clients: &u32| {
        let workload = request_pairs(clients)?;
        Ok([bench.run(&workload, configs[0])?, bench.run(&workload, configs[1])?])
    };
    let pairs: Vec<[Steady; 2]> = [1, 8, 32, 64, 128, 256, 512]
        .iter()
        .map(run)
        .collect::<Result<_, LabError>>()?;
    Ok(Simulated::new(
        vec![gains("gain", &pairs)],
        vec![bench.condition(REQUESTS, "group=16,contention=spin (one queue an LLC) against group=l2")],
        "with two workers a group more of them go to sleep and are claimed, and at 256 clients all of these write the word that \
         says which caches have idle workers; the runtime's workers linger before they do, which this model leaves out. At 128 half \
         of the loss is what searches read of the groups of other caches. By default (short-runs=6) both groupings pass the same. The \
         kernel lost in balancing, which this model has not",
    ))
}

pub(super) fn t(lab: &Lab) -> Result<Simulated, LabError> {
    let bench = Bench {
        lab,
        machine: "spr-2s",
        model: Model::Shipped,
        millis: 80,
        seeds: 5,
    };
    let workload: Schbench = workload("sleep=100000,compute=100000")?;
    let configs = ["gates=off", "gates=on", "gates=on,gate-start=0"];
    let runs: Vec<Steady> = configs
        .iter()
        .map(|config| bench.run(&workload, config))
        .collect::<Result<_, _>>()?;
    Ok(Simulated::new(
        vec![Curve::new("requests/s", runs.iter().map(|run| run.rate)).relative_to_first()],
        vec![bench.condition(
            "schbench:t=224,sleep=100000,compute=100000",
            "gates=off, gates=on, gates=on,gate-start=0",
        )],
        "",
    ))
}
