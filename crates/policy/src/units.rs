//! Time as it travels through the policies.

/// Nanoseconds on a monotonic clock, or a span of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// A span of `us` microseconds.
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// The span since `earlier`, zero if that lies in the future.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

/// A coarse tick of one millisecond: the window of the migration cap. Wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tick(pub u32);

impl From<Nanos> for Tick {
    #[expect(clippy::cast_possible_truncation, reason = "ticks wrap by design; only equality is asked")]
    fn from(now: Nanos) -> Self {
        Self((now.0 / 1_000_000) as u32)
    }
}
