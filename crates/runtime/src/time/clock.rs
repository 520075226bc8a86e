//! The clock of a runtime: the system's, or one that a test has paused.
//!
//! # The paused clock
//!
//! It stands still, until somebody [advances](advance) it, or until everything waits: then it jumps to the first
//! deadline. *Everything waits* when the runtime's one worker has found nothing to do (parking, steps 1 to 5), and
//! nobody else is *at work*: what may block, from the moment that it was handed to the pool, a task that blocks in
//! place, and a thread in `block_on`; but for those that wait in `block_on` for a wake-up that has not come
//! (`presence`). Before the jump the worker polls once more for what they may have made readable.
//!
//! Who ceases to be at work may be the last: it claims the worker if that is idle, as for a timer from outside (F b):
//! count, fence, look at the bit; against bit, fence, look at the count.
//!
//! So that the same test is the same each time, a thread in `block_on` and the worker take *turns*: the worker has it
//! until it finds nothing to do, the thread for one poll. (A worker that is never out of work gives it away after
//! 10,000 polls; one whose task blocks in place has none, and that task takes none.) A turn is that of the *pause* in
//! which it was taken, and nothing after it. The worker counts its tasks as if they took no time (`Pace`), and
//! `select!` draws from generators of its own (`branches/chance`).
//!
//! # What it costs where no clock is paused
//!
//! A look at a flag of the process wherever time is read for a timer; two counts for what may block; and in a runtime
//! of one worker, which a test may pause, some ten read-modify-writes for each `block_on`, and six each time that it
//! waits.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant as StdInstant};

use crate::current;
use crate::primitives::{AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, StaticUsize, fence};
use crate::runtime::{self, Handle};
use crate::sched::park::Sleepers;
use crate::sched::{Shared, publish};
use crate::sys::clock;
use crate::task::yield_now;
use crate::time::dial::Dial;
use crate::time::presence::pauses;

/// Clocks that were ever paused in this process.
static PAUSED: StaticUsize = StaticUsize::new(0);

/// Whether any clock of the process may be another than the system's.
#[inline(always)]
pub(crate) fn any_paused() -> bool {
    // Ordering: Relaxed; who pauses a clock and who reads it have a happens-before of their own, or none to speak of.
    // A model, which runs many times in a process, has to be the same each time.
    cfg!(quadrille_loom) || PAUSED.load(Ordering::Relaxed) != 0
}

/// Who may run, while the clock is paused.
#[derive(Debug, Default)]
struct Turn {
    holder: Option<Holder>,
    /// Threads that wait for it.
    guests: usize,
    /// The worker has given it away for one poll of a thread.
    lent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Worker,
    Guest,
}

/// The clock of one runtime.
#[derive(Debug)]
pub(crate) struct Clock {
    /// Stopped and started under the lock of `turn`.
    dial: Dial,
    /// Closures and threads that are at work.
    at_work: AtomicUsize,
    /// How often it was paused.
    pauses: AtomicUsize,
    turn: Mutex<Turn>,
    turn_ends: Condvar,
}

impl Clock {
    pub(crate) fn new(paused: bool) -> Self {
        let clock = Self {
            dial: Dial::new(),
            at_work: AtomicUsize::new(0),
            pauses: AtomicUsize::new(0),
            // The worker begins: it has yet to find that there is nothing to do.
            turn: Mutex::new(Turn::default()),
            turn_ends: Condvar::new(),
        };
        if paused {
            clock.pause(None, || ());
        }
        clock
    }

    /// What this clock shows when the system's shows `now`; that is read anew if this one was ever paused.
    #[inline]
    pub(crate) fn at(&self, now: u64) -> u64 {
        if any_paused() { self.dial_now_or(now) } else { now }
    }

