//! Threads on which user code may block: bounded, started on demand, gone when idle for long.
//!
//! # Vocabulary
//!
//! A *job* is a closure that may block. A thread is *busy* while it runs jobs, *asleep* while it waits for one. A
//! *permit* is a wake-up that was promised to a thread that is asleep; *idle* counts the sleepers without a promise.
//! One of those asleep may *watch*: it has not blocked yet, and spins until it is told of a promise, or for some
//! microseconds ([`watch`]). A thread is *stopping* from its last sleep on until the hook of
//! [`Builder::on_thread_stop`](crate::Builder::on_thread_stop) has returned, and then it *leaves*.
//!
//! # Rules
//!
//! 1. Everything that threads agree on is in [`State`], under one lock.
//! 2. At most `threads_max` threads at any time; jobs beyond that wait in a queue without bound. A job may be *beyond
//!    the bound* ([`Pool::submit_beyond`]): it goes before all others, and until it has ended there may be one thread
//!    more. Who ran it leaves then, if that makes one thread too many. Since no other job begins while such a one
//!    waits, never more than `threads_max` others run.
//! 3. A thread that found no job for `keep_alive` stops: it calls the hook, which is the user's and may take its time,
//!    like a last job of its own. It counts as a thread until that has returned or panicked: for the bound, and for who
//!    waits in [`Pool::shutdown`]. Then it looks at the queue once more. If there is a job it begins anew, with the
//!    hook of [`Builder::on_thread_start`](crate::Builder::on_thread_start), rather than have a thread started in its
//!    place, which the system might refuse; else it leaves.
//! 4. No job runs, and no job is dropped, while the lock is held; a panic of either never ends a thread. A new thread
//!    is started under the lock: that makes (c) below simple, and it happens rarely.
//! 5. When the pool stops, jobs that have not begun are dropped, except those that were submitted to be [run all the
//!    same](AtStop::Run): writes that the caller was told are on their way.
//!
//! # Who is called
//!
//! *On their way* are the threads with a permit, and those that were started and have not begun yet. Who queues a job
//! calls one thread (a permit for one of those asleep, or else a new thread), unless as many are on their way as jobs
//! wait, or two: whichever of them comes first may have done all that waits before the next is awake. Who comes, and
//! has taken a job, calls two more if there are jobs for them; a new thread does so before its start hook. One in its
//! hook is not on its way, since that may take its time: those who are idle are called all the same, but no other
//! thread is started for the job that it will take. Who has had a job before and takes the next one calls nobody,
//! unless nobody is on their way. A worker that waits for a reliever of which the system has refused the thread calls
//! again (`call_for_beyond`). So short jobs have few threads, and many jobs that block have theirs in a few steps,
//! each as long as a wake-up. Why two and not one: who calls has unlocked before it notifies, and may lose its CPU in
//! between. Until it is back one job may wait for that, as for any thread that is ready and has no CPU; the second
//! calls another. Somebody who watches gets a permit all the same, since to tell him costs nothing.
//!
//! # No job is lost
//!
//! Claim: while the queue isn't empty, some thread looks at the queue before it sleeps or leaves. It follows from this,
//! which holds at every unlock until the pool stops: *if the queue isn't empty, somebody is on their way, or nobody is
//! idle*, and so all threads are busy (in their start hook, too) or stopping. And no job waits for one that blocks, but
//! for a start hook that does: if nobody is on their way there is a thread in its hook for each job, or there are as
//! many threads as there may be, or the last start was refused. Each step that could break it happens under the lock:
//!
//! - (a) A thread sleeps or leaves only after it has seen an empty queue in the same critical section, so a job that
//!   was there before is not left behind. One that is stopping has not left: it looks again.
//! - (b) A job is queued, or a thread that was on its way has taken one and left others ([`Shared::call`]): while
//!   nobody is on their way, one of the idle becomes a permit. Threads that are asleep = idle + permits holds at every
//!   unlock, and to each permit belongs a thread that is awake, or a notification to come: that sleeper is woken by the
//!   `notify_one` that follows, or it is just waking for another reason (time-out, a stray wake-up, another's
//!   notification); in either case it takes a permit before it considers to leave, and then looks at the queue. If
//!   somebody watches the promise is taken for his, and nobody is notified: he looks for permits when he is told, or
//!   else when his time is over, before he blocks. Who calls writes `Told` under the lock, and who comes back takes it
//!   away under the lock, so that no two promises are taken for his.
//! - (c) As (b), but nobody is idle and there are fewer threads than the maximum: a thread is started, which begins by
//!   looking at the queue. If the system refuses, either there are other threads, all busy, promised or stopping, which
//!   look by (a) before they sleep or leave, or there is none, and then the queue held this job alone: it goes back to
//!   the caller.
//! - (d) Nobody is idle and the maximum is reached: all threads are busy, promised or stopping; as (c).
//! - (e) A thread that is one too many (rule 2) leaves others behind, `threads_max` at least. If jobs wait, one of
//!   those is on its way, or none of them is idle: it looks by (a), or is one too many itself, and then the same holds
//!   for the rest.
//!
//! While the pool stops, [`Pool::shutdown`] has taken from the queue what it drops, which only helps the claim, and
//! `submit` hands every job back. Threads that sleep go the way of (a), too: all of them are woken, and each looks at
//! the queue.
//!
//! The losing interleaving, if a thread ceased to count before its hook: with room for one thread, the second submitter
//! starts another one beside the hook, and `shutdown` finds no thread: it waits for the hook by joining it, or, with a
//! limit, tells of nobody.
//!
//! Another, if a thread without a hook unlocked between its last sleep and leaving: a `shutdown` without time sees a
//! thread that is neither asleep nor gone, and tells of a job that isn't there.
//!
//! A thread that has left still drops its thread-locals, and one of those may own the runtime, whose end is
//! [`Pool::shutdown`] without a limit. It would join the thread that left last: itself, or one that is joining it. So a
//! thread that has left a pool joins none of its threads: they end by themselves.

