//! Who hands over to the kernel what tasks have queued in rings, and takes the results out, and when. See
//! `reactor/ring`.

use super::Shared;
use super::context::Context;
use super::worker::Worker;
use crate::reactor::ring::{Ring, Rings};
use crate::reactor::{Catch, Polled, wake_each};
use crate::sys::clock;
use crate::task::Runnable;

impl Shared {
    /// The ring of a worker, if there are rings.
    #[inline]
    fn ring_of(&self, worker: usize) -> Option<&Ring> {
        self.rings.as_ref().ok().map(|rings| rings.of(worker))
    }

    /// Whether something waits in a ring for its worker to hand it over.
    pub(super) fn any_ring_queued(&self) -> bool {
        self.rings.as_ref().is_ok_and(|rings: &_| Rings::any_queued(rings))
    }

    /// Hands over what `worker` has queued, which has run nothing since the last look: in its place, by who is
    /// sentinel, or observes.
    pub(super) fn hand_over_for(&self, worker: usize) {
        let Some(ring) = self.ring_of(worker).filter(|ring| ring.has_queued()) else {
            return;
        };
        let mut wakers = Vec::new();
        ring.try_submit(&mut wakers);
        // As a foreign thread does: who looks may be on its way to sleep, beside its own queues.
        Context::hidden(|| wake_each(&mut wakers));
    }

    /// Begins nothing more in rings.
    pub(super) fn close_rings(&self) {
        if let Ok(rings) = &self.rings {
            rings.close();
        }
    }

    /// Waits until the kernel is done with everything that rings have.
    pub(super) fn drain_rings(&self) {
        if let Ok(rings) = &self.rings {
            rings.drain();
        }
    }
}

impl Context {
    #[inline]
    fn ring(&self) -> Option<&Ring> {
        self.shared.ring_of(self.id.index())
    }

    /// The worker is about to leave its ring alone for a while: hands over what its tasks have queued.
    pub(super) fn hand_over_ring(&self) {
        if let Some(ring) = self.ring() {
            let mut wakers = Vec::new();
            ring.submit(&mut wakers);
            wake_each(&mut wakers);
        }
    }

    /// A poll in which the worker has slept may have been ended by the kernel, to go on with what this thread has
    /// handed over: then its results are events, too.
    pub(super) fn with_results(&self, polled: Polled, catch: &mut Catch) -> Polled {
        match self.ring() {
            Some(ring) if polled == Polled::Notified && ring.is_busy() => ring.reap(&mut catch.wakers),
            _ => return polled,
        }
        if catch.wakers.is_empty() {
            polled
        } else {
            Polled::Events(1)
        }
    }
}

impl Worker {
    /// Hands over what its tasks have queued, and takes results out. What they concern is ready in slot and deque, or
    /// wherever the policies put it. True if there was any.
    #[inline]
    pub(super) fn serve_ring(&mut self) -> bool {
        match self.context.ring() {
            Some(ring) if ring.is_busy() => {
                ring.submit(&mut self.catch.wakers);
                ring.reap(&mut self.catch.wakers);
            }
            _ => return false,
        }
        self.note_caught();
        self.was_busy_until_caught();
        self.wake_caught()
    }

    /// What was caught without a poll has no time yet, by which `wake_caught` goes.
    fn note_caught(&mut self) {
        if !self.catch.wakers.is_empty() {
            self.catch.caught_at = clock::nanos();
        }
    }

    /// A worker that has run dry.
    #[inline]
    pub(super) fn take_completed(&mut self) -> Option<Runnable> {
        if !self.serve_ring() {
            return None;
        }
        let found = self.next_local()?;
        self.announce_leftovers(false);
        Some(found)
    }

    /// On its way to sleep. Only what was queued by a waker, or in a destructor, is still there.
    pub(super) fn empty_ring(&mut self) {
        if let Some(ring) = self.context.ring() {
            ring.submit(&mut self.catch.wakers);
            self.note_caught();
        }
    }
}

#[cfg(all(feature = "io-uring", target_os = "linux", not(quadrille_loom)))]
mod operations {
    use std::io;
    use std::sync::Arc;
    use std::task::Waker;

    use super::{Context, Rings, Shared, wake_each};
    use crate::reactor::Interests;
    use crate::reactor::ring::Closed;
    use crate::sys::ring::Entry;
    use crate::time::presence::AtWork;

    impl Shared {
        /// The rings, whose results are heard of from now on.
        ///
        /// # Errors
        ///
        /// There are none, or the system has no room to watch them; the message says why.
        pub(crate) fn watched_rings(self: &Arc<Self>) -> Result<&Arc<Rings>, String> {
            let rings = self.rings.as_ref().map_err(String::clone)?;
            let register = |worker: usize, fd: std::os::fd::BorrowedFd<'_>| {
                let llc = self.policy.plan.workers[worker].llc.index();
                self.register_behind(llc, fd, Interests::Read)
            };
            let watched: io::Result<()> = rings.watched(register);
            watched.map_err(|error| format!("rings can't be watched: {error}"))?;
            Ok(rings)
        }
    }

    /// Queues an operation in the ring of the calling worker, to be handed over soon; elsewhere hands it over, in any.
    /// Ring and slot.
    ///
    /// # Errors
    ///
    /// The runtime has shut down.
    pub(crate) fn begin(
        rings: &Arc<Rings>,
        entry: Entry,
        waker: Waker,
        at_work: Option<AtWork>,
    ) -> Result<(usize, u32), Closed> {
        Context::with(|context| {
            let is_here = |context: &&Context| context.shared.rings.as_ref().is_ok_and(|own| Arc::ptr_eq(own, rings));
            let mut wakers = Vec::new();
            let Some(context) = context.filter(is_here) else {
                let index = rings.next();
                let slot = rings.of(index).begin_now(&entry, waker, at_work, &mut wakers);
                wake_each(&mut wakers);
                return Ok((index, slot?));
            };
            let index = context.id.index();
            let ring = rings.of(index);
            let begun = ring.begin(entry, waker, at_work)?;
            if begun.completes_batch() {
                ring.submit(&mut wakers);
                wake_each(&mut wakers);
            } else if begun.is_first() {
                // Our task may run for long (O).
                context.keep_watch();
            }
            Ok((index, begun.slot))
        })
    }
}

#[cfg(all(feature = "io-uring", target_os = "linux", not(quadrille_loom)))]
pub(crate) use operations::begin;

#[cfg(all(test, feature = "io-uring", target_os = "linux", not(quadrille_loom)))]
mod tests {
    use std::sync::Arc;
    use std::task::Waker;

    use quadrille_policy::{Config, Nanos};

    use super::*;
    use crate::sched::still::Still;
    use crate::sys::ring::Entry;

    /// A worker that serves its ring knows the time, and that it has worked until then, though it has polled for
    /// nothing else.
    #[test]
    fn results_move_the_clock_on() {
        let Ok(rings) = Rings::new(1).map(Arc::new) else {
            // The kernel refuses.
            return;
        };
        let mut still = Still::with_rings("core:1", "default", Ok(Arc::clone(&rings)));
        let mut worker = still.worker(0);
        let now = (0..).map(|_| Nanos(clock::nanos())).find(|now| now.0 > 0).unwrap();
        worker.context.now.set(Nanos(0));
        let _begun = rings
            .of(0)
            .begin(Entry::nothing(), Waker::noop().clone(), None)
            .unwrap();
        assert!(worker.serve_ring());
        assert!(worker.context.now.get() >= now);
        worker.pace.looks_up(Nanos(0), &Config::default());
        assert!(worker.pace.average_run() >= now);
    }
}