    /// What it shows.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        if any_paused() { self.dial_now() } else { clock::nanos() }
    }

    #[cold]
    fn dial_now_or(&self, now: u64) -> u64 {
        self.dial.now_or(now, clock::nanos)
    }

    #[cold]
    fn dial_now(&self) -> u64 {
        self.dial.now(clock::nanos)
    }

    /// Whether it stands.
    #[inline]
    pub(crate) fn is_paused(&self) -> bool {
        any_paused() && self.dial.stands()
    }

    /// Stops it; the turn is `holder`'s. `before` is called when the pause has its number, before it begins. False if
    /// it stood already.
    fn pause(&self, holder: Option<Holder>, before: impl FnOnce()) -> bool {
        if self.is_paused() {
            return false;
        }
        // Ordering: Relaxed; see `any_paused`.
        PAUSED.fetch_add(1, Ordering::Relaxed);
        let mut turn = self.lock();
        // Ordering: Relaxed; written under the lock.
        self.pauses.fetch_add(1, Ordering::Relaxed);
        (turn.holder, turn.lent) = (holder, false);
        drop(turn);
        before();
        let _turn = self.lock();
        let goes = !self.dial.stands();
        if goes {
            self.dial.stop(clock::nanos);
        }
        goes
    }

    /// The same in a runtime with these `sleepers`; if that stops, the clock goes on.
    pub(crate) fn pause_in(&self, sleepers: &Sleepers, holder: Option<Holder>, before: impl FnOnce()) -> bool {
        let paused = self.pause(holder, before);
        // Ordering: SeqCst; the clock before the flag, against the flag before the clock in `outlasts`.
        fence(Ordering::SeqCst);
        if sleepers.is_stopping() {
            self.resume();
        }
        paused
    }

    /// It stands or goes: who waits for a turn must look again, and so must the worker, how long it may sleep. Whether
    /// that was idle and is claimed.
    #[must_use = "the claimed worker is owed a token"]
    pub(crate) fn changes(&self, sleepers: &Sleepers) -> bool {
        self.notify_turns();
        publish::to_owner(|| (), sleepers, sleepers.seat(0))
    }

    /// Lets it go on from where it stands. False if it went already.
    ///
    /// Others may do the same meanwhile, or move it: one of them is first, and the clock goes on from where it was
    /// moved.
    fn resume(&self) -> bool {
        if !self.is_paused() {
            return false;
        }
        let _turn = self.lock();
        self.dial.start(clock::nanos)
    }

    fn advance(&self, by: u64) {
        // At the last time whatever is set has come. Never to `u64::MAX`, at which no timer at all would look like one
        // that has come.
        let later = |time| clock::later_nanos(time, by);
        if !self.dial.move_while_it_stands(later) {
            // Its runtime has stopped.
            self.dial.move_while_it_goes(clock::nanos(), later);
        }
    }

    /// Its runtime stops, as the flag of `sleepers` says already: nobody would let it jump any more, so it goes, for
    /// those who wait for the timers of the runtime still.
    pub(crate) fn outlasts(&self) {
        // Ordering: SeqCst; the flag before the look at the clock, against a pause before the look at the flag
        // (`pause_in`).
        fence(Ordering::SeqCst);
        self.resume();
    }

    /// Which pause this is, from 1; while the clock goes, the last one.
    pub(crate) fn pause_number(&self) -> usize {
        // Ordering: Relaxed; compared, no more.
        self.pauses.load(Ordering::Relaxed)
    }

    /// For the worker, which is idle and has announced it, or a reliever, which looks again after an interval: whether
    /// the clock stands and nobody is at work. What they have done is done then.
    #[inline]
    pub(crate) fn may_jump(&self) -> bool {
        // Ordering: Acquire; pairs with the release of `ceases`. The fence of the announcement (W1 B) has come before,
        // against that of `ceases_to_work`.
        self.is_paused() && self.at_work.load(Ordering::Acquire) == 0
    }

    /// For the same worker: jumps to `first`, if it may. True if so.
    pub(crate) fn jump(&self, first: u64) -> bool {
        first != u64::MAX && self.may_jump() && self.dial.move_while_it_stands(|time| time.max(first))
    }

    /// Somebody is at work.
    pub(crate) fn works(&self) {
        // Ordering: Relaxed; the worker is told of what follows by a push, or by who is at work before (`block_on`).
        self.at_work.fetch_add(1, Ordering::Relaxed);
    }

    /// One of them is not any more. `Shared::ceases_to_work` tells the worker.
    pub(super) fn ceases(&self) {
        // Ordering: Release; what was done before comes before the jump, and before the poll that precedes it
        // (`may_jump`).
        self.at_work.fetch_sub(1, Ordering::Release);
    }

    /// The same. Whether the worker, which shall look whether that was the last, was idle and is claimed.
    #[must_use = "the claimed worker is owed a token"]
    pub(crate) fn ceases_to_work(&self, sleepers: &Sleepers) -> bool {
        self.ceases();
        // Ordering: SeqCst; the count before the look at the clock, against a pause before the worker's look at the
        // count: that has fenced since (W1 B).
        fence(Ordering::SeqCst);
        self.is_paused() && publish::to_owner(|| (), sleepers, sleepers.seat(0))
    }

    fn lock(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, turn: MutexGuard<'a, Turn>) -> MutexGuard<'a, Turn> {
        self.turn_ends.wait(turn).unwrap_or_else(PoisonError::into_inner)
    }

    /// The worker waits until no thread has the turn, and takes it, if the clock stands. The number of the pause.
    #[cold]
    pub(crate) fn take_workers_turn(&self, stops: impl Fn() -> bool) -> usize {
        let mut turn = self.lock();
        while turn.holder == Some(Holder::Guest) && self.is_paused() && !stops() {
            turn = self.wait(turn);
        }
        turn.holder = Some(Holder::Worker);
        turn.lent = false;
        self.pause_number()
    }

    /// The worker sleeps, or blocks in place, or will not be the only one any more.
    #[cold]
    pub(crate) fn end_workers_turn(&self) {
        let mut turn = self.lock();
        if turn.holder == Some(Holder::Worker) {
            turn.holder = None;
            self.turn_ends.notify_all();
        }
    }

    /// The worker, which may never be out of work, lets a thread poll once that waits for it.
    #[cold]
    pub(crate) fn lend_turn(&self, stops: impl Fn() -> bool) {
        let mut turn = self.lock();
        if turn.guests == 0 || turn.holder != Some(Holder::Worker) {
            return;
        }
        turn.holder = None;
        turn.lent = true;
        self.turn_ends.notify_all();
        while (turn.lent || turn.holder == Some(Holder::Guest)) && self.is_paused() && !stops() {
            turn = self.wait(turn);
        }
        turn.holder = Some(Holder::Worker);
        turn.lent = false;
    }

    /// A thread waits until the worker rests, or lends the turn, and takes it, if the clock stands and the runtime does
    /// not stop. The number of the pause; zero: it has no turn, and needs none.
    pub(super) fn take_guests_turn(&self, worker_rests: impl Fn() -> bool, stops: impl Fn() -> bool) -> usize {
        let mut turn = self.lock();
        turn.guests += 1;
        while self.is_paused() && !stops() && (turn.holder.is_some() || !(turn.lent || worker_rests())) {
            turn = self.wait(turn);
        }
        turn.guests -= 1;
        turn.lent = false;
        if self.is_paused() && !stops() {
            turn.holder = Some(Holder::Guest);
            return self.pause_number();
        }
        self.turn_ends.notify_all();
        0
    }

    /// The thread that took its turn in that pause has polled.
    pub(super) fn end_guests_turn(&self, pause: usize) {
        let mut turn = self.lock();
        if turn.holder == Some(Holder::Guest) && pause == self.pause_number() {
            turn.holder = None;
            self.turn_ends.notify_all();
        }
    }

    /// Whoever waits for a turn shall look again.
    pub(crate) fn notify_turns(&self) {
        drop(self.lock());
        self.turn_ends.notify_all();
    }
}

