//! How workers go to sleep and are woken: who is awake, searches, or sleeps, and what each sleeps on.

mod sentinel;
mod sleep;
pub(crate) mod word;

use crossbeam_utils::CachePadded;
use quadrille_policy::{GroupPlan, LlcId, LlcPlan, Plan, WorkerId};

pub(crate) use self::sleep::{Awake, Host, Look};
pub(crate) use self::word::{Found, ParkWord};
use super::alarms::Alarms;
use super::idle::{Idle, Seat};
use crate::lines;
use crate::primitives::{AtomicBool, AtomicU32, Ordering};
use crate::reactor::Reactor;
use crate::stress;

/// All that workers sleep and are woken by.
#[derive(Debug)]
pub(crate) struct Sleepers {
    pub(crate) idle: Idle,
    words: Box<[CachePadded<ParkWord>]>,
    /// By group: the number of its members.
    group_lens: Box<[u32]>,
    /// By group: those of them that are not away, blocking in place. Relaxed: who is seen too late delays by an
    /// interval (O).
    present: Box<[AtomicU32]>,
    /// By cache: the same of the groups that count for it.
    present_behind: Box<[AtomicU32]>,
    /// By cache: whether its workers are the members of those groups, and so look into its injector between two tasks.
    whole: Box<[bool]>,
    seats: Box<[Seat]>,
    /// By worker: its cache.
    llcs: Box<[usize]>,
    /// By cache: workers that search, and claimed ones that will. One count for all would be written by every search.
    searching: Box<[CachePadded<AtomicU32>]>,
    /// The sentinel's worker plus one; zero: none.
    sentinel: CachePadded<AtomicU32>,
    /// The worker that went idle last, plus one: its cache is warm and it may still spin.
    recent: CachePadded<AtomicU32>,
    pub(super) alarms: Alarms,
    stopping: AtomicBool,
    /// In whose polls workers sleep (L).
    pub(crate) reactor: Reactor,
}

impl Sleepers {
    pub(crate) fn new(plan: &Plan) -> Self {
        let groups = plan.groups.iter();
        let group_len = |group: &GroupPlan| u32::try_from(group.members.len()).expect("at most 64");
        let is_whole = |llc: &LlcPlan| {
            let members = llc.groups.iter().flat_map(|id| &plan.groups[id.index()].members);
            members.clone().count() == llc.workers.len()
                && members.into_iter().all(|member| llc.workers.contains(member))
        };
        Self {
            idle: Idle::new(plan),
            words: plan.workers.iter().map(|_| CachePadded::new(ParkWord::new())).collect(),
            group_lens: groups.clone().map(group_len).collect(),
            present: groups.map(|group| AtomicU32::new(group_len(group))).collect(),
            present_behind: plan
                .llcs
                .iter()
                .map(|llc| AtomicU32::new(llc.groups.iter().map(|id| group_len(&plan.groups[id.index()])).sum()))
                .collect(),
            whole: plan.llcs.iter().map(is_whole).collect(),
            seats: plan
                .workers
                .iter()
                .map(|w| Seat {
                    group: w.group.index(),
                    member: w.member,
                })
                .collect(),
            llcs: plan.workers.iter().map(|worker| worker.llc.index()).collect(),
            searching: plan.llcs.iter().map(|_| CachePadded::new(AtomicU32::new(0))).collect(),
            sentinel: CachePadded::new(AtomicU32::new(0)),
            recent: CachePadded::new(AtomicU32::new(0)),
            alarms: Alarms::new(plan.workers.len()),
            stopping: AtomicBool::new(false),
            reactor: Reactor::new(plan.llcs.len()),
        }
    }

    /// Number of workers.
    pub(crate) fn worker_count(&self) -> u32 {
        u32::try_from(self.words.len()).expect("workers fit u16")
    }

    /// Where `worker` is in the masks.
    pub(crate) fn seat(&self, worker: usize) -> Seat {
        self.seats[worker]
    }

    /// Number of members of `group`.
    pub(crate) fn group_len(&self, group: usize) -> u32 {
        self.group_lens[group]
    }

    /// Workers behind `llc` that are awake, and idle ones, as counted (K).
    #[inline]
    pub(crate) fn awake_and_idle(&self, llc: usize) -> (u32, u32) {
        let idle = self.idle.caches.of(llc);
        // Ordering: Relaxed; who is seen too late delays by an interval of the sentinel (O).
        let present = self.present_behind[llc].load(Ordering::Relaxed);
        (present.saturating_sub(idle), idle)
    }

    /// Workers that are awake and look into the injector of `llc` between two tasks: none, as far as is known, if its
    /// groups have members behind other caches.
    #[inline]
    pub(crate) fn witnesses(&self, llc: usize) -> u32 {
        if self.whole[llc] { self.awake_and_idle(llc).0 } else { 0 }
    }

    /// Members of `group` that are awake while these are `idle`.
    #[inline]
    pub(crate) fn awake_in_group(&self, group: usize, idle: u64) -> u32 {
        // Ordering: Relaxed; as above.
        let present = self.present[group].load(Ordering::Relaxed);
        present.saturating_sub(idle.count_ones())
    }

