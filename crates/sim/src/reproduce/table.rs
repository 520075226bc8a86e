//! A row as text: the published numbers, the simulated ones beside them, and the verdicts.

use std::fmt;

use super::curve::Curve;
use super::expected::Standing;
use super::published::{Published, Scale};
use super::{Finding, Row};

/// Writes a row for people, up to 120 columns where words allow it.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a>(pub &'a Row);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(row) = self;
        let figure = row.figure;
        writeln!(f, "row {}: {}", figure.row, figure.title)?;
        writeln!(f, "  published  {}", figure.experiment)?;
        for source in figure.sources {
            writeln!(f, "  source     {source}")?;
        }
        writeln!(f, "  read as    {}", figure.reading)?;
        for condition in &row.conditions {
            writeln!(f, "  simulated  {condition}")?;
        }
        writeln!(f)?;
        write_cells(f, &cells(row))?;
        writeln!(f)?;
        for finding in row.findings() {
            writeln!(f, "  {}", verdict_line(&finding))?;
        }
        if !row.remark.is_empty() {
            writeln!(f, "  note    {}", row.remark)?;
        }
        Ok(())
    }
}

/// `met` or `missed`, the claim, and the numbers.
fn verdict_line(finding: &Finding) -> String {
    let word = if finding.verdict.met { "met   " } else { "MISSED" };
    format!("{word}  {}: {}", finding.asked.text, finding.verdict.because)
}

/// A heading, then a line a point.
fn cells(row: &Row) -> Vec<Vec<String>> {
    let figure = row.figure;
    let mut heading = vec![figure.axis.name().to_owned()];
    heading.extend(
        figure
            .published
            .iter()
            .map(|published| format!("published {}", published.name)),
    );
    heading.extend(row.curves.iter().map(|curve| curve.name.clone()));
    let mut lines = vec![heading];
    for index in 0..figure.axis.len() {
        let mut line = vec![figure.axis.label(index)];
        line.extend(
            figure
                .published
                .iter()
                .map(|published| published_cell(row, published, index)),
        );
        line.extend(row.curves.iter().map(|curve| value(row, curve, index)));
        lines.push(line);
    }
    lines
}

fn published_cell(row: &Row, published: &Published, index: usize) -> String {
    let comparable = value(row, &published.curve(), index);
    match published.scale {
        Scale::ToFirst => format!("{} {} = {comparable}", published.values[index], published.counts),
        Scale::AsIs => comparable,
    }
}

/// The value of a curve at a point of the axis, as it is printed.
pub(super) fn value(row: &Row, curve: &Curve, index: usize) -> String {
    let text = |value| row.figure.unit.text(value);
    curve.at(index).map_or_else(|| "-".to_owned(), text)
}

fn write_cells(f: &mut fmt::Formatter<'_>, lines: &[Vec<String>]) -> fmt::Result {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for line in lines {
        let mut text = String::new();
        for (column, (cell, &width)) in line.iter().zip(&widths).enumerate() {
            let cell = if column == 0 {
                format!("  {cell:<width$}")
            } else {
                format!("  {cell:>width$}")
            };
            text.push_str(&cell);
        }
        writeln!(f, "{}", text.trim_end())?;
    }
    Ok(())
}

/// One line a row: which claims are met and missed, for the end of a report.
#[derive(Clone, Copy, Debug)]
pub struct Overview<'a>(pub &'a [Row]);

impl fmt::Display for Overview<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = vec![["row", "claims met", "about"].map(str::to_owned).to_vec()];
        let mut met_rows = 0;
        for row in self.0 {
            let findings = row.findings();
            let met = findings.iter().filter(|finding| finding.verdict.met).count();
            met_rows += usize::from(row.standing() == Standing::Met);
            lines.push(vec![
                row.figure.row.to_owned(),
                format!("{met} of {}", findings.len()),
                row.figure.title.to_owned(),
            ]);
        }
        let width = lines.iter().map(|line| line[1].len()).max().unwrap_or(0);
        for line in &lines {
            writeln!(f, "  {:<3}  {:<width$}  {}", line[0], line[1], line[2])?;
        }
        writeln!(f, "  {met_rows} of {} rows are met in full", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::published;

    fn row() -> Row {
        Row {
            figure: published::figure("J").expect("row J"),
            curves: vec![
                Curve::new("time", [1.0, 0.8, 0.82]),
                Curve::with_gaps("migrations", vec![Some(1.0), Some(0.6), None]),
            ],
            conditions: vec!["a machine, seed 1".to_owned()],
            remark: "too few migrations to begin with".to_owned(),
        }
    }

    #[test]
    fn numbers_stand_side_by_side() {
        let text = Table(&row()).to_string();
        let lines = [
            "  cap                   published time  time  migrations",
            "  1 in 2 ms                45 s = 0.73  0.80        0.60",
            "  10 in 2 ms, adaptive     45 s = 0.73  0.82           -",
            "  met     the time falls, with both alike: 1.00, 0.80, 0.82",
            "  MISSED  the fixed cap takes at least 1.9 times the migrations away: 0.60 at 1 in 2 ms",
            "  note    too few migrations to begin with",
            "  simulated  a machine, seed 1",
        ];
        for line in lines {
            assert!(text.lines().any(|found| found == line), "no line `{line}` in\n{text}");
        }
    }

    #[test]
    fn the_overview_counts() {
        let text = Overview(&[row()]).to_string();
        assert!(text.contains("  J    1 of 2      a cap on migrations"), "{text}");
        assert!(text.ends_with("  0 of 1 rows are met in full\n"), "{text}");
    }
}
