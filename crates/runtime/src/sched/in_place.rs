//! Blocking in place: a worker whose OS thread is about to be blocked lets go of what others may run (see `README.md`).

use std::cell::Cell;
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quadrille_policy::{LlcId, Nanos};

use super::context::{Away, Context, Relieving, is_away};
use super::{Shared, publish};
use crate::coop;
use crate::current;
use crate::reactor::Catch;
use crate::runtime::Handle;
use crate::sys::clock;
use crate::task::Runnable;
use crate::task::meta::BINDS;
use crate::time::presence::Stay;

thread_local! {
    /// The scheduler whose tasks the calling thread runs as a reliever, if it is one.
    static RELIEVES: Cell<*const Shared> = const { Cell::new(ptr::null()) };
}

/// Who blocks in place, and who runs tasks meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Relief {
    state: Mutex<State>,
    /// For relievers that have found nothing: they may have to leave.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Workers that block in place.
    workers: usize,
    /// Relievers that are asked for, or run.
    relievers: usize,
    /// Those among them that block in place.
    blocked: usize,
    /// Threads, and tasks that their first run binds, that relievers came to: only a worker can start one. Empty unless
    /// all workers block.
    aside: Vec<Runnable>,
    /// How often a reliever has looked for a task: whoever comes next goes on with the next queue.
    turn: u32,
}

impl Relief {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No foreign code runs under the lock, so nothing is half done in a poisoned one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `f`, which may block the calling OS thread; what that thread leaves undone meanwhile others may do.
pub(crate) fn block_in_place<R>(f: impl FnOnce() -> R) -> R {
    let _left = Left::here();
    // Nobody fills the budget in there: the task, or the future of `block_on`, does not give way.
    coop::without_limit(f)
}

/// While it lives, its thread may block, and its worker has nothing that others may run.
struct Left {
    shared: Arc<Shared>,
    /// `None` only in `drop`.
    away: Option<Away>,
    /// Null on a worker.
    relieves: *const Shared,
    /// `None` only in `drop`.
    stay: Option<Stay>,
    _runtime: Option<current::EnterGuard>,
}

/// While it lives, the thread runs tasks of a scheduler whose workers block.
struct Serving(());

impl Serving {
    fn begin(shared: &Shared) -> Self {
        RELIEVES.set(shared);
        Self(())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        RELIEVES.set(ptr::null());
    }
}

impl Left {
    /// Lets go, if the calling thread is a worker that stays, or a reliever, and has not let go already.
    fn here() -> Option<Self> {
        if is_away() {
            return None;
        }
        let relieves = RELIEVES.get();
        let shared = Context::with(|context| match context {
            Some(context) if context.unwinding.get() => None,
            Some(context) => {
                // First: what is pushed after that has other witnesses.
                context.shared.sleepers.goes_away(context.shared.group_of(context.id));
                context.hand_over();
                let _had = context.gives_turn_back();
                Some(context.shared.clone())
            }
            // SAFETY: set only while a reliever runs tasks, which has a reference of its own.
            None => unsafe { relieves.as_ref() }.map(Shared::arc),
        })?;
        let runtime = Handle::try_current().map(current::enter);
        RELIEVES.set(ptr::null());
        let left = Self {
            stay: Some(Stay::in_place(&shared)),
            shared,
            away: Some(Away::begin()),
            relieves,
            _runtime: runtime,
        };
        left.shared.blocks(left.is_reliever());
        if left.shared.clock.is_paused() {
            // Who waits for a turn sees that the worker is away.
            left.shared.clock.notify_turns();
        }
        Some(left)
    }

