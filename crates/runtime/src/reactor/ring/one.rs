//! One worker's ring.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::{Poll, Wake, Waker};

use crossbeam_utils::CachePadded;

use super::slots::{Answer, Keep, Landed, Left, Slots};
use crate::primitives::{AtomicU32, Ordering, relax};
use crate::reactor::wake_each;
use crate::stress::Mutex;
use crate::sys::fault::abort_with;
use crate::sys::ring::{self, COMPLETIONS, Completions, Entered, Entry, Request, Submissions};
use crate::time::presence::AtWork;

/// So many operations are handed over, whatever else their worker has to do.
const BATCH: usize = 64;

/// Most times that the kernel is asked to cancel what it has not found, if the future goes.
const CANCELLATIONS_MAX: u32 = 16;

/// Of the steps in which whoever drains waits, each of so many asks the kernel again to cancel: about every 6 ms, once
/// the steps are longest.
const STEPS_A_CANCELLATION: u32 = 8;

/// A ring, and the operations that it carries.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Taken before `inner`, and held while the kernel is called.
    submissions: Mutex<Submissions>,
    inner: Mutex<Inner>,
    /// Operations that wait to be handed over, and such as the kernel has; told to those who have no lock.
    queued: CachePadded<AtomicU32>,
    flying: AtomicU32,
}

#[derive(Debug)]
struct Inner {
    slots: Slots,
    completions: Completions,
    is_closed: bool,
}

/// The runtime has shut down: nothing is begun any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed;

/// How an operation has begun.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) slot: u32,
    /// How many are queued now.
    queued: usize,
}

impl Begun {
    /// Whether it is the first of those that its worker is to hand over.
    pub(crate) fn is_first(self) -> bool {
        self.queued == 1
    }

    /// Whether it should not wait for more.
    pub(crate) fn completes_batch(self) -> bool {
        self.queued >= BATCH
    }
}

/// So many results were taken out at once.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Taken(u32);

impl Taken {
    /// Whether the kernel may keep some for which there was no room. It does so only once there is none, and whoever
    /// takes the first result out of a full queue takes all.
    fn may_leave_more(self) -> bool {
        self.0 >= COMPLETIONS
    }
}

impl Ring {
    pub(super) fn new() -> io::Result<Self> {
        let (submissions, completions) = ring::new()?;
        Ok(Self::of(submissions, completions))
    }

    /// One that was found to do what it should.
    pub(super) fn probed() -> io::Result<Self> {
        let (mut submissions, mut completions) = ring::new()?;
        ring::probe(&mut submissions, &mut completions)?;
        Ok(Self::of(submissions, completions))
    }

    fn of(submissions: Submissions, completions: Completions) -> Self {
        Self {
            submissions: Mutex::new(submissions),
            inner: Mutex::new(Inner {
                slots: Slots::new(),
                completions,
                is_closed: false,
            }),
            queued: CachePadded::new(AtomicU32::new(0)),
            flying: AtomicU32::new(0),
        }
    }

    /// Calls `f` with its descriptor, which is readable while there are results.
    pub(super) fn with_fd<R>(&self, f: impl FnOnce(BorrowedFd<'_>) -> R) -> R {
        use std::os::fd::AsFd as _;
        f(self.submissions().as_fd())
    }

    /// Whether there is something to be handed over.
    #[inline]
    pub(crate) fn has_queued(&self) -> bool {
        // Ordering: Relaxed; its worker has queued it, or looks again; others come late at worst (W5).
        self.queued.load(Ordering::Relaxed) != 0
    }

    /// Whether there is something to be handed over, or something may have come back.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        // Ordering: Relaxed; as above. Results make an event besides.
        self.has_queued() || self.flying.load(Ordering::Relaxed) != 0
    }

    /// Queues an operation. Whoever calls this hands it over, now or when its worker looks up.
    pub(crate) fn begin(&self, entry: Entry, waker: Waker, at_work: Option<AtWork>) -> Result<Begun, Closed> {
        let mut inner = self.inner();
        if inner.is_closed {
            drop(inner);
            return Err(Closed);
        }
        let slot = inner.slots.begin(entry, waker, at_work);
        self.note(&inner.slots);
        Ok(Begun {
            slot,
            queued: inner.slots.queued(),
        })
    }

    /// Hands an operation over at once, and leaves alone what is queued: for a thread that may end soon, when the
    /// kernel gives up what it has of it. Whom results concern goes to `wakers`.
    pub(crate) fn begin_now(
        &self,
        entry: &Entry,
        waker: Waker,
        at_work: Option<AtWork>,
        wakers: &mut Vec<Waker>,
    ) -> Result<u32, Closed> {
        let mut submissions = self.submissions();
        let slot = {
            let mut inner = self.inner();
            if inner.is_closed {
                drop((inner, submissions));
                return Err(Closed);
            }
            // SAFETY: as in `submit_all`.
            let push = |data| unsafe { submissions.push(entry, data) };
            let slot = inner.slots.begin_now(waker, at_work, push);
            self.note(&inner.slots);
            slot
        };
        self.enter(&mut submissions, wakers);
        Ok(slot)
    }

