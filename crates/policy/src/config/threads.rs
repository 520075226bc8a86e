//! The sections of a [`Config`](super::Config) about threads: user-level ones, and those that workers are.

use crate::Nanos;

/// Which worker starts a user-level thread, and so has it for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// How many started threads more than another worker, and a [share](Self::share_div) of its own, a worker has
    /// before a user-level thread that it is about to start is left to that one instead; those that follow are until
    /// both have as many. A thief that has no more than that takes what there is. Default 8; at most 1,000,000, which
    /// is never. Ours, assumed.
    pub slack: u32,
    /// The share: its started threads divided by this. A thief takes threads that have not begun only if it then has
    /// more than this share more. Default 8, 1 or more. Ours, assumed.
    pub share_div: u32,
    /// How long a worker that already has more of them, or hardly fewer, leaves user-level threads which have not begun
    /// to the worker that spawned them, while that one is in the middle of a task. Default 10 ms, 0 to 1 s; 0: not at
    /// all. Ours, assumed.
    pub patience: Nanos,
    /// Between two questions, by such a worker, whether it still is. Default 50 us, at most 1 s: in 1 ms a
    /// spawner makes thousands, and what was true at its beginning parts them otherwise at its end. Ours, measured.
    pub pause: Nanos,
    /// Threads that are rescued at once from a worker to which they are left, at most. Default 8, 1 to 4096. Ours,
    /// assumed.
    pub rescue: u32,
    /// Threads that wait in the queue of another group for a worker of that which gets up, at most. Default 128, at
    /// most 1,000,000. Ours, assumed.
    pub waiting: u32,
    /// Without groups: threads that are rescued at once from such a queue, at most. Default 16, 1 to 4096. Ours,
    /// assumed.
    pub waiting_rescue: u32,
}

impl Default for Bind {
    fn default() -> Self {
        Self {
            slack: 8,
            share_div: 8,
            patience: Nanos::from_millis(10),
            pause: Nanos::from_micros(50),
            rescue: 8,
            waiting: 128,
            waiting_rescue: 16,
        }
    }
}

/// Where workers are pinned one to one by themselves, and when one whose hardware threads are wanted by others may run
/// anywhere in its last-level cache, or, if there are fewer workers than hardware threads, anywhere at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Up to so many workers may run anywhere in their last-level cache from the start. Default 4, as wake-ups are not
    /// queued in groups by themselves then; 0 or more. Ours, measured on two CPUs, where workers that mostly sleep take
    /// up to 1.65 times the CPU if pinned.
    pub few: u32,
    /// How often a bound worker that may run elsewhere then looks how long it was ready and did not run. Default 1 s, 1
    /// ms to 1000 s. Ours, assumed.
    pub look: Nanos,
    /// Too much is more than the time since the last look divided by this. Default 10, 1 or more. Ours, assumed.
    pub delay_div: u32,
}

impl Default for Pin {
    fn default() -> Self {
        Self {
            few: 4,
            look: Nanos::from_millis(1000),
            delay_div: 10,
        }
    }
}
