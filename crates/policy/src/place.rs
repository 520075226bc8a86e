//! Where a ready or new task is queued, and who is woken for it.
//!
//! The order in which the policies speak when a task becomes ready; the first that applies decides. *Home* is the group
//! that the task was last deliberately placed in, *home worker* the member that ran it last.
//!
//! 1. A task that yielded goes to the back of its worker's deque.
//! 2. The cache that wakes it again and again has room, and its waker wakes few; or it is woken from
//!    another node more often than from home's ([`Aggregation::drift`](crate::Aggregation::drift)); or the cache that
//!    its set prefers pulls this epoch (policy 3): an idle worker there is claimed. The task moves house, however often
//!    it was moved in this window (policy 4).
//! 3. Its home worker's tasks run for less than waking somebody is worth ([`WakeGroups::short_runs`]): its waker's LIFO
//!    slot; what is in there goes to the waker's deque. Queues, and a worker woken for each message, cost such tasks
//!    more than they gain.
//! 4. The waker is the home worker: its LIFO slot, if empty.
//! 5. The home worker is idle: it is claimed.
//! 6. Another member of home is idle: claimed, one with an idle core first.
//! 7. The waker is the home worker: its LIFO slot; what is in there goes to its deque.
//! 8. Nobody behind home's cache is idle, nor behind the one that its set prefers, and its home worker's tasks run for
//!    1 ms at most ([`WakeGroups::short_busy`]): as in step 3. It would wait at home as well, and what it shares with
//!    its waker would cross between their caches each time.
//! 9. Home's cache is too busy to search (policy 2), or the task was moved often enough in this window and home gets on
//!    with its work, or home is hardly busy (policy 4): queued at home.
//! 10. The cache that its set prefers has room: an idle worker there is claimed; else one of home's cache, rotating
//!     over its groups. The task moves house.
//! 11. Otherwise: queued at home, not at the waker, so that the data stays where it is; what exceeds a few tasks a
//!     member goes to the queue of the cache, which thieves need no group lock for.
//!
//! No wake but those of steps 2, 3, 8 and 10 crosses last-level caches: that is for thieves. A task that crosses in
//! steps 3 and 8 keeps its home. Bound tasks are not asked about. With groups off there is no home and nothing to
//! weigh: [`Policy::wake_without_groups`] has the answer, as has [`Policy::spawn_without_groups`] for a new task.
//!
//! [`WakeGroups::short_runs`]: crate::WakeGroups::short_runs
//! [`WakeGroups::short_busy`]: crate::WakeGroups::short_busy

use quadrille_topology::LlcId;

use crate::{
    Adversary, CouplingView, GroupId, GroupMask, GroupPlan, LlcView, Nanos, Policy, Rng, SpawnView, TaskPolicy,
    WakeView, WorkerId, adversary, idle_filter, numa,
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

/// What decided where a woken task goes, for the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It stays with its waker.
    Waker,
    /// The cache that its only waker is in, or that its coupling set prefers, has it (policy 3).
    Pulled,
    /// Its home has an idle worker.
    IdleHome,
    /// Home is busy, and no other worker of its cache is idle.
    NobodyIdle,
    /// Home is busy, and an idle worker of its cache is looked for.
    Searched,
    /// Home is busy, and policy 2 does not look for another worker: its cache is too busy.
    CutOff,
    /// Home is busy, and policy 4 keeps the task there: it has used up its group changes.
    Capped,
    /// Home is busy, and policy 4 keeps the task there: the queue is short.
    Fits,
    /// Not one of these: no groups, or an adversary.
    Other,
}

impl Policy {
    /// Where a task that became ready is queued, and what decided.
    #[inline]
    pub fn place_wake(&self, view: &WakeView, task: &mut TaskPolicy, rng: &mut Rng) -> (Placement, Reason) {
        if self.groups_on() {
            return self.place_in_groups(view, task, rng);
        }
        (Self::wake_without_groups(view.waker, view.yielded), Reason::Other)
    }

    /// What [`Policy::place_wake`] answers with groups off, for which nobody need fill a view: a worker keeps what it
    /// wakes, and the first injector has what comes from outside.
    #[inline]
    #[must_use]
    pub const fn wake_without_groups(waker: Option<WorkerId>, yielded: bool) -> Placement {
        match waker {
            None => Placement::Injector { llc: LlcId(0) },
            Some(_) if yielded => Placement::Deque,
            Some(_) => Placement::Slot,
        }
    }

