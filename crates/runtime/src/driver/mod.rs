//! Timers and readiness: one thread per runtime that waits for both, and wakes whoever waits for them.
//!
//! # Vocabulary
//!
//! The *driver thread* is started by the first timer or registration that needs it. A *timer* is a deadline with a waker.
//! A *source* is a descriptor with two *sides*, reading and writing; each side is *ready* or not, and has *waiters*. A
//! *tick* counts the events of a side.
//!
//! # Who owns what
//!
//! - [`State`], under one lock: the life of the thread, all timers, and for how long the thread is about to wait.
//! - `Sources`, under another: which source has which key. Keys aren't used twice, so a late event finds nothing.
//! - Each source has a lock of its own.
//!
//! No lock is held while another is taken, or while a waker is cloned, called or dropped. A waker that panics doesn't
//! end the thread.
//!
//! # A turn of the thread
//!
//! 1. Under the lock: note that it waits for nothing (`Wait::No`), take the timers that have expired.
//! 2. Wake them, and those that the events of the last wait concern.
//! 3. Under the lock: note until when it will wait (`Until` the first deadline, or `Forever`). If a timer has expired in the
//!    meantime, it waits for no time, and the note stays `No`.
//! 4. Wait in the poller. Go to 1.
//!
//! # No wake-up is lost: timers
//!
//! A task polls a timer: it reads the clock, finds the deadline ahead, and inserts (deadline, waker) under the lock. Is
//! there a wait of the thread that lasts beyond the deadline?
//!
//! ```text
//! task                                  driver thread
//! ────                                  ─────────────
//!                                       (3) lock; Until(far); unlock
//! (a) lock; insert; near < far; unlock
//! (b) notify                            (4) wait: the notification ends it, even if it came first
//! ```
//!
//! - (a) before (3): the thread sees the timer in (3) and waits no longer than its deadline.
//! - (a) after (3) and before the next (1): the note says how long the thread waits. If that isn't beyond the deadline,
//!   the thread comes to (1) in time. If it is, the task notifies; the poller keeps a notification that comes before its
//!   wait, so the thread comes to (1) at once, and sees the timer in (3).
//! - Who notifies sets the note to `No`: the thread will come to (1) anyhow, so others need not notify as well.
//!
//! A timer that is polled again with the same waker before its deadline doesn't look at the list: its entry can be missing
//! only if the thread took it after the deadline, which is later than this poll's look at the clock, so the wake-up comes
//! after the poll began and the task will be polled again. A timer is never early: both sides compare with the same clock.
//!
//! # No wake-up is lost: readiness
//!
//! The poller is in edge mode: after an operation has answered `WouldBlock`, the next change of the descriptor makes an
//! event. A task asks for readiness and gets the side's tick, tries, and on `WouldBlock` clears the readiness *of that
//! tick*:
//!
//! ```text
//! task                                  driver thread
//! ────                                  ─────────────
//! ready, tick 7
//! read: WouldBlock
//!                                       data arrives, event: ready, tick 8
//! clear(7): tick is 8, nothing is cleared
//! ready, tick 8: read
//! ```
//!
//! Without the tick the clear would wipe out the event, and the data would wait for ever. The waiter is added under the
//! lock of the source after a look at `ready`; the event sets `ready` and takes the waiters under the same lock.
//!
//! # What it doesn't do
//!
//! It runs no task and knows none, only wakers. One thread for all is simple, and one step more on the way of each event:
//! workers that poll for themselves may replace it behind [`TimerEntry`] and [`Registration`].

mod current;
mod entry;
mod registration;
mod source;
mod thread;
mod timers;

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

pub(crate) use self::current::with_current;
pub(crate) use self::entry::TimerEntry;
pub(crate) use self::registration::Registration;
pub(crate) use self::source::Side;
use self::source::Sources;
use self::timers::Timers;
pub(crate) use crate::sys::poller::Interest;
use crate::sys::poller::Poller;
use crate::sys::thread::Spawner;

/// The timers and sources of one runtime. Dropping it shuts it down.
pub(crate) struct Driver {
    shared: Arc<Shared>,
}

