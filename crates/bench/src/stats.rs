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

/// The ratios of one row to a base, within each repetition.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratios {
    /// Their median and extremes.
    #[serde(flatten)]
    pub spread: Spread,
    /// How many there are.
    pub pairs: usize,
}

/// With so many ratios the extremes say something.
const PAIRS_MIN: usize = 3;

impl Ratios {
    /// Whether it is less than 1 by more than `noise`: the median is, and if there are three or more all of them are
    /// less than 1.
    #[must_use]
    pub fn is_less(&self, noise: f64) -> bool {
        self.spread.median < 1.0 - noise && (self.pairs < PAIRS_MIN || self.spread.max < 1.0)
    }

    /// Whether it is more than 1, likewise.
    #[must_use]
    pub fn is_more(&self, noise: f64) -> bool {
        self.spread.median > 1.0 + noise && (self.pairs < PAIRS_MIN || self.spread.min > 1.0)
    }
}

/// The ratios within each repetition, of those repetitions that have both figures; `None` if the base is nothing in one
/// of them, for without that one the median would be another.
///
/// The ratio of medians is not the same: when the machine changes its speed between repetitions, only runs of the same
/// repetition are comparable.
#[must_use]
pub fn ratios(values: &[Option<f64>], base: &[Option<f64>]) -> Option<Ratios> {
    let pairs = values.iter().zip(base).filter_map(|(value, base)| value.zip(*base));
    let ratios: Option<Vec<f64>> = pairs.map(|(value, base)| (base > 0.0).then(|| value / base)).collect();
    let ratios = ratios?;
    Some(Ratios {
        spread: spread(&ratios)?,
        pairs: ratios.len(),
    })
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

    fn median_ratio(values: &[Option<f64>], base: &[Option<f64>]) -> Option<f64> {
        ratios(values, base).map(|ratios| ratios.spread.median)
    }

    #[test]
    fn a_ratio_differs_from_one_if_the_median_does_and_no_repetition_says_the_contrary() {
        let check = |values: &[f64], expected: (bool, bool)| {
            let values: Vec<Option<f64>> = values.iter().copied().map(Some).collect();
            let ratios = ratios(&values, &vec![Some(1.0); values.len()]).unwrap();
            assert_eq!((ratios.is_less(0.05), ratios.is_more(0.05)), expected, "{values:?}");
        };
        check(&[0.5, 0.9, 0.99], (true, false));
        check(&[0.5, 0.9, 1.01], (false, false));
        check(&[0.5, 0.97, 0.99], (false, false));
        check(&[2.0, 1.1, 1.01], (false, true));
        check(&[2.0, 1.1, 0.99], (false, false));
        // Of two the extremes are all there is.
        check(&[0.5, 1.1], (true, false));
        check(&[2.0, 0.9], (false, true));
        check(&[1.0], (false, false));
    }

    #[test]
    fn ratios_have_a_spread() {
        let found = ratios(
            &[Some(1.0), None, Some(4.0), Some(9.0)],
            &[Some(2.0), Some(1.0), Some(2.0), Some(3.0)],
        );
        let spread = spread(&[0.5, 2.0, 3.0]).unwrap();
        assert_eq!(found, Some(Ratios { spread, pairs: 3 }));
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
