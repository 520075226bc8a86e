//! The plots of the page: bars with their spread, as inline SVG that stretches to the room there is.

use std::fmt::Write as _;

use super::Summary;
use super::page::escape;
use crate::spec::Family;
use crate::table::figure;

/// Width of a bar's coordinates; stretched to the width of the page.
const WIDTH: f64 = 1000.0;

/// A bar longer than this many times the base is cut off, and says so: one slow peer would make all others invisible. A
/// base of 0 cuts nothing off.
const CUT: f64 = 4.0;

/// Bars for the rows of a section, with the unit `unit`; `base` names whom ratios are to.
pub(super) fn bars(rows: &[Summary], base: Option<&str>, unit: &str) -> String {
    let base_median = rows
        .iter()
        .filter(|row| Some(row.runtime.as_str()) == base)
        .find_map(|row| row.figure)
        .map(|spread| spread.median);
    let longest = rows
        .iter()
        .filter_map(|row| row.figure)
        .map(|spread| spread.max)
        .fold(0.0, f64::max);
    let limit = match base_median {
        Some(median) if median > 0.0 => longest.min(CUT * median),
        _ => longest,
    };
    let scale = Scale {
        limit: if limit > 0.0 { limit } else { 1.0 },
        base: base_median,
    };
    let mut out = String::from("<figure class=\"bars\">\n");
    for row in rows {
        bar(&mut out, row, base, unit, &scale);
    }
    out.push_str("</figure>\n");
    out
}

/// From figures to coordinates.
struct Scale {
    /// The figure at the right end.
    limit: f64,
    /// The figure that the dashed line stands at.
    base: Option<f64>,
}

impl Scale {
    fn x(&self, figure: f64) -> f64 {
        (figure / self.limit).clamp(0.0, 1.0) * WIDTH
    }
}

fn bar(out: &mut String, row: &Summary, base: Option<&str>, unit: &str, scale: &Scale) {
    let (name, channel) = (escape(&row.label()), escape(row.channel));
    let class = class(row.spec.runtime.name.family());
    let channel = if row.channel == "-" {
        String::new()
    } else {
        format!(" <small>{channel}</small>")
    };
    let _ = write!(
        out,
        "<div class=\"bar {class}\"><div class=\"name\">{name}{channel}</div>"
    );
    match (&row.remark, row.figure) {
        (None, Some(spread)) => {
            let ratio = base.and_then(|base| row.ratios.get(base));
            let ratio = ratio.map_or_else(String::new, |ratio| {
                format!(" <small>{ratio:.2} of {}</small>", escape(base.unwrap_or_default()))
            });
            let told = format!(
                "{name}: median {} {unit}, from {} to {}",
                figure(spread.median),
                figure(spread.min),
                figure(spread.max)
            );
            let _ = write!(
                out,
                "<svg viewBox=\"0 0 {WIDTH} 24\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{told}\"><title>{told}</title>"
            );
            marks(out, row, unit, scale);
            let _ = write!(
                out,
                "</svg><div class=\"value\">{} {unit}{ratio}</div>",
                figure(spread.median)
            );
        }
        (remark, _) => {
            let remark = remark.as_deref().unwrap_or("no figures");
            let failed = if remark.starts_with("FAILED") { " failed" } else { "" };
            let _ = write!(out, "<div class=\"remark{failed}\">{}</div>", escape(remark));
        }
    }
    out.push_str("</div>\n");
}

/// The bar up to the median, the span of all repetitions, a tick for each, the base's median, and the cut with what
/// lies beyond.
fn marks(out: &mut String, row: &Summary, unit: &str, scale: &Scale) {
    let Some(spread) = row.figure else { return };
    let (median, min, max) = (scale.x(spread.median), scale.x(spread.min), scale.x(spread.max));
    let _ = write!(out, "<rect x=\"0\" y=\"3\" width=\"{median:.1}\" height=\"18\"/>");
    if let Some(base) = scale.base {
        let x = scale.x(base);
        let _ = write!(
            out,
            "<line class=\"base\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"24\"/>"
        );
    }
    let _ = write!(
        out,
        "<line class=\"whisker\" x1=\"{min:.1}\" x2=\"{max:.1}\" y1=\"12\" y2=\"12\"/>"
    );
    let (within, beyond): (Vec<f64>, Vec<f64>) =
        row.samples.iter().flatten().partition(|sample| **sample <= scale.limit);
    for sample in within {
        let x = scale.x(sample);
        // What a pointer has to hit is wider than what is seen.
        let _ = write!(
            out,
            "<g><title>{} {unit}</title><rect class=\"near\" x=\"{:.1}\" y=\"5\" width=\"8\" height=\"14\"/>\
             <line class=\"sample\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"7\" y2=\"17\"/></g>",
            figure(sample),
            x - 4.0
        );
    }
    if !beyond.is_empty() {
        let beyond: Vec<String> = beyond.into_iter().map(figure).collect();
        let (left, right) = (WIDTH - 40.0, WIDTH - 30.0);
        let _ = write!(
            out,
            "<path class=\"cut\" d=\"M{left} 24 L{} 0 h10 L{right} 24 z\"><title>cut off: {} {unit}</title></path>",
            left + 12.0,
            beyond.join(", ")
        );
    }
}

/// The class that gives a family its colour.
pub(super) fn class(family: Family) -> &'static str {
    match family {
        Family::Quadrille => "quadrille",
        Family::Tokio => "tokio",
        Family::Smol => "smol",
        Family::Go => "go",
        Family::May => "may",
        Family::Threads => "threads",
        Family::Hackbench => "hackbench",
        Family::None => "none",
    }
}
