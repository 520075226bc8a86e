//! What a dry worker takes from behind other last-level caches: nothing that is likely to be better off where it is.
//!
//! Two policies have a say. Policy 3: first what is exported, anything else only after some microseconds without a
//! find. Policy 6: little or nothing while few run there. Both only delay: time passes, and searches that policy 6
//! spoils are counted. Rescuers ask neither. Who goes to sleep beside what it may not have wakes somebody who may
//! (W1s).

use std::cell::LazyCell;
use std::ops::Deref;

use quadrille_policy::{Cause, LlcId, Nanos, RemoteStealView, WorkerId};

use super::Shared;
use super::bind::Robbed;
use super::context::Context;
use super::publish;
use super::search::Scope;
use super::worker::Worker;
use crate::decisions;
use crate::sys::clock;
use crate::task::Runnable;

/// How long a worker has been without work, by which the policies allow it more.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sight {
    /// When it ran out of work. It is without work while it sleeps, too: what there was near it then was done by
    /// others, and whoever wakes it for what waits behind another cache has found nobody nearer. To make it wait again
    /// would leave what is put up for sleepers until its own workers take it back.
    pub(super) dry_since: Nanos,
    /// Searches in a row that policy 6 spoiled. Sleep ends the row: what was left before has been handed over, and what
    /// there is now is something else.
    pub(super) skips: u8,
    /// Whether it has spoiled the present one: a search counts once, however many caches it looks behind.
    pub(super) spoiled: bool,
    /// Whether the worker stays awake for something that its final look has seen. Until it has a task or sleeps it asks
    /// no gate.
    pub(super) seen: bool,
}

/// Who asks policy 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thief {
    /// Its idle bit is set, and it is counted by that.
    Announced,
    /// It searches, and is counted besides.
    Searching,
}

impl Sight {
    /// A search begins.
    pub(super) fn looks(&mut self) {
        self.spoiled = false;
    }

    /// It has found nothing.
    pub(super) fn sees_nothing(&mut self) {
        self.skips = self.skips.saturating_add(u8::from(self.spoiled));
    }

    /// Step 4 of parking, but for the own group's queue: injectors and exports, which W1 is about; and, for speed only,
    /// the deques of the own LLC, or of the whole machine if the worker was the last searcher.
    pub(super) fn final_look(self, context: &Context, last_searcher: bool) -> bool {
        let shared = &*context.shared;
        let own = shared.policy.plan.workers[context.id.index()].llc;
        // Where nothing waits it is not asked for.
        let now = LazyCell::new(|| Nanos(clock::nanos()));
        let free = !shared.policy.aggregates() && !shared.policy.active().numa;
        let exported = |llc: LlcId| shared.exports.get(llc.index()).is_some_and(|queue| !queue.is_empty());
        let waits = |llc: &LlcId| {
            !shared.injectors[llc.index()].is_empty()
                || exported(*llc)
                || (last_searcher || *llc == own) && shared.worth_stealing(*llc, &now, context.robbed.get())
        };
        let is_ours = |llc: LlcId| {
            let anything = || exported(llc) || shared.policy.takes_anything(now.since(self.dry_since));
            free || llc == own || anything() && !self.must_leave(shared, own, llc, *now)
        };
        let waiting = || (0..).map(LlcId).take(shared.injectors.len()).filter(waits);
        // Who goes on searching is the witness still.
        let stays = waiting().any(is_ours);
        if stays || free {
            return stays;
        }
        // Counted, not looked for: to hand over wakes somebody, behind each of them.
        let hand_over = |llc: &LlcId| shared.wake_behind(*llc, context);
        let stays_for = |llc: &LlcId| publish::stays_for_what_it_leaves(last_searcher, || hand_over(llc));
        waiting().filter(stays_for).count() > 0
    }

    /// Whether policy 6 lets a worker behind `own` that has announced itself take nothing from behind `llc`.
    fn must_leave(self, shared: &Shared, own: LlcId, llc: LlcId, now: Nanos) -> bool {
        let view = self.view(shared, own, llc, Thief::Announced, now);
        view.is_some_and(|view| decisions::steal_remote(&shared.policy, &view) == 0)
    }

    /// What policy 6 is told by a worker behind `own` that looks behind `llc`; `None`: it has nothing to say.
    fn view(self, shared: &Shared, own: LlcId, llc: LlcId, thief: Thief, now: Nanos) -> Option<RemoteStealView> {
        if !shared.policy.limits_steals(own, llc) {
            return None;
        }
        let dry_for = now.since(self.dry_since);
        let mut view = shared.steal_view(own, llc, dry_for, self.skips, now);
        view.idle_here += u32::from(thief == Thief::Searching);
        Some(view)
    }
}

impl Shared {
    /// Whether a deque behind `llc` has something that a thief may want who leaves one worker alone for a while.
    fn worth_stealing(&self, llc: LlcId, now: &impl Deref<Target = Nanos>, robbed: Option<Robbed>) -> bool {
        let is_left = |worker: WorkerId| robbed.is_some_and(|robbed| robbed.leaves_alone(worker, **now));
        let workers = self.policy.plan.llcs[llc.index()].workers.iter();
        let mut workers = workers
            .filter(|worker| !is_left(**worker))
            .map(|worker| &self.workers[worker.index()]);
        workers.any(|worker| !worker.is_spared(**now) && worker.stealer.is_open())
    }
}

