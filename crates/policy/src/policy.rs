//! Configuration and plan together, and what a task's policy fields are told.

use alloc::vec::Vec;

use crate::{
    Adversary, CapMode, Config, Gates, GroupId, LazyRule, LlcId, Mode, Nanos, NodeId, Overtaking, Plan, ProbeRate,
    RemoteStealView, Search, SetId, SoloStep, SoloTally, SoloTrial, TaskPolicy, Tick, UnparkView, Wakees, WorkerId,
    WorkerPlan, adversary, migration_cap::Cap, numa, wake_cost,
};

/// Configuration and plan together: what answers every question.
///
/// Values once made are only read; a different configuration is a different policy.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The constants.
    pub config: Config,
    /// The tables.
    pub plan: Plan,
    active: Active,
    /// [`WakeGroups::short_runs`](crate::WakeGroups::short_runs), beside what every wake-up reads.
    pub(crate) short_runs: u64,
    /// [`WakeGroups::short_busy`](crate::WakeGroups::short_busy), if any task is short.
    pub(crate) short_busy: u64,
    /// What waking counts as there at most: [`WakeCost::kept`](crate::WakeCost::kept).
    pub(crate) short_cost: Nanos,
    /// [`WakeGroups::waker_runs`](crate::WakeGroups::waker_runs).
    pub(crate) waker_runs: u64,
    cap: Cap,
    pub(crate) aggregates: bool,
    /// See [`Policy::yields_stay`].
    pub(crate) yields_stay: bool,
    /// Neither an adversary nor a set has a say in where a task goes.
    pub(crate) answers_plainly: bool,
    /// [`Policy::place_spawn`] has something to weigh: groups are on, and no adversary answers.
    pub(crate) weighs_spawns: bool,
    /// See [`Policy::spawns_stay`].
    pub(crate) spawns_stay: bool,
    /// See [`Policy::has_one_way_in`].
    pub(crate) one_way_in: bool,
    /// Cores of the smallest last-level cache that have a worker.
    pub(crate) smallest_llc: u32,
}

/// Which policies are on, once `auto` is decided. Policies 3 and 6 are about several last-level caches: with one they
/// are off, also if asked for. Policy 3 is also off where wake-ups are not queued in groups; 2 and 4 then have nothing
/// to decide ([`Policy::asked_in_vain`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Active {
    /// Wake-ups are queued in groups: policy 1, or an adversary, whose answers name groups.
    pub groups: bool,
    /// Policy 1.
    pub wake_groups: bool,
    /// Policy 2.
    pub idle_filter: bool,
    /// Policy 3.
    pub aggregation: bool,
    /// Policy 4.
    pub migration_cap: bool,
    /// Policy 5.
    pub lazy_counters: bool,
    /// Policy 6.
    pub numa: bool,
    /// Gates on far searches.
    pub gates: bool,
    /// Cost-aware wake.
    pub wake_cost: bool,
    /// One worker alone.
    pub solo: bool,
    /// Short tasks overtake long ones.
    pub overtake: bool,
}

impl Active {
    fn new(config: &Config, plan: &Plan) -> Self {
        let many = plan.workers.len() > 4;
        let several_llcs = plan.llcs.len() > 1;
        // With a cache of its own for each worker nobody is nearer than others: so on a virtual machine that says so of
        // its CPUs.
        let shared = plan.llcs.iter().any(|llc| llc.workers.len() > 1);
        let wake_groups = config.wake_groups.mode.resolve(many && plan.groups.len() > 1 && shared);
        let groups = wake_groups || config.adversary != Adversary::None;
        Self {
            groups,
            wake_groups,
            idle_filter: config.idle_filter.mode.resolve(wake_groups),
            aggregation: groups && several_llcs && config.aggregation.mode.resolve(true),
            migration_cap: match config.migration_cap.mode {
                CapMode::Off => false,
                CapMode::Fixed | CapMode::Adaptive => true,
                CapMode::Auto => wake_groups,
            },
            lazy_counters: config.lazy_counters.mode.resolve(many),
            numa: several_llcs && config.numa.mode.resolve(true),
            gates: config.steal.gates.resolve(many),
            wake_cost: config.wake_cost.mode.resolve(true),
            solo: plan.workers.len() > 1
                && (config.solo.mode.resolve(!many && !several_llcs && !groups) || config.adversary != Adversary::None),
            overtake: config.overtake.mode.resolve(true) || config.adversary != Adversary::None,
        }
    }
}

