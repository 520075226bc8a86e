//! Silly answers: what the mechanism must survive whatever it is told.

use quadrille_topology::LlcId;

use crate::{
    Adversary, Claim, GroupId, Nanos, Placement, Plan, Policy, Rng, SoloStep, TaskPolicy, WorkerId, place::pick,
};

/// Where an adversary puts a task, woken or spawned by `worker` (`None`: from outside).
pub(crate) fn place(policy: &Policy, worker: Option<WorkerId>, task: &TaskPolicy, rng: &mut Rng) -> Placement {
    match policy.config.adversary {
        Adversary::Random => random(&policy.plan, worker.is_some(), rng),
        Adversary::Farthest => Placement::Group {
            group: farthest(&policy.plan, task.home),
            claim: Claim::Member,
        },
        Adversary::AlwaysWorkerZero | Adversary::None => Placement::Group {
            group: policy.plan.workers[0].group,
            claim: Claim::Prefer(WorkerId(0)),
        },
    }
}

/// Who works: everything is handed over all the time, or kept from others, or any of it.
pub(crate) fn solo(adversary: Adversary, at: Nanos) -> SoloStep {
    match adversary {
        Adversary::AlwaysWorkerZero => SoloStep::Gathers,
        Adversary::Farthest => SoloStep::Alone,
        Adversary::Random | Adversary::None => match at.0 % 3 {
            0 => SoloStep::All,
            1 => SoloStep::Gathers,
            _ => SoloStep::Alone,
        },
    }
}

/// Every answer there is; slot and deque only for wakers that have them.
fn random(plan: &Plan, inside: bool, rng: &mut Rng) -> Placement {
    let group = GroupId(pick(plan.groups.len(), rng));
    let llc = LlcId(pick(plan.llcs.len(), rng));
    // Often no member of the group.
    let worker = WorkerId(pick(plan.workers.len(), rng));
    match rng.below(if inside { 7 } else { 5 }) {
        0 => Placement::Group {
            group,
            claim: Claim::Nobody,
        },
        1 => Placement::Group {
            group,
            claim: Claim::Member,
        },
        2 => Placement::Group {
            group,
            claim: Claim::Prefer(worker),
        },
        3 => Placement::IdleInLlc { llc, fallback: group },
        4 => Placement::Injector { llc },
        5 => Placement::Deque,
        _ => Placement::Slot,
    }
}

/// The last group of the farthest cache; with one cache, the group opposite.
fn farthest(plan: &Plan, home: GroupId) -> GroupId {
    let Some(group) = plan.groups.get(home.index()) else {
        return GroupId(0);
    };
    let own = &plan.llcs[group.llc.index()];
    match own.others.last() {
        Some(llc) => plan.llcs[llc.index()].groups.last().copied().unwrap_or(home),
        None => {
            let opposite = usize::from(group.index_in_llc) + own.groups.len() / 2;
            own.groups[opposite % own.groups.len()]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        SpawnView,
        testing::{LARGE, NODES, ONE, PAIR, SIBLINGS, UNEVEN, VIEW, drawn, policy, random_view, task},
    };
    use alloc::format;

    /// What any answer keeps to, whoever gives it.
    fn check_sound(policy: &Policy, inside: bool, placement: Placement) {
        let plan = &policy.plan;
        let context = format!("{} {placement:?}", policy.config);
        match placement {
            Placement::Slot | Placement::Deque => assert!(inside, "{context}"),
            Placement::Group { group, claim } => {
                assert!(policy.groups_on() && group.index() < plan.groups.len(), "{context}");
                if let Claim::Prefer(worker) = claim {
                    assert!(worker.index() < plan.workers.len(), "{context}");
                }
            }
            Placement::IdleInLlc { llc, fallback } => {
                assert!(policy.groups_on() && llc.index() < plan.llcs.len(), "{context}");
                assert!(fallback.index() < plan.groups.len(), "{context}");
            }
            Placement::Injector { llc } => assert!(llc.index() < plan.llcs.len(), "{context}"),
        }
    }

    #[test]
    fn every_answer_exists() {
        let configs = [
            "default",
            "baseline",
            "groups=on",
            "cap=fixed:1",
            "adversary=zero",
            "adversary=random",
            "adversary=farthest",
        ];
        for machine in [ONE, PAIR, NODES, SIBLINGS, UNEVEN, LARGE] {
            for config in configs {
                let policy = policy(machine, config);
                let workers = u32::try_from(policy.plan.workers.len()).unwrap();
                let mut rng = Rng::new(42);
                for _ in 0..2_000 {
                    let view = random_view(&mut rng, workers);
                    let mut task = task(&policy, u16::try_from(rng.below(workers)).unwrap());
                    let inside = view.waker.is_some();
                    check_sound(&policy, inside, policy.place_wake(&view, &mut task, &mut rng).0);
                    task.home = GroupId(u16::MAX);
                    check_sound(&policy, inside, policy.place_wake(&view, &mut task, &mut rng).0);
                }
            }
        }
    }

    #[test]
    fn adversaries_are_adverse() {
        let zero = policy(NODES, "adversary=zero");
        let far = policy(NODES, "adversary=farthest");
        let mut rng = Rng::new(1);
        let mut ask = |policy: &Policy, worker| {
            let mut task = task(policy, worker);
            drawn(policy.place_wake(&VIEW, &mut task, &mut rng).0)
        };
        assert_eq!(ask(&zero, 9), "group 0 (worker 0)");
        assert_eq!((ask(&far, 0), ask(&far, 31)), ("group 7".into(), "group 1".into()));
        let far = policy(SIBLINGS, "adversary=farthest");
        assert_eq!((ask(&far, 0), ask(&far, 4)), ("group 1".into(), "group 0".into()));
        assert_eq!(ask(&policy(ONE, "adversary=farthest"), 0), "group 0");

        let random = policy(NODES, "adversary=random");
        let mut kinds = [0; 7];
        for _ in 0..1_000 {
            let mut task = task(&random, 9);
            let view = SpawnView::new(Some(WorkerId(9)));
            kinds[match random.place_spawn(&view, &mut task, &mut rng) {
                Placement::Slot => 0,
                Placement::Deque => 1,
                Placement::Injector { .. } => 2,
                Placement::IdleInLlc { .. } => 3,
                Placement::Group {
                    claim: Claim::Nobody, ..
                } => 4,
                Placement::Group {
                    claim: Claim::Member, ..
                } => 5,
                Placement::Group {
                    claim: Claim::Prefer(_),
                    ..
                } => 6,
            }] += 1;
        }
        assert!(kinds.iter().all(|&count| count > 50), "{kinds:?}");
    }
}
