//! Which branch of a `select!` is polled first.
//!
//! Each worker has a generator for that, and so has each `block_on`: all of them follow from the seed of the
//! configuration. A thread of the blocking pool that runs tasks while all workers block in place has one that doesn't.
//! The scheduler draws from others, as often as it happens to search, which differs between two runs of a program.

use std::cell::Cell;

use quadrille_policy::{Rng, WorkerId};

use crate::primitives::{AtomicU64, Ordering, StaticU64};
use crate::sched::context::Context;

thread_local! {
    /// The generator of a thread that is no worker: of its innermost `block_on`, else its own.
    static OF_THREAD: Cell<Option<Rng>> = const { Cell::new(None) };
}

/// A number below `bound`, by chance.
#[doc(hidden)]
#[must_use]
#[inline]
pub fn any_below(bound: u32) -> u32 {
    Context::with(|context| {
        let mut rng = match context {
            Some(context) => context.choices.get(),
            None => OF_THREAD.get().unwrap_or_else(unseeded),
        };
        let chosen = rng.below(bound);
        match context {
            Some(context) => context.choices.set(rng),
            None => OF_THREAD.set(Some(rng)),
        }
        chosen
    })
}

/// For a thread that is in no `block_on`: the process counts them.
#[cold]
fn unseeded() -> Rng {
    static THREADS: StaticU64 = StaticU64::new(0);
    // Ordering: Relaxed; only that threads differ matters.
    Rng::nth(0, THREADS.fetch_add(1, Ordering::Relaxed))
}

/// The generator of a worker.
pub(crate) fn of_worker(seed: u64, id: WorkerId) -> Rng {
    Rng::nth(seed, u64::from(id.0))
}

/// Calls of `block_on` of one runtime that have begun.
#[derive(Debug, Default)]
pub(crate) struct BlockOns(AtomicU64);

impl BlockOns {
    /// Until the guard is dropped the calling thread draws from the generator of the next one.
    pub(crate) fn begin(&self, seed: u64) -> Seeded {
        // Ordering: Relaxed; a count, whose order is that of the calls where those have one.
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        // Workers have numbers of 16 bits.
        let rng = Rng::nth(seed, number.wrapping_add(1 << 16));
        Seeded(OF_THREAD.replace(Some(rng)))
    }
}

/// While it lives, its thread draws from the generator of a `block_on`.
#[derive(Debug)]
pub(crate) struct Seeded(Option<Rng>);

impl Drop for Seeded {
    fn drop(&mut self) {
        OF_THREAD.set(self.0);
    }
}
