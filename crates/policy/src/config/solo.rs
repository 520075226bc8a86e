//! The section of a [`Config`](super::Config) about going on with one worker.

use super::Mode;
use crate::Nanos;

/// When one worker goes on alone, because that gets more done than all of them together do.
///
/// Concurrency restriction, after Dave Dice and Alex Kogan, "Avoiding Scalability Collapse by Restricting Concurrency"
/// (arXiv 1905.10818), who do it for the threads that contend for a lock; that it is tried and measured is the way of
/// .NET's thread pool (Joseph Hellerstein and others, "Optimizing Concurrency Levels in the .NET ThreadPool", 2008).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solo {
    /// Default auto: on with two to four workers behind one last-level cache whose wake-ups are not queued in groups.
    /// On: with any number of workers. Always off with one.
    pub mode: Mode,
    /// For how long it is measured what all get done, and what one. Default 2 ms, 100 us to 100 ms. Ours, assumed: some
    /// twenty looks at the clock.
    pub window: Nanos,
    /// By how much more one must get done, in per cent. Default 10, 0 to 1000. Ours, assumed.
    pub gain: u16,
    /// For how long it goes on alone before all are measured again; twice as long after each time that it was right, up
    /// to 64 times this. Default 20 ms, 0 to 1 s. Ours, assumed.
    pub hold: Nanos,
    /// For how long nothing is tried after it got less done, unless all get so little done that the one would gain 20 %
    /// more than it must; twice as long after each time, up to 32 times this. Default 200 ms, 0 to 10 s. Ours, assumed:
    /// with 6.4 s trials that are in vain cost less than a thousandth of the time.
    pub pause: Nanos,
    /// It is tried only where one of so many polls, at least, is of a task that another worker polled before. Default
    /// 16, 1 or more. Ours, assumed: where 40 tasks all talk to each other it is 2 of 5, with four such groups less
    /// than 1 in 100.
    pub moves: u32,
    /// It is tried only where a worker takes no longer than this for a poll on average, idle time included. Default 10
    /// us, at most 1 s. Ours, assumed: what a task loses to a line that is elsewhere is some hundred nanoseconds, and
    /// one that spends all of its budget on messages takes 2 to 6 us.
    pub run: Nanos,
}

impl Default for Solo {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            window: Nanos::from_millis(2),
            gain: 10,
            hold: Nanos::from_millis(20),
            pause: Nanos::from_millis(200),
            moves: 16,
            run: Nanos::from_micros(10),
        }
    }
}
