//! The tables that most readers come for: each workload's ratio to the base, for every runtime.

use std::fmt::Write as _;

use super::{escape, name};
use crate::report::{Report, Section, Summary};
use crate::spec::{Body, ChannelKind, Metric};
use crate::stats::Ratios;

/// A ratio this far from 1 is shown as a difference; less is noise.
const NOISE: f64 = 0.05;

/// Whether a section's figure is the time an operation and the first one of its workload: those alone are of one kind,
/// and have a mean.
fn is_time(section: &Section) -> bool {
    let first = section.rows.first().and_then(|row| row.spec.workload.metrics().first());
    first == Some(&Metric::PerOperation) && section.metric == Metric::PerOperation.name()
}

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
         within each repetition; their extremes stand below each workload's bars. Tinted where the median differs by more than {:.0} % and, of three \
         repetitions or more, all ratios lie on its side of 1.</p>",
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
        let sections: Vec<_> = of_body()
            .filter(|(_, section)| section.rows.iter().any(|row| is_own(row) == own))
            .collect();
        let usual = Usual::of(&sections, &base, own);
        if own {
            let over = usual
                .channel
                .map_or_else(String::new, |channel| format!(" with {channel}"));
            let _ = writeln!(
                out,
                "<h3>Each with its own channel, still as ratios to {}{over}</h3>",
                escape(&base)
            );
        }
        ratio_table(out, &sections, &runtimes, &usual);
    }
    out.push_str("</section>\n");
}

/// What the heading of a table says of whom its ratios are to; where it is another the row says so.
struct Usual<'a> {
    /// Whether it is the table of own channels.
    own: bool,
    base: &'a str,
    /// The channel of the base, in a table of own channels where it is the same for all workloads.
    channel: Option<&'static str>,
}

impl<'a> Usual<'a> {
    fn of(sections: &[(usize, &Section)], base: &'a str, own: bool) -> Self {
        let rows = sections.iter().filter_map(|(_, section)| base_row(section));
        let mut channels = rows.filter(|row| own && row.runtime == base).map(|row| row.channel);
        let first = channels.next();
        Self {
            own,
            base,
            channel: first.filter(|first| channels.all(|channel| channel == *first)),
        }
    }

    /// What a row must say of its base.
    fn note(&self, row: &Summary) -> Option<String> {
        let is_usual = row.runtime == self.base;
        let has_usual_channel = if self.own {
            is_usual && self.channel.is_some()
        } else {
            !is_own(row) || row.channel == "-"
        };
        match (is_usual, has_usual_channel) {
            (true, true) => None,
            (true, false) => Some(format!("with {}", row.channel)),
            (false, true) => Some(format!("to {}", row.runtime)),
            (false, false) => Some(format!("to {} with {}", row.runtime, row.channel)),
        }
    }
}

/// The row that a section's ratios are to.
fn base_row(section: &Section) -> Option<&Summary> {
    section.row_of(section.bases().first()?)
}

fn ratio_table(out: &mut String, sections: &[(usize, &Section)], runtimes: &[&str], usual: &Usual<'_>) {
    out.push_str("<div class=\"scroll\"><table>\n<thead><tr><th class=\"name\">workload</th>");
    for runtime in runtimes {
        let _ = write!(out, "<th class=\"runtime\">{}</th>", name(runtime));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    let mut found: Vec<Vec<f64>> = vec![Vec::new(); runtimes.len()];
    for (index, section) in sections {
        let base = base_row(section);
        let mut small = String::new();
        if let Some(note) = base.and_then(|base| usual.note(base)) {
            let _ = write!(small, " <small>{}</small>", escape(&note));
        }
        let base = base.map_or("", |base| base.runtime.as_str());
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
                .find(|row| row.runtime == *runtime && is_own(row) == usual.own);
            let ratios = row
                .filter(|row| row.remark.is_none())
                .and_then(|row| row.ratio_spreads.get(base));
            // A mean of ratios to different bases would be none.
            if is_time(section) && base == usual.base {
                found.extend(ratios.map(|ratios| ratios.spread.median));
            }
            out.push_str(&ratio_cell(ratios));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n");
    if found.iter().any(|ratios| !ratios.is_empty()) {
        means(out, &found);
    }
    out.push_str("</table></div>\n");
}

fn ratio_cell(ratios: Option<&Ratios>) -> String {
    let Some(ratios) = ratios else {
        return "<td>-</td>".to_owned();
    };
    let class = match ratios {
        ratios if ratios.is_less(NOISE) => " class=\"better\"",
        ratios if ratios.is_more(NOISE) => " class=\"worse\"",
        _ => "",
    };
    let spread = ratios.spread;
    format!(
        "<td{class} title=\"{:.2} to {:.2} in {}\">{:.2}</td>",
        spread.min,
        spread.max,
        match ratios.pairs {
            1 => "1 repetition".to_owned(),
            pairs => format!("{pairs} repetitions"),
        },
        spread.median
    )
}

/// The geometric means of the ratios of times an operation, each with the number of workloads: not everybody does all.
fn means(out: &mut String, found: &[Vec<f64>]) {
    out.push_str("<tfoot><tr><th>geometric mean of the times an operation</th>");
    for ratios in found {
        let _ = match geometric_mean(ratios) {
            Some(mean) => write!(out, "<td>{mean:.2} <small>of {}</small></td>", ratios.len()),
            None => write!(out, "<td>-</td>"),
        };
    }
    out.push_str("</tr></tfoot>\n");
}

#[expect(clippy::cast_precision_loss, reason = "a handful of rows")]
fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    let mean = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64;
    (!ratios.is_empty()).then(|| mean.exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_a_half_and_a_double_is_one() {
        assert!(geometric_mean(&[0.5, 2.0]).is_some_and(|mean| (mean - 1.0).abs() < 1e-12));
        assert_eq!(geometric_mean(&[]), None);
    }
}
