//! io_uring (feature `io-uring`): operations that the kernel carries out with buffers that it owns meanwhile.
//!
//! # Vocabulary
//!
//! A *ring* is a queue of entries to the kernel and one of results back. An *operation* is *queued* until it is *handed
//! over*, *flying* until its result is taken out (*reaped*), and an *orphan* if its future goes while it flies. What it
//! needs meanwhile is its *request*: a buffer, an address, a descriptor.
//!
//! # Where the rings are
//!
//! Each worker has one. Its tasks queue operations there, without a system call; it hands over all of them with one,
//! and reaps, when it has run dry, when it looks up, and when 64 are queued. Threads that are no workers take any ring
//! and hand over at once, and only what they have begun themselves: they may end soon.
//!
//! A ring's descriptor is readable while there are results. It is a source of the shard of its worker's cache like any
//! other, and what waits for it is a waker that reaps ([`watch`]). So whoever polls the shard hears of results, wakes
//! tasks by their wakers as for any event, and nothing new has to be proved: that a worker which sleeps hears of a
//! result is L.
//!
//! What is queued and not handed over is to its worker like a task in its slot: it never sleeps beside it. The first
//! one to be queued asks for a sentinel, and one that was queued counts as work where a successor is named (O). If the
//! worker is stuck in a task, a sentinel or a busy observer that finds that it has run nothing since the last look
//! hands over in its place (W5): at most two intervals.
//!
//! # Who owns what
//!
//! 1. A request is owned by its future, and what the kernel has the address of is on the heap or in a descriptor that
//!    is counted: the future may be moved. If it is dropped while the operation flies, the request goes to the slot and
//!    is dropped after the result was reaped; the kernel is asked to cancel, before the drop returns. If it is
//!    forgotten, so is the request: its memory is never used again.
//! 2. One that is dropped while it is queued was never begun: nothing of it reaches the kernel.
//! 3. A descriptor is closed when nobody holds it, and requests do.
//! 4. `submissions` is locked before `inner`. Under neither is a waker called, nor anything of a user's dropped: that
//!    is moved out, and called or dropped afterwards.
//!
//! # What may happen
//!
//! - *Results come late or twice?* One result an operation; a slot has another generation for each, so that a
//!   cancellation which comes too late finds nobody.
//! - *More is queued than the ring takes*: it is handed over in turns. *More results than there is room for*: the
//!   kernel keeps them (`IORING_FEAT_NODROP`, required) and hands them over when called, which `reap` does.
//! - *A thread that has handed something over ends*: the kernel gives up what it had of it, as cancelled, or if it
//!   waited for a disk as an address that is out of reach. Nobody has asked for that, so it is begun again, 8 times at
//!   most: the kernel also cancels what it needs a thread for and gets none. Likewise if a signal interrupts, however
//!   often.
//! - *A cancellation finds nothing*: while the thread that handed an operation over has yet to look at what has come
//!   for it, the operation is in none of the kernel's tables; afterwards it may wait again. So whoever drops a future
//!   asks up to 16 times, the last ones between other threads' turns (once for files, which end by themselves); whoever
//!   drains, about every 6 ms. If the thread gets no CPU so long, the orphan takes what comes next.
//! - *Shutdown*: `close` ends what is queued, cancels what flies, and refuses more: whoever waits has its buffer back,
//!   also one that blocks a worker, which the end of all tasks waits for. The reactor is closed, so that events tell
//!   nobody of those results: `close` wakes all who wait, who look for theirs (`poll_closed`). When the tasks are gone,
//!   the last worker waits for every result (`drain`).
//! - *A clock that stands*: operations on files are at work (`AtWork`) from the beginning until whoever waits was
//!   woken, as on the threads of the pool, or until there is a result that nobody waits for.
//! - *No io_uring*: see [`Backend`](crate::uring::Backend). It is found out when the runtime is built, with a trial.
//!
//! # What was rejected
//!
//! - *One ring a cache*: the kernel holds a lock of the ring while it carries entries out, so that all sends behind a
//!   cache would take turns.
//! - *An eventfd*: one more descriptor and a read for what the ring's own descriptor says.
//! - *`IORING_SETUP_COOP_TASKRUN`, `DEFER_TASKRUN`*: results would wait until the worker calls the kernel, however long
//!   its task runs.
//! - *`IORING_SETUP_SQPOLL`*: a thread of the kernel that polls for each ring.
//! - *Sources that are watched and rings beside each other for one socket*: each byte that comes would be an event as
//!   well.

