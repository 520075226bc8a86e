//! Which worker a thread is bound to (B a), or woken to start one: decided by how many each has.

use quadrille_policy::{Backlog, Claim, Nanos, Rng, WorkerId};

use super::Shared;
use super::context::Context;
use super::idle::Seat;
use super::search::Scope;
use super::worker::Worker;
use crate::decisions;
use crate::lines;
use crate::primitives::Ordering;
use crate::sys::clock;
use crate::task::Meta;
use crate::task::Runnable;
use crate::task::meta::{BINDS, BOUND, LEFT, LastWorker};

/// Another worker that starts a thread, and how it gets it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Starter {
    /// It sleeps: the thread is bound to it.
    Idle(WorkerId),
    /// It was woken and has not got up yet: the thread waits in the queue of its group, where others find it if that
    /// takes long.
    Waking(WorkerId),
    /// It was asked for by its number, awake or not.
    Named(WorkerId),
}

impl Context {
    /// Who starts a thread in place of this worker, which was about to, if policy says so of the one that is asked: the
    /// one that the thread before it was left to, as long as that one comes, or any of the same cache. Not twice for
    /// the same thread: it was `left` by another already.
    ///
    /// Whatever policy says, nobody is bound to a worker that is awake, or has not emptied its mailbox: it may run one
    /// task for ever, and a thread that has not begun must not wait for that (W5). Unless its spawner named that
    /// worker.
    pub(super) fn starter(&self, meta: &Meta) -> Option<Starter> {
        if meta.has(LEFT) || self.unwinding.get() {
            return None;
        }
        if let Some(worker) = meta.extras().and_then(|extras| extras.worker) {
            return (worker != self.id).then_some(Starter::Named(worker));
        }
        let shared = &*self.shared;
        let went = self.bound_last.take();
        let (own, was_left) = (self.own_threads(), went.is_some());
        if !decisions::binds_elsewhere(&shared.policy, own, 0, was_left) {
            // However few another one has: it is not looked at.
            return None;
        }
        let other = went.or_else(|| shared.mate_of(self.id, |bound| self.random_below(bound)))?;
        if !decisions::binds_elsewhere(&shared.policy, own, shared.starts_on(other), was_left) {
            return None;
        }
        let seat = shared.sleepers.seat(other.index());
        let has_mail = !shared.workers[other.index()].bound.is_empty();
        let is_idle = shared.sleepers.idle.members(seat.group) & (1 << seat.member) != 0;
        let is_waking = shared.sleepers.is_waking(other.index());
        // Else it is busy, and on its way to nothing of ours: the next one asks somebody else.
        self.bound_last.set((is_idle || is_waking || has_mail).then_some(other));
        if is_idle {
            return (!has_mail).then_some(Starter::Idle(other));
        }
        // We would take it back out of the queue of our own group.
        let others = shared.group_of(self.id) != seat.group;
        let has_room = shared.groups[seat.group].len() < shared.policy.config.bind.waiting as usize;
        (is_waking && others && has_room).then_some(Starter::Waking(other))
    }
}

/// What a thief remembers of whom it robbed last, if that one had threads that had not begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Robbed {
    victim: WorkerId,
    /// When threads were stolen from it last.
    stolen: Nanos,
    /// Its polls, when it was left alone first.
    polls: u64,
    /// When that was.
    since: Nanos,
    /// Until when it is not asked again.
    until: Nanos,
}

impl Robbed {
    /// Whether `victim` was asked a moment ago, and its threads left to it.
    pub(super) fn leaves_alone(&self, victim: WorkerId, now: Nanos) -> bool {
        self.victim == victim && now < self.until
    }
}

