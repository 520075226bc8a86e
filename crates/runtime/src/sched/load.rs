//! How busy each last-level cache is: what its workers publish a little late (policy 5), and what is sampled from it
//! (policy 2).
//!
//! 1. A worker counts for itself how long it was busy: from the task it found until it is dry.
//! 2. What [`BusyCounter`] says others should know of that goes into one word of its cache. From the word anybody can
//!    tell how long all workers were busy until now, those in tasks that go on for long included: nothing is told
//!    twice, or told late and all at once.
//! 3. When it looks up, and when it becomes dry, it adds to the sum of tasks what changed if [`LazyCounter::due`] says
//!    so: at most once an interval, and only what is more than 1/64. With `lazy=off` it adds any change, and before
//!    each task.
//! 4. Before it parks and when it leaves it tells the rest, whatever that is: nobody would do it later.
//! 5. Whoever tells something, and the sentinel for every cache, looks whether a sample is due. One of them has the
//!    turn, and takes it.
//!
//! The sampler reads word and clock one after the other, and may lose its CPU in between: the word then covers more
//! time than the clock says, and an idle cache would look full. So it reads the clock before and after the word, and if
//! the two are more than a sixteenth of the time since the last sample apart, it gives the turn back: the next one has
//! a longer time, with the word that belongs to it. A sampler that is held up thus makes its sample wrong by a
//! sixteenth at most.
//!
//! The sums of a cache have a line of their own, and so has what wakers read, which is written when it changes only.
//!
//! **Nothing here is read to decide whether a worker parks, is woken, or has done all it should**: those counts are
//! exact, and in `idle` and `park`. (Tidy checks that these, `publish`, `search`, `shutdown`, `watch` and `worker` do
//! not read it.)

use std::cell::Cell;

use crossbeam_utils::CachePadded;
use quadrille_policy::{
    BusyCounter, BusySum, IdleFilter, LazyCounter, LazyRule, LlcPlan, Nanos, Plan, Policy, Utilisation,
};

use super::Shared;
use super::context::Context;
use super::stats::WorkerCounters;
use crate::lines;
use crate::primitives::{AtomicU32, AtomicU64, Ordering};
use crate::sys::clock;

/// In place of the time of the last sample: somebody takes one.
const TURN: u64 = u64::MAX;

/// Time of all workers of a cache without a sample, ns, after which the next one is not sure how long they were busy:
/// half of what [`BusySum::beyond`] can tell.
const UNSURE: u64 = 1 << 46;

/// One last-level cache.
#[derive(Debug)]
struct LlcLoad {
    workers: u64,
    sums: CachePadded<Sums>,
    /// [`Utilisation`], for wakers.
    utilisation: CachePadded<AtomicU32>,
}

/// What workers add to, and the sampler's notes.
#[derive(Debug)]
struct Sums {
    /// A [`BusySum`].
    busy: AtomicU64,
    /// Tasks made less tasks gone by its workers, or by other threads; of one cache alone it may be below zero.
    live: AtomicU64,
    /// When the last sample was taken, or [`TURN`].
    sampled_at: AtomicU64,
    /// Busy time of all workers that samples have counted so far, ns; belongs to whoever has the turn.
    counted: AtomicU64,
    /// The most busy time that anybody who asked was told of, ns. What is believed may turn out to have been too much:
    /// a worker that is dry says so late.
    reported: AtomicU64,
}

/// What is known of a last-level cache at one moment, perhaps a little late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LlcMetrics {
    /// Share of the workers' time spent busy, moving average, in 1/1024.
    pub utilisation: u16,
    /// Time that its workers spent busy, ns. Never less than an earlier look has said; a worker that has become dry may
    /// seem busy for an interval of [`Config::lazy_counters`](crate::policy::Config::lazy_counters) (1 ms by default),
    /// or until it parks.
    pub busy_ns: u64,
    /// Workers that are busy.
    pub running: u64,
    /// Tasks made less tasks gone by its workers; those of other threads count for the first cache. Only the sum over
    /// all caches means anything: [`Metrics::live_tasks`](crate::metrics::Metrics::live_tasks).
    pub live: i64,
}

/// All last-level caches.
#[derive(Debug)]
pub(crate) struct Loads {
    llcs: Box<[LlcLoad]>,
    /// Between two samples.
    sample: Nanos,
    rule: LazyRule,
    /// Whether what has changed is published whenever another task is about to run.
    eager: bool,
    /// Whether anybody wants to know.
    on: bool,
}

