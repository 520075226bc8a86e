//! Ready -> placed -> published -> notified: steps 2 to 6 of a wake-up.

use std::cell::Cell;
use std::sync::Arc;

use quadrille_policy::{
    Claim, CouplingView, GroupId, LlcId, Nanos, Placement, Policy, Reason, Rng, SetId, TaskPolicy, UnparkView, WorkerId,
};

use super::context::Context;
use super::idle::Seat;
use super::publish;
use super::queue::group::Entry;
use super::{Shared, stats::WorkerCounters};
use crate::blocking::AtStop;
use crate::current;
use crate::decisions;
use crate::primitives::Ordering;
use crate::runtime::Handle;
use crate::sys::clock;
use crate::task::meta::{BINDS, BLOCKING, BOUND, LastWorker};
use crate::task::{Ran, Runnable};
use crate::time::presence::AtWork;

/// Queues a task that was woken. Called by its wakers, on any thread, from any stack: keep it shallow.
pub(crate) fn schedule(runnable: Runnable) {
    let meta = runnable.meta();
    let scheduler = meta.scheduler();
    Context::with(|context| match context {
        Some(context) if Arc::as_ptr(&context.shared) == scheduler && !runnable.meta().has(BLOCKING | BOUND) => {
            context.wake(runnable);
        }
        Some(context) if Arc::as_ptr(&context.shared) == scheduler && runnable.meta().has(BOUND) => {
            context.wake_bound(runnable);
        }
        _ => schedule_from_outside(runnable),
    });
}

/// Queues a task that no worker of its scheduler wakes, or that may block. Out of line: a worker that wakes a task
/// needs no room for what this does.
#[inline(never)]
fn schedule_from_outside(runnable: Runnable) {
    // SAFETY: the task has a runnable, so its body was not dropped, so the scheduler is alive (rule 4 of `task`).
    let shared = unsafe { &*runnable.meta().scheduler() }.arc();
    // W3: from here on `shared` is our own reference; the task may take its scheduler's last other one with it.
    shared.wake_foreign(runnable);
}

impl Context {
    /// Queues a task that ran here and was woken meanwhile, most often by itself: it gives way.
    #[inline]
    pub(super) fn requeue(&self, runnable: Runnable) {
        if runnable.meta().has(BOUND) {
            self.requeue_bound(runnable);
        } else if decisions::yields_stay(&self.shared.policy) {
            self.me().counters.wakes_self.add(1);
            // A re-queue signals nobody but a missing sentinel: the worker looks after its queue between tasks.
            self.local.push(runnable);
            self.keep_watch();
        } else {
            self.wake_placed(runnable, true);
        }
    }

    /// Queues a task that was woken by this worker's thread.
    #[inline]
    fn wake(&self, mut runnable: Runnable) {
        if self.shared.policy.groups_on() && !self.stays(&mut runnable) {
            return self.wake_placed(runnable, false);
        }
        // Written out: most wake-ups end here.
        const {
            let answer = Policy::wake_without_groups(Some(WorkerId(0)), false);
            assert!(matches!(answer, Placement::Slot));
        };
        self.me().counters.wakes_self.add(1);
        self.push_slot(runnable);
    }

    #[inline]
    fn push_slot(&self, runnable: Runnable) {
        if self.in_batch.get() {
            // Who ends the batch tells others of all of it.
            self.local.push(runnable);
        } else if self.local.len() > 0 && self.is_over(&self.slot_streak) {
            self.local.push(runnable);
            self.offer();
        } else if let Some(displaced) = self.me().slot.replace(runnable) {
            self.local.push(displaced);
            self.offer();
        } else {
            self.keep_watch();
        }
    }

    /// Whether the policies leave a task in our slot without a look at anybody else.
    #[inline]
    fn stays(&self, runnable: &mut Runnable) -> bool {
        let task = runnable.policy_mut();
        let slot_is_free = || self.me().slot.is_empty() || !self.shared.sleepers.idle.caches.any();
        decisions::stays_with_waker(&self.shared.policy, self.id, task, slot_is_free)
    }

