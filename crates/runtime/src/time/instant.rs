//! Points in time by the clock of the current runtime.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use super::clock;
use crate::sys;

/// A point in time, as [`std::time::Instant`], by the clock of the current runtime: the system's, unless a test has
/// [paused](super::pause) it. Outside of a runtime it is the system's.
///
/// Both types convert into each other; the conversion changes nothing.
///
/// ```
/// use quadrille::time::{Duration, Instant};
///
/// let now = Instant::now();
/// let std: std::time::Instant = (now + Duration::from_secs(1)).into();
/// assert_eq!(Instant::from(std) - now, Duration::from_secs(1));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(std::time::Instant);

/// [`Instant::now`].
pub(crate) fn now() -> Instant {
    Instant(clock::now())
}

impl Instant {
    /// The current instant.
    #[must_use]
    pub fn now() -> Self {
        now()
    }

    /// The same instant, of std's type.
    #[must_use]
    pub fn into_std(self) -> std::time::Instant {
        self.0
    }

    /// The same instant, of this type.
    #[must_use]
    pub fn from_std(std: std::time::Instant) -> Self {
        Self(std)
    }

    /// The time from `earlier` to this instant; zero if that is later.
    #[must_use]
    pub fn duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// The time from `earlier` to this instant; `None` if that is later.
    #[must_use]
    pub fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
        self.0.checked_duration_since(earlier.0)
    }

    /// The time from `earlier` to this instant; zero if that is later.
    #[must_use]
    pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// The time from this instant to now; zero if it is yet to come.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Self::now().duration_since(*self)
    }

    /// `duration` later; `None` if the clock can't express that.
    #[must_use]
    pub fn checked_add(&self, duration: Duration) -> Option<Self> {
        self.0.checked_add(duration).map(Self)
    }

    /// `duration` later, or about 30 years later if the clock can't express that.
    pub(super) fn later(self, duration: Duration) -> Self {
        Self(sys::clock::later(self.0, duration))
    }

    /// `duration` earlier; `None` if the clock can't express that.
    #[must_use]
    pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
        self.0.checked_sub(duration).map(Self)
    }
}

impl From<std::time::Instant> for Instant {
    fn from(std: std::time::Instant) -> Self {
        Self(std)
    }
}

impl From<Instant> for std::time::Instant {
    fn from(instant: Instant) -> Self {
        instant.0
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0 + duration)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        self.0 += duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0 - duration)
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        self.0 -= duration;
    }
}

/// The time between two instants; zero if the second is later.
impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
