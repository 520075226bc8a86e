//! Whom to wake for what was queued, and whether that pays: step 6 of a wake-up, and (O).

use quadrille_policy::{LlcId, Nanos, UnparkView, WorkerId};

use super::context::Context;
use super::idle::Seat;
use super::park::Found;
use super::schedule::count;
use super::{Members, Shared};
use crate::decisions;
use crate::lines;
use crate::primitives::Ordering;

impl Context {
    /// (O) The same as [`Shared::keep_watch`] for what is in our own queues, where a promise will do.
    #[inline]
    pub(super) fn keep_watch(&self) {
        let sleepers = &self.shared.sleepers;
        if sleepers.idle.caches.any() && !sleepers.has_sentinel() {
            self.find_watch();
        }
    }

    /// The same where there was no sentinel.
    #[cold]
    fn find_watch(&self) {
        if !self.shared.sleepers.anyone_searches(self.llc()) && !self.is_promised() {
            self.shared
                .wake_any(self.shared.policy.plan.workers[self.id.index()].llc, Some(self));
        }
    }

    /// Whether an idle worker comes to what is in our own queues within an interval, should we not.
    #[inline]
    pub(super) fn is_watched(&self) -> bool {
        self.shared.sleepers.has_sentinel() || self.is_promised()
    }

    /// The same where there was no sentinel. The fence is that of `is_unwatched` (F c): what we have queued comes
    /// before the look at who is idle.
    #[cold]
    fn is_promised(&self) -> bool {
        !self.shared.sleepers.is_unwatched() || self.shared.someone_comes(self.now.get(), None)
    }
}

impl Shared {
    /// (O) Something was queued and nobody was woken for it. Those who are awake may run one task for long; so somebody
    /// idle must look at the queues from time to time. Without a sentinel, and without a searcher who becomes it or
    /// names one, wakes a worker, whatever the policy says (W4).
    pub(super) fn keep_watch(&self, llc: LlcId, by: Option<&Context>) {
        let sleepers = &self.sleepers;
        if sleepers.idle.caches.any() && !sleepers.has_sentinel() && !sleepers.anyone_searches(llc.index()) {
            self.wake_any(llc, by);
        }
    }

    /// Whether an idle member of a group is woken although others of its members are awake.
    pub(super) fn unpark_pays(&self, group: usize, idle: u32, awake: u32, by: Option<&Context>) -> bool {
        let view = UnparkView {
            idle,
            // Searchers of other groups need not look here.
            searching: 0,
            sentinel: self.sleepers.has_sentinel(),
            running: awake,
            queued: u32::try_from(self.groups[group].len()).unwrap_or(u32::MAX).max(1),
            average_run: self.average_run_of(&self.policy.plan.groups[group].members),
            burst: Nanos(0),
            wake_cost: self.wake_cost(),
        };
        self.pays(&view, by)
    }

    /// Whether waking an idle worker pays; counts it if not, unless the view has a searcher.
    #[inline]
    pub(super) fn pays(&self, view: &UnparkView, by: Option<&Context>) -> bool {
        let pays = decisions::unpark(&self.policy, view);
        if !pays && view.searching == 0 {
            count(by, |counters| counters.unparks_suppressed.add(1));
        }
        pays
    }

    /// Claims and wakes an idle worker, nearest to `llc` first, the sentinel last.
    pub(crate) fn wake_any(&self, llc: LlcId, by: Option<&Context>) -> bool {
        let from = by.map_or(0, |c| {
            usize::from(self.policy.plan.groups[self.group_of(c.id)].index_in_llc)
        });
        let others = &self.policy.plan.llcs[llc.index()].others;
        let llcs = std::iter::once(llc).chain(others.iter().copied());
        let one_llc = others.is_empty();
        let recent = if one_llc { self.sleepers.claim_recent() } else { None };
        let seat = recent.or_else(|| {
            // By the caches' bits (K): else one line for each cache that has nobody.
            llcs.into_iter()
                .filter(|llc| self.sleepers.idle.caches.any_behind(llc.index()))
                .find_map(|llc| self.claim_in_llc(llc, from, usize::MAX))
        });
        match seat {
            Some(seat) => {
                self.wake_claimed(seat, by);
                true
            }
            None => false,
        }
    }

    /// Wakes an idle worker behind `llc`, the sentinel last. False if there is none: all who may have what is there are
    /// awake.
    pub(super) fn wake_behind(&self, llc: LlcId, by: &Context) -> bool {
        // The groups that count for the LLC will do, unless they have members elsewhere, or it has workers in others.
        let groups = self.llc_groups[llc.index()].iter();
        let whole = groups.map(|group| Members {
            group: *group,
            bits: u64::MAX >> (64 - self.sleepers.group_len(*group)),
        });
        let seat = if whole.eq(self.llc_members[llc.index()].iter().copied()) {
            self.claim_in_llc(llc, 0, usize::MAX)
        } else {
            self.claim_one_of(llc)
        };
        seat.is_some_and(|seat| {
            self.wake_claimed(seat, Some(by));
            true
        })
    }

