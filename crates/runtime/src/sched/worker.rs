//! A worker's loop: take a task, run it, look up from time to time. What it does when it has none is in
//! [`dry`](super::dry).

use std::sync::Arc;

use quadrille_policy::{
    Bursts, Cause, Coalescing, DryPolls, Found, Gates, Level, Nanos, Overtaking, Pace, Profit, Reserve, Rng, Spins,
    Streaks, WorkerId,
};
use quadrille_topology::PuSet;

use super::Shared;
use super::arrival::Arrivals;
use super::contended::Contended;
use super::context::{Context, Exclusive};
use super::coupling::Coupled;
use super::far::Sight;
use super::queue::local::Local;
use super::run_delay::RunDelay;
use super::unwind::Looping;
use super::watch::Rounds;
use crate::coop;
use crate::reactor::Catch;
use crate::sys::clock;
use crate::task::meta::{BINDS, BOUND, LastWorker};
use crate::task::{Ran, Runnable, cell};

/// What a worker that has looked about between two tasks does next.
#[derive(Debug)]
#[must_use = "the runtime may stop, or there is a task to run"]
pub(super) enum Looked {
    /// It ends: the runtime stops.
    Stop,
    /// It goes on with its deque: there was nothing.
    Nothing,
    /// It runs this.
    Task(Runnable),
}

impl From<Option<Runnable>> for Looked {
    fn from(found: Option<Runnable>) -> Self {
        found.map_or(Self::Nothing, Self::Task)
    }
}

/// A worker, on its own thread.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(super) context: Context,
    pub(super) gates: Gates,
    pub(super) rounds: Rounds,
    pub(super) arrivals: Arrivals,
    /// When it looks up from its deque, and how much it takes then: the bound of W5 on the shared queues it may drain.
    pub(super) pace: Pace,
    /// Which tasks of its deque and its bound FIFO are long, and whether others go before them.
    pub(super) overtaking: Overtaking,
    /// Tasks out of the slot in a row.
    pub(super) streak: u32,
    /// Tasks out of the slot, and bound ones out of the place before their FIFO, that were not run, but passed over.
    pub(super) slot_passes: u64,
    /// Bound threads in a row, out of the place before their FIFO.
    pub(super) bound_streak: u32,
    /// How many there may be: any number while streaks are measured.
    pub(super) streak_max: u32,
    /// Tasks from the back of the deque since one from the front.
    pub(super) newest: u32,
    /// When the first of them was taken.
    pub(super) newest_since: Nanos,
    pub(super) streaks: Streaks,
    pub(super) bursts: Bursts,
    /// Streaks that had begun when it last looked up.
    pub(super) streaks_before: u64,
    budget: u8,
    /// Whether a policy wants to know what polls spend of it.
    pub(super) counts_units: bool,
    pub(super) profit: Profit,
    pub(super) reserve: Reserve,
    run_delay: RunDelay,
    pub(super) contended: Contended,
    /// Whether policy 3 is on.
    pub(super) aggregates: bool,
    pub(super) coupled: Coupled,
    pub(super) sight: Sight,
    /// Whether its injector comes before its group's queue when it next looks at what it shares.
    pub(super) injector_first: bool,
    /// Whether a bound thread comes before slot and deque, if there are both (W5).
    pub(super) bound_first: bool,
    /// What its polls for readiness have brought (L).
    pub(super) catch: Catch,
    pub(super) spins: Spins,
    /// How lingering for long has paid.
    pub(super) lingers: Spins,
    /// How its polls have paid when it had run dry.
    pub(super) dry_polls: DryPolls,
    pub(super) coalescing: Coalescing,
}