impl Policy {
    /// Joins a configuration and a plan, and decides which policies with [`Mode::Auto`](crate::Mode) are on.
    ///
    /// The configuration should be [valid](Config::validate); one that is not gives silly answers, never a panic.
    #[must_use]
    pub fn new(config: Config, mut plan: Plan) -> Self {
        for node in &mut plan.nodes {
            node.tolerance = numa::tolerance(&config.numa, node);
            node.looks = usize::from(config.numa.looks);
        }
        let active = Active::new(&config, &plan);
        let (groups, aggregates) = (active.groups, active.aggregation);
        let answers_plainly = config.adversary == Adversary::None && !aggregates;
        Self {
            active,
            aggregates,
            yields_stay: !groups || config.adversary == Adversary::None,
            answers_plainly,
            weighs_spawns: groups && config.adversary == Adversary::None,
            one_way_in: !groups || (answers_plainly && plan.llcs.len() == 1),
            spawns_stay: !groups || (answers_plainly && !(active.numa && plan.nodes.len() > 1)),
            smallest_llc: plan.smallest_llc(),
            short_runs: u64::from(config.wake_groups.short_runs),
            short_busy: match config.wake_groups.short_runs {
                0 => 0,
                _ => config.wake_groups.short_busy.0,
            },
            short_cost: wake_cost::kept(&config.wake_cost),
            waker_runs: u64::from(config.wake_groups.waker_runs),
            cap: Cap::new(&config.migration_cap),
            config,
            plan,
        }
    }

    /// Which policies are on.
    #[inline]
    #[must_use]
    pub fn active(&self) -> Active {
        self.active
    }

    /// Whether wake-ups are queued in groups at all; if not, only [`Slot`](crate::Placement::Slot),
    /// [`Deque`](crate::Placement::Deque) and [`Injector`](crate::Placement::Injector) are ever answered and the
    /// mechanism need not fill the group's part of a view.
    #[inline]
    #[must_use]
    pub fn groups_on(&self) -> bool {
        self.active.groups
    }

