//! Coupling sets as the scheduler sees them: who runs which, what is told of them, what a wake wants to know.
//!
//! The decisions are policy 3's; with one last-level cache, or the policy off, none of this runs and each hot path has
//! one branch to say so.

use quadrille_policy::{
    CouplingView, ExportView, GroupId, LlcId, LlcView, Nanos, PullView, SetId, SetView, Share, TaskPolicy, WorkerId,
};

use super::Shared;
use super::context::Context;
use super::sets::{Epoch, Known, Slot};
use super::worker::Worker;
use crate::decisions;
use crate::task::Runnable;

/// What a worker keeps for policy 3.
#[derive(Debug, Default)]
pub(super) struct Coupled {
    ledger: quadrille_policy::Ledger,
    /// When the ledger was told last.
    told: Nanos,
    load: Load,
}

/// How busy the worker's cache is and the least busy one of the others, as of some time ago.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    at: Nanos,
    util: u16,
    least_util: u16,
    /// `None`: no other has an idle worker who may take our tasks.
    least: Option<LlcId>,
}

impl Worker {
    /// Whether a policy wants to know before each task that it runs next.
    pub(super) fn notes_tasks(&self) -> bool {
        self.aggregates || self.reserve.is_on() || self.context.shared.loads.is_eager()
    }

    /// Before a task runs, if a policy wants to know: notes which it is, for policy 2, and which set it belongs to, for
    /// the books of that and for the tasks that it spawns and wakes. Without policy 5 it tells how many tasks it has.
    #[inline]
    pub(super) fn note_task(&mut self, runnable: &Runnable) {
        if self.context.shared.loads.is_eager() {
            self.context.tell_live();
        }
        if self.reserve.is_on() {
            self.reserve.runs(runnable.meta().id.number(), self.context.now.get());
        }
        if !self.aggregates {
            return;
        }
        let set = runnable.policy().get().set;
        let id = runnable.meta().id.number();
        self.context.set.set(set);
        self.context.task.set(id);
        if let Some(evicted) = self.coupled.ledger.charge(set, id) {
            self.context.tell(evicted, self.context.now.get());
        }
    }

    /// Divides the time since the last look among those who ran, and tells of them once an epoch.
    pub(super) fn settle(&mut self, elapsed: Nanos, now: Nanos) {
        let Coupled { ledger, told, .. } = &mut self.coupled;
        ledger.settle(elapsed);
        if now.since(*told) < self.context.shared.policy.config.aggregation.epoch {
            return;
        }
        *told = now;
        for share in ledger.take() {
            self.context.tell(share, now);
        }
    }

    /// Between tasks, with more in the deque than runs next and idle workers behind other caches: puts tasks up for
    /// those. Returns the first one that stays, which runs now and so keeps its place.
    pub(super) fn spill(&mut self, now: Nanos) -> Option<Runnable> {
        let context = &self.context;
        let shared = &*context.shared;
        let llc = shared.policy.plan.workers[context.id.index()].llc;
        let spare = context.local.len() / 2;
        if spare == 0 || !shared.sleepers.idle.caches.any() || !shared.exports[llc.index()].is_empty() {
            return None;
        }
        if context.me().is_spared(now) {
            return None;
        }
        let load = &mut self.coupled.load;
        if now.since(load.at) >= shared.policy.config.idle_filter.sample {
            *load = shared.load(llc, now);
        }
        let load = *load;
        let least = load
            .least
            .filter(|least| shared.sleepers.idle.any_in_llc(least.index()))?;
        // Any of those it is put up for; all would give back the same.
        let thief = *shared.policy.plan.llcs[least.index()].workers.first()?;
        let mut leaves = Vec::new();
        let mut stays = None;
        while leaves.len() < spare.min(shared.export_batch)
            && let Some(runnable) = context.local.pop()
        {
            let task = runnable.policy().get();
            let last = runnable.last_worker();
            let view = ExportView {
                set: task.set,
                preferred: shared.sets.look(task.set).policy.preferred,
                llc,
                util: load.util,
                has_idle: shared.sleepers.idle.any_in_llc(llc.index()),
                least_util: load.least_util,
            };
            // Once is enough (W5): the next time it would go behind newer ones again.
            let stayed = last.get().was_exported();
            if stayed
                || !decisions::exports(&shared.policy, &view)
                || decisions::gives_back(&shared.policy, &task, thief)
            {
                stays = Some(runnable);
                break;
            }
            last.set(last.get().exported());
            leaves.push(runnable);
        }
        if !leaves.is_empty() {
            context.me().counters.exports.add(leaves.len() as u64);
            shared.publish_exports(leaves, llc, least, Some(context));
        }
        stays
    }
}