impl Loads {
    pub(crate) fn new(policy: &Policy, plan: &Plan) -> Self {
        let llc = |llc: &LlcPlan| LlcLoad {
            workers: llc.workers.len() as u64,
            sums: CachePadded::new(Sums {
                busy: AtomicU64::new(0),
                live: AtomicU64::new(0),
                sampled_at: AtomicU64::new(0),
                counted: AtomicU64::new(0),
                reported: AtomicU64::new(0),
            }),
            utilisation: CachePadded::new(AtomicU32::new(0)),
        };
        let IdleFilter { sample, .. } = policy.config.idle_filter;
        let on = policy.groups_on() || policy.active().lazy_counters;
        Self {
            llcs: plan.llcs.iter().map(llc).collect(),
            sample,
            rule: policy.lazy_rule(),
            eager: on && policy.lazy_rule() == LazyRule::EAGER,
            on,
        }
    }

    /// Counts tasks that a thread made or ended that is no worker of this runtime.
    pub(crate) fn count_foreign(&self, delta: i64) {
        if self.on {
            // Ordering: Relaxed; a statistic.
            self.llcs[0]
                .sums
                .live
                .fetch_add(delta.cast_unsigned(), Ordering::Relaxed);
        }
    }

    /// Whether workers tell what has changed whenever another task is about to run.
    #[inline]
    pub(super) fn is_eager(&self) -> bool {
        self.eager
    }

    /// Utilisation of a cache as last sampled, in 1/1024.
    #[inline]
    pub(super) fn utilisation(&self, llc: usize) -> u16 {
        lines::touch(&self.llcs[llc].utilisation);
        // Ordering: Relaxed; an estimate.
        Utilisation::from_bits(self.llcs[llc].utilisation.load(Ordering::Relaxed)).get()
    }

    /// Whether workers tell what there is.
    pub(crate) fn are_counted(&self) -> bool {
        self.on
    }

    /// What the workers of each cache have told so far.
    pub(crate) fn metrics(&self) -> Vec<LlcMetrics> {
        let sum = |word: &AtomicU64| {
            // Ordering: Relaxed; a statistic.
            word.load(Ordering::Relaxed)
        };
        let now = Nanos(clock::nanos());
        (0..self.llcs.len())
            .map(|llc| {
                let Sums {
                    busy,
                    live,
                    counted,
                    reported,
                    ..
                } = &*self.llcs[llc].sums;
                let (busy, counted) = (BusySum::from_bits(sum(busy)), sum(counted));
                let busy_ns = counted.saturating_add(busy.beyond(Nanos(counted), now).0);
                LlcMetrics {
                    utilisation: self.utilisation(llc),
                    // Ordering: Relaxed; looks at one word are in its order.
                    busy_ns: reported.fetch_max(busy_ns, Ordering::Relaxed).max(busy_ns),
                    running: busy.running(),
                    live: sum(live).cast_signed(),
                }
            })
            .collect()
    }

    /// Takes a sample of `llc` if one is due at `now`, which was read from `clock`.
    #[inline]
    fn sample(&self, llc: usize, now: Nanos, clock: impl FnOnce() -> Nanos) {
        // Ordering: Relaxed; a hint, the exchange decides.
        let last = self.llcs[llc].sums.sampled_at.load(Ordering::Relaxed);
        // No time has passed since `TURN`.
        let elapsed = now.since(Nanos(last)).0;
        if elapsed >= self.sample.0 {
            self.sample_since(llc, (last, elapsed), now, clock);
        }
    }

    /// The same if the last one was taken then, so long ago, and nobody else has the turn.
    #[cold]
    fn sample_since(&self, llc: usize, (last, elapsed): (u64, u64), now: Nanos, clock: impl FnOnce() -> Nanos) {
        let sums = &self.llcs[llc].sums;
        // Ordering: Acquire; takes in the notes of who had the turn before (`sampled_at` below).
        let turn = sums
            .sampled_at
            .compare_exchange(last, TURN, Ordering::Acquire, Ordering::Relaxed);
        if turn.is_err() {
            return;
        }
        // Ordering: Relaxed; an estimate.
        let busy = BusySum::from_bits(sums.busy.load(Ordering::Relaxed));
        let was_held_up = clock().since(now).0 > elapsed / 16;
        let taken_at = if was_held_up { last } else { now.0 };
        if !was_held_up {
            // Ordering: Relaxed; the turn is ours.
            let counted = Nanos(sums.counted.load(Ordering::Relaxed));
            let is_unsure = last != 0 && self.llcs[llc].workers.saturating_mul(elapsed) >= UNSURE;
            let until = if is_unsure {
                busy.recount(counted, now)
            } else {
                Nanos(counted.0.wrapping_add(busy.beyond(counted, now).0))
            };
            let fresh = until.since(counted);
            sums.counted.store(until.0, Ordering::Relaxed);
            // Else the first interval begins.
            if last != 0 {
                self.take_in(llc, fresh, Nanos(elapsed));
            }
        }
        // Ordering: Release; hands the turn on, with our notes.
        sums.sampled_at.store(taken_at, Ordering::Release);
    }