    /// The names of policies that were asked for and do nothing, since wake-ups are not queued in groups: what they
    /// would decide is not asked then.
    ///
    /// ```
    /// use quadrille_policy::{Config, Plan, Policy};
    ///
    /// let config: Config = "filter=on,cap=fixed".parse()?;
    /// let plan = Plan::compile(&"core:2".parse()?, &config.plan_options(None))?;
    /// assert_eq!(Policy::new(config, plan).asked_in_vain(), ["filter", "cap"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn asked_in_vain(&self) -> Vec<&'static str> {
        let config = &self.config;
        let cap = matches!(config.migration_cap.mode, CapMode::Fixed | CapMode::Adaptive);
        let asked = [
            ("filter", config.idle_filter.mode == Mode::On),
            ("aggregation", config.aggregation.mode == Mode::On),
            ("cap", cap),
        ];
        let idle = asked.into_iter().filter(|(_, on)| *on && !self.active.groups);
        idle.map(|(name, _)| name).collect()
    }

    /// The policy fields of a task that was just made. Its home is the spawner's group, until the first run.
    #[must_use]
    pub fn new_task(&self, spawner: Option<WorkerId>, set: SetId) -> TaskPolicy {
        let home_worker = spawner.unwrap_or_default();
        let home = self.worker(home_worker).map_or(GroupId(0), |worker| worker.group);
        TaskPolicy {
            home,
            home_worker,
            window: Tick(0),
            set,
            used: 0,
            quota: 0,
            from: 0,
            streak: 0,
        }
    }

    /// Notes that `worker` is about to run the task. The first run gives the task its home: spawns are spread by
    /// stealing, and a task that stayed at home with whoever spawned it would be woken there for ever. Later runs away
    /// from home are borrowed and change nothing.
    #[inline]
    pub fn ran(&self, task: &mut TaskPolicy, worker: WorkerId) {
        if !self.active.groups {
            return;
        }
        if task.home_worker == worker {
            // Most runs are at home, the first one too.
            if task.quota == 0 {
                task.quota = self.cap.quota();
            }
            return;
        }
        let Some(plan) = self.worker(worker) else {
            return;
        };
        if task.quota == 0 {
            task.quota = self.cap.quota();
            task.home = plan.group;
        }
        if task.home == plan.group {
            task.home_worker = worker;
        }
    }

    /// Notes that a wake placed the task with `worker`: the answer to
    /// [`Placement::IdleInLlc`](crate::Placement::IdleInLlc) or a claim. In another group this is a migration: it
    /// counts, and the task has a new home.
    #[inline]
    pub fn moved(&self, task: &mut TaskPolicy, worker: WorkerId, now: Nanos) {
        if !self.active.groups {
            return;
        }
        let Some(plan) = self.worker(worker) else {
            return;
        };
        if task.home != plan.group {
            if task.quota != 0 {
                self.cap.count(task, now);
            }
            task.home = plan.group;
            task.streak = 0;
        }
        task.home_worker = worker;
    }

    /// Notes that `thief` stole the task. Its home stays; only a thief behind another last-level cache counts as a
    /// migration.
    #[inline]
    pub fn stolen(&self, task: &mut TaskPolicy, thief: WorkerId, now: Nanos) {
        if !self.active.groups || task.quota == 0 {
            return;
        }
        let home = self.plan.groups.get(task.home.index());
        let (Some(home), Some(thief)) = (home, self.worker(thief)) else {
            return;
        };
        if home.llc != thief.llc {
            self.cap.count(task, now);
        }
    }

    /// How a waker looks for the idle worker of [`Placement::IdleInLlc`](crate::Placement::IdleInLlc), at utilisation
    /// `util` (1/1024) of that cache. The waker keeps `rate`, and tells it what its probes meet.
    #[inline]
    pub fn search(&self, rate: &mut ProbeRate, util: u16, now: Nanos) -> Search {
        if self.active.idle_filter {
            rate.search(&self.config.idle_filter, util, now)
        } else {
            Search::Probe
        }
    }

    /// Whether one idle worker is unparked for work that was just published.
    #[inline]
    #[must_use]
    pub fn unpark(&self, view: &UnparkView) -> bool {
        if self.active.wake_cost {
            wake_cost::pays(view)
        } else {
            wake_cost::is_missing(view)
        }
    }

    /// Whether a worker that has found nothing remains a searcher for
    /// [`IdleFilter::publish_delay`](crate::IdleFilter::publish_delay) before it announces itself idle, or for longer:
    /// nobody has to be woken for what comes meanwhile. Never where workers do not spin: it waits busily.
    #[inline]
    #[must_use]
    pub fn lingers(&self) -> bool {
        (self.active.idle_filter || self.active.wake_cost) && self.config.spin_max > Nanos(0)
    }

    /// How many tasks a worker without work may take from another node, or from another last-level cache on a machine
    /// of one node; 0 for none. Not asked by a rescuer, who takes whatever there is.
    #[inline]
    #[must_use]
    pub fn steal_remote(&self, view: &RemoteStealView) -> u32 {
        let (numa, skip) = (&self.config.numa, &self.config.skip);
        if !self.active.numa {
            return view.queued;
        }
        match self.far_place(view.node, view.llc) {
            Some(place) => numa::remote_steal(numa, skip, place, view),
            None => view.queued,
        }
    }

    /// Whether policy 6 compares nodes; if not, there is one only, and it compares the caches of that.
    #[inline]
    fn compares_nodes(&self) -> bool {
        self.plan.nodes.len() > 1
    }

    /// The place that the workers behind `llc` on `node` belong to, as policy 6 compares them.
    #[inline]
    fn far_place(&self, node: NodeId, llc: LlcId) -> Option<numa::Place> {
        let (workers, tolerance) = if self.compares_nodes() {
            let node = self.plan.nodes.get(node.index())?;
            (node.workers.len(), node.tolerance)
        } else {
            let llc = self.plan.llcs.get(llc.index())?;
            (llc.workers.len(), u32::from(self.config.numa.llc_tolerance))
        };
        Some(numa::Place {
            workers,
            tolerance,
            after: self.remote_steal_delay(),
        })
    }

    /// Whether a search in which [`Policy::steal_remote`] allowed so many was spoiled: there was something to take, and
    /// the thief has to leave it for another reason than that it looked too early. What a thief counts is searches,
    /// however many places spoiled one.
    #[inline]
    #[must_use]
    pub fn spoils(&self, view: &RemoteStealView, allowed: u32) -> bool {
        allowed == 0 && view.queued > 0 && view.dry_for >= self.remote_steal_delay()
    }

    /// Whether policy 6 has a say in what is stolen from `other` by a worker behind `own`: they are on different nodes,
    /// or there is one node only, and each of the two nodes, or caches, has more than two workers, or more than one
    /// where [`Numa::min_imbalance`](crate::config::Numa::min_imbalance) is less. If not, [`Policy::steal_remote`] need
    /// not be asked.
    #[inline]
    #[must_use]
    pub fn limits_steals(&self, own: LlcId, other: LlcId) -> bool {
        let found = |llc: LlcId| {
            let node = self.plan.llcs.get(llc.index())?.node;
            Some((node, self.far_place(node, llc)?.workers))
        };
        let (Some((node, workers)), Some((other_node, other_workers))) = (found(own), found(other)) else {
            return self.active.numa;
        };
        self.active.numa
            && (!self.compares_nodes() || node != other_node)
            && !numa::is_too_small(&self.config.numa, workers.min(other_workers))
    }

    /// For how long a worker has found nothing before [`Policy::steal_remote`] can allow anything but what is overdue.
    #[inline]
    fn remote_steal_delay(&self) -> Nanos {
        if self.compares_nodes() {
            self.config.numa.steal_after
        } else {
            self.config.aggregation.force_steal_after
        }
    }

    /// Whether a thief behind `thief` gives the task back: it is one of few that were declared to stay together, and
    /// lives on another node. A mate of its home is woken for it instead.
    #[inline]
    #[must_use]
    pub fn gives_back(&self, task: &TaskPolicy, thief: WorkerId) -> bool {
        let node = |group: GroupId| self.plan.groups.get(group.index()).map(|plan| plan.node);
        let own = self.worker(thief).map(|plan| plan.node);
        task.set.is_packed() && self.active.numa && self.active.groups && node(task.home) != own
    }

    /// Which tasks a worker's tasks have woken.
    #[must_use]
    pub fn new_wakees(&self) -> Wakees {
        Wakees::new(&self.config.aggregation)
    }

    /// The average cost of waking a parked worker, of which `cost` was measured just now: a measurement counts an
    /// eighth.
    #[must_use]
    pub fn measured_wake(&self, average: Nanos, cost: Nanos) -> Nanos {
        wake_cost::average(&self.config.wake_cost, average, cost)
    }

    /// What is left of that average after so many intervals of the sentinel: what was measured long ago may no longer
    /// be so.
    #[must_use]
    pub fn forget_wake(&self, average: Nanos, intervals: u64) -> Nanos {
        wake_cost::forget(&self.config.wake_cost, average, intervals)
    }

    /// Whether the sentinel comes for a deque that flows slowly: of `queued` tasks behind a worker that has run
    /// `advanced`, more than none, in `elapsed`, the last waits for longer than waking somebody takes, or than the
    /// sentinel's interval, whatever that takes: it is awake.
    #[must_use]
    pub fn is_slow(&self, wake_cost: Nanos, (queued, advanced): (u64, u64), elapsed: Nanos) -> bool {
        wake_cost::is_slow(wake_cost, self.config.sentinel_interval, (queued, advanced), elapsed)
    }

    /// The gates of one worker.
    #[must_use]
    pub fn new_gates(&self) -> Gates {
        if self.active.gates {
            Gates::new(&self.config.steal, &self.config.skip)
        } else {
            Gates::default()
        }
    }

    /// When workers publish their counts.
    #[must_use]
    pub fn lazy_rule(&self) -> LazyRule {
        if self.active.lazy_counters {
            LazyRule::new(&self.config.lazy_counters)
        } else {
            LazyRule::EAGER
        }
    }

    /// What a worker knows of the long tasks of its deque: none as yet.
    #[must_use]
    pub fn new_overtaking(&self) -> Overtaking {
        Overtaking::new(&self.config.overtake, self.active.overtake, self.config.adversary)
    }

    /// Who works from now on, and until when: what a runtime's trial says of the tally.
    #[must_use]
    pub fn solo(&self, trial: &mut SoloTrial, tally: &SoloTally) -> (SoloStep, Nanos) {
        let (step, next) = trial.step(tally, &self.config.solo);
        match self.config.adversary {
            Adversary::None => (step, next),
            silly => (
                adversary::solo(silly, tally.at),
                Nanos(tally.at.0.saturating_add(self.config.solo.window.0 / 16)),
            ),
        }
    }

    /// Whether the cap keeps the task at home.
    #[inline]
    pub(crate) fn is_capped(&self, task: &TaskPolicy, now: Nanos) -> bool {
        self.cap.is_used_up(task, now)
    }

    #[inline]
    pub(crate) fn worker(&self, worker: WorkerId) -> Option<&WorkerPlan> {
        self.plan.workers.get(worker.index())
    }
}

#[cfg(test)]
mod tests;
