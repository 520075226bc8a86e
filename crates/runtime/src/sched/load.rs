//! How busy each last-level cache is: what its workers publish a little late (policy 5), and what is sampled from it
//! (policy 2).
//!
//! 1. A worker counts for itself how long it was busy, and whether it is: from the task it found until it is dry.
//! 2. When it looks up, and when it becomes dry, it adds what changed to the sums of its cache if [`LazyCounter::due`] says
//!    so: at most once an interval, and only what is more than 1/64.
//! 3. Before it parks and when it leaves it adds the rest, whatever that is: nobody would do it later.
//! 4. Whoever adds something, and the sentinel for every cache, looks whether a sample is due. One of them has the turn, and
//!    takes it.
//!
//! The sampler reads sum and clock one after the other, and may lose its CPU in between: the sum then covers more time than
//! the clock says, and an idle cache would look full. So it reads the clock before and after the sum, and if the two are more
//! than a sixteenth of the time since the last sample apart, it gives the turn back: the next one has a longer time, with the
//! sum that belongs to it. A sampler that is held up thus makes its sample wrong by a sixteenth at most.
//!
//! A task that runs for long tells nothing of itself. So a sample also asks the idle bits: of the workers that are awake, all
//! but those that search are busy.
//!
//! The sums of a cache have a line of their own, and so has what wakers read, which is written when it changes only.
//!
//! **Nothing here is read to decide whether a worker parks, is woken, or has done all it should**: those counts are exact,
//! and in `idle` and `park`. (Tidy checks that these, `publish`, `search`, `shutdown`, `watch` and `worker` do not read it.)

use std::cell::Cell;

use crossbeam_utils::CachePadded;
use quadrille_policy::{IdleFilter, LazyCounter, LazyRule, LlcId, Nanos, Plan, Policy, Utilisation};

use super::Shared;
use super::context::Context;
use super::stats::WorkerCounters;
use crate::lines;
use crate::primitives::{AtomicU32, AtomicU64, Ordering};
use crate::sys::clock;

/// In place of the time of the last sample: somebody takes one.
const TURN: u64 = u64::MAX;

/// One last-level cache.
#[derive(Debug)]
struct LlcLoad {
    sums: CachePadded<Sums>,
    /// [`Utilisation`], for wakers.
    utilisation: CachePadded<AtomicU32>,
}

/// What workers add to, and the sampler's notes.
#[derive(Debug)]
struct Sums {
    /// Time spent busy, ns.
    busy: AtomicU64,
    /// Busy workers; wraps below zero while an addition is under way.
    running: AtomicU64,
    /// Tasks made less tasks gone by its workers, or by other threads; of one cache alone it may be below zero.
    live: AtomicU64,
    /// When the last sample was taken, or [`TURN`].
    sampled_at: AtomicU64,
    /// `busy` then; belongs to whoever has the turn.
    sampled_busy: AtomicU64,
}

/// What is known of a last-level cache at one moment, perhaps a little late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LlcMetrics {
    /// Share of the workers' time spent busy, moving average, in 1/1024.
    pub utilisation: u16,
    /// Time that its workers spent busy, ns.
    pub busy_ns: u64,
    /// Workers that are busy.
    pub running: u64,
    /// Tasks made less tasks gone by its workers; those of other threads count for the first cache. Only the sum over all caches means
    /// anything: [`Metrics::live_tasks`](crate::metrics::Metrics::live_tasks).
    pub live: i64,
}

/// All last-level caches.
#[derive(Debug)]
pub(crate) struct Loads {
    llcs: Box<[LlcLoad]>,
    /// Between two samples.
    sample: Nanos,
    rule: LazyRule,
    /// Whether anybody wants to know.
    on: bool,
}

impl Loads {
    pub(crate) fn new(policy: &Policy, plan: &Plan) -> Self {
        let llc = |_| LlcLoad {
            sums: CachePadded::new(Sums {
                busy: AtomicU64::new(0),
                running: AtomicU64::new(0),
                live: AtomicU64::new(0),
                sampled_at: AtomicU64::new(0),
                sampled_busy: AtomicU64::new(0),
            }),
            utilisation: CachePadded::new(AtomicU32::new(0)),
        };
        let IdleFilter { sample, .. } = policy.config.idle_filter;
        Self {
            llcs: plan.llcs.iter().map(llc).collect(),
            sample,
            rule: policy.lazy_rule(),
            on: policy.groups_on() || policy.active().lazy_counters,
        }
    }