mod one;
mod slots;
mod watch;

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};

use self::watch::Watch;
use super::{Registration, wake_each};
use crate::primitives::{AtomicUsize, Ordering};

pub(crate) use self::one::{Closed, Ring, outcome};

/// The rings of a runtime, by worker.
pub(crate) struct Rings {
    rings: Box<[Ring]>,
    /// By worker; made when rings are first used. Why there are none, if that has failed.
    watches: OnceLock<Result<Vec<Arc<Watch>>, String>>,
    /// Whose turn it is among the rings, for threads that are no workers.
    turn: AtomicUsize,
}

impl Rings {
    /// One a worker.
    ///
    /// # Errors
    ///
    /// There is no io_uring here, or it doesn't do all that is needed; the message says why.
    pub(crate) fn new(workers: usize) -> io::Result<Self> {
        let mut rings = vec![Ring::probed()?];
        for _ in 1..workers {
            rings.push(Ring::new()?);
        }
        Ok(Self {
            rings: rings.into(),
            watches: OnceLock::new(),
            turn: AtomicUsize::new(0),
        })
    }

    /// That of a worker.
    #[inline]
    pub(crate) fn of(&self, worker: usize) -> &Ring {
        &self.rings[worker]
    }

    /// Sees to it that results are heard of. `register` registers the descriptor of a worker's ring for reading.
    ///
    /// # Errors
    ///
    /// The system had no room to watch them, now or the first time.
    pub(crate) fn watched(
        self: &Arc<Self>,
        register: impl Fn(usize, BorrowedFd<'_>) -> io::Result<Registration>,
    ) -> io::Result<()> {
        let watch = |index: usize| {
            let registration = self.rings[index].with_fd(|fd| register(index, fd))?;
            Ok(Watch::begin(self, index, registration))
        };
        let begin = || (0..self.rings.len()).map(watch).collect::<io::Result<Vec<_>>>();
        let watches = self.watches.get_or_init(|| begin().map_err(|error| error.to_string()));
        match watches {
            Ok(_) => Ok(()),
            Err(why) => Err(io::Error::other(why.clone())),
        }
    }

    /// Why results can't be heard of, if that was found out.
    pub(crate) fn refusal(&self) -> Option<&str> {
        self.watches.get()?.as_ref().err().map(String::as_str)
    }

    /// That whose turn it is, for a thread that is no worker.
    pub(crate) fn next(&self) -> usize {
        // Ordering: Relaxed; any would do.
        self.turn.fetch_add(1, Ordering::Relaxed) % self.rings.len()
    }

    /// Whether any worker has something to hand over.
    pub(crate) fn any_queued(&self) -> bool {
        self.rings.iter().any(Ring::has_queued)
    }

    /// Begins nothing more, ends what the kernel has not got, and asks it to end the rest.
    pub(crate) fn close(&self) {
        let mut wakers = Vec::new();
        self.rings.iter().for_each(|ring| ring.close(&mut wakers));
        wake_each(&mut wakers);
    }

    /// Waits until the kernel is done with everything: for the last worker, when all tasks are gone.
    pub(crate) fn drain(&self) {
        // Whoever stops the runtime may not have come to it yet.
        self.close();
        let mut wakers = Vec::new();
        self.rings.iter().for_each(|ring| ring.drain(&mut wakers));
        wake_each(&mut wakers);
    }
}

impl fmt::Debug for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rings")
            .field("rings", &self.rings.len())
            .finish_non_exhaustive()
    }
}