mod job;
mod state;
mod watch;

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use quadrille_policy::{Config, Nanos};

pub(crate) use self::job::{AtStop, Job, Reason, Rejected};
use self::job::{Place, Queued};
use self::state::{Calls, State};
use self::watch::Watch;
use crate::panics::quietly;
use crate::primitives::{Ordering, StaticU64};
use crate::sys::clock;
use crate::sys::thread::{Spawner, Threads};

/// How many others a thread calls that was called itself.
const CALLS: usize = 2;

/// While so many are on their way, who queues a job calls nobody but the watcher.
const ON_THEIR_WAY: usize = 2;

thread_local! {
    /// The number of the pool that the calling thread has left.
    static HAS_LEFT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Bounds of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Most threads at a time, at least 1. Default 512.
    pub(crate) threads_max: usize,
    /// How long an idle thread stays. Default 10 s.
    pub(crate) keep_alive: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            threads_max: 512,
            keep_alive: Duration::from_secs(10),
        }
    }
}

/// The threads for work that blocks, at one moment, and what they have been given since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockingMetrics {
    /// Threads that exist; at most [`Builder::max_blocking_threads`](crate::Builder::max_blocking_threads), 512 by
    /// default, and those that run tasks while all workers are in [`block_in_place`](crate::task::block_in_place).
    pub threads: usize,
    /// Threads without a job, among them.
    pub idle_threads: usize,
    /// Jobs that wait for a thread, which may be on its way: if this stays above zero, all threads are busy, or in
    /// their stop hook.
    pub queued: usize,
    /// Threads that were started so far. More than now and then one a second says that
    /// [`Builder::thread_keep_alive`](crate::Builder::thread_keep_alive) is too short for how the jobs come.
    pub threads_started: u64,
    /// Jobs that were accepted so far.
    pub jobs: u64,
}

/// A bounded pool of threads. Dropping it stops it without waiting for jobs that run.
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

impl Pool {
    /// A pool without threads as yet; they will be called `name-0`, `name-1` and so on. `config` says which of them
    /// spin before they sleep, once [`watch_for`](Self::watch_for) has said for how long.
    pub(crate) fn new(limits: Limits, name: impl Into<String>, spawner: Spawner, config: Config) -> Self {
        let limits = Limits {
            threads_max: limits.threads_max.max(1),
            ..limits
        };
        static POOLS: StaticU64 = StaticU64::new(0);
        let shared = Shared {
            // Ordering: Relaxed; a number that no other has.
            number: POOLS.fetch_add(1, Ordering::Relaxed),
            limits,
            name: name.into(),
            spawner,
            watch: Watch::new(config),
            state: Mutex::default(),
            work: Condvar::new(),
            left: Condvar::new(),
        };
        Pool {
            shared: Arc::new(shared),
        }
    }