    /// Whether anything is counted.
    #[inline]
    pub(crate) fn on(&self) -> bool {
        self.on
    }

    /// Utilisation of a cache as last sampled, in 1/1024.
    #[inline]
    pub(super) fn utilisation(&self, llc: usize) -> u16 {
        lines::touch(&self.llcs[llc].utilisation);
        // Ordering: Relaxed; an estimate.
        Utilisation::from_bits(self.llcs[llc].utilisation.load(Ordering::Relaxed)).get()
    }

    /// What the workers of each cache have told so far.
    pub(crate) fn metrics(&self) -> Vec<LlcMetrics> {
        let sum = |word: &AtomicU64| {
            // Ordering: Relaxed; a statistic.
            word.load(Ordering::Relaxed)
        };
        (0..self.llcs.len())
            .map(|llc| LlcMetrics {
                utilisation: self.utilisation(llc),
                busy_ns: sum(&self.llcs[llc].sums.busy),
                running: u64::try_from(sum(&self.llcs[llc].sums.running).cast_signed()).unwrap_or(0),
                live: sum(&self.llcs[llc].sums.live).cast_signed(),
            })
            .collect()
    }

    /// Takes a sample of `llc` if one is due at `now`, which was read from `clock`. `awake` tells how many of the given number
    /// of workers are surely busy.
    fn sample(&self, llc: usize, now: Nanos, clock: impl FnOnce() -> Nanos, awake: impl FnOnce() -> (u64, u64)) {
        let sums = &self.llcs[llc].sums;
        // Ordering: Relaxed; a hint, the exchange decides.
        let last = sums.sampled_at.load(Ordering::Relaxed);
        // No time has passed since `TURN`.
        let elapsed = now.since(Nanos(last)).0;
        if elapsed < self.sample.0
            || sums
                .sampled_at
                // Ordering: Acquire; takes in the notes of who had the turn before (`sampled_at` below).
                .compare_exchange(last, TURN, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
        {
            return;
        }
        // Ordering: Relaxed; an estimate.
        let busy = sums.busy.load(Ordering::Relaxed);
        let was_held_up = clock().since(now).0 > elapsed / 16;
        let taken_at = if was_held_up { last } else { now.0 };
        if !was_held_up {
            // Ordering: Relaxed; the turn is ours.
            let told = busy.wrapping_sub(sums.sampled_busy.load(Ordering::Relaxed));
            sums.sampled_busy.store(busy, Ordering::Relaxed);
            // Else the first interval begins.
            if last != 0 {
                self.take_in(llc, told, elapsed, awake());
            }
        }
        // Ordering: Release; hands the turn on, with our notes.
        sums.sampled_at.store(taken_at, Ordering::Release);
    }

    /// Averages a sample: so much busy time was told of in `elapsed`, and so many of the given number of workers are busy.
    fn take_in(&self, llc: usize, told: u64, elapsed: u64, (running, workers): (u64, u64)) {
        let utilisation = &self.llcs[llc].utilisation;
        let busy = Nanos(told.max(running.saturating_mul(elapsed)));
        // Ordering: Relaxed, here and below; an estimate, and the turn is ours.
        let before = utilisation.load(Ordering::Relaxed);
        let mut average = Utilisation::from_bits(before);
        // Intervals without a sample are like this one; sixteen leave 1 % of the past.
        for _ in 0..(elapsed / self.sample.0.max(1)).min(16) {
            average.sample(busy, Nanos(workers.saturating_mul(elapsed)));
        }
        if average.to_bits() != before {
            utilisation.store(average.to_bits(), Ordering::Relaxed);
        }
    }
}

impl Shared {
    /// Counts a task that was made (1) or is gone (-1), on whichever thread.
    #[cold]
    pub(crate) fn count_task(&self, delta: i64) {
        let by_worker = Context::with(|context| {
            let context = context.filter(|context| std::ptr::eq(&raw const *context.shared, self))?;
            let mut live = context.load.live.get();
            live.add(delta);
            // Not lazily: every change at once.
            let due = if self.loads.rule == LazyRule::EAGER {
                live.flush(Nanos(0))
            } else {
                0
            };
            context.load.live.set(live);
            context.me().counters.publications.add(u64::from(due != 0));
            Some((self.policy.plan.workers[context.id.index()].llc.index(), due))
        });
        let (llc, delta) = by_worker.unwrap_or((0, delta));
        if delta != 0 {
            // Ordering: Relaxed; a statistic.
            self.loads.llcs[llc]
                .sums
                .live
                .fetch_add(delta.cast_unsigned(), Ordering::Relaxed);
        }
    }