    /// Averages a sample: so long were the workers busy in `elapsed`.
    fn take_in(&self, llc: usize, busy: Nanos, elapsed: Nanos) {
        let LlcLoad {
            utilisation, workers, ..
        } = &self.llcs[llc];
        // Ordering: Relaxed, here and below; an estimate, and the turn is ours.
        let before = utilisation.load(Ordering::Relaxed);
        let mut average = Utilisation::from_bits(before);
        average.sample_late(busy, *workers, elapsed, self.sample);
        if average.to_bits() != before {
            utilisation.store(average.to_bits(), Ordering::Relaxed);
        }
    }
}

impl Context {
    /// Tells how many tasks more or less there are.
    #[cold]
    pub(super) fn tell_live(&self) {
        let counters = &self.me().counters;
        self.load
            .publish(&self.shared, self.llc(), counters, |live, _| live.flush(Nanos(0)));
    }
}

impl Shared {
    /// Counts a task that is gone without a result, on whichever thread.
    #[cold]
    pub(crate) fn counts_cancelled(&self) {
        Context::with(|context| match context {
            Some(context) if std::ptr::eq(&raw const *context.shared, self) => context.me().counters.finished.add(1),
            _ => self.loads.count_foreign(-1),
        });
    }

    /// Samples the utilisation of `llc` if that is due.
    #[inline]
    fn sample_load(&self, llc: usize, now: Nanos) {
        self.loads.sample(llc, now, || Nanos(clock::nanos()));
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
    busy: Cell<BusyCounter>,
    /// Tasks spawned less tasks finished, by its counters.
    live: Cell<LazyCounter>,
}

impl OwnLoad {
    /// The worker has found a task.
    pub(super) fn begins(&self, shared: &Shared, llc: usize, counters: &WorkerCounters, now: Nanos) {
        if shared.loads.on {
            self.tell(shared, llc, counters, |busy, _| busy.begins(now));
        }
    }

    /// It looks up from its tasks: what is due is published.
    pub(super) fn publish_due(&self, shared: &Shared, llc: usize, counters: &WorkerCounters, now: Nanos) {
        if shared.loads.on {
            self.tell(shared, llc, counters, |busy, rule| busy.goes_on(now, rule));
            self.publish(shared, llc, counters, |live, rule| live.due(now, rule).unwrap_or(0));
            shared.sample_load(llc, now);
        }
    }

    /// It is dry.
    pub(super) fn ends(&self, shared: &Shared, llc: usize, counters: &WorkerCounters, now: Nanos) {
        if shared.loads.on {
            self.tell(shared, llc, counters, |busy, rule| busy.ends(now, rule));
            self.publish(shared, llc, counters, |live, rule| live.due(now, rule).unwrap_or(0));
            shared.sample_load(llc, now);
        }
    }

    /// It parks, or leaves: everything is published.
    pub(super) fn flush(&self, shared: &Shared, llc: usize, counters: &WorkerCounters, now: Nanos) {
        if shared.loads.on {
            self.tell(shared, llc, counters, |busy, _| busy.flush(now));
            self.publish(shared, llc, counters, |live, _| live.flush(now));
        }
    }

    /// Adds to the word of the cache what others should know of the worker's busy time.
    fn tell(
        &self,
        shared: &Shared,
        llc: usize,
        counters: &WorkerCounters,
        news: impl FnOnce(&mut BusyCounter, &LazyRule) -> u64,
    ) {
        let Loads { llcs, rule, .. } = &shared.loads;
        let mut busy = self.busy.get();
        let delta = news(&mut busy, rule);
        self.busy.set(busy);
        if delta != 0 {
            // Ordering: Relaxed; a sum that decides nothing.
            llcs[llc].sums.busy.fetch_add(delta, Ordering::Relaxed);
            counters.publications.add(1);
        }
    }