    fn is_reliever(&self) -> bool {
        !self.relieves.is_null()
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        drop(self.away.take());
        Context::with(|context| {
            if let Some(context) = context {
                context.shared.sleepers.comes_back(context.shared.group_of(context.id));
            }
        });
        RELIEVES.set(self.relieves);
        self.shared.returns(self.is_reliever());
        Context::with(|context| context.into_iter().for_each(Context::take_turn));
        if let Some(stay) = self.stay.take() {
            stay.ends_in(&self.shared);
        }
    }
}

impl Context {
    /// Puts what is in slot and deque where anyone may take it, and wakes somebody for it.
    fn hand_over(&self) {
        self.me().counters.blocks_in_place.add(1);
        self.hand_over_ring();
        let mut tasks = Vec::new();
        // The deque first, whose tasks have waited longer.
        while let Some(runnable) = self.local.pop().or_else(|| self.me().slot.take()) {
            tasks.push(runnable);
        }
        self.shared.inject_all(tasks, self.llc(), Some(self));
    }
}

impl Shared {
    /// Pushes `tasks` into the injector of `llc`, and wakes an idle worker for them if there is one.
    fn inject_all(&self, tasks: Vec<Runnable>, llc: usize, by: Option<&Context>) {
        if tasks.is_empty() {
            return;
        }
        let injector = &self.injectors[llc];
        let push = || tasks.into_iter().for_each(|runnable| injector.push(runnable));
        // It always pays: the pusher, who seems awake, may not come to it.
        let near = (llc, &*self.policy.plan.llcs[llc].others);
        let llc = LlcId(u16::try_from(llc).expect("LLCs fit u16"));
        if publish::to_anyone(push, &self.sleepers, llc.index(), near, |_| true) {
            self.wake_any(llc, by);
        } else {
            self.keep_watch(llc, by);
        }
    }

    /// The calling thread is about to block. If nobody is left to run tasks, asks for a reliever, beyond the bound of
    /// the pool: what blocks may be waiting for the pool, and what has all its threads for a task. There are as many
    /// relievers as other jobs, at most; then whoever returns runs tasks.
    fn blocks(&self, is_reliever: bool) {
        let mut state = self.relief.lock();
        if is_reliever {
            state.blocked += 1;
        } else {
            state.workers += 1;
        }
        if state.workers < self.worker_count() {
            return;
        }
        if state.relievers > state.blocked {
            drop(state);
            // Who was asked for may be in the queue still: the system had no thread, and the pool's others are busy.
            self.pool.call_for_beyond();
            return;
        }
        if state.relievers >= self.pool.threads_max() {
            return;
        }
        state.relievers += 1;
        drop(state);
        let reliever = Reliever {
            shared: self.arc(),
            on_account: true,
            counted: false,
        };
        // Refused, it is dropped, which takes it off the account: the runtime stops, or the pool has no thread and the
        // system none to give. If the pool has some, all busy, it waits for them, and the next call asks the system
        // again.
        if let Err(rejected) = self.pool.submit_beyond(Box::new(|| reliever.run())) {
            drop(rejected.job);
        }
    }

    /// The calling thread has blocked, and goes on.
    fn returns(&self, is_reliever: bool) {
        let mut state = self.relief.lock();
        if is_reliever {
            state.blocked -= 1;
        } else {
            state.workers -= 1;
        }
        let aside = if is_reliever {
            Vec::new()
        } else {
            std::mem::take(&mut state.aside)
        };
        drop(state);
        self.relief.changed.notify_all();
        Context::with(|context| self.inject_all(aside, context.map_or(0, Context::llc), context));
    }
}

/// A thread of the blocking pool that runs tasks while all workers block in place. Dropping it takes it off the
/// account.
struct Reliever {
    shared: Arc<Shared>,
    /// It is one of [`State::relievers`].
    on_account: bool,
    /// It counts as a worker that may run tasks.
    counted: bool,
}

impl Reliever {
    fn run(mut self) {
        let shared = self.shared.clone();
        if !self.begins(&shared) {
            return;
        }
        // Until it is counted out: then it may be the one who drops all tasks.
        let _runtime = current::enter(Handle { shared: shared.clone() });
        let _relieving = Relieving::begin();
        let serving = Serving::begin(&shared);
        let mut catch = Catch::new();
        while let Some(turn) = self.next_turn(&shared) {
            shared.poll_all(&mut catch, shared.policy.config.poll_interval);
            shared.fire_of_all();
            // At work before it has a task, which nobody else knows of then.
            let stay = Stay::at_work(&shared);
            let task = shared.take_any(turn);
            let is_dry = task.is_none();
            match task {
                Some(thread) if thread.meta().has(BINDS) => shared.set_aside(thread),
                Some(task) => {
                    coop::start(shared.policy.config.budget);
                    let ran = task.run();
                    coop::stop();
                    shared.has_run(ran);
                }
                None => {}
            }
            stay.ends_in(&shared);
            if is_dry {
                self.waits(&shared, &mut catch);
            }
        }
        drop(serving);
        drop(self);
    }

