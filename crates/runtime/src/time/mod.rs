//! Waiting for time to pass: [`sleep`], [`timeout`], [`interval`]; streams with a clock: [`stream`].
//!
//! An [`Instant`] is one of std's by a clock that tests may [`pause`]. A timer never fires early; on an idle machine it
//! fires some tens of microseconds late, there is no tick to be rounded up to. Timers belong to the runtime in which
//! they are made: making one outside of a runtime panics, awaiting one anywhere is fine.
//!
//! A timer is set with the worker whose task waits for it, which fires it between two tasks or gets up for it, or
//! another that is up fires it along: there is no thread of timers, but for those that outlast their runtime. If that
//! worker is held up by a task that does not give way, another one fires it within two sentinel intervals (2 x 500 us),
//! as long as some worker is free. On an idle worker timers within [`timer_slack`](crate::Builder::timer_slack) (90 us;
//! down to 45 where several workers share a cache and its sleeps end late) of the first fire together.

pub(crate) mod clock;
pub mod delay_queue;
mod dial;
mod entry;
pub(crate) mod heap;
mod instant;
mod interval;
mod limit;
pub(crate) mod presence;
mod sleep;
pub(crate) mod store;
mod stray;
pub mod stream;
mod timeout;

pub use std::time::Duration;

pub use self::clock::{advance, pause, resume};
pub use self::delay_queue::DelayQueue;
pub use self::instant::Instant;
#[cfg(feature = "hyper")]
pub(crate) use self::instant::now;

/// See [`Builder::timer_slack`](crate::Builder::timer_slack).
pub(crate) const SLACK: Duration = Duration::from_micros(90);
pub use self::interval::{Interval, MissedTickBehavior, interval, interval_at};
pub use self::sleep::{Sleep, sleep, sleep_until};
pub use self::timeout::{Elapsed, Timeout, timeout, timeout_at};

/// The error, where tokio has it.
pub mod error {
    pub use super::Elapsed;
}

#[cfg(test)]
mod tests;