    /// From now on a thread that is out of jobs spins for so long before it sleeps, in which it costs nothing to wake
    /// it; zero: not at all.
    pub(crate) fn watch_for(&self, limit: Nanos) {
        self.shared.watch.lasts(limit);
    }

    /// Queues `job` and sees to it that a thread will take it; `at_stop` says what becomes of it if the pool stops
    /// before.
    ///
    /// # Errors
    ///
    /// Gives the job back if the pool stops, or if it has no thread and can't get one.
    pub(crate) fn submit_with(&self, job: Job, at_stop: AtStop) -> Result<(), Rejected> {
        self.enqueue(Queued {
            job,
            at_stop,
            place: Place::Bounded,
        })
    }

    /// The same for a job on which those may wait that have all the places, or wait for one: it goes before all others,
    /// and takes none.
    ///
    /// # Errors
    ///
    /// As [`submit_with`](Self::submit_with).
    pub(crate) fn submit_beyond(&self, job: Job) -> Result<(), Rejected> {
        self.enqueue(Queued {
            job,
            at_stop: AtStop::Drop,
            place: Place::Beyond,
        })
    }

    /// Calls a thread, if a job beyond the bound waits and nobody is on their way: the system has refused one.
    pub(crate) fn call_for_beyond(&self) {
        let mut state = self.shared.lock();
        let waits = state.queue.front().is_some_and(|first| first.place == Place::Beyond);
        if !waits || state.on_their_way() > 0 {
            return;
        }
        // Refused once more: the job waits for those who are busy, as before.
        let calls = self.shared.call(&mut state, 1).unwrap_or_default();
        drop(state);
        self.shared.make(calls);
    }

    fn enqueue(&self, queued: Queued) -> Result<(), Rejected> {
        let mut state = self.shared.lock();
        if state.stopping {
            drop(state);
            return Err(Rejected {
                job: queued.job,
                reason: Reason::Stopping,
            });
        }
        let place = queued.place;
        state.push(queued);
        let most = usize::from(state.on_their_way() < ON_THEIR_WAY);
        match self.shared.call(&mut state, most) {
            Ok(calls) => {
                drop(state);
                self.shared.make(calls);
                Ok(())
            }
            Err(error) => {
                let job = state.unpush(place);
                drop(state);
                Err(Rejected {
                    job,
                    reason: Reason::NoThread(error),
                })
            }
        }
    }

    /// Most threads at a time, without those for jobs beyond the bound.
    pub(crate) fn threads_max(&self) -> usize {
        self.shared.limits.threads_max
    }

    /// Who starts its threads.
    pub(crate) fn spawner(&self) -> &Spawner {
        &self.shared.spawner
    }

    /// How busy the pool is now.
    pub(crate) fn load(&self) -> BlockingMetrics {
        let state = self.shared.lock();
        BlockingMetrics {
            threads: state.threads,
            idle_threads: state.idle,
            queued: state.queue.len(),
            threads_started: state.next,
            jobs: state.jobs,
        }
    }

