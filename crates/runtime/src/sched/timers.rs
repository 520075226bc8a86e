//! Timers and workers (F): who sets them, who fires them, and how long a worker may sleep.

use std::sync::{Arc, PoisonError};
use std::task::Waker;

use quadrille_policy::{LlcId, Nanos, Policy, WorkerId};

use super::alarms::Alarm;
use super::context::Context;
use super::worker::Worker;
use super::{LIVE, Shared, publish};
use crate::panics::quietly;
use crate::primitives::Ordering;
use crate::sys::clock;
use crate::task::{Runnable, is_waker_of};
use crate::time::clock::any_paused;
use crate::time::heap::Key;
use crate::time::store::Store;

/// Polls that a worker makes while the clock is paused before it gives a thread in `block_on` its turn, though there is
/// more to do. So many that only a program which is never out of work comes to it: when a worker looks up is no matter
/// of the program alone.
const TURN: u64 = 10_000;

impl Context {
    /// Sets a timer on this worker. The waker comes back once the runtime stops: no worker would call it.
    #[inline]
    pub(crate) fn set_timer(&self, due: u64, waker: Waker) -> Result<Key, Waker> {
        // Nobody has to be told: the worker is awake, and looks before it sleeps.
        self.sets_timers.set(true);
        self.me().timers.insert(due, waker).map(|(key, _)| key)
    }

