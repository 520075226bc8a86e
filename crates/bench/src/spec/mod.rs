//! What one run is: a workload with its parameters, its body, a runtime, a kind of channel and a number of workers.
//!
//! A [`Spec`] travels as one JSON argument to the child process that runs it, so the Rust and the Go program read the
//! same thing, and any row can be repeated by hand: `quadrille run-one '<spec>'`, or `quadrille-mimalloc`
//! where the runtime is called so.

mod check;
mod contender;
mod metric;
mod policy;
mod runtime;
mod schbench;
mod serve;
mod shorter;
mod workload;

use serde::{Deserialize, Serialize};

pub(crate) use check::CONNECTIONS_MAX;
pub use contender::{Contender, Contenders};
pub use metric::Metric;
pub use policy::Policy;
pub use runtime::{Family, RuntimeName};
pub use schbench::{Schbench, SchbenchRequests};
pub use serve::{Serve, Service};
pub use workload::{Hackbench, Transport, Workload};

/// What a workload is written with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// Futures, as tasks.
    #[default]
    Tasks,
    /// Functions that wait, as threads: user-level ones where the runtime has them.
    Threads,
}

impl Body {
    /// What its ratios are to: the peer that a user would otherwise take.
    #[must_use]
    pub fn base(self) -> RuntimeName {
        match self {
            Self::Tasks => RuntimeName::Tokio,
            Self::Threads => RuntimeName::Go,
        }
    }

    /// Who is compared unless told otherwise.
    #[must_use]
    pub fn runtimes(self) -> &'static [RuntimeName] {
        use RuntimeName as R;
        match self {
            Self::Tasks => &[R::Quadrille, R::Tokio, R::Smol, R::Go, R::Threads, R::None],
            Self::Threads => &[R::Quadrille, R::Go, R::May, R::Threads],
        }
    }

    /// The word for many of them.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tasks => "tasks",
            Self::Threads => "threads",
        }
    }
}

/// Which channel carries the messages of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChannelKind {
    /// The workload sends no messages, or not through a channel.
    None,
    /// async-channel, the same crate for every Rust runtime.
    Shared,
    /// The best one the runtime brings itself.
    Own,
}

impl ChannelKind {
    /// The name of the channel that `family` uses for this kind.
    #[must_use]
    pub fn name(self, family: Family) -> &'static str {
        match (self, family) {
            (Self::None, _) | (_, Family::None | Family::Hackbench) => "-",
            (Self::Shared, _) | (Self::Own, Family::Smol) => "async-channel",
            (Self::Own, Family::Quadrille) => "quadrille::sync::mpmc",
            (Self::Own, Family::Tokio) => "tokio::sync::mpsc",
            (Self::Own, Family::Go) => "chan",
            (Self::Own, Family::May) => "may::sync::mpsc",
            (Self::Own, Family::Threads) => "std::sync::mpsc",
        }
    }
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// What is done.
    pub workload: Workload,
    /// What it is written with.
    #[serde(default)]
    pub body: Body,
    /// Who does it, as it is typed: `"quadrille:groups=off"`.
    pub runtime: Contender,
    /// What carries the messages.
    pub channel: ChannelKind,
    /// Worker threads, already adjusted for the `-1w` names; threads ignore it.
    pub workers: usize,
    /// Whether the child reports its progress on stderr, a fraction a line.
    #[serde(default)]
    pub progress: bool,
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    /// A small one, for tests.
    pub(super) const HACKBENCH: Hackbench = Hackbench {
        groups: 2,
        fds: 3,
        loops: 5,
        size: 100,
        capacity: 655,
        transport: Transport::Channel,
    };

    #[test]
    fn spec_round_trips_through_json() {
        for workload in [
            Workload::Hackbench(HACKBENCH),
            Workload::SpawnRemote { tasks: 10, batch: 1 },
            Workload::Closed {
                tasks: 16,
                work_us: 20,
                turns: 7,
                via_channel: true,
            },
        ] {
            for runtime in RuntimeName::value_variants() {
                let spec = Spec {
                    workload,
                    body: Body::Threads,
                    runtime: (*runtime).into(),
                    channel: ChannelKind::Own,
                    workers: 2,
                    progress: false,
                };
                let json = serde_json::to_string(&spec).unwrap();
                assert!(json.contains(&format!("\"{}\"", runtime.name())), "{json}");
                assert_eq!(serde_json::from_str::<Spec>(&json).unwrap(), spec);
                let without = json.replace("\"body\":\"threads\",", "");
                assert_eq!(serde_json::from_str::<Spec>(&without).unwrap().body, Body::Tasks);
                assert_eq!(runtime.to_possible_value().unwrap().get_name(), runtime.name());
            }
        }
    }
}
