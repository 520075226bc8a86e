//! The section of a [`Config`](super::Config) about timers.

/// Which worker of a cache has its timers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timers {
    /// Workers that sleep behind the same cache at which one looks that gets up for a timer of its own, whose timers it
    /// then fires along, at most; 0: at none. Default 4, at most 4096. The idea is the kernel's (Anna-Maria Behnsen,
    /// "timers: Move from a push to a pull model", 20240221090548.36600-1-anna-maria@linutronix.de, Linux 6.9), where
    /// the CPUs that are awake fire the timers of idle ones; the number is ours, assumed.
    pub looks: u16,
    /// What the slack of timers is divided by, at most, where one worker fires for others: it gets up once where each
    /// of them did, and some of what that saves is spent on being less late. How late its sleeps end anyway is taken
    /// off the slack, down to that part of it. Default 2, 1 (all of it is left, always) to 1000. Ours, measured: where
    /// sleeps end on time, 1,000 tasks that sleep are late by 46 us at the median, with half of the slack by 26, for
    /// 0.81 of the CPU.
    pub slack_div: u16,
}

impl Default for Timers {
    fn default() -> Self {
        Self { looks: 4, slack_div: 2 }
    }
}
