//! What the policy was asked and what it answered, for tests that ask somebody else a second time.
//!
//! Only with the feature `decision-log`, which is for tests: every decision then takes a lock. Without it, asking
//! through this module is asking.

use quadrille_policy::{
    ExportView, Gates, Level, Nanos, Placement, Policy, ProbeRate, PullView, Reason, RemoteStealView, Rng, Search,
    SetPolicy, SetView, SpawnView, TaskPolicy, UnparkView, WakeView, WorkerId,
};

/// One decision: what was known, and the answer. A policy's answer depends on nothing else.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Decision {
    /// [`Policy::place_wake`].
    Wake {
        /// What was known.
        view: WakeView,
        /// The task's fields before the answer.
        task: TaskPolicy,
        /// The generator before the answer.
        rng: Rng,
        /// The answer, and both after it.
        answer: (Placement, TaskPolicy, Rng),
    },
    /// [`Policy::place_spawn`].
    Spawn {
        /// What was known.
        view: SpawnView,
        /// The task's fields before the answer.
        task: TaskPolicy,
        /// The generator before the answer.
        rng: Rng,
        /// The answer, and both after it.
        answer: (Placement, TaskPolicy, Rng),
    },
    /// [`Policy::unpark`].
    Unpark {
        /// What was known.
        view: UnparkView,
        /// The answer.
        answer: bool,
    },
    /// [`Policy::search`].
    Search {
        /// What the waker's probes have met before the answer.
        rate: ProbeRate,
        /// Utilisation of the cache (1/1024).
        util: u16,
        /// The time.
        now: Nanos,
        /// The answer, and the rate after it.
        answer: (Search, ProbeRate),
    },
    /// [`Policy::steal_remote`].
    Steal {
        /// What was known.
        view: RemoteStealView,
        /// The answer.
        answer: u32,
    },
    /// [`Policy::exports`].
    Export {
        /// What was known.
        view: ExportView,
        /// The answer.
        answer: bool,
    },
    /// [`Policy::gives_back`].
    GiveBack {
        /// The task's fields.
        task: TaskPolicy,
        /// Who has taken it, or would.
        thief: WorkerId,
        /// The answer.
        answer: bool,
    },
    /// [`Policy::couple`].
    Couple {
        /// The task's fields before the answer.
        task: TaskPolicy,
        /// Who wakes it.
        waker: WorkerId,
        /// The answer, and the fields after it.
        answer: (bool, TaskPolicy),
    },
    /// [`SetPolicy::update`]: which cache a set prefers.
    Prefer {
        /// The set before the answer.
        set: SetPolicy,
        /// What was known; the slice is empty here, and beside.
        view: SetView<'static>,
        /// Run time of the set by last-level cache.
        occupancy: Box<[u64]>,
        /// The set after the answer.
        answer: SetPolicy,
    },
    /// [`Policy::pull`].
    Pull {
        /// What was known; the slice is empty here, and beside.
        view: PullView<'static>,
        /// Run time of the set by last-level cache.
        occupancy: Box<[u64]>,
        /// The answer.
        answer: u8,
    },
    /// [`Gates::attempt`].
    Gate {
        /// The worker's gates before the answer.
        gates: Gates,
        /// How far away the worker would look.
        level: Level,
        /// The generator before the answer.
        rng: Rng,
        /// The answer, and both after it.
        answer: (bool, Gates, Rng),
    },
    /// [`Policy::binds_elsewhere`].
    Bind {
        /// Started threads of the worker that asks.
        own: u32,
        /// Started threads of the other one.
        other: u32,
        /// Whether the thread before it went there.
        went: bool,
        /// The answer.
        answer: bool,
    },
    /// [`Policy::threads_to_steal`].
    StealThreads {
        /// Started threads of the thief.
        own: u32,
        /// Those of the spawner, and what it has queued.
        there: u32,
        /// How long the spawner has been in the same task.
        waited: Nanos,
        /// The answer.
        answer: u32,
    },
}

/// Asks where a task that became ready goes, and what decided.
#[inline]
pub(crate) fn place_wake(
    policy: &Policy,
    view: &WakeView,
    task: &mut TaskPolicy,
    rng: &mut Rng,
) -> (Placement, Reason) {
    let before = (*task, *rng);
    let (placement, reason) = policy.place_wake(view, task, rng);
    log::note(|| Decision::Wake {
        view: *view,
        task: before.0,
        rng: before.1,
        answer: (placement, *task, *rng),
    });
    (placement, reason)
}

/// Asks whether tasks that give way stay with their worker, so that nobody need be asked where they go. With the log,
/// everybody is asked.
#[inline]
pub(crate) fn yields_stay(policy: &Policy) -> bool {
    policy.yields_stay() && (!cfg!(feature = "decision-log") || !policy.groups_on())
}

/// Asks whether a task stays with its waker, as above.
#[inline]
pub(crate) fn stays_with_waker(
    policy: &Policy,
    waker: WorkerId,
    task: &TaskPolicy,
    slot_is_free: impl FnOnce() -> bool,
) -> bool {
    !cfg!(feature = "decision-log") && policy.stays_with_waker(waker, task, slot_is_free)
}

/// Asks whether a task stays with its waker because tasks are short, as above.
#[inline]
pub(crate) fn stays_as_short(policy: &Policy, waker_run: Nanos, home_run: Nanos, wake_cost: Nanos) -> bool {
    !cfg!(feature = "decision-log") && policy.stays_as_short(waker_run, home_run, wake_cost)
}

/// Asks whether all new tasks stay with their spawners. With the log, everybody is asked.
#[inline]
pub(crate) fn spawns_stay(policy: &Policy) -> bool {
    policy.spawns_stay() && (!cfg!(feature = "decision-log") || !policy.groups_on())
}

