//! Waiting for time to pass: [`sleep`], [`timeout`], [`interval`].
//!
//! Instants are [`std::time::Instant`]. A timer never fires early; on an idle machine it fires some tens of microseconds
//! late, there is no tick to be rounded up to. Timers belong to the runtime in which they are made: making one outside of a
//! runtime panics, awaiting one anywhere is fine.

mod interval;
mod sleep;
mod timeout;

pub use std::time::{Duration, Instant};

pub use self::interval::{Interval, MissedTickBehavior, interval, interval_at};
pub use self::sleep::{Sleep, sleep, sleep_until};
pub use self::timeout::{Elapsed, Timeout, timeout, timeout_at};