    /// Stops the pool: drops the jobs that have not begun, but for those that are run all the same, and waits until the
    /// others and the hooks of threads that stop have returned, or `limit` has passed. Without a limit it waits for the
    /// threads' thread-locals, too. Returns how many threads had a job or a hook to run still, and are abandoned to
    /// finish on their own.
    ///
    /// May be called again, and from one of the pool's own jobs: that one isn't waited for, but counted as abandoned.
    pub(crate) fn shutdown(&self, limit: Option<Duration>) -> usize {
        let until = limit.map(clock::after);
        let queued = {
            let mut state = self.shared.lock();
            state.stopping = true;
            let (run, dropped): (VecDeque<_>, VecDeque<_>) = mem::take(&mut state.queue)
                .into_iter()
                .partition(|queued| queued.at_stop == AtStop::Run);
            state.queue = run;
            state.beyond -= dropped.iter().filter(|queued| queued.place == Place::Beyond).count();
            dropped
        };
        self.shared.work.notify_all();
        self.shared.watch.tells();
        queued.into_iter().for_each(|queued| quietly(|| drop(queued.job)));

        let mut state = self.shared.lock();
        let own = usize::from(state.is_own(thread::current().id()));
        while state.threads > own {
            match self.shared.wait(&self.shared.left, state, until) {
                (guard, Waited::Woken) => state = guard,
                (guard, Waited::TooLong) => {
                    state = guard;
                    break;
                }
            }
        }
        // Those who sleep have been told, and run nothing on their way out, unless there is a hook, or a job is left
        // for one that was promised.
        let at_rest = if self.shared.spawner.has_stop_hook() {
            0
        } else {
            (state.idle + state.permits).saturating_sub(state.queue.len())
        };
        let abandoned = state.threads - at_rest;
        let last = state.last_left.take();
        drop(state);
        // With a limit nobody waits for the thread-locals of who has left, which may take their time; nor does such a
        // thread-local.
        let waits = limit.is_none() && HAS_LEFT.get() != Some(self.shared.number);
        last.filter(|_| waits).map(JoinHandle::join);
        abandoned
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shutdown(Some(Duration::ZERO));
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("limits", &self.shared.limits)
            .field("load", &self.load())
            .finish()
    }
}

/// What the pool and its threads share.
struct Shared {
    /// No other pool of the process has it.
    number: u64,
    limits: Limits,
    name: String,
    spawner: Spawner,
    watch: Watch,
    state: Mutex<State>,
    /// A permit was added, or the pool stops.
    work: Condvar,
    /// A thread has left.
    left: Condvar,
}

/// How a wait ended.
enum Waited {
    Woken,
    TooLong,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No foreign code runs under the lock, so nothing is half done in a poisoned one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Most threads that there may be now.
    fn threads_max(&self, state: &State) -> usize {
        self.limits.threads_max.saturating_add(state.beyond)
    }

    /// Whether one of the threads has to leave (rule 2).
    fn has_too_many(&self, state: &State) -> bool {
        state.threads > self.threads_max(state)
    }

    /// Calls so many threads at most for jobs that wait and have none on its way: those asleep, and where there are
    /// none new ones.
    ///
    /// # Errors
    /// If no thread can be started and there is none: then nobody was called.
    fn call(self: &Arc<Self>, state: &mut State, most: usize) -> io::Result<Calls> {
        if state.stopping && state.idle > 0 {
            // All of them have been woken.
            return Ok(Calls::default());
        }
        let mut calls = Calls {
            watcher: !state.queue.is_empty() && Watch::is_promised(&mut state.post),
            sleepers: 0,
        };
        if calls.watcher {
            state.promise();
        }
        for _ in usize::from(calls.watcher)..most {
            if state.on_their_way() >= state.queue.len() {
                break;
            }
            if state.idle > 0 {
                state.promise();
                calls.sleepers += 1;
            } else if state.on_their_way() + state.hooking >= state.queue.len()
                || state.threads >= self.threads_max(state)
            {
                break;
            } else if let Err(error) = start_thread(self, state) {
                if state.threads == 0 {
                    return Err(error);
                }
                break;
            }
        }
        Ok(calls)
    }

    /// Makes the calls; without the lock, which who is called takes at once.
    fn make(&self, calls: Calls) {
        if calls.watcher {
            self.watch.tells();
        }
        (0..calls.sleepers).for_each(|_| self.work.notify_one());
    }