    /// The calling worker, a member of `group`, blocks in place: it is no witness of anything until it `comes_back`.
    pub(super) fn goes_away(&self, group: usize) {
        for present in [&self.present[group], &self.present_behind[self.idle.llc_of(group)]] {
            // Ordering: Relaxed; who counts us for a moment longer delays by an interval of the sentinel (O).
            present.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// See [`goes_away`](Self::goes_away).
    pub(super) fn comes_back(&self, group: usize) {
        for present in [&self.present[group], &self.present_behind[self.idle.llc_of(group)]] {
            // Ordering: Relaxed; before that more is owed than need be.
            present.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Number of workers behind `llc` that search: witnesses (W1s). A count below zero is none.
    #[inline]
    pub(crate) fn searching_behind(&self, llc: usize) -> u32 {
        lines::touch(&self.searching[llc]);
        // Ordering: Relaxed; a hint, or after the fence (W1 A).
        let count = self.searching[llc].load(Ordering::Relaxed);
        count.cast_signed().max(0).cast_unsigned()
    }

    /// Searchers for whose sake nobody is woken for what is queued behind `llc`: those of that cache; where all its
    /// workers are awake, those of the nearest of `others` that has idle ones, which is where somebody would be woken.
    #[inline]
    pub(crate) fn searching_for(&self, llc: usize, others: &[LlcId]) -> u32 {
        let near = self.searching_behind(llc);
        if near > 0 || self.idle.caches.any_behind(llc) {
            return near;
        }
        let idle = others.iter().find(|other| self.idle.caches.any_behind(other.index()));
        idle.map_or(0, |other| self.searching_behind(other.index()))
    }

    /// Whether any worker searches; those behind `llc` are looked at first, since whoever was just woken is among them.
    pub(crate) fn anyone_searches(&self, llc: usize) -> bool {
        (llc..self.searching.len())
            .chain(0..llc)
            .any(|llc| self.searching_behind(llc) > 0)
    }

    /// The cache of `worker`.
    pub(super) fn llc_of(&self, worker: usize) -> usize {
        self.llcs[worker]
    }

    /// Where `worker` counts as a searcher.
    fn searchers(&self, worker: usize) -> &AtomicU32 {
        &self.searching[self.llcs[worker]]
    }

    /// Claims the worker that went idle last, if it still is and is not the sentinel.
    pub(crate) fn claim_recent(&self) -> Option<Seat> {
        lines::touch(&self.recent);
        // Ordering: Relaxed; a hint, the claim decides.
        let recent = self.recent.load(Ordering::Relaxed);
        if recent == 0 || recent == self.sentinel.load(Ordering::Relaxed) {
            return None;
        }
        let seat = self.seats[recent as usize - 1];
        self.idle.claim_seat(seat).then_some(seat)
    }

    /// The worker that went idle last, unless it is the sentinel, or nobody ever did.
    pub(crate) fn recent(&self) -> Option<WorkerId> {
        lines::touch(&self.recent);
        // Ordering: Relaxed; a hint.
        let recent = self.recent.load(Ordering::Relaxed);
        let is_sentinel = recent == self.sentinel.load(Ordering::Relaxed);
        (recent != 0 && !is_sentinel).then(|| WorkerId(u16::try_from(recent - 1).expect("workers fit u16")))
    }

    /// `worker` is about to go idle: it is who did last.
    pub(super) fn went_idle(&self, worker: usize) {
        let number = u32::try_from(worker).expect("workers fit u16") + 1;
        // Ordering: Relaxed; a hint.
        self.recent.store(number, Ordering::Relaxed);
    }

    /// Whether `worker` was woken and has not got up yet.
    pub(crate) fn is_waking(&self, worker: usize) -> bool {
        lines::touch(&self.words[worker]);
        self.words[worker].has_token()
    }

    /// `worker` begins to search: it says so itself, or its claimer.
    pub(crate) fn start_search(&self, worker: usize) {
        let searchers = self.searchers(worker);
        lines::touch(searchers);
        // Ordering: SeqCst; (W1s a) before the search, against a pusher's read after its fence.
        searchers.fetch_add(1, Ordering::SeqCst);
    }

    /// The calling worker stops searching. True if it was the last searcher of its cache.
    pub(crate) fn stop_search(&self, worker: usize) -> bool {
        // Ordering: SeqCst; (W1s a) step 1 of parking: before the announcement.
        self.searchers(worker).fetch_sub(1, Ordering::SeqCst) == 1
    }

    /// Wakes the worker in `seat`, whose bit the caller has just cleared. It counts as a searcher from now on.
    pub(crate) fn wake(&self, worker: usize) -> Found {
        stress::delay();
        self.start_search(worker);
        stress::delay();
        lines::touch(&self.words[worker]);
        self.post_token(worker)
    }

    /// Posts a token, and ends the poll that its worker may sleep in: after the token, which that one looks for then
    /// (L a).
    fn post_token(&self, worker: usize) -> Found {
        let found = self.words[worker].unpark();
        if let Found::Polling(shard) = found {
            stress::delay();
            self.reactor.shard(shard).notify();
        }
        found
    }

    /// Everybody shall stop: posts a token to all.
    pub(crate) fn stop(&self) {
        // Ordering: Release; (S a) pairs with the Acquire in `is_stopping`. Each token follows and hands the flag over
        // (P a): whoever consumes it, even on its way to sleep, sees the flag before it could sleep again.
        self.stopping.store(true, Ordering::Release);
        for worker in 0..self.words.len() {
            let _where = self.post_token(worker);
        }
    }

    /// Whether [`stop`](Self::stop) was called.
    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        // Ordering: Acquire; pairs with `stop` (S a).
        self.stopping.load(Ordering::Acquire)
    }
}
