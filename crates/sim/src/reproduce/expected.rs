//! What is known to be met and missed, by which values, and whether a report still says so.
//!
//! A [`Standing`] is what the claims of a row come to. `expected.txt` beside this file has the standing of every row,
//! each of its claims, and the values of its curves; [`Expected::differs`] holds a simulated row against it. So a row
//! that was met cannot become missed unnoticed, and neither can the reverse, which would leave the documentation wrong.
//! Nor can a gain shrink while its claim is missed anyway. Values are held against each other as they are printed: runs
//! of one seed are alike on every machine, so one that differs has a cause.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::curve::Curve;
use super::table::value;
use super::{Finding, Row};

/// What the claims of a row come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// All are met.
    Met,
    /// Some are.
    Half,
    /// None is.
    Missed,
    /// There is no simulated curve to judge.
    NotSimulated,
}

impl Standing {
    const ALL: [Self; 4] = [Self::Met, Self::Half, Self::Missed, Self::NotSimulated];

    /// Of claims that are met or not; nothing can be said of none.
    ///
    /// ```
    /// use quadrille_sim::reproduce::expected::Standing;
    ///
    /// assert_eq!(Standing::of(&[true, true]), Standing::Met);
    /// assert_eq!(Standing::of(&[true, false]), Standing::Half);
    /// assert_eq!(Standing::of(&[]), Standing::NotSimulated);
    /// ```
    #[must_use]
    pub fn of(claims: &[bool]) -> Self {
        let met = claims.iter().filter(|met| **met).count();
        match met {
            _ if claims.is_empty() => Self::NotSimulated,
            0 => Self::Missed,
            _ if met == claims.len() => Self::Met,
            _ => Self::Half,
        }
    }

    /// One word, as in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Half => "half",
            Self::Missed => "missed",
            Self::NotSimulated => "not-simulated",
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Row {
    /// What the row's claims come to.
    #[must_use]
    pub fn standing(&self) -> Standing {
        Standing::of(&self.met())
    }

    /// Of each claim whether it is met; of none, if there is no curve.
    fn met(&self) -> Vec<bool> {
        if self.curves.is_empty() {
            return Vec::new();
        }
        self.findings().iter().map(|finding| finding.verdict.met).collect()
    }
}

/// The claims of rows that are met, those that are not, and the values that they are about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// By the row's name.
    rows: BTreeMap<String, Entry>,
}

/// What is known of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    /// Of each claim whether it is met.
    claims: Vec<bool>,
    /// A line for each curve: its name and its values, as [`curve_lines`] has them.
    curves: Vec<String>,
}

/// A text that says nothing of rows; names the line, and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedError(String);

impl fmt::Display for ExpectedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ExpectedError {}

impl FromStr for Expected {
    type Err = ExpectedError;

    /// A row a line: its name, its standing, and `+` or `-` for each of its claims. Below it, indented, a line for each
    /// of its curves. Lines that begin with `#` say nothing.
    fn from_str(text: &str) -> Result<Self, ExpectedError> {
        let mut rows: BTreeMap<String, Entry> = BTreeMap::new();
        let mut current: Option<String> = None;
        for (index, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let at_line = |problem: String| ExpectedError(format!("line {}: {problem}", index + 1));
            if line.starts_with(' ') {
                let entry = current.as_ref().and_then(|name| rows.get_mut(name));
                let entry = entry.ok_or_else(|| at_line(format!("`{line}`: expected a row before a curve")))?;
                entry.curves.push(line.trim().to_owned());
                continue;
            }
            let (name, claims) = read(line).map_err(at_line)?;
            let curves = Vec::new();
            if rows.insert(name.to_owned(), Entry { claims, curves }).is_some() {
                return Err(at_line(format!("row {name} is there twice")));
            }
            current = Some(name.to_owned());
        }
        Ok(Self { rows })
    }
}

/// Of each curve its name and its values, as the report prints them.
fn curve_lines(row: &Row) -> Vec<String> {
    let line = |curve: &Curve| {
        let cells: Vec<String> = (0..row.figure.axis.len())
            .map(|index| value(row, curve, index))
            .collect();
        format!("{}: {}", curve.name, cells.join(" | "))
    };
    row.curves.iter().map(line).collect()
}

/// The name of a line's row, and its claims.
fn read(line: &str) -> Result<(&str, Vec<bool>), String> {
    let mut words = line.split_whitespace();
    let (Some(name), Some(standing)) = (words.next(), words.next()) else {
        return Err(format!("`{line}`: expected a row, its standing and its claims"));
    };
    let claims = words.map(|word| match word {
        "+" => Ok(true),
        "-" => Ok(false),
        _ => Err(format!("claim `{word}` of row {name}: expected + or -")),
    });
    let claims: Vec<bool> = claims.collect::<Result<_, _>>()?;
    let computed = Standing::of(&claims);
    if computed.name() == standing {
        return Ok((name, claims));
    }
    let known = Standing::ALL.iter().any(|known| known.name() == standing);
    Err(if known {
        format!("row {name}: `{standing}`, but its claims come to {computed}")
    } else {
        let names = Standing::ALL.map(Standing::name).join(", ");
        format!("standing `{standing}` of row {name}: expected one of {names}")
    })
}