    /// Names the poll that runs; not zero while one does.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "polls 2^32 apart are not confused by a timer"
    )]
    pub(crate) fn poll_number(&self) -> u32 {
        self.me().counters.polls.get() as u32
    }

    /// How long this worker may sleep for its timers.
    pub(super) fn alarm(&self, may_jump: bool) -> Alarm {
        let timers = &self.me().timers;
        if self.shared.clock.is_paused() {
            return self.paused_alarm(may_jump);
        }
        let (first, slack) = (timers.first(), self.shared.timer_slack);
        if first == u64::MAX {
            return Alarm::Never;
        }
        let now = self.shared.clock.now();
        // Some of a batch may have expired although others have not.
        if first <= now {
            return Alarm::Now;
        }
        let end = timers.end_of_batch(self.shared.policy.timer_slack(self.id, slack, self.late.get()).0);
        if end == u64::MAX {
            // Somebody has unset it meanwhile.
            return Alarm::Never;
        }
        let time = end.max(first.saturating_add(self.left_to_first(now, slack.0)));
        let left = time.saturating_sub(now);
        Alarm::At { time, left }
    }

    /// It has slept until then, and the system has let it go on now. A signal may have ended the sleep before, which
    /// says nothing.
    pub(super) fn got_up_for(&self, time: u64) {
        if let Some(late) = self.shared.clock.now().checked_sub(time) {
            self.late.set(Policy::late(self.late.get(), Nanos(late)));
        }
    }

    /// For how long beyond the first of our timers we leave them to whom they are fired along by (F d).
    fn left_to_first(&self, now: u64, slack: u64) -> u64 {
        let shared = &*self.shared;
        let Some(other) = shared.policy.first_to_fire_for(self.id) else {
            return 0;
        };
        let its_first = Nanos(shared.timers_of(other.0).first());
        let left = shared.policy.left_to_first(Nanos(now), its_first, Nanos(slack));
        if left.0 > 0 && shared.would_fire_for(shared.workers[other.index()].average_run(), self.id) {
            left.0
        } else {
            0
        }
    }

    /// The same while the clock stands: if it may, and still everything waits, it jumps to the first timer. Else the
    /// turn ends.
    #[cold]
    fn paused_alarm(&self, may_jump: bool) -> Alarm {
        let (clock, first) = (&self.shared.clock, self.me().timers.first());
        if first <= clock.now() || may_jump && clock.jump(first) {
            return Alarm::Now;
        }
        if !self.gives_turn_back() {
            // Somebody may wait for a turn since before the worker was idle.
            clock.notify_turns();
        }
        Alarm::Never
    }

    /// The worker is up: if the clock stands, it waits for its turn.
    #[inline]
    pub(super) fn take_turn(&self) {
        if self.shared.clock.is_paused() && self.has_turn.get() != self.shared.clock.pause_number() {
            let pause = self
                .shared
                .clock
                .take_workers_turn(|| self.shared.sleepers.is_stopping());
            self.has_turn_of(pause);
        }
    }

    fn has_turn_of(&self, pause: usize) {
        self.has_turn.set(pause);
        self.turn_since.set(self.me().counters.polls.get());
    }

    /// It has the turn of this pause.
    #[cold]
    pub(crate) fn has_turn_now(&self) {
        self.has_turn_of(self.shared.clock.pause_number());
    }

    /// It runs no tasks for a while. Whether it had the turn.
    pub(super) fn gives_turn_back(&self) -> bool {
        let turn = self.has_turn.take();
        let had = turn != 0 && turn == self.shared.clock.pause_number();
        if had {
            self.shared.clock.end_workers_turn();
        }
        had
    }

    /// Lets others have their turn, who may wait for it for ever. A worker that has not begun with one takes it: it has
    /// found work before it was dry, or the clock was stopped since.
    #[inline]
    pub(super) fn lend_turn(&self) {
        if !any_paused() {
            return;
        }
        if self.has_turn.get() != self.shared.clock.pause_number() {
            return self.take_turn();
        }
        let polls = self.me().counters.polls.get();
        if polls - self.turn_since.get() >= TURN {
            self.turn_since.set(polls);
            self.shared.clock.lend_turn(|| self.shared.sleepers.is_stopping());
        }
    }

    /// Fires what has expired here. Whether there was anything.
    #[inline]
    pub(super) fn fire(&self) -> bool {
        self.fire_patiently(|shared| shared.wake_cost())
    }

    /// The same; somebody is woken for what that has woken if it would wait for longer than `patience`.
    #[inline]
    fn fire_patiently(&self, patience: impl FnOnce(&Shared) -> Nanos) -> bool {
        let now = self.shared.clock.at(self.now.get().0);
        if self.me().timers.first() > now {
            return false;
        }
        let fired = self.fire_of(self.id.index(), now, patience(&self.shared));
        self.me().counters.timers.add(fired);
        fired > 0
    }

    /// The same for a worker that is up and has nothing else to do. It fires along what has expired with some that
    /// sleep, as far as policy lets it, so that they have fewer timers from then on.
    ///
    /// What they wake may wait for as long as they may be late: it is not behind anything else here.
    fn fire_and_pull(&self) -> bool {
        let patience = |shared: &Shared| shared.policy.patience_of_timers(shared.wake_cost(), shared.timer_slack);
        if !self.fire_patiently(patience) {
            return false;
        }
        let shared = &*self.shared;
        let sleepers = shared.policy.may_fire_for(self.id);
        let now = shared.clock.at(self.now.get().0);
        for _ in 0..sleepers.len().min(shared.policy.config.timers.looks.into()) {
            let next = self.pulls_from.get() % sleepers.len();
            self.pulls_from.set(next + 1);
            let other = sleepers[next];
            if shared.timers_of(other.0).first() <= now && self.fires_for(other) {
                let pulled = self.fire_of(other.index(), now, patience(shared));
                self.me().counters.timers_pulled.add(pulled);
            }
        }
        true
    }

    /// Whether it fires for `other`, with whom timers have expired.
    fn fires_for(&self, other: WorkerId) -> bool {
        self.shared.sleepers.is_idle(other.index()) && self.shared.would_fire_for(self.average_run.get(), other)
    }

    /// Fires what has expired with a worker. The tasks go to the end of our deque in the order of their deadlines, or
    /// where the policies want them; somebody is woken for them if they would wait for longer than `patience`. How many
    /// timers.
    #[cold]
    fn fire_of(&self, worker: usize, now: u64, patience: Nanos) -> u64 {
        self.leaves_task();
        let batch = Batch::begin(self);
        // What a waker calls reaches the context by the thread's pointer, which has to come from our reference: the
        // worker is borrowed exclusively.
        let _again = self.enter_again();
        let fired = self.shared.fire_of(worker, now);
        drop(batch);
        if fired > 0 {
            match self.local.len() {
                0 => {}
                // What is found in other queues before it is followed by `name_successor`.
                1 if self.me().slot.is_empty() && self.bound.len() == 0 => self.offer_next(),
                _ => self.offer_patiently(patience),
            }
        }
        fired
    }

    /// Fires what has expired with any worker, for the task that runs here. Behind what it has woken.
    fn fire_in_task(&self) -> Mark {
        let batch = Batch::begin(self);
        self.shared.fire_of_all();
        drop(batch);
        if self.local.len() > 0 {
            self.offer();
        }
        Mark {
            local: self.local.end(),
            bound: self.me().counters.bound_pops.get() + self.bound.listed() as u64,
            seen: (0, 0),
            vain_looks: 0,
        }
    }

    /// Whether what was queued here before the mark has been taken, or nothing is being taken: whoever looks does not
    /// let the worker go on.
    fn is_past(&self, mark: &mut Mark) -> bool {
        let (front, pops) = (self.local.front(), self.me().counters.bound_pops.get());
        let has_passed_local = self.local.len() == 0 || front >= mark.local;
        if has_passed_local && pops >= mark.bound {
            return true;
        }
        if std::mem::replace(&mut mark.seen, (front, pops)) == (front, pops) {
            mark.vain_looks += 1;
        } else {
            mark.vain_looks = 0;
        }
        mark.vain_looks >= VAIN_LOOKS_MAX
    }

    /// Fires what has expired with a worker that does not come to it. Whether there was anything.
    pub(super) fn fire_overdue_of(&self, worker: usize, now: Nanos) -> bool {
        if !self.shared.is_overdue(worker, now) {
            return false;
        }
        let fired = self.fire_of(worker, self.shared.clock.at(now.0), self.shared.wake_cost());
        self.me().counters.timers_overdue.add(fired);
        fired > 0
    }
}