    /// Unless it leaves: which turn this is.
    fn next_turn(&mut self, shared: &Shared) -> Option<u32> {
        let mut state = self.goes_on(shared)?;
        state.turn = state.turn.wrapping_add(1);
        Some(state.turn)
    }

    /// Counts as a worker from now on, if it is still wanted. Then all workers block: none has left.
    fn begins(&mut self, shared: &Shared) -> bool {
        let Some(state) = self.goes_on(shared) else {
            return false;
        };
        // Who counts either down to zero has yet to return, by way of the lock that we hold.
        shared.looping.count_up();
        shared.running.count_in();
        drop(state);
        self.counted = true;
        true
    }

    /// Unless there are events sleeps until somebody returns, or for an interval: a wake-up that finds nobody idle
    /// tells nobody. A clock that stands jumps in place of that, if everybody else waits, as for a worker that sleeps.
    fn waits(&mut self, shared: &Shared, catch: &mut Catch) {
        let may_jump = shared.clock.may_jump();
        if shared.poll_all(catch, Nanos(0)) {
            return;
        }
        let interval = Duration::from_nanos(shared.policy.config.sentinel_interval.0.min(shared.next_timer()));
        if let Some(state) = self.goes_on(shared) {
            // Nobody returns under the guard. What was pushed by who is not at work any more is seen after the look.
            if may_jump && shared.is_drained() && shared.clock.jump(shared.first_timer()) {
                return;
            }
            drop(shared.relief.changed.wait_timeout(state, interval));
        }
    }

    /// Whether it is the only one who is there for the tasks; then nobody returns as long as the guard is held. If it
    /// is not, it is off the account, so that of two that meet one stays.
    fn goes_on<'a>(&mut self, shared: &'a Shared) -> Option<MutexGuard<'a, State>> {
        if !self.on_account {
            return None;
        }
        let mut state = shared.relief.lock();
        let is_needed = state.workers == shared.worker_count() && state.relievers - state.blocked == 1;
        if is_needed && !shared.sleepers.is_stopping() {
            return Some(state);
        }
        state.relievers -= 1;
        self.on_account = false;
        None
    }
}

impl Drop for Reliever {
    fn drop(&mut self) {
        if self.on_account {
            self.shared.relief.lock().relievers -= 1;
        }
        if self.counted {
            self.shared.count_out();
        }
    }
}

impl Shared {
    /// A task out of the queues that anyone may drain, whatever policies say. Each is the first to be looked at in its
    /// `turn` (W5): any of them may never be empty.
    fn take_any(&self, turn: u32) -> Option<Runnable> {
        let start = turn as usize / 2;
        let from_groups = || in_turn(self.groups.len(), start).find_map(|group| self.take_from_group(group));
        let from_injectors = || {
            let injectors = self.injectors.len();
            in_turn(injectors + self.exports.len(), start).find_map(|index| match index.checked_sub(injectors) {
                None => self.injectors[index].pop_one(),
                Some(index) => self.exports[index].pop_one(),
            })
        };
        if turn.is_multiple_of(2) {
            from_groups().or_else(from_injectors)
        } else {
            from_injectors().or_else(from_groups)
        }
    }

    /// Whether there is nothing that `take_any` would find.
    fn is_drained(&self) -> bool {
        self.groups.iter().all(|group| group.is_empty())
            && self.injectors.iter().all(|injector| injector.is_empty())
            && self.exports.iter().all(|queue| queue.is_empty())
    }

    /// Whether some worker's task blocks in place.
    pub(crate) fn is_worker_away(&self) -> bool {
        self.relief.lock().workers > 0
    }