    /// Queues a task that does not simply stay with us. Out of line: `wake` needs no room for what this does.
    #[inline(never)]
    fn wake_placed(&self, runnable: Runnable, yielded: bool) {
        let shared = &*self.shared;
        let cell = runnable.policy();
        let mut task = cell.get();
        let average_run = self.average_run.get();
        if !yielded
            && decisions::stays_as_short(&shared.policy, average_run, shared.home_run(&task), shared.wake_cost())
        {
            return self.put(runnable, Placement::Slot);
        }
        let mut view = shared.wake_view(Some(self), &task, yielded);
        if shared.policy.aggregates() && !yielded {
            view.coupling = self.coupling_view(&mut task, runnable.meta().id.number());
        }
        let mut rng = self.rng.get();
        let (placement, reason) = decisions::place_wake(&shared.policy, &view, &mut task, &mut rng);
        self.rng.set(rng);
        cell.set(task);
        note_reason(&runnable, reason);
        self.me().counters.count_reason(reason, placement);
        shared.note_pull(&view.coupling, placement, &task);
        self.put(runnable, placement);
    }

    /// Queues a new task of this worker. `turn` is its number among those of a set that is spread, if somebody counts
    /// them.
    pub(crate) fn spawn(&self, runnable: Runnable, turn: Option<u32>) {
        if self.unwinding.get() {
            // The worker leaves, and would only drop it later.
            return drop(runnable);
        }
        let shared = &*self.shared;
        runnable.last_worker().set(LastWorker::spawned_by(self.id));
        if decisions::spawns_stay(&shared.policy) {
            return self.put_new(runnable, Policy::spawn_without_groups(Some(self.id)));
        }
        let cell = runnable.policy();
        let mut task = cell.get();
        let any = || u32::try_from(self.random_below(u32::MAX as usize)).unwrap_or(0);
        let view = shared.spawn_view(self.id, &task, || turn.unwrap_or_else(any));
        let mut rng = self.rng.get();
        let placement = decisions::place_spawn(&shared.policy, &view, &mut task, &mut rng);
        self.rng.set(rng);
        cell.set(task);
        self.put_new(runnable, placement);
    }

    /// Puts a new task: where it stays with us, more of them are expected to follow.
    #[inline]
    fn put_new(&self, runnable: Runnable, placement: Placement) {
        if placement != Placement::Deque {
            return self.put(runnable, placement);
        }
        self.started.set(self.started.get() + 1);
        // Who comes, comes for all of them: the next one is woken for what is queued by then, or for another burst.
        if self.push_deque(runnable, self.burst.get()) {
            self.burst.set(Nanos(0));
        }
    }

    /// To the end of our deque; [`offer_burst`](Self::offer_burst) says the rest.
    #[inline(always)]
    fn push_deque(&self, runnable: Runnable, burst: Nanos) -> bool {
        self.me().counters.wakes_self.add(1);
        self.local.push(runnable);
        self.offer_burst(burst)
    }

    pub(super) fn put(&self, runnable: Runnable, placement: Placement) {
        match placement {
            Placement::Slot => {
                self.me().counters.wakes_self.add(1);
                self.push_slot(runnable);
            }
            Placement::Deque => {
                let _woken = self.push_deque(runnable, Nanos(0));
            }
            other => self.shared.publish(runnable, other, Some(self)),
        }
    }

    /// There is more in our deque than we run next: wakes an idle worker if that pays.
    #[inline]
    pub(crate) fn offer(&self) {
        let _woken = self.offer_burst(Nanos(0));
    }

    /// The same of what may wait for so long, whatever waking costs.
    pub(super) fn offer_patiently(&self, patience: Nanos) {
        let _woken = self.offer_watched::<false>(Nanos(0), patience);
    }

    /// The same of the only task of ours, which we run next whatever others do: nobody has to watch it.
    pub(super) fn offer_next(&self) {
        let _woken = self.offer_watched::<true>(Nanos(0), self.shared.wake_cost());
    }

    /// The same if the last of what will follow is expected to wait so long. Whether somebody was woken.
    #[inline]
    fn offer_burst(&self, burst: Nanos) -> bool {
        self.offer_watched::<false>(burst, self.shared.wake_cost())
    }

