//! Medians and ratios of repeated runs.

use serde::Serialize;

/// The median and the extremes of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The middle value; of an even count, the mean of the two in the middle.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

/// Reduces a sample; `None` if it is empty.
#[must_use]
pub fn spread(values: &[f64]) -> Option<Spread> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let middle = sorted.len() / 2;
    let median = if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    };
    Some(Spread { median, min, max })
}

/// The median of the ratios within each repetition, of those repetitions that have both figures; `None` if the base is nothing in one of them, for
/// without that one it would be another median.
///
/// The ratio of medians is not the same: when the machine changes its speed between repetitions, only runs of the same
/// repetition are comparable.
#[must_use]
pub fn median_ratio(values: &[Option<f64>], base: &[Option<f64>]) -> Option<f64> {
    let pairs = values.iter().zip(base).filter_map(|(value, base)| value.zip(*base));
    let ratios: Option<Vec<f64>> = pairs
        .map(|(value, base)| (base > 0.0).then(|| value / base))
        .collect();
    spread(&ratios?).map(|spread| spread.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[f64], expected: Option<(f64, f64, f64)>) {
        let found = spread(values).map(|s| (s.median, s.min, s.max));
        assert_eq!(found, expected, "{values:?}");
    }

    #[test]
    fn spread_of_odd_even_single_and_empty() {
        check(&[3.0, 1.0, 2.0], Some((2.0, 1.0, 3.0)));
        check(&[4.0, 1.0, 3.0, 2.0], Some((2.5, 1.0, 4.0)));
        check(&[7.0], Some((7.0, 7.0, 7.0)));
        check(&[], None);
    }

    #[test]
    fn ratio_is_taken_within_a_repetition() {
        // The machine halves its speed after the first repetition: the ratio of medians would say 1.5.
        let ours = [Some(50.0), Some(150.0), Some(160.0)];
        let base = [Some(100.0), Some(300.0), Some(100.0)];
        assert_eq!(median_ratio(&ours, &base), Some(0.5));
    }

    #[test]
    fn ratio_leaves_out_repetitions_without_a_partner() {
        assert_eq!(
            median_ratio(&[Some(1.0), None, Some(3.0)], &[None, Some(1.0), Some(1.0)]),
            Some(3.0)
        );
        assert_eq!(median_ratio(&[Some(1.0)], &[None]), None);
    }

    #[test]
    fn there_is_no_ratio_where_the_base_is_nothing_in_one_repetition() {
        let ours = [Some(4.0), Some(6.0), Some(8.0)];
        assert_eq!(median_ratio(&ours, &[Some(0.0), Some(1.0), Some(1.0)]), None);
        assert_eq!(median_ratio(&[Some(0.0)], &[Some(0.0)]), None);
        assert_eq!(median_ratio(&[Some(0.0)], &[Some(1.0)]), Some(0.0));
    }
}
