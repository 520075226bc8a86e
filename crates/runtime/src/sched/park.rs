//! How a worker goes to sleep and is woken: the park word, and the order of steps that W1 rests on.

use std::time::Duration;

use crossbeam_utils::CachePadded;
use quadrille_policy::{GroupPlan, LlcId, LlcPlan, Plan, WorkerId};

use super::alarms::{Alarm, Alarms};
use super::idle::{Idle, Seat, Withdrawn};
use crate::lines;
use crate::primitives::{AtomicBool, AtomicU32, Ordering, fence};
use crate::reactor::{Duty, Polled, Reactor};
use crate::stress;
use crate::sys::futex::Futex;

/// Its worker is awake, or about to look at the word.
const RUN: u32 = 0;
/// Its worker sleeps on the word.
const PARKED: u32 = 1;
/// Somebody owes nothing any more: the worker shall go on.
const TOKEN: u32 = 2;
/// Its worker sleeps in the poll of a shard: this one, and so on (L).
const POLLING: u32 = 3;

/// What ended a wait on a park word.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// A token, which is consumed.
    Token,
    /// The time-out.
    TimedOut,
    /// Events, which are collected (L).
    Events,
    /// Nothing that concerns the worker: a notification for who held the duty before (L a), or events that nobody waits for.
    Nothing,
}

/// Where a token has found a worker.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Awake, or it has a token already.
    Awake,
    /// Asleep on the word; it was woken.
    Parked,
    /// Asleep in the poll of this shard, which is to be notified.
    Polling(usize),
}

/// A worker's park word: only its worker waits on it, anyone who owes it a token posts one.
#[derive(Debug)]
pub(crate) struct ParkWord(Futex);

impl ParkWord {
    pub(crate) fn new() -> Self {
        Self(Futex::new(RUN))
    }

    /// Posts a token; calls the kernel only if the worker sleeps on the word.
    pub(crate) fn unpark(&self) -> Found {
        // Ordering: Release; (P a) what the claimer published happens before what the worker does after `consume`.
        match self.0.word.swap(TOKEN, Ordering::Release) {
            RUN | TOKEN => Found::Awake,
            PARKED => {
                self.0.wake();
                Found::Parked
            }
            polling => Found::Polling((polling - POLLING) as usize),
        }
    }

    /// Whether a token is there.
    #[inline]
    pub(crate) fn has_token(&self) -> bool {
        // Ordering: Relaxed; `consume` acquires.
        self.0.word.load(Ordering::Relaxed) == TOKEN
    }

    /// Takes a token if there is one.
    pub(crate) fn consume(&self) -> bool {
        // Ordering: Acquire; pairs with `unpark` (P a).
        self.0
            .word
            .compare_exchange(TOKEN, RUN, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Sleeps until a token is posted, or `timeout` has passed.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Wait {
        // Ordering: Acquire on failure; a token was there first (P a). Relaxed on success; nothing was handed over.
        if self
            .0
            .word
            .compare_exchange(RUN, PARKED, Ordering::Relaxed, Ordering::Acquire)
            .is_ok()
        {
            loop {
                self.0.wait(PARKED, timeout);
                // Ordering: Relaxed; the swap below acquires.
                if self.0.word.load(Ordering::Relaxed) == TOKEN {
                    break;
                }
                // Spurious returns of an untimed wait go round; those of a timed one count as time-outs.
                if timeout.is_some()
                    && self
                        .0
                        .word
                        .compare_exchange(PARKED, RUN, Ordering::Relaxed, Ordering::Relaxed)
                        .is_ok()
                {
                    return Wait::TimedOut;
                }
            }
        }
        self.take_token()
    }

    /// Takes the token that is there.
    fn take_token(&self) -> Wait {
        // Ordering: Acquire; pairs with `unpark` (P a).
        self.0.word.swap(RUN, Ordering::Acquire);
        Wait::Token
    }

    /// Sleeps in the poll of `shard`, whose duty the caller has, by calling `poll` once.
    pub(crate) fn wait_polling(&self, shard: usize, poll: impl FnOnce() -> Polled) -> Wait {
        let polling = POLLING + u32::try_from(shard).expect("LLCs fit u16");
        // Ordering: Acquire on failure; a token was there first (P a). Relaxed on success; nothing was handed over.
        let exchanged = self
            .0
            .word
            .compare_exchange(RUN, polling, Ordering::Relaxed, Ordering::Acquire);
        if exchanged.is_ok() {
            let polled = poll();
            // Ordering: Relaxed; nothing was handed over. With a token there the swap below acquires.
            let left = self
                .0
                .word
                .compare_exchange(polling, RUN, Ordering::Relaxed, Ordering::Relaxed);
            if left.is_ok() {
                return match polled {
                    Polled::Events(_) => Wait::Events,
                    Polled::Notified => Wait::Nothing,
                    Polled::Nothing => Wait::TimedOut,
                };
            }
        }
        self.take_token()
    }
}

/// What the sentinel has seen at the end of an interval.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Something is stuck, or waits for longer than waking us has cost.
    Stuck,
    /// Tasks have run since the last look.
    Active,
    /// Nothing has run since the last look.
    Quiet,
}

/// What the owner of a [`Sleepers`] must be able to do for a worker that goes to sleep.
pub(crate) trait Host {
    /// Step 4: is there anything that this worker must not sleep beside? `everything`: it was the last searcher.
    fn final_look(&mut self, everything: bool) -> bool;