impl Context {
    /// Tells others of a set that this worker ran; at the end of the set's epoch, decides what it prefers.
    fn tell(&self, share: Share, now: Nanos) {
        let shared = &*self.shared;
        let llc = shared.policy.plan.workers[self.id.index()].llc.index();
        if let Some((slot, before)) = shared.sets.add(share, llc, now) {
            shared.end_epoch(slot, before, now);
        }
    }

    /// What a wake by this worker wants to know of the task and its set; notes who wakes whom.
    pub(super) fn coupling_view(&self, task: &mut TaskPolicy, wakee: u64) -> CouplingView {
        let shared = &*self.shared;
        let mut view = shared.set_view(task);
        view.wakees = self.wakees.borrow_mut().note(self.task.get(), wakee, self.now.get());
        if decisions::couple(&shared.policy, task, self.id) {
            let llc = shared.policy.plan.workers[self.id.index()].llc;
            view.waker = Some(shared.llc_view(llc, task.home));
            if shared.policy.leads(task, self.id) {
                let home = shared.policy.plan.groups.get(task.home.index());
                view.home_util = home.map_or(0, |home| shared.awake_share(home.llc).0);
            }
        }
        view
    }
}

impl Shared {
    /// What a wake wants to know of a task's set.
    pub(super) fn set_view(&self, task: &TaskPolicy) -> CouplingView {
        let Known { policy, pulls } = self.sets.look(task.set);
        let home = self.policy.plan.groups.get(task.home.index()).map(|group| group.llc);
        let preferred = policy.preferred.filter(|llc| Some(*llc) != home);
        CouplingView {
            preferred: preferred
                .filter(|llc| llc.index() < self.llc_groups.len())
                .map(|llc| self.llc_view(llc, task.home)),
            pulls: pulls > 0,
            ..CouplingView::default()
        }
    }

    /// Of a cache that a task at `home` might move to, by its count and those of a few caches that stand for its node
    /// (K): so many lines on any machine. On the own node, nobody asks who runs there.
    fn llc_view(&self, llc: LlcId, home: GroupId) -> LlcView {
        let plan = &self.policy.plan;
        let node = plan.llcs[llc.index()].node;
        let leaves_node = plan.groups.get(home.index()).is_some_and(|home| home.node != node);
        let (util, has_idle) = self.awake_share(llc);
        LlcView {
            llc,
            util,
            has_idle,
            node_running: if leaves_node { self.about_awake_on(node, llc) } else { 0 },
        }
    }

    /// Workers awake behind a cache in 1/1024, and whether one is idle.
    fn awake_share(&self, llc: LlcId) -> (u16, bool) {
        let (awake, idle) = self.sleepers.awake_and_idle(llc.index());
        let share = u16::try_from(awake * 1024 / (awake + idle).max(1)).unwrap_or(1024);
        (share, idle > 0)
    }

    /// The load of `own` and of the least busy of the other caches; of those on other nodes only if none on our own
    /// will do.
    fn load(&self, own: LlcId, at: Nanos) -> Load {
        let plan = &self.policy.plan.llcs[own.index()];
        let (near, far) = plan.others.split_at(plan.others_on_node);
        let least_of = |llcs: &[LlcId]| {
            let utils = llcs.iter().map(|llc| (self.utilisation(llc.index()), *llc));
            let least = utils.min_by_key(|(util, _)| *util)?;
            self.may_take_from(least.1, own, at).then_some(least)
        };
        let least = least_of(near).or_else(|| least_of(far));
        Load {
            at,
            util: self.utilisation(own.index()),
            least_util: least.map_or(u16::MAX, |(util, _)| util),
            least: least.map(|(_, llc)| llc),
        }
    }

