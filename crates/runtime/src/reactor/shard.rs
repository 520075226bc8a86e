//! The descriptors that are watched for one cache, and the duty of polling them. L in `sched/README.md`.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::task::Waker;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::slab::{Place, Slab};
use super::source::{Closed, Source};
use crate::primitives::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use crate::stress;
use crate::sys::fault::abort_with;
use crate::sys::poller::{Events, Interest, NOTIFICATION, Poller};

/// A shard.
#[derive(Debug)]
pub(crate) struct Shard {
    /// Made for the first source.
    poller: OnceLock<Poller>,
    /// The holder's worker plus one; zero: none.
    duty: CachePadded<AtomicU32>,
    /// Sources that are registered.
    count: CachePadded<AtomicU32>,
    /// How often it was polled. Written by the holder alone.
    polls: CachePadded<AtomicU64>,
    /// When it was last polled without a wait, or a sleep in its poll ended; by the clock. Written by the holder alone.
    polled_at: AtomicU64,
    slab: Slab,
    closed: AtomicBool,
}

/// The poll duty of a shard, while it lives.
#[derive(Debug)]
#[must_use = "dropping it gives the duty back"]
pub(crate) struct Duty<'a> {
    shard: &'a Shard,
}

/// What a poll brought.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    /// So many events.
    Events(u32),
    /// A notification, or no reason at all.
    Notified,
    /// The time-out, or nothing if there was no wait.
    Nothing,
}

/// What whoever polls needs: room for events, and those that are to be woken for them.
pub(crate) struct Catch {
    events: Option<Events>,
    /// To be called once the duty was given back.
    pub(crate) wakers: Vec<Waker>,
    /// When the last look for events ended, by the clock.
    pub(crate) caught_at: u64,
}

impl Shard {
    pub(super) fn new() -> Self {
        Self {
            poller: OnceLock::new(),
            duty: CachePadded::new(AtomicU32::new(0)),
            count: CachePadded::new(AtomicU32::new(0)),
            polls: CachePadded::new(AtomicU64::new(0)),
            polled_at: AtomicU64::new(0),
            slab: Slab::new(),
            closed: AtomicBool::new(false),
        }
    }

    /// Whether it has sources.
    #[inline]
    pub(crate) fn has_sources(&self) -> bool {
        // Ordering: Relaxed; a hint, or after a fence (L b).
        self.count.load(Ordering::Relaxed) != 0
    }

    /// Whether it has sources and no holder.
    #[inline]
    pub(crate) fn is_unpolled(&self) -> bool {
        // Ordering: Relaxed; as above.
        self.has_sources() && self.duty.load(Ordering::Relaxed) == 0
    }

    /// How often it was polled.
    pub(crate) fn polls(&self) -> u64 {
        // Ordering: Relaxed; compared with an earlier value by who looks once an interval.
        self.polls.load(Ordering::Relaxed)
    }

    /// When it was last polled, by the clock.
    pub(crate) fn polled_at(&self) -> u64 {
        // Ordering: Relaxed; a hint.
        self.polled_at.load(Ordering::Relaxed)
    }