impl Worker {
    /// The calling thread's worker. If its CPUs turn out to be wanted by others, it widens its mask to `fallback`.
    pub(crate) fn new(shared: Arc<Shared>, id: WorkerId, local: Local, fallback: Option<PuSet>) -> Self {
        let config = &shared.policy.config;
        let now = Nanos(clock::nanos());
        let seed = config
            .seed
            .wrapping_add(u64::from(id.0).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        Self {
            gates: shared.policy.new_gates(),
            rounds: Rounds::new(id.index(), &shared),
            arrivals: Arrivals::default(),
            pace: Pace::default(),
            overtaking: shared.policy.new_overtaking(),
            streak: 0,
            slot_passes: 0,
            bound_streak: 0,
            streak_max: config.slot_polls_max,
            newest: 0,
            newest_since: Nanos(0),
            streaks: Streaks::default(),
            bursts: Bursts::default(),
            streaks_before: 0,
            budget: config.budget,
            counts_units: shared.policy.active().solo,
            profit: Profit::default(),
            reserve: shared.policy.new_reserve(),
            run_delay: RunDelay::new(fallback, now, &config.pin),
            contended: Contended::new(shared.worker_count(), &shared.policy),
            aggregates: shared.policy.aggregates(),
            coupled: Coupled::default(),
            sight: Sight::default(),
            injector_first: false,
            bound_first: false,
            catch: Catch::new(),
            spins: Spins::default(),
            lingers: Spins::default(),
            dry_polls: DryPolls::default(),
            coalescing: Coalescing::default(),
            context: Context::new(shared, id, local, Rng::new(seed), now),
        }
    }

    /// Runs tasks until the runtime stops, then leaves (see `shutdown`).
    pub(crate) fn run(mut self) {
        let context: *const Context = &raw const self.context;
        // SAFETY: the pointer that `enter` keeps is used by what a task calls, and not after the guard:
        // - valid: `self` stays in this frame until `leave`, which comes after the guard; the loop never moves
        //   `context`;
        // - not aliased by a `&mut`: tasks run in `execute`, and in `unwind_threads`, which take `&self`; cells are
        //   what they write. All else of the user's that a worker calls are wakers: in `wake_caught` and
        //   `Context::fire_of`, which lend their own reference meanwhile, and in `hand_over_for`, which hides the
        //   pointer. Builds with debug assertions see to it (`Exclusive`).
        let entered = unsafe { &*context }.enter();
        let looping = Looping::new(self.context.shared.clone(), self.context.id);
        self.context.take_turn();
        // Until it is dry for the first time: what it finds next to itself before that is work, too.
        self.begins();
        let notes = self.notes_tasks();
        while let Some(runnable) = self.next() {
            if notes {
                self.note_task(&runnable);
            }
            self.execute(runnable);
        }
        self.unwind_threads(looping);
        coop::stop();
        drop(entered);
        self.leave();
    }

    /// The next task to run, wherever it is; `None` once the runtime stops.
    #[inline]
    fn next(&mut self) -> Option<Runnable> {
        let _exclusive = Exclusive::begin();
        if self.pace.is_due() {
            match self.comes_between() {
                Looked::Stop => return None,
                Looked::Nothing => {}
                Looked::Task(runnable) => return Some(runnable),
            }
        }
        match self.next_local() {
            Some(runnable) => Some(runnable),
            None => {
                self.overtaking.pauses();
                let found = self.dry();
                self.context.begin_streaks();
                found
            }
        }
    }

    /// Out of slot, deque and bound FIFO. Inlined where it is called for every task, whoever else calls it.
    #[inline(always)]
    pub(super) fn next_local(&mut self) -> Option<Runnable> {
        // In turn (W5): either may never be empty.
        if self.bound_first
            && let Some(runnable) = self.take_bound()
        {
            return Some(runnable);
        }
        if let Some(runnable) = self.next_stealable() {
            // What is in the mailbox waits for the next look up, or for slot and deque to be empty: its line is
            // others'.
            self.bound_first = self.context.bound.len() > 0;
            return Some(runnable);
        }
        self.take_bound()
    }

    /// The next task out of slot and deque.
    #[inline(always)]
    pub(super) fn next_stealable(&mut self) -> Option<Runnable> {
        let context = &self.context;
        let me = context.me();
        let in_slot = !me.slot.is_empty();
        if in_slot
            && self.streak < self.streak_max
            && let Some(runnable) = me.slot.take_present()
        {
            self.streak += 1;
            me.counters.slot_pops.add(1);
            return Some(runnable);
        }
        self.streak = 0;
        if context.is_joining.get()
            && let Some(runnable) = self.take_newest()
        {
            return Some(runnable);
        }
        let context = &self.context;
        let me = context.me();
        if let Some(runnable) = context.local.pop() {
            me.counters.local_pops.add(1);
            context.begin_streak(&context.slot_streak);
            context.streak_end.set(context.local.end());
            return Some(runnable);
        }
        // Nothing has come into it since.
        if in_slot { me.slot.take_present() } else { None }
    }

    /// Between tasks, every interval: read the clock, see whether to stop, offer surplus, serve the shared queues.
    #[cold]
    pub(super) fn look_up(&mut self) -> Looked {
        let context = &self.context;
        if context.shared.sleepers.is_stopping() {
            return Looked::Stop;
        }
        let now = Nanos(clock::nanos());
        let elapsed = self.took(now.since(context.now.get()));
        context.now.set(now);
        let config = &context.shared.policy.config;
        self.overtaking.looks_up(elapsed, config.look_up, context.local.front());
        self.pace.looks_up(elapsed, &context.shared.policy.config);
        let average = self.pace.average_run();
        context.average_run.set(average);
        self.measure_streaks(elapsed);
        let context = &self.context;
        let counts = (context.started.get(), context.me().counters.polls.get());
        self.bursts
            .looks_up(counts, average, elapsed, &context.shared.policy.config);
        context.burst.set(self.bursts.wait());
        context.me().told.tell_average(average);
        self.context
            .load
            .publish_due(&context.shared, self.llc(), &context.me().counters, now);
        if context.local.len() > 0 {
            context.offer();
        }
        self.context.fire();
        self.context.lend_turn();
        // A bound FIFO that is never empty would keep it from the mailbox (W5).
        context.bound.collect(&context.me().bound);
        if self.run_delay.look(now) {
            context.me().counters.pin_fallbacks.add(1);
        }
        context.shared.stacks.tick(now.0);
        context.stacks.tick(now.0);
        cell::trim(now.0);
        if self.aggregates {
            self.settle(elapsed, now);
        }
        self.serve_ring();
        self.poll_own(now);
        let now = self.obey_solo(now);
        // First the duty: a shared queue that is never empty must not keep us from it. So must it not keep us from what
        // we have put up for others and nobody came for: that is taken only once it is old.
        let mut found = self.observe(now);
        let mut what = Found::Theirs;
        if self.aggregates && found.is_none() {
            found = self.take_back(now);
            what = if found.is_some() { Found::TakenBack } else { what };
        }
        let share = self.pace.share(self.context.shared.batch);
        if share > 0 {
            found = found.or_else(|| self.take_shared(share));
        }
        if self.aggregates && found.is_none() {
            found = self.spill(now);
            what = if found.is_some() { Found::Ours } else { what };
        }
        if share > 0 {
            found = found.or_else(|| self.join_in(share));
        }
        if found.is_some() {
            // Ours have their turn in between (W5): shared queues that are never empty would keep us from the deque and
            // the slot for ever, and so would every other worker. What is taken back has lost its place: more of it
            // follows that one.
            self.pace.found(what);
            self.vacate_slot();
            // What came with it into our deque was in no queue for a moment, and whoever handed the watch over may have
            // looked just then.
            self.name_successor();
        }
        Looked::from(found)
    }

    /// What it runs next was taken in between, and may run for long: meanwhile thieves shall find what is in the slot,
    /// where they don't look. If there is something in the deque they find that, and the slot's task keeps its place
    /// before it.
    fn vacate_slot(&self) {
        let context = &self.context;
        if context.local.len() == 0
            && let Some(runnable) = context.me().slot.take()
        {
            context.local.push(runnable);
            context.offer();
        }
    }

    /// Runs a task once. By `&self`: the task reaches the context, and writes its cells, through the thread's pointer,
    /// which a `&mut self` that lives meanwhile would forbid.
    /// Inlined: see `Frame::suspend`.
    #[inline(always)]
    pub(super) fn execute(&self, mut runnable: Runnable) {
        let context = &self.context;
        let meta = runnable.meta();
        let last = runnable.last_worker();
        let from = last.get();
        let here = LastWorker::ran_on(context.id);
        if from != here {
            if meta.has(BINDS) {
                debug_assert!(!meta.has(BOUND), "what is bound runs on its owner alone");
                if let Some(starter) = context.starter(meta) {
                    return self.leave_thread(runnable, starter);
                }
                // (B a) Nobody else gets a runnable until this run has ended.
                meta.set(BOUND);
            }
            if from.is_another(context.id) {
                self.count_move(from, context.id, &runnable);
            }
            last.set(here);
            // Not for every run: where a task ran here the last time, and no wake has placed it since, the policy
            // knows.
            context.shared.policy.ran(runnable.policy_mut(), context.id);
        }
        context.me().counters.polls.add(1);
        coop::start(self.budget);
        let ran = runnable.run();
        if self.counts_units {
            context.me().counters.units.add(u64::from(coop::spent(self.budget)));
        }
        match ran {
            Ran::Again(again) => {
                if self.counts_units {
                    context.me().counters.yields.add(u64::from(coop::has_given_way()));
                }
                context.requeue(again);
            }
            Ran::Finished => context.me().counters.finished.add(1),
            Ran::Gone => {}
        }
    }

    #[cold]
    pub(super) fn count_move(&self, last: LastWorker, to: WorkerId, runnable: &Runnable) {
        let policy = &self.context.shared.policy;
        let counters = &self.context.me().counters;
        let (from, first_run) = last.worker();
        let level = policy.plan.level(from, to);
        let cause = match self.arrivals.cause(counters, self.streak > 0) {
            Cause::Wake if first_run => Cause::Spawn,
            Cause::Wake if last.was_pulled() => Cause::Pull,
            cause => cause,
        };
        counters.count_move(cause, level);
        if !first_run && matches!(level, Level::Node | Level::Machine) {
            let cell = runnable.policy();
            let mut task = cell.get();
            policy.stolen(&mut task, to, self.context.now.get());
            cell.set(task);
        }
    }

    /// The worker's last-level cache.
    pub(super) fn llc(&self) -> usize {
        self.context.llc()
    }

    /// It is busy from now on.
    pub(super) fn begins(&self) {
        let context = &self.context;
        context
            .load
            .begins(&context.shared, self.llc(), &context.me().counters, context.now.get());
    }

    /// Takes the time since the clock was read last for that of the tasks that have run.
    pub(super) fn was_busy_until(&mut self, now: Nanos) {
        // Of two that were read on the way the first may come second.
        let now = now.max(self.context.now.get());
        let elapsed = self.took(now.since(self.context.now.get()));
        self.context.now.set(now);
        self.pace.pauses(elapsed);
        self.streaks.looks_up(elapsed, 0);
        if self.aggregates {
            self.settle(elapsed, now);
        }
    }

    /// How long tasks took that ran for `elapsed`: while the clock stands they take no time, so that a test looks up
    /// after the same tasks each time.
    fn took(&self, elapsed: Nanos) -> Nanos {
        if self.context.shared.clock.is_paused() {
            Nanos(0)
        } else {
            elapsed
        }
    }
}