impl Driver {
    /// A driver without a thread as yet, which will be started like any other.
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Driver::with_spawner(Spawner::default())
    }

    /// A driver whose thread will be started by `spawner`.
    pub(crate) fn with_spawner(spawner: Spawner) -> Self {
        let shared = Shared {
            spawner,
            state: Mutex::default(),
            poller: OnceLock::new(),
            sources: Mutex::default(),
        };
        Driver {
            shared: Arc::new(shared),
        }
    }

    /// A timer that is not set until it is polled.
    pub(crate) fn timer(&self, deadline: Instant) -> TimerEntry {
        TimerEntry::new(Arc::clone(&self.shared), deadline)
    }

    /// Watches `fd`. Call [`Registration::deregister`] before it is closed.
    ///
    /// # Errors
    ///
    /// The system can't watch this kind of descriptor, or has no thread or descriptor for the driver, or the driver was
    /// shut down.
    pub(crate) fn register(&self, fd: BorrowedFd<'_>, interest: Interest) -> io::Result<Registration> {
        Registration::new(Arc::clone(&self.shared), fd, interest)
    }

    /// Stops the thread and waits until it is gone, unless this is that thread. Timers that are set are dropped without
    /// being woken; one that is polled later never expires. Whoever waits for a source is woken, and gets an error.
    pub(crate) fn shutdown(&self) {
        let (thread, timers) = {
            let mut state = self.shared.lock();
            state.phase = Phase::Stopped;
            (state.thread.take(), state.timers.take())
        };
        let sources = self.shared.sources().close();
        if let Some(thread) = thread {
            self.shared.notify();
            if thread.thread().id() != std::thread::current().id() {
                // The thread catches what wakers do, so it has nothing to fail with.
                let _ = thread.join();
            }
        }
        drop(timers);
        let mut wakers = Vec::new();
        for source in sources {
            source.close(&mut wakers);
        }
        thread::wake(&mut wakers);
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("Driver")
            .field("phase", &state.phase)
            .field("timers", &state.timers.len())
            .finish()
    }
}

/// What the driver, its thread, its timers and its registrations share.
struct Shared {
    spawner: Spawner,
    state: Mutex<State>,
    /// Made together with the thread.
    poller: OnceLock<Poller>,
    sources: Mutex<Sources>,
}

/// What the first lock protects.
#[derive(Default)]
struct State {
    phase: Phase,
    /// The thread, from its start until somebody joins it.
    thread: Option<JoinHandle<()>>,
    timers: Timers,
}

/// The life of the thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Nobody needed it so far.
    #[default]
    Idle,
    /// It runs.
    Running,
    /// It was told to stop; it is never started again.
    Stopped,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No foreign code runs under the lock, so nothing is half done in a poisoned one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sources(&self) -> MutexGuard<'_, Sources> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread if nobody has. `state` is ours.
    ///
    /// # Errors
    ///
    /// The system has no descriptor or thread to give; the next call tries again. Or the driver was shut down.
    fn ensure_started(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        match state.phase {
            Phase::Running => return Ok(()),
            Phase::Stopped => return Err(stopped()),
            Phase::Idle => {}
        }
        if self.poller.get().is_none() {
            let poller = Poller::new()?;
            // Only here is it set, under the lock: it was empty a line ago.
            let _ = self.poller.set(poller);
        }
        let body = Arc::clone(self);
        state.thread = Some(
            self.spawner
                .spawn("quadrille-driver".to_owned(), move || thread::run(&body))?,
        );
        state.phase = Phase::Running;
        Ok(())
    }

    /// The poller; there is one since the thread was started.
    fn poller(&self) -> &Poller {
        self.poller.get().expect("the poller is made before the thread")
    }

    /// Ends the wait of the thread.
    fn notify(&self) {
        // It writes to an eventfd or triggers a user event of a set that we own: no error applies.
        self.poller().notify().expect("a poller can be notified");
    }
}

/// What a source answers after shutdown.
fn stopped() -> io::Error {
    io::Error::other("the runtime is shutting down")
}

#[cfg(test)]
pub(crate) mod tests;