    /// The result of an operation, which is over then; else `waker` is called when it is there.
    pub(crate) fn poll(&self, slot: u32, waker: &Waker) -> Poll<i32> {
        let (result, is_closed) = self.poll_slot(slot, waker);
        if result.is_pending() && is_closed {
            return self.poll_closed(slot, waker);
        }
        result
    }

    /// The same, and whether the ring was closed.
    fn poll_slot(&self, slot: u32, waker: &Waker) -> (Poll<i32>, bool) {
        let mut clone = None;
        loop {
            let (answer, is_closed) = {
                let mut inner = self.inner();
                (inner.slots.poll(slot, waker, &mut clone), inner.is_closed)
            };
            // To make or drop a waker runs what users have written, which may come back here.
            match answer {
                Answer::Done(result) => return (Poll::Ready(result), is_closed),
                Answer::Waits => return (Poll::Pending, is_closed),
                Answer::Replaced(replaced) => {
                    drop(replaced);
                    return (Poll::Pending, is_closed);
                }
                Answer::NeedsWaker => clone = Some(waker.clone()),
            }
        }
    }

    /// The same when the runtime shuts down, and nobody hears of results any more: who waits looks for them by itself,
    /// again and again. What the kernel was asked to end ends soon.
    #[cold]
    fn poll_closed(&self, slot: u32, waker: &Waker) -> Poll<i32> {
        let mut wakers = Vec::new();
        self.reap(&mut wakers);
        wake_each(&mut wakers);
        let (result, _is_closed) = self.poll_slot(slot, waker);
        if result.is_pending() {
            std::thread::yield_now();
            waker.wake_by_ref();
        }
        result
    }