impl Expected {
    /// The file of this build, for runs of full length with the default costs.
    ///
    /// # Errors
    /// If the file cannot be read as such; a test sees to it that it can.
    pub fn recorded() -> Result<Self, ExpectedError> {
        include_str!("expected.txt").parse()
    }

    /// What a row's claims come to, if the row is known.
    #[must_use]
    pub fn standing(&self, row: &str) -> Option<Standing> {
        self.rows.get(row).map(|entry| Standing::of(&entry.claims))
    }

    /// In what a simulated row differs from this: in one sentence its claims, then a line for each curve that has other
    /// values, as it should stand in the file. Nothing, if it does not.
    #[must_use]
    pub fn differs(&self, row: &Row) -> Option<String> {
        let name = row.figure.row;
        let Some(expected) = self.rows.get(name) else {
            return Some(format!("row {name} is {} and not in the list", row.standing()));
        };
        let curves = curve_lines(row);
        let claims = claims_differ(&expected.claims, row);
        if expected.curves == curves {
            return claims;
        }
        let head = claims.unwrap_or_else(|| format!("row {name} is {} as before, by other values", row.standing()));
        let count = curves.len().max(expected.curves.len());
        let differing = (0..count).filter(|&index| expected.curves.get(index) != curves.get(index));
        let line =
            |word: &str, line: Option<&String>| line.map_or_else(String::new, |line| format!("\n  {word} {line}"));
        let lines = differing.map(|index| line("was", expected.curves.get(index)) + &line("is ", curves.get(index)));
        Some(head + &lines.collect::<String>())
    }
}

/// Which of a row's claims have changed sides, in one sentence.
fn claims_differ(expected: &[bool], row: &Row) -> Option<String> {
    let found = row.met();
    if expected == found {
        return None;
    }
    let (name, is) = (row.figure.row, row.standing());
    let was = Standing::of(expected);
    if expected.len() != found.len() {
        let (before, now) = (expected.len(), found.len());
        return Some(format!("row {name} was {was} by {before} claims and is {is} by {now}"));
    }
    let findings = row.findings();
    let changed = expected.iter().zip(&findings);
    let changed = changed.filter(|(expected, finding)| **expected != finding.verdict.met);
    let changed: Vec<String> = changed.map(|(_, finding)| change(finding)).collect();
    Some(format!("row {name} was {was} and is {is}: {}", changed.join("; ")))
}

/// A claim that has changed sides, with the numbers that decide it.
fn change(finding: &Finding) -> String {
    let is = if finding.verdict.met { "met" } else { "missed" };
    format!("`{}` is {is} now, {}", finding.asked.text, finding.verdict.because)
}

#[cfg(test)]
mod tests {
    use super::super::published;
    use super::super::tests::row;
    use super::*;