impl Context {
    /// Wakes one near `victim`, which has `starts` threads, for those that this worker, with `own` of them, does not
    /// take: the first that is idle, has fewer, and would take some. For our sake, since we searched, nobody may have
    /// been woken.
    fn hand_over_to_fewer(&self, victim: WorkerId, own: u32, starts: u32) {
        let shared = &*self.shared;
        let plan = &shared.policy.plan;
        let near = &plan.llcs[plan.workers[victim.index()].llc.index()].workers;
        let first = self.random_below(near.len());
        let others = (0..near.len()).map(|i| near[(first + i) % near.len()]);
        let has_fewer = |other: &WorkerId| {
            let others = shared.starts_on(*other);
            decisions::binds_elsewhere(&shared.policy, own, others, false)
                && decisions::threads_to_steal(&shared.policy, others, starts, Nanos(0)) > 0
        };
        let seat = others
            .filter(|other| *other != self.id && *other != victim)
            .filter(has_fewer)
            .map(|other| shared.sleepers.seat(other.index()))
            .find(|seat| shared.sleepers.idle.claim_seat(*seat));
        if let Some(seat) = seat {
            shared.wake_claimed(seat, Some(self));
        }
    }
}

impl Context {
    /// Notes what was stolen: threads that have not begun are not always.
    pub(super) fn note_threads(&self, victim: WorkerId, stolen: &Runnable) {
        let known = self.robbed.get().filter(|robbed| robbed.victim == victim);
        let first = Robbed {
            victim,
            stolen: Nanos(0),
            polls: u64::MAX,
            since: Nanos(0),
            until: Nanos(0),
        };
        self.robbed.set(stolen.meta().has(BINDS).then(|| Robbed {
            stolen: self.now.get(),
            ..known.unwrap_or(first)
        }));
    }

    /// How many tasks are stolen from a victim, at most `limit`: if it had threads that have not begun, as many as
    /// policy says, and a few for a rescue in any case. That it had some is forgotten with the first task of its that
    /// begins [`patience`](quadrille_policy::Bind::patience) after the last was stolen: what it has queued since may be
    /// tasks, which need not be shared out. To one that is [behind](Backlog) nothing is left.
    pub(super) fn take_from(&self, victim: WorkerId, scope: Scope, limit: usize) -> usize {
        let Some(mut robbed) = self.robbed.get().filter(|robbed| robbed.victim == victim) else {
            return limit;
        };
        let there = &*self.shared.workers[victim.index()];
        let (now, polls) = (Nanos(clock::nanos()), there.counters.polls.get());
        if scope == Scope::Normal && robbed.leaves_alone(victim, now) {
            return 0;
        }
        let bind = &self.shared.policy.config.bind;
        let backlog = self.backlog.get();
        let behind = backlog.is_some_and(|backlog| backlog.is_behind(victim, now, bind));
        if robbed.polls != polls {
            if now.since(robbed.stolen) >= bind.patience && !behind {
                self.robbed.set(None);
                return limit;
            }
            (robbed.polls, robbed.since) = (polls, now);
        }
        let own = self.own_threads();
        let queued = u32::try_from(there.stealer.len()).unwrap_or(u32::MAX);
        let starts = self.shared.starts_on(victim).saturating_add(queued);
        let waited = if behind { bind.patience } else { now.since(robbed.since) };
        let most = decisions::threads_to_steal(&self.shared.policy, own, starts, waited) as usize;
        let leaves = most == 0 && scope == Scope::Normal;
        if leaves || behind {
            self.backlog.set(Some(Backlog::seen(backlog, victim, now, bind)));
        }
        if leaves {
            robbed.until = Nanos(now.0.saturating_add(bind.pause.0));
        }
        self.robbed.set(Some(robbed));
        match scope {
            Scope::Rescue => return limit.min(most.max(bind.rescue as usize)),
            Scope::Normal if !leaves => return limit.min(most),
            Scope::Normal => {}
        }
        if self.shared.worker_count() == 2 {
            // Nor need it call for us: nobody else is there to hear it.
            // Ordering: Relaxed; a hint.
            there.told.spared_until.store(robbed.until.0, Ordering::Relaxed);
        } else {
            self.hand_over_to_fewer(victim, own, starts);
        }
        0
    }

    /// A victim had nothing when it was looked at.
    pub(super) fn keeps_up(&self, victim: WorkerId) {
        if self.backlog.get().is_some_and(|backlog| backlog.is_of(victim)) {
            self.backlog.set(None);
        }
    }

