//! What is asked of a simulated curve, in a form that a program can check.
//!
//! Claims are about order, sign, place and ratio; there is none about seconds, because a simulator's seconds mean
//! nothing. A rule is a pure function of a simulated curve and, for some, of the curve it is held against (the
//! published one, or another simulated one). The answer always says with which numbers it was met or missed, so that a
//! reader can judge how narrowly.

use super::curve::{Axis, Curve, Unit};

/// From one position of the axis to another, both included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// The first position.
    pub from: f64,
    /// The last position.
    pub to: f64,
}

impl Span {
    /// Every position.
    pub const ALL: Self = Self {
        from: f64::NEG_INFINITY,
        to: f64::INFINITY,
    };

    /// From `from` to `to`, both included.
    #[must_use]
    pub const fn new(from: f64, to: f64) -> Self {
        Self { from, to }
    }

    /// One position alone.
    #[must_use]
    pub const fn at(position: f64) -> Self {
        Self::new(position, position)
    }

    fn contains(self, position: f64) -> bool {
        (self.from..=self.to).contains(&position)
    }
}

/// What a curve must do. Points are hundredths of a ratio, or percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// At each point at most so many points away from the other curve.
    Within {
        /// The tolerance.
        points: f64,
    },
    /// Any two points are ordered as on the other curve. Where that one has them equal (within `equal` percent of each
    /// other), so must this one (within `slack` percent); elsewhere this one must differ by `least` percent.
    SameOrder {
        /// What counts as equal on the other curve, in percent.
        equal: f64,
        /// What is allowed on this one where the other is equal, in percent.
        slack: f64,
        /// What counts as different on this one, in percent: less is an accident.
        least: f64,
    },
    /// At each point on the same side of "no difference" as the other curve. Where that one is nearer than `zero`
    /// points, this one must be nearer than `slack`.
    SameSign {
        /// What counts as no difference on the other curve.
        zero: f64,
        /// What is allowed on this one there.
        slack: f64,
    },
    /// Never further from "no difference" than this in the span.
    Flat {
        /// Where.
        span: Span,
        /// The tolerance.
        points: f64,
    },
    /// The largest value lies in the span, and is better than "no difference".
    PeakIn {
        /// Where.
        span: Span,
    },
    /// At least this value everywhere in the span.
    AtLeast {
        /// Where.
        span: Span,
        /// The least value.
        value: f64,
    },
    /// At most this value everywhere in the span.
    AtMost {
        /// Where.
        span: Span,
        /// The greatest value.
        value: f64,
    },
    /// From each point of the span to the next it does not fall by more than `slack` points, and it ends higher than it
    /// began by more than that.
    Grows {
        /// Where.
        span: Span,
        /// How much it may fall from one point to the next.
        slack: f64,
    },
    /// The first point at which the value is reached lies in the span.
    ReachesIn {
        /// Where.
        span: Span,
        /// Which value.
        value: f64,
    },
    /// Where the other curve is more than `least` points from "no difference", this one is at most `share` of that.
    AtMostShare {
        /// The share, 0 to 1.
        share: f64,
        /// Smaller differences of the other curve say nothing.
        least: f64,
    },
}

/// Whether a claim was met, and the numbers that decide it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether.
    pub met: bool,
    /// The numbers: the point that comes nearest to missing, or the first that misses.
    pub because: String,
}

/// What a rule is applied to.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The axis of both curves.
    pub axis: &'a Axis,
    /// The unit of both curves.
    pub unit: Unit,
    /// The simulated curve.
    pub curve: &'a Curve,
    /// What it is held against, for the rules that need it.
    pub against: Option<&'a Curve>,
}