    /// The same; `WATCHED`: somebody is known to come to it.
    #[inline]
    fn offer_watched<const WATCHED: bool>(&self, burst: Nanos, wake_cost: Nanos) -> bool {
        let sleepers = &self.shared.sleepers;
        // Who ends a batch tells others of all of it.
        if !sleepers.idle.caches.any() || self.in_batch.get() {
            return false;
        }
        let view = UnparkView {
            idle: 1,
            searching: 0,
            sentinel: true,
            running: 1,
            queued: u32::try_from(self.local.len()).unwrap_or(u32::MAX),
            average_run: self.average_run.get(),
            burst,
            wake_cost,
        };
        // Where wake-ups have a price it mostly ends here: what does not pay while nobody searches never does, and with
        // a sentinel, or `WATCHED`, nobody is owed anything (O).
        if (WATCHED || sleepers.has_sentinel()) && !self.shared.pays(&view, Some(self)) {
            return false;
        }
        self.offer_closely(view, WATCHED)
    }

    /// The same for what pays unless somebody searches, or where nobody is known to come. A log of decisions has both.
    fn offer_closely(&self, view: UnparkView, watched: bool) -> bool {
        if self.me().is_spared(self.now.get()) {
            if !watched {
                self.keep_watch();
            }
            return false;
        }
        let plan = &self.shared.policy.plan;
        let llc = plan.workers[self.id.index()].llc;
        let searching = self
            .shared
            .sleepers
            .searching_for(llc.index(), &plan.llcs[llc.index()].others);
        // A searcher is asked for below, if need be.
        let is_watched = watched || (searching == 0 && self.is_watched());
        let view = UnparkView {
            searching,
            sentinel: is_watched,
            ..view
        };
        if self.shared.pays(&view, Some(self)) {
            return self.shared.wake_any(llc, Some(self));
        }
        if !is_watched {
            self.keep_watch();
        }
        false
    }
}

impl Shared {
    /// Queues a new task from a thread that is no worker of this runtime; drops it if the runtime stops.
    pub(crate) fn spawn_foreign(&self, runnable: Runnable, turn: Option<u32>) {
        if self.sleepers.is_stopping() {
            // Else the last worker's drain would have to be faster than all who spawn.
            return drop(runnable);
        }
        let mut placement = Policy::spawn_without_groups(None);
        if !decisions::has_one_way_in(&self.policy) {
            let cell = runnable.policy();
            let mut task = cell.get();
            let id = runnable.meta().id.number();
            self.root_set(&mut task, id);
            // Consecutive roots have consecutive numbers: as good a count as any.
            placement = self.with_foreign_rng(|rng| {
                let view = self.root_view(&task, || turn.unwrap_or(task.set.number()), rng);
                decisions::place_spawn(&self.policy, &view, &mut task, rng)
            });
            cell.set(task);
        }
        self.publish(runnable, placement, None);
        self.refuse_if_terminated();
    }

    /// Queues a task that was woken by a thread that is no worker of this runtime.
    fn wake_foreign(&self, runnable: Runnable) {
        if runnable.meta().has(BLOCKING) {
            return self.submit_blocking(runnable);
        }
        // Ordering: Relaxed; a statistic.
        self.foreign.wakes.fetch_add(1, Ordering::Relaxed);
        if runnable.meta().has(BOUND) {
            // Its owner has not left and looks at its mailbox until it does (B c): nobody has to refuse it.
            return self.publish_bound(runnable, None);
        }
        let placement = if self.policy.groups_on() {
            self.place_foreign(&runnable)
        } else {
            Policy::wake_without_groups(None, false)
        };
        self.publish(runnable, placement, None);
        self.refuse_if_terminated();
    }

    /// Sends a task that may block to the pool. Refused, it is dropped, which cancels it.
    pub(crate) fn submit_blocking(&self, runnable: Runnable) {
        let handle = Handle { shared: self.arc() };
        let at_work = AtWork::begin(self.arc());
        let job = Box::new(move || {
            let shared = handle.shared.clone();
            let _current = current::enter(handle);
            let _stay = at_work.here();
            shared.has_run(runnable.run());
        });
        if let Err(rejected) = self.submit(job, AtStop::Drop) {
            drop(rejected.job);
        }
    }

    /// A thread that is no worker has run a task of this runtime.
    pub(super) fn has_run(&self, ran: Ran) {
        match ran {
            Ran::Again(again) => schedule(again),
            Ran::Finished => self.loads.count_foreign(-1),
            Ran::Gone => {}
        }
    }

