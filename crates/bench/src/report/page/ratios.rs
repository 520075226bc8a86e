//! The tables that most readers come for: each workload's ratio to the base, for every runtime.

use std::fmt::Write as _;

use super::{escape, name};
use crate::report::{Report, Section, Summary};
use crate::spec::{Body, ChannelKind};

/// A ratio this far from 1 is shown as a difference; less is noise.
const NOISE: f64 = 0.05;

/// Whether a row stands in the table of own channels rather than in that of the channel that all share.
fn is_own(row: &Summary) -> bool {
    row.spec.body == Body::Tasks && row.spec.channel == ChannelKind::Own
}

/// The tables of ratios of one body: first what all do the same way, then each with its own channel.
pub(super) fn tables(out: &mut String, report: &Report, body: Body) {
    let of_body = || {
        report
            .sections
            .iter()
            .enumerate()
            .filter(|(_, section)| section.body == body && section.is_compared)
    };
    let Some(base) = of_body().find_map(|(_, section)| section.bases().into_iter().next()) else {
        return;
    };
    let _ = writeln!(
        out,
        "<section class=\"ratios\" id=\"ratios-{bodies}\">\n<h2>{} of {bodies}, as ratios to {}</h2>\n<p class=\"soft\">Medians of the ratios \
         within each repetition. Tinted where they differ by more than {:.0} %.</p>",
        if of_body().count() == 1 {
            "The workload"
        } else {
            "All workloads"
        },
        escape(&base),
        NOISE * 100.0,
        bodies = body.name()
    );
    for own in [false, true] {
        let mut runtimes: Vec<&str> = Vec::new();
        for row in of_body()
            .flat_map(|(_, section)| &section.rows)
            .filter(|row| is_own(row) == own)
        {
            if !runtimes.contains(&row.runtime.as_str()) {
                runtimes.push(&row.runtime);
            }
        }
        if runtimes.is_empty() {
            continue;
        }
        if own {
            let _ = writeln!(
                out,
                "<h3>Each with its own channel, still as ratios to {} with async-channel</h3>",
                escape(&base)
            );
        }
        let sections = of_body().filter(|(_, section)| section.rows.iter().any(|row| is_own(row) == own));
        ratio_table(out, sections, &runtimes, own, &base);
    }
    out.push_str("</section>\n");
}

fn ratio_table<'a>(
    out: &mut String,
    sections: impl Iterator<Item = (usize, &'a Section)>,
    runtimes: &[&str],
    own: bool,
    usual: &str,
) {
    out.push_str("<div class=\"scroll\"><table>\n<thead><tr><th class=\"name\">workload</th>");
    for runtime in runtimes {
        let _ = write!(out, "<th class=\"runtime\">{}</th>", name(runtime));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    let mut found: Vec<Vec<f64>> = vec![Vec::new(); runtimes.len()];
    for (index, section) in sections {
        let base = section.bases().into_iter().next().unwrap_or_default();
        let mut small = String::new();
        if base != usual && !base.is_empty() {
            let _ = write!(small, " <small>to {}</small>", escape(&base));
        }
        for failed in section.failed_bases() {
            let _ = write!(small, " <small>{}</small>", escape(&failed));
        }
        let _ = write!(
            out,
            "<tr><th scope=\"row\"><a href=\"#s{index}\">{}</a>{small}</th>",
            escape(&section.title)
        );
        for (runtime, found) in runtimes.iter().zip(&mut found) {
            let row = section
                .rows
                .iter()
                .find(|row| row.runtime == *runtime && is_own(row) == own);
            let ratio = row
                .filter(|row| row.remark.is_none())
                .and_then(|row| row.ratios.get(&base));
            found.extend(ratio);
            out.push_str(&ratio_cell(ratio.copied()));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n<tfoot><tr><th>geometric mean of these</th>");
    for ratios in &found {
        out.push_str(&ratio_cell(geometric_mean(ratios)));
    }
    out.push_str("</tr></tfoot>\n</table></div>\n");
}

fn ratio_cell(ratio: Option<f64>) -> String {
    match ratio {
        Some(ratio) if ratio < 1.0 - NOISE => format!("<td class=\"better\">{ratio:.2}</td>"),
        Some(ratio) if ratio > 1.0 + NOISE => format!("<td class=\"worse\">{ratio:.2}</td>"),
        Some(ratio) => format!("<td>{ratio:.2}</td>"),
        None => "<td>-</td>".to_owned(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a handful of rows")]
fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    // A count of none is no part of it: beside it all others would be.
    let logarithms: Vec<f64> = ratios
        .iter()
        .filter(|ratio| **ratio > 0.0)
        .map(|ratio| ratio.ln())
        .collect();
    let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
    (!logarithms.is_empty()).then(|| mean.exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_a_half_and_a_double_is_one() {
        assert!(geometric_mean(&[0.5, 2.0]).is_some_and(|mean| (mean - 1.0).abs() < 1e-12));
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(geometric_mean(&[0.0, 0.5]), geometric_mean(&[0.5]));
    }
}