/// Applies a rule. A point without a value where one is needed misses the claim.
#[must_use]
pub fn check(rule: &Rule, evidence: &Evidence<'_>) -> Verdict {
    let decided = match *rule {
        Rule::Within { points } => evidence.within(points),
        Rule::SameOrder { equal, slack, least } => evidence.same_order(equal, slack, least),
        Rule::SameSign { zero, slack } => evidence.same_sign(zero, slack),
        Rule::Flat { span, points } => evidence.bounded(span, |unit, value| points - unit.points(value).abs()),
        Rule::AtLeast { span, value: least } => evidence.bounded(span, |_, value| value - least),
        Rule::AtMost { span, value: most } => evidence.bounded(span, |_, value| most - value),
        Rule::PeakIn { span } => evidence.peak_in(span),
        Rule::Grows { span, slack } => evidence.grows(span, slack),
        Rule::ReachesIn { span, value } => evidence.reaches_in(span, value),
        Rule::AtMostShare { share, least } => evidence.at_most_share(share, least),
    };
    match decided {
        Ok(because) => Verdict { met: true, because },
        Err(because) => Verdict { met: false, because },
    }
}

/// The numbers if the rule is met, the numbers if it is missed.
type Decided = Result<String, String>;

impl Evidence<'_> {
    /// The values in a span with their indices.
    fn values(&self, span: Span) -> Result<Vec<(usize, f64)>, String> {
        let indices = (0..self.axis.len()).filter(|&index| span.contains(self.axis.position(index)));
        let found = indices.map(|index| match self.curve.at(index) {
            Some(value) => Ok((index, value)),
            None => Err(format!("nothing was simulated at {}", self.axis.label(index))),
        });
        let found: Vec<_> = found.collect::<Result<_, _>>()?;
        if found.is_empty() {
            return Err("there is no point where the claim speaks".to_owned());
        }
        Ok(found)
    }

    /// The points at which both curves have a value: index, ours, theirs.
    fn pairs(&self) -> Result<Vec<(usize, f64, f64)>, String> {
        let against = self.against.ok_or("there is nothing to hold it against")?;
        let pairs = (0..self.axis.len()).filter_map(|index| against.at(index).map(|theirs| (index, theirs)));
        let pairs: Vec<_> = pairs
            .map(|(index, theirs)| match self.curve.at(index) {
                Some(ours) => Ok((index, ours, theirs)),
                None => Err(format!("nothing was simulated at {}", self.axis.label(index))),
            })
            .collect::<Result<_, _>>()?;
        if pairs.is_empty() {
            return Err("the other curve has no points".to_owned());
        }
        Ok(pairs)
    }

    fn text(&self, value: f64) -> String {
        self.unit.text(value)
    }

    fn point(&self, index: usize, ours: f64, theirs: f64) -> String {
        let label = self.axis.label(index);
        format!("at {label} {} against {}", self.text(ours), self.text(theirs))
    }

    fn within(&self, points: f64) -> Decided {
        let off = |ours: f64, theirs: f64| (self.unit.points(ours) - self.unit.points(theirs)).abs();
        let pairs = self.pairs()?;
        let worst = pairs
            .iter()
            .max_by(|a, b| off(a.1, a.2).total_cmp(&off(b.1, b.2)))
            .copied();
        let (index, ours, theirs) = worst.ok_or("the curves have no common points")?;
        let distance = off(ours, theirs);
        let numbers = format!("{}, {distance:.0} points off", self.point(index, ours, theirs));
        // Written so that a NaN misses.
        if distance <= points { Ok(numbers) } else { Err(numbers) }
    }

    fn same_order(&self, equal: f64, slack: f64, least: f64) -> Decided {
        let pairs = self.pairs()?;
        for (position, &(a, ours_a, theirs_a)) in pairs.iter().enumerate() {
            for &(b, ours_b, theirs_b) in &pairs[position + 1..] {
                let theirs = (theirs_b / theirs_a - 1.0) * 100.0;
                let ours = (ours_b / ours_a - 1.0) * 100.0;
                let agrees = if theirs.abs() <= equal {
                    ours.abs() <= slack
                } else {
                    ours * theirs > 0.0 && ours.abs() >= least
                };
                if !agrees {
                    let (a, b) = (self.axis.label(a), self.axis.label(b));
                    return Err(format!("from {a} to {b} {ours:+.1} % against {theirs:+.1} %"));
                }
            }
        }
        Ok(self.listed(&pairs))
    }

    fn same_sign(&self, zero: f64, slack: f64) -> Decided {
        let pairs = self.pairs()?;
        for &(index, ours, theirs) in &pairs {
            let (our_points, their_points) = (self.unit.points(ours), self.unit.points(theirs));
            let agrees = if their_points.abs() <= zero {
                our_points.abs() <= slack
            } else {
                our_points * their_points > 0.0
            };
            if !agrees {
                return Err(self.point(index, ours, theirs));
            }
        }
        Ok(self.listed(&pairs))
    }

    /// Our values, as a list.
    fn listed(&self, pairs: &[(usize, f64, f64)]) -> String {
        let values: Vec<String> = pairs.iter().map(|&(_, ours, _)| self.text(ours)).collect();
        values.join(", ")
    }

    /// `room` says by how much a value meets the claim; a negative room misses it.
    fn bounded(&self, span: Span, room: impl Fn(Unit, f64) -> f64) -> Decided {
        let values = self.values(span)?;
        let room = |value: f64| room(self.unit, value);
        let tightest = values.iter().min_by(|a, b| room(a.1).total_cmp(&room(b.1)));
        let &(index, value) = tightest.ok_or("there is no point where the claim speaks")?;
        let numbers = format!("{} at {}", self.text(value), self.axis.label(index));
        if room(value) >= 0.0 { Ok(numbers) } else { Err(numbers) }
    }

    fn peak_in(&self, span: Span) -> Decided {
        let values = self.values(Span::ALL)?;
        let peak = values.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let &(index, value) = peak.ok_or("there are no points")?;
        let numbers = format!(
            "the largest value is {} at {}",
            self.text(value),
            self.axis.label(index)
        );
        let is_better = value > self.unit.neutral();
        if is_better && span.contains(self.axis.position(index)) {
            Ok(numbers)
        } else {
            Err(numbers)
        }
    }

    fn grows(&self, span: Span, slack: f64) -> Decided {
        let values = self.values(span)?;
        for step in values.windows(2) {
            let fall = self.unit.points(step[0].1) - self.unit.points(step[1].1);
            if fall > slack {
                let (a, b) = (self.axis.label(step[0].0), self.axis.label(step[1].0));
                return Err(format!("it falls by {fall:.1} points from {a} to {b}"));
            }
        }
        let (first, last) = (values[0].1, values[values.len() - 1].1);
        let numbers = format!("from {} to {}", self.text(first), self.text(last));
        if self.unit.points(last) - self.unit.points(first) > slack {
            Ok(numbers)
        } else {
            Err(numbers)
        }
    }

    fn reaches_in(&self, span: Span, value: f64) -> Decided {
        let values = self.values(Span::ALL)?;
        let Some(&(index, found)) = values.iter().find(|(_, found)| *found >= value) else {
            return Err(format!("{} is never reached", self.text(value)));
        };
        let numbers = format!("{} first at {}", self.text(found), self.axis.label(index));
        if span.contains(self.axis.position(index)) {
            Ok(numbers)
        } else {
            Err(numbers)
        }
    }

    fn at_most_share(&self, share: f64, least: f64) -> Decided {
        let pairs = self.pairs()?;
        let speaking: Vec<_> = pairs
            .into_iter()
            .filter(|&(_, _, theirs)| self.unit.points(theirs).abs() > least)
            .collect();
        if speaking.is_empty() {
            return Err(format!("the other curve never differs by more than {least:.0} points"));
        }
        for &(index, ours, theirs) in &speaking {
            let (our_points, their_points) = (self.unit.points(ours).abs(), self.unit.points(theirs).abs());
            if our_points.is_nan() || our_points > share * their_points {
                return Err(self.point(index, ours, theirs));
            }
        }
        Ok(self.listed(&speaking))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXIS: Axis = Axis::Numbers {
        name: "x",
        at: &[1.0, 2.0, 4.0, 8.0],
        log: true,
    };

    fn verdict(unit: Unit, ours: &Curve, theirs: Option<&Curve>, rule: Rule) -> Verdict {
        let evidence = Evidence {
            axis: &AXIS,
            unit,
            curve: ours,
            against: theirs,
        };
        check(&rule, &evidence)
    }

    /// `because` is a part of the reason.
    fn check_ratio(ours: [f64; 4], theirs: [f64; 4], rule: Rule, met: bool, because: &str) {
        let verdict = verdict(
            Unit::Ratio,
            &Curve::new("ours", ours),
            Some(&Curve::new("theirs", theirs)),
            rule,
        );
        assert_eq!(verdict.met, met, "{rule:?} {ours:?}: {verdict:?}");
        assert!(verdict.because.contains(because), "{verdict:?}");
    }

    fn check_percent(ours: [f64; 4], rule: Rule, met: bool, because: &str) {
        let verdict = verdict(Unit::Percent, &Curve::new("ours", ours), None, rule);
        assert_eq!(verdict.met, met, "{rule:?} {ours:?}: {verdict:?}");
        assert!(verdict.because.contains(because), "{verdict:?}");
    }

    #[test]
    fn within_names_the_worst_point() {
        let rule = Rule::Within { points: 10.0 };
        let theirs = [1.0, 1.03, 1.18, 1.48];
        check_ratio(theirs, theirs, rule, true, "0 points off");
        check_ratio([1.0, 1.0, 1.1, 1.4], theirs, rule, true, "at ");
        check_ratio(
            [1.0, 1.0, 1.1, 1.6],
            theirs,
            rule,
            false,
            "at 8 1.60 against 1.48, 12 points off",
        );
        check_ratio([1.0, f64::NAN, 1.1, 1.4], theirs, rule, false, "NaN");
    }

    #[test]
    fn order_is_compared_pair_by_pair() {
        let rule = Rule::SameOrder {
            equal: 5.0,
            slack: 8.0,
            least: 2.0,
        };
        let theirs = [1.0, 1.03, 1.18, 1.48];
        check_ratio([1.0, 0.95, 1.3, 3.0], theirs, rule, true, "1.00, 0.95, 1.30, 3.00");
        check_ratio(
            [1.0, 1.2, 1.3, 3.0],
            theirs,
            rule,
            false,
            "from 1 to 2 +20.0 % against +3.0 %",
        );
        check_ratio([1.0, 1.0, 1.3, 1.2], theirs, rule, false, "from 4 to 8");
        // In the right order, but by no more than noise.
        check_ratio(
            [1.0, 1.0, 1.03, 1.04],
            theirs,
            rule,
            false,
            "from 4 to 8 +1.0 % against +25.4 %",
        );
    }

    #[test]
    fn signs_are_about_no_difference() {
        let rule = Rule::SameSign { zero: 2.0, slack: 5.0 };
        let theirs = [1.3, 1.01, 0.5, 1.0];
        check_ratio([1.01, 0.97, 0.9, 1.04], theirs, rule, true, "1.01");
        check_ratio([1.01, 0.9, 0.9, 1.0], theirs, rule, false, "at 2 0.90 against 1.01");
        check_ratio([1.01, 1.0, 1.9, 1.0], theirs, rule, false, "at 4 1.90 against 0.50");
    }

    #[test]
    fn bounds_name_the_tightest_point() {
        let all = Span::ALL;
        let light = Span::new(1.0, 2.0);
        let flat = |points| Rule::Flat { span: light, points };
        check_percent([1.0, -2.0, 50.0, 0.0], flat(2.0), true, "-2.0 % at 2");
        check_percent([1.0, -2.0, 50.0, 0.0], flat(1.5), false, "-2.0 % at 2");
        let least = |value| Rule::AtLeast { span: all, value };
        check_percent([1.0, -2.0, 50.0, 0.0], least(-2.0), true, "-2.0 % at 2");
        check_percent([1.0, -2.1, 50.0, 0.0], least(-2.0), false, "-2.1 % at 2");
        let most = Rule::AtMost {
            span: Span::at(4.0),
            value: 5.0,
        };
        check_percent([9.0, 9.0, 4.0, 9.0], most, true, "+4.0 % at 4");
        check_percent([9.0, 9.0, 6.0, 9.0], most, false, "+6.0 % at 4");
    }

    #[test]
    fn peaks_are_gains() {
        let rule = Rule::PeakIn {
            span: Span::new(2.0, 4.0),
        };
        check_percent([0.0, 9.0, 8.0, 1.0], rule, true, "+9.0 % at 2");
        check_percent([0.0, 9.0, 8.0, 10.0], rule, false, "+10.0 % at 8");
        check_percent([-3.0, -1.0, -2.0, -2.0], rule, false, "-1.0 % at 2");
    }

    #[test]
    fn growth_allows_small_falls() {
        let rule = Rule::Grows {
            span: Span::ALL,
            slack: 2.0,
        };
        check_percent([0.0, -1.0, 9.0, 8.0], rule, true, "from +0.0 % to +8.0 %");
        check_percent([0.0, 9.0, 5.0, 10.0], rule, false, "falls by 4.0 points from 2 to 4");
        check_percent([0.0, 0.0, 1.0, 1.0], rule, false, "from +0.0 % to +1.0 %");
    }

    #[test]
    fn crossings_have_a_place() {
        let rule = Rule::ReachesIn {
            span: Span::new(4.0, 8.0),
            value: 20.0,
        };
        check_percent([0.0, 1.0, 30.0, 10.0], rule, true, "+30.0 % first at 4");
        check_percent([0.0, 25.0, 30.0, 10.0], rule, false, "+25.0 % first at 2");
        check_percent([0.0, 1.0, 3.0, 10.0], rule, false, "+20.0 % is never reached");
    }

    #[test]
    fn shares_speak_where_there_is_a_gain() {
        let rule = Rule::AtMostShare { share: 0.5, least: 5.0 };
        check_ratio(
            [1.3, 1.08, 1.1, 1.2],
            [1.04, 1.2, 1.3, 1.7],
            rule,
            true,
            "1.08, 1.10, 1.20",
        );
        check_ratio(
            [1.3, 1.08, 1.1, 1.4],
            [1.04, 1.2, 1.3, 1.7],
            rule,
            false,
            "at 8 1.40 against 1.70",
        );
        check_ratio([1.0; 4], [1.0; 4], rule, false, "never differs");
    }

    #[test]
    fn what_is_not_known_is_not_met() {
        let gap = Curve::with_gaps("ours", vec![Some(1.0), None, Some(1.0), Some(1.0)]);
        let whole = Curve::new("theirs", [1.0; 4]);
        let within = Rule::Within { points: 10.0 };
        let missed = verdict(Unit::Ratio, &gap, Some(&whole), within);
        assert_eq!(
            (missed.met, missed.because.as_str()),
            (false, "nothing was simulated at 2")
        );
        // Where the other curve says nothing, nothing is asked.
        assert!(verdict(Unit::Ratio, &gap, Some(&gap), within).met);
        assert!(!verdict(Unit::Ratio, &whole, None, within).met);
        let nowhere = Rule::Flat {
            span: Span::at(3.0),
            points: 1.0,
        };
        assert!(!verdict(Unit::Ratio, &whole, None, nowhere).met);
    }
}