impl Shared {
    /// Somebody is not at work any more; if the clock stands, the worker shall look whether he was the last.
    pub(crate) fn ceases_to_work(&self) {
        if self.clock.ceases_to_work(&self.sleepers) {
            self.wake_claimed(self.sleepers.seat(0), None);
        }
    }

    /// Whether its clock was paused, and it stops: that may have ended the pause.
    fn outlasts_pause(&self) -> bool {
        self.sleepers.is_stopping() && self.clock.pause_number() > 0
    }

    /// The clock stands or goes: who sleeps must look how long.
    fn clock_changes(&self) {
        if self.clock.changes(&self.sleepers) {
            self.wake_claimed(self.sleepers.seat(0), None);
        }
    }
}

/// The current instant by the clock of the current runtime.
#[inline]
pub(crate) fn now() -> StdInstant {
    if any_paused() { now_of_current() } else { clock::now() }
}

#[cold]
fn now_of_current() -> StdInstant {
    let time = current::current().map(|handle| handle.shared.clock.now());
    time.map_or_else(clock::now, |time| {
        clock::from_nanos(i64::try_from(time).unwrap_or(i64::MAX))
    })
}

/// Stops the clock of the current runtime, for tests. From now on timers, [`Instant::now`](super::Instant::now) and all
/// of this module go by a time that stands still until [`advance`] moves it, or until everything waits, also what
/// [`spawn_blocking`](crate::spawn_blocking), [`block_in_place`](crate::task::block_in_place) and operations on files
/// are at: then it jumps to the deadline of the first timer. So a test that sleeps for an hour takes no time, and takes
/// the same course each time, by the runtime's [seed](crate::Builder::seed).
///
/// ```
/// # quadrille::Runtime::builder().worker_threads(1).build().unwrap().block_on(async {
/// use quadrille::time::{self, Duration, Instant};
///
/// time::pause();
/// let start = Instant::now();
/// time::sleep(Duration::from_secs(3600)).await;
/// assert_eq!(start.elapsed(), Duration::from_secs(3600));
/// # });
/// ```
///
/// What waits for something else than a timer of this runtime, a socket above all, does not keep the clock from
/// jumping; but what is readable or writable by then comes first, so that no time limit passes for what the runtime's
/// own tasks write to one another. While the clock is paused the thread in `block_on` and the worker run in turn:
/// blocked by other means than `.wait()`, such as a channel of std's, the thread waits for ever for a task. Nor must it
/// wait for one in a `block_on` that is inside of one of another runtime, inside of one of this. A job that waits for a
/// thread of a full pool ([`max_blocking_threads`](crate::Builder::max_blocking_threads)) is at work, too: if all
/// threads of the pool wait for the clock, it does not jump for them.
///
/// When the runtime stops the clock goes on from where it stands, and can't be paused any more: a `block_on` that still
/// waits for a timer then waits in real time, whatever [`advance`] does.
///
/// # Panics
///
/// Outside of a runtime, in one with more than one worker, and if the clock is paused (reported at the caller).
#[track_caller]
pub fn pause() {
    let (workers, paused) = runtime::with_current(|shared| {
        let workers = shared.worker_count();
        if workers != 1 {
            return (workers, false);
        }
        let paused = pauses(shared, |holder, before| {
            shared.clock.pause_in(&shared.sleepers, holder, before)
        });
        shared.clock_changes();
        (workers, paused)
    });
    // Not in the closure, which is not told of the caller.
    assert!(
        workers == 1,
        "the clock of a runtime can be paused if it has 1 worker, this one has {workers}: see `worker_threads`, or `start_paused`, which has 1 by default"
    );
    assert!(paused, "the clock is paused already");
}

