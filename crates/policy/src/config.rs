//! Every constant of the policies, with unit, default and origin.

use alloc::string::String;
use core::fmt;

use crate::Nanos;

/// Whether a policy is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Never.
    Off,
    /// Always.
    On,
    /// Where it is known to pay (the default); each policy says when.
    #[default]
    Auto,
}

/// Every constant of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Spinning before a worker publishes itself as idle, at most; 50 us.
    pub spin_max: Nanos,
    /// How often the sentinel looks at all queues while somebody runs; 500 us.
    pub sentinel_interval: Nanos,
    /// Polls of tasks out of the LIFO slot in a row before the deque has its turn; 3.
    pub slot_polls_max: u32,
    /// Operations on the runtime's resources a poll before the task must yield; 128.
    pub budget: u8,
    /// Tasks a worker takes before it looks at the injector and the group's queues again; 61.
    pub global_interval: u32,
    /// Seed of every pseudo-random choice.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            spin_max: Nanos::from_micros(50),
            sentinel_interval: Nanos::from_micros(500),
            slot_polls_max: 3,
            budget: 128,
            global_interval: 61,
            seed: 0x5EED,
        }
    }
}

impl Config {
    /// Plain work stealing: every policy off.
    #[must_use]
    pub fn baseline() -> Self {
        Self::default()
    }
}

/// A configuration that makes no sense; says which field, its value and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub(crate) String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for ConfigError {}