    /// Leaves a thread, which a reliever can't start, to the first worker that returns.
    fn set_aside(&self, thread: Runnable) {
        let mut state = self.relief.lock();
        if state.workers == self.worker_count() {
            state.aside.push(thread);
        } else {
            drop(state);
            self.inject_all(vec![thread], 0, None);
        }
    }

    fn take_from_group(&self, group: usize) -> Option<Runnable> {
        let (found, claimed) =
            publish::rescue_from_group((&self.groups[group], 0), clock::nanos(), &self.sleepers, group, drop);
        if let Some(seat) = claimed {
            self.wake_claimed(seat, None);
        }
        found
    }
}

/// The numbers below `count`, from `start` round to the one before it.
fn in_turn(count: usize, start: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |step| (start + step) % count)
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use quadrille_policy::{Claim, SetId, WorkerId};

    use super::*;
    use crate::primitives::Ordering;
    use crate::sched::schedule;
    use crate::sched::still::Still;

    /// Nothing is left in slot and deque, an idle worker is claimed, and the thread is a worker again when the call has
    /// ended.
    #[test]
    fn the_worker_lets_go_of_what_it_has() {
        for config in ["groups=off", "groups=on"] {
            let mut still = Still::new("llc:2 core:2", config);
            let worker = still.worker(2);
            (0..5).for_each(|_| worker.context.local.push(still.task(2, SetId::NONE)));
            worker.context.me().slot.replace(still.task(2, SetId::NONE));
            still.announce(0);
            let entered = worker.context.enter();
            block_in_place(|| {
                assert!(Context::with(|context| context.is_none()));
                assert!(worker.context.me().slot.is_empty() && worker.context.local.len() == 0);
                let queued: Vec<_> = still.shared.injectors.iter().map(|injector| injector.len()).collect();
                assert_eq!(queued, [0, 6], "near the worker");
                assert!(
                    !still.is_idle(0),
                    "somebody is claimed, if he sleeps behind another cache"
                );
            });
            assert!(Context::with(|context| context.is_some_and(|context| context.id.0 == 2)));
            assert_eq!(worker.context.me().counters.blocks_in_place.get(), 1);
            drop(entered);
        }
    }

    /// A worker with nothing to leave wakes nobody.
    #[test]
    fn nobody_is_woken_for_nothing() {
        let mut still = Still::new("core:2", "default");
        let worker = still.worker(0);
        still.announce(1);
        let entered = worker.context.enter();
        block_in_place(|| assert!(still.is_idle(1)));
        drop(entered);
        assert!(still.is_idle(1));
    }

    /// Who blocks in place is no witness of what is pushed meanwhile, for anyone or for its group.
    #[test]
    fn who_blocks_is_no_witness() {
        for machine in ["llc:2 core:1", "l2:1 core:2"] {
            let mut still = Still::new(machine, "groups=off");
            let shared = still.shared.clone();
            let worker = still.worker(0);
            still.announce(1);
            // Its tasks are short: it would be worth waiting for.
            shared.workers[0].told.average_run.store(1, Ordering::Relaxed);
            let (task, other) = (still.task(0, SetId::NONE), still.task(0, SetId::NONE));
            let entered = worker.context.enter();
            block_in_place(|| {
                schedule(task);
                assert!(!still.is_idle(1), "{machine}");
                still.announce(1);
                let group = still.shared.group_of(WorkerId(1));
                still.shared.publish_group(other, group, Claim::Nobody, None);
                assert!(!still.is_idle(1), "{machine}");
            });
            drop(entered);
            let sleepers = &still.shared.sleepers;
            assert_eq!(
                sleepers.awake_and_idle(0),
                (1 + u32::from(machine.starts_with("l2")), 0),
                "it is back"
            );
        }
    }

    /// Workers 2 and 3 are awake behind the second cache, in groups that count for the first.
    #[test]
    fn members_behind_another_cache_are_no_witness() {
        let still = Still::new("llc:2 core:2", "groups=off,group-map=0+2/1+3");
        still.announce(0);
        still.announce(1);
        still.shared.workers[0].told.average_run.store(1, Ordering::Relaxed);
        schedule(still.task(0, SetId::NONE));
        assert!(!still.is_idle(0) || !still.is_idle(1));
    }
}
