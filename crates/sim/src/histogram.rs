//! A histogram of times with a fixed relative error.

use quadrille_policy::Nanos;

/// Steps a power of two: values differ by at most 1/32 from what their bucket says.
const STEPS: u32 = 32;
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// Times in buckets that are 3 % wide; exact below 32 ns.
///
/// ```
/// use quadrille_policy::Nanos;
/// use quadrille_sim::Histogram;
///
/// let mut times = Histogram::default();
/// (1..=1000).for_each(|us| times.record(Nanos::from_micros(us)));
/// let p99 = times.quantile(0.99).0;
/// assert!(p99.abs_diff(990_000) < 990_000 / 32, "{p99}");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    max: Nanos,
}

impl Histogram {
    /// Adds one value.
    pub fn record(&mut self, value: Nanos) {
        let bucket = bucket_of(value.0);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.count += 1;
        self.sum += u128::from(value.0);
        self.max = self.max.max(value);
    }

    /// How many values there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean; zero if there is none.
    #[must_use]
    pub fn mean(&self) -> Nanos {
        Nanos(u64::try_from(self.sum / u128::from(self.count.max(1))).unwrap_or(u64::MAX))
    }

    /// The largest, exact.
    #[must_use]
    pub fn max(&self) -> Nanos {
        self.max
    }

    /// The value below or at which a share of all values lies (0.99 for the 99th percentile), as the upper end of its
    /// bucket; zero if there is none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Nanos {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and the count; a rank is exact up to 2^53 values"
        )]
        let rank = ((self.count as f64 * share.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Nanos(end_of(bucket).min(self.max.0));
            }
        }
        self.max
    }
}

fn bucket_of(value: u64) -> usize {
    if value < u64::from(STEPS) {
        return usize::try_from(value).unwrap_or_default();
    }
    let exponent = value.ilog2();
    let step = value >> (exponent - STEP_BITS) & u64::from(STEPS - 1);
    usize::try_from(u64::from((exponent - STEP_BITS + 1) * STEPS) + step).unwrap_or_default()
}

/// The largest value in a bucket.
fn end_of(bucket: usize) -> u64 {
    let bucket = u64::try_from(bucket).unwrap_or(u64::MAX);
    let (octave, step) = (bucket / u64::from(STEPS), bucket % u64::from(STEPS));
    match octave {
        0 => step,
        _ => ((u64::from(STEPS) + step + 1) << (octave - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_the_values_up_to_its_end() {
        for value in (0..5_000).chain([1 << 20, (1 << 40) + 12_345, u64::MAX >> 1]) {
            let bucket = bucket_of(value);
            assert!(end_of(bucket) >= value, "{value}");
            assert!(bucket == 0 || end_of(bucket - 1) < value, "{value}");
            assert!(end_of(bucket) - value <= value / 32, "{value}");
        }
    }

    #[test]
    fn an_empty_one_says_zero() {
        let empty = Histogram::default();
        assert_eq!(
            (empty.quantile(0.5), empty.mean(), empty.max()),
            (Nanos(0), Nanos(0), Nanos(0))
        );
    }

    #[test]
    fn mean_and_maximum_are_exact() {
        let mut times = Histogram::default();
        [1, 2, 1_000_000].into_iter().for_each(|ns| times.record(Nanos(ns)));
        assert_eq!(
            (times.mean(), times.max(), times.count()),
            (Nanos(333_334), Nanos(1_000_000), 3)
        );
        assert_eq!(times.quantile(1.0), Nanos(1_000_000));
        assert_eq!(times.quantile(0.0), Nanos(1));
    }
}
