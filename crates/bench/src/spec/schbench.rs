//! What schbench does: wake-ups of workers, as before 2023 and in a closed loop, and requests, as since then.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Body;

/// Messengers that wake workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schbench {
    /// Messengers.
    pub messengers: usize,
    /// Workers of each.
    pub workers: usize,
    /// Work for each wake-up, in microseconds.
    pub work_us: u64,
    /// Time between two wake-ups of all on average, in microseconds: half to one and a half times as long; 0 is the
    /// closed loop.
    pub tick_us: u64,
    /// Wake-ups a worker.
    pub rounds: usize,
}

impl Schbench {
    /// Whether workers ask to be woken.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.tick_us == 0
    }

    /// Work for each wake-up.
    #[must_use]
    pub fn work(&self) -> Duration {
        Duration::from_micros(self.work_us)
    }

    /// The name of its rows.
    #[must_use]
    pub fn name(&self, body: Body) -> &'static str {
        match (self.is_closed(), body) {
            (true, Body::Tasks) => "schbench_closed",
            (true, Body::Threads) => "thread_schbench_closed",
            (false, Body::Tasks) => "schbench_tick",
            (false, Body::Threads) => "thread_schbench_tick",
        }
    }
}

/// Workers, as many as the runtime has, that ask the one messenger and then serve a request of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchbenchRequests {
    /// How long each sleeps at the beginning of a request, in microseconds.
    pub sleep_us: u64,
    /// KiB of its three matrices together.
    pub kib: usize,
    /// Products a request.
    pub operations: usize,
    /// Requests of each.
    pub requests: usize,
}

impl SchbenchRequests {
    /// How long each sleeps at the beginning of a request.
    #[must_use]
    pub fn sleep(&self) -> Duration {
        Duration::from_micros(self.sleep_us)
    }
}