    /// What [`Policy::place_spawn`] answers with groups off, for which nobody need fill a view: a worker keeps what it
    /// spawns, also where policy 6 is on, and the first injector has what comes from outside.
    #[inline]
    #[must_use]
    pub const fn spawn_without_groups(spawner: Option<WorkerId>) -> Placement {
        match spawner {
            None => Placement::Injector { llc: LlcId(0) },
            Some(_) => Placement::Deque,
        }
    }

    /// Whether every task that gives way goes to the back of its worker's deque, so that [`Policy::place_wake`] need
    /// not be asked: because groups are off, or because that would always be the answer.
    #[inline]
    #[must_use]
    pub fn yields_stay(&self) -> bool {
        self.yields_stay
    }

    /// Whether [`Policy::place_wake`] leaves a task that did not give way in the slot of the worker that wakes it,
    /// whatever else there is to see: because it is at home there, and the slot is empty or no member of home is idle.
    /// False means that it takes a view to tell.
    ///
    /// Most wake-ups are of this kind, and to make a view costs more than the rest of a wake-up.
    #[inline]
    #[must_use]
    pub fn stays_with_waker(&self, waker: WorkerId, task: &TaskPolicy, slot_is_free: impl FnOnce() -> bool) -> bool {
        waker == task.home_worker && self.answers_plainly && slot_is_free()
    }

    /// Whether [`Policy::place_wake`] leaves a task in its waker's slot because of how long tasks run there and at its
    /// home (step 3), whatever else there is to see. False means that it takes a view to tell.
    #[inline]
    #[must_use]
    pub fn stays_as_short(&self, waker_run: Nanos, home_run: Nanos, wake_cost: Nanos) -> bool {
        self.answers_plainly && self.is_short(waker_run, home_run, wake_cost)
    }

    /// Whether every new task of a worker stays in that one's deque, which is what [`Policy::spawn_without_groups`]
    /// says, so that [`Policy::place_spawn`] need not be asked: because groups are off, or because that would always be
    /// the answer.
    #[inline]
    #[must_use]
    pub fn spawns_stay(&self) -> bool {
        self.spawns_stay
    }

    /// Whether every new task from outside goes to the first injector, which is what [`Policy::spawn_without_groups`]
    /// says, so that [`Policy::place_spawn`] need not be asked: because groups are off, or because that would always be
    /// the answer.
    #[inline]
    #[must_use]
    pub fn has_one_way_in(&self) -> bool {
        self.one_way_in
    }

    /// Where a new task is queued: with its spawner, whose mates find it first; on another node only if policy 6 says
    /// so.
    #[inline]
    pub fn place_spawn(&self, view: &SpawnView, task: &mut TaskPolicy, rng: &mut Rng) -> Placement {
        if !self.weighs_spawns {
            return match self.config.adversary {
                Adversary::None => Self::spawn_without_groups(view.spawner),
                _ => adversary::place(self, view.spawner, task, rng),
            };
        }
        if let Some(turn) = view.spread
            && let Some(placement) = self.spread_to(turn)
        {
            return placement;
        }
        let Some(spawner) = view.spawner else {
            return Placement::Injector {
                llc: self.llc_from_outside(view, task, rng),
            };
        };
        if self.active().numa && !self.stays(spawner, task, view) {
            let llc = self.llc_on_most_idle_node(view, rng);
            return llc.map_or(Placement::Deque, |llc| Placement::Injector { llc });
        }
        Placement::Deque
    }

    /// Whether the answer of [`Policy::place_spawn`] for a task of a worker depends on how many are idle on its node
    /// and another.
    #[inline]
    #[must_use]
    pub fn needs_idle_nodes(&self, task: &TaskPolicy) -> bool {
        self.active().numa && self.plan.nodes.len() > 1 && !task.set.is_packed()
    }

    /// Whether the answer of [`Policy::place_spawn`] for a task from outside depends on which caches have idle workers.
    #[inline]
    #[must_use]
    pub fn needs_idle_llc(&self) -> bool {
        self.active().numa && self.plan.llcs.len() > 1
    }

    /// Whether the answer of [`Policy::place_wake`] depends on the view's fields from `home_idle` on, which are other
    /// workers' cache lines.
    #[inline]
    #[must_use]
    pub fn needs_home(&self, view: &WakeView, task: &TaskPolicy) -> bool {
        let at_home = view.waker == Some(task.home_worker) && view.slot_empty;
        let is_short = || self.is_short(view.waker_run, view.home_run, view.wake_cost);
        view.waker.is_none() || !(view.yielded || at_home || is_short())
    }

    /// Step 3. The waker's runs are what the task waits for: they may be a few times as long, but not without a bound.
    #[inline]
    pub(crate) fn is_short(&self, waker_run: Nanos, home_run: Nanos, wake_cost: Nanos) -> bool {
        self.runs_within(
            self.short_runs.saturating_mul(wake_cost.min(self.short_cost).0),
            waker_run,
            home_run,
        )
    }

