//! The section of a [`Config`](super::Config) about long tasks that short ones overtake.

use super::Mode;
use crate::Nanos;

/// When a worker runs short tasks before long ones that have waited for longer.
///
/// In turn by number each short task waits for a poll of every long one of its worker. In turn by time it waits for
/// one. After the deficit of M. Shreedhar and George Varghese, "Efficient Fair Queuing Using Deficit Round Robin"
/// (SIGCOMM 1995), who give each flow of packets as many bytes as it had, not as many packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overtake {
    /// Default auto: on.
    pub mode: Mode,
    /// A task whose last poll took as long as this is long, if one of the two before did, too. Default 50 us, 1 us to 1
    /// s; 3 us more for each unit of the [budget](crate::Config::budget) that the poll has spent, from the 17th on.
    /// Ours, assumed: half of what a worker that is busy may take to look up.
    pub poll: Nanos,
    /// After a poll of a long task the others run first for as long as that took, at most for this. Default 1 ms, 0 to
    /// 1 s. Ours, assumed: who computes for 10 ms should have its turn before others have had as much.
    pub time: Nanos,
}

impl Default for Overtake {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            poll: Nanos::from_micros(50),
            time: Nanos::from_millis(1),
        }
    }
}