/// Up to where the deque and the bound FIFO of a worker were filled.
#[derive(Debug)]
pub(crate) struct Mark {
    /// Where the deque ended.
    local: u64,
    /// How many the FIFO has given out once it has given out all that was in it.
    bound: u64,
    /// Where both were at the last look, and how many looks in a row have found them there.
    seen: (u64, u64),
    vain_looks: u32,
}

/// Looks at a mark between which nothing is taken, after which nobody waits for it any more. Who is polled again within
/// one poll of its task looks more than once a turn; who waits within a poll, by a foreign `block_on` or in a
/// destructor that unwinds, would look for ever.
const VAIN_LOOKS_MAX: u32 = 64;

/// While it lives, tasks that are woken here are queued one behind the other, and nobody is woken for each.
struct Batch<'a> {
    context: &'a Context,
    is_within: bool,
}

impl<'a> Batch<'a> {
    fn begin(context: &'a Context) -> Self {
        let is_within = context.in_batch.replace(true);
        Self { context, is_within }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.context.in_batch.set(self.is_within);
    }
}

impl Worker {
    /// Fires what has expired here, and takes the first task of those that it has woken.
    pub(super) fn take_fired(&mut self) -> Option<Runnable> {
        if self.context.fire_and_pull() {
            self.next_local()
        } else {
            None
        }
    }

    /// The same of all workers that do not come to it: the sentinel has seen one.
    pub(super) fn take_overdue_timers(&mut self) -> Option<Runnable> {
        let now = Nanos(clock::nanos());
        let workers = self.context.shared.worker_count();
        let mut fired = false;
        for worker in 0..workers {
            fired |= self.context.fire_overdue_of(worker, now);
        }
        if fired { self.next_local() } else { None }
    }
}

impl Shared {
    /// The timers of a worker.
    #[inline]
    pub(crate) fn timers_of(&self, worker: u16) -> &Store<Waker> {
        &self.workers[usize::from(worker)].timers
    }

    /// The live runtime of that number, if there is one.
    pub(crate) fn numbered(number: u64) -> Option<Arc<Self>> {
        let live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut alive = live.iter().filter_map(std::sync::Weak::upgrade);
        // Others that are looked at on the way may have been let go by everybody else meanwhile: they are dropped
        // without the lock.
        let mut passed = Vec::new();
        let found = alive.by_ref().find_map(|shared| {
            if shared.number == number {
                return Some(shared);
            }
            passed.push(shared);
            None
        });
        drop(alive);
        drop(live);
        drop(passed);
        found
    }

    /// Sets a timer from a thread that is no worker, with the worker that went to sleep last. Where it was set; or the
    /// waker, once the runtime stops.
    pub(crate) fn set_foreign_timer(&self, due: u64, waker: Waker) -> Result<(u16, Key), Waker> {
        let worker = self.sleepers.recent().map_or(0, |worker| worker.0);
        let store = self.timers_of(worker);
        let mut inserted = None;
        let insert = || inserted = Some(store.insert(due, waker));
        let seat = self.sleepers.seat(usize::from(worker));
        if publish::to_owner(insert, &self.sleepers, seat) {
            self.wake_claimed(seat, None);
        } else {
            // It is awake, perhaps for long.
            self.keep_watch(LlcId(0), None);
        }
        let inserted = inserted.expect("what is published was inserted");
        inserted.map(|(key, _)| (worker, key))
    }

