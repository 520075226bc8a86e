//! What is measured: the figures of a workload.

use super::{Serve, Workload};
use crate::moves::Distance;

/// What a figure of a workload is; the smaller, the better, if it [is compared](Metric::is_compared).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Nanoseconds an operation.
    PerOperation,
    /// The longest wait, in nanoseconds.
    LongestWait,
    /// The median latency, in nanoseconds.
    P50,
    /// The latency that one in a hundred exceeds.
    P99,
    /// The latency that one in a thousand exceeds.
    P999,
    /// The median latency from when the wake-up was due, in nanoseconds, where the others are from when somebody came
    /// to it.
    DueP50,
    /// What one of those in a hundred exceeds.
    DueP99,
    /// The median of how long a whole request takes, in nanoseconds, where latencies are those of its wake-up.
    RequestP50,
    /// What one request in a hundred exceeds.
    RequestP99,
    /// Processor nanoseconds an operation, of all threads.
    Cpu,
    /// Nanoseconds from the first spawn until all have begun, for each thread.
    CreateEach,
    /// Bytes by which the process has grown in memory when all sleep, for each thread or connection.
    MemoryEach,
    /// How often threads of the runtime were woken while nothing was to be done.
    WakeUps,
    /// Nanoseconds from the first wake-up until all are joined, for each thread.
    WakeJoinEach,
    /// Operations a second; in an open loop as many as are due, as long as they can be done. It says what happened.
    Throughput,
    /// How often a second a task ran on a worker so far from the last one. It says what happened.
    Moves(Distance),
}

impl Metric {
    /// Its name in JSON, and in the counters of a run if it is not what the run itself is timed by.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PerOperation => "ns_per_op",
            Self::LongestWait => "longest_wait_ns",
            Self::P50 => "p50_ns",
            Self::P99 => "p99_ns",
            Self::P999 => "p999_ns",
            Self::DueP50 => "due_p50_ns",
            Self::DueP99 => "due_p99_ns",
            Self::RequestP50 => "request_p50_ns",
            Self::RequestP99 => "request_p99_ns",
            Self::Cpu => "cpu_ns_per_op",
            Self::CreateEach => "create_ns",
            Self::MemoryEach => "rss_bytes",
            Self::WakeUps => "wake_ups",
            Self::WakeJoinEach => "wake_join_ns",
            Self::Throughput => "ops_per_s",
            Self::Moves(Distance::Group) => "moves_group_per_s",
            Self::Moves(Distance::Llc) => "moves_llc_per_s",
            Self::Moves(Distance::Node) => "moves_node_per_s",
            Self::Moves(Distance::Machine) => "moves_machine_per_s",
        }
    }

    /// Whether less of it is better, so that ratios to a base say something.
    #[must_use]
    pub fn is_compared(self) -> bool {
        !matches!(self, Self::Throughput | Self::Moves(_))
    }

    /// Which quantile it is, in thousandths; `None` if it is none.
    #[must_use]
    pub fn permille(self) -> Option<usize> {
        match self {
            Self::P50 | Self::DueP50 | Self::RequestP50 => Some(500),
            Self::P99 | Self::DueP99 | Self::RequestP99 => Some(990),
            Self::P999 => Some(999),
            _ => None,
        }
    }
}

impl Workload {
    /// What its figures are; a table each.
    #[must_use]
    pub fn metrics(&self) -> &'static [Metric] {
        match self {
            Self::Spin { .. } | Self::Closed { .. } => &[Metric::LongestWait],
            Self::Sleepers { .. } => &[Metric::CreateEach, Metric::MemoryEach, Metric::WakeJoinEach],
            Self::Idle { .. } => &[Metric::MemoryEach, Metric::WakeUps],
            Self::Timers { .. } => &[Metric::P50, Metric::P99, Metric::Cpu],
            Self::Schbench(params) if params.is_closed() => {
                &[Metric::P50, Metric::P99, Metric::P999, Metric::LongestWait]
            }
            Self::Schbench(_) => &[
                Metric::P50,
                Metric::P99,
                Metric::P999,
                Metric::LongestWait,
                Metric::DueP50,
                Metric::DueP99,
            ],
            Self::SchbenchRequests(_) => &[
                Metric::PerOperation,
                Metric::RequestP50,
                Metric::RequestP99,
                Metric::P50,
                Metric::P99,
            ],
            Self::Mixed { .. } => &[Metric::P50, Metric::P99, Metric::PerOperation],
            Self::Serve(Serve { rate: 0, .. }) => &[Metric::Cpu, Metric::PerOperation, Metric::P50, Metric::P99],
            Self::Serve(_) => &[Metric::Cpu, Metric::P50, Metric::P99, Metric::P999],
            Self::Load { .. } => &[
                Metric::Throughput,
                Metric::P50,
                Metric::P99,
                Metric::P999,
                Metric::Cpu,
                Metric::Moves(Distance::Group),
                Metric::Moves(Distance::Llc),
                Metric::Moves(Distance::Node),
                Metric::Moves(Distance::Machine),
            ],
            _ => &[Metric::PerOperation],
        }
    }
}