    /// For a worker that sleeps: is there anything beside which nobody should sleep, whatever a policy says?
    fn anything_left(&mut self) -> bool {
        self.final_look(false)
    }

    /// Called while the idle bit is set, before the kernel is asked: may spin until `word` has a token.
    fn spin(&mut self, word: &ParkWord);

    /// The sentinel's look at the end of an interval.
    fn sentinel_look(&mut self) -> Look;

    /// The sentinel's interval, as things are.
    fn interval(&mut self) -> Duration;

    /// Other caches than the worker's, the nearest first.
    fn others(&self) -> &[LlcId];

    /// Polls the shard whose duty this is, and keeps what it brings for the worker.
    fn poll(&mut self, duty: &Duty<'_>, timeout: Option<Duration>) -> Polled;

    /// After a look as sentinel: has nobody polled this shard since the look before?
    fn is_neglected(&self, shard: usize) -> bool;

    /// The worker has become holder, as sentinel; or it has polled a shard without a wait, because it holds another already: wakes
    /// somebody who is behind the cache, if all of those sleep.
    fn takes_over(&mut self, shard: usize, rouse: bool);

    /// How long this worker may sleep for its own sake: until its first timer.
    fn alarm(&mut self) -> Alarm {
        Alarm::Never
    }
}

/// Why a worker is awake again.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Awake {
    /// Somebody claimed us and counted us as searching already.
    pub(crate) claimed: bool,
    /// We found something that is stuck, at the end of an interval.
    pub(crate) rescue: bool,
    /// The worker did sleep or spin: `final_look` had found nothing.
    pub(crate) slept: bool,
    /// A time-out that is there for this purpose found work beside which everybody slept: a wake-up was lost.
    pub(crate) lost_wakeup: bool,
}

/// What ended a sleep in the kernel.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Risen {
    /// A token.
    Token,
    /// The sentinel has seen something stuck.
    Stuck,
    /// Events were collected.
    Events,
    /// A timer of its own has expired.
    Alarm,
    /// See [`Awake::lost_wakeup`].
    LostWakeup,
}

/// All that workers sleep and are woken by.
#[derive(Debug)]
pub(crate) struct Sleepers {
    pub(crate) idle: Idle,
    words: Box<[CachePadded<ParkWord>]>,
    /// By group: the number of its members.
    group_lens: Box<[u32]>,
    /// By group: those of them that are not away, blocking in place. Relaxed: who is seen too late delays by an interval (O).
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

    /// Workers that are awake and look into the injector of `llc` between two tasks: none, as far as is known, if its groups have
    /// members behind other caches.
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

    /// Searchers for whose sake nobody is woken for what is queued behind `llc`: those of that cache; where all its workers
    /// are awake, those of the nearest of `others` that has idle ones, which is where somebody would be woken.
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

