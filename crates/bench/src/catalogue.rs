//! Which rows a comparison has: the workloads with their parameters, sized so that a run takes 0.3 to 1 s.

use clap::ValueEnum;

use crate::spec::{ChannelKind, Family, Hackbench, RuntimeName, Spec, Transport, Workload};

/// The workloads of `compare`, by the name that is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum WorkloadName {
    /// Messages from everybody to everybody, 1, 4, 10 and 20 groups, with bounds of 655 and 64 messages.
    Hackbench,
    /// Tasks spawned from a task and joined, 1000 a batch.
    SpawnJoin,
    /// 1000 tasks that yield 1000 times.
    Yield,
    /// A number there and back: 1 pair and 1000 pairs.
    PingPong,
    /// Tasks spawned from outside, 1000 a batch and one at a time.
    SpawnRemote,
    /// The longest wait beside a task that spins, and in a closed loop; not part of the default set.
    Fairness,
}

impl WorkloadName {
    /// What `compare` runs if nothing is named: everything but the fairness rows.
    pub const DEFAULT: [Self; 5] = [
        Self::Hackbench,
        Self::SpawnJoin,
        Self::Yield,
        Self::PingPong,
        Self::SpawnRemote,
    ];

    /// Its workloads at full length.
    #[must_use]
    pub fn workloads(self) -> Vec<Workload> {
        match self {
            Self::Hackbench => [655, 64].into_iter().flat_map(hackbench_rows).collect(),
            Self::SpawnJoin => vec![Workload::SpawnJoin {
                tasks: 800_000,
                batch: 1000,
            }],
            Self::Yield => vec![Workload::Yield {
                tasks: 1000,
                yields: 1000,
                rounds: 5,
            }],
            Self::PingPong => vec![
                Workload::PingPong {
                    pairs: 1,
                    round_trips: 400_000,
                },
                Workload::PingPong {
                    pairs: 1000,
                    round_trips: 1200,
                },
            ],
            Self::SpawnRemote => vec![
                Workload::SpawnRemote {
                    tasks: 600_000,
                    batch: 1000,
                },
                Workload::SpawnRemote {
                    tasks: 40_000,
                    batch: 1,
                },
            ],
            Self::Fairness => vec![
                Workload::Spin {
                    spin_us: 50_000,
                    woken: 16,
                    yielders: 0,
                },
                Workload::Spin {
                    spin_us: 50_000,
                    woken: 16,
                    yielders: 16,
                },
                Workload::Closed {
                    tasks: 16,
                    work_us: 20,
                    turns: 3000,
                    via_channel: false,
                },
                Workload::Closed {
                    tasks: 16,
                    work_us: 20,
                    turns: 3000,
                    via_channel: true,
                },
            ],
        }
    }
}

fn hackbench_rows(capacity: usize) -> impl Iterator<Item = Workload> {
    [(1, 8000), (4, 3500), (10, 1400), (20, 700)]
        .into_iter()
        .map(move |(groups, loops)| {
            Workload::Hackbench(Hackbench {
                groups,
                fds: 20,
                loops,
                size: 100,
                capacity,
                transport: Transport::Channel,
            })
        })
}

/// How many times slower operating-system threads are, roughly: they get as much less to do.
fn slowness_of_threads(workload: &Workload) -> usize {
    match workload {
        Workload::Hackbench(_) => 8,
        Workload::SpawnJoin { .. } | Workload::SpawnRemote { .. } => 40,
        Workload::Yield { .. } | Workload::PingPong { .. } => 10,
        Workload::Spin { .. } | Workload::Closed { .. } => 1,
    }
}

/// The channels that `runtime` gets rows for: the shared one, and its own if that is another.
#[must_use]
pub fn channels(workload: &Workload, runtime: RuntimeName) -> Vec<ChannelKind> {
    if !workload.has_channel() {
        return vec![ChannelKind::None];
    }
    match runtime.family() {
        Family::Quadrille | Family::Tokio => vec![ChannelKind::Shared, ChannelKind::Own],
        Family::Smol => vec![ChannelKind::Shared],
        Family::Go | Family::Threads => vec![ChannelKind::Own],
    }
}

/// The rows of one workload, in the order of `runtimes`; `quick` runs a sixth of the work.
#[must_use]
pub fn rows(workload: Workload, runtimes: &[RuntimeName], workers: usize, quick: bool) -> Vec<Spec> {
    let mut rows = Vec::new();
    for &runtime in runtimes {
        let mut divisor = if runtime == RuntimeName::Threads {
            slowness_of_threads(&workload)
        } else {
            1
        };
        // The length of a spin is the question that it asks, so it stays.
        if quick && !matches!(workload, Workload::Spin { .. }) {
            divisor *= 6;
        }
        for channel in channels(&workload, runtime) {
            rows.push(Spec {
                workload: workload.shortened(divisor),
                runtime,
                channel,
                workers: runtime.workers(workers),
                progress: false,
            });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rust_runtime_has_the_shared_channel_and_its_own() {
        let workload = WorkloadName::PingPong.workloads()[0];
        let runtimes = [
            RuntimeName::Quadrille,
            RuntimeName::Tokio1w,
            RuntimeName::Smol,
            RuntimeName::Go,
        ];
        let rows = rows(workload, &runtimes, 2, false);
        let found: Vec<_> = rows
            .iter()
            .map(|row| (row.runtime.name(), row.channel, row.workers))
            .collect();
        assert_eq!(
            found,
            [
                ("quadrille", ChannelKind::Shared, 2),
                ("quadrille", ChannelKind::Own, 2),
                ("tokio-1w", ChannelKind::Shared, 1),
                ("tokio-1w", ChannelKind::Own, 1),
                ("smol", ChannelKind::Shared, 2),
                ("go", ChannelKind::Own, 2),
            ]
        );
    }

    #[test]
    fn threads_and_quick_runs_do_less() {
        let workload = WorkloadName::SpawnJoin.workloads()[0];
        let tasks = |runtime, quick| match rows(workload, &[runtime], 2, quick)[0].workload {
            Workload::SpawnJoin { tasks, .. } => tasks,
            other => panic!("{other:?}"),
        };
        assert_eq!(tasks(RuntimeName::Tokio, false), 800_000);
        assert_eq!(tasks(RuntimeName::Threads, false), 20_000);
        assert_eq!(tasks(RuntimeName::Tokio, true), 133_333);
    }

    #[test]
    fn hackbench_has_both_bounds() {
        let workloads = WorkloadName::Hackbench.workloads();
        let found: Vec<_> = workloads
            .iter()
            .map(|workload| match workload {
                Workload::Hackbench(h) => (h.groups, h.capacity, h.fds, h.size),
                other => panic!("{other:?}"),
            })
            .collect();
        let expected: Vec<_> = [655, 64]
            .into_iter()
            .flat_map(|bound| [1, 4, 10, 20].map(|groups| (groups, bound, 20, 100)))
            .collect();
        assert_eq!(found, expected);
    }
}