    /// The same for its tasks: to spawn and to end one costs an addition to a counter, the difference of which counts
    /// here.
    fn publish(
        &self,
        shared: &Shared,
        llc: usize,
        counters: &WorkerCounters,
        delta: impl FnOnce(&mut LazyCounter, &LazyRule) -> i64,
    ) {
        let Loads { llcs, rule, .. } = &shared.loads;
        let mut live = self.live.get();
        let own = counters
            .spawned
            .get()
            .wrapping_sub(counters.finished.get())
            .cast_signed();
        live.add(own.wrapping_sub(live.get()));
        let delta = delta(&mut live, rule);
        self.live.set(live);
        if delta != 0 {
            // Ordering: Relaxed; as above.
            llcs[llc].sums.live.fetch_add(delta.cast_unsigned(), Ordering::Relaxed);
            counters.publications.add(1);
        }
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use quadrille_policy::Config;

    use super::super::still::Still;
    use super::*;

    fn loads() -> Loads {
        let config: Config = "groups=on".parse().unwrap();
        let machine = "llc:2 core:8".parse().unwrap();
        let plan = Plan::compile(&machine, &config.plan_options(None)).unwrap();
        let policy = Policy::new(config, plan.clone());
        Loads::new(&policy, &plan)
    }

    /// Adds `busy` ns to cache 1, whose 8 workers are dry, and samples it at `now_ms`.
    fn sampled(loads: &Loads, busy: u64, now_ms: u64) -> u16 {
        sampled_late(loads, busy, now_ms, Nanos(0))
    }

    /// The same by a sampler that read the clock so long before the word.
    fn sampled_late(loads: &Loads, busy: u64, now_ms: u64, late: Nanos) -> u16 {
        let now = Nanos::from_millis(now_ms);
        let mut worker = BusyCounter::default();
        let told = [worker.begins(Nanos(0)), worker.ends(Nanos(busy), &LazyRule::EAGER)];
        for told in told {
            // Ordering: Relaxed; one thread.
            loads.llcs[1].sums.busy.fetch_add(told, Ordering::Relaxed);
        }
        loads.sample(1, now, || Nanos(now.0 + late.0));
        loads.utilisation(1)
    }

    #[test]
    fn a_sample_counts_a_quarter_and_comes_once_an_interval() {
        let loads = loads();
        assert_eq!(sampled(&loads, 0, 1), 0);
        assert_eq!(sampled(&loads, 8_000_000, 2), 256);
        assert_eq!(sampled(&loads, 8_000_000, 2), 256);
        assert_eq!(sampled(&loads, 0, 3), 448);
        assert_eq!(loads.utilisation(0), 0);
    }

    #[test]
    fn a_long_rest_is_many_samples() {
        let loads = loads();
        (1..40).for_each(|now_ms| {
            sampled(&loads, 8_000_000, now_ms);
        });
        assert_eq!(loads.utilisation(1), 1024);
        assert!(sampled(&loads, 0, 1_000) < 12);
    }

    #[test]
    fn a_sampler_that_is_held_up_leaves_it_to_the_next() {
        let loads = loads();
        assert_eq!(sampled(&loads, 0, 1), 0);
        assert_eq!(sampled(&loads, 0, 2), 0);
        // All were idle until 3 ms; at 13 ms, when the word is read, all have been busy for 10 ms.
        assert_eq!(sampled_late(&loads, 80_000_000, 3, Nanos::from_millis(10)), 0);
        // 10 of 12 ms: what the next one says, eleven times of which leave 4 % of the past.
        let util = sampled(&loads, 0, 14);
        assert!((800..=853).contains(&util), "{util}");
        assert_eq!(
            sampled_late(&loads, 8_000_000, 15, Nanos::from_micros(63)),
            util,
            "too late"
        );
        assert!(
            sampled_late(&loads, 0, 15, Nanos::from_micros(62)) > util,
            "hardly late"
        );
    }

    #[test]
    fn one_takes_a_sample_at_a_time() {
        let loads = loads();
        assert_eq!(sampled(&loads, 0, 1), 0);
        let other = || {
            assert_eq!(sampled(&loads, 4_000_000, 90), 0, "not its turn");
            Nanos::from_millis(2)
        };
        loads.sample(1, Nanos::from_millis(2), other);
        assert_eq!(loads.utilisation(1), 0, "what came meanwhile is for the next");
        assert_eq!(sampled(&loads, 0, 3), 128);
    }

    /// Two of eight workers behind a cache are busy: one with tasks of no length, which looks up each millisecond, and
    /// one with tasks that take `long_ms`. The highest and the last utilisation in 200 ms.
    fn two_of_eight(long_ms: u64) -> (u16, u16) {
        let still = Still::new("llc:2 core:8", "groups=on");
        let (shared, counters) = (&*still.shared, WorkerCounters::default());
        let [short, long] = [OwnLoad::default(), OwnLoad::default()];
        // In the future, so that no sampler seems to have been held up.
        let at = |ms| Nanos(clock::nanos() + Nanos::from_millis(1_000_000).0 + Nanos::from_millis(ms).0);
        let start = at(0);
        [&short, &long]
            .iter()
            .for_each(|load| load.begins(shared, 0, &counters, start));
        let (mut most, mut last) = (0, 0);
        for ms in 1..=200 {
            let now = Nanos(start.0 + Nanos::from_millis(ms).0);
            if ms % long_ms == 0 {
                long.ends(shared, 0, &counters, now);
                long.begins(shared, 0, &counters, now);
            }
            short.publish_due(shared, 0, &counters, now);
            last = shared.loads.utilisation(0);
            most = most.max(last);
        }
        (most, last)
    }

    /// Eight workers go to work, and after a first sample the program is stopped until `stopped_ms`. Utilisation 100 ms
    /// after that, and what is then said of busy time in ms.
    fn busy_after_a_stop(stopped_ms: u64) -> (u16, u64) {
        let still = Still::new("core:8", "groups=on");
        let (shared, counters) = (&*still.shared, WorkerCounters::default());
        let start = clock::nanos();
        let at = |ms| Nanos(start + Nanos::from_millis(ms).0);
        for _ in 0..8 {
            OwnLoad::default().begins(shared, 0, &counters, at(0));
        }
        for ms in (1..2).chain(stopped_ms..=stopped_ms + 100) {
            shared.loads.sample(0, at(ms), || at(ms));
        }
        // Ordering: Relaxed; nobody else is here.
        let counted = shared.loads.llcs[0].sums.counted.load(Ordering::Relaxed);
        (shared.loads.utilisation(0), Nanos(counted).0 / 1_000_000)
    }

    #[test]
    fn a_program_that_was_stopped_for_hours_is_seen_as_busy() {
        for stopped_ms in [1_000, 8_000_000, 9_000_000, 20_000_000, 34_000_000] {
            let (utilisation, busy_ms) = busy_after_a_stop(stopped_ms);
            assert_eq!(utilisation, 1024, "stopped for {stopped_ms} ms");
            assert_eq!(busy_ms, 8 * (stopped_ms + 100), "stopped for {stopped_ms} ms");
        }
        // Three days: the word went round, and how often nobody knows.
        for hours in 72..=96 {
            let (utilisation, _) = busy_after_a_stop(hours * 3_600_000);
            assert_eq!(utilisation, 1024, "stopped for {hours} h");
        }
    }

    /// A worker is dry, and nobody is told of it within the interval: until it parks it seems to be busy.
    #[test]
    fn busy_time_that_was_reported_is_not_taken_back() {
        let still = Still::new("llc:2 core:2", "groups=on,lazy=on");
        let (shared, counters, load) = (&*still.shared, WorkerCounters::default(), OwnLoad::default());
        // Long before now, so that much is believed; without a sample, which counts what is believed.
        let start = Nanos(clock::nanos());
        let busy_ns = || shared.loads.metrics()[0].busy_ns;
        load.begins(shared, 0, &counters, start);
        load.ends(shared, 0, &counters, start);
        assert_eq!(shared.loads.metrics()[0].running, 1, "others believe so");
        let mut believed = 0;
        while believed < 10_000_000 {
            let next = busy_ns();
            assert!(next >= believed, "{next} after {believed}");
            believed = next;
        }
        load.flush(shared, 0, &counters, Nanos(clock::nanos()));
        for _ in 0..10 {
            assert_eq!(
                busy_ns(),
                believed,
                "it was busy for no time, and that much was reported"
            );
        }
        // What comes on top counts once it is more.
        let begin = clock::nanos();
        let end = Nanos(begin + believed + 1_000_000);
        load.begins(shared, 0, &counters, Nanos(begin));
        load.ends(shared, 0, &counters, end);
        load.flush(shared, 0, &counters, end);
        assert_eq!(busy_ns(), believed + 1_000_000);
    }

    #[test]
    fn a_task_that_outlasts_a_sample_counts_once() {
        for long_ms in [1, 2, 3, 10, 50, 199] {
            let (most, last) = two_of_eight(long_ms);
            assert!(most <= 256, "{most} of 1024, tasks of {long_ms} ms");
            assert!(last >= 250, "{last} of 1024, tasks of {long_ms} ms");
        }
    }
}