impl Worker {
    /// The time, if a policy asks for it before it lets us look behind other caches.
    pub(super) fn far_now(&self) -> Nanos {
        let policy = &self.context.shared.policy;
        if self.aggregates || policy.active().numa {
            return Nanos(clock::nanos());
        }
        self.context.now.get()
    }

    /// What is exported, the own cache's first, then the nearest.
    pub(super) fn search_exports(&mut self, home: LlcId, scope: Scope, now: Nanos) -> Option<Runnable> {
        if !self.aggregates {
            return None;
        }
        if let Some(runnable) = self.take_exported(home, self.context.shared.batch) {
            return Some(runnable);
        }
        for i in 0..self.context.shared.policy.plan.llcs[home.index()].others.len() {
            let llc = self.context.shared.policy.plan.llcs[home.index()].others[i];
            if self.context.shared.exports[llc.index()].is_empty() {
                continue;
            }
            let limit = self.allowance(home, llc, scope, now);
            if limit > 0
                && let Some(found) = self.take_exported(llc, limit)
                && let kept @ Some(_) = self.settle_steal(Some(found), llc, scope)
            {
                return kept;
            }
        }
        None
    }

    /// What other queues there are behind another cache, and whether what was found there was overdue.
    pub(super) fn search_far(&mut self, llc: LlcId, scope: Scope, now: Nanos) -> (Option<Runnable>, Scope) {
        let shared = &self.context.shared;
        let home = shared.policy.plan.workers[self.context.id.index()].llc;
        let overdue = shared.policy.config.wake_groups.rescue_any;
        let anything = scope == Scope::Rescue || shared.policy.takes_anything(now.since(self.sight.dry_since));
        let limit = if anything {
            self.allowance(home, llc, scope, now)
        } else {
            0
        };
        let found = if limit > 0 {
            self.take_injector(llc, limit)
                .or_else(|| self.steal_in(llc, scope, limit))
        } else {
            None
        };
        // What has waited for so long is nobody's in particular.
        match self.settle_steal(found, llc, scope) {
            Some(found) => (Some(found), scope),
            None => (self.take_overdue(llc, overdue), Scope::Rescue),
        }
    }

    /// How many tasks policy 6 lets us, who search, take from behind `llc`.
    fn allowance(&mut self, home: LlcId, llc: LlcId, scope: Scope, now: Nanos) -> usize {
        let shared = &self.context.shared;
        if scope == Scope::Rescue {
            return shared.batch;
        }
        let Some(view) = self.sight.view(shared, home, llc, Thief::Searching, now) else {
            return shared.batch;
        };
        let allowed = decisions::steal_remote(&shared.policy, &view);
        self.sight.spoiled |= shared.policy.spoils(&view, allowed);
        shared.batch.min(allowed as usize)
    }

    /// After a steal: gives back what stays on another node.
    fn settle_steal(&self, found: Option<Runnable>, llc: LlcId, scope: Scope) -> Option<Runnable> {
        let shared = &self.context.shared;
        let plan = &shared.policy.plan;
        let near = plan.llcs[llc.index()].node == plan.workers[self.context.id.index()].node;
        if found.is_none() || near || scope == Scope::Rescue || !shared.policy.active().numa {
            return found;
        }
        shared.give_back(found, &self.context)
    }

    /// At most `limit` tasks of an export queue, one to be run now.
    pub(super) fn take_exported(&self, llc: LlcId, limit: usize) -> Option<Runnable> {
        let context = &self.context;
        let queue = context.shared.exports.get(llc.index())?;
        if queue.is_empty() {
            return None;
        }
        let share = (queue.len() / 2).clamp(1, limit);
        let runnable = queue.pop(&context.local, share)?;
        let counters = &context.me().counters;
        let own = context.shared.policy.plan.workers[context.id.index()].llc == llc;
        let counter = if own {
            &counters.exports_taken_back
        } else {
            &counters.export_pops
        };
        counter.add(1);
        Some(runnable)
    }

    /// The last searcher goes to work. Another may have gone to sleep beside what it was told to leave, because we
    /// searched (W1s): wakes somebody for the first such queue.
    pub(super) fn pass_on(&self) {
        let context = &self.context;
        let shared = &*context.shared;
        if !self.aggregates && !shared.policy.active().numa {
            return;
        }
        let plan = &shared.policy.plan;
        let own = plan.workers[context.id.index()].llc;
        let left = |llc: &&LlcId| {
            let exported = shared.exports.get(llc.index()).is_some_and(|queue| !queue.is_empty());
            exported || !shared.injectors[llc.index()].is_empty()
        };
        let mut others = plan.llcs[own.index()].others.iter().filter(left);
        // Where nobody is idle, all are awake and look there between two tasks.
        let _woken = others.any(|llc| shared.wake_behind(*llc, context));
    }

    /// One task that the own cache has put up for others and nobody came for (W5). It has lost its place in a deque,
    /// and is to be run now.
    pub(super) fn take_back(&self, now: Nanos) -> Option<Runnable> {
        let policy = &self.context.shared.policy;
        let llc = policy.plan.workers[self.context.id.index()].llc;
        let queue = &self.context.shared.exports[llc.index()];
        if queue.age(now) <= policy.config.wake_groups.rescue_llc {
            return None;
        }
        let runnable = self.take_exported(llc, 1)?;
        self.arrivals.came(&self.context.me().counters, Cause::Steal);
        Some(runnable)
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests;