    fn place_foreign(&self, runnable: &Runnable) -> Placement {
        let cell = runnable.policy();
        let mut task = cell.get();
        let mut view = self.wake_view(None, &task, false);
        if self.policy.aggregates() {
            view.coupling = self.set_view(&task);
        }
        let (placement, reason) =
            self.with_foreign_rng(|rng| decisions::place_wake(&self.policy, &view, &mut task, rng));
        cell.set(task);
        note_reason(runnable, reason);
        self.note_pull(&view.coupling, placement, &task);
        placement
    }

    /// Pushes into a queue that its pusher won't drain, and notifies: (a), (A), step 6.
    fn publish(&self, runnable: Runnable, placement: Placement, by: Option<&Context>) {
        match placement {
            Placement::Group { group, claim } => self.publish_group(runnable, group.index(), claim, by),
            Placement::IdleInLlc { llc, fallback } => {
                match self.search_in_llc(llc, by) {
                    Some(seat) => {
                        count(by, |counters| counters.wakes_found.add(1));
                        self.note_move(&runnable, seat, by);
                        publish::to_claimed(|| self.push_group(runnable, seat.group, by));
                        self.wake_claimed(seat, by);
                        // The claimed worker may have been on its way to other work: its token is then no promise.
                        self.keep_watch(llc, by);
                    }
                    None => {
                        // It goes home; whatever reason there was to leave.
                        note_reason(&runnable, Reason::Other);
                        self.publish_group(runnable, fallback.index(), Claim::Member, by);
                    }
                }
            }
            Placement::Injector { llc } => self.publish_injector(runnable, llc, by),
            // Answers that only a worker can act on: any queue is right (W4).
            Placement::Slot | Placement::Deque => self.publish_injector(runnable, LlcId(0), by),
        }
    }

    /// Tells the policy that a wake placed the task with the worker in `seat`.
    fn note_move(&self, runnable: &Runnable, seat: Seat, by: Option<&Context>) {
        let worker = self.policy.plan.groups[seat.group].members[usize::from(seat.member)];
        let cell = runnable.policy();
        let mut task = cell.get();
        if self.changes_cache(&task, worker) {
            count(by, |counters| counters.set_moves.add(1));
        }
        let now = by.map_or_else(|| Nanos(clock::nanos()), |context| context.now.get());
        self.policy.moved(&mut task, worker, now);
        cell.set(task);
        let last = runnable.last_worker();
        last.set(last.get().placed());
    }

    fn publish_injector(&self, runnable: Runnable, llc: LlcId, by: Option<&Context>) {
        let llc = LlcId(u16::try_from(llc.index().min(self.injectors.len() - 1)).unwrap_or(0));
        count(by, |counters| counters.wakes_injector.add(1));
        let injector = &self.injectors[llc.index()];
        let starts = runnable.meta().has(BINDS);
        self.publish_to_anyone(|| injector.push(runnable), || injector.len(), (llc, llc), by, starts);
    }

    /// Puts tasks of a worker behind `llc` up for the workers of other caches, those of `to` first.
    pub(super) fn publish_exports(&self, tasks: Vec<Runnable>, llc: LlcId, to: LlcId, by: Option<&Context>) {
        let queue = &self.exports[llc.index()];
        let now = by.map_or_else(|| Nanos(clock::nanos()), |context| context.now.get());
        self.publish_to_anyone(|| queue.push_all(tasks, now), || queue.len(), (llc, to), by, false);
    }

    /// Pushes by calling `push` into a queue of the cache `owner` that anyone may drain, and notifies, near `llc`
    /// first: (a), (A), step 6. `starts`: it is a thread, so that it matters who comes.
    fn publish_to_anyone(
        &self,
        push: impl FnOnce(),
        len: impl Fn() -> usize,
        (owner, llc): (LlcId, LlcId),
        by: Option<&Context>,
        starts: bool,
    ) {
        let pays = |running| {
            let view = UnparkView {
                idle: 1,
                searching: 0,
                sentinel: self.sleepers.has_sentinel(),
                running,
                queued: u32::try_from(len()).unwrap_or(u32::MAX),
                average_run: self.average_run_of(&self.policy.plan.llcs[owner.index()].workers),
                burst: Nanos(0),
                wake_cost: self.wake_cost(),
            };
            self.pays(&view, by)
        };
        let near = (llc.index(), &*self.policy.plan.llcs[llc.index()].others);
        if publish::to_anyone(push, &self.sleepers, owner.index(), near, pays) {
            let starter =
                (starts && near.1.is_empty()).then(|| self.with_foreign_rng(|rng| self.claim_one_with_fewer(rng)));
            match starter.flatten() {
                Some(seat) => self.wake_claimed(seat, by),
                None => _ = self.wake_any(llc, by),
            }
        } else {
            self.keep_watch(llc, by);
        }
    }

