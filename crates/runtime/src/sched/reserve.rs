//! Idle workers that are kept for the tasks that they ran last (policy 2, off by default).
//!
//! A worker that goes to sleep says until when it is kept, and wakers of other tasks look for somebody else at first.
//! What they claim is claimed exactly, and who pushes into a shared queue and then has to tell somebody (W1) claims as
//! if nobody were kept. Before that, a reservation changes where a task goes: a home whose idle members are all kept
//! looks to the policy like one where all are busy. The task then stays in the deque of its waker if that is its home
//! worker. Else it goes to somebody idle elsewhere behind the cache, to the injector if much waits at home, or home,
//! where a kept worker may be claimed for it.

use quadrille_policy::{GroupMask, LlcId, Policy, WorkerId};

use super::Shared;
use super::context::Context;
use super::idle::Seat;
use super::schedule::count;
use super::worker::Worker;
use crate::lines;
use crate::primitives::Ordering;
use crate::sys::clock;

impl Worker {
    /// Says until when the worker, which goes to sleep, is kept.
    pub(super) fn be_reserved(&mut self) {
        if !self.reserve.is_on() {
            return;
        }
        let me = self.context.me();
        let until = self.reserve.parks(self.context.now.get());
        // Ordering: Relaxed; a hint.
        me.told.reserved_until.store(until.0, Ordering::Relaxed);
        me.counters.reserved.add(u64::from(until.0 != 0));
    }
}

impl Shared {
    /// The idle members of `group` that a wake-up by `by` may claim at first: all but those that are kept for other
    /// tasks than the one that `own` ran last.
    #[inline]
    pub(super) fn claimable(&self, group: usize, own: Option<WorkerId>, by: Option<&Context>) -> GroupMask {
        let idle = GroupMask(self.sleepers.idle.members(group));
        if idle.is_empty() || !self.policy.reserves() {
            return idle;
        }
        self.claimable_beside_kept(group, idle, own, by)
    }

    #[cold]
    fn claimable_beside_kept(
        &self,
        group: usize,
        idle: GroupMask,
        own: Option<WorkerId>,
        by: Option<&Context>,
    ) -> GroupMask {
        let kept = self.kept_of(group, idle);
        let plan = &self.policy.plan.workers;
        let own = own.and_then(|worker| plan.get(worker.index()));
        let own = own.filter(|plan| plan.group.index() == group).map(|plan| plan.member);
        let may = Policy::claimable(idle, kept, own);
        if may != idle {
            count(by, |counters| counters.reserved_passed.add(1));
        }
        may
    }

    /// Those of `idle` that are kept. The clock is read if one seems to be: a waker remembers the time from before its
    /// task.
    fn kept_of(&self, group: usize, idle: GroupMask) -> GroupMask {
        let members = &self.policy.plan.groups[group].members;
        let mut now = None;
        let mut is_kept = |member: u8| {
            let worker = &self.workers[members[usize::from(member)].index()];
            lines::touch(&worker.told.reserved_until);
            // Ordering: Relaxed; a hint.
            let until = worker.told.reserved_until.load(Ordering::Relaxed);
            until != 0 && until > *now.get_or_insert_with(clock::nanos)
        };
        let mut kept = 0;
        let mut left = idle;
        while let Some(member) = left.first() {
            left.0 &= left.0 - 1;
            kept |= u64::from(is_kept(member)) << member;
        }
        GroupMask(kept)
    }