    /// Takes the duty for `worker`, if it has sources and nobody has it.
    pub(crate) fn try_hold(&self, worker: usize) -> Option<Duty<'_>> {
        // Ordering: Acquire; (L a) with the Release in `add`: the set was made before.
        if self.count.load(Ordering::Acquire) == 0 || !self.is_unpolled() {
            return None;
        }
        let me = u32::try_from(worker).expect("workers fit u16") + 1;
        // Ordering: Acquire; (L a) with the Release of the last holder, whose counters it goes on with.
        let taken = self.duty.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed);
        // Not made before that is known: dropped, it would give another's duty back.
        if taken.is_ok() {
            Some(Duty { shard: self })
        } else {
            None
        }
    }

    /// Ends the sleep of the holder, or the next one.
    pub(crate) fn notify(&self) {
        if let Some(poller) = self.poller.get() {
            // It writes to an eventfd or triggers a user event of a set that we own: no error applies.
            poller.notify().expect("a poller can be notified");
        }
    }

    /// Watches `fd`; returns its place and generation.
    ///
    /// # Errors
    ///
    /// The system can't watch this kind of descriptor, or the process has none left for the set, or the shard is
    /// closed.
    pub(super) fn add(&self, fd: BorrowedFd<'_>, interest: Interest) -> io::Result<u32> {
        let poller = self.poller()?;
        let index = self
            .slab
            .take()
            .ok_or_else(|| io::Error::other("2^26 descriptors are watched"))?;
        // Ordering: Release; (L a) who sees a source finds the set that it polls then.
        self.count.fetch_add(1, Ordering::Release);
        let key = self.key_of(index);
        debug_assert!(key != NOTIFICATION, "generations have 23 bits");
        stress::delay();
        // Ordering: SeqCst; (L f) the place is taken before we look at the flag, against the flag before the look at
        // the places. And (L b) the count is raised before `is_unseen` looks for a holder and for who is idle, against
        // the fence (W1 B) of who goes to sleep before its look at the count.
        fence(Ordering::SeqCst);
        // Ordering: Relaxed; after the fence.
        let added = if self.closed.load(Ordering::Relaxed) {
            Err(stopped())
        } else {
            poller.add(fd, key, interest)
        };
        if let Err(error) = added {
            self.forget(index);
            return Err(error);
        }
        Ok(index)
    }

    /// Changes what is heard of `fd`, which is watched as the source in this place. If it is ready now, that is an
    /// event.
    ///
    /// # Errors
    ///
    /// `fd` isn't watched. If it is, but as another source, that one hears of nothing more.
    pub(super) fn modify(&self, fd: BorrowedFd<'_>, index: u32, interest: Interest) -> io::Result<()> {
        self.poller()?.modify(fd, self.key_of(index), interest)
    }

    /// What the kernel's events carry of the source in a place, as long as its owner has it.
    pub(super) fn key_of(&self, index: u32) -> u64 {
        key(index, self.source(index).generation())
    }

    /// Ends the watch of a descriptor in the kernel.
    pub(super) fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.poller()?.remove(fd)
    }

    /// Gives the place of a source back.
    pub(super) fn forget(&self, index: u32) {
        let waiters = self.source(index).release();
        self.slab.put_back(index);
        // Ordering: Relaxed; who sees it late polls for nothing. It continues the release sequence of those who add.
        self.count.fetch_sub(1, Ordering::Relaxed);
        // Last: a waker that panics in its destructor must keep neither the place nor the count.
        drop(waiters);
    }

    /// The source in a place that is taken.
    fn source(&self, index: u32) -> &Source {
        self.slab.get(index).expect("its owner has taken it")
    }

    /// The same, for its owner to keep.
    pub(super) fn place(&self, index: u32) -> Place {
        self.slab.place(index)
    }

    /// Takes no more sources, and moves all who wait to `wakers`, so that they hear it.
    pub(super) fn close(&self, wakers: &mut Vec<Waker>) {
        // Ordering: Relaxed; the fence decides.
        self.closed.store(true, Ordering::Relaxed);
        stress::delay();
        // Ordering: SeqCst; (L f) the flag before the look at the places.
        fence(Ordering::SeqCst);
        self.slab.for_each(|source| source.close(wakers));
    }

    fn poller(&self) -> io::Result<&Poller> {
        if let Some(poller) = self.poller.get() {
            return Ok(poller);
        }
        let poller = Poller::new()?;
        // Of two that come at once the first one's stays.
        Ok(self.poller.get_or_init(|| poller))
    }

    /// The set, for models: they say what happens to descriptors.
    #[cfg(quadrille_loom)]
    pub(crate) fn modelled(&self) -> &Poller {
        self.poller().expect("a model has one")
    }
}

impl Duty<'_> {
    /// Polls for at most `timeout` (`None`: until an event or a notification), marks sources as ready, and collects
    /// whom to wake.
    pub(crate) fn poll(&self, catch: &mut Catch, timeout: Option<Duration>, clock: impl FnOnce() -> u64) -> Polled {
        let poller = self.shard.poller.get().expect("there are sources");
        let events = catch.events.get_or_insert_with(Events::new);
        let notified = match poller.wait(events, timeout) {
            Ok(notified) => notified,
            Err(error) => fail(&error),
        };
        let mut count = 0;
        for event in events.iter() {
            let (index, generation) = parts(event.key);
            if let Some(source) = self.shard.slab.get(index) {
                count += u32::from(source.set_ready(generation, &event, &mut catch.wakers));
            }
        }
        // Ordering: Relaxed; single writer, handed over by the duty; compared by others now and then.
        let polls = self.shard.polls.load(Ordering::Relaxed);
        self.shard.polls.store(polls.wrapping_add(1), Ordering::Relaxed);
        catch.caught_at = clock();
        // Ordering: Relaxed; a hint.
        self.shard.polled_at.store(catch.caught_at, Ordering::Relaxed);
        match (count, notified) {
            (0, true) => Polled::Notified,
            (0, false) => Polled::Nothing,
            (count, _) => Polled::Events(count),
        }
    }
}

impl Drop for Duty<'_> {
    fn drop(&mut self) {
        stress::delay();
        // Ordering: Release; (L a) see `try_hold`.
        self.shard.duty.store(0, Ordering::Release);
    }
}

impl Catch {
    pub(crate) fn new() -> Self {
        Self {
            events: None,
            wakers: Vec::new(),
            caught_at: 0,
        }
    }
}

impl std::fmt::Debug for Catch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catch")
            .field("wakers", &self.wakers.len())
            .finish_non_exhaustive()
    }
}

/// What the kernel's events carry of a source.
fn key(index: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(index)
}

/// Place and generation of a key.
fn parts(key: u64) -> (u32, u32) {
    let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).expect("32 bits");
    (half(key), half(key >> 32))
}

/// What a source answers after shutdown, and whatever else needs a runtime that goes on.
pub(crate) fn stopped() -> io::Error {
    io::Error::other("the runtime is shutting down")
}

impl From<Closed> for io::Error {
    fn from(_: Closed) -> Self {
        stopped()
    }
}

/// Waiting has failed in a way that no later attempt mends. Everybody who waits would wait for ever, in silence.
#[cold]
fn fail(error: &io::Error) -> ! {
    abort_with(format_args!("a worker can't wait for events: {error}"))
}