    fn expected(text: &str) -> Expected {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    /// `text` with the curves of `row`, so that only the claims differ.
    fn with_curves_of(row: &Row, text: &str) -> Expected {
        let lines: Vec<String> = curve_lines(row).iter().map(|line| format!("\n  {line}")).collect();
        expected(&format!("{text}{}", lines.concat()))
    }

    /// Row J: two claims, one about the time and one about migrations.
    fn caps(time: [f64; 3], migrations: [f64; 3]) -> Row {
        row(
            "J",
            vec![Curve::new("time", time), Curve::new("migrations", migrations)],
        )
    }

    #[test]
    fn a_standing_is_what_the_claims_come_to() {
        for (claims, standing) in [
            (&[][..], Standing::NotSimulated),
            (&[true], Standing::Met),
            (&[false], Standing::Missed),
            (&[true, true, true], Standing::Met),
            (&[true, false, true], Standing::Half),
            (&[false, true], Standing::Half),
            (&[false, false], Standing::Missed),
        ] {
            assert_eq!(Standing::of(claims), standing, "{claims:?}");
        }
    }

    #[test]
    fn a_row_that_changes_sides_is_told_of_with_its_numbers() {
        let met = caps([1.0, 0.7, 0.7], [1.0, 0.3, 0.8]);
        let recorded = with_curves_of(&met, "J met + +");
        assert_eq!((met.standing(), recorded.differs(&met)), (Standing::Met, None));
        let half = caps([1.0, 0.7, 0.7], [1.0, 0.9, 0.9]);
        assert_eq!(
            with_curves_of(&half, "J met + +").differs(&half).as_deref(),
            Some(
                "row J was met and is half: `the fixed cap takes at least 1.9 times the migrations away` is missed now, 0.90 at 1 in 2 ms"
            )
        );
        // The reverse too, and one claim for another.
        assert!(
            with_curves_of(&met, "J half + -")
                .differs(&met)
                .is_some_and(|said| said.contains("is met now"))
        );
        let swapped = with_curves_of(&half, "J half - +").differs(&half);
        assert!(swapped.is_some_and(|said| said.contains("was half and is half") && said.contains("; ")));
        assert_eq!(with_curves_of(&half, "J half + -").differs(&half), None);
    }

    #[test]
    fn values_that_change_no_claim_are_told_of() {
        let before = caps([1.0, 0.7, 0.7], [1.0, 0.3, 0.8]);
        let after = caps([1.0, 0.7, 0.7], [1.0, 0.4, 0.8]);
        let recorded = with_curves_of(&before, "J met + +");
        assert_eq!(
            recorded.differs(&after).as_deref(),
            Some(
                "row J is met as before, by other values\n  was migrations: 1.00 | 0.30 | 0.80\n  is  migrations: 1.00 | 0.40 | 0.80"
            )
        );
        let unrecorded = expected("J met + +").differs(&after);
        assert!(unrecorded.is_some_and(|said| said.ends_with("is  migrations: 1.00 | 0.40 | 0.80")));
        // A sign that has changed is told of first, then the values.
        let worse = caps([1.0, 0.7, 0.7], [1.0, 0.9, 0.9]);
        let said = recorded.differs(&worse).expect("a difference");
        assert!(said.starts_with("row J was met and is half: `"), "{said}");
        assert!(said.ends_with("\n  is  migrations: 1.00 | 0.90 | 0.90"), "{said}");
    }

    #[test]
    fn rows_without_curves_are_not_simulated() {
        let nothing = row("P", Vec::new());
        assert_eq!(nothing.standing(), Standing::NotSimulated);
        assert_eq!(expected("P not-simulated").differs(&nothing), None);
        assert_eq!(
            expected("P missed -").differs(&nothing).as_deref(),
            Some("row P was missed by 1 claims and is not-simulated by 0")
        );
        assert_eq!(
            expected("").differs(&nothing).as_deref(),
            Some("row P is not-simulated and not in the list")
        );
    }

    #[test]
    fn what_cannot_be_read_names_line_and_value() {
        for (text, said) in [
            ("A", "line 1: `A`: expected a row, its standing and its claims"),
            ("# A\nA met x", "line 2: claim `x` of row A: expected + or -"),
            ("A met + -", "line 1: row A: `met`, but its claims come to half"),
            (
                "A good +",
                "line 1: standing `good` of row A: expected one of met, half, missed, not-simulated",
            ),
            ("A met +\nA met +", "line 2: row A is there twice"),
            ("  a: 1 | 2", "line 1: `  a: 1 | 2`: expected a row before a curve"),
        ] {
            let error = text.parse::<Expected>().expect_err(text).to_string();
            assert_eq!(error, said);
        }
    }

    #[test]
    fn the_file_has_every_row_with_all_its_claims() {
        let recorded = Expected::recorded().unwrap_or_else(|error| panic!("{error}"));
        let mut figures: Vec<&str> = published::figures().iter().map(|figure| figure.row).collect();
        figures.sort_unstable();
        assert_eq!(recorded.rows.keys().collect::<Vec<_>>(), figures);
        for figure in published::figures() {
            let Entry { claims, curves } = &recorded.rows[figure.row];
            assert_eq!(claims.is_empty(), curves.is_empty(), "row {}", figure.row);
            assert!(
                claims.len() == figure.asked.len() || claims.is_empty(),
                "row {} has {} claims, the file {}",
                figure.row,
                figure.asked.len(),
                claims.len()
            );
        }
    }

    /// The table of docs/policies-measured.md says in words what the file says in signs.
    #[test]
    fn the_documentation_says_the_same() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/policies-measured.md");
        let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
        let recorded = Expected::recorded().unwrap_or_else(|error| panic!("{error}"));
        for (row, entry) in &recorded.rows {
            let standing = Standing::of(&entry.claims);
            let line = text.lines().find(|line| line.starts_with(&format!("| {row} ")));
            let line = line.unwrap_or_else(|| panic!("docs/policies-measured.md has no line for row {row}"));
            let result = line.split('|').nth(3).unwrap_or_default().trim().replace("**", "");
            let said = match standing {
                Standing::Half => "half met",
                Standing::NotSimulated => "not simulated",
                Standing::Met | Standing::Missed => standing.name(),
            };
            assert!(
                result.starts_with(said),
                "row {row} is {standing}, the table says `{result}`"
            );
        }
    }
}
