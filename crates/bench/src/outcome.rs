//! What one run answers: figures, or the reason why there are none.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Event counts by name, as the runtime calls them; empty for runtimes that keep none.
pub type Counters = BTreeMap<String, u64>;

/// The figures of one run, of its timed part alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Operations done and verified.
    pub ops: u64,
    /// Wall time, in nanoseconds.
    pub wall_ns: u64,
    /// Processor time of the whole process in user mode, in nanoseconds.
    pub user_ns: u64,
    /// Processor time of the whole process in the kernel, in nanoseconds.
    pub sys_ns: u64,
    /// Voluntary context switches: how often a thread blocked.
    pub vcsw: u64,
    /// Involuntary context switches.
    pub ivcsw: u64,
    /// The longest wait, in nanoseconds, of the workloads that look for it.
    #[serde(default)]
    pub longest_wait_ns: Option<u64>,
    /// What the runtime, or the workload, counted.
    #[serde(default)]
    pub counters: Counters,
}

impl Measured {
    /// Nanoseconds an operation.
    #[must_use]
    pub fn ns_per_op(&self) -> f64 {
        per(self.wall_ns, self.ops)
    }

    /// Processor nanoseconds an operation, user and kernel, of all threads.
    #[must_use]
    pub fn cpu_ns_per_op(&self) -> f64 {
        per(self.user_ns + self.sys_ns, self.ops)
    }

    /// Voluntary context switches an operation.
    #[must_use]
    pub fn vcsw_per_op(&self) -> f64 {
        per(self.vcsw, self.ops)
    }

    /// The counter with this name for each operation, if there is one.
    #[must_use]
    pub fn counter_per_op(&self, name: &str) -> Option<f64> {
        self.counters.get(name).map(|&count| per(count, self.ops))
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts and nanoseconds of a run stay far below 2^53"
)]
fn per(amount: u64, ops: u64) -> f64 {
    amount as f64 / ops.max(1) as f64
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It ran and its result was right.
    Measured(Measured),
    /// The runtime cannot do this, or is not installed; the reason is for the reader of the row.
    Unsupported(String),
    /// The result was wrong, or the run died.
    Failed(String),
}

/// Why a run has no figures; what the functions below [`crate::run_one`] return.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// Becomes [`Outcome::Unsupported`].
    Unsupported(String),
    /// Becomes [`Outcome::Failed`].
    Failed(String),
}

impl Stop {
    /// A failure with this message.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }

    /// Something the runtime does not do, with the reason.
    pub fn unsupported(reason: impl Into<String>) -> Self {
        Self::Unsupported(reason.into())
    }
}

impl From<Result<Measured, Stop>> for Outcome {
    fn from(result: Result<Measured, Stop>) -> Self {
        result.map_or_else(Self::from, Self::Measured)
    }
}

impl From<Stop> for Outcome {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Unsupported(reason) => Self::Unsupported(reason),
            Stop::Failed(message) => Self::Failed(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_per_operation() {
        let measured = Measured {
            ops: 4,
            wall_ns: 400,
            user_ns: 500,
            sys_ns: 300,
            vcsw: 2,
            ..Measured::default()
        };
        assert_eq!(measured.ns_per_op().to_bits(), 100f64.to_bits());
        assert_eq!(measured.cpu_ns_per_op().to_bits(), 200f64.to_bits());
        assert_eq!(measured.vcsw_per_op().to_bits(), 0.5f64.to_bits());
    }

    #[test]
    fn go_may_leave_out_what_it_does_not_count() {
        let line = r#"{"measured":{"ops":1,"wall_ns":2,"user_ns":3,"sys_ns":4,"vcsw":5,"ivcsw":6}}"#;
        let Outcome::Measured(measured) = serde_json::from_str(line).unwrap() else {
            panic!("not measured")
        };
        assert_eq!((measured.ops, measured.ivcsw, measured.longest_wait_ns), (1, 6, None));
    }
}
