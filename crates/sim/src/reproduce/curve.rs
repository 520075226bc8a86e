//! Values over an axis, and how they are read.

/// What lies along a figure: numbers that grow, or cases with names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Axis {
    /// Numbers, in rising order.
    Numbers {
        /// What is counted, such as `groups`.
        name: &'static str,
        /// Where the points lie.
        at: &'static [f64],
        /// Whether equal ratios are drawn equally far apart.
        log: bool,
    },
    /// Cases in the order in which they are told; a case's position is its index.
    Cases {
        /// What differs, such as `policy`.
        name: &'static str,
        /// The names of the cases.
        names: &'static [&'static str],
    },
}

impl Axis {
    /// What lies along the axis.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Numbers { name, .. } | Self::Cases { name, .. } => name,
        }
    }

    /// How many points it has.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Numbers { at, .. } => at.len(),
            Self::Cases { names, .. } => names.len(),
        }
    }

    /// Whether it has no points.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The position of point `index`, for the ranges of a [`Rule`](super::claim::Rule).
    ///
    /// # Panics
    /// If there is no such point.
    #[must_use]
    pub fn position(&self, index: usize) -> f64 {
        match self {
            Self::Numbers { at, .. } => at[index],
            // Figures have tens of cases.
            Self::Cases { names, .. } => {
                assert!(index < names.len(), "point {index} of {} cases", names.len());
                f64::from(u16::try_from(index).unwrap_or(u16::MAX))
            }
        }
    }

    /// What stands below point `index`.
    ///
    /// # Panics
    /// If there is no such point.
    #[must_use]
    pub fn label(&self, index: usize) -> String {
        match self {
            Self::Numbers { at, .. } => at[index].to_string(),
            Self::Cases { names, .. } => names[index].to_owned(),
        }
    }
}

/// What the numbers of a curve are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A ratio to the curve's first point, or to a run beside it: 1 is no difference.
    Ratio,
    /// A difference in percent, positive where the policy is better: 0 is no difference.
    Percent,
}

impl Unit {
    /// The value that means "no difference".
    #[must_use]
    pub const fn neutral(self) -> f64 {
        match self {
            Self::Ratio => 1.0,
            Self::Percent => 0.0,
        }
    }

    /// How far `value` is from "no difference", in points: hundredths of a ratio, or percent.
    #[must_use]
    pub fn points(self, value: f64) -> f64 {
        match self {
            Self::Ratio => (value - 1.0) * 100.0,
            Self::Percent => value,
        }
    }

    /// The value as a reader wants it: `1.18`, `+18.0 %`.
    #[must_use]
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Ratio => format!("{value:.2}"),
            Self::Percent => format!("{value:+.1} %"),
        }
    }
}

/// A named row of values, one a point of the figure's axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// What it is, such as `kernel model, time`.
    pub name: String,
    /// One a point of the axis; nothing where nothing was measured or simulated.
    pub values: Vec<Option<f64>>,
}

impl Curve {
    /// A curve with a value at every point.
    #[must_use]
    pub fn new(name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        Self {
            name: name.into(),
            values: values.into_iter().map(Some).collect(),
        }
    }

    /// A curve that has not been simulated everywhere.
    #[must_use]
    pub fn with_gaps(name: impl Into<String>, values: Vec<Option<f64>>) -> Self {
        Self {
            name: name.into(),
            values,
        }
    }

    /// Every value divided by the first one there is; nothing if that is not above zero.
    #[must_use]
    pub fn relative_to_first(&self) -> Self {
        let first = self.values.iter().flatten().next().copied();
        let divided = self.values.iter().map(|value| match (value, first) {
            (Some(value), Some(first)) if first > 0.0 => Some(value / first),
            _ => None,
        });
        Self {
            name: self.name.clone(),
            values: divided.collect(),
        }
    }

    /// The value at a point, if there is one.
    #[must_use]
    pub fn at(&self, index: usize) -> Option<f64> {
        self.values.get(index).copied().flatten()
    }
}

/// By how many percent `ours` is better than `base`, if less is better (times, latencies): the share of `base` saved.
#[must_use]
pub fn saved_percent(base: f64, ours: f64) -> f64 {
    (base - ours) / base * 100.0
}

/// By how many percent `ours` is more than `base` (throughput; or times, of which the base takes more).
#[must_use]
pub fn gained_percent(base: f64, ours: f64) -> f64 {
    (ours / base - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_curves_begin_with_one() {
        let curve = Curve::new("time", [33.0, 34.0, 49.5]);
        assert_eq!(
            curve.relative_to_first().values,
            [Some(1.0), Some(34.0 / 33.0), Some(1.5)]
        );
        let gap = Curve::with_gaps("time", vec![None, Some(2.0), None, Some(3.0)]);
        assert_eq!(gap.relative_to_first().values, [None, Some(1.0), None, Some(1.5)]);
        assert_eq!(Curve::new("none", [0.0, 1.0]).relative_to_first().values, [None, None]);
    }

    #[test]
    fn units_say_what_no_difference_is() {
        assert_eq!(Unit::Ratio.neutral(), 1.0);
        assert!((Unit::Ratio.points(1.18) - 18.0).abs() < 1e-9);
        assert_eq!(Unit::Percent.points(-5.0), -5.0);
        assert_eq!(Unit::Ratio.text(1.479), "1.48");
        assert_eq!(Unit::Percent.text(-5.04), "-5.0 %");
    }

    #[test]
    fn gains_have_a_direction() {
        assert_eq!(saved_percent(50.0, 40.0), 20.0);
        assert_eq!(gained_percent(50.0, 75.0), 50.0);
        assert_eq!(gained_percent(50.0, 25.0), -50.0);
    }

    #[test]
    fn axes_have_positions_and_labels() {
        let groups = Axis::Numbers {
            name: "groups",
            at: &[1.0, 2.5],
            log: false,
        };
        assert_eq!(
            (groups.len(), groups.position(1), groups.label(1).as_str()),
            (2, 2.5, "2.5")
        );
        assert_eq!(groups.label(0), "1");
        let cases = Axis::Cases {
            name: "policy",
            names: &["off", "on"],
        };
        assert_eq!(
            (cases.len(), cases.position(1), cases.label(1).as_str()),
            (2, 1.0, "on")
        );
        assert_eq!(cases.name(), "policy");
    }
}
