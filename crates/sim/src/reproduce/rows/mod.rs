//! How each row's curves are simulated.
//!
//! One function a row: it names machine, workload, model and the configurations that stand for the published cases,
//! runs them with a fixed seed, and returns curves in the figure's unit. What a configuration stands for is a
//! judgement, and is said in the row's conditions.

mod caches;
mod idle;
mod lab;
mod moves;
mod nodes;
mod queues;

pub use lab::{Effort, Lab, LabError};

use super::Row;
use super::curve::Curve;
use super::published::Figure;

/// What a row function returns.
#[derive(Clone, Debug, Default)]
struct Simulated {
    curves: Vec<Curve>,
    conditions: Vec<String>,
    remark: String,
}

impl Simulated {
    fn new(curves: Vec<Curve>, conditions: Vec<String>, remark: &str) -> Self {
        Self {
            curves,
            conditions,
            remark: remark.to_owned(),
        }
    }
}

type RowFn = fn(&Lab) -> Result<Simulated, LabError>;

const ROWS: &[(&str, RowFn)] = &[
    ("A", queues::a),
    ("A'", queues::a_prime),
    ("B", queues::b),
    ("C", queues::c),
    ("D", queues::d),
    ("E", idle::e),
    ("F", idle::f),
    ("G", queues::g),
    ("H", moves::h),
    ("I", moves::i),
    ("J", moves::j),
    ("K", moves::k),
    ("L", caches::l),
    ("M", caches::m),
    ("N", caches::n),
    ("O", caches::o),
    ("P", caches::p),
    ("Q", nodes::q),
    ("R", queues::r),
    ("S", queues::s),
    ("T", queues::t),
];

impl Lab {
    /// Simulates the row of a figure.
    ///
    /// # Errors
    /// If a run cannot be made: a machine or configuration that this build does not know.
    pub fn simulate(&self, figure: &'static Figure) -> Result<Row, LabError> {
        let (_, row) = ROWS
            .iter()
            .find(|(name, _)| *name == figure.row)
            .ok_or_else(|| LabError::new(format!("row {}: nothing simulates it", figure.row)))?;
        let simulated = row(self)?;
        Ok(Row {
            figure,
            curves: simulated.curves,
            conditions: simulated.conditions,
            remark: simulated.remark,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::published;

    fn check_row(name: &str) -> Row {
        let lab = Lab {
            effort: Effort::Quick,
            ..Lab::default()
        };
        let figure = published::figure(name).expect("a row");
        let row = lab.simulate(figure).unwrap_or_else(|error| panic!("{name}: {error}"));
        for asked in figure.asked {
            let curve = row
                .curve(asked.of)
                .unwrap_or_else(|| panic!("{name} has no curve {}", asked.of));
            assert_eq!(curve.values.len(), figure.axis.len(), "{name} {}", curve.name);
        }
        row
    }

    /// Rows that take a moment even without optimisation; the others differ in machine and configuration only.
    #[test]
    fn rows_have_the_curves_that_claims_are_about() {
        for name in ["Q", "T"] {
            check_row(name);
        }
    }

    #[test]
    fn rows_come_out_the_same_twice() {
        assert_eq!(check_row("Q").curves, check_row("Q").curves);
    }

    #[test]
    fn every_figure_has_its_row() {
        let figures: Vec<&str> = published::figures().iter().map(|figure| figure.row).collect();
        let rows: Vec<&str> = ROWS.iter().map(|(name, _)| *name).collect();
        assert_eq!(rows, figures);
    }
}