    /// For a claimer that has posted its token: whether it may have hidden somebody for a moment who has gone to sleep
    /// meanwhile beside no sentinel (K, O), so that it has to look after him.
    pub(crate) fn may_have_hidden_one(&self) -> bool {
        self.searching.len() > 1 && self.is_unwatched() && self.idle.caches.any()
    }

    /// Whether some parked worker is the sentinel.
    #[inline]
    pub(crate) fn has_sentinel(&self) -> bool {
        lines::touch(&self.sentinel);
        // Ordering: Relaxed; a stale answer delays, at most until the next task boundary (W5).
        self.sentinel.load(Ordering::Relaxed) != 0
    }

    /// Whether the calling worker, which is awake and searches no more, leaves the idle ones without a sentinel.
    pub(crate) fn is_unwatched(&self) -> bool {
        // Ordering: SeqCst; (O) our bit is gone before we look for a sentinel, against a sentinel that has resigned before
        // it looks for us in `resign_if_all_idle`. And our duty is resigned, and one searcher less, before we look at the
        // queues in `name_successor`, against push before the look at both in `keep_watch`.
        fence(Ordering::SeqCst);
        !self.has_sentinel()
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

    /// The sentinel's seat, to be claimed last.
    pub(crate) fn sentinel_seat(&self) -> Option<Seat> {
        lines::touch(&self.sentinel);
        // Ordering: Relaxed; a preference.
        let sentinel = self.sentinel.load(Ordering::Relaxed);
        (sentinel != 0).then(|| self.seats[sentinel as usize - 1])
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

    /// Posts a token, and ends the poll that its worker may sleep in: after the token, which that one looks for then (L a).
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
        // Ordering: Release; (S a) pairs with the Acquire in `is_stopping`. Each token follows and hands the flag over (P a):
        // whoever consumes it, even on its way to sleep, sees the flag before it could sleep again.
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

    /// Steps 1-6 of parking, for a searcher: stops searching, announces `worker` as idle, looks once more, sleeps until
    /// claimed, rescued or stopped.
    pub(crate) fn sleep(&self, worker: usize, host: &mut impl Host) -> Awake {
        let seat = self.seats[worker];
        let word = &*self.words[worker];
        self.went_idle(worker);
        let last_searcher = self.stop_search(worker);
        stress::delay();
        self.idle.announce(seat);
        stress::delay();
        // Ordering: SeqCst; (W1 B) announcement before the final look.
        fence(Ordering::SeqCst);
        if self.is_stopping() || host.final_look(last_searcher) {
            // A token may be on its way if we were claimed; it makes a later wait return at once.
            let claimed = self.idle.withdraw(seat) == Withdrawn::Claimed;
            word.consume();
            return Awake {
                claimed,
                rescue: false,
                slept: false,
                lost_wakeup: false,
            };
        }
        // Before the spin: whoever pushes meanwhile shall know that somebody looks after it.
        let duty = self.words.len() > 1 && self.take_duty(worker);
        // After (B): who has registered a source before it sees our bit, or has its source seen by us (L b).
        let polls = self.poll_duty(worker, duty, host.others());
        if polls.is_none() {
            host.spin(word);
        }
        let risen = if word.consume() {
            Risen::Token
        } else {
            self.doze(worker, (duty, polls), word, host)
        };
        self.resign(worker);
        self.alarms.clear(worker);
        // After a late token our bit may still be set and would swallow the next wake-up.
        let claimed = self.idle.withdraw(seat) == Withdrawn::Claimed;
        Awake {
            claimed,
            rescue: matches!(risen, Risen::Stuck | Risen::LostWakeup),
            slept: true,
            lost_wakeup: risen == Risen::LostWakeup,
        }
    }

    /// Sleeps in the kernel: in the poll whose duty it has, if it has one. As sentinel, if there is no other, until a quiet interval has
    /// ended with everybody idle. That the duty outlasts short pauses spares their end a wake-up for a new sentinel.
    fn doze<'a>(
        &'a self,
        worker: usize,
        (mut duty, mut polls): (bool, Option<(usize, Duty<'a>)>),
        word: &ParkWord,
        host: &mut impl Host,
    ) -> Risen {
        let mut unseen = false;
        loop {
            let alarm = host.alarm();
            self.alarms.set(worker, alarm);
            let left = match alarm {
                Alarm::Now => return Risen::Alarm,
                Alarm::At { left, .. } => Some(Duration::from_nanos(left)),
                Alarm::Never => None,
            };
            // A stress build ends every sleep some time, to see whether somebody else should have.
            let timeout = duty.then(|| host.interval()).or(stress::PARK_MAX);
            // Whichever comes first ends the wait, on the word or in the poll.
            let until = left.into_iter().chain(timeout).min();
            let ended = match &polls {
                None => word.wait(until),
                Some((shard, polls)) => word.wait_polling(*shard, || host.poll(polls, until)),
            };
            match ended {
                Wait::Token => return Risen::Token,
                Wait::Events => return Risen::Events,
                Wait::Nothing => {}
                Wait::TimedOut if host.alarm() == Alarm::Now => return Risen::Alarm,
                // It was the alarm's time, and the timer is gone: there is nothing to look at before the interval has ended.
                Wait::TimedOut if left.is_some() && until == left && until != timeout => {}
                Wait::TimedOut if duty => match host.sentinel_look() {
                    Look::Stuck => return Risen::Stuck,
                    _ if self.watch_shards(worker, &mut polls, host) => return Risen::Events,
                    Look::Active => {}
                    Look::Quiet => duty = !self.resign_if_all_idle(worker),
                },
                Wait::TimedOut => {
                    // One look may fall between a push and its claim; for two in a row nobody is left to make one.
                    let now = self.all_sleep()
                        && (host.anything_left() || (!self.has_sentinel() && self.reactor.any_unpolled()));
                    if unseen && now {
                        return Risen::LostWakeup;
                    }
                    unseen = now;
                }
            }
        }
    }

    /// Whether nobody is awake, nor claimed and about to be.
    fn all_sleep(&self) -> bool {
        // Ordering: Relaxed; a hint. The counts as they are: below zero a claimer is still under way.
        let nobody = |searchers: &CachePadded<AtomicU32>| searchers.load(Ordering::Relaxed) == 0;
        self.idle.caches.total() >= self.worker_count() && self.searching.iter().all(nobody)
    }

    /// Becomes sentinel if there is none. True if the worker is it.
    pub(super) fn take_duty(&self, worker: usize) -> bool {
        let me = u32::try_from(worker).expect("workers fit u16") + 1;
        // Ordering: SeqCst; (O) one sentinel.
        match self
            .sentinel
            .compare_exchange(0, me, Ordering::SeqCst, Ordering::SeqCst)
        {
            Ok(_) => true,
            Err(current) => current == me,
        }
    }

    /// Stops being sentinel if no worker is awake, and no shard without a holder. False if one is, or was when we looked again.
    pub(super) fn resign_if_all_idle(&self, worker: usize) -> bool {
        if (self.idle.caches.total() as usize) < self.words.len() || self.reactor.any_unpolled() {
            return false;
        }
        self.resign(worker);
        // Ordering: SeqCst; (O) no sentinel before the second look: whoever is claimed after it finds none, and wakes one
        // when it has work to spare.
        fence(Ordering::SeqCst);
        self.all_bits_set() || !self.take_duty(worker)
    }

    /// Whether every worker's idle bit is set. A worker that finds its bit gone may go to work before its claimer has
    /// lowered the count, so the count is no answer for the second look.
    fn all_bits_set(&self) -> bool {
        let mut groups = self.group_lens.iter().enumerate();
        groups.all(|(group, len)| self.idle.members(group).count_ones() == *len)
    }

    /// Stops being sentinel, if the worker is it.
    pub(super) fn resign(&self, worker: usize) {
        let me = u32::try_from(worker).expect("workers fit u16") + 1;
        // Ordering: Relaxed; only its worker stores or removes this value.
        if self.sentinel.load(Ordering::Relaxed) == me {
            // Ordering: SeqCst; (O) as in `take_duty`.
            self.sentinel.store(0, Ordering::SeqCst);
        }
    }
}