    /// Waits for `event`, but not beyond `until`.
    fn wait<'a>(
        &'a self,
        event: &Condvar,
        state: MutexGuard<'a, State>,
        until: Option<Instant>,
    ) -> (MutexGuard<'a, State>, Waited) {
        let Some(until) = until else {
            return (event.wait(state).unwrap_or_else(PoisonError::into_inner), Waited::Woken);
        };
        let left = until.saturating_duration_since(clock::now());
        if left.is_zero() {
            return (state, Waited::TooLong);
        }
        let (state, _) = event.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        (state, Waited::Woken)
    }

    /// Takes a job from the queue, if need be after a sleep, and says who is called for the next ones; `None` if the
    /// thread shall stop. Who comes, because he was called, calls others.
    fn next_job<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
    ) -> (MutexGuard<'a, State>, Option<(Queued, Calls)>) {
        let mut comes = false;
        loop {
            // A thread that was started for a job beyond the bound which was dropped then has no place.
            if state.stopping && self.has_too_many(&state) {
                return (state, None);
            }
            if let Some(queued) = state.queue.pop_front() {
                // Nobody is called for those that wait only if no thread could be had.
                let most = if comes {
                    CALLS
                } else {
                    usize::from(state.on_their_way() == 0)
                };
                // There is a thread: ours.
                let calls = self.call(&mut state, most).unwrap_or_default();
                return (state, Some((queued, calls)));
            }
            if state.stopping {
                return (state, None);
            }
            (state, comes) = self.sleep(state);
            if !comes && state.queue.is_empty() {
                return (state, None);
            }
        }
    }

    /// Sleeps until a permit can be taken (`true`), or the thread has been idle for long or the pool stops (`false`).
    fn sleep<'a>(&'a self, mut state: MutexGuard<'a, State>) -> (MutexGuard<'a, State>, bool) {
        let until = clock::after(self.limits.keep_alive);
        state.idle += 1;
        if let Some(limit) = self.watch.begins(&mut state.post) {
            drop(state);
            self.watch.spin(limit);
            state = self.lock();
            Watch::ends(&mut state.post);
        }
        loop {
            if state.permits > 0 {
                state.permits -= 1;
                return (state, true);
            }
            if state.stopping {
                state.idle -= 1;
                return (state, false);
            }
            let waited;
            (state, waited) = self.wait(&self.work, state, Some(until));
            // Nothing was unlocked on the way to `TooLong`: there is still no permit.
            if matches!(waited, Waited::TooLong) {
                state.idle -= 1;
                return (state, false);
            }
        }
    }

    /// Runs jobs until the thread shall stop; the lock is held on return, since the thread left its sleep, saw the
    /// queue empty, or was seen to be one too many.
    fn serve(self: &Arc<Self>, is_new: bool) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.hooking -= usize::from(is_new);
        loop {
            let taken;
            (state, taken) = self.next_job(state);
            let Some((Queued { job, place, .. }, calls)) = taken else {
                return state;
            };
            drop(state);
            self.make(calls);
            quietly(job);
            state = self.lock();
            if place == Place::Beyond {
                state.beyond -= 1;
                if self.has_too_many(&state) {
                    return state;
                }
            }
        }
    }

    /// A new thread is there. It calls others before its hook, which may take its time.
    fn comes(self: &Arc<Self>) {
        let mut state = self.lock();
        state.starting -= 1;
        state.hooking += 1;
        // There is a thread: ours.
        let calls = self.call(&mut state, CALLS).unwrap_or_default();
        drop(state);
        self.make(calls);
    }

    /// The life of thread `number`, its hooks among it (rule 3).
    fn run(self: &Arc<Self>, number: u64, hooks: &Threads) {
        self.comes();
        let mut is_new = true;
        let mut state = loop {
            hooks.start();
            let mut state = self.serve(mem::take(&mut is_new));
            // Without a hook it leaves in the section that ended its sleep: who looks between two would count it as one
            // that runs something.
            if hooks.on_stop.is_some() {
                drop(state);
                hooks.stop();
                state = self.lock();
            }
            if state.queue.is_empty() || self.has_too_many(&state) {
                break state;
            }
        };
        state.threads -= 1;
        HAS_LEFT.set(Some(self.number));
        let own = state.handles.remove(&number);
        let previous = mem::replace(&mut state.last_left, own);
        drop(state);
        self.left.notify_all();
        // It has left before: this takes no time, or as long as its thread-locals need to be dropped.
        previous.map(JoinHandle::join);
    }
}

/// Starts one more thread; the lock is held, so that it finds its handle when it leaves.
fn start_thread(shared: &Arc<Shared>, state: &mut State) -> io::Result<()> {
    let number = state.next;
    let body = Arc::clone(shared);
    let handle = shared
        .spawner
        .spawn_bare(format!("{}-{number}", shared.name), move |hooks| {
            body.run(number, hooks)
        })?;
    state.next += 1;
    state.threads += 1;
    state.starting += 1;
    state.handles.insert(number, handle);
    Ok(())
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests;