    /// Whether it was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.inner().is_closed
    }

    /// The future of an operation goes, and leaves `request`. What the kernel uses of it stays until the kernel is
    /// done.
    pub(crate) fn leave<R: Request>(&self, slot: u32, request: R) {
        let mut request = Some(request);
        let left = {
            let mut inner = self.inner();
            let left = inner
                .slots
                .leave(slot, || Box::new(Kept(request.take().expect("it is asked for once"))));
            self.note(&inner.slots);
            left
        };
        match left {
            Left::Withdrawn(waker, at_work) => drop((waker, request, at_work)),
            Left::Done(result) => end(request.expect("nobody has asked for it"), result),
            Left::Orphan(data, waker) => {
                let mut wakers = Vec::new();
                let tries = if R::ENDS_BY_ITSELF { 1 } else { CANCELLATIONS_MAX };
                self.cancel_orphan(data, tries, &mut wakers, relax);
                wake_each(&mut wakers);
                drop(waker);
            }
        }
    }

    /// Asks the kernel to end what carries `data`, up to `tries` times, with a `pause` after each that is to be
    /// followed by another.
    ///
    /// What the kernel has not found although it has it is with the thread that has handed it over, for which it has
    /// something, and which looks at it at its next interruption: to take it, or to wait again. That takes no time,
    /// unless the thread waits for a CPU.
    fn cancel_orphan(&self, data: u64, tries: u32, wakers: &mut Vec<Waker>, mut pause: impl FnMut(u32)) {
        for step in 1..=tries {
            self.cancel(&[data], wakers);
            // Mostly it has ended by now: its descriptor is closed before whoever dropped the future goes on.
            self.reap(wakers);
            if step == tries || !self.inner().slots.take_missed(data) {
                return;
            }
            pause(step);
        }
    }

    /// Hands over what is queued; those whom results concern that are taken out meanwhile go to `wakers`.
    pub(crate) fn submit(&self, wakers: &mut Vec<Waker>) {
        if !self.has_queued() {
            return;
        }
        let mut submissions = self.submissions();
        self.submit_all(&mut submissions, wakers);
    }

    /// The same, unless somebody is at it.
    pub(crate) fn try_submit(&self, wakers: &mut Vec<Waker>) {
        if let Ok(mut submissions) = self.submissions.try_lock() {
            self.submit_all(&mut submissions, wakers);
        }
    }

    fn submit_all(&self, submissions: &mut Submissions, wakers: &mut Vec<Waker>) {
        loop {
            let are_left = {
                let mut inner = self.inner();
                // SAFETY: the entry is that of a `Request`, which is kept, by its future or as an orphan, until the
                // result was taken out; a future that is forgotten keeps it for ever. By the contract of `Request` all
                // that it names stays valid so long.
                let are_left = inner
                    .slots
                    .hand_over(|entry, data| unsafe { submissions.push(entry, data) });
                self.note(&inner.slots);
                are_left
            };
            self.enter(submissions, wakers);
            if !are_left {
                return;
            }
        }
    }

    /// Asks the kernel to end what carries `data`. That has ended when it has a result.
    fn cancel(&self, data: &[u64], wakers: &mut Vec<Waker>) {
        let mut submissions = self.submissions();
        for data in data {
            while !submissions.push_cancellation(*data) {
                self.enter(&mut submissions, wakers);
            }
        }
        self.enter(&mut submissions, wakers);
    }

    /// Calls the kernel until it has taken everything.
    fn enter(&self, submissions: &mut Submissions, wakers: &mut Vec<Waker>) {
        for step in 0.. {
            match submissions.enter() {
                Ok(Entered::All) => return,
                Ok(Entered::Busy) => {
                    // Results are in its way, or it has no memory for now. The next call hands over what it keeps.
                    let _taken = self.take(wakers);
                    relax(step);
                }
                Err(error) => fail(&error.into()),
            }
        }
    }

    /// Takes results out; whom they concern goes to `wakers`.
    pub(crate) fn reap(&self, wakers: &mut Vec<Waker>) {
        // Asked after the look: what counts before it may be more by the time that the look has ended.
        if !self.take(wakers).may_leave_more() {
            return;
        }
        let mut submissions = self.submissions();
        while submissions.has_kept_results() {
            self.enter(&mut submissions, wakers);
            let _taken = self.take(wakers);
        }
    }

    /// Takes out those for which there was room.
    fn take(&self, wakers: &mut Vec<Waker>) -> Taken {
        let mut taken = 0;
        let mut guard = self.inner();
        let Inner { slots, completions, .. } = &mut *guard;
        completions.take(|completion| {
            taken += 1;
            match slots.land(completion.data, completion.result) {
                Landed::Wake(waker, at_work) => {
                    wakers.push(waker);
                    wakers.extend(at_work.map(Rest::of));
                }
                Landed::Orphan(kept, at_work) => {
                    wakers.push(Burial::of(kept, completion.result));
                    wakers.extend(at_work.map(Rest::of));
                }
                Landed::Nothing => {}
            }
        });
        self.note(slots);
        Taken(taken)
    }

    /// Begins nothing more, ends what the kernel has not got, and asks it to end the rest: whoever waits hears it.
    pub(super) fn close(&self, wakers: &mut Vec<Waker>) {
        let flying = {
            let mut inner = self.inner();
            inner.is_closed = true;
            inner.slots.cancel_queued(|waker, at_work| {
                wakers.push(waker);
                wakers.extend(at_work.map(Rest::of));
            });
            self.note(&inner.slots);
            inner.slots.wake_flying(wakers);
            inner.slots.all_flying()
        };
        if !flying.is_empty() {
            self.cancel(&flying, wakers);
            self.reap(wakers);
        }
    }

    /// Waits until the kernel is done with everything. Closed before.
    pub(super) fn drain(&self, wakers: &mut Vec<Waker>) {
        for step in 0.. {
            if self.inner().slots.flying() == 0 {
                return;
            }
            // Not in the kernel, for so many results: another thread may take the last one out.
            relax(step);
            self.reap(wakers);
            if step % STEPS_A_CANCELLATION == STEPS_A_CANCELLATION - 1 {
                // What was about to go on when it was to be cancelled was not found, and may wait again since.
                let flying = self.inner().slots.all_flying();
                self.cancel(&flying, wakers);
            }
        }
    }

    /// Tells those without the lock.
    fn note(&self, slots: &Slots) {
        let queued = u32::try_from(slots.queued()).unwrap_or(u32::MAX);
        // Ordering: Relaxed; see `has_queued`.
        self.queued.store(queued, Ordering::Relaxed);
        // Ordering: Relaxed; see `is_busy`.
        self.flying.store(slots.flying(), Ordering::Relaxed);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // No foreign code runs under the lock, so nothing is half done in a poisoned one.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn submissions(&self) -> MutexGuard<'_, Submissions> {
        self.submissions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a future has left.
struct Kept<R>(R);

impl<R: Request> Keep for Kept<R> {
    fn end(self: Box<Self>, result: i32) {
        end(self.0, result);
    }
}

/// Drops what an operation was for, and what it has made.
fn end<R: Request>(request: R, result: i32) {
    drop(request.finish(outcome(result)));
}

/// A result as the kernel gives it.
pub(crate) fn outcome(result: i32) -> io::Result<u32> {
    u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

/// What was kept of an operation whose future is gone, and is needed no more: it goes where wakers are called, because
/// destructors of users run then.
struct Burial(Mutex<Option<(Box<dyn Keep>, i32)>>);

impl Burial {
    fn of(kept: Box<dyn Keep>, result: i32) -> Waker {
        Waker::from(Arc::new(Self(Mutex::new(Some((kept, result))))))
    }
}

impl Wake for Burial {
    fn wake(self: Arc<Self>) {
        let ended = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((kept, result)) = ended {
            kept.end(result);
        }
    }
}

/// What is not at work any more, once whoever waited for it is woken and counts in its place.
struct Rest(Mutex<Option<AtWork>>);

impl Rest {
    fn of(at_work: AtWork) -> Waker {
        Waker::from(Arc::new(Self(Mutex::new(Some(at_work)))))
    }
}

impl Wake for Rest {
    fn wake(self: Arc<Self>) {
        let at_work = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(at_work);
    }
}

/// The kernel refuses a call that it has answered before, in a way that no later attempt mends. Everybody who waits
/// would wait for ever.
#[cold]
fn fail(error: &io::Error) -> ! {
    abort_with(format_args!("a worker can't call its ring of io_uring: {error}"))
}

#[cfg(test)]
mod tests;