/// Asks whether all new tasks from outside go to one queue, as above.
#[inline]
pub(crate) fn has_one_way_in(policy: &Policy) -> bool {
    policy.has_one_way_in() && (!cfg!(feature = "decision-log") || !policy.groups_on())
}

/// Asks where a new task goes.
#[inline]
pub(crate) fn place_spawn(policy: &Policy, view: &SpawnView, task: &mut TaskPolicy, rng: &mut Rng) -> Placement {
    let before = (*task, *rng);
    let placement = policy.place_spawn(view, task, rng);
    log::note(|| Decision::Spawn {
        view: *view,
        task: before.0,
        rng: before.1,
        answer: (placement, *task, *rng),
    });
    placement
}

/// Asks whether an idle worker is unparked.
#[inline]
pub(crate) fn unpark(policy: &Policy, view: &UnparkView) -> bool {
    let answer = policy.unpark(view);
    log::note(|| Decision::Unpark { view: *view, answer });
    answer
}

/// Asks how an idle worker is looked for.
#[inline]
pub(crate) fn search(policy: &Policy, rate: &mut ProbeRate, util: u16, now: Nanos) -> Search {
    let before = *rate;
    let how = policy.search(rate, util, now);
    log::note(|| Decision::Search {
        rate: before,
        util,
        now,
        answer: (how, *rate),
    });
    how
}

/// Asks how many tasks may be taken from far away.
#[inline]
pub(crate) fn steal_remote(policy: &Policy, view: &RemoteStealView) -> u32 {
    let answer = policy.steal_remote(view);
    log::note(|| Decision::Steal { view: *view, answer });
    answer
}

/// Asks whether a task is put up for other caches.
#[inline]
pub(crate) fn exports(policy: &Policy, view: &ExportView) -> bool {
    let answer = policy.exports(view);
    log::note(|| Decision::Export { view: *view, answer });
    answer
}

/// Asks whether a thief gives a task back.
#[inline]
pub(crate) fn gives_back(policy: &Policy, task: &TaskPolicy, thief: WorkerId) -> bool {
    let answer = policy.gives_back(task, thief);
    log::note(|| Decision::GiveBack {
        task: *task,
        thief,
        answer,
    });
    answer
}

/// Asks whether by its wakes a task might move to its waker's cache.
#[inline]
pub(crate) fn couple(policy: &Policy, task: &mut TaskPolicy, waker: WorkerId) -> bool {
    let before = *task;
    let answer = policy.couple(task, waker);
    log::note(|| Decision::Couple {
        task: before,
        waker,
        answer: (answer, *task),
    });
    answer
}

/// Asks which cache a set prefers, once an epoch.
pub(crate) fn prefer(policy: &Policy, set: &mut SetPolicy, view: &SetView<'_>) {
    let before = *set;
    set.update(&policy.config.aggregation, view);
    log::note(|| Decision::Prefer {
        set: before,
        view: SetView {
            occupancy: &[],
            ..*view
        },
        occupancy: view.occupancy.into(),
        answer: *set,
    });
}

/// Asks how many tasks a set's preferred cache pulls in this epoch.
pub(crate) fn pull(policy: &Policy, view: &PullView<'_>) -> u8 {
    let answer = policy.pull(view);
    log::note(|| Decision::Pull {
        view: PullView {
            occupancy: &[],
            ..*view
        },
        occupancy: view.occupancy.into(),
        answer,
    });
    answer
}

/// Asks whether a worker without work looks at `level` this time.
#[inline]
pub(crate) fn attempt(gates: &mut Gates, level: Level, rng: &mut Rng) -> bool {
    let before = (gates.clone(), *rng);
    let answer = gates.attempt(level, rng);
    log::note(|| Decision::Gate {
        gates: before.0,
        level,
        rng: before.1,
        answer: (answer, gates.clone(), *rng),
    });
    answer
}

/// Asks whether a thread is bound to another worker.
#[inline]
pub(crate) fn binds_elsewhere(policy: &Policy, own: u32, other: u32, went: bool) -> bool {
    let answer = policy.binds_elsewhere(own, other, went);
    log::note(|| Decision::Bind {
        own,
        other,
        went,
        answer,
    });
    answer
}

/// Asks how many threads that have not begun are stolen from their spawner.
#[inline]
pub(crate) fn threads_to_steal(policy: &Policy, own: u32, there: u32, waited: Nanos) -> u32 {
    let answer = policy.threads_to_steal(own, there, waited);
    log::note(|| Decision::StealThreads {
        own,
        there,
        waited,
        answer,
    });
    answer
}

#[cfg(feature = "decision-log")]
pub use log::take;

#[cfg(feature = "decision-log")]
mod log {
    use super::Decision;
    use crate::stress::StaticMutex;

    static LOG: StaticMutex<Vec<Decision>> = StaticMutex::new(Vec::new());

    /// At most so many decisions are kept.
    const KEPT_MAX: usize = 1 << 20;

    pub(super) fn note(decision: impl FnOnce() -> Decision) {
        let mut log = LOG.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if log.len() < KEPT_MAX {
            log.push(decision());
        }
    }

    /// Takes what was decided so far in this process, by all runtimes; the first 2^20 decisions since the last call.
    pub fn take() -> Vec<Decision> {
        let mut log = LOG.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::mem::take(&mut *log)
    }
}

#[cfg(not(feature = "decision-log"))]
mod log {
    use super::Decision;

    #[inline(always)]
    pub(super) fn note(_: impl FnOnce() -> Decision) {}
}