    /// Fires what has expired with a worker at `now`; on whichever thread. How many timers.
    pub(super) fn fire_of(&self, worker: usize, now: u64) -> u64 {
        self.workers[worker].timers.fire(now)
    }

    /// Fires what has expired with any worker: for a thread that runs tasks in place of all of them, and when a clock
    /// is moved.
    pub(crate) fn fire_of_all(&self) {
        let due = |worker: &usize| self.workers[*worker].timers.first() != u64::MAX;
        for worker in (0..self.worker_count()).filter(due) {
            let now = self.clock.now();
            if self.workers[worker].timers.first() <= now {
                self.fire_of(worker, now);
            }
        }
    }

    /// Fires what has expired by a move of the clock. If a task of ours has moved it, behind what that has woken.
    pub(crate) fn fire_moved(&self) -> Option<Mark> {
        Context::with(|context| match context.filter(|context| self.is_of(context)) {
            Some(context) => Some(context.fire_in_task()),
            None => {
                self.fire_of_all();
                None
            }
        })
    }

    /// Whether the worker has taken all before the mark that its task has set; also if the task is elsewhere by now.
    pub(crate) fn has_passed(&self, mark: &mut Mark) -> bool {
        Context::with(|context| context.is_none_or(|context| !self.is_of(context) || context.is_past(mark)))
    }

    fn is_of(&self, context: &Context) -> bool {
        std::ptr::eq(&*context.shared, self)
    }

    /// How long it is until the first timer of any worker expires, ns.
    pub(super) fn next_timer(&self) -> u64 {
        self.first_timer().saturating_sub(self.clock.now())
    }

    /// When that expires; `u64::MAX`: never.
    pub(super) fn first_timer(&self) -> u64 {
        let first = self.workers.iter().map(|worker| worker.timers.first()).min();
        first.unwrap_or(u64::MAX)
    }

    /// Whether one whose tasks run for `run` on average fires along what has expired with `sleeper`, while that one
    /// sleeps.
    fn would_fire_for(&self, run: Nanos, sleeper: WorkerId) -> bool {
        let theirs = &self.workers[sleeper.index()];
        // Ordering: Relaxed; an estimate.
        let threads = theirs.living.load(Ordering::Relaxed);
        self.policy
            .fires_for_sleeper(threads, (run, theirs.average_run()), self.wake_cost())
    }

    /// Whether a timer of a worker should have been fired by now, were it not stuck.
    #[inline]
    pub(super) fn is_overdue(&self, worker: usize, now: Nanos) -> bool {
        // Between two tasks it looks up as often as that; asleep it may be late by the slack, too.
        let looks_up = self.policy.config.look_up.0;
        let due = self.workers[worker].timers.first().saturating_add(looks_up);
        let now = self.clock.at(now.0);
        due <= now && (due.saturating_add(self.timer_slack.0) <= now || !self.sleepers.is_idle(worker))
    }

    /// The same of any worker.
    pub(super) fn any_overdue(&self, now: Nanos) -> bool {
        (0..self.worker_count()).any(|worker| self.is_overdue(worker, now))
    }

    /// When the first timer of the workers that are awake expires, if they have any.
    pub(super) fn leaves_timers(&self) -> Option<Nanos> {
        let has_timers = |worker: &usize| self.workers[*worker].timers.first() != u64::MAX;
        let with_timers = (0..self.worker_count()).filter(has_timers);
        let awake = with_timers.filter(|worker| !self.sleepers.is_idle(*worker));
        awake.map(|worker| Nanos(self.workers[worker].timers.first())).min()
    }

    /// Workers fire no timer from now on. After the flag (S): whoever waits and is no task of this runtime polls again,
    /// sees that, and is woken at the deadline by another (`time/stray`). Its tasks are dropped, and not woken for
    /// that.
    pub(super) fn close_timers(&self) {
        self.clock.outlasts();
        // Who waits for a turn of a paused clock sees that the runtime stops.
        self.clock.notify_turns();
        for worker in &self.workers {
            for waker in worker.timers.close() {
                quietly(|| {
                    if is_waker_of(&waker, self) {
                        drop(waker);
                    } else {
                        waker.wake();
                    }
                });
            }
        }
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests;
