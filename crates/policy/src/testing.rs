//! What the tests of several modules need.

use alloc::{format, string::String};

use quadrille_topology::Topology;

use crate::{
    Claim, Config, CouplingView, GroupMask, LlcId, LlcView, Nanos, Placement, Plan, Policy, Rng, SetId, TaskPolicy,
    WakeView, WorkerId,
};

/// One worker.
pub(crate) const ONE: &str = "pu:1";
/// Two siblings of one core.
pub(crate) const PAIR: &str = "core:1 pu:2";
/// Two nodes of two caches of two groups of four: group g has the workers 4g to 4g + 3, cache c the groups 2c, 2c + 1.
pub(crate) const NODES: &str = "node:2 llc:2 l2:2 core:4";
/// As above, with two siblings a core.
pub(crate) const SIBLINGS: &str = "llc:1 l2:2 core:2 pu:2";
/// Two caches of one group of two, then one with two groups of four.
pub(crate) const UNEVEN: &str = "node:[llc:2 l2:1 core:2, llc:1 l2:2 core:4]";
/// 512 workers: 64 caches of two groups.
pub(crate) const LARGE: &str = "node:8 llc:8 l2:2 core:4";

/// A wake by worker 9 (group 2 of `NODES`) at three quarters' load; nobody is idle.
pub(crate) const VIEW: WakeView = WakeView {
    waker: Some(WorkerId(9)),
    yielded: false,
    slot_empty: true,
    now: Nanos::from_millis(5),
    waker_run: Nanos(0),
    home_run: Nanos(0),
    wake_cost: Nanos::from_micros(5),
    home_idle: GroupMask(0),
    home_queued: 3,
    home_oldest: Nanos::from_micros(10),
    llc_util: 768,
    llc_has_idle: false,
    coupling: CouplingView {
        preferred: None,
        pulls: false,
        waker: None,
        home_util: 0,
        wakees: None,
    },
};

/// A policy for a machine and a configuration, both as text.
pub(crate) fn policy(machine: &str, config: &str) -> Policy {
    let config: Config = config.parse().unwrap_or_else(|error| panic!("{error}"));
    let machine: Topology = machine.parse().unwrap_or_else(|error| panic!("{error}"));
    let plan = Plan::compile(&machine, &config.plan_options(None));
    Policy::new(config, plan.unwrap_or_else(|error| panic!("{error}")))
}

/// A task whose home worker is `worker`, with its full quota.
pub(crate) fn task(policy: &Policy, worker: u16) -> TaskPolicy {
    let mut task = policy.new_task(None, SetId::NONE);
    policy.ran(&mut task, WorkerId(worker));
    task
}

/// An answer, short: `slot`, `deque`, `group 3 (worker 13)`, `idle in llc 1 or group 2`, `injector 0`.
pub(crate) fn drawn(placement: Placement) -> String {
    match placement {
        Placement::Slot => "slot".into(),
        Placement::Deque => "deque".into(),
        Placement::Group { group, claim } => match claim {
            Claim::Nobody => format!("group {} (nobody)", group.0),
            Claim::Member => format!("group {}", group.0),
            Claim::Prefer(worker) => format!("group {} (worker {})", group.0, worker.0),
        },
        Placement::IdleInLlc { llc, fallback } => {
            format!("idle in llc {} or group {}", llc.0, fallback.0)
        }
        Placement::Injector { llc } => format!("injector {}", llc.0),
    }
}

/// Any view at all.
pub(crate) fn random_view(rng: &mut Rng, workers: u32) -> WakeView {
    let mut flip = || rng.below(2) == 0;
    let (inside, yielded, slot_empty, llc_has_idle, idle) = (flip(), flip(), flip(), flip(), flip());
    let mut number = |bound: u32| rng.below(bound);
    WakeView {
        waker: inside.then(|| WorkerId(u16::try_from(number(workers)).unwrap())),
        yielded,
        slot_empty,
        now: Nanos(u64::from(number(u32::MAX))),
        waker_run: Nanos(u64::from(number(4) * number(20_000))),
        home_run: Nanos(u64::from(number(4) * number(20_000))),
        wake_cost: Nanos(u64::from(number(20_000))),
        home_idle: GroupMask(if idle { u64::from(number(u32::MAX)) } else { 0 }),
        home_queued: number(20),
        home_oldest: Nanos(u64::from(number(400_000))),
        llc_util: u16::try_from(number(1100)).unwrap(),
        llc_has_idle,
        coupling: random_coupling(rng),
    }
}

fn random_coupling(rng: &mut Rng) -> CouplingView {
    let mut llc = || {
        let there = rng.below(3) == 0;
        there.then(|| LlcView {
            llc: LlcId(u16::try_from(rng.below(70)).unwrap()),
            util: u16::try_from(rng.below(1100)).unwrap(),
            has_idle: rng.below(2) == 0,
            node_running: rng.below(20),
        })
    };
    CouplingView {
        preferred: llc(),
        waker: llc(),
        pulls: rng.below(2) == 0,
        home_util: u16::try_from(rng.below(1100)).unwrap(),
        wakees: (rng.below(4) > 0).then(|| rng.below(10)),
    }
}