    /// Claims an idle worker of `llc`, whichever LLC its group counts for.
    fn claim_one_of(&self, llc: LlcId) -> Option<Seat> {
        let sentinel = self.sleepers.sentinel_seat();
        let workers = self.policy.plan.llcs[llc.index()].workers.iter();
        let mut seats: Vec<Seat> = workers.map(|worker| self.sleepers.seat(worker.index())).collect();
        seats.sort_by_key(|seat| Some(*seat) == sentinel);
        seats.into_iter().find(|seat| self.sleepers.idle.claim_seat(*seat))
    }

    pub(super) fn claim_in_llc(&self, llc: LlcId, from: usize, looks_max: usize) -> Option<Seat> {
        let groups = self.llc_groups.get(llc.index())?;
        let avoid = self.sleepers.sentinel_seat();
        self.sleepers
            .idle
            .claim_in_llc(llc.index(), groups, from, avoid, looks_max)
    }

    /// Posts the token that a claim owes.
    pub(crate) fn wake_claimed(&self, seat: Seat, by: Option<&Context>) {
        let worker = self.policy.plan.groups[seat.group].members[usize::from(seat.member)].index();
        lines::touch(&self.workers[worker].told.unparked_at);
        // Ordering: Relaxed; a measurement; the token publishes it.
        self.workers[worker]
            .told
            .unparked_at
            .store(crate::sys::clock::nanos(), Ordering::Relaxed);
        let found = self.sleepers.wake(worker);
        match by {
            Some(context) => {
                let counters = &context.me().counters;
                counters.unparks.add(1);
                counters.unparks_futex.add(u64::from(found == Found::Parked));
                counters
                    .unparks_polling
                    .add(u64::from(matches!(found, Found::Polling(_))));
            }
            None => self.foreign.count_unpark(),
        }
        if self.sleepers.may_have_hidden_one() {
            let llc = self.sleepers.idle.llc_of(seat.group);
            self.keep_watch(LlcId(u16::try_from(llc).expect("LLCs fit u16")), by);
        }
    }

    pub(super) fn group_of(&self, worker: WorkerId) -> usize {
        self.policy.plan.workers[worker.index()].group.index()
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use quadrille_policy::{Nanos, Placement, SetId};

    use crate::sched::still::Still;
    use crate::sched::worker::Looked;

    /// Workers that are woken for the first two tasks that are spawned after so many, which run for 100 ns where a
    /// wake-up costs 10 us: alone, none is worth it. One more sleeps, as sentinel.
    fn woken(policy: &str, burst: u64) -> usize {
        let mut still = Still::new("core:4", policy);
        let mut worker = still.worker(0);
        (1..4).for_each(|other| still.announce(other));
        worker.context.started.set(burst);
        assert!(matches!(worker.look_up(), Looked::Nothing));
        worker.context.average_run.set(Nanos(100));
        // A task that was woken begins no burst.
        let woken = still.task(0, SetId::NONE);
        worker.context.put(woken, Placement::Deque);
        assert!((1..4).all(|other| still.is_idle(other)), "{policy}, {burst}");
        for _ in 0..2 {
            worker.context.spawn(still.task(0, SetId::NONE), None);
            // Whoever was woken searches, and has gone to work when the next task comes.
            still.shared.sleepers.stop_search(1);
        }
        assert!(still.is_idle(1), "the sentinel");
        (2..4).filter(|other| !still.is_idle(*other)).count()
    }

    #[test]
    fn somebody_is_woken_for_the_first_of_a_burst() {
        for policy in ["default", "groups=on"] {
            assert_eq!(woken(policy, 0), 0, "{policy}");
            assert_eq!(woken(policy, 1_000_000), 1, "{policy}");
            assert_eq!(woken(&format!("{policy},wake-cost-burst=0"), 1_000_000), 0, "{policy}");
        }
    }

    /// What was woken begins no burst; nor does a new task that only this worker may run.
    #[test]
    fn only_new_tasks_in_the_deque_are_counted() {
        let mut still = Still::new("core:2", "default");
        let worker = still.worker(0);
        worker.context.spawn(still.task(0, SetId::NONE), None);
        assert_eq!(worker.context.started.get(), 1);
        worker.context.put(still.task(0, SetId::NONE), Placement::Deque);
        worker.context.spawn_bound(still.task(0, SetId::NONE));
        assert_eq!(worker.context.started.get(), 1);
    }
}