    /// Queues a task with an idle worker near its home, else in its home group.
    pub(super) fn publish_home(&self, runnable: Runnable, home: GroupId, by: &Context) {
        let llc = self.policy.plan.groups[home.index().min(self.groups.len() - 1)].llc;
        let placement = Placement::IdleInLlc { llc, fallback: home };
        self.publish(runnable, placement, Some(by));
    }

    /// Tells the set that a task follows its preference: one less does in this epoch.
    fn note_pull(&self, coupling: &CouplingView, placement: Placement, task: &TaskPolicy) {
        if coupling.pulls
            && let Placement::IdleInLlc { llc, .. } = placement
            && coupling.preferred.is_some_and(|preferred| preferred.llc == llc)
        {
            // An epoch's last pull may be taken by two at once.
            let _was_left = self.sets.take_pull(task.set);
        }
    }

    pub(super) fn publish_group(&self, runnable: Runnable, group: usize, claim: Claim, by: Option<&Context>) {
        let group = group.min(self.groups.len() - 1);
        let prefer = match claim {
            Claim::Nobody | Claim::Member => None,
            Claim::Prefer(worker) => {
                let members = &self.policy.plan.groups[group].members;
                members
                    .iter()
                    .position(|m| *m == worker)
                    .and_then(|i| u8::try_from(i).ok())
            }
        };
        let unobserved = claim != Claim::Nobody || !self.sleepers.has_sentinel();
        let pays = |idle, awake| unobserved && self.unpark_pays(group, idle, awake, by);
        let push = || self.push_group(runnable, group, by);
        let seat = publish::to_group(push, &self.sleepers, group, prefer, pays);
        match seat {
            Some(seat) => self.wake_claimed(seat, by),
            None => self.keep_watch(self.policy.plan.groups[group].llc, by),
        }
    }

    /// (W1 a), and the last touch of the task (W3).
    fn push_group(&self, runnable: Runnable, group: usize, by: Option<&Context>) {
        let member = by.is_some_and(|context| self.group_of(context.id) == group);
        let entry = self.groups[group].push(runnable, member, clock::nanos);
        count(by, |counters| {
            match entry {
                Entry::Direct | Entry::Waited => counters.wakes_direct.add(1),
                Entry::Mailbox | Entry::Contended => counters.wakes_mailbox.add(1),
            }
            if matches!(entry, Entry::Waited | Entry::Contended) {
                counters.lock_contended.add(1);
            }
        });
    }

    /// Calls `f` with the generator of the calling thread, which is no worker's: seeded by the clock, once, since its
    /// choices are not reproducible anyway.
    fn with_foreign_rng<R>(&self, f: impl FnOnce(&mut Rng) -> R) -> R {
        thread_local! {
            static FOREIGN: Cell<Option<Rng>> = const { Cell::new(None) };
        }
        let seed = || Rng::new(self.policy.config.seed ^ clock::nanos());
        let mut rng = FOREIGN.get().unwrap_or_else(seed);
        let result = f(&mut rng);
        FOREIGN.set(Some(rng));
        result
    }

    /// The policy fields of a new task.
    pub(crate) fn new_policy(&self, spawner: Option<WorkerId>, set: SetId) -> TaskPolicy {
        self.policy.new_task(spawner, set)
    }
}

/// Notes on a task that is about to be queued whether its move, if it is one, will be a pull.
#[inline]
fn note_reason(runnable: &Runnable, reason: Reason) {
    let last = runnable.last_worker();
    let pulled = reason == Reason::Pulled;
    if last.get().was_pulled() != pulled {
        last.set(last.get().pulled(pulled));
    }
}

pub(super) fn count(by: Option<&Context>, f: impl FnOnce(&WorkerCounters)) {
    if let Some(context) = by {
        f(&context.me().counters);
    }
}