    /// Samples the utilisation of `llc` if that is due.
    fn sample_load(&self, llc: usize, now: Nanos) {
        let clock = || Nanos(clock::nanos());
        self.loads.sample(llc, now, clock, || {
            let (awake, idle) = self.awake_in_llc(LlcId(u16::try_from(llc).expect("LLCs fit u16")));
            let busy = awake.saturating_sub(self.sleepers.searching_behind(llc));
            (u64::from(busy), u64::from((awake + idle).max(1)))
        });
    }

    /// Samples every cache: the sentinel does, for those whose workers are all busy for long.
    pub(super) fn sample_loads(&self, now: Nanos) {
        if self.loads.on {
            (0..self.loads.llcs.len()).for_each(|llc| self.sample_load(llc, now));
        }
    }
}

/// What a worker counts for itself.
#[derive(Debug, Default)]
pub(super) struct OwnLoad {
    busy: Cell<LazyCounter>,
    running: Cell<LazyCounter>,
    /// Tasks made less tasks gone.
    live: Cell<LazyCounter>,
    /// Since when it has been busy and has not counted it; `None`: it is dry.
    since: Cell<Option<Nanos>>,
}

impl OwnLoad {
    /// The worker has found a task.
    pub(super) fn begins(&self, shared: &Shared, now: Nanos) {
        if shared.loads.on && self.since.replace(Some(now)).is_none() {
            add(&self.running, 1);
        }
    }

    /// It looks up from its tasks: what is due is published.
    pub(super) fn goes_on(&self, shared: &Shared, llc: usize, counters: &WorkerCounters, now: Nanos) {
        if !shared.loads.on {
            return;
        }
        if let Some(since) = self.since.get() {
            self.since.set(Some(now));
            add(&self.busy, signed(now.since(since).0));
        }
        self.publish(shared, llc, counters, |counter, rule| {
            counter.due(now, rule).unwrap_or(0)
        });
        shared.sample_load(llc, now);
    }

    /// It is dry.
    pub(super) fn ends(&self, shared: &Shared, llc: usize, counters: &WorkerCounters, now: impl FnOnce() -> Nanos) {
        if shared.loads.on
            && let Some(since) = self.since.take()
        {
            let now = now();
            add(&self.busy, signed(now.since(since).0));
            add(&self.running, -1);
            self.publish(shared, llc, counters, |counter, rule| {
                counter.due(now, rule).unwrap_or(0)
            });
            shared.sample_load(llc, now);
        }
    }

    /// It parks, or leaves: everything is published.
    pub(super) fn flush(&self, shared: &Shared, llc: usize, counters: &WorkerCounters, now: Nanos) {
        if shared.loads.on {
            self.publish(shared, llc, counters, |counter, _| counter.flush(now));
        }
    }

