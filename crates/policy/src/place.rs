//! Where a ready or new task is queued, and who is woken for it.

use quadrille_topology::LlcId;

use crate::{
    Config, GroupId, Plan, Rng, SpawnView, TaskPolicy, UnparkView, WakeView, WorkerId, wake_cost,
};

/// Where a task is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The waker's LIFO slot: the task runs next. Only for a waker that is a worker; notifies nobody.
    Slot,
    /// The back of the waker's deque. Only for a waker that is a worker.
    Deque,
    /// A group's FIFO (member, under `try_lock`) or mailbox (others).
    Group {
        /// Which group.
        group: GroupId,
        /// Who should be unparked for it.
        claim: Claim,
    },
    /// The first idle group of `llc`, rotating from the waker's; else `fallback`'s queue.
    IdleInLlc {
        /// Where to look for an idle worker.
        llc: LlcId,
        /// Where the task is queued if there is none.
        fallback: GroupId,
    },
    /// An LLC's injector.
    Injector {
        /// Which LLC.
        llc: LlcId,
    },
}

/// Whom to unpark after a task was queued in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Nobody on the task's account; the mechanism still keeps its observer rule.
    Nobody,
    /// This member if it is idle, else any idle member of the group.
    Prefer(WorkerId),
    /// Any idle member of the group.
    Member,
}

/// Configuration and plan together: what answers every question.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The constants.
    pub config: Config,
    /// The tables.
    pub plan: Plan,
}

impl Policy {
    /// Joins a configuration and a plan, and decides which policies with [`Mode::Auto`](crate::Mode) are on.
    #[must_use]
    pub fn new(config: Config, plan: Plan) -> Self {
        Self { config, plan }
    }

    /// The policy fields of a task that was just made.
    #[must_use]
    pub fn new_task(&self, spawner: Option<WorkerId>, set: u32) -> TaskPolicy {
        let worker = spawner.unwrap_or_default();
        TaskPolicy {
            home: self.plan.workers[worker.index()].group,
            home_worker: worker,
            window: crate::Tick(0),
            set,
            used: 0,
            quota: 10,
        }
    }

    /// Whether wake-ups are queued in groups at all; if not, only [`Placement::Slot`], [`Placement::Deque`] and
    /// [`Placement::Injector`] are ever answered and the mechanism need not fill the group's part of a view.
    #[inline]
    #[must_use]
    pub fn groups_on(&self) -> bool {
        false
    }

    /// Where a task that became ready is queued.
    #[inline]
    pub fn place_wake(&self, view: &WakeView, _task: &mut TaskPolicy, _rng: &mut Rng) -> Placement {
        match view.waker {
            None => Placement::Injector { llc: LlcId(0) },
            Some(_) if view.yielded => Placement::Deque,
            Some(_) => Placement::Slot,
        }
    }

    /// Where a new task is queued.
    #[inline]
    pub fn place_spawn(
        &self,
        view: &SpawnView,
        _task: &mut TaskPolicy,
        _rng: &mut Rng,
    ) -> Placement {
        match view.spawner {
            None => Placement::Injector { llc: LlcId(0) },
            Some(_) => Placement::Deque,
        }
    }

    /// Whether one idle worker is unparked for work that was just published.
    #[inline]
    #[must_use]
    pub fn unpark(&self, view: &UnparkView) -> bool {
        wake_cost::pays(view)
    }
}
