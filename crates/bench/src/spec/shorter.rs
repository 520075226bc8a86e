//! The same workload with less of it to do.

use super::{Hackbench, Schbench, SchbenchRequests, Serve, Workload};

/// How much of the work is done once before the measurement: one part in this many, or near it, as
/// [`Workload::shortened`] has it; a tree of `skynet` has a tenth.
const WARM_UP_DIVISOR: usize = 8;

impl Workload {
    /// The part of it that is done once before the measurement; nothing for a workload that is about the first time.
    #[must_use]
    pub fn warm_up(self) -> Option<Self> {
        match self {
            // The generator warms a server up.
            Self::Sleepers { .. } | Self::Serve(_) | Self::Idle { .. } => None,
            _ => Some(self.shortened(WARM_UP_DIVISOR)),
        }
    }

    /// The same with `1/divisor` of the operations, or as near to it as their kind allows, and at least one of each:
    /// trees and Fibonacci numbers shrink in steps, and what comes in batches or passes has whole ones.
    #[must_use]
    pub fn shortened(self, divisor: usize) -> Self {
        let part = |count: usize| (count / divisor).max(1);
        match self {
            Self::Hackbench(h) => Self::Hackbench(Hackbench {
                loops: part(h.loops),
                ..h
            }),
            Self::SpawnJoin { tasks, batch } => Self::SpawnJoin {
                tasks: part(tasks).max(batch),
                batch,
            },
            Self::SpawnRemote { tasks, batch } => Self::SpawnRemote {
                tasks: part(tasks).max(batch),
                batch,
            },
            Self::BlockOn { tasks } => Self::BlockOn { tasks: part(tasks) },
            Self::Blocking { tasks, jobs } => Self::Blocking {
                tasks,
                jobs: part(jobs),
            },
            Self::Broadcast {
                receivers,
                messages,
                batch,
            } => Self::Broadcast {
                receivers,
                messages: part(messages),
                batch,
            },
            Self::Yield { tasks, yields, rounds } => {
                let (yields, rounds) = fewer_yields(yields, rounds, divisor);
                Self::Yield { tasks, yields, rounds }
            }
            Self::PingPong { pairs, round_trips } => Self::PingPong {
                pairs,
                round_trips: part(round_trips),
            },
            Self::Skynet { leaves } => Self::Skynet {
                leaves: fewer_leaves(leaves, divisor),
            },
            Self::Sleepers { threads } => Self::Sleepers { threads: part(threads) },
            Self::Chain { depth, rounds } => Self::Chain {
                depth,
                rounds: part(rounds),
            },
            Self::Fib { number, rounds } if rounds >= divisor => Self::Fib {
                number,
                rounds: part(rounds),
            },
            Self::Fib { number, .. } => Self::Fib {
                number: number.saturating_sub(steps_of_fibonacci(divisor)).max(1),
                rounds: 1,
            },
            Self::Closed {
                tasks,
                work_us,
                turns,
                via_channel,
            } => Self::Closed {
                tasks,
                work_us,
                turns: part(turns),
                via_channel,
            },
            other => other.shortened_waits(divisor),
        }
    }

    /// [`Workload::shortened`] for those that wait, or move memory.
    fn shortened_waits(self, divisor: usize) -> Self {
        let part = |count: usize| (count / divisor).max(1);
        match self {
            Self::Spin {
                spin_us,
                woken,
                yielders,
            } => Self::Spin {
                spin_us: (spin_us / divisor as u64).max(1),
                woken,
                yielders,
            },
            Self::Timers {
                tasks,
                sleeps,
                from_us,
                to_us,
            } => Self::Timers {
                tasks,
                sleeps: part(sleeps),
                from_us,
                to_us,
            },
            Self::TimeoutDrop { timers } => Self::TimeoutDrop { timers: part(timers) },
            Self::Schbench(params) => Self::Schbench(Schbench {
                rounds: part(params.rounds),
                ..params
            }),
            Self::SchbenchRequests(params) => Self::SchbenchRequests(SchbenchRequests {
                requests: part(params.requests),
                ..params
            }),
            Self::Mixed {
                pairs,
                round_trips,
                heavy,
                piece_us,
            } => Self::Mixed {
                pairs,
                round_trips: part(round_trips),
                heavy,
                piece_us,
            },
            Self::Load {
                percent,
                work_us,
                millis,
            } => Self::Load {
                percent,
                work_us,
                millis: (millis / divisor as u64).max(1),
            },
            Self::Pipe { round_trips } => Self::Pipe {
                round_trips: part(round_trips),
            },
            Self::Stream { elements, passes } => Self::Stream {
                elements,
                passes: part(passes),
            },
            Self::Numa { turns } => Self::Numa { turns: part(turns) },
            Self::Idle { connections, millis } => Self::Idle {
                connections: part(connections),
                millis: (millis / divisor as u64).max(1),
            },
            Self::Serve(serve) => Self::Serve(Serve {
                millis: (serve.millis / divisor as u64).max(1),
                ..serve
            }),
            other => other,
        }
    }
}

/// By how many a Fibonacci number's index must fall for about `1/divisor` of the calls: each step is a factor of 1.6.
fn steps_of_fibonacci(divisor: usize) -> usize {
    (0..)
        .take_while(|&steps| 1.618_f64.powi(steps) < divisor as f64)
        .count()
}

/// Yields a task and round, and rounds: fewer rounds as long as there are some.
fn fewer_yields(yields: usize, rounds: usize, divisor: usize) -> (usize, usize) {
    if rounds >= divisor {
        (yields, (rounds / divisor).max(1))
    } else {
        ((yields * rounds / divisor).max(1), 1)
    }
}

/// The power of ten that is about `leaves / divisor`: a tenth for each power of ten that the divisor has begun.
fn fewer_leaves(leaves: usize, divisor: usize) -> usize {
    let mut leaves = leaves;
    let mut divisor = divisor;
    while divisor > 1 && leaves > 1 {
        leaves /= 10;
        divisor = divisor.div_ceil(10);
    }
    leaves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortened_keeps_at_least_one_operation() {
        assert_eq!(
            Workload::SpawnJoin {
                tasks: 5000,
                batch: 1000
            }
            .shortened(100),
            Workload::SpawnJoin {
                tasks: 1000,
                batch: 1000
            }
        );
        assert_eq!(
            Workload::Yield {
                tasks: 3,
                yields: 10,
                rounds: 2
            }
            .shortened(4),
            Workload::Yield {
                tasks: 3,
                yields: 5,
                rounds: 1
            }
        );
        assert_eq!(
            Workload::PingPong {
                pairs: 1,
                round_trips: 3
            }
            .shortened(8),
            Workload::PingPong {
                pairs: 1,
                round_trips: 1
            }
        );
    }

    #[test]
    fn fibonacci_is_shortened_by_rounds_and_then_by_steps() {
        let fib = |number, rounds| Workload::Fib { number, rounds };
        assert_eq!(fib(25, 8).shortened(8), fib(25, 1));
        assert_eq!(fib(25, 1).shortened(8), fib(20, 1));
        assert_eq!(fib(3, 1).shortened(1000), fib(1, 1));
    }

    #[test]
    fn a_tree_is_shortened_by_whole_levels() {
        for (divisor, leaves) in [(1, 1000), (6, 100), (10, 100), (11, 10), (600, 1), (100_000, 1)] {
            let shortened = Workload::Skynet { leaves: 1000 }.shortened(divisor);
            assert_eq!(shortened, Workload::Skynet { leaves }, "{divisor}");
        }
    }
}