    fn publish(
        &self,
        shared: &Shared,
        llc: usize,
        counters: &WorkerCounters,
        delta: impl Fn(&mut LazyCounter, &LazyRule) -> i64,
    ) {
        let Loads { llcs, rule, .. } = &shared.loads;
        let sums = &llcs[llc].sums;
        for (own, sum) in [
            (&self.busy, &sums.busy),
            (&self.running, &sums.running),
            (&self.live, &sums.live),
        ] {
            let mut counter = own.get();
            let delta = delta(&mut counter, rule);
            own.set(counter);
            if delta != 0 {
                // Ordering: Relaxed; a sum that decides nothing.
                sum.fetch_add(delta.cast_unsigned(), Ordering::Relaxed);
                counters.publications.add(1);
            }
        }
    }
}

fn add(counter: &Cell<LazyCounter>, delta: i64) {
    let mut changed = counter.get();
    changed.add(delta);
    counter.set(changed);
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use quadrille_policy::Config;

    use super::*;

    fn loads() -> Loads {
        let config: Config = "groups=on".parse().unwrap();
        let machine = "llc:2 core:8".parse().unwrap();
        let plan = Plan::compile(&machine, &config.plan_options(None)).unwrap();
        let policy = Policy::new(config, plan.clone());
        Loads::new(&policy, &plan)
    }

    /// Adds `busy` ns to cache 1 and samples it at `now_ms`, with so many of 8 workers surely busy.
    fn sampled(loads: &Loads, busy: u64, now_ms: u64, awake: u64) -> u16 {
        sampled_late(loads, busy, now_ms, Nanos(0), awake)
    }

    /// The same by a sampler that read the clock so long before the sum.
    fn sampled_late(loads: &Loads, busy: u64, now_ms: u64, late: Nanos, awake: u64) -> u16 {
        let now = Nanos::from_millis(now_ms);
        // Ordering: Relaxed; one thread.
        loads.llcs[1].sums.busy.fetch_add(busy, Ordering::Relaxed);
        loads.sample(1, now, || Nanos(now.0 + late.0), || (awake, 8));
        loads.utilisation(1)
    }

    #[test]
    fn a_sample_counts_a_quarter_and_comes_once_an_interval() {
        let loads = loads();
        assert_eq!(sampled(&loads, 0, 1, 0), 0);
        assert_eq!(sampled(&loads, 8_000_000, 2, 0), 256);
        assert_eq!(sampled(&loads, 8_000_000, 2, 0), 256);
        assert_eq!(sampled(&loads, 0, 3, 0), 448);
        assert_eq!(loads.utilisation(0), 0);
    }

    #[test]
    fn who_runs_for_long_is_seen_awake() {
        let loads = loads();
        (1..40).for_each(|now_ms| {
            sampled(&loads, 0, now_ms, 4);
        });
        assert_eq!(loads.utilisation(1), 512);
    }

    #[test]
    fn a_long_rest_is_many_samples() {
        let loads = loads();
        (1..40).for_each(|now_ms| {
            sampled(&loads, 8_000_000, now_ms, 0);
        });
        assert_eq!(loads.utilisation(1), 1024);
        assert!(sampled(&loads, 0, 1_000, 0) < 12);
    }

    #[test]
    fn a_sampler_that_is_held_up_leaves_it_to_the_next() {
        let loads = loads();
        assert_eq!(sampled(&loads, 0, 1, 0), 0);
        assert_eq!(sampled(&loads, 0, 2, 0), 0);
        // All were idle until 3 ms; at 13 ms, when the sum is read, all have been busy for 10 ms.
        assert_eq!(sampled_late(&loads, 80_000_000, 3, Nanos::from_millis(10), 0), 0);
        // 10 of 12 ms: what the next one says, eleven times of which leave 4 % of the past.
        let util = sampled(&loads, 0, 14, 0);
        assert!((800..=853).contains(&util), "{util}");
        assert_eq!(
            sampled_late(&loads, 8_000_000, 15, Nanos::from_micros(63), 0),
            util,
            "too late"
        );
        assert!(
            sampled_late(&loads, 0, 15, Nanos::from_micros(62), 0) > util,
            "hardly late"
        );
    }

    #[test]
    fn one_takes_a_sample_at_a_time() {
        let loads = loads();
        assert_eq!(sampled(&loads, 0, 1, 0), 0);
        let other = || {
            assert_eq!(sampled(&loads, 0, 90, 8), 0, "not its turn");
            Nanos::from_millis(2)
        };
        loads.sample(1, Nanos::from_millis(2), other, || (4, 8));
        assert_eq!(loads.utilisation(1), 128);
    }
}