    /// Claims an idle worker of `llc` that is not kept, from the group `from` on; the sentinel is left for later, too.
    pub(super) fn claim_unkept(&self, llc: LlcId, from: usize, by: Option<&Context>) -> Option<Seat> {
        let groups = self.llc_groups.get(llc.index())?;
        let sentinel = self.sleepers.sentinel_seat();
        let idle = &self.sleepers.idle;
        let looked_at = idle.idle_groups(llc.index(), groups, from).take(self.looks);
        looked_at.into_iter().find_map(|group| {
            let mut may = self.claimable(group, None, by);
            if let Some(seat) = sentinel.filter(|seat| seat.group == group) {
                may = Policy::claimable(may, GroupMask::only(seat.member), None);
            }
            let seat = Seat {
                group,
                member: may.first()?,
            };
            idle.claim_seat(seat).then_some(seat)
        })
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use quadrille_policy::{Nanos, SetId};

    use super::super::schedule;
    use super::super::still::Still;
    use super::*;
    use crate::task::Runnable;
    use crate::task::meta::LastWorker;

    /// Two groups of 4 a cache at least: of 16, 64 and 256 workers.
    const MACHINES: [&str; 3] = [
        "llc:2 l2:2 core:4",
        "node:2 llc:2 l2:4 core:4",
        "node:4 llc:4 l2:4 core:4",
    ];

    const ON: &str = "filter-reserve=50us,short-runs=0,cap=off,filter-light-load=1024";
    const OFF: &str = "short-runs=0,cap=off,filter-light-load=1024";

    /// A task whose home worker is `home`, ready.
    fn at_home(still: &Still, home: u16) -> Runnable {
        let runnable = still.task(home, SetId::NONE);
        let cell = runnable.policy();
        let mut task = cell.get();
        still.shared.policy.ran(&mut task, WorkerId(home));
        cell.set(task);
        runnable.last_worker().set(LastWorker::ran_on(WorkerId(home)));
        runnable
    }

    /// Which of the `idle` workers is claimed for a task of worker `home` that the last worker wakes, while `kept` are
    /// kept; and how often its waker passed one by.
    fn claimed(machine: &str, config: &str, home: u16, idle: &[u16], kept: &[u16]) -> (Vec<u16>, u64) {
        let mut still = Still::new(machine, config);
        let shared = still.shared.clone();
        let far = u16::try_from(shared.worker_count()).unwrap() - 1;
        // The sentinel is claimed last: a bystander of another cache.
        still.announce(far - 1);
        idle.iter().for_each(|worker| still.announce(*worker));
        for worker in kept {
            // Ordering: Relaxed; one thread.
            shared.workers[usize::from(*worker)]
                .told
                .reserved_until
                .store(u64::MAX, Ordering::Relaxed);
        }
        let task = at_home(&still, home);
        let waker = still.worker(far);
        let entered = waker.context.enter();
        schedule(task);
        drop(entered);
        let gone = idle.iter().copied().filter(|worker| !still.is_idle(*worker));
        let passed = shared.workers[usize::from(far)].counters.snapshot().reserved_passed;
        (gone.collect(), passed)
    }

    #[test]
    fn a_kept_worker_is_passed_by_for_another_one() {
        for machine in MACHINES {
            // Home, worker 0, is busy; its mate 1 is idle and kept, and so is worker 5 of the next group, but not 6.
            assert_eq!(claimed(machine, ON, 0, &[1, 5, 6], &[1, 5]).0, [6], "{machine}");
            assert_eq!(claimed(machine, OFF, 0, &[1, 5, 6], &[1, 5]), (vec![1], 0), "{machine}");
            assert_eq!(claimed(machine, ON, 0, &[1, 5, 6], &[]), (vec![1], 0), "{machine}");
            assert!(claimed(machine, ON, 0, &[1, 5, 6], &[1, 5]).1 > 0, "{machine}");
        }
    }

    #[test]
    fn its_own_task_gets_it() {
        for machine in MACHINES {
            assert_eq!(claimed(machine, ON, 1, &[1, 5, 6], &[1, 5]), (vec![1], 0), "{machine}");
        }
    }

    #[test]
    fn a_kept_worker_is_better_than_none() {
        for machine in MACHINES {
            assert_eq!(claimed(machine, ON, 0, &[5], &[5]).0, [5], "{machine}");
            assert_eq!(claimed(machine, ON, 0, &[1], &[1]).0, [1], "{machine}");
        }
    }

    #[test]
    fn a_reservation_that_has_ended_is_none() {
        let still = Still::new(MACHINES[0], ON);
        still.announce(1);
        let until = |ns| {
            // Ordering: Relaxed; one thread.
            still.shared.workers[1].told.reserved_until.store(ns, Ordering::Relaxed);
            still.shared.claimable(0, Some(WorkerId(0)), None)
        };
        assert_eq!(until(0), GroupMask::only(1));
        assert_eq!(until(clock::nanos()), GroupMask::only(1));
        assert_eq!(until(u64::MAX), GroupMask(0));
    }

    #[test]
    fn a_worker_that_parks_says_for_how_long_it_is_kept() {
        for (config, kept) in [(ON, 1), (OFF, 0)] {
            let mut still = Still::new(MACHINES[0], config);
            let mut worker = still.worker(0);
            let now = worker.context.now.get();
            for task in [3, 3] {
                worker.reserve.runs(task, worker.context.now.get());
                worker.be_reserved();
                worker.context.now.set(Nanos(now.0 + 20_000));
            }
            let me = &still.shared.workers[0];
            assert_eq!(me.counters.snapshot().reserved, kept, "{config}");
            let until = me.told.reserved_until.load(Ordering::Relaxed);
            assert_eq!(until, kept * (now.0 + 40_000), "{config}");
        }
    }
}