    /// Whether home's runs are known and take `most` at most, and its waker's a few times that.
    #[inline]
    fn runs_within(&self, most: u64, waker_run: Nanos, home_run: Nanos) -> bool {
        let most_of_waker = most.saturating_add(1).saturating_mul(self.waker_runs);
        home_run.0 > 0 && home_run.0 <= most && waker_run.0 < most_of_waker
    }

    fn place_in_groups(&self, view: &WakeView, task: &TaskPolicy, rng: &mut Rng) -> (Placement, Reason) {
        if self.config.adversary != Adversary::None {
            return (adversary::place(self, view.waker, task, rng), Reason::Other);
        }
        if view.waker.is_some() && view.yielded {
            return (Placement::Deque, Reason::Waker);
        }
        let slot_is_free = || view.slot_empty || view.home_idle.is_empty();
        if view
            .waker
            .is_some_and(|waker| self.stays_with_waker(waker, task, slot_is_free))
        {
            return (Placement::Slot, Reason::Waker);
        }
        let Some(home) = self.plan.groups.get(task.home.index()) else {
            return (Placement::Injector { llc: LlcId(0) }, Reason::Other);
        };
        let at_home = view.waker == Some(task.home_worker);
        if self.aggregates()
            && let Some(llc) = self.pulled_to(view, task)
        {
            let fallback = task.home;
            return (Placement::IdleInLlc { llc, fallback }, Reason::Pulled);
        }
        let is_short = || self.is_short(view.waker_run, view.home_run, view.wake_cost);
        if at_home && view.slot_empty || view.waker.is_some() && is_short() {
            return (Placement::Slot, Reason::Waker);
        }
        if !view.home_idle.is_empty() {
            let claim = self.idle_member(home, task, view.home_idle);
            let group = task.home;
            return (Placement::Group { group, claim }, Reason::IdleHome);
        }
        if at_home {
            return (Placement::Slot, Reason::Waker);
        }
        let preferred = view.coupling.preferred.filter(|llc| self.has_room(task, llc));
        let reason = self.look_beyond(view, preferred.is_some(), task, home, rng);
        let is_moderate = || self.runs_within(self.short_busy, view.waker_run, view.home_run);
        if reason == Reason::NobodyIdle && view.waker.is_some() && is_moderate() {
            return (Placement::Slot, Reason::Waker);
        }
        let placement = if reason == Reason::Searched {
            Placement::IdleInLlc {
                llc: preferred.map_or(home.llc, |view| view.llc),
                fallback: task.home,
            }
        } else if self.overflows(view, home) {
            Placement::Injector { llc: home.llc }
        } else {
            Placement::Group {
                group: task.home,
                claim: Claim::Member,
            }
        };
        (placement, reason)
    }

    /// Step 2: the other cache that has the task now. The cap of policy 4 counts the move and does not refuse it: it is
    /// there for moves away from data, and a task is fetched after a row of wakes, a lead of another node, or within an
    /// epoch's allowance.
    #[inline]
    fn pulled_to(&self, view: &WakeView, task: &TaskPolicy) -> Option<LlcId> {
        let CouplingView {
            preferred,
            pulls,
            waker,
            home_util,
            wakees,
        } = view.coupling;
        // Short tasks are with their waker as it is, and those that run for long have data of their own at home.
        let is_between = || {
            self.runs_within(self.short_busy, view.waker_run, view.home_run)
                && !self.is_short(view.waker_run, view.home_run, view.wake_cost)
        };
        let is_pulled =
            |llc: &LlcView| self.waker_pulls(task, llc, wakees) || self.drifts(task, llc, home_util) && is_between();
        let by_waker = waker.filter(|llc| !task.set.is_spread() && is_pulled(llc));
        let by_set = preferred.filter(|llc| pulls && self.has_room(task, llc));
        by_waker.or(by_set).map(|target| target.llc)
    }

    /// The home worker if it is idle, else a member on an idle core, else any. `idle` is not empty.
    #[inline]
    fn idle_member(&self, home: &GroupPlan, task: &TaskPolicy, idle: GroupMask) -> Claim {
        let is_idle = |&worker: &WorkerId| {
            let plan = self.worker(worker)?;
            (plan.group == task.home && idle.has(plan.member)).then_some(plan)
        };
        if is_idle(&task.home_worker).is_some() {
            return Claim::Prefer(task.home_worker);
        }
        let on_idle_core = |worker: &&WorkerId| is_idle(worker).is_some_and(|plan| idle.has_all(plan.siblings));
        match home.members.iter().find(on_idle_core) {
            Some(&worker) => Claim::Prefer(worker),
            None => Claim::Member,
        }
    }

