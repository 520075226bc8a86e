//! The published figures, as data, and what is asked of a simulation of each.
//!
//! Every figure is somebody else's measurement on a real machine under Linux. It is stored as it was published, with
//! its source, and compared as ratios or percentages only: the order of cases, the place where a curve turns, the sign
//! of a difference. Rows have letters because that is how the report, the plots and the documentation call them.
//!
//! Message-Ids resolve at `https://lore.kernel.org/lkml/<id>/`; commits are those of Linux mainline.

mod caches;
mod idle;
mod moves;
mod nodes;
mod queues;

use super::claim::Rule;
use super::curve::{Axis, Curve, Unit};

/// One row of the report: a published figure and what is asked of its simulation.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// The row's name: a letter, `A'` excepted.
    pub row: &'static str,
    /// What it shows, in a few words.
    pub title: &'static str,
    /// What was run, on which machine.
    pub experiment: &'static str,
    /// How the numbers are to be read: what they are relative to, what is better, what is our reading of the source.
    pub reading: &'static str,
    /// Where it was published.
    pub sources: &'static [&'static str],
    /// What lies along it.
    pub axis: Axis,
    /// What the compared numbers are.
    pub unit: Unit,
    /// The published curves.
    pub published: &'static [Published],
    /// What is asked of the simulated curves.
    pub asked: &'static [Asked],
}

impl Figure {
    /// The published curve of this name, in the figure's unit.
    #[must_use]
    pub fn published_curve(&self, name: &str) -> Option<Curve> {
        let found = self.published.iter().find(|published| published.name == name);
        found.map(Published::curve)
    }

    /// The figure's name in file names: `a`, `a-prime`, `b`.
    #[must_use]
    pub fn file_stem(&self) -> String {
        self.row.to_lowercase().replace('\'', "-prime")
    }
}

/// A published curve, as it was published.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// What was measured.
    pub name: &'static str,
    /// One value a point of the axis; NaN where the source has none.
    pub values: &'static [f64],
    /// What the values count, such as `s`.
    pub counts: &'static str,
    /// How they become the figure's unit.
    pub scale: Scale,
}

/// How published values become comparable ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// They are.
    AsIs,
    /// Divided by the first.
    ToFirst,
}

impl Published {
    /// The comparable curve.
    #[must_use]
    pub fn curve(&self) -> Curve {
        let values = self.values.iter().map(|&value| (!value.is_nan()).then_some(value));
        let curve = Curve::with_gaps(self.name, values.collect());
        match self.scale {
            Scale::AsIs => curve,
            Scale::ToFirst => curve.relative_to_first(),
        }
    }
}

/// What a simulated curve is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Against {
    /// A constant in the rule.
    Nothing,
    /// A published curve of the figure.
    Published(&'static str),
    /// Another simulated curve of the row.
    Simulated(&'static str),
}

/// A claim about one simulated curve.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The claim in words.
    pub text: &'static str,
    /// The name of the simulated curve.
    pub of: &'static str,
    /// What it is held against.
    pub against: Against,
    /// The claim.
    pub rule: Rule,
}

/// Every figure, in the order of the letters.
#[must_use]
pub fn figures() -> Vec<&'static Figure> {
    let mut all: Vec<&'static Figure> = [
        queues::FIGURES,
        idle::FIGURES,
        moves::FIGURES,
        caches::FIGURES,
        nodes::FIGURES,
    ]
    .into_iter()
    .flatten()
    .collect();
    all.sort_by_key(|figure| figure.row);
    all
}

/// The figure of a row; capital or small letters, `A'` also as `a-prime`.
#[must_use]
pub fn figure(row: &str) -> Option<&'static Figure> {
    figures()
        .into_iter()
        .find(|figure| figure.row.eq_ignore_ascii_case(row) || figure.file_stem() == row.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_there_once() {
        let rows: Vec<&str> = figures().iter().map(|figure| figure.row).collect();
        let expected = "A A' B C D E F G H I J K L M N O P Q R S T";
        assert_eq!(rows.join(" "), expected);
    }

    #[test]
    fn rows_are_found_by_name() {
        for (name, row) in [("a", "A"), ("A'", "A'"), ("a-prime", "A'"), ("T", "T")] {
            assert_eq!(figure(name).map(|figure| figure.row), Some(row), "{name}");
        }
        assert!(figure("U").is_none() && figure("").is_none());
    }

    /// What a table of constants can get wrong.
    #[test]
    fn figures_are_whole() {
        for figure in figures() {
            let row = figure.row;
            assert!(!figure.sources.is_empty(), "{row} has a source");
            assert!(!figure.asked.is_empty(), "{row} asks for something");
            for published in figure.published {
                assert_eq!(published.values.len(), figure.axis.len(), "{row} {}", published.name);
                assert!(
                    published.curve().values.iter().any(Option::is_some),
                    "{row} {}",
                    published.name
                );
            }
            for asked in figure.asked {
                match asked.against {
                    Against::Published(name) => assert!(figure.published_curve(name).is_some(), "{row} {name}"),
                    Against::Simulated(name) => assert_ne!(name, asked.of, "{row}"),
                    Against::Nothing => {}
                }
            }
            let positions: Vec<f64> = (0..figure.axis.len())
                .map(|index| figure.axis.position(index))
                .collect();
            assert!(positions.is_sorted(), "{row}");
        }
    }

    /// A simulation that gave exactly what was published would meet what is held against it.
    #[test]
    fn published_curves_meet_their_own_claims() {
        use crate::reproduce::claim::{Evidence, check};
        for figure in figures() {
            for asked in figure.asked {
                let Against::Published(name) = asked.against else {
                    continue;
                };
                let curve = figure.published_curve(name);
                let (Some(ours), Some(theirs)) = (&curve, &curve) else {
                    panic!("{} has no curve {name}", figure.row);
                };
                let evidence = Evidence {
                    axis: &figure.axis,
                    unit: figure.unit,
                    curve: ours,
                    against: Some(theirs),
                };
                let verdict = check(&asked.rule, &evidence);
                assert!(verdict.met, "{} {}: {}", figure.row, asked.text, verdict.because);
            }
        }
    }

    #[test]
    fn published_values_become_comparable() {
        let time = figure("A")
            .and_then(|figure| figure.published_curve("hackbench time"))
            .expect("A");
        let rounded: Vec<f64> = time
            .values
            .iter()
            .flatten()
            .map(|v| (v * 100.0).round() / 100.0)
            .collect();
        assert_eq!(rounded, [1.0, 1.03, 1.03, 1.18, 1.48]);
    }
}
