//! The report: simulated curves beside published ones, and whether they say the same.
//!
//! ```text
//!  published   figures as data, and what is asked of each ──┐
//!  rows        runs that make a row's simulated curves ─────┼──► Row ──► table (text), svg (plot)
//!  claim       rules: order, sign, place, ratio ────────────┤
//!  expected    what was met when it was last looked at ─────┘
//! ```
//!
//! - A **figure** is a published measurement of somebody else, as data with its source ([`published`]).
//! - A **curve** is a row of values over the figure's axis ([`curve`]).
//! - A **claim** is what a simulated curve must do ([`claim`]): a rule that a program checks, never "looks alike".
//! - A **row** joins a figure with the curves that were simulated for it. Its claims are *met* or *missed*; a missed
//!   one stays in the report with the reason.
//!
//! Costs are calibrated on row A alone; every other row is a prediction. Nothing here compares seconds.

pub mod claim;
pub mod curve;
pub mod expected;
pub mod published;
pub mod rows;
pub mod svg;
pub mod table;

use claim::{Evidence, Verdict};
use curve::Curve;
use published::{Against, Asked, Figure};

/// A figure, and what was simulated for it.
#[derive(Clone, Debug)]
pub struct Row {
    /// The published figure.
    pub figure: &'static Figure,
    /// The simulated curves, in the figure's unit.
    pub curves: Vec<Curve>,
    /// Under which conditions: machine, workload, configurations, seeds, and whatever is smaller than in the source.
    pub conditions: Vec<String>,
    /// What a reader must know about the result; why claims are missed, if any are. May be empty.
    pub remark: String,
}

/// A claim and its verdict.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The claim.
    pub asked: &'static Asked,
    /// Whether the simulated curve meets it.
    pub verdict: Verdict,
}

impl Row {
    /// The simulated curve of this name.
    #[must_use]
    pub fn curve(&self, name: &str) -> Option<&Curve> {
        self.curves.iter().find(|curve| curve.name == name)
    }

    /// Checks every claim of the figure.
    ///
    /// ```
    /// use quadrille_sim::reproduce::{Row, curve::Curve, published};
    ///
    /// let row = Row {
    ///     figure: published::figure("A'").expect("there is a row A'"),
    ///     curves: vec![Curve::new("kernel model", [1.0, 1.02])],
    ///     conditions: Vec::new(),
    ///     remark: String::new(),
    /// };
    /// assert!(row.findings().iter().all(|finding| finding.verdict.met));
    /// ```
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let check = |asked: &'static Asked| Finding {
            asked,
            verdict: self.judge(asked),
        };
        self.figure.asked.iter().map(check).collect()
    }

    fn judge(&self, asked: &Asked) -> Verdict {
        let missed = |because: String| Verdict { met: false, because };
        let Some(curve) = self.curve(asked.of) else {
            return missed(format!("`{}` was not simulated", asked.of));
        };
        let against = match asked.against {
            Against::Nothing => None,
            Against::Published(name) => self.figure.published_curve(name),
            Against::Simulated(name) => self.curve(name).cloned(),
        };
        let evidence = Evidence {
            axis: &self.figure.axis,
            unit: self.figure.unit,
            curve,
            against: against.as_ref(),
        };
        claim::check(&asked.rule, &evidence)
    }
}

#[cfg(test)]
mod tests {
    use super::expected::Standing;
    use super::*;

    /// A row with these curves.
    pub(super) fn row(name: &str, curves: Vec<Curve>) -> Row {
        Row {
            figure: published::figure(name).expect("a row"),
            curves,
            conditions: Vec::new(),
            remark: String::new(),
        }
    }

    #[test]
    fn claims_find_their_curves() {
        let eager = Curve::new("gain, shared counters", [20.0, 40.0, 80.0]);
        let lazy = Curve::new("gain, lazy counters", [2.0, 10.0, 0.0]);
        assert_eq!(row("C", vec![eager.clone(), lazy.clone()]).standing(), Standing::Met);
        assert_eq!(row("C", vec![lazy.clone()]).standing(), Standing::Missed);
        let findings = row("C", vec![eager]).findings();
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].verdict.because, "`gain, lazy counters` was not simulated");
    }

    #[test]
    fn rows_are_met_by_all_claims_only() {
        let kernel = |name: &str| Curve::new(name, [1.0, 1.0, 1.05, 1.2, 1.5]);
        let both = row("A", vec![kernel("kernel model"), kernel("shipped model")]);
        assert_eq!(both.standing(), Standing::Met);
        let flat = Curve::new("shipped model", [1.0; 5]);
        let half = row("A", vec![kernel("kernel model"), flat]);
        let met: Vec<bool> = half.findings().iter().map(|finding| finding.verdict.met).collect();
        assert_eq!(met, [true, false]);
        assert_eq!(half.standing(), Standing::Half);
    }
}
