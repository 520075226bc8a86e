//! Latencies: every one is kept, so that quantiles are exact.

use std::time::{Duration, Instant};

use crate::outcome::Measured;
use crate::spec::Metric;

/// Latencies in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<u64>);

impl Samples {
    /// None yet, and room for `count`, so that keeping them does not allocate.
    #[must_use]
    pub fn with_capacity(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    /// Latencies that were collected elsewhere, in nanoseconds.
    #[must_use]
    pub fn from_nanos(nanos: Vec<u64>) -> Self {
        Self(nanos)
    }

    /// Adds what has passed since `instant`.
    pub fn add_since(&mut self, instant: Instant) {
        self.add(instant.elapsed());
    }

    /// Adds one.
    pub fn add(&mut self, latency: Duration) {
        self.0.push(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the quantiles and the longest into the figures of a run.
    #[must_use]
    pub fn into(mut self, mut measured: Measured) -> Measured {
        self.put(&[Metric::P50, Metric::P99, Metric::P999], &mut measured);
        measured.longest_wait_ns = self.0.last().copied();
        measured
    }

    /// Writes the quantiles, as those from when each was due, into the figures of a run that has others.
    #[must_use]
    pub fn into_dues(mut self, mut measured: Measured) -> Measured {
        self.put(&[Metric::DueP50, Metric::DueP99], &mut measured);
        measured
    }

    /// Writes the quantiles, as those of whole requests, into the figures of a run that has others.
    #[must_use]
    pub fn into_requests(mut self, mut measured: Measured) -> Measured {
        self.put(&[Metric::RequestP50, Metric::RequestP99], &mut measured);
        measured
    }

    /// Sorts them, and writes these quantiles of theirs.
    fn put(&mut self, metrics: &[Metric], measured: &mut Measured) {
        self.0.sort_unstable();
        for metric in metrics {
            if let Some(permille) = metric.permille() {
                let quantile = quantile(&self.0, permille);
                measured.counters.insert(metric.name().to_owned(), quantile);
            }
        }
    }
}

/// The least value that `permille` thousandths of the sorted values do not exceed; 0 without values.
fn quantile(sorted: &[u64], permille: usize) -> u64 {
    let rank = (sorted.len() * permille).div_ceil(1000);
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let sorted: Vec<u64> = (1..=1000).collect();
        assert_eq!(
            [500, 990, 999, 1000].map(|permille| quantile(&sorted, permille)),
            [500, 990, 999, 1000]
        );
        assert_eq!([0, 500, 999].map(|permille| quantile(&[7], permille)), [7, 7, 7]);
        assert_eq!(quantile(&[1, 9], 500), 1);
        assert_eq!(quantile(&[], 500), 0);
    }

    #[test]
    fn a_run_gets_its_quantiles_as_counters() {
        let mut samples = Samples::with_capacity(4);
        samples.add(Duration::from_nanos(30));
        samples.merge(Samples::from_nanos(vec![10, 20]));
        assert_eq!((samples.len(), samples.is_empty()), (3, false));
        let measured = samples.into(Measured::default());
        let found = ["p50_ns", "p99_ns", "p999_ns"].map(|name| measured.counters[name]);
        assert_eq!((found, measured.longest_wait_ns), ([20, 30, 30], Some(30)));
    }
}
