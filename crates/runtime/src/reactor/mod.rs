//! Readiness of descriptors: a shard for each cache, polled by the workers behind it.
//!
//! # Vocabulary
//!
//! A *source* is a descriptor with two *sides*, reading and writing; each side is *ready* or not, and has *waiters*. A
//! *tick* counts the events of a side. A *shard* is a set of sources that is polled together; its *holder* is the
//! worker that has the *duty* of polling it. A place in a shard has one owner after the other, told apart by their
//! *generation*.
//!
//! # Who owns what
//!
//! - A [`Registration`] owns its source: a place in its shard's slab.
//! - The [`Duty`] owns the poll: only its holder waits in the set, and marks sources as ready.
//! - Wakers are behind a source's own lock, a leaf, under which no foreign code runs. A read or write that needs not
//!   wait takes no lock, and there is none for a shard or for all.
//!
//! The protocol with its losing interleavings is L in `sched/README.md`; who polls when is decided in `sched/poll.rs`.
//!
//! # What it doesn't do
//!
//! It knows neither workers nor tasks: a holder is a number, and who is to be woken a waker, which the holder calls.

#[cfg(all(test, quadrille_loom))]
mod loom;
mod readiness;
mod registration;
#[cfg(all(feature = "io-uring", target_os = "linux", not(quadrille_loom)))]
pub(crate) mod ring;
#[cfg(not(all(feature = "io-uring", target_os = "linux", not(quadrille_loom))))]
#[path = "ring/absent.rs"]
pub(crate) mod ring;
mod shard;
mod slab;
mod source;

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use crate::panics::quietly;
use crate::primitives::{AtomicBool, AtomicUsize, Ordering};

pub(crate) use self::readiness::{Side, Tick};
pub(crate) use self::registration::{Interests, Ready, Registration, poll_as_thread};
pub(crate) use self::shard::{Catch, Duty, Polled, Shard, stopped};

/// The shards of one runtime, by cache.
pub(crate) struct Reactor {
    shards: Box<[Arc<Shard>]>,
    /// Whether there ever was a source: as long as there was none, nobody looks at the shards.
    used: AtomicBool,
    /// Whose turn it is among the shards, for threads that are behind no cache.
    turn: AtomicUsize,
}

impl Reactor {
    /// One with so many shards, at least one.
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            shards: (0..shards).map(|_| Arc::new(Shard::new())).collect(),
            used: AtomicBool::new(false),
            turn: AtomicUsize::new(0),
        }
    }

    /// Whether any shard may have sources.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        // Ordering: Relaxed; a hint, or after a fence (L b).
        self.used.load(Ordering::Relaxed)
    }

    /// The shard of a cache.
    #[inline]
    pub(crate) fn shard(&self, llc: usize) -> &Arc<Shard> {
        &self.shards[llc]
    }

    /// Every shard.
    pub(crate) fn shards(&self) -> &[Arc<Shard>] {
        &self.shards
    }

    /// Whether a shard has sources and no holder.
    pub(crate) fn any_unpolled(&self) -> bool {
        self.is_used() && self.shards.iter().any(|shard| shard.is_unpolled())
    }

    /// The number of a shard for a thread that is behind no cache: each in turn.
    pub(crate) fn next(&self) -> usize {
        // Ordering: Relaxed; any would do.
        self.turn.fetch_add(1, Ordering::Relaxed) % self.shards.len()
    }

    /// Before a source is added: from now on the shards are looked at.
    pub(crate) fn is_needed(&self) {
        if !self.is_used() {
            // Ordering: Relaxed; before the fence (L b).
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Takes no more sources. Returns who waits for one, and is to hear it.
    pub(crate) fn close(&self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        self.shards.iter().for_each(|shard| shard.close(&mut wakers));
        wakers
    }
}

/// Calls the wakers, of which any may panic.
pub(crate) fn wake_each(wakers: &mut Vec<Waker>) {
    for waker in wakers.drain(..) {
        quietly(|| waker.wake());
    }
}

impl fmt::Debug for Reactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reactor")
            .field("shards", &self.shards.len())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests;
