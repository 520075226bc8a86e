//! What a stress build (`--cfg quadrille_stress`) changes: random delays where the order of steps matters, small batches,
//! and parks that end by themselves.
//!
//! In an ordinary build the delays are empty and a park ends by a token only.

#[cfg(not(quadrille_stress))]
mod imp {
    use std::time::Duration;

    /// At most so many tasks move in one steal or one visit to an injector.
    pub(crate) const BATCH: usize = 32;

    /// How long a park without a reason to end may last.
    pub(crate) const PARK_MAX: Option<Duration> = None;

    /// A point between two steps of a protocol.
    #[inline(always)]
    pub(crate) fn delay() {}
}

pub(crate) use imp::*;