    /// Threads that were started here and have not ended, and tasks that are bound.
    fn own_threads(&self) -> u32 {
        u32::try_from(self.living.len.get()).unwrap_or(u32::MAX)
    }
}

impl Worker {
    /// Leaves a thread that was about to start here to another worker. The push is the last touch (W3).
    #[cold]
    pub(super) fn leave_thread(&self, runnable: Runnable, starter: Starter) {
        let context = &self.context;
        context.me().counters.bound_elsewhere.add(1);
        let meta = runnable.meta();
        match starter {
            Starter::Idle(owner) | Starter::Named(owner) => {
                let last = runnable.last_worker();
                // (B a) Nobody else gets a runnable until the owner has it.
                meta.set(BOUND);
                if last.get().is_another(owner) {
                    self.count_move(last.get(), owner, &runnable);
                }
                last.set(LastWorker::ran_on(owner));
                context.shared.publish_bound(runnable, Some(context));
            }
            Starter::Waking(other) => {
                meta.set(LEFT);
                let group = context.shared.group_of(other);
                context
                    .shared
                    .publish_group(runnable, group, Claim::Prefer(other), Some(context));
            }
        }
    }
}

impl Shared {
    /// For a thread that is about to start, on a machine of one cache: claims another worker than the one that went
    /// idle last, which would be woken for a task, if that has noticeably more threads. Else those that are spawned
    /// together shall meet there.
    pub(super) fn claim_one_with_fewer(&self, rng: &mut Rng) -> Option<Seat> {
        let recent = self.sleepers.recent()?;
        let other = self.mate_of(recent, |bound| {
            rng.below(u32::try_from(bound).unwrap_or(u32::MAX)) as usize
        })?;
        let seat = self.sleepers.seat(other.index());
        let (recent, others) = (self.starts_on(recent), self.starts_on(other));
        let fewer = decisions::binds_elsewhere(&self.policy, recent, others, false);
        (fewer && self.sleepers.idle.claim_seat(seat)).then_some(seat)
    }

    /// Another worker of the same cache, by a number below that of those there are.
    fn mate_of(&self, worker: WorkerId, random_below: impl FnOnce(usize) -> usize) -> Option<WorkerId> {
        let plan = &self.policy.plan;
        let mates = &plan.llcs[plan.workers[worker.index()].llc.index()].workers;
        let (last, others) = mates.split_last()?;
        // Whoever asks has the place of the last one.
        let chosen = *others.get(random_below(others.len().max(1)))?;
        Some(if chosen == worker { *last } else { chosen })
    }

    /// Threads that a worker has started and that have not ended, and its share of what waits in the queue of its
    /// group; an estimate.
    fn starts_on(&self, worker: WorkerId) -> u32 {
        let group = self.group_of(worker);
        lines::touch(&self.workers[worker.index()].living);
        let queued = self.groups[group].len() / self.sleepers.group_len(group).max(1) as usize;
        // Ordering: Relaxed; an estimate.
        let living = self.workers[worker.index()].living.load(Ordering::Relaxed);
        living.saturating_add(u32::try_from(queued).unwrap_or(u32::MAX))
    }

    /// Started threads that have not ended. Exact only while nothing runs.
    pub(crate) fn living_threads(&self) -> usize {
        // Ordering: Relaxed; a statistic.
        let tasks = |worker: &super::WorkerShared| worker.living_tasks.load(Ordering::Relaxed) as usize;
        let tasks = self.workers.iter().map(|worker| tasks(worker)).sum();
        self.living().saturating_sub(tasks)
    }

    /// Those, and bound tasks. Once all workers have ceased to run tasks none is added (B d).
    pub(super) fn living(&self) -> usize {
        // Ordering: Relaxed; the latch publishes what was stored before it (B d), else a statistic.
        let living = |worker: &super::WorkerShared| worker.living.load(Ordering::Relaxed) as usize;
        self.workers.iter().map(|worker| living(worker)).sum()
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests;