/// Lets the clock of the current runtime go again, from where it stands.
///
/// # Panics
///
/// Outside of a runtime, and if the clock is not paused (reported at the caller).
#[track_caller]
pub fn resume() {
    let resumed = runtime::with_current(|shared| {
        // The end of its runtime may have resumed it.
        let resumed = shared.clock.resume() || shared.outlasts_pause();
        shared.clock_changes();
        resumed
    });
    assert!(resumed, "the clock is not paused");
}

/// Moves the paused clock of the current runtime by `duration`, and lets the tasks run whose timers expire by that.
///
/// They all see the new time: to see each deadline come, sleep. In a task of that runtime, and while nobody
/// [blocks in place](crate::task::block_in_place), the tasks and threads that are woken have run once when it returns,
/// in the order of their deadlines as far as they are of one kind: bound to the worker (`spawn_local`, `spawn_pinned`,
/// user-level threads) or not. Not where the task lets nobody else run meanwhile, by a foreign `block_on` of it.
///
/// A duration that the clock can't express, which lasts for 292 years, means about 30 years, as for
/// [`sleep`](super::sleep). At its end the clock stays, and what is set then is ready at once.
///
/// # Panics
///
/// Outside of a runtime, and if the clock is not paused.
///
/// # Cancel safety
///
/// Not safe to call again: the clock has been moved when the future was first polled.
pub async fn advance(duration: Duration) {
    let shared: Arc<Shared> = Handle::current().shared;
    let may_move = shared.clock.is_paused() || shared.outlasts_pause();
    assert!(may_move, "the clock is not paused");
    shared
        .clock
        .advance(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    let mut mark = shared.fire_moved();
    loop {
        yield_now().await;
        if mark.as_mut().is_none_or(|mark| shared.has_passed(mark)) {
            break;
        }
    }
}