    /// Whether policy 6 lets a thief behind `thief` that has waited for long take from behind `own`.
    fn may_take_from(&self, thief: LlcId, own: LlcId, now: Nanos) -> bool {
        let view = || self.steal_view(thief, own, Nanos(u64::MAX), 0, now);
        !self.policy.limits_steals(thief, own) || decisions::steal_remote(&self.policy, &view()) > 0
    }

    /// Ends the epoch of a set, if it is due: what it prefers, and how many of its tasks come there. `before` is when
    /// it had run; `None`: not of late, so that one epoch passes before it prefers anything, and not its first teller
    /// alone decides.
    fn end_epoch(&self, slot: Slot<'_>, before: Option<Nanos>, now: Nanos) {
        let decide = |known: Known, epoch: &Epoch| {
            let mut set = known.policy;
            decisions::prefer(
                &self.policy,
                &mut set,
                &SetView {
                    occupancy: &epoch.occupancy,
                    polls: epoch.polls,
                    // A ledger tells of sets of several tasks only; who runs counts by its time.
                    tasks: 2,
                    llc_workers: self.policy.smallest_llc(),
                    last_run: before,
                    now,
                },
            );
            let preferred = set.preferred.map_or(0, LlcId::index);
            let view = PullView {
                set,
                occupancy: &epoch.occupancy,
                util: self.utilisation(preferred.min(self.llc_groups.len() - 1)),
            };
            let pulls = decisions::pull(&self.policy, &view);
            Known { policy: set, pulls }
        };
        slot.end_epoch(self.llc_groups.len(), now, self.policy.config.aggregation.epoch, decide);
    }

    /// The set that a task is born into: its own if it was spawned by none, and nobody has declared another.
    pub(super) fn root_set(&self, task: &mut TaskPolicy, id: u64) {
        if self.policy.aggregates() && task.set == SetId::NONE {
            task.set = SetId::root(id);
        }
    }

    /// Gives tasks back that a thief has taken and that stay on the node of their home: a mate there is woken for each.
    pub(super) fn give_back(&self, found: Option<Runnable>, thief: &Context) -> Option<Runnable> {
        let mut kept = None;
        let more = (0..thief.local.len()).map_while(|_| thief.local.pop());
        for runnable in found.into_iter().chain(more) {
            let task = runnable.policy().get();
            if decisions::gives_back(&self.policy, &task, thief.id) {
                thief.me().counters.steals_given_back.add(1);
                self.publish_home(runnable, task.home, thief);
            } else if kept.is_none() {
                kept = Some(runnable);
            } else {
                thief.local.push(runnable);
            }
        }
        kept
    }

    /// Whether a wake that placed a task with `worker` took it to another last-level cache than its home's.
    pub(super) fn changes_cache(&self, task: &TaskPolicy, worker: WorkerId) -> bool {
        let home = self.policy.plan.groups.get(task.home.index()).map(|group| group.llc);
        home != Some(self.policy.plan.workers[worker.index()].llc)
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;
    use crate::sched::still::Still;

    /// Nodes of eight caches of four workers, four of which stand for a node.
    #[test]
    fn a_cache_that_a_task_might_move_to_is_seen_by_its_counts() {
        let still = Still::new("node:2 llc:8 core:4", "groups=on");
        // Behind the first cache of the second node three are idle, behind the next three caches one, behind all others
        // all.
        let idle = (32..35).chain([36, 40, 44]).chain(48..64);
        idle.for_each(|worker| still.announce(worker));
        let plan = &still.shared.policy.plan;
        let home = plan.workers[0].group;
        let view = still.shared.llc_view(LlcId(8), home);
        assert_eq!((view.llc, view.util, view.has_idle), (LlcId(8), 256, true));
        assert_eq!(view.node_running, 20, "10 of 16 are awake behind the four");
        // From a cache of the same node nobody asks.
        let near = still.shared.llc_view(LlcId(8), plan.workers[63].group);
        assert_eq!(near.node_running, 0);
        let full = still.shared.llc_view(LlcId(0), home);
        assert_eq!((full.util, full.has_idle), (1024, false));
    }
}