    /// Steps 8 and 9: whether an idle worker is looked for beyond home, where there is one.
    #[inline]
    fn look_beyond(
        &self,
        view: &WakeView,
        is_preferred_idle: bool,
        task: &TaskPolicy,
        home: &GroupPlan,
        rng: &mut Rng,
    ) -> Reason {
        if !view.llc_has_idle && !is_preferred_idle {
            return Reason::NobodyIdle;
        }
        // Whatever is skipped, it is not skipped while somebody has waited for too long.
        if view.home_queued > 0 && view.home_oldest >= self.config.skip.max_age {
            return Reason::Searched;
        }
        if self.active().migration_cap && self.cap_binds(view, home) {
            if self.fits(view, home) {
                return Reason::Fits;
            }
            if self.is_capped(task, view.now) {
                return Reason::Capped;
            }
        }
        if self.active().idle_filter && !idle_filter::searches(&self.config.idle_filter, view.llc_util, rng) {
            return Reason::CutOff;
        }
        Reason::Searched
    }

    /// Whether none of the cap's escapes applies: the load is light, home's queue is long, or it does not move.
    #[inline]
    fn cap_binds(&self, view: &WakeView, home: &GroupPlan) -> bool {
        let cap = &self.config.migration_cap;
        let stalled = view.home_queued > 0 && view.home_oldest >= cap.stalled_home;
        view.llc_util >= cap.light_load && !stalled && !self.overflows(view, home)
    }

    /// Whether home's queue with this task stays so short that a busy home is good enough.
    #[inline]
    fn fits(&self, view: &WakeView, home: &GroupPlan) -> bool {
        let queued = u64::from(view.home_queued) + 1;
        queued * 1024 <= home.members.len() as u64 * u64::from(self.config.migration_cap.fits)
    }

    /// Whether home's queue is too long.
    #[inline]
    fn overflows(&self, view: &WakeView, home: &GroupPlan) -> bool {
        let most = home.members.len() as u64 * u64::from(self.config.wake_groups.overflow_factor);
        u64::from(view.home_queued) > most
    }

    /// Where the task number `turn` of a spread set begins: with one cache for each, then with other groups of them.
    fn spread_to(&self, turn: u32) -> Option<Placement> {
        let llcs = self.plan.spread.len();
        if !self.aggregates() || llcs == 0 {
            return None;
        }
        let (round, llc) = (turn as usize / llcs, self.plan.spread[turn as usize % llcs]);
        // An explicit map may leave a cache without groups of its own.
        let groups = &self.plan.llcs[llc.index()].groups;
        let fallback = *groups.get(round % groups.len().max(1))?;
        Some(Placement::IdleInLlc { llc, fallback })
    }

    fn stays(&self, spawner: WorkerId, task: &TaskPolicy, view: &SpawnView) -> bool {
        let Some(plan) = self.worker(spawner) else {
            return true;
        };
        let tolerance = self.plan.nodes[plan.node.index()].tolerance;
        numa::stays(&self.config.numa, tolerance, task.set, view)
    }

    /// For a spawn from outside: with the tasks that it was declared to belong to, else where workers are idle, else
    /// anywhere.
    fn llc_from_outside(&self, view: &SpawnView, task: &TaskPolicy, rng: &mut Rng) -> LlcId {
        let llcs = u32::try_from(self.plan.llcs.len()).unwrap_or(u32::MAX).max(1);
        if self.aggregates() && task.set.is_declared() && task.set.may_prefer() {
            let anywhere = LlcId(u16::try_from(task.set.number() % llcs).unwrap_or(0));
            return view.preferred.unwrap_or(anywhere);
        }
        let idle = view.idle_llc.filter(|_| self.active().numa);
        idle.unwrap_or_else(|| LlcId(pick(self.plan.llcs.len(), rng)))
    }

    fn llc_on_most_idle_node(&self, view: &SpawnView, rng: &mut Rng) -> Option<LlcId> {
        let node = self.plan.nodes.get(view.most_idle.0.index())?;
        node.llcs.get(usize::from(pick(node.llcs.len(), rng))).copied()
    }
}

/// An index below `len`; draws no number if there is no choice.
#[inline]
pub(crate) fn pick(len: usize, rng: &mut Rng) -> u16 {
    match u16::try_from(len).unwrap_or(u16::MAX) {
        0 | 1 => 0,
        len => u16::try_from(rng.below(u32::from(len))).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests;
